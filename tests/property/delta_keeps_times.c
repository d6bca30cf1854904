/* Delta simulation gives the times of the whole pass, bit for bit, whatever is exchanged, accepted
   and rejected; and both give those of the scan engine, to which the same items are handed as one
   problem.  The fragments are random (tests/support/drawn_fragments.h). */
#include "../support/drawn_fragments.h"
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/put_fragments.h"
#include "simulator/step/engine.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = 12, ROUNDS = 250 };

/* Places with fragments of the pool. */
typedef struct world {
    drawn_fragments drawn;
    int32_t n_places;
    int32_t at[MAX_PLACES], base[MAX_PLACES]; /* -1: nothing */
    cleave_delta *delta;
    put_fragments made;
    cleave_arena arena;
} world;

static world *world_create(uint64_t seed) {
    world *w = calloc(1, sizeof *w);
    cr_assert_not_null(w);
    w->drawn.random.key = seed;
    draw_fragments(&w->drawn);
    w->n_places = 2 + draw_below(&w->drawn, MAX_PLACES - 2);
    memset(w->at, -1, sizeof w->at);
    memset(w->base, -1, sizeof w->base);
    const cleave_delta_shape shape = {.n_places = w->n_places,
                                      .n_slots = w->drawn.n_slots,
                                      .n_devices = w->drawn.n_devices,
                                      .n_links = w->drawn.n_links,
                                      .link_latency = w->drawn.latency,
                                      .ends_work = w->drawn.works > 0};
    OK(cleave_delta_create, &shape, &w->delta);
    /* Steps are so small that plain passes would mostly be cheaper. */
    if (draw_chance(&w->drawn, 80))
        cleave_delta_be_eager(w->delta);
    return w;
}

static void world_destroy(world *w) {
    cleave_delta_destroy(w->delta);
    put_fragments_free(&w->made);
    cleave_arena_free(&w->arena);
    free(w);
}

/* --- The same items as one problem of the scan engine --------------------------------------------
 */

typedef struct assembly {
    cleave_engine_problem problem;
    int32_t last[2 * MAX_DEVICES]; /* item of the queue; -1: none yet */
    int32_t mark[MAX_PLACES][MAX_MARKS];
    int32_t first_message[MAX_PLACES], first_collective[MAX_PLACES];
} assembly;

static const cleave_priced_fragment *fragment_at(const world *w, int32_t place) {
    return w->at[place] < 0 ? NULL : &w->drawn.pool[w->at[place]].fragment;
}

static void take_arrays(world *w, assembly *a) {
    cleave_priced_fragment *p = &a->problem.step;
    int64_t n_items = 0, n_messages = 0, n_collectives = 0;
    for (int32_t place = 0; place < w->n_places; place++) {
        const cleave_priced_fragment *f = fragment_at(w, place);
        n_items += f == NULL ? 0 : f->n_items;
        n_messages += f == NULL ? 0 : f->n_messages;
        n_collectives += f == NULL ? 0 : f->n_collectives;
    }
    p->kind = CLEAVE_ARENA_ARRAY(&w->arena, uint8_t, n_items);
    p->queue = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_items);
    p->subject = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_items);
    p->duration = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_items);
    p->hop_start = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_messages + 1);
    p->hop_link = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_messages * MAX_HOPS);
    p->hop_serialization = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_messages * MAX_HOPS);
    if (w->drawn.works > 0)
        p->ends = CLEAVE_ARENA_ARRAY(&w->arena, cleave_message_ends, n_messages);
    p->collective_joins = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives);
    p->collective_busy = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_collectives);
    p->collective_rest = CLEAVE_ARENA_ARRAY(&w->arena, int64_t, n_collectives);
    p->collective_link_start = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives + 1);
    p->collective_links = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_collectives * MAX_LINKS);
    a->problem.link_latency = w->drawn.latency;
    a->problem.n_links = w->drawn.n_links;
    a->problem.n_queues = 2 * w->drawn.n_devices;
}

