/* The schedule of a layout file (docs/formats.md). */
#ifndef CLEAVE_GRAPH_MODEL_SCHEDULE_FILE_H
#define CLEAVE_GRAPH_MODEL_SCHEDULE_FILE_H

#include "base/json.h"
#include "graph/model/model.h"
#include "graph/model/schedule.h"

/* Reads the object, whose arrays lie in the arena.  Whether the schedule goes with the splits is
   not looked at: see cleave_layout_check_schedule. */
cleave_status cleave_schedule_read(const cleave_json_cursor *at, const cleave_model *model,
                                   cleave_arena *arena, cleave_schedule *schedule,
                                   cleave_error *error);

/* Writes the member "schedule"; nothing where there is nothing to say. */
void cleave_schedule_write(cleave_json_writer *out, const cleave_model *model,
                           const cleave_schedule *schedule);

#endif
