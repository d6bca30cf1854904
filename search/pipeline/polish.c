/* What is best in stages, changed in single things as long as that helps.

   Plans count memory and time by formula, and where a stage has a few operators what is not counted
   (messages, gradients on their way) is as much as what is.  So of few operators on few devices the
   best layout of every number of groups and of micro-batches is changed once more, priced in full:
   where it is cut, the kind of its schedule, what is recomputed and sharded, how each operator is
   split over its group; and where that is done, twice or half the micro-batches. */
#include "base/order.h"
#include "base/random.h"
#include "search/pipeline/internal.h"
#include "search/problem/baselines.h"
#include "search/problem/candidates.h"
#include "search/problem/goes_with.h"

/* Layouts that may be priced, times their operators x devices. */
enum { MOST_POLISHED = 40000 };
/* Times the micro-batches, where all is on one device. */
enum { MOST_DOUBLED = 8 };

/* What was priced on one way is known on all that come by it again. */
typedef struct known_price {
    uint64_t key; /* of a layout; 0: there is none */
    cleave_price price;
} known_price;

typedef struct polisher {
    pipeline_finder *f;
    cleave_arena arena;
    int32_t n_groups;             /* that candidates are of */
    cleave_candidates candidates; /* on the devices of one group */
    pipeline_start now, next;     /* next: where now does not fit, the best of its changes so far */
    bool moved, has_next;
    int32_t left;       /* layouts that may be priced */
    known_price *known; /* [n_known] each at its key, or at the next free place */
    uint32_t n_known;   /* a power of two, more than are priced */
} polisher;

/* The place of a device. */
static int32_t place_of(const int32_t *order, int32_t device) {
    int32_t place = 0;
    while (order != NULL && order[place] != device)
        place++;
    return order == NULL ? device : place;
}

static uint64_t key_of(const cleave_layout *layout) {
    const cleave_schedule *schedule = &layout->schedule;
    uint64_t key = cleave_hash_join((uint64_t)schedule->kind, (uint64_t)schedule->micro_batches);
    for (int32_t s = 1; s < schedule->n_stages; s++)
        key = cleave_hash_join(key, (uint64_t)schedule->first_operator[s]);
    for (int32_t t = 0; t < layout->n_tensors; t++)
        key = cleave_hash_join(key, layout->sharded[t]);
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        key = cleave_hash_join(key, cleave_layout_recomputes(layout, op));
        key = cleave_hash_join(key, (uint64_t)split->replicas);
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            key = cleave_hash_join(key, (uint64_t)split->degree[a]);
        for (int32_t i = 0; i < split->n_parts; i++)
            key = cleave_hash_join(key, (uint64_t)split->devices[i]);
    }
    return key != 0 ? key : 1;
}

/* Where a price is, or may be put. */
static known_price *find_known(const polisher *p, uint64_t key) {
    uint32_t at = (uint32_t)key & (p->n_known - 1);
    while (p->known[at].key != 0 && p->known[at].key != key)
        at = (at + 1) & (p->n_known - 1);
    return &p->known[at];
}

/* What can't be priced is over any limit. */
static cleave_status price_layout(polisher *p, const cleave_layout *layout, cleave_price *price) {
    uint64_t key = key_of(layout);
    known_price *known = find_known(p, key);
    bool tried = true;
    if (known->key == 0) {
        p->left--;
        CLEAVE_TRY(pipeline_try_layout(p->f, layout, &tried, &known->price));
        known->key = key;
    }
    if (!tried)
        known->price.excess_bytes = INT64_MAX;
    *price = known->price;
    return CLEAVE_OK;
}

/* Takes it where it is better.  From what does not fit the first that fits may be a bad place to go
   on from, so the best of all changes is taken there. */
static cleave_status try_layout(polisher *p, const cleave_layout *layout) {
    bool fits = p->now.price.excess_bytes == 0;
    pipeline_start *best = !fits && p->has_next ? &p->next : &p->now;
    cleave_price price;
    if (p->left == 0 || pipeline_is_over(p->f) ||
        cleave_layout_check(p->f->pricer->model, layout, NULL) != CLEAVE_OK)
        return CLEAVE_OK;
    CLEAVE_TRY(price_layout(p, layout, &price));
    if (!cleave_price_better(&price, &best->price))
        return CLEAVE_OK;
    best = fits ? &p->now : &p->next;
    p->moved = true;
    p->has_next = !fits;
    best->price = price;
    return cleave_layout_copy(layout, p->f->pricer->model, &p->arena, &best->layout, p->f->error);
}

