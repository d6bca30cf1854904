/* Running a program for real. */
#include "exec/run.h"

#include "base/progress.h"
#include "exec/data/values.h"
#include "exec/gather_timeline.h"
#include "exec/rank.h"
#include "graph/lower/lower.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cleave_status cleave_run_check(const cleave_model *model, const cleave_layout *layout,
                               const cleave_run_options *options, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_check(model, layout, error));
    if (!options->forward && !cleave_model_trains(model))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the model has no loss, so it can't be trained", model->file);
    cleave_values *values;
    CLEAVE_TRY(cleave_values_open(model, options, &values, error));
    cleave_values_close(values);
    return CLEAVE_OK;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static cleave_status median(const double *values, int64_t n, double *result, cleave_error *error) {
    int64_t skip = n > 1 ? 1 : 0; /* the first step pays for what is set up on first use */
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (sorted == NULL)
        return cleave_fail_memory(error, "sorting step times");
    memcpy(sorted, values + skip, (size_t)(n - skip) * sizeof *sorted);
    n -= skip;
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    *result = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
    free(sorted);
    return CLEAVE_OK;
}

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

/* From when a rank ended its steps to the times between their ends, a step having ended when the
   last rank has.  Clocks of hosts may differ: what counts is since the barrier. */
static void find_times_between(const cleave_rank *rank, double started, double *seconds) {
    double before = 0;
    for (int64_t step = 0; step < rank->options->steps; step++) {
        double end = cleave_world_largest(rank->world, seconds[step] - started);
        seconds[step] = end - before;
        before = end;
    }
}

/* `records`: null where no timeline is asked for. */
static cleave_status run_steps(cleave_rank *rank, cleave_step_records *records,
                               cleave_run_result *result, cleave_error *error) {
    const cleave_run_options *options = rank->options;
    const cleave_program *program = rank->program;
    cleave_progress progress;
    double started = 0;
    cleave_progress_begin(&progress, "running", options->quiet || rank->device != 0);
    for (int64_t step = 0; step < options->steps; step++) {
        if (step == 0 || !options->stream)
            cleave_world_barrier(rank->world);
        started = step == 0 ? cleave_clock_seconds() : started;
        CLEAVE_TRY(cleave_rank_step(rank, step, error));
        double seconds = cleave_clock_seconds() - rank->step_started;
        result->step_seconds[step] =
            options->stream ? cleave_clock_seconds() : cleave_world_largest(rank->world, seconds);
        if (records != NULL)
            cleave_step_records_offer(records, rank, step, result->step_seconds[step]);
        result->kernel_seconds = rank->kernel_seconds;
        result->last_step_seconds = seconds;
        if (program->loss_buffer >= 0) {
            float loss = 0;
            if (rank->device == program->loss_device)
                loss = *(const float *)cleave_rank_buffer(rank, program->loss_buffer);
            if (rank->device == program->loss_device && rank->device != 0)
                cleave_world_send_now(rank->world, &loss, sizeof loss, 0);
            if (rank->device == 0 && program->loss_device != 0)
                cleave_world_receive_now(rank->world, &loss, sizeof loss, program->loss_device);
            if (rank->device == 0)
                result->loss[step] = (double)loss;
        }
        char note[64] = "";
        if (result->loss != NULL)
            snprintf(note, sizeof note, "loss %.4g", result->loss[step]);
        cleave_progress_update(&progress, (double)(step + 1) / (double)options->steps, note);
    }
    cleave_progress_end(&progress, NULL);
    if (options->stream)
        find_times_between(rank, started, result->step_seconds);
    return CLEAVE_OK;
}

static cleave_status run_rank(cleave_rank *rank, cleave_values *values, cleave_arena *arena,
                              cleave_run_result *result, cleave_error *error) {
    CLEAVE_TRY(cleave_values_fill(values, rank, error));
    rank->load = cleave_values_load;
    rank->load_context = values;
    cleave_step_records records;
    bool records_steps = rank->options->timeline;
    if (records_steps)
        CLEAVE_TRY(cleave_step_records_create(&records, rank, rank->options->steps, arena, error));
    CLEAVE_TRY(run_steps(rank, records_steps ? &records : NULL, result, error));
    CLEAVE_TRY(gather_bytes(rank, arena, result, error));
    CLEAVE_TRY(gather_memory(rank, arena, result, error));
    CLEAVE_TRY(
        median(result->step_seconds, rank->options->steps, &result->median_step_seconds, error));
    if (records_steps)
        CLEAVE_TRY(cleave_gather_timeline(rank, &records, result->median_step_seconds, arena,
                                          result, error));
    return rank->options->save != NULL ? cleave_values_save(values, rank, error) : CLEAVE_OK;
}

/* What lowering had beside its result, before the rank takes its own memory: resident memory is to
   be the arena and little that depends on the model. */
static void give_memory_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

cleave_status cleave_run(cleave_world *world, const cleave_model *model,
                         const cleave_layout *layout, const cleave_run_options *options,
                         cleave_arena *arena, cleave_run_result *result, cleave_error *error) {
    if (cleave_world_size(world) != layout->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout is for %d devices, but there are %d ranks",
                           layout->n_devices, cleave_world_size(world));
    cleave_run_result run = {.n_devices = layout->n_devices,
                             .loads_data = options->data != NULL || options->text != NULL};
    run.program = CLEAVE_ARENA_ARRAY(arena, cleave_program, 1);
    run.step_seconds = CLEAVE_ARENA_ARRAY(arena, double, options->steps);
    if (!options->forward)
        run.loss = CLEAVE_ARENA_ARRAY(arena, double, options->steps);
    if (run.program == NULL || run.step_seconds == NULL || (run.loss == NULL && !options->forward))
        return cleave_fail_memory(error, "preparing a run");
    cleave_kernels *kernels = NULL; /* for workspaces; the rank has its own */
    CLEAVE_TRY(cleave_kernels_create(&kernels, error));
    cleave_lower_options lower = {
        .training = !options->forward,
        .optimizer_states = options->forward ? 0 : cleave_optimizer_states(&options->optimizer),
        .workspace = options->reference_kernels ? NULL : cleave_kernel_workspace,
        .workspace_context = kernels};
    cleave_status status = cleave_lower(model, layout, &lower, arena, run.program, error);
    cleave_kernels_destroy(kernels);
    CLEAVE_TRY(status);
    CLEAVE_TRY(cleave_program_check(run.program, error));
    give_memory_back();
    cleave_values *values = NULL;
    cleave_rank rank = {0};
    CLEAVE_TRY(cleave_values_open(model, options, &values, error));
    status = cleave_rank_create(&rank, world, run.program, options, arena, error);
    if (status == CLEAVE_OK)
        status = run_rank(&rank, values, arena, &run, error);
    cleave_rank_destroy(&rank);
    cleave_values_close(values);
    if (status == CLEAVE_OK)
        *result = run;
    return status;
}
