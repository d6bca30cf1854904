/* `cleave compare`: searches, then runs the baselines and the found plan, and sets what was
   predicted beside what was measured.  Each run is `cleave run` as a child, so nothing of one run
   is left in the memory of the next. */
#include "cli/child.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/table.h"
#include "graph/model/attention.h"
#include "search/search.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct compare_values {
    common_options common;
    const char *output;
    int64_t proposals, steps;
    double time;
} compare_values;

static const option_row rows[] = {
    ROW_MODEL,
    ROWS_IMPORT,
    ROW_ATTENTION,
    ROW_MACHINE,
    ROW_DEVICES,
    ROW_DEVICE_THREADS,
    ROW_FORWARD,
    {"--time", "SECONDS", OPTION_SECONDS, offsetof(compare_values, time), .standard = "10",
     .help = "budget of the search"},
    {"--proposals", "K", OPTION_INTEGER, offsetof(compare_values, proposals), .least = 1,
     .most = 0x1p62, .help = "most proposals of the search"},
    {"--steps", "K", OPTION_INTEGER, offsetof(compare_values, steps), .least = 2, .most = 1 << 20,
     .standard = "5", .help = "steps that each layout runs; the first is left out"},
    ROW_SEED,
    ROWS_OPTIMIZER,
    {"-o", "PLAN.layout.json", OPTION_OUTPUT, offsetof(compare_values, output),
     .help = "keep the found layout"},
    ROW_JSON,
    ROW_QUIET,
};

typedef struct measured {
    double step_seconds;
    int64_t rss_peak_bytes; /* of the fullest device */
    int64_t bytes_sent;
} measured;

typedef struct comparison {
    const char *name;
    const cleave_plan *plan;
    measured measured;
} comparison;

static cleave_status read_largest(const cleave_json_cursor *list, int64_t *largest,
                                  cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(list, error));
    int64_t most = 0;
    for (int32_t i = 0; i < cleave_json_count(list); i++) {
        int64_t value;
        cleave_json_cursor at = cleave_json_element(list, i);
        CLEAVE_TRY(cleave_json_integer(&at, 0, INT64_MAX, &value, error));
        most = value > most ? value : most;
    }
    *largest = most;
    return CLEAVE_OK;
}

static cleave_status read_measured(const cleave_json *document, measured *result,
                                   cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document), at;
    CLEAVE_TRY(cleave_json_get_number(&root, "step_seconds", &result->step_seconds, error));
    CLEAVE_TRY(
        cleave_json_get_integer(&root, "bytes_sent", 0, INT64_MAX, &result->bytes_sent, error));
    CLEAVE_TRY(cleave_json_get(&root, "rss_peak_bytes", &at, error));
    return read_largest(&at, &result->rss_peak_bytes, error);
}

/* Writes the layout to `path` and runs it. */
static cleave_status measure(const compare_values *values, const cleave_model *model,
                             const char *path, comparison *c, cleave_error *error) {
    child_arguments child = {.words = {"run", "--layout", path, "--json"}, .n = 4};
    child_add_integer(&child, "--steps", values->steps);
    child_add_common(&child, &values->common);
    CLEAVE_TRY(cleave_layout_write(path, model, &c->plan->layout, error));
    if (!values->common.quiet)
        fprintf(stderr, "running %s, %lld steps\n", c->name, (long long)values->steps);
    cleave_json *document;
    cleave_status status = child_run_json(child.words, &document, error);
    if (status == CLEAVE_OK) {
        status = read_measured(document, &c->measured, error);
        cleave_json_free(document);
    }
    if (status != CLEAVE_OK)
        cleave_error_prefix(error, "layout %s", c->name);
    return status;
}

static cleave_status measure_all(const compare_values *values, const cleave_model *model,
                                 comparison *all, int n, cleave_error *error) {
    const char *folder = getenv("TMPDIR");
    char path[4096], place[4096];
    snprintf(place, sizeof place, "%s/cleave-compare-XXXXXX", folder != NULL ? folder : "/tmp");
    if (mkdtemp(place) == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "%s: no folder can be made here", place);
    snprintf(path, sizeof path, "%s/plan.layout.json", place);
    cleave_status status = CLEAVE_OK;
    for (int i = 0; i < n && status == CLEAVE_OK; i++)
        status = measure(values, model, path, &all[i], error);
    unlink(path);
    rmdir(place);
    return status;
}

