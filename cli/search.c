/* `cleave search`: the best layout for a model on a machine. */
#include "search/search.h"
#include "base/process.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/interrupt.h"
#include "cli/price_report.h"
#include "cli/search/options.h"
#include "cli/search/target.h"
#include "cli/table.h"
#include "graph/model/attention.h"

#include <math.h>
#include <string.h>

typedef struct search_values {
    search_request request;
    const char *output, *resume;
    option_texts known;
    int64_t threads;
} search_values;

static const option_row rows[] = {
    ROW_MODEL,
    ROW_MACHINE,
    SEARCH_ROWS,
    {"--threads", "N", OPTION_INTEGER, offsetof(search_values, threads), .least = 1, .most = 256,
     .help = "of auto (default one for each core); without --time they change nothing but the time "
             "it takes"},
    {"--known", "LAYOUT.json", OPTION_TEXT_LIST, offsetof(search_values, known),
     .help = "a layout for as many devices: what is found is none worse"},
    {"--resume", "STATE.json", OPTION_TEXT, offsetof(search_values, resume),
     .help =
         "of auto: go on from the state in this file, if there is one, and leave the state there"},
    {"-o", "PLAN.layout.json", OPTION_OUTPUT, offsetof(search_values, output),
     .help = "where the layout is written (default: it is not kept)"},
    ROW_JSON,
    ROW_QUIET,
};

/* Devices that no part of any operator is on; of one pass, since there may be thousands. */
static cleave_status count_idle(const cleave_layout *layout, cleave_arena *arena, int32_t *n_idle,
                                cleave_error *error) {
    bool *works = CLEAVE_ARENA_ARRAY(arena, bool, layout->n_devices);
    if (works == NULL)
        return cleave_fail_memory(error, "counting devices");
    *n_idle = layout->n_devices;
    for (int32_t op = 0; op < layout->n_operators; op++)
        for (int32_t p = 0; p < layout->splits[op].n_parts; p++) {
            bool *of_device = &works[layout->splits[op].devices[p]];
            *n_idle -= !*of_device;
            *of_device = true;
        }
    return CLEAVE_OK;
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

/* What a step is, and of one pass forward how many samples that makes a second. */
static void put_step(const search_request *asked, const cleave_search_result *result, int64_t batch,
                     cleave_json_writer *w) {
    cleave_json_set_integer(w, "devices", result->best.layout.n_devices);
    cleave_json_set_integer(w, "batch", batch);
    cleave_json_set_string(w, "step", asked->common.forward ? "forward" : "training");
    cleave_json_set_number(w, "step_seconds", result->best.step_seconds);
    if (!asked->common.forward)
        return;
    cleave_json_set_string(w, "goal", asked->throughput ? "throughput" : "latency");
    cleave_json_set_known(w, "samples_per_second", batch > 0 && result->best.step_seconds > 0,
                          (double)batch / result->best.step_seconds);
}

static void print_json(const search_values *values, const cleave_search_result *result,
                       int64_t batch, int32_t n_idle, cleave_json_writer *w) {
    cleave_json_begin_object(w, false);
    put_step(&values->request, result, batch, w);
    cleave_json_set_integer(w, "idle_devices", n_idle);
    price_report_put(w, &result->shares);
    cleave_json_set_string(w, "method", result->best.method);
    cleave_json_set_integer(w, "micro_batches", result->best.layout.schedule.micro_batches);
    cleave_json_set_integer(w, "stages", result->best.layout.schedule.n_stages);
    cleave_json_set_string(w, "schedule", cleave_schedule_names[result->best.layout.schedule.kind]);
    cleave_json_set_integer(w, "recomputed_operators", count_recomputed(&result->best.layout));
    cleave_json_set_integer(w, "sharded_gradients",
                            count_sharded(&result->best.layout, CLEAVE_SHARDED_GRADIENT));
    cleave_json_set_integer(w, "sharded_weights",
                            count_sharded(&result->best.layout, CLEAVE_SHARDED_WEIGHT));
    cleave_json_set_number(w, "search_seconds", result->search_seconds);
    cleave_json_set_integer(w, "proposals", result->proposals);
    cleave_json_open_object(w, "baselines", false);
    for (int32_t b = 0; b < result->n_baselines; b++)
        cleave_json_set_known(w, cleave_baseline_names[b], result->baselines[b].applies,
                              result->baselines[b].step_seconds);
    cleave_json_end_object(w);
    cleave_json_open_object(w, "baseline_micro_batches", false);
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].applies)
            cleave_json_set_integer(w, cleave_baseline_names[b],
                                    result->baselines[b].layout.schedule.micro_batches);
    cleave_json_end_object(w);
    cleave_json_set_number(w, "lower_bound_seconds", result->lower_bound_seconds);
    cleave_json_set_known(w, "staged_bound_seconds", result->staged_bound_seconds > 0,
                          result->staged_bound_seconds);
    bool is_solved = result->additive_seconds > 0;
    cleave_json_set_known(w, "additive_seconds", is_solved, result->additive_seconds);
    cleave_json_set_known(w, "additive_gap", is_solved, result->additive_gap);
    cleave_json_set_known(w, "certified_seconds", result->certified_seconds > 0,
                          result->certified_seconds);
    cleave_json_set_integer(w, "is_certified", result->is_certified);
    cleave_json_set_integer(w, "is_local_optimum", result->is_local_optimum);
    cleave_json_set_integer(w, "optimum_in_steps", result->optimum_in_steps);
    cleave_json_set_integer(w, "peak_bytes", result->best.peak_bytes);
    cleave_json_set_integer(w, "bytes_sent", result->best.bytes_sent);
    if (values->output != NULL)
        cleave_json_set_string(w, "layout", values->output);
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
    table_quantity(t, (double)plan->bytes_sent, CLEAVE_UNIT_BYTES);
    describe_schedule(&plan->layout, schedule, sizeof schedule);
    if (t->n_columns > 5)
        table_text(t, schedule);
}

