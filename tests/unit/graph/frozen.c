/* What is not trained costs its values and nothing else: bytes and passes by hand. */
#include "../../support/models.h"
#include "../../support/ok.h"
#include "../../support/onnx_writer.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/precision.h"

#include <criterion/criterion.h>
#include <string.h>

/* Lowers with every operator's samples on two devices. */
static void lower(cleave_model *model, cleave_arena *arena, cleave_program *program) {
    cleave_layout layout;
    OK(cleave_layout_create, model, 2, arena, &layout);
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES];
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            degree[a] = a == 0 ? 2 : 1;
        OK(cleave_layout_set, &layout, op, 1, degree, (const int32_t[]){0, 1}, arena);
    }
    cleave_lower_options options = {.training = true, .optimizer_states = 2};
    OK(cleave_lower, model, &layout, &options, arena, program);
    OK(cleave_program_check, program);
}

/* Of a tensor on device 0: what stays from step to step, and all gradients. */
static void expect_bytes(const cleave_program *program, const char *name, int64_t lasting,
                         bool trained) {
    int32_t tensor = cleave_model_find_tensor(program->model, name);
    int64_t kept = 0, sent = 0;
    int n_gradients = 0, n_updates = 0;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->tensor != tensor || buffer->device != 0)
            continue;
        kept += buffer->persistent ? buffer->bytes : 0;
        n_gradients += buffer->kind == CLEAVE_BUFFER_GRADIENT;
    }
    for (int32_t u = 0; u < program->n_updates; u++)
        n_updates += program->updates[u].tensor == tensor;
    for (int32_t m = 0; m < program->n_messages; m++)
        sent += program->messages[m].tensor == tensor ? program->messages[m].bytes : 0;
    cr_expect_eq(kept, lasting, "%s: %lld bytes", name, (long long)kept);
    cr_expect_eq(n_updates, trained ? 2 : 0, "%s", name);
    cr_expect_eq(n_gradients > 0, trained, "%s", name);
    cr_expect_eq(sent > 0, trained, "%s: %lld bytes sent", name, (long long)sent);
}

static int count_computes(const cleave_program *program, const char *nest, bool backward) {
    int n = 0;
    for (int32_t c = 0; c < program->n_computes; c++)
        n += strcmp(program->model->nests[program->computes[c].nest].name, nest) == 0 &&
             (program->computes[c].pass != CLEAVE_PASS_FORWARD) == backward;
    return n;
}

/* Of a perceptron's three layers the last is trained, of 11 x 8 elements: nothing runs backward
   below it, and it gives no gradient of what it reads: one pass on each of two devices. */
Test(frozen, nothing_is_computed_below_what_is_trained) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cleave_program program;
    cr_assert(hand_model(MODEL_MLP, &arena, &model, &error), "%s", error.message);
    OK(cleave_model_freeze, &model, "?1,[wb]2");
    lower(&model, &arena, &program);
    const char *below[] = {"g1", "g1.epilogue", "g2", "g2.epilogue"};
    for (int i = 0; i < 4; i++) {
        cr_expect_eq(count_computes(&program, below[i], false), 2, "%s", below[i]);
        cr_expect_eq(count_computes(&program, below[i], true), 0, "%s", below[i]);
    }
    cr_expect_eq(count_computes(&program, "g3", true), 2);
    expect_bytes(&program, "w1", 10 * 9 * 4, false);
    expect_bytes(&program, "b2", 8 * 4, false);
    expect_bytes(&program, "w3", 11 * 8 * 4 * (1 + 2), true);
    cleave_arena_free(&arena);
}

/* An activation is as exact as it would be if what lies below it were trained. */
Test(frozen, activations_below_what_is_trained_are_bf16_too) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    int n_below = 0;
    cr_assert(hand_model(MODEL_MLP, &arena, &model, &error), "%s", error.message);
    cleave_model_set_precision(&model, CLEAVE_BF16, CLEAVE_F32);
    cleave_type *stored = CLEAVE_ARENA_ARRAY(&arena, cleave_type, model.n_tensors);
    for (int32_t t = 0; t < model.n_tensors; t++)
        stored[t] = model.tensors[t].stored;
    OK(cleave_model_freeze, &model, "?1,[wb]2");
    for (int32_t t = 0; t < model.n_tensors; t++) {
        cr_expect_eq(model.tensors[t].stored, stored[t], "%s", model.tensors[t].name);
        n_below += stored[t] == CLEAVE_BF16 && !model.tensors[t].needs_gradient;
    }
    cr_expect_gt(n_below, 6); /* four parameters, and what two layers write */
    cleave_arena_free(&arena);
}

