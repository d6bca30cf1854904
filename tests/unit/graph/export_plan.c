/* Plans: names of modules, and how tensors lie, of models that ship. */
#include "graph/export/moves.h"
#include "graph/export/plan.h"
#include "graph/import/import.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static cleave_arena arena;
static cleave_model model;
static cleave_layout layout;
static cleave_export_plan plan;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(export_plan, .fini = tear_down);

/* All operators are repeated on all devices. */
static void load(const char *file, int64_t batch, int32_t n_devices) {
    cleave_error error = {""};
    char path[256];
    snprintf(path, sizeof path, CLEAVE_SOURCE_DIR "/configs/models/%s", file);
    cr_assert_eq(cleave_model_import_as(
                     &(cleave_import_request){.file = path, .batch = batch, .with_loss = true},
                     &arena, &model, &error),
                 CLEAVE_OK, "%s", error.message);
    const int32_t degree[CLEAVE_MAX_AXES] = {0},
                  devices[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    cr_assert_eq(cleave_layout_create(&model, n_devices, &arena, &layout, NULL), CLEAVE_OK);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_assert_eq(cleave_layout_set(&layout, op, n_devices, degree, devices, &arena, NULL),
                     CLEAVE_OK);
}

static int axis(int32_t op, const char *name) {
    int a = 0;
    while (strcmp(model.operators[op].axes[a].name, name) != 0)
        cr_assert_lt(++a, model.operators[op].n_axes);
    return a;
}

/* Splits an operator along one axis over all devices. */
static int32_t split(const char *name, const char *along) {
    int32_t op = cleave_model_find_operator(&model, name), devices[16];
    cr_assert_geq(op, 0, "no operator %s", name);
    int32_t degree[CLEAVE_MAX_AXES] = {0};
    degree[axis(op, along)] = layout.n_devices;
    for (int32_t d = 0; d < layout.n_devices; d++)
        devices[d] = d;
    cr_assert_eq(cleave_layout_set(&layout, op, 1, degree, devices, &arena, NULL), CLEAVE_OK);
    return op;
}

static void make(cleave_target target) {
    cleave_error error = {""};
    cr_assert_eq(cleave_export_make(&model, &layout, target, &arena, &plan, &error), CLEAVE_OK,
                 "%s", error.message);
}

static const cleave_lost *find_lost(int32_t op, const char *what) {
    for (int32_t i = 0; i < plan.n_lost; i++)
        if (plan.lost[i].op == op && strcmp(plan.lost[i].what, what) == 0)
            return &plan.lost[i];
    return NULL;
}

static int stored(const char *parameter) {
    return plan.parameters[cleave_model_find_tensor(&model, parameter)].stored[0];
}

static const char *module_of(const char *op) {
    return plan.operators[cleave_model_find_operator(&model, op)].name.module;
}

Test(export_plan, modules_are_called_by_their_parameters_and_nodes) {
    load("alexnet.onnx", 8, 2);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_str_eq(module_of("/features/features.0/Conv"), "features.0");
    cr_expect_str_eq(module_of("/features/features.2/MaxPool"), "features.2");
    cr_expect_str_eq(module_of("/classifier/classifier.6/Gemm"), "classifier.6");
    cr_expect_eq(plan.operators[model.n_operators - 1].name.named, CLEAVE_NAMED_LOSS);
}

Test(export_plan, an_operator_of_a_config_is_its_module_though_its_weight_is_tied) {
    cleave_error error = {""};
    const cleave_import_request request = {.file = CLEAVE_SOURCE_DIR
                                           "/configs/models/llama_3_2_1b.json",
                                           .batch = 4,
                                           .sequence = 16,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK);
    cr_assert_eq(cleave_layout_create(&model, 2, &arena, &layout, NULL), CLEAVE_OK);
    int32_t head = split("lm_head", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_str_eq(module_of("model.embed_tokens"), "model.embed_tokens");
    cr_expect_str_eq(plan.operators[head].name.module, "lm_head");
    cr_expect_eq(plan.operators[head].name.named, CLEAVE_NAMED_MODULE);
    cr_expect_str_eq(module_of("model.layers.0.self_attn"), "model.layers.0.self_attn");
    /* The embedding has it whole, the head by rows: between steps it is whole. */
    cr_expect_eq(stored("model.embed_tokens.weight"), CLEAVE_FRAME_APART);
}

static void load_experts(void) {
    cleave_error error = {""};
    const cleave_import_request request = {.file =
                                               CLEAVE_SOURCE_DIR "/configs/models/olmoe_1b_7b.json",
                                           .batch = 4,
                                           .sequence = 16,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK);
    cr_assert_eq(cleave_layout_create(&model, 2, &arena, &layout, NULL), CLEAVE_OK);
}

static int degree_of(const char *name, const char *axis) {
    int32_t op = cleave_model_find_operator(&model, name);
    for (int a = 0; a < model.operators[op].n_axes; a++)
        if (strcmp(model.operators[op].axes[a].name, axis) == 0)
            return cleave_mesh_degree(&plan.mesh, &plan.operators[op].cut, a);
    return -1;
}

/* What routes, the router, and the experts, whose last product says how these are cut: by experts
   all that is between tokens and their results, of a table of 64 x 16 rows those of the experts. */
Test(export_plan, a_layer_of_experts_is_three_modules) {
    load_experts();
    split("model.layers.0.mlp.experts.down", "e");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_str_eq(module_of("model.layers.0.mlp.route"), "model.layers.0.mlp");
    cr_expect_str_eq(module_of("model.layers.0.mlp.gate"), "model.layers.0.mlp.gate");
    cr_expect_str_eq(module_of("model.layers.0.mlp.experts.down"), "model.layers.0.mlp.experts");
    cr_expect_eq(degree_of("model.layers.0.mlp.experts.gate", "e"), 2);
    cr_expect_eq(degree_of("model.layers.0.mlp.dispatch", "e"), 2);
    cr_expect_eq(degree_of("model.layers.0.mlp.collect", "v"), 2);
    cr_expect_eq(stored("model.layers.0.mlp.experts.gate_up_proj"), 0);
    cr_expect_eq(stored("model.layers.0.mlp.experts.down_proj"), 0);
    cr_expect_not_null(
        find_lost(cleave_model_find_operator(&model, "model.layers.0.mlp.collect"), "experts"));
}

/* Within experts a device has a block of the gate and one of what that lets through, which are no
   block of their parameter [64, 2 x 1024, 2048]: this is stored by experts. */
Test(export_plan, gate_and_up_in_one_are_exchanged) {
    load_experts();
    int32_t op = split("model.layers.0.mlp.experts.down", "f");
    make(CLEAVE_TARGET_TORCH);
    int32_t both = cleave_model_find_tensor(&model, "model.layers.0.mlp.experts.gate_up_proj");
    cr_expect_eq(plan.parameters[both].computed[0], cleave_frame_of_runs(1, 2));
    cr_expect_eq(plan.parameters[both].stored[0], 0);
    cr_expect_eq(stored("model.layers.0.mlp.experts.down_proj"), 2);
    cr_expect_not_null(find_lost(op, "f"));
}

/* JAX knows nothing of such layers. */
Test(export_plan, a_part_of_a_modules_forward_is_no_module) {
    load_experts();
    make(CLEAVE_TARGET_JAX);
    static const char *const parts[] = {"gate", "up", "down"};
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s", parts[i]);
        int32_t op = cleave_model_find_operator(&model, name);
        cr_assert_geq(op, 0, "%s", name);
        cr_expect_eq(plan.operators[op].name.named, CLEAVE_NAMED_UNKNOWN, "%s", name);
    }
}

/* Rows of a weight [out, in] are its columns k, and what is summed its columns c. */
Test(export_plan, weights_are_cut_as_the_file_has_them) {
    load("alexnet.onnx", 8, 4);
    split("/features/features.3/Conv", "k");
    split("/features/features.6/Conv", "c");
    split("/classifier/classifier.1/Gemm", "c"); /* 256 x 6 x 6 behind a flatten */
    split("/classifier/classifier.4/Gemm", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(stored("features.3.weight"), 0);
    cr_expect_eq(stored("features.3.bias"), 0);
    cr_expect_eq(stored("features.6.weight"), 1);
    cr_expect_eq(stored("features.6.bias"), CLEAVE_FRAME_APART);
    cr_expect_eq(stored("classifier.1.weight"), 1);
    cr_expect_eq(stored("classifier.4.weight"), 0);
}

Test(export_plan, rows_of_images_and_inner_parts_of_a_flatten_are_lost_and_repeated) {
    load("alexnet.onnx", 8, 2);
    int32_t conv = split("/features/features.3/Conv", "h");
    int32_t dense = split("/classifier/classifier.1/Gemm", "w");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_not_null(find_lost(conv, "h"));
    cr_expect_not_null(find_lost(dense, "w"));
    cr_expect_eq(plan.operators[conv].cut.axis[0], CLEAVE_MESH_REPEATS);
    cr_expect_eq(plan.operators[dense].cut.axis[0], CLEAVE_MESH_REPEATS);
}

/* On device 1 of 2, between operators on both: its weight is there alone; JAX repeats it. */
Test(export_plan, an_operator_on_one_device_is_on_it_alone_in_torch) {
    load("alexnet.onnx", 8, 2);
    for (int32_t op = 0; op < model.n_operators; op++)
        split(model.operators[op].name, "n");
    int32_t dense = cleave_model_find_operator(&model, "/classifier/classifier.4/Gemm");
    const int32_t degree[CLEAVE_MAX_AXES] = {0}, second = 1;
    cr_assert_eq(cleave_layout_set(&layout, dense, 1, degree, &second, &arena, NULL), CLEAVE_OK);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_lost, 0, "%s", plan.n_lost > 0 ? plan.lost[0].why : "");
    cr_expect_eq(plan.operators[dense].cut.axis[0], cleave_mesh_alone(1));
    cr_expect_eq(plan.operators[dense].then.axis[0], cleave_mesh_alone(1));
    cr_expect_eq(stored("classifier.4.weight"), cleave_mesh_alone(1));
    cleave_layout back;
    cr_assert_eq(cleave_export_read_back(&model, &layout, &plan, &arena, &back, NULL), CLEAVE_OK);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect(cleave_split_same(&back.splits[op], &layout.splits[op]), "%s",
                  model.operators[op].name);
    make(CLEAVE_TARGET_JAX);
    cr_expect_not_null(find_lost(dense, "devices"));
    cr_expect_eq(plan.operators[dense].cut.axis[0], CLEAVE_MESH_REPEATS);
}

/* 1000 classes over 16 devices: 62.5 each.  Torch cuts so, JAX does not. */
Test(export_plan, uneven_blocks_stay_in_torch_and_are_repeated_in_jax) {
    load("alexnet.onnx", 8, 16);
    int32_t last = split("/classifier/classifier.6/Gemm", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_not_null(find_lost(last, "k"));
    cr_expect_neq(plan.operators[last].cut.axis[0], CLEAVE_MESH_REPEATS);
    make(CLEAVE_TARGET_JAX);
    cr_expect_not_null(find_lost(last, "k"));
    cr_expect_eq(plan.operators[last].cut.axis[0], CLEAVE_MESH_REPEATS);
}

/* A normalization looks at all of its width. */
Test(export_plan, a_normalization_is_not_cut_along_its_width) {
    load("byte_gpt.onnx", 8, 2);
    int32_t norm = split("/norm/LayerNormalization", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_not_null(find_lost(norm, "k"));
    cr_expect_null(find_lost(norm, "devices"));
}

/* A sum of two is cut by samples: partial sums of the product before it are scattered so. */
Test(export_plan, outputs_go_to_how_functions_read_them) {
    load("byte_gpt.onnx", 8, 2);
    int32_t out = split("/block.0.attention.out/MatMul", "h");
    split("/byte/Gather", "n");
    int32_t sum = split("/block.0/residual_1/Add", "n");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[out].then.axis[0], axis(out, "b0"));
    cr_expect_eq(plan.operators[sum].cut.axis[0], axis(sum, "n"));
    cr_expect_null(find_lost(sum, "function"));
}

/* 96 x 3 x 11 x 11 ... the first dimension that is a multiple of the devices. */
/* A sum over c that is read whole and whose gradient is a sum, since the next is cut by k: the bias
   is added to shares if such are kept of it.  Where the next is repeated its gradient is whole, and
   would have to be gathered again. */
/* Of byte_gpt the loss reads [8 x 64, 256] of [8, 64, 256]: blocks of places are none of rows. */
Test(export_plan, logits_go_to_how_the_loss_reads_them) {
    load("byte_gpt.onnx", 8, 4);
    int32_t head = split("/head/MatMul", "m");
    split("@loss", "n");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[head].cut.axis[0], axis(head, "m"));
    cr_expect_eq(plan.operators[head].then.axis[0], axis(head, "b0"));
}

/* What top.0 reads are nine outputs side by side: blocks of their columns are none of its. */
Test(export_plan, parts_are_moved_before_they_are_put_together) {
    load("dlrm.onnx", 8, 4);
    int32_t bottom = split("/bot/bot.4/Gemm", "k");
    split("/top/top.0/Gemm", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[bottom].cut.axis[0], axis(bottom, "k"));
    cr_expect_eq(plan.operators[bottom].then.axis[0], CLEAVE_MESH_REPEATS);
}

/* 10 classes are no 4 equal blocks: what the loss has rounded up it takes itself. */
Test(export_plan, logits_stay_where_the_loss_has_uneven_blocks) {
    load("mlp.onnx", 8, 4);
    int32_t head = split("/4/Gemm", "n");
    split("@loss", "v");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[head].then.axis[0], axis(head, "n"));
}

