/* Values that come into a run and go out of it.  Files hold tensors row-major in their shapes
   there; memory holds boxes of them in the tensor's memory order. */
#include "exec/data/values.h"

#include "exec/data/id_range.h"
#include "exec/data/initial.h"
#include "exec/data/tensor_file.h"
#include "exec/data/text.h"
#include "exec/kernels/convert.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

struct cleave_values {
    const cleave_model *model;
    const cleave_run_options *options;
    cleave_arena arena;
    cleave_tensor_file weights, data;         /* path null: none */
    cleave_text text;                         /* path null: none */
    const cleave_safetensors_entry **entries; /* [n_tensors] in one of the two, or null */
};

static bool has_weights(const cleave_tensor *tensor) {
    return tensor->view.kind == CLEAVE_VIEW_NONE &&
           (tensor->kind == CLEAVE_TENSOR_PARAMETER || tensor->kind == CLEAVE_TENSOR_BUFFER);
}

static void describe_shape(int rank, const int64_t *shape, char *text, size_t bytes) {
    size_t used = 0;
    snprintf(text, bytes, "%s", rank == 0 ? "one element" : "");
    for (int d = 0; d < rank && used < bytes; d++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? " x " : "",
                                 (long long)shape[d]);
}

/* The shape that a tensor has in files. */
static int file_shape(const cleave_tensor *tensor, const int64_t **shape) {
    bool differs = tensor->file_rank > 0;
    *shape = differs ? tensor->file_shape : tensor->shape;
    return differs ? tensor->file_rank : tensor->rank;
}

static cleave_stored stored_as(const cleave_tensor *tensor) {
    return tensor->truth ? CLEAVE_STORED_TRUTH : CLEAVE_STORED_WHOLE;
}

/* It has another type or shape than the tensor. */
static cleave_status fail_to_fit(const char *path, const cleave_safetensors_entry *entry,
                                 const cleave_tensor *tensor, const char *also,
                                 cleave_error *error) {
    char found[160], wanted[160];
    const int64_t *shape;
    int rank = file_shape(tensor, &shape);
    const cleave_safetensors_entry as_wanted = {.type = tensor->type, .stored = stored_as(tensor)};
    describe_shape(entry->rank, entry->shape, found, sizeof found);
    describe_shape(rank, shape, wanted, sizeof wanted);
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: tensor %s is %s of %s, but the model needs %s of %s%s", path,
                       entry->name, cleave_safetensors_type_name(entry), found,
                       cleave_safetensors_type_name(&as_wanted), wanted, also);
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
        if (!has_weights(&model->tensors[t]) || entry_of(values, name) != NULL)
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
    const int64_t *shape;
    int rank = file_shape(tensor, &shape);
    bool fits = entry->type == tensor->type && entry->rank == rank;
    for (int d = 0; d < rank && fits; d++)
        fits = entry->shape[d] == shape[d];
    if (!fits)
        return fail_to_fit(values->weights.file.path, entry, tensor, "", error);
    values->entries[t] = entry;
    return CLEAVE_OK;
}

/* Ids must lie in their tables, other integers where f32 is exact; targets may be ignored. */
static cleave_status check_integers(cleave_values *values, int32_t t,
                                    const cleave_safetensors_entry *entry, cleave_error *error) {
    cleave_id_range range;
    CLEAVE_TRY(cleave_id_range_find(values->model, t, &values->arena, &range, error));
    int64_t *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return cleave_fail_memory(error, "checking data");
    const int64_t most = CHUNK_BYTES / (int64_t)sizeof *chunk;
    cleave_status status = CLEAVE_OK;
    for (int64_t first = 0; first < entry->n_elements && status == CLEAVE_OK; first += most) {
        int64_t n = entry->n_elements - first < most ? entry->n_elements - first : most;
        status = cleave_tensor_file_read(&values->data, entry, first, n, chunk, error);
        if (status == CLEAVE_OK)
            status =
                cleave_id_range_check(&range, values->model->tensors[t].also,
                                      values->data.file.path, entry->name, first, n, chunk, error);
    }
    free(chunk);
    return status;
}

