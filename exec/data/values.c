/* Values that come into a run and go out of it.  Files hold tensors row-major in their shapes
   there; memory holds boxes of them in the tensor's memory order. */
#include "exec/data/values.h"

#include "exec/data/fits.h"
#include "exec/data/initial.h"
#include "exec/data/read_box.h"
#include "exec/kernels/convert.h"

#include <stdlib.h>
#include <string.h>

struct cleave_values {
    const cleave_model *model;
    const cleave_run_options *options;
    cleave_arena arena;
    cleave_samples *samples;
    cleave_tensor_file weights;               /* path null: none */
    cleave_tensor_file states[2];             /* of the optimizer; path null: they begin at zero */
    const cleave_safetensors_entry **entries; /* [n_tensors] in weights, or null */
};

const char *const cleave_files_of_states[2] = {"optimizer-1.safetensors",
                                               "optimizer-2.safetensors"};

bool cleave_values_has(const cleave_tensor *tensor) {
    return tensor->view.kind == CLEAVE_VIEW_NONE &&
           (tensor->kind == CLEAVE_TENSOR_PARAMETER || tensor->kind == CLEAVE_TENSOR_BUFFER);
}

/* The file's tensor of a weight.  A file of a base model, as of GPT-2's, leaves out the first word
   of names, which is that of the base within a model with a head. */
static const cleave_safetensors_entry *entry_of(const cleave_values *values, const char *name) {
    const cleave_safetensors *file = &values->weights.file;
    const cleave_safetensors_entry *entry = cleave_safetensors_find(file, name);
    const char *point = strchr(name, '.');
    if (entry != NULL || point == NULL)
        return entry;
    for (int32_t i = 0; i < file->n_entries; i++)
        if (strncmp(file->entries[i].name, name, (size_t)(point + 1 - name)) == 0)
            return NULL;
    return cleave_safetensors_find(file, point + 1);
}

/* One line that names all weights that the file lacks, or the first ones of many. */
static cleave_status check_missing(const cleave_values *values, cleave_error *error) {
    const cleave_model *model = values->model;
    char names[600];
    size_t used = 0;
    int32_t n = 0, n_named = 0;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const char *name = model->tensors[t].name;
        if (!cleave_values_has(&model->tensors[t]) || entry_of(values, name) != NULL)
            continue;
        n++;
        if (n > n_named + 1 || used + strlen(name) + 3 > sizeof names)
            continue;
        used +=
            (size_t)snprintf(names + used, sizeof names - used, "%s%s", n > 1 ? ", " : "", name);
        n_named++;
    }
    if (n == 0)
        return CLEAVE_OK;
    char more[64] = "";
    if (n > n_named)
        snprintf(more, sizeof more, " and %d more", n - n_named);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no tensor %s%s, which the model needs",
                       values->weights.file.path, n_named > 0 ? names : "of the model", more);
}

/* Not null: check_missing has been before. */
static cleave_status find_weight(cleave_values *values, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &values->model->tensors[t];
    const cleave_safetensors_entry *entry = entry_of(values, tensor->name);
    CLEAVE_TRY(cleave_check_fits(values->weights.file.path, entry, tensor, error));
    values->entries[t] = entry;
    return CLEAVE_OK;
}

/* The state of a parameter lies under its name. */
static cleave_status find_state(const cleave_tensor_file *states, const cleave_tensor *tensor,
                                const cleave_safetensors_entry **entry, cleave_error *error) {
    *entry = cleave_safetensors_find(&states->file, tensor->name);
    if (*entry == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no tensor %s, which is trained",
                           states->file.path, tensor->name);
    return cleave_check_fits(states->file.path, *entry, tensor, error);
}

/* Of a checkpoint. */
static cleave_status open_checkpoint(cleave_values *values, const char *folder,
                                     const char **weights, cleave_error *error) {
    int n_states = cleave_optimizer_states(&values->options->optimizer);
    *weights = cleave_arena_printf(&values->arena, "%s/%s", folder, CLEAVE_FILE_OF_VALUES);
    if (*weights == NULL)
        return cleave_fail_memory(error, "reading a checkpoint");
    for (int k = 0; k < n_states; k++) {
        const char *path =
            cleave_arena_printf(&values->arena, "%s/%s", folder, cleave_files_of_states[k]);
        if (path == NULL)
            return cleave_fail_memory(error, "reading a checkpoint");
        CLEAVE_TRY(cleave_tensor_file_open(path, &values->arena, &values->states[k], error));
    }
    return CLEAVE_OK;
}

