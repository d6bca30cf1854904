#include "exec/kernels/contraction.h"

#include "graph/model/filled.h"

#include <string.h>

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

/* Do the axes that Z has go through its elements, each once?  Of each, a step is then no shorter
   than all that the axes of shorter steps reach.  Sums of two axes, as a window's, meet elements
   twice and may leave out others. */
static bool covers(const contraction *c, int64_t size) {
    static const int classes[] = {BATCH, ROWS, COLUMNS};
    int64_t covered = 1, reached = 1;
    for (const loop *next = &(const loop){.extent = 1}; next != NULL;) {
        next = NULL;
        for (int k = 0; k < 3; k++)
            for (int i = 0; i < c->classes[classes[k]].n; i++) {
                const loop *item = &c->classes[classes[k]].items[i];
                if (item->stride[Z] >= reached &&
                    (next == NULL || item->stride[Z] < next->stride[Z]))
                    next = item;
            }
        if (next != NULL) {
            covered *= next->extent;
            reached = next->stride[Z] * next->extent;
        }
    }
    return covered == size;
}

/* Gives the packed role strides of its own, dense in the order of the loops. */
static bool pack(contraction *c) {
    static const bool has[N_ROLES][N_CLASSES] = {
        [X] = {[BATCH] = true, [ROWS] = true, [SUMMED] = true},
        [Y] = {[BATCH] = true, [SUMMED] = true, [COLUMNS] = true},
        [Z] = {[BATCH] = true, [ROWS] = true, [COLUMNS] = true}};
    cleave_copy_piece *move = &c->move;
    int role = c->packed;
    int64_t dense = 1, *own = role == Z ? move->source_stride : move->destination_stride,
            *foreign = role == Z ? move->destination_stride : move->source_stride;
    for (int class = N_CLASSES - 1; class >= 0; class --)
        for (int i = c->classes[class].n - 1; i >= 0 && has[role][class]; i--) {
            loop *item = &c->classes[class].items[i];
            if (move->rank == CLEAVE_MAX_RANK)
                return false;
            move->extent[move->rank] = item->extent;
            foreign[move->rank] = item->stride[role];
            own[move->rank++] = item->stride[role] = dense;
            dense *= item->extent;
        }
    *(role == Z ? &move->destination_offset : &move->source_offset) = c->base[role];
    move->type = move->source_type = c->arrays[role]->type;
    c->base[role] = 0;
    c->packed_elements = dense;
    return true;
}

/* Sorts the axes into classes, those of the packed role (-1: none) as they lie in the others; false
   where the kernel does not fit. */
static bool classify(const cleave_kernel_call *call, int wanted, int packed, contraction *c) {
    const cleave_operand *operands[N_ROLES];
    cleave_reach reach[N_ROLES];
    /* Windows are better off elsewhere; what a product has are rows between each other. */
    bool windows = call->nest->kind != CLEAVE_NEST_PRODUCT;
    *c = (contraction){.taken = {-1, -1, -1, -1}, .filled = BATCH, .packed = packed};
    choose_roles(call, wanted, operands, c->arrays);
    const int by[] = {packed == Z ? X : Z, packed == Z ? X : Z, packed == Z ? Y : Z,
                      packed == Y ? X : Y};
    int filled = cleave_nest_filled_axis(call->model, call->nest);
    for (int role = 0; role < N_ROLES; role++) {
        const cleave_tensor *tensor = &call->model->tensors[operands[role]->tensor];
        for (int d = 0; d < tensor->rank && windows; d++)
            if (operands[role]->map[d].n_terms > 1 || (operands[role]->map[d].n_terms == 1 &&
                                                       operands[role]->map[d].terms[0].stride != 1))
                return false;
        reach[role] = cleave_kernel_reach(call, operands[role], c->arrays[role]);
        if (!reach[role].inside || tensor->type != CLEAVE_F32)
            return false;
        c->base[role] = reach[role].base;
    }
    for (int a = 0; a < call->nest->n_axes; a++) {
        bool in[N_ROLES];
        loop item = {.extent = cleave_part_extent(&call->part, a)};
        for (int role = 0; role < N_ROLES; role++) {
            in[role] = cleave_operand_maps_axis(
                operands[role], call->model->tensors[operands[role]->tensor].rank, a);
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
        insert(&c->classes[class], item, by[class]);
        if (a == filled) {
            c->filled = class;
            memcpy(c->filled_stride, item.stride, sizeof item.stride);
        }
    }
    bool covered = covers(c, cleave_kernel_array_size(call, operands[Z], c->arrays[Z]));
    if (packed >= 0 && !pack(c))
        return false;
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

/* Sums that are looped over are not rounded on their way, so the result has to be exact. */
static cleave_filled_place place_of(const contraction *c) {
    if (!takes_filled(c, c->taken))
        return CLEAVE_FILLED_NOT;
    if (c->filled == SUMMED)
        return c->arrays[Z]->type == CLEAVE_F32 ? CLEAVE_FILLED_SUMMED : CLEAVE_FILLED_NOT;
    return (c->filled == ROWS) != c->swapped ? CLEAVE_FILLED_ROWS : CLEAVE_FILLED_COLUMNS;
}

static bool take_apart(const cleave_kernel_call *call, int wanted, double alpha, int packed,
                       contraction *c) {
    if (!classify(call, wanted, packed, c))
        return false;
    bool adds = wanted >= 0 && (call->accumulated >> wanted & 1);
    choose_loops(c, &c->product);
    c->place = place_of(c);
    c->rest = remaining_loops(c, &c->n_outer);
    c->product.alpha = (float)alpha;
    c->product.beta = adds && packed != Z ? 1 : 0;
    c->move.mode = adds && packed == Z ? CLEAVE_COPY_SUM : CLEAVE_COPY_ASSIGN;
    c->steps = count_steps(&c->rest);
    return true;
}

/* Multiply-adds of a matrix product, and the least of its extents. */
static double work_of(const contraction *c) {
    return (double)c->product.m * (double)c->product.n * (double)c->product.k;
}

static int64_t least_extent(const contraction *c) {
    const cleave_blas_product *p = &c->product;
    int64_t least = p->m < p->n ? p->m : p->n;
    return p->k < least ? p->k : least;
}

bool contraction_take_apart(const cleave_kernel_call *call, int wanted, double alpha,
                            contraction *c) {
    /* Matrix products below that are slower; moving an element takes as long as so many
       multiply-adds, of which there are many times more. */
    enum { SMALL_EXTENT = 128, WORK = 1024 };
    if (!take_apart(call, wanted, alpha, -1, c))
        return false;
    if (c->steps == 1 || c->filled != BATCH || least_extent(c) >= SMALL_EXTENT)
        return true;
    contraction best = *c;
    for (int role = 0; role < N_ROLES; role++) {
        contraction other;
        if (!take_apart(call, wanted, alpha, role, &other) || other.steps * 2 > c->steps ||
            (double)other.packed_elements * WORK > work_of(c) * (double)c->steps ||
            (other.move.mode == CLEAVE_COPY_SUM && other.move.type != CLEAVE_F32))
            continue;
        if (other.steps < best.steps ||
            (other.steps == best.steps && other.packed_elements < best.packed_elements))
            best = other;
    }
    *c = best;
    return true;
}