Test(export_plan, sums_add_up_in_shares_where_such_are_kept_of_what_is_added) {
    load("alexnet.onnx", 8, 2);
    int32_t dense = split("/classifier/classifier.4/Gemm", "c");
    int32_t bias = cleave_model_find_tensor(&model, "classifier.4.bias");
    layout.sharded[bias] = CLEAVE_SHARDED_UPDATE;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[dense].then.axis[0], CLEAVE_MESH_REPEATS);
    split("/classifier/classifier.6/Gemm", "k");
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[dense].then.axis[0], axis(dense, "k"));
    cr_expect_eq(stored("classifier.4.bias"), 0);
    layout.sharded[bias] = CLEAVE_SHARDED_NOTHING;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.operators[dense].then.axis[0], CLEAVE_MESH_REPEATS);
}

Test(export_plan, a_sharded_update_is_cut_where_it_divides) {
    load("alexnet.onnx", 8, 2);
    layout.sharded[cleave_model_find_tensor(&model, "features.0.weight")] = CLEAVE_SHARDED_UPDATE;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(stored("features.0.weight"), 0);
    cr_expect_eq(stored("features.3.weight"), CLEAVE_FRAME_APART);
}

/* 1000 biases: 16 devices have 63 each, the last 55. */
Test(export_plan, shares_are_uneven_where_no_dimension_divides_but_not_in_jax) {
    load("alexnet.onnx", 8, 16);
    int32_t bias = cleave_model_find_tensor(&model, "classifier.6.bias");
    layout.sharded[bias] = CLEAVE_SHARDED_UPDATE;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_lost, 0);
    cr_expect_eq(plan.parameters[bias].stored[0], 0);
    make(CLEAVE_TARGET_JAX);
    cr_expect_eq(plan.n_lost, 1);
    cr_expect_eq(plan.parameters[bias].stored[0], CLEAVE_FRAME_APART);
}