static void print_plans(const search_values *values, const cleave_search_result *result,
                        cleave_arena *arena) {
    const char *heads[] = {"layout", "step", "to found", "memory", "sent a step", "schedule"};
    heads[1] = values->request.throughput       ? "a batch every"
               : values->request.common.forward ? "latency"
                                                : heads[1];
    bool is_plain = cleave_layout_is_plain(&result->best.layout);
    char name[128];
    for (int32_t b = 0; b < result->n_baselines; b++)
        is_plain = is_plain && (!result->baselines[b].applies ||
                                cleave_layout_is_plain(&result->baselines[b].layout));
    table t = {.arena = arena, .n_columns = is_plain ? 5 : 6, .align = "lrrrrl"};
    table_heads(&t, heads);
    for (int32_t b = 0; b < result->n_baselines; b++)
        add_plan(&t, cleave_baseline_names[b], &result->baselines[b], result->best.step_seconds);
    snprintf(name, sizeof name, "found (%s)", result->best.method);
    add_plan(&t, name, &result->best, result->best.step_seconds);
    table_print(&t, stdout);
}

/* Of a layout that takes the whole batch at once the bound is one of all that do. */
static void print_bound(const search_values *values, const cleave_search_result *result) {
    bool is_plain = cleave_layout_is_plain(&result->best.layout) && !values->request.throughput;
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

static bool asks_for_stages(const search_request *asked) {
    return asked->micro_batches > 0 || asked->stages > 0 || asked->schedule != NULL ||
           asked->virtual_stages > 1 || asked->recompute != NULL;
}

/* A loop of a framework is another one with them, so they are for who asks. */
static bool leaves_stages_out(const search_request *asked) {
    cleave_target target = CLEAVE_TARGET_TORCH;
    return asked->target != NULL && !asked->common.forward && !asks_for_stages(asked) &&
           inputs_target("--for", asked->target, &target, NULL) == CLEAVE_OK &&
           cleave_target_stages[target];
}

static void print_idle(const char *method, int32_t n_idle, int32_t n_devices, int64_t batch) {
    if (n_idle == 0)
        return;
    printf("%d of %d devices %s nothing to do", n_idle, n_devices, n_idle > 1 ? "have" : "has");
    if (!search_method_looks(method)) {
        printf(": so \"%s\" has it of a batch of %lld.\n", method, (long long)batch);
        return;
    }
    if (batch > 0 && batch < n_devices)
        printf(": the batch of %lld has no sample for each, and", (long long)batch);
    else
        putchar(':');
    printf(" nothing that was found with them is quicker.\n");
}

/* Of passes forward: what they give, in whole samples where that is at least three digits. */
static void print_samples(const search_request *asked, double samples_per_second) {
    if (asked->common.forward && samples_per_second > 0)
        printf("The found layout does %.*g samples a second%s.\n",
               samples_per_second < 1000 ? 3 : 15,
               samples_per_second < 1000 ? samples_per_second : floor(samples_per_second + 0.5),
               asked->throughput ? ", batch following batch" : "");
}

static void print_text(const search_values *values, const cleave_search_result *result,
                       const cleave_model *model, const cleave_machine *machine, int32_t n_idle,
                       cleave_arena *arena) {
    print_plans(values, result, arena);
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].unpriced != NULL)
            printf("%s is not priced: %s.\n", cleave_baseline_names[b],
                   result->baselines[b].unpriced);
    if (values->request.recompute != NULL && !values->request.common.forward &&
        strcmp(values->request.recompute, cleave_recompute_names[CLEAVE_RECOMPUTE_SELECTIVE]) ==
            0 &&
        count_recomputed(&result->best.layout) == 0)
        printf("Nothing is recomputed: attention stores no scores that could be%s.\n",
               result->best.layout.stores_scores ? "" : " (--attention stored does)");
    char bound[64];
    print_bound(values, result);
    if (result->additive_seconds > 0 && !values->request.throughput) {
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
    print_samples(&values->request, (double)model->batch / result->best.step_seconds);
    price_report_format_step(result->best.step_seconds, &result->shares, step, sizeof step);
    price_report_format(&result->shares, prices, sizeof prices);
    printf("The found step, %s, rests on prices: %s.\n", step, prices);
    if (leaves_stages_out(&values->request))
        printf("Stages, micro-batches and recomputation were not looked for: --for %s does where "
               "an option of them is given.\n",
               values->request.target);
    const char *note = inputs_provenance_note(machine);
    inputs_print_room(model);
    print_idle(values->request.method, n_idle, result->best.layout.n_devices, model->batch);
    printf("%s%s", note, note[0] != '\0' ? "\n" : "");
    if (values->output != NULL)
        printf("Layout written to %s\n", values->output);
    else
        printf("The layout was not kept: -o PLAN.layout.json writes it.\n");
}

