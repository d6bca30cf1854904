/* How far a search goes.  Here alone is decided from how many devices on layouts that fold are
   searched, and from how many on there are only these. */
#include "costmodel/machine_fold.h"
#include "search/problem/space.h"
#include "search/session.h"
#include "simulator/step/priced_program.h"

#include <stdio.h>
#include <string.h>

/* More devices than CLEAVE_MOST_LOWERED are not lowered one by one; nor more operators x devices
   than this where parameters with their gradients and states take half of a device's memory: what
   is found there is in micro-batches or of sharded state, changes of which can't be estimated, and
   all folds ... */
enum { MOST_LARGE_PARTS = 1 << 12 };
/* ... but where the user's constraints leave no layout that folds, and operators x devices are no
   more than this: half a minute and 3 GiB. */
enum { MOST_LOWERED_PARTS = 1 << 15 };

/* The space of the largest windows that the machine lets fold has all others; the constraints may
   leave none. */
static cleave_status list_windows(session *s, cleave_error *error) {
    cleave_error why_not = {""};
    cleave_status status = cleave_candidates_list_windows(
        &s->problem, cleave_window_largest(s->machine), &s->space, &s->candidates, &why_not);
    s->reach.has_windows = status == CLEAVE_OK;
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && error != NULL)
        *error = why_not;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

static bool is_large(const session *s) {
    const cleave_pricer pricer = {.model = s->model,
                                  .machine = s->machine,
                                  .lower.optimizer_states = s->options->optimizer_states,
                                  .memory_limit_bytes = s->options->memory_limit_bytes};
    return (int64_t)s->model->n_operators * s->machine->n_devices > MOST_LARGE_PARTS &&
           cleave_model_trains(s->model) && cleave_pricer_state_is_large(&pricer, 1);
}

/* Does the whole batch at once take half of all memory or more? */
static bool is_full(const session *s) { return s->least_bytes > s->most_bytes / 2; }

cleave_status session_find_reach(session *s, cleave_error *error) {
    int64_t n_devices = s->machine->n_devices;
    bool searches = session_searches(s);
    bool is_reference = strcmp(s->options->method, "mcmc") == 0;
    /* Where state and activations have room, the whole batch in one stage is rarely far from the
       best. */
    s->reach.stages = n_devices <= CLEAVE_MOST_LOWERED || is_large(s) || is_full(s);
    if (strcmp(s->options->method, "random") == 0 || !cleave_machine_may_fold(s->machine, NULL))
        return CLEAVE_OK;
    if (n_devices > CLEAVE_MOST_LOWERED || is_large(s)) {
        bool can_lower = s->model->n_operators * n_devices <= MOST_LOWERED_PARTS;
        if (!session_is_alone(s))
            CLEAVE_TRY(list_windows(s, error));
        s->reach.only_folds =
            s->reach.has_windows || !searches || s->constraints == NULL || !can_lower;
    }
    if (s->reach.only_folds)
        s->n_threads = 1; /* one layout of so many devices after the other */
    /* Of the whole batch at once they are what only stages can help. */
    bool is_left_to_stages = session_is_hopeless(s) && session_stages(s);
    s->reach.folds = searches && !is_left_to_stages &&
                     (s->reach.only_folds || (n_devices > CLEAVE_FEW_DEVICES && !is_reference));
    return CLEAVE_OK;
}

void session_describe_reach(const session *s, char *text, size_t bytes) {
    snprintf(text, bytes,
             "layouts that don't fold are searched for up to %d operators x devices, and here are "
             "%d x %d",
             (int)MOST_LOWERED_PARTS, s->model->n_operators, s->machine->n_devices);
}
