/* Gemm and MatMul.

   Each dimension of an operand has a role: one of the batch dimensions, a row m, a column k, or
   summed c.  Transposed operands differ in their roles only; nothing is moved.  Where the first
   operand is a reshape that merges dimensions into the summed one (a flatten), the product reads
   what was there before it: c becomes several axes, such as c h w, the second operand is refined
   alike, and a parameter is stored so, its summed dimensions in the memory order of the
   activations. */
#include "graph/import_internal.h"

#include <string.h>

enum { ROLE_M = 100, ROLE_K = 101, ROLE_C = 110 /* and up: summed dimension 0, 1 ... */ };

typedef struct side {
    int32_t tensor;
    int rank;
    int role[CLEAVE_MAX_RANK]; /* below 100: dimension of the batch */
} side;

typedef struct product {
    side a, b;
    int n_batch, n_summed;
    int64_t batch[CLEAVE_MAX_RANK], m, k, summed[CLEAVE_MAX_RANK];
    const char *summed_name[CLEAVE_MAX_RANK];
    int summed_order[CLEAVE_MAX_RANK]; /* as the dimensions lie in a's memory, outermost first */
    bool has_m, has_k;
    int64_t n_features; /* product of summed */
} product;

static const cleave_tensor *tensor_of(const cleave_importer *im, const side *s) {
    return &im->tensors.items[s->tensor].tensor;
}

/* ---- refinement ------------------------------------------------------------------------------ */

/* Replaces a merged summed dimension, a's last one, by the dimensions that it merges. */
static void unmerge(cleave_importer *im, product *p) {
    const cleave_draft_tensor *merged = &im->tensors.items[p->a.tensor];
    int last = p->a.rank - 1;
    if (merged->tensor.view.kind != CLEAVE_VIEW_RESHAPE || p->a.role[last] != ROLE_C)
        return;
    int32_t source_id = merged->tensor.view.sources[0];
    const cleave_draft_tensor *source = &im->tensors.items[source_id];
    if (source->tensor.rank < p->a.rank)
        return;
    for (int d = 0; d < last; d++)
        if (source->tensor.shape[d] != merged->tensor.shape[d])
            return;
    p->a.tensor = source_id;
    p->a.rank = source->tensor.rank;
    p->n_summed = 0;
    for (int i = 0; i < p->a.rank; i++) {
        /* Dimensions of 1 are no axes, unless there is nothing else. */
        if (i < last || (source->tensor.shape[i] == 1 && p->n_features > 1) ||
            (p->n_features == 1 && i > last)) {
            p->a.role[i] = i < last ? p->a.role[i] : -1;
            continue;
        }
        p->summed[p->n_summed] = source->tensor.shape[i];
        p->summed_name[p->n_summed] = source->axes[i];
        p->a.role[i] = ROLE_C + p->n_summed++;
    }
    if (p->n_summed == 1)
        p->summed_name[0] = "c";
    int at = 0;
    for (int i = 0; i < p->a.rank; i++)
        if (p->a.role[source->tensor.order[i]] >= ROLE_C)
            p->summed_order[at++] = p->a.role[source->tensor.order[i]] - ROLE_C;
}

/* A parameter behind a transpose is read as it is. */
static void untranspose(const cleave_importer *im, side *s) {
    const cleave_tensor *tensor = tensor_of(im, s);
    if (tensor->view.kind != CLEAVE_VIEW_TRANSPOSE ||
        im->tensors.items[tensor->view.sources[0]].tensor.kind != CLEAVE_TENSOR_PARAMETER)
        return;
    int role[CLEAVE_MAX_RANK];
    memcpy(role, s->role, sizeof role);
    for (int d = 0; d < s->rank; d++)
        s->role[tensor->view.permutation[d]] = role[d];
    s->tensor = tensor->view.sources[0];
}

/* Gives b the summed dimensions that a has been found to have. */
static cleave_status refine_second(cleave_importer *im, product *p) {
    if (p->n_summed == 1) {
        untranspose(im, &p->b);
        return CLEAVE_OK;
    }
    side refined = {.tensor = p->b.tensor};
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    int order[CLEAVE_MAX_RANK] = {0};
    if (p->b.rank - 1 + p->n_summed > CLEAVE_MAX_RANK)
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
        for (int i = 0; i < p->n_summed; i++) {
            order[first + i] = first + p->summed_order[i];
            shape[first + i] = p->summed[i];
            refined.role[refined.rank++] = ROLE_C + i;
        }
    }
    CLEAVE_TRY(cleave_import_refine(im, 1, refined.rank, shape, order, &refined.tensor));
    p->b = refined;
    return CLEAVE_OK;
}

