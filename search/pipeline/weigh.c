/* What operators take by themselves, what they keep for backward, and what is sent on where a stage
   may end: from this stages are cut, and the least that a layout takes is known. */
#include "search/pipeline/internal.h"

#include "costmodel/machine_kind.h"
#include "graph/model/precision.h"
#include "search/pipeline/stages.h"

/* A parameter under what an operator reads is counted there, and no longer where it was. */
static void note_parameter(pipeline_finder *f, int32_t tensor, int32_t op) {
    const cleave_model *model = f->pricer->model;
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_parameter(f, of->view.sources[s], op);
    if (of->kind != CLEAVE_TENSOR_PARAMETER || of->view.kind != CLEAVE_VIEW_NONE)
        return;
    int64_t bytes = cleave_tensor_size(of) * cleave_stored_bytes(of);
    if (f->reader[tensor] > 0)
        f->parameters[f->reader[tensor] - 1] -= bytes;
    f->parameters[op] += bytes;
    f->reader[tensor] = op + 1;
    int32_t largest = f->largest[op];
    if (largest < 0 || cleave_tensor_size(of) > cleave_tensor_size(&model->tensors[largest]))
        f->largest[op] = tensor;
}

/* What backward reads of a tensor, or of those that it is a view of. */
static void note_kept(pipeline_finder *f, int32_t tensor, bool *known) {
    const cleave_model *model = f->pricer->model;
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_kept(f, of->view.sources[s], known);
    if (model->writer[tensor] >= 0 && !known[tensor])
        f->kept[model->nests[model->writer[tensor]].op] +=
            cleave_tensor_size(of) * cleave_stored_bytes(of);
    known[tensor] = true;
}

static cleave_status weigh_kept(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    bool *known = CLEAVE_ARENA_ARRAY(&f->work, bool, model->n_tensors);
    f->kept = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    if (known == NULL || f->kept == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t n = 0; n < model->n_nests && cleave_model_trains(model); n++) {
        if (model->nests[n].kept_output)
            note_kept(f, model->nests[n].output.tensor, known);
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            if (model->nests[n].kept_inputs & (1u << i))
                note_kept(f, model->nests[n].inputs[i].tensor, known);
    }
    return CLEAVE_OK;
}

/* What it takes to send on where no stage may begin: so long that none does. */
static const int64_t never = INT64_C(1) << 60;

/* Work of operators, and what it takes to send on what is written before each cut, there and back.
 */
static cleave_status weigh_work(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    const cleave_machine *machine = f->pricer->machine;
    int64_t *bytes;
    f->op_work = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->parameters = CLEAVE_ARENA_ARRAY(&f->work, int64_t, model->n_operators);
    f->largest = CLEAVE_ARENA_ARRAY(&f->work, int32_t, model->n_operators);
    f->reader = CLEAVE_ARENA_ARRAY(&f->work, int32_t, model->n_tensors);
    if (f->op_work == NULL || f->parameters == NULL || f->largest == NULL || f->reader == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t op = 0; op < model->n_operators; op++)
        f->largest[op] = -1;
    CLEAVE_TRY(cleave_stage_bytes(model, &f->work, &bytes, f->error));
    for (int32_t l = 0; l < machine->n_links; l++) {
        double rate = machine->links[l].bytes_per_second;
        f->slowest = f->slowest <= 0 || rate < f->slowest ? rate : f->slowest;
        f->quickest = rate > f->quickest ? rate : f->quickest;
    }
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_node_cost cost = {0};
        CLEAVE_TRY(cleave_node_cost_whole(f->costs, op, &cost, f->error));
        f->op_work[op] = cost.total;
        f->all_work += (double)cost.total * 1e-12;
        if (f->slowest > 0)
            bytes[op] = (int64_t)((double)bytes[op] * 2 / f->slowest * 1e12);
        if (op + 1 < model->n_operators &&
            !cleave_constraints_allow_stage(f->options->constraints, op + 1))
            bytes[op] = never;
    }
    for (int32_t n = model->n_nests - 1; n >= 0; n--) /* the first reader comes last */
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_parameter(f, model->nests[n].inputs[i].tensor, model->nests[n].op);
    f->sends = bytes;
    return cleave_model_trains(model) ? cleave_stage_joined(model, &f->work, &f->joined, f->error)
                                      : CLEAVE_OK;
}

static cleave_status count_kinds(pipeline_finder *f) {
    const cleave_machine *machine = f->pricer->machine;
    f->n_of_kind = CLEAVE_ARENA_ARRAY(&f->work, int32_t, machine->n_kinds);
    if (f->n_of_kind == NULL)
        return cleave_fail_memory(f->error, "searching");
    cleave_machine_count_kinds(machine, f->n_of_kind);
    for (int32_t k = 0; k < machine->n_kinds; k++)
        f->n_used_kinds += f->n_of_kind[k] > 0;
    return CLEAVE_OK;
}

/* On one device of each kind. */
static cleave_status weigh_kinds(pipeline_finder *f) {
    const cleave_model *model = f->pricer->model;
    const cleave_machine *machine = f->pricer->machine;
    cleave_status status = CLEAVE_OK;
    if (machine->n_kinds == 1)
        return CLEAVE_OK;
    f->kind_work = cleave_arena_alloc(&f->work, (size_t)machine->n_kinds,
                                      (size_t)model->n_operators * sizeof *f->kind_work);
    if (f->kind_work == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t k = 0; k < machine->n_kinds && status == CLEAVE_OK; k++) {
        cleave_machine alike;
        cleave_node_costs *costs;
        CLEAVE_TRY(cleave_machine_as_kind(machine, k, &f->work, &alike, f->error));
        CLEAVE_TRY(cleave_node_costs_create(model, &alike, &costs, f->error));
        for (int32_t op = 0; op < model->n_operators && status == CLEAVE_OK; op++) {
            cleave_node_cost cost = {0};
            status = cleave_node_cost_whole(costs, op, &cost, f->error);
            f->kind_work[(size_t)k * (size_t)model->n_operators + (size_t)op] = cost.total;
        }
        cleave_node_costs_destroy(costs);
    }
    return status;
}

cleave_status pipeline_weigh(pipeline_finder *f) {
    CLEAVE_TRY(count_kinds(f));
    CLEAVE_TRY(weigh_work(f));
    CLEAVE_TRY(weigh_kinds(f));
    return weigh_kept(f);
}
