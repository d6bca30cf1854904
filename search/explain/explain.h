/* Why a layout is as it is, operator by operator: its share of the critical path, its memory, what
   binds it, and the step with its next best splits. */
#ifndef CLEAVE_SEARCH_EXPLAIN_EXPLAIN_H
#define CLEAVE_SEARCH_EXPLAIN_EXPLAIN_H

#include "search/explain/changes.h"
#include "search/explain/path.h"
#include "search/explain/schedules.h"

typedef struct explain_question {
    const cleave_model *model; /* as cleave_model_fuse_attention makes it for the layout */
    const cleave_machine *machine;
    const cleave_layout *layout;
    const explain_path *path;   /* of its step where that was simulated before, or null */
    const char *operator_name;  /* this one alone, with its best splits on any block; null: all */
    int64_t most_splits;        /* of an operator that are tried, about; 0: all */
    int64_t memory_limit_bytes; /* per device; 0: the machine's */
    int optimizer_states;
    bool as_it_is; /* nothing else is tried */
    bool quiet;    /* no progress */
} explain_question;

typedef struct explanation {
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_layout *layout;
    explain_path path;
    int64_t estimated_step;        /* picoseconds, by the estimate that changes are tried with */
    int64_t memory_limit_bytes;    /* of the fullest device */
    int32_t n;                     /* operators to tell about */
    int32_t *order;                /* [n] by their share of the step, the largest first */
    const explain_choice *choices; /* [n_operators] of those */
    int64_t tried, not_tried;      /* splits, of all */
    bool is_whole;                 /* all operators, else one that was asked for by name */
    explain_schedules schedules;   /* of a layout with a schedule, instead of other splits */
} explanation;

/* What binds an operator: "memory" where a quicker split does not fit; else what takes most of its
   share of the critical path, "compute", "link A -> B" or "waiting"; "nothing" where it has none.
 */
void explain_binds(const explanation *e, int32_t op, char *text, size_t bytes);

/* The step with another split, seconds: the estimate's ratio applied to the layout's step. */
double explain_step_with(const explanation *e, const explain_alternative *alternative);

/* Simulates the layout and tries other splits.  Everything lives in the arena; model, machine and
   layout must live as long.  BAD_INPUT where there is no operator of that name. */
cleave_status explain_layout(const explain_question *asked, cleave_arena *arena,
                             explanation *result, cleave_error *error);

/* Of the picoseconds of a path or an operator, by sort: computing, updates included. */
int64_t explain_computing(const int64_t *picoseconds);
/* "device 0 -> switch", or "none" of -1. */
void explain_link_name(const cleave_machine *machine, int32_t link, char *text, size_t bytes);

#endif
