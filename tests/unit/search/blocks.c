/* Repeated blocks: what is found in the models that ship, and that a model which is made shorter is
   the one that has fewer layers. */
#include "search/problem/blocks.h"
#include "../../support/deep_transformer.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cleave_arena arena;
static cleave_error error;

static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(blocks, .fini = tear_down);

static cleave_model import(const char *name) {
    cleave_model model;
    OK(shipped_model, name, 8, &arena, &model);
    return model;
}

static cleave_model make_deep(int layers) {
    const deep_transformer shape = {layers, 64, 4, 16, 100};
    cleave_model model;
    OK(deep_transformer_import, &shape, 8, &arena, &model);
    return model;
}

static cleave_blocks find(const cleave_model *model) {
    int32_t *class_of;
    OK(cleave_operator_classes, model, false, &arena, &class_of);
    return cleave_blocks_find(model, class_of);
}

static cleave_model shorten(const cleave_model *model, int32_t keep, int32_t **stands_for) {
    cleave_model shorter;
    cleave_blocks found = find(model);
    *stands_for = CLEAVE_ARENA_ARRAY(&arena, int32_t, model->n_operators);
    OK(cleave_blocks_shorten, model, &found, keep, &arena, &shorter, *stands_for);
    return shorter;
}

/* BERT-base has 12 layers of 11 operators, GPT-2 12 of 9, the third stage of ResNet-101 23 blocks
   of which the first is another one. */
Test(blocks, are_found_in_models_that_ship) {
    static const struct {
        const char *name;
        int32_t n, period;
    } models[] = {{"bert_base", 12, 11}, {"gpt2_small", 12, 9}, {"mlp", 0, 0}, {"lenet5", 0, 0}};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        cleave_model model = import(models[m].name);
        cleave_blocks found = find(&model);
        cr_expect_eq(found.n, models[m].n, "%s: %d blocks", models[m].name, found.n);
        cr_expect_eq(found.period, models[m].period, "%s: of %d", models[m].name, found.period);
    }
    cleave_model resnet = import("resnet101");
    cleave_blocks found = find(&resnet);
    cr_expect_geq(found.n, 21, "%d blocks of %d", found.n, found.period);
}

/* Is a tensor of one model that of the other: of the same shape, and always the same one?  `twin`
   is [n_tensors of a] -1: not met. */
static void expect_twins(const cleave_model *a, const cleave_model *b, int32_t x, int32_t y,
                         int32_t *twin) {
    const cleave_tensor *p = &a->tensors[x], *q = &b->tensors[y];
    if (twin[x] < 0)
        twin[x] = y;
    cr_assert_eq(twin[x], y, "%s, %s", p->name, q->name);
    cr_assert_eq(p->kind, q->kind);
    cr_assert_eq(p->rank, q->rank);
    cr_assert_arr_eq(p->shape, q->shape, sizeof p->shape, "%s, %s", p->name, q->name);
    cr_assert_eq(p->view.kind, q->view.kind);
    for (int32_t i = 0; p->view.kind != CLEAVE_VIEW_NONE && i < p->view.n_sources; i++)
        expect_twins(a, b, p->view.sources[i], q->view.sources[i], twin);
}

/* The same nests of the same tensors, but for names. */
static void expect_same(const cleave_model *a, const cleave_model *b) {
    int32_t *twin = CLEAVE_ARENA_ARRAY(&arena, int32_t, a->n_tensors);
    for (int32_t t = 0; t < a->n_tensors; t++)
        twin[t] = -1;
    cr_assert_eq(a->n_operators, b->n_operators);
    cr_assert_eq(a->n_nests, b->n_nests);
    cr_assert_eq(a->n_tensors, b->n_tensors);
    cr_assert_eq(cleave_model_parameter_count(a), cleave_model_parameter_count(b));
    for (int32_t n = 0; n < a->n_nests; n++) {
        const cleave_nest *x = &a->nests[n], *y = &b->nests[n];
        cr_assert_eq(x->op, y->op);
        cr_assert_eq(x->kind, y->kind);
        cr_assert_eq(x->n_inputs, y->n_inputs, "%s", x->name);
        for (int i = 0; i < x->n_inputs; i++)
            expect_twins(a, b, x->inputs[i].tensor, y->inputs[i].tensor, twin);
        expect_twins(a, b, x->output.tensor, y->output.tensor, twin);
    }
    expect_twins(a, b, a->loss, b->loss, twin);
}

/* Of 9 layers without n of them the model of 9 - n layers is left.  The first layer is not a block,
   since nothing before it needs a gradient. */
Test(blocks, left_out_leave_the_model_of_fewer_layers) {
    cleave_model nine = make_deep(9);
    for (int32_t keep = 2; keep <= 5; keep++) {
        int32_t *stands_for, n = find(&nine).n;
        cr_assert_eq(n, 8);
        cleave_model few = make_deep(9 - (n - keep)), shorter = shorten(&nine, keep, &stands_for);
        expect_same(&shorter, &few);
    }
}

static const char *place_of(const cleave_operator *op) {
    const char *dot = strchr(op->name, '.');
    return dot != NULL ? dot : op->name;
}

/* Operators that are left stand for themselves, all others for one of the same place in a layer. */
Test(blocks, tell_which_operator_stands_for_which) {
    cleave_model nine = make_deep(9);
    int32_t *stands_for;
    cleave_model shorter = shorten(&nine, 3, &stands_for);
    for (int32_t op = 0; op < nine.n_operators; op++) {
        const char *name = nine.operators[op].name;
        cr_assert(stands_for[op] >= 0 && stands_for[op] < shorter.n_operators);
        const cleave_operator *other = &shorter.operators[stands_for[op]];
        cr_expect_str_eq(place_of(other), place_of(&nine.operators[op]));
        if (cleave_model_find_operator(&shorter, name) >= 0)
            cr_expect_str_eq(other->name, name);
    }
}

/* Blocks are left out, or it is said why not: steps of a recurrence are all read by what follows.
   No model is made that does not check. */
Test(blocks, shorten_every_model_that_ships_or_say_why_not) {
    static const char *const names[] = {"bert_base", "gpt2_small",   "resnet50",
                                        "resnet101", "inception_v3", "nmt",
                                        "rnntc",     "byte_gpt",     "dlrm"};
    int shortened = 0;
    for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
        cleave_model model = import(names[m]), shorter;
        cleave_blocks found = find(&model);
        int32_t *stands_for = CLEAVE_ARENA_ARRAY(&arena, int32_t, model.n_operators);
        if (found.n == 0)
            continue;
        cleave_status status =
            cleave_blocks_shorten(&model, &found, 2, &arena, &shorter, stands_for, &error);
        cr_assert(status == CLEAVE_OK || status == CLEAVE_NO_LAYOUT, "%s: %s", names[m],
                  error.message);
        if (status == CLEAVE_OK) {
            OK(cleave_model_check, &shorter);
            cr_expect_eq(shorter.n_operators, model.n_operators - (found.n - 2) * found.period);
            shortened++;
        }
        printf("%s: %d blocks of %d%s%s\n", names[m], found.n, found.period,
               status == CLEAVE_OK ? "" : ": ", status == CLEAVE_OK ? "" : error.message);
    }
    cr_expect_geq(shortened, 3);
}
