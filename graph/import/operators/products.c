/* Gemm and MatMul.

   Each dimension of an operand has a role: one of the batch dimensions, a row m, a column k, or
   summed c.  Transposed operands differ in their roles only, and so do operands behind a transpose:
   nothing is moved.  Where the first operand is a reshape that merges dimensions, the product reads
   what was there before it.  Dimensions merged into the summed one (a flatten) become several axes,
   such as c h w; the second operand is refined alike, and a parameter is stored so, its summed
   dimensions in the memory order of the activations.  Of two activations they stay merged: what a
   query and a key have is one axis, however it was turned, and so they are seen as attention.
   Dimensions merged into rows become several row axes, and the output is that of ONNX before
   merging. */
#include "graph/import/draft_views.h"
#include "graph/import/internal.h"

/* ROLE_M, ROLE_C and up: row or summed dimension 0, 1 ... */
enum { ROLE_M = 100, ROLE_K = 110, ROLE_C = 120, ROLE_NONE = -1 };

typedef struct side {
    int32_t tensor;
    int rank;
    int role[CLEAVE_MAX_RANK]; /* below 100: dimension of the batch */
} side;

typedef struct dimensions {
    int n;
    int64_t extent[CLEAVE_MAX_RANK], size; /* size: their product */
    const char *name[CLEAVE_MAX_RANK];
} dimensions;

typedef struct product {
    side a, b;
    int n_batch;
    int64_t batch[CLEAVE_MAX_RANK], k;
    dimensions rows, summed;
    int summed_order[CLEAVE_MAX_RANK]; /* as the dimensions lie in a's memory, outermost first */
    bool has_k;
    bool keeps_rows; /* rows that were merged stay so */
} product;

static const cleave_tensor *tensor_of(const cleave_importer *im, const side *s) {
    return &im->tensors.items[s->tensor].tensor;
}

/* ---- refinement ------------------------------------------------------------------------------ */

/* Which dimensions of a source each dimension of its reshape merges: those from first[d] up to
   first[d + 1].  False where some are divided, or made from nothing. */
static bool find_groups(const cleave_tensor *source, const cleave_tensor *merged, int *first) {
    int at = 0;
    for (int d = 0; d < merged->rank; d++) {
        int64_t size = 1;
        first[d] = at;
        while (at < source->rank && (at == first[d] || size < merged->shape[d]))
            size *= source->shape[at++];
        if (size != merged->shape[d])
            return false;
    }
    for (first[merged->rank] = source->rank; at < source->rank; at++)
        if (source->shape[at] != 1)
            return false;
    return true;
}

/* Is it a parameter, or a view of one? */
static bool is_parameter(const cleave_importer *im, const side *s) {
    const cleave_tensor *at = tensor_of(im, s);
    while (at->view.kind != CLEAVE_VIEW_NONE)
        at = &im->tensors.items[at->view.sources[0]].tensor;
    return at->kind == CLEAVE_TENSOR_PARAMETER;
}

