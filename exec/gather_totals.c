#include "exec/gather_totals.h"

/* Do both ends agree on the bytes between every pair? */
static cleave_status gather_bytes(cleave_rank *rank, cleave_arena *arena, cleave_run_result *result,
                                  cleave_error *error) {
    size_t n = (size_t)rank->program->n_devices;
    bool root = rank->device == 0;
    int64_t *sent = CLEAVE_ARENA_ARRAY(arena, int64_t, root ? n * n : 1);
    int64_t *received = CLEAVE_ARENA_ARRAY(arena, int64_t, root ? n * n : 1);
    if (sent == NULL || received == NULL)
        return cleave_fail_memory(error, "gathering bytes");
    cleave_world_gather(rank->world, rank->sent, (int64_t)(n * sizeof *sent), sent);
    cleave_world_gather(rank->world, rank->received, (int64_t)(n * sizeof *received), received);
    if (!root)
        return CLEAVE_OK;
    result->bytes_between = sent;
    for (size_t s = 0; s < n; s++)
        for (size_t d = 0; d < n; d++) {
            result->bytes_sent += sent[s * n + d];
            if (sent[s * n + d] != received[d * n + s])
                return cleave_fail(error, CLEAVE_FAILED,
                                   "rank %zu sent %lld bytes to rank %zu, which received %lld", s,
                                   (long long)sent[s * n + d], d, (long long)received[d * n + s]);
        }
    return CLEAVE_OK;
}

static cleave_status gather_memory(cleave_rank *rank, cleave_arena *arena,
                                   cleave_run_result *result, cleave_error *error) {
    int32_t n = rank->program->n_devices;
    int64_t resident = cleave_world_peak_resident_bytes();
    int64_t *all = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    if (all == NULL)
        return cleave_fail_memory(error, "gathering memory");
    cleave_world_gather(rank->world, &resident, sizeof resident, all);
    result->rss_peak_bytes = all;
    result->peak_bytes = rank->program->peak_bytes;
    return CLEAVE_OK;
}

/* Adds up on rank 0 what every rank dropped in each step. */
static cleave_status gather_dropped(cleave_rank *rank, cleave_arena *arena,
                                    cleave_run_result *result, cleave_error *error) {
    int64_t n = result->n_choices > 0 ? result->n_steps : 0;
    int32_t n_ranks = rank->device == 0 ? rank->program->n_devices : 0;
    int64_t *all = CLEAVE_ARENA_ARRAY(arena, int64_t, n * n_ranks + 1);
    if (all == NULL)
        return cleave_fail_memory(error, "gathering what was dropped");
    cleave_world_gather(rank->world, result->dropped, n * (int64_t)sizeof *all, all);
    for (int64_t i = 0; i < n; i++)
        for (int32_t r = 1; r < n_ranks; r++)
            result->dropped[i] += all[r * n + i];
    return CLEAVE_OK;
}

cleave_status cleave_gather_totals(cleave_rank *rank, cleave_arena *arena,
                                   cleave_run_result *result, cleave_error *error) {
    CLEAVE_TRY(gather_bytes(rank, arena, result, error));
    CLEAVE_TRY(gather_memory(rank, arena, result, error));
    return gather_dropped(rank, arena, result, error);
}
