/* What lies and travels in bf16, and what in f32: bytes by hand, of a perceptron of 7 samples:
   x [7, 9], g1 [7, 10], g2 [7, 8], each with a bias and a ReLU on the owners of its sum ("g1.z").
 */
#include "graph/model/precision.h"
#include "../../support/config_request.h"
#include "../../support/models.h"
#include "../../support/ok.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/program/work.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct lowered {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
} lowered;

static void begin(lowered *of) {
    cleave_error error = {""};
    *of = (lowered){0};
    cr_assert(hand_model(MODEL_MLP, &of->arena, &of->model, &error), "%s", error.message);
    OK(cleave_layout_create, &of->model, 2, &of->arena, &of->layout);
}

static void split(lowered *of, const char *name, const char *axis) {
    int32_t op = cleave_model_find_operator(&of->model, name), degree[CLEAVE_MAX_AXES];
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        degree[a] = a < of->model.operators[op].n_axes &&
                            strcmp(of->model.operators[op].axes[a].name, axis) == 0
                        ? 2
                        : 1;
    OK(cleave_layout_set, &of->layout, op, 1, degree, (const int32_t[]){0, 1}, &of->arena);
}

/* Bytes of all messages that carry a tensor. */
static int64_t sent(lowered *of, cleave_type precision, cleave_type reduce, const char *tensor) {
    cleave_lower_options options = {.training = true};
    int64_t bytes = 0;
    cleave_model_set_precision(&of->model, precision, reduce);
    OK(cleave_lower, &of->model, &of->layout, &options, &of->arena, &of->program);
    OK(cleave_program_check, &of->program);
    for (int32_t m = 0; m < of->program.n_messages; m++)
        if (strcmp(of->model.tensors[of->program.messages[m].tensor].name, tensor) == 0)
            bytes += of->program.messages[m].bytes;
    return bytes;
}

static void expect_sent(lowered *of, const char *tensor, int64_t f32, int64_t bf16,
                        int64_t reduced) {
    cr_expect_eq(sent(of, CLEAVE_F32, CLEAVE_F32, tensor), f32);
    cr_expect_eq(sent(of, CLEAVE_BF16, CLEAVE_F32, tensor), bf16);
    cr_expect_eq(sent(of, CLEAVE_BF16, CLEAVE_BF16, tensor), reduced);
    cleave_arena_free(&of->arena);
}

/* g1's columns lie on two devices and g2 on the first: 7 x 5 elements come, and their gradients go
   back: 70 elements in all. */
Test(precision, activations_and_their_gradients_take_half_the_bytes) {
    lowered of;
    begin(&of);
    split(&of, "g1", "k");
    expect_sent(&of, "g1", 70 * 4, 70 * 2, 70 * 2);
}

/* g2 sums on two devices: each owns 7 x 4 of the 7 x 8 sums and sends the other's: 56 partial
   results.  Backward each sends the gradients of its own: 56 values. */
Test(precision, partial_sums_are_f32_unless_they_may_be_rounded) {
    lowered of;
    begin(&of);
    split(&of, "g2", "c");
    expect_sent(&of, "g2.z", (56 + 56) * 4, 56 * 4 + 56 * 2, (56 + 56) * 2);
}

/* In which type the parts of g2, which has some of the sums each, write them. */
static cleave_type partial_type(lowered *of, cleave_type reduce) {
    int n = 0;
    cleave_type type = CLEAVE_N_TYPES;
    sent(of, CLEAVE_BF16, reduce, "g2.z");
    for (int32_t c = 0; c < of->program.n_computes; c++) {
        const cleave_compute *compute = &of->program.computes[c];
        const cleave_nest *nest = &of->model.nests[compute->nest];
        if (compute->pass != CLEAVE_PASS_FORWARD || nest->kind != CLEAVE_NEST_PRODUCT ||
            nest->op != cleave_model_find_operator(&of->model, "g2"))
            continue;
        cleave_type writes = of->program.buffers[compute->output].type;
        cr_expect(n == 0 || writes == type);
        type = writes;
        n++;
    }
    cr_expect_eq(n, 2);
    return type;
}

