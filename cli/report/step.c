#include "cli/report/step.h"

#include "graph/model/attention.h"
#include "search/search.h"

static cleave_status simulate(report_step *s, cleave_arena *arena, cleave_error *error) {
    const cleave_program *program = &s->priced.program;
    CLEAVE_TRY(cleave_program_check(program, error));
    CLEAVE_TRY(cleave_simulated_step_make(program, s->priced.cache, arena, &s->simulated, error));
    CLEAVE_TRY(cleave_critical_path_find(&s->simulated.problem, &s->simulated.timeline, arena,
                                         &s->critical, error));
    return explain_path_find(&s->model, &s->priced, &s->simulated, arena, &s->path, error);
}

cleave_status report_step_make(const cleave_model *model, const cleave_machine *machine,
                               const cleave_layout *layout, int optimizer_states,
                               cleave_arena *arena, report_step *step, cleave_error *error) {
    report_step *s = step;
    *s = (report_step){.machine = machine, .layout = layout};
    CLEAVE_TRY(cleave_model_fuse_attention(model, layout, arena, &s->model, error));
    cleave_pricing how = {.training = cleave_model_trains(&s->model),
                          .optimizer_states = optimizer_states};
    how.closed_form = how.folded = layout->n_devices > CLEAVE_MOST_LOWERED;
    cleave_status status =
        cleave_priced_program_make(&s->model, machine, layout, &how, arena, &s->priced, error);
    s->is_folded = how.folded && status == CLEAVE_OK;
    if (how.folded && status == CLEAVE_NO_LAYOUT) {
        how.closed_form = how.folded = false;
        status =
            cleave_priced_program_make(&s->model, machine, layout, &how, arena, &s->priced, error);
    }
    CLEAVE_TRY(status);
    s->is_closed = how.closed_form || cleave_machine_knows_collectives(machine);
    return simulate(s, arena, error);
}

void report_step_destroy(report_step *step) {
    if (step->priced.cache != NULL)
        cleave_cost_cache_destroy(step->priced.cache);
    step->priced.cache = NULL;
}
