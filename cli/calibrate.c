/* `cleave calibrate`: measures this machine.  Started alone, it starts itself as ranks that measure
   side by side (a kernel has less memory bandwidth, and a lower clock, while its neighbours work),
   then runs a plan to see what a rank takes beside its arena.  Started by a launcher, it is a rank.

   What an existing file has measured with the same kernels is kept, so running it again goes on
   where it stopped. */
#include "cli/calibrate/calibrate.h"
#include "cli/calibrate/list.h"
#include "cli/calibrate/times.h"
#include "cli/child.h"
#include "cli/command.h"
#include "cli/inputs.h"
#include "exec/world/ranks.h"
#include "graph/model/precision.h"
#include "search/search.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const option_row rows[] = {
    {"--model", "M.onnx", OPTION_TEXT_LIST, offsetof(calibrate_values, models),
     .help = "a model whose kernels are measured"},
    {"--batch", "N", OPTION_INTEGER_LIST, offsetof(calibrate_values, batches), .least = 1,
     .most = 1LL << 31, .help = "its global batch; one for each --model, in order"},
    {"--sequence", "N", OPTION_INTEGER_LIST, offsetof(calibrate_values, sequences), .least = 0,
     .most = 1 << 20,
     .help = "length of its texts, of a language model by its config.json, else 0; one for each "
             "--model, in order"},
    {"--inputs", "NAME,...", OPTION_TEXT_LIST, offsetof(calibrate_values, inputs),
     .help = "its inputs that are data, as of `cleave search`; one for each --model, in order"},
    {"--dimensions", "NAME=N,...", OPTION_TEXT_LIST, offsetof(calibrate_values, dimensions),
     .help = "its dimensions that are open, as of `cleave search`; one for each --model, in order"},
    {"--layout", "PLAN.layout.json", OPTION_TEXT_LIST, offsetof(calibrate_values, layouts),
     .help = "a layout whose kernels are measured before all others; with one --model only"},
    {"--devices", "D", OPTION_INTEGER, offsetof(calibrate_values, common.devices), .least = 1,
     .most = CLEAVE_MAX_NODE_DEVICES,
     .help = "devices of the machine (default its processors, or as many as have their threads)"},
    ROW_DEVICE_THREADS,
    {"--time", "SECONDS", OPTION_SECONDS, offsetof(calibrate_values, time), .standard = "60",
     .help = "budget; what is not measured by then is predicted from what is"},
    ROW_FORWARD,
    {"--again", NULL, OPTION_FLAG, offsetof(calibrate_values, again),
     .help =
         "measure what the given layouts need once more, as the machine is now, and nothing else"},
    {"--name", "NAME", OPTION_TEXT, offsetof(calibrate_values, name),
     .help = "of the machine (default its host name)"},
    {"-o", "MACHINE.json", OPTION_OUTPUT, offsetof(calibrate_values, output),
     .help = "the machine file; what it has is kept"},
    {"--list-kernels", "KERNELS.json", OPTION_OUTPUT, offsetof(calibrate_values, list),
     .help = "measure nothing: write what a framework is to time"},
    {"--import", "TIMES.json", OPTION_TEXT, offsetof(calibrate_values, import),
     .help = "measure nothing: take what a framework was timed to take"},
    {"--through", "torch", OPTION_TEXT, offsetof(calibrate_values, through),
     .help = "list, time in that framework, and take its times"},
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(calibrate_values, common.machine),
     .help = "with the three before: the machine whose devices are measured, for all else of it"},
    {"--python", "PYTHON", OPTION_TEXT, offsetof(calibrate_values, python), .standard = "python3",
     .help = "with --through: the Python that has the framework"},
    {"--device", "cuda|cpu", OPTION_TEXT, offsetof(calibrate_values, device),
     .help = "with --through: where it is timed (default cuda where there is one)"},
    {"--compile", NULL, OPTION_FLAG, offsetof(calibrate_values, compile),
     .help = "with --through: as torch.compile makes it"},
    ROW_CAPACITY,
    ROW_PRECISION,
    ROW_REDUCE_PRECISION,
    ROW_JSON,
    ROW_QUIET,
};

/* Is it another one that measures? */
static bool measures_elsewhere(const calibrate_values *values) {
    return values->list != NULL || values->import != NULL || values->through != NULL;
}

