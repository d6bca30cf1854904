/* Element-wise operators, casts and reductions: by hand, on the corners of their definitions.  Each
   is evaluated twice, from the nests that the importer builds and by the folding of constants. */
#include "imported.h"

#include <float.h>

TestSuite(import_elementwise, .fini = tear_down);

enum { FLOAT = 1, INT32 = 6, INT64 = 7, BOOL = 9, MOST = 12 };

/* An input of a node; shape as words. */
typedef struct operand {
    int type;
    const char *shape;
    double values[MOST];
} operand;

static int read_shape(const char *words, int64_t *shape) {
    int rank = 0;
    for (char *end; *words != '\0'; words = end + (*end == ' '))
        shape[rank++] = strtoll(words, &end, 10);
    return rank;
}

static size_t count(const operand *in) {
    int64_t shape[CLEAVE_MAX_RANK];
    size_t n = 1;
    for (int d = read_shape(in->shape, shape) - 1; d >= 0; d--)
        n *= (size_t)shape[d];
    return n;
}

static void add_constant(bytes *graph, const char *name, const operand *in) {
    int64_t shape[CLEAVE_MAX_RANK];
    int rank = read_shape(in->shape, shape);
    bytes attributes = {.n = 0};
    char data[MOST * 8];
    size_t size = in->type == INT64 ? 8 : in->type == BOOL ? 1 : 4, n = count(in);
    for (size_t i = 0; i < n; i++) {
        float f = in->type == FLOAT ? (float)in->values[i] : 0;
        int64_t integer = in->type == FLOAT ? 0 : (int64_t)in->values[i];
        int32_t narrow = (int32_t)integer;
        const void *from = in->type == FLOAT   ? (const void *)&f
                           : in->type == INT32 ? (const void *)&narrow
                                               : (const void *)&integer;
        memcpy(data + i * size, from, size);
    }
    attribute_tensor(&attributes, "value", rank, shape, in->type, data, n * size);
    node(graph, "Constant", name, "", name, &attributes);
}

static void expect_output(const double_evaluator *e, const char *how, int n,
                          const double *expected) {
    int32_t id = cleave_model_find_tensor(&model, "y");
    cr_assert_geq(id, 0);
    cr_assert_eq(cleave_tensor_size(&model.tensors[id]), n, "%s: %d elements", how,
                 (int)cleave_tensor_size(&model.tensors[id]));
    for (int i = 0; i < n; i++) {
        double value = double_evaluator_element(e, id, i);
        bool same = isnan(expected[i])   ? isnan(value)
                    : isinf(expected[i]) ? value == expected[i]
                                         : fabs(value - expected[i]) <= 1e-6 * (1 + fabs(value));
        cr_expect(same, "%s: element %d is %g, not %g", how, i, value, expected[i]);
    }
}

/* y = type(a, b, c ...); n_varying: so many first inputs are not constants in the first model. */
static void check(const char *type, const bytes *attributes, int n_varying, int n_inputs,
                  const operand *in, int n, const double *expected) {
    static const char *const names[] = {"a", "b", "c", "d"};
    double_evaluator e;
    for (int folds = 0; folds < 2; folds++) {
        bytes graph = {.n = 0};
        char inputs[16] = "";
        for (int i = 0; i < n_inputs; i++) {
            snprintf(inputs + strlen(inputs), sizeof inputs - strlen(inputs), "%s%s",
                     i > 0 ? " " : "", names[i]);
            if (folds == 0 && i < n_varying)
                value_info(&graph, 11, names[i], in[i].type, in[i].shape);
            else
                add_constant(&graph, names[i], &in[i]);
        }
        graph_output(&graph, "y");
        node(&graph, type, "op", inputs, "y", attributes);
        import(&graph, 18, 0, false);
        cr_assert(double_evaluator_create(&model, &arena, &e));
        for (int i = 0; i < n_varying && folds == 0; i++) {
            int32_t id = cleave_model_find_tensor(&model, names[i]);
            for (size_t k = 0; k < count(&in[i]); k++)
                double_evaluator_values(&e, id)[k] = in[i].values[k];
        }
        double_evaluator_run(&e);
        expect_output(&e, folds == 0 ? type : "folded", n, expected);
    }
}

