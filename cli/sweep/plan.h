/* The points of a sweep: all combinations of the values that are varied, the last axis the
   quickest.

   Each is a search of its own, with the machine that its figures make.  There are two waves: the
   points of the second are offered what was found at their neighbours, which are all in the first,
   one value up or down an axis along which layouts carry over.  So what comes of a point depends on
   no order in which points are done. */
#ifndef CLEAVE_CLI_SWEEP_PLAN_H
#define CLEAVE_CLI_SWEEP_PLAN_H

#include "cli/search/options.h"
#include "cli/sweep/axis.h"

enum { SWEEP_MOST_AXES = 4, SWEEP_MOST_POINTS = 4096, SWEEP_N_WAVES = 2, SWEEP_MOST_OPTIONS = 128 };

typedef struct sweep_machine {
    cleave_machine *machine; /* with one device in use */
    int32_t n_devices;       /* that it has */
    const char *name;        /* of its file in the folder of plans; null: the one that was given */
} sweep_machine;

typedef struct sweep_point {
    int32_t at[SWEEP_MOST_AXES]; /* value of each axis */
    int32_t wave;
    int32_t machine;
    int32_t n_devices;
    const char *name; /* of its layout's file in the folder of plans */
} sweep_point;

typedef struct sweep_plan {
    const search_request *request;
    int n_options;
    const char *options[SWEEP_MOST_OPTIONS]; /* of all points, as search takes them */
    char machine_hash[17];                   /* of the text of the file */
    int32_t n_axes;
    sweep_axis axes[SWEEP_MOST_AXES];
    int32_t n_machines;
    sweep_machine *machines;
    int32_t n_points;
    sweep_point *points;
} sweep_plan;

/* Reads what is varied and makes the points of a plan whose request and options are set.
   `searches` are the options that may be varied.  BAD_INPUT. */
cleave_status sweep_plan_create(const option_table *searches, const option_texts *varied,
                                cleave_arena *arena, sweep_plan *plan, cleave_error *error);

/* What is asked for at a point. */
cleave_status sweep_plan_request(const sweep_plan *plan, const sweep_point *point,
                                 search_request *request, cleave_error *error);

enum { SWEEP_MOST_NEIGHBOURS = 4 };
/* The points whose layouts this one is offered; returns how many. */
int32_t sweep_plan_neighbours(const sweep_plan *plan, int32_t point,
                              int32_t neighbours[SWEEP_MOST_NEIGHBOURS]);

/* How many points one value of an axis is before the next. */
static inline int32_t sweep_plan_stride(const sweep_plan *plan, int32_t axis) {
    int32_t stride = 1;
    for (int32_t a = axis + 1; a < plan->n_axes; a++)
        stride *= plan->axes[a].n;
    return stride;
}

/* "devices=8, network.bandwidth=100 Gbit/s", but for one axis (-1: for none). */
void sweep_plan_describe(const sweep_plan *plan, const sweep_point *point, int32_t but_axis,
                         char *text, size_t bytes);

#endif
