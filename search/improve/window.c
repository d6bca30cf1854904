/* Windows of a node, of two, of four ...: the splits of smaller windows are among those of larger
   ones, so each size starts from what the one before has come to, and tries what is new in it; when
   that is nothing, larger ones are not looked at.  Baselines of a window are starts, too, since a
   pair of operators may only be better when both change (the columns and rows of Megatron). */
#include "search/improve/window.h"

#include "base/progress.h"
#include "costmodel/machine_fold.h"
#include "search/improve/refine.h"
#include "search/price/repeat.h"
#include "search/problem/baselines.h"
#include "search/problem/space.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N_STARTS = 3 };
static const char *const starts[N_STARTS] = {"data-parallel", "one-weird-trick", "megatron"};

enum { MOST_STARTS = 32, MOST_SWEEPS = 8, MOST_RUN = 8 };

typedef struct window_search {
    const cleave_problem *problem;
    cleave_pricer *pricer;
    const cleave_window_options *options;
    cleave_arena work;
    cleave_blocks blocks;    /* that change together */
    cleave_repeats *repeats; /* where the pricer has none */
    cleave_windows *windows;
    cleave_layout like; /* number of devices, collectives */
    cleave_window_space space;
    int32_t windows_before; /* of the size of windows before; 0: this is the first */
    cleave_chain chain;     /* in this space; its pricer is null where it has not begun */
    cleave_choices starts[MOST_STARTS]; /* of this size: parts of them are moves, too */
    int32_t n_starts;
    cleave_window_found found; /* of whole models; found.price.step 0: none yet */
    int64_t proposals;
    double whole_work; /* of all devices, by the first choice that folded; 0: none yet */
    char why_not[sizeof(cleave_error)];
} window_search;

/* ---- limits ---------------------------------------------------------------------------------- */

static bool is_limited(const window_search *s) { return s->options->most_wholes > 0; }

static double work_left(const window_search *s) {
    return s->options->most_wholes * s->whole_work - (double)cleave_windows_work(s->windows);
}

static bool is_over(const window_search *s) {
    const cleave_window_options *o = s->options;
    return (o->interrupted != NULL && *o->interrupted != 0) ||
           (o->most_proposals > 0 && s->proposals >= o->most_proposals) ||
           (is_limited(s) && s->whole_work > 0 && work_left(s) < 0) ||
           (o->until_seconds > 0 && cleave_clock_seconds() > o->until_seconds);
}

/* Of one sweep, which gets all that is left; but of work half: changes of larger windows promise
   more than going through the same ones again. */
static cleave_refine_limits limits_of_sweep(const window_search *s) {
    const cleave_window_options *o = s->options;
    cleave_refine_limits limits = {.singles = true, .once = true};
    if (o->most_proposals > 0)
        limits.proposals = o->most_proposals - s->proposals;
    if (is_limited(s))
        limits.work = (int64_t)(work_left(s) / 2) + 1;
    if (o->until_seconds > 0)
        limits.seconds = fmax(o->until_seconds - cleave_clock_seconds(), 1e-6);
    return limits;
}

/* ---- starts ---------------------------------------------------------------------------------- */

/* What of the window a candidate gives to an axis. */
static int32_t share_of(const cleave_window_space *space, int outer,
                        const cleave_candidate *candidate, int axis) {
    int32_t windows = space->n_devices / space->window_devices;
    return axis == outer ? candidate->degree[axis] / windows : candidate->degree[axis];
}

/* The split nearest to one of a single window: the axis that it cuts most is cut as much. */
static int32_t nearest(const window_search *s, int32_t group, const cleave_split *wanted) {
    const cleave_candidate_list *list = cleave_window_list(&s->space, group);
    const cleave_operator *op = &s->problem->model->operators[s->space.first_op[group]];
    int outer = cleave_outer_axis(op), most = -1;
    int32_t best = 0;
    for (int a = 0; a < op->n_axes; a++)
        if (wanted->degree[a] > (most < 0 ? 1 : wanted->degree[most]))
            most = a;
    for (int32_t i = 1; i < list->n && most >= 0; i++) {
        int32_t share = share_of(&s->space, outer, &list->items[i], most);
        int32_t before = share_of(&s->space, outer, &list->items[best], most);
        if (share > before && share <= wanted->degree[most])
            best = i;
    }
    return best;
}

