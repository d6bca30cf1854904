/* `cleave simulate`: how long a step of a layout takes, by both rules of time for links. */
#include "base/order.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/explain/bottleneck.h"
#include "cli/inputs.h"
#include "cli/price_report.h"
#include "cli/table.h"
#include "graph/model/attention.h"
#include "graph/program/traffic.h"
#include "search/search.h"
#include "simulator/events/tasks.h"
#include "simulator/report/trace.h"
#include "simulator/scan/period.h"
#include "simulator/step/priced_program.h"
#include "simulator/step/settle.h"
#include "simulator/step/simulated_step.h"

#include <stdlib.h>
#include <string.h>

typedef struct simulate_values {
    common_options common;
    const char *layout, *method, *tasks, *dump_tasks, *trace, *engine;
    bool closed_form;
} simulate_values;

static const option_row rows[] = {
    {"--model", "M.onnx", OPTION_TEXT, offsetof(simulate_values, common.model),
     .help = "the model, with or without weights"},
    ROWS_IMPORT,
    ROW_ATTENTION,
    ROW_FRAMEWORK,
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(simulate_values, common.machine),
     .help = "the machine file"},
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(simulate_values, layout),
     .help = "the layout to simulate"},
    {"--method", "NAME", OPTION_TEXT, offsetof(simulate_values, method),
     .help = "instead of --layout: a baseline, or random"},
    ROW_DEVICES,
    ROW_FORWARD,
    ROW_SEED,
    ROWS_OPTIMIZER,
    {"--tasks", "F.dag", OPTION_TEXT, offsetof(simulate_values, tasks),
     .help = "instead of all these: a task graph to simulate"},
    {"--dump-tasks", "F.dag", OPTION_OUTPUT, offsetof(simulate_values, dump_tasks),
     .help = "write the program as a task graph, which links serve by readiness: as by events"},
    {"--engine", "scan|events", OPTION_TEXT, offsetof(simulate_values, engine),
     .help = "links serve in program order (scan, the default) or by readiness (events)"},
    {"--closed-form", NULL, OPTION_FLAG, offsetof(simulate_values, closed_form),
     .help = "collectives as one item each, as the search prices them; --json counts what is sent "
             "by their kinds, too"},
    {"--trace", "T.json", OPTION_OUTPUT, offsetof(simulate_values, trace),
     .help = "write the timeline as a Chrome trace, for ui.perfetto.dev"},
    ROW_JSON,
};

enum { N_RULES = CLEAVE_RULE_SCAN + 1 };

/* Both rules on one program; by events all items have to be there. */
typedef struct outcome {
    cleave_rule rule; /* of the prediction */
    bool apart;       /* without what devices do to each other, which a task graph can't say */
    cleave_simulated_step step;   /* by it */
    double step_seconds[N_RULES]; /* [rule]; below 0: not simulated */
    double wall_seconds[N_RULES]; /* [rule] of a simulation, settling included */
    double period_seconds;        /* of one pass forward, where others follow it */
    bottleneck busiest;
} outcome;

/* A task graph has its links served by readiness, and is to give the step that is printed. */
static cleave_status find_rule(const simulate_values *values, cleave_rule *rule,
                               cleave_error *error) {
    const char *engine = values->engine;
    bool events = engine == NULL ? values->dump_tasks != NULL : strcmp(engine, "events") == 0;
    if (engine != NULL && !events && strcmp(engine, "scan") != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--engine: \"%s\" is neither \"scan\" nor \"events\"", engine);
    if (values->dump_tasks != NULL && !events)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--dump-tasks goes without --engine scan");
    *rule = events ? CLEAVE_RULE_EVENTS : CLEAVE_RULE_SCAN;
    return CLEAVE_OK;
}

static cleave_status check_usage(const simulate_values *values, cleave_error *error) {
    if (values->tasks != NULL) {
        if (values->common.model != NULL || values->common.machine != NULL ||
            values->layout != NULL || values->method != NULL)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "--tasks goes without --model, --machine, --layout and --method");
        return CLEAVE_OK;
    }
    cleave_rule rule;
    CLEAVE_TRY(find_rule(values, &rule, error));
    if (values->common.model == NULL || values->common.machine == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s is missing (--help explains)",
                           values->common.model == NULL ? "--model M.onnx"
                                                        : "--machine MACHINE.json");
    if ((values->layout == NULL) == (values->method == NULL))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "exactly one of --layout and --method is needed");
    return CLEAVE_OK;
}

