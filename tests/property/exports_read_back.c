/* What is read back of a plan is a layout that the target says as it is: nothing more is lost, and
   it is read back the same.  On layouts drawn at random, of models of all sorts, and in two stages
   wherever the target says that one can begin. */
#include "../support/draws.h"
#include "graph/export/plan.h"
#include "graph/import/import.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { N_LAYOUTS = 60 };

static const struct {
    const char *file;
    int32_t n_devices;
} models[] = {{"alexnet.onnx", 8}, {"resnet50.onnx", 4}, {"byte_gpt.onnx", 8},   {"dlrm.onnx", 6},
              {"lenet5.onnx", 12}, {"nmt.onnx", 4},      {"olmoe_1b_7b.json", 8}};

static void import(const char *file, cleave_arena *arena, cleave_model *model) {
    char path[256];
    snprintf(path, sizeof path, CLEAVE_SOURCE_DIR "/configs/models/%s", file);
    const cleave_import_request request = {.file = path,
                                           .batch = 24,
                                           .sequence = strstr(file, ".json") != NULL ? 16 : 0,
                                           .with_loss = true};
    cr_assert_eq(cleave_model_import_as(&request, arena, model, NULL), CLEAVE_OK);
}

/* Every dimension of the mesh takes an axis that has as many elements, or repeats, or is left to
   one device. */
static cleave_mesh_cut draw_cut(const cleave_operator *op, const cleave_mesh *mesh, bool narrow,
                                cleave_random *random) {
    cleave_mesh_cut cut;
    for (int i = 0; i < CLEAVE_MAX_MESH; i++)
        cut.axis[i] = CLEAVE_MESH_REPEATS;
    for (int i = 0; i < mesh->n; i++) {
        int8_t a = (int8_t)(cleave_random_below(random, op->n_axes + 1) - 1);
        cut.axis[i] = a;
        if (a >= 0 && (op->axes[a].whole || cleave_mesh_degree(mesh, &cut, a) > op->axes[a].extent))
            cut.axis[i] = CLEAVE_MESH_REPEATS;
        if (narrow && cleave_random_below(random, 4) == 0)
            cut.axis[i] = cleave_mesh_alone((int32_t)cleave_random_below(random, mesh->size[i]));
    }
    return cut;
}

/* Most operators on a grid, the others as cleave_layout_random has them, which shards updates, too.
 */
static void draw_layout(const cleave_model *model, int32_t n_devices, uint64_t seed,
                        cleave_arena *arena, cleave_layout *layout) {
    cleave_random random = {.key = seed};
    cleave_mesh mesh;
    cleave_mesh_of_primes(n_devices, &mesh);
    cr_assert_eq(cleave_layout_random(model, n_devices, seed, arena, layout, NULL), CLEAVE_OK);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_mesh_cut cut = draw_cut(&model->operators[op], &mesh, seed % 4 == 0, &random);
        if (cleave_random_below(&random, 8) > 0)
            cr_assert_eq(cleave_mesh_split(&mesh, &cut, arena, &layout->splits[op], NULL),
                         CLEAVE_OK);
    }
}

typedef cleave_status make_function(const cleave_model *, const cleave_layout *, cleave_target,
                                    cleave_arena *, cleave_export_plan *, cleave_error *);

static void make(const cleave_model *model, const cleave_layout *layout, cleave_target target,
                 make_function *how, cleave_arena *arena, cleave_export_plan *plan,
                 cleave_layout *back) {
    cleave_error error = {""};
    cr_assert_eq(how(model, layout, target, arena, plan, &error), CLEAVE_OK, "%s", error.message);
    cr_assert_eq(cleave_export_read_back(model, layout, plan, arena, back, &error), CLEAVE_OK, "%s",
                 error.message);
}

