/* The collectives of a machine file; the format is described in machine_read.c. */
#include "costmodel/machine_read.h"

static const char *const collectives_keys[] = {"within", "between", "source", NULL};
static const char *const span_keys[] = {"devices", "bandwidth", "latency", "kind", NULL};
static const char *const between_keys[] = {"share", "latency", "library", NULL};

static cleave_status read_span(const machine_reader *r, const cleave_json_cursor *at,
                               cleave_machine_collectives *made) {
    int64_t least = 2, n;
    cleave_collective_span *span = &made->spans[made->n_spans];
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_expect_object(at, r->error));
    CLEAVE_TRY(cleave_json_expect_keys(at, span_keys, r->error));
    span->kind = -1;
    if (cleave_json_find(at, "kind", &member))
        CLEAVE_TRY(machine_read_kind(r, &member, &span->kind));
    if (made->n_spans > 0 && span[-1].kind == span->kind)
        least = span[-1].n_devices + 1;
    for (int32_t i = 0; i + 1 < made->n_spans; i++)
        if (made->spans[i].kind == span->kind && span[-1].kind != span->kind)
            return cleave_json_fail(at, r->error, "spans of a kind do not stand side by side");
    CLEAVE_TRY(
        cleave_json_get_integer(at, "devices", least, CLEAVE_MAX_NODE_DEVICES, &n, r->error));
    span->n_devices = (int32_t)n;
    CLEAVE_TRY(machine_read_quantity(r, at, "bandwidth", CLEAVE_UNIT_BYTES_PER_SECOND, true,
                                     &span->bytes_per_second));
    CLEAVE_TRY(machine_read_quantity(r, at, "latency", CLEAVE_UNIT_SECONDS, false,
                                     &span->latency_seconds));
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
    r->machine->collectives = made;
    return CLEAVE_OK;
}
