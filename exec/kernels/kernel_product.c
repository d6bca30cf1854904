/* Contractions of two operands into a third, by matrix products.

   Forward contracts a and b into the output; the gradient of a contracts the output's gradient and
   b into a's gradient, and so for b: one function with the roles permuted.  Call the operands X, Y
   and the result Z.  Every axis is in at least two of them: in all three (batch), in X and Z
   (rows), in Y and Z (columns), or in X and Y (summed).  Axes of one class that lie densely in both
   of its operands merge.  Of what remains, the best choice of one row, one column and one summed
   axis makes a matrix product; the others are looped over.

   What does the matrix products: exec/kernels/multiply.h. */
#include "exec/kernels/filled_rows.h"
#include "graph/model/filled.h"

#include <string.h>

enum { X, Y, Z, N_ROLES };
enum { BATCH, ROWS, COLUMNS, SUMMED, N_CLASSES };

typedef struct loop {
    int64_t extent, stride[N_ROLES];
} loop;

typedef struct loops {
    int n;
    loop items[CLEAVE_MAX_AXES];
} loops;

typedef struct contraction {
    int64_t base[N_ROLES];
    loops classes[N_CLASSES];
    int taken[N_CLASSES]; /* the loop of each class that the matrix product does; -1: none */
    bool swapped;         /* of the matrix product: Z^T = Y^T X^T */
    /* The class, or BATCH, and the strides of the loop along rows that may be zero. */
    int filled;
    int64_t filled_stride[N_ROLES];
} contraction;

/* X, Y and Z of a pass: forward, or the gradient of input `wanted`. */
static void choose_roles(const cleave_kernel_call *call, int wanted,
                         const cleave_operand **operands, const cleave_array **arrays) {
    const cleave_nest *nest = call->nest;
    if (wanted < 0) {
        for (int i = 0; i < 2; i++) {
            operands[i] = &nest->inputs[i];
            arrays[i] = &call->inputs[i];
        }
        operands[Z] = &nest->output;
        arrays[Z] = &call->output;
        return;
    }
    operands[X] = &nest->output;
    arrays[X] = &call->output_gradient;
    operands[Y] = &nest->inputs[1 - wanted];
    arrays[Y] = &call->inputs[1 - wanted];
    operands[Z] = &nest->inputs[wanted];
    arrays[Z] = &call->input_gradients[wanted];
}

static bool has_axis(const cleave_model *model, const cleave_operand *operand, int axis) {
    for (int d = 0; d < model->tensors[operand->tensor].rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++)
            if (operand->map[d].terms[t].axis == axis)
                return true;
    return false;
}

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

/* Inserts an axis into its class, loops of larger strides in the class' first operand outside. */
static void insert(loops *list, loop item, int by) {
    int i = list->n++;
    for (; i > 0 && list->items[i - 1].stride[by] < item.stride[by]; i--)
        list->items[i] = list->items[i - 1];
    list->items[i] = item;
}

static void merge(loops *list) {
    int n = 0;
    for (int i = 0; i < list->n; i++) {
        loop *item = &list->items[i], *before = n > 0 ? &list->items[n - 1] : NULL;
        bool dense = before != NULL;
        for (int role = 0; role < N_ROLES && dense; role++)
            dense = before->stride[role] == item->stride[role] * item->extent;
        if (dense) {
            before->extent *= item->extent;
            memcpy(before->stride, item->stride, sizeof item->stride);
        } else {
            list->items[n++] = *item;
        }
    }
    list->n = n;
}

/* Do the axes that Z has go through its elements, each once?  Its strides are then 1 and products
   of the extents below.  Sums of two axes, as a window's, meet elements twice and may leave out
   others. */
static bool covers(const contraction *c, int64_t size) {
    static const int classes[] = {BATCH, ROWS, COLUMNS};
    int64_t covered = 1;
    for (bool found = true; found;) {
        found = false;
        for (int k = 0; k < 3 && !found; k++)
            for (int i = 0; i < c->classes[classes[k]].n && !found; i++) {
                const loop *item = &c->classes[classes[k]].items[i];
                found = item->stride[Z] == covered;
                covered *= found ? item->extent : 1;
            }
    }
    return covered == size;
}

