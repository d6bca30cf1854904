#include "graph/lower/visit.h"
#include "graph/lower/slots_internal.h"

#include <string.h>

/* Operators that have visits, of one kind of block of a stage, in the order of slots. */
typedef struct sequence {
    int32_t op, order; /* the one at hand; how many there were before */
    int32_t first, last;
    int32_t beside; /* the first slot of the one before, or the last of the one behind */
} sequence;

typedef CLEAVE_LIST(lower_visit) visit_list;

typedef struct finder {
    const cleave_model *model;
    const cleave_micro_batches *micro; /* or null */
    const cleave_layout *layout;
    const cleave_slot *slots;
    lower_schedule *schedule;
    lower_event_list *events;
    visit_list visits;
    int32_t n_keys;
    sequence *sequences; /* [2][n_keys] of what reads; of what gives */
    int32_t *block;      /* [2][n_keys] the first and the last slot of each block */
    int32_t (*open)[2];  /* [n_tensors] 1 + the last visit, by what reads and what gives */
    int32_t (*seen)[2];  /* [n_tensors] by which operator of its sequence */
} finder;

bool lower_sees_sharded(const cleave_model *model, const cleave_layout *layout, int32_t tensor,
                        cleave_sharded least) {
    const cleave_tensor *of = &model->tensors[tensor];
    bool sees = of->view.kind == CLEAVE_VIEW_NONE && layout->sharded[tensor] >= least;
    for (int32_t s = 0; s < of->view.n_sources && !sees; s++)
        sees = lower_sees_sharded(model, layout, of->view.sources[s], least);
    return sees;
}

int32_t lower_count_bases(const cleave_model *model, int32_t tensor) {
    const cleave_tensor *of = &model->tensors[tensor];
    int32_t n = of->view.kind == CLEAVE_VIEW_NONE;
    for (int32_t s = 0; s < of->view.n_sources; s++)
        n += lower_count_bases(model, of->view.sources[s]);
    return n;
}

int32_t lower_find_base(const cleave_model *model, int32_t tensor, int32_t base) {
    const cleave_tensor *of = &model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE)
        return tensor == base ? 0 : -1;
    int32_t before = 0;
    for (int32_t s = 0; s < of->view.n_sources; s++) {
        int32_t at = lower_find_base(model, of->view.sources[s], base);
        if (at >= 0)
            return before + at;
        before += lower_count_bases(model, of->view.sources[s]);
    }
    return -1;
}

static bool has_visit(const finder *f, const lower_event *event) {
    return (event->kind == LOWER_READ &&
            lower_sees_sharded(f->model, f->layout, event->tensor, CLEAVE_SHARDED_WEIGHT)) ||
           (event->kind == LOWER_WRITE_GRADIENT &&
            lower_sees_sharded(f->model, f->layout, event->tensor, CLEAVE_SHARDED_GRADIENT));
}

static int32_t key_of_block(const finder *f, int32_t slot) {
    return f->schedule->stage_of[f->slots[slot].nest] * CLEAVE_N_BLOCK_KINDS + f->slots[slot].block;
}

/* Of gradients by passes, whatever blocks they are in: the sums are to be the same in any
   schedule. */
static sequence *sequence_of(const finder *f, const lower_event *event) {
    if (event->kind == LOWER_READ)
        return &f->sequences[key_of_block(f, event->slot)];
    return &f->sequences[f->n_keys + f->schedule->stage_of[event->nest] * CLEAVE_N_BLOCK_KINDS +
                         f->slots[event->slot].pass];
}

static void begin_visit(finder *f, lower_event *event, const sequence *in, cleave_when when) {
    int32_t stage = f->schedule->stage_of[event->nest],
            family = f->schedule->family_of[event->tensor];
    bool gives = event->kind == LOWER_WRITE_GRADIENT;
    lower_visit visit = {.tensor = event->tensor,
                         .stage = stage,
                         .when = (uint8_t)when,
                         .gives = gives,
                         .group = (stage * CLEAVE_PASS_UPDATE + f->slots[event->slot].pass) * 3 +
                                  (int32_t)when,
                         .first_slot = event->slot,
                         .aside = gives ? -1 : in->beside,
                         .first_movement = f->schedule->n_movements[family]};
    f->schedule->n_movements[family] += lower_count_bases(f->model, event->tensor);
    f->open[event->tensor][gives] = f->visits.n + 1;
    event->visit = CLEAVE_LIST_PUSH(&f->visits, visit) ? f->visits.n - 1 : -1;
}

/* Goes on with the visit of the event's tensor, or begins one. */
static void visit_event(finder *f, lower_event *event) {
    sequence *in = sequence_of(f, event);
    int32_t op = f->model->nests[event->nest].op;
    bool gives = event->kind == LOWER_WRITE_GRADIENT;
    cleave_when when = cleave_micro_batches_when(f->micro, f->model, event->nest,
                                                 (cleave_pass)f->slots[event->slot].pass);
    if (op != in->op) {
        in->beside = in->op < 0 ? f->block[key_of_block(f, event->slot)] : in->first;
        in->op = op;
        in->order++;
        in->first = event->slot;
    }
    int32_t open = f->open[event->tensor][gives] - 1;
    const lower_visit *last = open < 0 ? NULL : &f->visits.items[open];
    if (last == NULL || last->when != (uint8_t)when ||
        f->seen[event->tensor][gives] < in->order - 1 ||
        sequence_of(f, &(lower_event){.kind = event->kind,
                                      .slot = last->first_slot,
                                      .nest = f->slots[last->first_slot].nest}) != in)
        begin_visit(f, event, in, when);
    else
        event->visit = open;
    f->seen[event->tensor][gives] = in->order;
    if (event->visit >= 0)
        f->visits.items[event->visit].last_slot = event->slot;
}

