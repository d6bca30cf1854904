/* The measuring ranks of `cleave calibrate`.  All walk the same list of work together; rank 0 keeps
   the time, collects what the others measured and writes the file. */
#include "cli/calibrate/calibrate.h"

#include "base/file.h"
#include "base/process.h"
#include "base/progress.h"
#include "cli/calibrate/bytes.h"
#include "cli/calibrate/doubts.h"
#include "cli/calibrate/link.h"
#include "cli/calibrate/works.h"
#include "exec/measure/measure.h"
#include "exec/measure/measure_link.h"
#include "graph/model/attention.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

/* Seconds for one piece of work: enough for some repeats of most kernels, and for the fewest. */
static const double work_seconds = 0.08, least_work_seconds = 0.02, bytes_seconds = 0.05;
static const double save_interval_seconds = 15;
/* Of the whole time, for copies and the like before any kernel is measured. */
static const double bytes_share = 0.2;
/* For all links: a share of the whole time, but no more than helps; and for one of them at least.
 */
static const double links_share = 0.2, most_links_seconds = 4, least_link_seconds = 0.4;

typedef struct calibration {
    const calibrate_values *values;
    cleave_world *world;
    cleave_arena *arena;
    cleave_kernels *kernels;
    cleave_device_kind kind; /* what is known of this machine's devices so far */
    int32_t rank, n_devices;
    cleave_link *links; /* of every pair, rank 0 */
    int32_t n_links;
    int64_t touched_bytes; /* in a step of the largest model: the surroundings of copies */
    int32_t n_kept, n_measured, n_left;
    calibrate_doubts doubts;
    double started_seconds, saved_seconds;
} calibration;

/* The mean over ranks, on all ranks. */
static cleave_status agree(const calibration *c, double *value, cleave_error *error) {
    cleave_arena scratch = {0};
    double *all = CLEAVE_ARENA_ARRAY(&scratch, double, c->n_devices);
    if (all == NULL)
        return cleave_fail_memory(error, "calibrating");
    cleave_world_gather(c->world, value, sizeof *value, all);
    if (c->rank == 0) {
        *value = 0;
        for (int32_t d = 0; d < c->n_devices; d++)
            *value += all[d] / c->n_devices;
    }
    cleave_world_broadcast(c->world, value, sizeof *value);
    cleave_arena_free(&scratch);
    return CLEAVE_OK;
}

/* Has the work been timed, now or before, and is that enough? */
static bool is_timed(const calibration *c, const cleave_work *work) {
    const cleave_kernel_time *kernel = cleave_device_kind_find_kernel(&c->kind, work->key);
    return !c->values->again && kernel != NULL && kernel->seconds > 0;
}

/* `alone`: seconds of rank 0 while the others waited for it, 0 where that was not measured.  Kept
   is what all ranks would take alone in the mean: processors are not equally quick at any time, and
   what counts is how much of its own time rank 0 saved. */
static cleave_status keep(calibration *c, const cleave_work *work, const cleave_measurement *result,
                          double alone, cleave_error *error) {
    double seconds = result->seconds;
    CLEAVE_TRY(agree(c, &seconds, error));
    if (c->rank == 0 && result->seconds > 0)
        alone *= seconds / result->seconds;
    cleave_world_broadcast(c->world, &alone, sizeof alone);
    cleave_kernel_time kernel = {
        .key = work->key,
        .family = work->family,
        .seconds = seconds > 1e-12 ? seconds : 1e-12,
        .spread = result->spread / 2, /* half the interquartile range */
        .flops = work->flops,
        .bytes = work->bytes,
        .workspace_bytes = result->workspace_bytes,
        .alone_seconds = alone,
    };
    c->n_measured++;
    return cleave_device_kind_add_kernel(&c->kind, &kernel, c->arena, error);
}

/* How much of the time that work takes beside others it took alone when it was measured before; 0:
   not known. */
