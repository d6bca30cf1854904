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
                note(&axes[nest->operator_axis[a]],
                     nest->axes[a].extent == of->axes[nest->operator_axis[a]].extent
                         ? UNLIKE_IN_SIZE
                         : UNLIKE_EACH);
        }
    }
    return true;
}

/* ---- which of them are looked at ------------------------------------------------------------- */

/* How a set is cut along the axes of the operator. */
typedef struct cell_set {
    const unlike *axes;
    const cleave_split *split;
    int64_t length[CLEAVE_MAX_AXES]; /* of its blocks, of axes that are not unlike in each; */
    int32_t block[CLEAVE_MAX_AXES];  /* and the first of these */
    int32_t n_times;
} cell_set;

/* Takes the longer or the shorter blocks of an axis; false: there are none. */
static bool take_blocks(cell_set *set, int axis, int64_t extent, bool shorter) {
    int32_t degree = set->split->degree[axis];
    int32_t longer = set->axes[axis] == UNLIKE_IN_SIZE ? (int32_t)(extent % degree) : 0;
    set->length[axis] = extent / degree + (longer > 0 && !shorter);
    set->block[axis] = shorter ? longer : 0;
    if (longer > 0)
        set->n_times *= shorter ? degree - longer : longer;
    return longer > 0 || !shorter;
}

/* Makes of each cell one for each block of a further axis, innermost; or for the block that the set
   has of it. */
static bool refine(node_cells *c, bool each, int32_t degree, int32_t block, cleave_arena *arena) {
    int32_t n = 0, n_blocks = each ? degree : 1;
    int32_t *numbers = CLEAVE_ARENA_ARRAY(arena, int32_t, (int64_t)c->n * n_blocks);
    if (numbers == NULL)
        return false;
    for (int32_t i = 0; i < c->n; i++)
        for (int32_t k = 0; k < n_blocks; k++)
            numbers[n++] = c->numbers[i] * degree + (each ? k : block);
    c->n = n;
    c->numbers = numbers;
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

static void put_key(const node_model *m, int32_t op, const cell_set *set, cleave_digest *key) {
    const cleave_operator *of = &m->model->operators[op];
    *key = cleave_digest_begin(op);
    cleave_digest_put(key, op);
    for (int a = 0; a < of->n_axes; a++) {
        bool each = set->axes[a] == UNLIKE_EACH;
        cleave_digest_put(key, each);
        cleave_digest_put(key, each ? of->axes[a].extent : set->length[a]);
        cleave_digest_put(key, each ? set->split->degree[a] : 1);
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

static bool begin_cells(cleave_arena *arena, node_cells *c) {
    *c = (node_cells){.n = 1, .numbers = CLEAVE_ARENA_ARRAY(arena, int32_t, 1), .n_times = 1};
    return c->numbers != NULL;
}

/* Of every choice of blocks of the axes that are unlike in size from one on. */
static bool add_sets(const node_model *m, int32_t op, const cell_set *set, int from,
                     cleave_arena *arena, node_cell_sets *chosen) {
    const cleave_operator *of = &m->model->operators[op];
    if (from < of->n_axes) {
        bool added = true;
        for (int shorter = 0; shorter < 2 && added; shorter++) {
            cell_set next = *set;
            if (take_blocks(&next, from, of->axes[from].extent, shorter != 0))
                added = add_sets(m, op, &next, from + 1, arena, chosen);
        }
        return added;
    }
    node_cells *c = &chosen->items[chosen->n++];
    bool made = begin_cells(arena, c);
    c->has_key = true;
    c->n_times = set->n_times;
    put_key(m, op, set, &c->key);
    for (int a = 0; a < of->n_axes && made; a++)
        made = refine(c, set->axes[a] == UNLIKE_EACH, set->split->degree[a], set->block[a], arena);
    return made;
}

bool node_cells_choose(const node_model *m, int32_t op, const cleave_split *split,
                       cleave_arena *arena, node_cell_sets *chosen) {
    const cleave_operator *of = &m->model->operators[op];
    unlike axes[CLEAVE_MAX_AXES] = {UNLIKE_NOT};
    int32_t within = 1, unlike_within = 1, n_sets = 1;
    int outermost = 0;
    bool has_key = find_unlike(m, op, split, axes);
    while (outermost < of->n_axes && axes[outermost] == UNLIKE_NOT)
        outermost++;
    for (int a = outermost; a < of->n_axes; a++) {
        within *= split->degree[a];
        unlike_within *= axes[a] == UNLIKE_NOT ? 1 : split->degree[a];
        n_sets *= axes[a] == UNLIKE_IN_SIZE ? 2 : 1;
    }
    has_key = has_key && split->n_parts % within == 0; /* no window that cuts through axes */
    *chosen =
        (node_cell_sets){.items = CLEAVE_ARENA_ARRAY(arena, node_cells, has_key ? n_sets : 1)};
    if (chosen->items == NULL)
        return false;
    if (has_key) {
        const cell_set all = {
            .axes = axes, .split = split, .n_times = split->n_parts / unlike_within};
        return add_sets(m, op, &all, 0, arena, chosen);
    }
    chosen->n = 1;
    return begin_cells(arena, chosen->items) &&
           refine(chosen->items, true, split->n_parts, 0, arena);
}
