#include "graph/import/operators/split_axis.h"

#include "graph/import/draft_views.h"

#include <string.h>

enum { UNSPLIT = -1 };

typedef struct splitting {
    cleave_importer *im;
    const cleave_axis_split *split;
    int64_t outer;
    int *dimension; /* [n_tensors] that was made two, or UNSPLIT */
} splitting;

static cleave_nest *nest_at(const cleave_importer *im, int32_t nest) {
    return &im->nests.items[nest].nest;
}

/* ---- where the axis is ----------------------------------------------------------------------- */

/* The one dimension of an operand that an axis of its nest is, alone; UNSPLIT: none is, -2: it is
   mapped in another way. */
static int dimension_of(const cleave_importer *im, const cleave_operand *operand, int axis) {
    int found = UNSPLIT;
    for (int d = 0; d < im->tensors.items[operand->tensor].tensor.rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        for (int t = 0; t < map->n_terms; t++) {
            if (map->terms[t].axis != axis)
                continue;
            if (found != UNSPLIT || map->n_terms != 1 || map->offset != 0 ||
                map->terms[t].stride != 1)
                return -2;
            found = d;
        }
    }
    return found;
}

/* The axis of a nest that the operator's axis is; -1: it has none. */
static int axis_in(const cleave_importer *im, const cleave_nest *nest, int axis) {
    if (nest->derivation == CLEAVE_DERIVE_OWNERS) {
        const cleave_nest *owner = nest_at(im, nest->owners_of);
        int in_owner = axis_in(im, owner, axis);
        return in_owner < 0 ? -1 : dimension_of(im, &owner->output, in_owner);
    }
    for (int i = 0; i < nest->n_axes; i++)
        if (nest->operator_axis[i] == axis)
            return i;
    return -1;
}

static bool can_split_operand(const cleave_importer *im, const cleave_operand *operand, int axis,
                              int64_t extent) {
    const cleave_tensor *tensor = &im->tensors.items[operand->tensor].tensor;
    int d = dimension_of(im, operand, axis);
    return d == UNSPLIT || (d >= 0 && tensor->shape[d] == extent && tensor->rank < CLEAVE_MAX_RANK);
}

static bool can_split_nest(const cleave_importer *im, const cleave_nest *nest, int axis,
                           int64_t extent) {
    bool can = nest->n_axes < CLEAVE_MAX_AXES;
    for (int i = 0; i < nest->n_instructions; i++)
        can = can && (nest->tape[i].opcode != CLEAVE_OP_INDEX || nest->tape[i].a != axis);
    for (int i = 0; can && i < nest->n_inputs; i++)
        can = can_split_operand(im, &nest->inputs[i], axis, extent);
    return can && can_split_operand(im, &nest->output, axis, extent);
}

static bool has_axis_named(const cleave_draft_operator *op, const char *name, int but) {
    for (int i = 0; i < op->n_axes; i++)
        if (i != but && strcmp(op->axes[i].name, name) == 0)
            return true;
    return false;
}

