/* What one layout takes. */
#include "cli/predict.h"

#include "simulator/step/layout_step.h"

cleave_status predict_layout(const cleave_pricing *of, prediction *result, cleave_error *error) {
    cleave_layout_step step;
    cleave_arena scratch = {0};
    cleave_status status = cleave_layout_step_make(of, &scratch, &step, error);
    if (status == CLEAVE_OK)
        *result = (prediction){.step_seconds = cleave_layout_step_seconds(&step),
                               .bytes_sent = step.priced.bytes_sent,
                               .peak_bytes = cleave_layout_step_peak_bytes(&step)};
    cleave_layout_step_destroy(&step);
    cleave_arena_free(&scratch);
    return status;
}
