/* The collectives of a machine file; the format is described in machine_read.c. */
#include "costmodel/machine_read.h"
#include "graph/model/collective_steps.h"

#include <math.h>
#include <string.h>

static const char *const collectives_keys[] = {"within",   "between", "least",
                                               "together", "source",  NULL};
static const char *const span_keys[] = {"devices",        "bandwidth", "latency",    "overhead",
                                        "copy_bandwidth", "kind",      "collective", NULL};
static const char *const between_keys[] = {"share", "latency", "library", NULL};

/* What the processor has of it is no more than all of it. */
static cleave_status read_overhead(const machine_reader *r, const cleave_json_cursor *at,
                                   cleave_collective_span *span) {
    double copied_per_second = 0;
    cleave_json_cursor member;
    if (cleave_json_find(at, "overhead", &member))
        CLEAVE_TRY(machine_read_quantity(r, at, "overhead", CLEAVE_UNIT_SECONDS, false,
                                         &span->overhead_seconds));
    if (cleave_json_find(at, "copy_bandwidth", &member))
        CLEAVE_TRY(machine_read_quantity(r, at, "copy_bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND,
                                         true, &copied_per_second));
    span->overhead_seconds_per_byte = copied_per_second > 0 ? 1 / copied_per_second : 0;
    if (span->overhead_seconds > span->latency_seconds)
        return cleave_json_fail(at, r->error, "its overhead is more than its latency");
    if (copied_per_second > 0 && copied_per_second < span->bytes_per_second)
        return cleave_json_fail(at, r->error, "its copy_bandwidth is less than its bandwidth");
    return CLEAVE_OK;
}

static cleave_status read_collective(const machine_reader *r, const cleave_json_cursor *at,
                                     int32_t *collective) {
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, r->error));
    for (*collective = 0; cleave_collective_names[*collective] != NULL; (*collective)++)
        if (strcmp(cleave_collective_names[*collective], name) == 0)
            return CLEAVE_OK;
    return cleave_json_fail(
        at, r->error, "\"%s\" is none of all-reduce, reduce-scatter, all-gather and all-to-all",
        name);
}

static cleave_status read_span(const machine_reader *r, const cleave_json_cursor *at,
                               cleave_machine_collectives *made) {
    int64_t least = 2, n;
    cleave_collective_span *span = &made->spans[made->n_spans];
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, span_keys, r->error));
    span->kind = span->collective = -1;
    if (cleave_json_find(at, "kind", &member))
        CLEAVE_TRY(machine_read_kind(r, &member, &span->kind));
    if (cleave_json_find(at, "collective", &member))
        CLEAVE_TRY(read_collective(r, &member, &span->collective));
    bool goes_on = made->n_spans > 0 && cleave_collective_spans_alike(&span[-1], span);
    if (goes_on)
        least = span[-1].n_devices + 1;
    for (int32_t i = 0; i + 1 < made->n_spans; i++)
        if (!goes_on && cleave_collective_spans_alike(&made->spans[i], span))
            return cleave_json_fail(at, r->error, "spans of a kind do not stand side by side");
    CLEAVE_TRY(
        cleave_json_get_integer(at, "devices", least, CLEAVE_MAX_NODE_DEVICES, &n, r->error));
    span->n_devices = (int32_t)n;
    CLEAVE_TRY(machine_read_quantity(r, at, "bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                                     &span->bytes_per_second));
    CLEAVE_TRY(machine_read_quantity(r, at, "latency", CLEAVE_UNIT_SECONDS, false,
                                     &span->latency_seconds));
    CLEAVE_TRY(read_overhead(r, at, span));
    made->n_spans++;
    return CLEAVE_OK;
}

static cleave_status read_between(const machine_reader *r, const cleave_json_cursor *at,
                                  cleave_machine_collectives *made) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, between_keys, r->error));
    CLEAVE_TRY(cleave_json_get(at, "share", &member, r->error));
    CLEAVE_TRY(cleave_json_number(&member, &made->between_share, r->error));
    if (!(made->between_share > 0 && made->between_share <= 1))
        return cleave_json_fail(&member, r->error, "%g is not above 0 and at most 1",
                                made->between_share);
    const char *name;
    if (!cleave_json_find(at, "library", &member))
        return machine_read_quantity(r, at, "latency", CLEAVE_UNIT_SECONDS, false,
                                     &made->between_latency_seconds);
    if (cleave_json_find(at, "latency", &member))
        return cleave_json_fail(&member, r->error, "latency and library exclude each other");
    CLEAVE_TRY(machine_read_string(r, at, "library", &name));
    made->library = cleave_collective_library_find(name);
    return made->library != NULL
               ? CLEAVE_OK
               : cleave_json_fail(at, r->error, "library \"%s\" is not known: it is %s", name,
                                  cleave_collective_library_names);
}

cleave_status machine_read_collectives(const machine_reader *r, const cleave_json_cursor *root) {
    cleave_machine_collectives made = {.between_share = 1};
    cleave_json_cursor at, member;
    if (!cleave_json_find(root, "collectives", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_object(&at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(&at, collectives_keys, r->error));
    CLEAVE_TRY(machine_read_string(r, &at, "source", &made.source));
    CLEAVE_TRY(cleave_json_get_array(&at, "within", &member, r->error));
    int32_t n = cleave_json_count(&member);
    if (n < 1 || n > CLEAVE_MOST_COLLECTIVE_SPANS)
        return cleave_json_fail(&member, r->error, "%d spans are not in the range 1 to %d", n,
                                CLEAVE_MOST_COLLECTIVE_SPANS);
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor span = cleave_json_element(&member, i);
        CLEAVE_TRY(read_span(r, &span, &made));
    }
    if (cleave_json_find(&at, "between", &member))
        CLEAVE_TRY(read_between(r, &member, &made));
    if (cleave_json_find(&at, "least", &member)) {
        int64_t least;
        CLEAVE_TRY(
            cleave_json_get_integer(&at, "least", 2, CLEAVE_LEAST_COLLECTIVE, &least, r->error));
        made.least_devices = (int32_t)least;
    }
    if (cleave_json_find(&at, "together", &member)) {
        double bytes;
        CLEAVE_TRY(machine_read_quantity(r, &at, "together", CLEAVE_UNIT_BYTES, true, &bytes));
        made.together_bytes = (int64_t)fmin(bytes, 0x1p62);
    }
    r->machine->collectives = made;
    return CLEAVE_OK;
}
