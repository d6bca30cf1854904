/* Parts: the cells of an operator's split, and the boxes that each reads and writes. */
#ifndef CLEAVE_GRAPH_MODEL_PART_H
#define CLEAVE_GRAPH_MODEL_PART_H

#include "graph/model/layout.h"
#include "graph/model/micro_batch.h"

typedef struct cleave_part {
    int32_t device;
    int32_t key; /* order of combination; replicas of one part share it */
    int32_t replica;
    bool empty;                                       /* neither runs nor contributes */
    int64_t lo[CLEAVE_MAX_AXES], hi[CLEAVE_MAX_AXES]; /* range of every axis of the nest */
} cleave_part;

static inline int64_t cleave_part_extent(const cleave_part *part, int axis) {
    return part->hi[axis] - part->lo[axis];
}

typedef struct cleave_parts {
    int32_t n;
    cleave_part *items; /* at most one per device */
} cleave_parts;

/* The parts of every nest of the model under a layout, in the first of its micro-batches; `parts`
   is [n_nests].  `micro` null: of the whole batch. */
cleave_status cleave_parts_derive(const cleave_model *model, const cleave_layout *layout,
                                  const cleave_micro_batches *micro, cleave_arena *arena,
                                  cleave_parts **parts, cleave_error *error);

/* Those of the nests of one operator under a split: into all[nest]. */
cleave_status cleave_parts_derive_operator(const cleave_model *model, int32_t op,
                                           const cleave_split *split,
                                           const cleave_micro_batches *micro, cleave_arena *arena,
                                           cleave_parts *all, cleave_error *error);

/* Those of some cells of the split alone: `cells`, [split->n_parts], are numbers of parts,
   ascending, and `split->devices` are theirs.  What is derived from owners is right where of each
   group all members are there; or, if `alone`, whichever are there, where no part is empty and no
   others write the same. */
cleave_status cleave_parts_derive_cells(const cleave_model *model, int32_t op,
                                        const cleave_split *split, const int32_t *cells, bool alone,
                                        cleave_arena *arena, cleave_parts *all,
                                        cleave_error *error);

/* Box of an operand under a part's ranges; raw: as the map gives it, may stick out of the tensor;
   clipped: within the tensor, both ends clamped. */
void cleave_part_raw_box(const cleave_part *part, const cleave_operand *operand, int rank,
                         cleave_box *raw);
void cleave_part_box(const cleave_model *model, const cleave_part *part,
                     const cleave_operand *operand, cleave_box *box);
/* Elements of that box. */
int64_t cleave_part_size(const cleave_model *model, const cleave_part *part,
                         const cleave_operand *operand);

/* The longest dimension of a box of which owners have a block each; and the axes of its operator,
   bit by bit, along which the parts of a nest write the same, and so own it together. */
int cleave_box_longest(const cleave_box *box, int rank);
uint32_t cleave_owner_axes(const cleave_model *model, const cleave_nest *owner);

/* Along which axes (bit a: axis a) it matters where a part lies, since an operand of the nest may
   stick out of its tensor there, or a mask hides more in one place than in another.  Parts of equal
   extents that begin alike along these do equal work. */
uint32_t cleave_nest_padded_axes(const cleave_model *model, const cleave_nest *nest);
/* For sure, of two parts of that nest? */
bool cleave_parts_work_alike(const cleave_nest *nest, uint32_t padded_axes, const cleave_part *a,
                             const cleave_part *b);

/* The part that computes a whole nest. */
cleave_part cleave_part_whole(const cleave_nest *nest, int32_t device);

#endif
