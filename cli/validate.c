/* `cleave validate`: runs that were measured elsewhere, priced as if they were planned here.

   A row becomes the very search that would name its layout (`search --method megatron --tensor T
   ...`), alone: so what is compared is what a user would have been told. */
#include "cli/validate/validate.h"

#include "base/process.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "costmodel/machine.h"
#include "graph/model/attention.h"
#include "search/search.h"

#include <stdlib.h>
#include <string.h>

typedef struct validate_values {
    common_options common;
    const char *runs;
} validate_values;

static const option_row rows[] = {
    {"RUNS.csv", NULL, OPTION_POSITIONAL, offsetof(validate_values, runs), .required = true,
     .help = "the table: a heading of columns, and a row for each run"},
    ROW_JSON,
    ROW_QUIET,
};

/* More than any device has: a run that was measured did fit. */
static const int64_t no_limit = INT64_C(1) << 50;

/* Attention that stores no scores has nothing that would be recomputed selectively. */
static cleave_status read_wish(const run_record *run, const cleave_model *model,
                               cleave_schedule_wish *wish, cleave_error *error) {
    const char *recompute = run->recompute;
    if (!model->stores_scores &&
        strcmp(recompute, cleave_recompute_names[CLEAVE_RECOMPUTE_SELECTIVE]) == 0)
        recompute = cleave_recompute_names[CLEAVE_RECOMPUTE_NONE];
    CLEAVE_TRY(cleave_schedule_wish_begin(run->schedule, recompute, run->sharding, wish, error));
    wish->micro_batches = (int32_t)run->micro_batches;
    wish->stages = (int32_t)(run->pipeline * run->virtual_stages);
    wish->virtual_stages = (int32_t)run->virtual_stages;
    wish->tensor = (int32_t)run->tensor;
    wish->context = (int32_t)run->context;
    wish->expert = (int32_t)run->expert;
    wish->whole_tokens = strcmp(run->sequence_parallel, "no") == 0;
    return CLEAVE_OK;
}

/* "13|11" */
static cleave_status read_layers(const run_record *run, int32_t n_stages, cleave_arena *arena,
                                 const int32_t **layers, cleave_error *error) {
    int32_t *made = CLEAVE_ARENA_ARRAY(arena, int32_t, n_stages);
    const char *at = run->layers;
    if (made == NULL)
        return cleave_fail_memory(error, "pricing runs");
    for (int32_t s = 0; s < n_stages; s++) {
        char *end;
        long n = strtol(at, &end, 10);
        bool last = s + 1 == n_stages;
        if (end == at || n < 0 || n > 1 << 20 || *end != (last ? '\0' : '|'))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "layers \"%.64s\" are not a number for each of %d stages, with | "
                               "between them",
                               run->layers, n_stages);
        made[s] = (int32_t)n;
        at = end + 1;
    }
    *layers = made;
    return CLEAVE_OK;
}

static cleave_status read_model(const run_record *run, cleave_arena *arena, cleave_model *model,
                                cleave_error *error) {
    bool is_text = run->model[0] == '{';
    const cleave_import_request request = {.file = is_text ? "model" : run->model,
                                           .data = is_text ? run->model : NULL,
                                           .bytes = is_text ? strlen(run->model) : 0,
                                           .batch = run->batch,
                                           .sequence = run->sequence,
                                           .capacity_factor = run->capacity_factor,
                                           .precision = run->precision,
                                           .reduce_precision = run->reduce_precision,
                                           .with_loss = true};
    CLEAVE_TRY(cleave_model_import_as(&request, arena, model, error));
    CLEAVE_TRY(inputs_attention(run->attention, model, error));
    return cleave_model_fuse_attention(model, NULL, arena, model, error);
}

