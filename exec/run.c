/* Running a program for real. */
#include "exec/run.h"

#include "base/order.h"
#include "base/progress.h"
#include "exec/data/save.h"
#include "exec/dropped.h"
#include "exec/gather_timeline.h"
#include "exec/gather_totals.h"
#include "exec/lowered.h"
#include "exec/training/checkpoint.h"
#include "exec/training/decay.h"
#include "exec/training/training_log.h"
#include "exec/training/validation.h"
#include "exec/training/watch.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cleave_status cleave_run_steps_of_epoch(const cleave_model *model,
                                        const cleave_run_options *options, int64_t *steps,
                                        cleave_error *error) {
    cleave_samples *samples;
    CLEAVE_TRY(cleave_samples_open(model, options, &samples, error));
    const cleave_sample_order *order = cleave_samples_order(samples);
    *steps = order != NULL ? cleave_sample_order_steps(order) : 0;
    cleave_samples_close(samples);
    return CLEAVE_OK;
}

cleave_status cleave_run_check(const cleave_model *model, const cleave_layout *layout,
                               const cleave_run_options *options, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_check(model, layout, error));
    if (!options->forward && !cleave_model_trains(model))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the model has no loss, so it can't be trained", model->file);
    if (!options->forward && (options->optimizer.clip_norm > 0) != (model->squares > 0))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: gradients are clipped where the model is loaded for it and a norm "
                           "is given: here only one of the two is so",
                           model->file);
    CLEAVE_TRY(cleave_decay_check(options->no_decay, model, error));
    CLEAVE_TRY(cleave_checkpoint_check(options, error));
    if (options->log != NULL && options->forward)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: a log is of a training", options->log);
    if (options->log != NULL)
        CLEAVE_TRY(cleave_training_log_check(options->log, error));
    if (options->validate != NULL)
        CLEAVE_TRY(cleave_validation_check(options, error));
    cleave_values *values;
    CLEAVE_TRY(cleave_values_open(model, options, NULL, &values, error));
    cleave_values_close(values);
    return CLEAVE_OK;
}

cleave_status cleave_run_check_from(const cleave_model *model, const cleave_run_options *options,
                                    cleave_error *error) {
    cleave_resumed resumed;
    cleave_values *values;
    CLEAVE_TRY(cleave_checkpoint_find(model, options, &resumed, error));
    if (resumed.folder[0] == '\0')
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_values_open(model, options, resumed.folder, &values, error));
    cleave_values_close(values);
    return CLEAVE_OK;
}

static cleave_status median(const double *values, int64_t n, double *result, cleave_error *error) {
    int64_t skip = n > 1 ? 1 : 0; /* the first step pays for what is set up on first use */
    *result = 0;
    if (n == 0)
        return CLEAVE_OK;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (sorted == NULL)
        return cleave_fail_memory(error, "sorting step times");
    memcpy(sorted, values + skip, (size_t)(n - skip) * sizeof *sorted);
    n -= skip;
    *result = cleave_median(sorted, n);
    free(sorted);
    return CLEAVE_OK;
}

/* A run while it goes on. */
typedef struct running {
    cleave_rank *rank;
    cleave_values *values;
    cleave_checkpoints checkpoints;
    cleave_training_log log;       /* of rank 0 */
    cleave_validation *validation; /* null: none */
    cleave_step_records *records;  /* null where no timeline is asked for */
    cleave_run_result *result;
    double started; /* streams: when the first step began */
} running;

/* What ranks tell each other after a step: each is the largest of all. */
typedef struct word {
    double seconds; /* of the step */
    double is_nan;  /* the loss */
    double ends;    /* a rank was told to end */
    double is_late; /* the last checkpoint is long ago */
} word;

enum { VALUES_OF_WORD = sizeof(word) / sizeof(double) };

/* Brings the loss to rank 0. */
static cleave_status bring_loss(cleave_rank *rank, double *result, bool *is_nan,
                                cleave_error *error) {
    const cleave_program *program = rank->program;
    int32_t from = program->loss_device;
    float loss = 0;
    if (program->loss_buffer < 0)
        return CLEAVE_OK;
    if (rank->device == from)
        loss = *(const float *)cleave_rank_buffer(rank, program->loss_buffer);
    if (rank->device == from && from != 0)
        CLEAVE_TRY(cleave_world_send_now(rank->world, &loss, sizeof loss, 0, error));
    if (rank->device == 0 && from != 0)
        CLEAVE_TRY(cleave_world_receive_now(rank->world, &loss, sizeof loss, from, error));
    if (rank->device == 0)
        *result = (double)loss;
    *is_nan = isnan(loss);
    return CLEAVE_OK;
}