/* Sorts the axes into classes; false where the kernel does not fit. */
static bool classify(const cleave_kernel_call *call, int wanted, contraction *c) {
    const cleave_operand *operands[N_ROLES];
    const cleave_array *arrays[N_ROLES];
    cleave_reach reach[N_ROLES];
    choose_roles(call, wanted, operands, arrays);
    /* Windows are better off elsewhere; what a product has are rows between each other. */
    bool windows = call->nest->kind != CLEAVE_NEST_PRODUCT;
    *c = (contraction){.taken = {-1, -1, -1, -1}, .filled = BATCH};
    int filled = cleave_nest_filled_axis(call->model, call->nest);
    for (int role = 0; role < N_ROLES; role++) {
        const cleave_tensor *tensor = &call->model->tensors[operands[role]->tensor];
        for (int d = 0; d < tensor->rank && windows; d++)
            if (operands[role]->map[d].n_terms > 1 || (operands[role]->map[d].n_terms == 1 &&
                                                       operands[role]->map[d].terms[0].stride != 1))
                return false;
        reach[role] = cleave_kernel_reach(call, operands[role], arrays[role]);
        if (!reach[role].inside || tensor->type != CLEAVE_F32)
            return false;
        c->base[role] = reach[role].base;
    }
    for (int a = 0; a < call->nest->n_axes; a++) {
        bool in[N_ROLES];
        loop item = {.extent = call->part.hi[a] - call->part.lo[a]};
        for (int role = 0; role < N_ROLES; role++) {
            in[role] = has_axis(call->model, operands[role], a);
            item.stride[role] = reach[role].stride[a];
        }
        if (item.extent == 1)
            continue;
        int class = in[X] && in[Y] && in[Z] ? BATCH
                    : in[X] && in[Z]        ? ROWS
                    : in[Y] && in[Z]        ? COLUMNS
                    : in[X] && in[Y]        ? SUMMED
                                            : N_CLASSES;
        if (class == N_CLASSES)
            return false;
        insert(&c->classes[class], item, class == SUMMED ? Y : Z);
        if (a == filled) {
            c->filled = class;
            memcpy(c->filled_stride, item.stride, sizeof item.stride);
        }
    }
    bool covered = covers(c, cleave_kernel_array_size(call, operands[Z], arrays[Z]));
    for (int class = 0; class < N_CLASSES; class ++)
        merge(&c->classes[class]);
    return covered;
}

static loop taken_loop(const contraction *c, int class, int i) {
    return i < 0 ? (loop){.extent = 1} : c->classes[class].items[i];
}

/* Can a matrix whose rows and columns are these loops of an operand be given to BLAS, either as it
   is or transposed? */
static bool is_matrix(loop rows, loop columns, int role, bool *transposed, int64_t *row) {
    int64_t down = rows.stride[role], across = columns.stride[role];
    if ((columns.extent == 1 || across == 1) && (rows.extent == 1 || down >= columns.extent)) {
        *transposed = false;
        *row = rows.extent == 1 ? columns.extent : down;
        return true;
    }
    if ((rows.extent == 1 || down == 1) && (columns.extent == 1 || across >= rows.extent)) {
        *transposed = true;
        *row = columns.extent == 1 ? rows.extent : across;
        return true;
    }
    return false;
}

/* The matrix product of one choice of loops; false where some operand is no matrix. */
static bool make_product(const contraction *c, const int *taken, bool *swapped,
                         cleave_blas_product *product) {
    loop m = taken_loop(c, ROWS, taken[ROWS]), n = taken_loop(c, COLUMNS, taken[COLUMNS]),
         k = taken_loop(c, SUMMED, taken[SUMMED]);
    bool x_transposed, y_transposed;
    int64_t x_row, y_row, z_row;
    if (m.extent > INT32_MAX || n.extent > INT32_MAX || k.extent > INT32_MAX ||
        !is_matrix(m, k, X, &x_transposed, &x_row) || !is_matrix(k, n, Y, &y_transposed, &y_row) ||
        !is_matrix(m, n, Z, swapped, &z_row) || x_row > INT32_MAX || y_row > INT32_MAX ||
        z_row > INT32_MAX)
        return false;
    if (!*swapped)
        *product = (cleave_blas_product){.m = m.extent,
                                         .n = n.extent,
                                         .k = k.extent,
                                         .a_transposed = x_transposed,
                                         .b_transposed = y_transposed,
                                         .a_row = x_row,
                                         .b_row = y_row,
                                         .c_row = z_row};
    else
        *product = (cleave_blas_product){.m = n.extent,
                                         .n = m.extent,
                                         .k = k.extent,
                                         .a_transposed = !y_transposed,
                                         .b_transposed = !x_transposed,
                                         .a_row = y_row,
                                         .b_row = x_row,
                                         .c_row = z_row};
    return true;
}