static cleave_status price(const run_record *run, cleave_arena *arena, validated_run *priced,
                           cleave_error *error) {
    cleave_model model;
    cleave_machine machine;
    cleave_schedule_wish wish;
    cleave_search_result result;
    cleave_search_options options = {
        .memory_limit_bytes = no_limit, .schedule = &wish, .alone = true, .quiet = true};
    const common_options asked = {.optimizer = run->optimizer};
    CLEAVE_TRY(inputs_optimizer_states(&asked, &options.optimizer_states, error));
    CLEAVE_TRY(read_model(run, arena, &model, error));
    CLEAVE_TRY(read_wish(run, &model, &wish, error));
    options.method = cleave_schedule_wish_is_megatron(&wish) ? "megatron" : "data-parallel";
    if (run->layers != NULL)
        CLEAVE_TRY(read_layers(run, wish.stages, arena, &wish.layers, error));
    CLEAVE_TRY(cleave_machine_read(run->machine, (int32_t)run->devices, arena, &machine, error));
    CLEAVE_TRY(inputs_framework(run->framework, &machine, error));
    CLEAVE_TRY(cleave_search(&model, &machine, &options, arena, &result, error));
    priced->step_seconds = result.best.step_seconds;
    priced->shares = result.shares;
    priced->plan_bytes = (double)result.best.peak_bytes;
    bool is_known = result.framework.allocated_bytes > 0;
    priced->memory_bytes = is_known ? (double)result.framework.allocated_bytes : priced->plan_bytes;
    priced->reserved_bytes =
        is_known ? (double)result.framework.reserved_bytes : priced->plan_bytes;
    return CLEAVE_OK;
}

/* Whatever is wrong with one run does not keep the others from being priced. */
static cleave_status validate_one(const run_record *run, cleave_arena *arena, validated_run *one,
                                  cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_error why = {""};
    *one = (validated_run){.run = run, .refused = run->besides, .status = CLEAVE_NO_LAYOUT};
    if (one->refused != NULL)
        return CLEAVE_OK;
    one->status = price(run, &scratch, one, &why);
    cleave_arena_free(&scratch);
    if (one->status == CLEAVE_OK)
        return CLEAVE_OK;
    one->refused = cleave_arena_string(arena, why.message);
    return one->refused != NULL ? CLEAVE_OK : cleave_fail_memory(error, "pricing runs");
}

static cleave_status validate(const void *any, char *const *arguments, cleave_arena *arena,
                              cleave_error *error) {
    const validate_values *values = any;
    (void)arguments;
    cleave_process_keep_memory();
    run_table runs;
    int32_t n_priced = 0;
    CLEAVE_TRY(runs_read(values->runs, arena, &runs, error));
    validated_table table = {.file = values->runs,
                             .n = runs.n,
                             .runs = CLEAVE_ARENA_ARRAY(arena, validated_run, runs.n)};
    if (table.runs == NULL)
        return cleave_fail_memory(error, "pricing runs");
    cleave_progress progress;
    cleave_progress_begin(&progress, "pricing runs", values->common.quiet);
    cleave_status status = CLEAVE_OK;
    for (int32_t i = 0; i < runs.n && status == CLEAVE_OK; i++) {
        cleave_progress_update(&progress, (double)i / runs.n, runs.rows[i].name);
        status = validate_one(&runs.rows[i], arena, &table.runs[i], error);
        n_priced += status == CLEAVE_OK && table.runs[i].refused == NULL;
    }
    cleave_progress_end(&progress);
    CLEAVE_TRY(status);
    if (n_priced == 0)
        return cleave_fail(error, table.runs[0].status, "%s:%d: %s%s", values->runs,
                           runs.rows[0].line, table.runs[0].refused,
                           runs.n > 1 ? "; and no other run can be priced" : "");
    return values->common.json ? validate_print_json(&table, arena, error)
                               : validate_print_text(&table, arena, error);
}

const command command_validate = {
    .name = "validate",
    .summary = "hold predictions against runs that were measured",
    .details = "Prices each run of a table, and nothing else, as `search` would with the same\n"
               "numbers, and says how far off the steps and the memory are, and whether runs\n"
               "of a group are ranked as they were measured.  docs/formats.md has the columns.",
    .examples = "  cleave validate configs/runs/two-cores.csv\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(validate_values),
    .run = validate,
};
