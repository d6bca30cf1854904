#include "search/pipeline/recompute.h"

#include <stdlib.h>
#include <string.h>

const char *const cleave_recompute_names[CLEAVE_N_RECOMPUTES] = {"none", "selective", "alternate",
                                                                 "full"};

/* Has it a product of two activations? */
static bool multiplies_activations(const cleave_model *model, int32_t op) {
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        if (nest->kind == CLEAVE_NEST_PRODUCT && nest->n_inputs == 2 &&
            cleave_tensor_writer(model, nest->inputs[0].tensor) >= 0 &&
            cleave_tensor_writer(model, nest->inputs[1].tensor) >= 0)
            return true;
    }
    return false;
}

/* Does it read what an operator of the kind wrote, and multiply nothing by parameters itself? */
static bool follows(const cleave_model *model, int32_t op, const bool *marked) {
    bool after = false;
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        if (nest->kind == CLEAVE_NEST_PRODUCT || nest->kind == CLEAVE_NEST_CONVOLUTION)
            return false;
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t source = cleave_tensor_writer(model, nest->inputs[i].tensor);
            after = after || (source >= 0 && model->nests[source].op != op &&
                              marked[model->nests[source].op]);
        }
    }
    return after;
}

/* The first product, what follows it element by element or row by row, and the product that ends
   that. */
static void mark_selective(const cleave_model *model, bool *marked) {
    for (int32_t op = 0; op < model->n_operators; op++)
        marked[op] = multiplies_activations(model, op);
    for (int32_t op = 0; op < model->n_operators; op++)
        if (!marked[op] && follows(model, op, marked)) {
            /* but not what follows the second product: nothing comes after that to be attended */
            bool leads_on = false;
            for (int32_t next = op + 1; next < model->n_operators && next < op + 4; next++)
                leads_on = leads_on || multiplies_activations(model, next);
            marked[op] = leads_on;
        }
}

/* `n_across` [n_operators]: tensors that are written up to an operator and read behind it. */
static void mark_full(const cleave_model *model, int32_t *last, int32_t *n_across, bool *marked) {
    cleave_model_last_readers(model, last);
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->writer[t] >= 0)
            for (int32_t op = model->nests[model->writer[t]].op; op < last[t]; op++)
                n_across[op]++;
    for (int32_t op = 0; op < model->n_operators; op++)
        marked[op] = n_across[op] > 1;
    for (int32_t t = 0; t < model->n_tensors; t++) { /* what alone goes on is kept */
        int32_t writer = model->writer[t] >= 0 ? model->nests[model->writer[t]].op : -1;
        for (int32_t op = writer; op >= 0 && op < last[t]; op++)
            if (n_across[op] == 1)
                marked[writer] = false;
    }
}

/* Of what `full` marks, from one operator that it keeps to the next. */
static void unmark_alternate(const cleave_model *model, bool *marked) {
    int n_products = 0;
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_nest_kind kind = model->nests[model->operators[op].main_nest].kind;
        bool attends = kind == CLEAVE_NEST_ATTENTION || multiplies_activations(model, op);
        bool multiplies = kind == CLEAVE_NEST_PRODUCT || kind == CLEAVE_NEST_CONVOLUTION;
        n_products = marked[op] ? n_products + (multiplies && !attends) : 0;
        if (attends || (multiplies && n_products % 2 == 1))
            marked[op] = false;
    }
}

static void unmark_statistics(const cleave_model *model, bool *marked) {
    for (int32_t a = 0; a < model->n_assignments; a++) {
        int32_t writer = cleave_tensor_writer(model, model->assignments[a].source);
        if (writer >= 0)
            marked[model->nests[writer].op] = false;
    }
}

void cleave_recompute_may(const cleave_model *model, bool *may) {
    for (int32_t op = 0; op < model->n_operators; op++)
        may[op] = true;
    unmark_statistics(model, may);
}

cleave_status cleave_recompute_mark(const cleave_model *model, cleave_recompute what,
                                    cleave_layout *layout, cleave_error *error) {
    size_t n_tensors = (size_t)model->n_tensors, n_operators = (size_t)model->n_operators;
    memset(layout->recompute, 0, n_operators * sizeof *layout->recompute);
    if (what == CLEAVE_RECOMPUTE_NONE)
        return CLEAVE_OK;
    int32_t *last = calloc(n_tensors + 1, sizeof *last);
    int32_t *n_across = calloc(n_operators + 1, sizeof *n_across);
    if (last == NULL || n_across == NULL) {
        free(last);
        free(n_across);
        return cleave_fail_memory(error, "choosing what to recompute");
    }
    if (what == CLEAVE_RECOMPUTE_SELECTIVE)
        mark_selective(model, layout->recompute);
    else
        mark_full(model, last, n_across, layout->recompute);
    if (what == CLEAVE_RECOMPUTE_ALTERNATE)
        unmark_alternate(model, layout->recompute);
    unmark_statistics(model, layout->recompute);
    free(last);
    free(n_across);
    return CLEAVE_OK;
}
