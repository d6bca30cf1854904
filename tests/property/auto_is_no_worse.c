/* A search that may choose its stages and schedule finds about what one that is told them finds:
   chains of drawn sizes on drawn machines, with as much memory as is drawn.  A plan whose formula
   says too little must not keep others out, as one does of chain 19, and updates are sharded where
   that is quicker in steps, as of chains 3, 10 and 17.  Of few operators on few devices what
   formulas put behind the best is simulated as well: sharded updates of baselines in stages are the
   best of chain 31, cuts of baselines of chain 35, free splits of chain 58. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/perceptron.h"
#include "../support/test_machine.h"
#include "search/search.h"

#include <math.h>
#include <stdio.h>

/* What is found differs by a little either way; of what is drawn by hand formulas leave out some
   plans that are quicker by more: of 90 chains three, by 1 to 4 %. */
static double most_by(void) {
    return draws_asked("CLEAVE_TEST_CASES", 0) > 0 || seed_from(0) > 0 ? 1.05 : 1.01;
}

/* The chains that are looked at.  Before plans and baselines that are in doubt were simulated, too,
   all but the first three were beaten by 2 to 14 %.  Of 51 and those behind 77 the best in steps is
   behind up to ten in closed form: while four were simulated, it was beaten by 3 to 7 %. */
static const int usual[] = {3, 4, 8, 31, 35, 51, 58, 65, 68, 73, 77, 1000010, 1000025, 2000025};

typedef struct subject {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    int64_t limit;
} subject;

static void draw(subject *s, int chain) {
    static const char *const bandwidth[] = {"1 GB/s", "4 GB/s", "10 GB/s", "40 GB/s"};
    static const int32_t nodes[][2] = {{2, 4}, {4, 2}, {8, 2}, {4, 4}, {2, 2}};
    cleave_random random = {.key = seed_from((uint64_t)chain)};
    const int32_t *of = nodes[cleave_random_below(&random, 5)];
    int layers = 8 + (int)cleave_random_below(&random, 9);
    int64_t batch = INT64_C(64) << cleave_random_below(&random, 5);
    int64_t width = INT64_C(64) << cleave_random_below(&random, 5);
    const char *links = cleave_arena_printf(
        &s->arena, "\"bandwidth\": \"%s\", \"latency\": \"%d us\"",
        bandwidth[cleave_random_below(&random, 4)], 1 + (int)cleave_random_below(&random, 20));
    s->model = make_perceptron(&s->arena, layers, batch, width);
    s->machine = parse_machine(&s->arena, of[0], of[1], "16 GiB", "200 GB/s", "1 us", links);
    /* Of what one device takes for all, from all of it down to a little more than a share. */
    double all = (double)layers * (double)(3 * 4 * width * width + 2 * 4 * batch * width);
    double share = 0.25 + 0.25 * (double)cleave_random_below(&random, 4);
    s->limit = (int64_t)(all * share) + (INT64_C(1) << 20);
}

/* Infinite: nothing fits so. */
static double search(subject *s, const cleave_schedule_wish *wish) {
    const cleave_search_options options = {.method = "auto",
                                           .optimizer_states = 1,
                                           .memory_limit_bytes = s->limit,
                                           .schedule = wish,
                                           .quiet = true};
    cleave_arena arena = {0};
    cleave_error error = {""};
    cleave_search_result result;
    cleave_status status = cleave_search(&s->model, &s->machine, &options, &arena, &result, &error);
    cr_assert(status == CLEAVE_OK || status == CLEAVE_NO_LAYOUT || status == CLEAVE_BAD_INPUT, "%s",
              error.message);
    double seconds = status == CLEAVE_OK ? result.best.step_seconds : (double)INFINITY;
    cleave_arena_free(&arena);
    return seconds;
}

static void compare(int chain, double *most) {
    static const char *const kinds[] = {"1f1b", "zb-h1", "interleaved", "zb-interleaved"};
    subject s = {0};
    draw(&s, chain);
    double open = search(&s, NULL);
    for (int k = 0; k < 4; k++)
        for (int32_t stages = 2; stages <= 2 * s.machine.n_devices; stages *= 2) {
            cleave_schedule_wish wish;
            OK(cleave_schedule_wish_begin, kinds[k], NULL, NULL, &wish);
            wish.stages = stages;
            double told = search(&s, &wish), ratio = isfinite(told) ? open / told : 0;
            *most = fmax(*most, ratio);
            cr_expect_leq(ratio, most_by(), "chain %d: %d stages of %s take %.6g s, auto %.6g s",
                          chain, stages, kinds[k], told, open);
        }
    cleave_arena_free(&s.arena);
}

Test(auto_is_no_worse, than_what_is_told) {
    int first = (int)draws_asked("CLEAVE_TEST_FIRST", 0),
        n = (int)draws_asked("CLEAVE_TEST_CASES", 0);
    double most = 0;
    for (size_t i = 0; n == 0 && i < sizeof usual / sizeof usual[0]; i++)
        compare(usual[i], &most);
    for (int i = first; i < first + n; i++)
        compare(i, &most);
    printf("auto takes at most %.4f of what a search takes that is told\n", most);
}
