/* A plan is a list of phases; what a shape does is one function of a table. */
#include "graph/model/collective_steps.h"

#include <stddef.h>

const char *const cleave_collective_names[] = {[CLEAVE_ALL_REDUCE] = "all-reduce",
                                               [CLEAVE_REDUCE_SCATTER] = "reduce-scatter",
                                               [CLEAVE_ALL_GATHER] = "all-gather",
                                               [CLEAVE_ALL_TO_ALL] = "all-to-all",
                                               NULL};

/* The largest power of two that is at most n. */
static int32_t power_within(int32_t n) {
    int32_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

static bool is_power_of_two(int32_t n) { return power_within(n) == n; }

/* The least k with 2^k >= n. */
static int32_t log2_above(int32_t n) {
    int32_t k = 0;
    while (k < 31 && INT32_C(1) << k < n)
        k++;
    return k;
}

cleave_collective_algorithm cleave_collective_default(int32_t n_members) {
    return is_power_of_two(n_members) ? CLEAVE_ALGORITHM_HALVING_DOUBLING : CLEAVE_ALGORITHM_RING;
}

bool cleave_collective_has_plan(cleave_collective_kind kind, cleave_collective_algorithm algorithm,
                                int32_t n_members, int32_t node_members) {
    if (n_members < 2 || kind == CLEAVE_ALL_TO_ALL)
        return false;
    switch (algorithm) {
    case CLEAVE_ALGORITHM_DEFAULT:
    case CLEAVE_ALGORITHM_RING:
    case CLEAVE_ALGORITHM_HALVING_DOUBLING:
        return true;
    case CLEAVE_ALGORITHM_TREE:
        return kind == CLEAVE_ALL_REDUCE;
    case CLEAVE_ALGORITHM_TWO_LEVEL:
        return node_members > 1 && node_members < n_members && n_members % node_members == 0;
    case CLEAVE_ALGORITHM_DIRECT:
    case CLEAVE_N_ALGORITHMS:
        break;
    }
    return false;
}

/* ---- from an algorithm to phases ---- */

static void add_phase(cleave_collective_plan *plan, cleave_collective_phase phase) {
    phase.power = power_within(phase.size);
    plan->n_steps += phase.n_steps;
    plan->phases[plan->n_phases++] = phase;
}

/* One half of an algorithm, reducing or gathering, over equal groups whose shape `in` gives. */
static void add_half(cleave_collective_plan *plan, cleave_collective_algorithm algorithm,
                     bool reduces, cleave_collective_phase in) {
    in.reduces = reduces;
    if (algorithm == CLEAVE_ALGORITHM_RING) {
        in.shape = CLEAVE_PHASE_RING;
        in.n_steps = in.size - 1;
    } else {
        in.shape = reduces ? CLEAVE_PHASE_HALVING : CLEAVE_PHASE_DOUBLING;
        in.n_steps = log2_above(power_within(in.size));
    }
    add_phase(plan, in);
}

static void plan_halving_doubling(cleave_collective_plan *plan, cleave_collective_kind kind,
                                  cleave_collective_phase all) {
    bool folds = !is_power_of_two(plan->n_members);
    cleave_collective_phase fold = all;
    fold.n_steps = 1;
    if (folds) {
        fold.shape = CLEAVE_PHASE_FOLD;
        fold.reduces = fold.whole = kind != CLEAVE_ALL_GATHER;
        add_phase(plan, fold);
    }
    if (kind != CLEAVE_ALL_GATHER)
        add_half(plan, CLEAVE_ALGORITHM_HALVING_DOUBLING, true, all);
    if (kind != CLEAVE_REDUCE_SCATTER)
        add_half(plan, CLEAVE_ALGORITHM_HALVING_DOUBLING, false, all);
    if (folds) {
        fold.shape = CLEAVE_PHASE_UNFOLD;
        fold.reduces = false;
        fold.whole = kind != CLEAVE_REDUCE_SCATTER;
        add_phase(plan, fold);
    }
}

static void plan_tree(cleave_collective_plan *plan, cleave_collective_phase all) {
    plan->n_blocks = all.unit = 1;
    all.n_steps = log2_above(plan->n_members);
    all.shape = CLEAVE_PHASE_TREE_UP;
    all.reduces = true;
    add_phase(plan, all);
    all.shape = CLEAVE_PHASE_TREE_DOWN;
    all.reduces = false;
    add_phase(plan, all);
}

/* Shard j, which member j of every node has after the first phase, is the blocks [j x nodes, (j +
   1) x nodes), one for each node. */
static void plan_two_level(cleave_collective_plan *plan, cleave_collective_kind kind,
                           int32_t node_members) {
    int32_t n_nodes = plan->n_members / node_members;
    const cleave_collective_phase within = {.n_groups = n_nodes,
                                            .size = node_members,
                                            .member_stride = 1,
                                            .group_stride = node_members,
                                            .unit = n_nodes},
                                  across = {.n_groups = node_members,
                                            .size = n_nodes,
                                            .member_stride = node_members,
                                            .group_stride = 1,
                                            .unit = 1,
                                            .group_blocks = n_nodes};
    plan->node_members = node_members;
    cleave_collective_algorithm inner = cleave_collective_default(node_members),
                                outer = cleave_collective_default(n_nodes);
    if (kind != CLEAVE_ALL_GATHER) {
        add_half(plan, inner, true, within);
        add_half(plan, outer, true, across);
    }
    if (kind != CLEAVE_REDUCE_SCATTER) {
        add_half(plan, outer, false, across);
        add_half(plan, inner, false, within);
    }
}

cleave_collective_plan cleave_collective_plan_of(cleave_collective_kind kind,
                                                 cleave_collective_algorithm algorithm,
                                                 int32_t n_members, int32_t node_members) {
    cleave_collective_plan plan = {
        .n_members = n_members, .n_blocks = n_members, .node_members = 1};
    cleave_collective_phase all = {
        .n_groups = 1, .size = n_members, .member_stride = 1, .group_stride = n_members, .unit = 1};
    if (algorithm == CLEAVE_ALGORITHM_DEFAULT)
        algorithm = cleave_collective_default(n_members);
    if (algorithm == CLEAVE_ALGORITHM_TREE) {
        plan_tree(&plan, all);
    } else if (algorithm == CLEAVE_ALGORITHM_TWO_LEVEL) {
        plan_two_level(&plan, kind, node_members);
    } else if (algorithm == CLEAVE_ALGORITHM_HALVING_DOUBLING) {
        /* Where blocks are nobody's, only those that exchange halves need one. */
        if (kind == CLEAVE_ALL_REDUCE)
            plan.n_blocks = power_within(n_members);
        plan_halving_doubling(&plan, kind, all);
    } else {
        if (kind != CLEAVE_ALL_GATHER)
            add_half(&plan, CLEAVE_ALGORITHM_RING, true, all);
        if (kind != CLEAVE_REDUCE_SCATTER)
            add_half(&plan, CLEAVE_ALGORITHM_RING, false, all);
    }
    return plan;
}

int32_t cleave_collective_member_of_block(const cleave_collective_plan *plan, int32_t block) {
    int32_t n_nodes = plan->n_members / plan->node_members;
    return plan->node_members == 1 ? block : block % n_nodes * plan->node_members + block / n_nodes;
}

/* ---- from a phase to the exchanges of a step ---- */

/* Of a size that is no power of two, the first 2 x beyond positions are pairs of one that takes
   part in halving and one beyond; the rest take part alone. */
static int32_t active_position(const cleave_collective_phase *phase, int32_t active) {
    int32_t beyond = phase->size - phase->power;
    return active < beyond ? 2 * active : active + beyond;
}

/* The first block of the active position, or of the one past the last. */
static int32_t active_block(const cleave_collective_plan *plan,
                            const cleave_collective_phase *phase, int32_t active) {
    bool blocks_of_all = plan->n_blocks >= phase->size;
    return (blocks_of_all ? active_position(phase, active) : active) * phase->unit;
}

/* Exchange i within a group, as positions and blocks of the group. */
static cleave_exchange ring_exchange(const cleave_collective_plan *plan,
                                     const cleave_collective_step *at, int32_t i) {
    (void)plan;
    int32_t n = at->phase->size, unit = at->phase->unit;
    /* Reducing: block i - 1 - step has come to i from all that it has passed, and ends at its own
       member.  Gathering: block i - step, from its own member on. */
    int32_t block = ((i - at->step - (at->reduces ? 1 : 0)) % n + n) % n;
    return (cleave_exchange){i, (i + 1) % n, block * unit, (block + 1) * unit};
}

/* Halving: a member sends the blocks that its partner will hold.  Doubling: those that it holds
   complete.  The blocks of a holder at some distance are its aligned run of that many. */
static cleave_exchange halving_exchange(const cleave_collective_plan *plan,
                                        const cleave_collective_step *at, int32_t i) {
    const cleave_collective_phase *phase = at->phase;
    bool halving = phase->shape == CLEAVE_PHASE_HALVING;
    int32_t distance = halving ? phase->power >> (at->step + 1) : INT32_C(1) << at->step;
    int32_t partner = i ^ distance, first = (halving ? partner : i) / distance * distance;
    return (cleave_exchange){active_position(phase, i), active_position(phase, partner),
                             active_block(plan, phase, first),
                             active_block(plan, phase, first + distance)};
}

static cleave_exchange fold_exchange(const cleave_collective_plan *plan,
                                     const cleave_collective_step *at, int32_t i) {
    bool folds = at->phase->shape == CLEAVE_PHASE_FOLD, whole = at->phase->whole;
    int32_t active = 2 * i, other = 2 * i + 1;
    return (cleave_exchange){folds ? other : active, folds ? active : other, whole ? 0 : other,
                             whole ? plan->n_blocks : other + 1};
}

/* Members of a tree are joined at distance 1, 2, 4 ... on the way up. */
static int32_t tree_distance(const cleave_collective_phase *phase, int32_t step) {
    bool up = phase->shape == CLEAVE_PHASE_TREE_UP;
    return INT32_C(1) << (up ? step : phase->n_steps - 1 - step);
}

static cleave_exchange tree_exchange(const cleave_collective_plan *plan,
                                     const cleave_collective_step *at, int32_t i) {
    bool up = at->phase->shape == CLEAVE_PHASE_TREE_UP;
    int32_t distance = tree_distance(at->phase, at->step);
    int32_t above = 2 * distance * i, below = above + distance;
    return (cleave_exchange){up ? below : above, up ? above : below, 0, plan->n_blocks};
}

/* Exchanges of one group in a step. */
static int32_t count_exchanges(const cleave_collective_phase *phase, int32_t step) {
    int64_t distance;
    switch (phase->shape) {
    case CLEAVE_PHASE_RING:
        return phase->size;
    case CLEAVE_PHASE_HALVING:
    case CLEAVE_PHASE_DOUBLING:
        return phase->power;
    case CLEAVE_PHASE_FOLD:
    case CLEAVE_PHASE_UNFOLD:
        return phase->size - phase->power;
    case CLEAVE_PHASE_TREE_UP:
    case CLEAVE_PHASE_TREE_DOWN:
        break;
    }
    distance = tree_distance(phase, step);
    return (int32_t)((phase->size + distance - 1) / (2 * distance));
}

static cleave_exchange (*const exchange_of[])(const cleave_collective_plan *,
                                              const cleave_collective_step *, int32_t) = {
    [CLEAVE_PHASE_RING] = ring_exchange,        [CLEAVE_PHASE_HALVING] = halving_exchange,
    [CLEAVE_PHASE_DOUBLING] = halving_exchange, [CLEAVE_PHASE_FOLD] = fold_exchange,
    [CLEAVE_PHASE_UNFOLD] = fold_exchange,      [CLEAVE_PHASE_TREE_UP] = tree_exchange,
    [CLEAVE_PHASE_TREE_DOWN] = tree_exchange,
};

cleave_collective_step cleave_collective_step_of(const cleave_collective_plan *plan, int32_t step) {
    const cleave_collective_phase *phase = plan->phases;
    for (; step >= phase->n_steps; phase++)
        step -= phase->n_steps;
    return (cleave_collective_step){
        .phase = phase,
        .step = step,
        .n_exchanges = phase->n_groups * count_exchanges(phase, step),
        .reduces = phase->reduces,
        .alike = phase->shape == CLEAVE_PHASE_RING ? phase->n_steps - step : 1,
    };
}

cleave_exchange cleave_collective_exchange_of(const cleave_collective_plan *plan,
                                              const cleave_collective_step *step,
                                              int32_t exchange) {
    const cleave_collective_phase *phase = step->phase;
    int32_t per_group = step->n_exchanges / phase->n_groups, group = exchange / per_group;
    cleave_exchange x = exchange_of[phase->shape](plan, step, exchange % per_group);
    x.from = group * phase->group_stride + x.from * phase->member_stride;
    x.to = group * phase->group_stride + x.to * phase->member_stride;
    x.first += group * phase->group_blocks;
    x.end += group * phase->group_blocks;
    return x;
}