/* ---- the nest -------------------------------------------------------------------------------- */

typedef struct product_axes {
    int batch[CLEAVE_MAX_RANK], m, k, summed[CLEAVE_MAX_RANK];
} product_axes;

static cleave_status add_product_axes(cleave_importer *im, const product *p, int32_t op,
                                      product_axes *at) {
    static const char *const names[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    for (int i = 0; i < p->n_batch; i++)
        at->batch[i] = cleave_import_add_axis(im, op, names[i], p->batch[i], false);
    at->m = p->has_m ? cleave_import_add_axis(im, op, p->n_batch > 0 ? "m" : "n", p->m, false) : -1;
    at->k = p->has_k ? cleave_import_add_axis(im, op, "k", p->k, false) : -1;
    for (int i = 0; i < p->n_summed; i++) {
        at->summed[i] = cleave_import_add_axis(im, op, p->summed_name[i], p->summed[i], false);
        if (at->summed[i] < 0)
            return cleave_import_fail(im, "has more than %d axes", CLEAVE_MAX_AXES);
    }
    return CLEAVE_OK;
}

static void map_side(const cleave_importer *im, const product *p, const side *s,
                     const product_axes *at, cleave_operand *operand) {
    for (int d = 0; d < s->rank; d++) {
        int role = s->role[d];
        if (role < 0)
            cleave_map_offset(operand, d, 0);
        else if (role == ROLE_M)
            cleave_map_axis(operand, d, at->m);
        else if (role == ROLE_K)
            cleave_map_axis(operand, d, at->k);
        else if (role >= ROLE_C)
            cleave_map_axis(operand, d, at->summed[role - ROLE_C]);
        else if (tensor_of(im, s)->shape[d] == 1 && p->batch[role] != 1)
            cleave_map_offset(operand, d, 0);
        else
            cleave_map_axis(operand, d, at->batch[role]);
    }
}

static cleave_status new_product(cleave_importer *im, product *p, int32_t *op) {
    int rank = 0;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    int32_t output;
    product_axes at;
    p->n_features = p->summed[0];
    unmerge(im, p);
    CLEAVE_TRY(refine_second(im, p));
    cleave_import_initialise(im, p->a.tensor, p->n_features, 0);
    cleave_import_initialise(im, p->b.tensor, p->n_features, 0);
    for (int i = 0; i < p->n_batch; i++)
        shape[rank++] = p->batch[i];
    if (p->has_m)
        shape[rank++] = p->m;
    if (p->has_k)
        shape[rank++] = p->k;
    CLEAVE_TRY(cleave_import_new_operator(im, true, op));
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], *op, "", rank, shape, -1}, &output));
    CLEAVE_TRY(add_product_axes(im, p, *op, &at));
    cleave_nest nest = {.kind = CLEAVE_NEST_PRODUCT, .op = *op, .combiner = CLEAVE_COMBINE_SUM};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[*op]);
    int a = cleave_nest_add_input(&nest, p->a.tensor);
    int b = cleave_nest_add_input(&nest, p->b.tensor);
    map_side(im, p, &p->a, &at, &nest.inputs[a]);
    map_side(im, p, &p->b, &at, &nest.inputs[b]);
    cleave_nest_emit(&nest, CLEAVE_OP_MUL, a, b, 0, 0);
    /* The output's dimensions are the operator's first axes, and are called so. */
    for (int d = 0; d < rank; d++) {
        cleave_map_axis(&nest.output, d, d);
        im->tensors.items[output].axes[d] = im->operators.items[*op].axes[d].name;
    }
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &im->operators.items[*op].main_nest));
    im->operators.items[*op].output = output;
    im->operators.items[*op].fan_in = p->n_features;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

static product empty_product(void) {
    product p = {.n_summed = 1, .m = 1, .k = 1};
    p.summed_name[0] = "c";
    return p;
}

/* ---- Gemm ------------------------------------------------------------------------------------ */

