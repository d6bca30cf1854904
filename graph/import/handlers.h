/* One function per operator of the table in operators.c, or for several that are alike: makes the
   outputs of the node being imported, which has the inputs and attributes that its row allows. */
#ifndef CLEAVE_GRAPH_IMPORT_HANDLERS_H
#define CLEAVE_GRAPH_IMPORT_HANDLERS_H

#include "base/error.h"

typedef struct cleave_importer cleave_importer; /* graph/import/internal.h */

cleave_status cleave_import_average_pool(cleave_importer *im);
cleave_status cleave_import_batch_normalization(cleave_importer *im);
cleave_status cleave_import_bernoulli(cleave_importer *im);
cleave_status cleave_import_binary(cleave_importer *im);
cleave_status cleave_import_cast(cleave_importer *im);
cleave_status cleave_import_cast_like(cleave_importer *im);
cleave_status cleave_import_celu(cleave_importer *im);
cleave_status cleave_import_class_loss(cleave_importer *im);
cleave_status cleave_import_clip(cleave_importer *im);
cleave_status cleave_import_compress(cleave_importer *im);
cleave_status cleave_import_concat(cleave_importer *im);
cleave_status cleave_import_conv(cleave_importer *im);
cleave_status cleave_import_conv_transpose(cleave_importer *im);
cleave_status cleave_import_cumsum(cleave_importer *im);
cleave_status cleave_import_depth_to_space(cleave_importer *im);
cleave_status cleave_import_dropout(cleave_importer *im);
cleave_status cleave_import_einsum(cleave_importer *im);
cleave_status cleave_import_elu(cleave_importer *im);
cleave_status cleave_import_expand(cleave_importer *im);
cleave_status cleave_import_gather(cleave_importer *im);
cleave_status cleave_import_gather_elements(cleave_importer *im);
cleave_status cleave_import_gather_nd(cleave_importer *im);
cleave_status cleave_import_gelu(cleave_importer *im);
cleave_status cleave_import_gemm(cleave_importer *im);
cleave_status cleave_import_global_average_pool(cleave_importer *im);
cleave_status cleave_import_global_lp_pool(cleave_importer *im);
cleave_status cleave_import_global_max_pool(cleave_importer *im);
cleave_status cleave_import_grid_sample(cleave_importer *im);
cleave_status cleave_import_group_normalization(cleave_importer *im);
cleave_status cleave_import_hard_sigmoid(cleave_importer *im);
cleave_status cleave_import_hard_swish(cleave_importer *im);
cleave_status cleave_import_hardmax(cleave_importer *im);
cleave_status cleave_import_identity(cleave_importer *im);
cleave_status cleave_import_if(cleave_importer *im);
cleave_status cleave_import_instance_normalization(cleave_importer *im);
cleave_status cleave_import_is_inf(cleave_importer *im);
cleave_status cleave_import_is_nan(cleave_importer *im);
cleave_status cleave_import_layer_normalization(cleave_importer *im);
cleave_status cleave_import_leaky_relu(cleave_importer *im);
cleave_status cleave_import_local_response(cleave_importer *im);
cleave_status cleave_import_lp_normalization(cleave_importer *im);
cleave_status cleave_import_lp_pool(cleave_importer *im);
cleave_status cleave_import_matmul(cleave_importer *im);
cleave_status cleave_import_max_pool(cleave_importer *im);
cleave_status cleave_import_mean_variance_normalization(cleave_importer *im);
cleave_status cleave_import_mish(cleave_importer *im);
cleave_status cleave_import_not(cleave_importer *im);
cleave_status cleave_import_one_hot(cleave_importer *im);
cleave_status cleave_import_only_constant(cleave_importer *im);
cleave_status cleave_import_pad(cleave_importer *im);
cleave_status cleave_import_prelu(cleave_importer *im);
cleave_status cleave_import_random(cleave_importer *im);
cleave_status cleave_import_recurrent(cleave_importer *im);
cleave_status cleave_import_reduce(cleave_importer *im);
cleave_status cleave_import_reshape_node(cleave_importer *im);
cleave_status cleave_import_resize(cleave_importer *im);
cleave_status cleave_import_reverse_sequence(cleave_importer *im);
cleave_status cleave_import_rms_normalization(cleave_importer *im);
cleave_status cleave_import_route(cleave_importer *im);
cleave_status cleave_import_scatter_elements(cleave_importer *im);
cleave_status cleave_import_scatter_nd(cleave_importer *im);
cleave_status cleave_import_selu(cleave_importer *im);
cleave_status cleave_import_sequence_at(cleave_importer *im);
cleave_status cleave_import_shrink(cleave_importer *im);
cleave_status cleave_import_slice(cleave_importer *im);
cleave_status cleave_import_softmax(cleave_importer *im);
cleave_status cleave_import_sink_softmax(cleave_importer *im);
cleave_status cleave_import_softplus(cleave_importer *im);
cleave_status cleave_import_xielu(cleave_importer *im);
cleave_status cleave_import_softsign(cleave_importer *im);
cleave_status cleave_import_space_to_depth(cleave_importer *im);
cleave_status cleave_import_split(cleave_importer *im);
cleave_status cleave_import_split_to_sequence(cleave_importer *im);
cleave_status cleave_import_swish(cleave_importer *im);
cleave_status cleave_import_thresholded_relu(cleave_importer *im);
cleave_status cleave_import_tile(cleave_importer *im);
cleave_status cleave_import_top_k(cleave_importer *im);
cleave_status cleave_import_transpose(cleave_importer *im);
cleave_status cleave_import_trilu(cleave_importer *im);
cleave_status cleave_import_causal_mask(cleave_importer *im);
cleave_status cleave_import_unary(cleave_importer *im);
cleave_status cleave_import_variadic(cleave_importer *im);
cleave_status cleave_import_where(cleave_importer *im);

/* Those of nodes that the fusing table makes. */
cleave_status cleave_import_turned(cleave_importer *im);
cleave_status cleave_import_without_nan(cleave_importer *im);

#endif