/* A baseline of the first `n_devices` of a window, the rest of it data parallel. */
static cleave_status start_from(window_search *s, const char *name, int32_t n_devices,
                                cleave_choices *choices, bool *applies, cleave_error *error) {
    const cleave_window_space *space = &s->space;
    cleave_arena scratch = {0};
    cleave_machine window = *s->pricer->machine; /* only the number of its devices is looked at */
    cleave_layout layout;
    window.n_devices = n_devices;
    cleave_status status = cleave_baseline_layout(s->problem->model, &window, name, 0, &scratch,
                                                  &layout, applies, error);
    for (int32_t op = 0; op < s->problem->model->n_operators && status == CLEAVE_OK; op++) {
        int32_t group = space->group_of[op], first = space->first_op[group];
        choices->of[op] = first < op ? choices->of[first]
                                     : (cleave_choice){nearest(s, group, &layout.splits[op]), 0};
    }
    cleave_arena_free(&scratch);
    return status;
}

/* The first start of a size that folds is begun with. */
static cleave_status begin_chain(window_search *s, const cleave_choices *choices, bool *folds,
                                 cleave_error *error) {
    const cleave_chain_start start = {choices, NULL};
    const cleave_chain_frame frame = {.candidates = &s->space.candidates,
                                      .like = &s->like,
                                      .windows = s->windows,
                                      .window_devices = s->space.window_devices};
    cleave_status status =
        cleave_chain_begin(s->pricer, &frame, &start, &s->work, &s->chain, error);
    *folds = status == CLEAVE_OK;
    if (*folds && s->whole_work <= 0)
        s->whole_work =
            (double)cleave_windows_work(s->windows) * s->space.n_devices / s->space.window_devices;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

/* Others are gone to. */
static cleave_status go_to(cleave_chain *chain, const cleave_choices *choices, bool *folds,
                           cleave_error *error) {
    for (int32_t op = 0; op < chain->pricer->model->n_operators; op++)
        CLEAVE_TRY(cleave_chain_change(chain, op, choices->of[op], error));
    CLEAVE_TRY(cleave_chain_price(chain, INT64_MAX, false, error));
    *folds = chain->proposed.excess_bytes < INT64_MAX;
    return *folds ? cleave_chain_accept(chain, error) : cleave_chain_reject(chain, error);
}

/* Prices the start that comes next, where it folds; `best` is the best one so far. */
static cleave_status try_start(window_search *s, int32_t *best, cleave_price *least,
                               cleave_error *error) {
    const cleave_choices *start = &s->starts[s->n_starts];
    bool folds;
    s->proposals++;
    if (s->chain.pricer == NULL)
        CLEAVE_TRY(begin_chain(s, start, &folds, error));
    else
        CLEAVE_TRY(go_to(&s->chain, start, &folds, error));
    if (!folds)
        return CLEAVE_OK;
    if (cleave_price_nearer(&s->chain.price, least)) {
        *best = s->n_starts;
        *least = s->chain.price;
    }
    s->n_starts++;
    return CLEAVE_OK;
}

/* Baselines of a window, of half of it, a quarter ... */
static cleave_status try_baselines(window_search *s, int32_t *best, cleave_price *least,
                                   cleave_error *error) {
    for (int i = 0; i < N_STARTS; i++)
        for (int32_t n = s->space.window_devices; n > 1 && s->n_starts < MOST_STARTS && !is_over(s);
             n = n % 2 == 0 ? n / 2 : 1) {
            bool applies;
            CLEAVE_TRY(start_from(s, starts[i], n, &s->starts[s->n_starts], &applies, error));
            if (applies)
                CLEAVE_TRY(try_start(s, best, least, error));
            if (i == 0 || !applies)
                break; /* data parallel it is anyway */
        }
    return CLEAVE_OK;
}

/* Goes to the best of the starts: what the size before has come to, and baselines. */
static cleave_status choose_start(window_search *s, cleave_error *error) {
    const cleave_model *model = s->problem->model;
    const cleave_chain before = s->chain;
    int32_t best = 0;
    cleave_price least = {.excess_bytes = INT64_MAX, .over = DBL_MAX};
    s->chain = (cleave_chain){0};
    s->n_starts = 0;
    if (before.pricer != NULL) {
        cleave_choices_of(model, &s->space.candidates, &before.layout, &s->starts[0]);
        CLEAVE_TRY(try_start(s, &best, &least, error));
    }
    CLEAVE_TRY(try_baselines(s, &best, &least, error));
    if (s->n_starts == 0)
        return CLEAVE_OK;
    const cleave_chain_start start = {&s->starts[best], NULL};
    return cleave_chain_go_to(&s->chain, &start, error);
}

/* ---- runs of starts -------------------------------------------------------------------------- */

/* Is the run, of groups from `first` on, in none of the starts before? */
static bool is_new_run(const window_search *s, int32_t start, int32_t first, int32_t n) {
    const int32_t *op = s->space.first_op + first;
    for (int32_t before = 0; before < start; before++) {
        int32_t same = 0;
        while (same < n &&
               cleave_same_choice(s->starts[before].of[op[same]], s->starts[start].of[op[same]]))
            same++;
        if (same == n)
            return false;
    }
    return true;
}

/* Runs of groups as the starts have them, such as two products of which the second undoes what the
   first one cuts. */
static cleave_status list_runs(window_search *s, cleave_sweep *runs, cleave_error *error) {
    size_t most = (size_t)(MOST_RUN - 1) * (size_t)s->space.n_groups * (size_t)s->n_starts;
    cleave_sweep made = {.moves = CLEAVE_ARENA_ARRAY(&s->work, cleave_move, most)};
    if (made.moves == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t n = 2; n <= MOST_RUN; n++)
        for (int32_t first = 0; first + n <= s->space.n_groups; first++)
            for (int32_t i = 0; i < s->n_starts; i++)
                if (is_new_run(s, i, first, n))
                    made.moves[made.n++] = (cleave_move){
                        .op = s->space.first_op[first], .like = &s->starts[i], .n_places = n};
    *runs = made;
    return CLEAVE_OK;
}

/* ---- whole models ---------------------------------------------------------------------------- */

/* Prices the whole model where the chain is; it is kept if it is the best that fits. */
static cleave_status price_whole(window_search *s, cleave_arena *arena, cleave_error *error) {
    cleave_price price;
    double start = cleave_clock_seconds();
    const cleave_price_subject what = {.layout = &s->chain.layout, .view = CLEAVE_VIEW_WINDOW};
    cleave_status status = cleave_pricer_price(s->pricer, &what, NULL, &price, error);
    s->found.pricing_seconds += cleave_clock_seconds() - start;
    if (status == CLEAVE_NO_LAYOUT) { /* not all blocks are as those that were kept */
        snprintf(s->why_not, sizeof s->why_not, "%s", error->message);
        return CLEAVE_OK;
    }
    CLEAVE_TRY(status);
    if (price.excess_bytes > 0 || (s->found.price.step > 0 && price.step >= s->found.price.step))
        return CLEAVE_OK;
    s->found.price = price;
    s->found.n_devices = s->space.window_devices;
    return cleave_layout_keep(&s->chain.layout, s->problem->model, arena, &s->found.layout, error);
}

/* ---- sizes of windows ------------------------------------------------------------------------ */

static cleave_status sweep(window_search *s, const cleave_sweep *moves, bool *improved,
                           cleave_error *error) {
    const cleave_refine_limits limits = limits_of_sweep(s);
    const cleave_refine refine = {.source = {.model = s->problem->model,
                                             .candidates = &s->space.candidates,
                                             .place_of = s->space.group_of,
                                             .windows_before = s->windows_before,
                                             .given = moves},
                                  .chain = &s->chain,
                                  .interrupted = s->options->interrupted};
    cleave_refine_state state = {0};
    cleave_arena scratch = {0};
    cleave_status status = cleave_refine_state_create(s->problem->model, &s->chain.choices, &limits,
                                                      &scratch, &state, error);
    if (status == CLEAVE_OK)
        status = cleave_refine_run(&refine, &state, error);
    cleave_arena_free(&scratch);
    *improved = state.improved;
    s->proposals += state.proposals;
    return status;
}

/* Sweeps, and where they improve nothing runs of starts, for as long as anything does; where work
   is limited one. */
static cleave_status descend(window_search *s, cleave_error *error) {
    cleave_sweep runs;
    bool improved = true;
    for (int i = 0; i < (is_limited(s) ? 1 : MOST_SWEEPS) && improved && !is_over(s); i++) {
        CLEAVE_TRY(sweep(s, NULL, &improved, error));
        if (improved || is_limited(s) || is_over(s))
            continue;
        CLEAVE_TRY(list_runs(s, &runs, error));
        CLEAVE_TRY(sweep(s, &runs, &improved, error));
    }
    return CLEAVE_OK;
}

static cleave_status search_size(window_search *s, int32_t window_devices, bool *improved,
                                 cleave_arena *arena, cleave_error *error) {
    const cleave_price none = {.excess_bytes = INT64_MAX, .over = DBL_MAX};
    cleave_price before = s->chain.pricer != NULL ? s->chain.price : none;
    s->windows_before = s->space.n_groups > 0 ? s->space.n_devices / s->space.window_devices : 0;
    CLEAVE_TRY(cleave_window_space_create(s->problem, &s->blocks, window_devices, &s->work,
                                          &s->space, error));
    CLEAVE_TRY(choose_start(s, error));
    if (s->n_starts > 0)
        CLEAVE_TRY(descend(s, error));
    *improved = s->n_starts > 0 && cleave_price_nearer(&s->chain.price, &before);
    return *improved ? price_whole(s, arena, error) : CLEAVE_OK;
}

static cleave_status search_sizes(window_search *s, cleave_arena *arena, cleave_error *error) {
    const cleave_machine *machine = s->pricer->machine;
    bool improved = true;
    for (int32_t m = 0; (m = cleave_window_next(machine, m)) > 0 && !is_over(s);) {
        cleave_status status = search_size(s, m, &improved, arena, error);
        if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT)
            return status;
        if (status == CLEAVE_NO_LAYOUT)
            snprintf(s->why_not, sizeof s->why_not, "%s", error->message);
        else if (s->chain.pricer != NULL && !improved)
            break;
    }
    return CLEAVE_OK;
}

