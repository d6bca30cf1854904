/* Which work calibration measures: what the baselines of the given models do, and whatever else the
   search may ask for. */
#ifndef CLEAVE_CLI_CALIBRATE_WORKS_H
#define CLEAVE_CLI_CALIBRATE_WORKS_H

#include "base/list.h"
#include "costmodel/machine.h"
#include "graph/model/layout.h"
#include "graph/model/model.h"
#include "graph/model/part.h"
#include "graph/program/reuse.h"
#include "graph/program/work.h"

typedef struct calibrate_work {
    const cleave_model *model;
    const cleave_nest *nest;
    cleave_pass pass;
    cleave_part part;
    cleave_work work;
    cleave_reuse reuse;      /* of a baseline's or given layout's work in that layout, when ordered
                                the mean of all that do it; else in a data-parallel one, the mean of
                                the nest and pass */
    bool wanted;             /* a baseline or a given layout does it */
    double expected_seconds; /* by the roofline; when ordered, of wanted work the sum over all that
                                do it */
} calibrate_work;

typedef struct calibrate_works {
    calibrate_work *items;
    int32_t n, capacity;
    bool whole_operators; /* what is listed: leads and their parts, each with its operator's work,
                             both passes of backward being one (graph/program/operator_work.h) */
} calibrate_works;

/* Adds the work of a model on a machine.  `touched_bytes`: what a device touches in a data-parallel
   step. */
cleave_status calibrate_works_add(calibrate_works *works, const cleave_model *model,
                                  const cleave_machine *machine, int64_t *touched_bytes,
                                  cleave_error *error);

/* Adds the work of a layout, as wanted as that of baselines; after the model's own.
   `touched_bytes`: what a device touches in a step of it.  BAD_INPUT where the layout has more
   devices than the machine. */
cleave_status calibrate_works_add_layout(calibrate_works *works, const cleave_model *model,
                                         const cleave_machine *machine, const cleave_layout *layout,
                                         int64_t *touched_bytes, cleave_error *error);

/* One of each key; first what baselines and given layouts do, that on which they spend most time
   before all else, then the costliest.  The order depends on nothing but the models and the
   machine, so every rank has the same. */
void calibrate_works_order(calibrate_works *works);

#endif
