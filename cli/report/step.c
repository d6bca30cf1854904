#include "cli/report/step.h"

#include "graph/model/attention.h"

cleave_status report_step_make(const cleave_model *model, const cleave_machine *machine,
                               const cleave_layout *layout, int optimizer_states,
                               cleave_arena *arena, report_step *step, cleave_error *error) {
    report_step *s = step;
    *s = (report_step){.imported = model, .machine = machine, .layout = layout};
    CLEAVE_TRY(cleave_model_fuse_attention(model, layout, arena, &s->model, error));
    const bool many = layout->n_devices > CLEAVE_MOST_LOWERED;
    const cleave_pricing how = {
        .all_devices = !many, .all_micro_batches = true, .optimizer_states = optimizer_states};
    CLEAVE_TRY(cleave_layout_step_make(&s->model, machine, layout, &how, arena, &s->of, error));
    CLEAVE_TRY(cleave_critical_path_find(&s->of.simulated.problem, &s->of.simulated.turned,
                                         &s->of.simulated.timeline, arena, &s->critical, error));
    return explain_path_find(&s->model, &s->of.priced, &s->of.simulated, arena, &s->path, error);
}

void report_step_destroy(report_step *step) { cleave_layout_step_destroy(&step->of); }
