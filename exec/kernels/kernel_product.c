/* Contractions of two operands into a third, by matrix products.

   Forward contracts a and b into the output; the gradient of a contracts the output's gradient and
   b into a's gradient, and so for b: one function with the roles permuted, and what
   exec/kernels/contraction.h makes of them.  What does the matrix products:
   exec/kernels/multiply.h. */
#include "exec/kernels/contraction.h"
#include "exec/kernels/copy.h"

/* Does the nest compute alpha x a x b? */
static bool is_scaled_product(const cleave_nest *nest, double *alpha) {
    const cleave_instruction *tape = nest->tape;
    *alpha = 1;
    if (nest->n_inputs != 2 || nest->n_instructions < 1 || nest->n_instructions > 2)
        return false;
    if (tape[0].opcode != CLEAVE_OP_MUL || tape[0].a + tape[0].b != 1 || tape[0].a == tape[0].b)
        return false;
    if (nest->n_instructions == 1)
        return true;
    *alpha = tape[1].p;
    return tape[1].opcode == CLEAVE_OP_SCALE && tape[1].a == 2 && tape[1].q >= 0 && tape[1].q <= 0;
}

/* `packed`: where the packed role lies. */
static cleave_matrices matrices_at(const contraction *c, void *packed, const int64_t *at) {
    cleave_matrices m = {.operand = cleave_type_bytes(c->arrays[X]->type),
                         .result = cleave_type_bytes(c->arrays[Z]->type)};
    int a = c->swapped ? Y : X, b = c->swapped ? X : Y;
    m.a_of = c->packed == a ? packed : c->arrays[a]->data;
    m.b_of = c->packed == b ? packed : c->arrays[b]->data;
    m.c_of = c->packed == Z ? packed : c->arrays[Z]->data;
    m.a = at[a] * m.operand;
    m.b = at[b] * m.operand;
    m.c = at[Z] * m.result;
    return m;
}

static int64_t packed_bytes(const contraction *c) {
    if (c->packed < 0)
        return 0;
    return (c->packed_elements * cleave_type_bytes(c->arrays[c->packed]->type) + 63) / 64 * 64;
}

/* All matrix products, one after the other. */
static cleave_status multiply_all(const cleave_kernels *kernels, const cleave_kernel_call *call,
                                  const contraction *c, void *packed, cleave_error *error) {
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, c->steps);
    int64_t index[CLEAVE_MAX_AXES] = {0}, at[N_ROLES] = {c->base[X], c->base[Y], c->base[Z]};
    for (;;) {
        cleave_matrices m = matrices_at(c, packed, at);
        cleave_blas_product product = c->product;
        for (int l = c->n_outer; l < c->rest.n; l++)
            if (index[l] > 0)
                product.beta = 1;
        CLEAVE_TRY(c->place == CLEAVE_FILLED_NOT
                       ? cleave_multiply_in_pieces(kernels, call, &product, &m,
                                                   call->pieces / c->steps, error)
                       : cleave_filled_multiply(kernels, call, &product, &m, c->place,
                                                call->pieces / c->steps, error));
        CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
        int l = c->rest.n - 1;
        for (; l >= 0; l--) {
            for (int role = 0; role < N_ROLES; role++)
                at[role] += c->rest.items[l].stride[role];
            if (++index[l] < c->rest.items[l].extent)
                break;
            for (int role = 0; role < N_ROLES; role++)
                at[role] -= c->rest.items[l].stride[role] * c->rest.items[l].extent;
            index[l] = 0;
        }
        if (l < 0)
            return CLEAVE_OK;
    }
}

