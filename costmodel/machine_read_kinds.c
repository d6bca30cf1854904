/* Kinds of devices in a machine file, with what calibration added; the format is described in
   machine_read.c. */
#include "base/order.h"
#include "costmodel/array.h"
#include "costmodel/machine_read.h"
#include "graph/model/precision.h"

#include <math.h>
#include <string.h>

static const char *const kind_keys[] = {
    "memory", "flops",   "memory_bandwidth", "efficiency", "launch",
    "source", "runtime", "kernel_version",   "kernels",    "fits",
    "rates",  "array",   "threads",          NULL};
static const char *const rate_keys[] = {"bf16", "fp16", "fp8", NULL};
static const char *const array_keys[] = {"cores",   "rows",      "columns", "clock",
                                         "on_chip", "sustained", NULL};
static const char *const kernel_keys[] = {"key",   "family",    "seconds", "spread", "flops",
                                          "bytes", "workspace", "alone",   NULL};
static const char *const fit_keys[] = {"family",
                                       "launch_seconds",
                                       "seconds_per_flop",
                                       "seconds_per_byte",
                                       "spread",
                                       "workspace",
                                       "largest",
                                       "alone",
                                       "near",
                                       "far_seconds_per_byte",
                                       NULL};
static cleave_status get_bytes(const machine_reader *r, const cleave_json_cursor *at,
                               const char *key, bool required, int64_t *value) {
    double bytes;
    CLEAVE_TRY(machine_read_quantity(r, at, key, CLEAVE_UNIT_BYTES, required, &bytes));
    if (bytes > 0x1p62)
        return cleave_json_fail(at, r->error, "\"%s\" is %g bytes: too many", key, bytes);
    *value = (int64_t)bytes;
    return CLEAVE_OK;
}

static cleave_status read_kernel(const machine_reader *r, const cleave_json_cursor *at,
                                 cleave_kernel_time *kernel) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, kernel_keys, r->error));
    CLEAVE_TRY(machine_read_string(r, at, "key", &kernel->key));
    CLEAVE_TRY(machine_read_string(r, at, "family", &kernel->family));
    if (cleave_json_find(at, "seconds", &member)) {
        CLEAVE_TRY(cleave_json_get_amount(at, "seconds", true, &kernel->seconds, r->error));
        CLEAVE_TRY(cleave_json_get_amount(at, "spread", false, &kernel->spread, r->error));
    }
    if (cleave_json_find(at, "alone", &member))
        CLEAVE_TRY(cleave_json_get_amount(at, "alone", true, &kernel->alone_seconds, r->error));
    CLEAVE_TRY(cleave_json_get_amount(at, "flops", false, &kernel->flops, r->error));
    CLEAVE_TRY(cleave_json_get_amount(at, "bytes", false, &kernel->bytes, r->error));
    return cleave_json_get_integer(at, "workspace", 0, INT64_MAX, &kernel->workspace_bytes,
                                   r->error);
}

static cleave_status read_kernels(const machine_reader *r, const cleave_json_cursor *at,
                                  cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    kind->n_kernels = cleave_json_count(at);
    kind->kernels = CLEAVE_ARENA_ARRAY(r->arena, cleave_kernel_time, kind->n_kernels);
    if (kind->kernels == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t i = 0; i < kind->n_kernels; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read_kernel(r, &element, &kind->kernels[i]));
    }
    CLEAVE_SORT(kind->kernels, kind->n_kernels, cleave_order_strings);
    for (int32_t i = 1; i < kind->n_kernels; i++)
        if (strcmp(kind->kernels[i - 1].key, kind->kernels[i].key) == 0)
            return cleave_json_fail(at, r->error, "the kernel \"%s\" is there twice",
                                    kind->kernels[i].key);
    return CLEAVE_OK;
}

