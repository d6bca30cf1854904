/* Which families give the same fragments, and which nests the same computes: those of repeated
   blocks.  A place is a family or, behind all families, a nest; whatever lowering looks at there
   goes into a digest, with tensors, operators, nests and slots by their places among those that it
   has to do with rather than by their ids.  Equal digests: alike under the same splits. */
#include "base/random.h"
#include "graph/lower/fragment.h"
#include "graph/lower/schedule.h"

#include <stdlib.h>
#include <string.h>

typedef struct digest {
    uint64_t a, b;
    int32_t place;
} digest;

typedef struct walker {
    const cleave_model *model;
    const lower_schedule *schedule;
    digest d;
    digest *operators;       /* [n_operators] of all that an operator computes */
    int32_t *first_op, *ops; /* [n_families + 1] ascending in each */
    int32_t *number;         /* [n_tensors] in the present family, from 1 on; 0: not met */
    int32_t n_met, *met;     /* [n_tensors] */
    int32_t n_slots, *slots; /* of the present place, ascending; room for all of them, twice */
    int32_t n_nests, *nests; /* of the present family, ascending; room for all events */
    bool by_boxes; /* operators count by what their parts read and write, which is not put */
} walker;

static void put(walker *w, int64_t value) {
    w->d.a = cleave_hash_join(w->d.a, (uint64_t)value);
    w->d.b = (w->d.b ^ (uint64_t)value) * UINT64_C(0x9ddfea08eb382d69);
    w->d.b ^= w->d.b >> 29;
}

static void begin_digest(walker *w) { w->d = (digest){1, 1, 0}; }

static void put_digest(walker *w, const digest *d) {
    put(w, (int64_t)d->a);
    put(w, (int64_t)d->b);
}

/* ---- what operators compute ------------------------------------------------------------------ */

static void put_shape(walker *w, const cleave_tensor *tensor) {
    put(w, tensor->kind);
    put(w, tensor->type);
    put(w, tensor->rank);
    put(w, tensor->needs_gradient);
    put(w, tensor->view.kind);
    for (int d = 0; d < tensor->rank; d++) {
        put(w, tensor->shape[d]);
        put(w, tensor->order[d]);
    }
}

static void put_operand(walker *w, const cleave_operand *operand) {
    const cleave_tensor *tensor = &w->model->tensors[operand->tensor];
    put_shape(w, tensor);
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        put(w, map->offset);
        put(w, map->n_terms);
        for (int t = 0; t < map->n_terms; t++) {
            put(w, map->terms[t].axis);
            put(w, map->terms[t].stride);
        }
    }
}

static void put_facts(walker *w, const cleave_nest *nest) {
    const int64_t facts[] = {nest->kind,          nest->combiner,        nest->differentiable,
                             nest->kept_inputs,   nest->gradient_inputs, nest->kept_output,
                             nest->kept_combined, nest->in_place,        nest->n_inputs};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        put(w, facts[i]);
    for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
        put(w, cleave_nest_pass_inputs(w->model, nest, (cleave_pass)pass));
}

static void put_axes(walker *w, int n, const cleave_axis *axes) {
    put(w, n);
    for (int a = 0; a < n; a++) {
        put(w, axes[a].extent);
        put(w, axes[a].whole);
    }
}

static int32_t place_in_operator(const cleave_operator *op, int32_t nest) {
    for (int32_t k = 0; k < op->n_nests; k++)
        if (op->nests[k] == nest)
            return k;
    return -1;
}

static void put_nest(walker *w, const cleave_nest *nest) {
    put_facts(w, nest);
    put(w, nest->derivation);
    put(w, nest->n_instructions);
    put_axes(w, nest->n_axes, nest->axes);
    for (int a = 0; a < nest->n_axes && nest->derivation == CLEAVE_DERIVE_OPERATOR; a++)
        put(w, nest->operator_axis[a]);
    if (nest->derivation == CLEAVE_DERIVE_OWNERS)
        put(w, place_in_operator(&w->model->operators[nest->op], nest->owners_of));
    for (int i = 0; i < nest->n_inputs; i++)
        put_operand(w, &nest->inputs[i]);
    put_operand(w, &nest->output);
    for (int i = 0; i < nest->n_instructions; i++) {
        put(w, nest->tape[i].opcode);
        put(w, nest->tape[i].a);
        put(w, nest->tape[i].b);
    }
}

