/* Attention as one operator.

   A softmax over scores that a product made, and whose result only a product reads, which sums over
   the softmax's dimension, are one operator: scores, mask, softmax and sum of values share a split
   over the scores' dimensions, n h q and the keys k.  Head widths are whole, so scores are not
   summed over devices, and what was derived from their owners follows the operator.  Where keys are
   split each part has its maximum, its sum and its values', which are combined as partial results
   are.

   Done on the drafts when all of them are there, since only then is known what reads what. */
#include "graph/import/fuse/fuse_language.h"

#include <string.h>

enum { MOST_BETWEEN = 4, NOBODY = -1, SEVERAL = -2, NOT_YET = -1 };

/* The dimensions that a group's operators share are those of the scores. */
typedef struct attention {
    int32_t scores, softmax, values; /* operators: product, softmax, product */
    int32_t between[MOST_BETWEEN];   /* pointwise ones: masks, scales */
    int n_between;
    int rank, keys;                       /* of the scores; the softmax's dimension */
    int axis_of[CLEAVE_MAX_RANK];         /* of the fused operator, by dimension */
    int value_dimension[CLEAVE_MAX_AXES]; /* by axis of the product with the values; -1 */
} attention;

typedef struct fusing {
    cleave_importer *im;
    int32_t *writer; /* [n_tensors] nest, or NOBODY */
    int32_t *reader; /* [n_tensors] the one operator that reads it, NOBODY or SEVERAL */
    /* Lists, so that a fusing costs what is fused: the first one, and behind each the next one. */
    int32_t *nests_of, *next_nest;     /* [n_operators], [n_nests] */
    int32_t *tensors_of, *next_tensor; /* [n_operators], [n_tensors] that it names or writes */
    int32_t *reads_of, *next_read;     /* [n_tensors], [n_nests x CLEAVE_MAX_INPUTS] */
} fusing;

static cleave_nest *nest_at(const fusing *f, int32_t nest) {
    return &f->im->nests.items[nest].nest;
}

static void note_reader(fusing *f, int32_t tensor, int32_t op) {
    int32_t *reader = &f->reader[tensor];
    *reader = *reader == NOBODY || *reader == op ? op : SEVERAL;
}

static int32_t *new_list(cleave_importer *im, int32_t n) {
    int32_t *list = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, n);
    for (int32_t i = 0; list != NULL && i < n; i++)
        list[i] = NOBODY;
    return list;
}

static void push_front(int32_t *first, int32_t *next, int32_t of, int32_t item) {
    next[item] = first[of];
    first[of] = item;
}

static cleave_status make_lists(fusing *f) {
    cleave_importer *im = f->im;
    if (im->nests.n > INT32_MAX / CLEAVE_MAX_INPUTS)
        return cleave_import_no_memory(im);
    f->nests_of = new_list(im, im->operators.n);
    f->next_nest = new_list(im, im->nests.n);
    f->tensors_of = new_list(im, im->operators.n);
    f->next_tensor = new_list(im, im->tensors.n);
    f->reads_of = new_list(im, im->tensors.n);
    f->next_read = new_list(im, im->nests.n * CLEAVE_MAX_INPUTS);
    if (f->nests_of == NULL || f->next_nest == NULL || f->tensors_of == NULL ||
        f->next_tensor == NULL || f->reads_of == NULL || f->next_read == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = im->nests.n - 1; i >= 0; i--) {
        const cleave_nest *nest = nest_at(f, i);
        push_front(f->nests_of, f->next_nest, nest->op, i);
        for (int k = nest->n_inputs - 1; k >= 0; k--)
            push_front(f->reads_of, f->next_read, nest->inputs[k].tensor,
                       i * CLEAVE_MAX_INPUTS + k);
    }
    for (int32_t t = im->tensors.n - 1; t >= 0; t--)
        if (im->tensors.items[t].op >= 0)
            push_front(f->tensors_of, f->next_tensor, im->tensors.items[t].op, t);
    return CLEAVE_OK;
}

