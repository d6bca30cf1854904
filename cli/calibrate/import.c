/* Times of a framework into a machine file. */
#include "base/least_deviations.h"
#include "base/units.h"
#include "cli/calibrate/bytes.h"
#include "cli/calibrate/times.h"
#include "costmodel/byte_price.h"
#include "graph/model/collective_steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Until something is measured. */
static const double guessed_flops = 100e9, guessed_memory = 10e9, guessed_link = 10e9,
                    guessed_latency = 10e-6;

cleave_status calibrate_plain_machine(const char *name, int32_t n_devices, cleave_arena *arena,
                                      cleave_machine *machine, cleave_error *error) {
    char host[64] = "this-machine";
    int64_t pairs = (int64_t)n_devices * (n_devices - 1) / 2;
    cleave_link *links = CLEAVE_ARENA_ARRAY(arena, cleave_link, pairs);
    const cleave_device_kind kind = {
        .name = "device",
        .source = "not measured",
        .memory_bytes = INT64_C(1) << 40,
        .flops_per_second = guessed_flops,
        .bytes_per_second = guessed_memory,
        .rates = {[CLEAVE_BF16] = guessed_flops},
        .efficiency = {[CLEAVE_EFFICIENCY_PRODUCT] = cleave_efficiency_flat(0.8)},
        .launch_seconds = 2e-6,
    };
    if (links == NULL)
        return cleave_fail_memory(error, "describing a machine");
    int32_t n = 0;
    for (int32_t a = 0; a < n_devices; a++)
        for (int32_t b = a + 1; b < n_devices; b++)
            links[n++] = (cleave_link){.from = a,
                                       .to = b,
                                       .bytes_per_second = guessed_link,
                                       .latency_seconds = guessed_latency};
    gethostname(host, sizeof host - 1);
    return cleave_machine_create_node(name != NULL ? name : host, &kind, n_devices, links, n, arena,
                                      machine, error);
}

/* Who measured, as the file says it; kernels with the same words belong together. */
static const char *write_version(const calibrate_times *times, cleave_arena *arena) {
    return cleave_arena_printf(
        arena, "%s, %s, %lld %s%s", times->framework, times->device, (long long)times->threads,
        times->threads == 1 ? "thread" : "threads", times->compiled ? ", compiled" : "");
}

static void find_rates(cleave_device_kind *kind) {
    double best[CLEAVE_N_TYPES] = {0}, largest_copy = 0;
    for (int32_t k = 0; k < kind->n_kernels; k++) {
        const cleave_kernel_time *kernel = &kind->kernels[k];
        bool is_bf16 = strncmp(kernel->family, "bf16 ", 5) == 0;
        double *of = &best[is_bf16 ? CLEAVE_BF16 : CLEAVE_F32];
        if (!calibrate_is_byte_family(kernel->family))
            *of = fmax(*of, kernel->flops / kernel->seconds);
        if (strcmp(kernel->family, "copy") == 0 && kernel->bytes > largest_copy) {
            largest_copy = kernel->bytes;
            kind->bytes_per_second = kernel->bytes / kernel->seconds;
        }
    }
    if (best[CLEAVE_F32] > 0)
        kind->flops_per_second = best[CLEAVE_F32];
    if (best[CLEAVE_BF16] > 0)
        kind->rates[CLEAVE_BF16] = best[CLEAVE_BF16];
}

static cleave_status apply_kernels(const calibrate_times *times, cleave_arena *arena,
                                   cleave_device_kind *kind, cleave_error *error) {
    const char *version = write_version(times, arena);
    if (version == NULL)
        return cleave_fail_memory(error, "taking times");
    if (kind->kernel_version == NULL || strcmp(kind->kernel_version, version) != 0) {
        kind->n_kernels = kind->kernel_capacity = kind->n_fits = 0;
        kind->kernels = NULL;
        kind->runtime_bytes = 0;
    }
    kind->kernel_version = version;
    kind->threads = (int32_t)times->threads;
    kind->source = "calibrated";
    for (int32_t i = 0; i < times->n_kernels; i++)
        CLEAVE_TRY(cleave_device_kind_add_kernel(kind, &times->kernels[i], arena, error));
    find_rates(kind);
    return cleave_device_kind_fit(kind, arena, error);
}