static cleave_status read_constraints(const search_request *asked, const cleave_model *model,
                                      const cleave_machine *machine, cleave_arena *arena,
                                      cleave_constraints *constraints, cleave_error *error) {
    *constraints = (cleave_constraints){0};
    if (asked->fix != NULL)
        CLEAVE_TRY(cleave_constraints_fix(constraints, asked->fix, model, machine->n_devices, arena,
                                          error));
    if (asked->only != NULL)
        CLEAVE_TRY(cleave_constraints_restrict(constraints, asked->only, model, arena, error));
    cleave_target target = CLEAVE_TARGET_TORCH;
    if (asked->target == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(inputs_target("--for", asked->target, &target, error));
    return cleave_constraints_for(constraints, target, model, machine->n_devices, arena, error);
}

static cleave_status check_target(const search_request *asked, cleave_error *error) {
    bool stages = asked->micro_batches > 1 || asked->stages > 1 || asked->schedule != NULL ||
                  asked->virtual_stages > 1 ||
                  (asked->recompute != NULL && strcmp(asked->recompute, "none") != 0);
    cleave_target target = CLEAVE_TARGET_TORCH;
    if (asked->target == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(inputs_target("--for", asked->target, &target, error));
    if (stages && !cleave_target_stages[target])
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--for %s goes without stages, micro-batches and --recompute: it can't "
                           "say them",
                           asked->target);
    if (asked->tensor > 0 || asked->context > 0 || asked->expert > 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--for %s goes without --tensor, --context and --expert: they are "
                           "degrees of megatron's rule",
                           asked->target);
    return CLEAVE_OK;
}

static cleave_status read_wish(const search_request *asked, cleave_schedule_wish *wish,
                               cleave_error *error) {
    /* A framework's loop is another one with micro-batches, so these are for who asks. */
    bool plain = asked->target != NULL && !asks_for_stages(asked);
    const char *recompute = asked->recompute == NULL && plain ? "none" : asked->recompute;
    CLEAVE_TRY(check_target(asked, error));
    CLEAVE_TRY(cleave_schedule_wish_begin(asked->schedule, recompute, asked->zero, wish, error));
    wish->micro_batches = plain ? 1 : (int32_t)asked->micro_batches;
    wish->stages = plain ? 1 : (int32_t)asked->stages;
    wish->virtual_stages = (int32_t)asked->virtual_stages;
    wish->tensor = (int32_t)asked->tensor;
    wish->context = (int32_t)asked->context;
    wish->expert = (int32_t)asked->expert;
    wish->whole_tokens = asked->whole_tokens;
    wish->ring = asked->ring;
    if (asked->ring && (wish->context < 2 || strcmp(asked->common.attention, "stored") == 0))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--ring: goes with --context 2 or more, and attention that stores no "
                           "scores");
    return CLEAVE_OK;
}

