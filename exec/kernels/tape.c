/* Vectorised evaluation of tapes and their derivatives.

   The loops are free of dependencies between elements (a result may lie exactly over an operand),
   which the pragma tells the compiler. */
#include "exec/kernels/tape.h"

#include "exec/kernels/initial.h"
#include "exec/kernels/vector_math.h"

#include <float.h>
#include <math.h>

enum { NEEDS_A = 1, NEEDS_B = 2, NEEDS_RESULT = 4 };

typedef struct instruction_row {
    int operands;
    uint8_t needs[2]; /* values that the derivative by a, and the one by b, read */
    bool from_output; /* the derivative can be had from the nest's own output */
} instruction_row;

static const instruction_row rows[CLEAVE_N_OPCODES] = {
    [CLEAVE_OP_COPY] = {1, {0, 0}, false},
    [CLEAVE_OP_CONSTANT] = {0, {0, 0}, false},
    [CLEAVE_OP_INDEX] = {0, {0, 0}, false},
    [CLEAVE_OP_ADD] = {2, {0, 0}, false},
    [CLEAVE_OP_SUB] = {2, {0, 0}, false},
    [CLEAVE_OP_MUL] = {2, {NEEDS_B, NEEDS_A}, false},
    [CLEAVE_OP_DIV] = {2, {NEEDS_B, NEEDS_A | NEEDS_B}, false},
    [CLEAVE_OP_MIN] = {2, {NEEDS_A | NEEDS_B, NEEDS_A | NEEDS_B}, false},
    [CLEAVE_OP_MAX] = {2, {NEEDS_A | NEEDS_B, NEEDS_A | NEEDS_B}, false},
    [CLEAVE_OP_POW] = {2, {NEEDS_A | NEEDS_B, NEEDS_A | NEEDS_RESULT}, false},
    [CLEAVE_OP_EQUAL] = {2, {0, 0}, false},
    [CLEAVE_OP_NEG] = {1, {0, 0}, false},
    [CLEAVE_OP_ABS] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_EXP] = {1, {NEEDS_RESULT, 0}, false},
    [CLEAVE_OP_LOG] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_SQRT] = {1, {NEEDS_RESULT, 0}, false},
    [CLEAVE_OP_RSQRT] = {1, {NEEDS_RESULT, 0}, false},
    [CLEAVE_OP_RECIPROCAL] = {1, {NEEDS_RESULT, 0}, false},
    [CLEAVE_OP_ERF] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_RELU] = {1, {NEEDS_RESULT, 0}, true},
    [CLEAVE_OP_LEAKY_RELU] = {1, {NEEDS_RESULT, 0}, true},
    [CLEAVE_OP_CLIP] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_SIGMOID] = {1, {NEEDS_RESULT, 0}, true},
    [CLEAVE_OP_TANH] = {1, {NEEDS_RESULT, 0}, true},
    [CLEAVE_OP_SCALE] = {1, {0, 0}, false},
    [CLEAVE_OP_DROPOUT] = {1, {0, 0}, false},
    [CLEAVE_OP_LESS] = {2, {0, 0}, false},
    [CLEAVE_OP_LESS_EQUAL] = {2, {0, 0}, false},
    [CLEAVE_OP_MASK] = {2, {NEEDS_B, 0}, false},
    [CLEAVE_OP_FLOOR] = {1, {0, 0}, false},
    [CLEAVE_OP_CEIL] = {1, {0, 0}, false},
    [CLEAVE_OP_ROUND] = {1, {0, 0}, false},
    [CLEAVE_OP_TRUNC] = {1, {0, 0}, false},
    [CLEAVE_OP_SIGN] = {1, {0, 0}, false},
    [CLEAVE_OP_FMOD] = {2, {0, 0}, false},
    [CLEAVE_OP_LOG1P] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_SIN] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_COS] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_TAN] = {1, {NEEDS_RESULT, 0}, false},
    [CLEAVE_OP_ASIN] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_ACOS] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_ATAN] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_SINH] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_COSH] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_ASINH] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_ACOSH] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_ATANH] = {1, {NEEDS_A, 0}, false},
    [CLEAVE_OP_UNIFORM] = {0, {0, 0}, false},
};