/* By columns on the outer of 2 x 2 the inner cuts each half of the bias on, and the weight along
   its other dimension; on the inner the halves that are shared lie apart. */
Test(export_plan, what_is_cut_is_cut_on_by_inner_dimensions_of_the_mesh) {
    load("alexnet.onnx", 8, 4);
    int32_t dense = cleave_model_find_operator(&model, "/classifier/classifier.6/Gemm");
    int32_t bias = cleave_model_find_tensor(&model, "classifier.6.bias");
    int32_t weight = cleave_model_find_tensor(&model, "classifier.6.weight");
    int32_t degree[CLEAVE_MAX_AXES] = {0};
    degree[axis(dense, "k")] = 2;
    const int32_t outer[] = {0, 2, 1, 3}, inner[] = {0, 1, 2, 3};
    layout.sharded[bias] = layout.sharded[weight] = CLEAVE_SHARDED_UPDATE;
    cr_assert_eq(cleave_layout_set(&layout, dense, 2, degree, outer, &arena, NULL), CLEAVE_OK);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_lost, 0);
    cr_expect(plan.parameters[bias].stored[0] == 0 && plan.parameters[bias].stored[1] == 0);
    cr_expect(plan.parameters[weight].stored[0] == 0 && plan.parameters[weight].stored[1] == 1);
    cr_assert_eq(cleave_layout_set(&layout, dense, 2, degree, inner, &arena, NULL), CLEAVE_OK);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_lost, 1);
    cr_expect(plan.parameters[bias].stored[0] == CLEAVE_FRAME_APART);
}