/* ---- element-wise ---------------------------------------------------------------------------- */

Test(import_elementwise, mod_of_integers_has_the_sign_of_the_divisor) {
    operand in[] = {{INT64, "6", {7, -7, 7, -7, -6, 6}}, {INT64, "6", {3, 3, -3, -3, 3, -3}}};
    check("Mod", NULL, 2, 2, in, 6, (double[]){1, 2, -2, -1, 0, 0});
}

Test(import_elementwise, fmod_has_the_sign_of_the_dividend) {
    bytes attributes = {.n = 0};
    attribute_integer(&attributes, "fmod", 1);
    operand in[] = {{FLOAT, "4", {5.5, -5.5, 5.5, -5.5}}, {FLOAT, "4", {2, 2, -2, -2}}};
    check("Mod", &attributes, 2, 2, in, 4, (double[]){1.5, -1.5, 1.5, -1.5});
}

Test(import_elementwise, integers_are_divided_towards_zero) {
    operand in[] = {{INT32, "4", {7, -7, 7, -7}}, {INT32, "1", {2}}};
    check("Div", NULL, 2, 2, in, 4, (double[]){3, -3, 3, -3});
    check("Div", NULL, 1, 2, in, 4, (double[]){3, -3, 3, -3});
}

Test(import_elementwise, halves_are_rounded_to_even) {
    operand in[] = {{FLOAT, "6", {0.5, 1.5, 2.5, -0.5, -1.5, -2.6}}};
    check("Round", NULL, 1, 1, in, 6, (double[]){0, 2, 2, 0, -2, -3});
}

Test(import_elementwise, what_is_not_selected_leaks_nothing) {
    double inf = (double)INFINITY, nan = (double)NAN;
    operand in[] = {
        {BOOL, "2 2", {1, 0, 0, 1}}, {FLOAT, "2 2", {1, nan, inf, 4}}, {FLOAT, "2", {-inf, 9}}};
    check("Where", NULL, 3, 3, in, 4, (double[]){1, 9, -inf, 4});
    in[2] = (operand){FLOAT, "", {-inf}};
    check("Where", NULL, 2, 3, in, 4, (double[]){1, -inf, -inf, 4});
}

Test(import_elementwise, a_slope_is_broadcast_and_infinities_stay) {
    double inf = (double)INFINITY;
    operand in[] = {{FLOAT, "2 3", {1, -2, inf, -1, -inf, 0}}, {FLOAT, "2 1", {0.5, 2}}};
    check("PRelu", NULL, 2, 2, in, 6, (double[]){1, -1, inf, -2, -inf, 0});
}

Test(import_elementwise, softplus_neither_overflows_nor_vanishes) {
    operand in[] = {{FLOAT, "4", {200, -80, 0, 20}}};
    check("Softplus", NULL, 1, 1, in, 4, (double[]){200, exp(-80), log(2), 20 + log1p(exp(-20))});
    operand small[] = {{FLOAT, "1", {-80}}};
    check("Softplus", NULL, 1, 1, small, 1, (double[]){exp(-80)});
}

Test(import_elementwise, both_forms_of_gelu) {
    bytes attributes = {.n = 0};
    operand in[] = {{FLOAT, "2", {1, -2}}};
    double tanh1 = tanh(sqrt(2 / M_PI) * (1 + 0.044715));
    double tanh2 = tanh(sqrt(2 / M_PI) * (-2 - 0.044715 * 8));
    check("Gelu", NULL, 1, 1, in, 2,
          (double[]){0.5 * (1 + erf(sqrt(0.5))), -1 + erf(2 * sqrt(0.5))});
    attribute_text(&attributes, "approximate", "tanh");
    check("Gelu", &attributes, 1, 1, in, 2, (double[]){0.5 * (1 + tanh1), -(1 + tanh2)});
}

