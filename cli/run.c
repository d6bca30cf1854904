/* `cleave run`: runs a layout for real.  Started alone, it checks everything that can be checked,
   then starts itself under the MPI launcher with a rank per device; started by a launcher, it is a
   rank. */
#include "exec/run.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/ranks.h"
#include "cli/table.h"
#include "exec/text.h"
#include "exec/world.h"
#include "graph/import.h"
#include "simulator/simulate.h"
#include "simulator/trace.h"

#include <string.h>

typedef struct run_values {
    const char *model, *layout, *weights, *data, *text, *save, *optimizer, *machine, *trace;
    int64_t batch, steps, seed;
    double learning_rate, momentum, weight_decay, stall_timeout;
    bool forward, json, quiet, reference_kernels;
} run_values;

static const option_row rows[] = {
    ROW_MODEL(run_values),
    ROW_BATCH(run_values),
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(run_values, layout),
     .help = "the layout to run (default: all on one device)"},
    {"--steps", "K", OPTION_INTEGER, offsetof(run_values, steps), .least = 1, .most = 0x1p40,
     .standard = "10", .help = "training steps"},
    {"--weights", "W.safetensors", OPTION_TEXT, offsetof(run_values, weights),
     .help = "parameters and buffers to start from, or W.onnx with initializers (default: drawn "
             "from the seed)"},
    {"--data", "X.safetensors", OPTION_TEXT, offsetof(run_values, data),
     .help = "inputs and targets (default: made up from the seed)"},
    {"--text", "FILE", OPTION_TEXT, offsetof(run_values, text),
     .help = "train to predict the next byte of this file, for models with one input of bytes"},
    {"--save", "OUT.safetensors", OPTION_TEXT, offsetof(run_values, save),
     .help = "where the parameters go; with --forward the outputs"},
    {"--forward", NULL, OPTION_FLAG, offsetof(run_values, forward),
     .help = "run forward only, once; without --layout the model needs no loss and no targets"},
    ROW_OPTIMIZER(run_values),
    {"--lr", "R", OPTION_NUMBER, offsetof(run_values, learning_rate), .least = 1e-30, .most = 1e30,
     .help = "learning rate (default 0.01 of sgd, 0.001 of adam)"},
    ROW_MOMENTUM(run_values),
    {"--weight-decay", "W", OPTION_NUMBER, offsetof(run_values, weight_decay), .standard = "0",
     .help = "added to gradients, times the parameters; on elements that no operator reads it acts "
             "or not, by layout"},
    ROW_SEED(run_values),
    {"--stall-timeout", "SECONDS", OPTION_SECONDS, offsetof(run_values, stall_timeout),
     .standard = "60", .help = "a transfer that takes longer ends the run; 0: never"},
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(run_values, machine),
     .help = "print the predicted step beside the measured one"},
    {"--trace", "T.json", OPTION_TEXT, offsetof(run_values, trace),
     .help = "write the last step's timeline as a Chrome trace"},
    {"--reference-kernels", NULL, OPTION_FLAG, offsetof(run_values, reference_kernels),
     .help = "use the slow kernels that tests compare with"},
    ROW_JSON(run_values),
    ROW_QUIET(run_values),
};

/* What every rank reads, and the parent to check it. */
typedef struct run_inputs {
    cleave_model model;
    cleave_layout layout;
    cleave_run_options options;
    cleave_machine machine; /* only with --machine */
} run_inputs;

static cleave_status fill_options(const run_values *values, cleave_run_options *options,
                                  cleave_error *error) {
    int states; /* checks the name */
    CLEAVE_TRY(inputs_optimizer_states(values->optimizer, values->momentum, &states, error));
    bool adam = strcmp(values->optimizer, "adam") == 0;
    cleave_optimizer optimizer =
        cleave_optimizer_default(adam ? CLEAVE_OPTIMIZER_ADAM : CLEAVE_OPTIMIZER_SGD);
    if (values->learning_rate > 0)
        optimizer.learning_rate = values->learning_rate;
    optimizer.momentum = values->momentum;
    optimizer.weight_decay = values->weight_decay;
    *options = (cleave_run_options){
        .steps = values->forward ? 1 : values->steps,
        .forward = values->forward,
        .optimizer = optimizer,
        .seed = (uint64_t)values->seed,
        .weights = values->weights,
        .data = values->data,
        .text = values->text,
        .save = values->save,
        .stall_timeout_seconds = values->stall_timeout,
        .reference_kernels = values->reference_kernels,
        .timeline = values->trace != NULL,
        .quiet = values->quiet || values->json,
    };
    return CLEAVE_OK;
}