/* Backwards: a gradient is settled behind the operator that comes next. */
static void settle_event(finder *f, const lower_event *event) {
    sequence *in = sequence_of(f, event);
    int32_t op = f->model->nests[event->nest].op;
    if (op != in->op) {
        in->beside = in->op < 0 ? f->block[f->n_keys + key_of_block(f, event->slot)] : in->last;
        in->op = op;
        in->last = event->slot;
    }
    lower_visit *visit = &f->visits.items[event->visit];
    if (visit->aside < 0)
        visit->aside = in->beside;
}

static void begin_sequences(finder *f) {
    for (int32_t k = 0; k < 2 * f->n_keys; k++)
        f->sequences[k] = (sequence){.op = -1};
}

static bool find_visits(finder *f) {
    begin_sequences(f);
    for (int32_t e = 0; e < f->events->n; e++)
        if (has_visit(f, &f->events->items[e])) {
            visit_event(f, &f->events->items[e]);
            if (f->events->items[e].visit < 0)
                return false;
        }
    begin_sequences(f);
    for (int32_t e = f->events->n - 1; e >= 0; e--)
        if (f->events->items[e].visit >= 0 && f->events->items[e].kind == LOWER_WRITE_GRADIENT)
            settle_event(f, &f->events->items[e]);
    return true;
}

/* ---- the events of visits -------------------------------------------------------------------- */

static bool add_event(finder *f, lower_event_kind kind, int32_t rank, int32_t v, int32_t slot) {
    return CLEAVE_LIST_PUSH(f->events, (lower_event){.kind = kind,
                                                     .slot = slot,
                                                     .rank = rank,
                                                     .nest = -1,
                                                     .input = -1,
                                                     .tensor = f->visits.items[v].tensor,
                                                     .visit = v,
                                                     .ring = -1});
}

static bool add_events(finder *f) {
    bool done = true;
    for (int32_t v = 0; v < f->visits.n && done; v++) {
        const lower_visit *of = &f->visits.items[v];
        done = of->gives ? add_event(f, LOWER_REDUCE, LOWER_RANK_REDUCE, v, of->last_slot) &&
                               add_event(f, LOWER_SETTLE, LOWER_RANK_SETTLE, v, of->aside)
                         : add_event(f, LOWER_GATHER, LOWER_RANK_GATHER, v, of->aside);
    }
    return done;
}

/* The first and the last slot of every block. */
static void find_blocks(finder *f, int32_t n_slots) {
    for (int32_t s = n_slots - 1; s >= f->schedule->n_prologue_slots; s--) {
        if (f->slots[s].nest < 0)
            continue;
        int32_t key = key_of_block(f, s);
        f->block[key] = s;
        if (f->block[f->n_keys + key] < s)
            f->block[f->n_keys + key] = s;
    }
}

static bool find(finder *f, int32_t n_slots, cleave_arena *scratch) {
    size_t n_tensors = (size_t)f->model->n_tensors, n_keys = (size_t)f->n_keys;
    f->sequences = CLEAVE_ARENA_ARRAY(scratch, sequence, 2 * n_keys);
    f->block = CLEAVE_ARENA_ARRAY(scratch, int32_t, 2 * n_keys);
    f->open = cleave_arena_alloc(scratch, n_tensors, sizeof *f->open);
    f->seen = cleave_arena_alloc(scratch, n_tensors, sizeof *f->seen);
    if (f->sequences == NULL || f->block == NULL || f->open == NULL || f->seen == NULL)
        return false;
    find_blocks(f, n_slots);
    return find_visits(f) && add_events(f);
}

bool lower_visits_find(lower_planner *p, cleave_arena *arena) {
    cleave_arena scratch = {0};
    lower_schedule *schedule = p->schedule;
    finder f = {.model = p->model,
                .micro = p->micro,
                .layout = p->layout,
                .slots = p->slots.items,
                .schedule = schedule,
                .events = &p->events,
                .n_keys = p->layout->schedule.n_stages * CLEAVE_N_BLOCK_KINDS};
    bool done = find(&f, p->slots.n, &scratch);
    schedule->visits = CLEAVE_ARENA_ARRAY(arena, lower_visit, f.visits.n);
    done = done && schedule->visits != NULL;
    if (done && f.visits.n > 0)
        memcpy(schedule->visits, f.visits.items, (size_t)f.visits.n * sizeof *f.visits.items);
    schedule->n_visits = f.visits.n;
    CLEAVE_LIST_FREE(&f.visits);
    cleave_arena_free(&scratch);
    return done;
}
