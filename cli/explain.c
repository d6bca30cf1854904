/* `cleave explain`: why a layout is as it is, operator by operator. */
#include "base/progress.h"
#include "cli/command.h"
#include "cli/explain_report.h"
#include "graph/import/import.h"

#include <math.h>
#include <string.h>

typedef struct explain_values {
    const char *model, *machine, *layout, *operator_name, *optimizer, *inputs;
    int64_t batch, splits;
    double memory_limit, momentum;
    bool json, quiet;
} explain_values;

static const option_row rows[] = {
    ROW_MODEL(explain_values),
    ROW_BATCH(explain_values),
    ROW_INPUTS(explain_values),
    ROW_MACHINE(explain_values),
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(explain_values, layout),
     .required = true, .help = "the layout to explain"},
    {"--operator", "NAME", OPTION_TEXT, offsetof(explain_values, operator_name),
     .help = "this one alone, with its best other splits on any block of devices"},
    {"--splits", "K", OPTION_INTEGER, offsetof(explain_values, splits), .most = 1 << 20,
     .standard = "64", .help = "try about so many other splits of each operator, 0: all"},
    {"--memory-limit", "SIZE", OPTION_BYTES, offsetof(explain_values, memory_limit), .least = 1,
     .most = 0x1p62, .help = "most memory per device, such as \"2 GiB\" (default the machine's)"},
    ROW_OPTIMIZER(explain_values),
    ROW_MOMENTUM(explain_values),
    ROW_JSON(explain_values),
    ROW_QUIET(explain_values),
};

static cleave_status simulate(const explanation *e, int states, cleave_arena *arena,
                              explain_path *path, cleave_error *error) {
    priced_program priced = {0};
    cleave_simulated_step step;
    cleave_arena scratch = {0};
    const inputs_pricing how = {.training = e->model->loss >= 0, .optimizer_states = states};
    cleave_status status =
        inputs_price(e->model, e->machine, e->layout, &how, &scratch, &priced, error);
    if (status == CLEAVE_OK)
        status = cleave_simulated_step_make(&priced.program, priced.cache, &scratch, &step, error);
    if (status == CLEAVE_OK)
        status = explain_path_find(e->model, &priced, &step, arena, path, error);
    if (priced.cache != NULL)
        cleave_cost_cache_destroy(priced.cache);
    cleave_arena_free(&scratch);
    return status;
}