static cleave_status open_weights(cleave_values *values, const char *checkpoint,
                                  cleave_error *error) {
    const cleave_model *model = values->model;
    const char *weights = values->options->weights;
    if (checkpoint != NULL)
        CLEAVE_TRY(open_checkpoint(values, checkpoint, &weights, error));
    if (weights != NULL) {
        CLEAVE_TRY(cleave_tensor_file_open(weights, &values->arena, &values->weights, error));
        CLEAVE_TRY(check_missing(values, error));
    }
    values->entries =
        CLEAVE_ARENA_ARRAY(&values->arena, const cleave_safetensors_entry *, model->n_tensors);
    if (values->entries == NULL)
        return cleave_fail_memory(error, "reading weights");
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (values->weights.file.path != NULL && cleave_values_has(&model->tensors[t]))
            CLEAVE_TRY(find_weight(values, t, error));
    return CLEAVE_OK;
}

cleave_status cleave_values_open(const cleave_model *model, const cleave_run_options *options,
                                 const char *checkpoint, cleave_values **values,
                                 cleave_error *error) {
    cleave_values *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return cleave_fail_memory(error, "reading weights and data");
    opened->model = model;
    opened->options = options;
    cleave_status status = open_weights(opened, checkpoint, error);
    if (status == CLEAVE_OK)
        status = cleave_samples_open(model, options, &opened->samples, error);
    if (status != CLEAVE_OK) {
        cleave_values_close(opened);
        return status;
    }
    *values = opened;
    return CLEAVE_OK;
}

void cleave_values_close(cleave_values *values) {
    if (values == NULL)
        return;
    cleave_tensor_file_close(&values->weights);
    cleave_samples_close(values->samples);
    for (int k = 0; k < 2; k++)
        cleave_tensor_file_close(&values->states[k]);
    cleave_arena_free(&values->arena);
    free(values);
}

/* A box of a parameter, buffer or constant as it is before the first step. */
static cleave_status initial_box(const cleave_values *values, const cleave_tensor *tensor,
                                 const cleave_safetensors_entry *entry, const cleave_box *box,
                                 void *data, cleave_error *error) {
    if (values->weights.file.path != NULL && entry != NULL && cleave_values_has(tensor))
        return cleave_read_box(
            &(cleave_box_source){.file = &values->weights, .entry = entry, .tensor = tensor}, box,
            box, data, error);
    cleave_initial_fill(tensor, values->options->seed, box, data);
    return CLEAVE_OK;
}

/* Elements that are exact at a time: what a rank holds beside its arena does not depend on how
   large a tensor is. */
enum { EXACT_ELEMENTS = 1 << 18 };

/* The same, rounded; `exact` is scratch.  Cut along the outermost dimension in memory that can be,
   a box lies there piece after piece. */
static cleave_status initial_halves(const cleave_values *values, const cleave_buffer *buffer,
                                    const cleave_box *box, float *exact, char *data,
                                    cleave_error *error) {
    const cleave_tensor *tensor = &values->model->tensors[buffer->tensor];
    int64_t n = cleave_box_size(tensor->rank, box);
    if (n <= EXACT_ELEMENTS) {
        CLEAVE_TRY(initial_box(values, tensor, values->entries[buffer->tensor], box, exact, error));
        cleave_convert(CLEAVE_F32, exact, buffer->type, data, n);
        return CLEAVE_OK;
    }
    int place = 0;
    while (box->hi[tensor->order[place]] - box->lo[tensor->order[place]] == 1)
        place++;
    int dimension = tensor->order[place];
    int64_t row = n / (box->hi[dimension] - box->lo[dimension]);
    int64_t step = row < EXACT_ELEMENTS ? EXACT_ELEMENTS / row : 1;
    for (int64_t at = box->lo[dimension]; at < box->hi[dimension]; at += step) {
        cleave_box piece = *box;
        piece.lo[dimension] = at;
        piece.hi[dimension] = box->hi[dimension] - at < step ? box->hi[dimension] : at + step;
        CLEAVE_TRY(initial_halves(values, buffer, &piece, exact, data, error));
        data += cleave_box_size(tensor->rank, &piece) * cleave_type_bytes(buffer->type);
    }
    return CLEAVE_OK;
}

