/* What attention and rotary positions take in, on the drafts. */
#ifndef CLEAVE_GRAPH_IMPORT_FUSE_LANGUAGE_H
#define CLEAVE_GRAPH_IMPORT_FUSE_LANGUAGE_H

#include "graph/import/internal.h"

/* Multiplies what a product gives. */
void cleave_import_scale_product(cleave_nest *nest, double factor);
/* The product reads past operators that only scale its inputs, and scales what it gives. */
void cleave_import_take_scalings(cleave_importer *im, cleave_nest *product);
/* Attention whose keys and values are repeated for several heads reads them as they were; its heads
   become two axes, heads of keys and those that share one.  scores, values: its products. */
cleave_status cleave_import_share_keys(cleave_importer *im, int32_t op, int32_t scores,
                                       int32_t values);
/* Rotary positions join the operator that makes what they turn, a product or a norm, where nothing
   else reads that; columns of a product are cut into heads.  Sets *any where one did. */
cleave_status cleave_import_fuse_turns(cleave_importer *im, bool *any);

#endif
