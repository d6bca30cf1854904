/* Every count, id, register and axis index of a model is in its range: what has to hold before
   anything may walk it.  Views of views are bounded here too, since a walk through them costs what
   they have in depth and in pieces. */
#include "graph/model/model_internal.h"

#include <stdlib.h>

static cleave_status check_tensor_references(const cleave_model *model, int32_t id,
                                             cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[id];
    if (tensor->name == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "tensor %d has no name", (int)id);
    if (tensor->rank < 0 || tensor->rank > CLEAVE_MAX_RANK)
        return cleave_fail(error, CLEAVE_FAILED, "tensor %s has rank %d, at most %d is supported",
                           tensor->name, tensor->rank, CLEAVE_MAX_RANK);
    const cleave_view *view = &tensor->view;
    if (view->kind == CLEAVE_VIEW_NONE)
        return CLEAVE_OK;
    if ((int)view->kind < 0 || view->kind > CLEAVE_VIEW_PAD)
        return cleave_fail(error, CLEAVE_FAILED, "tensor %s has view kind %d", tensor->name,
                           (int)view->kind);
    if (view->sources == NULL || view->n_sources < 1 ||
        (view->n_sources > 1 && view->kind != CLEAVE_VIEW_CONCAT))
        return cleave_fail(error, CLEAVE_FAILED, "view %s has %d sources", tensor->name,
                           (int)view->n_sources);
    for (int32_t i = 0; i < view->n_sources; i++)
        if (view->sources[i] < 0 || view->sources[i] >= id)
            return cleave_fail(error, CLEAVE_FAILED,
                               "view %s has id %d and source %d, which is not smaller",
                               tensor->name, (int)id, (int)view->sources[i]);
    return CLEAVE_OK;
}

/* Bounds what a walk through views of views can cost.  depth and leaves: [n_tensors]. */
static cleave_status check_view_size(const cleave_model *model, int32_t id, int32_t *depth,
                                     int64_t *leaves, cleave_error *error) {
    const cleave_view *view = &model->tensors[id].view;
    depth[id] = 0;
    leaves[id] = view->kind == CLEAVE_VIEW_NONE ? 1 : 0;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++) {
        int32_t source = view->sources[i];
        leaves[id] += leaves[source];
        if (depth[source] + 1 > depth[id])
            depth[id] = depth[source] + 1;
        if (leaves[id] > CLEAVE_MAX_VIEW_LEAVES)
            break;
    }
    if (depth[id] > CLEAVE_MAX_VIEW_DEPTH || leaves[id] > CLEAVE_MAX_VIEW_LEAVES)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "tensor %s is a view stacked %d deep over %lld pieces, at most %d over "
                           "%d is supported",
                           model->tensors[id].name, (int)depth[id], (long long)leaves[id],
                           CLEAVE_MAX_VIEW_DEPTH, CLEAVE_MAX_VIEW_LEAVES);
    return CLEAVE_OK;
}

static cleave_status check_view_sizes(const cleave_model *model, cleave_error *error) {
    size_t n = (size_t)model->n_tensors + 1;
    int32_t *depth = calloc(n, sizeof *depth);
    int64_t *leaves = calloc(n, sizeof *leaves);
    cleave_status status = CLEAVE_OK;
    if (depth == NULL || leaves == NULL)
        status = cleave_fail_memory(error, "checking a model");
    for (int32_t t = 0; status == CLEAVE_OK && t < model->n_tensors; t++)
        status = check_view_size(model, t, depth, leaves, error);
    free(depth);
    free(leaves);
    return status;
}

static cleave_status check_operand_references(const cleave_model *model, const cleave_nest *nest,
                                              const cleave_operand *operand, cleave_error *error) {
    if (operand->tensor < 0 || operand->tensor >= model->n_tensors)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has tensor %d of %d", nest->name,
                           (int)operand->tensor, (int)model->n_tensors);
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        if (map->n_terms < 0 || map->n_terms > CLEAVE_MAX_TERMS)
            return cleave_fail(error, CLEAVE_FAILED, "nest %s maps dimension %d of %s by %d terms",
                               nest->name, d, tensor->name, map->n_terms);
        for (int t = 0; t < map->n_terms; t++)
            if (map->terms[t].axis < 0 || map->terms[t].axis >= nest->n_axes ||
                map->terms[t].stride < 1)
                return cleave_fail(error, CLEAVE_FAILED,
                                   "nest %s maps dimension %d of %s by axis %d with stride %lld",
                                   nest->name, d, tensor->name, map->terms[t].axis,
                                   (long long)map->terms[t].stride);
    }
    return CLEAVE_OK;
}

static cleave_status check_tape(const cleave_nest *nest, cleave_error *error) {
    if (nest->n_instructions < 1 || nest->n_instructions > CLEAVE_MAX_TAPE)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has a tape of %d instructions",
                           nest->name, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        if ((int)it->opcode < 0 || it->opcode >= CLEAVE_N_OPCODES)
            return cleave_fail(error, CLEAVE_FAILED, "nest %s has opcode %d", nest->name,
                               (int)it->opcode);
        int operands = cleave_opcode_operands(it->opcode), n_known = nest->n_inputs + i;
        int limit = it->opcode == CLEAVE_OP_INDEX ? nest->n_axes : n_known;
        if (((operands >= 1 || it->opcode == CLEAVE_OP_INDEX) && (it->a < 0 || it->a >= limit)) ||
            (operands >= 2 && (it->b < 0 || it->b >= limit)))
            return cleave_fail(error, CLEAVE_FAILED,
                               "instruction %d of nest %s reads %d and %d, but only %d are known",
                               i, nest->name, it->a, it->b, limit);
    }
    return CLEAVE_OK;
}

