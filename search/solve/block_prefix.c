/* Bounds of layouts that begin alike: from the sums of their first blocks and the least of the
   rest, or by simulating those blocks as one window. */
#include "search/solve/block_windows_internal.h"

#include <string.h>

/* The window is all that is known of the layout, from the start of the step.  Block k's last group
   begins its backward pass when its forward pass has ended and what is behind has been passed. */
cleave_status cleave_bound_blocks_simulate(const cleave_bound_blocks *blocks, const int32_t *value,
                                           int32_t k, int64_t *bound, cleave_error *error) {
    maker *m = blocks->maker;
    m->error = error;
    *bound = 0;
    for (int32_t j = 0; j <= k; j++)
        blocks_set_block(m, j, value[j]);
    CLEAVE_TRY(blocks_fill_window(m, 0, k, 0, m->n_slots));
    computes end = blocks_find_computes(m, k, FORWARD), back = blocks_find_computes(m, k, BACKWARD);
    if (end.entry < 0 || back.entry < 0 || !blocks_has_backward(m, k))
        return CLEAVE_OK;
    window_run(&m->window, (window_origin){.entry = -1, .whole = true}, end.entry, true, end.entry,
               m->times);
    int64_t least = INT64_MAX;
    int64_t begin =
        blocks_last_group(m, end) + blocks->blocks[k].rest[(int64_t)value[k] * blocks->n_sums];
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
