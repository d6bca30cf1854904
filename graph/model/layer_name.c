#include "graph/model/layer_name.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

int64_t cleave_layer_of(const char *name, size_t *end) {
    for (const char *word = name; word != NULL;) {
        char *behind;
        long layer = isdigit((unsigned char)*word) ? strtol(word, &behind, 10) : -1;
        if (layer >= 0 && (*behind == '.' || *behind == '/' || *behind == '\0')) {
            if (end != NULL)
                *end = (size_t)(behind - name);
            return layer;
        }
        word = strpbrk(word, "./");
        word = word != NULL ? word + 1 : NULL;
    }
    return -1;
}

/* The layer of a tensor's name; a new one behind the `n` that are known where it is of none. */
static int32_t find_layer(const cleave_model *model, const int32_t *layer, int32_t t, int32_t n) {
    size_t end = 0, other_end = 0;
    const char *name = model->tensors[t].name;
    if (cleave_layer_of(name, &end) < 0)
        return 0;
    for (int32_t other = t - 1; other >= 0 && n > 0; other--)
        if (layer[other] > 0 && strncmp(name, model->tensors[other].name, end) == 0 &&
            cleave_layer_of(model->tensors[other].name, &other_end) >= 0 && other_end == end)
            return layer[other];
    return n + 1;
}

void cleave_layers_number(const cleave_model *model, int32_t *layer) {
    int32_t n = 0;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        bool is_parameter = model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
        layer[t] = is_parameter ? find_layer(model, layer, t, n) : -1;
        n = layer[t] > n ? layer[t] : n;
    }
}
