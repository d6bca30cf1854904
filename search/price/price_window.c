/* Of a model with many equal blocks two short ones are priced, of n and n + 1 blocks: the whole one
   takes as much longer as its further blocks are, each for the difference.  That is what a step
   does in which what happens at the ends, and what the communication lane has not finished when the
   main lane has, reach over some blocks and not over all of them. */
#include "search/price/price_window.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_BLOCKS = 2, N_SUBJECTS = 2 };

/* A model that is priced in place of the whole one. */
typedef struct subject {
    cleave_model model;
    cleave_pricer pricer;
    int32_t *of_whole; /* [n_operators] an operator of the whole model that it stands for */
    cleave_layout layout;
    cleave_estimate *estimate;
    cleave_arena arenas[2]; /* of the fold where it is, and of a proposal's */
    cleave_fold here, fold; /* `fold` is what the estimate looks at */
    int64_t step;           /* where it is */
} subject;

/* What a model costs by itself. */
typedef struct subject_price {
    bool folds;
    int64_t step, peak_bytes;
} subject_price;

struct cleave_window_pricer {
    const cleave_pricer *of;
    const cleave_collective_rules *rules;
    const cleave_window_space *space;
    int32_t *choice; /* [n_groups] where it is */
    cleave_arena arena;
    int n_subjects;
    subject subjects[N_SUBJECTS]; /* the longest first */
    int64_t further_blocks;       /* of the whole model, beyond those of the last subject */
    cleave_window_price here;
    int64_t work_before; /* of estimates that are no more */
};

/* ---- life ------------------------------------------------------------------------------------ */

static cleave_status begin_subject(cleave_window_pricer *p, const int32_t *stands_for, subject *s,
                                   cleave_error *error) {
    p->n_subjects++;
    s->of_whole = CLEAVE_ARENA_ARRAY(&p->arena, int32_t, s->model.n_operators);
    if (s->of_whole == NULL)
        return cleave_fail_memory(error, "pricing windows");
    for (int32_t op = p->of->model->n_operators - 1; op >= 0; op--)
        s->of_whole[stands_for == NULL ? op : stands_for[op]] = op;
    CLEAVE_TRY(
        cleave_layout_create(&s->model, p->of->machine->n_devices, &p->arena, &s->layout, error));
    s->layout.collectives = *p->rules;
    return cleave_pricer_create(&s->model, p->of->machine, p->of->lower.optimizer_states, 0,
                                &s->pricer, error);
}

/* The whole model where it has few blocks, or where they are connected in other ways. */
static cleave_status make_subjects(cleave_window_pricer *p, const cleave_blocks *blocks,
                                   cleave_error *error) {
    const cleave_model *model = p->of->model;
    int32_t *stands_for[N_SUBJECTS];
    bool shortens = blocks->n > KEPT_BLOCKS + N_SUBJECTS - 1;
    for (int i = 0; i < N_SUBJECTS && shortens; i++) {
        stands_for[i] = CLEAVE_ARENA_ARRAY(&p->arena, int32_t, model->n_operators);
        if (stands_for[i] == NULL)
            return cleave_fail_memory(error, "pricing windows");
        int32_t keep = KEPT_BLOCKS + N_SUBJECTS - 1 - i;
        cleave_status status = cleave_blocks_shorten(model, blocks, keep, &p->arena,
                                                     &p->subjects[i].model, stands_for[i], error);
        if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
            return status;
        shortens = status == CLEAVE_OK;
    }
    if (shortens)
        p->further_blocks = blocks->n - KEPT_BLOCKS;
    else
        p->subjects[0].model = *model;
    for (int i = 0; i < (shortens ? N_SUBJECTS : 1); i++)
        CLEAVE_TRY(begin_subject(p, shortens ? stands_for[i] : NULL, &p->subjects[i], error));
    return CLEAVE_OK;
}

cleave_status cleave_window_pricer_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                          const cleave_collective_rules *rules,
                                          cleave_window_pricer **made, cleave_error *error) {
    cleave_window_pricer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return cleave_fail_memory(error, "pricing windows");
    p->of = pricer;
    p->rules = rules;
    cleave_status status = make_subjects(p, blocks, error);
    if (status != CLEAVE_OK) {
        cleave_window_pricer_destroy(p);
        return status;
    }
    *made = p;
    return CLEAVE_OK;
}

