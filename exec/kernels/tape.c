/* Vectorised evaluation of tapes and their derivatives.

   The loops are free of dependencies between elements (a result may lie exactly over an operand),
   which the pragma tells the compiler. */
#include "exec/kernels/tape.h"

#include "exec/kernels/dropout.h"
#include "exec/kernels/vector_math.h"

#include <float.h>
#include <tgmath.h>

/* A value takes the values of its operands. */
static void close_values(cleave_tape_plan *plan) {
    const cleave_nest *nest = plan->nest;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        if (!(plan->values & cleave_register_bit(nest->n_inputs + i)))
            continue;
        if (cleave_opcode_operands(at->opcode) > 0)
            plan->values |= cleave_register_bit(at->a);
        if (cleave_opcode_operands(at->opcode) > 1)
            plan->values |= cleave_register_bit(at->b);
    }
}

static void plan_start(const cleave_nest *nest, cleave_tape_plan *plan) {
    *plan = (cleave_tape_plan){.nest = nest, .n_registers = nest->n_inputs + nest->n_instructions};
}

void cleave_tape_plan_forward(const cleave_nest *nest, cleave_tape_plan *plan) {
    plan_start(nest, plan);
    plan->values = cleave_register_bit(plan->n_registers - 1);
    close_values(plan);
}

/* Registers that depend on the inputs asked for. */
static uint64_t reached_from(const cleave_nest *nest, uint32_t inputs) {
    uint64_t reached = inputs;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        int operands = cleave_opcode_gradient_operands(at->opcode);
        if ((operands > 0 && (reached & cleave_register_bit(at->a))) ||
            (operands > 1 && (reached & cleave_register_bit(at->b))))
            reached |= cleave_register_bit(nest->n_inputs + i);
    }
    return reached;
}

void cleave_tape_plan_backward(const cleave_nest *nest, uint32_t inputs, bool last_value,
                               cleave_tape_plan *plan) {
    plan_start(nest, plan);
    int last = plan->n_registers - 1;
    uint64_t reached = reached_from(nest, inputs);
    plan->from_output = nest->kept_output;
    if (last_value)
        plan->values |= cleave_register_bit(last);
    plan->adjoints = reached & cleave_register_bit(last);
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i;
        if (!(plan->adjoints & cleave_register_bit(r)))
            continue;
        int operands = cleave_opcode_gradient_operands(at->opcode);
        for (int side = 0; side < operands; side++) {
            int to = side == 0 ? at->a : at->b;
            if (!(reached & cleave_register_bit(to)))
                continue;
            plan->adjoints |= cleave_register_bit(to);
            unsigned needs = cleave_instruction_needs(at, side == 1);
            if (needs & CLEAVE_NEEDS_A)
                plan->values |= cleave_register_bit(at->a);
            if (needs & CLEAVE_NEEDS_B)
                plan->values |= cleave_register_bit(at->b);
            if ((needs & CLEAVE_NEEDS_RESULT) && !(r == last && plan->from_output))
                plan->values |= cleave_register_bit(r);
        }
    }
    close_values(plan);
}

/* Functions with code that the compiler vectorises, and a derivative that is no simple formula of
   operands and result. */
static const struct {
    void (*value)(int n, const float *a, float *y), (*slope)(int n, const float *a, float *y);
} vector_forms[CLEAVE_N_OPCODES] = {
    [CLEAVE_OP_EXP] = {cleave_vector_exp, NULL},
    [CLEAVE_OP_LOG] = {cleave_vector_log, NULL},
    [CLEAVE_OP_LOG1P] = {cleave_vector_log1p, NULL},
    [CLEAVE_OP_TANH] = {cleave_vector_tanh, NULL},
    [CLEAVE_OP_SIGMOID] = {cleave_vector_sigmoid, NULL},
    [CLEAVE_OP_ERF] = {cleave_vector_erf, cleave_vector_erf_slope},
};

