#include "search/problem/node_cells.h"

#include <string.h>

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

/* Nests of an operator that are derived from owners, beyond which all members are looked at. */
enum { MOST_DERIVED = 8 };

/* How parts differ along an axis of an operator. */
typedef enum unlike {
    UNLIKE_NOT,
    UNLIKE_IN_SIZE, /* the first ones are longer by one than the others */
    UNLIKE_EACH
} unlike;

static void note(unlike *axis, unlike found) { *axis = found > *axis ? found : *axis; }

/* What is found of the axes of an operator. */
typedef struct ways {
    unlike axes[CLEAVE_MAX_AXES];
    uint32_t shared; /* axes, bit by bit, along which parts own a box together */
} ways;

/* What owners of an output cut among them differs along axes that the output lacks, since those
   have it in common, and along those that decide where it lies, where that matters. */
static bool find_unlike_of_owners(const node_model *m, int32_t n, const cleave_split *split,
                                  ways *w) {
    const cleave_nest *owner = &m->model->nests[m->model->nests[n].owners_of];
    int rank = m->model->tensors[owner->output.tensor].rank;
    if (owner->derivation != CLEAVE_DERIVE_OPERATOR)
        return false;
    for (int a = 0; a < owner->n_axes; a++) {
        uint32_t dimensions = dimensions_of(&owner->output, rank, a);
        if (degree_of(owner, a, split) <= 1)
            continue;
        bool is_empty = degree_of(owner, a, split) > owner->axes[a].extent;
        if (dimensions == 0 && m->padded_axes[n] == 0 && !is_empty)
            w->shared |= UINT32_C(1) << owner->operator_axis[a];
        else if (dimensions == 0 || (dimensions & m->padded_axes[n]) != 0)
            note(&w->axes[owner->operator_axis[a]], UNLIKE_EACH);
    }
    return true;
}

/* How parts may differ along the axes of an operator, as far as can be told from the axes alone: by
   unequal blocks, or where it matters where they lie.  False where more may make them differ. */
static bool find_unlike(const node_model *m, int32_t op, const cleave_split *split, ways *w) {
    const cleave_operator *of = &m->model->operators[op];
    bool any_each;
    int n_derived = 0;
    for (int32_t k = 0; k < of->n_nests; k++) {
        int32_t n = of->nests[k];
        const cleave_nest *nest = &m->model->nests[n];
        bool derived = nest->derivation != CLEAVE_DERIVE_OPERATOR;
        n_derived += derived;
        if (derived && !find_unlike_of_owners(m, n, split, w))
            return false;
        for (int a = 0; a < nest->n_axes && !derived; a++) {
            int32_t degree = degree_of(nest, a, split);
            if (degree > 1 && (m->padded_axes[n] >> a & 1) != 0)
                note(&w->axes[nest->operator_axis[a]], UNLIKE_EACH);
            else if (degree > 1 && nest->axes[a].extent % degree != 0)
                note(&w->axes[nest->operator_axis[a]],
                     nest->axes[a].extent == of->axes[nest->operator_axis[a]].extent
                         ? UNLIKE_IN_SIZE
                         : UNLIKE_EACH);
        }
    }
    any_each = n_derived > MOST_DERIVED;
    for (int a = 0; a < of->n_axes; a++)
        any_each = any_each || w->axes[a] == UNLIKE_EACH ||
                   split->degree[a] > of->axes[a].extent; /* some parts are empty */
    for (int a = 0; a < of->n_axes && any_each; a++)      /* boxes of one set are not alike */
        if ((w->shared >> a & 1) != 0)
            note(&w->axes[a], UNLIKE_EACH);
    w->shared = any_each ? 0 : w->shared;
    return true;
}

/* ---- which of them are looked at ------------------------------------------------------------- */

/* How a set is cut along the axes of the operator. */
typedef struct cell_set {
    const ways *ways;
    const cleave_split *split;
    int64_t length[CLEAVE_MAX_AXES]; /* of its blocks, of axes that are not unlike in each; */
    int32_t block[CLEAVE_MAX_AXES];  /* and the first of these, of so many */
    int32_t n_blocks[CLEAVE_MAX_AXES];
    int32_t n_times;
} cell_set;

static bool is_shared(const cell_set *set, int axis) {
    return (set->ways->shared >> axis & 1) != 0;
}

/* Takes the longer or the shorter blocks of an axis; false: there are none.  Those that own a box
   together are counted with what they have of it. */