static cleave_status begin(window_search *s, const cleave_collective_rules *rules,
                           cleave_error *error) {
    const cleave_model *model = s->problem->model;
    const cleave_machine *machine = s->pricer->machine;
    const cleave_constraints *constraints = s->problem->constraints;
    if (!cleave_machine_may_fold(machine, error))
        return CLEAVE_NO_LAYOUT;
    if (constraints == NULL || constraints->fixed == NULL) /* its neighbours differ from others */
        s->blocks = s->problem->blocks;
    if (s->pricer->repeats == NULL && s->blocks.n > 0) {
        CLEAVE_TRY(cleave_repeats_create(s->pricer, &s->blocks, &s->repeats, error));
        s->pricer->repeats = s->repeats;
    }
    for (int i = 0; i < MOST_STARTS; i++)
        CLEAVE_TRY(cleave_choices_create(model, &s->work, &s->starts[i], error));
    CLEAVE_TRY(cleave_layout_create(model, machine->n_devices, &s->work, &s->like, error));
    s->like.collectives = *rules;
    snprintf(s->like.machine, sizeof s->like.machine, "%s", machine->name);
    return cleave_windows_create(s->pricer, &s->blocks, &s->windows, error);
}

static cleave_status run(window_search *s, const cleave_collective_rules *rules,
                         cleave_arena *arena, cleave_error *error) {
    CLEAVE_TRY(begin(s, rules, error));
    CLEAVE_TRY(search_sizes(s, arena, error));
    if (s->found.price.step == 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "no layout that folds %s: %s",
                           s->chain.pricer != NULL ? "fits" : "was found",
                           s->why_not[0] != '\0' ? s->why_not : "memory is short on every device");
    s->found.n_blocks = s->blocks.n;
    s->found.proposals = s->proposals;
    return CLEAVE_OK;
}

cleave_status cleave_window_search(const cleave_problem *problem, cleave_pricer *pricer,
                                   const cleave_collective_rules *rules,
                                   const cleave_window_options *options, cleave_arena *arena,
                                   cleave_window_found *found, cleave_error *error) {
    window_search s = {.problem = problem, .pricer = pricer, .options = options};
    cleave_status status = run(&s, rules, arena, error);
    cleave_windows_destroy(s.windows);
    if (s.repeats != NULL)
        pricer->repeats = NULL;
    cleave_repeats_destroy(s.repeats);
    cleave_arena_free(&s.work);
    if (status == CLEAVE_OK)
        *found = s.found;
    return status;
}
