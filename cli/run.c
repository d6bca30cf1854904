/* `cleave run`: runs a layout for real.  Started alone, it checks everything that can be checked,
   then starts itself under the MPI launcher with a rank per device; started by a launcher, it is a
   rank. */
#include "exec/run.h"
#include "base/checked.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "cli/run/placement.h"
#include "cli/run/report.h"
#include "cli/run/restart.h"
#include "exec/data/text.h"
#include "exec/training/validation.h"
#include "exec/world/ranks.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"
#include "graph/model/precision.h"

#include <math.h>
#include <signal.h>

typedef struct run_values {
    common_options common;
    const char *layout, *weights, *data, *text, *save, *trace, *from, *checkpoint, *lr_schedule,
        *no_decay, *log, *validate, *images, *hosts;
    int64_t steps, epochs, validate_every, checkpoint_every, keep, restart, warmup, lr_steps;
    double learning_rate, lr_final, weight_decay, stall_timeout, checkpoint_time;
    bool shuffle, throughput, no_overlap, override;
} run_values;

/* What says which model it is. */
#define ROWS_OF_MODEL ROW_MODEL, ROWS_IMPORT, ROW_ATTENTION

static const option_row rows[] = {
    ROWS_OF_MODEL,
    {"--layout", "PLAN.layout.json", OPTION_TEXT, offsetof(run_values, layout),
     .help = "the layout to run (default: all on one device)"},
    ROW_DEVICE_THREADS,
    {"--steps", "K", OPTION_INTEGER, offsetof(run_values, steps), .least = 1, .most = 0x1p40,
     .help = "training steps (default 10), or with --forward passes (default 1)"},
    {"--weights", "W.safetensors", OPTION_TEXT, offsetof(run_values, weights),
     .help =
         "parameters and buffers to start from; also W.safetensors.index.json, W.onnx (default: "
         "drawn from the seed)"},
    {"--epochs", "E", OPTION_INTEGER, offsetof(run_values, epochs), .least = 1, .most = 0x1p40,
     .help = "instead of --steps: how often every sample of the data is trained on"},
    {"--data", "X.safetensors", OPTION_TEXT, offsetof(run_values, data),
     .help = "inputs and targets, of one batch or of many samples; also NAME=X.npy,NAME=Y.npy "
             "(default: made up from the seed)"},
    {"--images", "FOLDER", OPTION_TEXT, offsetof(run_values, images),
     .help = "train to tell the classes of images apart, JPEG or PNG: a folder in it for each "
             "class; they are resized, cropped and normalised"},
    {"--shuffle", NULL, OPTION_FLAG, offsetof(run_values, shuffle),
     .help = "samples come in another order in every epoch, by the seed"},
    {"--text", "FILE", OPTION_TEXT, offsetof(run_values, text),
     .help = "train to predict the next byte of this file, for models with one input of bytes"},
    {"--validate", "DATA", OPTION_TEXT, offsetof(run_values, validate),
     .help = "held-out samples, of the same kind as what is trained on: their loss and accuracy at "
             "the end of each epoch, and of the run"},
    {"--validate-every", "K", OPTION_INTEGER, offsetof(run_values, validate_every), .most = 0x1p40,
     .help = "after every K steps instead"},
    {"--save", "OUT.safetensors", OPTION_OUTPUT, offsetof(run_values, save),
     .help = "where the parameters go; with --forward the outputs"},
    {"--checkpoint", "FOLDER", OPTION_TEXT, offsetof(run_values, checkpoint),
     .help = "leave checkpoints there: at the end, when SIGTERM or Ctrl-C ends the run, and as the "
             "next two say"},
    {"--checkpoint-every", "K", OPTION_INTEGER, offsetof(run_values, checkpoint_every),
     .most = 0x1p40, .help = "a checkpoint after every K steps"},
    {"--checkpoint-time", "SECONDS", OPTION_SECONDS, offsetof(run_values, checkpoint_time),
     .help = "a checkpoint when the last one is older, as \"10 min\""},
    {"--keep", "N", OPTION_INTEGER, offsetof(run_values, keep), .most = 0x1p40, .standard = "3",
     .help = "of the checkpoints keep the newest N; 0: all"},
    {"--from", "CHECKPOINT", OPTION_TEXT, offsetof(run_values, from),
     .help = "go on from a checkpoint, or from the newest that is whole of a folder of them, under "
             "the same or another layout; --steps counts from the beginning"},
    {"--override", NULL, OPTION_FLAG, offsetof(run_values, override),
     .help =
         "with --from: learning rate, its schedule, weight decay, clipping norm and constants of "
         "the optimizer may differ from the checkpoint's, and hold from there on"},
    {"--restart", "N", OPTION_INTEGER, offsetof(run_values, restart), .most = 1 << 20,
     .help =
         "when a rank dies or hangs or the disk fails, start again from the last checkpoint, up "
         "to N times; where hosts are gone, with --machine, under a layout for those that are "
         "left"},
    {"--hosts", "FILE", OPTION_TEXT, offsetof(run_values, hosts),
     .help = "run on these hosts, one a line, as \"alpha:4\" or \"alpha slots=4\" (default those "
             "of Slurm's or PBS' allocation, else this machine)"},
    {"--log", "FILE.csv", OPTION_OUTPUT, offsetof(run_values, log),
     .help = "a table with a row a step, which grows: loss, learning rate, time; with --from it "
             "goes on"},
    {"--forward", NULL, OPTION_FLAG, offsetof(run_values, common.forward),
     .help = "run forward only; without --layout the model needs no loss and no targets"},
    {"--throughput", NULL, OPTION_FLAG, offsetof(run_values, throughput),
     .help = "with --forward: passes follow each other without waiting for the slowest rank, and "
             "the time of a step is that between the ends of two"},
    ROW_OPTIMIZER,
    {"--lr", "R", OPTION_NUMBER, offsetof(run_values, learning_rate), .least = 1e-30, .most = 1e30,
     .help = "learning rate (default 0.01 of sgd, 0.001 of adam and adamw)"},
    {"--lr-schedule", "constant|linear|cosine", OPTION_TEXT, offsetof(run_values, lr_schedule),
     .help = "how it falls from there to --lr-final (default constant)"},
    {"--warmup", "K", OPTION_INTEGER, offsetof(run_values, warmup), .most = 0x1p40,
     .help = "before, it rises in equal parts over the first K steps"},
    {"--lr-steps", "K", OPTION_INTEGER, offsetof(run_values, lr_steps), .most = 0x1p40,
     .help = "steps of the whole training after which it has fallen (default --steps)"},
    {"--lr-final", "R", OPTION_NUMBER, offsetof(run_values, lr_final), .most = 1e30,
     .help = "the learning rate at the end of linear and cosine (default 0)"},
    ROW_MOMENTUM,
    ROW_CLIP,
    {"--weight-decay", "W", OPTION_NUMBER, offsetof(run_values, weight_decay), .may_lack = true,
     .help =
         "added to gradients, times the parameters; of adamw parameters shrink by it, times the "
         "learning rate (default 0.01 of adamw, else 0); on elements that no operator reads it "
         "acts or not, by layout"},
    {"--no-decay", "PATTERN,...", OPTION_TEXT, offsetof(run_values, no_decay),
     .help =
         "parameters on which the weight decay does not act, such as \"*.bias,*norm*\" (default "
         "none)"},
    ROW_SEED,
    {"--stall-timeout", "SECONDS", OPTION_SECONDS, offsetof(run_values, stall_timeout),
     .standard = "60", .help = "a transfer that takes longer ends the run; 0: never"},
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(run_values, common.machine),
     .help =
         "set what is predicted beside what is measured: the step, its parts, and the ten items "
         "with the largest error; of several hosts each is to be a node of it"},
    {"--trace", "T.json", OPTION_OUTPUT, offsetof(run_values, trace),
     .help = "write the timeline of a step of median time as a Chrome trace, for ui.perfetto.dev; "
             "with --machine the predicted one below it"},
    {"--no-overlap", NULL, OPTION_FLAG, offsetof(run_values, no_overlap),
     .help = "gradients move only while nothing can be computed: to see what overlap is worth"},
    ROW_JSON,
    ROW_QUIET,
};