/* What each device sends of the vector. */
static double share_of(const calibrate_collective *of) {
    double n = of->n_devices;
    if (of->kind == CLEAVE_ALL_TO_ALL)
        return (n - 1) / (n * n);
    return (of->kind == CLEAVE_ALL_REDUCE ? 2 : 1) * (n - 1) / n;
}

/* How many latencies a collective has: one, or as many as two devices need messages one after the
   other. */
static double latencies_of(const calibrate_collective *of, bool in_messages) {
    return in_messages && of->kind == CLEAVE_ALL_REDUCE ? 2 : 1;
}

typedef enum time_of { WAITED_FOR, IN_MESSAGES, EXCHANGED, BESIDE_WORK } time_of;

/* Which times a line is of. */
typedef struct timed {
    time_of what;
    int collective; /* cleave_collective_kind; -1: any but all-to-all, which is EXCHANGED */
    int32_t n_devices;
} timed;

/* 0: it is none of them. */
static double seconds_of(const calibrate_collective *of, const timed *wanted) {
    if (of->n_devices != wanted->n_devices ||
        (wanted->collective >= 0 && of->kind != wanted->collective) ||
        (of->kind == CLEAVE_ALL_TO_ALL) != (wanted->what == EXCHANGED))
        return 0;
    return wanted->what == BESIDE_WORK ? of->beside : of->seconds;
}

/* Seconds of collectives, and those that each byte of a device's share of the vector adds; of how
   many sizes they are known. */
static cleave_status fit_line(const calibrate_times *times, const timed *wanted, int *n_known,
                              double *fixed, double *per_byte, cleave_error *error) {
    enum { LATENCY, PER_BYTE, N_FIGURES };
    const double lower[N_FIGURES] = {0}, upper[N_FIGURES] = {HUGE_VAL, HUGE_VAL};
    double x[N_FIGURES], most = 0, least = HUGE_VAL;
    cleave_arena scratch = {0};
    double *features =
        CLEAVE_ARENA_ARRAY(&scratch, double, N_FIGURES *(size_t)times->n_collectives);
    if (features == NULL)
        return cleave_fail_memory(error, "taking times");
    for (int32_t i = 0; i < times->n_collectives; i++)
        if (seconds_of(&times->collectives[i], wanted) > 0) {
            most = fmax(most, seconds_of(&times->collectives[i], wanted));
            least = fmin(least, seconds_of(&times->collectives[i], wanted));
        }
    cleave_least_deviations fit = {.of = "collectives",
                                   .n_figures = N_FIGURES,
                                   .features = features,
                                   .lower = lower,
                                   .upper = upper};
    double largest = 0;
    for (int32_t i = 0; i < times->n_collectives; i++)
        largest = fmax(largest, (double)times->collectives[i].bytes);
    for (int32_t i = 0; i < times->n_collectives; i++) {
        const calibrate_collective *of = &times->collectives[i];
        double seconds = seconds_of(of, wanted);
        if (seconds <= 0)
            continue;
        features[N_FIGURES * fit.n + LATENCY] =
            latencies_of(of, wanted->what == IN_MESSAGES) * least / seconds;
        features[N_FIGURES * fit.n + PER_BYTE] =
            share_of(of) * (double)of->bytes / largest * most / seconds;
        fit.n++;
    }
    *n_known = fit.n;
    cleave_status status =
        fit.n > 0 ? cleave_least_deviations_solve(&fit, x, NULL, error) : CLEAVE_OK;
    if (status == CLEAVE_OK && fit.n > 0) {
        *fixed = x[LATENCY] * least;
        *per_byte = fmax(x[PER_BYTE] * most / largest, 1e-15);
    }
    cleave_arena_free(&scratch);
    return status;
}