static void go_to_next(polisher *p) {
    if (!p->has_next)
        return;
    p->now.layout = p->next.layout;
    p->now.price = p->next.price;
    p->has_next = false;
}

static cleave_status begin(polisher *p, cleave_arena *scratch, cleave_layout *layout) {
    return cleave_layout_copy(&p->now.layout, p->f->pricer->model, scratch, layout, p->f->error);
}

/* ---- changes --------------------------------------------------------------------------------- */

/* The operator goes on as it was on the devices of the stage that it comes to. */
static void change_stage(polisher *p, int32_t op, int32_t by, cleave_layout *layout) {
    int32_t of_group = layout->n_devices / p->n_groups;
    for (int32_t d = 0; d < layout->splits[op].n_parts; d++) {
        int32_t *device = &layout->splits[op].devices[d];
        int32_t place = place_of(p->now.order, *device) + by * of_group + layout->n_devices;
        *device = pipeline_device_at(p->now.order, place % layout->n_devices);
    }
}

/* All of a stage, or as it is of -1. */
static void recompute_stage(int32_t stage, cleave_layout *layout) {
    for (int32_t op = 0; op < layout->n_operators; op++)
        if (cleave_schedule_stage_of(&layout->schedule, op) == stage)
            layout->recompute[op] = true;
}

static cleave_status try_cut(polisher *p, int32_t s, int32_t first, cleave_schedule_kind kind,
                             int32_t recomputed, cleave_arena *scratch) {
    cleave_layout layout;
    CLEAVE_TRY(begin(p, scratch, &layout));
    int32_t *cut = &layout.schedule.first_operator[s];
    for (; *cut < first; ++*cut)
        change_stage(p, *cut, -1, &layout);
    for (; *cut > first; --*cut)
        change_stage(p, *cut - 1, 1, &layout);
    layout.schedule.kind = kind;
    recompute_stage(recomputed, &layout);
    return try_layout(p, &layout);
}

/* A stage begins anywhere between its neighbours, under any kind, and with all of the stage before
   or behind the cut recomputed: where memory is short, to mark one operator of it may help nothing.
 */
static cleave_status move_cut(polisher *p, int32_t s, cleave_arena *scratch) {
    const cleave_schedule_wish *wish = &p->f->options->wish;
    static const cleave_schedule_kind kinds[] = {CLEAVE_SCHEDULE_1F1B, CLEAVE_SCHEDULE_ZB_H1,
                                                 CLEAVE_SCHEDULE_GPIPE};
    const cleave_schedule *now = &p->now.layout.schedule;
    int32_t least = now->first_operator[s - 1] + 1, n = p->now.layout.n_operators,
            end = s + 1 < now->n_stages ? now->first_operator[s + 1] : n;
    bool may_be_other = wish->kind < 0 && now->n_stages == p->n_groups;
    for (int32_t first = least; first < end && wish->layers == NULL; first++)
        for (int k = may_be_other ? 0 : 2; k < 3; k++)
            for (int32_t marked = s - 1; marked <= s + 1; marked++)
                if (marked > s || wish->recompute < 0)
                    CLEAVE_TRY(try_cut(p, s, first, may_be_other ? kinds[k] : now->kind,
                                       marked <= s ? marked : -1, scratch));
    return CLEAVE_OK;
}

static cleave_status move_cuts(polisher *p, cleave_arena *scratch) {
    for (int32_t s = 1; s < p->now.layout.schedule.n_stages; s++)
        CLEAVE_TRY(move_cut(p, s, scratch));
    return CLEAVE_OK;
}

