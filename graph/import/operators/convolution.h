/* What convolutions and transposed convolutions have in common: channels in groups, weights and
   biases. */
#ifndef CLEAVE_GRAPH_IMPORT_CONVOLUTION_H
#define CLEAVE_GRAPH_IMPORT_CONVOLUTION_H

#include "graph/import/internal.h"

/* BAD_INPUT where the node has an attribute kernel_shape that is not the weight's kernel, [n]. */
cleave_status cleave_convolution_check_kernel(cleave_importer *im, int n, const int64_t *kernel);

/* Refines input 1 to [groups,] outer, inner and the kernel; channels: groups, outer and inner ones
   per group.  There is no dimension of one group.  In memory the inner channels are innermost, as
   in the activations, or, if row_major, all lies as in the shape. */
cleave_status cleave_convolution_refine_weight(cleave_importer *im, const int64_t channels[3],
                                               int n, const int64_t *kernel, bool row_major,
                                               int32_t *weight);

/* Maps the channels of an activation to the axes of groups (-1: none) and of channels per group. */
void cleave_convolution_map_channels(cleave_operand *operand, int group, int channel,
                                     int64_t per_group);

/* Adds input 2, if there is one, a bias of all `channels`, to the output of an operator. */
cleave_status cleave_convolution_add_bias(cleave_importer *im, int32_t op, int64_t channels);

#endif
