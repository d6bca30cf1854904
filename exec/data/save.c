/* What a run leaves in files. */
#include "exec/data/save.h"

#include "base/list.h"
#include "exec/data/copy_box.h"
#include "exec/data/fits.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20 };

/* A part of a tensor on a device. */
typedef struct source {
    int32_t device;
    int32_t buffer;
    cleave_box held; /* that the buffer's memory is dense over, */
    cleave_box box;  /* and what of it is right */
} source;

typedef CLEAVE_LIST(source) source_list;

typedef struct saving {
    const cleave_values *values;
    const cleave_rank *rank;
    cleave_saved what;
    cleave_visit_piece *visit;
    void *context;
    source_list sources;          /* of the tensor at hand */
    CLEAVE_LIST(int32_t) updates; /* of it, where states are saved */
    char *piece;                  /* rank 0: what is appended next, row-major */
    char *part;                   /* of it: from one source, row-major */
} saving;

/* ---- what is there ----------------------------------------------------------------------------
 */

static bool is_saved(const cleave_tensor *tensor, cleave_saved what) {
    if (what == CLEAVE_SAVED_VALUES)
        return cleave_values_has(tensor);
    return cleave_values_has(tensor) && tensor->kind == CLEAVE_TENSOR_PARAMETER &&
           tensor->needs_gradient;
}

/* Tensors in the order of the file; their number. */
static int32_t list_tensors(const cleave_model *model, cleave_saved what, int32_t *list) {
    int32_t n = 0;
    if (what == CLEAVE_SAVED_OUTPUTS) {
        memcpy(list, model->outputs, (size_t)model->n_outputs * sizeof *list);
        return model->n_outputs;
    }
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (is_saved(&model->tensors[t], what))
            list[n++] = t;
    return n;
}

static void describe(const cleave_tensor *tensor, cleave_saved what,
                     cleave_safetensors_entry *entry) {
    const int64_t *shape = tensor->shape;
    int rank = what == CLEAVE_SAVED_OUTPUTS ? tensor->rank : cleave_file_shape(tensor, &shape);
    *entry = (cleave_safetensors_entry){.name = tensor->name,
                                        .type = tensor->type,
                                        .stored = tensor->truth ? CLEAVE_STORED_TRUTH
                                                                : CLEAVE_STORED_WHOLE,
                                        .rank = rank};
    memcpy(entry->shape, shape, (size_t)rank * sizeof *shape);
}

/* Copies of what another source has, too, are left out. */
static cleave_status add_source(source_list *list, int rank, source s, cleave_error *error) {
    bool known = cleave_box_is_empty(rank, &s.box);
    for (int32_t i = 0; i < list->n && !known; i++)
        known = cleave_box_contains(rank, &list->items[i].box, &s.box);
    if (!known && !CLEAVE_LIST_PUSH(list, s))
        return cleave_fail_memory(error, "saving a tensor");
    return CLEAVE_OK;
}

static cleave_status add_values(saving *s, const cleave_held *held, cleave_error *error) {
    const cleave_program *program = s->rank->program;
    return add_source(
        &s->sources, program->model->tensors[held->tensor].rank,
        (source){held->device, held->buffer, program->buffers[held->buffer].box, held->box}, error);
}

/* The state that the updates of a device keep of what the device holds. */
static cleave_status add_states(saving *s, const cleave_held *held, cleave_error *error) {
    const cleave_program *program = s->rank->program;
    int rank = program->model->tensors[held->tensor].rank;
    for (int32_t i = 0; i < s->updates.n; i++) {
        int32_t b = program->updates[s->updates.items[i]].state[s->what];
        const cleave_box *box = &program->buffers[b].box;
        if (program->buffers[b].device == held->device)
            CLEAVE_TRY(add_source(
                &s->sources, rank,
                (source){held->device, b, *box, cleave_box_intersect(rank, box, &held->box)},
                error));
    }
    return CLEAVE_OK;
}