static cleave_status change_micro_batches(polisher *p, cleave_arena *scratch) {
    for (int half = 0; half < 2 && p->f->options->wish.micro_batches == 0; half++) {
        cleave_layout layout;
        CLEAVE_TRY(begin(p, scratch, &layout));
        int32_t *m = &layout.schedule.micro_batches;
        *m = half ? (*m + 1) / 2 : *m * 2;
        CLEAVE_TRY(try_layout(p, &layout));
    }
    return CLEAVE_OK;
}

static cleave_status change_recomputed(polisher *p, int32_t op, cleave_arena *scratch) {
    cleave_layout layout;
    if (p->f->options->wish.recompute >= 0)
        return CLEAVE_OK;
    CLEAVE_TRY(begin(p, scratch, &layout));
    layout.recompute[op] = !layout.recompute[op];
    return try_layout(p, &layout);
}

static int32_t count_places(const polisher *p, int32_t op) {
    const cleave_candidate_list *list = &p->candidates.lists[p->candidates.list_of[op]];
    return (int32_t)cleave_candidates_count(list);
}

/* Of all operators: one mark less may need as much, where the next one is recomputed from it. */
static cleave_status change_all_recomputed(polisher *p, cleave_arena *scratch) {
    for (int all = 0; all < 2 && p->f->options->wish.recompute < 0; all++) {
        cleave_layout layout;
        CLEAVE_TRY(begin(p, scratch, &layout));
        for (int32_t op = 0; op < layout.n_operators; op++)
            layout.recompute[op] = all == 1;
        CLEAVE_TRY(try_layout(p, &layout));
    }
    return CLEAVE_OK;
}

/* The `place`-th candidate at one of its blocks, of the first places. */
static cleave_status place_split(const polisher *p, int32_t op, int32_t place,
                                 cleave_arena *scratch, cleave_split *split) {
    const cleave_candidate *at = p->candidates.lists[p->candidates.list_of[op]].items;
    for (; place >= at->n_starts; at++)
        place -= at->n_starts;
    split->devices = CLEAVE_ARENA_ARRAY(scratch, int32_t, at->n_parts);
    if (split->devices == NULL)
        return cleave_fail_memory(p->f->error, "searching");
    cleave_candidate_place(at, place, split);
    return CLEAVE_OK;
}

static cleave_status set_split(polisher *p, int32_t op, int32_t place, cleave_arena *scratch,
                               cleave_layout *layout) {
    cleave_split *split = &layout->splits[op];
    CLEAVE_TRY(place_split(p, op, place, scratch, split));
    for (int32_t d = 0; d < split->n_parts; d++)
        split->devices[d] = pipeline_device_at(p->now.order, split->devices[d]);
    change_stage(p, op, cleave_schedule_stage_of(&layout->schedule, op) % p->n_groups, layout);
    return CLEAVE_OK;
}

/* The candidate that a split of the first places is; -1: none. */
static int32_t find_place(const polisher *p, int32_t op, const cleave_split *split) {
    const cleave_candidate_list *list = &p->candidates.lists[p->candidates.list_of[op]];
    for (int32_t i = 0, place = 0; i < list->n; place += list->items[i++].n_starts) {
        int32_t start = cleave_candidate_find_start(&list->items[i], split);
        if (start >= 0)
            return place + start;
    }
    return -1;
}

/* Operators behind one that has got the `place`-th candidate go with it, one after the other, as
   far as their stage and their splits let them. */
static cleave_status follow(polisher *p, int32_t op, int32_t place, cleave_arena *scratch,
                            cleave_layout *layout) {
    const cleave_model *model = p->f->pricer->model;
    int32_t stage = cleave_schedule_stage_of(&layout->schedule, op);
    cleave_split split;
    CLEAVE_TRY(place_split(p, op, place, scratch, &split));
    while (++op < model->n_operators && cleave_schedule_stage_of(&layout->schedule, op) == stage) {
        bool goes;
        CLEAVE_TRY(
            cleave_split_goes_with(model, op - 1, &split, op, scratch, &split, &goes, p->f->error));
        place = goes ? find_place(p, op, &split) : -1;
        if (place < 0)
            break;
        CLEAVE_TRY(set_split(p, op, place, scratch, layout));
        CLEAVE_TRY(try_layout(p, layout));
    }
    return CLEAVE_OK;
}