/* As frameworks' products give them: what is sent rounded is rounded once, where it arises. */
Test(precision, partial_sums_arise_in_the_type_in_which_they_are_sent) {
    lowered of;
    begin(&of);
    split(&of, "g2", "c");
    cr_expect_eq(partial_type(&of, CLEAVE_F32), CLEAVE_F32);
    cr_expect_eq(partial_type(&of, CLEAVE_BF16), CLEAVE_BF16);
    cleave_arena_free(&of.arena);
}

/* One pass forward has its numbers as training has them, and nothing needs a gradient. */
Test(precision, a_pass_forward_is_as_short_as_one_of_training) {
    static const char text[] =
        "{\"model_type\": \"llama\", \"hidden_size\": 16, \"intermediate_size\": 32, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 64, "
        "\"max_position_embeddings\": 64}";
    cleave_import_request request = config_request(text, 2, 8);
    cleave_arena arena = {0};
    cleave_model trained, forward;
    int n = 0;
    request.precision = "bf16";
    OK(cleave_model_import_as, &request, &arena, &trained);
    request.with_loss = false;
    OK(cleave_model_import_as, &request, &arena, &forward);
    for (int32_t t = 0; t < forward.n_tensors; t++) {
        const cleave_tensor *tensor = &forward.tensors[t];
        int32_t same = cleave_model_find_tensor(&trained, tensor->name);
        cr_expect_not(tensor->needs_gradient, "%s", tensor->name);
        if (same < 0)
            continue;
        cr_expect_eq(tensor->stored, trained.tensors[same].stored, "%s", tensor->name);
        n += tensor->kind == CLEAVE_TENSOR_ACTIVATION && tensor->stored == CLEAVE_BF16;
    }
    cr_expect_gt(n, 10);
    cleave_arena_free(&arena);
}

/* g1's samples lie on two devices; its weight has 10 x 9 elements, whose gradients are added up
   half by half, and sent back. */
Test(precision, gradients_of_parameters_stay_exact) {
    lowered of;
    begin(&of);
    split(&of, "g1", "n");
    expect_sent(&of, "w1", (90 + 90) * 4, (90 + 90) * 4, 90 * 2 + 90 * 4);
}

/* As people train: those of activations are rounded, those of parameters are not. */
Test(precision, mixed_sums_are_rounded_for_activations_alone) {
    lowered of;
    begin(&of);
    OK(cleave_model_choose_precision, &of.model, "bf16", "mixed");
    cr_expect_str_eq(cleave_reduce_precision_name(&of.model), "mixed");
    split(&of, "g1", "n");
    cr_expect_eq(sent(&of, CLEAVE_BF16, CLEAVE_BF16, "w1"), 90 * 4 + 90 * 4);
    cleave_arena_free(&of.arena);
    begin(&of);
    OK(cleave_model_choose_precision, &of.model, "bf16", "mixed");
    split(&of, "g2", "c");
    cr_expect_eq(sent(&of, CLEAVE_BF16, CLEAVE_BF16, "g2.z"), (56 + 56) * 2);
    cleave_arena_free(&of.arena);
}

/* With its update sharded what goes back are the weights. */
Test(precision, gathered_weights_take_half_the_bytes) {
    lowered of;
    begin(&of);
    split(&of, "g1", "n");
    of.layout.sharded[cleave_model_find_tensor(&of.model, "w1")] = true;
    expect_sent(&of, "w1", (90 + 90) * 4, 90 * 4 + 90 * 2, 90 * 2 + 90 * 2);
}

/* The weight, its master, and its gradient; what is saved is the master. */
Test(precision, a_parameter_has_a_master_and_a_copy) {
    lowered of;
    begin(&of);
    sent(&of, CLEAVE_BF16, CLEAVE_F32, "w1");
    int32_t w1 = cleave_model_find_tensor(&of.model, "w1");
    int n = 0;
    int64_t bytes[2] = {0};
    for (int32_t b = 0; b < of.program.n_buffers; b++)
        if (of.program.buffers[b].tensor == w1 && of.program.buffers[b].persistent)
            bytes[n++ % 2] = of.program.buffers[b].bytes;
    cr_expect_eq(n, 2);
    cr_expect_eq(bytes[0] + bytes[1], 90 * (2 + 4));
    for (int32_t h = 0; h < of.program.n_held; h++)
        cr_expect_eq(of.program.buffers[of.program.held[h].buffer].type, CLEAVE_F32);
    for (int32_t u = 0; u < of.program.n_updates; u++) {
        cr_expect_eq(of.program.buffers[of.program.updates[u].gradient].type, CLEAVE_F32);
        cr_expect_eq(of.program.buffers[of.program.updates[u].parameter].type, CLEAVE_BF16);
    }
    cr_expect_eq(of.model.tensors[of.model.loss].stored, CLEAVE_F32);
    cr_expect_eq(of.model.tensors[cleave_model_find_tensor(&of.model, "x")].stored, CLEAVE_F32);
    cleave_arena_free(&of.arena);
}