/* The operators to tell about, by their share of the step; equal ones in the model's order. */
static cleave_status choose_operators(explanation *e, const char *name, cleave_arena *arena,
                                      cleave_error *error) {
    int32_t only = name != NULL ? cleave_model_find_operator(e->model, name) : -1;
    if (name != NULL && only < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--operator: %.200s has no operator \"%.128s\"; cleave show lists them",
                           e->model->file, name);
    e->order = CLEAVE_ARENA_ARRAY(arena, int32_t, e->model->n_operators);
    if (e->order == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    e->is_whole = name == NULL;
    for (int32_t op = 0; op < e->model->n_operators; op++) {
        if (only >= 0 && op != only)
            continue;
        int32_t place = e->n++;
        for (; place > 0 &&
               e->path.operators[e->order[place - 1]].total < e->path.operators[op].total;
             place--)
            e->order[place] = e->order[place - 1];
        e->order[place] = op;
    }
    return CLEAVE_OK;
}

/* An operator before it in the order that is alike and split alike; -1: none. */
static int32_t find_alike(const explanation *e, const explain_changes *changes, int32_t place) {
    for (int32_t i = 0; i < place; i++)
        if (explain_changes_alike(changes, e->order[i], e->order[place]))
            return e->order[i];
    return -1;
}

static explain_extent choose_extent(const explanation *e, int64_t most) {
    return (explain_extent){
        .all_blocks = !e->is_whole, .most = most, .keep = e->is_whole ? 3 : EXPLAIN_ALTERNATIVES};
}

/* Of operators that are alike and split alike, as in blocks that repeat, the one with the largest
   share is tried in full, the others with what was best for it. */
static cleave_status try_changes(explanation *e, explain_changes *changes,
                                 const explain_values *values, cleave_arena *arena,
                                 cleave_error *error) {
    cleave_progress progress;
    explain_choice *choices = CLEAVE_ARENA_ARRAY(arena, explain_choice, e->model->n_operators);
    const explain_extent extent = choose_extent(e, values->splits), whole = choose_extent(e, 0);
    int32_t like;
    int64_t all = 0;
    if (choices == NULL)
        return cleave_fail_memory(error, "explaining a layout");
    for (int32_t i = 0; i < e->n; i++)
        all += find_alike(e, changes, i) >= 0 ? extent.keep
                                              : explain_changes_count(changes, e->order[i], extent);
    cleave_progress_begin(&progress, "trying other splits", values->quiet);
    cleave_status status = CLEAVE_OK;
    for (int32_t i = 0; i < e->n && status == CLEAVE_OK; i++) {
        int32_t op = e->order[i];
        cleave_progress_update(&progress, fmin((double)e->tried / (double)all, 1),
                               e->model->operators[op].name);
        like = find_alike(e, changes, i);
        status =
            like >= 0
                ? explain_changes_follow(changes, op, &choices[like], arena, &choices[op], error)
                : explain_changes_choose(changes, op, extent, arena, &choices[op], error);
        e->tried += choices[op].tried;
        e->not_tried += explain_changes_count(changes, op, whole) - 1 - choices[op].tried;
    }
    cleave_progress_end(&progress, NULL);
    e->choices = choices;
    return status;
}

static cleave_status explain_layout(const explain_values *values, explanation *e,
                                    cleave_arena *arena, cleave_error *error) {
    cleave_search_options options = {.method = "auto",
                                     .memory_limit_bytes = (int64_t)values->memory_limit};
    explain_changes changes = {0};
    CLEAVE_TRY(inputs_optimizer_states(values->optimizer, values->momentum,
                                       &options.optimizer_states, error));
    CLEAVE_TRY(simulate(e, options.optimizer_states, arena, &e->path, error));
    int32_t fullest = e->machine->device_kind[e->path.fullest_device];
    e->memory_limit_bytes = options.memory_limit_bytes > 0
                                ? options.memory_limit_bytes
                                : e->machine->kinds[fullest].memory_bytes;
    CLEAVE_TRY(choose_operators(e, values->operator_name, arena, error));
    cleave_status status =
        explain_changes_create(e->model, e->machine, e->layout, &options, arena, &changes, error);
    if (status == CLEAVE_OK)
        status = explain_changes_list(&changes, arena, error);
    if (status == CLEAVE_OK)
        status = try_changes(e, &changes, values, arena, error);
    e->estimated_step = changes.price.step;
    explain_changes_destroy(&changes);
    return status;
}

static cleave_status explain(const explain_values *values, cleave_arena *arena,
                             cleave_error *error) {
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    explanation e = {.model = &model, .machine = &machine, .layout = &layout};
    CLEAVE_TRY(
        inputs_trained_model(values->model, values->batch, values->inputs, arena, &model, error));
    CLEAVE_TRY(cleave_layout_read(values->layout, &model, arena, &layout, error));
    CLEAVE_TRY(cleave_machine_read(values->machine, layout.n_devices, arena, &machine, error));
    CLEAVE_TRY(explain_layout(values, &e, arena, error));
    if (values->json)
        return explain_print_json(&e, error);
    explain_print(&e, arena);
    return CLEAVE_OK;
}

static cleave_status run(const void *values, char *const *arguments, cleave_error *error) {
    (void)arguments;
    cleave_arena arena = {0};
    cleave_status status = explain(values, &arena, error);
    cleave_arena_free(&arena);
    return status;
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
               "operator alone has its next best split.",
    .examples = "  cleave explain --model configs/models/alexnet.onnx --batch 32 \\\n"
                "      --machine configs/machines/two-cores.json \\\n"
                "      --layout configs/layouts/alexnet-32-two-cores.layout.json\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(explain_values),
    .run = run,
};