/* Alone, or with what goes with it: of a product by columns, what follows it, and the next product
   by rows, none helps alone. */
static cleave_status change_split(polisher *p, int32_t op, bool alone, cleave_arena *scratch) {
    for (int32_t i = 0; i < count_places(p, op); i++) {
        cleave_layout layout;
        CLEAVE_TRY(begin(p, scratch, &layout));
        CLEAVE_TRY(set_split(p, op, i, scratch, &layout));
        CLEAVE_TRY(alone ? try_layout(p, &layout) : follow(p, op, i, scratch, &layout));
    }
    return CLEAVE_OK;
}

/* With the next one, where neither helps alone since what goes between them must move; and with
   what goes with that. */
static cleave_status change_pair(polisher *p, int32_t op, cleave_arena *scratch) {
    for (int32_t i = 0; i < count_places(p, op); i++)
        for (int32_t k = 0; k < count_places(p, op + 1); k++) {
            cleave_layout layout;
            CLEAVE_TRY(begin(p, scratch, &layout));
            CLEAVE_TRY(set_split(p, op, i, scratch, &layout));
            CLEAVE_TRY(set_split(p, op + 1, k, scratch, &layout));
            CLEAVE_TRY(try_layout(p, &layout));
            CLEAVE_TRY(follow(p, op + 1, k, scratch, &layout));
        }
    return CLEAVE_OK;
}

/* Every operator on one device of its group, with as many micro-batches as memory takes: the few
   launches and messages may be worth it. */
static cleave_status gather_on(polisher *p, int32_t device, cleave_arena *scratch) {
    cleave_layout layout;
    CLEAVE_TRY(begin(p, scratch, &layout));
    for (int32_t op = 0; op < layout.n_operators; op++) {
        const cleave_candidate_list *list = &p->candidates.lists[p->candidates.list_of[op]];
        int32_t i = 0, place = 0;
        for (; i < list->n && list->items[i].n_parts > 1; i++)
            place += list->items[i].n_starts;
        if (i == list->n || device >= list->items[i].n_starts)
            return CLEAVE_OK;
        CLEAVE_TRY(set_split(p, op, place + device, scratch, &layout));
    }
    const int32_t most = p->f->options->wish.micro_batches == 0 ? MOST_DOUBLED : 1;
    for (int32_t times = 1; times <= most; times *= 2) {
        CLEAVE_TRY(try_layout(p, &layout));
        layout.schedule.micro_batches *= 2;
    }
    return CLEAVE_OK;
}

/* Where devices are of several kinds, on each of them. */
static cleave_status gather(polisher *p, cleave_arena *scratch) {
    int32_t n = p->f->n_used_kinds > 1 ? p->f->pricer->machine->n_devices / p->n_groups : 1;
    for (int32_t d = 0; d < n; d++)
        CLEAVE_TRY(gather_on(p, d, scratch));
    return CLEAVE_OK;
}