int cleave_tape_operands(cleave_opcode opcode) { return rows[opcode].operands; }

/* A slope below zero makes the sign of LEAKY_RELU's operand unreadable from its result. */
static unsigned needs_of(const cleave_instruction *at, int side) {
    return at->opcode == CLEAVE_OP_LEAKY_RELU && at->p <= 0 ? (unsigned)NEEDS_A
                                                            : rows[at->opcode].needs[side];
}

/* A value takes the values of its operands. */
static void close_values(cleave_tape_plan *plan) {
    const cleave_nest *nest = plan->nest;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        if (!(plan->values & cleave_register_bit(nest->n_inputs + i)))
            continue;
        if (rows[at->opcode].operands > 0)
            plan->values |= cleave_register_bit(at->a);
        if (rows[at->opcode].operands > 1)
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
    plan->from_output =
        nest->kept_output && rows[nest->tape[nest->n_instructions - 1].opcode].from_output;
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
            unsigned needs = needs_of(at, side);
            if (needs & NEEDS_A)
                plan->values |= cleave_register_bit(at->a);
            if (needs & NEEDS_B)
                plan->values |= cleave_register_bit(at->b);
            if ((needs & NEEDS_RESULT) && !(r == last && plan->from_output))
                plan->values |= cleave_register_bit(r);
        }
    }
    close_values(plan);
}

/* One call of exec/kernels/vector_math.h over the tile. */
#define ALL(function)                                                                              \
    do {                                                                                           \
        function(n, a, y);                                                                         \
        return;                                                                                    \
    } while (0)

#define EACH(expression)                                                                           \
    do {                                                                                           \
        _Pragma("GCC ivdep") for (int i = 0; i < n; i++) { y[i] = (expression); }                  \
        return;                                                                                    \
    } while (0)

static void dropout_mask(const cleave_instruction *at, uint64_t key, const int64_t *index, int n,
                         float *mask) {
    float scale = at->p < 1 ? (float)(1 / (1 - at->p)) : 0.0f;
    uint64_t least = cleave_dropout_threshold(at->p);
    for (int i = 0; i < n; i++)
        mask[i] = cleave_dropout_keeps(key, index[i], least) ? scale : 0.0f;
}