static cleave_status find_updates(saving *s, int32_t t, cleave_error *error) {
    const cleave_program *program = s->rank->program;
    s->updates.n = 0;
    for (int32_t u = 0; u < program->n_updates && s->what <= CLEAVE_SAVED_STATE1; u++)
        if (program->updates[u].tensor == t && program->updates[u].state[s->what] >= 0 &&
            !CLEAVE_LIST_PUSH(&s->updates, u))
            return cleave_fail_memory(error, "saving a tensor");
    return CLEAVE_OK;
}

/* Where the i-th tensor of the file lies: what rank 0 has itself comes first. */
static cleave_status find_sources(saving *s, int32_t i, int32_t t, cleave_error *error) {
    const cleave_program *program = s->rank->program;
    const cleave_tensor *tensor = &program->model->tensors[t];
    s->sources.n = 0;
    /* The memory of a piece may be that of a base tensor which lies just as the output would. */
    for (int32_t o = 0; o < program->n_outputs && s->what == CLEAVE_SAVED_OUTPUTS; o++) {
        const cleave_output *piece = &program->outputs[o];
        if (piece->output == i)
            CLEAVE_TRY(add_source(&s->sources, tensor->rank,
                                  (source){piece->device, piece->buffer, piece->box, piece->box},
                                  error));
    }
    if (s->what == CLEAVE_SAVED_OUTPUTS)
        return CLEAVE_OK;
    CLEAVE_TRY(find_updates(s, t, error));
    for (int others = 0; others < 2; others++)
        for (int32_t h = 0; h < program->n_held; h++) {
            const cleave_held *held = &program->held[h];
            if (held->tensor == t && (held->device != 0) == others)
                CLEAVE_TRY(s->what == CLEAVE_SAVED_VALUES ? add_values(s, held, error)
                                                          : add_states(s, held, error));
        }
    return CLEAVE_OK;
}

/* ---- by pieces --------------------------------------------------------------------------------
 */

/* Do the sources give every element of a piece?  Counted where no two overlap there. */
static bool covers(const source_list *sources, int rank, const cleave_box *piece) {
    int64_t n = 0;
    for (int32_t i = 0; i < sources->n; i++) {
        cleave_box part = cleave_box_intersect(rank, &sources->items[i].box, piece);
        n += cleave_box_size(rank, &part);
        for (int32_t j = 0; j < i; j++) {
            cleave_box both = cleave_box_intersect(rank, &sources->items[j].box, &part);
            if (!cleave_box_is_empty(rank, &part) && !cleave_box_is_empty(rank, &both))
                return false;
        }
    }
    return n == cleave_box_size(rank, piece);
}

/* A piece as it is where no device has it: of values as at first, of states zero. */
static cleave_status fill_piece(saving *s, int32_t t, const cleave_box *piece,
                                cleave_error *error) {
    const cleave_tensor *tensor = &s->rank->program->model->tensors[t];
    if (s->what == CLEAVE_SAVED_VALUES)
        return cleave_values_initial(s->values, t, piece, s->piece, error);
    size_t bytes = (size_t)(cleave_box_size(tensor->rank, piece) * cleave_type_bytes(tensor->type));
    memset(s->piece, 0, bytes);
    return CLEAVE_OK;
}