/* `collective` -1: of all, as far as they have no span of their own; one of its own needs a line.
 */
static cleave_status add_span(const calibrate_times *times, int collective, int32_t n_devices,
                              cleave_machine_collectives *made, cleave_error *error) {
    const timed waited_for = {WAITED_FOR, collective, n_devices};
    const timed beside_work = {BESIDE_WORK, collective, n_devices};
    double fixed = 0, per_byte = 0, beside = 0, beside_per_byte = 0;
    int n_known, n_beside;
    CLEAVE_TRY(fit_line(times, &waited_for, &n_known, &fixed, &per_byte, error));
    CLEAVE_TRY(fit_line(times, &beside_work, &n_beside, &beside, &beside_per_byte, error));
    if (n_known > (collective >= 0) && made->n_spans < CLEAVE_MOST_COLLECTIVE_SPANS)
        made->spans[made->n_spans++] = (cleave_collective_span){
            .kind = -1,
            .collective = collective,
            .n_devices = n_devices,
            .latency_seconds = fixed,
            .bytes_per_second = 1 / per_byte,
            .overhead_seconds = fmin(beside, fixed),
            .overhead_seconds_per_byte = n_beside > 0 ? fmin(beside_per_byte, per_byte) : 0};
    return CLEAVE_OK;
}

static cleave_status apply_collectives(const calibrate_times *times, cleave_arena *arena,
                                       cleave_machine *machine, cleave_error *error) {
    cleave_machine_collectives made = machine->collectives;
    if (times->n_collectives == 0)
        return CLEAVE_OK;
    made.n_spans = 0;
    made.together_bytes = times->together_bytes;
    if (machine->collectives.n_spans == 0)
        made.between_share = 1;
    for (int collective = -1; collective < CLEAVE_ALL_TO_ALL; collective++)
        for (int32_t n = 2; n <= CLEAVE_MAX_NODE_DEVICES; n++)
            CLEAVE_TRY(add_span(times, collective, n, &made, error));
    if (made.n_spans > 0 && made.spans[0].n_devices == 2)
        made.least_devices = 2;
    made.source = write_version(times, arena);
    machine->collectives = made;
    return made.source != NULL ? CLEAVE_OK : cleave_fail_memory(error, "taking times");
}

cleave_status calibrate_times_apply(const calibrate_times *times, cleave_arena *arena,
                                    cleave_machine *machine, cleave_error *error) {
    cleave_device_kind *kind = &machine->kinds[0];
    CLEAVE_TRY(apply_kernels(times, arena, kind, error));
    if (times->memory_bytes > 0)
        kind->memory_bytes = times->memory_bytes;
    return apply_collectives(times, arena, machine, error);
}

/* Two devices exchange by messages.  A framework has one collective for all that ranks exchange at
   a time, so links are such that messages take what that does; where it was not timed, such that
   the messages of other collectives of two do: of an all-reduce one each way and one back, each of
   half a vector, of which one is added up. */
static cleave_status join_devices(const calibrate_times *times, cleave_machine *machine,
                                  cleave_error *error) {
    const timed exchanges = {EXCHANGED, -1, 2}, others = {IN_MESSAGES, -1, 2};
    double latency = 0, per_byte = 0;
    int n_known;
    CLEAVE_TRY(fit_line(times, &exchanges, &n_known, &latency, &per_byte, error));
    bool exchanged = n_known > 0;
    if (!exchanged)
        CLEAVE_TRY(fit_line(times, &others, &n_known, &latency, &per_byte, error));
    if (n_known == 0)
        return CLEAVE_OK;
    double sum = 1.5 * cleave_sum_price_of(&machine->kinds[0]).seconds_per_byte;
    if (!exchanged)
        per_byte = fmax(per_byte - sum, per_byte / 2);
    for (int32_t c = 0; c < machine->node_types[0].n_link_classes; c++) {
        machine->node_types[0].link_classes[c].bytes_per_second = 1 / per_byte;
        machine->node_types[0].link_classes[c].latency_seconds = latency;
    }
    return CLEAVE_OK;
}

