/* Finds the best layout of a model on a machine, and writes it.
     usage: plan MODEL.onnx BATCH MACHINE.json PLAN.layout.json */
#include <cleave/cleave.h>
#include <stdio.h>
#include <stdlib.h>

static int complain(cleave_status status, const cleave_error *error) {
    fprintf(stderr, "plan: %s\n", error->message);
    return (int)status;
}

int main(int argc, char **argv) {
    cleave_error error;
    cleave_model *model;
    cleave_machine *machine;
    cleave_search_outcome *found;
    cleave_model_settings how = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_status status;
    if (argc != 5)
        return fputs("usage: plan MODEL.onnx BATCH MACHINE.json PLAN.layout.json\n", stderr), 2;

    how.batch = atoll(argv[2]);
    if ((status = cleave_model_load(argv[1], &how, &model, &error)) != CLEAVE_OK ||
        (status = cleave_machine_load(argv[3], 0, &machine, &error)) != CLEAVE_OK ||
        (status = cleave_layout_search(model, machine, NULL, &found, &error)) != CLEAVE_OK ||
        (status = cleave_layout_write(argv[4], model, found->layout, &error)) != CLEAVE_OK)
        return complain(status, &error);

    for (int32_t i = 0; i < found->n_baselines; i++)
        if (found->baselines[i].applies)
            printf("%-18s %10.6f s\n", found->baselines[i].name, found->baselines[i].step_seconds);
    printf("%-18s %10.6f s, no layout takes less than %.6f s\n", "found", found->step_seconds,
           found->lower_bound_seconds);

    cleave_search_outcome_free(found);
    cleave_machine_free(machine);
    cleave_model_free(model);
    return 0;
}