static cleave_status bring_part(saving *s, const cleave_tensor *tensor, const source *from,
                                const cleave_box *piece, cleave_error *error) {
    const cleave_rank *rank = s->rank;
    if (rank->device != from->device && rank->device != 0)
        return CLEAVE_OK;
    cleave_box box = cleave_box_intersect(tensor->rank, &from->box, piece);
    int64_t bytes = cleave_box_size(tensor->rank, &box) * cleave_type_bytes(tensor->type);
    if (bytes == 0)
        return CLEAVE_OK;
    const cleave_tensor plain = cleave_row_major(tensor);
    const bool here = from->device == 0;
    const cleave_dense whole = {&plain, tensor->type, piece, s->piece},
                       part = {&plain, tensor->type, &box, s->part};
    if (rank->device == from->device) {
        const cleave_buffer *buffer = &rank->program->buffers[from->buffer];
        const cleave_dense held = {tensor, buffer->type, &from->held,
                                   cleave_rank_buffer(rank, from->buffer)};
        cleave_copy_box(&box, &held, here ? &whole : &part);
    }
    if (here)
        return CLEAVE_OK;
    if (rank->device == from->device)
        return cleave_world_send_now(rank->world, s->part, bytes, 0, error);
    CLEAVE_TRY(cleave_world_receive_now(rank->world, s->part, bytes, from->device, error));
    cleave_copy_box(&box, &part, &whole);
    return CLEAVE_OK;
}

static cleave_status visit_piece(saving *s, cleave_saved_piece *piece, cleave_error *error) {
    const cleave_tensor *tensor = &s->rank->program->model->tensors[piece->tensor];
    piece->n = cleave_box_size(tensor->rank, &piece->box);
    piece->data = s->piece;
    cleave_world_beat(s->rank->world);
    if (s->rank->device == 0 && !covers(&s->sources, tensor->rank, &piece->box))
        CLEAVE_TRY(fill_piece(s, piece->tensor, &piece->box, error));
    for (int32_t i = 0; i < s->sources.n; i++)
        CLEAVE_TRY(bring_part(s, tensor, &s->sources.items[i], &piece->box, error));
    return s->visit(s->context, piece, error);
}

/* Pieces are runs of the row-major order: one index in the dimensions before `cut`, a range of it,
   and the whole of those behind it. */
static cleave_status visit_tensor(saving *s, int32_t i, int32_t t, cleave_error *error) {
    const cleave_tensor *tensor = &s->rank->program->model->tensors[t];
    const int64_t most = PIECE_BYTES / cleave_type_bytes(tensor->type);
    int64_t inner = 1, size = cleave_tensor_size(tensor);
    int cut = tensor->rank - 1;
    for (; cut > 0 && inner * tensor->shape[cut] <= most; cut--)
        inner *= tensor->shape[cut];
    if (size == 0)
        return CLEAVE_OK;
    int64_t extent = tensor->rank > 0 ? tensor->shape[cut] : 1;
    int64_t rows = most / inner < extent ? most / inner : extent;
    for (int64_t outer = 0; outer < size / inner / extent; outer++)
        for (int64_t row = 0; row < extent; row += rows) {
            cleave_saved_piece piece = {.tensor = t,
                                        .i = i,
                                        .first = (outer * extent + row) * inner,
                                        .box = cleave_box_of_shape(tensor->rank, tensor->shape)};
            int64_t rest = outer;
            for (int d = cut - 1; d >= 0; rest /= tensor->shape[d--]) {
                piece.box.lo[d] = rest % tensor->shape[d];
                piece.box.hi[d] = piece.box.lo[d] + 1;
            }
            if (tensor->rank > 0) {
                piece.box.lo[cut] = row;
                piece.box.hi[cut] = row + rows < extent ? row + rows : extent;
            }
            CLEAVE_TRY(visit_piece(s, &piece, error));
        }
    return CLEAVE_OK;
}

/* Room for the tensors of any file. */
static int32_t *new_list(const cleave_model *model) {
    size_t most = (size_t)model->n_tensors + (size_t)model->n_outputs;
    return malloc(most * sizeof(int32_t) + 1);
}