static void digest_operators(walker *w) {
    for (int32_t op = 0; op < w->model->n_operators; op++) {
        const cleave_operator *of = &w->model->operators[op];
        begin_digest(w);
        put_axes(w, of->n_axes, of->axes);
        put(w, of->n_nests);
        for (int32_t k = 0; k < of->n_nests; k++)
            put_nest(w, &w->model->nests[of->nests[k]]);
        w->operators[op] = w->d;
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

static int compare_slots(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static int32_t sort_distinct(int32_t *items, int32_t n_items) {
    int32_t n = 0;
    qsort(items, (size_t)n_items, sizeof *items, compare_slots);
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
        slot < 0 ? NULL : bsearch(&slot, w->slots, (size_t)w->n_slots, sizeof slot, compare_slots);
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
    put_shape(w, of);
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
            bsearch(&nest, w->nests, (size_t)w->n_nests, sizeof nest, compare_slots);
        put(w, number - w->nests);
        put_facts(w, &w->model->nests[nest]);
        return;
    }
    int32_t op = w->model->nests[nest].op, first = w->first_op[family];
    const int32_t *at = bsearch(&op, w->ops + first, (size_t)(w->first_op[family + 1] - first),
                                sizeof op, compare_slots);
    put(w,
        at == NULL ? -1 - op : at - (w->ops + first)); /* one that is not there is like no other */
    put(w, place_in_operator(&w->model->operators[op], nest));
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
    begin_digest(w);
    list_slots_of_family(w, family);
    put(w, w->n_slots);
    for (int32_t i = w->first_op[family]; i < w->first_op[family + 1] && !w->by_boxes; i++)
        put_digest(w, &w->operators[w->ops[i]]);
    for (int32_t m = schedule->first_member[family]; m < schedule->first_member[family + 1]; m++)
        put_tensor(w, schedule->members[m]);
    for (int32_t e = schedule->first_event[family]; e < schedule->first_event[family + 1]; e++)
        put_event(w, family, &schedule->events[e]);
    for (; w->n_met > 0; w->n_met--)
        w->number[w->met[w->n_met - 1]] = 0;
}

static void digest_nest(walker *w, int32_t nest) {
    int32_t op = w->model->nests[nest].op;
    begin_digest(w);
    w->n_slots = 0;
    add_slots_of_nest(w, nest);
    w->n_slots = sort_distinct(w->slots, w->n_slots);
    put(w, -1);
    put_digest(w, &w->operators[op]);
    put(w, place_in_operator(&w->model->operators[op], nest));
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

static int compare_digests(const void *a, const void *b) {
    const digest *x = a, *y = b;
    if (x->a != y->a)
        return x->a < y->a ? -1 : 1;
    if (x->b != y->b)
        return x->b < y->b ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

static bool begin(walker *w, cleave_arena *arena) {
    const cleave_model *model = w->model;
    size_t most_slots = 2 + (1 + CLEAVE_PASS_UPDATE) * (size_t)w->schedule->n_events;
    w->operators = CLEAVE_ARENA_ARRAY(arena, digest, model->n_operators);
    w->number = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    w->met = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    w->slots = CLEAVE_ARENA_ARRAY(arena, int32_t, most_slots + CLEAVE_PASS_UPDATE);
    w->nests = CLEAVE_ARENA_ARRAY(arena, int32_t, w->schedule->n_events);
    return w->operators != NULL && w->number != NULL && w->met != NULL && w->slots != NULL &&
           (w->nests != NULL || w->schedule->n_events == 0) && list_operators(w, arena);
}

/* Digests all places and keeps their slots; false when memory is short. */
static bool digest_places(walker *w, cleave_arena *arena, digest *digests, cleave_alike *alike) {
    int32_t n_families = w->schedule->n_families, n = n_families + w->model->n_nests;
    digest_operators(w);
    for (int32_t place = 0; place < n; place++) {
        if (place < n_families)
            digest_family(w, place);
        else
            digest_nest(w, place - n_families);
        digests[place] = w->d;
        digests[place].place = place;
        alike->n_slots[place] = w->n_slots;
        alike->slots[place] = CLEAVE_ARENA_ARRAY(arena, int32_t, w->n_slots);
        if (w->n_slots > 0 && alike->slots[place] == NULL)
            return false;
        if (w->n_slots > 0)
            memcpy(alike->slots[place], w->slots, (size_t)w->n_slots * sizeof *w->slots);
    }
    return true;
}

/* Each place gets the first one with the same digest. */
static void find_equal(digest *digests, int32_t n, int32_t *like) {
    qsort(digests, (size_t)n, sizeof *digests, compare_digests);
    for (int32_t i = 0, first = 0; i < n; i++) {
        if (digests[i].a != digests[first].a || digests[i].b != digests[first].b)
            first = i;
        like[digests[i].place] = digests[first].place;
    }
}

cleave_status lower_find_alike(const cleave_model *model, const lower_schedule *schedule,
                               cleave_arena *arena, cleave_alike *alike, cleave_error *error) {
    int32_t n_families = schedule->n_families, n = n_families + model->n_nests;
    cleave_arena scratch = {0};
    walker w = {.model = model, .schedule = schedule};
    digest *digests = CLEAVE_ARENA_ARRAY(&scratch, digest, n);
    cleave_alike made = {.like = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                         .like_by_boxes = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families),
                         .n_slots = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                         .slots = CLEAVE_ARENA_ARRAY(arena, int32_t *, n)};
    bool done = digests != NULL && made.like != NULL && made.like_by_boxes != NULL &&
                made.n_slots != NULL && made.slots != NULL && begin(&w, &scratch) &&
                digest_places(&w, arena, digests, &made);
    if (done) {
        find_equal(digests, n, made.like);
        w.by_boxes = true;
        for (int32_t family = 0; family < n_families; family++) {
            digest_family(&w, family);
            digests[family] = w.d;
            digests[family].place = family;
        }
        find_equal(digests, n_families, made.like_by_boxes);
        *alike = made;
    }
    cleave_arena_free(&scratch);
    return done ? CLEAVE_OK : cleave_fail_memory(error, "comparing the families of a model");
}