/* fp16 has the bytes of bf16 everywhere. */
Test(precision, of_fp16_has_the_bytes_of_bf16) {
    static const char *const names[] = {"g1", "g2.z", "w1"};
    for (int i = 0; i < 3; i++) {
        lowered of;
        begin(&of);
        split(&of, i == 1 ? "g2" : "g1", i == 0 ? "k" : i == 1 ? "c" : "n");
        int64_t bytes = sent(&of, CLEAVE_BF16, CLEAVE_F32, names[i]);
        cr_expect_eq(sent(&of, CLEAVE_F16, CLEAVE_F32, names[i]), bytes, "%s", names[i]);
        cr_expect_eq(sent(&of, CLEAVE_F16, CLEAVE_F16, names[i]),
                     sent(&of, CLEAVE_BF16, CLEAVE_BF16, names[i]), "%s", names[i]);
        cleave_arena_free(&of.arena);
    }
}

/* Of a block of Mixtral under fp8 products with weights are of 8 bits, and so is what they alone
   read: what the first and the last norm write, the tokens of each expert, and its gated ones. What
   the norm between writes is dispatched, too, what attention writes its backward reads, and the
   residual is read by sums. */
Test(precision, of_fp8_is_that_of_products_with_parameters) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    int n_products = 0, n_short = 0;
    cr_assert(hand_model(MODEL_EXPERTS, &arena, &model, &error), "%s", error.message);
    cleave_model_set_precision(&model, CLEAVE_F8, CLEAVE_F32);
    for (int32_t n = 0; n < model.n_nests; n++) {
        const cleave_nest *nest = &model.nests[n];
        const cleave_tensor *output = &model.tensors[nest->output.tensor];
        cleave_part whole = cleave_part_whole(nest, 0);
        cleave_work work;
        cleave_work_describe(&model, nest, CLEAVE_PASS_FORWARD, &whole, &work);
        if (nest->kind == CLEAVE_NEST_PRODUCT && work.type != CLEAVE_F32) {
            cr_expect_eq(work.type, CLEAVE_F8, "%s", nest->name);
            cr_expect_eq(strncmp(work.family, "fp8 ", 4), 0, "%s", work.family);
            n_products++;
        }
        if (output->stored != CLEAVE_F8)
            continue;
        cr_expect(strstr(nest->name, "norm") != NULL || strstr(nest->name, "dispatch") != NULL ||
                      strstr(nest->name, "experts.up") != NULL,
                  "%s", nest->name);
        cr_expect_eq(cleave_stored_bytes(output), 1);
        cr_expect_eq(cleave_value_gradient_type(output), CLEAVE_BF16);
        n_short++;
    }
    cr_expect_geq(n_products, 5); /* queries, keys, values, what goes back, the head */
    cr_expect_eq(n_short, 4);
    cr_expect_eq(cleave_model_check_runs(&model, &error), CLEAVE_BAD_INPUT);
    cleave_arena_free(&arena);
}

Test(precision, names_are_checked) {
    lowered of;
    cleave_error error = {""};
    begin(&of);
    cr_expect_eq(cleave_model_choose_precision(&of.model, "f64", NULL, &error), CLEAVE_BAD_INPUT);
    cr_expect_eq(cleave_model_choose_precision(&of.model, NULL, "bf16", &error), CLEAVE_BAD_INPUT);
    OK(cleave_model_choose_precision, &of.model, "bf16", "bf16");
    cr_expect_eq(of.model.precision, CLEAVE_BF16);
    cr_expect(of.model.precision_asked);
    cleave_arena_free(&of.arena);
}
