/* What a search begins with: the layouts known by name, and data parallel over the quick devices of
   a machine that has several kinds. */
#include "search/session.h"

#include <string.h>

static cleave_status add(session *s, const char *method, const cleave_layout *layout,
                         cleave_error *error) {
    session_given *given = &s->given[s->n_given];
    *given = (session_given){.method = method, .layout = layout};
    double started = cleave_clock_seconds();
    CLEAVE_TRY(cleave_price_layout(&s->pricer, layout, false, &given->price, error));
    given->seconds = cleave_clock_seconds() - started;
    s->n_given++;
    return CLEAVE_OK;
}

/* A layout that breaks a constraint is made to keep to it.  A drawn one is as good as before; a
   baseline is that baseline no more, but a start. */
static cleave_status add_constrained(session *s, const char *method, cleave_layout *layout,
                                     cleave_error *error) {
    const cleave_constraints *constraints = s->options->constraints;
    bool keeps = cleave_constraints_allow_layout(constraints, s->model, layout);
    CLEAVE_TRY(cleave_constraints_impose(constraints, s->model, layout, &s->work, error));
    bool is_drawn = method != NULL && strcmp(method, "random") == 0;
    return add(s, keeps || is_drawn ? method : NULL, layout, error);
}

static cleave_status add_named(session *s, const char *name, cleave_error *error) {
    bool applies;
    cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    if (layout == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_baseline_layout(s->model, s->machine, name, s->options->seed, &s->work,
                                      layout, &applies, error));
    if (!applies)
        return CLEAVE_OK;
    if (strcmp(name, "random") != 0)
        layout->collectives = s->collectives;
    cleave_progress_update(&s->progress, -1, name);
    return add_constrained(s, name, layout, error);
}

/* Products a second of the kind of device d. */
static double product_rate(const cleave_machine *machine, int32_t d) {
    const cleave_device_kind *kind = &machine->kinds[machine->device_kind[d]];
    return kind->flops_per_second * kind->product_efficiency;
}

/* Of devices of several kinds the slowest sets the pace of even blocks, and one operator at a time
   nothing gets away from it: so there are starts with those that are at least as quick as some
   device. */
static cleave_status add_quick_starts(session *s, cleave_error *error) {
    const cleave_machine *machine = s->machine;
    int32_t *quick = CLEAVE_ARENA_ARRAY(&s->work, int32_t, machine->n_devices);
    bool *seen = CLEAVE_ARENA_ARRAY(&s->work, bool, machine->n_kinds);
    if (quick == NULL || seen == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t slowest = 0; slowest < machine->n_devices && s->n_given < SESSION_MAX_GIVEN / 2;
         slowest++) {
        int32_t n = 0;
        if (seen[machine->device_kind[slowest]])
            continue;
        seen[machine->device_kind[slowest]] = true;
        for (int32_t d = 0; d < machine->n_devices; d++)
            if (product_rate(machine, d) >= product_rate(machine, slowest))
                quick[n++] = d;
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
        if (layout == NULL)
            return cleave_fail_memory(error, "searching");
        if (n == machine->n_devices)
            continue; /* the baseline */
        CLEAVE_TRY(
            cleave_data_parallel_layout(s->model, machine, n, quick, &s->work, layout, error));
        layout->collectives = s->collectives;
        CLEAVE_TRY(add_constrained(s, NULL, layout, error));
    }
    return CLEAVE_OK;
}

cleave_status session_add_givens(session *s, cleave_error *error) {
    for (int32_t i = 0; cleave_baseline_names[i] != NULL; i++)
        CLEAVE_TRY(add_named(s, cleave_baseline_names[i], error));
    if (strcmp(s->options->method, "random") == 0)
        return add_named(s, "random", error);
    return session_searches(s) ? add_quick_starts(s, error) : CLEAVE_OK;
}