static cleave_status find_readers(fusing *f) {
    cleave_importer *im = f->im;
    f->writer = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->tensors.n);
    f->reader = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->tensors.n);
    if (f->writer == NULL || f->reader == NULL)
        return cleave_import_no_memory(im);
    for (int32_t t = 0; t < im->tensors.n; t++)
        f->writer[t] = f->reader[t] = NOBODY;
    for (int32_t i = 0; i < im->nests.n; i++) {
        const cleave_nest *nest = nest_at(f, i);
        f->writer[nest->output.tensor] = i;
        for (int k = 0; k < nest->n_inputs; k++)
            note_reader(f, nest->inputs[k].tensor, nest->op);
    }
    /* A view that nothing reads is no use: products read through views. */
    for (int32_t t = im->tensors.n - 1; t >= 0; t--) {
        const cleave_view *view = &im->tensors.items[t].tensor.view;
        for (int k = 0; view->kind != CLEAVE_VIEW_NONE && k < view->n_sources; k++)
            if (f->reader[t] != NOBODY)
                note_reader(f, view->sources[k], SEVERAL);
    }
    for (int32_t i = 0; i < im->graph.n_outputs; i++) {
        int32_t id = cleave_name_map_find(&im->names, im->graph.outputs[i].name);
        if (im->values.items[id].state != CLEAVE_VALUE_TENSOR)
            continue;
        for (int32_t t = im->values.items[id].tensor; t != NOBODY;) {
            const cleave_view *view = &im->tensors.items[t].tensor.view;
            f->reader[t] = SEVERAL;
            t = view->kind != CLEAVE_VIEW_NONE && view->n_sources == 1 ? view->sources[0] : NOBODY;
        }
    }
    return CLEAVE_OK;
}

/* ---- the pattern ----------------------------------------------------------------------------- */

static bool is_identity(const cleave_dimension_map *map, int axis) {
    return map->offset == 0 && map->n_terms == 1 && map->terms[0].axis == axis &&
           map->terms[0].stride == 1;
}

static bool is_whole_operand(const fusing *f, const cleave_operand *operand, int rank) {
    bool whole = f->im->tensors.items[operand->tensor].tensor.rank == rank;
    for (int d = 0; whole && d < rank; d++)
        whole = is_identity(&operand->map[d], d);
    return whole;
}

/* A nest whose axes are those of its operator, in order. */
static bool follows_operator(const fusing *f, const cleave_nest *nest) {
    bool follows = nest->derivation == CLEAVE_DERIVE_OPERATOR &&
                   nest->n_axes == f->im->operators.items[nest->op].n_axes;
    for (int i = 0; follows && i < nest->n_axes; i++)
        follows = nest->operator_axis[i] == i;
    return follows;
}

static const cleave_nest *main_nest(const fusing *f, int32_t op) {
    return nest_at(f, f->im->operators.items[op].main_nest);
}

/* A product, perhaps with a tail, whose first axes are the dimensions of its output. */
static bool is_product(const fusing *f, int32_t op) {
    const cleave_nest *product = main_nest(f, op);
    int32_t output = product->output.tensor;
    return product->kind == CLEAVE_NEST_PRODUCT && product->combiner == CLEAVE_COMBINE_SUM &&
           product->n_inputs == 2 && follows_operator(f, product) &&
           is_whole_operand(f, &product->output, f->im->tensors.items[output].tensor.rank);
}

/* Follows a tensor of scores back to the product that made them, through pointwise operators. */
static bool find_scores(const fusing *f, int32_t tensor, int32_t reader, attention *a) {
    int32_t writer = f->writer[tensor];
    if (writer == NOBODY || f->reader[tensor] != reader)
        return false;
    int32_t op = nest_at(f, writer)->op;
    if (f->im->operators.items[op].output != tensor)
        return false;
    if (is_product(f, op)) {
        a->scores = op;
        return true;
    }
    const cleave_nest *nest = main_nest(f, op);
    if (a->n_between == MOST_BETWEEN || nest->kind != CLEAVE_NEST_POINTWISE ||
        f->im->operators.items[op].main_nest != writer || !follows_operator(f, nest) ||
        !is_whole_operand(f, &nest->output, a->rank))
        return false;
    a->between[a->n_between++] = op;
    for (int k = 0; k < nest->n_inputs; k++)
        if (is_whole_operand(f, &nest->inputs[k], a->rank) &&
            find_scores(f, nest->inputs[k].tensor, op, a))
            return true;
    a->n_between--;
    return false;
}