Test(import_elementwise, limits_may_vary_be_left_out_or_cross) {
    operand in[] = {{FLOAT, "3", {-5, 0, 5}}, {FLOAT, "", {-1}}, {FLOAT, "", {2}}};
    check("Clip", NULL, 1, 3, in, 3, (double[]){-1, 0, 2});
    check("Clip", NULL, 3, 3, in, 3, (double[]){-1, 0, 2});
    check("Clip", NULL, 2, 2, in, 3, (double[]){-1, 0, 5});
    in[1].values[0] = 3;
    check("Clip", NULL, 1, 3, in, 3, (double[]){2, 2, 2});
}

Test(import_elementwise, comparisons_and_logic_are_0_and_1) {
    double nan = (double)NAN;
    operand in[] = {{FLOAT, "4", {1, 2, 3, nan}}, {FLOAT, "1", {2}}};
    check("Greater", NULL, 2, 2, in, 4, (double[]){0, 0, 1, 0});
    check("GreaterOrEqual", NULL, 2, 2, in, 4, (double[]){0, 1, 1, 0});
    check("Less", NULL, 1, 2, in, 4, (double[]){1, 0, 0, 0});
    check("LessOrEqual", NULL, 1, 2, in, 4, (double[]){1, 1, 0, 0});
    operand logic[] = {{BOOL, "4", {0, 0, 1, 1}}, {BOOL, "4", {0, 1, 0, 1}}};
    check("Xor", NULL, 2, 2, logic, 4, (double[]){0, 1, 1, 0});
    check("And", NULL, 2, 2, logic, 4, (double[]){0, 0, 0, 1});
    check("Or", NULL, 2, 2, logic, 4, (double[]){0, 1, 1, 1});
}

Test(import_elementwise, powers_by_products_are_powers) {
    operand in[] = {{FLOAT, "3", {-2, 0.5, 3}}, {FLOAT, "", {3}}};
    for (int s = 1; s <= 5; s++) {
        in[1].values[0] = s;
        check("Pow", NULL, 1, 2, in, 3, (double[]){pow(-2, s), pow(0.5, s), pow(3, s)});
    }
}

/* ---- casts ----------------------------------------------------------------------------------- */

static void check_cast(int from, int to, const double *values, const double *expected) {
    bytes attributes = {.n = 0};
    operand in[] = {{from, "4", {values[0], values[1], values[2], values[3]}}};
    attribute_integer(&attributes, "to", to);
    check("Cast", &attributes, 1, 1, in, 4, expected);
}

Test(import_elementwise, casts_truncate_and_tell_zero_from_the_rest) {
    const double numbers[] = {-1.9, -0.5, 0, 2.9};
    check_cast(FLOAT, INT64, numbers, (double[]){-1, 0, 0, 2});
    check_cast(FLOAT, INT32, numbers, (double[]){-1, 0, 0, 2});
    check_cast(FLOAT, BOOL, numbers, (double[]){1, 1, 0, 1});
    check_cast(INT64, BOOL, (double[]){-3, 0, 1, 2}, (double[]){1, 0, 1, 1});
    check_cast(INT32, FLOAT, (double[]){-3, 0, 1, 2}, (double[]){-3, 0, 1, 2});
}

Test(import_elementwise, a_cast_to_float_of_data_is_an_activation) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    value_info(&graph, 11, "x", INT64, "2 3");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "to", FLOAT);
    node(&graph, "Cast", "op", "x", "y", &attributes);
    import(&graph, 13, 0, false);
    cr_expect_eq(find_tensor("x")->type, CLEAVE_I64);
    cr_expect_eq(find_tensor("y")->type, CLEAVE_F32);
}

Test(import_elementwise, casts_to_other_types_are_refused) {
    bytes graph = {.n = 0}, attributes = {.n = 0};
    graph_input(&graph, "x", "2 3");
    graph_output(&graph, "y");
    attribute_integer(&attributes, "to", 10);
    node(&graph, "Cast", "op", "x", "y", &attributes);
    expect_refused(&graph, 13, 0,
                   "hand: node op (Cast): casts FLOAT to FLOAT16, supported are FLOAT, INT32, "
                   "INT64 and BOOL");
}

/* ---- reductions ------------------------------------------------------------------------------ */

static const operand cube = {FLOAT, "2 2 3", {1, -2, 3, -4, 5, -6, 7, 8, 9, 1, 0, 2}};