/* The layout, the model as that has it, and the machine cut to its devices. */
static cleave_status load_layout(const simulate_values *values, cleave_model *model,
                                 cleave_arena *arena, cleave_machine *machine,
                                 cleave_layout *layout, cleave_error *error) {
    int32_t devices = (int32_t)values->common.devices;
    if (values->layout != NULL) {
        CLEAVE_TRY(cleave_layout_read(values->layout, model, arena, layout, error));
        if (devices != 0 && devices != layout->n_devices)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "--devices %d: the layout %s is for %d devices", devices,
                               values->layout, layout->n_devices);
        CLEAVE_TRY(cleave_model_fuse_attention(model, layout, arena, model, error));
        return cleave_machine_read(values->common.machine, layout->n_devices, arena, machine,
                                   error);
    }
    CLEAVE_TRY(cleave_model_fuse_attention(model, NULL, arena, model, error));
    CLEAVE_TRY(cleave_machine_read(values->common.machine, devices, arena, machine, error));
    bool applies = false;
    CLEAVE_TRY(cleave_baseline_layout(model, machine, values->method, (uint64_t)values->common.seed,
                                      arena, layout, &applies, error));
    if (!applies)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "the method %s does not apply to this model on %d devices",
                           values->method, machine->n_devices);
    if (strcmp(values->method, "random") == 0)
        return CLEAVE_OK; /* draws its algorithms, too */
    return cleave_choose_collectives(machine, true, arena, &layout->collectives, error);
}

/* One simulation: settling, by the rule of the prediction, and the run by any. */
static cleave_status simulate_once(const cleave_priced_program *priced, outcome *result,
                                   cleave_settling *mutual, cleave_rule rule, double *seconds,
                                   cleave_error *error) {
    double start = cleave_clock_seconds();
    cleave_simulated_step *step = &result->step;
    if (priced->is_few) {
        CLEAVE_TRY(
            cleave_simulated_step_run_turns(&priced->program, &priced->few.turns, step, error));
    } else {
        CLEAVE_TRY(cleave_settling_apply(mutual, result->rule, &step->problem, step->workspace,
                                         &step->timeline, error));
        CLEAVE_TRY(
            cleave_simulate_run(&step->problem, rule, step->workspace, &step->timeline, error));
    }
    *seconds = cleave_clock_seconds() - start;
    return CLEAVE_OK;
}

/* Simulations of small models take some microseconds, less than anything else that a processor may
   be asked to do meanwhile: so up to nine are made as long as they take little, and the median
   counts. */
static cleave_status simulate_by(const cleave_priced_program *priced, outcome *result,
                                 cleave_settling *mutual, cleave_rule rule, cleave_error *error) {
    double seconds[9], sum = 0;
    int n = 0;
    while (n < 9 && sum < 0.01) {
        CLEAVE_TRY(simulate_once(priced, result, mutual, rule, &seconds[n], error));
        sum += seconds[n++];
    }
    cleave_sort_doubles(seconds, n);
    result->wall_seconds[rule] = seconds[n / 2];
    result->step_seconds[rule] = 1e-12 * (double)result->step.timeline.step;
    return CLEAVE_OK;
}

