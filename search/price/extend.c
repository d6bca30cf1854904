/* Items are told apart by their places in the runs of their blocks; a message is found by the item
   that sends it, and a collective by the first that joins it. */
#include "search/price/extend.h"

#include "search/price/extend_internal.h"

#include <string.h>

/* ---- references ------------------------------------------------------------------------------ */

bool extend_refer(const extender *e, int32_t block, extend_target target,
                  extend_reference *reference) {
    int32_t middle = e->by->middle, item = target.item, of = e->block[item];
    extend_reference made = {.end = item};
    if (block != middle) {
        made.copy = of == middle && block == middle + 1 ? e->by->more : 0;
        *reference = made;
        return of != middle || block == middle - 1 || block == middle + 1;
    }
    if (target.next == item && target.before == item) {
        *reference = made;
        return of != middle;
    }
    made.inner = item;
    if (of == middle && e->twin[item] == target.next && e->before[item] == target.before) {
        made.relation = EXTEND_WITHIN;
    } else if (of == middle - 1 && e->twin[item] == target.next) {
        made.relation = EXTEND_BEFORE;
        made.inner = target.next;
    } else if (of == middle + 1 && e->before[item] == target.before) {
        made.relation = EXTEND_AFTER;
        made.inner = target.before;
    } else {
        return false;
    }
    *reference = made;
    return true;
}

int32_t extend_resolve(const extender *e, const extend_reference *reference, int32_t copy,
                       int32_t *of_copy) {
    bool first = copy == 0, last = copy == e->by->more;
    switch (reference->relation) {
    case EXTEND_FIXED:
        *of_copy = reference->copy;
        return reference->end;
    case EXTEND_WITHIN:
        *of_copy = copy;
        return reference->inner;
    case EXTEND_BEFORE:
        *of_copy = first ? 0 : copy - 1;
        return first ? reference->end : reference->inner;
    default:
        *of_copy = last ? 0 : copy + 1;
        return last ? reference->end : reference->inner;
    }
}

bool extend_count(const extender *e, int32_t n, int32_t middle, int32_t *extended) {
    int64_t total = n + (int64_t)middle * e->by->more;
    *extended = (int32_t)total;
    return total <= INT32_MAX;
}

cleave_status extend_too_large(const extender *e) {
    return cleave_fail(e->error, CLEAVE_FAILED, "the program has more than 2^31 items");
}

cleave_status extend_short_of_memory(const extender *e) {
    return cleave_fail_memory(e->error, "repeating blocks");
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Items of one block, one after the other. */
typedef struct run {
    int32_t block, first, n;
} run;

typedef struct run_list {
    int32_t n;
    run *items;
} run_list;

static bool list_runs(const extender *e, run_list *runs) {
    int32_t n_items = e->by->program->n_items;
    runs->n = 0;
    runs->items = CLEAVE_ARENA_ARRAY(e->arena, run, n_items);
    for (int32_t i = 0; i < n_items && runs->items != NULL; i++)
        if (i == 0 || e->block[i] != e->block[i - 1])
            runs->items[runs->n++] = (run){e->block[i], i, 1};
        else
            runs->items[runs->n - 1].n++;
    return runs->items != NULL;
}

static void make_twins(extender *e, const run *from, const run *to) {
    for (int32_t k = 0; k < from->n; k++) {
        e->twin[from->first + k] = to->first + k;
        e->before[to->first + k] = from->first + k;
    }
}

/* Every run of the middle stands between one of the block before it and one of the block after it,
   and all three are as long. */
static bool match_runs(extender *e, const run_list *runs) {
    int32_t middle = e->by->middle, seen[3] = {0};
    for (int32_t r = 0; r < runs->n; r++) {
        const run *of = &runs->items[r];
        for (int k = 0; k < 3; k++)
            seen[k] += of->block == middle - 1 + k;
        if (of->block != middle)
            continue;
        if (r == 0 || r + 1 == runs->n)
            return false;
        bool ascends = of[-1].block == middle - 1;
        const run *early = ascends ? of - 1 : of + 1, *late = ascends ? of + 1 : of - 1;
        if (early->block != middle - 1 || late->block != middle + 1 || early->n != of->n ||
            late->n != of->n)
            return false;
        make_twins(e, early, of);
        make_twins(e, of, late);
    }
    return seen[1] > 0 && seen[0] == seen[1] && seen[2] == seen[1];
}

static bool place_items(extender *e, const run_list *runs) {
    int64_t place = 0;
    for (int32_t r = 0; r < runs->n; r++) {
        const run *of = &runs->items[r];
        bool repeats = of->block == e->by->middle;
        bool ascends = repeats && of[-1].block == e->by->middle - 1;
        int32_t copies = repeats ? e->by->more + 1 : 1;
        if (place + (int64_t)copies * of->n > INT32_MAX)
            return false;
        for (int32_t k = 0; k < of->n; k++) {
            int32_t later = repeats && !ascends ? e->by->more * of->n : 0;
            e->place[of->first + k] = (int32_t)place + later + k;
            e->step[of->first + k] = !repeats ? 0 : ascends ? of->n : -of->n;
        }
        place += (int64_t)copies * of->n;
    }
    e->n_items = (int32_t)place;
    return true;
}

static cleave_status find_runs(extender *e, bool *alike) {
    const cleave_program *program = e->by->program;
    run_list runs;
    e->block = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_items);
    e->twin = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_items);
    e->before = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_items);
    e->place = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_items);
    e->step = CLEAVE_ARENA_ARRAY(e->arena, int32_t, program->n_items);
    if (e->block == NULL || e->twin == NULL || e->before == NULL || e->place == NULL ||
        e->step == NULL)
        return extend_short_of_memory(e);
    for (int32_t i = 0; i < program->n_items; i++) {
        e->block[i] = e->by->block_of_slot[program->items[i].slot];
        e->twin[i] = e->before[i] = -1;
    }
    if (!list_runs(e, &runs))
        return extend_short_of_memory(e);
    *alike = match_runs(e, &runs);
    return !*alike || place_items(e, &runs) ? CLEAVE_OK : extend_too_large(e);
}

