/* The data of steps. */
#include "exec/data/samples.h"

#include "base/file.h"
#include "exec/data/copy_box.h"
#include "exec/data/fits.h"
#include "exec/data/image_folder.h"
#include "exec/data/initial.h"
#include "exec/data/read_box.h"
#include "exec/data/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

/* Integers of what is larger are not looked at before the steps. */
static const int64_t most_bytes_read_first = INT64_C(1) << 30;

/* A data tensor in a file. */
typedef struct datum {
    const cleave_safetensors_entry *entry; /* null: it is made up */
    int64_t rows;                          /* of the first dimension, that a sample has; 0: it is
                                              the same in every step */
    const cleave_id_range *range;          /* to be looked at as it is read; null: it was before */
} datum;

/* A file that must stay as it is. */
typedef struct watched {
    int descriptor;
    const char *path;
    cleave_file_stamp stamp;
} watched;

struct cleave_samples {
    const cleave_model *model;
    const cleave_run_options *options;
    cleave_arena arena;
    cleave_tensor_file file;    /* path null: none */
    cleave_text text;           /* path null: none */
    cleave_image_folder images; /* path null: none */
    int32_t pictures;           /* the datum that they are */
    datum *data;                /* [n_tensors] */
    cleave_sample_order order;  /* n == 0: there is none */
    int32_t n_watched;
    watched *watched;
    int64_t first_step; /* that was loaded for; -1: none yet */
};

/* ---- what is there ----------------------------------------------------------------------------
 */

static bool is_datum(const cleave_tensor *tensor) {
    return tensor->kind == CLEAVE_TENSOR_DATA && tensor->view.kind == CLEAVE_VIEW_NONE;
}

/* Ids must lie in their tables, other integers where f32 is exact; targets may be ignored. */
static cleave_status check_integers(cleave_samples *samples, int32_t t, cleave_error *error) {
    datum *of = &samples->data[t];
    const cleave_safetensors_entry *entry = of->entry;
    cleave_id_range *range = CLEAVE_ARENA_ARRAY(&samples->arena, cleave_id_range, 1);
    if (range == NULL)
        return cleave_fail_memory(error, "checking data");
    CLEAVE_TRY(cleave_id_range_find(samples->model, t, &samples->arena, range, error));
    if (cleave_safetensors_bytes(entry) > most_bytes_read_first) {
        of->range = range;
        return CLEAVE_OK;
    }
    int64_t *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return cleave_fail_memory(error, "checking data");
    const int64_t most = CHUNK_BYTES / (int64_t)sizeof *chunk;
    cleave_status status = CLEAVE_OK;
    for (int64_t first = 0; first < entry->n_elements && status == CLEAVE_OK; first += most) {
        int64_t n = entry->n_elements - first < most ? entry->n_elements - first : most;
        status = cleave_tensor_file_read(&samples->file, entry, first, n, chunk, error);
        if (status == CLEAVE_OK)
            status =
                cleave_id_range_check(range, samples->model->tensors[t].also,
                                      samples->file.file.path, entry->name, first, n, chunk, error);
    }
    free(chunk);
    return status;
}

static cleave_status find_datum(cleave_samples *samples, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &samples->model->tensors[t];
    const char *path = samples->file.file.path;
    const cleave_safetensors_entry *entry =
        cleave_safetensors_find(&samples->file.file, tensor->name);
    if (entry == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no tensor %s, which the model reads",
                           path, tensor->name);
    bool fits = entry->type == tensor->type &&
                (tensor->truth || entry->stored != CLEAVE_STORED_TRUTH) &&
                entry->rank == tensor->rank;
    for (int d = 0; d < tensor->rank && fits; d++)
        fits = d == 0 && tensor->shape[0] > 0 ? entry->shape[0] >= tensor->shape[0]
                                              : entry->shape[d] == tensor->shape[d];
    if (!fits)
        return cleave_fail_to_fit(path, entry, tensor, " (or more in the first dimension)", error);
    samples->data[t].entry = entry;
    return tensor->type == CLEAVE_I64 ? check_integers(samples, t, error) : CLEAVE_OK;
}