static double share_alone(const calibration *c, const cleave_work *work) {
    const cleave_kernel_time *known = cleave_device_kind_find_kernel(&c->kind, work->key);
    return known != NULL && known->seconds > 0 ? known->alone_seconds / known->seconds : 0;
}

static cleave_status measure_links(calibration *c, cleave_error *error) {
    size_t n_pairs = (size_t)c->n_devices * (size_t)(c->n_devices - 1) / 2;
    c->links = CLEAVE_ARENA_ARRAY(c->arena, cleave_link, n_pairs);
    if (c->links == NULL)
        return cleave_fail_memory(error, "measuring links");
    double seconds = links_share * c->values->time;
    seconds = (seconds < most_links_seconds ? seconds : most_links_seconds) / (double)n_pairs;
    seconds = seconds > least_link_seconds ? seconds : least_link_seconds;
    for (int32_t a = 0; a < c->n_devices; a++)
        for (int32_t b = a + 1; b < c->n_devices; b++) {
            cleave_link_figures m = {0};
            CLEAVE_TRY(cleave_link_measure(c->world, a, b, seconds, &m, error));
            if (a != 0 && c->rank == a)
                cleave_world_send_now(c->world, &m, sizeof m, 0, NULL);
            if (a != 0 && c->rank == 0)
                cleave_world_receive_now(c->world, &m, sizeof m, a, NULL);
            c->links[c->n_links++] = calibrate_link_of(&m, a, b);
            calibrate_doubts_link(&c->doubts, &m);
        }
    cleave_world_broadcast(c->world, c->links, (int64_t)(n_pairs * sizeof *c->links));
    return CLEAVE_OK;
}

/* Fits, and writes the file under its name; rank 0. */
static cleave_status save(calibration *c, cleave_error *error) {
    cleave_machine machine;
    char host[64] = "this-machine";
    gethostname(host, sizeof host - 1);
    double best = 0, best_halves = 0;
    for (int32_t k = 0; k < c->kind.n_kernels; k++) {
        const cleave_kernel_time *kernel = &c->kind.kernels[k];
        if (kernel->seconds <= 0 || calibrate_is_byte_family(kernel->family))
            continue;
        double *of = strncmp(kernel->family, "bf16 ", 5) == 0 ? &best_halves : &best;
        *of = fmax(*of, kernel->flops / kernel->seconds);
    }
    if (best > 0)
        c->kind.flops_per_second = best;
    if (best_halves > 0)
        c->kind.rates[CLEAVE_BF16] = best_halves;
    CLEAVE_TRY(cleave_device_kind_fit(&c->kind, c->arena, error));
    CLEAVE_TRY(cleave_machine_create_node(c->values->name != NULL ? c->values->name : host,
                                          &c->kind, c->n_devices, c->links, c->n_links, c->arena,
                                          &machine, error));
    c->saved_seconds = cleave_clock_seconds();
    return cleave_machine_write(c->values->output, &machine, error);
}

static double seconds_since_start(const calibration *c) {
    return cleave_clock_seconds() - c->started_seconds;
}

/* Seconds that a piece of work gets: an equal share of the time that is left for so many pieces,
   but no more than is enough and, unless all of it has to be measured, no less than makes sense.
   The same on every rank, near enough: ranks that end sooner wait. */
static double seconds_of_work(const calibration *c, int32_t n_pieces) {
    double least = c->values->again ? 0 : least_work_seconds;
    double left = c->values->time - seconds_since_start(c);
    double share = n_pieces > 0 ? fmax(0, left) / n_pieces : work_seconds;
    return fmin(work_seconds, fmax(least, share));
}

/* Are fewer seconds over than `until` on rank 0?  The same answer on every rank. */
static bool go_on(const calibration *c, double until) {
    uint8_t more = c->values->again || seconds_since_start(c) < until;
    cleave_world_broadcast(c->world, &more, sizeof more);
    return more != 0;
}