/* Two stages on two groups of two devices, of two micro-batches; in each all operators are cut by
   samples, or repeated. */
static int32_t put_in_stages(const char *begins, bool first_cut, bool second_cut) {
    int32_t second = cleave_model_find_operator(&model, begins);
    cr_assert_geq(second, 0);
    for (int32_t op = 0; op < model.n_operators; op++) {
        int32_t first = op < second ? 0 : 2, devices[2] = {first, first + 1};
        bool cut = op < second ? first_cut : second_cut;
        int32_t degree[CLEAVE_MAX_AXES] = {0};
        degree[0] = cut ? 2 : 1; /* the outermost axis is n */
        cr_assert_eq(cleave_layout_set(&layout, op, cut ? 1 : 2, degree, devices, &arena, NULL),
                     CLEAVE_OK);
    }
    layout.schedule.micro_batches = layout.schedule.n_stages = 2;
    layout.schedule.first_operator = CLEAVE_ARENA_ARRAY(&arena, int32_t, 2);
    layout.schedule.first_operator[1] = second;
    return second;
}

Test(export_plan, stages_of_several_devices_have_a_mesh_each) {
    load("alexnet.onnx", 8, 4);
    int32_t second = put_in_stages("/classifier/classifier.1/Gemm", true, true);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_lost, 0, "%s", plan.n_lost > 0 ? plan.lost[0].why : "");
    cr_expect(plan.n_groups == 2 && plan.mesh.n == 1 && plan.mesh.size[0] == 2);
    cr_expect_str_eq(plan.begins[1], "classifier.1");
    cr_expect_eq(plan.given[1].axis[0], axis(second, "n"), "every rank's block goes to its peer");
    cleave_layout back;
    cr_assert_eq(cleave_export_read_back(&model, &layout, &plan, &arena, &back, NULL), CLEAVE_OK);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect(cleave_split_same(&back.splits[op], &layout.splits[op]));
}

