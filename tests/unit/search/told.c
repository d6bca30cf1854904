/* What a search is told of products, sequences, schedules and state holds for auto as for any
   baseline: auto is then no worse than the baselines that are told the same, and what nothing can
   be made of is refused with the reason. */
#include "../../support/ok.h"
#include "search/problem/baselines.h"
#include "search/search.h"

#include "../../support/test_machine.h"
#include "graph/import/import.h"

#include <math.h>
#include <string.h>

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;

static void set_up(void) {
    machine = make_machine(&arena, 2, 2, "1 GiB");
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = CLEAVE_SOURCE_DIR "/configs/models/byte_gpt.onnx",
                                .batch = 16,
                                .with_loss = true},
       &arena, &model);
}
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(told, .init = set_up, .fini = tear_down);

static cleave_status search(const char *method, const cleave_schedule_wish *wish,
                            cleave_search_result *result, cleave_error *error) {
    const cleave_search_options options = {
        .method = method, .optimizer_states = 1, .schedule = wish, .quiet = true};
    return cleave_search(&model, &machine, &options, &arena, result, error);
}

#define OPEN .kind = -1, .recompute = -1

/* Infinite: there is none. */
static double seconds(const char *method, const cleave_schedule_wish *wish) {
    cleave_search_result result;
    cleave_error error = {""};
    return search(method, wish, &result, &error) == CLEAVE_OK ? result.best.step_seconds
                                                              : (double)INFINITY;
}

/* All but the last have layouts of one stage and the whole batch, which are told apart from others
   by nothing that stands in the layout. */
Test(told, auto_is_no_worse_than_baselines_told_the_same) {
    static const cleave_schedule_wish wishes[] = {
        {OPEN, .tensor = 1},
        {OPEN, .tensor = 2},
        {OPEN, .tensor = 4},
        {OPEN, .context = 2},
        {OPEN, .zero = 1},
        {.kind = CLEAVE_SCHEDULE_GPIPE, .recompute = -1, .stages = 1},
        {OPEN, .zero = 2},
        {.kind = CLEAVE_SCHEDULE_1F1B, .recompute = 0, .tensor = 2},
        {OPEN, .tensor = 2, .micro_batches = 2}};
    for (size_t w = 0; w < sizeof wishes / sizeof wishes[0]; w++) {
        double best = seconds("auto", &wishes[w]), least = (double)INFINITY;
        for (int i = 0; cleave_baseline_names[i] != NULL; i++)
            least = fmin(least, seconds(cleave_baseline_names[i], &wishes[w]));
        cr_assert(isfinite(least), "wish %zu", w);
        cr_expect_leq(best, least, "wish %zu", w);
    }
}

/* One of the baselines that share products, as there is no other way to say that they do. */
Test(told, auto_has_the_context_that_it_is_told) {
    const cleave_schedule_wish context = {OPEN, .context = 2, .micro_batches = 1, .stages = 1};
    cr_expect_eq(seconds("auto", &context), seconds("megatron", &context));
}

static void expect_refused(const char *method, const cleave_schedule_wish *wish, const char *why) {
    cleave_search_result result;
    cleave_error error = {""};
    cr_expect_eq(search(method, wish, &result, &error), CLEAVE_BAD_INPUT, "%s, %s", method, why);
    cr_expect_neq(strstr(error.message, why), NULL, "%s", error.message);
}

Test(told, what_nothing_can_be_made_of_is_refused_with_the_reason) {
    expect_refused("single", &(cleave_schedule_wish){OPEN, .micro_batches = 2},
                   "method \"single\" takes the whole batch at once");
    expect_refused("one-weird-trick", &(cleave_schedule_wish){OPEN, .zero = 2},
                   "method \"one-weird-trick\" takes the whole batch at once");
    expect_refused("data-parallel", &(cleave_schedule_wish){OPEN, .tensor = 2},
                   "devices share no product");
    expect_refused("auto", &(cleave_schedule_wish){OPEN, .tensor = 3},
                   "4 devices can't be cut into groups of 3");
    expect_refused("megatron", &(cleave_schedule_wish){OPEN, .stages = 5},
                   "4 devices can't be cut into equal groups for 5 stages");
    expect_refused("auto", &(cleave_schedule_wish){OPEN, .expert = 2}, "the model has no experts");
    expect_refused("zero-3", &(cleave_schedule_wish){OPEN, .zero = 2},
                   "method zero-3 is one of zero 3, not of zero 1");
}
