/* Threads that share work out: every part once, on a thread of its own, or in turn on the caller
   where they are at work already. */
#include "exec/kernels/team.h"
#include "../../support/ok.h"
#include "exec/kernels/copy.h"
#include "exec/kernels/share.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS = 3 };

static cleave_team *new_team(void) {
    cleave_team *team = NULL;
    OK(cleave_team_create, THREADS, &team);
    cr_assert_eq(cleave_team_size(team), THREADS);
    return team;
}

typedef struct seen {
    int times[THREADS], threads[THREADS];
    pthread_t by[THREADS];
    int fails_from; /* part; */
    cleave_team *team;
} seen;

static cleave_status see(void *context, int32_t part, int32_t thread, cleave_error *error) {
    seen *of = context;
    of->times[part]++;
    of->threads[part] = thread;
    of->by[part] = pthread_self();
    if (of->fails_from > 0 && part >= of->fails_from)
        return cleave_fail(error, CLEAVE_FAILED, "part %d", part);
    return CLEAVE_OK;
}

Test(team, every_part_is_done_once_by_its_own_thread) {
    cleave_team *team = new_team();
    seen of = {.times = {0}};
    enum { ROUNDS = 20000 };
    for (int i = 0; i < ROUNDS; i++)
        OK(cleave_team_run, team, THREADS, see, &of);
    for (int i = 0; i < THREADS; i++) {
        cr_expect_eq(of.times[i], ROUNDS);
        cr_expect_eq(of.threads[i], i);
        cr_expect_eq(pthread_equal(of.by[i], pthread_self()) != 0, i == 0);
    }
    cr_expect_eq(pthread_equal(of.by[1], of.by[2]), 0);
    OK(cleave_team_run, team, 2, see, &of);
    cr_expect_eq(of.times[2], ROUNDS, "fewer parts than threads");
    cleave_team_destroy(team);
}

Test(team, the_first_part_that_fails_is_told) {
    cleave_team *team = new_team();
    cleave_error error = {""};
    seen of = {.fails_from = 1};
    cr_expect_eq(cleave_team_run(team, THREADS, see, &of, &error), CLEAVE_FAILED);
    cr_expect_str_eq(error.message, "part 1");
    of.fails_from = 0;
    cr_expect_eq(cleave_team_run(team, THREADS, see, &of, &error), CLEAVE_OK, "it goes on");
    cleave_team_destroy(team);
}

static cleave_status see_within(void *context, int32_t part, int32_t thread, cleave_error *error) {
    (void)thread;
    seen *of = context;
    return part == 0 ? cleave_team_run(of->team, THREADS, see, of, error) : CLEAVE_OK;
}

Test(team, work_within_work_is_done_in_turn) {
    cleave_team *team = new_team();
    seen of = {.team = team};
    OK(cleave_team_run, team, 2, see_within, &of);
    for (int i = 0; i < THREADS; i++) {
        cr_expect_eq(of.times[i], 1);
        cr_expect_eq(of.threads[i], 0);
        cr_expect(pthread_equal(of.by[i], pthread_self()));
    }
    cleave_team_destroy(team);
}

static void count_elements(void *context, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i++)
        ((unsigned char *)context)[i]++;
}

Test(team, ranges_cover_every_element_once) {
    enum { MOST = 100003 };
    cleave_team *team = new_team();
    unsigned char *times = calloc(MOST, 1);
    cr_assert_not_null(times);
    const int64_t ends[] = {0, 1, 17, MOST - 5, MOST};
    for (int e = 0; e < 5; e++) {
        memset(times, 0, MOST);
        cleave_share_range(team, 0, ends[e], count_elements, times);
        for (int64_t i = 0; i < MOST; i++)
            cr_assert_eq(times[i], i < ends[e]);
    }
    free(times);
    cleave_team_destroy(team);
}

/* Of every mode, in the shapes that cuts mind: records of three, rows, one long row. */
Test(team, copies_are_those_of_one_thread) {
    enum { N = 3 * 7 * 2048 };
    static float source[N], one[N], all[N];
    cleave_team *team = new_team();
    const cleave_copy_mode modes[] = {CLEAVE_COPY_ASSIGN, CLEAVE_COPY_SUM, CLEAVE_COPY_MAX,
                                      CLEAVE_COPY_MOMENTS, CLEAVE_COPY_SQUARES};
    const int64_t extents[][2] = {{3, N / 3}, {N, 1}, {N / 7, 7}, {1, N}};
    for (int m = 0; m < 5; m++)
        for (int e = 0; e < 4; e++) {
            bool squares = modes[m] == CLEAVE_COPY_SQUARES;
            if (modes[m] == CLEAVE_COPY_MOMENTS && extents[e][0] != 3)
                continue;
            cleave_copy_piece piece = {.mode = modes[m],
                                       .type = CLEAVE_F32,
                                       .source_type = CLEAVE_F32,
                                       .fill = 1,
                                       .rank = 2,
                                       .extent = {extents[e][0], extents[e][1]},
                                       .source_stride = {extents[e][1], 1}};
            if (!squares)
                memcpy(piece.destination_stride, piece.source_stride, sizeof piece.source_stride);
            for (int i = 0; i < N; i++) {
                source[i] = (float)(i % 101) - 30;
                one[i] = all[i] = (float)(i % 37);
            }
            cleave_copy_piece_run(&piece, one, source);
            cleave_share_copy(team, &piece, all, source);
            cr_expect_eq(memcmp(one, all, sizeof one), 0, "mode %d, extents %lld x %lld",
                         (int)modes[m], (long long)extents[e][0], (long long)extents[e][1]);
        }
    cleave_team_destroy(team);
}
