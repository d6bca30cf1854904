/* What a run leaves in files. */
#include "exec/data/save.h"

#include "base/list.h"
#include "exec/data/fits.h"
#include "exec/kernels/copy.h"

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
    cleave_safetensors_writer writer; /* of rank 0 */
    const char **nan_in;
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

static cleave_box intersect(int rank, const cleave_box *a, const cleave_box *b) {
    cleave_box both = *a;
    for (int d = 0; d < rank; d++) {
        both.lo[d] = a->lo[d] > b->lo[d] ? a->lo[d] : b->lo[d];
        both.hi[d] = a->hi[d] < b->hi[d] ? a->hi[d] : b->hi[d];
    }
    return both;
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
            CLEAVE_TRY(add_source(&s->sources, rank,
                                  (source){held->device, b, *box, intersect(rank, box, &held->box)},
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

static cleave_tensor row_major(const cleave_tensor *tensor) {
    cleave_tensor plain = *tensor;
    for (int d = 0; d < tensor->rank; d++)
        plain.order[d] = d;
    return plain;
}

/* The elements of `box`, from memory that is dense over `from`, to memory that is dense over `to`.
 */
static void copy_box(const cleave_box *box, const cleave_tensor *from_as, cleave_type from_type,
                     const cleave_box *from, const void *source_data, const cleave_tensor *to_as,
                     const cleave_box *to, void *data) {
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_ASSIGN,
                               .type = to_as->type,
                               .source_type = from_type,
                               .rank = to_as->rank};
    cleave_tensor_strides(from_as, from, piece.source_stride);
    cleave_tensor_strides(to_as, to, piece.destination_stride);
    for (int d = 0; d < piece.rank; d++) {
        piece.extent[d] = box->hi[d] - box->lo[d];
        piece.source_offset += (box->lo[d] - from->lo[d]) * piece.source_stride[d];
        piece.destination_offset += (box->lo[d] - to->lo[d]) * piece.destination_stride[d];
    }
    cleave_copy_piece_run(&piece, data, source_data);
}

/* Do the sources give every element of a piece?  Counted where no two overlap there. */
static bool covers(const source_list *sources, int rank, const cleave_box *piece) {
    int64_t n = 0;
    for (int32_t i = 0; i < sources->n; i++) {
        cleave_box part = intersect(rank, &sources->items[i].box, piece);
        n += cleave_box_size(rank, &part);
        for (int32_t j = 0; j < i; j++) {
            cleave_box both = intersect(rank, &sources->items[j].box, &part);
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
    cleave_box box = intersect(tensor->rank, &from->box, piece);
    int64_t bytes = cleave_box_size(tensor->rank, &box) * cleave_type_bytes(tensor->type);
    if (bytes == 0)
        return CLEAVE_OK;
    const cleave_tensor plain = row_major(tensor);
    bool here = from->device == 0;
    if (rank->device == from->device)
        copy_box(&box, tensor, rank->program->buffers[from->buffer].type, &from->held,
                 cleave_rank_buffer(rank, from->buffer), &plain, here ? piece : &box,
                 here ? s->piece : s->part);
    if (here)
        return CLEAVE_OK;
    if (rank->device == from->device)
        return cleave_world_send_now(rank->world, s->part, bytes, 0, error);
    CLEAVE_TRY(cleave_world_receive_now(rank->world, s->part, bytes, from->device, error));
    copy_box(&box, &plain, tensor->type, &box, s->part, &plain, piece, s->piece);
    return CLEAVE_OK;
}

static bool has_nan(const float *values, int64_t n) {
    bool found = false;
    for (int64_t i = 0; i < n; i++)
        found |= values[i] != values[i];
    return found;
}

static cleave_status save_piece(saving *s, int32_t t, const cleave_safetensors_entry *entry,
                                int64_t first, const cleave_box *piece, cleave_error *error) {
    const cleave_tensor *tensor = &s->rank->program->model->tensors[t];
    int64_t n = cleave_box_size(tensor->rank, piece);
    bool root = s->rank->device == 0;
    cleave_world_beat(s->rank->world);
    if (root && !covers(&s->sources, tensor->rank, piece))
        CLEAVE_TRY(fill_piece(s, t, piece, error));
    for (int32_t i = 0; i < s->sources.n; i++)
        CLEAVE_TRY(bring_part(s, tensor, &s->sources.items[i], piece, error));
    if (!root)
        return CLEAVE_OK;
    if (s->nan_in != NULL && *s->nan_in == NULL && tensor->type == CLEAVE_F32 &&
        has_nan((const float *)(const void *)s->piece, n))
        *s->nan_in = tensor->name;
    return cleave_safetensors_write(&s->writer, entry, first, n, s->piece, error);
}

/* Pieces are runs of the row-major order: one index in the dimensions before `cut`, a range of it,
   and the whole of those behind it. */
static cleave_status save_tensor(saving *s, int32_t t, const cleave_safetensors_entry *entry,
                                 cleave_error *error) {
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
            cleave_box piece = cleave_box_of_shape(tensor->rank, tensor->shape);
            int64_t rest = outer;
            for (int d = cut - 1; d >= 0; rest /= tensor->shape[d--]) {
                piece.lo[d] = rest % tensor->shape[d];
                piece.hi[d] = piece.lo[d] + 1;
            }
            if (tensor->rank > 0) {
                piece.lo[cut] = row;
                piece.hi[cut] = row + rows < extent ? row + rows : extent;
            }
            CLEAVE_TRY(save_piece(s, t, entry, (outer * extent + row) * inner, &piece, error));
        }
    return CLEAVE_OK;
}

static cleave_status save_all(saving *s, const int32_t *list, int32_t n,
                              cleave_safetensors_entry *entries, cleave_error *error) {
    for (int32_t i = 0; i < n; i++)
        describe(&s->rank->program->model->tensors[list[i]], s->what, &entries[i]);
    if (s->rank->device == 0)
        CLEAVE_TRY(cleave_safetensors_writer_begin(&s->writer, n, entries, error));
    for (int32_t i = 0; i < n; i++) {
        CLEAVE_TRY(find_sources(s, i, list[i], error));
        CLEAVE_TRY(save_tensor(s, list[i], &entries[i], error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_save(const cleave_values *values, const cleave_rank *rank, cleave_saved what,
                          cleave_file_writer *writer, const char **nan_in, cleave_error *error) {
    const cleave_model *model = rank->program->model;
    size_t most = (size_t)model->n_tensors + (size_t)model->n_outputs;
    saving s = {.values = values,
                .rank = rank,
                .what = what,
                .nan_in = nan_in,
                .piece = malloc(PIECE_BYTES),
                .part = malloc(PIECE_BYTES)};
    int32_t *list = malloc(most * sizeof *list + 1);
    cleave_safetensors_entry *entries = malloc(most * sizeof *entries + 1);
    if (writer != NULL)
        s.writer.file = *writer;
    cleave_status status = s.piece != NULL && s.part != NULL && list != NULL && entries != NULL
                               ? save_all(&s, list, list_tensors(model, what, list), entries, error)
                               : cleave_fail_memory(error, "saving");
    if (status != CLEAVE_OK && writer != NULL)
        cleave_file_writer_abandon(&s.writer.file);
    if (writer != NULL)
        *writer = s.writer.file;
    CLEAVE_LIST_FREE(&s.sources);
    CLEAVE_LIST_FREE(&s.updates);
    free(s.piece);
    free(s.part);
    free(list);
    free(entries);
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