bool cleave_import_can_split_axis(const cleave_importer *im, const cleave_axis_split *split) {
    const cleave_draft_operator *op = &im->operators.items[split->op];
    int64_t extent = op->axes[split->axis].extent;
    if (op->n_axes == CLEAVE_MAX_AXES || split->inner < 1 || extent % split->inner != 0 ||
        has_axis_named(op, split->outer_name, split->axis) ||
        has_axis_named(op, split->inner_name, split->axis))
        return false;
    for (int32_t i = 0; i < im->nests.n; i++) {
        const cleave_nest *nest = nest_at(im, i);
        int axis = nest->op == split->op ? axis_in(im, nest, split->axis) : -1;
        if (axis == -2 || (axis >= 0 && !can_split_nest(im, nest, axis, extent)))
            return false;
    }
    return true;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The shape with dimension d made two, and the order in memory. */
static void refine(cleave_draft_tensor *draft, int d, int64_t outer, int64_t inner,
                   const char *const *names) {
    cleave_tensor *tensor = &draft->tensor;
    int order[CLEAVE_MAX_RANK], n = 0;
    for (int i = 0; i < tensor->rank; i++) {
        int at = tensor->order[i];
        order[n++] = at > d ? at + 1 : at;
        if (at == d)
            order[n++] = d + 1;
    }
    for (int i = tensor->rank; i > d + 1; i--) {
        tensor->shape[i] = tensor->shape[i - 1];
        draft->axes[i] = draft->axes[i - 1];
    }
    tensor->shape[d] = outer;
    tensor->shape[d + 1] = inner;
    draft->axes[d] = names[0];
    draft->axes[d + 1] = names[1];
    tensor->rank++;
    memcpy(tensor->order, order, (size_t)n * sizeof *order);
}

/* Does no view see the tensor, and no other operator read it? */
static bool is_own(const cleave_importer *im, int32_t tensor, int32_t op) {
    for (int32_t t = tensor + 1; t < im->tensors.n; t++) {
        const cleave_view *view = &im->tensors.items[t].tensor.view;
        for (int32_t k = 0; view->kind == CLEAVE_VIEW_RESHAPE && k < view->n_sources; k++)
            if (view->sources[k] == tensor)
                return false;
    }
    for (int32_t i = 0; i < im->nests.n; i++)
        for (int k = 0; k < nest_at(im, i)->n_inputs; k++)
            if (nest_at(im, i)->inputs[k].tensor == tensor && nest_at(im, i)->op != op &&
                nest_at(im, i)->op >= 0)
                return false;
    return true;
}

/* The tensor as it is now read: itself with one more dimension, or a view of it. */
static cleave_status split_tensor(splitting *s, int d, int32_t *tensor) {
    cleave_importer *im = s->im;
    const char *names[] = {s->split->outer_name, s->split->inner_name};
    cleave_draft_tensor *draft = &im->tensors.items[*tensor];
    bool inside = draft->op == s->split->op && draft->tensor.view.kind == CLEAVE_VIEW_NONE;
    bool parameter =
        draft->tensor.kind == CLEAVE_TENSOR_PARAMETER && is_own(im, *tensor, s->split->op);
    if (s->dimension[*tensor] == d)
        return CLEAVE_OK;
    if (inside || parameter) {
        if (parameter && draft->tensor.file_rank == 0) {
            draft->tensor.file_rank = draft->tensor.rank;
            memcpy(draft->tensor.file_shape, draft->tensor.shape, sizeof draft->tensor.shape);
        }
        s->dimension[*tensor] = d;
        refine(draft, d, s->outer, s->split->inner, names);
        return CLEAVE_OK;
    }
    cleave_draft_tensor seen = *draft;
    refine(&seen, d, s->outer, s->split->inner, names);
    const char *of = seen.tensor.name != NULL ? seen.tensor.name : seen.suffix;
    const char *name = cleave_arena_printf(im->arena, "%s.heads", of);
    if (name == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(
        cleave_import_reshape(im, name, *tensor, seen.tensor.rank, seen.tensor.shape, tensor));
    draft = &im->tensors.items[*tensor];
    if (draft->tensor.view.kind == CLEAVE_VIEW_RESHAPE) {
        memcpy(draft->axes, seen.axes, sizeof draft->axes);
        memcpy(draft->tensor.order, seen.tensor.order, sizeof draft->tensor.order);
    }
    return CLEAVE_OK;
}

/* ---- nests ----------------------------------------------------------------------------------- */

static cleave_status split_operand(splitting *s, cleave_operand *operand, int axis) {
    int rank = s->im->tensors.items[operand->tensor].tensor.rank;
    /* A tensor of the operator that has been met has its new rank already. */
    int done = operand->tensor < s->im->tensors.n ? s->dimension[operand->tensor] : UNSPLIT;
    rank -= done != UNSPLIT;
    int found = UNSPLIT;
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++) {
            if (operand->map[d].terms[t].axis == axis)
                found = d;
            operand->map[d].terms[t].axis += operand->map[d].terms[t].axis > axis;
        }
    if (found == UNSPLIT)
        return CLEAVE_OK;
    CLEAVE_TRY(split_tensor(s, found, &operand->tensor));
    for (int d = rank; d > found + 1; d--)
        operand->map[d] = operand->map[d - 1];
    cleave_map_axis(operand, found + 1, axis + 1);
    return CLEAVE_OK;
}

static void split_axes(const splitting *s, cleave_nest *nest, int axis) {
    const cleave_axis_split *split = s->split;
    for (int i = nest->n_axes; i > axis + 1; i--) {
        nest->axes[i] = nest->axes[i - 1];
        nest->operator_axis[i] = nest->operator_axis[i - 1];
    }
    nest->n_axes++;
    nest->axes[axis].name = split->outer_name;
    nest->axes[axis].extent = s->outer;
    nest->axes[axis + 1] = nest->axes[axis];
    nest->axes[axis + 1].name = split->inner_name;
    nest->axes[axis + 1].extent = split->inner;
    nest->operator_axis[axis + 1] = nest->operator_axis[axis];
}

static cleave_status split_nest(splitting *s, int32_t id, int axis) {
    cleave_nest nest = *nest_at(s->im, id);
    split_axes(s, &nest, axis);
    for (int i = 0; i < nest.n_instructions; i++)
        nest.tape[i].a += nest.tape[i].opcode == CLEAVE_OP_INDEX && nest.tape[i].a > axis;
    for (int i = 0; i < nest.n_inputs; i++)
        CLEAVE_TRY(split_operand(s, &nest.inputs[i], axis));
    CLEAVE_TRY(split_operand(s, &nest.output, axis));
    *nest_at(s->im, id) = nest;
    return CLEAVE_OK;
}

/* The operator's axes, and which of them those of its nests are. */
static void split_operator(const splitting *s) {
    const cleave_axis_split *split = s->split;
    cleave_draft_operator *op = &s->im->operators.items[split->op];
    for (int i = op->n_axes; i > split->axis + 1; i--)
        op->axes[i] = op->axes[i - 1];
    op->n_axes++;
    op->axes[split->axis].name = split->outer_name;
    op->axes[split->axis].extent = s->outer;
    op->axes[split->axis + 1] = op->axes[split->axis];
    op->axes[split->axis + 1].name = split->inner_name;
    op->axes[split->axis + 1].extent = split->inner;
    for (int32_t i = 0; i < s->im->nests.n; i++) {
        cleave_nest *nest = nest_at(s->im, i);
        if (nest->op != split->op || nest->derivation != CLEAVE_DERIVE_OPERATOR)
            continue;
        bool outer = true; /* of the two that the axis has become */
        for (int k = 0; k < nest->n_axes; k++) {
            if (nest->operator_axis[k] == split->axis && !outer)
                nest->operator_axis[k]++;
            else if (nest->operator_axis[k] == split->axis)
                outer = false;
            else
                nest->operator_axis[k] += nest->operator_axis[k] > split->axis;
        }
    }
}

/* The operator's output gets a tensor of its own, of which the old one is a view. */
static cleave_status renew_output(cleave_importer *im, int32_t op, int32_t *output) {
    int32_t old = im->operators.items[op].output;
    cleave_draft_tensor draft = im->tensors.items[old];
    const char *name = draft.tensor.name != NULL
                           ? cleave_arena_printf(im->arena, "%s.in_heads", draft.tensor.name)
                           : NULL;
    if (draft.tensor.name != NULL && name == NULL)
        return cleave_import_no_memory(im);
    cleave_new_tensor what = {name, op, draft.suffix, draft.tensor.rank, draft.tensor.shape, old};
    CLEAVE_TRY(cleave_import_new_tensor(im, what, output));
    for (int32_t i = 0; i < im->nests.n; i++) {
        cleave_nest *nest = nest_at(im, i);
        if (nest->op != op)
            continue;
        if (nest->output.tensor == old)
            nest->output.tensor = *output;
        for (int k = 0; k < nest->n_inputs; k++)
            if (nest->inputs[k].tensor == old)
                nest->inputs[k].tensor = *output;
    }
    int32_t *source = CLEAVE_ARENA_ARRAY(im->arena, int32_t, 1);
    if (source == NULL)
        return cleave_import_no_memory(im);
    *source = *output;
    im->tensors.items[old].op = -1;
    im->tensors.items[old].tensor.view =
        (cleave_view){.kind = CLEAVE_VIEW_RESHAPE, .n_sources = 1, .sources = source};
    im->operators.items[op].output = *output;
    /* A reshape of a reshape is one. */
    for (int32_t t = 0; t < im->tensors.n; t++) {
        cleave_view *view = &im->tensors.items[t].tensor.view;
        if (t != old && view->kind == CLEAVE_VIEW_RESHAPE && view->sources[0] == old)
            view->sources = source;
    }
    return CLEAVE_OK;
}

cleave_status cleave_import_split_axis(cleave_importer *im, const cleave_axis_split *split,
                                       int32_t *output) {
    int64_t extent = im->operators.items[split->op].axes[split->axis].extent;
    splitting s = {.im = im, .split = split, .outer = extent / split->inner};
    CLEAVE_TRY(renew_output(im, split->op, output));
    /* Views that are made on the way come behind, and are met once each. */
    int32_t n = im->tensors.n + im->nests.n * CLEAVE_MAX_INPUTS;
    cleave_arena scratch = {0};
    s.dimension = CLEAVE_ARENA_ARRAY(&scratch, int, n);
    int *axis = CLEAVE_ARENA_ARRAY(&scratch, int, im->nests.n);
    cleave_status status =
        s.dimension == NULL || axis == NULL ? cleave_import_no_memory(im) : CLEAVE_OK;
    if (status != CLEAVE_OK) {
        cleave_arena_free(&scratch);
        return status;
    }
    for (int32_t t = 0; t < n; t++)
        s.dimension[t] = UNSPLIT;
    for (int32_t i = 0; i < im->nests.n; i++)
        axis[i] = nest_at(im, i)->op == split->op ? axis_in(im, nest_at(im, i), split->axis) : -1;
    for (int32_t i = 0; i < im->nests.n && status == CLEAVE_OK; i++)
        if (axis[i] >= 0)
            status = split_nest(&s, i, axis[i]);
    split_operator(&s);
    cleave_arena_free(&scratch);
    return status;
}