static cleave_status find_datum(cleave_values *values, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &values->model->tensors[t];
    const cleave_safetensors_entry *entry =
        cleave_safetensors_find(&values->data.file, tensor->name);
    if (entry == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no tensor %s, which the model reads",
                           values->data.file.path, tensor->name);
    bool fits = entry->type == tensor->type &&
                (tensor->truth || entry->stored != CLEAVE_STORED_TRUTH) &&
                entry->rank == tensor->rank;
    for (int d = 0; d < tensor->rank && fits; d++)
        fits = d == 0 && tensor->shape[0] > 0 && entry->shape[0] > 0
                   ? entry->shape[0] % tensor->shape[0] == 0
                   : entry->shape[d] == tensor->shape[d];
    if (!fits)
        return fail_to_fit(values->data.file.path, entry, tensor,
                           " (or a multiple in the first dimension)", error);
    values->entries[t] = entry;
    return tensor->type == CLEAVE_I64 ? check_integers(values, t, entry, error) : CLEAVE_OK;
}

static const cleave_model_input *find_input(const cleave_model *model, int32_t t) {
    for (int32_t i = 0; i < model->n_inputs; i++)
        if (model->inputs[i].tensor == t)
            return &model->inputs[i];
    return NULL;
}

/* The inputs that are data, or that the data give: "x,mask".  Cut where there are too many. */
static void list_data(const cleave_values *values, bool given, char *text, size_t bytes) {
    const cleave_model *model = values->model;
    size_t used = 0;
    snprintf(text, bytes, "none");
    for (int32_t i = 0; i < model->n_inputs && used < bytes; i++) {
        const cleave_model_input *input = &model->inputs[i];
        if (input->tensor >= 0 &&
            (model->tensors[input->tensor].kind == CLEAVE_TENSOR_DATA ||
             (given && cleave_safetensors_find(&values->data.file, input->name) != NULL)))
            used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? "," : "",
                                     input->name);
    }
}

/* What is given as data and is none would be left out without a word. */
static cleave_status check_is_data(const cleave_values *values, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &values->model->tensors[t];
    const cleave_model_input *input = find_input(values->model, t);
    const char *path = values->data.file.path, *kind = "parameter";
    char data[300], wanted[300];
    if (cleave_safetensors_find(&values->data.file, tensor->name) == NULL)
        return CLEAVE_OK;
    if (tensor->kind == CLEAVE_TENSOR_BUFFER)
        kind = "buffer";
    if (input == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: tensor %s is no data but a %s of the model: --weights gives it a "
                           "value",
                           path, tensor->name, kind);
    list_data(values, false, data, sizeof data);
    list_data(values, true, wanted, sizeof wanted);
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: tensor %s is no data but a %s of the model, since %s; data: %s "
                       "(--inputs %s makes it data, --weights gives it a value)",
                       path, tensor->name, kind, input->why, data, wanted);
}

