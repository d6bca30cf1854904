/* The table of opcodes, row by row, against the tests' own evaluator: values are those that it
   finds, derivatives are its central differences, and a derivative reads what the row says that it
   needs and nothing else. */
#include "../../support/double_evaluator.h"
#include "../../support/one_nest.h"

#include <criterion/criterion.h>
#include <tgmath.h>

static const double POINTS_A[] = {-1.73, -0.62, 0, 0.27, 0.81, 1.37, 2.61};
static const double POINTS_B[] = {-1.91, -0.62, 0, 0.33, 0.58, 1.37, 2.9};
enum { N_A = sizeof POINTS_A / sizeof *POINTS_A, N_B = sizeof POINTS_B / sizeof *POINTS_B };
enum { N_POINTS = N_A * N_B };
static const double STEP = 1e-5, DRAWN = 1.75;

#define NONE 0
#define PLUS 1
#define MINUS (-1)
#define TIMES(d) (d)
#define OVER(d) (1 / (d))
#define RATIO(n, d) ((n) / (d))

typedef struct result {
    double value, by[2];
} result;

/* By the table, with `v` for the result in derivatives. */
static result of_table(const cleave_instruction *it, double a, double b, double v, double place) {
    double p = it->p, q = it->q;
    switch (it->opcode) {
#define ROW(name, operands, formula, by_a, needs_a, by_b, needs_b)                                 \
    case CLEAVE_OP_##name:                                                                         \
        return (result){.value = formula, .by = {by_a, by_b}};
        CLEAVE_OPCODES(ROW, double, a, b, v, p, q, place)
#undef ROW
    default:
        return (result){.value = HUGE_VAL};
    }
}

static double draw(void *context, const cleave_instruction *it, const cleave_tensor *output,
                   int64_t index) {
    (void)context, (void)it, (void)output, (void)index;
    return DRAWN;
}

/* A model of the one instruction, on two parameters of a point each. */
typedef struct subject {
    one_nest one;
    double_evaluator evaluator;
    int32_t a, b, y;
    const cleave_instruction *it;
} subject;

static void make(subject *s, cleave_opcode opcode, double p, double q) {
    cleave_error error = {""};
    int64_t shape[] = {N_POINTS};
    one_nest *one = &s->one;
    one_nest_start(one, CLEAVE_NEST_POINTWISE, CLEAVE_COMBINE_NONE);
    int axis = one_nest_axis(one, N_POINTS);
    int32_t *tensors[] = {&s->a, &s->b};
    for (int i = 0; i < 2; i++) {
        *tensors[i] = one_nest_tensor(one, CLEAVE_TENSOR_PARAMETER, CLEAVE_F32, 1, shape, NULL);
        one_nest_input(one, *tensors[i])->map[0] = one_nest_along(axis);
    }
    s->y = one->nest.output.tensor =
        one_nest_tensor(one, CLEAVE_TENSOR_ACTIVATION, CLEAVE_F32, 1, shape, NULL);
    one->nest.output.map[0] = one_nest_along(axis);
    one_nest_do(one, opcode, 0, opcode == CLEAVE_OP_INDEX ? 0 : 1, p, q);
    const cleave_nest *nest = one_nest_finish(one, &error);
    cr_assert_not_null(nest, "%s", error.message);
    s->it = &nest->tape[0];
    cr_assert(double_evaluator_create(&one->model, &one->arena, &s->evaluator));
    s->evaluator.draw = draw;
}

/* The evaluator's values at all points, the operands moved by da and db. */
static void evaluate(subject *s, double da, double db, double *values) {
    for (int i = 0; i < N_POINTS; i++) {
        double_evaluator_values(&s->evaluator, s->a)[i] = POINTS_A[i / N_B] + da;
        double_evaluator_values(&s->evaluator, s->b)[i] = POINTS_B[i % N_B] + db;
    }
    double_evaluator_run(&s->evaluator);
    memcpy(values, double_evaluator_values(&s->evaluator, s->y), N_POINTS * sizeof *values);
}

