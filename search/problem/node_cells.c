#include "search/problem/node_cells.h"

static int32_t degree_of(const cleave_nest *nest, int axis, const cleave_split *split) {
    return nest->operator_axis[axis] < 0 ? 1 : split->degree[nest->operator_axis[axis]];
}

/* Of an output of so many dimensions those that a part's block along an axis decides, bit by bit.
 */
static uint32_t dimensions_of(const cleave_operand *output, int rank, int axis) {
    uint32_t dimensions = 0;
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < output->map[d].n_terms; t++)
            if (output->map[d].terms[t].axis == axis)
                dimensions |= UINT32_C(1) << d;
    return dimensions;
}

/* How parts differ along an axis of an operator. */
typedef enum unlike {
    UNLIKE_NOT,
    UNLIKE_IN_SIZE, /* the first ones are longer by one than the others */
    UNLIKE_EACH
} unlike;

static void note(unlike *axis, unlike found) { *axis = found > *axis ? found : *axis; }

/* What owners of an output cut among them differs along axes that the output lacks, since those
   have it in common, and along those that decide where it lies, where that matters. */
static bool find_unlike_of_owners(const node_model *m, int32_t n, const cleave_split *split,
                                  unlike *axes) {
    const cleave_nest *owner = &m->model->nests[m->model->nests[n].owners_of];
    int rank = m->model->tensors[owner->output.tensor].rank;
    if (owner->derivation != CLEAVE_DERIVE_OPERATOR)
        return false;
    for (int a = 0; a < owner->n_axes; a++) {
        uint32_t dimensions = dimensions_of(&owner->output, rank, a);
        if (degree_of(owner, a, split) > 1 &&
            (dimensions == 0 || (dimensions & m->padded_axes[n]) != 0))
            note(&axes[owner->operator_axis[a]], UNLIKE_EACH);
    }
    return true;
}

/* How parts may differ along the axes of an operator, as far as can be told from the axes alone: by
   unequal blocks, or where it matters where they lie.  False where more may make them differ. */
static bool find_unlike(const node_model *m, int32_t op, const cleave_split *split, unlike *axes) {
    const cleave_operator *of = &m->model->operators[op];
    for (int32_t k = 0; k < of->n_nests; k++) {
        int32_t n = of->nests[k];
        const cleave_nest *nest = &m->model->nests[n];
        bool derived = nest->derivation != CLEAVE_DERIVE_OPERATOR;
        if (derived && !find_unlike_of_owners(m, n, split, axes))
            return false;
        for (int a = 0; a < nest->n_axes && !derived; a++) {
            int32_t degree = degree_of(nest, a, split);
            if (degree > 1 && (m->padded_axes[n] >> a & 1) != 0)
                note(&axes[nest->operator_axis[a]], UNLIKE_EACH);
            else if (degree > 1 && nest->axes[a].extent % degree != 0)
                note(&axes[nest->operator_axis[a]], UNLIKE_IN_SIZE);
        }
    }
    return true;
}

/* ---- which of them are looked at ------------------------------------------------------------- */

/* Of an axis: blocks, and how many of its other blocks are like each. */
typedef struct axis_blocks {
    int32_t n, block[2], like[2]; /* of one or two; else all, each by itself */
} axis_blocks;

static axis_blocks blocks_of(unlike axis, int64_t extent, int32_t degree) {
    int32_t longer = (int32_t)(extent % degree);
    if (axis == UNLIKE_NOT)
        return (axis_blocks){1, {0}, {1}};
    if (axis == UNLIKE_IN_SIZE)
        return (axis_blocks){2, {0, longer}, {longer, degree - longer}};
    return (axis_blocks){.n = degree};
}