static cleave_status read_fits(const machine_reader *r, const cleave_json_cursor *at,
                               cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    kind->n_fits = cleave_json_count(at);
    kind->fits = CLEAVE_ARENA_ARRAY(r->arena, cleave_family_fit, kind->n_fits);
    if (kind->fits == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t i = 0; i < kind->n_fits; i++) {
        cleave_json_cursor element = cleave_json_element(at, i), member;
        cleave_family_fit *fit = &kind->fits[i];
        CLEAVE_TRY(cleave_json_expect_object(&element, r->error));
        CLEAVE_TRY(cleave_json_expect_keys(&element, fit_keys, r->error));
        CLEAVE_TRY(machine_read_string(r, &element, "family", &fit->family));
        CLEAVE_TRY(cleave_json_get_amount(&element, "launch_seconds", false, &fit->launch_seconds,
                                          r->error));
        CLEAVE_TRY(cleave_json_get_amount(&element, "seconds_per_flop", false,
                                          &fit->seconds_per_flop, r->error));
        CLEAVE_TRY(cleave_json_get_amount(&element, "seconds_per_byte", false,
                                          &fit->seconds_per_byte, r->error));
        CLEAVE_TRY(cleave_json_get_amount(&element, "spread", false, &fit->spread, r->error));
        if (cleave_json_find(&element, "workspace", &member))
            CLEAVE_TRY(cleave_json_integer(&member, 0, INT64_MAX, &fit->workspace_bytes, r->error));
        if (cleave_json_find(&element, "largest", &member))
            CLEAVE_TRY(
                cleave_json_get_amount(&element, "largest", false, &fit->largest_bytes, r->error));
        if (cleave_json_find(&element, "alone", &member))
            CLEAVE_TRY(cleave_json_get_amount(&element, "alone", true, &fit->alone, r->error));
        if (fit->alone > 1)
            return cleave_json_fail(&member, r->error, "%g is more than 1", fit->alone);
        if (!cleave_json_find(&element, "near", &member))
            continue;
        CLEAVE_TRY(cleave_json_get_amount(&element, "near", true, &fit->near_bytes, r->error));
        CLEAVE_TRY(cleave_json_get_amount(&element, "far_seconds_per_byte", true,
                                          &fit->far_seconds_per_byte, r->error));
        if (fit->far_seconds_per_byte < fit->seconds_per_byte)
            return cleave_json_fail(&element, r->error, "%g seconds per byte are fewer than %g",
                                    fit->far_seconds_per_byte, fit->seconds_per_byte);
    }
    CLEAVE_SORT(kind->fits, kind->n_fits, cleave_order_strings);
    for (int32_t i = 1; i < kind->n_fits; i++)
        if (strcmp(kind->fits[i - 1].family, kind->fits[i].family) == 0)
            return cleave_json_fail(at, r->error, "the family \"%s\" is there twice",
                                    kind->fits[i].family);
    return CLEAVE_OK;
}

static cleave_status read_share(const machine_reader *r, const cleave_json_cursor *at,
                                double *share) {
    CLEAVE_TRY(cleave_json_number(at, share, r->error));
    if (!(*share > 0 && *share <= 1))
        return cleave_json_fail(at, r->error, "%g is not above 0 and at most 1", *share);
    return CLEAVE_OK;
}

/* [size, share]: sizes ascend. */
static cleave_status read_point(const machine_reader *r, const cleave_json_cursor *at,
                                cleave_efficiency *table) {
    CLEAVE_TRY(cleave_json_expect_array(at, r->error));
    if (cleave_json_count(at) != 2)
        return cleave_json_fail(at, r->error, "this is not [SIZE, SHARE]");
    cleave_json_cursor member = cleave_json_element(at, 0);
    double size, before = table->n > 0 ? table->size[table->n - 1] : 0;
    CLEAVE_TRY(cleave_json_number(&member, &size, r->error));
    if (!(size > before) || !isfinite(size))
        return cleave_json_fail(&member, r->error, "the size %g is not above %g", size, before);
    member = cleave_json_element(at, 1);
    CLEAVE_TRY(read_share(r, &member, &table->share[table->n]));
    table->size[table->n++] = size;
    return CLEAVE_OK;
}

/* A share, or a table of them by size. */
static cleave_status read_efficiency(const machine_reader *r, const cleave_json_cursor *at,
                                     cleave_efficiency *table) {
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY) {
        double share;
        CLEAVE_TRY(read_share(r, at, &share));
        *table = cleave_efficiency_flat(share);
        return CLEAVE_OK;
    }
    int32_t n = cleave_json_count(at);
    if (n < 1 || n > CLEAVE_MOST_EFFICIENCY_POINTS)
        return cleave_json_fail(at, r->error, "%d points are not in the range 1 to %d", n,
                                CLEAVE_MOST_EFFICIENCY_POINTS);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor point = cleave_json_element(at, i);
        CLEAVE_TRY(read_point(r, &point, table));
    }
    if (n == 1)
        table->size[0] = 1; /* of one size is of all */
    return CLEAVE_OK;
}

static cleave_status read_efficiencies(const machine_reader *r, const cleave_json_cursor *at,
                                       cleave_device_kind *kind) {
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, cleave_efficiency_names, r->error));
    for (int of = 0; of < CLEAVE_N_EFFICIENCIES; of++) {
        cleave_json_cursor member;
        if (cleave_json_find(at, cleave_efficiency_names[of], &member))
            CLEAVE_TRY(read_efficiency(r, &member, &kind->efficiency[of]));
    }
    return CLEAVE_OK;
}

