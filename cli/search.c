/* `cleave search`: the best layout for a model on a machine. */
#include "search/search.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/predict.h"
#include "cli/price_report.h"
#include "cli/table.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"

#include <signal.h>
#include <string.h>

typedef struct search_values {
    const char *model, *machine, *method, *output, *optimizer, *fix, *only, *resume, *inputs,
        *precision, *reduce_precision, *frozen, *attention, *target;
    const char *schedule, *recompute, *zero;
    int64_t batch, sequence, devices, proposals, seed, threads, micro_batches, stages,
        virtual_stages, tensor;
    double time, memory_limit, momentum;
    bool json, quiet;
} search_values;

static const option_row rows[] = {
    ROW_MODEL(search_values),
    ROW_BATCH(search_values),
    ROW_SEQUENCE(search_values),
    ROW_INPUTS(search_values),
    ROW_ATTENTION(search_values),
    ROW_PRECISION(search_values),
    ROW_REDUCE_PRECISION(search_values),
    ROW_FROZEN(search_values),
    ROW_MACHINE(search_values),
    ROW_DEVICES(search_values),
    {"--method", "NAME", OPTION_TEXT, offsetof(search_values, method), .standard = "auto",
     .help = "auto, exact, mcmc, branch-and-bound, random, or a baseline: data-parallel, single, "
             "one-weird-trick, "
             "layer-per-device, ..."},
    {"--time", "SECONDS", OPTION_SECONDS, offsetof(search_values, time),
     .help = "budget, with the report; without it and --proposals auto ends by itself"},
    {"--proposals", "K", OPTION_INTEGER, offsetof(search_values, proposals), .least = 1,
     .most = 0x1p62,
     .help = "most proposals of mcmc; without --time the result depends on nothing else"},
    ROW_SEED(search_values),
    {"--threads", "N", OPTION_INTEGER, offsetof(search_values, threads), .least = 1, .most = 256,
     .help = "of auto (default one for each core); without --time they change nothing but the time "
             "it takes"},
    {"--memory-limit", "SIZE", OPTION_BYTES, offsetof(search_values, memory_limit), .least = 1,
     .most = 0x1p62, .help = "most memory per device, such as \"2 GiB\" (default the machine's)"},
    {"--fix", "LAYOUT.json", OPTION_TEXT, offsetof(search_values, fix),
     .help = "a layout file of some operators: they keep the splits that it says"},
    {"--only", "SORT,...", OPTION_TEXT, offsetof(search_values, only),
     .help = "split no other sorts of axes: sample, operator (blocks of devices), attribute, "
             "parameter, reduction"},
    {"--for", "torch|jax", OPTION_TEXT, offsetof(search_values, target),
     .help = "only what this framework can say, as `export` has it: all devices, one mesh"},
    {"--micro-batches", "M", OPTION_INTEGER, offsetof(search_values, micro_batches), .least = 1,
     .most = 1 << 20,
     .help = "parts of the batch, one after the other (default as it turns out best)"},
    {"--stages", "P", OPTION_INTEGER, offsetof(search_values, stages), .least = 1, .most = 4096,
     .help = "of a pipeline (default as it turns out best)"},
    {"--schedule", "KIND", OPTION_TEXT, offsetof(search_values, schedule),
     .help = "of a pipeline: 1f1b, gpipe, interleaved or zb-h1"},
    {"--recompute", "WHAT", OPTION_TEXT, offsetof(search_values, recompute),
     .help = "none, selective (attention), alternate (all but attention and every other product) "
             "or full "
             "(all but what blocks begin with), instead of "
             "keeping it for backward (default as it turns out best)"},
    {"--virtual", "V", OPTION_INTEGER, offsetof(search_values, virtual_stages), .least = 1,
     .most = 4096, .help = "stages of a group of devices, of an interleaved pipeline"},
    {"--tensor", "T", OPTION_INTEGER, offsetof(search_values, tensor), .least = 1, .most = 65536,
     .help = "devices that share each product, of megatron in stages or micro-batches"},
    {"--zero", "STAGE", OPTION_TEXT, offsetof(search_values, zero),
     .help = "state of parameters that is sharded: 0 none, 1 the update, 2 and the gradient, 3 and "
             "the weight (default as it turns out best)"},
    ROW_OPTIMIZER(search_values),
    ROW_MOMENTUM(search_values),
    {"--resume", "STATE.json", OPTION_TEXT, offsetof(search_values, resume),
     .help = "go on from the state in this file, if there is one, and leave the state there"},
    {"-o", "PLAN.layout.json", OPTION_OUTPUT, offsetof(search_values, output), .required = true,
     .help = "where the layout is written"},
    ROW_JSON(search_values),
    ROW_QUIET(search_values),
};