static void evaluate(const cleave_instruction *at, const cleave_tape_tile *tile,
                     const int64_t *index, float *y) {
    int n = tile->n, operands = rows[at->opcode].operands;
    const float *a = operands > 0 ? tile->value[at->a] : NULL;
    const float *b = operands > 1 ? tile->value[at->b] : NULL;
    float p = (float)at->p, q = (float)at->q;
    switch (at->opcode) {
    case CLEAVE_OP_COPY:
        EACH(a[i]);
    case CLEAVE_OP_CONSTANT:
        EACH(p);
    case CLEAVE_OP_INDEX:
        EACH((float)index[i]);
    case CLEAVE_OP_ADD:
        EACH(a[i] + b[i]);
    case CLEAVE_OP_SUB:
        EACH(a[i] - b[i]);
    case CLEAVE_OP_MUL:
        EACH(a[i] * b[i]);
    case CLEAVE_OP_DIV:
        EACH(a[i] / b[i]);
    case CLEAVE_OP_MIN:
        EACH(a[i] < b[i] ? a[i] : b[i]);
    case CLEAVE_OP_MAX:
        EACH(a[i] > b[i] ? a[i] : b[i]);
    case CLEAVE_OP_POW:
        EACH(powf(a[i], b[i]));
    case CLEAVE_OP_EQUAL:
        EACH(a[i] == b[i] ? 1.0f : 0.0f);
    case CLEAVE_OP_NEG:
        EACH(-a[i]);
    case CLEAVE_OP_ABS:
        EACH(fabsf(a[i]));
    case CLEAVE_OP_EXP:
        ALL(cleave_vector_exp);
    case CLEAVE_OP_LOG:
        ALL(cleave_vector_log);
    case CLEAVE_OP_SQRT:
        EACH(sqrtf(a[i]));
    case CLEAVE_OP_RSQRT:
        EACH(1.0f / sqrtf(a[i]));
    case CLEAVE_OP_RECIPROCAL:
        EACH(1.0f / a[i]);
    case CLEAVE_OP_ERF:
        ALL(cleave_vector_erf);
    case CLEAVE_OP_RELU:
        EACH(a[i] > 0.0f ? a[i] : 0.0f);
    case CLEAVE_OP_LEAKY_RELU:
        EACH(a[i] * (a[i] > 0.0f ? 1.0f : p));
    case CLEAVE_OP_CLIP:
        EACH(a[i] < p ? p : a[i] > q ? q : a[i]);
    case CLEAVE_OP_SIGMOID:
        ALL(cleave_vector_sigmoid);
    case CLEAVE_OP_TANH:
        ALL(cleave_vector_tanh);
    case CLEAVE_OP_SCALE:
        EACH(p * a[i] + q);
    case CLEAVE_OP_DROPOUT: {
        float mask[CLEAVE_MAX_TILE];
        dropout_mask(at, tile->dropout_key, index, n, mask);
        EACH(a[i] * mask[i]);
    }
    case CLEAVE_OP_LESS:
        EACH(a[i] < b[i] ? 1.0f : 0.0f);
    case CLEAVE_OP_LESS_EQUAL:
        EACH(a[i] <= b[i] ? 1.0f : 0.0f);
    case CLEAVE_OP_MASK:
        EACH(b[i] != 0.0f ? a[i] : 0.0f);
    case CLEAVE_OP_FLOOR:
        EACH(floorf(a[i]));
    case CLEAVE_OP_CEIL:
        EACH(ceilf(a[i]));
    case CLEAVE_OP_ROUND:
        EACH(rintf(a[i]));
    case CLEAVE_OP_TRUNC:
        EACH(truncf(a[i]));
    case CLEAVE_OP_SIGN:
        EACH((float)(a[i] > 0.0f) - (float)(a[i] < 0.0f));
    case CLEAVE_OP_FMOD:
        EACH(fmodf(a[i], b[i]));
    case CLEAVE_OP_LOG1P:
        ALL(cleave_vector_log1p);
    case CLEAVE_OP_SIN:
        EACH(sinf(a[i]));
    case CLEAVE_OP_COS:
        EACH(cosf(a[i]));
    case CLEAVE_OP_TAN:
        EACH(tanf(a[i]));
    case CLEAVE_OP_ASIN:
        EACH(asinf(a[i]));
    case CLEAVE_OP_ACOS:
        EACH(acosf(a[i]));
    case CLEAVE_OP_ATAN:
        EACH(atanf(a[i]));
    case CLEAVE_OP_SINH:
        EACH(sinhf(a[i]));
    case CLEAVE_OP_COSH:
        EACH(coshf(a[i]));
    case CLEAVE_OP_ASINH:
        EACH(asinhf(a[i]));
    case CLEAVE_OP_ACOSH:
        EACH(acoshf(a[i]));
    case CLEAVE_OP_ATANH:
        EACH(atanhf(a[i]));
    case CLEAVE_OP_UNIFORM:
        EACH((float)cleave_uniform_draw(tile->dropout_key, at->p, index[i]));
    case CLEAVE_N_OPCODES:
        break;
    }
}

void cleave_tape_forward(const cleave_tape_plan *plan, cleave_tape_tile *tile) {
    const cleave_nest *nest = plan->nest;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i;
        if (!(plan->values & cleave_register_bit(r)) || (tile->skipped & cleave_register_bit(r)))
            continue;
        int operands = rows[at->opcode].operands;
        if ((operands > 0 && (tile->changed & cleave_register_bit(at->a))) ||
            (operands > 1 && (tile->changed & cleave_register_bit(at->b))))
            tile->changed |= cleave_register_bit(r);
        if (tile->changed & cleave_register_bit(r))
            evaluate(at, tile, tile->index[i], tile->value[r]);
    }
}

#define GRADIENT(expression)                                                                       \
    do {                                                                                           \
        if (fresh)                                                                                 \
            _Pragma("GCC ivdep") for (int i = 0; i < n; i++) { y[i] = (expression); }              \
        else                                                                                       \
            _Pragma("GCC ivdep") for (int i = 0; i < n; i++) { y[i] += (expression); }             \
        return;                                                                                    \
    } while (0)

