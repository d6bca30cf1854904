/* The hash of a model: two independent 64-bit hashes over one canonical walk of the graph with its
   shapes.  A layout carries it, so that it is refused for a model that it was not made for. */
#include "base/random.h"
#include "graph/model/model_internal.h"

#include <stdio.h>
#include <string.h>

typedef struct digest {
    uint64_t a, b;
} digest;

static void put(digest *d, uint64_t value) {
    d->a = (d->a ^ value) * UINT64_C(0x100000001b3);
    d->a ^= d->a >> 29;
    d->b = cleave_hash_join(d->b, value);
}

static void put_integer(digest *d, int64_t value) { put(d, (uint64_t)value); }

static void put_double(digest *d, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(d, bits);
}

static void put_string(digest *d, const char *string) {
    put(d, strlen(string));
    put(d, cleave_hash_string(string));
    for (const char *c = string; *c != '\0'; c++)
        d->a = (d->a ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
}

static void put_tensor(digest *d, const cleave_tensor *tensor) {
    put_string(d, tensor->name);
    put_integer(d, tensor->kind);
    put_integer(d, tensor->type);
    put_integer(d, tensor->rank);
    for (int i = 0; i < tensor->rank; i++) {
        put_integer(d, tensor->shape[i]);
        put_integer(d, tensor->order[i]);
    }
    const cleave_view *view = &tensor->view;
    put_integer(d, view->kind);
    if (view->kind == CLEAVE_VIEW_NONE)
        return;
    for (int32_t i = 0; i < view->n_sources; i++)
        put_integer(d, view->sources[i]);
    put_integer(d, view->axis);
    for (int i = 0; i < tensor->rank; i++) {
        put_integer(d, view->permutation[i]);
        put_integer(d, view->begin[i]);
        put_integer(d, view->step[i]);
    }
    put_double(d, (double)view->fill);
}

static void put_operand(digest *d, const cleave_model *model, const cleave_operand *operand) {
    put_integer(d, operand->tensor);
    for (int i = 0; i < model->tensors[operand->tensor].rank; i++) {
        const cleave_dimension_map *map = &operand->map[i];
        put_integer(d, map->offset);
        put_integer(d, map->n_terms);
        for (int t = 0; t < map->n_terms; t++) {
            put_integer(d, map->terms[t].axis);
            put_integer(d, map->terms[t].stride);
        }
    }
}

static void put_axis(digest *d, const cleave_axis *axis, bool whole) {
    put_string(d, axis->name);
    put_integer(d, axis->extent);
    put_integer(d, whole);
}

/* Those of an operator with later axes as they were: whole there; and nothing was summed over
   devices, so there were no owners to follow. */
static void put_loops(digest *d, const cleave_nest *nest, const cleave_operator *op) {
    bool owners = nest->derivation == CLEAVE_DERIVE_OWNERS && op->n_later == 0;
    put_integer(d, owners ? CLEAVE_DERIVE_OWNERS : CLEAVE_DERIVE_OPERATOR);
    put_integer(d, owners ? nest->owners_of : -1);
    put_integer(d, nest->n_axes);
    for (int i = 0; i < nest->n_axes; i++) {
        bool later = op->n_later > 0 && nest->operator_axis[i] >= op->n_axes - op->n_later;
        put_axis(d, &nest->axes[i], nest->axes[i].whole || later);
    }
}

static void put_operator(digest *d, const cleave_operator *op) {
    put_string(d, op->name);
    put_integer(d, op->n_axes - op->n_later);
    for (int i = 0; i < op->n_axes - op->n_later; i++)
        put_axis(d, &op->axes[i], op->axes[i].whole);
}

static void put_nest(digest *d, const cleave_model *model, const cleave_nest *nest) {
    put_string(d, nest->name);
    put_integer(d, nest->kind);
    put_integer(d, nest->op);
    put_loops(d, nest, &model->operators[nest->op]);
    put_integer(d, nest->n_inputs);
    for (int i = 0; i < nest->n_inputs; i++)
        put_operand(d, model, &nest->inputs[i]);
    put_operand(d, model, &nest->output);
    put_integer(d, nest->combiner);
    put_integer(d, nest->n_instructions);
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        put_integer(d, it->opcode);
        put_integer(d, it->a);
        put_integer(d, it->b);
        put_double(d, it->p);
        put_double(d, it->q);
    }
}

void cleave_model_hash(cleave_model *model) {
    digest d = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x436c65617665)};
    put_integer(&d, model->graph_version);
    put_integer(&d, model->batch);
    put_integer(&d, model->n_tensors);
    for (int32_t i = 0; i < model->n_tensors; i++)
        put_tensor(&d, &model->tensors[i]);
    put_integer(&d, model->n_nests);
    for (int32_t i = 0; i < model->n_nests; i++)
        put_nest(&d, model, &model->nests[i]);
    put_integer(&d, model->n_operators);
    for (int32_t i = 0; i < model->n_operators; i++)
        put_operator(&d, &model->operators[i]);
    for (int32_t i = 0; i < model->n_assignments; i++) {
        put_integer(&d, model->assignments[i].target);
        put_integer(&d, model->assignments[i].source);
    }
    for (int32_t i = 0; i < model->n_outputs; i++)
        put_integer(&d, model->outputs[i]);
    put_integer(&d, model->loss);
    snprintf(model->hash, sizeof model->hash, "%016llx%016llx",
             (unsigned long long)cleave_hash64(d.a), (unsigned long long)d.b);
}
