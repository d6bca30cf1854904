/* The end of a search: the best, and all that come near it, are simulated with collectives in their
   steps, as `simulate` and `run` do.  Programs with expanded collectives are large, so nothing else
   is; and of these only the best is lowered as a whole where an estimate gives the same step. */
#include "graph/model/ring.h"
#include "search/improve/parallel.h"
#include "search/session.h"

#include <stdio.h>
#include <string.h>

enum { MAX_REPORTED = SESSION_MAX_GIVEN + SESSION_MAX_FOUND + SESSION_MAX_RIVALS + 3 };

/* Bytes of fragments of all that was found and is simulated in full; the best is in any case.  What
   is found differs by less than its prices are off only between neighbours, and where programs are
   large, so do few. */
static const int64_t most_found_work = INT64_C(1) << 24;

typedef struct reported {
    const char *method;
    const cleave_layout *layout;
    cleave_price price;
    const cleave_price *full;     /* the step that is reported, where it is known; else null */
    cleave_price_grounds grounds; /* with room for rules where they are asked for */
    int32_t baseline;             /* in the result; -1: none */
    bool is_wished; /* made as the options ask for it, which a plain layout does not show */
    bool is_local_optimum;
} reported;

typedef struct report {
    session *session;
    int32_t n;
    reported items[MAX_REPORTED];
    reported *wanted[MAX_REPORTED]; /* to be simulated in full */
    cleave_layout other;            /* see add_other_updates, */
    cleave_layout ring;             /* add_ring */
    cleave_polished polished;
} report;

static cleave_status list_baselines(session *s, cleave_error *error) {
    cleave_plan *baselines = CLEAVE_ARENA_ARRAY(s->arena, cleave_plan, CLEAVE_N_BASELINES);
    if (baselines == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t i = 0; i < CLEAVE_N_BASELINES; i++)
        baselines[i] =
            (cleave_plan){.method = cleave_baseline_names[i], .unpriced = s->unpriced[i]};
    s->result.n_baselines = CLEAVE_N_BASELINES;
    s->result.baselines = baselines;
    return CLEAVE_OK;
}

static bool is_random(const char *method) {
    return method != NULL && strcmp(method, "random") == 0;
}

/* May it be the result? */
static bool is_wanted(const session *s, const char *method) {
    return session_searches(s) || strcmp(method, s->options->method) == 0;
}

/* How many of what was found are simulated in full: where it is not known how much that is, few. */
static int32_t count_found(const session *s) {
    int32_t n = 0, most = s->whole_work > 0 ? s->n_found : CLEAVE_MOST_IMPROVED;
    while (n < s->n_found && n < most && (n == 0 || (n + 1) * s->whole_work <= most_found_work))
        n++;
    return n;
}

/* Baselines, what was found, rivals, what was known, and a start that is no baseline but the best
   of the starts. */
static void collect(const session *s, report *r) {
    for (int32_t i = 0; i < count_found(s); i++)
        r->items[r->n++] = (reported){.method = s->found[i].method,
                                      .layout = &s->found[i].layout,
                                      .price = s->found[i].price,
                                      .grounds = s->found[i].grounds,
                                      .baseline = -1,
                                      .is_wished = true,
                                      .is_local_optimum = s->found[i].is_local_optimum};
    for (int32_t i = 0; i < s->n_rivals; i++)
        r->items[r->n++] = (reported){.method = s->rivals[i].method,
                                      .layout = &s->rivals[i].layout,
                                      .price = s->rivals[i].price,
                                      .baseline = -1,
                                      .is_wished = true};
    for (int32_t g = 0; g < s->n_given; g++) {
        const session_given *given = &s->given[g];
        const char *method = given->method != NULL ? given->method : s->options->method;
        int32_t baseline = session_find_baseline(given->method);
        bool is_start =
            given->is_known || (given->method == NULL && s->n_found == 0 && session_searches(s));
        if (baseline < CLEAVE_N_BASELINES || is_start || is_random(given->method))
            r->items[r->n++] = (reported){.method = method,
                                          .layout = given->layout,
                                          .price = given->price,
                                          .full = given->has_full ? &given->full : NULL,
                                          .baseline = baseline < CLEAVE_N_BASELINES ? baseline : -1,
                                          .is_local_optimum = given->is_local_optimum};
    }
}

