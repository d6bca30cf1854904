/* How far a search goes.  Here alone stands from how many devices on layouts that fold are
   searched, and from how many on there are only these: nobody lowers thousands of devices one by
   one. */
#include "search/improve/window.h"
#include "search/session.h"

#include <stdio.h>
#include <string.h>

/* More devices than this are not lowered one by one ... */
enum { MOST_LOWERED = 64 };
/* ... but where the user's constraints leave no layout that folds, and operators x devices are no
   more than this: half a minute and 3 GiB. */
enum { MOST_LOWERED_PARTS = 1 << 15 };

/* The space of the largest windows that the machine lets fold has all others; null where the
   constraints leave none. */
static cleave_status find_space(session *s, cleave_error *error) {
    const cleave_window_frame frame = {.model = s->model,
                                       .class_of = s->class_of,
                                       .n_devices = s->machine->n_devices,
                                       .window_devices = cleave_window_largest(s->machine, 0),
                                       .constraints = s->constraints};
    cleave_window_space *space = CLEAVE_ARENA_ARRAY(&s->work, cleave_window_space, 1);
    cleave_error why_not = {""};
    if (space == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_status status = cleave_window_space_create(&frame, &s->work, space, &why_not);
    s->reach.space = status == CLEAVE_OK ? space : NULL;
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && error != NULL)
        *error = why_not;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

cleave_status session_find_reach(session *s, cleave_error *error) {
    int64_t n_devices = s->machine->n_devices;
    bool searches = session_searches(s);
    bool is_reference = strcmp(s->options->method, "mcmc") == 0;
    if (strcmp(s->options->method, "random") == 0 || !cleave_machine_may_fold(s->machine, NULL))
        return CLEAVE_OK;
    if (n_devices > MOST_LOWERED) {
        bool can_lower = s->model->n_operators * n_devices <= MOST_LOWERED_PARTS;
        CLEAVE_TRY(cleave_operator_classes(s->model, &s->work, &s->class_of, error));
        CLEAVE_TRY(find_space(s, error));
        s->reach.only_folds =
            s->reach.space != NULL || !searches || s->constraints == NULL || !can_lower;
    }
    if (s->reach.only_folds)
        s->n_threads = 1; /* one layout of so many devices after the other */
    s->reach.folds =
        searches && (s->reach.only_folds || (n_devices > CLEAVE_FEW_DEVICES && !is_reference));
    return CLEAVE_OK;
}

void session_describe_reach(const session *s, char *text, size_t bytes) {
    snprintf(text, bytes,
             "layouts that don't fold are searched for up to %d operators x devices, and here are "
             "%d x %d",
             (int)MOST_LOWERED_PARTS, s->model->n_operators, s->machine->n_devices);
}