cleave_status cleave_values_initial(const cleave_values *values, int32_t tensor,
                                    const cleave_box *box, void *data, cleave_error *error) {
    cleave_tensor row_major = values->model->tensors[tensor];
    for (int d = 0; d < row_major.rank; d++)
        row_major.order[d] = d;
    return initial_box(values, &row_major, values->entries[tensor], box, data, error);
}

static cleave_status fill_states(const cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error) {
    const cleave_program *program = rank->program;
    const cleave_safetensors_entry *entry;
    for (int32_t u = 0; u < program->n_updates; u++)
        for (int k = 0; k < 2; k++) {
            int32_t b = program->updates[u].state[k];
            if (b < 0 || program->buffers[b].device != rank->device)
                continue;
            const cleave_tensor *tensor = &program->model->tensors[program->updates[u].tensor];
            CLEAVE_TRY(find_state(&values->states[k], tensor, &entry, error));
            const cleave_box *box = &program->buffers[b].box;
            CLEAVE_TRY(cleave_read_box(
                &(cleave_box_source){.file = &values->states[k], .entry = entry, .tensor = tensor},
                box, box, cleave_rank_buffer(rank, b), error));
        }
    return CLEAVE_OK;
}

static cleave_status fill_initial(const cleave_values *values, const cleave_buffer *buffer,
                                  void *data, cleave_error *error) {
    if (buffer->type != CLEAVE_BF16)
        return initial_box(values, &values->model->tensors[buffer->tensor],
                           values->entries[buffer->tensor], &buffer->box, data, error);
    float *exact = malloc(EXACT_ELEMENTS * sizeof *exact);
    if (exact == NULL)
        return cleave_fail_memory(error, "reading a tensor");
    cleave_status status = initial_halves(values, buffer, &buffer->box, exact, data, error);
    free(exact);
    return status;
}

static cleave_status fill_buffer(const cleave_values *values, const cleave_rank *rank, int32_t b,
                                 cleave_error *error) {
    const cleave_buffer *buffer = &rank->program->buffers[b];
    void *data = cleave_rank_buffer(rank, b);
    switch (buffer->kind) {
    case CLEAVE_BUFFER_DATA: /* comes with each step */
        return CLEAVE_OK;
    case CLEAVE_BUFFER_STATE:
        memset(data, 0, (size_t)buffer->bytes);
        return CLEAVE_OK;
    default:
        return fill_initial(values, buffer, data, error);
    }
}

cleave_status cleave_values_fill(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error) {
    for (int32_t b = 0; b < rank->program->n_buffers; b++)
        if (rank->program->buffers[b].device == rank->device &&
            rank->program->buffers[b].persistent)
            CLEAVE_TRY(fill_buffer(values, rank, b, error));
    return values->states[0].file.path != NULL ? fill_states(values, rank, error) : CLEAVE_OK;
}

cleave_status cleave_values_fill_constants(cleave_values *values, const cleave_rank *rank,
                                           cleave_error *error) {
    for (int32_t b = 0; b < rank->program->n_buffers; b++)
        if (rank->program->buffers[b].device == rank->device &&
            rank->program->buffers[b].kind == CLEAVE_BUFFER_CONSTANT)
            CLEAVE_TRY(fill_buffer(values, rank, b, error));
    return CLEAVE_OK;
}

cleave_status cleave_values_load(void *context, const cleave_buffer *buffer, int64_t step,
                                 void *data, cleave_error *error) {
    cleave_values *values = context;
    return cleave_samples_load(values->samples, buffer, step, data, error);
}

const cleave_sample_order *cleave_values_order(const cleave_values *values) {
    return cleave_samples_order(values->samples);
}