/* Forward needs no loss; but a layout that was found for training is of the model with its loss. */
static cleave_status load_model(const run_values *values, cleave_arena *arena, run_inputs *inputs,
                                cleave_error *error) {
    cleave_error ignored;
    CLEAVE_TRY(cleave_model_import(values->model, values->batch, !values->forward, arena,
                                   &inputs->model, error));
    if (values->layout == NULL)
        return cleave_layout_create(&inputs->model, 1, arena, &inputs->layout, error);
    cleave_status status =
        cleave_layout_read(values->layout, &inputs->model, arena, &inputs->layout, error);
    if (values->forward && status == CLEAVE_BAD_INPUT &&
        cleave_model_import(values->model, values->batch, true, arena, &inputs->model, &ignored) ==
            CLEAVE_OK)
        status = cleave_layout_read(values->layout, &inputs->model, arena, &inputs->layout, error);
    return status;
}

static cleave_status load(const run_values *values, cleave_arena *arena, run_inputs *inputs,
                          cleave_error *error) {
    CLEAVE_TRY(fill_options(values, &inputs->options, error));
    CLEAVE_TRY(load_model(values, arena, inputs, error));
    if (values->machine != NULL)
        CLEAVE_TRY(cleave_machine_read(values->machine, inputs->layout.n_devices, arena,
                                       &inputs->machine, error));
    return CLEAVE_OK;
}

static cleave_status predict(const run_inputs *inputs, cleave_arena *arena, double *seconds,
                             cleave_error *error) {
    priced_program priced;
    cleave_timeline timeline;
    CLEAVE_TRY(
        inputs_price(&inputs->model, &inputs->machine, &inputs->layout, !inputs->options.forward,
                     cleave_optimizer_states(&inputs->options.optimizer), arena, &priced, error));
    cleave_status status =
        cleave_simulate(&priced.program, priced.cache, CLEAVE_RULE_EVENTS, arena, &timeline, error);
    cleave_cost_cache_destroy(priced.cache);
    if (status == CLEAVE_OK)
        *seconds = 1e-12 * (double)timeline.step;
    return status;
}

/* What is said beside the result; null: not asked for. */
typedef struct run_extras {
    const double *predicted_seconds, *text_entropy; /* nats per byte */
} run_extras;

/* Of the last steps: each has other samples, so one alone says little. */
static double final_loss(const cleave_run_result *result, int64_t steps, int64_t *n) {
    double sum = 0;
    *n = steps < 10 ? steps : 10;
    for (int64_t s = steps - *n; s < steps; s++)
        sum += result->loss[s];
    return sum / (double)*n;
}

static cleave_status print_json(const cleave_run_result *result, int64_t steps, run_extras extras,
                                cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_key(&w, "step_seconds");
    cleave_json_put_number(&w, result->median_step_seconds);
    if (extras.predicted_seconds != NULL) {
        cleave_json_key(&w, "predicted_step_seconds");
        cleave_json_put_number(&w, *extras.predicted_seconds);
    }
    if (extras.text_entropy != NULL && result->loss != NULL) {
        int64_t n;
        cleave_json_key(&w, "text_entropy");
        cleave_json_put_number(&w, *extras.text_entropy);
        cleave_json_key(&w, "final_loss");
        cleave_json_put_number(&w, final_loss(result, steps, &n));
    }
    cleave_json_key(&w, "steps");
    cleave_json_put_integer(&w, steps);
    cleave_json_key(&w, "loss");
    cleave_json_begin_array(&w, true);
    for (int64_t s = 0; s < steps && result->loss != NULL; s++)
        cleave_json_put_number(&w, result->loss[s]);
    cleave_json_end_array(&w);
    cleave_json_key(&w, "bytes_sent");
    cleave_json_put_integer(&w, result->bytes_sent);
    inputs_put_bytes_between(&w, result->bytes_between, result->n_devices);
    inputs_put_per_device(&w, "peak_bytes", result->peak_bytes, result->n_devices);
    inputs_put_per_device(&w, "rss_peak_bytes", result->rss_peak_bytes, result->n_devices);
    cleave_json_key(&w, "program_bytes");
    cleave_json_put_integer(&w, cleave_program_own_bytes(result->program));
    cleave_json_key(&w, "kernel_seconds");
    cleave_json_put_number(&w, result->kernel_seconds);
    cleave_json_key(&w, "last_step_seconds");
    cleave_json_put_number(&w, result->last_step_seconds);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

static void print_text(const cleave_run_result *result, int64_t steps, run_extras extras,
                       cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 2, .align = "ll"};
    int64_t arena_bytes = 0, rss_bytes = 0;
    for (int32_t d = 0; d < result->n_devices; d++) {
        if (result->peak_bytes[d] > arena_bytes)
            arena_bytes = result->peak_bytes[d];
        if (result->rss_peak_bytes[d] > rss_bytes)
            rss_bytes = result->rss_peak_bytes[d];
    }
    if (result->loss != NULL) {
        table_text(&t, "loss");
        table_format(&t, "%.6g at step 1, %.6g at step %lld", result->loss[0],
                     result->loss[steps - 1], (long long)steps);
    }
    if (extras.text_entropy != NULL && result->loss != NULL) {
        int64_t n;
        double loss = final_loss(result, steps, &n);
        table_format(&t, "loss, mean of the last %lld step%s", (long long)n, n == 1 ? "" : "s");
        table_format(&t, "%.2f, unigram entropy of the text %.2f nats per byte", loss,
                     *extras.text_entropy);
    }
    table_text(&t, "step, median");
    table_quantity(&t, result->median_step_seconds, CLEAVE_UNIT_SECONDS);
    if (extras.predicted_seconds != NULL) {
        char text[64];
        cleave_unit_format(*extras.predicted_seconds, CLEAVE_UNIT_SECONDS, text, sizeof text);
        table_text(&t, "step, predicted");
        table_format(&t, "%s  (%+.1f %%)", text,
                     100 * (*extras.predicted_seconds / result->median_step_seconds - 1));
    }
    table_text(&t, "arena of the fullest device");
    table_quantity(&t, (double)arena_bytes, CLEAVE_UNIT_BYTES);
    table_text(&t, "resident memory of the fullest device");
    table_quantity(&t, (double)rss_bytes, CLEAVE_UNIT_BYTES);
    table_text(&t, "sent a step, all devices");
    table_quantity(&t, (double)result->bytes_sent, CLEAVE_UNIT_BYTES);
    table_print(&t, stdout);
}

