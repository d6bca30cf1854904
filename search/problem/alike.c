/* Which operators have the same candidates: equal in all that costs and legality look at.  Networks
   repeat their blocks, so that most operators have many like them. */
#include "search/problem/candidates.h"

#include <string.h>

static bool same_axes(int n, const cleave_axis *a, const cleave_axis *b) {
    for (int i = 0; i < n; i++)
        if (a[i].extent != b[i].extent || a[i].whole != b[i].whole)
            return false;
    return true;
}

/* Which index of a dimension without terms is read, such as the step of a cell, costs nothing. */
static bool same_map(const cleave_dimension_map *a, const cleave_dimension_map *b) {
    if (a->n_terms != b->n_terms || (a->n_terms > 0 && a->offset != b->offset))
        return false;
    for (int t = 0; t < a->n_terms; t++)
        if (a->terms[t].axis != b->terms[t].axis || a->terms[t].stride != b->terms[t].stride)
            return false;
    return true;
}

static bool same_operand(const cleave_model *model, const cleave_operand *a,
                         const cleave_operand *b) {
    const cleave_tensor *x = &model->tensors[a->tensor], *y = &model->tensors[b->tensor];
    if (x->kind != y->kind || x->type != y->type || x->rank != y->rank ||
        x->needs_gradient != y->needs_gradient || x->view.kind != y->view.kind)
        return false;
    for (int d = 0; d < x->rank; d++)
        if (x->shape[d] != y->shape[d] || x->order[d] != y->order[d] ||
            !same_map(&a->map[d], &b->map[d]))
            return false;
    return true;
}

static bool same_tape(const cleave_nest *a, const cleave_nest *b) {
    if (a->n_instructions != b->n_instructions)
        return false;
    for (int i = 0; i < a->n_instructions; i++) {
        const cleave_instruction *x = &a->tape[i], *y = &b->tape[i];
        if (x->opcode != y->opcode || x->a != y->a || x->b != y->b)
            return false;
    }
    return true;
}

static bool same_nest(const cleave_model *model, const cleave_nest *a, const cleave_nest *b) {
    if (a->kind != b->kind || a->derivation != b->derivation || a->n_axes != b->n_axes ||
        a->n_inputs != b->n_inputs || a->combiner != b->combiner ||
        a->differentiable != b->differentiable || a->gradient_inputs != b->gradient_inputs ||
        a->kept_inputs != b->kept_inputs || a->kept_output != b->kept_output ||
        a->kept_combined != b->kept_combined || a->in_place != b->in_place || !same_tape(a, b) ||
        !same_axes(a->n_axes, a->axes, b->axes) || !same_operand(model, &a->output, &b->output))
        return false;
    for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++)
        if (cleave_nest_pass_inputs(model, a, (cleave_pass)pass) !=
            cleave_nest_pass_inputs(model, b, (cleave_pass)pass))
            return false;
    for (int i = 0; i < a->n_axes; i++)
        if (a->derivation == CLEAVE_DERIVE_OPERATOR && a->operator_axis[i] != b->operator_axis[i])
            return false;
    for (int i = 0; i < a->n_inputs; i++)
        if (!same_operand(model, &a->inputs[i], &b->inputs[i]))
            return false;
    return true;
}

bool cleave_operators_alike(const cleave_model *model, int32_t a, int32_t b) {
    const cleave_operator *x = &model->operators[a], *y = &model->operators[b];
    if (x->n_axes != y->n_axes || x->n_nests != y->n_nests ||
        !same_axes(x->n_axes, x->axes, y->axes))
        return false;
    for (int32_t i = 0; i < x->n_nests; i++) {
        const cleave_nest *m = &model->nests[x->nests[i]], *n = &model->nests[y->nests[i]];
        if (!same_nest(model, m, n))
            return false;
        /* Places within the operator, as ids differ. */
        for (int32_t j = 0; j < x->n_nests && m->derivation == CLEAVE_DERIVE_OWNERS; j++)
            if ((x->nests[j] == m->owners_of) != (y->nests[j] == n->owners_of))
                return false;
    }
    return true;
}