static cleave_status check_nest_references(const cleave_model *model, int32_t id,
                                           cleave_error *error) {
    const cleave_nest *nest = &model->nests[id];
    if (nest->name == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "nest %d has no name", (int)id);
    if (nest->op < 0 || nest->op >= model->n_operators)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has operator %d of %d", nest->name,
                           (int)nest->op, (int)model->n_operators);
    if (nest->n_axes < 0 || nest->n_axes > CLEAVE_MAX_AXES || nest->n_inputs < 0 ||
        nest->n_inputs > CLEAVE_MAX_INPUTS)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has %d axes and %d inputs", nest->name,
                           nest->n_axes, nest->n_inputs);
    if ((int)nest->kind < 0 || nest->kind > CLEAVE_NEST_ATTENTION || (int)nest->combiner < 0 ||
        nest->combiner > CLEAVE_COMBINE_MOMENTS || (int)nest->derivation < 0 ||
        nest->derivation > CLEAVE_DERIVE_OWNERS)
        return cleave_fail(error, CLEAVE_FAILED, "nest %s has kind %d, combiner %d, derivation %d",
                           nest->name, (int)nest->kind, (int)nest->combiner, (int)nest->derivation);
    if (nest->derivation == CLEAVE_DERIVE_OWNERS && (nest->owners_of < 0 || nest->owners_of >= id))
        return cleave_fail(error, CLEAVE_FAILED,
                           "nest %s (%d) is derived from nest %d, which is not before it",
                           nest->name, (int)id, (int)nest->owners_of);
    for (int i = 0; i < nest->n_inputs; i++)
        CLEAVE_TRY(check_operand_references(model, nest, &nest->inputs[i], error));
    CLEAVE_TRY(check_operand_references(model, nest, &nest->output, error));
    if ((nest->kind == CLEAVE_NEST_ATTENTION) != (nest->attention != NULL))
        return cleave_fail(error, CLEAVE_FAILED, "nest %s is of kind %d and %s attention",
                           nest->name, (int)nest->kind, nest->attention != NULL ? "has" : "lacks");
    if (nest->attention != NULL)
        CLEAVE_TRY(check_operand_references(model, nest, &nest->statistics, error));
    return check_tape(nest, error);
}

static cleave_status check_operator_references(const cleave_model *model, int32_t id,
                                               cleave_error *error) {
    const cleave_operator *op = &model->operators[id];
    if (op->name == NULL || op->type == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "operator %d has no name or no type", (int)id);
    if (op->n_axes < 0 || op->n_axes > CLEAVE_MAX_AXES || op->n_nests < 1)
        return cleave_fail(error, CLEAVE_FAILED, "operator %s has %d axes and %d nests", op->name,
                           op->n_axes, (int)op->n_nests);
    bool has_main = false;
    for (int32_t i = 0; i < op->n_nests; i++) {
        if (op->nests[i] < 0 || op->nests[i] >= model->n_nests ||
            model->nests[op->nests[i]].op != id)
            return cleave_fail(error, CLEAVE_FAILED, "operator %s lists nest %d, which is not its",
                               op->name, (int)op->nests[i]);
        has_main = has_main || op->nests[i] == op->main_nest;
    }
    return has_main ? CLEAVE_OK
                    : cleave_fail(error, CLEAVE_FAILED, "operator %s does not list its main nest",
                                  op->name);
}

cleave_status cleave_model_check_references(const cleave_model *model, cleave_error *error) {
    if (model->n_tensors < 0 || model->n_nests < 0 || model->n_operators < 0 ||
        model->n_assignments < 0 || model->n_outputs < 0)
        return cleave_fail(error, CLEAVE_FAILED, "the model has a negative count");
    for (int32_t t = 0; t < model->n_tensors; t++)
        CLEAVE_TRY(check_tensor_references(model, t, error));
    for (int32_t n = 0; n < model->n_nests; n++)
        CLEAVE_TRY(check_nest_references(model, n, error));
    for (int32_t i = 0; i < model->n_operators; i++)
        CLEAVE_TRY(check_operator_references(model, i, error));
    for (int32_t i = 0; i < model->n_assignments; i++)
        if (model->assignments[i].target < 0 || model->assignments[i].target >= model->n_tensors ||
            model->assignments[i].source < 0 || model->assignments[i].source >= model->n_tensors)
            return cleave_fail(error, CLEAVE_FAILED, "assignment %d names no tensor", (int)i);
    for (int32_t i = 0; i < model->n_outputs; i++)
        if (model->outputs[i] < 0 || model->outputs[i] >= model->n_tensors)
            return cleave_fail(error, CLEAVE_FAILED, "output %d names no tensor", (int)i);
    if (model->loss < -1 || model->loss >= model->n_tensors || model->targets < -1 ||
        model->targets >= model->n_tensors)
        return cleave_fail(error, CLEAVE_FAILED, "loss %d or targets %d is no tensor",
                           (int)model->loss, (int)model->targets);
    return check_view_sizes(model, error);
}