/* Dimensions that a nest over the scores reduces. */
static unsigned reduced_dimensions(const fusing *f, const cleave_nest *nest) {
    unsigned left = (1u << nest->n_axes) - 1u;
    for (int d = 0; d < f->im->tensors.items[nest->output.tensor].tensor.rank; d++)
        for (int t = 0; t < nest->output.map[d].n_terms; t++)
            left &= ~(1u << nest->output.map[d].terms[t].axis);
    return left;
}

/* An operator that compares scores with their maximum and sum along one dimension. */
static bool is_softmax(const fusing *f, int32_t op, attention *a) {
    const cleave_importer *im = f->im;
    const cleave_nest *last = main_nest(f, op);
    unsigned reduced = 0;
    int n_reducing = 0;
    a->rank = im->operators.items[op].n_axes;
    if (last->kind != CLEAVE_NEST_POINTWISE || last->n_inputs < 1 ||
        !is_whole_operand(f, &last->output, a->rank))
        return false;
    int32_t scores = last->inputs[0].tensor;
    for (int32_t i = f->nests_of[op]; i != NOBODY; i = f->next_nest[i]) {
        const cleave_nest *nest = nest_at(f, i);
        if (nest->op != op)
            continue;
        if (!follows_operator(f, nest) || nest->inputs[0].tensor != scores ||
            !is_whole_operand(f, &nest->inputs[0], a->rank))
            return false;
        if (nest->kind == CLEAVE_NEST_REDUCE)
            n_reducing++;
        else if (nest != last)
            return false;
        reduced |= reduced_dimensions(f, nest);
    }
    a->keys = 0;
    while (a->keys < a->rank && (reduced >> a->keys & 1u) == 0)
        a->keys++;
    a->softmax = op;
    return n_reducing == 2 && reduced == 1u << a->keys && find_scores(f, scores, op, a);
}

/* Does the product with the values sum over the keys, and only over them?  All its other axes are
   dimensions of the scores, the first ones, but one: the width of the values. */
static bool sums_over_keys(const fusing *f, const cleave_operand *weights, attention *a) {
    const cleave_nest *values = main_nest(f, a->values);
    int n_shared = 0;
    for (int i = 0; i < values->n_axes; i++)
        a->value_dimension[i] = -1;
    for (int d = 0; d < a->rank; d++) {
        const cleave_dimension_map *map = &weights->map[d];
        if (map->n_terms == 1 && is_identity(map, map->terms[0].axis))
            a->value_dimension[map->terms[0].axis] = d;
        else if (map->n_terms > 0 || d == a->keys)
            return false;
    }
    for (int i = 0; i < values->n_axes; i++) {
        int d = a->value_dimension[i];
        bool missing = (reduced_dimensions(f, values) >> i & 1u) != 0;
        if (missing != (d == a->keys))
            return false;
        if (d >= 0 && d != a->keys && n_shared++ != i)
            return false;
    }
    return values->n_axes - n_shared <= 2;
}

static bool find_attention(const fusing *f, int32_t op, attention *a) {
    if (!is_product(f, op))
        return false;
    const cleave_nest *product = main_nest(f, op);
    for (int k = 0; k < 2; k++) {
        int32_t weights = product->inputs[k].tensor, writer = f->writer[weights];
        *a = (attention){.values = op};
        if (writer != NOBODY && f->reader[weights] == op &&
            product->inputs[1 - k].tensor != weights && nest_at(f, writer)->op != op &&
            is_softmax(f, nest_at(f, writer)->op, a) &&
            f->im->operators.items[a->softmax].output == weights &&
            sums_over_keys(f, &product->inputs[k], a))
            return true;
    }
    return false;
}

/* ---- fusing ---------------------------------------------------------------------------------- */

