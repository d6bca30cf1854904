/* What a framework spells out of a nest in several kernels.

   An operator that it has no kernel of is spelled out in its models' code, and each function in it
   is a kernel of its own, whose result lies in memory: the instructions of a tape, and the sum of
   what combines.  Norms by the mean square work in f32 in between and are converted before and
   after (as the Llama of Hugging Face transformers, where rotary positions, too, are spelled out
   in the type of queries and keys, and half of these, their sign changed, is put beside the other
   half before).  Backward each function is as many kernels as it has operands: about twice of
   forward.

   Rotary positions may also be products of complex numbers of f32, of which torch.compile makes no
   kernels (<torch/_inductor/lowering.py> falls back to eager ones and warns).

   A loss over classes is as many kernels as its row says.  A mask that is filled in
   place in a view of scores is one kernel forward; back autograd (its CopySlices) copies the
   gradient of what is viewed, clones the view's, has that cloned and filled, and copies it back:
   five kernels, each of which reads and writes.

   A softmax of PyTorch is two kernels backward: its gradient times its result, and that with the
   result into the gradient of what it is of (<aten/src/ATen/native/cuda/SoftMax.cu>).

   All else is in the kernels of graph/program/one_kernel.h. */
#ifndef CLEAVE_GRAPH_PROGRAM_EAGER_H
#define CLEAVE_GRAPH_PROGRAM_EAGER_H

#include "graph/model/model.h"
#include "graph/model/part.h"
#include "graph/program/framework.h"

/* What a nest begins; others of its kernel begin nothing. */
typedef struct cleave_framework_kernels {
    int32_t n;
    double bytes; /* that it reads and writes in all of them, and in one that another began */
} cleave_framework_kernels;

/* In which kinds of frameworks a pass gives for an input what it has to add to what another kernel
   gave; within one kernel that is added on the chip. */
typedef struct cleave_additions {
    bool compiled, eager;
} cleave_additions;
cleave_additions cleave_additions_of(const cleave_model *model, const cleave_nest *nest,
                                     cleave_pass pass, const cleave_part *part, int input);

/* Of a loss over classes? */
bool cleave_nest_is_of_loss(const cleave_model *model, const cleave_nest *nest);

/* Does it turn queries or keys by their positions? */
bool cleave_nest_turns(const cleave_model *model, const cleave_nest *nest);

/* Is it a mask of places, as of scores? */
bool cleave_nest_masks_by_place(const cleave_nest *nest);

/* exp(x - m) / l, which may be dropped out, too: the last of the nests of a softmax. */
bool cleave_nest_gives_softmax(const cleave_nest *nest);

/* False, and nothing, where it is not spelled out. */
bool cleave_kernels_spelled_out(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass, const cleave_part *part,
                                const cleave_framework_row *framework,
                                cleave_framework_kernels *made);

#endif