/* Ctrl-C stops the search with the best so far, a second one ends it: the handler is for the first
   alone.  It can reach nothing but a global. */
static volatile sig_atomic_t interrupted;
static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* Null where the additive model was not solved. */
static void put_additive(cleave_json_writer *w, const cleave_search_result *result, double value) {
    if (result->additive_seconds > 0)
        cleave_json_put_number(w, value);
    else
        cleave_json_put_null(w);
}

static int32_t count_recomputed(const cleave_layout *layout) {
    int32_t n = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n += layout->recompute[op];
    return n;
}

static int32_t count_sharded(const cleave_layout *layout, cleave_sharded least) {
    int32_t n = 0;
    for (int32_t t = 0; t < layout->n_tensors; t++)
        n += layout->sharded[t] >= least;
    return n;
}

static void print_json(const search_values *values, const cleave_search_result *result,
                       cleave_json_writer *w) {
    cleave_json_begin_object(w, false);
    cleave_json_key(w, "step_seconds");
    cleave_json_put_number(w, result->best.step_seconds);
    price_report_put(w, &result->shares);
    cleave_json_key(w, "method");
    cleave_json_put_string(w, result->best.method);
    cleave_json_key(w, "micro_batches");
    cleave_json_put_integer(w, result->best.layout.schedule.micro_batches);
    cleave_json_key(w, "stages");
    cleave_json_put_integer(w, result->best.layout.schedule.n_stages);
    cleave_json_key(w, "schedule");
    cleave_json_put_string(w, cleave_schedule_names[result->best.layout.schedule.kind]);
    cleave_json_key(w, "recomputed_operators");
    cleave_json_put_integer(w, count_recomputed(&result->best.layout));
    cleave_json_key(w, "sharded_gradients");
    cleave_json_put_integer(w, count_sharded(&result->best.layout, CLEAVE_SHARDED_GRADIENT));
    cleave_json_key(w, "sharded_weights");
    cleave_json_put_integer(w, count_sharded(&result->best.layout, CLEAVE_SHARDED_WEIGHT));
    cleave_json_key(w, "search_seconds");
    cleave_json_put_number(w, result->search_seconds);
    cleave_json_key(w, "proposals");
    cleave_json_put_integer(w, result->proposals);
    cleave_json_key(w, "baselines");
    cleave_json_begin_object(w, false);
    for (int32_t b = 0; b < result->n_baselines; b++) {
        cleave_json_key(w, cleave_baseline_names[b]);
        if (result->baselines[b].applies)
            cleave_json_put_number(w, result->baselines[b].step_seconds);
        else
            cleave_json_put_null(w);
    }
    cleave_json_end_object(w);
    cleave_json_key(w, "baseline_micro_batches");
    cleave_json_begin_object(w, false);
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].applies) {
            cleave_json_key(w, cleave_baseline_names[b]);
            cleave_json_put_integer(w, result->baselines[b].layout.schedule.micro_batches);
        }
    cleave_json_end_object(w);
    cleave_json_key(w, "lower_bound_seconds");
    cleave_json_put_number(w, result->lower_bound_seconds);
    cleave_json_key(w, "staged_bound_seconds");
    if (result->staged_bound_seconds > 0)
        cleave_json_put_number(w, result->staged_bound_seconds);
    else
        cleave_json_put_null(w);
    cleave_json_key(w, "additive_seconds");
    put_additive(w, result, result->additive_seconds);
    cleave_json_key(w, "additive_gap");
    put_additive(w, result, result->additive_gap);
    cleave_json_key(w, "certified_seconds");
    if (result->certified_seconds > 0)
        cleave_json_put_number(w, result->certified_seconds);
    else
        cleave_json_put_null(w);
    cleave_json_key(w, "is_certified");
    cleave_json_put_integer(w, result->is_certified);
    cleave_json_key(w, "is_local_optimum");
    cleave_json_put_integer(w, result->is_local_optimum);
    cleave_json_key(w, "optimum_in_steps");
    cleave_json_put_integer(w, result->optimum_in_steps);
    cleave_json_key(w, "peak_bytes");
    cleave_json_put_integer(w, result->best.peak_bytes);
    cleave_json_key(w, "bytes_sent");
    cleave_json_put_integer(w, result->best.bytes_sent);
    cleave_json_key(w, "layout");
    cleave_json_put_string(w, values->output);
    cleave_json_end_object(w);
}

