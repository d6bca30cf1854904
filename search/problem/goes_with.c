#include "search/problem/goes_with.h"

#include "graph/model/part.h"
#include "graph/model/view.h"

/* One block of one axis of an operator, of one of its nests; false: it does not have that axis.
   What is derived from owners has the boxes that these write, if they write all of them alone. */
static bool block_of(const cleave_model *model, const cleave_nest *nest, int axis, int32_t degree,
                     int32_t block, cleave_part *part) {
    if (nest->derivation == CLEAVE_DERIVE_OWNERS) {
        const cleave_nest *source = &model->nests[nest->owners_of];
        cleave_part owner;
        cleave_box box;
        bool has = block_of(model, source, axis, degree, block, &owner);
        cleave_part_box(model, &owner, &source->output, &box);
        *part = cleave_part_whole(nest, 0);
        bool is_cut = false;
        for (int d = 0; d < nest->n_axes; d++) {
            is_cut = is_cut || box.lo[d] > part->lo[d] || box.hi[d] < part->hi[d];
            part->lo[d] = box.lo[d];
            part->hi[d] = box.hi[d];
        }
        return has && (is_cut || degree == 1);
    }
    bool has = false;
    *part = cleave_part_whole(nest, 0);
    for (int i = 0; i < nest->n_axes; i++)
        if (nest->operator_axis[i] == axis) {
            part->lo[i] = cleave_block_start(nest->axes[i].extent, degree, block);
            part->hi[i] = cleave_block_start(nest->axes[i].extent, degree, block + 1);
            has = true;
        }
    return has;
}

static bool lies_within(const cleave_box *a, const cleave_box *b, int rank) {
    for (int d = 0; d < rank; d++)
        if (a->lo[d] < b->lo[d] || a->hi[d] > b->hi[d])
            return false;
    return true;
}

/* Is all that a part reads of a tensor in the box that another one writes? */
static cleave_status reads_what_it_wrote(const cleave_model *model, const cleave_part *reader,
                                         const cleave_operand *input, const cleave_box *written,
                                         int32_t base, bool *does, cleave_error *error) {
    cleave_box box;
    cleave_piece_list pieces = {.only = &base};
    cleave_part_box(model, reader, input, &box);
    cleave_status status = cleave_view_pull(model, input->tensor, &box, &pieces, error);
    *does = status == CLEAVE_OK && pieces.n > 0;
    for (int32_t i = 0; i < pieces.n && *does; i++)
        *does = lies_within(&pieces.items[i].box, written, model->tensors[base].rank);
    CLEAVE_LIST_FREE(&pieces);
    return status;
}

/* A nest reads what another one wrote, each along an axis of its operator. */
typedef struct meeting {
    const cleave_nest *writer, *reader;
    int writer_axis, reader_axis, input; /* the reader's */
} meeting;

/* The first and the last block tell: all of them are in order, and as even as can be. */
static cleave_status goes_with(const cleave_model *model, const meeting *m, int32_t degree,
                               bool *does, cleave_error *error) {
    *does = true;
    for (int end = 0; end < 2 && *does; end++) {
        cleave_part wrote, reads;
        cleave_box written;
        int32_t block = end == 0 ? 0 : degree - 1;
        *does = block_of(model, m->writer, m->writer_axis, degree, block, &wrote) &&
                block_of(model, m->reader, m->reader_axis, degree, block, &reads);
        if (!*does)
            break;
        cleave_part_box(model, &wrote, &m->writer->output, &written);
        CLEAVE_TRY(reads_what_it_wrote(model, &reads, &m->reader->inputs[m->input], &written,
                                       m->writer->output.tensor, does, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_axis_goes_with(const cleave_model *model, int32_t before, int axis, int32_t op,
                                    int32_t degree, int *found, cleave_error *error) {
    const cleave_operator *of = &model->operators[op];
    *found = -1;
    for (int32_t n = 0; n < of->n_nests; n++) {
        const cleave_nest *reader = &model->nests[of->nests[n]];
        for (int i = 0; i < reader->n_inputs; i++) {
            int32_t w = cleave_tensor_writer(model, reader->inputs[i].tensor);
            if (w < 0 || model->nests[w].op != before)
                continue;
            for (int a = 0; a < of->n_axes && *found < 0; a++) {
                bool does = false;
                const meeting m = {&model->nests[w], reader, axis, a, i};
                if (!of->axes[a].whole && of->axes[a].extent >= degree)
                    CLEAVE_TRY(goes_with(model, &m, degree, &does, error));
                *found = does ? a : -1;
            }
            return CLEAVE_OK;
        }
    }
    return CLEAVE_OK;
}

/* Parts that are one further along each axis, replicas outermost. */
static void find_strides(const cleave_split *split, int32_t stride[CLEAVE_MAX_AXES]) {
    int32_t n = 1;
    for (int a = CLEAVE_MAX_AXES - 1; a >= 0; a--) {
        stride[a] = n;
        n *= split->degree[a];
    }
}

cleave_status cleave_split_goes_with(const cleave_model *model, int32_t before,
                                     const cleave_split *split, int32_t op, cleave_arena *arena,
                                     cleave_split *goes, bool *found, cleave_error *error) {
    cleave_split made = {.replicas = split->replicas, .n_parts = split->n_parts};
    int32_t from[CLEAVE_MAX_AXES], to[CLEAVE_MAX_AXES];
    int with[CLEAVE_MAX_AXES];
    *found = false;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        made.degree[a] = 1;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++) {
        if (split->degree[a] == 1)
            continue;
        CLEAVE_TRY(cleave_axis_goes_with(model, before, a, op, split->degree[a], &with[a], error));
        if (with[a] < 0 || made.degree[with[a]] > 1)
            return CLEAVE_OK;
        made.degree[with[a]] = split->degree[a];
    }
    made.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
    if (made.devices == NULL)
        return cleave_fail_memory(error, "making a layout");
    find_strides(split, from);
    find_strides(&made, to);
    for (int32_t p = 0; p < split->n_parts; p++) {
        int32_t at = p;
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            if (split->degree[a] > 1)
                at += p / from[a] % split->degree[a] * (to[with[a]] - from[a]);
        made.devices[at] = split->devices[p];
    }
    *goes = made;
    *found = true;
    return CLEAVE_OK;
}