static void check_reduction(const char *type, const char *axes_shape, int64_t first, bool keeps,
                            int n, const double *expected) {
    bytes attributes = {.n = 0};
    operand in[] = {cube, {INT64, axes_shape, {(double)first, 2}}};
    attribute_integer(&attributes, "keepdims", keeps);
    check(type, &attributes, 1, axes_shape != NULL ? 2 : 1, in, n, expected);
    int n_axes = axes_shape != NULL ? (int)count(&in[1]) : 0;
    cr_expect_eq(find_tensor("y")->rank, keeps ? 3 : n_axes > 0 ? 3 - n_axes : 0);
}

Test(import_elementwise, every_reduction_over_one_axis) {
    double sums[] = {-3, 3, -3, 8, 8, 11}, root = sqrt(17);
    check_reduction("ReduceSum", "1", 1, true, 6, sums);
    check_reduction("ReduceSum", "1", -2, false, 6, sums);
    check_reduction("ReduceMean", "1", 1, true, 6, (double[]){-1.5, 1.5, -1.5, 4, 4, 5.5});
    check_reduction("ReduceMax", "1", 1, true, 6, (double[]){1, 5, 3, 7, 8, 9});
    check_reduction("ReduceMin", "1", 1, false, 6, (double[]){-4, -2, -6, 1, 0, 2});
    check_reduction("ReduceProd", "1", 1, false, 6, (double[]){-4, -10, -18, 7, 0, 18});
    check_reduction("ReduceL1", "1", 1, true, 6, (double[]){5, 7, 9, 8, 8, 11});
    check_reduction("ReduceSumSquare", "1", 1, true, 6, (double[]){17, 29, 45, 50, 64, 85});
    check_reduction("ReduceL2", "1", 1, false, 6,
                    (double[]){root, sqrt(29), sqrt(45), sqrt(50), 8, sqrt(85)});
    check_reduction("ReduceLogSum", "1", 1, true, 6,
                    (double[]){(double)NAN, log(3), (double)NAN, log(8), log(8), log(11)});
}

Test(import_elementwise, reductions_over_two_axes_and_over_all) {
    check_reduction("ReduceSum", "2", 0, true, 2, (double[]){1 - 2 + 3 + 7 + 8 + 9, -5 + 3});
    check_reduction("ReduceProd", "2", 0, false, 2, (double[]){-6 * 504, 0});
    check_reduction("ReduceMean", NULL, 0, true, 1, (double[]){2});
    check_reduction("ReduceMean", NULL, 0, false, 1, (double[]){2});
    check_reduction("ReduceMax", NULL, 0, false, 1, (double[]){9});
    check_reduction("ReduceMin", "0", 0, false, 1, (double[]){-6});
}

Test(import_elementwise, no_axes_may_mean_none) {
    bytes attributes = {.n = 0};
    operand in[] = {{FLOAT, "3", {1, -2, 3}}, {INT64, "0", {0}}};
    attribute_integer(&attributes, "noop_with_empty_axes", 1);
    check("ReduceSum", &attributes, 1, 2, in, 3, (double[]){1, -2, 3});
    check("ReduceSum", NULL, 1, 2, in, 1, (double[]){2});
}

Test(import_elementwise, a_logarithm_of_sums_keeps_its_exponents_small) {
    double inf = (double)INFINITY;
    operand in[] = {{FLOAT, "3 2", {1000, 1000, -1000, -1001, -inf, -inf}}, {INT64, "1", {1}}};
    check("ReduceLogSumExp", NULL, 1, 2, in, 3,
          (double[]){1000 + log(2), -1000 + log1p(exp(-1)), -inf});
}

Test(import_elementwise, a_product_of_many_is_a_tree) {
    /* 11 elements of 2 along the axis: 8 slices of a length padded with ones. */
    bytes graph = {.n = 0}, attributes = {.n = 0};
    float twos[22];
    double_evaluator e;
    for (int i = 0; i < 22; i++)
        twos[i] = i % 2 == 0 ? 2 : -1;
    graph_input(&graph, "x", "11 2");
    graph_output(&graph, "y");
    attribute_integers(&attributes, "axes", 1, (int64_t[]){0});
    attribute_integer(&attributes, "keepdims", 0);
    node(&graph, "ReduceProd", "op", "x", "y", &attributes);
    import(&graph, 13, 0, false);
    cr_assert(double_evaluator_create(&model, &arena, &e));
    double_evaluator_set_floats(&e, cleave_model_find_tensor(&model, "x"), twos);
    double_evaluator_run(&e);
    expect_output(&e, "ReduceProd", 2, (double[]){2048, -1});
}