/* What the derivative of an instruction reads, each [n]. */
typedef struct local_values {
    const float *g;     /* adjoint of the result */
    const float *v;     /* the result */
    const float *a, *b; /* the operands */
    const int64_t *index;
    uint64_t dropout_key;
    int n;
} local_values;

/* A factor, and no selection: that would be compiled into masked loads, each of which waits for
   what makes its mask, and would halve the speed. */
static inline float gate(bool open) { return open ? 1.0f : 0.0f; }

/* Adjoint times derivative, where zero wins over whatever the other is: an element that nobody
   reads passes nothing on, and nothing passes where the result does not depend on the operand.  (As
   in the reference kernels; written so that both are always loaded.) */
static inline float pass(float g, float d) {
    return (int)(g == 0.0f) | (int)(d == 0.0f) ? 0.0f : g * d;
}

/* The same for a derivative of 1 / b, rounded once. */
static inline float pass_quotient(float g, float b) {
    return (int)(g == 0.0f) | (int)(fabsf(b) > FLT_MAX) ? 0.0f : g / b;
}

/* And of -a / b^2. */
static inline float pass_divisor(float g, float a, float b) {
    return (int)(g == 0.0f) | (int)(a == 0.0f) ? 0.0f : -g * a / (b * b);
}

/* y (+)= g x d(result)/d(a), of two operands. */
static void differentiate_pair(const cleave_instruction *at, bool first, const local_values *local,
                               bool fresh, float *y) {
    const float *g = local->g, *v = local->v, *a = local->a, *b = local->b;
    int n = local->n;
    switch (at->opcode) {
    case CLEAVE_OP_ADD:
        GRADIENT(g[i]);
    case CLEAVE_OP_SUB:
        if (first)
            GRADIENT(g[i]);
        GRADIENT(-g[i]);
    case CLEAVE_OP_MUL:
        if (first)
            GRADIENT(pass(g[i], b[i]));
        GRADIENT(pass(g[i], a[i]));
    case CLEAVE_OP_DIV:
        if (first)
            GRADIENT(pass_quotient(g[i], b[i]));
        GRADIENT(pass_divisor(g[i], a[i], b[i]));
    case CLEAVE_OP_MIN: /* of equals, the first gets it */
        if (first)
            GRADIENT(pass(g[i], gate(a[i] <= b[i])));
        GRADIENT(pass(g[i], gate(!(a[i] <= b[i]))));
    case CLEAVE_OP_MAX:
        if (first)
            GRADIENT(pass(g[i], gate(a[i] >= b[i])));
        GRADIENT(pass(g[i], gate(!(a[i] >= b[i]))));
    case CLEAVE_OP_POW:
        if (first)
            GRADIENT(pass(g[i], b[i] * powf(a[i], b[i] - 1.0f)));
        GRADIENT(pass(g[i], v[i] * logf(a[i])));
    case CLEAVE_OP_MASK:
        GRADIENT(b[i] != 0.0f ? g[i] : 0.0f);
    case CLEAVE_OP_FMOD:
        GRADIENT(g[i]);
    default:
        return;
    }
}