static int64_t common_divisor(int64_t a, int64_t b) {
    return b == 0 ? a : common_divisor(b, a % b);
}

/* Targets always: to have the same in every step would be a mistake. */
static bool has_many(const cleave_samples *samples, int32_t t) {
    const cleave_safetensors_entry *entry = samples->data[t].entry;
    const cleave_tensor *tensor = &samples->model->tensors[t];
    return entry != NULL && tensor->rank > 0 && tensor->shape[0] > 0 &&
           (entry->shape[0] > tensor->shape[0] || t == samples->model->targets);
}

/* The batch is what the first dimensions of all tensors with many samples have in common. */
static cleave_status find_order(cleave_samples *samples, cleave_error *error) {
    const cleave_model *model = samples->model;
    cleave_sample_order *order = &samples->order;
    const char *first = NULL;
    int64_t batch = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (has_many(samples, t))
            batch = common_divisor(batch > 0 ? batch : model->batch, model->tensors[t].shape[0]);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (!has_many(samples, t))
            continue;
        datum *of = &samples->data[t];
        of->rows = model->tensors[t].shape[0] / batch;
        int64_t n = of->entry->shape[0] / of->rows;
        if (first != NULL && n != order->n)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %lld samples of %s, but %lld of %s",
                               samples->file.file.path, (long long)n, of->entry->name,
                               (long long)order->n, first);
        first = of->entry->name;
        order->n = n;
        order->batch = batch;
    }
    return CLEAVE_OK;
}

static const cleave_model_input *find_input(const cleave_model *model, int32_t t) {
    for (int32_t i = 0; i < model->n_inputs; i++)
        if (model->inputs[i].tensor == t)
            return &model->inputs[i];
    return NULL;
}

/* The inputs that are data, or that the data give: "x,mask".  Cut where there are too many. */
static void list_data(const cleave_samples *samples, bool given, char *text, size_t bytes) {
    const cleave_model *model = samples->model;
    size_t used = 0;
    snprintf(text, bytes, "none");
    for (int32_t i = 0; i < model->n_inputs && used < bytes; i++) {
        const cleave_model_input *input = &model->inputs[i];
        if (input->tensor >= 0 &&
            (model->tensors[input->tensor].kind == CLEAVE_TENSOR_DATA ||
             (given && cleave_safetensors_find(&samples->file.file, input->name) != NULL)))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? "," : "",
                                     input->name);
    }
}

/* What is given as data and is none would be left out without a word. */
static cleave_status check_is_data(const cleave_samples *samples, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &samples->model->tensors[t];
    const cleave_model_input *input = find_input(samples->model, t);
    const char *path = samples->file.file.path, *kind = "parameter";
    char data[300], wanted[300];
    if (cleave_safetensors_find(&samples->file.file, tensor->name) == NULL)
        return CLEAVE_OK;
    if (tensor->kind == CLEAVE_TENSOR_BUFFER)
        kind = "buffer";
    if (input == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: tensor %s is no data but a %s of the model: --weights gives it a "
                           "value",
                           path, tensor->name, kind);
    list_data(samples, false, data, sizeof data);
    list_data(samples, true, wanted, sizeof wanted);
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: tensor %s is no data but a %s of the model, since %s; data: %s "
                       "(--inputs %s makes it data, --weights gives it a value)",
                       path, tensor->name, kind, input->why, data, wanted);
}

/* ---- files ------------------------------------------------------------------------------------
 */

static void watch(cleave_samples *samples, int descriptor, const char *path) {
    samples->watched[samples->n_watched++] =
        (watched){descriptor, path, cleave_file_stamp_take(descriptor)};
}