/* Read before attention is fused: a layout says how it wants that. */
static cleave_status read_known(const search_values *values, const cleave_model *model,
                                cleave_arena *arena, cleave_search_options *options,
                                cleave_error *error) {
    if (values->known.n > CLEAVE_MOST_KNOWN)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--known: %d layouts, but %d are the most",
                           values->known.n, CLEAVE_MOST_KNOWN);
    cleave_layout *known = CLEAVE_ARENA_ARRAY(arena, cleave_layout, CLEAVE_MOST_KNOWN);
    if (known == NULL)
        return cleave_fail_memory(error, "reading layouts");
    for (int i = 0; i < values->known.n; i++) {
        CLEAVE_TRY(cleave_layout_read(values->known.items[i], model, arena, &known[i], error));
        if (known[i].stores_scores != model->stores_scores)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: has another --attention than is searched for",
                               values->known.items[i]);
    }
    options->known = known;
    options->n_known = values->known.n;
    return CLEAVE_OK;
}

static cleave_status check_known(const search_values *values, const cleave_search_options *options,
                                 const cleave_machine *machine, cleave_error *error) {
    for (int i = 0; i < options->n_known; i++)
        if (options->known[i].n_devices != machine->n_devices)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: is for %d devices, not %d",
                               values->known.items[i], options->known[i].n_devices,
                               machine->n_devices);
    return CLEAVE_OK;
}

static cleave_status search(const void *any, char *const *arguments, cleave_arena *arena,
                            cleave_error *error) {
    const search_values *values = any;
    (void)arguments;
    cleave_process_keep_memory();
    cleave_search_options options = {.method = values->request.method,
                                     .time_seconds = values->request.time,
                                     .proposals = values->request.proposals,
                                     .seed = (uint64_t)values->request.common.seed,
                                     .n_threads = (int32_t)values->threads,
                                     .memory_limit_bytes = (int64_t)values->request.memory_limit,
                                     .resume_file = values->resume,
                                     .throughput = values->request.throughput,
                                     .quiet = values->request.common.quiet};
    if (values->threads == 0)
        options.n_threads = cleave_process_cores();
    CLEAVE_TRY(inputs_optimizer_states(&values->request.common, &options.optimizer_states, error));
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    cleave_constraints constraints;
    CLEAVE_TRY(inputs_model(&values->request.common, arena, &model, error));
    CLEAVE_TRY(inputs_attention(values->request.common.attention, &model, error));
    CLEAVE_TRY(read_known(values, &model, arena, &options, error));
    CLEAVE_TRY(cleave_model_fuse_attention(&model, NULL, arena, &model, error));
    CLEAVE_TRY(cleave_machine_read(values->request.common.machine,
                                   (int32_t)values->request.common.devices, arena, &machine,
                                   error));
    CLEAVE_TRY(inputs_framework(values->request.common.framework, &machine, error));
    CLEAVE_TRY(check_known(values, &options, &machine, error));
    CLEAVE_TRY(read_constraints(&values->request, &model, &machine, arena, &constraints, error));
    options.constraints = &constraints;
    cleave_schedule_wish wish;
    CLEAVE_TRY(read_wish(&values->request, &wish, error));
    options.schedule = &wish;
    options.interrupted = interrupt_watch();
    CLEAVE_TRY(cleave_search(&model, &machine, &options, arena, &result, error));
    interrupt_ignore();
    if (values->request.target != NULL)
        CLEAVE_TRY(search_for_take_back(&model, &machine, &options, arena, &result.best, error));
    int32_t n_idle = 0;
    CLEAVE_TRY(count_idle(&result.best.layout, arena, &n_idle, error));
    if (values->output != NULL)
        CLEAVE_TRY(cleave_layout_write(values->output, &model, &result.best.layout, error));
    if (!values->request.common.json) {
        print_text(values, &result, &model, &machine, n_idle, arena);
        return CLEAVE_OK;
    }
    cleave_json_writer writer = {0};
    print_json(values, &result, model.batch, n_idle, &writer);
    return inputs_print_json(&writer, error);
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
    .run = search,
};
