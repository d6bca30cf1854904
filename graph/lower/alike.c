/* Which families give the same fragments, and which nests the same computes: those of repeated
   blocks.  A place is a family or, behind all families, a nest; whatever lowering looks at there
   goes into a digest, with tensors, operators, nests and slots by their places among those that it
   has to do with rather than by their ids.  Equal digests: alike under the same splits. */
#include "graph/model/alike.h"
#include "base/order.h"
#include "graph/lower/fragment.h"
#include "graph/lower/slots.h"

#include <stdlib.h>
#include <string.h>

typedef struct walker {
    const cleave_model *model;
    const lower_schedule *schedule;
    cleave_digest d;
    int32_t *class_of;       /* [n_operators] alike, boxes as well */
    int32_t *first_op, *ops; /* [n_families + 1] ascending in each */
    int32_t *number;         /* [n_tensors] in the present family, from 1 on; 0: not met */
    int32_t n_met, *met;     /* [n_tensors] */
    int32_t n_slots, *slots; /* of the present place, ascending; room for all of them, twice */
    int32_t n_nests, *nests; /* of the present family, ascending; room for all events */
    bool by_boxes; /* operators count by what their parts read and write, which is not put */
} walker;

static void put(walker *w, int64_t value) { cleave_digest_put(&w->d, value); }

/* ---- slots ----------------------------------------------------------------------------------- */

static int32_t sort_distinct(int32_t *items, int32_t n_items) {
    int32_t n = 0;
    cleave_sort_int32(items, n_items);
    for (int32_t i = 0; i < n_items; i++)
        if (n == 0 || items[n - 1] != items[i])
            items[n++] = items[i];
    return n;
}

static void add_slots_of_nest(walker *w, int32_t nest) {
    for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
        if (w->schedule->slot_of[nest][pass] >= 0)
            w->slots[w->n_slots++] = w->schedule->slot_of[nest][pass];
}