static void differentiate_single(const cleave_instruction *at, const local_values *local,
                                 bool fresh, float *y) {
    const float *g = local->g, *v = local->v, *a = local->a;
    float p = (float)at->p, q = (float)at->q;
    int n = local->n;
    switch (at->opcode) {
    case CLEAVE_OP_COPY:
        GRADIENT(g[i]);
    case CLEAVE_OP_NEG:
        GRADIENT(-g[i]);
    case CLEAVE_OP_ABS:
        GRADIENT(pass(g[i], gate(a[i] > 0.0f) - gate(a[i] < 0.0f)));
    case CLEAVE_OP_EXP:
        GRADIENT(pass(g[i], v[i]));
    case CLEAVE_OP_LOG:
        GRADIENT(pass_quotient(g[i], a[i]));
    case CLEAVE_OP_SQRT:
        GRADIENT(0.5f * pass_quotient(g[i], v[i]));
    case CLEAVE_OP_RSQRT:
        GRADIENT(pass(g[i], -0.5f * v[i] * v[i] * v[i]));
    case CLEAVE_OP_RECIPROCAL:
        GRADIENT(pass(g[i], -v[i] * v[i]));
    case CLEAVE_OP_ERF: { /* 2 / sqrt(pi) x exp(-a a) */
        float density[CLEAVE_MAX_TILE];
        cleave_vector_gauss(n, a, density);
        GRADIENT(pass(g[i], 1.1283791671f * density[i]));
    }
    case CLEAVE_OP_RELU:
        GRADIENT(pass(g[i], gate(v[i] > 0.0f)));
    case CLEAVE_OP_LEAKY_RELU: {
        const float *sign = at->p <= 0 ? a : v;
        GRADIENT(pass(g[i], sign[i] > 0.0f ? 1.0f : p));
    }
    case CLEAVE_OP_CLIP:
        GRADIENT(pass(g[i], gate((a[i] >= p) & (a[i] <= q))));
    case CLEAVE_OP_SIGMOID:
        GRADIENT(pass(g[i], v[i] * (1.0f - v[i])));
    case CLEAVE_OP_TANH:
        GRADIENT(pass(g[i], 1.0f - v[i] * v[i]));
    case CLEAVE_OP_SCALE:
        GRADIENT(pass(g[i], p));
    case CLEAVE_OP_DROPOUT: {
        float mask[CLEAVE_MAX_TILE];
        dropout_mask(at, local->dropout_key, local->index, n, mask);
        GRADIENT(pass(g[i], mask[i]));
    }
    case CLEAVE_OP_LOG1P:
        GRADIENT(pass_quotient(g[i], 1.0f + a[i]));
    case CLEAVE_OP_SIN:
        GRADIENT(pass(g[i], cosf(a[i])));
    case CLEAVE_OP_COS:
        GRADIENT(pass(g[i], -sinf(a[i])));
    case CLEAVE_OP_TAN:
        GRADIENT(pass(g[i], 1.0f + v[i] * v[i]));
    case CLEAVE_OP_ASIN:
        GRADIENT(pass_quotient(g[i], sqrtf(1.0f - a[i] * a[i])));
    case CLEAVE_OP_ACOS:
        GRADIENT(-pass_quotient(g[i], sqrtf(1.0f - a[i] * a[i])));
    case CLEAVE_OP_ATAN:
        GRADIENT(pass_quotient(g[i], 1.0f + a[i] * a[i]));
    case CLEAVE_OP_SINH:
        GRADIENT(pass(g[i], coshf(a[i])));
    case CLEAVE_OP_COSH:
        GRADIENT(pass(g[i], sinhf(a[i])));
    case CLEAVE_OP_ASINH:
        GRADIENT(pass_quotient(g[i], sqrtf(a[i] * a[i] + 1.0f)));
    case CLEAVE_OP_ACOSH:
        GRADIENT(pass_quotient(g[i], sqrtf(a[i] * a[i] - 1.0f)));
    case CLEAVE_OP_ATANH:
        GRADIENT(pass_quotient(g[i], 1.0f - a[i] * a[i]));
    default:
        return;
    }
}

void cleave_tape_backward(const cleave_tape_plan *plan, cleave_tape_tile *tile) {
    const cleave_nest *nest = plan->nest;
    int last = plan->n_registers - 1;
    uint64_t written = tile->given;
    for (int i = nest->n_instructions - 1; i >= 0; i--) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i, operands = rows[at->opcode].operands;
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
        bool single = operands == 1 && cleave_opcode_gradient_operands(at->opcode) == 1;
        if (single && (plan->adjoints & cleave_register_bit(at->a))) {
            differentiate_single(at, &local, !(written & cleave_register_bit(at->a)),
                                 tile->adjoint[at->a]);
            written |= cleave_register_bit(at->a);
        }
        int sides = operands == 2 ? cleave_opcode_gradient_operands(at->opcode) : 0;
        for (int side = 0; side < sides; side++) {
            int to = side == 0 ? at->a : at->b;
            if (!(plan->adjoints & cleave_register_bit(to)))
                continue;
            differentiate_pair(at, side == 0, &local, !(written & cleave_register_bit(to)),
                               tile->adjoint[to]);
            written |= cleave_register_bit(to);
        }
    }
}