/* "8 micro-batches, 2 stages 1f1b, all recomputed"; "-" of a layout that has nothing of the kind.
 */
static void describe_schedule(const cleave_layout *layout, char *text, size_t bytes) {
    const cleave_schedule *schedule = &layout->schedule;
    int32_t n_recomputed = count_recomputed(layout), m = schedule->micro_batches;
    int used = snprintf(text, bytes, "%d micro-batch%s", m, m == 1 ? "" : "es");
    if (schedule->n_stages > 1)
        used += snprintf(text + used, bytes - (size_t)used, ", %d stages %s", schedule->n_stages,
                         cleave_schedule_names[schedule->kind]);
    if (n_recomputed > 0)
        snprintf(text + used, bytes - (size_t)used, ", %d of %d operators recomputed", n_recomputed,
                 layout->n_operators);
    if (cleave_layout_is_plain(layout))
        snprintf(text, bytes, "-");
}

/* With a column for the schedule where the table has one. */
static void add_plan(table *t, const char *name, const cleave_plan *plan, double best_seconds) {
    char schedule[128];
    table_text(t, name);
    if (!plan->applies) {
        table_text(t, plan->peak_bytes > 0 ? "does not fit" : "-");
        for (int i = 2; i < t->n_columns; i++)
            if (i == 3 && plan->peak_bytes > 0)
                table_quantity(t, (double)plan->peak_bytes, CLEAVE_UNIT_BYTES);
            else
                table_text(t, "-");
        return;
    }
    table_quantity(t, plan->step_seconds, CLEAVE_UNIT_SECONDS);
    table_format(t, "%.2f x", plan->step_seconds / best_seconds);
    table_quantity(t, (double)plan->peak_bytes, CLEAVE_UNIT_BYTES);
    if (plan->bytes_sent < 0)
        table_text(t, "-");
    else
        table_quantity(t, (double)plan->bytes_sent, CLEAVE_UNIT_BYTES);
    describe_schedule(&plan->layout, schedule, sizeof schedule);
    if (t->n_columns > 5)
        table_text(t, schedule);
}

static void print_plans(const cleave_search_result *result, cleave_arena *arena) {
    static const char *const heads[] = {"layout", "step",        "to found",
                                        "memory", "sent a step", "schedule"};
    bool is_plain = cleave_layout_is_plain(&result->best.layout);
    char name[128];
    for (int32_t b = 0; b < result->n_baselines; b++)
        is_plain = is_plain && (!result->baselines[b].applies ||
                                cleave_layout_is_plain(&result->baselines[b].layout));
    table t = {.arena = arena, .n_columns = is_plain ? 5 : 6, .align = "lrrrrl"};
    for (int i = 0; i < t.n_columns; i++)
        table_text(&t, heads[i]);
    for (int32_t b = 0; b < result->n_baselines; b++)
        add_plan(&t, cleave_baseline_names[b], &result->baselines[b], result->best.step_seconds);
    snprintf(name, sizeof name, "found (%s)", result->best.method);
    add_plan(&t, name, &result->best, result->best.step_seconds);
    table_print(&t, stdout);
}

