/* The tables: what the fragments of a block, and of two neighbours, add to the sums, for every
   value or pair of values; and the least that is still to come, from the end. */
#include "search/solve/block_windows_internal.h"

#include "base/progress.h"

#include <string.h>

/* ---- fragments ------------------------------------------------------------------------------- */

/* The fragment of a place under the values that are looked at, made once. */
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
            CLEAVE_TRY(cleave_price_computes(m->lowerer, p - m->n_families, m->cache, &m->scratch,
                                             at, m->error));
        } else {
            cleave_fragment lowered;
            CLEAVE_TRY(cleave_lowerer_family(m->lowerer, p, &lowered, m->error));
            CLEAVE_TRY(cleave_price_fragment(&lowered, m->cache, NULL, &m->scratch, at, m->error));
        }
    }
    *fragment = &(*at)->priced;
    return CLEAVE_OK;
}

void blocks_set_block(maker *m, int32_t k, int32_t value) {
    const cleave_block *block = &m->made->blocks[k];
    for (int32_t i = block->n_operators - 1; i >= 0; i--) {
        int32_t op = block->operators[i], n = m->made->n_values[op];
        m->value[op] = value % n;
        value /= n;
    }
}

cleave_status blocks_fill_window(maker *m, int32_t k, int32_t l, int32_t first_slot,
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

/* ---- sums of one fragment -------------------------------------------------------------------- */

static void add_work(const maker *m, const cleave_priced_fragment *fragment, int64_t *sums) {
    int32_t n_devices = m->made->n_devices;
    for (int32_t c = 0; c < fragment->n_chunks; c++)
        for (int32_t i = 0; i < fragment->chunks[c].n_items; i++) {
            int32_t item = fragment->chunks[c].first_item + i, queue = fragment->queue[item];
            int64_t duration = fragment->duration[item];
            if (queue % 2 != 0)
                continue;
            sums[2 * n_devices + 1 + queue / 2] += duration;
            sums[3 * n_devices + 1] += duration;
            if (fragment->chunks[c].slot >= m->first_update && blocks_has_backward(m, 0))
                sums[1 + queue / 2] += duration;
        }
}

/* What a family takes in each communication lane. */
static cleave_status add_synchronisation(maker *m, int32_t p,
                                         const cleave_priced_fragment *fragment, int64_t *sums) {
    bool any = false;
    for (int32_t i = 0; i < fragment->n_items; i++)
        any = any || fragment->queue[i] % 2 != 0;
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
    CLEAVE_TRY(blocks_fill_window(m, k, l, m->first_backward, m->n_slots));
    int32_t n = m->window.entries.n;
    cleave_arena_reset(&m->scratch);
    bool *is_origin = CLEAVE_ARENA_ARRAY(&m->scratch, bool, n);
    bool *counts = CLEAVE_ARENA_ARRAY(&m->scratch, bool, n);
    int64_t *after = CLEAVE_ARENA_ARRAY(&m->scratch, int64_t, n_devices);
    if (is_origin == NULL || counts == NULL || after == NULL)
        return blocks_short_of_memory(m);
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
        return blocks_short_of_memory(m);
    for (int32_t x = 0; x < block->n_values; x++) {
        int64_t *sums = &block->sums[(int64_t)x * n_sums], delay = 0;
        blocks_set_block(m, k, x);
        CLEAVE_TRY(add_fragments(m, k, k, sums));
        CLEAVE_TRY(add_after_loss(m, k, k, sums));
        if (k == 0) {
            int64_t earliest;
            CLEAVE_TRY(blocks_begin_path(m, &delay, &earliest));
            add_path(m, delay, sums);
            add_path_to_loss(m, earliest, sums);
            CLEAVE_TRY(blocks_end_path(m, &m->made->end[(int64_t)x * (1 + m->made->n_devices)],
                                       &m->made->end_group[(int64_t)x * m->made->n_devices]));
        }
        if (k == m->made->n_blocks - 1) {
            CLEAVE_TRY(blocks_turn_at_end(m, &delay));
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
        return blocks_short_of_memory(m);
    for (int32_t x = 0; x < block->n_values && !m->too_large; x++) {
        blocks_set_block(m, k, x);
        for (int32_t y = 0; y < n_next; y++) {
            int64_t *sums = &block->next[((int64_t)x * n_next + y) * n_sums], delay, earliest;
            blocks_set_block(m, k + 1, y);
            CLEAVE_TRY(add_fragments(m, k, k + 1, sums));
            CLEAVE_TRY(add_after_loss(m, k, k + 1, sums));
            int64_t *tail = &block->tail[((int64_t)x * n_next + y) * (1 + m->made->n_devices)];
            CLEAVE_TRY(blocks_delay_between(m, k, &delay, tail, &earliest));
            CLEAVE_TRY(blocks_sync_behind(m, k, tail + 1));
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

cleave_status blocks_fill_tables(maker *m) {
    int64_t n_first = m->made->blocks[0].n_values, n_devices = m->made->n_devices;
    m->made->end = CLEAVE_ARENA_ARRAY(m->arena, int64_t, n_first * (1 + n_devices));
    m->made->end_group = CLEAVE_ARENA_ARRAY(m->arena, int32_t, n_first * n_devices);
    if (m->made->end == NULL || m->made->end_group == NULL)
        return blocks_short_of_memory(m);
    for (int32_t k = 0; k < m->made->n_blocks && !m->too_large; k++) {
        CLEAVE_TRY(fill_block(m, k));
        if (k + 1 < m->made->n_blocks)
            CLEAVE_TRY(fill_pairs(m, k));
    }
    if (!m->too_large)
        fill_rest(m);
    return CLEAVE_OK;
}
