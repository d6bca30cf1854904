/* Blocks are levels: the operators at one distance from the first, where those are neighbours that
   touch one family of tensors (graph/lower/slots.h).  So every family lies within a block or two
   neighbouring ones, and all that a step consists of, the fragments of families and the computes of
   nests, follows from the values of a block or of two neighbours.

   Let m(k) be the last operator of block k in the order of the model, and for backward passes the
   first, which is then the last.  Its parts form groups: those that share a key compute the same,
   and of a group one is enough.  Let R(k) be the time when the last group of m(k) has its first
   part at the end of its forward pass, and Y(k) the time when the last group has its first part at
   the start of its backward pass.  A window (link_window.h) of blocks k and k + 1 in which the
   parts of one group of m(k) end at 0 gives a time for each group of m(k + 1), that of its first
   part; let F be the least over the groups of m(k) of the latest of these.  Whichever group of m(k)
   is the last one, R(k + 1) >= R(k) + F.  In the same way Y(k) >= Y(k + 1) + B, where the parts of
   a group of m(k + 1) begin their backward pass at 0, and Y >= R + turn for the last block.  R(0)
   is no less than in a window that starts at 0.  And after Y(0) comes, on any device d of the last
   group of m(0), what block 0 does until the end; or what it does until all of backward has ended,
   and then all updates on d that stand behind backward, of whichever block, since a main lane runs
   its items in order.  Where no group of one is reached from a group of the other there is no F or
   B, and such values are never excluded by a path.

   In the communication lane of a device everything that a family does follows on what the family
   before did, whatever happens elsewhere, and takes at least what a window of the family gives in
   which this lane alone is known to be there at 0.  The main lane of a device takes at least the
   sum of the durations of its items, those that follow the loss (search/bound/loss.c) after the
   first part of the loss has ended; the path to that goes from the first part of a block's first
   operator to that of the next.  And where blocks are in the order of nests, so is their
   synchronisation: a path may part from the others at any block, and go on in a communication lane
   with what blocks before it synchronise.

   These sums are of one block or of two neighbours each, so the least that is still to come after
   block k, given its value, is found block by block from the end. */
#include "search/solve/block_windows_internal.h"

#include "search/bound/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BLOCKS = 64, MOST_VALUES = 1 << 12, MOST_PAIRS = 1 << 21, MOST_FRAGMENTS = 1 << 22 };

static const cleave_candidate_list *list_of(const maker *m, int32_t op) {
    return &m->candidates->lists[m->candidates->list_of[op]];
}

/* ---- values ---------------------------------------------------------------------------------- */

static cleave_status list_values(maker *m) {
    cleave_bound_blocks *made = m->made;
    int32_t n_ops = m->model->n_operators;
    made->n_values = CLEAVE_ARENA_ARRAY(m->arena, int32_t, n_ops);
    made->values = CLEAVE_ARENA_ARRAY(m->arena, cleave_split *, n_ops);
    if (made->n_values == NULL || made->values == NULL)
        return blocks_short_of_memory(m);
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
            return blocks_short_of_memory(m);
        for (int32_t c = 0; c < list->n; c++)
            for (int32_t start = 0; start < list->items[c].n_starts; start++) {
                cleave_split *split = &made->values[op][made->n_values[op]++];
                split->devices = CLEAVE_ARENA_ARRAY(m->arena, int32_t, list->items[c].n_parts);
                if (split->devices == NULL)
                    return blocks_short_of_memory(m);
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
        return blocks_short_of_memory(m);
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
        return blocks_short_of_memory(m);
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
        return blocks_short_of_memory(m);
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

int32_t blocks_main_of(const maker *m, int32_t k, path_side side) {
    const cleave_block *block = &m->made->blocks[k];
    return block->operators[side == FORWARD ? block->n_operators - 1 : 0];
}

static void find_pass(const maker *m, int32_t k, path_side side) {
    const cleave_operator *op = &m->model->operators[blocks_main_of(m, k, side)];
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
            return blocks_short_of_memory(m);
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
            return blocks_short_of_memory(m);
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
        return blocks_short_of_memory(m);
    for (int side = 0; side < N_SIDES; side++) {
        m->keys[side] = CLEAVE_ARENA_ARRAY(&m->work, part_keys *, m->made->n_blocks);
        if (m->keys[side] == NULL)
            return blocks_short_of_memory(m);
        for (int32_t k = 0; k < m->made->n_blocks; k++) {
            int32_t op = blocks_main_of(m, k, (path_side)side), n = m->made->n_values[op];
            int32_t nest = m->path_place[side][k] - m->n_families;
            m->keys[side][k] = CLEAVE_ARENA_ARRAY(&m->work, part_keys, n);
            if (m->keys[side][k] == NULL)
                return blocks_short_of_memory(m);
            for (int32_t v = 0; v < n && m->path_slot[side][k] >= 0; v++) {
                CLEAVE_TRY(cleave_parts_derive_operator(m->model, op, &m->made->values[op][v], NULL,
                                                        &m->work, parts, m->error));
                if (!find_groups(&parts[nest], &m->work, &m->keys[side][k][v]))
                    return blocks_short_of_memory(m);
            }
        }
    }
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
        return blocks_short_of_memory(m);
    for (int32_t op = 0; op < model->n_operators; op++)
        m->set[op] = -1;
    return CLEAVE_OK;
}

static cleave_status find_loss(maker *m) {
    const cleave_model *model = m->model;
    int32_t last = m->made->n_blocks - 1;
    m->follows_loss = CLEAVE_ARENA_ARRAY(&m->work, bool, model->n_nests);
    if (m->follows_loss == NULL)
        return blocks_short_of_memory(m);
    m->in_order = true;
    for (int32_t n = 1; n < model->n_nests; n++)
        m->in_order =
            m->in_order && m->block_of[model->nests[n - 1].op] <= m->block_of[model->nests[n].op];
    m->ends_at_loss = cleave_model_trains(model) && m->path_slot[EARLIEST][last] >= 0 &&
                      m->path_place[EARLIEST][last] == m->n_families + model->writer[model->loss];
    return bound_follow_loss(model, m->made->n_values, m->made->values, m->follows_loss, m->error);
}

static cleave_status make(maker *m) {
    int64_t *latency = CLEAVE_ARENA_ARRAY(&m->work, int64_t, m->machine->n_links);
    if (latency == NULL)
        return blocks_short_of_memory(m);
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
    return blocks_fill_tables(m);
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
