/* Validation. */
#include "exec/training/validation.h"

#include "base/progress.h"
#include "exec/data/copy_box.h"
#include "exec/data/save.h"
#include "exec/lowered.h"
#include "exec/training/scores.h"
#include "graph/program/memory_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct cleave_validation {
    const cleave_rank *trained;
    cleave_run_options options; /* of the passes */
    cleave_model model;         /* with one output, the scores */
    cleave_program program;
    cleave_rank rank;
    cleave_values *values;
    int32_t *tensor_of; /* [tensors of the trained model] the same one here; -1: there is none */
    cleave_scores scores;
    int64_t *targets; /* of a batch, on rank 0 */
    cleave_scored scored;
};

static cleave_run_options options_of(const cleave_run_options *of) {
    cleave_run_options options = *of;
    options.forward = true;
    options.held_out = true;
    options.shuffle = false;
    options.timeline = false;
    options.weights = options.from = options.checkpoint = options.save = NULL;
    *(of->text != NULL     ? &options.text
      : of->images != NULL ? &options.images
                           : &options.data) = of->validate;
    return options;
}

/* ---- the model that is evaluated --------------------------------------------------------------
 */

static bool same_operator(const cleave_operator *a, const cleave_operator *b) {
    bool same = strcmp(a->name, b->name) == 0 && a->n_axes == b->n_axes;
    for (int i = 0; same && i < a->n_axes; i++)
        same =
            a->axes[i].extent == b->axes[i].extent && strcmp(a->axes[i].name, b->axes[i].name) == 0;
    return same;
}

cleave_status cleave_validation_layout(const cleave_model *trained, const cleave_layout *layout,
                                       const cleave_model *evaluated, cleave_arena *arena,
                                       cleave_layout *made, cleave_error *error) {
    cleave_layout result = *layout;
    bool same = trained->n_operators == evaluated->n_operators;
    for (int32_t op = 0; same && op < trained->n_operators; op++)
        same = same_operator(&trained->operators[op], &evaluated->operators[op]);
    if (!same)
        return cleave_fail(error, CLEAVE_FAILED,
                           "%s: evaluated it has other operators than trained, so it can't be "
                           "validated under the same layout",
                           trained->file);
    memcpy(result.model_hash, evaluated->hash, sizeof result.model_hash);
    result.n_tensors = evaluated->n_tensors;
    result.recompute = NULL;
    result.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, evaluated->n_tensors);
    if (result.sharded == NULL)
        return cleave_fail_memory(error, "preparing a validation");
    for (int32_t t = 0; t < evaluated->n_tensors; t++) {
        int32_t there = cleave_model_find_tensor(trained, evaluated->tensors[t].name);
        if (there >= 0 && cleave_values_has(&evaluated->tensors[t]))
            result.sharded[t] = layout->sharded[there];
    }
    *made = result;
    return CLEAVE_OK;
}

cleave_status cleave_validation_check(const cleave_run_options *options, cleave_error *error) {
    const cleave_run_options own = options_of(options);
    cleave_samples *samples, *trained;
    CLEAVE_TRY(cleave_scores_check(options->evaluated, error));
    if (options->data == NULL && options->text == NULL && options->images == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: held-out samples go with samples that are trained on (--data, "
                           "--images, --text)",
                           options->validate);
    CLEAVE_TRY(cleave_layout_check(options->evaluated, options->evaluated_layout, error));
    CLEAVE_TRY(cleave_samples_open(options->evaluated, &own, &samples, error));
    cleave_status status = cleave_samples_open(options->evaluated, options, &trained, error);
    if (status == CLEAVE_OK) {
        status = cleave_samples_check_same(trained, samples, error);
        cleave_samples_close(trained);
    }
    cleave_samples_close(samples);
    return status;
}

/* ---- a program of its own ---------------------------------------------------------------------
 */

static cleave_status find_tensors(cleave_validation *v, cleave_arena *arena, cleave_error *error) {
    const cleave_model *trained = v->trained->program->model;
    v->tensor_of = CLEAVE_ARENA_ARRAY(arena, int32_t, trained->n_tensors);
    if (v->tensor_of == NULL)
        return cleave_fail_memory(error, "preparing a validation");
    for (int32_t t = 0; t < trained->n_tensors; t++)
        v->tensor_of[t] = cleave_values_has(&trained->tensors[t])
                              ? cleave_model_find_tensor(&v->model, trained->tensors[t].name)
                              : -1;
    return CLEAVE_OK;
}

static cleave_status open(cleave_validation *v, cleave_arena *arena, cleave_error *error) {
    const cleave_run_options *options = v->trained->options;
    v->options = options_of(options);
    v->model = *options->evaluated;
    v->model.n_outputs = 1;
    CLEAVE_TRY(find_tensors(v, arena, error));
    CLEAVE_TRY(cleave_lower_run(&v->model, options->evaluated_layout, &v->options, arena,
                                &v->program, error));
    CLEAVE_TRY(cleave_rank_create_within(&v->rank, v->trained->world, &v->program, &v->options,
                                         arena, error));
    CLEAVE_TRY(cleave_values_open(&v->model, &v->options, NULL, &v->values, error));
    v->rank.load = cleave_values_load;
    v->rank.load_context = v->values;
    CLEAVE_TRY(cleave_scores_create(&v->model, arena, &v->scores, error));
    v->targets = CLEAVE_ARENA_ARRAY(arena, int64_t, v->scores.n_rows);
    return v->targets != NULL ? CLEAVE_OK : cleave_fail_memory(error, "preparing a validation");
}

cleave_status cleave_validation_open(const cleave_rank *trained, cleave_arena *arena,
                                     cleave_validation **validation, cleave_error *error) {
    cleave_validation *v = CLEAVE_ARENA_ARRAY(arena, cleave_validation, 1);
    if (v == NULL)
        return cleave_fail_memory(error, "preparing a validation");
    v->trained = trained;
    cleave_status status = open(v, arena, error);
    if (status == CLEAVE_OK)
        *validation = v;
    else
        cleave_validation_close(v);
    return status;
}

void cleave_validation_close(cleave_validation *validation) {
    if (validation == NULL)
        return;
    cleave_values_close(validation->values);
    cleave_rank_destroy(&validation->rank);
}

/* ---- parameters -------------------------------------------------------------------------------
 */

/* Everybody gets the piece, and puts what it needs of it where its program wants it. */
static cleave_status put_piece(void *context, const cleave_saved_piece *piece,
                               cleave_error *error) {
    cleave_validation *v = context;
    const cleave_tensor *tensor = &v->trained->program->model->tensors[piece->tensor];
    const cleave_tensor plain = cleave_row_major(tensor);
    const cleave_dense from = {&plain, tensor->type, &piece->box, piece->data};
    (void)error;
    cleave_world_broadcast(v->rank.world, piece->data, piece->n * cleave_type_bytes(tensor->type));
    for (int32_t b = 0; b < v->program.n_buffers; b++) {
        const cleave_buffer *buffer = &v->program.buffers[b];
        if (buffer->device != v->rank.device || !buffer->persistent ||
            buffer->tensor != v->tensor_of[piece->tensor])
            continue;
        const cleave_box box = cleave_box_intersect(tensor->rank, &piece->box, &buffer->box);
        const cleave_dense to = {&v->model.tensors[buffer->tensor], buffer->type, &buffer->box,
                                 cleave_rank_buffer(&v->rank, b)};
        if (!cleave_box_is_empty(tensor->rank, &box))
            cleave_copy_box(&box, &from, &to);
    }
    return CLEAVE_OK;
}

/* Where in the trained rank's memory nothing is kept from step to step. */
static char *room_between_steps(const cleave_validation *v) {
    const cleave_rank *trained = v->trained;
    const cleave_program *program = trained->program;
    int64_t end = 0;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device == trained->device && buffer->persistent &&
            buffer->offset + buffer->bytes > end)
            end = buffer->offset + buffer->bytes;
    }
    end = cleave_buffer_aligned(end);
    bool fits =
        v->program.peak_bytes[trained->device] <= program->peak_bytes[trained->device] - end;
    return fits ? trained->memory + end : NULL;
}