static bool take_blocks(cell_set *set, int axis, int64_t extent, bool shorter) {
    int32_t degree = set->split->degree[axis];
    bool is_uneven = set->ways->axes[axis] == UNLIKE_IN_SIZE;
    int32_t longer = is_uneven ? (int32_t)(extent % degree) : 0;
    int32_t n = !is_uneven ? degree : shorter ? degree - longer : longer;
    set->length[axis] = extent / degree + (longer > 0 && !shorter);
    set->block[axis] = shorter ? longer : 0;
    set->n_blocks[axis] = n;
    if (is_uneven && !is_shared(set, axis))
        set->n_times *= n;
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
        bool each = set->ways->axes[a] == UNLIKE_EACH;
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

/* One more; there is room for numbers of sets that double.  Null when memory is short. */
static node_cells *add_cells(cleave_arena *arena, node_cell_sets *chosen) {
    int32_t n = chosen->n;
    if ((n & (n - 1)) == 0) {
        node_cells *items = CLEAVE_ARENA_ARRAY(arena, node_cells, n > 0 ? 2 * n : 1);
        for (int32_t i = 0; i < n && items != NULL; i++)
            items[i] = chosen->items[i];
        chosen->items = items;
    }
    return chosen->items != NULL && begin_cells(arena, &chosen->items[n])
               ? &chosen->items[chosen->n++]
               : NULL;
}

/* ---- who owns a box together ----------------------------------------------------------------- */

/* What the nests of an operator that are derived from owners have of the boxes of a set. */
typedef struct sharing {
    int n; /* of them */
    uint32_t axes[MOST_DERIVED];
    int64_t extent[MOST_DERIVED];    /* of what is cut, */
    int32_t n_members[MOST_DERIVED]; /* among so many */
    int64_t length[MOST_DERIVED];    /* of the block of one */
} sharing;

/* How long the longest dimension is of the box that parts of a set write. */
static int64_t longest_extent(const node_model *m, const cleave_nest *owner, const cell_set *set) {
    const cleave_operator *of = &m->model->operators[owner->op];
    int rank = m->model->tensors[owner->output.tensor].rank;
    cleave_part part = cleave_part_whole(owner, 0);
    cleave_box box;
    for (int i = 0; i < owner->n_axes; i++) {
        int a = owner->operator_axis[i];
        bool is_as_long = a >= 0 && owner->axes[i].extent == of->axes[a].extent;
        if (a >= 0)
            part.hi[i] =
                is_as_long ? set->length[a] : owner->axes[i].extent / set->split->degree[a];
    }
    cleave_part_box(m->model, &part, &owner->output, &box);
    int longest = cleave_box_longest(&box, rank);
    return rank == 0 ? 1 : box.hi[longest] - box.lo[longest];
}

static void find_sharing(const node_model *m, int32_t op, const cell_set *set, sharing *s) {
    const cleave_operator *of = &m->model->operators[op];
    s->n = 0;
    for (int32_t k = 0; k < of->n_nests; k++) {
        const cleave_nest *nest = &m->model->nests[of->nests[k]];
        if (nest->derivation == CLEAVE_DERIVE_OPERATOR)
            continue;
        const cleave_nest *owner = &m->model->nests[nest->owners_of];
        s->axes[s->n] = cleave_owner_axes(m->model, owner);
        s->extent[s->n] = longest_extent(m, owner, set);
        s->n_members[s->n] = 1;
        for (int a = 0; a < of->n_axes; a++)
            if ((s->axes[s->n] >> a & 1) != 0)
                s->n_members[s->n] *= set->split->degree[a];
        s->n++;
    }
}

/* What the part with those blocks has of each box; returns how many that follow it along an axis,
   the innermost that is shared, it among them, have as much. */
static int32_t find_lengths(const cell_set *set, int n_axes, const int32_t *index, int inner,
                            sharing *s) {
    int64_t run = set->block[inner] + set->n_blocks[inner] - index[inner];
    for (int k = 0; k < s->n; k++) {
        int64_t member = 0, longer = s->extent[k] % s->n_members[k];
        for (int a = 0; a < n_axes; a++)
            if ((s->axes[k] >> a & 1) != 0)
                member = member * set->split->degree[a] + index[a];
        s->length[k] = s->extent[k] / s->n_members[k] + (member < longer);
        if ((s->axes[k] >> inner & 1) != 0 && member < longer && longer - member < run)
            run = longer - member;
    }
    return (int32_t)run;
}

/* Parts of a set that have as much of all boxes are one set, of which one tells: so many more. */
static bool add_members(const node_model *m, int32_t op, const cell_set *set, const int32_t *index,
                        const sharing *s, int32_t first, int32_t n, cleave_arena *arena,
                        node_cell_sets *chosen) {
    const cleave_operator *of = &m->model->operators[op];
    cleave_digest key;
    put_key(m, op, set, &key);
    for (int k = 0; k < s->n; k++)
        cleave_digest_put(&key, s->length[k]);
    for (int32_t i = first; i < chosen->n; i++)
        if (chosen->items[i].key.a == key.a && chosen->items[i].key.b == key.b) {
            chosen->items[i].n_times += n * set->n_times;
            return true;
        }
    node_cells *c = add_cells(arena, chosen);
    if (c == NULL)
        return false;
    c->has_key = c->alone = true;
    c->key = key;
    c->n_times = n * set->n_times;
    for (int a = 0; a < of->n_axes; a++)
        c->numbers[0] = c->numbers[0] * set->split->degree[a] + index[a];
    return true;
}

/* The next blocks of the shared axes but the innermost; false: there are none. */
static bool next_index(const cell_set *set, int inner, int32_t *index) {
    index[inner] = set->block[inner];
    for (int a = inner - 1; a >= 0; a--) {
        if (!is_shared(set, a))
            continue;
        if (++index[a] < set->block[a] + set->n_blocks[a])
            return true;
        index[a] = set->block[a];
    }
    return false;
}

static bool add_sharers(const node_model *m, int32_t op, const cell_set *set, cleave_arena *arena,
                        node_cell_sets *chosen) {
    int n_axes = m->model->operators[op].n_axes, inner = n_axes - 1;
    int32_t index[CLEAVE_MAX_AXES] = {0}, first = chosen->n;
    sharing s;
    bool added = true;
    find_sharing(m, op, set, &s);
    memcpy(index, set->block, (size_t)n_axes * sizeof *index);
    while (!is_shared(set, inner))
        inner--;
    do {
        int32_t end = set->block[inner] + set->n_blocks[inner];
        while (index[inner] < end && added) {
            int32_t run = find_lengths(set, n_axes, index, inner, &s);
            added = add_members(m, op, set, index, &s, first, run, arena, chosen);
            index[inner] += run;
        }
    } while (added && next_index(set, inner, index));
    return added;
}

/* ---- all of them ----------------------------------------------------------------------------- */

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
    if (set->ways->shared != 0)
        return add_sharers(m, op, set, arena, chosen);
    node_cells *c = add_cells(arena, chosen);
    bool made = c != NULL;
    if (made) {
        c->has_key = true;
        c->n_times = set->n_times;
        put_key(m, op, set, &c->key);
    }
    for (int a = 0; a < of->n_axes && made; a++)
        made = refine(c, set->ways->axes[a] == UNLIKE_EACH, set->split->degree[a], set->block[a],
                      arena);
    return made;
}

bool node_cells_choose(const node_model *m, int32_t op, const cleave_split *split,
                       cleave_arena *arena, node_cell_sets *chosen) {
    const cleave_operator *of = &m->model->operators[op];
    ways w = {.shared = 0};
    int32_t within = 1, unlike_within = 1;
    int outermost = 0;
    bool has_key = find_unlike(m, op, split, &w);
    while (outermost < of->n_axes && w.axes[outermost] == UNLIKE_NOT &&
           (w.shared >> outermost & 1) == 0)
        outermost++;
    for (int a = outermost; a < of->n_axes; a++) {
        bool alike = w.axes[a] == UNLIKE_NOT && (w.shared >> a & 1) == 0;
        within *= split->degree[a];
        unlike_within *= alike ? 1 : split->degree[a];
    }
    has_key = has_key && split->n_parts % within == 0; /* no window that cuts through axes */
    *chosen = (node_cell_sets){.n = 0};
    if (has_key) {
        const cell_set all = {
            .ways = &w, .split = split, .n_times = split->n_parts / unlike_within};
        return add_sets(m, op, &all, 0, arena, chosen);
    }
    node_cells *c = add_cells(arena, chosen);
    return c != NULL && refine(c, true, split->n_parts, 0, arena);
}