/* What the places of the elements give to an instruction; left alone for most. */
static void fill_places(const cleave_instruction *at, uint64_t key, const int64_t *index, int n,
                        float *place) {
    if (at->opcode == CLEAVE_OP_INDEX)
        for (int i = 0; i < n; i++)
            place[i] = (float)index[i];
    if (at->opcode == CLEAVE_OP_UNIFORM)
        for (int i = 0; i < n; i++)
            place[i] = (float)cleave_uniform_draw(key, at->p, index[i]);
    if (at->opcode != CLEAVE_OP_DROPOUT)
        return;
    float scale = at->p < 1 ? (float)(1 / (1 - at->p)) : 0.0f;
    uint64_t least = cleave_dropout_threshold(at->p), stream = cleave_dropout_stream(key, at->q);
    for (int i = 0; i < n; i++)
        place[i] = cleave_dropout_keeps(stream, index[i], least) ? scale : 0.0f;
}

/* Operands are loaded outright, those that an instruction lacks (and whose loads are left out),
   too: a load under a condition is masked, and waits for what makes its mask. */
static void evaluate(const cleave_instruction *at, const cleave_tape_tile *tile,
                     const int64_t *index, float *y) {
    int n = tile->n, operands = cleave_opcode_operands(at->opcode);
    const float *a = operands > 0 ? tile->value[at->a] : y;
    const float *b = operands > 1 ? tile->value[at->b] : y;
    float p = (float)at->p, q = (float)at->q, place[CLEAVE_MAX_TILE];
    if (vector_forms[at->opcode].value != NULL) {
        vector_forms[at->opcode].value(n, a, y);
        return;
    }
    fill_places(at, tile->dropout_key, index, n, place);
    switch (at->opcode) {
#define ROW(name, n_operands, value, ...)                                                          \
    case CLEAVE_OP_##name:                                                                         \
        _Pragma("GCC ivdep") for (int i = 0; i < n; i++) {                                         \
            float of_a = a[i], of_b = b[i];                                                        \
            (void)of_a, (void)of_b;                                                                \
            y[i] = (value);                                                                        \
        }                                                                                          \
        return;
        CLEAVE_OPCODES(ROW, float, of_a, of_b, y[i], p, q, place[i])
#undef ROW
    case CLEAVE_N_OPCODES:
        return;
    }
}

void cleave_tape_forward(const cleave_tape_plan *plan, cleave_tape_tile *tile) {
    const cleave_nest *nest = plan->nest;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i;
        if (!(plan->values & cleave_register_bit(r)) || (tile->skipped & cleave_register_bit(r)))
            continue;
        int operands = cleave_opcode_operands(at->opcode);
        if ((operands > 0 && (tile->changed & cleave_register_bit(at->a))) ||
            (operands > 1 && (tile->changed & cleave_register_bit(at->b))))
            tile->changed |= cleave_register_bit(r);
        if (tile->changed & cleave_register_bit(r))
            evaluate(at, tile, tile->index[i], tile->value[r]);
    }
}

/* What the derivative of an instruction reads, each [n]. */
typedef struct local_values {
    const float *g;     /* adjoint of the result */
    const float *v;     /* the result */
    const float *a, *b; /* the operands */
    const int64_t *index;
    uint64_t dropout_key;
    int n;
} local_values;

/* Adjoint times derivative, where zero wins over whatever the other is: an element that nobody
   reads passes nothing on, and nothing passes where the result does not depend on the operand.  (As
   in the reference kernels; written so that both are always loaded.) */
static inline float pass(float g, float d) {
    return (int)(g == 0.0f) | (int)(d == 0.0f) ? 0.0f : g * d;
}

/* The same for a derivative of 1 / d, rounded once. */
static inline float pass_over(float g, float d) {
    return (int)(g == 0.0f) | (int)(fabsf(d) > FLT_MAX) ? 0.0f : g / d;
}