static cleave_status contract(const cleave_kernels *kernels, const cleave_kernel_call *call,
                              int wanted, double alpha, cleave_error *error) {
    contraction c;
    if (!contraction_take_apart(call, wanted, alpha, &c))
        return cleave_fail(error, CLEAVE_FAILED, "the product kernel does not fit nest %s",
                           call->nest->name);
    cleave_kernel_call behind = *call; /* the workspace that is left */
    int64_t bytes = packed_bytes(&c);
    if (bytes > 0)
        behind.workspace = (char *)call->workspace + bytes;
    behind.workspace_bytes -= bytes;
    if (c.packed == X || c.packed == Y)
        cleave_copy_piece_run(&c.move, call->workspace, c.arrays[c.packed]->data);
    CLEAVE_TRY(multiply_all(kernels, &behind, &c, call->workspace, error));
    if (c.packed == Z)
        cleave_copy_piece_run(&c.move, c.arrays[Z]->data, call->workspace);
    return CLEAVE_OK;
}

/* The workspace of a contraction of bf16; -1: it has to be widened, since oneDNN has none, it is
   small, or sums would be rounded on their way. */
static int64_t workspace_of_halves(cleave_kernels *kernels, const cleave_kernel_call *call,
                                   const contraction *c) {
    enum { SMALL = 1 << 15 }; /* multiply-adds */
    cleave_matrices m = matrices_at(c, NULL, c->base);
    const cleave_blas_product *p = &c->product;
    if (c->arrays[X]->type != CLEAVE_BF16 || c->arrays[Y]->type != CLEAVE_BF16 ||
        !kernels->multiplies_bf16 || (double)p->m * (double)p->n * (double)p->k < SMALL ||
        (c->arrays[Z]->type == CLEAVE_BF16 && (c->rest.n > c->n_outer || p->beta > 0)))
        return -1;
    cleave_blas_product adds = *p; /* where sums are looped over, all steps but the first one */
    adds.beta = c->rest.n > c->n_outer ? 1 : p->beta;
    bool whole = c->place == CLEAVE_FILLED_NOT;
    int64_t pieces = call->pieces / c->steps,
            first = whole ? cleave_multiply_workspace(kernels, p, &m, pieces)
                          : cleave_filled_workspace(kernels, p, &m, c->place),
            later = whole ? cleave_multiply_workspace(kernels, &adds, &m, pieces)
                          : cleave_filled_workspace(kernels, &adds, &m, c->place);
    return first < 0 || later < 0 ? -1 : first > later ? first : later;
}

static bool is_half(const contraction *c) {
    return c->arrays[X]->type == CLEAVE_BF16 || c->arrays[Y]->type == CLEAVE_BF16 ||
           c->arrays[Z]->type == CLEAVE_BF16;
}

/* Of all contractions of a call, the most workspace; -1: it does not fit. */
static int64_t find_workspace(cleave_kernels *kernels, const cleave_kernel_call *call) {
    double alpha;
    contraction c;
    if (!is_scaled_product(call->nest, &alpha) || call->nest->combiner > CLEAVE_COMBINE_SUM)
        return -1;
    bool forward = call->pass == CLEAVE_PASS_FORWARD;
    uint32_t gradients = forward ? 1 : cleave_kernel_gradients(call);
    int64_t most = 0;
    for (int i = 0; i < 2; i++) {
        if (!(gradients >> i & 1))
            continue;
        if (!contraction_take_apart(call, forward ? -1 : i, alpha, &c))
            return -1;
        int64_t bytes = is_half(&c) ? workspace_of_halves(kernels, call, &c) : 0;
        if (bytes < 0)
            return -1;
        bytes += packed_bytes(&c);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    return find_workspace(kernels, call) >= 0;
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    double alpha;
    is_scaled_product(call->nest, &alpha);
    if (call->pass == CLEAVE_PASS_FORWARD)
        return contract(kernels, call, -1, alpha, error);
    uint32_t gradients = cleave_kernel_gradients(call);
    for (int i = 0; i < 2; i++)
        if (gradients >> i & 1)
            CLEAVE_TRY(contract(kernels, call, i, alpha, error));
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_product_kernel = {
    .name = "product",
    .kinds = 1u << CLEAVE_NEST_PRODUCT | 1u << CLEAVE_NEST_CONVOLUTION,
    .passes = ~0u,
    .accumulates = true,
    .takes_bf16 = true,
    .takes_gaps = true,
    .fits = fits,
    .workspace = find_workspace,
    .run = run,
};
