/* Boxes of tensors out of files. */
#include "exec/data/read_box.h"

#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 1 << 20 };

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

/* Elements up to the end of the innermost row, or of all. */
static int64_t left_in_row(const box_walk *walk) {
    int inner = walk->rank - 1;
    return inner < 0 ? 1 : walk->box->hi[inner] - walk->index[inner];
}

/* By n elements, which are no more than are left in the row. */
static void walk_on(box_walk *walk, int64_t n) {
    for (int d = walk->rank - 1; d >= 0; d--, n = 1) {
        walk->at += n * walk->strides[d];
        walk->index[d] += n;
        if (walk->index[d] < walk->box->hi[d])
            return;
        walk->at -= (walk->box->hi[d] - walk->box->lo[d]) * walk->strides[d];
        walk->index[d] = walk->box->lo[d];
    }
}

/* The next n elements of the walk. */
static void scatter(box_walk *walk, cleave_type type, int64_t n, const char *from, char *data) {
    const size_t element = (size_t)cleave_type_bytes(type);
    const int64_t stride = walk->rank > 0 ? walk->strides[walk->rank - 1] : 1;
    for (int64_t done = 0, run; done < n; done += run) {
        run = left_in_row(walk) < n - done ? left_in_row(walk) : n - done;
        char *to = data + (size_t)walk->at * element;
        const char *next = from + (size_t)done * element;
        if (stride == 1)
            memcpy(to, next, (size_t)run * element);
        for (int64_t i = 0; stride != 1 && i < run; i++)
            memcpy(to + (size_t)(i * stride) * element, next + (size_t)i * element, element);
        walk_on(walk, run);
    }
}

/* Elements that lie in one run in the file: whole inner dimensions, and a range of the next. */
static int64_t run_length(const cleave_tensor *tensor, const cleave_box *box) {
    int64_t run = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        run *= box->hi[d] - box->lo[d];
        if (box->hi[d] - box->lo[d] != tensor->shape[d])
            break;
    }
    return run;
}

static cleave_status read_chunk(const cleave_box_source *source, int64_t first, int64_t n,
                                char *chunk, cleave_error *error) {
    CLEAVE_TRY(cleave_tensor_file_read(source->file, source->entry, first, n, chunk, error));
    if (source->range == NULL)
        return CLEAVE_OK;
    return cleave_id_range_check(source->range, source->tensor->also, source->file->file.path,
                                 source->entry->name, first, n,
                                 (const int64_t *)(const void *)chunk, error);
}

cleave_status cleave_read_box(const cleave_box_source *source, const cleave_box *piece,
                              const cleave_box *box, void *data, cleave_error *error) {
    const cleave_tensor *tensor = source->tensor;
    const int64_t size = cleave_box_size(tensor->rank, box), run = run_length(tensor, box);
    const int64_t most = CHUNK_BYTES / cleave_type_bytes(tensor->type);
    char *chunk = malloc(CHUNK_BYTES);
    if (chunk == NULL)
        return cleave_fail_memory(error, "reading a tensor");
    box_walk walk = walk_box(tensor, piece, box);
    cleave_status status = CLEAVE_OK;
    for (int64_t done = 0; done < size && status == CLEAVE_OK;) {
        int64_t rest = run - done % run, n = rest < most ? rest : most, first = 0;
        for (int d = 0; d < tensor->rank; d++)
            first = first * tensor->shape[d] + walk.index[d];
        status = read_chunk(source, source->first + first, n, chunk, error);
        if (status == CLEAVE_OK)
            scatter(&walk, tensor->type, n, chunk, data);
        done += n;
    }
    free(chunk);
    return status;
}