/* ---- passes -----------------------------------------------------------------------------------
 */

static cleave_status add_scores(void *context, const cleave_saved_piece *piece,
                                cleave_error *error) {
    cleave_validation *v = context;
    (void)error;
    if (v->rank.device == 0)
        cleave_scores_add(&v->scores, piece->first, piece->n, piece->data);
    return CLEAVE_OK;
}

static cleave_status run_batch(cleave_validation *v, int64_t step, cleave_error *error) {
    const cleave_sample_order *order = cleave_values_order(v->values);
    const cleave_tensor *targets = v->scores.targets;
    CLEAVE_TRY(cleave_rank_step(&v->rank, step, error));
    if (v->rank.device == 0) {
        const cleave_buffer all = {.tensor = v->model.targets,
                                   .box = cleave_box_of_shape(targets->rank, targets->shape)};
        CLEAVE_TRY(cleave_values_load(v->values, &all, step, v->targets, error));
        cleave_scores_begin(&v->scores, v->targets);
    }
    CLEAVE_TRY(cleave_visit_saved(v->values, &v->rank, CLEAVE_SAVED_OUTPUTS, add_scores, v, error));
    int64_t left = order->n - step * order->batch, n = left < order->batch ? left : order->batch;
    if (v->rank.device == 0)
        cleave_scores_end(&v->scores, n * (v->scores.n_rows / order->batch), &v->scored);
    return CLEAVE_OK;
}

static cleave_status run_batches(cleave_validation *v, const cleave_values *values,
                                 cleave_error *error) {
    const int64_t n = cleave_sample_order_steps(cleave_values_order(v->values));
    cleave_progress progress;
    CLEAVE_TRY(cleave_values_fill_constants(v->values, &v->rank, error));
    CLEAVE_TRY(cleave_visit_saved(values, v->trained, CLEAVE_SAVED_VALUES, put_piece, v, error));
    cleave_progress_begin(&progress, "validating", v->options.quiet || v->rank.device != 0);
    for (int64_t step = 0; step < n; step++) {
        CLEAVE_TRY(run_batch(v, step, error));
        cleave_progress_update(&progress, (double)(step + 1) / (double)n, NULL);
    }
    cleave_progress_end(&progress);
    return CLEAVE_OK;
}

cleave_status cleave_validation_run(cleave_validation *validation, const cleave_values *values,
                                    cleave_validated *validated, cleave_error *error) {
    cleave_validation *v = validation;
    char *lent = room_between_steps(v), *own = NULL;
    if (lent == NULL)
        CLEAVE_TRY(cleave_rank_new_memory(&v->rank, &own, error));
    v->rank.memory = lent != NULL ? lent : own;
    v->scored = (cleave_scored){0};
    cleave_status status = run_batches(v, values, error);
    v->rank.memory = NULL;
    free(own);
    CLEAVE_TRY(status);
    const double n = (double)v->scored.n;
    *validated = (cleave_validated){.n_samples = cleave_values_order(v->values)->n,
                                    .loss = v->scored.n > 0 ? v->scored.loss / n : (double)NAN,
                                    .accuracy = v->scored.n > 0 ? (double)v->scored.n_right / n
                                                                : (double)NAN};
    return CLEAVE_OK;
}
