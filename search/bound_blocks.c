/* Blocks are levels: the operators at one distance from the first, where those are neighbours that
   touch one family of tensors (graph/lower_schedule.h).  So every family lies within a block or two
   neighbouring ones, and all that a step consists of, the fragments of families and the computes of
   nests, follows from the values of a block or of two neighbours.

   Let m(k) be the last operator of block k in the order of the model, and for backward passes the
   first, which is then the last.  Its parts form groups: those that share a key compute the same,
   and of a group one is enough.  Let R(k) be the time when the last group of m(k) has its first
   part at the end of its forward pass, and Y(k) the time when the last group has its first part at
   the start of its backward pass.  A window (bound_window.h) of blocks k and k + 1 in which the
   parts of one group of m(k) end at 0 gives a time for each group of m(k + 1), that of its first
   part; let F be the least over the groups of m(k) of the latest of these.  Whichever group of m(k)
   is the last one, R(k + 1) >= R(k) + F.  In the same way Y(k) >= Y(k + 1) + B, where the parts of
   a group of m(k + 1) begin their backward pass at 0, and Y >= R + turn for the last block.  R(0)
   is no less than in a window that starts at 0.  And after Y(0) comes, on any device d of the last
   group of m(0), what block 0 does until the end; or what it does until all of backward has ended,
   and then all updates on d, of whichever block, since a main lane runs its items in order and
   updates come last.  Where no group of one is reached from a group of the other there is no F or
   B, and such values are never excluded by a path.

   In the communication lane of a device everything that a family does follows on what the family
   before did, whatever happens elsewhere, and takes at least what a window of the family gives in
   which this lane alone is known to be there at 0.  The main lane of a device takes at least the
   sum of the durations of its items, those that follow the loss (bound_loss.c) after the first part
   of the loss has ended; the path to that goes from the first part of a block's first operator to
   that of the next.  And where blocks are in the order of nests, so is their synchronisation: a
   path may part from the others at any block, and go on in a communication lane with what blocks
   before it synchronise.

   These sums are of one block or of two neighbours each, so the least that is still to come after
   block k, given its value, is found block by block from the end. */
#include "search/bound_blocks.h"

#include "base/progress.h"
#include "search/bound_internal.h"
#include "search/bound_window.h"
#include "simulator/price_fragment.h"

#include <stdlib.h>
#include <string.h>

/* A sum that excludes nothing; thousands of them don't overflow. */
static const int64_t NO_PATH = -(INT64_C(1) << 50);
enum { MOST_BLOCKS = 64, MOST_VALUES = 1 << 12, MOST_PAIRS = 1 << 21, MOST_FRAGMENTS = 1 << 22 };

/* A family, or the computes of a nest. */
typedef struct place {
    int32_t n_operators;
    const int32_t *operators;          /* that it follows from, ascending */
    int32_t first, last;               /* their blocks */
    cleave_fragment_price **fragments; /* [product of their values], null: not made yet */
    int32_t n_fragments;
} place;

/* The group of every non-empty part of a nest, in their order: the number of the first such part
   with the same key. */
typedef struct part_keys {
    int32_t n, *group_of;
} part_keys;

/* Passes that paths go through: the last forward pass of the last operator of a block, and of the
   first; the first backward pass of the first. */
typedef enum path_side { FORWARD, BACKWARD, EARLIEST, N_SIDES } path_side;

typedef struct cleave_bound_blocks_maker {
    const cleave_model *model;
    const cleave_candidates *candidates;
    const cleave_machine *machine;
    cleave_cost_cache *cache;
    const cleave_bound_blocks_options *options;
    cleave_arena *arena; /* of the result */
    cleave_arena work, scratch;
    cleave_bound_blocks *made;
    cleave_lowerer *lowerer;
    window window;
    int32_t n_families, n_slots, n_places;
    int32_t first_backward, first_update; /* slots */
    place *places;
    int32_t *block_of; /* [n_operators] */
    int32_t *value;    /* [n_operators] that is looked at */
    int32_t *set;      /* [n_operators] that the lowerer has; -1: another */
    int32_t *path_place[N_SIDES], *path_slot[N_SIDES]; /* [n_blocks] slot -1: none */
    part_keys **keys[N_SIDES];                         /* [n_blocks][values of the operator] */
    bool *follows_loss;                                /* [n_nests] see bound_follow_loss */
    bool in_order;                                     /* blocks are, as the model's nests are */
    bool ends_at_loss;                                 /* the last block is the loss */
    int64_t *times;                                    /* [n_devices] */
    int32_t *one_group;                                /* [n_devices] zeros */
    bool too_large;
    cleave_error *error;
} maker;

static const cleave_candidate_list *list_of(const maker *m, int32_t op) {
    return &m->candidates->lists[m->candidates->list_of[op]];
}

static cleave_status short_of_memory(const maker *m) {
    return cleave_fail_memory(m->error, "bounding the step");
}

/* ---- values ---------------------------------------------------------------------------------- */