static int check(const cleave_model *model, const cleave_layout *drawn, cleave_target target,
                 cleave_arena *arena) {
    cleave_export_plan first, second;
    cleave_layout back, again;
    int n_cut = 0;
    make(model, drawn, target, cleave_export_make_exact, arena, &first, &back);
    make(model, &back, target, cleave_export_make, arena, &second, &again);
    cr_expect_eq(second.n_lost, 0, "%s: lost of %s: %s", model->file,
                 second.lost[0].op >= 0 ? model->operators[second.lost[0].op].name : "all",
                 second.lost[0].why);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cr_expect(cleave_split_same(&back.splits[op], &again.splits[op]), "%s", model->file);
        if (!cleave_target_narrows[target] || first.n_groups > 1)
            cr_expect_eq(back.splits[op].n_parts, drawn->n_devices / first.n_groups);
        n_cut += back.splits[op].replicas < back.splits[op].n_parts;
    }
    cr_expect_arr_eq(back.sharded, again.sharded, (size_t)model->n_tensors);
    return n_cut;
}

Test(exports, what_is_read_back_is_exported_as_it_is) {
    int n_cut = 0;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        cleave_arena arena = {0}, scratch = {0};
        cleave_model model;
        import(models[m].file, &arena, &model);
        for (uint64_t seed = seed_from(0); seed < seed_end(N_LAYOUTS); seed++) {
            cleave_layout drawn;
            draw_layout(&model, models[m].n_devices, seed, &scratch, &drawn);
            n_cut += check(&model, &drawn, (cleave_target)(seed % CLEAVE_N_TARGETS), &scratch);
            cleave_arena_reset(&scratch);
        }
        cleave_arena_free(&scratch);
        cleave_arena_free(&arena);
    }
    cr_expect_gt(n_cut, 5000);
}

/* The second stage begins with this operator; each is on half of the devices. */
static void draw_stages(const cleave_model *model, int32_t n_devices, int32_t begins,
                        cleave_arena *arena, cleave_layout *layout) {
    cleave_random random = {.key = (uint64_t)begins};
    cleave_mesh mesh;
    cleave_mesh_of_primes(n_devices / 2, &mesh);
    cr_assert_eq(cleave_layout_create(model, n_devices, arena, layout, NULL), CLEAVE_OK);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_mesh_cut cut = draw_cut(&model->operators[op], &mesh, false, &random);
        cleave_split *split = &layout->splits[op];
        cr_assert_eq(cleave_mesh_split(&mesh, &cut, arena, split, NULL), CLEAVE_OK);
        for (int32_t p = 0; p < split->n_parts && op >= begins; p++)
            split->devices[p] += n_devices / 2;
    }
    layout->schedule.n_stages = 2;
    layout->schedule.first_operator = CLEAVE_ARENA_ARRAY(arena, int32_t, 2);
    layout->schedule.first_operator[1] = begins;
}

Test(exports, a_stage_is_said_just_where_it_is_sayable_and_read_back_as_it_is) {
    int32_t n_said = 0, n_not = 0, n_cut = 0;
    for (size_t m = 0; m < sizeof models / sizeof models[0]; m++) {
        cleave_arena arena = {0}, scratch = {0};
        cleave_model model;
        cleave_sayable *sayable;
        import(models[m].file, &arena, &model);
        cr_assert_eq(cleave_sayable_find(&model, CLEAVE_TARGET_TORCH, &arena, &sayable, NULL),
                     CLEAVE_OK);
        for (int32_t op = 1; op < model.n_operators; op += 1 + model.n_operators / 60) {
            cleave_export_plan plan;
            cleave_layout drawn;
            draw_stages(&model, models[m].n_devices, op, &scratch, &drawn);
            cr_assert_eq(
                cleave_export_make(&model, &drawn, CLEAVE_TARGET_TORCH, &scratch, &plan, NULL),
                CLEAVE_OK);
            cr_expect_eq(plan.n_groups == 2, sayable[op].begins, "%s: %s", model.file,
                         model.operators[op].name);
            if (plan.n_groups == 2)
                n_cut += check(&model, &drawn, CLEAVE_TARGET_TORCH, &scratch);
            n_said += plan.n_groups == 2;
            n_not += plan.n_groups == 1;
            cleave_arena_reset(&scratch);
        }
        cleave_arena_free(&scratch);
        cleave_arena_free(&arena);
    }
    cr_expect(n_said > 20 && n_not > 20 && n_cut > 200, "%d, %d, %d", n_said, n_not, n_cut);
}
