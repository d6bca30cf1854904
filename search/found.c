/* What a search has come to so far: the layouts that it was given and the best that it found. */
#include "search/session.h"

#include <string.h>

int32_t session_find_baseline(const char *method) {
    int32_t b = 0;
    while (b < CLEAVE_N_BASELINES &&
           (method == NULL || strcmp(cleave_baseline_names[b], method) != 0))
        b++;
    return b;
}

bool session_same_layout(const session *s, const cleave_layout *a, const cleave_layout *b) {
    for (int32_t op = 0; op < s->model->n_operators; op++)
        if (!cleave_split_same(&a->splits[op], &b->splits[op]) ||
            cleave_layout_recomputes(a, op) != cleave_layout_recomputes(b, op))
            return false;
    return memcmp(a->sharded, b->sharded, (size_t)s->model->n_tensors * sizeof *a->sharded) == 0 &&
           cleave_schedule_same(&a->schedule, &b->schedule);
}

bool session_knows_price(const session *s, const cleave_layout *layout, cleave_price *price) {
    for (int32_t g = 0; g < s->n_given; g++)
        if (session_same_layout(s, layout, s->given[g].layout)) {
            *price = s->given[g].price;
            return true;
        }
    for (int32_t i = 0; i < s->n_found; i++)
        if (session_same_layout(s, layout, &s->found[i].layout)) {
            *price = s->found[i].price;
            return true;
        }
    return false;
}

cleave_status session_add_found(session *s, const char *method, const cleave_layout *layout,
                                const cleave_price *price, cleave_error *error) {
    int32_t place = 0;
    for (int32_t g = 0; g < s->n_given; g++) {
        /* Of a baseline by another name than the one asked for, or where more is asked for than
           its name says, it is not the result. */
        const char *given = s->given[g].method;
        if (given != NULL && (session_searches(s) || strcmp(given, s->options->method) == 0) &&
            session_allows(s, s->given[g].layout) &&
            session_same_layout(s, layout, s->given[g].layout))
            return CLEAVE_OK;
    }
    for (int32_t i = 0; i < s->n_found; i++)
        if (session_same_layout(s, layout, &s->found[i].layout))
            return CLEAVE_OK;
    while (place < s->n_found && !cleave_price_better(price, &s->found[place].price))
        place++;
    if (place == SESSION_MAX_FOUND)
        return CLEAVE_OK;
    session_found found = {.method = method, .price = *price};
    CLEAVE_TRY(cleave_layout_keep(layout, s->model, &s->work, &found.layout, error));
    if (s->n_found < SESSION_MAX_FOUND)
        s->n_found++;
    for (int32_t i = s->n_found - 1; i > place; i--)
        s->found[i] = s->found[i - 1];
    s->found[place] = found;
    return CLEAVE_OK;
}

void session_mark_optimum(session *s, const cleave_layout *layout, bool is_local_optimum) {
    for (int32_t i = 0; i < s->n_found; i++)
        if (session_same_layout(s, layout, &s->found[i].layout))
            s->found[i].is_local_optimum = is_local_optimum;
    for (int32_t g = 0; g < s->n_given; g++)
        if (session_same_layout(s, layout, s->given[g].layout))
            s->given[g].is_local_optimum = is_local_optimum;
}

void session_note_grounds(session *s, const cleave_layout *layout,
                          const cleave_price_grounds *grounds) {
    for (int32_t i = 0; i < s->n_found; i++)
        if (session_same_layout(s, layout, &s->found[i].layout))
            s->found[i].grounds = *grounds;
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

static cleave_status price_anew(session *s, const cleave_layout *layout, cleave_price *price,
                                cleave_error *error) {
    const cleave_price_subject what = {.layout = layout, .view = CLEAVE_VIEW_FOLDED};
    cleave_status status = cleave_pricer_price(s->pricer, &what, NULL, price, error);
    cleave_arena_reset(&s->pricer->arena);
    return status;
}

cleave_status session_begin_stream(session *s, cleave_error *error) {
    for (int32_t i = 0; i < s->n_pricers && s->options->throughput; i++)
        s->pricers[i].is_stream = true;
    for (int32_t g = 0; g < s->n_given && s->options->throughput; g++) {
        session_given *given = &s->given[g];
        given->has_full = given->is_local_optimum = false;
        if (session_is_priced(given))
            CLEAVE_TRY(price_anew(s, given->layout, &given->price, error));
    }
    for (int32_t i = 0; i < s->n_found && s->options->throughput; i++) {
        s->found[i].is_local_optimum = false;
        CLEAVE_TRY(price_anew(s, &s->found[i].layout, &s->found[i].price, error));
    }
    session_sort_found(s);
    return CLEAVE_OK;
}