Test(import_elementwise, of_equal_extremes_the_first_or_the_last_is_named) {
    bytes first = {.n = 0}, last = {.n = 0};
    operand in[] = {{FLOAT, "2 4", {1, 5, 5, -2, -2, 0, -2, -1}}};
    attribute_integer(&first, "axis", 1);
    attribute_integer(&last, "axis", -1);
    attribute_integer(&last, "select_last_index", 1);
    check("ArgMax", &first, 1, 1, in, 2, (double[]){1, 1});
    check("ArgMax", &last, 1, 1, in, 2, (double[]){2, 1});
    check("ArgMin", &first, 1, 1, in, 2, (double[]){3, 0});
    check("ArgMin", &last, 1, 1, in, 2, (double[]){3, 2});
}

/* ---- positions ------------------------------------------------------------------------------- */

Test(import_elementwise, cumulative_sums_both_ways) {
    for (int flags = 0; flags < 4; flags++) {
        static const double expected[4][6] = {
            {1, 3, 6, 4, 9, 15}, {0, 1, 3, 0, 4, 9}, {6, 5, 3, 15, 11, 6}, {5, 3, 0, 11, 6, 0}};
        bytes attributes = {.n = 0};
        operand in[] = {{FLOAT, "2 3", {1, 2, 3, 4, 5, 6}}, {INT64, "", {-1}}};
        attribute_integer(&attributes, "exclusive", flags & 1);
        attribute_integer(&attributes, "reverse", flags >> 1);
        check("CumSum", &attributes, 1, 2, in, 6, expected[flags]);
    }
}

Test(import_elementwise, triangles_of_any_diagonal) {
    bytes lower = {.n = 0};
    operand in[] = {{FLOAT, "2 3", {1, 2, 3, 4, 5, 6}}, {INT64, "", {1}}};
    check("Trilu", NULL, 1, 1, in, 6, (double[]){1, 2, 3, 0, 5, 6});
    check("Trilu", NULL, 1, 2, in, 6, (double[]){0, 2, 3, 0, 0, 6});
    attribute_integer(&lower, "upper", 0);
    in[1].values[0] = -1;
    check("Trilu", &lower, 1, 2, in, 6, (double[]){0, 0, 0, 4, 0, 0});
}

/* Adding the least number to 5 gives it: 5 is far below what an f32 of that size tells apart. */
Test(import_elementwise, masks_hide_what_comes_later_and_what_a_window_leaves_behind) {
    bytes window = {.n = 0};
    const double no = -(double)FLT_MAX;
    operand in[] = {{FLOAT, "3 3", {1, 2, 3, 4, 5, 6, 7, 8, 9}}};
    check("CausalMask", NULL, 1, 1, in, 9, (double[]){1, no, no, 4, 5, no, 7, 8, 9});
    attribute_integer(&window, "window", 2);
    check("CausalMask", &window, 1, 1, in, 9, (double[]){1, no, no, 4, 5, no, no, 8, 9});
    attribute_integer(&window, "ahead", 1);
    check("CausalMask", &window, 1, 1, in, 9, (double[]){1, 2, no, 4, 5, 6, no, 8, 9});
}

/* 3 x^2 + x / 2, and 2 (exp(x) - 1 - x) + x / 2 = 2 / e - 1 / 2 at -1. */
Test(import_elementwise, a_xielu_bends_by_two_numbers) {
    operand in[] = {{FLOAT, "3", {2, 0, -1}}, {FLOAT, "1", {3}}, {FLOAT, "1", {2}}};
    check("Xielu", NULL, 3, 3, in, 3, (double[]){13, 0, 2 * exp(-1) - 0.5});
}