/* Replaces merged rows and a merged summed dimension of a by the dimensions that they merge. */
static void unmerge(cleave_importer *im, product *p) {
    const cleave_tensor *merged = tensor_of(im, &p->a);
    int first[CLEAVE_MAX_RANK + 1] = {0};
    if (merged->view.kind != CLEAVE_VIEW_RESHAPE)
        return;
    side from = {.tensor = merged->view.sources[0]};
    const cleave_draft_tensor *source = &im->tensors.items[from.tensor];
    from.rank = source->tensor.rank;
    if (!find_groups(&source->tensor, merged, first))
        return;
    for (int d = 0; d < p->a.rank; d++) {
        bool summed = p->a.role[d] >= ROLE_C, several = first[d + 1] - first[d] > 1;
        bool rows = p->a.role[d] == ROLE_M, none = first[d + 1] == first[d];
        if (none || (several && !summed && (!rows || p->keeps_rows)))
            return;
        if (several && summed && !is_parameter(im, &p->b)) {
            cleave_import_note_version(im, CLEAVE_GRAPH_VERSION);
            return;
        }
    }
    dimensions summed = {.size = p->summed.size}, row_dimensions = {.size = p->rows.size};
    for (int d = 0; d < p->a.rank; d++)
        for (int i = first[d]; i < first[d + 1]; i++) {
            bool is_summed = p->a.role[d] >= ROLE_C;
            dimensions *list = is_summed ? &summed : &row_dimensions;
            from.role[i] = p->a.role[d];
            if (!is_summed && p->a.role[d] != ROLE_M)
                continue;
            /* Summed dimensions of 1 are no axes, unless there is nothing else. */
            bool skipped =
                is_summed && source->tensor.shape[i] == 1 && (summed.size > 1 || i > first[d]);
            from.role[i] = skipped     ? ROLE_NONE
                           : is_summed ? ROLE_C + summed.n
                                       : ROLE_M + row_dimensions.n;
            if (skipped)
                continue;
            list->name[list->n] = source->axes[i];
            list->extent[list->n++] = source->tensor.shape[i];
        }
    p->a = from;
    p->summed = summed;
    p->rows = row_dimensions;
}

static void find_summed_order(const cleave_importer *im, product *p) {
    const cleave_tensor *tensor = tensor_of(im, &p->a);
    int at = 0;
    for (int i = 0; i < p->a.rank; i++)
        if (p->a.role[tensor->order[i]] >= ROLE_C)
            p->summed_order[at++] = p->a.role[tensor->order[i]] - ROLE_C;
}

/* Does anything but this product read b, or what is behind its transposes? */
static bool is_shared_weight(cleave_importer *im, const product *p) {
    const char *name = tensor_of(im, &p->b)->name;
    int32_t value = name != NULL ? cleave_name_map_find(&im->names, name) : -1;
    return cleave_import_is_shared(im, 1) || value < 0 || im->values.items[value].n_uses > 1;
}

/* Gives b the summed dimensions that a has been found to have. */
static cleave_status refine_second(cleave_importer *im, product *p) {
    if (p->summed.n == 1)
        return CLEAVE_OK;
    side refined = {.tensor = p->b.tensor};
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    int order[CLEAVE_MAX_RANK] = {0};
    if (p->b.rank - 1 + p->summed.n > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "its weight would have more than %d dimensions",
                                  CLEAVE_MAX_RANK);
    for (int d = 0; d < p->b.rank; d++) {
        int first = refined.rank;
        if (p->b.role[d] != ROLE_C) {
            order[first] = first;
            shape[first] = tensor_of(im, &p->b)->shape[d];
            refined.role[refined.rank++] = p->b.role[d];
            continue;
        }
        for (int i = 0; i < p->summed.n; i++) {
            order[first + i] = first + p->summed_order[i];
            shape[first + i] = p->summed.extent[i];
            refined.role[refined.rank++] = ROLE_C + i;
        }
    }
    CLEAVE_TRY(cleave_import_refine_tensor(im, p->b.tensor, is_shared_weight(im, p), refined.rank,
                                           shape, order, &refined.tensor));
    p->b = refined;
    return CLEAVE_OK;
}

/* Both operands as they are best read. */
static cleave_status refine(cleave_importer *im, product *p) {
    cleave_import_untranspose(im, &p->a.tensor, p->a.role);
    cleave_import_untranspose(im, &p->b.tensor, p->b.role);
    unmerge(im, p);
    cleave_import_untranspose(im, &p->a.tensor, p->a.role);
    if (p->summed.n == 1)
        p->summed.name[0] = "c";
    find_summed_order(im, p);
    return refine_second(im, p);
}

/* ---- the nest -------------------------------------------------------------------------------- */