static void put_slot(walker *w, int32_t slot) {
    const int32_t *at =
        slot < 0 ? NULL
                 : bsearch(&slot, w->slots, (size_t)w->n_slots, sizeof slot, cleave_order_int32);
    put(w, at == NULL ? -1 : at - w->slots);
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A tensor with the views that it is made of; by number once it has been met. */
static void put_tensor(walker *w, int32_t tensor) {
    const cleave_tensor *of = &w->model->tensors[tensor];
    const cleave_view *view = &of->view;
    put(w, w->number[tensor]);
    if (w->number[tensor] > 0)
        return;
    w->met[w->n_met++] = tensor;
    w->number[tensor] = w->n_met;
    cleave_digest_put_tensor(&w->d, of);
    put(w, w->schedule->n_contributing[tensor]);
    put(w, tensor == w->model->loss);
    put(w, w->model->writer[tensor] < 0 ? -1
                                        : (int)w->model->nests[w->model->writer[tensor]].combiner);
    if (view->kind == CLEAVE_VIEW_NONE)
        return;
    put(w, view->n_sources);
    put(w, view->axis);
    for (int d = 0; d < CLEAVE_MAX_RANK; d++) {
        put(w, view->permutation[d]);
        put(w, view->begin[d]);
        put(w, view->step[d]);
    }
    float fill = view->fill;
    int32_t bits;
    memcpy(&bits, &fill, sizeof bits);
    put(w, bits);
    for (int32_t s = 0; s < view->n_sources; s++)
        put_tensor(w, view->sources[s]);
}

/* By boxes, the nest by its number in the family; else by its operator's number there and its place
   in that.  And its slots. */
static void put_nest_of_event(walker *w, int32_t family, int32_t nest) {
    for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
        put_slot(w, w->schedule->slot_of[nest][pass]);
    if (w->by_boxes) {
        const int32_t *number =
            bsearch(&nest, w->nests, (size_t)w->n_nests, sizeof nest, cleave_order_int32);
        put(w, number - w->nests);
        cleave_digest_put_facts(&w->d, w->model, &w->model->nests[nest]);
        return;
    }
    int32_t op = w->model->nests[nest].op, first = w->first_op[family];
    const int32_t *at = bsearch(&op, w->ops + first, (size_t)(w->first_op[family + 1] - first),
                                sizeof op, cleave_order_int32);
    put(w,
        at == NULL ? -1 - op : at - (w->ops + first)); /* one that is not there is like no other */
    put(w, cleave_operator_find_nest(&w->model->operators[op], nest));
}

static void put_visit(walker *w, const lower_visit *visit) {
    put(w, visit->first_movement);
    put(w, visit->stage);
    put(w, visit->when);
    put(w, visit->gives);
    put(w, visit->group);
}

static void put_event(walker *w, int32_t family, const lower_event *event) {
    put(w, event->kind);
    put(w, event->rank);
    put_slot(w, event->slot);
    const cleave_slot *slot = &w->schedule->slots[event->slot];
    put(w, slot->generation << 8 | slot->pass);
    put_tensor(w, event->tensor);
    if (event->nest >= 0)
        put_nest_of_event(w, family, event->nest);
    if (event->visit >= 0)
        put_visit(w, &w->schedule->visits[event->visit]);
    if (event->kind == LOWER_ASSIGN) {
        put_tensor(w, w->model->assignments[event->input].target);
        put_tensor(w, w->model->assignments[event->input].source);
    } else if (event->kind == LOWER_READ_OUTPUT) {
        put_tensor(w, w->model->outputs[event->input]);
    } else {
        put(w, event->input);
    }
}

static void list_slots_of_family(walker *w, int32_t family) {
    const lower_schedule *schedule = w->schedule;
    w->n_slots = 0;
    w->slots[w->n_slots++] = 0; /* what persists is alive from the first to the last */
    w->slots[w->n_slots++] = schedule->n_slots - 1;
    w->n_nests = 0;
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++) {
        w->slots[w->n_slots++] = schedule->events[e].slot;
        if (schedule->events[e].nest < 0)
            continue;
        add_slots_of_nest(w, schedule->events[e].nest);
        w->nests[w->n_nests++] = schedule->events[e].nest;
    }
    w->n_slots = sort_distinct(w->slots, w->n_slots);
    w->n_nests = sort_distinct(w->nests, w->n_nests);
}

/* Contributions are combined by the ids of nests, so their order counts as well; slots of forward
   passes ascend with them. */
static void digest_family(walker *w, int32_t family) {
    const lower_schedule *schedule = w->schedule;
    w->d = cleave_digest_begin(family);
    list_slots_of_family(w, family);
    put(w, w->n_slots);
    for (int32_t i = w->first_op[family]; i < w->first_op[family + 1] && !w->by_boxes; i++)
        put(w, w->class_of[w->ops[i]]);
    for (int32_t m = schedule->first_member[family]; m < schedule->first_member[family + 1]; m++)
        put_tensor(w, schedule->members[m]);
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++)
        put_event(w, family, &schedule->events[e]);
    for (; w->n_met > 0; w->n_met--)
        w->number[w->met[w->n_met - 1]] = 0;
}