/* ---- items ----------------------------------------------------------------------------------- */

static bool same_hops(const cleave_priced_fragment *step, int32_t a, int32_t b) {
    int32_t n = step->hop_start[a + 1] - step->hop_start[a];
    if (step->hop_start[b + 1] - step->hop_start[b] != n)
        return false;
    if (step->ends != NULL && memcmp(&step->ends[a], &step->ends[b], sizeof *step->ends) != 0)
        return false;
    for (int32_t h = 0; h < n; h++) {
        int32_t x = step->hop_start[a] + h, y = step->hop_start[b] + h;
        if (step->hop_link[x] != step->hop_link[y] ||
            step->hop_serialization[x] != step->hop_serialization[y])
            return false;
    }
    return true;
}

static bool same_collectives(const extender *e, int32_t a, int32_t b) {
    const cleave_priced_fragment *step = &e->by->problem->step;
    const int32_t *start = step->collective_link_start;
    int32_t n = start[a + 1] - start[a];
    return e->by->program->collectives[a].bytes == e->by->program->collectives[b].bytes &&
           step->collective_joins[a] == step->collective_joins[b] &&
           step->collective_busy[a] == step->collective_busy[b] &&
           step->collective_rest[a] == step->collective_rest[b] && start[b + 1] - start[b] == n &&
           (n == 0 || memcmp(step->collective_links + start[a], step->collective_links + start[b],
                             (size_t)n * sizeof *start) == 0);
}

/* Two items in the same place of two blocks. */
static bool same_item(const extender *e, int32_t a, int32_t b) {
    const cleave_priced_fragment *step = &e->by->problem->step;
    const cleave_program *program = e->by->program;
    if (step->kind[a] != step->kind[b] || step->queue[a] != step->queue[b] ||
        step->duration[a] != step->duration[b] || program->items[a].kind != program->items[b].kind)
        return false;
    if (program->items[a].kind == CLEAVE_ITEM_COPY)
        return program->copies[program->items[a].subject].n_pieces ==
               program->copies[program->items[b].subject].n_pieces;
    int32_t x = step->subject[a], y = step->subject[b];
    if (program->items[a].kind == CLEAVE_ITEM_SEND)
        return program->messages[x].bytes == program->messages[y].bytes && same_hops(step, x, y);
    return step->kind[a] != CLEAVE_PRICED_JOIN || same_collectives(e, x, y);
}

/* The subject of a copy of an item. */
static int32_t subject_of(const extender *e, const extend_subjects *s, int32_t item,
                          const extend_reference *reference, int32_t copy) {
    int32_t of_copy, to = extend_resolve(e, reference, copy, &of_copy);
    switch ((cleave_priced_kind)e->by->problem->step.kind[item]) {
    case CLEAVE_PRICED_SYNC:
        return extend_place(e, to, of_copy);
    case CLEAVE_PRICED_JOIN:
    case CLEAVE_PRICED_AWAIT:
        return s->combined[e->by->problem->step.subject[to]] + of_copy;
    default:
        return s->message[e->by->problem->step.subject[to]] + of_copy;
    }
}

static bool extend_item(extender *e, const extend_subjects *s, int32_t item) {
    const cleave_priced_fragment *old = &e->by->problem->step;
    bool repeats = e->block[item] == e->by->middle, refers = extend_item_refers_to(e, s, item) >= 0;
    int32_t next = e->twin[item], before = e->before[item];
    extend_reference reference = {.relation = EXTEND_FIXED};
    extend_target target = {.item = extend_item_refers_to(e, s, item), .next = -1, .before = -1};
    if (repeats && (!same_item(e, item, next) || !same_item(e, item, before)))
        return false;
    if (repeats && refers) {
        target.next = extend_item_refers_to(e, s, next);
        target.before = extend_item_refers_to(e, s, before);
    }
    if (refers && !extend_refer(e, e->block[item], target, &reference))
        return false;
    for (int32_t copy = 0; copy < extend_copies(e, item); copy++) {
        int32_t at = extend_place(e, item, copy);
        e->origin[at] = item;
        e->problem->step.kind[at] = old->kind[item];
        e->problem->step.queue[at] = old->queue[item];
        e->problem->step.duration[at] = old->duration[item];
        e->problem->step.subject[at] = refers ? subject_of(e, s, item, &reference, copy) : -1;
    }
    return true;
}