/* Products in bf16 of a kind that is described, instead of measured. */
static cleave_status read_array(const machine_reader *r, const cleave_json_cursor *at,
                                cleave_device_kind *kind) {
    cleave_json_cursor member;
    cleave_array array = {.bytes_per_second = kind->bytes_per_second, .sustained = 1};
    const struct {
        const char *key;
        double *value;
        double most;
    } counts[] = {{"cores", &array.cores, 1e6},
                  {"rows", &array.rows, 4096},
                  {"columns", &array.columns, 4096}};
    CLEAVE_TRY(cleave_json_expect_keys(at, array_keys, r->error));
    for (int i = 0; i < 3; i++) {
        int64_t count;
        CLEAVE_TRY(cleave_json_get_integer(at, counts[i].key, 1, (int64_t)counts[i].most, &count,
                                           r->error));
        *counts[i].value = (double)count;
    }
    CLEAVE_TRY(
        machine_read_quantity(r, at, "clock", CLEAVE_UNIT_HERTZ, true, &array.cycles_per_second));
    CLEAVE_TRY(
        machine_read_quantity(r, at, "on_chip", CLEAVE_UNIT_BYTES, true, &array.on_chip_bytes));
    if (cleave_json_find(at, "sustained", &member))
        CLEAVE_TRY(read_share(r, &member, &array.sustained));
    if (kind->rates[CLEAVE_BF16] > 0 || kind->efficiency[CLEAVE_EFFICIENCY_BF16_PRODUCT].n > 0)
        return cleave_json_fail(at, r->error,
                                "the rate of bf16 and the efficiency of its products "
                                "follow from the array: leave them out");
    if (!(cleave_array_share(&array, 1, 1, 1) > 0))
        return cleave_json_fail(at, r->error, "no tile of %g x %g outputs fits on the chip",
                                array.rows, array.columns);
    kind->rates[CLEAVE_BF16] = cleave_array_flops(&array);
    kind->efficiency[CLEAVE_EFFICIENCY_BF16_PRODUCT] = cleave_array_efficiency(&array);
    return CLEAVE_OK;
}

static cleave_status read_kind(const machine_reader *r, const cleave_json_cursor *at,
                               cleave_device_kind *kind) {
    cleave_json_cursor member;
    kind->source = "";
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, kind_keys, r->error));
    CLEAVE_TRY(get_bytes(r, at, "memory", true, &kind->memory_bytes));
    CLEAVE_TRY(
        machine_read_quantity(r, at, "flops", CLEAVE_UNIT_FLOPS, true, &kind->flops_per_second));
    CLEAVE_TRY(machine_read_quantity(r, at, "memory_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                                     &kind->bytes_per_second));
    CLEAVE_TRY(
        machine_read_quantity(r, at, "launch", CLEAVE_UNIT_SECONDS, false, &kind->launch_seconds));
    CLEAVE_TRY(get_bytes(r, at, "runtime", false, &kind->runtime_bytes));
    if (cleave_json_find(at, "efficiency", &member))
        CLEAVE_TRY(read_efficiencies(r, &member, kind));
    if (cleave_json_find(at, "rates", &member)) {
        CLEAVE_TRY(cleave_json_expect_keys(&member, rate_keys, r->error));
        for (cleave_type type = 0; type < CLEAVE_N_TYPES; type++) {
            cleave_json_cursor rate;
            const char *name = cleave_precision_name(type);
            if (cleave_type_is_short(type) && cleave_json_find(&member, name, &rate))
                CLEAVE_TRY(machine_read_quantity(r, &member, name, CLEAVE_UNIT_FLOPS, true,
                                                 &kind->rates[type]));
        }
    }
    if (cleave_json_find(at, "array", &member))
        CLEAVE_TRY(read_array(r, &member, kind));
    if (cleave_json_find(at, "source", &member))
        CLEAVE_TRY(machine_read_string(r, at, "source", &kind->source));
    if (cleave_json_find(at, "kernel_version", &member))
        CLEAVE_TRY(machine_read_string(r, at, "kernel_version", &kind->kernel_version));
    if (cleave_json_find(at, "threads", &member)) {
        int64_t threads;
        CLEAVE_TRY(cleave_json_integer(&member, 1, 1 << 20, &threads, r->error));
        kind->threads = (int32_t)threads;
    }
    if (cleave_json_find(at, "kernels", &member))
        CLEAVE_TRY(read_kernels(r, &member, kind));
    if (cleave_json_find(at, "fits", &member))
        CLEAVE_TRY(read_fits(r, &member, kind));
    return cleave_device_kind_liken(kind, r->arena, r->error);
}

cleave_status machine_read_kinds(const machine_reader *r, const cleave_json_cursor *root) {
    cleave_machine *machine = r->machine;
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get(root, "kinds", &at, r->error));
    CLEAVE_TRY(cleave_json_expect_object(&at, r->error));
    machine->n_kinds = cleave_json_count(&at);
    machine->kinds = CLEAVE_ARENA_ARRAY(r->arena, cleave_device_kind, machine->n_kinds);
    if (machine->kinds == NULL)
        return machine_read_short_of_memory(r);
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const char *key;
        cleave_json_cursor member = cleave_json_member(&at, k, &key);
        machine->kinds[k].name = cleave_arena_string(r->arena, key);
        if (machine->kinds[k].name == NULL)
            return machine_read_short_of_memory(r);
        CLEAVE_TRY(read_kind(r, &member, &machine->kinds[k]));
    }
    return CLEAVE_OK;
}
