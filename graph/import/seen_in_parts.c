/* Parameters that are seen in parts.

   A file may have several weights in one: side by side, or taking turns, as gate and up of an
   expert, or queries, keys and values of a head.  The graph makes these, and what each has of them,
   dimensions of their own.  Of the file's shape, what an operator reads that is split within them
   is a box of each, thousands of a large model where they take turns, all of which would be
   lowered, moved and priced by themselves; and a device holds of a parameter the box around all
   that it reads, which of sides that lie one behind the other is more than half.  Of the finer
   shape it is one box, and no more than is read.  So a parameter that is read in no other shape is
   stored in that one: the same elements in the same order. */
#include "graph/import/internal.h"

enum { UNREAD = -1, OTHERWISE = -2 };

/* How each tensor is read, [n_tensors]. */
typedef struct readers {
    int32_t *reshape; /* the first reshape, all others having its shape; UNREAD, or OTHERWISE */
} readers;

static const cleave_tensor *tensor_of(const cleave_importer *im, int32_t tensor) {
    return &im->tensors.items[tensor].tensor;
}

static void note_view(const cleave_importer *im, readers *r, int32_t view) {
    const cleave_tensor *of = tensor_of(im, view);
    for (int32_t i = 0; of->view.kind != CLEAVE_VIEW_NONE && i < of->view.n_sources; i++) {
        int32_t *known = &r->reshape[of->view.sources[i]];
        if (of->view.kind != CLEAVE_VIEW_RESHAPE)
            *known = OTHERWISE;
        else if (*known == UNREAD)
            *known = view;
        else if (*known != OTHERWISE &&
                 !cleave_has_shape(of, tensor_of(im, *known)->rank, tensor_of(im, *known)->shape))
            *known = OTHERWISE;
    }
}

static void note_others(const cleave_importer *im, const cleave_model *model, readers *r) {
    for (int32_t i = 0; i < im->nests.n; i++)
        for (int k = 0; k < im->nests.items[i].nest.n_inputs; k++)
            r->reshape[im->nests.items[i].nest.inputs[k].tensor] = OTHERWISE;
    for (int32_t i = 0; i < model->n_outputs; i++)
        r->reshape[model->outputs[i]] = OTHERWISE;
    for (int32_t i = 0; i < im->assignments.n; i++)
        r->reshape[im->assignments.items[i].target] = r->reshape[im->assignments.items[i].source] =
            OTHERWISE;
}

/* Does each dimension of a tensor become one or several of the finer one? */
static bool divides(const cleave_tensor *tensor, const cleave_tensor *finer) {
    int at = 0;
    for (int d = 0; d < tensor->rank; d++) {
        int64_t size = 1;
        for (int first = at; at < finer->rank && (at == first || size < tensor->shape[d]);)
            size *= finer->shape[at++];
        if (size != tensor->shape[d])
            return false;
    }
    return at == finer->rank;
}

static cleave_status store(cleave_importer *im, const readers *r, int32_t tensor) {
    const cleave_tensor *of = tensor_of(im, tensor);
    int32_t reshape = r->reshape[tensor], stored;
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE ||
        of->file_rank > 0 || reshape < 0)
        return CLEAVE_OK;
    const cleave_tensor seen = *tensor_of(im, reshape);
    int order[CLEAVE_MAX_RANK];
    if (seen.rank <= of->rank || !divides(of, &seen))
        return CLEAVE_OK;
    for (int d = 0; d < seen.rank; d++)
        order[d] = d;
    cleave_import_note_version(im, CLEAVE_PARTS_GRAPH_VERSION);
    return cleave_import_refine_tensor(im, tensor, false, seen.rank, seen.shape, order, &stored);
}

cleave_status cleave_import_store_as_seen(cleave_importer *im, const cleave_model *model) {
    readers r = {.reshape = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->tensors.n)};
    if (r.reshape == NULL)
        return cleave_import_no_memory(im);
    for (int32_t t = 0; t < im->tensors.n; t++)
        r.reshape[t] = UNREAD;
    for (int32_t t = 0; t < im->tensors.n; t++)
        note_view(im, &r, t);
    note_others(im, model, &r);
    for (int32_t t = 0; t < im->tensors.n; t++)
        CLEAVE_TRY(store(im, &r, t));
    return CLEAVE_OK;
}