static void print_text(const comparison *all, int n, cleave_arena *arena) {
    static const char *const heads[] = {"layout", "predicted", "measured",    "error",
                                        "memory", "measured",  "sent a step", "measured"};
    table t = {.arena = arena, .n_columns = 8, .align = "lrrrrrrr"};
    table_heads(&t, heads);
    for (int i = 0; i < n; i++) {
        const comparison *c = &all[i];
        table_text(&t, c->name);
        table_quantity(&t, c->plan->step_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, c->measured.step_seconds, CLEAVE_UNIT_SECONDS);
        table_format(&t, "%+.1f %%", 100 * (c->plan->step_seconds / c->measured.step_seconds - 1));
        table_quantity(&t, (double)c->plan->peak_bytes, CLEAVE_UNIT_BYTES);
        table_quantity(&t, (double)c->measured.rss_peak_bytes, CLEAVE_UNIT_BYTES);
        table_quantity(&t, (double)c->plan->bytes_sent, CLEAVE_UNIT_BYTES);
        table_quantity(&t, (double)c->measured.bytes_sent, CLEAVE_UNIT_BYTES);
    }
    table_print(&t, stdout);
}

static cleave_status print_json(const comparison *all, int n, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_open_object(&w, "layouts", false);
    for (int i = 0; i < n; i++) {
        cleave_json_open_object(&w, all[i].name, false);
        cleave_json_set_number(&w, "predicted_step_seconds", all[i].plan->step_seconds);
        cleave_json_set_number(&w, "step_seconds", all[i].measured.step_seconds);
        cleave_json_set_integer(&w, "predicted_peak_bytes", all[i].plan->peak_bytes);
        cleave_json_set_integer(&w, "rss_peak_bytes", all[i].measured.rss_peak_bytes);
        cleave_json_set_integer(&w, "predicted_bytes_sent", all[i].plan->bytes_sent);
        cleave_json_set_integer(&w, "bytes_sent", all[i].measured.bytes_sent);
        cleave_json_end_object(&w);
    }
    cleave_json_end_object(&w);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

/* The baselines that apply, then the found plan. */
static cleave_status list_plans(const cleave_search_result *result, cleave_arena *arena,
                                comparison **all, int *n, cleave_error *error) {
    comparison *list = CLEAVE_ARENA_ARRAY(arena, comparison, result->n_baselines + 1);
    char *found = cleave_arena_printf(arena, "found (%s)", result->best.method);
    if (list == NULL || found == NULL)
        return cleave_fail_memory(error, "listing the plans");
    int count = 0;
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].applies)
            list[count++] =
                (comparison){.name = cleave_baseline_names[b], .plan = &result->baselines[b]};
    list[count++] = (comparison){.name = found, .plan = &result->best};
    *all = list;
    *n = count;
    return CLEAVE_OK;
}

static cleave_status compare(const void *any, char *const *arguments, cleave_arena *arena,
                             cleave_error *error) {
    const compare_values *values = any;
    (void)arguments;
    cleave_search_options options = {.method = "auto",
                                     .time_seconds = values->time,
                                     .proposals = values->proposals,
                                     .seed = (uint64_t)values->common.seed,
                                     .quiet = values->common.quiet};
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &options.optimizer_states, error));
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    comparison *all = NULL;
    int n = 0;
    CLEAVE_TRY(inputs_model(&values->common, arena, &model, error));
    CLEAVE_TRY(inputs_attention(values->common.attention, &model, error));
    CLEAVE_TRY(cleave_model_fuse_attention(&model, NULL, arena, &model, error));
    CLEAVE_TRY(cleave_machine_read(values->common.machine, (int32_t)values->common.devices, arena,
                                   &machine, error));
    CLEAVE_TRY(inputs_device_threads(&machine, values->common.machine,
                                     values->common.device_threads, error));
    CLEAVE_TRY(cleave_search(&model, &machine, &options, arena, &result, error));
    if (values->output != NULL)
        CLEAVE_TRY(cleave_layout_write(values->output, &model, &result.best.layout, error));
    CLEAVE_TRY(list_plans(&result, arena, &all, &n, error));
    CLEAVE_TRY(measure_all(values, &model, all, n, error));
    if (values->common.json)
        return print_json(all, n, error);
    print_text(all, n, arena);
    const char *note = inputs_provenance_note(&machine);
    if (note[0] != '\0')
        printf("%s\n", note);
    return CLEAVE_OK;
}

const command command_compare = {
    .name = "compare",
    .summary = "search, run baselines and found plan, and compare with predictions",
    .details = "Step time (median), memory (of the fullest device) and bytes sent (all devices),\n"
               "each predicted and measured.",
    .examples = "  cleave compare --model configs/models/lenet5.onnx --batch 256 \\\n"
                "      --machine configs/machines/two-cores.json --time 5\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(compare_values),
    .run = compare,
};