static cleave_status check_modes(const calibrate_values *values, cleave_error *error) {
    int n = (values->list != NULL) + (values->import != NULL) + (values->through != NULL);
    if (n > 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--list-kernels, --import and --through: one of them at a time");
    if (values->import == NULL && values->models.n == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--model M.onnx is missing (--help explains)");
    if (values->list == NULL && values->output == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "-o MACHINE.json is missing (--help explains)");
    if (values->common.machine != NULL && n == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--machine %s: goes with --list-kernels, --import or --through",
                           values->common.machine);
    return CLEAVE_OK;
}

static cleave_status check_usage(const calibrate_values *values, cleave_error *error) {
    CLEAVE_TRY(check_modes(values, error));
    const struct {
        const char *option;
        int n;
    } lists[] = {{"--batch", values->batches.n},
                 {"--sequence", values->sequences.n},
                 {"--inputs", values->inputs.n},
                 {"--dimensions", values->dimensions.n}};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        if (lists[l].n != 0 && lists[l].n != values->models.n)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%d --model and %d %s: every --model needs its %s, or none has one",
                               values->models.n, lists[l].n, lists[l].option, lists[l].option);
    if (values->layouts.n > 0 && values->models.n != 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--layout %s: goes with one --model, not with %d",
                           values->layouts.items[0], values->models.n);
    if (values->again && values->layouts.n == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--again: no --layout is given");
    return CLEAVE_OK;
}

/* What is asked for of the i-th model. */
static common_options common_of(const calibrate_values *values, int i) {
    common_options common = values->common;
    common.model = values->models.items[i];
    common.batch = values->batches.n > 0 ? values->batches.items[i] : 0;
    common.sequence = values->sequences.n > 0 ? values->sequences.items[i] : 0;
    common.inputs = values->inputs.n > 0 ? values->inputs.items[i] : NULL;
    common.dimensions = values->dimensions.n > 0 ? values->dimensions.items[i] : NULL;
    return common;
}

cleave_status calibrate_import(const calibrate_values *values, int i, cleave_arena *arena,
                               cleave_model *model, cleave_error *error) {
    const common_options common = common_of(values, i);
    CLEAVE_TRY(inputs_model(&common, arena, model, error));
    return cleave_model_check_runs(model, error);
}

static int32_t count_devices(const calibrate_values *values) {
    long threads = values->common.device_threads > 1 ? (long)values->common.device_threads : 1,
         processors = sysconf(_SC_NPROCESSORS_ONLN) / threads;
    return values->common.devices > 0 ? (int32_t)values->common.devices
           : processors > 1           ? (int32_t)processors
                                      : 1;
}

/* Resident bytes beside arena and program, of the rank that has most, as `cleave run` reports them.
 */
static cleave_status read_runtime(const cleave_json *document, int64_t *runtime_bytes,
                                  cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document), arenas, residents;
    int64_t program_bytes;
    CLEAVE_TRY(
        cleave_json_get_integer(&root, "program_bytes", 0, INT64_MAX, &program_bytes, error));
    CLEAVE_TRY(cleave_json_get(&root, "peak_bytes", &arenas, error));
    CLEAVE_TRY(cleave_json_get(&root, "rss_peak_bytes", &residents, error));
    int32_t n = cleave_json_count(&arenas);
    for (int32_t d = 0; d < n && d < cleave_json_count(&residents); d++) {
        int64_t arena_bytes, resident_bytes;
        cleave_json_cursor arena = cleave_json_element(&arenas, d);
        cleave_json_cursor resident = cleave_json_element(&residents, d);
        CLEAVE_TRY(cleave_json_integer(&arena, 0, INT64_MAX, &arena_bytes, error));
        CLEAVE_TRY(cleave_json_integer(&resident, 0, INT64_MAX, &resident_bytes, error));
        int64_t beside = resident_bytes - arena_bytes - program_bytes;
        *runtime_bytes = beside > *runtime_bytes ? beside : *runtime_bytes;
    }
    return CLEAVE_OK;
}

/* Runs a model data parallel for two steps. */
static cleave_status run_model(const calibrate_values *values, int i, const cleave_machine *machine,
                               const char *layout_path, int64_t *runtime_bytes,
                               cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_layout layout;
    cleave_json *document = NULL;
    bool applies = false;
    const common_options common = common_of(values, i);
    child_arguments child = {.words = {"run", "--layout", layout_path, "--steps", "2", "--json"},
                             .n = 6};
    child_add_common(&child, &common);
    cleave_status status = calibrate_import(values, i, &arena, &model, error);
    if (status == CLEAVE_OK)
        status = cleave_baseline_layout(&model, machine, "data-parallel", 0, &arena, &layout,
                                        &applies, error);
    if (status == CLEAVE_OK && applies) {
        status = cleave_layout_write(layout_path, &model, &layout, error);
        if (status == CLEAVE_OK)
            status = child_run_json(child.words, &document, error);
        if (status == CLEAVE_OK)
            status = read_runtime(document, runtime_bytes, error);
        cleave_json_free(document);
    }
    cleave_arena_free(&arena);
    return status;
}

/* Other layouts than the one that ran compile a few more kernels, and MPI keeps more messages that
   came before they were asked for: up to 6 MiB more were seen. */
static const int64_t runtime_margin_bytes = INT64_C(9) << 20;

/* The runtime's constant into the machine file. */
static cleave_status measure_runtime(const calibrate_values *values, cleave_arena *arena,
                                     cleave_error *error) {
    cleave_machine machine;
    char layout_path[4096];
    int64_t runtime_bytes = 0;
    CLEAVE_TRY(cleave_machine_read(values->output, 0, arena, &machine, error));
    snprintf(layout_path, sizeof layout_path, "%s.run-%ld", values->output, (long)getpid());
    cleave_status status = CLEAVE_OK;
    for (int i = 0; i < values->models.n && status == CLEAVE_OK; i++)
        status = run_model(values, i, &machine, layout_path, &runtime_bytes, error);
    unlink(layout_path);
    CLEAVE_TRY(status);
    if (runtime_bytes + runtime_margin_bytes > machine.kinds[0].runtime_bytes)
        machine.kinds[0].runtime_bytes = runtime_bytes + runtime_margin_bytes;
    return cleave_machine_write(values->output, &machine, error);
}

static cleave_status calibrate(const calibrate_values *values, char *const *arguments,
                               cleave_arena *arena, cleave_error *error) {
    CLEAVE_TRY(check_usage(values, error));
    /* All input is checked here, so that its error is one line. */
    for (int i = 0; i < values->models.n; i++) {
        cleave_arena scratch = {0};
        cleave_model model;
        cleave_status status = calibrate_import(values, i, &scratch, &model, error);
        cleave_arena_free(&scratch);
        CLEAVE_TRY(status);
    }
    if (access(values->output, F_OK) == 0) {
        cleave_machine old;
        CLEAVE_TRY(cleave_machine_read(values->output, 0, arena, &old, error));
    }
    CLEAVE_TRY(cleave_world_launch_self(count_devices(values), arguments, error));
    return values->again ? CLEAVE_OK : measure_runtime(values, arena, error);
}

static cleave_status measure_elsewhere(const calibrate_values *values, cleave_arena *arena,
                                       cleave_error *error) {
    CLEAVE_TRY(check_usage(values, error));
    return values->list != NULL     ? calibrate_list(values, arena, error)
           : values->import != NULL ? calibrate_take(values, arena, error)
                                    : calibrate_through(values, arena, error);
}

static cleave_status run(const void *any, char *const *arguments, cleave_arena *arena,
                         cleave_error *error) {
    const calibrate_values *values = any;
    if (measures_elsewhere(values))
        return measure_elsewhere(values, arena, error);
    if (!cleave_world_is_launched())
        return calibrate(values, arguments, arena, error);
    cleave_world *world;
    CLEAVE_TRY(cleave_world_begin(&world, error));
    cleave_status status = check_usage(values, error);
    if (status == CLEAVE_OK)
        status = calibrate_rank(values, world, arena, error);
    cleave_ranks_end(world, "calibrate", status, error);
    return status;
}

const command command_calibrate = {
    .name = "calibrate",
    .summary = "measure kernels, links and memory into a machine file",
    .details = "Measures what the models need, most important first, on all devices at once.\n"
               "Run it again on the same file to measure more.  Under mpirun, also over several\n"
               "hosts, it measures the links between the ranks that are there; rank 0 reads and\n"
               "writes the file.  The memory of the runtime is measured only where it starts its\n"
               "ranks itself: run it alone first.\n"
               "With --through torch it is PyTorch that is measured, whole operators as it runs\n"
               "them; --list-kernels and --import are the steps of that, for a GPU elsewhere.",
    .examples = "  cleave calibrate --model configs/models/lenet5.onnx --batch 256 --devices 2 \\\n"
                "      --time 10 -o machine.json\n"
                "  cleave calibrate --list-kernels kernels.json --devices 2 \\\n"
                "      --model configs/models/lenet5.onnx --batch 256\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(calibrate_values),
    .run = run,
};