/* alpha A B + beta C: scaling and adding happen in the tail. */
static cleave_status add_gemm_tail(cleave_importer *im, int32_t op, const product *p, double alpha,
                                   double beta) {
    int64_t shape[2] = {p->m, p->k};
    int32_t tail, bias;
    bool adds = cleave_import_has_input(im, 2) && beta != 0;
    if (alpha == 1 && !adds)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tail(im, op, 3, 1, &tail));
    if (alpha != 1)
        cleave_nest_emit(&im->nests.items[tail].nest, CLEAVE_OP_SCALE, 0, 0, alpha, 0);
    if (!adds)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tensor(im, 2, &bias));
    const cleave_tensor *tensor = &im->tensors.items[bias].tensor;
    for (int d = 0; d < tensor->rank; d++)
        if (tensor->rank > 2 ||
            (tensor->shape[d] != 1 && tensor->shape[d] != shape[2 - tensor->rank + d]))
            return cleave_import_fail(im, "dimension %d of %s does not fit a result of %lld x %lld",
                                      d, im->node->inputs[2], (long long)p->m, (long long)p->k);
    cleave_import_initialise(im, bias, p->n_features, 0);
    cleave_nest *nest = &im->nests.items[tail].nest;
    int input = cleave_nest_add_input(nest, bias), added = input, value = cleave_nest_value(nest);
    cleave_map_broadcast(&nest->inputs[input], &im->tensors.items[bias].tensor, 2, shape);
    if (beta != 1)
        added = cleave_nest_emit(nest, CLEAVE_OP_SCALE, input, 0, beta, 0);
    cleave_nest_emit(nest, CLEAVE_OP_ADD, value, added, 0, 0);
    return CLEAVE_OK;
}

cleave_status cleave_import_gemm(cleave_importer *im) {
    product p = empty_product();
    int64_t trans_a, trans_b;
    double alpha, beta;
    int32_t op;
    CLEAVE_TRY(cleave_import_integer(im, "transA", 0, &trans_a));
    CLEAVE_TRY(cleave_import_integer(im, "transB", 0, &trans_b));
    CLEAVE_TRY(cleave_import_number(im, "alpha", 1, &alpha));
    CLEAVE_TRY(cleave_import_number(im, "beta", 1, &beta));
    CLEAVE_TRY(cleave_import_tensor(im, 0, &p.a.tensor));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &p.b.tensor));
    const cleave_tensor *a = tensor_of(im, &p.a), *b = tensor_of(im, &p.b);
    if (a->rank != 2 || b->rank != 2)
        return cleave_import_fail(im, "its inputs have ranks %d and %d, both have to be 2", a->rank,
                                  b->rank);
    int ac = trans_a != 0 ? 0 : 1, bc = trans_b != 0 ? 1 : 0;
    p.a.rank = p.b.rank = 2;
    p.a.role[ac] = p.b.role[bc] = ROLE_C;
    p.a.role[1 - ac] = ROLE_M;
    p.b.role[1 - bc] = ROLE_K;
    p.has_m = p.has_k = true;
    p.m = a->shape[1 - ac];
    p.k = b->shape[1 - bc];
    p.summed[0] = a->shape[ac];
    if (b->shape[bc] != p.summed[0])
        return cleave_import_fail(im, "sums over %lld on one side and %lld on the other",
                                  (long long)p.summed[0], (long long)b->shape[bc]);
    CLEAVE_TRY(new_product(im, &p, &op));
    return add_gemm_tail(im, op, &p, alpha, beta);
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
    product p = empty_product();
    int32_t op;
    CLEAVE_TRY(cleave_import_tensor(im, 0, &p.a.tensor));
    CLEAVE_TRY(cleave_import_tensor(im, 1, &p.b.tensor));
    const cleave_tensor *a = tensor_of(im, &p.a), *b = tensor_of(im, &p.b);
    if (a->rank < 1 || b->rank < 1)
        return cleave_import_fail(im, "its inputs have ranks %d and %d, both have to be 1 or more",
                                  a->rank, b->rank);
    p.a.rank = a->rank;
    p.b.rank = b->rank;
    p.has_m = a->rank > 1;
    p.has_k = b->rank > 1;
    int bc = p.has_k ? b->rank - 2 : 0;
    p.summed[0] = a->shape[a->rank - 1];
    if (b->shape[bc] != p.summed[0])
        return cleave_import_fail(im, "sums over %lld on one side and %lld on the other",
                                  (long long)p.summed[0], (long long)b->shape[bc]);
    p.m = p.has_m ? a->shape[a->rank - 2] : 1;
    p.k = p.has_k ? b->shape[b->rank - 1] : 1;
    CLEAVE_TRY(read_batch(im, &p, p.has_m ? a->rank - 2 : 0, p.has_k ? b->rank - 2 : 0));
    p.a.role[p.a.rank - 1] = p.b.role[bc] = ROLE_C;
    if (p.has_m)
        p.a.role[p.a.rank - 2] = ROLE_M;
    if (p.has_k)
        p.b.role[p.b.rank - 1] = ROLE_K;
    return new_product(im, &p, &op);
}