/* Names the operator that made the loss, or what was to be a checkpoint, no number. */
static cleave_status find_nan(running *run, int64_t step, cleave_error *error) {
    cleave_rank *rank = run->rank;
    const cleave_run_options *options = rank->options;
    char folder[4096];
    int64_t from = run->checkpoints.last_step; /* rank 0 knows */
    cleave_world_broadcast(rank->world, &from, sizeof from);
    if (from < 0)
        return cleave_watch_again(run->values, rank, run->result->first_step, step, error);
    cleave_checkpoint_path(options->checkpoint, from, folder, sizeof folder);
    cleave_values *values;
    CLEAVE_TRY(cleave_values_open(rank->program->model, options, folder, &values, error));
    cleave_status status = cleave_watch_again(values, rank, from, step, error);
    cleave_values_close(values);
    return status;
}

/* After `step` steps. */
static cleave_status write_checkpoint(running *run, int64_t step, cleave_error *error) {
    const char *nan_in = NULL;
    CLEAVE_TRY(
        cleave_checkpoints_write(&run->checkpoints, run->values, run->rank, step, &nan_in, error));
    run->result->checkpoint_seconds = run->checkpoints.took_seconds;
    run->result->checkpoint_bytes = run->checkpoints.bytes;
    double is_nan = nan_in != NULL;
    CLEAVE_TRY(cleave_world_meet(run->rank->world, &is_nan, 1, "writing a checkpoint", error));
    return is_nan > 0 ? find_nan(run, step - 1, error) : CLEAVE_OK;
}

/* From when a rank ended its steps to the times between their ends, a step having ended when the
   last rank has.  Clocks of hosts may differ: what counts is since they met. */
static cleave_status find_times_between(const running *run, cleave_error *error) {
    cleave_run_result *result = run->result;
    double before = 0;
    for (int64_t i = 0; i < result->n_steps; i++) {
        double end = result->step_seconds[i] - run->started;
        CLEAVE_TRY(cleave_world_meet(run->rank->world, &end, 1, "at the end of a run", error));
        result->step_seconds[i] = end - before;
        before = end;
    }
    return CLEAVE_OK;
}

/* A pass forward that waits for no other rank. */
static cleave_status stream_step(running *run, int64_t step, cleave_error *error) {
    if (step == run->result->first_step) {
        CLEAVE_TRY(cleave_world_meet(run->rank->world, NULL, 0, "at the start of a run", error));
        run->started = cleave_clock_seconds();
    }
    CLEAVE_TRY(cleave_rank_step(run->rank, step, error));
    int64_t i = step - run->result->first_step;
    run->result->step_seconds[i] = cleave_clock_seconds();
    if (run->records != NULL)
        cleave_step_records_offer(run->records, run->rank, i,
                                  cleave_clock_seconds() - run->rank->step_started);
    run->result->dropped[i] = run->rank->dropped;
    run->result->kernel_seconds = run->rank->kernel_seconds;
    run->result->last_step_seconds = cleave_clock_seconds() - run->rank->step_started;
    return CLEAVE_OK;
}

static cleave_status run_step(running *run, int64_t step, word *said, cleave_error *error) {
    cleave_rank *rank = run->rank;
    const cleave_run_options *options = rank->options;
    cleave_run_result *result = run->result;
    bool is_nan = false;
    CLEAVE_TRY(cleave_world_meet(rank->world, NULL, 0, "at the start of a step", error));
    int64_t i = step - result->first_step;
    result->processor_seconds[i] = -cleave_processor_seconds();
    CLEAVE_TRY(cleave_rank_step(rank, step, error));
    double seconds = cleave_clock_seconds() - rank->step_started;
    result->processor_seconds[i] += cleave_processor_seconds();
    CLEAVE_TRY(bring_loss(rank, &result->loss[i], &is_nan, error));
    if (rank->device == 0 && rank->program->squares_buffer >= 0)
        result->gradient_norm[i] =
            sqrt((double)*(const float *)cleave_rank_buffer(rank, rank->program->squares_buffer));
    *said = (word){.seconds = seconds,
                   .is_nan = is_nan,
                   .ends = (options->interrupted != NULL && *options->interrupted != 0) ||
                           cleave_world_is_told_to_end(rank->world),
                   .is_late = options->checkpoint_seconds > 0 &&
                              cleave_clock_seconds() - run->checkpoints.written_seconds >
                                  options->checkpoint_seconds};
    CLEAVE_TRY(cleave_world_meet(rank->world, (double *)said, VALUES_OF_WORD,
                                 "at the end of a step", error));
    result->step_seconds[i] = said->seconds;
    if (run->records != NULL)
        cleave_step_records_offer(run->records, rank, i, said->seconds);
    result->dropped[i] = rank->dropped;
    result->kernel_seconds = rank->kernel_seconds;
    result->last_step_seconds = seconds;
    return CLEAVE_OK;
}