/* By the scan, whose workspace and timeline are of this alone. */
static cleave_status find_period(outcome *result, cleave_arena *arena, cleave_error *error) {
    cleave_engine_workspace *workspace;
    cleave_timeline timeline;
    int64_t period;
    const cleave_engine_problem *problem = &result->step.problem;
    CLEAVE_TRY(cleave_engine_workspace_create(problem, arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(problem, arena, &timeline, error));
    CLEAVE_TRY(cleave_scan_period(problem, workspace, &timeline, &period, error));
    result->period_seconds = 1e-12 * (double)period;
    return CLEAVE_OK;
}

/* Prices once and simulates by both rules, that of the prediction last. */
static cleave_status simulate_both(const cleave_machine *machine, cleave_priced_program *priced,
                                   cleave_arena *arena, outcome *result, cleave_error *error) {
    const cleave_program *program = &priced->program;
    cleave_simulated_step *step = &result->step;
    cleave_settling *mutual = NULL;
    CLEAVE_TRY(cleave_program_check(program, error));
    CLEAVE_TRY(cleave_simulated_step_begin(program, cleave_priced_turns(priced), priced->cache,
                                           arena, step, error));
    if (!result->apart && !priced->is_few)
        CLEAVE_TRY(
            cleave_settling_create(program, priced->cache, &step->problem, arena, &mutual, error));
    for (int k = 0; k < N_RULES; k++) {
        cleave_rule rule = k + 1 == N_RULES                   ? result->rule
                           : result->rule == CLEAVE_RULE_SCAN ? CLEAVE_RULE_EVENTS
                                                              : CLEAVE_RULE_SCAN;
        if (rule == CLEAVE_RULE_EVENTS && priced->is_few)
            result->step_seconds[rule] = -1;
        else
            CLEAVE_TRY(simulate_by(priced, result, mutual, rule, error));
    }
    if (!program->training)
        CLEAVE_TRY(find_period(result, arena, error));
    CLEAVE_TRY(cleave_simulated_step_report(program, priced->cache, arena, step, error));
    return bottleneck_find(&step->problem, &step->turned, machine, arena, &result->busiest, error);
}

static void put_sent(cleave_json_writer *w, const cleave_sent *sent, int32_t n) {
    static const cleave_step_part part_of[] = {[CLEAVE_ALL_REDUCE] = CLEAVE_PART_ALL_REDUCE,
                                               [CLEAVE_REDUCE_SCATTER] = CLEAVE_PART_REDUCE_SCATTER,
                                               [CLEAVE_ALL_GATHER] = CLEAVE_PART_ALL_GATHER,
                                               [CLEAVE_ALL_TO_ALL] = CLEAVE_PART_ALL_TO_ALL};
    cleave_json_open_array(w, "sent_by", false);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_begin_object(w, true);
        cleave_json_set_string(w, "kind",
                               cleave_step_part_names[sent[i].messages ? CLEAVE_PART_MESSAGES
                                                                       : part_of[sent[i].kind]]);
        cleave_json_set_integer(w, "devices", sent[i].n_devices);
        cleave_json_set_integer(w, "times", sent[i].times);
        cleave_json_set_integer(w, "bytes", sent[i].bytes);
        cleave_json_set_integer(w, "bytes_sent", sent[i].bytes_sent);
        cleave_json_end_object(w);
    }
    cleave_json_end_array(w);
}

/* Null of what was not simulated. */
static void put_seconds_by_events(cleave_json_writer *w, const char *name, const outcome *result,
                                  double seconds) {
    cleave_json_set_known(w, name, result->step_seconds[CLEAVE_RULE_EVENTS] >= 0, seconds);
}