/* And of n / d. */
static inline float pass_ratio(float g, float n, float d) {
    return (int)(g == 0.0f) | (int)(n == 0.0f) ? 0.0f : g * n / d;
}

#define GRADIENT(expression)                                                                       \
    do {                                                                                           \
        if (fresh)                                                                                 \
            _Pragma("GCC ivdep") for (int i = 0; i < n; i++) { y[i] = (expression); }              \
        else                                                                                       \
            _Pragma("GCC ivdep") for (int i = 0; i < n; i++) { y[i] += (expression); }             \
    } while (0)

#define NONE
#define PLUS GRADIENT(g[i])
#define MINUS GRADIENT(-g[i])
#define TIMES(d) GRADIENT(pass(g[i], d))
#define OVER(d) GRADIENT(pass_over(g[i], d))
#define RATIO(n, d) GRADIENT(pass_ratio(g[i], n, d))

/* y (+)= g x d(result)/d(a) */
static void differentiate_by_a(const cleave_instruction *at, const local_values *local, bool fresh,
                               float *y) {
    const float *g = local->g, *v = local->v, *a = local->a, *b = local->b;
    float p = (float)at->p, q = (float)at->q, place[CLEAVE_MAX_TILE];
    int n = local->n;
    if (vector_forms[at->opcode].slope != NULL) {
        vector_forms[at->opcode].slope(n, a, place);
        TIMES(place[i]);
        return;
    }
    fill_places(at, local->dropout_key, local->index, n, place);
    switch (at->opcode) {
#define ROW(name, operands, value, by_a, ...)                                                      \
    case CLEAVE_OP_##name:                                                                         \
        by_a;                                                                                      \
        return;
        CLEAVE_OPCODES(ROW, float, a[i], b[i], v[i], p, q, place[i])
#undef ROW
    case CLEAVE_N_OPCODES:
        return;
    }
}

/* y (+)= g x d(result)/d(b) */
static void differentiate_by_b(const cleave_instruction *at, const local_values *local, bool fresh,
                               float *y) {
    const float *g = local->g, *v = local->v, *a = local->a, *b = local->b;
    int n = local->n;
    switch (at->opcode) {
#define ROW(name, operands, value, by_a, needs_a, by_b, needs_b)                                   \
    case CLEAVE_OP_##name:                                                                         \
        by_b;                                                                                      \
        return;
        CLEAVE_OPCODES(ROW, float, a[i], b[i], v[i], at->p, at->q, 0)
#undef ROW
    case CLEAVE_N_OPCODES:
        return;
    }
}

void cleave_tape_backward(const cleave_tape_plan *plan, cleave_tape_tile *tile) {
    const cleave_nest *nest = plan->nest;
    int last = plan->n_registers - 1;
    uint64_t written = tile->given;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i, operands = cleave_opcode_operands(at->opcode);
        if (!(plan->adjoints & written & cleave_register_bit(r)) ||
            (tile->skipped & cleave_register_bit(r)))
            continue;
        local_values local = {.g = tile->adjoint[r],
                              .v = r == last && plan->from_output ? tile->output : tile->value[r],
                              .index = tile->index[i],
                              .dropout_key = tile->dropout_key,
                              .n = tile->n};
        local.a = operands > 0 ? tile->value[at->a] : NULL;
        local.b = operands > 1 ? tile->value[at->b] : NULL;
        int sides = cleave_opcode_gradient_operands(at->opcode);
        for (int side = 0; side < sides; side++) {
            int to = side == 0 ? at->a : at->b;
            if (!(plan->adjoints & cleave_register_bit(to)))
                continue;
            bool fresh = !(written & cleave_register_bit(to));
            (side == 0 ? differentiate_by_a : differentiate_by_b)(at, &local, fresh,
                                                                  tile->adjoint[to]);
            written |= cleave_register_bit(to);
        }
    }
}
