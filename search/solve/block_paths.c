/* Paths through the blocks: F, B, turn and what comes before and behind them, as block_windows.c
   has them, each from a window. */
#include "search/solve/block_windows_internal.h"

#include <string.h>

computes blocks_find_computes(const maker *m, int32_t k, path_side side) {
    int32_t slot = m->path_slot[side][k];
    if (slot < 0)
        return (computes){-1, NULL};
    return (computes){window_find(&m->window, slot, CLEAVE_RANK_COMPUTE, m->path_place[side][k]),
                      m->keys[side][k][m->value[blocks_main_of(m, k, side)]].group_of};
}

int64_t blocks_last_group(const maker *m, computes of) {
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
        int64_t delay = blocks_last_group(m, to);
        least = delay < least ? delay : least;
    }
    return least == INT64_MAX || least < 0 ? NO_PATH : least;
}

bool blocks_has_backward(const maker *m, int32_t k) {
    for (int32_t l = k; l < m->made->n_blocks; l++)
        if (m->path_slot[BACKWARD][l] < 0)
            return false;
    return true;
}

/* From the first end of any part of the first operator of a block to that of the next block. */
static int64_t earliest_delay(maker *m, int32_t k) {
    computes from = blocks_find_computes(m, k, EARLIEST),
             to = blocks_find_computes(m, k + 1, EARLIEST);
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

cleave_status blocks_sync_behind(maker *m, int32_t k, int64_t *tail) {
    int32_t n_devices = m->made->n_devices;
    for (int32_t d = 0; d < n_devices; d++)
        tail[d] = NO_PATH;
    if (!blocks_has_backward(m, k + 1) || !m->in_order)
        return CLEAVE_OK;
    CLEAVE_TRY(blocks_fill_window(m, k, k + 1, m->first_backward, m->n_slots));
    computes from = blocks_find_computes(m, k + 1, BACKWARD);
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

cleave_status blocks_delay_between(maker *m, int32_t k, int64_t *delay, int64_t *forward,
                                   int64_t *earliest) {
    CLEAVE_TRY(blocks_fill_window(m, k, k + 1, 0, m->first_backward));
    *delay = least_delay(m, blocks_find_computes(m, k, FORWARD), true,
                         blocks_find_computes(m, k + 1, FORWARD), true);
    *earliest = earliest_delay(m, k);
    *forward = *delay;
    if (!blocks_has_backward(m, k) || *delay == NO_PATH)
        return CLEAVE_OK;
    CLEAVE_TRY(blocks_fill_window(m, k, k + 1, m->first_backward, m->first_update));
    int64_t back = least_delay(m, blocks_find_computes(m, k + 1, BACKWARD), false,
                               blocks_find_computes(m, k, BACKWARD), false);
    *delay = back == NO_PATH ? NO_PATH : *delay + back;
    return CLEAVE_OK;
}

cleave_status blocks_turn_at_end(maker *m, int64_t *delay) {
    int32_t k = m->made->n_blocks - 1;
    *delay = 0;
    if (!blocks_has_backward(m, k))
        return CLEAVE_OK;
    CLEAVE_TRY(blocks_fill_window(m, k, k, 0, m->first_update));
    *delay = least_delay(m, blocks_find_computes(m, k, FORWARD), true,
                         blocks_find_computes(m, k, BACKWARD), false);
    return CLEAVE_OK;
}

cleave_status blocks_begin_path(maker *m, int64_t *begin, int64_t *earliest) {
    CLEAVE_TRY(blocks_fill_window(m, 0, 0, 0, m->first_backward));
    computes first = blocks_find_computes(m, 0, FORWARD);
    if (first.entry < 0) {
        *begin = *earliest = NO_PATH;
        return CLEAVE_OK;
    }
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, first.entry, true,
               first.entry, m->times);
    *begin = blocks_last_group(m, first);
    *earliest = INT64_MAX;
    first = blocks_find_computes(m, 0, EARLIEST);
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, first.entry, true,
               first.entry, m->times);
    for (int32_t i = 0; i < window_n_items(&m->window, first.entry); i++)
        *earliest = m->times[i] < *earliest ? m->times[i] : *earliest;
    return CLEAVE_OK;
}

cleave_status blocks_end_path(maker *m, int64_t *end, int32_t *end_group) {
    int32_t n_devices = m->made->n_devices, last = -1;
    int64_t least = INT64_MAX;
    for (int32_t d = 0; d < n_devices; d++)
        end_group[d] = -1;
    if (!blocks_has_backward(m, 0))
        return CLEAVE_OK;
    CLEAVE_TRY(blocks_fill_window(m, 0, 0, m->first_backward, m->n_slots));
    computes first = blocks_find_computes(m, 0, BACKWARD);
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
