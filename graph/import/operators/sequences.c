/* SplitToSequence and SequenceAt, which exporters write for parts of a tensor: each part that is
   taken, at a place that is known, is a range of that tensor.  No other sequence is supported. */
#include "graph/import/operators/movement.h"

#include <string.h>

/* The parts: sizes that are listed; or all alike, the last one smaller; or single elements, with
   their dimension or without. */
typedef struct parts {
    int32_t source;
    bool shared, keeps;
    int axis;
    int64_t n, size;       /* of parts; of each, where no sizes are listed */
    const int64_t *listed; /* [n], or null */
} parts;

static cleave_status read_sizes(cleave_importer *im, int64_t extent, parts *p) {
    const cleave_onnx_tensor *sizes = cleave_import_constant(im, 1);
    if (!cleave_import_has_input(im, 1)) {
        p->size = 1;
        p->n = extent;
        return CLEAVE_OK;
    }
    if (sizes == NULL || sizes->integers == NULL || sizes->rank > 1 || sizes->n < 1)
        return cleave_import_fail(im, "split (input %s) has to be a constant of integers",
                                  im->node->inputs[1]);
    if (sizes->rank == 0) {
        p->size = sizes->integers[0];
        if (p->size < 1)
            return cleave_import_fail(im, "parts of %lld elements are not possible",
                                      (long long)p->size);
        p->n = (extent - 1) / p->size + 1;
        return CLEAVE_OK;
    }
    int64_t left = extent;
    p->n = sizes->n;
    p->listed = sizes->integers;
    for (int64_t i = 0; i < p->n; i++) {
        if (p->listed[i] < 1 || p->listed[i] > left)
            return cleave_import_fail(im, "its %lld sizes are not those of parts of %lld elements",
                                      (long long)p->n, (long long)extent);
        left -= p->listed[i];
    }
    return left == 0 ? CLEAVE_OK
                     : cleave_import_fail(im, "its %lld sizes leave %lld of %lld elements",
                                          (long long)p->n, (long long)left, (long long)extent);
}

static cleave_status read_parts(cleave_importer *im, parts *p) {
    int64_t axis, keeps;
    *p = (parts){.shared = cleave_import_is_shared(im, 0)};
    CLEAVE_TRY(cleave_import_value_tensor(im, cleave_import_input(im, 0), &p->source));
    const cleave_tensor from = im->tensors.items[p->source].tensor;
    CLEAVE_TRY(cleave_import_integer(im, "axis", 0, &axis));
    CLEAVE_TRY(cleave_import_integer(im, "keepdims", 1, &keeps));
    CLEAVE_TRY(cleave_import_axis(im, axis, from.rank, &p->axis));
    p->keeps = keeps != 0 || cleave_import_has_input(im, 1);
    return read_sizes(im, from.shape[p->axis], p);
}

/* Parts are made where they are taken. */
cleave_status cleave_import_split_to_sequence(cleave_importer *im) {
    parts p;
    for (int32_t i = 0; i < im->graph.n_outputs; i++)
        if (strcmp(im->graph.outputs[i].name, im->node->outputs[0]) == 0)
            return cleave_import_fail(im, "the sequence %s is an output of the graph",
                                      im->node->outputs[0]);
    CLEAVE_TRY(read_parts(im, &p));
    cleave_import_set_type(im, 0, cleave_import_type(cleave_import_input(im, 0)));
    return CLEAVE_OK;
}

cleave_status cleave_import_sequence_at(cleave_importer *im) {
    const cleave_onnx_node *node = im->node;
    int32_t maker = cleave_import_input(im, 0)->producer, part;
    double wanted;
    parts p;
    CLEAVE_TRY(cleave_import_scalar(im, 1, 0, &wanted));
    if (maker < 0 || strcmp(im->graph.nodes[maker].type, "SplitToSequence") != 0)
        return cleave_import_fail(im, "takes from %s, which no SplitToSequence makes",
                                  node->inputs[0]);
    im->node = &im->graph.nodes[maker];
    cleave_status status = read_parts(im, &p);
    im->node = node;
    CLEAVE_TRY(status);
    if (!(wanted >= (double)-p.n && wanted < (double)p.n))
        return cleave_import_fail(im, "takes part %g of %lld", wanted, (long long)p.n);
    cleave_tensor from = im->tensors.items[p.source].tensor;
    int64_t i = (int64_t)wanted + (wanted < 0 ? p.n : 0), begin = i * p.size, end;
    for (int64_t k = 0; k < i && p.listed != NULL; k++)
        begin += p.listed[k];
    end = begin + (p.listed != NULL ? p.listed[i] : p.size);
    end = end < from.shape[p.axis] ? end : from.shape[p.axis];
    const char *name =
        p.keeps ? node->outputs[0] : cleave_arena_printf(im->arena, "%s.kept", node->outputs[0]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(cleave_import_range(im, name, p.source, p.axis, begin, end - begin, &part));
    for (int d = p.axis; d + 1 < from.rank && !p.keeps; d++)
        from.shape[d] = from.shape[d + 1];
    if (!p.keeps)
        CLEAVE_TRY(
            cleave_import_reshape(im, node->outputs[0], part, from.rank - 1, from.shape, &part));
    cleave_import_set_output(im, 0, part, p.shared);
    return CLEAVE_OK;
}