static void assemble_subjects(assembly *a, int32_t place, const cleave_priced_fragment *f) {
    cleave_priced_fragment *p = &a->problem.step;
    a->first_message[place] = p->n_messages;
    a->first_collective[place] = p->n_collectives;
    for (int32_t m = 0; m < f->n_messages; m++) {
        int32_t at = p->hop_start[p->n_messages];
        for (int32_t h = f->hop_start[m]; h < f->hop_start[m + 1]; h++) {
            p->hop_link[at] = f->hop_link[h];
            p->hop_serialization[at++] = f->hop_serialization[h];
        }
        if (f->ends != NULL)
            p->ends[p->n_messages] = f->ends[m];
        p->hop_start[++p->n_messages] = at;
    }
    for (int32_t c = 0; c < f->n_collectives; c++) {
        int32_t at = p->collective_link_start[p->n_collectives];
        p->collective_joins[p->n_collectives] = f->collective_joins[c];
        p->collective_busy[p->n_collectives] = f->collective_busy[c];
        p->collective_rest[p->n_collectives] = f->collective_rest[c];
        for (int32_t l = f->collective_link_start[c]; l < f->collective_link_start[c + 1]; l++)
            p->collective_links[at++] = f->collective_links[l];
        p->collective_link_start[++p->n_collectives] = at;
    }
}

static void assemble_item(assembly *a, int32_t place, cleave_priced_item item) {
    cleave_priced_fragment *p = &a->problem.step;
    if (item.kind == CLEAVE_PRICED_MARK) {
        a->mark[place][item.subject] = a->last[item.queue];
        return;
    }
    int32_t i = p->n_items++, subject = item.subject;
    p->kind[i] = item.kind;
    if (item.kind == CLEAVE_PRICED_SYNC) {
        subject = a->mark[place][subject];
        if (subject < 0) /* a mark before the first item of its queue: nothing to wait for */
            p->kind[i] = CLEAVE_PRICED_WORK;
    } else if (item.kind == CLEAVE_PRICED_JOIN || item.kind == CLEAVE_PRICED_AWAIT) {
        subject += a->first_collective[place];
    } else if (item.kind != CLEAVE_PRICED_WORK) {
        subject += a->first_message[place];
    }
    p->queue[i] = item.queue;
    p->subject[i] = subject;
    p->duration[i] = item.duration;
    a->last[item.queue] = i;
}

/* By slot, then by rank, then by place, then as the fragment has them. */
static void assemble_items(const world *w, assembly *a) {
    for (int32_t slot = 0; slot < w->drawn.n_slots; slot++)
        for (int32_t rank = 0; rank < MAX_CHUNKS + 3; rank++)
            for (int32_t place = 0; place < w->n_places; place++) {
                const cleave_priced_fragment *f = fragment_at(w, place);
                for (int32_t c = 0; f != NULL && c < f->n_chunks; c++) {
                    if (f->chunks[c].slot != slot || f->chunks[c].rank != rank)
                        continue;
                    for (int32_t i = 0; i < f->chunks[c].n_items; i++)
                        assemble_item(a, place,
                                      cleave_priced_item_of(f, f->chunks[c].first_item + i));
                }
            }
}

static int64_t by_engine(world *w) {
    assembly a = {0};
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    cleave_error error = {""};
    cleave_arena_reset(&w->arena);
    memset(a.last, -1, sizeof a.last);
    take_arrays(w, &a);
    for (int32_t place = 0; place < w->n_places; place++)
        if (fragment_at(w, place) != NULL)
            assemble_subjects(&a, place, fragment_at(w, place));
    assemble_items(w, &a);
    OK(cleave_engine_finish, &a.problem, &w->arena);
    cr_assert_eq(cleave_engine_workspace_create(&a.problem, &w->arena, &workspace, &error), 0);
    cr_assert_eq(cleave_engine_timeline_create(&a.problem, &w->arena, &timeline, &error), 0);
    OK(cleave_engine_run_scan, &a.problem, workspace, &timeline);
    return timeline.step;
}

/* --- Changes -------------------------------------------------------------------------------------
 */

static void put(world *w, int32_t place, int32_t fragment) {
    w->at[place] = fragment;
    OK(put_fragment, &w->made, w->delta, place, fragment_at(w, place));
}

