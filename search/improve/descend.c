/* A descent on one size of windows: sweeps of changes of one group and of those that are alike,
   then runs of groups as the starts have them. */
#include "search/improve/window_internal.h"

#include "base/progress.h"

#include <string.h>

enum { MOST_SPLICE = 8, MOST_SWEEPS = 8 };

static double work_left(const window_search *s) {
    return s->options->most_wholes * s->whole_work -
           (double)cleave_window_pricer_work(s->window_pricer);
}

bool window_search_is_over(const window_search *s) {
    const cleave_window_options *o = s->options;
    return (o->interrupted != NULL && *o->interrupted != 0) ||
           (o->most_proposals > 0 && s->proposals >= o->most_proposals) ||
           (o->most_wholes > 0 && s->whole_work > 0 && work_left(s) < s->work_kept) ||
           (o->until_seconds > 0 && cleave_clock_seconds() > o->until_seconds);
}

bool window_price_is_better(const cleave_window_price *a, const cleave_window_price *b) {
    if (a->folds != b->folds)
        return a->folds;
    if (a->excess_bytes != b->excess_bytes)
        return a->excess_bytes < b->excess_bytes;
    return a->step < b->step;
}

/* Was a split tried with smaller windows? */
static bool is_old(const window_search *s, int32_t group, const cleave_candidate *candidate) {
    int outer = cleave_outer_axis(&s->pricer->model->operators[s->space.first_op[group]]);
    int32_t degree = outer < 0 ? candidate->replicas : candidate->degree[outer];
    return s->windows_before > 0 && degree % s->windows_before == 0;
}

/* Tries all splits for the groups of a move, and keeps the best. */
static cleave_status try_splits(window_search *s, bool *improved, cleave_error *error) {
    int32_t group = s->changed[0], before = s->choice[group], best = before;
    const cleave_candidate_list *list = cleave_window_list(&s->space, group);
    cleave_window_price least = s->price;
    for (int32_t i = 0; i < list->n && !window_search_is_over(s); i++) {
        cleave_window_price price;
        if (i == before || is_old(s, group, &list->items[i]))
            continue;
        for (int32_t k = 0; k < s->n_changed; k++)
            s->choice[s->changed[k]] = i;
        s->proposals++;
        CLEAVE_TRY(cleave_window_pricer_run(s->window_pricer, s->choice, false, &price, error));
        if (window_price_is_better(&price, &least)) {
            least = price;
            best = i;
        }
    }
    for (int32_t k = 0; k < s->n_changed; k++)
        s->choice[s->changed[k]] = best;
    if (best == before)
        return CLEAVE_OK;
    *improved = true;
    return cleave_window_pricer_run(s->window_pricer, s->choice, true, &s->price, error);
}

/* Elements of the parameters that a group's first operator reads. */
static int64_t parameters_of(const window_search *s, int32_t group) {
    const cleave_model *model = s->pricer->model;
    const cleave_operator *op = &model->operators[s->space.first_op[group]];
    int64_t elements = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model->nests[op->nests[i]];
        for (int j = 0; j < nest->n_inputs; j++) {
            int32_t tensor = nest->inputs[j].tensor;
            while (model->tensors[tensor].view.n_sources > 0)
                tensor = model->tensors[tensor].view.sources[0];
            const cleave_tensor *of = &model->tensors[tensor];
            int64_t size = of->kind == CLEAVE_TENSOR_PARAMETER ? 1 : 0;
            for (int d = 0; d < of->rank; d++)
                size *= of->shape[d];
            elements += size;
        }
    }
    return elements;
}

/* What is data parallel loses most where weights are large: those operators are changed first, and
   where not all can be tried, the others are not.  Ties stay in the order of the model. */
cleave_status window_make_order(window_search *s, cleave_error *error) {
    int32_t n = s->space.n_groups;
    int64_t *elements = CLEAVE_ARENA_ARRAY(&s->work, int64_t, n);
    s->order = CLEAVE_ARENA_ARRAY(&s->work, int32_t, n);
    if (elements == NULL || s->order == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t g = 0; g < n; g++) {
        int32_t place = g;
        elements[g] = parameters_of(s, g);
        for (; place > 0 && elements[s->order[place - 1]] < elements[g]; place--)
            s->order[place] = s->order[place - 1];
        s->order[place] = g;
    }
    return CLEAVE_OK;
}

/* Every group by itself, then all that are alike and split alike, as the products for queries, keys
   and values. */
static cleave_status sweep(window_search *s, bool *improved, cleave_error *error) {
    *improved = false;
    for (int32_t i = 0; i < s->space.n_groups && !window_search_is_over(s); i++) {
        int32_t g = s->order[i];
        s->changed[0] = g;
        s->n_changed = 1;
        CLEAVE_TRY(try_splits(s, improved, error));
        s->n_changed = 0;
        bool first = true;
        for (int32_t h = 0; h < s->space.n_groups; h++)
            if (cleave_window_list(&s->space, h) == cleave_window_list(&s->space, g) &&
                s->choice[h] == s->choice[g]) {
                first = first && h >= g;
                s->changed[s->n_changed++] = h;
            }
        if (first && s->n_changed > 1)
            CLEAVE_TRY(try_splits(s, improved, error));
    }
    return CLEAVE_OK;
}

/* Is a run of groups of a start new: other than as it is in more than one group, which has been
   tried, and than in the starts before? */
static bool is_new_run(const window_search *s, int32_t start, int32_t first, int32_t n) {
    const int32_t *run = s->starts[start] + first;
    size_t bytes = (size_t)n * sizeof *run;
    for (int32_t before = 0; before < start; before++)
        if (memcmp(run, s->starts[before] + first, bytes) == 0)
            return false;
    return run[0] != s->choice[first] && run[n - 1] != s->choice[first + n - 1];
}

/* Takes over runs of groups from the starts, such as two products of which the second undoes what
   the first one cuts. */
static cleave_status splice(window_search *s, bool *improved, cleave_error *error) {
    int32_t kept[MOST_SPLICE];
    for (int32_t n = 2; n <= MOST_SPLICE; n++)
        for (int32_t first = 0; first + n <= s->space.n_groups; first++)
            for (int32_t i = 0; i < s->n_starts && !window_search_is_over(s); i++) {
                cleave_window_price price;
                size_t bytes = (size_t)n * sizeof *kept;
                if (!is_new_run(s, i, first, n))
                    continue;
                memcpy(kept, s->choice + first, bytes);
                memcpy(s->choice + first, s->starts[i] + first, bytes);
                s->proposals++;
                CLEAVE_TRY(
                    cleave_window_pricer_run(s->window_pricer, s->choice, false, &price, error));
                if (window_price_is_better(&price, &s->price)) {
                    *improved = true;
                    CLEAVE_TRY(cleave_window_pricer_run(s->window_pricer, s->choice, true,
                                                        &s->price, error));
                } else {
                    memcpy(s->choice + first, kept, bytes);
                }
            }
    return CLEAVE_OK;
}

/* Where work is limited there is one sweep, with half of it: changes of larger windows promise more
   than going through the same ones again. */
cleave_status window_descend(window_search *s, cleave_error *error) {
    bool improved = s->price.folds, limited = s->options->most_wholes > 0;
    s->work_kept = limited ? work_left(s) / 2 : 0;
    for (int i = 0; i < (limited ? 1 : MOST_SWEEPS) && improved && !window_search_is_over(s); i++) {
        CLEAVE_TRY(sweep(s, &improved, error));
        if (!improved && !limited)
            CLEAVE_TRY(splice(s, &improved, error));
    }
    s->work_kept = 0;
    return CLEAVE_OK;
}