static cleave_status list_values(maker *m) {
    cleave_bound_blocks *made = m->made;
    int32_t n_ops = m->model->n_operators;
    made->n_values = CLEAVE_ARENA_ARRAY(m->arena, int32_t, n_ops);
    made->values = CLEAVE_ARENA_ARRAY(m->arena, cleave_split *, n_ops);
    if (made->n_values == NULL || made->values == NULL)
        return short_of_memory(m);
    for (int32_t op = 0; op < n_ops; op++) {
        const cleave_candidate_list *list = list_of(m, op);
        int64_t n = 0;
        for (int32_t c = 0; c < list->n; c++)
            n += list->items[c].n_starts;
        if (n > MOST_VALUES) {
            m->too_large = true;
            return CLEAVE_OK;
        }
        made->values[op] = CLEAVE_ARENA_ARRAY(m->arena, cleave_split, n);
        if (made->values[op] == NULL)
            return short_of_memory(m);
        for (int32_t c = 0; c < list->n; c++)
            for (int32_t start = 0; start < list->items[c].n_starts; start++) {
                cleave_split *split = &made->values[op][made->n_values[op]++];
                split->devices = CLEAVE_ARENA_ARRAY(m->arena, int32_t, list->items[c].n_parts);
                if (split->devices == NULL)
                    return short_of_memory(m);
                cleave_candidate_place(&list->items[c], start, split);
            }
    }
    return CLEAVE_OK;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static cleave_status index_places(maker *m) {
    const cleave_model *model = m->model;
    int32_t n_ops = model->n_operators, *lists;
    m->n_families = cleave_lowerer_n_families(m->lowerer);
    m->n_places = m->n_families + model->n_nests;
    m->places = CLEAVE_ARENA_ARRAY(&m->work, place, m->n_places);
    int64_t total = model->n_nests;
    for (int32_t op = 0; op < n_ops; op++) {
        int32_t n;
        cleave_lowerer_families_of(m->lowerer, op, &n);
        total += n;
    }
    lists = CLEAVE_ARENA_ARRAY(&m->work, int32_t, total);
    if (m->places == NULL || lists == NULL)
        return short_of_memory(m);
    for (int32_t f = 0; f < m->n_families; f++) {
        m->places[f].operators = lists;
        for (int32_t op = 0; op < n_ops; op++) {
            int32_t n;
            const int32_t *families = cleave_lowerer_families_of(m->lowerer, op, &n);
            for (int32_t i = 0; i < n; i++)
                if (families[i] == f) {
                    *lists++ = op;
                    m->places[f].n_operators++;
                }
        }
    }
    for (int32_t n = 0; n < model->n_nests; n++) {
        m->places[m->n_families + n] = (place){.n_operators = 1, .operators = lists};
        *lists++ = model->nests[n].op;
    }
    return CLEAVE_OK;
}

/* Distances from the first operator; what can't be reached from it comes behind everything. */
static cleave_status find_levels(maker *m) {
    int32_t n_ops = m->model->n_operators, n_levels = 0;
    m->block_of = CLEAVE_ARENA_ARRAY(&m->work, int32_t, n_ops);
    if (m->block_of == NULL)
        return short_of_memory(m);
    for (int32_t op = 0; op < n_ops; op++)
        m->block_of[op] = -1;
    for (int32_t seed = 0; seed < n_ops; seed++) {
        if (m->block_of[seed] >= 0)
            continue;
        m->block_of[seed] = n_levels++;
        for (bool grown = true; grown; n_levels += grown) {
            grown = false;
            for (int32_t f = 0; f < m->n_families; f++) {
                const place *of = &m->places[f];
                bool touches = false;
                for (int32_t i = 0; i < of->n_operators; i++)
                    touches = touches || m->block_of[of->operators[i]] == n_levels - 1;
                for (int32_t i = 0; i < of->n_operators && touches; i++)
                    if (m->block_of[of->operators[i]] < 0) {
                        m->block_of[of->operators[i]] = n_levels;
                        grown = true;
                    }
            }
        }
    }
    m->made->n_blocks = n_levels;
    return CLEAVE_OK;
}

static cleave_status make_blocks(maker *m) {
    cleave_bound_blocks *made = m->made;
    m->too_large = made->n_blocks > MOST_BLOCKS;
    made->blocks = CLEAVE_ARENA_ARRAY(m->arena, cleave_block, made->n_blocks);
    int32_t *lists = CLEAVE_ARENA_ARRAY(m->arena, int32_t, m->model->n_operators);
    if (made->blocks == NULL || lists == NULL)
        return short_of_memory(m);
    for (int32_t k = 0; k < made->n_blocks && !m->too_large; k++) {
        cleave_block *block = &made->blocks[k];
        block->operators = lists;
        int64_t n_values = 1;
        for (int32_t op = 0; op < m->model->n_operators; op++) {
            if (m->block_of[op] != k)
                continue;
            *lists++ = op;
            block->n_operators++;
            n_values *= made->n_values[op];
            if (n_values > MOST_VALUES) {
                m->too_large = true;
                break;
            }
        }
        block->n_values = (int32_t)n_values;
        if (k > 0 && (int64_t)block[-1].n_values * n_values * made->n_sums > MOST_PAIRS * 8)
            m->too_large = true;
    }
    return CLEAVE_OK;
}

/* The operator that a path goes through. */
static int32_t main_of(const maker *m, int32_t k, path_side side) {
    const cleave_block *block = &m->made->blocks[k];
    return block->operators[side == FORWARD ? block->n_operators - 1 : 0];
}

static void find_pass(const maker *m, int32_t k, path_side side) {
    const cleave_operator *op = &m->model->operators[main_of(m, k, side)];
    int32_t *best = &m->path_slot[side][k];
    *best = -1;
    for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
        for (int32_t i = 0; i < op->n_nests && (pass == 0) == (side != BACKWARD); i++) {
            int32_t slot = cleave_lowerer_slot(m->lowerer, op->nests[i], (cleave_pass)pass);
            if (slot < 0 || (*best >= 0 && (pass == 0 ? slot < *best : slot > *best)))
                continue;
            *best = slot;
            m->path_place[side][k] = m->n_families + op->nests[i];
        }
}

/* Where the passes that paths go through stand, and room for fragments. */
static cleave_status place_blocks(maker *m) {
    int32_t n_blocks = m->made->n_blocks;
    for (int side = 0; side < N_SIDES; side++) {
        m->path_place[side] = CLEAVE_ARENA_ARRAY(&m->work, int32_t, n_blocks);
        m->path_slot[side] = CLEAVE_ARENA_ARRAY(&m->work, int32_t, n_blocks);
        if (m->path_place[side] == NULL || m->path_slot[side] == NULL)
            return short_of_memory(m);
        for (int32_t k = 0; k < n_blocks; k++)
            find_pass(m, k, (path_side)side);
    }
    for (int32_t p = 0; p < m->n_places; p++) {
        place *of = &m->places[p];
        int64_t n = 1;
        of->first = INT32_MAX;
        for (int32_t i = 0; i < of->n_operators; i++) {
            int32_t k = m->block_of[of->operators[i]];
            of->first = k < of->first ? k : of->first;
            of->last = k > of->last ? k : of->last;
            n *= m->made->n_values[of->operators[i]];
            if (n > MOST_FRAGMENTS) {
                m->too_large = true;
                return CLEAVE_OK;
            }
        }
        of->n_fragments = (int32_t)n;
        of->fragments = CLEAVE_ARENA_ARRAY(&m->work, cleave_fragment_price *, n);
        if (of->fragments == NULL)
            return short_of_memory(m);
    }
    return CLEAVE_OK;
}

static bool find_groups(const cleave_parts *parts, cleave_arena *arena, part_keys *keys) {
    int32_t *part = CLEAVE_ARENA_ARRAY(arena, int32_t, parts->n);
    *keys = (part_keys){.group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, parts->n)};
    if (keys->group_of == NULL || part == NULL)
        return false;
    for (int32_t p = 0; p < parts->n; p++) {
        if (parts->items[p].empty)
            continue;
        int32_t i = 0;
        while (i < keys->n && parts->items[part[i]].key != parts->items[p].key)
            i++;
        part[keys->n] = p;
        keys->group_of[keys->n++] = i;
    }
    return true;
}

