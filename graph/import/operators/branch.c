/* If, where the condition is known when importing: the nodes of the branch that is taken stand in
   its place.  Exporters write one where they don't know the shapes yet. */
#include "graph/import/internal.h"

#include <string.h>

static cleave_status choose_branch(cleave_importer *im, const cleave_onnx_graph **branch) {
    const cleave_onnx_tensor *condition = cleave_import_constant(im, 0);
    if (condition == NULL || condition->integers == NULL || condition->n != 1)
        return cleave_import_fail(im,
                                  "which branch is taken follows from data (%s): that is not "
                                  "supported",
                                  im->node->inputs[0]);
    const char *name = condition->integers[0] != 0 ? "then_branch" : "else_branch";
    const cleave_onnx_attribute *attribute = cleave_import_attribute(im, name);
    if (attribute == NULL || attribute->kind != CLEAVE_ONNX_ATTRIBUTE_GRAPH)
        return cleave_import_fail(im, "has no %s", name);
    *branch = attribute->graph;
    return (*branch)->n_outputs == im->node->n_outputs
               ? CLEAVE_OK
               : cleave_import_fail(im, "its %s has %d outputs, and it has %d", name,
                                    (int)(*branch)->n_outputs, (int)im->node->n_outputs);
}

static int32_t uses_of(const cleave_name_map *uses, const char *name) {
    int32_t n = cleave_name_map_find(uses, name);
    return n > 0 ? n : 0;
}

/* "" is what is left out. */
static cleave_status count_use(cleave_importer *im, cleave_name_map *uses, const char *name) {
    return name[0] == '\0' || cleave_name_map_set(uses, name, uses_of(uses, name) + 1)
               ? CLEAVE_OK
               : cleave_import_no_memory(im);
}

/* How often live nodes of the branch, or used outputs of it, read what; live: [n_nodes]. */
static cleave_status count_uses(cleave_importer *im, const cleave_onnx_graph *branch, bool *live,
                                cleave_name_map *uses) {
    for (int32_t i = 0; i < branch->n_outputs; i++)
        if (cleave_import_uses_output(im, i))
            CLEAVE_TRY(count_use(im, uses, branch->outputs[i].name));
    for (int32_t k = branch->n_nodes - 1; k >= 0; k--) {
        const cleave_onnx_node *node = &branch->nodes[k];
        for (int32_t i = 0; i < node->n_outputs; i++)
            live[k] = live[k] || uses_of(uses, node->outputs[i]) > 0;
        for (int32_t i = 0; live[k] && i < node->n_inputs; i++)
            CLEAVE_TRY(count_use(im, uses, node->inputs[i]));
    }
    return CLEAVE_OK;
}

/* What it reads from outside has these readers, too. */
static void count_outer_uses(cleave_importer *im, const cleave_name_map *uses) {
    for (int32_t i = 0; i < im->node->n_inputs; i++)
        if (cleave_import_has_input(im, i))
            cleave_import_input(im, i)->n_uses += uses_of(uses, im->node->inputs[i]);
}

static cleave_status define_used(cleave_importer *im, cleave_value value,
                                 const cleave_name_map *uses) {
    value.n_uses = uses_of(uses, value.name);
    return value.name[0] == '\0' ? CLEAVE_OK : cleave_import_define(im, value);
}

/* A node of the branch: what it reads has to be there, since nodes of a branch come in order. */
static cleave_status import_inner(cleave_importer *im, const cleave_onnx_node *node,
                                  int32_t producer, const cleave_name_map *uses) {
    im->node = node;
    for (int32_t i = 0; i < node->n_inputs; i++)
        if (cleave_import_has_input(im, i) && cleave_name_map_find(&im->names, node->inputs[i]) < 0)
            return cleave_import_fail(im, "input %s is not defined", node->inputs[i]);
    for (int32_t i = 0; i < node->n_outputs; i++)
        CLEAVE_TRY(
            define_used(im, (cleave_value){.name = node->outputs[i], .producer = producer}, uses));
    cleave_import_survey_node(im, node);
    return cleave_import_node(im);
}

static cleave_status import_nodes(cleave_importer *im, const cleave_onnx_graph *branch,
                                  const bool *live, const cleave_name_map *uses) {
    const cleave_onnx_node *outer = im->node;
    int32_t producer = cleave_import_output(im, 0)->producer;
    for (int32_t i = 0; i < branch->n_initializers; i++)
        CLEAVE_TRY(
            define_used(im, cleave_import_initializer_value(&branch->initializers[i]), uses));
    for (int32_t k = 0; k < branch->n_nodes; k++)
        if (live[k])
            CLEAVE_TRY(import_inner(im, &branch->nodes[k], producer, uses));
    im->node = outer;
    return CLEAVE_OK;
}

/* Output i is what the branch gives as its i-th. */
static cleave_status take_output(cleave_importer *im, int i, const char *name) {
    int32_t id = cleave_name_map_find(&im->names, name), tensor;
    if (id < 0)
        return cleave_import_fail(im, "its branch does not compute its output %s", name);
    cleave_value *inner = &im->values.items[id], *output = cleave_import_output(im, i);
    if (inner->state == CLEAVE_VALUE_CONSTANT) {
        output->state = CLEAVE_VALUE_CONSTANT;
        output->constant = inner->constant;
        output->type = inner->type;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_import_value_tensor(im, inner, &tensor));
    cleave_import_set_output(im, i, tensor, true);
    output->type = cleave_import_type(inner);
    return CLEAVE_OK;
}

cleave_status cleave_import_if(cleave_importer *im) {
    const cleave_onnx_graph *branch = NULL;
    cleave_name_map uses = {.arena = &im->scratch};
    CLEAVE_TRY(choose_branch(im, &branch));
    bool *live = CLEAVE_ARENA_ARRAY(&im->scratch, bool, branch->n_nodes);
    if (live == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(count_uses(im, branch, live, &uses));
    count_outer_uses(im, &uses);
    CLEAVE_TRY(import_nodes(im, branch, live, &uses));
    for (int32_t i = 0; i < branch->n_outputs; i++)
        if (cleave_import_uses_output(im, i))
            CLEAVE_TRY(take_output(im, i, branch->outputs[i].name));
    return CLEAVE_OK;
}
