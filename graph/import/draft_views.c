/* Views under construction: other shapes, parts and sequences of tensors. */
#include "graph/import/draft_views.h"
#include "graph/import/operators/pointwise.h"

/* A transpose of matrices between two reshapes that take their batch together and apart again: a
   view that permutes what a reshape apart alone would give. */
static bool is_batched_transpose(const cleave_importer *im, int32_t source, int rank,
                                 const int64_t *shape, int32_t *before, int64_t *apart,
                                 int *permutation) {
    const cleave_tensor *turned = &im->tensors.items[source].tensor;
    if (turned->view.kind != CLEAVE_VIEW_TRANSPOSE || turned->view.permutation[0] != 0)
        return false;
    const cleave_tensor *flat = &im->tensors.items[turned->view.sources[0]].tensor;
    if (flat->view.kind != CLEAVE_VIEW_RESHAPE || rank != flat->rank + 1 ||
        flat->shape[0] != shape[0] * shape[1])
        return false;
    *before = flat->view.sources[0];
    bool is = true;
    for (int d = 0; d < 2; d++) {
        apart[d] = shape[d];
        permutation[d] = d;
    }
    for (int d = 1; is && d < flat->rank; d++) {
        apart[d + 1] = flat->shape[d];
        permutation[d + 1] = turned->view.permutation[d] + 1;
        is = shape[d + 1] == turned->shape[d];
    }
    return is;
}

cleave_status cleave_import_reshape(cleave_importer *im, const char *name, int32_t source, int rank,
                                    const int64_t *shape, int32_t *tensor) {
    const cleave_tensor *from = &im->tensors.items[source].tensor;
    if (cleave_has_shape(from, rank, shape)) {
        *tensor = source;
        return CLEAVE_OK;
    }
    if (from->view.kind == CLEAVE_VIEW_RESHAPE)
        return cleave_import_reshape(im, name, from->view.sources[0], rank, shape, tensor);
    int permutation[CLEAVE_MAX_RANK];
    int64_t apart[CLEAVE_MAX_RANK];
    int32_t before;
    if (is_batched_transpose(im, source, rank, shape, &before, apart, permutation)) {
        const char *inner = cleave_arena_printf(im->arena, "%s.apart", name != NULL ? name : "");
        if (inner == NULL)
            return cleave_import_no_memory(im);
        cleave_import_note_version(im, CLEAVE_LANGUAGE_GRAPH_VERSION);
        CLEAVE_TRY(cleave_import_reshape(im, inner, before, rank, apart, &before));
        return cleave_import_permute(im, name, before, permutation, tensor);
    }
    cleave_view view = {.kind = CLEAVE_VIEW_RESHAPE, .n_sources = 1, .sources = &source};
    return cleave_import_new_view(im, name, view, rank, shape, tensor);
}

cleave_status cleave_import_permute(cleave_importer *im, const char *name, int32_t source,
                                    const int *permutation, int32_t *tensor) {
    const cleave_tensor from = im->tensors.items[source].tensor;
    cleave_view view = {.kind = CLEAVE_VIEW_TRANSPOSE, .n_sources = 1, .sources = &source};
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    for (int d = 0; d < from.rank; d++) {
        view.permutation[d] = permutation[d];
        shape[d] = from.shape[permutation[d]];
    }
    return cleave_import_new_view(im, name, view, from.rank, shape, tensor);
}

void cleave_import_untranspose(const cleave_importer *im, int32_t *tensor, int *of) {
    for (const cleave_tensor *at = &im->tensors.items[*tensor].tensor;
         at->view.kind == CLEAVE_VIEW_TRANSPOSE; at = &im->tensors.items[*tensor].tensor) {
        int seen[CLEAVE_MAX_RANK];
        for (int d = 0; d < at->rank; d++)
            seen[d] = of[d];
        for (int d = 0; d < at->rank; d++)
            of[at->view.permutation[d]] = seen[d];
        *tensor = at->view.sources[0];
    }
}

cleave_status cleave_import_slice_axis(cleave_importer *im, const char *name, int32_t source,
                                       int axis, int64_t begin, int64_t step, int64_t extent,
                                       int32_t *result) {
    cleave_tensor from = im->tensors.items[source].tensor;
    cleave_view view = {.kind = CLEAVE_VIEW_SLICE, .n_sources = 1, .sources = &source};
    if (begin == 0 && step == 1 && extent == from.shape[axis]) {
        *result = source;
        return CLEAVE_OK;
    }
    for (int d = 0; d < from.rank; d++)
        view.step[d] = 1;
    view.begin[axis] = begin;
    view.step[axis] = step;
    from.shape[axis] = extent;
    return cleave_import_new_view(im, name, view, from.rank, from.shape, result);
}

cleave_status cleave_import_range(cleave_importer *im, const char *name, int32_t source, int axis,
                                  int64_t begin, int64_t extent, int32_t *result) {
    return cleave_import_slice_axis(im, name, source, axis, begin, 1, extent, result);
}

cleave_status cleave_import_pad_to(cleave_importer *im, const char *name, int32_t source,
                                   const int64_t *begin, const int64_t *shape, float fill,
                                   int32_t *result) {
    int rank = im->tensors.items[source].tensor.rank;
    cleave_view view = {.kind = CLEAVE_VIEW_PAD, .n_sources = 1, .sources = &source, .fill = fill};
    for (int d = 0; d < rank; d++) {
        view.begin[d] = begin[d];
        view.step[d] = 1;
    }
    return cleave_import_new_view(im, name, view, rank, shape, result);
}

static bool has_other_padding(const cleave_importer *im, int32_t tensor, float fill) {
    const cleave_view *view = &im->tensors.items[tensor].tensor.view;
    if (view->kind == CLEAVE_VIEW_NONE)
        return false;
    if (view->kind == CLEAVE_VIEW_PAD && (view->fill < fill || view->fill > fill))
        return true;
    for (int32_t i = 0; i < view->n_sources; i++)
        if (has_other_padding(im, view->sources[i], fill))
            return true;
    return false;
}

cleave_status cleave_import_settle_padding(cleave_importer *im, int32_t *tensor, float fill) {
    if (!has_other_padding(im, *tensor, fill))
        return CLEAVE_OK;
    return cleave_import_copy(im, NULL, *tensor, tensor);
}

/* Sources of different types all become floats, which computed integers are anyway. */
cleave_status cleave_import_join(cleave_importer *im, const char *name, int n, int32_t *sources,
                                 int axis, int32_t *result) {
    bool floats = false;
    for (int i = 0; i < n; i++)
        floats = floats || im->tensors.items[sources[i]].tensor.type == CLEAVE_F32;
    for (int i = 0; i < n && n > 1; i++) {
        CLEAVE_TRY(cleave_import_settle_padding(im, &sources[i], 0));
        if (floats && im->tensors.items[sources[i]].tensor.type != CLEAVE_F32)
            CLEAVE_TRY(cleave_import_copy(im, NULL, sources[i], &sources[i]));
    }
    if (n == 1) {
        *result = sources[0];
        return CLEAVE_OK;
    }
    cleave_tensor whole = im->tensors.items[sources[0]].tensor;
    for (int i = 1; i < n; i++)
        whole.shape[axis] += im->tensors.items[sources[i]].tensor.shape[axis];
    cleave_view view = {
        .kind = CLEAVE_VIEW_CONCAT, .n_sources = n, .sources = sources, .axis = axis};
    return cleave_import_new_view(im, name, view, whole.rank, whole.shape, result);
}