static cleave_status list_keys(maker *m) {
    cleave_parts *parts = CLEAVE_ARENA_ARRAY(&m->work, cleave_parts, m->model->n_nests);
    m->times = CLEAVE_ARENA_ARRAY(&m->work, int64_t, m->made->n_devices);
    m->one_group = CLEAVE_ARENA_ARRAY(&m->work, int32_t, m->made->n_devices);
    if (parts == NULL || m->times == NULL || m->one_group == NULL)
        return short_of_memory(m);
    for (int side = 0; side < N_SIDES; side++) {
        m->keys[side] = CLEAVE_ARENA_ARRAY(&m->work, part_keys *, m->made->n_blocks);
        if (m->keys[side] == NULL)
            return short_of_memory(m);
        for (int32_t k = 0; k < m->made->n_blocks; k++) {
            int32_t op = main_of(m, k, (path_side)side), n = m->made->n_values[op];
            int32_t nest = m->path_place[side][k] - m->n_families;
            m->keys[side][k] = CLEAVE_ARENA_ARRAY(&m->work, part_keys, n);
            if (m->keys[side][k] == NULL)
                return short_of_memory(m);
            for (int32_t v = 0; v < n && m->path_slot[side][k] >= 0; v++) {
                CLEAVE_TRY(cleave_parts_derive_operator(m->model, op, &m->made->values[op][v],
                                                        &m->work, parts, m->error));
                if (!find_groups(&parts[nest], &m->work, &m->keys[side][k][v]))
                    return short_of_memory(m);
            }
        }
    }
    return CLEAVE_OK;
}

/* ---- fragments ------------------------------------------------------------------------------- */

static cleave_status fragment_of(maker *m, int32_t p, const cleave_priced_fragment **fragment) {
    const place *of = &m->places[p];
    int32_t index = 0;
    for (int32_t i = 0; i < of->n_operators; i++)
        index = index * m->made->n_values[of->operators[i]] + m->value[of->operators[i]];
    cleave_fragment_price **at = &of->fragments[index];
    if (*at == NULL) {
        for (int32_t i = 0; i < of->n_operators; i++) {
            int32_t op = of->operators[i];
            if (m->set[op] == m->value[op])
                continue;
            CLEAVE_TRY(cleave_lowerer_set_split(m->lowerer, op, &m->made->values[op][m->value[op]],
                                                m->error));
            m->set[op] = m->value[op];
        }
        if (p >= m->n_families) {
            CLEAVE_TRY(cleave_price_computes(m->lowerer, p - m->n_families, m->cache,
                                             m->made->n_devices, &m->scratch, at, m->error));
        } else {
            cleave_fragment lowered;
            CLEAVE_TRY(cleave_lowerer_family(m->lowerer, p, &lowered, m->error));
            CLEAVE_TRY(cleave_price_fragment(&lowered, m->cache, NULL, &m->scratch, at, m->error));
        }
    }
    *fragment = &(*at)->priced;
    return CLEAVE_OK;
}

static void set_block(maker *m, int32_t k, int32_t value) {
    const cleave_block *block = &m->made->blocks[k];
    for (int32_t i = block->n_operators - 1; i >= 0; i--) {
        int32_t op = block->operators[i], n = m->made->n_values[op];
        m->value[op] = value % n;
        value /= n;
    }
}

