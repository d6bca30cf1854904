/* What one layout takes. */
#include "cli/predict.h"

#include "simulator/step/priced_program.h"
#include "simulator/step/simulated_step.h"

cleave_status predict_layout(const cleave_model *model, const cleave_machine *machine,
                             const cleave_layout *layout, int optimizer_states, prediction *result,
                             cleave_error *error) {
    cleave_priced_program priced = {0};
    cleave_simulated_step step;
    cleave_arena scratch = {0};
    const cleave_pricing how = {.training = cleave_model_trains(model),
                                .optimizer_states = optimizer_states};
    cleave_status status =
        cleave_priced_program_make(model, machine, layout, &how, &scratch, &priced, error);
    if (status == CLEAVE_OK)
        status = cleave_simulated_step_make(&priced.program, priced.cache, &scratch, &step, error);
    if (status == CLEAVE_OK) {
        *result = (prediction){.step_seconds = 1e-12 * (double)step.timeline.step,
                               .bytes_sent = priced.bytes_sent};
        for (int32_t d = 0; d < priced.n_devices; d++)
            if (priced.peak_bytes[d] > result->peak_bytes)
                result->peak_bytes = priced.peak_bytes[d];
    }
    cleave_cost_cache_destroy(priced.cache);
    cleave_arena_free(&scratch);
    return status;
}