static cleave_status open_files(cleave_values *values, cleave_error *error) {
    const cleave_model *model = values->model;
    const cleave_run_options *options = values->options;
    if (options->data != NULL && options->text != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "data come from %s or from the text %s, not both", options->data,
                           options->text);
    if (options->text != NULL)
        CLEAVE_TRY(cleave_text_open(options->text, model, &values->text, error));
    if (options->weights != NULL) {
        CLEAVE_TRY(
            cleave_tensor_file_open(options->weights, &values->arena, &values->weights, error));
        CLEAVE_TRY(check_missing(values, error));
    }
    if (options->data != NULL)
        CLEAVE_TRY(cleave_tensor_file_open(options->data, &values->arena, &values->data, error));
    for (int32_t t = 0; t < model->n_tensors && values->data.file.path != NULL; t++)
        if (has_weights(&model->tensors[t]))
            CLEAVE_TRY(check_is_data(values, t, error));
    values->entries =
        CLEAVE_ARENA_ARRAY(&values->arena, const cleave_safetensors_entry *, model->n_tensors);
    if (values->entries == NULL)
        return cleave_fail_memory(error, "reading weights and data");
    for (int32_t t = 0; t < model->n_tensors; t++) {
        /* Forward saves no loss: its targets may be missing. */
        if (values->options->forward && t == model->targets && values->data.file.path != NULL &&
            cleave_safetensors_find(&values->data.file, model->tensors[t].name) == NULL)
            continue;
        if (values->weights.file.path != NULL && has_weights(&model->tensors[t]))
            CLEAVE_TRY(find_weight(values, t, error));
        if (values->data.file.path != NULL && model->tensors[t].kind == CLEAVE_TENSOR_DATA &&
            model->tensors[t].view.kind == CLEAVE_VIEW_NONE)
            CLEAVE_TRY(find_datum(values, t, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_values_open(const cleave_model *model, const cleave_run_options *options,
                                 cleave_values **values, cleave_error *error) {
    cleave_values *opened = calloc(1, sizeof *opened);
    if (opened == NULL)
        return cleave_fail_memory(error, "reading weights and data");
    opened->model = model;
    opened->options = options;
    cleave_status status = open_files(opened, error);
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
    cleave_tensor_file_close(&values->data);
    cleave_text_close(&values->text);
    cleave_arena_free(&values->arena);
    free(values);
}

/* Where a row-major walk over a box stands. */
typedef struct box_walk {
    int rank;
    const cleave_box *box;
    int64_t index[CLEAVE_MAX_RANK];
    int64_t strides[CLEAVE_MAX_RANK]; /* of the dense piece */
    int64_t at;                       /* offset in it */
} box_walk;

static box_walk walk_box(const cleave_tensor *tensor, const cleave_box *piece,
                         const cleave_box *box) {
    box_walk walk = {.rank = tensor->rank, .box = box};
    cleave_tensor_strides(tensor, piece, walk.strides);
    for (int d = 0; d < tensor->rank; d++) {
        walk.index[d] = box->lo[d];
        walk.at += (box->lo[d] - piece->lo[d]) * walk.strides[d];
    }
    return walk;
}

static void walk_on(box_walk *walk) {
    for (int d = walk->rank - 1; d >= 0; d--) {
        walk->at += walk->strides[d];
        if (++walk->index[d] < walk->box->hi[d])
            return;
        walk->at -= (walk->box->hi[d] - walk->box->lo[d]) * walk->strides[d];
        walk->index[d] = walk->box->lo[d];
    }
}

/* Reads a box of a tensor of a file, whose element 0 is element `start` of the entry, into a dense
   piece over the same box. */
static cleave_status read_box(const cleave_tensor_file *file, const cleave_safetensors_entry *entry,
                              int64_t start, const cleave_tensor *tensor, const cleave_box *box,
                              void *data, cleave_error *error) {
    int64_t size = cleave_box_size(tensor->rank, box);
    /* Elements that lie in one run in the file: whole inner dimensions, and a range of the next. */
    int64_t run = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        run *= box->hi[d] - box->lo[d];
        if (box->hi[d] - box->lo[d] != tensor->shape[d])
            break;
    }
    size_t element = (size_t)cleave_type_bytes(tensor->type);
    const int64_t most = CHUNK_BYTES / (int64_t)element;
    char *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return cleave_fail_memory(error, "reading a tensor");
    box_walk walk = walk_box(tensor, box, box);
    cleave_status status = CLEAVE_OK;
    for (int64_t done = 0; done < size && status == CLEAVE_OK;) {
        int64_t rest = run - done % run, n = rest < most ? rest : most, first = 0;
        for (int d = 0; d < tensor->rank; d++)
            first = first * tensor->shape[d] + walk.index[d];
        status = cleave_tensor_file_read(file, entry, start + first, n, chunk, error);
        for (int64_t i = 0; i < n && status == CLEAVE_OK; i++, walk_on(&walk))
            memcpy((char *)data + (size_t)walk.at * element, chunk + (size_t)i * element, element);
        done += n;
    }
    free(chunk);
    return status;
}

/* A box of a parameter, buffer or constant as it is before the first step. */
static cleave_status initial_box(const cleave_values *values, int32_t t, const cleave_box *box,
                                 void *data, cleave_error *error) {
    const cleave_tensor *tensor = &values->model->tensors[t];
    if (values->weights.file.path != NULL && values->entries[t] != NULL && has_weights(tensor))
        return read_box(&values->weights, values->entries[t], 0, tensor, box, data, error);
    cleave_initial_fill(tensor, values->options->seed, box, data);
    return CLEAVE_OK;
}

/* The same, rounded. */
static cleave_status initial_halves(const cleave_values *values, const cleave_buffer *buffer,
                                    void *data, cleave_error *error) {
    int64_t n = buffer->bytes / cleave_type_bytes(buffer->type);
    float *exact = malloc((size_t)n * sizeof *exact + 1);
    if (exact == NULL)
        return cleave_fail_memory(error, "reading a tensor");
    cleave_status status = initial_box(values, buffer->tensor, &buffer->box, exact, error);
    if (status == CLEAVE_OK)
        cleave_convert(CLEAVE_F32, exact, buffer->type, data, n);
    free(exact);
    return status;
}

cleave_status cleave_values_fill(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error) {
    for (int32_t b = 0; b < rank->program->n_buffers; b++) {
        const cleave_buffer *buffer = &rank->program->buffers[b];
        if (buffer->device != rank->device || !buffer->persistent)
            continue;
        void *data = cleave_rank_buffer(rank, b);
        if (buffer->kind == CLEAVE_BUFFER_STATE)
            memset(data, 0, (size_t)buffer->bytes);
        else if (buffer->kind != CLEAVE_BUFFER_DATA && buffer->type == CLEAVE_BF16)
            CLEAVE_TRY(initial_halves(values, buffer, data, error));
        else if (buffer->kind != CLEAVE_BUFFER_DATA)
            CLEAVE_TRY(initial_box(values, buffer->tensor, &buffer->box, data, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_values_load(void *context, const cleave_buffer *buffer, int64_t step,
                                 void *data, cleave_error *error) {
    const cleave_values *values = context;
    const cleave_tensor *tensor = &values->model->tensors[buffer->tensor];
    const cleave_safetensors_entry *entry = values->entries[buffer->tensor];
    if (values->text.path != NULL)
        return cleave_text_load(&values->text, tensor, buffer->tensor == values->text.targets,
                                &buffer->box, values->options->seed, step, data, error);
    if (values->data.file.path == NULL || entry == NULL) {
        if (step == 0) /* made-up data are the same in every step, and their buffers persist */
            cleave_initial_fill_data(tensor, values->options->seed, 0, &buffer->box, data);
        return CLEAVE_OK;
    }
    int64_t size = cleave_tensor_size(tensor);
    int64_t batches = size > 0 ? entry->n_elements / size : 1;
    return read_box(&values->data, entry, step % batches * size, tensor, &buffer->box, data, error);
}

/* Scatters or gathers between a dense piece over `box` and a row-major whole tensor. */
static void place_box(const cleave_tensor *tensor, const cleave_box *box, const char *dense,
                      char *whole) {
    size_t element = (size_t)cleave_type_bytes(tensor->type);
    box_walk walk = walk_box(tensor, box, box);
    int64_t size = cleave_box_size(tensor->rank, box);
    for (int64_t i = 0; i < size; i++, walk_on(&walk)) {
        int64_t to = 0;
        for (int d = 0; d < tensor->rank; d++)
            to = to * tensor->shape[d] + walk.index[d];
        memcpy(whole + (size_t)to * element, dense + (size_t)walk.at * element, element);
    }
}

/* Takes a box of a buffer that may be larger to rank 0 and puts it into the whole tensor there. */
static cleave_status send_box(const cleave_rank *rank, int32_t t, int32_t device, int32_t b,
                              const cleave_box *box, char *whole, cleave_error *error) {
    if (rank->device != device && rank->device != 0)
        return CLEAVE_OK;
    const cleave_tensor *tensor = &rank->program->model->tensors[t];
    size_t element = (size_t)cleave_type_bytes(tensor->type);
    int64_t size = cleave_box_size(tensor->rank, box);
    char *dense = malloc((size_t)size * element + 1);
    if (dense == NULL)
        return cleave_fail_memory(error, "saving a tensor");
    if (rank->device == device) {
        const cleave_buffer *held = &rank->program->buffers[b];
        box_walk from = walk_box(tensor, &held->box, box), to = walk_box(tensor, box, box);
        const char *data = cleave_rank_buffer(rank, b);
        for (int64_t i = 0; i < size; i++, walk_on(&from), walk_on(&to))
            cleave_convert(held->type, data + from.at * cleave_type_bytes(held->type), tensor->type,
                           dense + (size_t)to.at * element, 1);
    }
    if (device != 0 && rank->device == device)
        cleave_world_send_now(rank->world, dense, size * (int64_t)element, 0);
    if (device != 0 && rank->device == 0)
        cleave_world_receive_now(rank->world, dense, size * (int64_t)element, device);
    if (rank->device == 0)
        place_box(tensor, box, dense, whole);
    free(dense);
    return CLEAVE_OK;
}

/* The memory of a piece may be that of a base tensor which lies just as the output would. */
static cleave_status collect_output(const cleave_rank *rank, int32_t output, char *whole,
                                    cleave_error *error) {
    const cleave_program *program = rank->program;
    for (int32_t o = 0; o < program->n_outputs; o++) {
        const cleave_output *piece = &program->outputs[o];
        if (piece->output != output)
            continue;
        cleave_buffer buffer = program->buffers[piece->buffer];
        cleave_program view = *program;
        cleave_rank as_output = *rank;
        buffer.box = piece->box;
        view.buffers = &buffer;
        as_output.program = &view;
        CLEAVE_TRY(send_box(&as_output, program->model->outputs[output], piece->device, 0,
                            &piece->box, whole, error));
    }
    return CLEAVE_OK;
}

/* Where the pieces of one saved tensor lie. */
static cleave_status collect(const cleave_values *values, const cleave_rank *rank, int32_t t,
                             int32_t output, char *whole, cleave_error *error) {
    const cleave_program *program = rank->program;
    const cleave_tensor *tensor = &program->model->tensors[t];
    cleave_box all = cleave_box_of_shape(tensor->rank, tensor->shape);
    if (output >= 0)
        return collect_output(rank, output, whole, error);
    if (rank->device == 0) { /* what no device uses is as it was */
        cleave_tensor row_major = *tensor;
        for (int d = 0; d < tensor->rank; d++)
            row_major.order[d] = d;
        if (values->weights.file.path != NULL && values->entries[t] != NULL)
            CLEAVE_TRY(
                read_box(&values->weights, values->entries[t], 0, &row_major, &all, whole, error));
        else
            cleave_initial_fill(&row_major, values->options->seed, &all, whole);
    }
    for (int32_t h = 0; h < program->n_held; h++)
        if (program->held[h].tensor == t)
            CLEAVE_TRY(send_box(rank, t, program->held[h].device, program->held[h].buffer,
                                &program->held[h].box, whole, error));
    return CLEAVE_OK;
}

typedef struct saved {
    int32_t tensor, output; /* output: index among the model's outputs, or -1 */
} saved;

static cleave_status save_all(const cleave_values *values, const cleave_rank *rank,
                              const saved *list, int32_t n, cleave_safetensors_entry *entries,
                              cleave_safetensors_writer *writer, cleave_error *error) {
    for (int32_t i = 0; i < n; i++) {
        const cleave_tensor *tensor = &values->model->tensors[list[i].tensor];
        int64_t size = cleave_tensor_size(tensor);
        char *whole = rank->device == 0
                          ? calloc((size_t)size + 1, (size_t)cleave_type_bytes(tensor->type))
                          : NULL;
        if (rank->device == 0 && whole == NULL)
            return cleave_fail_memory(error, "saving a tensor");
        cleave_status status = collect(values, rank, list[i].tensor, list[i].output, whole, error);
        if (status == CLEAVE_OK && rank->device == 0)
            status = cleave_safetensors_write(writer, &entries[i], 0, size, whole, error);
        free(whole);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}

static int32_t list_saved(const cleave_values *values, saved *list) {
    const cleave_model *model = values->model;
    int32_t n = 0;
    for (int32_t o = 0; values->options->forward && o < model->n_outputs; o++)
        list[n++] = (saved){model->outputs[o], o};
    for (int32_t t = 0; !values->options->forward && t < model->n_tensors; t++)
        if (has_weights(&model->tensors[t]))
            list[n++] = (saved){t, -1};
    return n;
}

cleave_status cleave_values_save(cleave_values *values, const cleave_rank *rank,
                                 cleave_error *error) {
    const cleave_model *model = values->model;
    size_t most = (size_t)model->n_tensors + (size_t)model->n_outputs;
    saved *list = CLEAVE_ARENA_ARRAY(&values->arena, saved, most);
    cleave_safetensors_entry *entries =
        CLEAVE_ARENA_ARRAY(&values->arena, cleave_safetensors_entry, most);
    if (list == NULL || entries == NULL)
        return cleave_fail_memory(error, "saving");
    int32_t n = list_saved(values, list);
    for (int32_t i = 0; i < n; i++) {
        const cleave_tensor *tensor = &model->tensors[list[i].tensor];
        const int64_t *shape = tensor->shape;
        int rank_there = list[i].output < 0 ? file_shape(tensor, &shape) : tensor->rank;
        entries[i] = (cleave_safetensors_entry){.name = tensor->name,
                                                .type = tensor->type,
                                                .stored = stored_as(tensor),
                                                .rank = rank_there};
        memcpy(entries[i].shape, shape, (size_t)rank_there * sizeof *shape);
    }
    cleave_safetensors_writer writer;
    if (rank->device == 0)
        CLEAVE_TRY(
            cleave_safetensors_writer_open(&writer, values->options->save, n, entries, error));
    cleave_status status = save_all(values, rank, list, n, entries, &writer, error);
    if (rank->device != 0)
        return status;
    if (status != CLEAVE_OK) {
        cleave_safetensors_writer_abandon(&writer);
        return status;
    }
    return cleave_safetensors_writer_commit(&writer, error);
}