/* Fills the window with the slots [first_slot, end_slot) of all that lies within blocks k and l. */
static cleave_status fill_window(maker *m, int32_t k, int32_t l, int32_t first_slot,
                                 int32_t end_slot) {
    window_clear(&m->window);
    for (int32_t p = 0; p < m->n_places; p++) {
        const cleave_priced_fragment *fragment;
        if (m->places[p].first < k || m->places[p].last > l)
            continue;
        CLEAVE_TRY(fragment_of(m, p, &fragment));
        CLEAVE_TRY(window_add(&m->window, p, fragment, first_slot, end_slot, m->error));
    }
    window_sort(&m->window);
    return CLEAVE_OK;
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* An entry of computes, and the groups of its items. */
typedef struct computes {
    int32_t entry; /* -1: none */
    int32_t *group_of;
} computes;

/* Those of a path in the window. */
static computes find_computes(const maker *m, int32_t k, path_side side) {
    int32_t slot = m->path_slot[side][k];
    if (slot < 0)
        return (computes){-1, NULL};
    return (computes){window_find(&m->window, slot, CLEAVE_RANK_COMPUTE, m->path_place[side][k]),
                      m->keys[side][k][m->value[main_of(m, k, side)]].group_of};
}

/* The latest group, by its first part. */
static int64_t last_group(const maker *m, computes of) {
    int64_t latest = WINDOW_LONG_AGO;
    int32_t n = window_n_items(&m->window, of.entry);
    for (int32_t i = 0; i < n; i++) {
        int64_t first = INT64_MAX;
        for (int32_t j = 0; j < n; j++)
            if (of.group_of[j] == of.group_of[i] && m->times[j] < first)
                first = m->times[j];
        latest = first > latest ? first : latest;
    }
    return latest;
}

/* From one to the other, ends or starts of both: NO_PATH where there is none. */
static int64_t least_delay(maker *m, computes from, bool from_end, computes to, bool to_end) {
    int64_t least = INT64_MAX;
    if (from.entry < 0 || to.entry < 0)
        return NO_PATH;
    for (int32_t i = 0; i < window_n_items(&m->window, from.entry); i++) {
        if (from.group_of[i] != i) /* groups have the number of their first item */
            continue;
        window_origin origin = {
            .entry = from.entry, .group = i, .group_of = from.group_of, .end = from_end};
        window_run(&m->window, origin, to.entry, to_end, to.entry, m->times);
        int64_t delay = last_group(m, to);
        least = delay < least ? delay : least;
    }
    return least == INT64_MAX || least < 0 ? NO_PATH : least;
}

/* Is there a backward path down to block k? */
static bool has_backward(const maker *m, int32_t k) {
    for (int32_t l = k; l < m->made->n_blocks; l++)
        if (m->path_slot[BACKWARD][l] < 0)
            return false;
    return true;
}

/* From the first end of any part of the first operator of a block to that of the next block. */
static int64_t earliest_delay(maker *m, int32_t k) {
    computes from = find_computes(m, k, EARLIEST), to = find_computes(m, k + 1, EARLIEST);
    if (from.entry < 0 || to.entry < 0)
        return NO_PATH;
    int64_t least = INT64_MAX;
    window_run(&m->window,
               (window_origin){.entry = from.entry, .group_of = m->one_group, .end = true},
               to.entry, true, to.entry, m->times);
    for (int32_t i = 0; i < window_n_items(&m->window, to.entry); i++)
        least = m->times[i] < least ? m->times[i] : least;
    return least == INT64_MAX || least < 0 ? NO_PATH : least;
}

/* Where a group of the first operator of block k + 1 begins its backward pass last: the least over
   the groups of what comes in the communication lane of each device until the end. */
static cleave_status sync_behind(maker *m, int32_t k, int64_t *tail) {
    int32_t n_devices = m->made->n_devices;
    for (int32_t d = 0; d < n_devices; d++)
        tail[d] = NO_PATH;
    if (!has_backward(m, k + 1) || !m->in_order)
        return CLEAVE_OK;
    CLEAVE_TRY(fill_window(m, k, k + 1, m->first_backward, m->n_slots));
    computes from = find_computes(m, k + 1, BACKWARD);
    bool first = true;
    for (int32_t i = 0; from.entry >= 0 && i < window_n_items(&m->window, from.entry); i++) {
        if (from.group_of[i] != i)
            continue;
        window_run(&m->window,
                   (window_origin){.entry = from.entry, .group = i, .group_of = from.group_of}, -1,
                   false, -1, NULL);
        for (int32_t d = 0; d < n_devices; d++) {
            int64_t clock = m->window.clock[2 * d + 1];
            if (first || clock < tail[d])
                tail[d] = clock;
        }
        first = false;
    }
    for (int32_t d = 0; d < n_devices; d++)
        tail[d] = tail[d] < 0 ? NO_PATH : tail[d];
    return CLEAVE_OK;
}

static cleave_status delay_between(maker *m, int32_t k, int64_t *delay, int64_t *forward,
                                   int64_t *earliest) {
    CLEAVE_TRY(fill_window(m, k, k + 1, 0, m->first_backward));
    *delay =
        least_delay(m, find_computes(m, k, FORWARD), true, find_computes(m, k + 1, FORWARD), true);
    *earliest = earliest_delay(m, k);
    *forward = *delay;
    if (!has_backward(m, k) || *delay == NO_PATH)
        return CLEAVE_OK;
    CLEAVE_TRY(fill_window(m, k, k + 1, m->first_backward, m->first_update));
    int64_t back = least_delay(m, find_computes(m, k + 1, BACKWARD), false,
                               find_computes(m, k, BACKWARD), false);
    *delay = back == NO_PATH ? NO_PATH : *delay + back;
    return CLEAVE_OK;
}

static cleave_status turn_at_end(maker *m, int64_t *delay) {
    int32_t k = m->made->n_blocks - 1;
    *delay = 0;
    if (!has_backward(m, k))
        return CLEAVE_OK;
    CLEAVE_TRY(fill_window(m, k, k, 0, m->first_update));
    *delay =
        least_delay(m, find_computes(m, k, FORWARD), true, find_computes(m, k, BACKWARD), false);
    return CLEAVE_OK;
}

static cleave_status begin_path(maker *m, int64_t *begin, int64_t *earliest) {
    CLEAVE_TRY(fill_window(m, 0, 0, 0, m->first_backward));
    computes first = find_computes(m, 0, FORWARD);
    if (first.entry < 0) {
        *begin = *earliest = NO_PATH;
        return CLEAVE_OK;
    }
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, first.entry, true,
               first.entry, m->times);
    *begin = last_group(m, first);
    *earliest = INT64_MAX;
    first = find_computes(m, 0, EARLIEST);
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, first.entry, true,
               first.entry, m->times);
    for (int32_t i = 0; i < window_n_items(&m->window, first.entry); i++)
        *earliest = m->times[i] < *earliest ? m->times[i] : *earliest;
    return CLEAVE_OK;
}