/* What a search for another layout of the same training is asked by. */
static const option_row searched_rows[] = {ROWS_OF_MODEL, ROWS_OPTIMIZER};
static const option_table all = COMMAND_OPTIONS(rows), searched = COMMAND_OPTIONS(searched_rows);

/* What every rank reads, and the parent to check it. */
typedef struct run_inputs {
    cleave_model model, evaluated;          /* the second only with --validate, */
    cleave_layout layout, evaluated_layout; /* and so is this */
    cleave_run_options options;
    cleave_machine machine; /* only with --machine */
} run_inputs;

/* What asks a rank to end after the step at hand.  Launchers may send it twice for once.  The
   handler can reach nothing but a global. */
static volatile sig_atomic_t interrupted;
static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

/* The optimizer of a training of so many steps. */
static cleave_status fill_optimizer(const run_values *values, int64_t steps,
                                    cleave_optimizer *optimizer, cleave_error *error) {
    const cleave_rate_schedule asked = {
        .warmup = values->warmup, .steps = values->lr_steps, .final = values->lr_final};
    CLEAVE_TRY(cleave_optimizer_find(values->common.optimizer, optimizer, error));
    if (values->learning_rate > 0)
        optimizer->learning_rate = values->learning_rate;
    if (!isnan(values->weight_decay))
        optimizer->weight_decay = values->weight_decay;
    optimizer->momentum = values->common.momentum;
    optimizer->clip_norm = values->common.clip_norm;
    return cleave_rate_schedule_make(values->lr_schedule, &asked, steps, optimizer->learning_rate,
                                     &optimizer->schedule, error);
}

