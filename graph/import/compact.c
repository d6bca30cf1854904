/* Drafts that fusing leaves over: operators that are read past, and what no operator has. */
#include "graph/import/internal.h"

static void mark(const cleave_importer *im, bool *read, int32_t tensor) {
    const cleave_view *view = &im->tensors.items[tensor].tensor.view;
    if (read[tensor])
        return;
    read[tensor] = true;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        mark(im, read, view->sources[i]);
}

static void mark_results(const cleave_importer *im, bool *read) {
    for (int32_t i = 0; i < im->graph.n_outputs; i++) {
        int32_t id = cleave_name_map_find(&im->names, im->graph.outputs[i].name);
        if (im->values.items[id].state == CLEAVE_VALUE_TENSOR)
            mark(im, read, im->values.items[id].tensor);
    }
    for (int32_t i = 0; i < im->assignments.n; i++)
        mark(im, read, im->assignments.items[i].source);
    if (im->loss >= 0)
        mark(im, read, im->loss);
}

cleave_status cleave_import_drop_bypassed(cleave_importer *im) {
    bool *read = CLEAVE_ARENA_ARRAY(&im->scratch, bool, im->tensors.n);
    bool *live = CLEAVE_ARENA_ARRAY(&im->scratch, bool, im->operators.n), any = false;
    if (read == NULL || live == NULL)
        return cleave_import_no_memory(im);
    for (int32_t op = 0; op < im->operators.n; op++)
        live[op] = !im->operators.items[op].bypassed;
    mark_results(im, read);
    /* Nests read what nests before them write, but for those of an operator that was opened early
       and joined late; so until nothing changes. */
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = im->nests.n - 1; i >= 0; i--) {
            const cleave_nest *nest = &im->nests.items[i].nest;
            if (nest->op < 0)
                continue;
            if (!live[nest->op] && read[nest->output.tensor])
                changed = live[nest->op] = true;
            for (int k = 0; live[nest->op] && k < nest->n_inputs; k++)
                mark(im, read, nest->inputs[k].tensor);
        }
    }
    for (int32_t i = 0; i < im->nests.n; i++) {
        cleave_nest *nest = &im->nests.items[i].nest;
        if (nest->op < 0 || live[nest->op])
            continue;
        nest->op = -1;
        any = true;
    }
    return any ? cleave_import_compact(im) : CLEAVE_OK;
}

cleave_status cleave_import_compact(cleave_importer *im) {
    int32_t *nest_id = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->nests.n);
    int32_t *op_id = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->operators.n), n = 0;
    if (nest_id == NULL || op_id == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < im->operators.n; i++)
        op_id[i] = -1;
    for (int32_t i = 0; i < im->nests.n; i++) {
        nest_id[i] = im->nests.items[i].nest.op >= 0 ? n++ : -1;
        if (nest_id[i] < 0)
            continue;
        op_id[im->nests.items[i].nest.op] = 0;
        im->nests.items[nest_id[i]] = im->nests.items[i];
    }
    im->nests.n = n;
    n = 0;
    for (int32_t i = 0; i < im->operators.n; i++) {
        if (op_id[i] < 0)
            continue;
        op_id[i] = n++;
        cleave_draft_operator *op = &im->operators.items[op_id[i]];
        *op = im->operators.items[i];
        op->main_nest = nest_id[op->main_nest];
        op->tail_nest = op->tail_nest >= 0 ? nest_id[op->tail_nest] : -1;
    }
    im->operators.n = n;
    for (int32_t i = 0; i < im->nests.n; i++) {
        cleave_nest *nest = &im->nests.items[i].nest;
        nest->op = op_id[nest->op];
        if (nest->derivation == CLEAVE_DERIVE_OWNERS)
            nest->owners_of = nest_id[nest->owners_of];
    }
    for (int32_t t = 0; t < im->tensors.n; t++)
        if (im->tensors.items[t].op >= 0)
            im->tensors.items[t].op = op_id[im->tensors.items[t].op];
    return CLEAVE_OK;
}