/* What follows where the last group of m(0) begins its backward pass. */
static cleave_status end_path(maker *m, int64_t *end, int32_t *end_group) {
    int32_t n_devices = m->made->n_devices, last = -1;
    int64_t least = INT64_MAX;
    for (int32_t d = 0; d < n_devices; d++)
        end_group[d] = -1;
    if (!has_backward(m, 0))
        return CLEAVE_OK;
    CLEAVE_TRY(fill_window(m, 0, 0, m->first_backward, m->n_slots));
    computes first = find_computes(m, 0, BACKWARD);
    while (last + 1 < m->window.entries.n &&
           m->window.entries.items[last + 1].key >> 40 < m->first_update)
        last++;
    for (int32_t i = 0; first.entry >= 0 && i < window_n_items(&m->window, first.entry); i++) {
        if (first.group_of[i] != i)
            continue;
        window_origin origin = {.entry = first.entry, .group = i, .group_of = first.group_of};
        int64_t latest = 0;
        window_run(&m->window, origin, -1, false, -1, NULL);
        for (int32_t q = 0; q < 2 * n_devices; q++)
            latest = m->window.clock[q] > latest ? m->window.clock[q] : latest;
        least = latest < least ? latest : least;
        window_run(&m->window, origin, -1, false, last, NULL);
        for (int32_t j = i; j < window_n_items(&m->window, first.entry); j++) {
            int32_t queue = window_item(&m->window, first.entry, j)->queue;
            if (first.group_of[j] != i)
                continue;
            end[1 + queue / 2] = m->window.clock[queue];
            end_group[queue / 2] = i;
        }
    }
    end[0] = least == INT64_MAX ? 0 : least;
    return CLEAVE_OK;
}

/* ---- sums of one fragment -------------------------------------------------------------------- */

static void add_work(const maker *m, const cleave_priced_fragment *fragment, int64_t *sums) {
    int32_t n_devices = m->made->n_devices;
    for (int32_t c = 0; c < fragment->n_chunks; c++)
        for (int32_t i = 0; i < fragment->chunks[c].n_items; i++) {
            const cleave_priced_item *item = &fragment->items[fragment->chunks[c].first_item + i];
            if (item->queue % 2 != 0)
                continue;
            sums[2 * n_devices + 1 + item->queue / 2] += item->duration;
            sums[3 * n_devices + 1] += item->duration;
            if (fragment->chunks[c].slot >= m->first_update && has_backward(m, 0))
                sums[1 + item->queue / 2] += item->duration;
        }
}

/* What a family takes in each communication lane. */
static cleave_status add_synchronisation(maker *m, int32_t p,
                                         const cleave_priced_fragment *fragment, int64_t *sums) {
    bool any = false;
    for (int32_t i = 0; i < fragment->n_items; i++)
        any = any || fragment->items[i].queue % 2 != 0;
    for (int32_t d = 0; d < m->made->n_devices && any; d++) {
        window_clear(&m->window);
        CLEAVE_TRY(window_add(&m->window, p, fragment, 0, m->n_slots, m->error));
        window_sort(&m->window);
        sums[m->made->n_devices + 1 + d] += window_lane(&m->window, 2 * d + 1);
    }
    return CLEAVE_OK;
}

/* Of all that lies in blocks k to l, and in both of them. */
static cleave_status add_fragments(maker *m, int32_t k, int32_t l, int64_t *sums) {
    for (int32_t p = 0; p < m->n_places; p++) {
        const cleave_priced_fragment *fragment;
        if (m->places[p].first != k || m->places[p].last != l)
            continue;
        CLEAVE_TRY(fragment_of(m, p, &fragment));
        add_work(m, fragment, sums);
        if (p < m->n_families)
            CLEAVE_TRY(add_synchronisation(m, p, fragment, sums));
    }
    return CLEAVE_OK;
}

/* Work that follows the loss, of all that lies in blocks k to l, and in both of them. */
static cleave_status add_after_loss(maker *m, int32_t k, int32_t l, int64_t *sums) {
    int32_t n_devices = m->made->n_devices;
    if (!m->ends_at_loss)
        return CLEAVE_OK;
    CLEAVE_TRY(fill_window(m, k, l, m->first_backward, m->n_slots));
    int32_t n = m->window.entries.n;
    cleave_arena_reset(&m->scratch);
    bool *is_origin = CLEAVE_ARENA_ARRAY(&m->scratch, bool, n);
    bool *counts = CLEAVE_ARENA_ARRAY(&m->scratch, bool, n);
    int64_t *after = CLEAVE_ARENA_ARRAY(&m->scratch, int64_t, n_devices);
    if (is_origin == NULL || counts == NULL || after == NULL)
        return short_of_memory(m);
    for (int32_t e = 0; e < n; e++) {
        int32_t p = (int32_t)(m->window.entries.items[e].key & INT32_MAX);
        is_origin[e] = p >= m->n_families && m->follows_loss[p - m->n_families];
        counts[e] = m->places[p].first == k && m->places[p].last == l &&
                    (p < m->n_families || is_origin[e]);
    }
    window_after(&m->window, is_origin, counts, after);
    for (int32_t d = 0; d < n_devices; d++) {
        sums[3 * n_devices + 2 + d] += after[d];
        sums[4 * n_devices + 2] += after[d];
    }
    return CLEAVE_OK;
}