typedef struct product_axes {
    int batch[CLEAVE_MAX_RANK], rows[CLEAVE_MAX_RANK], k, summed[CLEAVE_MAX_RANK];
} product_axes;

/* Called n where there is nothing else beside columns; else batch and rows are counted through, the
   last row being m. */
static cleave_status add_product_axes(cleave_importer *im, const product *p, int32_t op,
                                      product_axes *at) {
    static const char *const names[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    const char *last = p->n_batch > 0 || p->rows.n > 1 ? "m" : "n";
    if (p->n_batch + p->rows.n + (p->has_k ? 1 : 0) > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "has more than %d dimensions", CLEAVE_MAX_RANK);
    for (int i = 0; i < p->n_batch; i++)
        at->batch[i] = cleave_import_add_axis(im, op, names[i], p->batch[i], false);
    for (int i = 0; i < p->rows.n; i++)
        at->rows[i] = cleave_import_add_axis(
            im, op, i == p->rows.n - 1 ? last : names[p->n_batch + i], p->rows.extent[i], false);
    at->k = p->has_k ? cleave_import_add_axis(im, op, "k", p->k, false) : -1;
    for (int i = 0; i < p->summed.n; i++) {
        at->summed[i] =
            cleave_import_add_axis(im, op, p->summed.name[i], p->summed.extent[i], false);
        if (at->summed[i] < 0)
            return cleave_import_fail(im, "has more than %d axes", CLEAVE_MAX_AXES);
    }
    return CLEAVE_OK;
}

static void map_side(const cleave_importer *im, const product *p, const side *s,
                     const product_axes *at, cleave_operand *operand) {
    for (int d = 0; d < s->rank; d++) {
        int role = s->role[d];
        if (role == ROLE_NONE)
            cleave_map_offset(operand, d, 0);
        else if (role >= ROLE_C)
            cleave_map_axis(operand, d, at->summed[role - ROLE_C]);
        else if (role == ROLE_K)
            cleave_map_axis(operand, d, at->k);
        else if (role >= ROLE_M)
            cleave_map_axis(operand, d, at->rows[role - ROLE_M]);
        else if (tensor_of(im, s)->shape[d] == 1 && p->batch[role] != 1)
            cleave_map_offset(operand, d, 0);
        else
            cleave_map_axis(operand, d, at->batch[role]);
    }
}

/* The output that ONNX has: the product's, or a reshape of it where that has more rows. */
static cleave_status set_product_output(cleave_importer *im, const product *p, int32_t output) {
    int rank = 0;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    const char *name = im->node->outputs[0];
    if (p->rows.n > 1) {
        for (int i = 0; i < p->n_batch; i++)
            shape[rank++] = p->batch[i];
        shape[rank++] = p->rows.size;
        if (p->has_k)
            shape[rank++] = p->k;
        CLEAVE_TRY(cleave_import_reshape(im, name, output, rank, shape, &output));
    }
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

static cleave_status new_output(cleave_importer *im, const product *p, int32_t op,
                                int32_t *output) {
    int rank = 0;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    const char *name = im->node->outputs[0];
    for (int i = 0; i < p->n_batch; i++)
        shape[rank++] = p->batch[i];
    for (int i = 0; i < p->rows.n; i++)
        shape[rank++] = p->rows.extent[i];
    if (p->has_k)
        shape[rank++] = p->k;
    if (p->rows.n > 1)
        name = cleave_arena_printf(im->arena, "%s.before_reshape", name);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(
        cleave_import_new_tensor(im, (cleave_new_tensor){name, op, "", rank, shape, -1}, output));
    /* The output's dimensions are the operator's first axes, and are called so. */
    for (int d = 0; d < rank; d++)
        im->tensors.items[*output].axes[d] = im->operators.items[op].axes[d].name;
    return CLEAVE_OK;
}

static cleave_status new_product(cleave_importer *im, product *p, int32_t *op) {
    int32_t output;
    product_axes at;
    CLEAVE_TRY(refine(im, p));
    cleave_import_initialise(im, p->a.tensor, p->summed.size, 0);
    cleave_import_initialise(im, p->b.tensor, p->summed.size, 0);
    CLEAVE_TRY(cleave_import_new_operator(im, true, op));
    CLEAVE_TRY(add_product_axes(im, p, *op, &at));
    CLEAVE_TRY(new_output(im, p, *op, &output));
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = *op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[*op]);
    int a = cleave_nest_add_input(&nest, p->a.tensor);
    int b = cleave_nest_add_input(&nest, p->b.tensor);
    map_side(im, p, &p->a, &at, &nest.inputs[a]);
    map_side(im, p, &p->b, &at, &nest.inputs[b]);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, a, b, 0, 0);
    for (int d = 0; d < im->tensors.items[output].tensor.rank; d++)
        cleave_map_axis(&nest.output, d, d);
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[*op].main_nest));
    im->operators.items[*op].output = output;
    im->operators.items[*op].fan_in = p->summed.size;
    return set_product_output(im, p, output);
}

