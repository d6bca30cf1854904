/* Where to find what a schedule holds: events by family, the slots and events of each nest, the
   families of each operator. */
#include "graph/lower/slots_internal.h"

#include <string.h>

static int32_t place_of(const lower_event *event) {
    return event->slot * LOWER_N_RANKS + event->rank - LOWER_RANK_GATHER;
}

/* Some events are added when all slots are there. */
static bool sort_by_rank(lower_planner *p, cleave_arena *scratch) {
    int32_t n_places = p->slots.n * LOWER_N_RANKS;
    int32_t *next = CLEAVE_ARENA_ARRAY(scratch, int32_t, (size_t)n_places + 1);
    lower_event *copy = CLEAVE_ARENA_ARRAY(scratch, lower_event, p->events.n);
    if (next == NULL || copy == NULL)
        return false;
    for (int32_t e = 0; e < p->events.n; e++)
        next[place_of(&p->events.items[e]) + 1]++;
    for (int32_t i = 0; i < n_places; i++)
        next[i + 1] += next[i];
    if (p->events.n > 0)
        memcpy(copy, p->events.items, (size_t)p->events.n * sizeof *copy);
    for (int32_t e = 0; e < p->events.n; e++)
        p->events.items[next[place_of(&copy[e])]++] = copy[e];
    return true;
}

static void sort_by_family(const lower_planner *p, int32_t *next) {
    lower_schedule *s = p->schedule;
    for (int32_t e = 0; e < p->events.n; e++)
        s->first_event[s->family_of[p->events.items[e].tensor] + 1]++;
    for (int32_t f = 0; f < s->n_families; f++)
        s->first_event[f + 1] += s->first_event[f];
    for (int32_t e = 0; e < p->events.n; e++) {
        int32_t f = s->family_of[p->events.items[e].tensor];
        s->events[s->first_event[f] + next[f]++] = p->events.items[e];
    }
}

static void find_slots_of_nests(lower_schedule *s, int32_t n_nests) {
    for (int32_t n = 0; n < n_nests; n++)
        for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
            s->slot_of[n][pass] = -1;
    for (int32_t slot = 0; slot < s->n_slots; slot++)
        if (s->slots[slot].nest >= 0 && s->slots[slot].generation == 0)
            s->slot_of[s->slots[slot].nest][s->slots[slot].pass] = slot;
}

static void find_events_of_nests(lower_schedule *s, int32_t n_nests) {
    for (int32_t n = 0; n < n_nests; n++) {
        s->write[n] = s->read_gradient[n] = s->read_combined[n] = s->read_output[n] = -1;
        s->write_again[n] = s->write_statistics[n] = s->write_statistics_again[n] = -1;
        for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
            s->read[n][i] = s->write_gradient[n][i] = s->read_again[n][i] = s->read_back[n][0][i] =
                s->read_back[n][1][i] = -1;
    }
    for (int32_t e = 0; e < s->n_events; e++) {
        const lower_event *event = &s->events[e];
        switch (event->kind) {
        case LOWER_READ:
            if (s->slots[event->slot].pass != CLEAVE_PASS_FORWARD)
                s->read_back[event->nest][s->slots[event->slot].pass - 1][event->input] = e;
            else
                (event->again ? s->read_again : s->read)[event->nest][event->input] = e;
            break;
        case LOWER_WRITE:
            if (event->input < 0)
                (event->again ? s->write_again : s->write)[event->nest] = e;
            else
                (event->again ? s->write_statistics_again : s->write_statistics)[event->nest] = e;
            break;
        case LOWER_READ_GRADIENT:
            s->read_gradient[event->nest] = e;
            break;
        case LOWER_READ_COMBINED:
            (event->input < 0 ? s->read_combined : s->read_output)[event->nest] = e;
            break;
        case LOWER_WRITE_GRADIENT:
            s->write_gradient[event->nest][event->input] = e;
            break;
        case LOWER_READ_LOSS:
        case LOWER_READ_OUTPUT:
        case LOWER_GATHER:
        case LOWER_REDUCE:
        case LOWER_SETTLE:
        case LOWER_SET_OUT:
        case LOWER_NORM_BEGIN:
        case LOWER_NORM_ADD:
        case LOWER_NORM_END:
        case LOWER_UPDATE_EARLY:
        case LOWER_UPDATE:
        case LOWER_ASSIGN:
            break;
        }
    }
}

