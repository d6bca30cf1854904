/* What calibration measures, in which order, and which surroundings it gives to a kernel. */
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "cli/calibrate/bytes.h"
#include "cli/calibrate/works.h"
#include "search/search.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static calibrate_work work_of(const char *key, bool wanted, double seconds) {
    calibrate_work work = {.wanted = wanted, .expected_seconds = seconds};
    snprintf(work.work.key, sizeof work.work.key, "%s", key);
    return work;
}

/* "often" takes 4 x 2 s of the layouts that do it, "long" 7 s once; that a candidate does "often",
   too, says nothing. */
Test(calibrate_works, what_a_step_spends_most_time_on_comes_first) {
    const calibrate_work all[] = {work_of("candidate", false, 100), work_of("often", true, 2),
                                  work_of("long", true, 7),         work_of("often", true, 2),
                                  work_of("often", false, 50),      work_of("often", true, 2),
                                  work_of("short", true, 1),        work_of("often", true, 2)};
    const char *const expected[] = {"often", "long", "short", "candidate"};
    calibrate_works works = {0};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cr_assert(CLEAVE_LIST_PUSH(&works, all[i]));
    calibrate_works_order(&works);
    cr_assert_eq(works.n, 4);
    for (int i = 0; i < 4; i++)
        cr_expect_str_eq(works.items[i].work.key, expected[i]);
    cr_expect_eq(works.items[0].expected_seconds, 8);
    CLEAVE_LIST_FREE(&works);
}

/* Each piece of work once; the first ones are the largest of every family, so that none is without
   a price, and the memory's rate among them. */
Test(calibrate_works, every_family_of_bytes_begins_with_its_largest) {
    calibrate_byte_works works;
    calibrate_byte_works_list(&works);
    cleave_work first, other;
    int32_t n_for_memory = 0;
    for (int32_t i = 0; i < works.n; i++) {
        calibrate_byte_work_describe(&works.items[i], &other);
        cr_expect(calibrate_is_byte_family(other.family), "%s", other.family);
        n_for_memory += works.items[i].stands_for_memory && i < works.n_first;
        bool has_larger = i < works.n_first;
        for (int32_t f = 0; f < works.n; f++) {
            calibrate_byte_work_describe(&works.items[f], &first);
            cr_expect(f == i || strcmp(first.key, other.key) != 0, "%s twice", other.key);
            has_larger =
                has_larger || (f < works.n_first && strcmp(first.family, other.family) == 0 &&
                               first.bytes > other.bytes);
        }
        cr_expect(has_larger, "%s", other.key);
    }
    cr_expect_eq(n_for_memory, 1);
    cr_expect(!calibrate_is_byte_family("product forward"));
}

/* Of what the same key stands for the mean counts, of wanted work alone. */
Test(calibrate_works, surroundings_of_the_same_work_are_averaged) {
    calibrate_works works = {0};
    for (int i = 0; i < 3; i++) {
        calibrate_work work = work_of("same", i < 2, 1);
        work.reuse.bytes[CLEAVE_REUSE_OUTPUT] = 100 << i;
        cr_assert(CLEAVE_LIST_PUSH(&works, work));
    }
    calibrate_works_order(&works);
    cr_assert_eq(works.n, 1);
    cr_expect_eq(works.items[0].reuse.bytes[CLEAVE_REUSE_OUTPUT], 150);
    CLEAVE_LIST_FREE(&works);
}

/* How far a layout leaves the weights from their forward passes, all together. */
static double sum_of_weights(const calibrate_works *works) {
    double sum = 0;
    for (int32_t w = 0; w < works->n; w++) {
        const calibrate_work *work = &works->items[w];
        for (int i = 0; i < work->nest->n_inputs && work->pass == CLEAVE_PASS_FORWARD; i++)
            if (work->model->tensors[work->nest->inputs[i].tensor].kind == CLEAVE_TENSOR_PARAMETER)
                sum += (double)work->reuse.bytes[CLEAVE_REUSE_INPUT + i];
    }
    return sum;
}

/* A device that does all of it has the activations of the whole batch in its memory. */
Test(calibrate_works, a_layout_has_its_own_surroundings) {
    static const char *const names[] = {"data-parallel", "single"};
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    int64_t touched[2], usual;
    double weights[2];
    bool applies = false;
    OK(shipped_model, "lenet5", 64, &arena, &model);
    OK(shipped_machine, "two-cores", 2, &arena, &machine);
    calibrate_works works = {0};
    for (int i = 0; i < 2; i++) {
        OK(cleave_baseline_layout, &model, &machine, names[i], 0, &arena, &layout, &applies);
        works.n = 0;
        OK(calibrate_works_add_layout, &works, &model, &machine, &layout, &touched[i]);
        weights[i] = sum_of_weights(&works) / (i == 0 ? 2 : 1); /* of two devices, and of one */
    }
    cr_expect_lt(touched[0], touched[1]);
    cr_expect_lt(weights[0], weights[1]);
    OK(calibrate_works_add, &works, &model, &machine, &usual);
    cr_expect_eq(usual, touched[0]);
    CLEAVE_LIST_FREE(&works);
    cleave_arena_free(&arena);
}

/* One sample is the least that a device has of 8 on 2: whatever a search makes of them, in
   micro-batches too, kernels of the first axis at 1, 2 and 4 are among those to be measured. */
Test(calibrate_works, kernels_are_measured_at_the_extents_of_micro_batches) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine = {0};
    calibrate_works works = {0};
    int64_t touched_bytes = 0;
    bool has[5] = {false};
    OK(shipped_model, "mlp", 8, &arena, &model);
    OK(shipped_machine, "two-cores", 2, &arena, &machine);
    OK(calibrate_works_add, &works, &model, &machine, &touched_bytes);
    for (int32_t w = 0; w < works.n; w++) {
        int64_t samples = works.items[w].part.hi[0] - works.items[w].part.lo[0];
        if (works.items[w].nest->kind == CLEAVE_NEST_PRODUCT && samples <= 4)
            has[samples] = true;
    }
    cr_expect(has[1] && has[2] && has[4]);
    CLEAVE_LIST_FREE(&works);
    cleave_arena_free(&arena);
}