static cleave_status open_file(cleave_samples *samples, cleave_error *error) {
    const cleave_model *model = samples->model;
    CLEAVE_TRY(
        cleave_tensor_file_open(samples->options->data, &samples->arena, &samples->file, error));
    int32_t n = cleave_tensor_file_n_parts(&samples->file);
    samples->watched = CLEAVE_ARENA_ARRAY(&samples->arena, watched, n);
    if (samples->watched == NULL)
        return cleave_fail_memory(error, "reading data");
    for (int32_t i = 0; i < n; i++) {
        const cleave_safetensors *part = cleave_tensor_file_part(&samples->file, i);
        watch(samples, fileno(part->stream), part->path);
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE &&
            (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER ||
             model->tensors[t].kind == CLEAVE_TENSOR_BUFFER))
            CLEAVE_TRY(check_is_data(samples, t, error));
    for (int32_t t = 0; t < model->n_tensors; t++) {
        /* Forward saves no loss: its targets may be missing. */
        bool may_lack =
            samples->options->forward && !samples->options->held_out && t == model->targets;
        if (is_datum(&model->tensors[t]) &&
            !(may_lack &&
              cleave_safetensors_find(&samples->file.file, model->tensors[t].name) == NULL))
            CLEAVE_TRY(find_datum(samples, t, error));
    }
    return find_order(samples, error);
}

static cleave_status open_text(cleave_samples *samples, cleave_error *error) {
    CLEAVE_TRY(cleave_text_open(samples->options->text, samples->model, &samples->text, error));
    samples->watched = CLEAVE_ARENA_ARRAY(&samples->arena, watched, 1);
    if (samples->watched == NULL)
        return cleave_fail_memory(error, "reading data");
    watch(samples, samples->text.descriptor, samples->text.path);
    if (samples->options->held_out) {
        const cleave_tensor *tokens = &samples->model->tensors[samples->text.tokens];
        samples->order.n = (samples->text.bytes - 1) / samples->text.length;
        samples->order.batch = tokens->shape[0];
        samples->text.windows = &samples->order;
    }
    return CLEAVE_OK;
}

/* The one data input beside the targets has three dimensions of a picture, of one or three
 * channels.
 */
static cleave_status find_pictures(cleave_samples *samples, cleave_error *error) {
    const cleave_model *model = samples->model;
    const cleave_tensor *targets = model->targets >= 0 ? &model->tensors[model->targets] : NULL;
    int32_t n = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (is_datum(&model->tensors[t]) && t != model->targets) {
            samples->pictures = t;
            n++;
        }
    const cleave_tensor *pictures = n == 1 ? &model->tensors[samples->pictures] : NULL;
    if (pictures == NULL || pictures->type != CLEAVE_F32 || pictures->rank != 4 ||
        (pictures->shape[1] != 1 && pictures->shape[1] != 3))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: images need a model with one input of floats [batch, 1 or 3 "
                           "channels, height, width]",
                           model->file);
    if (targets == NULL || targets->rank != 1 || targets->shape[0] != pictures->shape[0] ||
        samples->images.n_classes > targets->below)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the %d classes of %s need a model that ends in scores [batch, "
                           "classes] of so many or more",
                           model->file, samples->images.n_classes, samples->images.path);
    return CLEAVE_OK;
}

static cleave_status open_images(cleave_samples *samples, cleave_error *error) {
    cleave_sample_order *order = &samples->order;
    CLEAVE_TRY(cleave_image_folder_list(samples->options->images, &samples->arena, &samples->images,
                                        error));
    CLEAVE_TRY(find_pictures(samples, error));
    order->n = samples->images.n;
    order->batch = samples->model->tensors[samples->pictures].shape[0];
    if (order->n < order->batch)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has %lld images, but a batch has %lld",
                           samples->images.path, (long long)order->n, (long long)order->batch);
    return CLEAVE_OK;
}

