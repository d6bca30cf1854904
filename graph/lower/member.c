#include "graph/lower/member.h"

/* Of fewer, most are concerned by most changes, and what a part reads of all is planned for each.
 */
enum { LEAST_MEMBERS = 8 };

typedef struct finder {
    const cleave_model *model;
    const lower_schedule *schedule;
    lower_members *members;
    int32_t *place_of; /* [n_tensors] of base tensors among schedule->members */
    int32_t *met;      /* [members] the last event that was listed, + 1 */
    int32_t *next;     /* [members] where the next event is listed; null: they are counted */
} finder;

/* What a pad adds is filled in once for all members, and a part of a record, constants and what
   devices hold are copied to what reads them, with one copy for all; statistics of attention weigh
   its output. */
static bool is_of_many(const finder *f, int32_t tensor) {
    const cleave_model *model = f->model;
    const cleave_tensor *of = &model->tensors[tensor];
    if (of->view.kind != CLEAVE_VIEW_NONE)
        return of->view.kind == CLEAVE_VIEW_PAD;
    int32_t writer = model->writer[tensor];
    return of->kind != CLEAVE_TENSOR_ACTIVATION || writer < 0 ||
           model->nests[writer].combiner == CLEAVE_COMBINE_MOMENTS ||
           model->nests[writer].attention != NULL;
}

static bool is_of_one(const lower_event *event) {
    return event->kind == LOWER_READ || event->kind == LOWER_WRITE ||
           event->kind == LOWER_READ_GRADIENT || event->kind == LOWER_READ_COMBINED ||
           event->kind == LOWER_WRITE_GRADIENT;
}

static void choose_families(finder *f) {
    const lower_schedule *s = f->schedule;
    int32_t *n = f->members->n;
    for (int32_t family = 0; family < s->n_families; family++) {
        n[family] = s->first_member[family + 1] - s->first_member[family];
        if (n[family] < LEAST_MEMBERS)
            n[family] = 0;
        for (int32_t e = s->first_event[family]; e < s->first_event[family + 1]; e++)
            n[family] = is_of_one(&s->events[e]) ? n[family] : 0;
    }
    for (int32_t t = 0; t < f->model->n_tensors; t++)
        if (is_of_many(f, t))
            n[s->family_of[t]] = 0;
}

static void list_event(finder *f, int32_t e, int32_t tensor) {
    const cleave_tensor *of = &f->model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        list_event(f, e, of->view.sources[s]);
    int32_t m = f->place_of[tensor];
    if (of->view.kind != CLEAVE_VIEW_NONE || f->met[m] == e + 1)
        return;
    f->met[m] = e + 1;
    if (f->next == NULL)
        f->members->first_event[m + 1]++;
    else
        f->members->events[f->next[m]++] = e;
}

static void list_events(finder *f) {
    const lower_schedule *s = f->schedule;
    for (int32_t family = 0; family < s->n_families; family++)
        for (int32_t e = s->first_event[family];
             e < s->first_event[family + 1] && f->members->n[family] > 0; e++)
            list_event(f, e, s->events[e].tensor);
}

static bool find(finder *f, cleave_arena *arena, cleave_arena *scratch) {
    const lower_schedule *s = f->schedule;
    lower_members *members = f->members;
    int32_t n = s->first_member[s->n_families];
    members->n = CLEAVE_ARENA_ARRAY(arena, int32_t, s->n_families);
    members->first_event = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)n + 1);
    f->place_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, f->model->n_tensors);
    f->met = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    int32_t *next = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    if (members->n == NULL || members->first_event == NULL || f->place_of == NULL ||
        f->met == NULL || next == NULL)
        return false;
    for (int32_t m = 0; m < n; m++)
        f->place_of[s->members[m]] = m;
    choose_families(f);
    list_events(f);
    for (int32_t m = 0; m < n; m++) {
        members->first_event[m + 1] += members->first_event[m];
        next[m] = members->first_event[m];
        f->met[m] = 0;
    }
    members->events = CLEAVE_ARENA_ARRAY(arena, int32_t, members->first_event[n]);
    f->next = next;
    if (members->events == NULL)
        return false;
    list_events(f);
    return true;
}

cleave_status lower_find_members(const cleave_model *model, const lower_schedule *schedule,
                                 cleave_arena *arena, lower_members *members, cleave_error *error) {
    cleave_arena scratch = {0};
    lower_members made = {0};
    finder f = {.model = model, .schedule = schedule, .members = &made};
    bool done = find(&f, arena, &scratch);
    cleave_arena_free(&scratch);
    if (!done)
        return cleave_fail_memory(error, "listing the members of families");
    *members = made;
    return CLEAVE_OK;
}