static void set_dimension(dimensions *list, int64_t extent) {
    *list = (dimensions){.n = 1, .extent = {extent}, .size = extent};
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* Does C fit a result of m rows?  Where it differs from row to row, merged rows stay merged. */
static cleave_status check_gemm_addend(cleave_importer *im, product *p, int32_t addend) {
    const cleave_tensor *tensor = &im->tensors.items[addend].tensor;
    int64_t shape[2] = {p->rows.size, p->k};
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->rank > 2 ||
            (tensor->shape[d] != 1 && tensor->shape[d] != shape[2 - tensor->rank + d]))
            return cleave_import_fail(im, "dimension %d of %s does not fit a result of %lld x %lld",
                                      d, im->node->inputs[2], (long long)shape[0],
                                      (long long)shape[1]);
    p->keeps_rows = tensor->rank == 2 && tensor->shape[0] != 1;
    return CLEAVE_OK;
}

/* alpha A B + beta C: scaling and adding happen in the tail. */
static cleave_status add_gemm_tail(cleave_importer *im, int32_t op, int32_t addend, double alpha,
                                   double beta) {
    int32_t tail;
    if (alpha == 1 && addend < 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tail(im, op, 3, 1, &tail));
    cleave_nest *nest = &im->nests.items[tail].nest;
    if (alpha != 1)
        cleave_nest_emit(nest, CLEAVE_OP_SCALE, 0, 0, alpha, 0);
    if (addend < 0)
        return CLEAVE_OK;
    cleave_import_initialise(im, addend, im->operators.items[op].fan_in, 0);
    int input = cleave_nest_add_input(nest, addend), value = cleave_nest_value(nest), added = input;
    const cleave_tensor *output = &im->tensors.items[nest->output.tensor].tensor;
    cleave_map_broadcast(&nest->inputs[input], &im->tensors.items[addend].tensor, output->rank,
                         output->shape);
    if (beta != 1)
        added = cleave_nest_emit(nest, CLEAVE_OP_SCALE, input, 0, beta, 0);
    cleave_nest_emit(nest, CLEAVE_OP_ADD, value, added, 0, 0);
    return CLEAVE_OK;
}