static cleave_status measure_byte_work(calibration *c, const calibrate_byte_work *of,
                                       cleave_error *error) {
    cleave_measurement result = {0}, alone = {0};
    cleave_work work;
    const cleave_measured_bytes in = {.team = cleave_kernels_team(c->kernels),
                                      .touched_bytes = c->touched_bytes,
                                      .seconds_budget =
                                          c->values->again ? bytes_seconds / 5 : bytes_seconds};
    calibrate_byte_work_describe(of, &work);
    cleave_world_barrier(c->world);
    CLEAVE_TRY(calibrate_byte_work_measure(of, c->n_devices, in, &result, error));
    cleave_world_barrier(c->world);
    double share = share_alone(c, &work);
    if (c->rank == 0 && c->n_devices > 1 && !(share > 0))
        CLEAVE_TRY(calibrate_byte_work_measure(of, c->n_devices, in, &alone, error));
    CLEAVE_TRY(keep(c, &work, &result, share > 0 ? share * result.seconds : alone.seconds, error));
    if (of->stands_for_memory) {
        c->kind.bytes_per_second = work.bytes / result.seconds;
        CLEAVE_TRY(agree(c, &c->kind.bytes_per_second, error));
    }
    return CLEAVE_OK;
}

/* Copies, sums, loads and updates of some sizes: the first few whatever time there is, the others
   until so many seconds are over. */
static cleave_status measure_bytes(calibration *c, double until, calibrate_byte_works *bytes,
                                   cleave_error *error) {
    for (; bytes->done < bytes->n; bytes->done++) {
        cleave_work work;
        calibrate_byte_work_describe(&bytes->items[bytes->done], &work);
        if (is_timed(c, &work)) {
            c->n_kept++;
            continue;
        }
        if (bytes->done >= bytes->n_first && !go_on(c, until))
            break;
        CLEAVE_TRY(measure_byte_work(c, &bytes->items[bytes->done], error));
    }
    return CLEAVE_OK;
}

/* Of work that is not timed the workspace is found all the same: no time can be predicted as wrong
   as to make a plan fail, but memory can. */
static cleave_status keep_workspace(calibration *c, const calibrate_work *work,
                                    cleave_error *error) {
    if (cleave_device_kind_find_kernel(&c->kind, work->work.key) != NULL)
        return CLEAVE_OK;
    cleave_kernel_time kernel = {
        .key = work->work.key,
        .family = work->work.family,
        .flops = work->work.flops,
        .bytes = work->work.bytes,
        .workspace_bytes =
            cleave_kernel_workspace(c->kernels, work->model, work->nest, work->pass, &work->part),
    };
    return cleave_device_kind_add_kernel(&c->kind, &kernel, c->arena, error);
}

/* All ranks at once, then rank 0 alone, which says how much they take from each other: for that a
   few repeats are enough, since it is the median over a family that counts. */
static cleave_status measure_work(calibration *c, const calibrate_work *work, double seconds,
                                  cleave_error *error) {
    static const double alone_share = 0.3;
    cleave_measurement result = {0}, alone = {0};
    cleave_kernel_call call;
    cleave_kernel_call_describe(work->model, work->nest, work->pass, &work->part, &call);
    cleave_world_barrier(c->world);
    CLEAVE_TRY(cleave_kernel_measure(c->kernels, &call, &work->reuse, (1 - alone_share) * seconds,
                                     &result, error));
    cleave_world_barrier(c->world);
    if (c->rank == 0 && c->n_devices > 1)
        CLEAVE_TRY(cleave_kernel_measure(c->kernels, &call, &work->reuse, alone_share * seconds,
                                         &alone, error));
    calibrate_doubts_measured(&c->doubts, work, &result, seconds < work_seconds);
    return keep(c, &work->work, &result, alone.seconds, error);
}

/* Of wanted work, how much is not timed. */
static int32_t count_wanted(const calibration *c, const calibrate_works *works) {
    int32_t n = 0;
    for (int32_t i = 0; i < works->n; i++)
        n += works->items[i].wanted && !is_timed(c, &works->items[i].work);
    return n;
}