static void add_path_to_loss(const maker *m, int64_t delay, int64_t *sums) {
    int32_t n_devices = m->made->n_devices;
    if (!m->ends_at_loss)
        return;
    for (int32_t d = 0; d < n_devices; d++)
        sums[3 * n_devices + 2 + d] += delay;
    sums[4 * n_devices + 2] += delay * n_devices;
}

static void add_path(const maker *m, int64_t delay, int64_t *sums) {
    for (int32_t s = 0; s <= m->made->n_devices; s++)
        sums[s] += delay;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static bool time_is_up(const maker *m) {
    return m->options->until_seconds > 0 && cleave_clock_seconds() > m->options->until_seconds;
}

/* What is derived from the other sums. */
static void mix(const maker *m, int64_t *sums) {
    int32_t n_devices = m->made->n_devices, at = blocks_first_mixture(n_devices);
    for (int i = 1; i <= BLOCKS_MIXTURES; i++)
        for (int32_t d = 0; d < n_devices; d++)
            sums[at++] =
                i * n_devices * sums[1 + d] + (BLOCKS_MIXTURES + 1 - i) * sums[4 * n_devices + 2];
}

static cleave_status fill_block(maker *m, int32_t k) {
    cleave_block *block = &m->made->blocks[k];
    int32_t n_sums = m->made->n_sums;
    block->sums = CLEAVE_ARENA_ARRAY(m->arena, int64_t, (int64_t)block->n_values * n_sums);
    block->rest = CLEAVE_ARENA_ARRAY(m->arena, int64_t, (int64_t)block->n_values * n_sums);
    if (block->sums == NULL || block->rest == NULL)
        return short_of_memory(m);
    for (int32_t x = 0; x < block->n_values; x++) {
        int64_t *sums = &block->sums[(int64_t)x * n_sums], delay = 0;
        set_block(m, k, x);
        CLEAVE_TRY(add_fragments(m, k, k, sums));
        CLEAVE_TRY(add_after_loss(m, k, k, sums));
        if (k == 0) {
            int64_t earliest;
            CLEAVE_TRY(begin_path(m, &delay, &earliest));
            add_path(m, delay, sums);
            add_path_to_loss(m, earliest, sums);
            CLEAVE_TRY(end_path(m, &m->made->end[(int64_t)x * (1 + m->made->n_devices)],
                                &m->made->end_group[(int64_t)x * m->made->n_devices]));
        }
        if (k == m->made->n_blocks - 1) {
            CLEAVE_TRY(turn_at_end(m, &delay));
            add_path(m, delay, sums);
        }
        mix(m, sums);
    }
    return CLEAVE_OK;
}

static cleave_status fill_pairs(maker *m, int32_t k) {
    cleave_block *block = &m->made->blocks[k];
    int32_t n_next = block[1].n_values, n_sums = m->made->n_sums;
    block->next = CLEAVE_ARENA_ARRAY(m->arena, int64_t, (int64_t)block->n_values * n_next * n_sums);
    block->tail = CLEAVE_ARENA_ARRAY(m->arena, int64_t,
                                     (int64_t)block->n_values * n_next * (1 + m->made->n_devices));
    if (block->tail == NULL || block->next == NULL)
        return short_of_memory(m);
    for (int32_t x = 0; x < block->n_values && !m->too_large; x++) {
        set_block(m, k, x);
        for (int32_t y = 0; y < n_next; y++) {
            int64_t *sums = &block->next[((int64_t)x * n_next + y) * n_sums], delay, earliest;
            set_block(m, k + 1, y);
            CLEAVE_TRY(add_fragments(m, k, k + 1, sums));
            CLEAVE_TRY(add_after_loss(m, k, k + 1, sums));
            int64_t *tail = &block->tail[((int64_t)x * n_next + y) * (1 + m->made->n_devices)];
            CLEAVE_TRY(delay_between(m, k, &delay, tail, &earliest));
            CLEAVE_TRY(sync_behind(m, k, tail + 1));
            add_path(m, delay, sums);
            add_path_to_loss(m, earliest, sums);
            mix(m, sums);
        }
        m->too_large = time_is_up(m);
    }
    return CLEAVE_OK;
}

/* From the last block on: over the values of the next block, what both add and what is behind. */
static void fill_rest(maker *m) {
    int32_t n_sums = m->made->n_sums;
    for (int32_t k = m->made->n_blocks - 2; k >= 0; k--) {
        const cleave_block *block = &m->made->blocks[k];
        for (int32_t x = 0; x < block->n_values; x++)
            for (int32_t s = 0; s < n_sums; s++) {
                int64_t least = INT64_MAX;
                for (int32_t y = 0; y < block[1].n_values; y++) {
                    int64_t of_y = (int64_t)y * n_sums + s;
                    int64_t sum = block->next[(int64_t)x * block[1].n_values * n_sums + of_y] +
                                  block[1].sums[of_y] + block[1].rest[of_y];
                    least = sum < least ? sum : least;
                }
                block->rest[(int64_t)x * n_sums + s] = least;
            }
    }
}

static cleave_status fill_tables(maker *m) {
    int64_t n_first = m->made->blocks[0].n_values, n_devices = m->made->n_devices;
    m->made->end = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n_first * (1 + n_devices));
    m->made->end_group = CLEAVE_ARENA_ARRAY(m->arena, int32_t, n_first * n_devices);
    if (m->made->end == NULL || m->made->end_group == NULL)
        return short_of_memory(m);
    for (int32_t k = 0; k < m->made->n_blocks && !m->too_large; k++) {
        CLEAVE_TRY(fill_block(m, k));
        if (k + 1 < m->made->n_blocks)
            CLEAVE_TRY(fill_pairs(m, k));
    }
    if (!m->too_large)
        fill_rest(m);
    return CLEAVE_OK;
}

