/* `simulate --delta-check`: is the time of a layout that was reached by changes that of the whole?
 */
#ifndef CLEAVE_CLI_DELTA_CHECK_H
#define CLEAVE_CLI_DELTA_CHECK_H

#include "base/json.h"
#include "costmodel/cost.h"
#include "graph/model/layout.h"

typedef struct delta_check {
    int64_t checks, mismatches;
    double delta_seconds; /* of all changes: lowering, pricing and delta simulation of what they
                             concern */
    double full_seconds;  /* of simulating as often from the beginning, without lowering */
} delta_check;

/* Changes one operator after the other to a candidate of the search, `n` times, from `layout` on;
   every second change stays.  After each the step is simulated from the beginning, too (the scan,
   with collectives as one item each). */
cleave_status delta_check_run(const cleave_model *model, const cleave_machine *machine,
                              const cleave_layout *layout, int optimizer_states, int64_t n,
                              uint64_t seed, cleave_arena *arena, delta_check *result,
                              cleave_error *error);

/* "delta_checks", "mismatches", "full_seconds", "delta_seconds": members of an open object. */
void delta_check_put(cleave_json_writer *writer, const delta_check *check);
void delta_check_format(const delta_check *check, char *text, size_t size);

#endif