cleave_status cleave_visit_saved(const cleave_values *values, const cleave_rank *rank,
                                 cleave_saved what, cleave_visit_piece *visit, void *context,
                                 cleave_error *error) {
    const cleave_model *model = rank->program->model;
    saving s = {.values = values,
                .rank = rank,
                .what = what,
                .visit = visit,
                .context = context,
                .piece = malloc(PIECE_BYTES),
                .part = malloc(PIECE_BYTES)};
    int32_t *list = new_list(model);
    cleave_status status = s.piece != NULL && s.part != NULL && list != NULL
                               ? CLEAVE_OK
                               : cleave_fail_memory(error, "saving");
    int32_t n = status == CLEAVE_OK ? list_tensors(model, what, list) : 0;
    for (int32_t i = 0; i < n && status == CLEAVE_OK; i++) {
        status = find_sources(&s, i, list[i], error);
        if (status == CLEAVE_OK)
            status = visit_tensor(&s, i, list[i], error);
    }
    CLEAVE_LIST_FREE(&s.sources);
    CLEAVE_LIST_FREE(&s.updates);
    free(s.piece);
    free(s.part);
    free(list);
    return status;
}

/* ---- into a file ------------------------------------------------------------------------------
 */

typedef struct saved_file {
    const cleave_rank *rank;
    cleave_safetensors_writer writer; /* of rank 0 */
    cleave_safetensors_entry *entries;
    const char **nan_in;
} saved_file;

static bool has_nan(const float *values, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++)
        found |= values[i] != values[i];
    return found;
}

static cleave_status append(void *context, const cleave_saved_piece *piece, cleave_error *error) {
    saved_file *file = context;
    const cleave_tensor *tensor = &file->rank->program->model->tensors[piece->tensor];
    if (file->rank->device != 0)
        return CLEAVE_OK;
    if (file->nan_in != NULL && *file->nan_in == NULL && tensor->type == CLEAVE_F32 &&
        has_nan(piece->data, piece->n))
        *file->nan_in = tensor->name;
    return cleave_safetensors_write(&file->writer, &file->entries[piece->i], piece->first, piece->n,
                                    piece->data, error);
}

/* Rank 0: the header. */
static cleave_status begin_file(saved_file *file, cleave_saved what, cleave_error *error) {
    const cleave_model *model = file->rank->program->model;
    int32_t *list = new_list(model);
    if (list == NULL)
        return cleave_fail_memory(error, "saving");
    int32_t n = list_tensors(model, what, list);
    file->entries = malloc((size_t)n * sizeof *file->entries + 1);
    cleave_status status = CLEAVE_OK;
    if (file->entries == NULL)
        status = cleave_fail_memory(error, "saving");
    for (int32_t i = 0; i < n && status == CLEAVE_OK; i++)
        describe(&model->tensors[list[i]], what, &file->entries[i]);
    if (status == CLEAVE_OK)
        status = cleave_safetensors_writer_begin(&file->writer, n, file->entries, error);
    free(list);
    return status;
}

cleave_status cleave_save(const cleave_values *values, const cleave_rank *rank, cleave_saved what,
                          cleave_file_writer *writer, const char **nan_in, cleave_error *error) {
    saved_file file = {.rank = rank, .nan_in = nan_in};
    cleave_status status = CLEAVE_OK;
    if (writer != NULL) {
        file.writer.file = *writer;
        status = begin_file(&file, what, error);
    }
    if (status == CLEAVE_OK)
        status = cleave_visit_saved(values, rank, what, append, &file, error);
    if (status != CLEAVE_OK && writer != NULL)
        cleave_file_writer_abandon(&file.writer.file);
    if (writer != NULL)
        *writer = file.writer.file;
    free(file.entries);
    return status;
}

cleave_status cleave_save_file(const cleave_values *values, const cleave_rank *rank,
                               cleave_saved what, const char *path, cleave_error *error) {
    cleave_file_writer writer;
    if (rank->device != 0)
        return cleave_save(values, rank, what, NULL, NULL, error);
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    CLEAVE_TRY(cleave_save(values, rank, what, &writer, NULL, error));
    return cleave_file_writer_commit(&writer, error);
}
