/* Of a model with many equal blocks two short ones are priced, of n and n + 1 blocks: the whole one
   takes as much longer as its further blocks are, each for the difference.  That is what a step
   does in which what happens at the ends, and what the communication lane has not finished when the
   main lane has, reach over some blocks and not over all of them. */
#include "search/price/price_window.h"

#include <float.h>
#include <stdlib.h>

enum { KEPT_BLOCKS = 2, N_SUBJECTS = 2 };

/* A model that is priced in place of the whole one. */
typedef struct subject {
    cleave_model model;
    cleave_pricer pricer;
    int32_t *stands_for; /* [n_operators of the whole model] the one of this model */
    int32_t *of_whole;   /* [n_operators] and the first of those that it stands for */
    cleave_layout layout;
    cleave_estimate *estimate;
    cleave_arena arenas[2]; /* of the fold where it is, and of a proposal's */
    cleave_fold here, fold; /* `fold` is what the estimate looks at */
    int64_t step;           /* where it is */
    bool folds;             /* the proposal does, and costs: */
    int64_t proposed_step, peak_bytes;
} subject;

struct cleave_windows {
    const cleave_pricer *of;
    int32_t window_devices;
    cleave_arena arena;
    int n_subjects, n_priced;     /* of the proposal: the first so many */
    subject subjects[N_SUBJECTS]; /* the longest first */
    int64_t further_blocks;       /* of the whole model, beyond those of the last subject */
    int64_t work_before;          /* of estimates that are no more */
};

/* ---- life ------------------------------------------------------------------------------------ */

static cleave_status begin_subject(cleave_windows *w, subject *s, cleave_error *error) {
    w->n_subjects++;
    s->of_whole = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, s->model.n_operators);
    if (s->of_whole == NULL)
        return cleave_fail_memory(error, "pricing windows");
    for (int32_t op = w->of->model->n_operators - 1; op >= 0; op--)
        s->of_whole[s->stands_for[op]] = op;
    CLEAVE_TRY(
        cleave_layout_create(&s->model, w->of->machine->n_devices, &w->arena, &s->layout, error));
    return cleave_pricer_create(&s->model, w->of->machine, w->of->lower.optimizer_states, 0,
                                &s->pricer, error);
}

/* The whole model where it has few blocks, or where they are connected in other ways. */
static cleave_status make_subjects(cleave_windows *w, const cleave_blocks *blocks,
                                   cleave_error *error) {
    const cleave_model *model = w->of->model;
    bool shortens = blocks->n > KEPT_BLOCKS + N_SUBJECTS - 1;
    for (int i = 0; i < N_SUBJECTS; i++) {
        subject *s = &w->subjects[i];
        s->stands_for = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, model->n_operators);
        if (s->stands_for == NULL)
            return cleave_fail_memory(error, "pricing windows");
        if (!shortens)
            continue;
        int32_t keep = KEPT_BLOCKS + N_SUBJECTS - 1 - i;
        cleave_status status =
            cleave_blocks_shorten(model, blocks, keep, &w->arena, &s->model, s->stands_for, error);
        if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
            return status;
        shortens = status == CLEAVE_OK;
    }
    if (shortens)
        w->further_blocks = blocks->n - KEPT_BLOCKS;
    else
        w->subjects[0].model = *model;
    for (int32_t op = 0; op < model->n_operators && !shortens; op++)
        w->subjects[0].stands_for[op] = op;
    for (int i = 0; i < (shortens ? N_SUBJECTS : 1); i++)
        CLEAVE_TRY(begin_subject(w, &w->subjects[i], error));
    return CLEAVE_OK;
}

cleave_status cleave_windows_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                    cleave_windows **windows, cleave_error *error) {
    cleave_windows *w = calloc(1, sizeof *w);
    if (w == NULL)
        return cleave_fail_memory(error, "pricing windows");
    w->of = pricer;
    cleave_status status = make_subjects(w, blocks, error);
    if (status != CLEAVE_OK) {
        cleave_windows_destroy(w);
        return status;
    }
    *windows = w;
    return CLEAVE_OK;
}

