/* Views under construction: other shapes, parts and sequences of tensors.  Each view is called
   `name`; where it would be all of its source, the result is the source. */
#ifndef CLEAVE_GRAPH_IMPORT_DRAFT_VIEWS_H
#define CLEAVE_GRAPH_IMPORT_DRAFT_VIEWS_H

#include "graph/import/internal.h"

/* The same elements under another shape, through as few views as possible: the tensor itself where
   it has that shape already. */
cleave_status cleave_import_reshape(cleave_importer *im, const char *name, int32_t source, int rank,
                                    const int64_t *shape, int32_t *tensor);
/* Dimension d of the result is dimension permutation[d] of the source: always a view. */
cleave_status cleave_import_permute(cleave_importer *im, const char *name, int32_t source,
                                    const int *permutation, int32_t *tensor);
/* What is behind the transposes of a tensor: the first one that is no transpose, and for each of
   its dimensions what `of` says of the same one of the tensor. */
void cleave_import_untranspose(const cleave_importer *im, int32_t *tensor, int *of);
/* Elements begin, begin + step, ... of one dimension; `extent` of them, step 1 or more. */
cleave_status cleave_import_slice_axis(cleave_importer *im, const char *name, int32_t source,
                                       int axis, int64_t begin, int64_t step, int64_t extent,
                                       int32_t *result);
/* The part of one dimension that starts at `begin`. */
cleave_status cleave_import_range(cleave_importer *im, const char *name, int32_t source, int axis,
                                  int64_t begin, int64_t extent, int32_t *result);
/* The source with `fill` around it: element i of dimension d is its element i - begin[d]; shape:
   [its rank] of the result.  Always a view. */
cleave_status cleave_import_pad_to(cleave_importer *im, const char *name, int32_t source,
                                   const int64_t *begin, const int64_t *shape, float fill,
                                   int32_t *result);
/* Sources one after the other; the source itself where there is one.  Sources of different types,
   or with padding that is not zero, are replaced by copies. */
cleave_status cleave_import_join(cleave_importer *im, const char *name, int n, int32_t *sources,
                                 int axis, int32_t *result);
/* The tensor, or a copy of it if some of it is padded with something else than `fill`: a view has
   one value for all that is padding (cleave_view_fill), whatever it joins. */
cleave_status cleave_import_settle_padding(cleave_importer *im, int32_t *tensor, float fill);
#endif