void cleave_window_pricer_destroy(cleave_window_pricer *p) {
    if (p == NULL)
        return;
    for (int i = 0; i < p->n_subjects; i++) {
        cleave_estimate_destroy(p->subjects[i].estimate);
        cleave_pricer_destroy(&p->subjects[i].pricer);
        cleave_arena_free(&p->subjects[i].arenas[0]);
        cleave_arena_free(&p->subjects[i].arenas[1]);
    }
    cleave_arena_free(&p->arena);
    free(p);
}

/* ---- one model ------------------------------------------------------------------------------- */

static cleave_split split_of(const cleave_window_pricer *p, const subject *s, int32_t op,
                             const int32_t *choice) {
    return cleave_window_split(p->space, s->of_whole[op], choice);
}

/* The fold of the layout as it stands, with windows of the space's size. */
static cleave_status find_fold(const cleave_window_pricer *p, subject *s, cleave_arena *arena,
                               cleave_fold *fold, cleave_error *error) {
    cleave_arena_reset(arena);
    return cleave_fold_find(&s->model, &s->layout, p->space->window_devices, arena, fold, error);
}

static int64_t peak_of(const cleave_window_pricer *p, const subject *s) {
    int64_t own_bytes = cleave_estimate_own_bytes(s->estimate), peak = 0;
    for (int32_t d = 0; d < p->space->window_devices; d++) {
        int64_t bytes = cleave_estimate_live_bytes(s->estimate, d) +
                        cleave_machine_runtime_bytes(p->of->machine, d, own_bytes);
        peak = bytes > peak ? bytes : peak;
    }
    return peak;
}

static int64_t work_of(const subject *s) {
    return s->estimate != NULL ? cleave_estimate_count(s->estimate).bytes : 0;
}

int64_t cleave_window_pricer_work(const cleave_window_pricer *p) {
    int64_t work = p->work_before;
    for (int i = 0; i < p->n_subjects; i++)
        work += work_of(&p->subjects[i]);
    return work;
}

static cleave_status begin_estimate(cleave_window_pricer *p, subject *s, const int32_t *choice,
                                    subject_price *price, cleave_error *error) {
    p->work_before += work_of(s);
    cleave_estimate_destroy(s->estimate);
    s->estimate = NULL;
    *price = (subject_price){0};
    for (int32_t op = 0; op < s->model.n_operators; op++)
        s->layout.splits[op] = split_of(p, s, op, choice);
    cleave_status status = find_fold(p, s, &s->arenas[0], &s->here, error);
    s->fold = s->here;
    if (status == CLEAVE_OK)
        status = cleave_estimate_create_window(&s->model, &s->fold, &s->pricer.lower,
                                               s->pricer.cache, &s->estimate, error);
    if (status == CLEAVE_NO_LAYOUT)
        return CLEAVE_OK;
    CLEAVE_TRY(status);
    CLEAVE_TRY(cleave_estimate_run(s->estimate, &price->step, error));
    CLEAVE_TRY(cleave_estimate_accept(s->estimate, error));
    price->peak_bytes = peak_of(p, s);
    price->folds = true;
    return CLEAVE_OK;
}

static cleave_status change(const cleave_window_pricer *p, subject *s, int32_t op,
                            cleave_split split, cleave_error *error) {
    s->layout.splits[op] = split;
    split.n_parts = p->space->window_devices;
    return cleave_estimate_change(s->estimate, op, &split, error);
}

static cleave_status propose(const cleave_window_pricer *p, subject *s, const int32_t *choice,
                             cleave_error *error) {
    for (int32_t op = 0; op < s->model.n_operators; op++) {
        int32_t group = p->space->group_of[s->of_whole[op]];
        if (choice[group] != p->choice[group])
            CLEAVE_TRY(change(p, s, op, split_of(p, s, op, choice), error));
    }
    return CLEAVE_OK;
}

/* Back to where it is from a proposal that was run, or that does not fold. */
static cleave_status go_back(const cleave_window_pricer *p, subject *s, const int32_t *choice,
                             bool folds, cleave_error *error) {
    int64_t step;
    s->fold = s->here;
    for (int32_t op = 0; op < s->model.n_operators; op++) {
        int32_t group = p->space->group_of[s->of_whole[op]];
        const cleave_split split = split_of(p, s, op, p->choice);
        if (choice[group] != p->choice[group] && !folds)
            CLEAVE_TRY(change(p, s, op, split, error));
        s->layout.splits[op] = split;
    }
    if (folds)
        return cleave_estimate_reject(s->estimate, error);
    CLEAVE_TRY(cleave_estimate_run(s->estimate, &step, error));
    return cleave_estimate_accept(s->estimate, error);
}