/* Is the loop along rows that may be zero among those that the matrix product does? */
static bool takes_filled(const contraction *c, const int *taken) {
    int i = c->filled == BATCH ? -1 : taken[c->filled];
    return i >= 0 && memcmp(c->classes[c->filled].items[i].stride, c->filled_stride,
                            sizeof c->filled_stride) == 0;
}

/* The choice with the most work in each matrix product; better one along rows that may be zero. */
static void choose_loops(contraction *c, cleave_blas_product *product) {
    double most = 0;
    bool best_takes = false;
    int taken[N_CLASSES] = {-1, -1, -1, -1};
    for (taken[ROWS] = -1; taken[ROWS] < c->classes[ROWS].n; taken[ROWS]++)
        for (taken[COLUMNS] = -1; taken[COLUMNS] < c->classes[COLUMNS].n; taken[COLUMNS]++)
            for (taken[SUMMED] = -1; taken[SUMMED] < c->classes[SUMMED].n; taken[SUMMED]++) {
                cleave_blas_product candidate;
                bool swapped;
                if (!make_product(c, taken, &swapped, &candidate))
                    continue;
                double work = (double)candidate.m * (double)candidate.n * (double)candidate.k;
                bool takes = takes_filled(c, taken);
                if (takes == best_takes ? work > most : takes) {
                    most = work;
                    best_takes = takes;
                    *product = candidate;
                    c->swapped = swapped;
                    memcpy(c->taken, taken, sizeof taken);
                }
            }
}

/* The loops that the matrix product leaves over, the summed ones innermost. */
static loops remaining_loops(const contraction *c, int *n_outer) {
    loops rest = {0};
    for (int class = 0; class < N_CLASSES; class ++) {
        if (class == SUMMED)
            *n_outer = rest.n;
        for (int i = 0; i < c->classes[class].n; i++)
            if (i != c->taken[class])
                rest.items[rest.n++] = c->classes[class].items[i];
    }
    return rest;
}

static int64_t count_steps(const loops *rest) {
    int64_t steps = 1;
    for (int l = 0; l < rest->n; l++)
        steps *= rest->items[l].extent;
    return steps;
}

/* A contraction, taken apart. */
typedef struct taken_apart {
    contraction c;
    const cleave_array *arrays[N_ROLES];
    cleave_blas_product product;
    cleave_filled_place place; /* in it, of rows that may be zero */
    int n_outer;
    loops rest;
    int64_t steps;
} taken_apart;

/* Sums that are looped over are not rounded on their way, so the result has to be exact. */
static cleave_filled_place place_of(const taken_apart *t) {
    const contraction *c = &t->c;
    if (!takes_filled(c, c->taken))
        return CLEAVE_FILLED_NOT;
    if (c->filled == SUMMED)
        return t->arrays[Z]->type == CLEAVE_F32 ? CLEAVE_FILLED_SUMMED : CLEAVE_FILLED_NOT;
    return (c->filled == ROWS) != c->swapped ? CLEAVE_FILLED_ROWS : CLEAVE_FILLED_COLUMNS;
}

static taken_apart take_apart(const cleave_kernel_call *call, int wanted, double alpha) {
    taken_apart t = {.n_outer = 0};
    const cleave_operand *operands[N_ROLES];
    choose_roles(call, wanted, operands, t.arrays);
    classify(call, wanted, &t.c);
    choose_loops(&t.c, &t.product);
    t.place = place_of(&t);
    t.rest = remaining_loops(&t.c, &t.n_outer);
    t.product.alpha = (float)alpha;
    t.product.beta = wanted >= 0 && (call->accumulated >> wanted & 1) ? 1 : 0;
    t.steps = count_steps(&t.rest);
    return t;
}

static cleave_matrices matrices_at(const taken_apart *t, const int64_t *at) {
    cleave_matrices m = {.operand = cleave_type_bytes(t->arrays[X]->type),
                         .result = cleave_type_bytes(t->arrays[Z]->type)};
    int a = t->c.swapped ? Y : X, b = t->c.swapped ? X : Y;
    m.a_of = t->arrays[a]->data;
    m.b_of = t->arrays[b]->data;
    m.c_of = t->arrays[Z]->data;
    m.a = at[a] * m.operand;
    m.b = at[b] * m.operand;
    m.c = at[Z] * m.result;
    return m;
}

