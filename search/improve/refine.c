#include "search/improve/refine.h"

#include "base/progress.h"
#include "search/improve/draw.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Shares of the limits at which the first descent and annealing end. */
static const double first_share = 0.3, anneal_share = 0.8;
/* Of that, what sweeps of groups may take: each of their moves is as much work as many single ones.
 */
static const double group_share = 0.5;
/* Temperature begins at what so large a share of the single changes that made the step longer stays
   below, and ends at so much of that. */
static const double cool_share = 0.1, coldest = 0.01;

/* The share of a sweep that is most promising is one in so many. */
enum { FRONT = 8 };

typedef struct run {
    const cleave_refine *refine;
    cleave_refine_state *state;
    cleave_chain *chain; /* counts from 0 in every run */
    cleave_drawing drawing;
    cleave_sweep sweep;
    bool swept; /* `sweep` is that of the phase and base */
    cleave_arena arena, sweep_arena;
    int32_t *members; /* [n_operators] */
    double started_seconds;
    int64_t proposals, accepted, work; /* of the state when the run began */
} run;

/* ---- states ---------------------------------------------------------------------------------- */

cleave_status cleave_refine_state_create(const cleave_model *model, const cleave_choices *start,
                                         const cleave_refine_limits *limits, cleave_arena *arena,
                                         cleave_refine_state *state, cleave_error *error) {
    cleave_refine_state s = {.limits = *limits};
    s.phase = limits->singles ? CLEAVE_REFINE_LAST_SINGLES : CLEAVE_REFINE_GROUPS;
    CLEAVE_TRY(cleave_choices_create(model, arena, &s.current, error));
    CLEAVE_TRY(cleave_choices_create(model, arena, &s.best, error));
    CLEAVE_TRY(cleave_choices_create(model, arena, &s.base, error));
    s.best_price.excess_bytes = INT64_MAX; /* not priced yet */
    s.best_price.over = DBL_MAX;
    if (start != NULL) {
        cleave_choices_copy(model, start, &s.current);
        cleave_choices_copy(model, start, &s.best);
        cleave_choices_copy(model, start, &s.base);
    }
    *state = s;
    return CLEAVE_OK;
}