static cleave_status fill_options(const run_values *values, cleave_run_options *options,
                                  cleave_error *error) {
    if (values->throughput && !values->common.forward)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--throughput goes with --forward alone");
    if (values->override && values->from == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--override is for what goes on from a checkpoint: --from names it");
    *options = (cleave_run_options){
        .steps = values->steps > 0        ? values->steps
                 : values->common.forward ? 1
                                          : 10,
        .forward = values->common.forward,
        .stream = values->throughput,
        .no_decay = values->no_decay,
        .seed = (uint64_t)values->common.seed,
        .weights = values->weights,
        .data = values->data,
        .images = values->images,
        .shuffle = values->shuffle,
        .text = values->text,
        .save = values->save,
        .from = values->from,
        .overrides = values->override,
        .checkpoint = values->checkpoint,
        .checkpoint_every = values->checkpoint_every,
        .checkpoint_seconds = values->checkpoint_time,
        .keep = values->keep,
        .validate = values->validate,
        .validate_every = values->validate_every,
        .log = values->log,
        .interrupted = &interrupted,
        .stall_timeout_seconds = values->stall_timeout,
        .device_threads = (int32_t)values->common.device_threads,
        .no_overlap = values->no_overlap,
        .timeline = values->trace != NULL || values->common.machine != NULL,
        .quiet = values->common.quiet || values->common.json,
    };
    return CLEAVE_OK;
}

/* Forward needs no loss; but a layout that was found for training is of the model with its loss. */
static cleave_status load_model(const run_values *values, cleave_arena *arena, run_inputs *inputs,
                                cleave_error *error) {
    cleave_error ignored;
    common_options trained = values->common;
    trained.forward = false;
    CLEAVE_TRY(inputs_model(&values->common, arena, &inputs->model, error));
    CLEAVE_TRY(cleave_model_check_runs(&inputs->model, error));
    CLEAVE_TRY(inputs_attention(values->common.attention, &inputs->model, error));
    if (values->layout == NULL)
        return cleave_layout_create(&inputs->model, 1, arena, &inputs->layout, error);
    cleave_status status =
        cleave_layout_read(values->layout, &inputs->model, arena, &inputs->layout, error);
    if (values->common.forward && status == CLEAVE_BAD_INPUT &&
        inputs_model(&trained, arena, &inputs->model, &ignored) == CLEAVE_OK &&
        inputs_attention(values->common.attention, &inputs->model, &ignored) == CLEAVE_OK)
        status = cleave_layout_read(values->layout, &inputs->model, arena, &inputs->layout, error);
    return status;
}

/* The model once more, as it is evaluated. */
static cleave_status load_evaluated(const run_values *values, cleave_arena *arena,
                                    run_inputs *inputs, cleave_error *error) {
    cleave_import_request request = inputs_request(&values->common);
    request.evaluates = true;
    request.clips = false;
    if (values->common.forward)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--validate goes with a training, which --forward is not");
    CLEAVE_TRY(cleave_model_import_as(&request, arena, &inputs->evaluated, error));
    CLEAVE_TRY(inputs_attention(values->common.attention, &inputs->evaluated, error));
    CLEAVE_TRY(cleave_validation_layout(&inputs->model, &inputs->layout, &inputs->evaluated, arena,
                                        &inputs->evaluated_layout, error));
    inputs->options.evaluated = &inputs->evaluated;
    inputs->options.evaluated_layout = &inputs->evaluated_layout;
    return cleave_model_fuse_attention(&inputs->evaluated, &inputs->evaluated_layout, arena,
                                       &inputs->evaluated, error);
}

/* --epochs in steps. */
static cleave_status count_steps(const run_values *values, run_inputs *inputs,
                                 cleave_error *error) {
    int64_t steps;
    if (values->epochs == 0)
        return CLEAVE_OK;
    if (values->steps > 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--epochs and --steps say the same");
    CLEAVE_TRY(cleave_run_steps_of_epoch(&inputs->model, &inputs->options, &steps, error));
    if (steps == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--epochs needs data with samples: of a text or of what is made up, "
                           "--steps says how long it trains");
    if (!cleave_int64_multiply(steps, values->epochs, &inputs->options.steps))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--epochs %lld: too many steps",
                           (long long)values->epochs);
    return CLEAVE_OK;
}

static cleave_status load(const run_values *values, cleave_arena *arena, run_inputs *inputs,
                          cleave_error *error) {
    CLEAVE_TRY(fill_options(values, &inputs->options, error));
    CLEAVE_TRY(load_model(values, arena, inputs, error));
    CLEAVE_TRY(count_steps(values, inputs, error));
    CLEAVE_TRY(fill_optimizer(values, inputs->options.steps, &inputs->options.optimizer, error));
    if (values->validate != NULL)
        CLEAVE_TRY(load_evaluated(values, arena, inputs, error));
    CLEAVE_TRY(
        cleave_model_fuse_attention(&inputs->model, &inputs->layout, arena, &inputs->model, error));
    if (values->common.machine == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_machine_read(values->common.machine, inputs->layout.n_devices, arena,
                                   &inputs->machine, error));
    return inputs_device_threads(&inputs->machine, values->common.machine,
                                 values->common.device_threads, error);
}

/* Rank 0 says what came of it. */
static cleave_status report(const run_values *values, const run_inputs *inputs,
                            const cleave_run_result *result, cleave_arena *arena,
                            cleave_error *error) {
    double entropy = 0;
    run_prediction prediction;
    run_report made = {.result = result};
    if (values->text != NULL) {
        CLEAVE_TRY(cleave_text_entropy(values->text, &entropy, error));
        made.text_entropy = &entropy;
    }
    if (values->common.machine != NULL) {
        CLEAVE_TRY(run_prediction_make(result, &inputs->model, &inputs->machine, arena, &prediction,
                                       error));
        if (values->throughput)
            CLEAVE_TRY(run_prediction_of_stream(&prediction, error));
        made.prediction = &prediction;
    }
    if (values->trace != NULL)
        CLEAVE_TRY(run_report_write_trace(&made, values->trace, error));
    if (values->common.json)
        return run_report_print_json(&made, error);
    run_report_print_text(&made, arena);
    return CLEAVE_OK;
}

static cleave_status start_ranks(const run_values *values, const run_inputs *inputs,
                                 char *const *arguments, cleave_arena *arena, cleave_error *error) {
    const int32_t n_ranks = inputs->layout.n_devices;
    const cleave_machine *machine = values->common.machine != NULL ? &inputs->machine : NULL;
    fewer_search search = {.machine = values->common.machine,
                           .folder = values->checkpoint,
                           .quiet = values->common.quiet};
    cleave_hosts hosts;
    const char *placed;
    int n_arguments = 0;
    while (arguments[n_arguments] != NULL)
        n_arguments++;
    search.n_options = options_repeat(&all, &searched, n_arguments - 2, arguments + 2,
                                      search.options, FEWER_MOST_OPTIONS);
    CLEAVE_TRY(placement_find_hosts(values->hosts, arena, &hosts, error));
    if (hosts.n > 0)
        CLEAVE_TRY(placement_make(&hosts, machine, n_ranks, arena, &placed, error));
    /* Beyond what ranks wait for each other. */
    const restart how = {.most = values->restart,
                         .checkpoint = values->checkpoint,
                         .patience_seconds =
                             values->stall_timeout > 0 ? values->stall_timeout + 5 : 0,
                         .hosts = &hosts,
                         .machine = machine,
                         .search = &search,
                         .quiet = values->common.quiet};
    return restart_ranks(&how, n_ranks, arguments, error);
}

/* The parent: all input is checked before a rank is started, so that its error is one line. */
static cleave_status launch(const run_values *values, char *const *arguments, cleave_arena *arena,
                            cleave_error *error) {
    run_inputs *inputs = CLEAVE_ARENA_ARRAY(arena, run_inputs, 1);
    if (inputs == NULL)
        return cleave_fail_memory(error, "reading the input");
    CLEAVE_TRY(load(values, arena, inputs, error));
    CLEAVE_TRY(cleave_run_check(&inputs->model, &inputs->layout, &inputs->options, error));
    CLEAVE_TRY(cleave_run_check_from(&inputs->model, &inputs->options, error));
    if (values->checkpoint == NULL && values->restart > 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--restart goes on from checkpoints: --checkpoint says where they are");
    return start_ranks(values, inputs, arguments, arena, error);
}

static cleave_status run_rank(const run_values *values, cleave_world *world, cleave_arena *arena,
                              cleave_error *error) {
    run_inputs *inputs = CLEAVE_ARENA_ARRAY(arena, run_inputs, 1);
    if (inputs == NULL)
        return cleave_fail_memory(error, "reading the input");
    cleave_run_result result;
    struct sigaction action = {.sa_handler = interrupt};
    CLEAVE_TRY(load(values, arena, inputs, error));
    if (values->checkpoint != NULL)
        sigaction(SIGTERM, &action, NULL);
    CLEAVE_TRY(cleave_run_check(&inputs->model, &inputs->layout, &inputs->options, error));
    CLEAVE_TRY(cleave_run(world, &inputs->model, &inputs->layout, &inputs->options, arena, &result,
                          error));
    cleave_world_beat_last(world);
    return cleave_world_rank(world) == 0 ? report(values, inputs, &result, arena, error)
                                         : CLEAVE_OK;
}

static cleave_status run(const void *any, char *const *arguments, cleave_arena *arena,
                         cleave_error *error) {
    const run_values *values = any;
    if (!cleave_world_is_launched())
        return launch(values, arguments, arena, error);
    cleave_world *world;
    CLEAVE_TRY(cleave_world_begin(&world, error));
    cleave_status status = run_rank(values, world, arena, error);
    cleave_ranks_end(world, "run", status, error);
    return status;
}

const command command_run = {
    .name = "run",
    .summary = "run a model for real, on as many ranks as its layout has devices",
    .details = "Trains for some steps over MPI and prints loss, step time, memory and traffic.\n"
               "Started under mpirun or a batch system it uses the ranks that are there.",
    .examples = "  cleave search --model configs/models/lenet5.onnx --batch 256 \\\n"
                "      --machine configs/machines/two-cores.json --time 5 -o lenet5.layout.json\n"
                "  cleave run --model configs/models/lenet5.onnx --batch 256 \\\n"
                "      --layout lenet5.layout.json --steps 5\n"
                "  cleave search --model configs/models/byte_gpt.onnx --batch 16 \\\n"
                "      --optimizer adam --machine configs/machines/two-cores.json --time 5 \\\n"
                "      -o byte_gpt.layout.json\n"
                "  cleave run --model configs/models/byte_gpt.onnx --batch 16 --optimizer adam \\\n"
                "      --layout byte_gpt.layout.json --text README.md --steps 200\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(run_values),
    .run = run,
};