static cleave_status measure_works(calibration *c, const calibrate_works *works,
                                   cleave_error *error) {
    cleave_progress progress;
    int32_t n_wanted = count_wanted(c, works);
    cleave_progress_begin(&progress, "cleave: calibrating kernels",
                          c->values->common.quiet || c->rank != 0);
    for (int32_t i = 0; i < works->n; i++) {
        const calibrate_work *work = &works->items[i];
        if (is_timed(c, &work->work)) {
            c->n_kept++;
            continue;
        }
        if (!go_on(c, c->values->time)) {
            CLEAVE_TRY(keep_workspace(c, work, error));
            calibrate_doubts_left(&c->doubts, work);
            c->n_left++;
            continue;
        }
        CLEAVE_TRY(measure_work(c, work, seconds_of_work(c, n_wanted), error));
        n_wanted -= work->wanted;
        double of_works = (double)(i + 1) / works->n;
        double of_time = seconds_since_start(c) / c->values->time;
        cleave_progress_update(&progress, of_works > of_time ? of_works : of_time,
                               work->work.family);
        if (c->rank == 0 && cleave_clock_seconds() - c->saved_seconds > save_interval_seconds)
            CLEAVE_TRY(save(c, error));
    }
    cleave_progress_end(&progress);
    return CLEAVE_OK;
}

/* The file as it is, from rank 0, which may be the only one that has it; of no bytes where there is
   none.  So all ranks know the same. */
static cleave_status share_old_file(const calibration *c, char **text, int64_t *bytes,
                                    cleave_error *error) {
    *bytes = 0;
    if (c->rank == 0 && access(c->values->output, F_OK) == 0) {
        size_t size;
        CLEAVE_TRY(cleave_file_read(c->values->output, c->arena, text, &size, error));
        *bytes = (int64_t)size;
    }
    cleave_world_broadcast(c->world, bytes, sizeof *bytes);
    if (c->rank != 0 && *bytes > 0)
        *text = cleave_arena_alloc(c->arena, (size_t)*bytes, 1);
    if (*bytes > 0 && *text == NULL)
        return cleave_fail_memory(error, "calibrating");
    if (*bytes > 0)
        cleave_world_broadcast(c->world, *text, *bytes);
    return CLEAVE_OK;
}

/* Of the host that has most. */
static cleave_status count_ranks_of_a_host(const calibration *c, int32_t *most,
                                           cleave_error *error) {
    enum { NAME_BYTES = 64 };
    typedef char host_name[NAME_BYTES];
    host_name own = {0}, *all = CLEAVE_ARENA_ARRAY(c->arena, host_name, c->n_devices);
    if (all == NULL)
        return cleave_fail_memory(error, "calibrating");
    gethostname(own, NAME_BYTES - 1);
    cleave_world_gather(c->world, own, NAME_BYTES, all);
    *most = 1;
    for (int32_t a = 0; c->rank == 0 && a < c->n_devices; a++) {
        int32_t n = 0;
        for (int32_t b = 0; b < c->n_devices; b++)
            n += strncmp(all[a], all[b], NAME_BYTES) == 0;
        *most = n > *most ? n : *most;
    }
    cleave_world_broadcast(c->world, most, sizeof *most);
    return CLEAVE_OK;
}