static bool near(double x, double y, double tolerance) {
    return fabs(x - y) <= tolerance * (1 + fabs(y)) || (isnan(x) && isnan(y)) ||
           (isinf(x) && isinf(y) && (x > 0) == (y > 0));
}

/* Of a function that is smooth about here; FMOD has another by b that nobody has asked for. */
static void check_derivative(const subject *s, int side, double table, double difference) {
    bool has = side < cleave_opcode_gradient_operands(s->it->opcode);
    if (!has && s->it->opcode == CLEAVE_OP_FMOD)
        return;
    cr_expect(has || near(table, 0, 0), "opcode %d has a derivative by operand %d of %g",
              s->it->opcode, side, table);
    cr_expect(near(table, difference, 1e-6), "opcode %d by operand %d: %.10g, not %.10g",
              s->it->opcode, side, table, difference);
}

static void check_needs(const subject *s, int side, double a, double b, double v, double place) {
    unsigned needs = cleave_instruction_needs(s->it, side == 1);
    double whole = of_table(s->it, a, b, v, place).by[side], poison = (double)NAN;
    a = needs & CLEAVE_NEEDS_A ? a : poison;
    b = needs & CLEAVE_NEEDS_B ? b : poison;
    v = needs & CLEAVE_NEEDS_RESULT ? v : poison;
    cr_expect(near(of_table(s->it, a, b, v, place).by[side], whole, 0),
              "opcode %d by operand %d reads more than it needs", s->it->opcode, side);
}

static void check(cleave_opcode opcode, double p, double q) {
    subject s;
    double values[N_POINTS], more[2][N_POINTS], less[2][N_POINTS];
    make(&s, opcode, p, q);
    evaluate(&s, STEP, 0, more[0]);
    evaluate(&s, -STEP, 0, less[0]);
    evaluate(&s, 0, STEP, more[1]);
    evaluate(&s, 0, -STEP, less[1]);
    evaluate(&s, 0, 0, values);
    int n_compared = 0;
    for (int i = 0; i < N_POINTS; i++) {
        double a = POINTS_A[i / N_B], b = POINTS_B[i % N_B];
        double place = opcode == CLEAVE_OP_INDEX ? i : DRAWN;
        result r = of_table(s.it, a, b, values[i], place);
        cr_expect(near(r.value, values[i], 1e-15), "opcode %d of %g and %g is %g, not %g", opcode,
                  a, b, r.value, values[i]);
        for (int side = 0; side < cleave_opcode_gradient_operands(opcode); side++)
            check_needs(&s, side, a, b, values[i], place);
        /* Kinks and jumps lie where operands are 0 or equal. */
        bool smooth = fabs(a) > STEP && fabs(b) > STEP && fabs(a - b) > STEP;
        for (int side = 0; smooth && side < 2; side++) {
            double difference = (more[side][i] - less[side][i]) / (2 * STEP);
            if (!isfinite(difference))
                continue;
            check_derivative(&s, side, r.by[side], difference);
            n_compared++;
        }
    }
    cr_expect_geq(n_compared, N_B, "opcode %d was compared at %d points", opcode, n_compared);
    cleave_arena_free(&s.one.arena);
}

Test(opcodes, values_and_derivatives_are_those_of_the_evaluator) {
    for (int opcode = 0; opcode < CLEAVE_N_OPCODES; opcode++) {
        check((cleave_opcode)opcode, 0.3, 0.7);
        check((cleave_opcode)opcode, -0.4, 0.9); /* a slope that hides the sign of its operand */
    }
}

Test(opcodes, those_of_onnx_are_found_by_their_names) {
    cr_expect_eq(cleave_opcode_find("Relu"), CLEAVE_OP_RELU);
    cr_expect_eq(cleave_opcode_find("Reciprocal"), CLEAVE_OP_RECIPROCAL);
    cr_expect_eq(cleave_opcode_find("Gelu"), CLEAVE_N_OPCODES);
}