/* y = x W + (x A) B s, twice: W are frozen.  W2's gradient of what it reads is needed for the first
   adapter, W1's is not. */
static void import_adapters(cleave_arena *arena, const char *frozen, cleave_status expected,
                            cleave_model *model, cleave_error *error) {
    static const float values[36] = {0.5F}, scale = 2;
    bytes graph = {.n = 0};
    graph_input(&graph, "x", "8 6");
    initializer(&graph, "s", 0, NULL, 1, &scale, sizeof scale);
    initializer(&graph, "W1", 2, (int64_t[]){6, 6}, 1, values, 36 * 4);
    initializer(&graph, "A1", 2, (int64_t[]){6, 2}, 1, values, 12 * 4);
    initializer(&graph, "B1", 2, (int64_t[]){2, 6}, 1, values, 12 * 4);
    initializer(&graph, "W2", 2, (int64_t[]){6, 5}, 1, values, 30 * 4);
    initializer(&graph, "A2", 2, (int64_t[]){6, 2}, 1, values, 12 * 4);
    initializer(&graph, "B2", 2, (int64_t[]){2, 5}, 1, values, 10 * 4);
    node(&graph, "MatMul", "base1", "x W1", "base1", NULL);
    node(&graph, "MatMul", "down1", "x A1", "down1", NULL);
    node(&graph, "MatMul", "up1", "down1 B1", "up1", NULL);
    node(&graph, "Mul", "scaled1", "up1 s", "scaled1", NULL);
    node(&graph, "Add", "sum1", "base1 scaled1", "h", NULL);
    node(&graph, "MatMul", "base2", "h W2", "base2", NULL);
    node(&graph, "MatMul", "down2", "h A2", "down2", NULL);
    node(&graph, "MatMul", "up2", "down2 B2", "up2", NULL);
    node(&graph, "Mul", "scaled2", "up2 s", "scaled2", NULL);
    node(&graph, "Add", "sum2", "base2 scaled2", "y", NULL);
    graph_output(&graph, "y");
    bytes file = model_file(&graph, 15);
    cr_assert_eq(cleave_model_import_as(&(cleave_import_request){.file = "adapters",
                                                                 .data = file.data,
                                                                 .bytes = file.n,
                                                                 .with_loss = true,
                                                                 .frozen = frozen},
                                        arena, model, error),
                 expected, "%s", error->message);
}

Test(frozen, adapters_alone_are_trained) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    cleave_program program;
    import_adapters(&arena, "W*", CLEAVE_OK, &model, &error);
    lower(&model, &arena, &program);
    expect_bytes(&program, "W1", 36 * 4, false);
    expect_bytes(&program, "W2", 30 * 4, false);
    expect_bytes(&program, "A1", 12 * 4 * 3, true);
    expect_bytes(&program, "B2", 10 * 4 * 3, true);
    cr_expect_eq(count_computes(&program, "base1", true), 0);
    cr_expect_eq(count_computes(&program, "base2", true), 2); /* the input's gradient alone */
    cleave_arena_free(&arena);
}

Test(frozen, what_names_nothing_and_what_leaves_nothing_is_refused) {
    cleave_error error = {""};
    cleave_arena arena = {0};
    cleave_model model;
    import_adapters(&arena, "W1,V*", CLEAVE_BAD_INPUT, &model, &error);
    cr_expect_not_null(strstr(error.message, "\"V*\""), "%s", error.message);
    import_adapters(&arena, "*", CLEAVE_BAD_INPUT, &model, &error);
    cr_expect_not_null(strstr(error.message, "frozen"), "%s", error.message);
    cleave_arena_free(&arena);
}
