/* Where a framework is to run what is found, layouts are tried as that runs them: exported and read
   back.  So they are priced with all that it can't say, and are exported as they are found. */
#include "search/pipeline/internal.h"

#include <stdio.h>

/* For who asks for such layouts, if there are none. */
static void note_why(pipeline_finder *f, const cleave_export_plan *plan) {
    const cleave_model *model = f->pricer->model;
    int zero = f->options->wish.zero;
    for (int32_t i = 0; i < plan->n_lost; i++) {
        const cleave_lost *lost = &plan->lost[i];
        if (strcmp(lost->what, zero > 0 ? cleave_sharded_names[zero - 1] : "schedule") == 0 ||
            strcmp(lost->what, "schedule") == 0)
            snprintf(f->found->why_none, sizeof f->found->why_none, "%s can't say them: %s%s%s%s",
                     cleave_target_names[plan->target], lost->why, lost->tensor >= 0 ? " (" : "",
                     lost->tensor >= 0 ? model->tensors[lost->tensor].name : "",
                     lost->tensor >= 0 ? ")" : "");
    }
}

/* What is left of a plan for stages, or for more, is not what was asked for where it is plain; nor
   is what shards less than was. */
static bool is_as_asked(const pipeline_finder *f, const cleave_layout *asked,
                        const cleave_layout *said) {
    int zero = f->options->wish.zero;
    return (cleave_layout_is_plain(asked) || !cleave_layout_is_plain(said)) &&
           (zero == 0 || pipeline_most_sharded(said) == zero - 1);
}

cleave_status pipeline_say(pipeline_finder *f, const cleave_layout *layout, cleave_arena *arena,
                           cleave_layout *said, bool *says) {
    cleave_export_plan plan;
    cleave_error why = {""};
    const cleave_schedule *asked = &layout->schedule, *made = &plan.schedule;
    CLEAVE_TRY(cleave_export_make_exact(f->pricer->model, layout, f->options->constraints->target,
                                        arena, &plan, f->error));
    *says = made->n_stages == asked->n_stages && made->micro_batches == asked->micro_batches &&
            (made->kind == asked->kind || made->n_stages == 1);
    cleave_status status = CLEAVE_OK;
    if (*says) {
        status = cleave_export_read_back(f->pricer->model, layout, &plan, arena, said, &why);
        *says = status == CLEAVE_OK && is_as_asked(f, layout, said);
    }
    if (!*says)
        note_why(f, &plan);
    if (status != CLEAVE_OK && status != CLEAVE_BAD_INPUT && f->error != NULL)
        *f->error = why;
    return status == CLEAVE_BAD_INPUT ? CLEAVE_OK : status;
}