static cleave_status ask_for_grounds(session *s, reported *item, cleave_error *error) {
    item->grounds.used_rules = CLEAVE_ARENA_ARRAY(&s->work, bool, item->layout->collectives.n);
    return item->grounds.used_rules != NULL ? CLEAVE_OK : cleave_fail_memory(error, "searching");
}

/* What updates gain by being sharded is less than closed forms are off by, and there may be no
   other layout of what was found that is simulated in full.  So the best is once more with them
   sharded, or not, as it is not itself, as far as constraints allow; in one stage, for the whole
   batch, they are sharded where it is of use in closed form. */
static cleave_status add_other_updates(report *r, cleave_error *error) {
    session *s = r->session;
    const session_found *best = &s->found[0];
    if (s->n_found == 0 || !session_searches(s) || session_wish(s)->zero > 0)
        return CLEAVE_OK;
    int32_t n_tensors = s->model->n_tensors, n_sharded = 0;
    bool is_plain = cleave_layout_is_plain(&best->layout);
    for (int32_t t = 0; t < n_tensors; t++) {
        n_sharded += best->layout.sharded[t] != CLEAVE_SHARDED_NOTHING;
        if (best->layout.sharded[t] > CLEAVE_SHARDED_UPDATE)
            return CLEAVE_OK;
    }
    if (is_plain && (n_sharded == 0 || session_polishes(s)))
        return CLEAVE_OK;
    r->other = best->layout;
    r->other.sharded = CLEAVE_ARENA_ARRAY(&s->work, uint8_t, n_tensors);
    if (r->other.sharded == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_layout_shard(s->model, n_sharded > 0 ? CLEAVE_SHARDED_NOTHING : CLEAVE_SHARDED_UPDATE,
                        &r->other);
    for (int32_t i = 0; i < r->n; i++) /* a baseline, mostly, is likely to be the result, then */
        if (session_same_layout(s, &r->other, r->items[i].layout))
            return CLEAVE_OK;
    if (cleave_constraints_allow_layout(s->constraints, s->model, &r->other))
        r->items[r->n++] = (reported){
            .method = best->method, .layout = &r->other, .price = best->price, .baseline = -1};
    return CLEAVE_OK;
}

/* What is far behind the best even in closed form can't be the result.  It is reported as it is:
   its program in full would be large, and the slower a layout, the larger, mostly. */
static bool is_far_behind(const report *r, const reported *item) {
    const reported *best = NULL;
    for (int32_t i = 0; i < r->n; i++)
        if (best == NULL || cleave_price_better(&r->items[i].price, &best->price))
            best = &r->items[i];
    return cleave_price_is_far_behind(&item->price, &best->price);
}

/* As plans are reported: with collectives in their steps, if all devices may be lowered.  Unless
   what the price rests on is asked for, an estimate of the memory will do, or what closed forms
   need where that is more. */
static cleave_status price_as_reported(const session *s, cleave_pricer *pricer, reported *item,
                                       cleave_error *error) {
    bool is_asked = item->grounds.used_rules != NULL;
    int64_t peak_bytes = is_asked ? 0 : item->price.peak_bytes;
    const cleave_price_subject what = {.layout = item->layout,
                                       .in_steps = !s->reach.only_folds,
                                       .view = CLEAVE_VIEW_FOLDED,
                                       .memory = is_asked ? CLEAVE_MEMORY_PLANNED
                                                          : CLEAVE_MEMORY_IN_DOUBT,
                                       .grounds = is_asked ? &item->grounds : NULL};
    CLEAVE_TRY(cleave_pricer_price(pricer, &what, NULL, &item->price, error));
    if (item->price.excess_bytes == 0 && item->price.peak_bytes < peak_bytes)
        item->price.peak_bytes = peak_bytes;
    return CLEAVE_OK;
}

static cleave_status price_one(void *context, int32_t worker, int32_t task, cleave_error *error) {
    report *r = context;
    reported *item = r->wanted[task];
    if (item->full == NULL)
        return price_as_reported(r->session, &r->session->pricers[worker], item, error);
    item->price = *item->full;
    return CLEAVE_OK;
}

/* The best of those that may be the result, or of these that are not in stages; null: there is
   none. */
static reported *find_best_of(report *r, bool only_plain) {
    reported *best = NULL;
    for (int32_t i = 0; i < r->n; i++)
        if (is_wanted(r->session, r->items[i].method) &&
            (r->items[i].is_wished || session_allows(r->session, r->items[i].layout)) &&
            (!only_plain || cleave_layout_is_plain(r->items[i].layout)) &&
            (best == NULL || cleave_price_better(&r->items[i].price, &best->price)))
            best = &r->items[i];
    return best;
}

static reported *find_best(report *r) { return find_best_of(r, false); }

/* Lowers the best as a whole, until nothing that is not comes before it: what the result rests on
   is known then.  Who interrupts waits for no more. */
static cleave_status price_best(report *r, cleave_error *error) {
    session *s = r->session;
    reported *best;
    while ((best = find_best(r)) != NULL && best->price.excess_bytes == 0 && !best->grounds.known) {
        CLEAVE_TRY(ask_for_grounds(s, best, error));
        CLEAVE_TRY(price_as_reported(s, s->pricer, best, error));
    }
    return CLEAVE_OK;
}

/* Where the best splits queries of attention and gathers keys, these may go round instead.  Changes
   of such layouts can't be estimated, so none is found on the way. */
static cleave_status add_ring(report *r, cleave_error *error) {
    session *s = r->session;
    const reported *best = find_best(r);
    if (best == NULL || !session_searches(s) || s->options->constraints != NULL)
        return CLEAVE_OK;
    int32_t n_rings = 0;
    CLEAVE_TRY(cleave_layout_keep(best->layout, s->model, &s->work, &r->ring, error));
    for (int32_t op = 0; op < s->model->n_operators; op++) {
        cleave_split *split = &r->ring.splits[op];
        n_rings += !split->ring && cleave_ring_fits(s->model, op, split);
        split->ring = cleave_ring_fits(s->model, op, split);
    }
    if (n_rings > 0)
        r->items[r->n++] = (reported){
            .method = best->method, .layout = &r->ring, .price = best->price, .baseline = -1};
    return CLEAVE_OK;
}

static cleave_status price_near(report *r, cleave_error *error) {
    session *s = r->session;
    int32_t n = 0;
    CLEAVE_TRY(add_other_updates(r, error));
    CLEAVE_TRY(add_ring(r, error));
    for (int32_t i = 0; i < r->n; i++) {
        reported *item = &r->items[i];
        bool is_asked_for = !session_searches(s) && is_wanted(s, item->method);
        if (!is_asked_for && is_far_behind(r, item))
            continue;
        r->wanted[n++] = item;
        if (item->baseline < 0 && !cleave_layout_is_plain(item->layout)) /* lowered as a whole */
            CLEAVE_TRY(ask_for_grounds(s, item, error));
    }
    const cleave_parallel parallel = {
        .n_threads = s->n_threads, .n_tasks = n, .task = price_one, .context = r};
    return cleave_parallel_run(&parallel, error);
}

static cleave_status price_all(report *r, cleave_error *error) {
    if (r->session->reach.only_folds)
        return CLEAVE_OK;              /* it is priced as it is reported */
    for (int32_t i = 0; i < r->n; i++) /* in closed form, up to now */
        r->items[i].grounds = (cleave_price_grounds){0};
    if (!session_interrupted(r->session))
        return price_near(r, error);
    for (int32_t i = 0; i < r->n; i++)
        if (r->items[i].full != NULL)
            r->items[i].price = *r->items[i].full;
    return CLEAVE_OK;
}

static cleave_status make_plan(session *s, const reported *item, cleave_plan *plan,
                               cleave_error *error) {
    cleave_plan result = {.method = item->method,
                          .applies = true,
                          .step_seconds = (double)item->price.step * 1e-12,
                          .peak_bytes = item->price.peak_bytes,
                          .bytes_sent = item->price.bytes_sent};
    CLEAVE_TRY(cleave_layout_keep(item->layout, s->model, s->arena, &result.layout, error));
    result.layout.predicted_step_seconds = result.step_seconds;
    snprintf(result.layout.machine, sizeof result.layout.machine, "%s", s->machine->name);
    snprintf(result.layout.method, sizeof result.layout.method, "%s", item->method);
    *plan = result;
    return CLEAVE_OK;
}

/* What does not fit is no plan, but one may want to know what it needs. */
static cleave_status take_baseline(session *s, const reported *item, cleave_error *error) {
    if (item->baseline < 0)
        return CLEAVE_OK;
    cleave_plan *plan = &s->result.baselines[item->baseline];
    if (item->price.excess_bytes == 0)
        return make_plan(s, item, plan, error);
    if (plan->unpriced == NULL)
        plan->peak_bytes = item->price.peak_bytes;
    return CLEAVE_OK;
}

/* ---- the last descent ------------------------------------------------------------------------ */

/* What descends may come to so much less. */
static const double polished_by = 1.05;

/* The best whose changes can be estimated, unless it is too far behind; null: there is none. */
static reported *find_polished(report *r) {
    const reported *best = find_best(r);
    reported *plain = find_best_of(r, true);
    bool is_near = plain != NULL && plain->price.excess_bytes == 0 &&
                   (double)plain->price.step <= polished_by * (double)best->price.step;
    return is_near ? plain : NULL;
}

/* On few devices the quickest descends once more, in steps; also where stages are quicker by less
   than that may gain. */
static cleave_status polish(report *r, cleave_error *error) {
    session *s = r->session;
    reported *best = find_polished(r);
    cleave_polished *p = &r->polished;
    if (!session_polishes(s) || session_interrupted(s) || best == NULL || s->options->throughput)
        return CLEAVE_OK;
    CLEAVE_TRY(session_polish(s, best->layout, &best->price, p, error));
    if (!p->done)
        return CLEAVE_OK;
    if (p->is_changed) {
        best = &r->items[r->n++];
        *best = (reported){.method = s->options->method, .layout = &p->layout, .baseline = -1};
        CLEAVE_TRY(price_as_reported(s, s->pricer, best, error));
    }
    best->is_local_optimum = p->is_local_optimum;
    s->result.optimum_in_steps = p->is_local_optimum && best == find_best(r);
    return CLEAVE_OK;
}

/* The order of rules stays. */
static void keep_used_rules(const bool *used, cleave_collective_rules *rules) {
    int32_t n = 0;
    for (int32_t r = 0; r < rules->n; r++)
        if (used[r])
            rules->items[n++] = rules->items[r];
    rules->n = n;
}

static cleave_status take_best(session *s, report *r, cleave_error *error) {
    reported *best = find_best(r);
    if (best == NULL || best->price.excess_bytes > 0)
        return CLEAVE_OK;
    s->result.is_local_optimum = best->is_local_optimum;
    CLEAVE_TRY(make_plan(s, best, &s->result.best, error));
    /* What rules its own collectives run by, and what its step rests on. */
    keep_used_rules(best->grounds.used_rules, &s->result.best.layout.collectives);
    s->result.shares = best->grounds.shares;
    s->result.framework = best->grounds.framework;
    return CLEAVE_OK;
}

cleave_status session_report(session *s, cleave_error *error) {
    report r = {.session = s};
    CLEAVE_TRY(list_baselines(s, error));
    cleave_progress_update(&s->progress, -1, "simulating the best in full");
    collect(s, &r);
    s->result.in_steps = !s->reach.only_folds && !cleave_machine_knows_collectives(s->machine);
    CLEAVE_TRY(price_all(&r, error));
    CLEAVE_TRY(polish(&r, error));
    CLEAVE_TRY(price_best(&r, error));
    for (int32_t i = 0; i < r.n; i++)
        CLEAVE_TRY(take_baseline(s, &r.items[i], error));
    return take_best(s, &r, error);
}