static int32_t count_devices(const calibrate_values *values, const calibrate_times *times) {
    int32_t most = 1;
    for (int32_t i = 0; i < times->n_collectives; i++)
        if (times->collectives[i].n_devices > most)
            most = times->collectives[i].n_devices;
    return values->common.devices > 0 ? (int32_t)values->common.devices : most;
}

static cleave_status print_json(const calibrate_values *values, const calibrate_times *times,
                                const cleave_machine *machine, cleave_error *error) {
    const cleave_device_kind *kind = &machine->kinds[0];
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_string(&w, "version", kind->kernel_version);
    cleave_json_set_number(&w, "flops_per_second", kind->flops_per_second);
    cleave_json_set_number(&w, "bytes_per_second", kind->bytes_per_second);
    cleave_json_set_integer(&w, "times_taken", times->n_kernels);
    cleave_json_set_integer(&w, "families", kind->n_fits);
    cleave_json_set_integer(&w, "times_failed", times->n_failed);
    cleave_json_set_string(&w, "machine", values->output);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

static void print_text(const calibrate_values *values, const calibrate_times *times,
                       const cleave_machine *machine) {
    char rate[64], memory[64], latency[64];
    const cleave_device_kind *kind = &machine->kinds[0];
    cleave_unit_format(kind->flops_per_second, CLEAVE_UNIT_FLOPS, rate, sizeof rate);
    cleave_unit_format(kind->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND, memory, sizeof memory);
    printf("%s: best operator %s, copies %s\n", kind->kernel_version, rate, memory);
    printf("%d times taken, in %d families; %d could not be timed\n", times->n_kernels,
           kind->n_fits, times->n_failed);
    for (int32_t i = 0; i < machine->collectives.n_spans && times->n_collectives > 0; i++) {
        const cleave_collective_span *span = &machine->collectives.spans[i];
        cleave_unit_format(span->latency_seconds, CLEAVE_UNIT_SECONDS, latency, sizeof latency);
        cleave_unit_format(span->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND, memory,
                           sizeof memory);
        cleave_unit_format(span->overhead_seconds, CLEAVE_UNIT_SECONDS, rate, sizeof rate);
        printf("%s of %d devices: %s, of which %s to launch, and %s\n",
               span->collective < 0 ? "collectives" : cleave_collective_names[span->collective],
               span->n_devices, latency, rate, memory);
    }
    printf("Machine written to %s\n", values->output);
}

cleave_status calibrate_take(const calibrate_values *values, cleave_arena *arena,
                             cleave_error *error) {
    calibrate_times times;
    cleave_machine machine;
    const char *base = values->common.machine != NULL      ? values->common.machine
                       : access(values->output, F_OK) == 0 ? values->output
                                                           : NULL;
    CLEAVE_TRY(calibrate_times_read(values->import, arena, &times, error));
    if (base != NULL)
        CLEAVE_TRY(cleave_machine_read(base, 0, arena, &machine, error));
    else
        CLEAVE_TRY(calibrate_plain_machine(values->name, count_devices(values, &times), arena,
                                           &machine, error));
    CLEAVE_TRY(calibrate_times_apply(&times, arena, &machine, error));
    if (values->common.machine == NULL)
        CLEAVE_TRY(join_devices(&times, &machine, error));
    CLEAVE_TRY(cleave_machine_write(values->output, &machine, error));
    if (values->common.json)
        return print_json(values, &times, &machine, error);
    print_text(values, &times, &machine);
    return CLEAVE_OK;
}