static cleave_status stay(subject *s, cleave_error *error) {
    cleave_arena free_one = s->arenas[0];
    s->arenas[0] = s->arenas[1];
    s->arenas[1] = free_one;
    s->here = s->fold;
    return cleave_estimate_accept(s->estimate, error);
}

static cleave_status price_subject(const cleave_window_pricer *p, subject *s, const int32_t *choice,
                                   bool moves, subject_price *price, cleave_error *error) {
    subject_price result = {0};
    CLEAVE_TRY(propose(p, s, choice, error));
    cleave_status status = find_fold(p, s, &s->arenas[1], &s->fold, error);
    if (status == CLEAVE_OK)
        status = cleave_estimate_run(s->estimate, &result.step, error);
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
        return status;
    result.folds = status == CLEAVE_OK;
    result.peak_bytes = result.folds ? peak_of(p, s) : 0;
    *price = result;
    return moves && result.folds ? stay(s, error) : go_back(p, s, choice, result.folds, error);
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
static cleave_window_price extrapolate(const cleave_window_pricer *p, const subject_price *prices) {
    const subject_price *longest = &prices[0], *last = &prices[p->n_subjects - 1];
    int64_t limit = memory_limit(p->of);
    int64_t peak = last->peak_bytes + p->further_blocks * (longest->peak_bytes - last->peak_bytes);
    cleave_window_price price = {.folds = true};
    price.step = last->step + p->further_blocks * (longest->step - last->step);
    price.excess_bytes = peak > limit ? peak - limit : 0;
    return price;
}

cleave_status cleave_window_pricer_begin(cleave_window_pricer *p, const cleave_window_space *space,
                                         const int32_t *choice, cleave_window_price *price,
                                         cleave_error *error) {
    subject_price prices[N_SUBJECTS];
    size_t n = (size_t)space->n_groups;
    if (p->choice == NULL)
        p->choice = CLEAVE_ARENA_ARRAY(&p->arena, int32_t, n);
    if (p->choice == NULL)
        return cleave_fail_memory(error, "pricing windows");
    p->space = space;
    memcpy(p->choice, choice, n * sizeof *choice);
    p->here = (cleave_window_price){0};
    *price = p->here;
    for (int i = 0; i < p->n_subjects; i++) {
        subject *s = &p->subjects[i];
        CLEAVE_TRY(begin_estimate(p, s, choice, &prices[i], error));
        s->step = prices[i].step;
        if (!prices[i].folds)
            return CLEAVE_OK;
    }
    *price = p->here = extrapolate(p, prices);
    return CLEAVE_OK;
}

/* Of all models, none of which moves; `folds` false where one does not. */
static cleave_status price_all(cleave_window_pricer *p, const int32_t *choice, bool screens,
                               subject_price *prices, cleave_window_price *price,
                               cleave_error *error) {
    for (int i = 0; i < p->n_subjects; i++) {
        subject *s = &p->subjects[i];
        CLEAVE_TRY(price_subject(p, s, choice, false, &prices[i], error));
        *price = (cleave_window_price){.folds = prices[i].folds, .step = INT64_MAX};
        if (!prices[i].folds || (i == 0 && screens && prices[0].step >= s->step))
            return CLEAVE_OK;
    }
    *price = extrapolate(p, prices);
    return CLEAVE_OK;
}

cleave_status cleave_window_pricer_run(cleave_window_pricer *p, const int32_t *choice, bool moves,
                                       cleave_window_price *price, cleave_error *error) {
    subject_price prices[N_SUBJECTS];
    bool screens = !moves && p->here.excess_bytes == 0;
    CLEAVE_TRY(price_all(p, choice, screens, prices, price, error));
    if (!moves || !price->folds)
        return CLEAVE_OK;
    for (int i = 0; i < p->n_subjects; i++) { /* all of them fold: none is left behind */
        CLEAVE_TRY(price_subject(p, &p->subjects[i], choice, true, &prices[i], error));
        p->subjects[i].step = prices[i].step;
    }
    p->here = *price;
    memcpy(p->choice, choice, (size_t)p->space->n_groups * sizeof *choice);
    return CLEAVE_OK;
}
