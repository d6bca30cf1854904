/* Of a model with many equal blocks two short ones are priced, of n and n + 1 blocks: the whole one
   takes as much longer as its further blocks are, each for the difference.  That is what a step
   does in which what happens at the ends, and what the communication lane has not finished when the
   main lane has, reach over some blocks and not over all of them. */
#include "search/window_price.h"

#include <stdlib.h>
#include <string.h>

enum { KEPT_BLOCKS = 2, LEAST_LEFT_OUT = 2, N_SUBJECTS = 2 };

/* A model that is priced in place of the whole one. */
typedef struct subject {
    cleave_model model;
    cleave_pricer pricer;
    int32_t *of_whole; /* [n_operators] an operator of the whole model that it stands for */
    cleave_layout layout;
} subject;

struct cleave_window_pricer {
    const cleave_pricer *of;
    const cleave_collective_rules *rules;
    cleave_arena arena;
    int n_subjects;
    subject subjects[N_SUBJECTS];
    int64_t further_blocks; /* of the whole model, beyond those of the first subject */
};

static cleave_status begin_subject(cleave_window_pricer *p, const int32_t *stands_for, subject *s,
                                   cleave_error *error) {
    const cleave_search_options options = {.optimizer_states = p->of->lower.optimizer_states,
                                           .memory_limit_bytes = INT64_MAX};
    int32_t n_devices = p->of->machine->n_devices;
    s->of_whole = CLEAVE_ARENA_ARRAY(&p->arena, int32_t, s->model.n_operators);
    if (s->of_whole == NULL)
        return cleave_fail_memory(error, "pricing windows");
    for (int32_t op = p->of->model->n_operators - 1; op >= 0; op--)
        s->of_whole[stands_for == NULL ? op : stands_for[op]] = op;
    CLEAVE_TRY(cleave_layout_create(&s->model, n_devices, &p->arena, &s->layout, error));
    s->layout.collectives = *p->rules;
    CLEAVE_TRY(cleave_pricer_create(&s->model, p->of->machine, &options, &s->pricer, error));
    p->n_subjects++;
    return CLEAVE_OK;
}

/* The whole model where it has few blocks, or where they are connected in other ways. */
static cleave_status begin(cleave_window_pricer *p, const cleave_blocks *blocks,
                           cleave_error *error) {
    const cleave_model *model = p->of->model;
    int32_t *stands_for = CLEAVE_ARENA_ARRAY(&p->arena, int32_t, model->n_operators);
    cleave_status status = CLEAVE_OK;
    if (stands_for == NULL)
        return cleave_fail_memory(error, "pricing windows");
    bool shortens = blocks->n >= KEPT_BLOCKS + N_SUBJECTS - 1 + LEAST_LEFT_OUT;
    for (int i = 0; i < N_SUBJECTS && shortens && status == CLEAVE_OK; i++) {
        subject *s = &p->subjects[i];
        status = cleave_blocks_shorten(model, blocks, KEPT_BLOCKS + i, &p->arena, &s->model,
                                       stands_for, error);
        if (status == CLEAVE_OK)
            status = begin_subject(p, stands_for, s, error);
    }
    if (shortens && status != CLEAVE_NO_LAYOUT) {
        p->further_blocks = blocks->n - KEPT_BLOCKS;
        return status;
    }
    p->subjects[0].model = *model;
    return begin_subject(p, NULL, &p->subjects[0], error);
}

cleave_status cleave_window_pricer_create(const cleave_pricer *pricer, const cleave_blocks *blocks,
                                          const cleave_collective_rules *rules,
                                          cleave_window_pricer **made, cleave_error *error) {
    cleave_window_pricer *p = calloc(1, sizeof *p);
    if (p == NULL)
        return cleave_fail_memory(error, "pricing windows");
    p->of = pricer;
    p->rules = rules;
    cleave_status status = begin(p, blocks, error);
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
    for (int i = 0; i < p->n_subjects; i++)
        cleave_pricer_destroy(&p->subjects[i].pricer);
    cleave_arena_free(&p->arena);
    free(p);
}

/* A window's devices are of the kinds of all others. */
static int64_t memory_limit(const cleave_pricer *pricer) {
    int64_t least = pricer->memory_limit_bytes;
    for (int32_t k = 0; k < pricer->machine->n_kinds && pricer->memory_limit_bytes <= 0; k++)
        if (k == 0 || pricer->machine->kinds[k].memory_bytes < least)
            least = pricer->machine->kinds[k].memory_bytes;
    return least;
}

cleave_status cleave_window_pricer_run(cleave_window_pricer *p, const cleave_window_space *space,
                                       const int32_t *choice, cleave_window_price *price,
                                       cleave_error *error) {
    cleave_price prices[N_SUBJECTS] = {{0}};
    for (int i = 0; i < p->n_subjects; i++) {
        subject *s = &p->subjects[i];
        for (int32_t op = 0; op < s->model.n_operators; op++) {
            int32_t group = space->group_of[s->of_whole[op]];
            s->layout.splits[op] = space->lists[space->class_of[group]].items[choice[group]];
        }
        cleave_status status =
            cleave_price_folded(&s->pricer, &s->layout, CLEAVE_RULE_SCAN, &prices[i], error);
        if (status == CLEAVE_NO_LAYOUT) {
            *price = (cleave_window_price){.folds = false};
            return CLEAVE_OK;
        }
        CLEAVE_TRY(status);
    }
    cleave_window_price result = {.folds = true, .step = prices[0].step};
    int64_t peak = prices[0].peak_bytes;
    if (p->n_subjects > 1) {
        result.step += p->further_blocks * (prices[1].step - prices[0].step);
        peak += p->further_blocks * (prices[1].peak_bytes - prices[0].peak_bytes);
    }
    int64_t limit = memory_limit(p->of);
    result.excess_bytes = peak > limit ? peak - limit : 0;
    *price = result;
    return CLEAVE_OK;
}