static cleave_status open_source(cleave_samples *samples, cleave_error *error) {
    const cleave_run_options *options = samples->options;
    samples->data = CLEAVE_ARENA_ARRAY(&samples->arena, datum, samples->model->n_tensors);
    if (samples->data == NULL)
        return cleave_fail_memory(error, "reading data");
    if (options->data != NULL && options->text != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "data come from %s or from the text %s, not both", options->data,
                           options->text);
    if (options->images != NULL && (options->data != NULL || options->text != NULL))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "data come from %s or are the images of %s, not both",
                           options->data != NULL ? options->data : options->text, options->images);
    if (options->data != NULL)
        CLEAVE_TRY(open_file(samples, error));
    if (options->text != NULL)
        CLEAVE_TRY(open_text(samples, error));
    if (options->images != NULL)
        CLEAVE_TRY(open_images(samples, error));
    samples->order.seed = options->seed;
    samples->order.whole = options->held_out;
    samples->order.shuffled = options->shuffle && samples->order.n > samples->order.batch;
    if (options->shuffle && !samples->order.shuffled)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--shuffle needs data of more samples than a batch has");
    return CLEAVE_OK;
}

cleave_status cleave_samples_open(const cleave_model *model, const cleave_run_options *options,
                                  cleave_samples **samples, cleave_error *error) {
    cleave_samples *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return cleave_fail_memory(error, "reading data");
    opened->model = model;
    opened->options = options;
    opened->first_step = -1;
    cleave_status status = open_source(opened, error);
    if (status == CLEAVE_OK)
        *samples = opened;
    else
        cleave_samples_close(opened);
    return status;
}

void cleave_samples_close(cleave_samples *samples) {
    if (samples == NULL)
        return;
    cleave_tensor_file_close(&samples->file);
    cleave_text_close(&samples->text);
    cleave_arena_free(&samples->arena);
    free(samples);
}

const cleave_sample_order *cleave_samples_order(const cleave_samples *samples) {
    return samples->order.n > 0 ? &samples->order : NULL;
}

cleave_status cleave_samples_check_same(const cleave_samples *a, const cleave_samples *b,
                                        cleave_error *error) {
    return a->images.path != NULL ? cleave_image_folder_check_same(&a->images, &b->images, error)
                                  : CLEAVE_OK;
}

/* ---- loads ------------------------------------------------------------------------------------
 */

/* A run of rows of a batch that follow each other in the file, too. */
typedef struct row_run {
    int64_t first, end; /* in the batch */
    int64_t in_file;    /* row of `first` */
} row_run;

static int64_t row_in_file(const cleave_samples *samples, const datum *of, int64_t step,
                           int64_t row) {
    if (of->rows == 0)
        return row;
    int64_t sample = cleave_sample_order_at(&samples->order, step, row / of->rows);
    return sample * of->rows + row % of->rows;
}

static row_run next_run(const cleave_samples *samples, const datum *of, int64_t step, int64_t first,
                        int64_t end) {
    row_run run = {first, first + 1, row_in_file(samples, of, step, first)};
    while (run.end < end &&
           row_in_file(samples, of, step, run.end) == run.in_file + run.end - first)
        run.end++;
    return run;
}

static cleave_status read_rows(const cleave_samples *samples, int32_t t, const cleave_box *box,
                               int64_t step, void *data, cleave_error *error) {
    const cleave_tensor *tensor = &samples->model->tensors[t];
    const datum *of = &samples->data[t];
    cleave_box_source source = {
        .file = &samples->file, .entry = of->entry, .tensor = tensor, .range = of->range};
    if (tensor->rank == 0)
        return cleave_read_box(&source, box, box, data, error);
    const int64_t row_size = cleave_tensor_size(tensor) / tensor->shape[0];
    for (int64_t row = box->lo[0]; row < box->hi[0];) {
        row_run run = next_run(samples, of, step, row, box->hi[0]);
        cleave_box rows = *box;
        rows.lo[0] = run.first;
        rows.hi[0] = run.end;
        source.first = (run.in_file - run.first) * row_size;
        CLEAVE_TRY(cleave_read_box(&source, box, &rows, data, error));
        row = run.end;
    }
    return CLEAVE_OK;
}