void cleave_windows_destroy(cleave_windows *w) {
    if (w == NULL)
        return;
    for (int i = 0; i < w->n_subjects; i++) {
        cleave_estimate_destroy(w->subjects[i].estimate);
        cleave_pricer_destroy(&w->subjects[i].pricer);
        cleave_arena_free(&w->subjects[i].arenas[0]);
        cleave_arena_free(&w->subjects[i].arenas[1]);
    }
    cleave_arena_free(&w->arena);
    free(w);
}

/* ---- one model ------------------------------------------------------------------------------- */

/* The fold of the layout as it stands, with windows of that size. */
static cleave_status find_fold(const cleave_windows *w, subject *s, cleave_arena *arena,
                               cleave_fold *fold, cleave_error *error) {
    cleave_arena_reset(arena);
    return cleave_fold_find(&s->model, &s->layout, w->window_devices, arena, fold, error);
}

static int64_t peak_of(const cleave_windows *w, const subject *s) {
    int64_t own_bytes = cleave_estimate_own_bytes(s->estimate), peak = 0;
    for (int32_t d = 0; d < w->window_devices; d++) {
        int64_t bytes = cleave_estimate_live_bytes(s->estimate, d) +
                        cleave_machine_runtime_bytes(w->of->machine, d, own_bytes);
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

static int64_t work_of(const subject *s) {
    return s->estimate != NULL ? cleave_estimate_count(s->estimate).bytes : 0;
}

int64_t cleave_windows_work(const cleave_windows *w) {
    int64_t work = w->work_before;
    for (int i = 0; i < w->n_subjects; i++)
        work += work_of(&w->subjects[i]);
    return work;
}

static cleave_status stay(subject *s, cleave_error *error) {
    cleave_arena free_one = s->arenas[0];
    s->arenas[0] = s->arenas[1];
    s->arenas[1] = free_one;
    s->here = s->fold;
    s->step = s->proposed_step;
    return cleave_estimate_accept(s->estimate, error);
}

static cleave_status run(const cleave_windows *w, subject *s, cleave_error *error) {
    CLEAVE_TRY(cleave_estimate_run(s->estimate, &s->proposed_step, error));
    s->peak_bytes = peak_of(w, s);
    s->folds = true;
    return CLEAVE_OK;
}

static cleave_status begin_estimate(cleave_windows *w, subject *s, const cleave_layout *layout,
                                    cleave_error *error) {
    w->work_before += work_of(s);
    cleave_estimate_destroy(s->estimate);
    s->estimate = NULL;
    s->layout.collectives = layout->collectives;
    for (int32_t op = 0; op < s->model.n_operators; op++)
        s->layout.splits[op] = layout->splits[s->of_whole[op]];
    CLEAVE_TRY(find_fold(w, s, &s->arenas[1], &s->fold, error));
    CLEAVE_TRY(cleave_estimate_create_window(&s->model, &s->fold, &s->pricer.lower, s->pricer.cache,
                                             &s->estimate, error));
    CLEAVE_TRY(run(w, s, error));
    return stay(s, error);
}

/* Gives the operators that have changed the splits of the layout; and proposes them. */
static cleave_status take_splits(const cleave_windows *w, subject *s,
                                 const cleave_window_change *change, bool proposes,
                                 cleave_error *error) {
    for (int32_t i = 0; i < change->n; i++) {
        int32_t whole = change->operators[i], op = s->stands_for[whole];
        if (s->of_whole[op] != whole)
            continue;
        cleave_split split = s->layout.splits[op] = change->layout->splits[whole];
        split.n_parts = w->window_devices;
        if (proposes)
            CLEAVE_TRY(cleave_estimate_change(s->estimate, op, &split, error));
    }
    return CLEAVE_OK;
}

static cleave_status price_subject(const cleave_windows *w, subject *s,
                                   const cleave_window_change *change, cleave_error *error) {
    s->folds = false;
    CLEAVE_TRY(take_splits(w, s, change, true, error));
    cleave_status status = find_fold(w, s, &s->arenas[1], &s->fold, error);
    if (status == CLEAVE_OK)
        status = run(w, s, error);
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

/* Back from a proposal that was run, or that does not fold. */
static cleave_status go_back(const cleave_windows *w, subject *s,
                             const cleave_window_change *change, cleave_error *error) {
    int64_t step;
    s->fold = s->here;
    CLEAVE_TRY(take_splits(w, s, change, !s->folds, error));
    if (s->folds)
        return cleave_estimate_reject(s->estimate, error);
    CLEAVE_TRY(cleave_estimate_run(s->estimate, &step, error));
    return cleave_estimate_accept(s->estimate, error);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* The devices of a window are of the kinds of all others. */
static int64_t memory_limit(const cleave_pricer *pricer) {
    int64_t least = pricer->memory_limit_bytes;
    for (int32_t k = 0; k < pricer->machine->n_kinds && pricer->memory_limit_bytes <= 0; k++)
        if (k == 0 || pricer->machine->kinds[k].memory_bytes < least)
            least = pricer->machine->kinds[k].memory_bytes;
    return least;
}

/* The whole model's: as many more times the difference as it has further blocks. */
static cleave_price extrapolate(const cleave_windows *w) {
    const subject *longest = &w->subjects[0], *last = &w->subjects[w->n_subjects - 1];
    int64_t more = w->further_blocks, limit = memory_limit(w->of);
    cleave_price price = {
        .step = last->proposed_step + more * (longest->proposed_step - last->proposed_step),
        .peak_bytes = last->peak_bytes + more * (longest->peak_bytes - last->peak_bytes)};
    if (price.peak_bytes > limit) {
        price.excess_bytes = price.peak_bytes - limit;
        price.over = (double)price.excess_bytes;
    }
    return price;
}

cleave_status cleave_windows_begin(cleave_windows *w, const cleave_layout *layout,
                                   int32_t window_devices, cleave_price *price,
                                   cleave_error *error) {
    w->window_devices = window_devices;
    for (int i = 0; i < w->n_subjects; i++)
        CLEAVE_TRY(begin_estimate(w, &w->subjects[i], layout, error));
    *price = extrapolate(w);
    return CLEAVE_OK;
}

cleave_status cleave_windows_price(cleave_windows *w, const cleave_window_change *change,
                                   bool screens, cleave_price *price, cleave_error *error) {
    for (w->n_priced = 0; w->n_priced < w->n_subjects;) {
        subject *s = &w->subjects[w->n_priced++];
        CLEAVE_TRY(price_subject(w, s, change, error));
        bool is_screened = screens && s == w->subjects && s->proposed_step >= s->step;
        if (!s->folds)
            *price = (cleave_price){.excess_bytes = INT64_MAX, .over = DBL_MAX};
        else if (is_screened)
            *price = (cleave_price){.step = INT64_MAX};
        if (!s->folds || is_screened)
            return CLEAVE_OK;
    }
    *price = extrapolate(w);
    return CLEAVE_OK;
}

cleave_status cleave_windows_accept(cleave_windows *w, cleave_error *error) {
    for (int i = 0; i < w->n_subjects; i++)
        CLEAVE_TRY(stay(&w->subjects[i], error));
    return CLEAVE_OK;
}

cleave_status cleave_windows_reject(cleave_windows *w, const cleave_window_change *change,
                                    cleave_error *error) {
    for (int i = 0; i < w->n_priced; i++)
        CLEAVE_TRY(go_back(w, &w->subjects[i], change, error));
    return CLEAVE_OK;
}
