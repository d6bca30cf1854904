/* Plans on a machine that no file describes: nodes of four devices, so many of them, whose text is
   made here.  Prints how much quicker a step gets with every doubling of the nodes.
     usage: own_machine MODEL.onnx BATCH MOST_NODES */
#include <cleave/cleave.h>
#include <stdio.h>
#include <stdlib.h>

static const char format[] =
    "{\"cleave_machine\": 1, \"name\": \"own\","
    " \"kinds\": {\"card\": {\"memory\": \"16 GiB\", \"flops\": \"10 TFLOP/s\","
    "                        \"memory_bandwidth\": \"700 GB/s\", \"launch\": \"5 us\"}},"
    " \"node\": {\"count\": %d, \"devices\": 4, \"kind\": \"card\","
    "  \"links\": [{\"join\": [[0, 1, 2, 3, \"nic\"]], \"through\": \"bus\","
    "              \"bandwidth\": \"12 GB/s\", \"latency\": \"5 us\"}]},"
    " \"network\": {\"join\": \"nic\", \"through\": \"switch\","
    "              \"bandwidth\": \"3 GB/s\", \"latency\": \"10 us\"}}";

static cleave_status plan(const cleave_model *model, int nodes, cleave_error *error) {
    char text[2048];
    cleave_machine *machine;
    cleave_search_outcome *found;
    int n = snprintf(text, sizeof text, format, nodes);
    cleave_status status =
        cleave_machine_load_text(text, (size_t)n, "own machine", 0, &machine, error);
    if (status != CLEAVE_OK)
        return status;
    status = cleave_layout_search(model, machine, NULL, &found, error);
    if (status == CLEAVE_OK) {
        printf("%d devices: %.6f s, by %s\n", (int)cleave_machine_device_count(machine),
               found->step_seconds, found->method);
        cleave_search_outcome_free(found);
    }
    cleave_machine_free(machine);
    return status;
}

int main(int argc, char **argv) {
    cleave_error error;
    cleave_model *model;
    cleave_model_settings how = CLEAVE_MODEL_SETTINGS_INIT;
    if (argc != 4)
        return fputs("usage: own_machine MODEL.onnx BATCH MOST_NODES\n", stderr), 2;
    how.batch = atoll(argv[2]);
    cleave_status status = cleave_model_load(argv[1], &how, &model, &error);
    if (status == CLEAVE_OK) {
        for (int nodes = 1; nodes <= atoi(argv[3]) && status == CLEAVE_OK; nodes *= 2)
            status = plan(model, nodes, &error);
        cleave_model_free(model);
    }
    if (status != CLEAVE_OK)
        fprintf(stderr, "own_machine: %s\n", error.message);
    return (int)status;
}