cleave_status cleave_import_gemm(cleave_importer *im) {
    product p = {.has_k = true};
    int64_t trans_a, trans_b;
    double alpha, beta;
    int32_t op, addend = -1;
    CLEAVE_TRY(cleave_import_integer(im, "transA", 0, &trans_a));
    CLEAVE_TRY(cleave_import_integer(im, "transB", 0, &trans_b));
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    CLEAVE_TRY(cleave_import_number(im, "beta", 1, &beta));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &p.a.tensor));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &p.b.tensor));
    if (cleave_import_has_input(im, 2) && beta != 0)
        CLEAVE_TRY(cleave_import_tensor(im, 2, &addend));
    const cleave_tensor *a = tensor_of(im, &p.a), *b = tensor_of(im, &p.b);
    if (a->rank != 2 || b->rank != 2)
        return cleave_import_fail(im, "its inputs have ranks %d and %d, both have to be 2", a->rank,
                                  b->rank);
    int ac = trans_a != 0 ? 0 : 1, bc = trans_b != 0 ? 1 : 0;
    p.a.rank = p.b.rank = 2;
    p.a.role[ac] = p.b.role[bc] = ROLE_C;
    p.a.role[1 - ac] = ROLE_M;
    p.b.role[1 - bc] = ROLE_K;
    p.k = b->shape[1 - bc];
    set_dimension(&p.rows, a->shape[1 - ac]);
    set_dimension(&p.summed, a->shape[ac]);
    if (b->shape[bc] != p.summed.size)
        return cleave_import_fail(im, "sums over %lld on one side and %lld on the other",
                                  (long long)p.summed.size, (long long)b->shape[bc]);
    if (addend >= 0)
        CLEAVE_TRY(check_gemm_addend(im, &p, addend));
    CLEAVE_TRY(new_product(im, &p, &op));
    return add_gemm_tail(im, op, addend, alpha, beta);
}

/* ---- MatMul ---------------------------------------------------------------------------------- */

/* Batch dimensions of both sides, aligned at the last one. */
static cleave_status read_batch(cleave_importer *im, product *p, int a_batch, int b_batch) {
    p->n_batch = a_batch > b_batch ? a_batch : b_batch;
    for (int i = 0; i < p->n_batch; i++)
        p->batch[i] = 1;
    side *sides[2] = {&p->a, &p->b};
    int counts[2] = {a_batch, b_batch};
    for (int s = 0; s < 2; s++)
        for (int d = 0; d < counts[s]; d++) {
            int i = p->n_batch - counts[s] + d;
            int64_t extent = tensor_of(im, sides[s])->shape[d];
            if (extent != 1 && p->batch[i] != 1 && extent != p->batch[i])
                return cleave_import_fail(im, "batch dimensions %lld and %lld do not fit",
                                          (long long)p->batch[i], (long long)extent);
            p->batch[i] = extent != 1 ? extent : p->batch[i];
            sides[s]->role[d] = i;
        }
    return CLEAVE_OK;
}

cleave_status cleave_import_matmul(cleave_importer *im) {
    product p = {0};
    int32_t op;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &p.a.tensor));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &p.b.tensor));
    const cleave_tensor *a = tensor_of(im, &p.a), *b = tensor_of(im, &p.b);
    if (a->rank < 1 || b->rank < 1)
        return cleave_import_fail(im, "its inputs have ranks %d and %d, both have to be 1 or more",
                                  a->rank, b->rank);
    p.a.rank = a->rank;
    p.b.rank = b->rank;
    bool has_rows = a->rank > 1;
    p.has_k = b->rank > 1;
    int bc = p.has_k ? b->rank - 2 : 0;
    set_dimension(&p.summed, a->shape[a->rank - 1]);
    if (b->shape[bc] != p.summed.size)
        return cleave_import_fail(im, "sums over %lld on one side and %lld on the other",
                                  (long long)p.summed.size, (long long)b->shape[bc]);
    if (has_rows)
        set_dimension(&p.rows, a->shape[a->rank - 2]);
    p.k = p.has_k ? b->shape[b->rank - 1] : 1;
    CLEAVE_TRY(read_batch(im, &p, has_rows ? a->rank - 2 : 0, p.has_k ? b->rank - 2 : 0));
    p.a.role[p.a.rank - 1] = p.b.role[bc] = ROLE_C;
    if (has_rows)
        p.a.role[p.a.rank - 2] = ROLE_M;
    if (p.has_k)
        p.b.role[p.b.rank - 1] = ROLE_K;
    return new_product(im, &p, &op);
}
