/* Gathering timelines. */
#include "exec/gather_timeline.h"

#include "base/progress.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_ROUNDS = 32 };

/* Rank 0: what is to be added to a rank's clock to get its own. */
static double ask_for_time(cleave_world *world, int32_t other) {
    double shortest = 0, correction = 0;
    for (int round = 0; round < N_ROUNDS; round++) {
        double there = 0, asked = cleave_clock_seconds();
        cleave_world_send_now(world, &asked, sizeof asked, other, NULL);
        cleave_world_receive_now(world, &there, sizeof there, other, NULL);
        double answered = cleave_clock_seconds();
        if (round == 0 || answered - asked < shortest) {
            shortest = answered - asked;
            correction = (asked + answered) / 2 - there;
        }
    }
    return correction;
}

static void tell_time(cleave_world *world) {
    for (int round = 0; round < N_ROUNDS; round++) {
        double asked;
        cleave_world_receive_now(world, &asked, sizeof asked, 0, NULL);
        double now = cleave_clock_seconds();
        cleave_world_send_now(world, &now, sizeof now, 0, NULL);
    }
}

/* When a rank started the step, and by which clock: clocks of one name tell the same time. */
typedef struct start_time {
    double started; /* seconds */
    uint64_t clock; /* 0: not known */
} start_time;

/* The clock counts from when the machine was booted, in whatever container it is read. */
static uint64_t clock_name(void) {
    char id[64] = "";
    FILE *stream = fopen("/proc/sys/kernel/random/boot_id", "r");
    if (stream == NULL)
        return 0;
    bool known = fgets(id, sizeof id, stream) != NULL;
    fclose(stream);
    return known ? cleave_hash_string(id) : 0;
}

/* When each rank started the step, in picoseconds after the first; [n_devices], rank 0 only. */
static void align(cleave_world *world, double started, start_time *all, int64_t *late) {
    int32_t n = cleave_world_size(world);
    start_time own = {started, clock_name()};
    uint64_t root_clock = own.clock;
    cleave_world_broadcast(world, &root_clock, sizeof root_clock);
    cleave_world_gather(world, &own, sizeof own, all);
    if (cleave_world_rank(world) != 0) {
        if (own.clock == 0 || own.clock != root_clock)
            tell_time(world);
        return;
    }
    double first = all[0].started;
    for (int32_t r = 1; r < n; r++) {
        if (all[r].clock == 0 || all[r].clock != root_clock)
            all[r].started += ask_for_time(world, r);
        first = all[r].started < first ? all[r].started : first;
    }
    for (int32_t r = 0; r < n; r++)
        late[r] = (int64_t)((all[r].started - first) * 1e12);
}

/* Each device's items from its own rank's record of them. */
static void merge(const cleave_rank *rank, const int64_t *starts, const int64_t *ends,
                  const int64_t *typical, const int64_t *late, cleave_run_result *result) {
    const cleave_program *program = rank->program;
    size_t n_items = (size_t)program->n_items;
    for (size_t i = 0; i < n_items; i++) {
        size_t from = (size_t)program->items[i].device;
        rank->start[i] = starts[from * n_items + i];
        rank->end[i] = ends[from * n_items + i];
        result->typical_duration[i] = typical[from * n_items + i];
        if (rank->start[i] < 0 || rank->end[i] < 0)
            continue;
        rank->start[i] += late[from];
        rank->end[i] += late[from];
        if (rank->end[i] > result->measured.step)
            result->measured.step = rank->end[i];
    }
    result->measured.start = rank->start;
    result->measured.end = rank->end;
}

cleave_status cleave_gather_timeline(cleave_rank *rank, const cleave_step_records *records,
                                     double seconds, cleave_arena *arena, cleave_run_result *result,
                                     cleave_error *error) {
    size_t n_items = (size_t)rank->program->n_items, n = (size_t)rank->program->n_devices;
    bool root = rank->device == 0;
    int64_t *own = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    int64_t *gathered[3] = {NULL, NULL, NULL}; /* starts, ends, durations; [n_devices][n_items] */
    int64_t *late = malloc(n * sizeof *late);
    start_time *started = malloc(n * sizeof *started);
    bool fits = own != NULL && late != NULL && started != NULL;
    for (int i = 0; i < 3; i++) {
        gathered[i] = malloc((root ? n : 1) * n_items * sizeof *gathered[i] + 1);
        fits &= gathered[i] != NULL;
    }
    cleave_status status = CLEAVE_OK;
    if (!fits) {
        status = cleave_fail_memory(error, "gathering the timeline");
    } else {
        double own_start = cleave_step_records_restore(records, rank, seconds);
        cleave_step_records_durations(records, rank, own);
        const int64_t *mine[3] = {rank->start, rank->end, own};
        for (int i = 0; i < 3; i++)
            cleave_world_gather(rank->world, mine[i], (int64_t)(n_items * sizeof *own),
                                gathered[i]);
        align(rank->world, own_start, started, late);
        result->typical_duration = own;
        if (root)
            merge(rank, gathered[0], gathered[1], gathered[2], late, result);
    }
    for (int i = 0; i < 3; i++)
        free(gathered[i]);
    free(late);
    free(started);
    return status;
}