/* Rank 0 says what came of it. */
static cleave_status report(const run_values *values, const run_inputs *inputs,
                            const cleave_run_result *result, cleave_arena *arena,
                            cleave_error *error) {
    double predicted = 0, entropy = 0;
    run_extras extras = {.predicted_seconds = values->machine != NULL ? &predicted : NULL,
                         .text_entropy = values->text != NULL ? &entropy : NULL};
    if (values->text != NULL)
        CLEAVE_TRY(cleave_text_entropy(values->text, &entropy, error));
    if (values->machine != NULL)
        CLEAVE_TRY(predict(inputs, arena, &predicted, error));
    if (values->trace != NULL)
        CLEAVE_TRY(
            cleave_trace_write(values->trace, result->program, &result->measured, NULL, error));
    if (values->json)
        return print_json(result, inputs->options.steps, extras, error);
    print_text(result, inputs->options.steps, extras, arena);
    return CLEAVE_OK;
}

/* The parent: all input is checked before a rank is started, so that its error is one line. */
static cleave_status launch(const run_values *values, char *const *arguments, cleave_arena *arena,
                            cleave_error *error) {
    run_inputs *inputs = CLEAVE_ARENA_ARRAY(arena, run_inputs, 1);
    if (inputs == NULL)
        return cleave_fail_memory(error, "reading the input");
    CLEAVE_TRY(load(values, arena, inputs, error));
    CLEAVE_TRY(cleave_run_check(&inputs->model, &inputs->layout, &inputs->options, error));
    return ranks_launch(inputs->layout.n_devices, arguments, error);
}

static cleave_status run_rank(const run_values *values, cleave_world *world, cleave_arena *arena,
                              cleave_error *error) {
    run_inputs *inputs = CLEAVE_ARENA_ARRAY(arena, run_inputs, 1);
    if (inputs == NULL)
        return cleave_fail_memory(error, "reading the input");
    cleave_run_result result;
    CLEAVE_TRY(load(values, arena, inputs, error));
    CLEAVE_TRY(cleave_run_check(&inputs->model, &inputs->layout, &inputs->options, error));
    CLEAVE_TRY(cleave_run(world, &inputs->model, &inputs->layout, &inputs->options, arena, &result,
                          error));
    return cleave_world_rank(world) == 0 ? report(values, inputs, &result, arena, error)
                                         : CLEAVE_OK;
}

static cleave_status run(const void *any, char *const *arguments, cleave_error *error) {
    const run_values *values = any;
    cleave_arena arena = {0};
    cleave_status status;
    if (!cleave_world_is_launched()) {
        status = launch(values, arguments, &arena, error);
    } else {
        cleave_world *world;
        status = cleave_world_begin(&world, error);
        if (status == CLEAVE_OK) {
            status = run_rank(values, world, &arena, error);
            ranks_end(world, "run", status, error);
        }
    }
    cleave_arena_free(&arena);
    return status;
}

const command command_run = {
    .name = "run",
    .summary = "run a model for real, on as many ranks as its layout has devices",
    .details =
        "Trains for some steps over MPI and prints loss, step time, memory and traffic.  Started\n"
        "under mpirun or a batch system it uses the ranks that are there.",
    .examples =
        "  cleave search --model configs/models/lenet5.onnx --batch 256 \\\n"
        "      --machine configs/machines/two-cores.json --time 5 -o lenet5.layout.json\n"
        "  cleave run --model configs/models/lenet5.onnx --batch 256 \\\n"
        "      --layout lenet5.layout.json --steps 5\n"
        "  cleave search --model configs/models/byte_gpt.onnx --batch 16 --optimizer adam \\\n"
        "      --machine configs/machines/two-cores.json --time 5 -o byte_gpt.layout.json\n"
        "  cleave run --model configs/models/byte_gpt.onnx --batch 16 --optimizer adam \\\n"
        "      --layout byte_gpt.layout.json --text README.md --steps 200\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(run_values),
    .run = run,
};