/* Puts a family among those listed for an operator, which ascend. */
static void touch(lower_schedule *s, int32_t op, int32_t family) {
    int32_t at = s->first_touched[op + 1];
    while (at > s->first_touched[op] && s->touched[at - 1] > family)
        at--;
    if (at > s->first_touched[op] && s->touched[at - 1] == family)
        return;
    memmove(&s->touched[at + 1], &s->touched[at],
            (size_t)(s->first_touched[op + 1] - at) * sizeof *s->touched);
    s->touched[at] = family;
    s->first_touched[op + 1]++;
}

/* Lists the families of an operator. */
static void touch_families(const cleave_model *model, lower_schedule *s, int32_t op) {
    s->first_touched[op + 1] = s->first_touched[op];
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++)
            touch(s, op, s->family_of[nest->inputs[i].tensor]);
        touch(s, op, s->family_of[nest->output.tensor]);
        touch(s, op, s->family_of[cleave_nest_combined(nest)->tensor]);
    }
}

bool lower_index_schedule(lower_planner *p, cleave_arena *arena) {
    cleave_arena scratch = {0};
    bool sorted = sort_by_rank(p, &scratch);
    cleave_arena_free(&scratch);
    if (!sorted)
        return false;
    const cleave_model *model = p->model;
    lower_schedule *s = p->schedule;
    size_t n_nests = (size_t)model->n_nests, n_families = (size_t)s->n_families, n_operands = 0;
    for (size_t n = 0; n < n_nests; n++)
        n_operands += (size_t)model->nests[n].n_inputs + 2;
    s->n_slots = p->slots.n;
    s->n_events = p->events.n;
    s->slots = CLEAVE_ARENA_ARRAY(arena, cleave_slot, s->n_slots);
    s->events = CLEAVE_ARENA_ARRAY(arena, lower_event, s->n_events);
    s->first_event = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families + 1);
    s->read = cleave_arena_alloc(arena, n_nests, sizeof *s->read);
    s->write_gradient = cleave_arena_alloc(arena, n_nests, sizeof *s->write_gradient);
    s->slot_of = cleave_arena_alloc(arena, n_nests, sizeof *s->slot_of);
    s->write = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_again = cleave_arena_alloc(arena, n_nests, sizeof *s->read_again);
    s->read_back = cleave_arena_alloc(arena, n_nests, sizeof *s->read_back);
    s->write_again = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->write_statistics = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->write_statistics_again = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_gradient = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_combined = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_output = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->first_touched = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)model->n_operators + 1);
    s->touched = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operands);
    int32_t *next = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families);
    if (s->slots == NULL || s->events == NULL || s->first_event == NULL || s->read == NULL ||
        s->write_gradient == NULL || s->read_again == NULL || s->read_back == NULL ||
        s->write_again == NULL || s->write_statistics == NULL ||
        s->write_statistics_again == NULL || s->slot_of == NULL || s->write == NULL ||
        s->read_gradient == NULL || s->read_combined == NULL || s->read_output == NULL ||
        s->first_touched == NULL || s->touched == NULL || next == NULL)
        return false;
    if (s->n_slots > 0)
        memcpy(s->slots, p->slots.items, (size_t)s->n_slots * sizeof *s->slots);
    sort_by_family(p, next);
    find_slots_of_nests(s, model->n_nests);
    find_events_of_nests(s, model->n_nests);
    for (int32_t op = 0; op < model->n_operators; op++)
        touch_families(model, s, op);
    return true;
}