/* What the file has of the same kernels, else what is known without measuring. */
static cleave_status begin_kind(calibration *c, cleave_error *error) {
    double memory = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    int32_t n_sharing;
    CLEAVE_TRY(count_ranks_of_a_host(c, &n_sharing, error));
    int32_t threads = (int32_t)c->values->common.device_threads;
    const char *name = threads > 1 ? cleave_arena_printf(c->arena, "%d cores", threads) : "core";
    if (name == NULL)
        return cleave_fail_memory(error, "calibrating");
    c->kind = (cleave_device_kind){
        .name = name,
        .threads = threads,
        .source = "calibrated",
        .memory_bytes = (int64_t)(memory / n_sharing),
        .flops_per_second = 100e9, /* until a kernel shows what it is */
        .bytes_per_second = 10e9,
        .efficiency = {[CLEAVE_EFFICIENCY_PRODUCT] = cleave_efficiency_flat(0.8)},
        .launch_seconds = 2e-6,
        .kernel_version = cleave_kernels_version(),
    };
    bool halves =
        c->values->common.precision != NULL && strcmp(c->values->common.precision, "bf16") == 0;
    c->kind.rates[CLEAVE_BF16] = halves ? c->kind.flops_per_second : 0;
    char *text = NULL;
    int64_t bytes;
    CLEAVE_TRY(share_old_file(c, &text, &bytes, error));
    if (bytes == 0)
        return CLEAVE_OK;
    cleave_machine old;
    CLEAVE_TRY(
        cleave_machine_parse(text, (size_t)bytes, c->values->output, 0, c->arena, &old, error));
    const cleave_device_kind *kind = &old.kinds[0];
    if (kind->kernel_version != NULL && strcmp(kind->kernel_version, c->kind.kernel_version) == 0 &&
        cleave_device_kind_threads(kind) == cleave_device_kind_threads(&c->kind)) {
        int64_t memory_bytes = c->kind.memory_bytes;
        double rate = c->kind.rates[CLEAVE_BF16];
        c->kind = *kind;
        c->kind.memory_bytes = memory_bytes;
        if (c->kind.rates[CLEAVE_BF16] <= 0)
            c->kind.rates[CLEAVE_BF16] = rate;
        c->kind.kernel_version = cleave_kernels_version();
    }
    return CLEAVE_OK;
}

/* All the work of all models, in the order of measuring. */
static cleave_status list_works(calibration *c, calibrate_works *works, cleave_error *error) {
    cleave_machine machine;
    CLEAVE_TRY(cleave_machine_create_node("calibrating", &c->kind, c->n_devices, c->links,
                                          c->n_links, c->arena, &machine, error));
    for (int i = 0; i < c->values->models.n; i++) {
        cleave_model *model = CLEAVE_ARENA_ARRAY(c->arena, cleave_model, 1);
        if (model == NULL)
            return cleave_fail_memory(error, "listing what to measure");
        CLEAVE_TRY(calibrate_import(c->values, i, c->arena, model, error));
        int64_t touched_bytes = 0;
        cleave_model *fused = CLEAVE_ARENA_ARRAY(c->arena, cleave_model, 1);
        if (fused == NULL)
            return cleave_fail_memory(error, "listing what to measure");
        CLEAVE_TRY(cleave_model_fuse_attention(model, NULL, c->arena, fused, error));
        if (!c->values->again)
            CLEAVE_TRY(calibrate_works_add(works, fused, &machine, &touched_bytes, error));
        for (int l = 0; l < c->values->layouts.n; l++) { /* of the only model */
            cleave_layout layout;
            int64_t of_layout;
            CLEAVE_TRY(
                cleave_layout_read(c->values->layouts.items[l], model, c->arena, &layout, error));
            cleave_model *as_it_has = CLEAVE_ARENA_ARRAY(c->arena, cleave_model, 1);
            if (as_it_has == NULL)
                return cleave_fail_memory(error, "listing what to measure");
            CLEAVE_TRY(cleave_model_fuse_attention(model, &layout, c->arena, as_it_has, error));
            CLEAVE_TRY(
                calibrate_works_add_layout(works, as_it_has, &machine, &layout, &of_layout, error));
            if (c->values->again && of_layout > touched_bytes)
                touched_bytes = of_layout;
        }
        c->touched_bytes = touched_bytes > c->touched_bytes ? touched_bytes : c->touched_bytes;
    }
    calibrate_works_order(works);
    return CLEAVE_OK;
}

/* What a byte takes where the processors have to work for it, too. */
static double link_bytes_per_second(const cleave_link *link) {
    return 1 / fmax(1 / link->bytes_per_second, link->overhead_seconds_per_byte);
}