/* How many samples a step takes; 0: the model does not say. */
static int64_t samples_of_step(const running *run) {
    const cleave_sample_order *order = &run->result->order;
    return order->n > 0 ? order->batch : run->rank->program->model->batch;
}

/* What is told of the last of `done` steps. */
static cleave_training_row describe_step(const running *run, int64_t done) {
    const cleave_run_result *result = run->result;
    const cleave_sample_order *order = &result->order;
    const int64_t i = done - 1 - result->first_step, n = samples_of_step(run);
    const double seconds = result->step_seconds[i];
    const cleave_optimizer *optimizer = &run->rank->options->optimizer;
    return (cleave_training_row){
        .step = done,
        .epoch =
            order->n > 0 ? (double)done / (double)cleave_sample_order_steps(order) : (double)NAN,
        .loss = result->loss[i],
        .learning_rate = cleave_rate_at(&optimizer->schedule, optimizer->learning_rate, done),
        .gradient_norm = result->gradient_norm != NULL ? result->gradient_norm[i] : (double)NAN,
        .seconds = seconds,
        .samples_per_second = n > 0 && seconds > 0 ? (double)n / seconds : (double)NAN,
        .validation_loss = (double)NAN,
        .validation_accuracy = (double)NAN};
}

/* Is it time to look at held-out samples? */
static bool validates(const running *run, int64_t done) {
    const cleave_run_options *options = run->rank->options;
    const cleave_sample_order *order = &run->result->order;
    int64_t every = options->validate_every > 0 ? options->validate_every
                    : order->n > 0              ? cleave_sample_order_steps(order)
                                                : 0;
    return run->validation != NULL && (done == options->steps || (every > 0 && done % every == 0));
}

/* Validates where it is time to, and writes and describes the last of `done` steps. */
static cleave_status tell_step(running *run, int64_t done, char *note, size_t bytes,
                               cleave_error *error) {
    cleave_training_row row = describe_step(run, done);
    if (validates(run, done)) {
        cleave_validated *last = &run->result->validated;
        CLEAVE_TRY(cleave_validation_run(run->validation, run->values, last, error));
        row.validation_loss = last->loss;
        row.validation_accuracy = last->accuracy;
    }
    cleave_training_row_format(&row, note, bytes);
    return run->log.stream != NULL ? cleave_training_log_put(&run->log, &row, error) : CLEAVE_OK;
}

static cleave_status fail_interrupted(const cleave_run_options *options, int64_t step,
                                      cleave_error *error) {
    char folder[4096];
    if (options->checkpoint == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "ended by a signal after step %lld",
                           (long long)step);
    cleave_checkpoint_path(options->checkpoint, step, folder, sizeof folder);
    return cleave_fail(error, CLEAVE_FAILED,
                       "ended by a signal after step %lld, which %s has: --from %s goes on",
                       (long long)step, folder, options->checkpoint);
}

static cleave_status run_steps(running *run, cleave_error *error) {
    const cleave_run_options *options = run->rank->options;
    const cleave_run_result *result = run->result;
    cleave_progress progress;
    cleave_progress_begin(&progress, "running", options->quiet || run->rank->device != 0);
    for (int64_t step = result->first_step; step < options->steps; step++) {
        word said = {0};
        CLEAVE_TRY(options->stream ? stream_step(run, step, error)
                                   : run_step(run, step, &said, error));
        int64_t done = step + 1;
        if (said.is_nan > 0)
            return find_nan(run, step, error);
        char note[160] = "";
        if (!options->forward)
            CLEAVE_TRY(tell_step(run, done, note, sizeof note, error));
        bool last = done == options->steps || said.ends > 0,
             due = options->checkpoint_every > 0 && done % options->checkpoint_every == 0;
        if (options->checkpoint != NULL && (last || due || said.is_late > 0))
            CLEAVE_TRY(write_checkpoint(run, done, error));
        if (said.ends > 0 && done < options->steps)
            return fail_interrupted(options, done, error);
        cleave_progress_update(&progress, (double)done / (double)options->steps, note);
    }
    cleave_progress_end(&progress);
    return options->stream ? find_times_between(run, error) : CLEAVE_OK;
}