/* Of all parameters at once, and of each by itself. */
static cleave_status change_sharded(polisher *p, cleave_arena *scratch) {
    const cleave_model *model = p->f->pricer->model;
    bool may_be_other = p->f->options->wish.zero == 0 && cleave_model_trains(model);
    if (!may_be_other || p->now.layout.n_devices == p->n_groups)
        return CLEAVE_OK;
    for (int32_t t = -1; t < model->n_tensors; t++)
        for (int what = CLEAVE_SHARDED_NOTHING; what < CLEAVE_N_SHARDED; what++) {
            cleave_layout layout;
            if (t >= 0 && model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER)
                break;
            CLEAVE_TRY(begin(p, scratch, &layout));
            if (t < 0)
                cleave_layout_shard(model, (cleave_sharded)what, &layout);
            else
                layout.sharded[t] =
                    (uint8_t)cleave_sharded_as(&model->tensors[t], (cleave_sharded)what);
            CLEAVE_TRY(try_layout(p, &layout));
        }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static cleave_status list_candidates(polisher *p, int32_t n_groups) {
    cleave_pricer *pricer = p->f->pricer;
    cleave_machine machine = *pricer->machine;
    cleave_problem problem;
    if (p->n_groups == n_groups)
        return CLEAVE_OK;
    p->n_groups = n_groups;
    machine.arena = &p->arena;
    CLEAVE_TRY(cleave_machine_build(&machine, machine.n_devices / n_groups, p->f->error));
    const cleave_constraints *constraints;
    CLEAVE_TRY(cleave_constraints_in_stage(p->f->options->constraints, machine.n_devices,
                                           pricer->model, NULL, &p->arena, &constraints,
                                           p->f->error));
    CLEAVE_TRY(cleave_problem_create(pricer->model, &machine, constraints, &p->arena, &problem,
                                     p->f->error));
    return cleave_candidates_list(&problem, NULL, 0, &p->arena, &p->candidates, p->f->error);
}

static cleave_status change_operators(polisher *p, cleave_arena *scratch) {
    int32_t n = p->f->pricer->model->n_operators;
    bool may_split = p->f->options->wish.tensor == 0;
    CLEAVE_TRY(change_all_recomputed(p, scratch));
    if (may_split)
        CLEAVE_TRY(gather(p, scratch));
    for (int32_t op = 0; op < n; op++) {
        CLEAVE_TRY(change_recomputed(p, op, scratch));
        if (may_split)
            CLEAVE_TRY(change_split(p, op, true, scratch));
    }
    for (int32_t op = 0; op + 1 < n && may_split && !p->moved; op++)
        CLEAVE_TRY(change_split(p, op, false, scratch));
    for (int32_t op = 0; op + 1 < n && may_split && !p->moved; op++)
        CLEAVE_TRY(change_pair(p, op, scratch));
    return CLEAVE_OK;
}

static cleave_status descend(polisher *p) {
    cleave_arena scratch = {0};
    cleave_status status = list_candidates(p, p->now.n_groups);
    for (p->moved = true; p->moved && status == CLEAVE_OK;) {
        p->moved = false;
        status = move_cuts(p, &scratch);
        if (status == CLEAVE_OK)
            status = change_sharded(p, &scratch);
        if (status == CLEAVE_OK)
            status = change_operators(p, &scratch);
        /* Where memory is short more micro-batches may be the least dear way to fit. */
        if (status == CLEAVE_OK && (!p->moved || p->has_next))
            status = change_micro_batches(p, &scratch);
        go_to_next(p);
        cleave_arena_reset(&scratch);
    }
    cleave_arena_free(&scratch);
    return status;
}

static int by_price(const void *a, const void *b) {
    const pipeline_start *x = a, *y = b;
    return cleave_price_better(&y->price, &x->price) - cleave_price_better(&x->price, &y->price);
}

/* Where there is memory for everything, and stages are no quicker, changes of them won't be. */
static bool is_worth_it(const pipeline_finder *f) {
    const cleave_price *best = f->options->best;
    bool is_tight = f->options->is_tight;
    for (int32_t i = 0; i < f->starts.n; i++)
        is_tight = is_tight || f->starts.items[i].price.excess_bytes > 0;
    return is_tight || best == NULL || pipeline_best(f) != best;
}

static cleave_status begin_polishing(pipeline_finder *f, polisher *p) {
    int32_t most = MOST_POLISHED / (f->pricer->model->n_operators * f->pricer->machine->n_devices);
    *p = (polisher){.f = f, .left = most, .n_known = 2};
    while (p->n_known < 2 * (uint32_t)most)
        p->n_known *= 2;
    p->known = CLEAVE_ARENA_ARRAY(&f->work, known_price, p->n_known);
    return p->known != NULL ? CLEAVE_OK : cleave_fail_memory(f->error, "searching");
}

cleave_status pipeline_polish(pipeline_finder *f) {
    polisher p;
    if (!is_worth_it(f))
        return CLEAVE_OK;
    CLEAVE_TRY(begin_polishing(f, &p));
    CLEAVE_SORT(f->starts.items, f->starts.n, by_price);
    cleave_status status = CLEAVE_OK;
    for (int32_t i = 0; i < f->starts.n && status == CLEAVE_OK && p.left > 0; i++) {
        p.now = f->starts.items[i];
        status = descend(&p);
    }
    cleave_arena_free(&p.arena);
    return status;
}
