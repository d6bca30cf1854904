#include "cli/report/step.h"

#include "graph/model/attention.h"

cleave_status report_step_make(const cleave_pricing *of, cleave_arena *arena, report_step *step,
                               cleave_error *error) {
    report_step *s = step;
    cleave_pricing fused = *of;
    *s = (report_step){.imported = of->model, .machine = of->machine, .layout = of->layout};
    CLEAVE_TRY(cleave_model_fuse_attention(of->model, of->layout, arena, &s->model, error));
    fused.model = &s->model;
    fused.all_devices = of->layout->n_devices <= CLEAVE_MOST_LOWERED;
    CLEAVE_TRY(cleave_layout_step_make(&fused, arena, &s->of, error));
    CLEAVE_TRY(cleave_critical_path_find(&s->of.simulated.problem, &s->of.simulated.turned,
                                         &s->of.simulated.timeline, arena, &s->critical, error));
    return explain_path_find(&s->model, &s->of.priced, &s->of.simulated, arena, &s->path, error);
}

void report_step_destroy(report_step *step) { cleave_layout_step_destroy(&step->of); }
