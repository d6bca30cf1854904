/* A model as it is used once it was trained has the operators of the one that is trained. */
#include "../../support/ok.h"
#include "imported.h"

static void read_as(const char *path, bool evaluates, cleave_model *made) {
    char full[4096];
    snprintf(full, sizeof full, "%s/%s", CLEAVE_SOURCE_DIR, path);
    const cleave_import_request request = {
        .file = full, .batch = 4, .with_loss = true, .evaluates = evaluates};
    OK(cleave_model_import_as, &request, &arena, made);
}

static int count_dropouts(const cleave_model *of) {
    int n = 0;
    for (int32_t i = 0; i < of->n_nests; i++)
        for (int k = 0; k < of->nests[i].n_instructions; k++)
            n += of->nests[i].tape[k].opcode == CLEAVE_OP_DROPOUT && of->nests[i].tape[k].p > 0;
    return n;
}

static void expect_same_operators(const cleave_model *a, const cleave_model *b) {
    cr_assert_eq(a->n_operators, b->n_operators);
    for (int32_t op = 0; op < a->n_operators; op++) {
        cr_assert_str_eq(a->operators[op].name, b->operators[op].name);
        cr_assert_eq(a->operators[op].n_axes, b->operators[op].n_axes);
    }
}

Test(import_evaluated, nothing_is_dropped, .fini = tear_down) {
    cleave_model trained, evaluated;
    read_as("configs/models/alexnet.onnx", false, &trained);
    read_as("configs/models/alexnet.onnx", true, &evaluated);
    expect_same_operators(&trained, &evaluated);
    cr_assert_eq(count_dropouts(&trained), 2);
    cr_assert_eq(count_dropouts(&evaluated), 0);
}

Test(import_evaluated, batches_are_normalised_by_running_statistics_which_stay, .fini = tear_down) {
    cleave_model trained, evaluated;
    read_as("configs/models/resnet50.onnx", false, &trained);
    read_as("configs/models/resnet50.onnx", true, &evaluated);
    expect_same_operators(&trained, &evaluated);
    cr_assert_eq(trained.n_assignments, 2 * 53); /* mean and variance of 53 normalisations */
    cr_assert_eq(evaluated.n_assignments, 0);
    for (int32_t i = 0; i < evaluated.n_nests; i++)
        cr_assert_neq(evaluated.nests[i].combiner, CLEAVE_COMBINE_MOMENTS);
}
