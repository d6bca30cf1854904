/* Trains a model by a layout, a process for each device, and prints the loss.
     usage: train MODEL.onnx BATCH PLAN.layout.json */
#include <cleave/cleave.h>
#include <stdio.h>
#include <stdlib.h>

static void print_run(const cleave_run_outcome *run) {
    if (run->rank != 0)
        return;
    for (int64_t i = 0; i < run->n_steps; i++)
        printf("step %lld: loss %.6f\n", (long long)i + 1, run->loss[i]);
    printf("a step takes %.6f s\n", run->median_step_seconds);
}

int main(int argc, char **argv) {
    cleave_error error;
    cleave_model *model;
    cleave_layout *layout;
    cleave_run_outcome *run;
    cleave_model_settings how = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_run_settings training = CLEAVE_RUN_SETTINGS_INIT;
    cleave_status status;
    if (argc != 4)
        return fputs("usage: train MODEL.onnx BATCH PLAN.layout.json\n", stderr), 2;

    how.batch = atoll(argv[2]);
    training.steps = 5;
    status = cleave_model_load(argv[1], &how, &model, &error);
    if (status == CLEAVE_OK)
        status = cleave_layout_load(argv[3], model, &layout, &error);
    /* Started by hand, it starts itself again as ranks; each of them comes here, too. */
    if (status == CLEAVE_OK && !cleave_world_is_launched()) {
        status = cleave_world_launch_self(cleave_layout_device_count(layout), argv, &error);
    } else if (status == CLEAVE_OK) {
        status = cleave_layout_run(model, layout, &training, &run, &error);
        if (status == CLEAVE_OK) {
            print_run(run);
            cleave_run_outcome_free(run);
        }
    }
    if (status != CLEAVE_OK && error.message[0] != '\0')
        fprintf(stderr, "train: %s\n", error.message);
    return (int)status;
}