static cleave_status run_rank(running *run, cleave_arena *arena, cleave_error *error) {
    cleave_rank *rank = run->rank;
    cleave_run_result *result = run->result;
    const cleave_run_options *options = rank->options;
    CLEAVE_TRY(cleave_values_fill(run->values, rank, error));
    rank->load = cleave_values_load;
    rank->load_context = run->values;
    cleave_step_records records;
    if (options->timeline && result->n_steps > 0) {
        CLEAVE_TRY(cleave_step_records_create(&records, rank, result->n_steps, arena, error));
        run->records = &records;
    }
    cleave_world_set_patience(rank->world, options->stall_timeout_seconds);
    cleave_status status = cleave_checkpoints_open(&run->checkpoints, rank, error);
    if (status == CLEAVE_OK && options->log != NULL && rank->device == 0)
        status = cleave_training_log_open(&run->log, options->log, result->first_step, error);
    if (status == CLEAVE_OK)
        status = run_steps(run, error);
    cleave_checkpoints_close(&run->checkpoints);
    cleave_training_log_close(&run->log);
    CLEAVE_TRY(status);
    CLEAVE_TRY(cleave_gather_totals(rank, arena, result, error));
    CLEAVE_TRY(median(result->step_seconds, result->n_steps, &result->median_step_seconds, error));
    CLEAVE_TRY(median(result->processor_seconds, result->n_steps, &result->median_processor_seconds,
                      error));
    if (run->records != NULL)
        CLEAVE_TRY(cleave_gather_timeline(rank, run->records, result->median_step_seconds, arena,
                                          result, error));
    if (options->save == NULL)
        return CLEAVE_OK;
    return cleave_save_file(run->values, rank,
                            options->forward ? CLEAVE_SAVED_OUTPUTS : CLEAVE_SAVED_VALUES,
                            options->save, error);
}

/* Rank 0 looks for the checkpoint, and all go on from the one that it chose. */
static cleave_status find_checkpoint(cleave_world *world, const cleave_model *model,
                                     const cleave_run_options *options, cleave_arena *arena,
                                     cleave_run_result *run, cleave_error *error) {
    struct {
        cleave_status status;
        cleave_error error;
        cleave_resumed resumed;
    } *found = cleave_arena_alloc(arena, 1, sizeof *found);
    if (found == NULL)
        return cleave_fail_memory(error, "preparing a run");
    if (cleave_world_rank(world) == 0)
        found->status = cleave_checkpoint_find(model, options, &found->resumed, &found->error);
    if (options->from != NULL)
        cleave_world_broadcast(world, found, sizeof *found);
    if (found->status != CLEAVE_OK)
        return cleave_fail(error, found->status, "%s", found->error.message);
    run->first_step = found->resumed.step;
    run->n_steps = options->steps - run->first_step;
    run->resumed = found->resumed.folder;
    run->skipped = found->resumed.skipped;
    return CLEAVE_OK;
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
                             .n_choices = cleave_dropped_most(model),
                             .loads_data = options->data != NULL || options->text != NULL ||
                                           options->images != NULL};
    CLEAVE_TRY(find_checkpoint(world, model, options, arena, &run, error));
    run.program = CLEAVE_ARENA_ARRAY(arena, cleave_program, 1);
    run.step_seconds = CLEAVE_ARENA_ARRAY(arena, double, run.n_steps);
    run.processor_seconds = CLEAVE_ARENA_ARRAY(arena, double, run.n_steps);
    run.loss = CLEAVE_ARENA_ARRAY(arena, double, run.n_steps);
    run.dropped = CLEAVE_ARENA_ARRAY(arena, int64_t, run.n_steps);
    if (model->squares > 0)
        run.gradient_norm = CLEAVE_ARENA_ARRAY(arena, double, run.n_steps);
    if (run.program == NULL || run.step_seconds == NULL || run.processor_seconds == NULL ||
        run.loss == NULL || run.dropped == NULL ||
        (model->squares > 0 && run.gradient_norm == NULL))
        return cleave_fail_memory(error, "preparing a run");
    CLEAVE_TRY(cleave_lower_run(model, layout, options, arena, run.program, error));
    cleave_values *values = NULL;
    cleave_rank rank = {0};
    const char *checkpoint = run.resumed[0] != '\0' ? run.resumed : NULL;
    CLEAVE_TRY(cleave_values_open(model, options, checkpoint, &values, error));
    if (cleave_values_order(values) != NULL)
        run.order = *cleave_values_order(values);
    running now = {
        .rank = &rank, .values = values, .checkpoints = {.descriptor = -1}, .result = &run};
    cleave_status status =
        cleave_rank_create_within(&rank, world, run.program, options, arena, error);
    if (status == CLEAVE_OK && options->validate != NULL)
        status = cleave_validation_open(&rank, arena, &now.validation, error);
    give_memory_back();
    if (status == CLEAVE_OK)
        status = cleave_rank_new_memory(&rank, &rank.memory, error);
    if (status == CLEAVE_OK)
        status = run_rank(&now, arena, error);
    cleave_validation_close(now.validation);
    if (options->forward)
        run.loss = NULL;
    cleave_rank_destroy(&rank);
    cleave_values_close(values);
    if (status == CLEAVE_OK)
        *result = run;
    return status;
}