static cleave_status print_json(const calibration *c, int32_t n_works, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_integer(&w, "devices", c->n_devices);
    cleave_json_set_number(&w, "flops_per_second", c->kind.flops_per_second);
    cleave_json_set_number(&w, "bytes_per_second", c->kind.bytes_per_second);
    cleave_json_set_integer(&w, "works", n_works);
    cleave_json_set_integer(&w, "works_measured", c->n_measured);
    cleave_json_set_integer(&w, "works_kept", c->n_kept);
    cleave_json_set_integer(&w, "works_left", c->n_left);
    cleave_json_set_known(&w, "link_latency_seconds", c->n_links > 0,
                          c->n_links > 0 ? c->links[0].latency_seconds : 0);
    cleave_json_set_known(&w, "link_bytes_per_second", c->n_links > 0,
                          c->n_links > 0 ? link_bytes_per_second(&c->links[0]) : 0);
    cleave_json_set_string(&w, "machine", c->values->output);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

static void print_text(const calibration *c, int32_t n_works) {
    char memory[64], rate[64], latency[64], bandwidth[64];
    cleave_unit_format(c->kind.bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND, memory,
                       sizeof memory);
    cleave_unit_format(c->kind.flops_per_second, CLEAVE_UNIT_FLOPS, rate, sizeof rate);
    printf("%d devices; best kernel %s, copies %s each\n", c->n_devices, rate, memory);
    printf("%d sorts of work: %d measured now, %d kept, %d left to prediction\n", n_works,
           c->n_measured, c->n_kept, c->n_left);
    if (c->n_links > 0) {
        cleave_unit_format(c->links[0].latency_seconds, CLEAVE_UNIT_SECONDS, latency,
                           sizeof latency);
        cleave_unit_format(link_bytes_per_second(&c->links[0]), CLEAVE_UNIT_BYTES_PER_SECOND,
                           bandwidth, sizeof bandwidth);
        printf("link 0 -> 1: latency %s, %s with the processors' work\n", latency, bandwidth);
    }
    printf("Machine written to %s\n", c->values->output);
}

static cleave_status measure_all(calibration *c, calibrate_works *works, cleave_error *error) {
    /* Each measurement takes and frees large operands.  Pages that go back to the system in between
       must be found again, which takes longer than most kernels. */
    cleave_process_keep_memory();
    CLEAVE_TRY(begin_kind(c, error));
    CLEAVE_TRY(cleave_kernels_create_threads((int32_t)c->values->common.device_threads, &c->kernels,
                                             error));
    CLEAVE_TRY(measure_links(c, error));
    CLEAVE_TRY(list_works(c, works, error));
    calibrate_byte_works bytes;
    calibrate_byte_works_list(&bytes);
    double until = seconds_since_start(c) + bytes_share * c->values->time;
    CLEAVE_TRY(measure_bytes(c, until, &bytes, error));
    CLEAVE_TRY(measure_works(c, works, error));
    CLEAVE_TRY(measure_bytes(c, c->values->time, &bytes, error));
    c->n_left += bytes.n - bytes.done;
    if (c->rank != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(save(c, error));
    const int32_t n_works = c->n_measured + c->n_kept + c->n_left;
    if (c->values->common.json)
        CLEAVE_TRY(print_json(c, n_works, error));
    else
        print_text(c, n_works);
    calibrate_doubts_print(&c->doubts, c->values->time, c->values->again, stderr);
    return CLEAVE_OK;
}

cleave_status calibrate_rank(const calibrate_values *values, cleave_world *world,
                             cleave_arena *arena, cleave_error *error) {
    double now = cleave_clock_seconds();
    calibration c = {.values = values,
                     .world = world,
                     .arena = arena,
                     .rank = cleave_world_rank(world),
                     .n_devices = cleave_world_size(world),
                     .started_seconds = now,
                     .saved_seconds = now};
    calibrate_works works = {0};
    cleave_status status = measure_all(&c, &works, error);
    CLEAVE_LIST_FREE(&works);
    cleave_kernels_destroy(c.kernels);
    return status;
}
