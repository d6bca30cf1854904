#include "simulator/step/layout_step.h"

cleave_status cleave_layout_step_make(const cleave_pricing *of, cleave_arena *arena,
                                      cleave_layout_step *step, cleave_error *error) {
    *step = (cleave_layout_step){0};
    CLEAVE_TRY(cleave_priced_program_make(of, arena, &step->priced, error));
    CLEAVE_TRY(cleave_program_check(&step->priced.program, error));
    return cleave_simulated_step_make(&step->priced.program, cleave_priced_turns(&step->priced),
                                      step->priced.cache, arena, &step->simulated, error);
}

void cleave_layout_step_destroy(cleave_layout_step *step) {
    cleave_cost_cache_destroy(step->priced.cache);
    step->priced.cache = NULL;
}

double cleave_layout_step_seconds(const cleave_layout_step *step) {
    return 1e-12 * (double)step->simulated.timeline.step;
}

int64_t cleave_layout_step_peak_bytes(const cleave_layout_step *step) {
    int64_t peak = 0;
    for (int32_t d = 0; d < step->priced.n_devices; d++)
        if (step->priced.peak_bytes[d] > peak)
            peak = step->priced.peak_bytes[d];
    return peak;
}
