/* Recomputation: which nests have a second forward slot, and when it comes; and what backward reads
   once more for it. */
#include "graph/lower/events.h"
#include "graph/lower/slots_internal.h"
#include "graph/lower/visit.h"
#include "graph/model/ring.h"

/* Calls `visit` for every base tensor under a tensor that a nest of the same stage writes. */
static void each_of_stage(lower_planner *p, int32_t tensor, int32_t stage,
                          void (*visit)(lower_planner *, int32_t)) {
    const cleave_tensor *of = &p->model->tensors[tensor];
    int32_t writer = of->view.kind == CLEAVE_VIEW_NONE ? p->model->writer[tensor] : -1;
    if (writer >= 0 && p->schedule->stage_of[writer] == stage)
        visit(p, tensor);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_of_stage(p, of->view.sources[s], stage, visit);
}

static void need(lower_planner *p, int32_t tensor) { p->needed[tensor] = true; }

/* May its forward come again?  What adds up over the micro-batches, or is there for all of them, is
   kept. */
static bool may_come_again(const lower_planner *p, int32_t n) {
    const cleave_nest *nest = &p->model->nests[n];
    return p->layout != NULL && cleave_layout_recomputes(p->layout, nest->op) &&
           (p->micro == NULL || (!p->micro->in_prologue[n] &&
                                 p->micro->value[nest->output.tensor] == CLEAVE_WHEN_EVERY));
}

/* Those whose output backward needs, or one of them. */
void lower_find_again(lower_planner *p) {
    for (int32_t n = p->model->n_nests - 1; n >= 0; n--) {
        const cleave_nest *nest = &p->model->nests[n];
        int32_t stage = p->schedule->stage_of[n];
        for (int i = 0; i < nest->n_inputs && nest->differentiable; i++)
            if ((nest->kept_inputs >> i & 1) != 0)
                each_of_stage(p, nest->inputs[i].tensor, stage, need);
        if (nest->differentiable && (nest->kept_output || nest->kept_combined))
            need(p, nest->output.tensor);
        if (nest->differentiable && nest->kept_combined)
            need(p, cleave_nest_combined(nest)->tensor);
        p->again[n] = may_come_again(p, n) && p->needed[nest->output.tensor];
        if (!p->again[n])
            continue;
        p->schedule->again_in[nest->output.tensor] = stage;
        p->schedule->again_in[cleave_nest_combined(nest)->tensor] = stage;
        for (int i = 0; i < nest->n_inputs; i++)
            each_of_stage(p, nest->inputs[i].tensor, stage, need);
    }
}

void lower_add_again(lower_planner *p, lower_event_kind kind, int32_t rank, int32_t n,
                     int32_t input, int32_t tensor) {
    lower_add_event(p, kind, rank, n, input, tensor);
    if (!p->failed)
        p->events.items[p->events.n - 1].again = true;
}

/* The second forward of the nest that writes a tensor, just before the first slot that needs it. */
static void come_again(lower_planner *p, int32_t tensor) {
    int32_t n = p->model->writer[tensor];
    const cleave_nest *nest = &p->model->nests[n];
    if (!p->again[n] || p->is_there[n])
        return;
    p->is_there[n] = true; /* already, while what it reads is made */
    for (int i = 0; i < nest->n_inputs; i++)
        each_of_stage(p, nest->inputs[i].tensor, p->schedule->stage_of[n], come_again);
    for (int32_t turn = n; turn < n + (nest->n_turns > 0 ? nest->n_turns : 1); turn++) {
        p->is_there[turn] = true;
        lower_begin_slot(p, turn, -1, CLEAVE_PASS_FORWARD);
        if (p->failed)
            return;
        p->slots.items[p->slots.n - 1].generation = 1;
        lower_forward_of_nest(p, turn, lower_add_again);
    }
}

bool lower_sees_again(const lower_schedule *schedule, const cleave_model *model, int32_t tensor,
                      int32_t stage) {
    const cleave_tensor *of = &model->tensors[tensor];
    bool sees = of->view.kind == CLEAVE_VIEW_NONE && schedule->again_in[tensor] == stage;
    for (int32_t s = 0; s < of->view.n_sources && !sees; s++)
        sees = lower_sees_again(schedule, model, of->view.sources[s], stage);
    return sees;
}

void lower_prepare_backward(lower_planner *p, int32_t n) {
    const cleave_nest *nest = &p->model->nests[n];
    for (int i = 0; i < nest->n_inputs; i++)
        if ((nest->kept_inputs >> i & 1) != 0)
            each_of_stage(p, nest->inputs[i].tensor, p->schedule->stage_of[n], come_again);
    if (nest->kept_output || nest->kept_combined)
        come_again(p, nest->output.tensor);
}

void lower_read_again(lower_planner *p, int32_t n, cleave_pass pass, bool first) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t read = lower_inputs_read(nest, cleave_nest_pass_inputs(p->model, nest, pass));
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t tensor = nest->inputs[i].tensor;
        bool comes = first && !p->is_there[n] && (nest->kept_inputs >> i & 1) != 0 &&
                     lower_sees_again(p->schedule, p->model, tensor, p->schedule->stage_of[n]);
        if (comes || cleave_ring_passes(nest, i) ||
            ((read >> i & 1) != 0 && p->layout != NULL &&
             lower_sees_sharded(p->model, p->layout, tensor, CLEAVE_SHARDED_WEIGHT)))
            lower_add_again(p, LOWER_READ, 2 + i, n, i, tensor);
        lower_number_ring(p, n, i);
    }
}
