#include "search/bound/least_memory.h"

#include <stdlib.h>

enum { BYTES_OF_ELEMENT = 4 };

/* Does the nest, all its parts together, read every index of a dimension?  Terms by rising stride
   cover an interval as long as none steps over what those before have covered. */
static bool reads_all_of(const cleave_nest *nest, const cleave_dimension_map *map, int64_t extent) {
    int64_t width = 1;
    bool used[CLEAVE_MAX_TERMS] = {false};
    for (int round = 0; round < map->n_terms; round++) {
        int next = -1;
        for (int t = 0; t < map->n_terms; t++)
            if (!used[t] && (next < 0 || map->terms[t].stride < map->terms[next].stride))
                next = t;
        used[next] = true;
        if (map->terms[next].stride > width)
            return false;
        width += map->terms[next].stride * (nest->axes[map->terms[next].axis].extent - 1);
    }
    return map->offset <= 0 && map->offset + width >= extent;
}

/* The base tensor that an operand reads whole; -1: it may not. */
static int32_t read_whole(const cleave_model *model, const cleave_nest *nest,
                          const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    for (int d = 0; d < tensor->rank; d++)
        if (!reads_all_of(nest, &operand->map[d], tensor->shape[d]))
            return -1;
    int32_t t = operand->tensor;
    while (model->tensors[t].view.kind != CLEAVE_VIEW_NONE) {
        const cleave_view *view = &model->tensors[t].view;
        if (view->kind != CLEAVE_VIEW_RESHAPE && view->kind != CLEAVE_VIEW_TRANSPOSE)
            return -1;
        t = view->sources[0];
    }
    return t;
}

static void mark(const cleave_model *model, const cleave_nest *nest, bool *held) {
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t t = read_whole(model, nest, &nest->inputs[i]);
        if (t < 0)
            continue;
        bool is_parameter = model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
        bool is_kept = model->loss >= 0 && (nest->kept_inputs >> i & 1) != 0 &&
                       model->tensors[t].kind == CLEAVE_TENSOR_ACTIVATION;
        held[t] = held[t] || is_parameter || is_kept;
    }
    if (model->loss >= 0 && nest->kept_output)
        held[nest->output.tensor] = true;
}

int64_t cleave_least_memory(const cleave_model *model, int optimizer_states) {
    int64_t bytes = 0;
    bool *held = calloc((size_t)model->n_tensors + 1, sizeof *held);
    if (held == NULL)
        return 0; /* proves nothing */
    for (int32_t n = 0; n < model->n_nests; n++)
        mark(model, &model->nests[n], held);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        bool is_updated =
            model->loss >= 0 && tensor->kind == CLEAVE_TENSOR_PARAMETER && tensor->needs_gradient;
        if (held[t])
            bytes += cleave_tensor_size(tensor) * BYTES_OF_ELEMENT *
                     (1 + (is_updated ? optimizer_states : 0));
    }
    free(held);
    return bytes;
}

int64_t cleave_most_memory(const cleave_machine *machine, int64_t memory_limit_bytes) {
    int64_t sum = 0;
    for (int32_t d = 0; d < machine->n_devices; d++) {
        int64_t limit = memory_limit_bytes > 0
                            ? memory_limit_bytes
                            : machine->kinds[machine->device_kind[d]].memory_bytes;
        int64_t beside = cleave_machine_runtime_bytes(machine, d, 0);
        sum += limit > beside ? limit - beside : 0;
    }
    return sum;
}