static cleave_status print_json(const cleave_priced_program *priced, const outcome *result,
                                cleave_arena *arena, cleave_error *error) {
    cleave_json_writer w = {0};
    int64_t *bytes_between;
    cleave_sent *sent = NULL;
    int32_t n_sent = 0;
    const cleave_traffic_times times = cleave_priced_times(priced);
    CLEAVE_TRY(
        cleave_program_bytes_between(&priced->program, &times, arena, &bytes_between, error));
    if (priced->program.symbolic) /* else it is not known of all what is a collective */
        CLEAVE_TRY(
            cleave_program_sent_by_kind(&priced->program, &times, arena, &sent, &n_sent, error));
    cleave_json_begin_object(&w, false);
    cleave_json_set_number(&w, "step_seconds", result->step_seconds[result->rule]);
    cleave_json_set_number(&w, "scan_step_seconds", result->step_seconds[CLEAVE_RULE_SCAN]);
    put_seconds_by_events(&w, "events_step_seconds", result,
                          result->step_seconds[CLEAVE_RULE_EVENTS]);
    if (result->period_seconds > 0)
        cleave_json_set_number(&w, "period_seconds", result->period_seconds);
    price_report_put(&w, &result->step.prices.shares);
    cleave_json_set_number(&w, "simulate_seconds", result->wall_seconds[result->rule]);
    cleave_json_set_number(&w, "scan_simulate_seconds", result->wall_seconds[CLEAVE_RULE_SCAN]);
    put_seconds_by_events(&w, "events_simulate_seconds", result,
                          result->wall_seconds[CLEAVE_RULE_EVENTS]);
    cleave_json_set_integer(&w, "tasks", priced->n_items);
    cleave_json_set_integer(&w, "transfers", priced->n_messages);
    cleave_json_set_integer(&w, "bytes_sent", priced->bytes_sent);
    if (sent != NULL)
        put_sent(&w, sent, n_sent);
    inputs_put_bytes_between(&w, bytes_between, priced->n_devices);
    inputs_put_per_device(&w, "peak_bytes", priced->peak_bytes, priced->n_devices);
    if (priced->program.n_windows > 1)
        cleave_json_set_integer(&w, "folded_devices", priced->program.n_devices);
    cleave_json_set_string(&w, "bottleneck", result->busiest.name);
    cleave_json_set_number(&w, "bubble_seconds",
                           result->step_seconds[result->rule] - result->busiest.main_seconds);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

static const char *const step_names[N_RULES] = {[CLEAVE_RULE_EVENTS] = "step, links by readiness",
                                                [CLEAVE_RULE_SCAN] =
                                                    "step, links in program order"};

static void print_text(const cleave_machine *machine, const cleave_priced_program *priced,
                       const outcome *result, cleave_arena *arena) {
    const cleave_program *program = &priced->program;
    int64_t peak = 0;
    for (int32_t d = 0; d < priced->n_devices; d++)
        peak = priced->peak_bytes[d] > peak ? priced->peak_bytes[d] : peak;
    table t = {.arena = arena, .n_columns = 2, .align = "ll"};
    char step[160], other_step[64], prices[256];
    cleave_rule other = result->rule == CLEAVE_RULE_SCAN ? CLEAVE_RULE_EVENTS : CLEAVE_RULE_SCAN;
    double step_seconds = result->step_seconds[result->rule];
    double other_seconds = result->step_seconds[other];
    price_report_format_step(step_seconds, &result->step.prices.shares, step, sizeof step);
    price_report_format(&result->step.prices.shares, prices, sizeof prices);
    table_text(&t, step_names[result->rule]);
    table_text(&t, step);
    table_text(&t, step_names[other]);
    cleave_unit_format(other_seconds, CLEAVE_UNIT_SECONDS, other_step, sizeof other_step);
    if (other_seconds >= 0)
        table_format(&t, "%s  (%+.2f %%)", other_step,
                     step_seconds > 0 ? 100 * (other_seconds / step_seconds - 1) : 0);
    else
        table_text(&t, "not simulated of so many tasks; --engine events does");
    if (result->period_seconds > 0) {
        table_text(&t, "where passes follow, one every");
        table_quantity(&t, result->period_seconds, CLEAVE_UNIT_SECONDS);
    }
    table_text(&t, "prices");
    table_text(&t, prices);
    table_text(&t, "busiest");
    table_format(&t, "%s, %.0f %% of the step", result->busiest.name,
                 step_seconds > 0 ? 100 * result->busiest.busy_seconds / step_seconds : 0);
    table_text(&t, "bubble");
    table_format(&t, "%.0f %% of the step, on average over devices",
                 step_seconds > 0 ? 100 * (1 - result->busiest.main_seconds / step_seconds) : 0);
    table_text(&t, "memory of the fullest device");
    table_quantity(&t, (double)peak, CLEAVE_UNIT_BYTES);
    table_text(&t, "sent a step, all devices");
    table_quantity(&t, (double)priced->bytes_sent, CLEAVE_UNIT_BYTES);
    table_text(&t, "tasks, transfers");
    table_format(&t, "%lld, %lld", (long long)priced->n_items, (long long)priced->n_messages);
    if (program->n_windows > 1) {
        table_text(&t, "folded");
        table_format(&t, "%d devices, each for %d", program->n_devices, program->n_windows);
    }
    table_text(&t, "simulated in");
    table_quantity(&t, result->wall_seconds[result->rule], CLEAVE_UNIT_SECONDS);
    table_print(&t, stdout);
    const char *note = inputs_provenance_note(machine);
    if (note[0] != '\0')
        printf("%s\n", note);
}

static cleave_status write_files(const simulate_values *values, const cleave_machine *machine,
                                 const cleave_priced_program *priced, const outcome *result,
                                 cleave_error *error) {
    const cleave_simulated_step *step = &result->step;
    const cleave_trace_links links = {machine, &step->problem,
                                      cleave_engine_hop_begin(step->workspace)};
    const cleave_trace trace = {
        .program = &priced->program, .predicted = &step->timeline, .links = &links};
    if (values->trace != NULL)
        CLEAVE_TRY(cleave_trace_write(values->trace, &trace, error));
    if (values->dump_tasks != NULL)
        CLEAVE_TRY(cleave_tasks_write(values->dump_tasks, &priced->program, machine, &step->problem,
                                      &step->timeline, links.hop_begin, error));
    return CLEAVE_OK;
}

static cleave_status simulate_tasks(const simulate_values *values, cleave_arena *arena,
                                    cleave_error *error) {
    cleave_tasks tasks;
    cleave_tasks_timeline timeline;
    CLEAVE_TRY(cleave_tasks_read(values->tasks, arena, &tasks, error));
    double start = cleave_clock_seconds();
    CLEAVE_TRY(cleave_tasks_simulate(&tasks, arena, &timeline, error));
    double wall_seconds = cleave_clock_seconds() - start;
    double step_seconds = 1e-12 * (double)timeline.makespan;
    if (!values->common.json) {
        char step[64], wall[64];
        cleave_unit_format(step_seconds, CLEAVE_UNIT_SECONDS, step, sizeof step);
        cleave_unit_format(wall_seconds, CLEAVE_UNIT_SECONDS, wall, sizeof wall);
        printf("%d tasks end after %s (simulated in %s)\n", tasks.n_tasks, step, wall);
        return CLEAVE_OK;
    }
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_number(&w, "step_seconds", step_seconds);
    cleave_json_set_number(&w, "simulate_seconds", wall_seconds);
    cleave_json_set_integer(&w, "tasks", tasks.n_tasks);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

/* One window for all where the layout folds, and a few micro-batches where these tell of many, but
   in a file of all items. */
static cleave_status price_and_simulate(const simulate_values *values, cleave_pricing of,
                                        cleave_arena *arena, cleave_priced_program *priced,
                                        outcome *result, cleave_error *error) {
    bool writes = values->trace != NULL || values->dump_tasks != NULL;
    of.closed_form = values->closed_form;
    of.all_devices = writes;
    of.all_micro_batches = writes || result->rule == CLEAVE_RULE_EVENTS;
    CLEAVE_TRY(cleave_priced_program_make(&of, arena, priced, error));
    return simulate_both(of.machine, priced, arena, result, error);
}

static cleave_status simulate_layout(const simulate_values *values, cleave_arena *arena,
                                     cleave_error *error) {
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_priced_program priced = {0};
    outcome result = {0};
    cleave_pricing of = {.model = &model, .machine = &machine, .layout = &layout};
    CLEAVE_TRY(find_rule(values, &result.rule, error));
    result.apart = values->dump_tasks != NULL;
    CLEAVE_TRY(inputs_optimizer_states(&values->common, &of.optimizer_states, error));
    CLEAVE_TRY(inputs_model(&values->common, arena, &model, error));
    CLEAVE_TRY(inputs_attention(values->common.attention, &model, error));
    CLEAVE_TRY(load_layout(values, &model, arena, &machine, &layout, error));
    CLEAVE_TRY(inputs_framework(values->common.framework, &machine, error));
    cleave_status status = price_and_simulate(values, of, arena, &priced, &result, error);
    if (status == CLEAVE_OK)
        status = write_files(values, &machine, &priced, &result, error);
    cleave_cost_cache_destroy(priced.cache);
    CLEAVE_TRY(status);
    if (values->common.json)
        CLEAVE_TRY(print_json(&priced, &result, arena, error));
    else
        print_text(&machine, &priced, &result, arena);
    return CLEAVE_OK;
}

static cleave_status run(const void *any, char *const *arguments, cleave_arena *arena,
                         cleave_error *error) {
    const simulate_values *values = any;
    (void)arguments;
    CLEAVE_TRY(check_usage(values, error));
    return values->tasks != NULL ? simulate_tasks(values, arena, error)
                                 : simulate_layout(values, arena, error);
}

const command command_simulate = {
    .name = "simulate",
    .summary = "predict the step time, memory and traffic of a layout",
    .details = "Simulates one training step, or with --forward one pass, twice: a link serves\n"
               "transfers by readiness (events), or in program order (scan).  The second is the\n"
               "prediction, unless --engine says otherwise; both are printed.",
    .examples = "  cleave simulate --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json --method data-parallel\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(simulate_values),
    .run = run,
};