static void put_some(world *w) {
    for (int32_t n = 1 + draw_below(&w->drawn, draw_chance(&w->drawn, 30) ? 4 : 1); n > 0; n--)
        put(w, draw_below(&w->drawn, w->n_places),
            draw_chance(&w->drawn, 10) ? -1 : draw_below(&w->drawn, POOL));
}

/* Asked whether it is below something near it, before or after the step is known. */
static void expect_below(world *w, int64_t full, uint64_t seed, int round) {
    int64_t step, below = full / 1000 * (950 + draw_below(&w->drawn, 100)) + 1;
    OK(cleave_delta_run_below, w->delta, below, &step);
    bool is_right = full < below ? step == full : step >= below && step <= full;
    cr_assert(is_right, "world %llu, round %d: %lld for %lld, asked whether it is below %lld",
              (unsigned long long)seed, round, (long long)step, (long long)full, (long long)below);
}

static void expect_right(world *w, bool with_engine, uint64_t seed, int round) {
    int64_t step, full;
    bool full_first = draw_chance(&w->drawn, 50); /* it leaves a run and its base alone */
    if (full_first) {
        full = cleave_delta_full(w->delta);
        if (draw_chance(&w->drawn, 50))
            expect_below(w, full, seed, round);
    }
    OK(cleave_delta_run_below, w->delta, INT64_MAX, &step);
    if (!full_first)
        full = cleave_delta_full(w->delta);
    cr_assert_eq(step, full, "world %llu, round %d: %lld by delta, %lld in full",
                 (unsigned long long)seed, round, (long long)step, (long long)full);
    if (with_engine) {
        int64_t engine = by_engine(w);
        cr_assert_eq(full, engine, "world %llu, round %d: %lld by delta, %lld by the engine",
                     (unsigned long long)seed, round, (long long)full, (long long)engine);
    }
}

static void decide(world *w, int accept) {
    if (draw_chance(&w->drawn, accept)) {
        cleave_delta_accept(w->delta);
        memcpy(w->base, w->at, sizeof w->at);
    } else {
        cleave_delta_reject(w->delta);
        memcpy(w->at, w->base, sizeof w->at);
    }
}

/* Returns how many changes were tried. */
static int64_t change_often(world *w, uint64_t seed) {
    int accept = (const int[]){10, 50, 95}[draw_below(&w->drawn, 3)];
    int64_t n_changes = 0;
    for (int32_t place = 0; place < w->n_places; place++)
        put(w, place, draw_below(&w->drawn, POOL));
    expect_right(w, true, seed, -1);
    decide(w, 90);
    for (int round = 0; round < ROUNDS; round++) {
        put_some(w);
        n_changes++;
        if (draw_chance(&w->drawn, 95))
            expect_right(w, round % 10 == 0, seed, round);
        if (draw_chance(&w->drawn, 10)) { /* more on top of what has already run */
            put_some(w);
            n_changes++;
            if (draw_chance(&w->drawn, 80))
                expect_right(w, false, seed, round);
        }
        if (draw_chance(&w->drawn, 30)) /* an accepted run may have ended early */
            expect_below(w, cleave_delta_full(w->delta), seed, round);
        decide(w, accept);
        if (draw_chance(&w->drawn, 5))
            expect_right(w, true, seed, round);
    }
    return n_changes;
}

Test(delta, any_changes_give_the_times_of_a_full_pass_bit_for_bit) {
    int64_t left = n_draws(100000);
    cleave_delta_counts sum = {0};
    for (uint64_t seed = seed_from(0); left > 0; seed++) {
        world *w = world_create(seed);
        left -= change_often(w, seed);
        cleave_delta_counts counts = cleave_delta_count(w->delta);
        sum.slots += counts.slots;
        sum.slots_jumped += counts.slots_jumped;
        sum.jumps += counts.jumps;
        world_destroy(w);
    }
    /* Or nothing of what matters was tried. */
    cr_expect_gt(sum.slots_jumped, sum.slots / 4);
    printf("%lld slots simulated, %lld jumped over in %lld jumps\n", (long long)sum.slots,
           (long long)sum.slots_jumped, (long long)sum.jumps);
}