static cleave_status contract(const cleave_kernels *kernels, const cleave_kernel_call *call,
                              int wanted, double alpha, cleave_error *error) {
    taken_apart t = take_apart(call, wanted, alpha);
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, t.steps);
    int64_t index[CLEAVE_MAX_AXES] = {0}, at[N_ROLES] = {t.c.base[X], t.c.base[Y], t.c.base[Z]};
    for (;;) {
        cleave_matrices m = matrices_at(&t, at);
        cleave_blas_product product = t.product;
        for (int l = t.n_outer; l < t.rest.n; l++)
            if (index[l] > 0)
                product.beta = 1;
        CLEAVE_TRY(t.place == CLEAVE_FILLED_NOT
                       ? cleave_multiply_in_pieces(kernels, call, &product, &m,
                                                   call->pieces / t.steps, error)
                       : cleave_filled_multiply(kernels, call, &product, &m, t.place,
                                                call->pieces / t.steps, error));
        CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
        int l = t.rest.n - 1;
        for (; l >= 0; l--) {
            for (int role = 0; role < N_ROLES; role++)
                at[role] += t.rest.items[l].stride[role];
            if (++index[l] < t.rest.items[l].extent)
                break;
            for (int role = 0; role < N_ROLES; role++)
                at[role] -= t.rest.items[l].stride[role] * t.rest.items[l].extent;
            index[l] = 0;
        }
        if (l < 0)
            return CLEAVE_OK;
    }
}

/* The workspace of a contraction of bf16; -1: it has to be widened, since oneDNN has none, it is
   small, or sums would be rounded on their way. */
static int64_t workspace_of_halves(cleave_kernels *kernels, const cleave_kernel_call *call,
                                   int wanted, double alpha) {
    enum { SMALL = 1 << 15 }; /* multiply-adds */
    taken_apart t = take_apart(call, wanted, alpha);
    cleave_matrices m = matrices_at(&t, t.c.base);
    const cleave_blas_product *p = &t.product;
    if (t.arrays[X]->type != CLEAVE_BF16 || t.arrays[Y]->type != CLEAVE_BF16 ||
        !kernels->multiplies_bf16 || (double)p->m * (double)p->n * (double)p->k < SMALL ||
        (t.arrays[Z]->type == CLEAVE_BF16 && (t.rest.n > t.n_outer || p->beta > 0)))
        return -1;
    cleave_blas_product adds = *p; /* where sums are looped over, all steps but the first one */
    adds.beta = t.rest.n > t.n_outer ? 1 : p->beta;
    bool whole = t.place == CLEAVE_FILLED_NOT;
    int64_t pieces = call->pieces / t.steps,
            first = whole ? cleave_multiply_workspace(kernels, p, &m, pieces)
                          : cleave_filled_workspace(kernels, p, &m, t.place),
            later = whole ? cleave_multiply_workspace(kernels, &adds, &m, pieces)
                          : cleave_filled_workspace(kernels, &adds, &m, t.place);
    return first < 0 || later < 0 ? -1 : first > later ? first : later;
}

static bool is_half(const cleave_kernel_call *call, int wanted) {
    const cleave_operand *operands[N_ROLES];
    const cleave_array *arrays[N_ROLES];
    choose_roles(call, wanted, operands, arrays);
    return arrays[X]->type == CLEAVE_BF16 || arrays[Y]->type == CLEAVE_BF16 ||
           arrays[Z]->type == CLEAVE_BF16;
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
        int wanted = forward ? -1 : i;
        if (!(gradients >> i & 1))
            continue;
        if (!classify(call, wanted, &c))
            return -1;
        int64_t bytes =
            is_half(call, wanted) ? workspace_of_halves(kernels, call, wanted, alpha) : 0;
        if (bytes < 0)
            return -1;
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
    .passes = 1u << CLEAVE_PASS_FORWARD | 1u << CLEAVE_PASS_INPUT_GRADIENT |
              1u << CLEAVE_PASS_WEIGHT_GRADIENT,
    .accumulates = true,
    .takes_bf16 = true,
    .fits = fits,
    .workspace = find_workspace,
    .run = run,
};