static cleave_status find_slots(maker *m) {
    const cleave_model *model = m->model;
    m->n_slots = cleave_lowerer_n_slots(m->lowerer);
    m->first_backward = m->first_update = 0;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            int32_t slot = cleave_lowerer_slot(m->lowerer, n, (cleave_pass)pass);
            if (pass == CLEAVE_PASS_FORWARD && slot >= m->first_backward)
                m->first_backward = slot + 1;
            if (slot >= m->first_update)
                m->first_update = slot + 1;
        }
    m->set = CLEAVE_ARENA_ARRAY(&m->work, int32_t, model->n_operators);
    m->value = CLEAVE_ARENA_ARRAY(&m->work, int32_t, model->n_operators);
    if (m->set == NULL || m->value == NULL)
        return short_of_memory(m);
    for (int32_t op = 0; op < model->n_operators; op++)
        m->set[op] = -1;
    return CLEAVE_OK;
}

static cleave_status find_loss(maker *m) {
    const cleave_model *model = m->model;
    int32_t last = m->made->n_blocks - 1;
    m->follows_loss = CLEAVE_ARENA_ARRAY(&m->work, bool, model->n_nests);
    if (m->follows_loss == NULL)
        return short_of_memory(m);
    m->in_order = true;
    for (int32_t n = 1; n < model->n_nests; n++)
        m->in_order =
            m->in_order && m->block_of[model->nests[n - 1].op] <= m->block_of[model->nests[n].op];
    m->ends_at_loss = model->loss >= 0 && m->path_slot[EARLIEST][last] >= 0 &&
                      m->path_place[EARLIEST][last] == m->n_families + model->writer[model->loss];
    return bound_follow_loss(model, m->made->n_values, m->made->values, m->follows_loss, m->error);
}

static cleave_status make(maker *m) {
    int64_t *latency = CLEAVE_ARENA_ARRAY(&m->work, int64_t, m->machine->n_links);
    if (latency == NULL)
        return short_of_memory(m);
    for (int32_t l = 0; l < m->machine->n_links; l++)
        latency[l] = cleave_picoseconds(m->machine->links[l].latency_seconds);
    CLEAVE_TRY(cleave_lowerer_create(m->model, m->options->like, m->options->lower, &m->lowerer,
                                     m->error));
    CLEAVE_TRY(
        window_create(2 * m->made->n_devices, m->machine->n_links, latency, &m->window, m->error));
    CLEAVE_TRY(list_values(m));
    if (m->too_large)
        return CLEAVE_OK;
    CLEAVE_TRY(index_places(m));
    CLEAVE_TRY(find_levels(m));
    CLEAVE_TRY(make_blocks(m));
    if (m->too_large)
        return CLEAVE_OK;
    CLEAVE_TRY(find_slots(m));
    CLEAVE_TRY(place_blocks(m));
    if (m->too_large)
        return CLEAVE_OK;
    CLEAVE_TRY(list_keys(m));
    CLEAVE_TRY(find_loss(m));
    return fill_tables(m);
}

void cleave_bound_blocks_destroy(cleave_bound_blocks *blocks) {
    maker *m = blocks->maker;
    if (m == NULL)
        return;
    for (int32_t p = 0; m->places != NULL && p < m->n_places; p++)
        for (int32_t i = 0; m->places[p].fragments != NULL && i < m->places[p].n_fragments; i++)
            free(m->places[p].fragments[i]);
    window_destroy(&m->window);
    cleave_lowerer_destroy(m->lowerer);
    cleave_arena_free(&m->work);
    cleave_arena_free(&m->scratch);
    free(m);
    blocks->maker = NULL;
}

cleave_status cleave_bound_blocks_create(const cleave_model *model,
                                         const cleave_candidates *candidates,
                                         const cleave_bound_blocks_options *options,
                                         cleave_cost_cache *cache, cleave_arena *arena,
                                         cleave_bound_blocks *blocks, bool *made,
                                         cleave_error *error) {
    *blocks = (cleave_bound_blocks){.n_devices = options->like->n_devices,
                                    .n_sums = blocks_n_sums(options->like->n_devices)};
    maker *m = blocks->maker = calloc(1, sizeof *m);
    if (m == NULL)
        return cleave_fail_memory(error, "bounding the step");
    *m = (maker){.model = model,
                 .candidates = candidates,
                 .machine = cleave_cost_cache_machine(cache),
                 .cache = cache,
                 .options = options,
                 .arena = arena,
                 .made = blocks,
                 .error = error};
    cleave_status status = make(m);
    *made = status == CLEAVE_OK && !m->too_large;
    if (!*made)
        cleave_bound_blocks_destroy(blocks);
    return status;
}

/* ---- bounds ---------------------------------------------------------------------------------- */

/* The window is all that is known of the layout, from the start of the step.  Block k's last group
   begins its backward pass when its forward pass has ended and what is behind has been passed. */
