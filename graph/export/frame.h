/* Where the axes of an operator lie in its tensors as a framework shows them to a module: an input,
   an output, parameters as the file has them.

   It follows from the maps of the nests, as boxes do.  An axis is in a dimension of a tensor where
   the map has it alone and a block of one is a block of the other: so not under a window (a halo
   would have to move), nor where a framework sees several axes as one dimension and this is not the
   outermost of them (its blocks are strided). */
#ifndef CLEAVE_GRAPH_EXPORT_FRAME_H
#define CLEAVE_GRAPH_EXPORT_FRAME_H

#include "graph/model/model.h"

enum {
    CLEAVE_FRAME_APART = -1,  /* the tensor is the same for all of the axis */
    CLEAVE_FRAME_STRIDED = -2 /* a block of the axis is no block of any dimension */
};

/* Where a dimension of a parameter is several runs, each of them the axis, as a gate and what it
   lets through in one: the dimension, a block of each run.  It is cut as others are. */
enum { CLEAVE_FRAME_RUNS = 16, CLEAVE_FRAME_MOST_RUNS = 7 };
static inline int cleave_frame_of_runs(int dimension, int runs) {
    return dimension + runs * CLEAVE_FRAME_RUNS;
}

typedef struct cleave_frame_parameter {
    int32_t tensor;
    bool of_main; /* the main nest reads it */
    int8_t dimension[CLEAVE_MAX_AXES];
} cleave_frame_parameter;

/* By axis of the operator. */
typedef struct cleave_frame {
    int8_t input[CLEAVE_MAX_AXES], output[CLEAVE_MAX_AXES];
    int8_t rank;       /* dimensions of the output; 0: it is not known */
    int8_t input_rank; /* of what the module is given, likewise */
    int64_t input_shape[CLEAVE_MAX_RANK], output_shape[CLEAVE_MAX_RANK];
    bool even[CLEAVE_MAX_AXES]; /* only into equal blocks: it shares its dimension */
    bool sums[CLEAVE_MAX_AXES]; /* parts that differ in it give partial sums of the output */
    const char *cannot[CLEAVE_MAX_AXES];  /* why it can't be cut within a module, or null */
    const char *differs[CLEAVE_MAX_AXES]; /* what is otherwise where it is cut, or null */
    int32_t n_parameters;
    cleave_frame_parameter *parameters; /* frozen ones, too */
} cleave_frame;

cleave_status cleave_frame_find(const cleave_model *model, int32_t op, cleave_arena *arena,
                                cleave_frame *frame, cleave_error *error);

/* The dimension of a base tensor (of a parameter: as its file has it) that is cut into `parts`
   blocks where this dimension of a tensor that it is behind is; STRIDED: none is.  APART: it is not
   behind that tensor. */
int cleave_frame_locate(const cleave_model *model, int32_t tensor, int dimension, int32_t parts,
                        int32_t base);

/* The dimension of the tensor that an operand maps from this axis of an operator, alone and as it
   is; APART, or STRIDED. */
int cleave_frame_dimension(const cleave_model *model, const cleave_nest *nest,
                           const cleave_operand *operand, int axis);

#endif
