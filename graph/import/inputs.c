/* What the inputs of the graph are: data, given at each step, or parameters and buffers, which are
   kept from one to the next.

   Exporters write parameters as initializers, and inputs are data then.  But a file without any may
   hold a structure alone, whose parameters are inputs, too: of its inputs those with an open
   dimension are data, and what is of fixed shape is a parameter.  Where that is wrong the names of
   the data have to be given. */
#include "graph/import/internal.h"

#include <string.h>

static cleave_status name_input(cleave_importer *im, const char *name, size_t length) {
    char *copy = CLEAVE_ARENA_ARRAY(&im->scratch, char, length + 1);
    if (copy == NULL)
        return cleave_import_no_memory(im);
    memcpy(copy, name, length);
    int32_t id = cleave_name_map_find(&im->names, copy);
    if (id < 0 || im->values.items[id].input == NULL)
        return cleave_import_fail(
            im, "--inputs: \"%.200s\" is no input of the graph%s (`cleave show` lists them)", copy,
            id >= 0 && im->values.items[id].producer < 0 ? ", but has its value in the file" : "");
    im->values.items[id].named = true;
    return CLEAVE_OK;
}

cleave_status cleave_import_name_inputs(cleave_importer *im) {
    for (const char *name = im->inputs; name != NULL;) {
        size_t length = strcspn(name, ",");
        CLEAVE_TRY(name_input(im, name, length));
        name = name[length] == ',' ? name + length + 1 : NULL;
    }
    return CLEAVE_OK;
}

cleave_tensor_kind cleave_import_input_kind(const cleave_importer *im, const cleave_value *value,
                                            const char **why) {
    static const struct {
        cleave_tensor_kind kind;
        const char *why;
    } rules[] = {{CLEAVE_TENSOR_DATA, "it is not of floats"},
                 {CLEAVE_TENSOR_DATA, "a dimension of it is open"},
                 {CLEAVE_TENSOR_DATA, "--inputs names it"},
                 {CLEAVE_TENSOR_BUFFER, "--inputs does not name it, and it is not trained"},
                 {CLEAVE_TENSOR_PARAMETER, "--inputs does not name it"},
                 {CLEAVE_TENSOR_DATA, "it weighs the classes of a loss"},
                 {CLEAVE_TENSOR_BUFFER, "it is a running statistic"},
                 {CLEAVE_TENSOR_BUFFER, "models of its family do not train it"},
                 {CLEAVE_TENSOR_DATA, "the file has its parameters as initializers"},
                 {CLEAVE_TENSOR_BUFFER, "it does no more than choose: no gradient reaches it"},
                 {CLEAVE_TENSOR_PARAMETER,
                  "it is of floats and of fixed shape, in a file without initializers"}};
    const bool holds[] = {value->input->type != CLEAVE_ONNX_FLOAT,
                          cleave_import_is_open(value),
                          value->named,
                          im->inputs != NULL &&
                              (value->running || value->chooses || value->input->is_kept),
                          im->inputs != NULL,
                          value->weighs_classes,
                          value->running,
                          value->input->is_kept,
                          im->has_float_initializers,
                          value->chooses,
                          true};
    int i = 0;
    while (!holds[i])
        i++;
    *why = rules[i].why;
    return rules[i].kind;
}

cleave_status cleave_import_list_inputs(cleave_importer *im, const int32_t *new_id,
                                        cleave_model *model) {
    model->inputs = CLEAVE_ARENA_ARRAY(im->arena, cleave_model_input, im->graph.n_inputs);
    if (model->inputs == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < im->values.n; i++) {
        const cleave_value *value = &im->values.items[i];
        if (value->input == NULL)
            continue;
        cleave_model_input *input = &model->inputs[model->n_inputs++];
        *input = (cleave_model_input){.name = value->name, .tensor = -1};
        if (value->state == CLEAVE_VALUE_TENSOR)
            input->tensor = new_id[value->tensor];
        if (input->tensor >= 0)
            cleave_import_input_kind(im, value, &input->why);
    }
    return CLEAVE_OK;
}
