/* What a search begins with: the layouts known by name, data parallel over the quick devices of a
   machine that has several kinds, and the best that folds. */
#include "graph/lower/size.h"
#include "search/improve/parallel.h"
#include "search/improve/window.h"
#include "search/session.h"

#include <stdio.h>
#include <string.h>

static session_given *add(session *s, const char *method, const cleave_layout *layout) {
    session_given *given = &s->given[s->n_given++];
    *given = (session_given){.method = method, .layout = layout};
    return given;
}

/* A layout that breaks a constraint is made to keep to it.  A drawn one is as good as before; a
   baseline is that baseline no more, but a start: where nothing but windows is searched, which have
   starts of their own, it is left out. */
static cleave_status add_constrained(session *s, const char *method, cleave_layout *layout,
                                     cleave_error *error) {
    bool keeps = cleave_constraints_allow_layout(s->constraints, s->model, layout);
    if (!keeps && s->reach.only_folds)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_constraints_impose(s->constraints, s->model, layout, &s->work, error));
    bool is_drawn = method != NULL && strcmp(method, "random") == 0;
    add(s, keeps || is_drawn ? method : NULL, layout);
    return CLEAVE_OK;
}

/* One that is plain, or one that is not. */
static cleave_status add_named(session *s, const char *name, bool plain, cleave_error *error) {
    bool applies;
    cleave_layout made, *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
    cleave_arena scratch = {0};
    if (layout == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_status status = cleave_baseline_layout(s->model, s->machine, name, s->options->seed,
                                                  &scratch, &made, &applies, error);
    applies = status == CLEAVE_OK && applies && cleave_layout_is_plain(&made) == plain;
    if (applies)
        status = cleave_layout_keep(&made, s->model, &s->work, layout, error);
    cleave_arena_free(&scratch);
    if (status != CLEAVE_OK || !applies)
        return status;
    if (strcmp(name, "random") != 0)
        layout->collectives = s->collectives;
    cleave_progress_update(&s->progress, -1, name);
    return add_constrained(s, name, layout, error);
}

/* Products a second of the kind of device d. */
static double product_rate(const session *s, int32_t d) {
    const cleave_device_kind *kind = &s->machine->kinds[s->machine->device_kind[d]];
    cleave_efficiency_of of = cleave_type_is_short(s->model->precision)
                                  ? CLEAVE_EFFICIENCY_BF16_PRODUCT
                                  : CLEAVE_EFFICIENCY_PRODUCT;
    return cleave_device_kind_flops(kind, s->model->precision) *
           cleave_efficiency_most(kind->efficiency, of);
}

/* Of devices of several kinds the slowest sets the pace of even blocks, and one operator at a time
   nothing gets away from it: so there are starts with those that are at least as quick as some
   device. */
static cleave_status add_quick_starts(session *s, cleave_error *error) {
    const cleave_machine *machine = s->machine;
    int32_t *quick = CLEAVE_ARENA_ARRAY(&s->work, int32_t, machine->n_devices);
    bool *seen = CLEAVE_ARENA_ARRAY(&s->work, bool, machine->n_kinds);
    if (quick == NULL || seen == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t slowest = 0; slowest < machine->n_devices && s->n_given < SESSION_MAX_GIVEN / 2;
         slowest++) {
        int32_t n = 0;
        if (seen[machine->device_kind[slowest]])
            continue;
        seen[machine->device_kind[slowest]] = true;
        for (int32_t d = 0; d < machine->n_devices; d++)
            if (product_rate(s, d) >= product_rate(s, slowest))
                quick[n++] = d;
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
        if (layout == NULL)
            return cleave_fail_memory(error, "searching");
        if (n == machine->n_devices)
            continue; /* the baseline */
        CLEAVE_TRY(
            cleave_data_parallel_layout(s->model, machine, n, quick, &s->work, layout, error));
        layout->collectives = s->collectives;
        CLEAVE_TRY(add_constrained(s, NULL, layout, error));
    }
    return CLEAVE_OK;
}

/* What the search of layouts that fold may take where it is not all there is: of a search without
   limits as much as lowering the model so many times on 64 devices, else of the time; beside that
   of stages half of it. */
static const double wholes_of_folded = 1, share_of_folded = 0.3, share_beside_stages = 0.5;

static cleave_window_options window_options(const session *s) {
    double time = s->options->time_seconds;
    cleave_window_options how = {.interrupted = s->options->interrupted};
    if (s->reach.only_folds)
        how.most_proposals = s->options->proposals;
    else if (time <= 0)
        how.most_wholes = wholes_of_folded * 64 / s->machine->n_devices;
    double share = !s->reach.only_folds ? share_of_folded
                   : session_stages(s)  ? share_beside_stages
                                        : 1;
    if (time > 0 && (s->reach.only_folds || s->options->resume_file == NULL))
        how.until_seconds = s->started_seconds + share * time;
    return how;
}

/* The best of the layouts that fold, which take little time to search.  They are few, but on many
   devices good ones are among them. */
static cleave_status add_folded(session *s, cleave_error *error) {
    const cleave_window_options how = window_options(s);
    cleave_error why_not = {""};
    cleave_window_found *found = CLEAVE_ARENA_ARRAY(&s->work, cleave_window_found, 1);
    if (found == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_progress_update(&s->progress, -1, "searching layouts that fold");
    cleave_status status = cleave_window_search(&s->problem, s->pricer, &s->collectives, &how,
                                                &s->work, found, &why_not);
    if (status == CLEAVE_NO_LAYOUT) {
        snprintf(s->why_no_fold, sizeof s->why_no_fold, "%s", why_not.message);
        return CLEAVE_OK;
    }
    if (status != CLEAVE_OK && error != NULL)
        *error = why_not;
    CLEAVE_TRY(status);
    if (s->reach.only_folds)
        s->result.proposals = found->proposals;
    add(s, NULL, &found->layout)->price = found->price;
    return CLEAVE_OK;
}

/* The baselines that are plain, or those that are not. */
static cleave_status add_baselines(session *s, bool plain, cleave_error *error) {
    for (int32_t i = 0; cleave_baseline_names[i] != NULL; i++)
        if (!session_is_alone(s) || (cleave_schedule_wish_allows_plain(session_wish(s)) &&
                                     strcmp(cleave_baseline_names[i], s->options->method) == 0))
            CLEAVE_TRY(add_named(s, cleave_baseline_names[i], plain, error));
    return CLEAVE_OK;
}

/* Layouts known without a search. */
static cleave_status add_known(session *s, cleave_error *error) {
    CLEAVE_TRY(add_baselines(s, true, error));
    if (strcmp(s->options->method, "random") == 0)
        return add_named(s, "random", true, error);
    bool has_starts = session_searches(s) && !s->reach.only_folds;
    return has_starts ? add_quick_starts(s, error) : CLEAVE_OK;
}

/* Parts of all operators, beyond which a layout that does not fold is not priced where all devices
   are not to be lowered. */
enum { MOST_PARTS = 1 << 12 };

static bool is_too_large(const session *s, const cleave_layout *layout, int64_t *n_parts) {
    *n_parts = cleave_layout_count_parts(layout);
    return s->reach.only_folds && *n_parts > MOST_PARTS + layout->n_operators;
}

/* Of many devices, that sharded state does not fold makes it dear to price what is of no use. */
static bool is_of_use(const session *s, const cleave_pricer *pricer, const session_given *given) {
    return given->method == NULL || cleave_baseline_shards(given->method) == 0 ||
           !session_searches(s) || s->machine->n_devices <= CLEAVE_FEW_DEVICES ||
           cleave_pricer_state_is_large(pricer, 1);
}

static void leave_unpriced(session *s, session_given *given, const char *why) {
    given->price.excess_bytes = INT64_MAX;
    s->unpriced[session_find_baseline(given->method)] = why;
}

/* By a window where it folds; else all devices, where there are not too many parts on them. */
static cleave_status price(session *s, cleave_pricer *pricer, session_given *given,
                           cleave_error *error) {
    cleave_price_subject what = {.layout = given->layout, .view = CLEAVE_VIEW_WINDOW};
    cleave_error why_not = {""};
    int64_t n_parts;
    cleave_status status = cleave_pricer_price(pricer, &what, NULL, &given->price, &why_not);
    if (status == CLEAVE_NO_LAYOUT && is_too_large(s, given->layout, &n_parts)) {
        const char *why = cleave_arena_printf(
            s->arena, "it does not fold (%s) and has %lld parts, too many to price them all",
            why_not.message, (long long)n_parts);
        leave_unpriced(s, given, why);
        return why != NULL ? CLEAVE_OK : cleave_fail_memory(error, "searching");
    }
    if (status == CLEAVE_NO_LAYOUT && !is_of_use(s, pricer, given)) {
        leave_unpriced(s, given,
                       "all state takes less than half of a device's memory: name it as the method "
                       "to have it priced");
        return CLEAVE_OK;
    }
    if (status != CLEAVE_NO_LAYOUT) {
        if (status != CLEAVE_OK && error != NULL)
            *error = why_not;
        return status;
    }
    what.view = CLEAVE_VIEW_ALL;
    if (!s->reach.only_folds)
        what.memory = CLEAVE_MEMORY_IN_DOUBT; /* by an estimate */
    return cleave_pricer_price(pricer, &what, NULL, &given->price, error);
}

static cleave_status list_candidates(session *s, cleave_error *error) {
    CLEAVE_TRY(cleave_node_costs_create(s->model, s->machine, &s->costs, error));
    return cleave_candidates_list(&s->problem, s->costs, SESSION_MAX_GIVEN, &s->space,
                                  &s->candidates, error);
}

/* What takes longest first: tasks that have nothing to do with each other, before the prices of
   what is known without a search. */
enum { SEARCH_FOLDED, LIST_CANDIDATES, FIRST_PRICE };

static cleave_status run_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    session *s = context;
    switch (task) {
    case SEARCH_FOLDED:
        return s->reach.folds ? add_folded(s, error) : CLEAVE_OK;
    case LIST_CANDIDATES:
        return s->reach.only_folds || session_is_alone(s) ? CLEAVE_OK : list_candidates(s, error);
    default:
        return price(s, &s->pricers[worker], &s->given[task - FIRST_PRICE], error);
    }
}

cleave_status session_add_givens(session *s, cleave_error *error) {
    CLEAVE_TRY(add_known(s, error));
    const cleave_parallel parallel = {.n_threads = s->n_threads,
                                      .n_tasks = FIRST_PRICE + s->n_given,
                                      .task = run_task,
                                      .context = s};
    return cleave_parallel_run(&parallel, error);
}

cleave_status session_add_late_givens(session *s, cleave_error *error) {
    int32_t before = s->n_given;
    if (!cleave_schedule_wish_allows_plain(session_wish(s)))
        return CLEAVE_OK; /* they have one stage and the whole batch */
    CLEAVE_TRY(add_baselines(s, false, error));
    for (int32_t g = before; g < s->n_given; g++)
        CLEAVE_TRY(price(s, s->pricer, &s->given[g], error));
    return CLEAVE_OK;
}

/* Of layouts that are not plain nothing says whether they are what is asked for. */
static bool may_answer(const session *s, const cleave_layout *layout) {
    return cleave_constraints_allow_layout(s->constraints, s->model, layout) &&
           (cleave_layout_is_plain(layout) ? session_allows(s, layout)
                                           : cleave_schedule_wish_is_open(session_wish(s)));
}

cleave_status session_add_known(session *s, cleave_error *error) {
    for (int32_t i = 0; i < s->options->n_known && session_searches(s); i++) {
        cleave_layout *layout = CLEAVE_ARENA_ARRAY(&s->work, cleave_layout, 1);
        cleave_price known;
        if (layout == NULL)
            return cleave_fail_memory(error, "searching");
        *layout = s->options->known[i];
        layout->collectives = s->collectives;
        if (s->n_given == SESSION_MAX_GIVEN || session_knows_price(s, layout, &known) ||
            !may_answer(s, layout))
            continue;
        session_given *given = add(s, NULL, layout);
        given->is_known = true;
        CLEAVE_TRY(price(s, s->pricer, given, error));
    }
    return CLEAVE_OK;
}
