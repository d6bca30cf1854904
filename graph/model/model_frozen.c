/* Parameters that are not trained, as where adapters beside them are: a parameter without a
   gradient has no state and no update, so no pass, message or memory has a rule of its own for
   them. */
#include "graph/model/model_internal.h"

#include <fnmatch.h>
#include <string.h>

bool cleave_pattern_matches(const char *pattern, const char *name) {
    return fnmatch(pattern, name, 0) == 0;
}

static bool freeze(cleave_model *model, const char *pattern) {
    bool any = false;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        cleave_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER ||
            !cleave_pattern_matches(pattern, tensor->name))
            continue;
        tensor->frozen = any = true;
    }
    return any;
}

static cleave_status check_left(const cleave_model *model, cleave_error *error) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER && model->tensors[t].needs_gradient)
            return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: nothing can be trained: all parameters with a gradient are frozen",
                       model->file);
}

cleave_status cleave_model_freeze(cleave_model *model, const char *patterns, cleave_error *error) {
    if (patterns == NULL)
        return CLEAVE_OK;
    model->frozen_asked = true;
    if (patterns[0] == '\0')
        return CLEAVE_OK;
    int32_t most = 1;
    for (const char *c = patterns; *c != '\0'; c++)
        most += *c == ',';
    const char **list = CLEAVE_ARENA_ARRAY(model->arena, const char *, most);
    char *text = cleave_arena_printf(model->arena, "%s", patterns);
    if (list == NULL || text == NULL)
        return cleave_fail_memory(error, "freezing parameters");
    for (int32_t i = 0; i < most; i++) {
        list[i] = text;
        text += strcspn(text, ",");
        *text++ = '\0';
        if (!freeze(model, list[i]))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: --frozen: no parameter is named like \"%.128s\"", model->file,
                               list[i]);
    }
    model->n_frozen = most;
    model->frozen = list;
    CLEAVE_TRY(cleave_model_derive_gradients(model, error));
    CLEAVE_TRY(check_left(model, error));
    return cleave_model_check(model, error);
}
