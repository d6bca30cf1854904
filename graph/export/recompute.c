/* Recomputing as torch.utils.checkpoint has it: a module runs again, from what it was given, before
   its backward.

   So a module that is called once with others in it is run again where the layout recomputes all
   that it does but what it gives on, which is kept.  One whose modules are numbered is a container,
   and is not called itself, or only calls one after the other. */
#include "graph/export/make.h"

#include <ctype.h>
#include <string.h>

/* Is it done in this module of so many letters, or in one of its modules? */
static bool lies_in(const cleave_planned_operator *planned, const char *module, size_t n) {
    const char *within = planned->name.within;
    return strncmp(within, module, n) == 0 && (within[n] == '\0' || within[n] == '.');
}

/* What is done in a module, around `op` of it: [*first, *end). */
static void find_run(const cleave_export_maker *make, int32_t op, const char *module, size_t n,
                     int32_t *first, int32_t *end) {
    const cleave_planned_operator *operators = make->plan->operators;
    *first = op;
    *end = op + 1;
    while (*first > 0 && lies_in(&operators[*first - 1], module, n))
        --*first;
    while (*end < make->model->n_operators && lies_in(&operators[*end], module, n))
        ++*end;
}

static bool runs_again(const cleave_export_maker *make, int32_t first, int32_t end) {
    const cleave_schedule *schedule = &make->plan->schedule;
    for (int32_t op = first; op + 1 < end; op++)
        if (!cleave_layout_recomputes(make->layout, op))
            return false;
    return end - first > 1 &&
           cleave_schedule_stage_of(schedule, first) == cleave_schedule_stage_of(schedule, end - 1);
}

/* The outermost module around `op` that runs again whole: the letters of its name and what it does;
   0: there is none. */
static size_t find_unit(const cleave_export_maker *make, int32_t op, int32_t *first, int32_t *end) {
    const char *module = make->plan->operators[op].name.module;
    for (const char *dot = strchr(module, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        size_t n = (size_t)(dot - module);
        if (isdigit((unsigned char)dot[1]))
            continue;
        find_run(make, op, module, n, first, end);
        if (runs_again(make, *first, *end))
            return n;
    }
    return 0;
}

static void list_what_is_kept(cleave_export_maker *make) {
    bool checks = make->plan->target == CLEAVE_TARGET_TORCH;
    for (int32_t op = 0; op < make->model->n_operators; op++)
        if (cleave_layout_recomputes(make->layout, op) && !make->plan->recompute[op])
            cleave_export_lose(make, op, -1, "recompute",
                               checks ? "what modules that do not run again give is kept"
                                      : "what backward reads is kept");
}

/* Of a zero bubble PyTorch asks for gradients of weights once more, and for every few of them all
   that runs again does so anew. */
static void avoid_zero_bubble(cleave_export_maker *make) {
    cleave_schedule *schedule = &make->plan->schedule;
    if (make->plan->n_again == 0 || schedule->kind != CLEAVE_SCHEDULE_ZB_H1)
        return;
    schedule->kind = CLEAVE_SCHEDULE_1F1B;
    cleave_export_lose(make, -1, -1, "order",
                       "in PyTorch's ScheduleInterleavedZeroBubble modules run again for gradients "
                       "of weights, too: it is Schedule1F1B");
}

cleave_status cleave_export_recompute(cleave_export_maker *make, cleave_arena *arena,
                                      cleave_error *error) {
    cleave_export_plan *plan = make->plan;
    int32_t n = make->model->n_operators;
    const char **again = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    plan->recompute = CLEAVE_ARENA_ARRAY(arena, bool, n);
    if (again == NULL || plan->recompute == NULL)
        return cleave_fail_memory(error, "exporting what is recomputed");
    for (int32_t op = 0, first, end; op < n; op++) {
        bool asks = plan->target == CLEAVE_TARGET_TORCH && !plan->recompute[op] &&
                    cleave_layout_recomputes(make->layout, op) &&
                    plan->operators[op].name.named == CLEAVE_NAMED_MODULE &&
                    plan->operators[op].name.first_call < 0;
        size_t letters = asks ? find_unit(make, op, &first, &end) : 0;
        if (letters == 0)
            continue;
        again[plan->n_again] =
            cleave_arena_string_n(arena, plan->operators[op].name.module, letters);
        if (again[plan->n_again++] == NULL)
            return cleave_fail_memory(error, "exporting what is recomputed");
        for (int32_t i = first; i + 1 < end; i++)
            plan->recompute[i] = true;
    }
    plan->again = again;
    avoid_zero_bubble(make);
    list_what_is_kept(make);
    return CLEAVE_OK;
}
