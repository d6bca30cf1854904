/* Says how long a step of a layout takes, where the time goes, and what memory each device needs.
     usage: simulate MODEL.onnx BATCH MACHINE.json PLAN.layout.json */
#include <cleave/cleave.h>
#include <stdio.h>
#include <stdlib.h>

static int complain(cleave_status status, const cleave_error *error) {
    fprintf(stderr, "simulate: %s\n", error->message);
    return (int)status;
}

static void print_step(const cleave_simulation *step) {
    printf("step %.6f s, %lld bytes sent, %.0f %% of it on data sheets\n", step->step_seconds,
           (long long)step->bytes_sent, 100 * step->data_sheet);
    for (int32_t d = 0; d < step->n_devices; d++)
        printf("device %d: %lld bytes\n", (int)d, (long long)step->peak_bytes[d]);
    const cleave_timed_item *last = &step->items[0];
    for (int32_t i = 1; i < step->n_items; i++)
        if (step->items[i].end_seconds > last->end_seconds)
            last = &step->items[i];
    printf("the last of %d things to end is %s on device %d, from %.6f to %.6f s\n",
           (int)step->n_items, last->label, (int)last->device, last->start_seconds,
           last->end_seconds);
}

static void print_reasons(const cleave_model *model, const cleave_explanation *why) {
    for (int32_t i = 0; i < why->n_operators && i < 5; i++) {
        const cleave_explained_operator *of = &why->operators[i];
        printf("%s is bound by %s: computes for %.6f s of the critical path\n",
               cleave_operator_name(model, of->op), of->bound_by, of->critical.compute_seconds);
        if (of->other_step_seconds > 0)
            printf("  with its best other split the step takes %.6f s\n", of->other_step_seconds);
    }
}

int main(int argc, char **argv) {
    cleave_error error;
    cleave_model *model;
    cleave_layout *layout;
    cleave_machine *machine;
    cleave_simulation *step;
    cleave_explanation *why;
    cleave_model_settings how = CLEAVE_MODEL_SETTINGS_INIT;
    cleave_simulation_settings with = CLEAVE_SIMULATION_SETTINGS_INIT;
    cleave_status status;
    if (argc != 5)
        return fputs("usage: simulate MODEL.onnx BATCH MACHINE.json PLAN.layout.json\n", stderr), 2;

    how.batch = atoll(argv[2]);
    with.timeline = true;
    if ((status = cleave_model_load(argv[1], &how, &model, &error)) != CLEAVE_OK ||
        (status = cleave_layout_load(argv[4], model, &layout, &error)) != CLEAVE_OK ||
        (status = cleave_machine_load(argv[3], cleave_layout_device_count(layout), &machine,
                                      &error)) != CLEAVE_OK ||
        (status = cleave_layout_simulate(model, machine, layout, &with, &step, &error)) !=
            CLEAVE_OK ||
        (status = cleave_layout_explain(model, machine, layout, NULL, &why, &error)) != CLEAVE_OK)
        return complain(status, &error);
    print_step(step);
    print_reasons(model, why);

    cleave_explanation_free(why);
    cleave_simulation_free(step);
    cleave_machine_free(machine);
    cleave_layout_free(layout);
    cleave_model_free(model);
    return 0;
}