cleave_status cleave_bound_blocks_simulate(const cleave_bound_blocks *blocks, const int32_t *value,
                                           int32_t k, int64_t *bound, cleave_error *error) {
    maker *m = blocks->maker;
    m->error = error;
    *bound = 0;
    for (int32_t j = 0; j <= k; j++)
        set_block(m, j, value[j]);
    CLEAVE_TRY(fill_window(m, 0, k, 0, m->n_slots));
    computes end = find_computes(m, k, FORWARD), back = find_computes(m, k, BACKWARD);
    if (end.entry < 0 || back.entry < 0 || !has_backward(m, k))
        return CLEAVE_OK;
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, end.entry, true, end.entry,
               m->times);
    int64_t least = INT64_MAX;
    int64_t begin = last_group(m, end) + blocks->blocks[k].rest[(int64_t)value[k] * blocks->n_sums];
    for (int32_t i = 0; i < window_n_items(&m->window, back.entry); i++) {
        if (back.group_of[i] != i)
            continue;
        window_origin origin = {.entry = back.entry,
                                .group = i,
                                .group_of = back.group_of,
                                .whole = true,
                                .time = begin};
        int64_t latest = 0;
        window_run(&m->window, origin, -1, false, -1, NULL);
        for (int32_t q = 0; q < m->window.n_queues; q++)
            latest = m->window.clock[q] > latest ? m->window.clock[q] : latest;
        least = latest < least ? latest : least;
    }
    *bound = least == INT64_MAX ? 0 : least;
    return CLEAVE_OK;
}

/* Of sums that are mixed of `share` of path and updates, one for each device: of the last group of
   the first block the device with the most. */
static int64_t bound_of_updates(const cleave_bound_blocks *blocks, const int64_t *so_far,
                                const int64_t *rest, int32_t first, int64_t share) {
    int32_t n_devices = blocks->n_devices;
    const int64_t *end = &blocks->end[(int64_t)first * (1 + n_devices)];
    const int32_t *group = &blocks->end_group[(int64_t)first * n_devices];
    int64_t least = INT64_MAX;
    for (int32_t d = 0; d < n_devices; d++) {
        int64_t most = INT64_MIN;
        for (int32_t e = 0; e < n_devices && group[d] >= 0; e++) {
            if (group[e] != group[d])
                continue;
            int64_t sum = so_far[e] + rest[e] + share * end[1 + e];
            most = sum > most ? sum : most;
        }
        if (group[d] >= 0 && most < least)
            least = most;
    }
    return least == INT64_MAX ? 0 : least;
}

void cleave_bound_blocks_add(const cleave_bound_blocks *blocks,
                             const cleave_bound_blocks_prefix *before, int32_t last, int32_t k,
                             int32_t value, cleave_bound_blocks_prefix *after) {
    const cleave_block *block = &blocks->blocks[k];
    int32_t n_sums = blocks->n_sums, n_devices = blocks->n_devices;
    const int64_t *own = &block->sums[(int64_t)value * n_sums];
    if (k == 0) {
        for (int32_t s = 0; s < n_sums; s++)
            after->sums[s] = own[s];
        after->forward = own[0];
        for (int32_t d = 0; d < n_devices; d++)
            after->synced[d] = NO_PATH;
        return;
    }
    int64_t pair = (int64_t)last * block->n_values + value;
    const int64_t *both = &block[-1].next[pair * n_sums];
    const int64_t *tail = &block[-1].tail[pair * (1 + n_devices)];
    const int64_t *sync_before =
        &block[-1].sums[(int64_t)last * n_sums + n_devices + 1]; /* is in the tail */
    for (int32_t s = 0; s < n_sums; s++)
        after->sums[s] = before->sums[s] + both[s] + own[s];
    after->forward = before->forward + tail[0];
    for (int32_t d = 0; d < n_devices; d++) {
        int64_t parted =
            after->forward + tail[1 + d] + before->sums[n_devices + 1 + d] - sync_before[d];
        int64_t together = before->synced[d] + both[0];
        after->synced[d] = parted > together ? parted : together;
    }
}

int64_t cleave_bound_blocks_bound(const cleave_bound_blocks *blocks,
                                  const cleave_bound_blocks_prefix *prefix, int32_t first,
                                  int32_t k, int32_t value) {
    const int64_t *so_far = prefix->sums;
    int32_t n_devices = blocks->n_devices;
    const int64_t *rest = &blocks->blocks[k].rest[(int64_t)value * blocks->n_sums];
    int64_t path = so_far[0] + rest[0] + blocks->end[(int64_t)first * (1 + n_devices)];
    int64_t bound = bound_of_updates(blocks, so_far + 1, rest + 1, first, 1);
    bound = path > bound ? path : bound;
    for (int i = 1; i <= BLOCKS_MIXTURES; i++) {
        int32_t at = blocks_first_mixture(n_devices) + (i - 1) * n_devices;
        int64_t mixed = bound_of_updates(blocks, so_far + at, rest + at, first, i * n_devices) /
                        ((BLOCKS_MIXTURES + 1) * n_devices);
        bound = mixed > bound ? mixed : bound;
    }
    for (int32_t s = n_devices + 1; s < 4 * n_devices + 2; s++)
        if (s != 3 * n_devices + 1)
            bound = so_far[s] + rest[s] > bound ? so_far[s] + rest[s] : bound;
    for (int32_t d = 0; d < n_devices; d++)
        bound = prefix->synced[d] + rest[0] > bound ? prefix->synced[d] + rest[0] : bound;
    int64_t all = (so_far[3 * n_devices + 1] + rest[3 * n_devices + 1]) / n_devices;
    int64_t after = (so_far[4 * n_devices + 2] + rest[4 * n_devices + 2]) / n_devices;
    bound = after > bound ? after : bound;
    return all > bound ? all : bound;
}
