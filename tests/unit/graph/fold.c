/* What a fold finds, and what it refuses, on a network of products small enough to say by hand. */
#include "graph/model/fold.h"
#include "../../support/shipped.h"
#include "graph/lower/fragment.h"

#include <criterion/criterion.h>
#include <string.h>

enum { DEVICES = 8, NODE = 2 };

typedef struct subject {
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_fold fold;
    cleave_error error;
} subject;

/* All operators: samples over all devices, in order. */
static void begin(subject *s, int64_t batch) {
    int32_t devices[DEVICES];
    *s = (subject){0};
    for (int32_t d = 0; d < DEVICES; d++)
        devices[d] = d;
    cr_assert_eq(shipped_model("mlp", batch, &s->arena, &s->model, &s->error), CLEAVE_OK, "%s",
                 s->error.message);
    cleave_layout_create(&s->model, DEVICES, &s->arena, &s->layout, &s->error);
    for (int32_t op = 0; op < s->model.n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {DEVICES}; /* axis n comes first */
        cr_assert_str_eq(s->model.operators[op].axes[0].name, "n");
        cleave_layout_set(&s->layout, op, 1, degree, devices, &s->arena, &s->error);
    }
}

static cleave_status find(subject *s) {
    return cleave_fold_find(&s->model, &s->layout, NODE, &s->arena, &s->fold, &s->error);
}

static void expect_refused(subject *s, const char *why) {
    cr_assert_eq(find(s), CLEAVE_NO_LAYOUT);
    cr_assert_not_null(strstr(s->error.message, why), "%s", s->error.message);
    cleave_arena_free(&s->arena);
}

/* Weights are whole everywhere; every activation has its samples first; the loss is one number. */
Test(fold, shares_out_samples_and_repeats_parameters) {
    subject s;
    begin(&s, 16);
    cr_assert_eq(find(&s), CLEAVE_OK, "%s", s.error.message);
    cr_assert_eq(s.fold.n_devices, NODE);
    cr_assert_eq(s.fold.n_windows, DEVICES / NODE);
    for (int32_t op = 0; op < s.model.n_operators; op++)
        cr_assert_eq(s.fold.window.splits[op].n_parts, NODE);
    for (int32_t t = 0; t < s.model.n_tensors; t++) {
        const cleave_tensor *tensor = &s.model.tensors[t];
        int dimension = s.fold.sharing.tensor_dimension[t];
        if (tensor->kind == CLEAVE_TENSOR_PARAMETER || t == s.model.loss)
            cr_assert_eq(dimension, CLEAVE_REPEATED, "%s", tensor->name);
        else if (tensor->kind == CLEAVE_TENSOR_ACTIVATION && tensor->view.kind == CLEAVE_VIEW_NONE)
            cr_assert_eq(dimension, 0, "%s", tensor->name);
    }
    cleave_arena_free(&s.arena);
}

/* 8 = 4 x 2: parameters cut in two, inside a node, change nothing; cut in four, a window has two
   nodes. */
Test(fold, windows_hold_all_inner_degrees) {
    for (int32_t inner = 2; inner <= 4; inner *= 2) {
        subject s;
        begin(&s, 16);
        cleave_split *split = &s.layout.splits[0];
        split->degree[0] = DEVICES / inner;
        split->degree[1] = inner;
        cr_assert_eq(find(&s), CLEAVE_OK, "%s", s.error.message);
        cr_assert_eq(s.fold.n_devices, inner);
        cleave_arena_free(&s.arena);
    }
}

Test(fold, refuses_what_windows_do_otherwise) {
    subject s;
    begin(&s, 20); /* 20 samples of 8: blocks of 3 and 2 */
    expect_refused(&s, "are not equal");
    begin(&s, 16);
    s.layout.splits[1].devices[0] = 1;
    s.layout.splits[1].devices[1] = 0;
    expect_refused(&s, "not in order: part 0 is on 1");
    begin(&s, 16);
    s.layout.splits[1].n_parts = s.layout.splits[1].degree[0] = 4;
    expect_refused(&s, "is on 4 of 8 devices");
    begin(&s, 16); /* outputs cut instead of samples: all samples are read everywhere */
    s.layout.splits[0].degree[0] = 1;
    s.layout.splits[0].degree[1] = DEVICES;
    expect_refused(&s, "in one place, and not in another");
    begin(&s, 16);
    s.layout.collectives.node_devices = 3;
    expect_refused(&s, "3 devices for a node");
}

static void hash_boxes(subject *s, int32_t tensor, uint64_t hash[2]) {
    const cleave_lower_options options = {.training = true, .symbolic_collectives = true};
    cleave_lowerer *lowerer;
    cr_assert_eq(find(s), CLEAVE_OK, "%s", s->error.message);
    cr_assert_eq(s->fold.n_devices, NODE);
    cr_assert_eq(cleave_lowerer_create(&s->model, &s->fold.window, &options, &lowerer, &s->error),
                 CLEAVE_OK, "%s", s->error.message);
    cleave_lowerer_set_fold(lowerer, &s->fold);
    cleave_lowerer_boxes(lowerer, cleave_lowerer_family_of(lowerer, tensor), hash);
    cleave_lowerer_destroy(lowerer);
}

/* Two parts of a window read a whole weight.  Either each window has samples of its own, and its
   gradient is a sum over all of them; or all have the same, and it is known in each: in the boxes
   of a window there is no difference. */
Test(fold, what_families_do_depends_on_what_windows_have_in_common) {
    subject shared, repeated;
    int32_t devices[DEVICES], weight = 0;
    uint64_t of_shared[2], again[2], of_repeated[2];
    begin(&shared, 16);
    begin(&repeated, 16);
    while (shared.model.tensors[weight].kind != CLEAVE_TENSOR_PARAMETER)
        weight++;
    for (int32_t d = 0; d < DEVICES; d++)
        devices[d] = d;
    for (int32_t op = 0; op < repeated.model.n_operators; op++) {
        int32_t degree[CLEAVE_MAX_AXES] = {NODE};
        cleave_layout_set(&repeated.layout, op, DEVICES / NODE, degree, devices, &repeated.arena,
                          &repeated.error);
    }
    hash_boxes(&shared, weight, of_shared);
    hash_boxes(&shared, weight, again);
    hash_boxes(&repeated, weight, of_repeated);
    cr_expect(of_shared[0] == again[0] && of_shared[1] == again[1]);
    cr_expect(of_shared[0] != of_repeated[0] && of_shared[1] != of_repeated[1]);
    cleave_arena_free(&shared.arena);
    cleave_arena_free(&repeated.arena);
}