void cleave_refine_state_copy(const cleave_model *model, const cleave_refine_state *from,
                              cleave_refine_state *to) {
    cleave_choices current = to->current, best = to->best, base = to->base;
    *to = *from;
    to->current = current;
    to->best = best;
    to->base = base;
    cleave_choices_copy(model, &from->current, &to->current);
    cleave_choices_copy(model, &from->best, &to->best);
    cleave_choices_copy(model, &from->base, &to->base);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static double larger(double a, double b) { return a > b ? a : b; }

/* Is the whole sweep at hand made, whatever it takes?  While nothing fits there is no optimum to
   show. */
static bool is_affordable(const run *r) {
    return r->state->limits.whole_sweeps && r->swept && r->sweep.complete && !r->state->lean;
}

static bool is_sweep(cleave_refine_phase phase) {
    return phase != CLEAVE_REFINE_ANNEAL && phase != CLEAVE_REFINE_DONE;
}

/* Of the limits, 0 where there are none; 1 and more: nothing is left.  As long as nothing fits a
   sweep may take what work it needs: patience ends it. */
static double spent(const run *r) {
    const cleave_refine_state *s = r->state;
    const cleave_refine_limits *limits = &s->limits;
    double share = 0;
    if (limits->proposals != 0)
        share = limits->proposals < 0 ? 1 : (double)s->proposals / (double)limits->proposals;
    if (limits->work > 0 && !is_affordable(r) && !(s->lean && is_sweep(s->phase)))
        share = larger(share, (double)s->work / (double)limits->work);
    if (limits->seconds > 0)
        share = larger(share, (cleave_clock_seconds() - r->started_seconds) / limits->seconds);
    return share;
}

/* Annealing without an end in sight would be none. */
static bool is_limited(const cleave_refine_limits *limits) {
    return limits->proposals != 0 || limits->work > 0 || limits->seconds > 0;
}

static bool is_stopped(const run *r) {
    const cleave_refine *of = r->refine;
    return (of->stop != NULL && atomic_load_explicit(of->stop, memory_order_relaxed)) ||
           (of->interrupted != NULL && *of->interrupted != 0);
}

static bool is_of_groups(cleave_refine_phase phase) {
    return phase == CLEAVE_REFINE_GROUPS || phase == CLEAVE_REFINE_LAST_GROUPS;
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* Windows know of no bytes of moves. */
static bool is_lean(const run *r) {
    return r->chain->price.excess_bytes > 0 && r->refine->source.place_of == NULL;
}

static void enter(run *r, cleave_refine_phase phase) {
    cleave_refine_state *s = r->state;
    s->phase = phase;
    s->cursor = s->since_improved = 0;
    s->lean = is_lean(r);
    r->swept = false;
    cleave_choices_copy(r->refine->source.model, &r->chain->choices, &s->base);
    cleave_choices_copy(r->refine->source.model, &r->chain->choices, &s->current);
}

/* The temperature below which the given share of the single changes lie that added time. */
static double first_temperature(const run *r) {
    const cleave_refine_state *s = r->state;
    int64_t n = 0, below = 0;
    for (int i = 0; i < CLEAVE_REFINE_SPREAD; i++)
        n += s->spread[i];
    double least = (double)r->chain->price.step * 1e-5;
    if (n == 0)
        return larger(least, (double)r->chain->price.step * 2e-3);
    for (int i = 0; i < CLEAVE_REFINE_SPREAD; i++) {
        below += s->spread[i];
        if ((double)below >= cool_share * (double)n)
            return larger(least, ldexp(1, i));
    }
    return least;
}

static void begin_annealing(run *r) {
    enter(r, CLEAVE_REFINE_ANNEAL);
    r->state->annealed_from = spent(r);
    double hottest = r->refine->hottest * (double)r->chain->price.step;
    r->state->temperature = hottest > 0 ? hottest : first_temperature(r);
}

static void end_descent(run *r, bool first) {
    cleave_refine_state *s = r->state;
    /* Nothing that is drawn there would ever be work, of which annealing has an end. */
    bool is_alone = s->is_local_optimum && s->proposals == 0;
    if (first && s->anneals && is_limited(&s->limits) && spent(r) < 1 && !is_alone)
        begin_annealing(r);
    else
        s->phase = CLEAVE_REFINE_DONE;
}

/* What follows when the sweep of a phase is over: `whole`, or because its share is spent. */
static cleave_status leave(run *r, bool whole, cleave_error *error) {
    cleave_refine_state *s = r->state;
    bool first = s->phase == CLEAVE_REFINE_GROUPS || s->phase == CLEAVE_REFINE_SINGLES;
    bool stays = whole && spent(r) < 1;
    switch (s->phase) {
    case CLEAVE_REFINE_GROUPS:
    case CLEAVE_REFINE_LAST_GROUPS:
        if (spent(r) < 1 && !s->is_local_optimum) /* else single changes have had their sweep */
            enter(r, first ? CLEAVE_REFINE_SINGLES : CLEAVE_REFINE_LAST_SINGLES);
        else
            end_descent(r, first);
        return CLEAVE_OK;
    case CLEAVE_REFINE_SINGLES:
    case CLEAVE_REFINE_LAST_SINGLES:
        s->is_local_optimum = whole && r->swept && r->sweep.complete;
        if (stays && s->improved &&
            !s->limits.singles) { /* groups may have got something to improve */
            s->improved = false;
            enter(r, first ? CLEAVE_REFINE_GROUPS : CLEAVE_REFINE_LAST_GROUPS);
        } else if (spent(r) < 1 && s->improved && s->limits.singles && s->limits.pairs) {
            s->improved = false; /* others are promising now */
            enter(r, s->phase);
        } else {
            end_descent(r, first);
        }
        return CLEAVE_OK;
    case CLEAVE_REFINE_ANNEAL:
        CLEAVE_TRY(
            cleave_chain_go_to(r->chain, &(cleave_chain_start){&s->best, &s->best_price}, error));
        s->improved = false;
        enter(r, CLEAVE_REFINE_LAST_GROUPS);
        return CLEAVE_OK;
    case CLEAVE_REFINE_DONE:
        break;
    }
    return CLEAVE_OK;
}

/* ---- proposals ------------------------------------------------------------------------------- */

static void note(run *r) {
    cleave_refine_state *s = r->state;
    const cleave_model *model = r->refine->source.model;
    s->proposals = r->proposals + r->chain->proposals;
    s->accepted = r->accepted + r->chain->accepted;
    s->work = r->work + r->chain->work;
    cleave_choices_copy(model, &r->chain->choices, &s->current);
    if (cleave_price_nearer(&r->chain->price, &s->best_price)) {
        cleave_choices_copy(model, &r->chain->choices, &s->best);
        s->best_price = r->chain->price;
        s->is_local_optimum = false;
    }
    if (r->refine->after != NULL)
        r->refine->after(r->refine->context, s);
}

static int log2_of(int64_t value) {
    int result = 0;
    while (value > 1 && result < CLEAVE_REFINE_SPREAD - 1) {
        value >>= 1;
        result++;
    }
    return result;
}

/* Both ends of a run of places have to change: else it is a shorter one. */
static cleave_status propose_places(run *r, const cleave_move *move, bool *changes,
                                    cleave_error *error) {
    const cleave_choice *is = r->chain->choices.of, *as = move->like->of;
    const int32_t *place_of = r->refine->source.place_of;
    int32_t first = place_of[move->op], end = first + move->n_places, last = move->op;
    while (place_of[last] != end - 1)
        last++;
    *changes =
        !cleave_same_choice(is[move->op], as[move->op]) && !cleave_same_choice(is[last], as[last]);
    for (int32_t op = move->op; op < r->refine->source.model->n_operators && *changes; op++)
        if (place_of[op] >= first && place_of[op] < end)
            CLEAVE_TRY(cleave_chain_change(r->chain, op, as[op], error));
    return CLEAVE_OK;
}

/* Are members those of several places, of which op's is the first?  Others move by themselves. */
static bool is_several(const int32_t *place_of, const int32_t *members, int32_t n, int32_t op) {
    return members[0] == op && place_of[members[n - 1]] != place_of[op];
}

/* False: it is what is there already. */
static cleave_status propose_swept(run *r, const cleave_move *move, bool *changes,
                                   cleave_error *error) {
    cleave_chain *c = r->chain;
    *changes = true;
    if (move->op < 0)
        return cleave_chain_shard(c, move->tensor, !c->choices.sharded[move->tensor], error);
    if (move->like != NULL)
        return propose_places(r, move, changes, error);
    *changes = !cleave_same_choice(c->choices.of[move->op], move->choice);
    if (move->with >= 0) {
        *changes = *changes || !cleave_same_choice(c->choices.of[move->with], move->with_choice);
        CLEAVE_TRY(cleave_chain_change(c, move->op, move->choice, error));
        return cleave_chain_change(c, move->with, move->with_choice, error);
    }
    if (!*changes)
        return CLEAVE_OK;
    const cleave_sweep_source *source = &r->refine->source;
    int32_t n = cleave_sweep_members(source, &c->choices, move->op, move->scope, r->members);
    if (source->place_of != NULL && move->scope == CLEAVE_MOVE_GROUP)
        *changes = is_several(source->place_of, r->members, n, move->op);
    if (!*changes)
        return CLEAVE_OK;
    for (int32_t i = 0; i < n; i++)
        CLEAVE_TRY(cleave_chain_change(c, r->members[i], move->choice, error));
    return CLEAVE_OK;
}

/* Is the temperature of an annealing that follows learnt from what changes add? */
static bool learns_spread(const run *r) {
    cleave_refine_phase phase = r->state->phase;
    return r->state->anneals && r->refine->hottest <= 0 &&
           (phase == CLEAVE_REFINE_GROUPS || phase == CLEAVE_REFINE_SINGLES);
}

static cleave_status try_move(run *r, const cleave_move *move, cleave_error *error) {
    cleave_chain *c = r->chain;
    cleave_refine_state *s = r->state;
    bool changes;
    CLEAVE_TRY(propose_swept(r, move, &changes, error));
    s->since_improved++;
    if (!changes)
        return CLEAVE_OK;
    int64_t below = c->price.excess_bytes > 0 ? INT64_MAX : c->price.step;
    bool learns = learns_spread(r);
    CLEAVE_TRY(cleave_chain_price(c, below, !learns, error));
    if (cleave_price_nearer(&c->proposed, &c->price)) {
        s->since_improved = 0;
        s->improved = true;
        CLEAVE_TRY(cleave_chain_accept(c, error));
    } else {
        if (learns && c->proposed.step > c->price.step && c->price.excess_bytes == 0 &&
            move->op >= 0 && move->with < 0)
            s->spread[log2_of(c->proposed.step - c->price.step)]++;
        CLEAVE_TRY(cleave_chain_reject(c, error));
    }
    note(r);
    if (s->lean && c->price.excess_bytes == 0) /* from now on others are promising */
        enter(r, s->phase);
    return CLEAVE_OK;
}

static cleave_status make_sweep(run *r, cleave_error *error) {
    if (r->swept)
        return CLEAVE_OK;
    r->swept = true;
    if (r->refine->source.given != NULL) {
        r->sweep = *r->refine->source.given;
        return CLEAVE_OK;
    }
    cleave_arena_reset(&r->sweep_arena);
    bool groups = is_of_groups(r->state->phase) || r->refine->source.place_of != NULL;
    const cleave_sweep_kind kind = {groups, r->state->lean, r->state->limits.pairs};
    return cleave_sweep_create(&r->refine->source, &r->state->base, kind, &r->sweep_arena,
                               &r->sweep, error);
}

/* The next move of a whole sweep.  Few of them improve anything, and these are nearly all among the
   most promising, time and again; so others have their turn only when of those none does. */
static int64_t next_of_whole(run *r) {
    cleave_refine_state *s = r->state;
    int64_t n_front = (r->sweep.n + FRONT - 1) / FRONT;
    if (s->since_improved >= n_front)
        return s->since_improved;
    return s->cursor++ % n_front;
}

/* One move of the sweep, or the end of it. */
static cleave_status step_sweep(run *r, cleave_error *error) {
    cleave_refine_state *s = r->state;
    bool first = s->phase == CLEAVE_REFINE_GROUPS || s->phase == CLEAVE_REFINE_SINGLES;
    CLEAVE_TRY(make_sweep(r, error));
    int32_t lanes = s->limits.n_lanes > 1 ? s->limits.n_lanes : 1;
    if ((s->limits.once ? s->cursor : s->since_improved) >= (r->sweep.n + lanes - 1) / lanes)
        return leave(r, lanes == 1, error);
    bool groups = is_of_groups(s->phase);
    int64_t patience = groups && !s->lean ? (s->limits.patience + 3) / 4 : s->limits.patience;
    double share = (first && s->anneals ? first_share : 1) * (groups ? group_share : 1);
    if ((patience > 0 && s->since_improved >= patience && !is_affordable(r)) || spent(r) >= share)
        return leave(r, false, error);
    if (is_affordable(r))
        return try_move(r, &r->sweep.moves[next_of_whole(r)], error);
    int64_t at = s->cursor * lanes + s->limits.lane;
    if (at >= r->sweep.n) {
        s->cursor = 0;
        at = s->limits.lane < r->sweep.n ? s->limits.lane : 0;
    }
    s->cursor++;
    return try_move(r, &r->sweep.moves[at], error);
}

/* A proposal is taken where its step is below the present one plus something drawn: the Metropolis
   rule, by which one that takes longer by d is taken with probability exp(-d / temperature). */
static cleave_status step_annealing(run *r, cleave_error *error) {
    cleave_refine_state *s = r->state;
    cleave_chain *c = r->chain;
    double share = (spent(r) - s->annealed_from) / larger(anneal_share - s->annealed_from, 1e-9);
    if (share >= 1)
        return leave(r, true, error);
    double temperature = s->temperature * pow(coldest, larger(share, 0));
    CLEAVE_TRY(cleave_draw_move(&r->drawing, &s->random, c, error));
    double drawn = -log(1 - cleave_random_next_uniform(&s->random)) * temperature;
    int64_t below = INT64_MAX;
    if (c->price.excess_bytes == 0 && drawn < 0x1p62 - (double)c->price.step)
        below = c->price.step + (int64_t)drawn + 1;
    CLEAVE_TRY(cleave_chain_price(c, below, true, error));
    bool taken = c->price.excess_bytes > 0
                     ? !cleave_price_nearer(&c->price, &c->proposed)
                     : c->proposed.excess_bytes == 0 && c->proposed.step < below;
    if (taken)
        CLEAVE_TRY(cleave_chain_accept(c, error));
    else
        CLEAVE_TRY(cleave_chain_reject(c, error));
    note(r);
    return CLEAVE_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Of where it begins; null where it has gone on from the best, or nothing is priced yet. */
static const cleave_price *known_price(const run *r) {
    const cleave_refine_state *s = r->state;
    bool is_best = s->best_price.excess_bytes < INT64_MAX &&
                   cleave_choices_equal(r->refine->source.model, &s->current, &s->best);
    return is_best ? &s->best_price : NULL;
}

static cleave_status begin(run *r, cleave_error *error) {
    const cleave_refine *refine = r->refine;
    const cleave_sweep_source *source = &refine->source;
    r->members = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, source->model->n_operators);
    if (r->members == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(cleave_drawing_create(source, &r->arena, &r->drawing, error));
    const cleave_chain_start start = {&r->state->current, known_price(r)};
    const cleave_chain_frame frame = {
        .candidates = source->candidates, .like = refine->like, .in_steps = refine->in_steps};
    if (r->chain->pricer == NULL)
        CLEAVE_TRY(
            cleave_chain_begin(refine->pricer, &frame, &start, refine->arena, r->chain, error));
    else
        CLEAVE_TRY(cleave_chain_go_to(r->chain, &start, error));
    r->chain->whole_work = refine->whole_work;
    r->chain->proposals = r->chain->accepted = r->chain->work = 0;
    r->proposals = r->state->proposals;
    r->accepted = r->state->accepted;
    r->work = r->state->work;
    r->started_seconds = cleave_clock_seconds();
    if (start.price != NULL)
        r->state->best_price = r->chain->price;
    if (r->state->proposals == 0)
        r->state->lean = is_lean(r);
    note(r); /* the start */
    return CLEAVE_OK;
}

static cleave_status go_on(run *r, cleave_error *error) {
    while (r->state->phase != CLEAVE_REFINE_DONE && !is_stopped(r)) {
        if (is_sweep(r->state->phase))
            CLEAVE_TRY(step_sweep(r, error));
        else
            CLEAVE_TRY(step_annealing(r, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_refine_run(const cleave_refine *refine, cleave_refine_state *state,
                                cleave_error *error) {
    run r = {.refine = refine, .state = state, .chain = refine->chain};
    if (state->phase == CLEAVE_REFINE_DONE)
        return CLEAVE_OK;
    cleave_status status = begin(&r, error);
    if (status == CLEAVE_OK)
        status = go_on(&r, error);
    cleave_arena_free(&r.arena);
    cleave_arena_free(&r.sweep_arena);
    return status;
}