static void digest_nest(walker *w, int32_t nest) {
    int32_t op = w->model->nests[nest].op;
    w->d = cleave_digest_begin(w->schedule->n_families + nest);
    w->n_slots = 0;
    add_slots_of_nest(w, nest);
    w->n_slots = sort_distinct(w->slots, w->n_slots);
    put(w, -1);
    put(w, w->class_of[op]);
    put(w, cleave_operator_find_nest(&w->model->operators[op], nest));
    for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
        put_slot(w, w->schedule->slot_of[nest][pass]);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool list_operators(walker *w, cleave_arena *arena) {
    const lower_schedule *schedule = w->schedule;
    int32_t n_ops = w->model->n_operators, n = schedule->first_touched[n_ops];
    w->first_op = CLEAVE_ARENA_ARRAY(arena, int32_t, schedule->n_families + 2);
    w->ops = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (w->first_op == NULL || (n > 0 && w->ops == NULL))
        return false;
    for (int32_t i = 0; i < n; i++)
        w->first_op[schedule->touched[i] + 2]++;
    for (int32_t f = 0; f <= schedule->n_families; f++)
        w->first_op[f + 1] += w->first_op[f];
    for (int32_t op = 0; op < n_ops; op++) /* each start runs on to the next one */
        for (int32_t i = schedule->first_touched[op]; i < schedule->first_touched[op + 1]; i++)
            w->ops[w->first_op[schedule->touched[i] + 1]++] = op;
    return true;
}

static bool begin(walker *w, cleave_arena *arena) {
    const cleave_model *model = w->model;
    size_t most_slots = 2 + (1 + CLEAVE_PASS_UPDATE) * (size_t)w->schedule->n_events;
    w->number = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    w->met = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    w->slots = CLEAVE_ARENA_ARRAY(arena, int32_t, most_slots + CLEAVE_PASS_UPDATE);
    w->nests = CLEAVE_ARENA_ARRAY(arena, int32_t, w->schedule->n_events);
    return w->number != NULL && w->met != NULL && w->slots != NULL &&
           (w->nests != NULL || w->schedule->n_events == 0) && list_operators(w, arena);
}

/* Digests all places and keeps their slots; false when memory is short. */
static bool digest_places(walker *w, cleave_arena *arena, cleave_digest *digests,
                          cleave_alike *alike) {
    int32_t n_families = w->schedule->n_families, n = n_families + w->model->n_nests;
    for (int32_t place = 0; place < n; place++) {
        if (place < n_families)
            digest_family(w, place);
        else
            digest_nest(w, place - n_families);
        digests[place] = w->d;
        alike->n_slots[place] = w->n_slots;
        alike->slots[place] = CLEAVE_ARENA_ARRAY(arena, int32_t, w->n_slots);
        if (w->n_slots > 0 && alike->slots[place] == NULL)
            return false;
        if (w->n_slots > 0)
            memcpy(alike->slots[place], w->slots, (size_t)w->n_slots * sizeof *w->slots);
    }
    return true;
}

static bool find_alike(walker *w, cleave_arena *scratch, cleave_arena *arena, cleave_alike *alike) {
    int32_t n_families = w->schedule->n_families, n = n_families + w->model->n_nests;
    cleave_digest *digests = CLEAVE_ARENA_ARRAY(scratch, cleave_digest, n);
    *alike = (cleave_alike){.like = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                            .like_by_boxes = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families),
                            .n_slots = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                            .slots = CLEAVE_ARENA_ARRAY(arena, int32_t *, n)};
    if (digests == NULL || alike->like == NULL || alike->like_by_boxes == NULL ||
        alike->n_slots == NULL || alike->slots == NULL || !begin(w, scratch) ||
        !digest_places(w, arena, digests, alike))
        return false;
    cleave_digests_find_alike(digests, n, alike->like);
    w->by_boxes = true;
    for (int32_t family = 0; family < n_families; family++) {
        digest_family(w, family);
        digests[family] = w->d;
    }
    cleave_digests_find_alike(digests, n_families, alike->like_by_boxes);
    return true;
}

cleave_status lower_find_alike(const cleave_model *model, const lower_schedule *schedule,
                               cleave_arena *arena, cleave_alike *alike, cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_alike made;
    walker w = {.model = model, .schedule = schedule};
    cleave_status status = cleave_operator_classes(model, true, &scratch, &w.class_of, error);
    if (status == CLEAVE_OK && !find_alike(&w, &scratch, arena, &made))
        status = cleave_fail_memory(error, "comparing the families of a model");
    cleave_arena_free(&scratch);
    if (status == CLEAVE_OK)
        *alike = made;
    return status;
}