Test(export_plan, what_is_whole_is_cut_before_it_goes_to_a_stage_that_wants_blocks) {
    load("alexnet.onnx", 8, 4);
    int32_t second = put_in_stages("/classifier/classifier.1/Gemm", false, true);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.given[1].axis[0], axis(second, "n"));
    put_in_stages("/classifier/classifier.1/Gemm", true, false);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.given[1].axis[0], axis(second, "n"), "what lies in blocks goes in blocks");
    put_in_stages("/classifier/classifier.1/Gemm", false, false);
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.given[1].axis[0], CLEAVE_MESH_REPEATS);
}

Test(export_plan, groups_that_are_no_runs_of_devices_are_lost) {
    load("alexnet.onnx", 8, 4);
    put_in_stages("/classifier/classifier.1/Gemm", true, true);
    for (int32_t op = 0; op < model.n_operators; op++)
        for (int p = 0; p < 2; p++) /* 0 and 2, 1 and 3 */
            layout.splits[op].devices[p] = (int32_t[]){0, 2, 1, 3}[layout.splits[op].devices[p]];
    make(CLEAVE_TARGET_TORCH);
    cr_expect_not_null(find_lost(-1, "schedule"));
    cr_expect_eq(plan.schedule.n_stages, 1);
}

static bool can_begin(const cleave_sayable *sayable, const char *op) {
    return sayable[cleave_model_find_operator(&model, op)].begins;
}