/* Of a layout that takes the whole batch at once the bound is one of all that do. */
static void print_bound(const cleave_search_result *result) {
    bool is_plain = cleave_layout_is_plain(&result->best.layout);
    double least = is_plain ? result->lower_bound_seconds : result->staged_bound_seconds;
    char bound[64];
    cleave_unit_format(least, CLEAVE_UNIT_SECONDS, bound, sizeof bound);
    printf("\n");
    if (!is_plain && least <= 0) {
        printf("No bound of such layouts is known.\n");
        return;
    }
    printf("No layout can take less than %s", bound);
    if (!is_plain)
        printf(", whatever its stages and micro-batches");
    else if (result->bound_binds != NULL)
        printf(" (%s)", result->bound_binds);
    printf(": the found one is within %.2f x of that.\n",
           least > 0 ? result->best.step_seconds / least : 0);
}

static void print_text(const search_values *values, const cleave_search_result *result,
                       const cleave_machine *machine, cleave_arena *arena) {
    print_plans(result, arena);
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].unpriced != NULL)
            printf("%s is not priced: %s.\n", cleave_baseline_names[b],
                   result->baselines[b].unpriced);
    if (values->recompute != NULL &&
        strcmp(values->recompute, cleave_recompute_names[CLEAVE_RECOMPUTE_SELECTIVE]) == 0 &&
        count_recomputed(&result->best.layout) == 0)
        printf("Nothing is recomputed: attention stores no scores that could be%s.\n",
               result->best.layout.stores_scores ? "" : " (--attention stored does)");
    char bound[64];
    print_bound(result);
    if (result->additive_seconds > 0) {
        cleave_unit_format(result->additive_seconds, CLEAVE_UNIT_SECONDS, bound, sizeof bound);
        printf("The additive model's best is %s, %.2g %% from its bound at most.\n", bound,
               result->additive_gap * 100);
    }
    if (result->certified_seconds > 0) {
        cleave_unit_format(result->certified_seconds, CLEAVE_UNIT_SECONDS, bound, sizeof bound);
        printf("%s: with collectives in closed form no layout of the space takes less than %s.\n",
               result->is_certified ? "Certified" : "Proven so far", bound);
    }
    printf("%lld proposals in %.1f s.  Memory is of the fullest device.\n",
           (long long)result->proposals, result->search_seconds);
    char step[160], prices[256];
    price_report_format_step(result->best.step_seconds, &result->shares, step, sizeof step);
    price_report_format(&result->shares, prices, sizeof prices);
    printf("The found step, %s, rests on prices: %s.\n", step, prices);
    const char *note = inputs_provenance_note(machine);
    printf("%s%sLayout written to %s\n", note, note[0] != '\0' ? "\n" : "", values->output);
}

static cleave_status read_constraints(const search_values *values, const cleave_model *model,
                                      const cleave_machine *machine, cleave_arena *arena,
                                      cleave_constraints *constraints, cleave_error *error) {
    *constraints = (cleave_constraints){0};
    if (values->fix != NULL)
        CLEAVE_TRY(cleave_constraints_fix(constraints, values->fix, model, machine->n_devices,
                                          arena, error));
    if (values->only != NULL)
        CLEAVE_TRY(cleave_constraints_restrict(constraints, values->only, model, arena, error));
    cleave_target target = CLEAVE_TARGET_TORCH;
    if (values->target == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(inputs_target("--for", values->target, &target, error));
    return cleave_constraints_for(constraints, target, model, machine->n_devices, arena, error);
}

static cleave_status read_wish(const search_values *values, cleave_schedule_wish *wish,
                               cleave_error *error) {
    bool plain = values->target != NULL;
    const char *recompute = values->recompute == NULL && plain ? "none" : values->recompute;
    CLEAVE_TRY(cleave_schedule_wish_begin(values->schedule, recompute, values->zero, wish, error));
    if (plain &&
        (values->micro_batches > 1 || values->stages > 1 || values->schedule != NULL ||
         values->virtual_stages > 1 || values->tensor > 0 || strcmp(recompute, "none") != 0))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--for %s goes without stages, micro-batches and --recompute: it can't "
                           "say them",
                           values->target);
    wish->micro_batches = plain ? 1 : (int32_t)values->micro_batches;
    wish->stages = plain ? 1 : (int32_t)values->stages;
    wish->virtual_stages = (int32_t)values->virtual_stages;
    wish->tensor = (int32_t)values->tensor;
    return CLEAVE_OK;
}