/* Scores ln 1 and ln 3 beside a sink of ln 4: 1 and 3 of 8; of the other head, whose sink is ln 1,
   2 and 2 of 5. */
Test(import_elementwise, sinks_take_a_share_of_every_row_of_their_head) {
    operand in[] = {{FLOAT, "2 1 2", {log(1), log(3), log(2), log(2)}},
                    {FLOAT, "2", {log(4), log(1)}}};
    check("SinkSoftmax", NULL, 2, 2, in, 4, (double[]){0.125, 0.375, 0.4, 0.4});
}

/* ---- folding --------------------------------------------------------------------------------- */

Test(import_elementwise, integers_of_64_bits_fold_exactly) {
    int64_t most = INT64_MAX;
    bytes graph = {.n = 0};
    initializer(&graph, "a", 1, (int64_t[]){1}, INT64, &most, 8);
    initializer(&graph, "two", 0, NULL, INT64, (int64_t[]){2}, 8);
    graph_output(&graph, "y");
    node(&graph, "Div", "half", "a two", "h", NULL);
    node(&graph, "Add", "sum", "h h", "y", NULL);
    import(&graph, 13, 0, false);
    const cleave_tensor *y = &model.tensors[model.nests[0].inputs[0].tensor]; /* copied */
    cr_expect_eq(((const int64_t *)y->value)[0], most - 1);
    node(&graph, "Add", "more", "a a", "z", NULL);
    graph_output(&graph, "z");
    expect_refused(&graph, 13, 0,
                   "node more (Add): its result 1.84467e+19 does not fit an integer");
}

Test(import_elementwise, constants_beyond_the_integers_saturate) {
    static const float from[] = {-INFINITY, -1e30f, 1e30f, INFINITY, -2.5f};
    static const int64_t expected[] = {INT64_MIN, INT64_MIN, 0x7fffff8000000000, 0x7fffff8000000000,
                                       -2};
    for (int i = 0; i < 5; i++) {
        bytes graph = {.n = 0}, attributes = {.n = 0};
        initializer(&graph, "a", 0, NULL, FLOAT, &from[i], 4);
        graph_output(&graph, "y");
        attribute_integer(&attributes, "to", INT64);
        node(&graph, "Cast", "cast", "a", "y", &attributes);
        import(&graph, 13, 0, false);
        const cleave_tensor *y = &model.tensors[model.nests[0].inputs[0].tensor]; /* copied */
        cr_expect_eq(((const int64_t *)y->value)[0], expected[i], "case %d", i);
    }
}

Test(import_elementwise, a_mask_is_one_constant_for_all_its_readers) {
    /* Range, two Unsqueezes and a comparison; both selections read the same 16 booleans. */
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "batch 4 4");
    graph_output(&graph, "y");
    initializer(&graph, "zero", 0, NULL, INT64, (int64_t[]){0}, 8);
    initializer(&graph, "four", 0, NULL, INT64, (int64_t[]){4}, 8);
    initializer(&graph, "one", 0, NULL, INT64, (int64_t[]){1}, 8);
    initializer(&graph, "nine", 0, NULL, FLOAT, (float[]){-9}, 4);
    integers(&graph, "a0", 1, (int64_t[]){0});
    integers(&graph, "a1", 1, (int64_t[]){1});
    node(&graph, "Range", "range", "zero four one", "r", NULL);
    node(&graph, "Unsqueeze", "row", "r a0", "row", NULL);
    node(&graph, "Unsqueeze", "column", "r a1", "column", NULL);
    node(&graph, "GreaterOrEqual", "mask", "column row", "m", NULL);
    node(&graph, "Where", "first", "m x nine", "u", NULL);
    node(&graph, "Where", "second", "m nine u", "y", NULL);
    import(&graph, 13, 1, false);
    int n_constants = 0;
    for (int32_t t = 0; t < model.n_tensors; t++)
        n_constants += model.tensors[t].kind == CLEAVE_TENSOR_CONSTANT;
    cr_expect_eq(n_constants, 1);
    cr_expect_eq(model.n_operators, 1);
    double expected[16];
    for (int i = 0; i < 16; i++)
        expected[i] = -9;
    expect_values("y", 16, expected);
}
