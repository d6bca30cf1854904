/* Steps of making a plan share this: what it is made of, and what is lost on the way. */
#ifndef CLEAVE_GRAPH_EXPORT_MAKE_H
#define CLEAVE_GRAPH_EXPORT_MAKE_H

#include "base/list.h"
#include "graph/export/plan.h"

typedef struct cleave_export_maker {
    const cleave_model *model;
    const cleave_layout *layout;
    cleave_export_plan *plan;
    const cleave_model *window; /* of one micro-batch */
    CLEAVE_LIST(cleave_lost) lost;
    bool exact;  /* what can be had only in another way is left out, too */
    bool failed; /* memory was short */
} cleave_export_maker;

static inline void cleave_export_lose(cleave_export_maker *make, int32_t op, int32_t tensor,
                                      const char *what, const char *why) {
    const cleave_lost lost = {op, tensor, what, why};
    make->failed = !CLEAVE_LIST_PUSH(&make->lost, lost) || make->failed;
}

/* Names the modules of layers of experts, and says which operators are done within them: sets what
   planned operators have from `in_layer` on; experts.c. */
cleave_status cleave_export_find_experts(const cleave_model *model,
                                         cleave_planned_operator *operators, cleave_arena *arena,
                                         cleave_error *error);

/* Cuts what is done within them as their leaders are, once these are; experts.c. */
void cleave_export_settle_experts(cleave_export_maker *make);

/* Sets plan->schedule, n_groups and begins, once operators have names; stages.c. */
cleave_status cleave_export_stages(cleave_export_maker *make, cleave_arena *arena,
                                   cleave_error *error);

/* Sets `begins` of all operators, [n_operators]: PyTorch can; stages.c. */
cleave_status cleave_export_find_begins(const cleave_export_maker *make, cleave_sayable *sayable,
                                        cleave_error *error);

/* Sets plan->recompute and the modules that are run again; recompute.c. */
cleave_status cleave_export_recompute(cleave_export_maker *make, cleave_arena *arena,
                                      cleave_error *error);

/* Where outputs go, and functions that follow what they read: sets `then` of all operators, and the
   cuts of those without a name, which are what the layout says before; follow.c. */
cleave_status cleave_export_follow(const cleave_export_maker *make, cleave_arena *arena,
                                   cleave_error *error);

#endif
