/* What a search has come to so far: the layouts that it was given and the best that it found. */
#include "search/session.h"

#include <string.h>

cleave_status session_copy_layout(const session *s, const cleave_layout *layout,
                                  cleave_arena *arena, cleave_layout *copy, cleave_error *error) {
    cleave_layout made = *layout;
    const int32_t *before = NULL, *shared = NULL;
    int32_t n_before = 0;
    made.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, layout->n_operators);
    made.sharded = CLEAVE_ARENA_ARRAY(arena, bool, s->model->n_tensors);
    made.recompute = CLEAVE_ARENA_ARRAY(arena, bool, layout->n_operators);
    if (made.splits == NULL || made.sharded == NULL || made.recompute == NULL)
        return cleave_fail_memory(error, "searching");
    memcpy(made.recompute, layout->recompute, (size_t)layout->n_operators * sizeof *made.recompute);
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        size_t bytes = (size_t)split->n_parts * sizeof *split->devices;
        if (before == NULL || split->n_parts > n_before ||
            memcmp(before, split->devices, bytes) != 0) {
            int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
            if (devices == NULL)
                return cleave_fail_memory(error, "searching");
            memcpy(devices, split->devices, bytes);
            before = split->devices;
            n_before = split->n_parts;
            shared = devices;
        }
        made.splits[op] = *split;
        made.splits[op].devices = (int32_t *)(uintptr_t)shared;
    }
    memcpy(made.sharded, layout->sharded, (size_t)s->model->n_tensors * sizeof *made.sharded);
    CLEAVE_TRY(cleave_collective_rules_copy(&layout->collectives, arena, &made.collectives, error));
    CLEAVE_TRY(cleave_schedule_copy(&layout->schedule, arena, &made.schedule, error));
    *copy = made;
    return CLEAVE_OK;
}

static bool same_layout(const cleave_model *model, const cleave_layout *a, const cleave_layout *b) {
    for (int32_t op = 0; op < model->n_operators; op++)
        if (!cleave_split_same(&a->splits[op], &b->splits[op]))
            return false;
    return memcmp(a->sharded, b->sharded, (size_t)model->n_tensors * sizeof *a->sharded) == 0 &&
           memcmp(a->recompute, b->recompute, (size_t)a->n_operators * sizeof *a->recompute) == 0 &&
           cleave_schedule_same(&a->schedule, &b->schedule);
}

bool session_knows_price(const session *s, const cleave_layout *layout, cleave_price *price) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (same_layout(s->model, layout, s->given[g].layout)) {
            *price = s->given[g].price;
            return true;
        }
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout)) {
            *price = s->found[i].price;
            return true;
        }
    return false;
}

cleave_status session_add_found(session *s, const char *method, const cleave_layout *layout,
                                const cleave_price *price, cleave_error *error) {
    int32_t place = 0;
    for (int32_t g = 0; g < s->n_given; g++)
        if (s->given[g].method != NULL && same_layout(s->model, layout, s->given[g].layout))
            return CLEAVE_OK;
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout))
            return CLEAVE_OK;
    while (place < s->n_found && !cleave_price_better(price, &s->found[place].price))
        place++;
    if (place == SESSION_MAX_FOUND)
        return CLEAVE_OK;
    session_found found = {.method = method, .price = *price};
    CLEAVE_TRY(session_copy_layout(s, layout, &s->work, &found.layout, error));
    if (s->n_found < SESSION_MAX_FOUND)
        s->n_found++;
    for (int32_t i = s->n_found - 1; i > place; i--)
        s->found[i] = s->found[i - 1];
    s->found[place] = found;
    return CLEAVE_OK;
}

void session_mark_optimum(session *s, const cleave_layout *layout, bool is_local_optimum) {
    for (int32_t i = 0; i < s->n_found; i++)
        if (same_layout(s->model, layout, &s->found[i].layout))
            s->found[i].is_local_optimum = is_local_optimum;
    for (int32_t g = 0; g < s->n_given; g++)
        if (same_layout(s->model, layout, s->given[g].layout))
            s->given[g].is_local_optimum = is_local_optimum;
}

void session_sort_found(session *s) {
    for (int32_t i = 1; i < s->n_found; i++)
        for (int32_t k = i;
             k > 0 && cleave_price_better(&s->found[k].price, &s->found[k - 1].price); k--) {
            session_found other = s->found[k];
            s->found[k] = s->found[k - 1];
            s->found[k - 1] = other;
        }
}
