#include "simulator/scan/turns_internal.h"

#include <stdlib.h>
#include <string.h>

/* Periods of so many micro-batches are looked for; a stretch of fewer is no use. */
enum { MOST_SHIFT = 64, LEAST_PERIODS = 8 };

/* ---- a turn ---------------------------------------------------------------------------------- */

static void fetch(const turns_run *run, int32_t crossing, int32_t micro_batch) {
    const turns_crossing *of = &run->crossings.items[crossing];
    const int64_t *stored = turns_stored(run, crossing, micro_batch);
    if (of->is_collective) {
        run->scan.w->collective_end[of->subject] = stored[0];
    } else {
        run->scan.arrival[of->subject] = stored[0];
        run->scan.w->release[of->subject] = stored[1];
    }
}

static void put_away(const turns_run *run, int32_t crossing, int32_t micro_batch) {
    const turns_crossing *of = &run->crossings.items[crossing];
    int64_t *stored = turns_stored(run, crossing, micro_batch);
    stored[0] = of->is_collective ? run->scan.w->collective_end[of->subject]
                                  : run->scan.arrival[of->subject];
    stored[1] = of->is_collective ? 0 : run->scan.w->release[of->subject];
}

static void note_times(turns_run *run, int32_t block) {
    const int32_t *first = &run->of->turns->first_item[block];
    size_t n = (size_t)(first[1] - first[0]);
    const cleave_timeline *each = run->of->each;
    if (each != NULL && n > 0) {
        memcpy(&each->start[run->n_items], &run->scan.start[first[0]], n * sizeof *each->start);
        memcpy(&each->end[run->n_items], &run->scan.end[first[0]], n * sizeof *each->end);
    }
    run->n_items += first[1] - first[0];
}

void turns_take(turns_run *run, int32_t turn) {
    const cleave_turn *of = &run->of->turns->turns[turn];
    const turns_crossings *crossings = &run->crossings;
    const int32_t *steps = run->of->problem->cut_steps;
    int32_t b = of->block;
    for (int32_t i = crossings->first_read[b]; i < crossings->first_read[b + 1]; i++)
        fetch(run, crossings->read[i], of->micro_batch);
    cleave_scan_run(&run->scan, steps[b], steps[b + 1]);
    for (int32_t c = crossings->first_made[b]; c < crossings->first_made[b + 1]; c++)
        put_away(run, c, of->micro_batch);
    note_times(run, b);
    run->taken++;
}

/* ---- stretches ------------------------------------------------------------------------------- */

/* The turns of each block, which takes its micro-batches in order. */
typedef struct block_turns {
    int32_t *first; /* [n_blocks + 1] */
    int32_t *turns; /* [n_turns] */
    int32_t *place; /* [n_turns] of each turn among these */
} block_turns;

static bool list_turns(const cleave_turns *turns, cleave_arena *arena, block_turns *list) {
    int32_t n_blocks = turns->n_blocks;
    list->first = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n_blocks + 2);
    list->turns = CLEAVE_ARENA_ARRAY(arena, int32_t, turns->n_turns);
    list->place = CLEAVE_ARENA_ARRAY(arena, int32_t, turns->n_turns);
    if (list->first == NULL || list->turns == NULL || list->place == NULL)
        return false;
    for (int32_t t = 0; t < turns->n_turns; t++)
        list->first[turns->turns[t].block + 2]++;
    for (int32_t b = 0; b < n_blocks; b++)
        list->first[b + 2] += list->first[b + 1];
    for (int32_t t = 0; t < turns->n_turns; t++) {
        list->place[t] = list->first[turns->turns[t].block + 1]++;
        list->turns[list->place[t]] = t;
    }
    return true;
}

static bool repeats(const cleave_turns *turns, int32_t turn, int32_t length, int32_t shift) {
    const cleave_turn *of = &turns->turns[turn], *next = of + length;
    return of->block == next->block && of->micro_batch + shift == next->micro_batch;
}

/* The longest that begins with a turn; `count` 0: there is none. */
static turns_stretch stretch_at(const cleave_turns *turns, const block_turns *list, int32_t first) {
    turns_stretch longest = {.first = first};
    int32_t end = list->first[turns->turns[first].block + 1]; /* of the block's turns */
    int32_t enough = (turns->n_turns - first) / 4, covered = 0;
    for (int32_t shift = 1; shift <= MOST_SHIFT && covered < enough; shift++) {
        if (list->place[first] + shift >= end)
            break;
        int32_t length = list->turns[list->place[first] + shift] - first, n = 0;
        while (first + length + n < turns->n_turns && repeats(turns, first + n, length, shift))
            n++;
        int32_t count = n / length + 1;
        if (count >= LEAST_PERIODS && count * length > covered) {
            covered = count * length;
            longest.length = length;
            longest.count = count;
            longest.shift = shift;
        }
    }
    return longest;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* How many micro-batches lie at most between the first that is not done and the last that has
   begun. */
static bool find_ring(turns_run *run, int32_t *ring) {
    const cleave_turns *turns = run->of->turns;
    int32_t *left = CLEAVE_ARENA_ARRAY(run->arena, int32_t, turns->micro_batches);
    int32_t first = 0, end = 0;
    *ring = 1;
    for (int32_t t = 0; t < turns->n_turns && left != NULL; t++)
        left[turns->turns[t].micro_batch]++;
    for (int32_t t = 0; t < turns->n_turns && left != NULL; t++) {
        int32_t u = turns->turns[t].micro_batch;
        end = u + 1 > end ? u + 1 : end;
        *ring = end - first > *ring ? end - first : *ring;
        left[u]--;
        while (first < end && left[first] == 0)
            first++;
    }
    return left != NULL;
}

static cleave_status take_all(turns_run *run, cleave_error *error) {
    const cleave_turns *turns = run->of->turns;
    block_turns list;
    if (!list_turns(turns, run->arena, &list))
        return cleave_fail_memory(error, "simulating micro-batches");
    for (int32_t t = 0; t < turns->n_turns;) {
        turns_stretch stretch = {0};
        if (!run->of->goes_through_all && run->of->each == NULL)
            stretch = stretch_at(turns, &list, t);
        if (stretch.count > 0)
            CLEAVE_TRY(turns_take_stretch(run, &stretch, error));
        else
            turns_take(run, t);
        t += stretch.count > 0 ? stretch.count * stretch.length : 1;
    }
    return CLEAVE_OK;
}

cleave_status cleave_turns_check(const cleave_turns_subject *of, cleave_arena *arena,
                                 cleave_error *error) {
    turns_crossings crossings;
    return turns_find_crossings(of, arena, &crossings, error);
}

cleave_status cleave_engine_scan_turns(const cleave_turns_subject *of, cleave_arena *arena,
                                       cleave_turns_time *time, cleave_error *error) {
    turns_run run = {.of = of, .arena = arena};
    CLEAVE_TRY(turns_find_crossings(of, arena, &run.crossings, error));
    if (!find_ring(&run, &run.ring))
        return cleave_fail_memory(error, "simulating micro-batches");
    run.store = CLEAVE_ARENA_ARRAY(arena, int64_t, 2 * (size_t)run.crossings.n * (size_t)run.ring);
    if (run.store == NULL)
        return cleave_fail_memory(error, "simulating micro-batches");
    CLEAVE_TRY(cleave_scan_begin(of->problem, of->workspace->scan, of->timeline, &run.scan, error));
    CLEAVE_TRY(take_all(&run, error));
    *time = (cleave_turns_time){.step = cleave_scan_end(&run.scan), .taken = run.taken};
    return CLEAVE_OK;
}