/* Whole rows, even where the box has a part of each. */
static void expect_rows(const cleave_samples *samples, int32_t t, const cleave_box *box,
                        int64_t step) {
    const cleave_tensor *tensor = &samples->model->tensors[t];
    const datum *of = &samples->data[t];
    if (of->rows == 0)
        return;
    const int64_t row_size = cleave_tensor_size(tensor) / tensor->shape[0];
    for (int64_t row = box->lo[0]; row < box->hi[0];) {
        row_run run = next_run(samples, of, step, row, box->hi[0]);
        cleave_tensor_file_expect(&samples->file, of->entry, run.in_file * row_size,
                                  (run.end - run.first) * row_size);
        row = run.end;
    }
}

/* Of pictures, and of their classes. */
static cleave_status load_pictures(const cleave_samples *samples, const cleave_buffer *buffer,
                                   int64_t step, void *data, cleave_error *error) {
    const cleave_tensor *tensor = &samples->model->tensors[buffer->tensor];
    const cleave_tensor plain = cleave_row_major(tensor);
    const bool are_pictures = buffer->tensor == samples->pictures;
    const cleave_box whole = cleave_box_of_shape(tensor->rank, tensor->shape);
    float *values =
        malloc((size_t)(cleave_tensor_size(tensor) / tensor->shape[0]) * sizeof *values);
    if (values == NULL)
        return cleave_fail_memory(error, "reading images");
    cleave_status status = CLEAVE_OK;
    for (int64_t row = buffer->box.lo[0]; row < buffer->box.hi[0] && status == CLEAVE_OK; row++) {
        int64_t i = cleave_sample_order_at(&samples->order, step, row);
        if (!are_pictures) {
            ((int64_t *)data)[row - buffer->box.lo[0]] = samples->images.pictures[i].class;
            continue;
        }
        cleave_box of_row = whole, part = buffer->box;
        of_row.lo[0] = part.lo[0] = row;
        of_row.hi[0] = part.hi[0] = row + 1;
        status = cleave_image_folder_read(&samples->images, i, &tensor->shape[1], values, error);
        if (status == CLEAVE_OK)
            cleave_copy_box(&part, &(cleave_dense){&plain, CLEAVE_F32, &of_row, values},
                            &(cleave_dense){tensor, CLEAVE_F32, &buffer->box, data});
        cleave_image_folder_expect(&samples->images,
                                   cleave_sample_order_at(&samples->order, step + 1, row));
    }
    free(values);
    return status;
}

cleave_status cleave_samples_load(cleave_samples *samples, const cleave_buffer *buffer,
                                  int64_t step, void *data, cleave_error *error) {
    const cleave_run_options *options = samples->options;
    const cleave_tensor *tensor = &samples->model->tensors[buffer->tensor];
    samples->first_step = samples->first_step < 0 ? step : samples->first_step;
    for (int32_t i = 0; i < samples->n_watched; i++)
        CLEAVE_TRY(cleave_file_stamp_check(&samples->watched[i].stamp,
                                           samples->watched[i].descriptor, samples->watched[i].path,
                                           error));
    if (samples->text.path != NULL)
        return cleave_text_load(&samples->text, tensor, buffer->tensor == samples->text.targets,
                                &buffer->box, options->seed, step, data, error);
    if (samples->images.path != NULL)
        return load_pictures(samples, buffer, step, data, error);
    if (samples->data[buffer->tensor].entry == NULL) {
        if (step == samples->first_step) /* the same in every step, and they persist */
            cleave_initial_fill_data(tensor, options->seed, 0, &buffer->box, data);
        return CLEAVE_OK;
    }
    CLEAVE_TRY(read_rows(samples, buffer->tensor, &buffer->box, step, data, error));
    expect_rows(samples, buffer->tensor, &buffer->box, step + 1);
    return CLEAVE_OK;
}
