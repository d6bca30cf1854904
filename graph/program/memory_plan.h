/* The memory plan: offsets of all buffers in one arena per device, by lifetimes in program order,
   so that memory does not depend on timing.  The same plan predicts and runs. */
#ifndef CLEAVE_GRAPH_PROGRAM_MEMORY_PLAN_H
#define CLEAVE_GRAPH_PROGRAM_MEMORY_PLAN_H

#include "base/list.h"
#include "graph/program/program.h"

enum { CLEAVE_BUFFER_ALIGNMENT = 64 };
static inline int64_t cleave_buffer_aligned(int64_t bytes) {
    return (bytes + CLEAVE_BUFFER_ALIGNMENT - 1) / CLEAVE_BUFFER_ALIGNMENT *
           CLEAVE_BUFFER_ALIGNMENT;
}

/* Memory of a device that is used from one item to another, both included.  The communication lane
   runs beside the main one, so what it uses may be in use from the main lane's item that it last
   waited for to the one that waits for it.  But of what it alone uses (`lane_only`) nothing is used
   at once with more of that sort but by the order of the lane: from `lane_first` to `lane_last`,
   within first to last. */
typedef struct cleave_life {
    int64_t bytes;
    int32_t device, first, last;
    int32_t lane_first, lane_last;
    bool lane_only;
} cleave_life;

static inline cleave_life cleave_buffer_life(const cleave_buffer *of) {
    return (cleave_life){.bytes = of->bytes + of->padding,
                         .device = of->device,
                         .first = of->first,
                         .last = of->last,
                         .lane_first = of->lane_only ? of->lane_first : 0,
                         .lane_last = of->lane_only ? of->lane_last : 0,
                         .lane_only = of->lane_only};
}

/* Each position p becomes position[p]. */
static inline void cleave_life_renumber(cleave_life *of, const int32_t *position) {
    of->first = position[of->first];
    of->last = position[of->last];
    of->lane_first = of->lane_only ? position[of->lane_first] : 0;
    of->lane_last = of->lane_only ? position[of->lane_last] : 0;
}

/* From when to when it holds what somebody wants: the bytes that do so at once are in use. */
static inline int32_t cleave_life_used_from(const cleave_life *of) {
    return of->lane_only ? of->lane_first : of->first;
}
static inline int32_t cleave_life_used_to(const cleave_life *of) {
    return of->lane_only ? of->lane_last : of->last;
}

typedef struct cleave_lives {
    int32_t n, n_devices, n_items;
    const cleave_life *items; /* [n] positions are -1 .. n_items - 1; of lives that begin at one
                                 position, those listed first are placed first */
} cleave_lives;

/* Places all lives: their offsets, [n], which are 0 for those without bytes if they were before,
   and the size of each device's arena, [n_devices].  Where no smaller one is looked for than
   `enough`, [n_devices] (null: the smallest is), fewer ways of planning are tried. */
cleave_status cleave_memory_plan_lives(const cleave_lives *lives, const int64_t *enough,
                                       int64_t *offset, int64_t *peak_bytes, cleave_error *error);

/* A device that was planned, by a digest of what is used of it when: what is used alike needs as
   much. */
typedef struct cleave_planned_device {
    uint64_t a, b;
    int64_t bytes;
    bool is_least; /* no smaller plan was left out */
} cleave_planned_device;

typedef CLEAVE_LIST(cleave_planned_device) cleave_planned_devices;

/* The sizes of these arenas alone.  Of a device that needs no more than `enough` ([n_devices];
   below 0: the least is wanted) a size that is no more either will do.  Devices that are like one
   among the known are not planned, the others come to these. */
cleave_status cleave_memory_plan_sizes(const cleave_lives *lives, const int64_t *enough,
                                       cleave_planned_devices *known, int64_t *peak_bytes,
                                       cleave_error *error);

/* Would no arena of that plan be larger than `room`, [n_devices]?  Nothing is planned on once that
   is known: neither devices behind one that has too little, nor one by another way that has enough
   by the first. */
cleave_status cleave_memory_lives_fit(const cleave_lives *lives, const int64_t *room, bool *fit,
                                      cleave_error *error);

/* Sets buffers[].offset and peak_bytes from buffers[].{first, last, bytes, padding, storage};
   `enough` (it may be null) as cleave_memory_plan_lives has it. */
cleave_status cleave_memory_plan(cleave_program *program, const int64_t *enough,
                                 cleave_arena *arena, cleave_error *error);

#endif