static const char *axis_name(int dimension, int n) {
    static const char *const between[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    return dimension == n - 1   ? "q"
           : dimension == 0     ? "n"
           : dimension == n - 2 ? "h"
                                : between[dimension];
}

/* The fused operator's axes: dimensions of the scores, as the product with the values has them; the
   keys come last. */
static void set_axes(const fusing *f, attention *a) {
    cleave_draft_operator *op = &f->im->operators.items[a->values];
    const cleave_tensor *scores =
        &f->im->tensors.items[f->im->operators.items[a->scores].output].tensor;
    int order[CLEAVE_MAX_RANK], n = 0;
    for (int d = 0; d < a->rank; d++)
        a->axis_of[d] = NOT_YET;
    for (int i = 0; i < main_nest(f, a->values)->n_axes; i++) {
        int d = a->value_dimension[i];
        if (d < 0 || d == a->keys)
            continue;
        a->axis_of[d] = n;
        order[n++] = d;
    }
    /* Dimensions of 1 that it does without. */
    for (int d = 0; d < a->rank; d++) {
        if (a->axis_of[d] != NOT_YET || d == a->keys)
            continue;
        a->axis_of[d] = n;
        order[n++] = d;
    }
    for (int i = 0; i < n; i++) {
        int d = order[i];
        op->axes[i] = (cleave_axis){.name = axis_name(d < a->keys ? d : d - 1, n),
                                    .extent = scores->shape[d]};
    }
    a->axis_of[a->keys] = n;
    op->axes[n] = (cleave_axis){.name = "k", .extent = scores->shape[a->keys]};
    op->n_axes = n + 1;
    op->n_later = 1;
}

/* The dimension of the scores that axis i of a nest of the group is, or -1. */
static int dimension_of(const attention *a, const cleave_nest *nest, int i) {
    int axis = nest->derivation == CLEAVE_DERIVE_OWNERS ? i : nest->operator_axis[i];
    if (axis < 0)
        return -1;
    if (nest->op == a->values)
        return a->value_dimension[axis];
    return axis < a->rank ? axis : -1;
}

static void move_nest(const attention *a, cleave_nest *nest) {
    bool follows_values = nest->op == a->values && nest->derivation == CLEAVE_DERIVE_OWNERS;
    for (int i = 0; i < nest->n_axes; i++) {
        int d = dimension_of(a, nest, i);
        nest->operator_axis[i] = d >= 0 ? a->axis_of[d] : -1;
        nest->axes[i].whole = nest->operator_axis[i] < 0;
    }
    nest->op = a->values;
    if (follows_values) /* where keys are split it can't be before their sums are one */
        return;
    nest->derivation = CLEAVE_DERIVE_OPERATOR;
    nest->owners_of = 0;
}

/* A tail that only scales the scores is done by the product; its nest belongs to no operator then.
 */
static void fold_scale(const fusing *f, int32_t op) {
    cleave_draft_operator *draft = &f->im->operators.items[op];
    if (draft->tail_nest < 0 || draft->tail_nest == draft->main_nest)
        return;
    cleave_nest *product = nest_at(f, draft->main_nest), *tail = nest_at(f, draft->tail_nest);
    const cleave_instruction *it = &tail->tape[0];
    if (tail->n_inputs != 1 || tail->n_instructions != 1 || it->opcode != CLEAVE_OP_SCALE ||
        it->q < 0 || it->q > 0)
        return;
    cleave_import_scale_product(product, it->p);
    product->output.tensor = tail->output.tensor;
    tail->op = -1;
}

static const char *suffix_of(const attention *a, int32_t op, const char *suffix) {
    bool tail = suffix[0] != '\0';
    if (op == a->scores)
        return tail ? ".scores.epilogue" : ".scores";
    if (op == a->values || tail)
        return suffix;
    return op == a->softmax ? ".weights" : ".mask";
}

/* Calls an axis of an operator by another name, unless one of its axes is called so. */
static void rename_axis(const fusing *f, int32_t op, int axis, const char *name) {
    cleave_draft_operator *draft = &f->im->operators.items[op];
    if (axis < 0)
        return;
    for (int i = 0; i < draft->n_axes; i++)
        if (strcmp(draft->axes[i].name, name) == 0)
            return;
    draft->axes[axis].name = name;
    for (int32_t i = f->nests_of[op]; i != NOBODY; i = f->next_nest[i]) {
        cleave_nest *nest = nest_at(f, i);
        for (int k = 0;
             nest->op == op && nest->derivation == CLEAVE_DERIVE_OPERATOR && k < nest->n_axes; k++)
            if (nest->operator_axis[k] == axis)
                nest->axes[k].name = name;
    }
}

/* What a product sums over is called as the dimensions of the operand that it reads are. */
static void name_summed(const fusing *f, const cleave_nest *nest, const cleave_operand *operand) {
    const cleave_draft_tensor *tensor = &f->im->tensors.items[operand->tensor];
    unsigned reduced = reduced_dimensions(f, nest);
    for (int d = 0; d < tensor->tensor.rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        if (map->n_terms == 1 && (reduced >> map->terms[0].axis & 1u) != 0)
            rename_axis(f, nest->op, nest->operator_axis[map->terms[0].axis], tensor->axes[d]);
    }
}

/* Dimensions of the output are called n h q d, and so are axes that later sum over them. */
static void name_dimensions(const fusing *f, const attention *a) {
    cleave_importer *im = f->im;
    const cleave_draft_operator *fused = &im->operators.items[a->values];
    cleave_draft_tensor *output = &im->tensors.items[fused->output];
    for (int d = 0; d < output->tensor.rank; d++) {
        int dimension = a->value_dimension[d];
        output->axes[d] = dimension >= 0 ? fused->axes[a->axis_of[dimension]].name : "d";
    }
    for (int32_t r = f->reads_of[fused->output]; r != NOBODY; r = f->next_read[r]) {
        const cleave_nest *nest = nest_at(f, r / CLEAVE_MAX_INPUTS);
        if (nest->op >= 0 && nest->kind == CLEAVE_NEST_PRODUCT)
            name_summed(f, nest, &nest->inputs[r % CLEAVE_MAX_INPUTS]);
    }
}

/* Nests and tensors of a member go into the fused operator. */
static void move_member(const fusing *f, const attention *a, int32_t op) {
    cleave_importer *im = f->im;
    for (int32_t t = f->tensors_of[op]; t != NOBODY; t = f->next_tensor[t])
        im->tensors.items[t].op = a->values;
    for (int32_t i = f->nests_of[op]; i != NOBODY; i = f->next_nest[i]) {
        cleave_draft_nest *draft = &im->nests.items[i];
        if (draft->nest.op != op)
            continue;
        draft->suffix = suffix_of(a, op, draft->suffix);
        move_nest(a, &draft->nest);
    }
}

/* Hangs a list behind another one. */
static void append(int32_t *first, int32_t *next, int32_t to, int32_t from) {
    int32_t *end = &first[to];
    while (*end != NOBODY)
        end = &next[*end];
    *end = first[from];
    first[from] = NOBODY;
}

static void fuse(const fusing *f, attention *a) {
    int32_t members[MOST_BETWEEN + 2];
    int n = 0;
    members[n++] = a->scores;
    for (int i = 0; i < a->n_between; i++)
        members[n++] = a->between[i];
    members[n++] = a->softmax;
    fold_scale(f, a->scores);
    cleave_import_take_scalings(f->im, nest_at(f, f->im->operators.items[a->scores].main_nest));
    set_axes(f, a);
    for (int i = 0; i < n; i++)
        move_member(f, a, members[i]);
    move_member(f, a, a->values);
    for (int i = 0; i < n; i++) {
        append(f->nests_of, f->next_nest, a->values, members[i]);
        append(f->tensors_of, f->next_tensor, a->values, members[i]);
    }
    f->im->operators.items[a->values].type = "Attention";
    name_dimensions(f, a);
}

cleave_status cleave_import_fuse(cleave_importer *im) {
    fusing f = {.im = im};
    bool any = false;
    CLEAVE_TRY(find_readers(&f));
    CLEAVE_TRY(make_lists(&f));
    for (int32_t op = 0; op < im->operators.n; op++) {
        attention a;
        if (im->operators.items[op].main_nest < 0 || !find_attention(&f, op, &a))
            continue;
        int32_t scores = im->operators.items[a.scores].main_nest,
                values = im->operators.items[op].main_nest;
        fuse(&f, &a);
        CLEAVE_TRY(cleave_import_share_keys(im, op, scores, values));
        any = true;
    }
    CLEAVE_TRY(cleave_import_drop_bypassed(im));
    CLEAVE_TRY(cleave_import_fuse_turns(im, &any));
    return any ? cleave_import_compact(im) : CLEAVE_OK;
}