static cleave_status extend_items(extender *e, const extend_subjects *s, bool *alike) {
    cleave_priced_fragment *made = &e->problem->step;
    made->n_items = e->n_items;
    e->origin = CLEAVE_ARENA_ARRAY(e->arena, int32_t, e->n_items);
    made->kind = CLEAVE_ARENA_ARRAY(e->arena, uint8_t, e->n_items);
    made->queue = CLEAVE_ARENA_ARRAY(e->arena, int32_t, e->n_items);
    made->subject = CLEAVE_ARENA_ARRAY(e->arena, int32_t, e->n_items);
    made->duration = CLEAVE_ARENA_ARRAY(e->arena, int64_t, e->n_items);
    if (e->origin == NULL || made->kind == NULL || made->queue == NULL || made->subject == NULL ||
        made->duration == NULL)
        return extend_short_of_memory(e);
    *alike = true;
    for (int32_t i = 0; i < e->by->program->n_items && *alike; i++)
        *alike = extend_item(e, s, i);
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static cleave_status extend_counts(extender *e) {
    const cleave_program *from = e->by->program;
    cleave_program *made = e->program;
    int32_t of_kind[CLEAVE_ITEM_AWAIT + 1] = {0}, slots = 0, pieces = 0, held = 0;
    int32_t middle = e->by->middle;
    for (int32_t i = 0; i < from->n_items; i++) {
        if (e->block[i] != middle)
            continue;
        of_kind[from->items[i].kind]++;
        if (from->items[i].kind == CLEAVE_ITEM_COPY)
            pieces += from->copies[from->items[i].subject].n_pieces;
    }
    for (int32_t slot = 0; slot < from->n_slots; slot++)
        slots += e->by->block_of_slot[slot] == middle;
    for (int32_t h = 0; h < from->n_held; h++)
        held += e->by->block_of_tensor[from->held[h].tensor] == middle;
    made->n_items = e->n_items;
    if (!extend_count(e, from->n_slots, slots, &made->n_slots) ||
        !extend_count(e, from->n_computes, of_kind[CLEAVE_ITEM_COMPUTE], &made->n_computes) ||
        !extend_count(e, from->n_updates, of_kind[CLEAVE_ITEM_UPDATE], &made->n_updates) ||
        !extend_count(e, from->n_loads, of_kind[CLEAVE_ITEM_LOAD], &made->n_loads) ||
        !extend_count(e, from->n_copies, of_kind[CLEAVE_ITEM_COPY], &made->n_copies) ||
        !extend_count(e, from->n_copy_pieces, pieces, &made->n_copy_pieces) ||
        !extend_count(e, from->n_held, held, &made->n_held))
        return extend_too_large(e);
    return CLEAVE_OK;
}

static cleave_status extend_all(extender *e, bool *alike) {
    extend_subjects s;
    CLEAVE_TRY(find_runs(e, alike));
    if (!*alike)
        return CLEAVE_OK;
    CLEAVE_TRY(extend_find_subjects(e, &s));
    CLEAVE_TRY(extend_items(e, &s, alike));
    if (!*alike)
        return CLEAVE_OK;
    CLEAVE_TRY(extend_messages(e, &s));
    CLEAVE_TRY(extend_collectives(e, &s));
    CLEAVE_TRY(extend_counts(e));
    CLEAVE_TRY(extend_buffers(e, alike));
    return *alike ? cleave_engine_finish(e->problem, e->arena, e->error) : CLEAVE_OK;
}

cleave_status cleave_program_extend(const cleave_extension *by, cleave_arena *arena, bool *alike,
                                    cleave_extended *extended, cleave_error *error) {
    cleave_extended made = {.program = {.model = by->program->model,
                                        .n_devices = by->program->n_devices,
                                        .n_windows = by->program->n_windows,
                                        .n_groups = by->program->n_groups,
                                        .windows_outermost = by->program->windows_outermost,
                                        .training = by->program->training,
                                        .symbolic = by->program->symbolic},
                            .problem = {.n_queues = by->problem->n_queues,
                                        .n_links = by->problem->n_links,
                                        .link_latency = by->problem->link_latency}};
    extender e = {.by = by,
                  .arena = arena,
                  .error = error,
                  .program = &made.program,
                  .problem = &made.problem};
    bool are_alike = false;
    CLEAVE_TRY(extend_all(&e, &are_alike));
    made.origin = e.origin;
    *alike = are_alike;
    if (are_alike)
        *extended = made;
    return CLEAVE_OK;
}
