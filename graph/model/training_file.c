#include "graph/model/training_file.h"

#include "base/file.h"
#include "graph/model/precision.h"

#include <string.h>

static cleave_status read_precision(const cleave_json_cursor *at, const char *key,
                                    const char *expected, bool asked, cleave_error *error) {
    cleave_json_cursor member;
    const char *name = "f32";
    bool found = cleave_json_find(at, key, &member);
    if (found)
        CLEAVE_TRY(cleave_json_string(&member, &name, error));
    bool mixed = strcmp(key, "reduce_precision") == 0 && strcmp(name, "mixed") == 0;
    if (!mixed && !cleave_precision_is_known(name))
        return cleave_json_fail(&member, error, "\"%.64s\" is none of: f32, bf16, fp16, fp8", name);
    if (!asked && strcmp(name, expected) != 0)
        return cleave_json_fail(found ? &member : at, error,
                                "was made for %s %s, but it is %s: say which with --precision", key,
                                name, expected);
    return CLEAVE_OK;
}

/* Are the same parameters frozen that its patterns name? */
static cleave_status read_frozen(const cleave_json_cursor *at, const cleave_model *model,
                                 cleave_error *error) {
    cleave_json_cursor list;
    bool found = cleave_json_find(at, "frozen", &list);
    if (found)
        CLEAVE_TRY(cleave_json_expect_array(&list, error));
    int32_t n = found ? cleave_json_count(&list) : 0;
    bool differs = false;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        bool frozen = false;
        for (int32_t i = 0; i < n; i++) {
            cleave_json_cursor element = cleave_json_element(&list, i);
            const char *pattern;
            CLEAVE_TRY(cleave_json_string(&element, &pattern, error));
            frozen = frozen || cleave_pattern_matches(pattern, model->tensors[t].name);
        }
        differs = differs || (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
                              frozen != model->tensors[t].frozen);
    }
    return differs && !model->frozen_asked
               ? cleave_json_fail(found ? &list : at, error,
                                  "was made for other frozen parameters: say which with --frozen")
               : CLEAVE_OK;
}

cleave_status cleave_training_read(const cleave_json_cursor *root, const cleave_model *model,
                                   cleave_error *error) {
    static const char *const keys[] = {"precision", "reduce_precision", "frozen", NULL};
    cleave_json_cursor at = *root;
    if (cleave_json_find(root, "training", &at))
        CLEAVE_TRY(cleave_json_expect_keys(&at, keys, error));
    CLEAVE_TRY(read_frozen(&at, model, error));
    CLEAVE_TRY(read_precision(&at, keys[0], cleave_precision_name(model->precision),
                              model->precision_asked, error));
    return read_precision(&at, keys[1], cleave_reduce_precision_name(model), model->precision_asked,
                          error);
}

void cleave_training_write(cleave_json_writer *out, const cleave_model *model) {
    if (model->precision == CLEAVE_F32 && model->n_frozen == 0)
        return;
    cleave_json_open_object(out, "training", true);
    if (model->precision != CLEAVE_F32)
        cleave_json_set_string(out, "precision", cleave_precision_name(model->precision));
    if (model->reduce_precision != CLEAVE_F32)
        cleave_json_set_string(out, "reduce_precision", cleave_reduce_precision_name(model));
    if (model->n_frozen > 0) {
        cleave_json_open_array(out, "frozen", true);
        for (int32_t i = 0; i < model->n_frozen; i++)
            cleave_json_put_string(out, model->frozen[i]);
        cleave_json_end_array(out);
    }
    cleave_json_end_object(out);
}

void cleave_training_open_model(cleave_json_writer *out, const cleave_model *model) {
    cleave_json_open_object(out, "model", true);
    cleave_json_set_string(out, "file", cleave_file_name(model->file));
    cleave_json_set_string(out, "hash", model->hash);
    cleave_json_set_integer(out, "batch", model->batch);
}