/* Makes of each cell one for each block of a further axis, innermost. */
static bool refine(node_cells *c, unlike axis, int64_t extent, int32_t degree,
                   cleave_arena *arena) {
    const axis_blocks b = blocks_of(axis, extent, degree);
    int32_t n = 0;
    int32_t *numbers = CLEAVE_ARENA_ARRAY(arena, int32_t, (int64_t)c->n * b.n);
    int32_t *like = CLEAVE_ARENA_ARRAY(arena, int32_t, (int64_t)c->n * b.n);
    if (numbers == NULL || like == NULL)
        return false;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < b.n; k++) {
            bool each = axis == UNLIKE_EACH;
            numbers[n] = c->numbers[i] * degree + (each ? k : b.block[k]);
            like[n++] = c->like[i] * (each ? 1 : b.like[k]);
        }
    c->n = n;
    c->numbers = numbers;
    c->like = like;
    return true;
}

/* How long the dimensions are of which operands may stick out. */
static void put_padded_shapes(cleave_digest *d, const node_model *m, const cleave_operand *operand,
                              uint32_t padded_axes) {
    const cleave_tensor *tensor = &m->model->tensors[operand->tensor];
    for (int r = 0; r < tensor->rank; r++)
        for (int t = 0; t < operand->map[r].n_terms; t++)
            if ((padded_axes >> operand->map[r].terms[t].axis & 1) != 0)
                cleave_digest_put(d, tensor->shape[r]);
}

static void put_key(const node_model *m, int32_t op, const cleave_split *split, const unlike *axes,
                    cleave_digest *key) {
    const cleave_operator *of = &m->model->operators[op];
    *key = cleave_digest_begin(op);
    cleave_digest_put(key, op);
    for (int a = 0; a < of->n_axes; a++) {
        bool alike = axes[a] == UNLIKE_NOT;
        cleave_digest_put(key, axes[a]);
        cleave_digest_put(key, alike ? of->axes[a].extent / split->degree[a] : of->axes[a].extent);
        cleave_digest_put(key, alike ? 1 : split->degree[a]);
    }
    for (int32_t k = 0; k < of->n_nests; k++) {
        int32_t n = of->nests[k];
        const cleave_nest *nest = &m->model->nests[n];
        for (int a = 0; a < nest->n_axes; a++)
            if (nest->derivation == CLEAVE_DERIVE_OPERATOR && nest->operator_axis[a] < 0)
                cleave_digest_put(key, nest->axes[a].extent);
        for (int i = 0; i < nest->n_inputs; i++)
            put_padded_shapes(key, m, &nest->inputs[i], m->padded_axes[n]);
        put_padded_shapes(key, m, &nest->output, m->padded_axes[n]);
    }
}

bool node_cells_choose(const node_model *m, int32_t op, const cleave_split *split,
                       cleave_arena *arena, node_cells *chosen) {
    const cleave_operator *of = &m->model->operators[op];
    unlike axes[CLEAVE_MAX_AXES] = {UNLIKE_NOT};
    int32_t within = 1, unlike_within = 1;
    int outermost = 0;
    node_cells c = {.n = 1,
                    .numbers = CLEAVE_ARENA_ARRAY(arena, int32_t, 1),
                    .like = CLEAVE_ARENA_ARRAY(arena, int32_t, 1),
                    .has_key = find_unlike(m, op, split, axes)};
    if (c.numbers == NULL || c.like == NULL)
        return false;
    c.like[0] = c.n_times = 1;
    while (outermost < of->n_axes && axes[outermost] == UNLIKE_NOT)
        outermost++;
    for (int a = outermost; a < of->n_axes; a++) {
        within *= split->degree[a];
        unlike_within *= axes[a] == UNLIKE_NOT ? 1 : split->degree[a];
    }
    c.has_key = c.has_key && split->n_parts % within == 0; /* no window that cuts through axes */
    if (!c.has_key) {
        *chosen = c;
        return refine(chosen, UNLIKE_EACH, 0, split->n_parts, arena);
    }
    c.n_times = split->n_parts / unlike_within;
    put_key(m, op, split, axes, &c.key);
    for (int a = 0; a < of->n_axes; a++)
        if (!refine(&c, axes[a], of->axes[a].extent, split->degree[a], arena))
            return false;
    *chosen = c;
    return true;
}
