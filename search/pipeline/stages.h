/* Where a model is cut into stages.

   The operators, in the order of the model, are cut into runs so that the slowest stage is as quick
   as it can be; what a stage takes is the work of its operators and what it sends on. */
#ifndef CLEAVE_SEARCH_PIPELINE_STAGES_H
#define CLEAVE_SEARCH_PIPELINE_STAGES_H

#include "base/arena.h"
#include "graph/model/model.h"
#include "graph/model/schedule.h"

/* Bytes of activations that are written up to an operator and read behind it: [n_operators] in the
   arena; the last sends nothing on. */
cleave_status cleave_stage_bytes(const cleave_model *model, cleave_arena *arena, int64_t **bytes,
                                 cleave_error *error);

/* Of each cut, behind an operator, the first operator that reads what is read behind the cut, too,
   and gives a part of its gradient; or the one behind the cut, where there is none: [n_operators]
   in the arena. */
cleave_status cleave_stage_joined(const cleave_model *model, cleave_arena *arena, int32_t **joined,
                                  cleave_error *error);

/* What operators take, in any one unit: of stages on devices of several kinds not the same. */
typedef struct cleave_stage_work {
    const int64_t *work;        /* [rows][n_operators] */
    const int32_t *row_of;      /* [n_stages] the row that holds there; null: the first in all */
    const int64_t *sends;       /* [send rows][n_operators] where a stage ends with it */
    const int32_t *send_row_of; /* [n_stages] the row that holds behind it; null: the first */
} cleave_stage_work;

/* The first operators of `n_stages` stages, [n_stages] given.  The slowest stage is the quickest
   possible.  FAILED when memory is short. */
cleave_status cleave_stages_cut(int32_t n_operators, const cleave_stage_work *of, int32_t n_stages,
                                int32_t *first_operator, cleave_error *error);

/* Ways to do operators, and the room that a stage has for them. */
typedef struct cleave_stage_ways {
    int32_t n_ways;
    /* [n_ways][n_operators + 1] sums over the operators before one: picoseconds; bytes for good,
       and of each that is in flight. */
    const double *time, *stays, *kept;
    double in_flight, most_bytes;
    /* [n_operators] picoseconds of a message behind it, where a stage ends with it, and of one that
       this stage is sent, where the one before does; and what part of its time is there to wait for
       each. */
    const int64_t *sends, *sent;
    double hides, hides_sent;
} cleave_stage_ways;

/* What a stage waits that works for so long, picoseconds, for messages that go on meanwhile. */
static inline double cleave_stage_waits(double time, double sends, double hides) {
    return sends > hides * time ? sends - hides * time : 0;
}

/* Stages that each take one of their ways, for which they have room, so that the slowest is about
   as quick as can be; false: none was found.  `of` [n_stages]. */
bool cleave_stages_cut_in_room(int32_t n_operators, const cleave_stage_ways *of, int32_t n_stages,
                               int32_t *first_operator);

/* The same of stages of so many layers each, [n_stages], as people give them: an operator's layer
   is the first number among the words of its name (model.layers.7.mlp.up), and what stands before
   or behind all layers goes with the first or the last stage.  BAD_INPUT where they are not the
   layers of the model. */
cleave_status cleave_stages_of_layers(const cleave_model *model, const int32_t *layers,
                                      int32_t n_stages, int32_t *first_operator,
                                      cleave_error *error);

/* How many layers have their middle in each stage of a schedule: [n_stages]. */
void cleave_stages_count_layers(const cleave_model *model, const cleave_schedule *schedule,
                                int32_t *layers);

#endif
