#include "search/explain/schedules.h"

#include "search/pipeline/recompute.h"

#include <stdio.h>
#include <string.h>

typedef struct trial {
    cleave_pricer *pricer;
    const cleave_layout *layout; /* as it is */
    explain_schedules *result;
    cleave_progress *progress;
    cleave_error *error;
} trial;

static cleave_status price_of(const trial *t, const cleave_layout *layout, cleave_price *price) {
    const cleave_price_subject what = {.layout = layout, .view = CLEAVE_VIEW_FOLDED};
    cleave_arena_reset(&t->pricer->arena);
    return cleave_pricer_price(t->pricer, &what, NULL, price, t->error);
}

/* What is not legal, of these splits, is no choice. */
static cleave_status try_layout(const trial *t, const cleave_layout *other, const char *decision) {
    cleave_error why_not;
    if (cleave_layout_check(t->pricer->model, other, &why_not) != CLEAVE_OK ||
        t->result->n == EXPLAIN_MOST_SCHEDULES)
        return CLEAVE_OK;
    explain_schedule *item = &t->result->items[t->result->n];
    snprintf(item->decision, sizeof item->decision, "%s", decision);
    cleave_progress_update(t->progress, (double)t->result->n / EXPLAIN_MOST_SCHEDULES, decision);
    CLEAVE_TRY(price_of(t, other, &item->price));
    t->result->n++;
    return CLEAVE_OK;
}

static cleave_status try_micro_batches(const trial *t, int64_t micro_batches) {
    char decision[64];
    cleave_layout other = *t->layout;
    if (micro_batches < 1 || micro_batches > INT32_MAX || other.schedule.in_flight != NULL)
        return CLEAVE_OK;
    other.schedule.micro_batches = (int32_t)micro_batches;
    snprintf(decision, sizeof decision, "%d micro-batch%s", other.schedule.micro_batches,
             micro_batches == 1 ? "" : "es");
    return try_layout(t, &other, decision);
}

static cleave_status try_kinds(const trial *t) {
    for (int kind = 0; kind < CLEAVE_SCHEDULE_ORDERS; kind++) {
        cleave_layout other = *t->layout;
        if (kind == (int)other.schedule.kind)
            continue;
        other.schedule.kind = (cleave_schedule_kind)kind;
        other.schedule.in_flight = NULL;
        other.schedule.sooner = 0;
        CLEAVE_TRY(try_layout(t, &other, cleave_schedule_names[kind]));
    }
    return CLEAVE_OK;
}

static cleave_status try_recomputing(const trial *t, cleave_arena *arena) {
    const cleave_model *model = t->pricer->model;
    for (int what = 0; what < CLEAVE_N_RECOMPUTES; what++) {
        char decision[64];
        cleave_layout other = *t->layout;
        other.recompute = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
        if (other.recompute == NULL)
            return cleave_fail_memory(t->error, "explaining a layout");
        CLEAVE_TRY(cleave_recompute_mark(model, (cleave_recompute)what, &other, t->error));
        bool same = true;
        for (int32_t op = 0; op < model->n_operators; op++)
            same = same && other.recompute[op] == cleave_layout_recomputes(t->layout, op);
        snprintf(decision, sizeof decision, "recompute %s", cleave_recompute_names[what]);
        if (!same)
            CLEAVE_TRY(try_layout(t, &other, decision));
    }
    return CLEAVE_OK;
}

cleave_status explain_schedules_try(cleave_pricer *pricer, const cleave_layout *layout,
                                    cleave_progress *progress, explain_schedules *result,
                                    cleave_error *error) {
    const trial t = {pricer, layout, result, progress, error};
    const cleave_schedule *schedule = &layout->schedule;
    *result = (explain_schedules){0};
    if (cleave_layout_is_plain(layout))
        return CLEAVE_OK;
    CLEAVE_TRY(price_of(&t, layout, &result->price));
    if (schedule->kind != CLEAVE_SCHEDULE_ORDERS) {
        CLEAVE_TRY(try_micro_batches(&t, schedule->micro_batches / 2));
        CLEAVE_TRY(try_micro_batches(&t, (int64_t)schedule->micro_batches * 2));
    }
    if (schedule->n_stages > 1 && schedule->kind != CLEAVE_SCHEDULE_ORDERS)
        CLEAVE_TRY(try_kinds(&t));
    cleave_arena arena = {0};
    cleave_status status = try_recomputing(&t, &arena);
    cleave_arena_free(&arena);
    return status;
}
