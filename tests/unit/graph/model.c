/* Models: what is derived from nests, and that broken ones are refused. */
#include "graph/model/model.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

/* A dense layer with bias and ReLU, y = relu(w x + b), and the sum of y as the loss:
     x [4, 3] data, w [5, 3], b [5], z and y [4, 5], loss []. */
enum { X, W, B, Z, Y, LOSS, N_TENSORS };
enum { PRODUCT, EPILOGUE, SUM, N_NESTS };

static cleave_arena arena;
static cleave_tensor tensors[N_TENSORS + 2];
static cleave_nest nests[N_NESTS];
static cleave_operator operators[2];
static int32_t nest_ids[N_NESTS] = {PRODUCT, EPILOGUE, SUM};
static cleave_model model;

static cleave_dimension_map by(int axis) {
    return (cleave_dimension_map){.n_terms = 1, .terms = {{axis, 1}}};
}

static cleave_tensor tensor(const char *name, cleave_tensor_kind kind, int rank, int64_t a,
                            int64_t b) {
    return (cleave_tensor){
        .name = name, .kind = kind, .rank = rank, .shape = {a, b}, .order = {0, 1}};
}

static void set_up(void) {
    tensors[X] = tensor("x", CLEAVE_TENSOR_DATA, 2, 4, 3);
    tensors[W] = tensor("w", CLEAVE_TENSOR_PARAMETER, 2, 5, 3);
    tensors[B] = tensor("b", CLEAVE_TENSOR_PARAMETER, 1, 5, 0);
    tensors[Z] = tensor("z", CLEAVE_TENSOR_ACTIVATION, 2, 4, 5);
    tensors[Y] = tensor("y", CLEAVE_TENSOR_ACTIVATION, 2, 4, 5);
    tensors[LOSS] = tensor("loss", CLEAVE_TENSOR_ACTIVATION, 0, 0, 0);
    nests[PRODUCT] = (cleave_nest){.name = "dense",
                                   .kind = CLEAVE_NEST_PRODUCT,
                                   .n_axes = 3,
                                   .axes = {{"n", 4, false}, {"k", 5, false}, {"c", 3, false}},
                                   .operator_axis = {0, 1, 2},
                                   .n_inputs = 2,
                                   .inputs = {{X, {by(0), by(2)}}, {W, {by(1), by(2)}}},
                                   .output = {Z, {by(0), by(1)}},
                                   .combiner = CLEAVE_COMBINE_SUM,
                                   .n_instructions = 1,
                                   .tape = {{.opcode = CLEAVE_OP_MUL, .a = 0, .b = 1}}};
    nests[EPILOGUE] = (cleave_nest){
        .name = "dense.epilogue",
        .kind = CLEAVE_NEST_POINTWISE,
        .derivation = CLEAVE_DERIVE_OWNERS,
        .owners_of = PRODUCT,
        .n_axes = 2,
        .axes = {{"n", 4, false}, {"k", 5, false}},
        .n_inputs = 2,
        .inputs = {{Z, {by(0), by(1)}}, {B, {by(1)}}},
        .output = {Y, {by(0), by(1)}},
        .n_instructions = 2,
        .tape = {{.opcode = CLEAVE_OP_ADD, .a = 0, .b = 1}, {.opcode = CLEAVE_OP_RELU, .a = 2}}};
    nests[SUM] = (cleave_nest){.name = "sum",
                               .kind = CLEAVE_NEST_REDUCE,
                               .op = 1,
                               .n_axes = 2,
                               .axes = {{"n", 4, false}, {"k", 5, false}},
                               .operator_axis = {0, 1},
                               .n_inputs = 1,
                               .inputs = {{Y, {by(0), by(1)}}},
                               .output = {LOSS, {{0}}},
                               .combiner = CLEAVE_COMBINE_SUM,
                               .n_instructions = 1,
                               .tape = {{.opcode = CLEAVE_OP_COPY, .a = 0}}};
    operators[0] = (cleave_operator){.name = "dense",
                                     .type = "Gemm",
                                     .n_axes = 3,
                                     .axes = {{"n", 4, false}, {"k", 5, false}, {"c", 3, false}},
                                     .main_nest = PRODUCT,
                                     .n_nests = 2,
                                     .nests = nest_ids};
    operators[1] = (cleave_operator){.name = "sum",
                                     .type = "ReduceSum",
                                     .n_axes = 2,
                                     .axes = {{"n", 4, false}, {"k", 5, false}},
                                     .main_nest = SUM,
                                     .n_nests = 1,
                                     .nests = nest_ids + 2};
    model = (cleave_model){.file = "hand",
                           .graph_version = CLEAVE_GRAPH_VERSION,
                           .n_tensors = N_TENSORS,
                           .n_nests = N_NESTS,
                           .n_operators = 2,
                           .tensors = tensors,
                           .nests = nests,
                           .operators = operators,
                           .loss = LOSS,
                           .targets = -1,
                           .arena = &arena};
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(model, .init = set_up, .fini = tear_down);

static void finish(void) { OK(cleave_model_finish, &model); }

static void expect_refused(const char *message) {
    cleave_error error = {""};
    cr_expect_neq(cleave_model_finish(&model, &error), CLEAVE_OK);
    cr_expect_not_null(strstr(error.message, message), "'%s' is not in: %s", message,
                       error.message);
}

/* ---- what is derived --------------------------------------------------------------------------
 */

Test(model, gradients_reach_what_depends_on_a_parameter) {
    finish();
    cr_expect(tensors[W].needs_gradient && tensors[B].needs_gradient);
    cr_expect(tensors[Z].needs_gradient && tensors[Y].needs_gradient);
    cr_expect_not(tensors[X].needs_gradient);
    cr_expect_eq(nests[PRODUCT].gradient_inputs, 2u, "w, not x");
    cr_expect_eq(nests[EPILOGUE].gradient_inputs, 3u, "z and b");
}

Test(model, a_product_keeps_an_input_only_for_the_others_gradient) {
    finish();
    cr_expect_eq(nests[PRODUCT].kept_inputs, 1u, "dw needs x; there is no dx, so w is not kept");
    tensors[X].kind = CLEAVE_TENSOR_PARAMETER;
    finish();
    cr_expect_eq(nests[PRODUCT].kept_inputs, 3u);
}

Test(model, a_relu_after_a_sum_works_backward_from_its_output) {
    finish();
    cr_expect(cleave_nest_backward_from_output(&nests[EPILOGUE]));
    cr_expect_eq(nests[EPILOGUE].kept_inputs, 0u);
    cr_expect(nests[EPILOGUE].kept_output);
    cr_expect(nests[EPILOGUE].in_place);
}

Test(model, nothing_is_kept_where_all_is_linear) {
    nests[EPILOGUE].tape[1] = (cleave_instruction){.opcode = CLEAVE_OP_SCALE, .a = 2, .p = 3};
    finish();
    cr_expect_not(cleave_nest_backward_from_output(&nests[EPILOGUE]));
    cr_expect_eq(nests[EPILOGUE].kept_inputs, 0u);
    cr_expect_not(nests[EPILOGUE].kept_output);
    cr_expect(nests[EPILOGUE].in_place);
}

Test(model, what_a_derivative_needs_is_kept_and_not_written_over) {
    /* relu(z x b): dz needs b, db needs z; and whether the product is above 0 needs both. */
    nests[EPILOGUE].tape[0].opcode = CLEAVE_OP_MUL;
    finish();
    cr_expect_not(cleave_nest_backward_from_output(&nests[EPILOGUE]));
    cr_expect_eq(nests[EPILOGUE].kept_inputs, 3u);
    cr_expect_not(nests[EPILOGUE].kept_output);
    cr_expect_not(nests[EPILOGUE].in_place);
}

Test(model, a_slope_of_zero_or_less_hides_the_sign_of_the_input) {
    nests[EPILOGUE].tape[1] = (cleave_instruction){.opcode = CLEAVE_OP_LEAKY_RELU, .a = 2, .p = .1};
    finish();
    cr_expect(cleave_nest_backward_from_output(&nests[EPILOGUE]));
    nests[EPILOGUE].tape[1].p = -0.1;
    finish();
    cr_expect_not(cleave_nest_backward_from_output(&nests[EPILOGUE]));
}

Test(model, an_input_read_a_second_time_elsewhere_is_not_written_over) {
    /* z + z of row 0: element 0 of a column is needed after it has been written over. */
    nests[EPILOGUE].inputs[1] = (cleave_operand){Z, {{0}, by(1)}};
    finish();
    cr_expect_not(nests[EPILOGUE].in_place);
}

Test(model, equal_stops_a_gradient) {
    nests[EPILOGUE].tape[0].opcode = CLEAVE_OP_EQUAL;
    finish();
    cr_expect_not(nests[EPILOGUE].differentiable);
    cr_expect_not(tensors[W].needs_gradient);
}

Test(model, a_maximum_that_is_no_pool_has_no_gradient) {
    nests[SUM].combiner = CLEAVE_COMBINE_MAX;
    finish();
    cr_expect_not(nests[SUM].differentiable);
    cr_expect_eq(nests[PRODUCT].gradient_inputs, 0u);
}

Test(model, gradients_go_through_views) {
    /* The sum reads a transpose of y. */
    int32_t source = Y;
    tensors[N_TENSORS] = tensor("yt", CLEAVE_TENSOR_ACTIVATION, 2, 5, 4);
    tensors[N_TENSORS].view = (cleave_view){
        .kind = CLEAVE_VIEW_TRANSPOSE, .n_sources = 1, .sources = &source, .permutation = {1, 0}};
    model.n_tensors++;
    nests[SUM].inputs[0] = (cleave_operand){N_TENSORS, {by(1), by(0)}};
    finish();
    cr_expect(tensors[N_TENSORS].needs_gradient);
    cr_expect_eq(nests[PRODUCT].gradient_inputs, 2u);
    cr_expect_eq(model.writer[N_TENSORS], -1);
    cr_expect_eq(model.writer[Y], EPILOGUE);
}

Test(model, weights_and_inputs_have_passes_of_their_own) {
    finish();
    const cleave_nest *product = &nests[PRODUCT];
    cr_expect_eq(cleave_nest_pass_inputs(&model, product, CLEAVE_PASS_WEIGHT_GRADIENT), 2u);
    cr_expect_eq(cleave_nest_pass_inputs(&model, product, CLEAVE_PASS_INPUT_GRADIENT), 0u);
    cr_expect_eq(cleave_nest_pass_inputs(&model, product, CLEAVE_PASS_FORWARD), 0u);
    /* All others have one backward pass, parameters included. */
    const cleave_nest *epilogue = &nests[EPILOGUE];
    cr_expect_eq(cleave_nest_pass_inputs(&model, epilogue, CLEAVE_PASS_INPUT_GRADIENT), 3u);
    cr_expect_eq(cleave_nest_pass_inputs(&model, epilogue, CLEAVE_PASS_WEIGHT_GRADIENT), 0u);
}

Test(model, sizes_and_strides_follow_shape_and_memory_order) {
    cleave_tensor t = {.rank = 3, .shape = {2, 3, 5}, .order = {0, 2, 1}};
    int64_t strides[3];
    cr_expect_eq(cleave_tensor_size(&t), 30);
    /* A piece of 2 x 3 x 4, last dimension outside the middle one: strides 12, 1, 3. */
    cleave_box box = {{0, 0, 1}, {2, 3, 5}};
    cleave_tensor_strides(&t, &box, strides);
    cr_expect_eq(strides[0], 12);
    cr_expect_eq(strides[1], 1);
    cr_expect_eq(strides[2], 3);
    finish();
    cr_expect_eq(cleave_model_parameter_count(&model), 5 * 3 + 5);
    cr_expect_eq(cleave_model_find_operator(&model, "sum"), 1);
    cr_expect_eq(cleave_model_find_operator(&model, "none"), -1);
    cr_expect_eq(cleave_model_find_tensor(&model, "y"), Y);
}

Test(model, a_hash_changes_with_the_graph) {
    finish();
    char hash[33];
    memcpy(hash, model.hash, sizeof hash);
    finish();
    cr_expect_str_eq(model.hash, hash);
    nests[EPILOGUE].tape[1].opcode = CLEAVE_OP_TANH;
    finish();
    cr_expect_str_neq(model.hash, hash);
}

/* ---- what is refused --------------------------------------------------------------------------
 */

Test(model, registers_out_of_range_are_refused) {
    nests[EPILOGUE].tape[0].b = 2; /* its own result */
    expect_refused("instruction 0 of nest dense.epilogue reads 0 and 2, but only 2 are known");
}

Test(model, maps_out_of_range_are_refused) {
    nests[PRODUCT].inputs[0].map[1].offset = 1;
    expect_refused("nest dense reads dimension 1 of x (3) from 1 to 3");
    set_up();
    nests[PRODUCT].inputs[0].map[1].terms[0].axis = 3;
    expect_refused("nest dense maps dimension 1 of x by axis 3");
    set_up();
    nests[PRODUCT].inputs[0].map[1].terms[0].stride = INT64_MAX;
    expect_refused("nest dense reads dimension 1 of x");
}

Test(model, an_output_is_written_wholly_and_by_one_nest) {
    nests[PRODUCT].output.map[1] = by(0);
    expect_refused("nest dense does not write every index of dimension 1 of z once");
    set_up();
    nests[EPILOGUE].output.tensor = Z;
    nests[EPILOGUE].inputs[0].tensor = X;
    nests[EPILOGUE].inputs[0].map[1] = (cleave_dimension_map){0};
    expect_refused("tensor z is written by two nests");
}

Test(model, a_combiner_goes_with_missing_axes) {
    nests[PRODUCT].combiner = CLEAVE_COMBINE_NONE;
    expect_refused("nest dense has combiner 0, but its output lacks an axis");
}

Test(model, a_nest_reads_only_what_is_written_before_it) {
    nests[PRODUCT].inputs[0] = (cleave_operand){Y, {by(0), by(2)}};
    expect_refused("nest dense reads y before it is written");
}

Test(model, axes_fit_their_operator_and_what_they_follow) {
    operators[0].axes[1].extent = 6;
    expect_refused("axis k of nest dense does not fit operator dense");
    set_up();
    nests[EPILOGUE].axes[0].extent = 3;
    expect_refused("axes of nest dense.epilogue are not the dimensions of z");
    set_up();
    operators[0].axes[1].name = "n";
    expect_refused("dense has two axes n");
}

Test(model, names_are_unique) {
    tensors[W].name = "x";
    expect_refused("two tensors are named x");
}

Test(model, shapes_are_bounded) {
    tensors[X].shape[0] = INT64_C(1) << 62;
    expect_refused("tensor x has an empty dimension or more than 2^46 elements");
    set_up();
    tensors[X].order[1] = 0;
    expect_refused("tensor x has a memory order that leaves out a dimension");
}

Test(model, a_view_fits_its_source) {
    int32_t source = Y;
    tensors[N_TENSORS] = tensor("view", CLEAVE_TENSOR_ACTIVATION, 2, 5, 5);
    tensors[N_TENSORS].view =
        (cleave_view){.kind = CLEAVE_VIEW_RESHAPE, .n_sources = 1, .sources = &source};
    model.n_tensors++;
    expect_refused("view view does not fit its source y");
    source = N_TENSORS;
    expect_refused("view view has id 6 and source 6, which is not smaller");
}

Test(model, a_constant_has_a_value) {
    tensors[X].kind = CLEAVE_TENSOR_CONSTANT;
    expect_refused("constant x has no value");
}
