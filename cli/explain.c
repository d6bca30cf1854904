/* `cleave explain`: why a layout is as it is, operator by operator. */
#include "base/process.h"
#include "cli/command.h"
#include "cli/explain/report.h"
#include "cli/inputs.h"
#include "graph/model/attention.h"

typedef struct explain_values {
    common_options common;
    const char *layout, *operator_name;
    int64_t splits;
    double memory_limit;
} explain_values;

static const option_row rows[] = {
    ROW_MODEL,
    ROWS_IMPORT,
    ROW_MACHINE,
    ROW_FORWARD,
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(explain_values, layout),
     .required = true, .help = "the layout to explain"},
    {"--operator", "NAME", OPTION_TEXT, offsetof(explain_values, operator_name),
     .help = "this one alone, with its best other splits on any block of devices"},
    {"--splits", "K", OPTION_INTEGER, offsetof(explain_values, splits), .most = 1 << 20,
     .standard = "64", .help = "try about so many other splits of each operator, 0: all"},
    {"--memory-limit", "SIZE", OPTION_BYTES, offsetof(explain_values, memory_limit), .least = 1,
     .most = 0x1p62, .help = "most memory per device, such as \"2 GiB\" (default the machine's)"},
    ROWS_OPTIMIZER,
    ROW_JSON,
    ROW_QUIET,
};

static cleave_status explain(const void *any, char *const *arguments, cleave_arena *arena,
                             cleave_error *error) {
    const explain_values *values = any;
    (void)arguments;
    cleave_process_keep_memory();
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    explanation e;
    explain_question asked = {.model = &model,
                              .machine = &machine,
                              .layout = &layout,
                              .operator_name = values->operator_name,
                              .most_splits = values->splits,
                              .memory_limit_bytes = (int64_t)values->memory_limit,
                              .quiet = values->common.quiet};
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &asked.optimizer_states, error));
    CLEAVE_TRY(inputs_model(&values->common, arena, &model, error));
    CLEAVE_TRY(cleave_layout_read(values->layout, &model, arena, &layout, error));
    CLEAVE_TRY(cleave_model_fuse_attention(&model, &layout, arena, &model, error));
    CLEAVE_TRY(
        cleave_machine_read(values->common.machine, layout.n_devices, arena, &machine, error));
    CLEAVE_TRY(explain_layout(&asked, arena, &e, error));
    if (values->common.json)
        return explain_print_json(&e, error);
    explain_print(&e, arena);
    return CLEAVE_OK;
}

const command command_explain = {
    .name = "explain",
    .summary = "say where time and memory of a layout go, and the next best splits",
    .details = "Times are those of the critical path, so that all operators together make up the\n"
               "step: computing, exchanging activations, synchronising parameters, and waiting\n"
               "for latency and busy links.  An operator is bound by what takes most of that, or\n"
               "by memory where a quicker split does not fit.  Memory is what its parameters,\n"
               "with their gradients and state, and its activations take on the device that\n"
               "holds most of them.  The last columns say what the step becomes where this\n"
               "operator alone has its next best split; of a layout in stages or micro-batches,\n"
               "what another number of micro-batches, another kind of schedule or other\n"
               "recomputation would make of it.",
    .examples = "  cleave explain --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json \\\n"
                "      --layout configs/layouts/alexnet-32-two-cores.layout.json\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(explain_values),
    .run = explain,
};
