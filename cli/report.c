/* `cleave report`: a page to look at. */
#include "base/file.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/report/panels.h"
#include "graph/model/attention.h"

#include <stdio.h>
#include <string.h>

typedef struct report_values {
    common_options common;
    const char *layout, *run, *sweep, *output;
    int64_t splits;
    double memory_limit;
} report_values;

static const option_row rows[] = {
    ROW_MODEL,
    ROWS_IMPORT,
    ROW_MACHINE,
    ROW_FORWARD,
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(report_values, layout), .required = true,
     .help = "the layout to show"},
    {"--run", "RUN.json", OPTION_TEXT, offsetof(report_values, run),
     .help = "a trace that `cleave run --trace RUN.json` wrote: measured above predicted"},
    {"--sweep", "SWEEP.json", OPTION_TEXT, offsetof(report_values, sweep),
     .help = "what `cleave sweep --vary memory-limit=...` wrote: the step over the memory limit"},
    {"-o", "PLAN.html", OPTION_OUTPUT, offsetof(report_values, output), .required = true,
     .help = "the page"},
    {"--splits", "K", OPTION_INTEGER, offsetof(report_values, splits), .most = 1 << 20,
     .standard = "64", .help = "try about so many other splits of each operator, 0: all"},
    {"--memory-limit", "SIZE", OPTION_BYTES, offsetof(report_values, memory_limit), .least = 1,
     .most = 0x1p62, .help = "most memory per device, such as \"2 GiB\" (default the machine's)"},
    ROWS_OPTIMIZER,
    ROW_QUIET,
};

/* Prices what is known by name, for one that applies: none may. */
static cleave_status price_known(const report_values *values, const report_step *step, int states,
                                 cleave_arena *arena, cleave_search_result *known, bool *any,
                                 cleave_error *error) {
    cleave_search_options options = {.memory_limit_bytes = (int64_t)values->memory_limit,
                                     .optimizer_states = states,
                                     .quiet = values->common.quiet};
    /* None of these has keys that go round. */
    cleave_model model = *step->imported;
    model.stores_scores = step->layout->stores_scores;
    CLEAVE_TRY(cleave_model_fuse_attention(&model, NULL, arena, &model, error));
    *any = false;
    for (int32_t b = 0; cleave_baseline_names[b] != NULL && !*any; b++) {
        options.method = cleave_baseline_names[b];
        cleave_status status = cleave_search(&model, step->machine, &options, arena, known, error);
        /* BAD_INPUT: of that name there is nothing, as of stages where a node is all there is. */
        if (status == CLEAVE_FAILED)
            return status;
        *any = status == CLEAVE_OK;
    }
    return CLEAVE_OK;
}

static cleave_status put_timeline(cleave_markup *page, const report *of, cleave_error *error) {
    return report_put_timeline(page, &of->step, 1, error);
}

static cleave_status (*const panels[])(cleave_markup *, const report *, cleave_error *) = {
    report_put_summary, report_put_model,   put_timeline,         report_put_memory,
    report_put_limits,  report_put_traffic, report_put_operators, report_put_known,
};

static cleave_status write_page(const report_values *values, const report *of,
                                cleave_error *error) {
    cleave_markup page = {0};
    char title[400], about[700];
    cleave_status status = CLEAVE_OK;
    snprintf(title, sizeof title, "%s on %d device%s of %s", cleave_file_name(values->common.model),
             of->step->layout->n_devices, of->step->layout->n_devices == 1 ? "" : "s",
             of->step->machine->name);
    snprintf(about, sizeof about, "%s%s%s, batch %lld", cleave_file_name(values->layout),
             of->step->layout->method[0] != '\0' ? ", found by " : "", of->step->layout->method,
             (long long)of->step->model.batch);
    cleave_page_begin(&page, title, about);
    report_put_patterns(&page);
    for (size_t i = 0; i < sizeof panels / sizeof panels[0] && status == CLEAVE_OK; i++)
        status = panels[i](&page, of, error);
    if (status == CLEAVE_OK) {
        cleave_page_end(&page);
        return cleave_markup_write(&page, values->output, error);
    }
    cleave_markup_free(&page);
    return status;
}

static cleave_status show(const report_values *values, const report_step *step, int states,
                          cleave_arena *arena, cleave_error *error) {
    explanation why;
    cleave_search_result known;
    report_traffic traffic;
    bool any = false;
    const explain_question asked = {.model = &step->model,
                                    .machine = step->machine,
                                    .layout = step->layout,
                                    .path = &step->path,
                                    .most_splits = values->splits,
                                    .memory_limit_bytes = (int64_t)values->memory_limit,
                                    .optimizer_states = states,
                                    .as_it_is = step->of.priced.is_folded,
                                    .quiet = values->common.quiet};
    CLEAVE_TRY(explain_layout(&asked, arena, &why, error));
    CLEAVE_TRY(price_known(values, step, states, arena, &known, &any, error));
    CLEAVE_TRY(report_traffic_find(step, arena, &traffic, error));
    const report of = {.step = step,
                       .why = &why,
                       .known = any ? &known : NULL,
                       .traffic = &traffic,
                       .sweep = values->sweep,
                       .arena = arena};
    return write_page(values, &of, error);
}

static cleave_status make(const void *any, char *const *arguments, cleave_arena *arena,
                          cleave_error *error) {
    const report_values *values = any;
    (void)arguments;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    report_step step = {0};
    int states;
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &states, error));
    CLEAVE_TRY(inputs_model(&values->common, arena, &model, error));
    CLEAVE_TRY(cleave_layout_read(values->layout, &model, arena, &layout, error));
    CLEAVE_TRY(
        cleave_machine_read(values->common.machine, layout.n_devices, arena, &machine, error));
    const cleave_pricing of = {&model, &machine, &layout, .all_micro_batches = true,
                               .optimizer_states = states};
    cleave_status status = report_step_make(&of, arena, &step, error);
    if (status == CLEAVE_OK && values->run != NULL)
        status = report_step_measure(&step, values->run, arena, error);
    if (status == CLEAVE_OK)
        status = show(values, &step, states, arena, error);
    report_step_destroy(&step);
    return status;
}

const command command_report = {
    .name = "report",
    .summary = "write a page that shows a layout: one file, for any browser",
    .details = "The model and its splits on a picture of the devices, the step over time,\n"
               "memory, traffic, the critical path by operator with the next best splits, and\n"
               "strategies known by name.  The page fetches nothing.  Of more than 64\n"
               "devices some are shown for all, with collectives in closed form, as in a search.",
    .examples = "  cleave report --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json \\\n"
                "      --layout configs/layouts/alexnet-32-two-cores.layout.json -o alexnet.html\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(report_values),
    .run = make,
};