/* The found layout as the framework will run it: functions follow what they read. */
static cleave_status take_back(const cleave_model *model, const cleave_machine *machine,
                               const cleave_search_options *options, cleave_arena *arena,
                               cleave_plan *best, cleave_error *error) {
    cleave_export_plan plan;
    cleave_layout back;
    prediction predicted;
    CLEAVE_TRY(cleave_export_make(model, &best->layout, options->constraints->target, arena, &plan,
                                  error));
    CLEAVE_TRY(cleave_export_read_back(model, &best->layout, &plan, arena, &back, error));
    CLEAVE_TRY(predict_layout(model, machine, &back, options->optimizer_states, &predicted, error));
    back.predicted_step_seconds = best->step_seconds = predicted.step_seconds;
    best->peak_bytes = predicted.peak_bytes;
    best->bytes_sent = predicted.bytes_sent;
    best->layout = back;
    return CLEAVE_OK;
}

static cleave_status search(const search_values *values, cleave_arena *arena, cleave_error *error) {
    cleave_search_options options = {.method = values->method,
                                     .time_seconds = values->time,
                                     .proposals = values->proposals,
                                     .seed = (uint64_t)values->seed,
                                     .n_threads = (int32_t)values->threads,
                                     .memory_limit_bytes = (int64_t)values->memory_limit,
                                     .resume_file = values->resume,
                                     .quiet = values->quiet,
                                     .interrupted = &interrupted};
    if (values->threads == 0)
        options.n_threads = cleave_process_cores();
    CLEAVE_TRY(inputs_optimizer_states(values->optimizer, values->momentum,
                                       &options.optimizer_states, error));
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    cleave_constraints constraints;
    CLEAVE_TRY(inputs_trained_model(INPUTS_MODEL(values), arena, &model, error));
    CLEAVE_TRY(inputs_attention(values->attention, &model, error));
    CLEAVE_TRY(cleave_model_fuse_attention(&model, NULL, arena, &model, error));
    CLEAVE_TRY(
        cleave_machine_read(values->machine, (int32_t)values->devices, arena, &machine, error));
    CLEAVE_TRY(read_constraints(values, &model, &machine, arena, &constraints, error));
    options.constraints = &constraints;
    cleave_schedule_wish wish;
    CLEAVE_TRY(read_wish(values, &wish, error));
    options.schedule = &wish;
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    CLEAVE_TRY(cleave_search(&model, &machine, &options, arena, &result, error));
    signal(SIGINT, SIG_IGN); /* what is written is written whole */
    if (values->target != NULL)
        CLEAVE_TRY(take_back(&model, &machine, &options, arena, &result.best, error));
    CLEAVE_TRY(cleave_layout_write(values->output, &model, &result.best.layout, error));
    if (!values->json) {
        print_text(values, &result, &machine, arena);
        return CLEAVE_OK;
    }
    cleave_json_writer writer = {0};
    print_json(values, &result, &writer);
    return inputs_print_json(&writer, error);
}

static cleave_status run(const void *values, char *const *arguments, cleave_error *error) {
    (void)arguments;
    cleave_process_keep_memory();
    cleave_arena arena = {0};
    cleave_status status = search(values, &arena, error);
    cleave_arena_free(&arena);
    return status;
}

const command command_search = {
    .name = "search",
    .summary = "find the best layout of a model on a machine",
    .details = "Prices the baselines, searches, and writes the best layout found.  Ctrl-C stops\n"
               "early and keeps the best so far; a second one ends at once, without a file.",
    .examples = "  cleave search --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json --time 5 -o alexnet.layout.json\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(search_values),
    .run = run,
};