Test(export_plan, a_stage_begins_where_its_module_is_given_all_that_goes_on) {
    cleave_sayable *sayable;
    load("byte_gpt.onnx", 8, 4);
    cr_assert_eq(cleave_sayable_find(&model, CLEAVE_TARGET_TORCH, &arena, &sayable, NULL),
                 CLEAVE_OK);
    cr_expect(can_begin(sayable, "/block.1.norm_1/LayerNormalization"));
    cr_expect(can_begin(sayable, "/block.0/residual_1/Add"), "with the norm behind it");
    cr_expect_not(can_begin(sayable, "/block.1.attention.query/MatMul"), "the residual goes on");
    cr_expect_not(can_begin(sayable, "/block.1.up/MatMul"), "the residual goes on");
    cr_expect_not(sayable[model.n_operators - 1].begins, "the loss is no module");
}

Test(export_plan, with_modules_that_run_again_there_is_no_zero_bubble) {
    load("byte_gpt.onnx", 8, 4);
    put_in_stages("/block.1.norm_1/LayerNormalization", true, true);
    layout.schedule.kind = CLEAVE_SCHEDULE_ZB_H1;
    make(CLEAVE_TARGET_TORCH);
    cr_expect(plan.schedule.kind == CLEAVE_SCHEDULE_ZB_H1 && plan.n_again == 0);
    int32_t last = cleave_model_find_operator(&model, "/block.0/residual_2/Add");
    for (int32_t op = 0; op < last; op++)
        layout.recompute[op] = strncmp(model.operators[op].name, "/block.0", 8) == 0;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_again, 1);
    cr_expect_eq(plan.schedule.kind, CLEAVE_SCHEDULE_1F1B);
    cr_expect_not_null(find_lost(-1, "order"));
}

Test(export_plan, of_stages_by_turns_there_is_no_zero_bubble) {
    load("byte_gpt.onnx", 8, 4);
    put_in_stages("/block.1.norm_1/LayerNormalization", true, true);
    layout.schedule.kind = CLEAVE_SCHEDULE_ZB_INTERLEAVED;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.schedule.kind, CLEAVE_SCHEDULE_1F1B, "one stage a group");
    cr_expect_not_null(find_lost(-1, "order"));
}

Test(export_plan, what_hangs_on_no_earlier_stage_and_is_read_again_has_no_zero_bubble) {
    cleave_error error = {""};
    const cleave_import_request request = {.file = CLEAVE_SOURCE_DIR
                                           "/configs/models/t5_v1_1_small.json",
                                           .batch = 4,
                                           .sequence = 16,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, &arena, &model, &error), CLEAVE_OK, "%s",
                 error.message);
    cr_assert_eq(cleave_layout_create(&model, 4, &arena, &layout, NULL), CLEAVE_OK);
    put_in_stages("encoder.final_layer_norm", true, true);
    layout.schedule.kind = CLEAVE_SCHEDULE_ZB_H1;
    make(CLEAVE_TARGET_TORCH);
    cr_expect_eq(plan.n_groups, 2);
    cr_expect_eq(plan.schedule.kind, CLEAVE_SCHEDULE_1F1B);
    int32_t again = cleave_model_find_operator(&model, "decoder.block.0.layer.0.SelfAttention.k");
    cr_expect_not_null(find_lost(again, "order"), "it reads what queries are made of");
}

static double count_moves(void) {
    double bytes = -1;
    make(CLEAVE_TARGET_TORCH);
    cr_assert_eq(cleave_export_move_bytes(&model, &plan, &bytes, NULL), CLEAVE_OK);
    return bytes;
}

/* Of 2 devices each sends 2 x 1/2 of the gradients of all parameters. */
Test(export_plan, with_split_samples_gradients_of_parameters_are_moved_and_nothing_else) {
    int64_t parameters = 0;
    load("mlp.onnx", 8, 2);
    for (int32_t op = 0; op < model.n_operators; op++)
        split(model.operators[op].name, "n");
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            parameters += cleave_tensor_size(&model.tensors[t]);
    cr_expect_eq(count_moves(), 2 * 4 * (double)parameters);
}

/* The first product by its columns, the second by what it sums: of its output, 8 rows, the sum is
   moved, and nothing on the way back, nor of the bias, which is added to whole sums. */
Test(export_plan, of_two_products_that_share_a_split_one_sum_is_moved) {
    load("mlp.onnx", 8, 2);
    split("/0/Gemm", "k");
    int32_t second = split("/2/Gemm", "c");
    int64_t width = model.operators[second].axes[axis(second, "k")].extent;
    cr_expect_eq(count_moves(), 2 * 4 * 8 * (double)width);
}
