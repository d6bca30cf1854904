/* The slots of a step, in order, and the events of each: forward, backward, updates. */
#include "graph/lower/slots_internal.h"

#include "graph/model/ring.h"

#include <string.h>

/* ---- slots and events ------------------------------------------------------------------------ */

void lower_begin_slot(lower_planner *p, int32_t nest, int32_t tensor, cleave_pass pass) {
    if (!CLEAVE_LIST_PUSH(&p->slots, (cleave_slot){.nest = nest,
                                                   .tensor = tensor,
                                                   .pass = (uint8_t)pass,
                                                   .block = (uint8_t)p->in}))
        p->failed = true;
}

static void add_event_to(lower_planner *p, int32_t slot, lower_event_kind kind, int32_t rank,
                         int32_t nest, int32_t input, int32_t tensor) {
    if (!CLEAVE_LIST_PUSH(&p->events, (lower_event){.kind = kind,
                                                    .slot = slot,
                                                    .rank = rank,
                                                    .nest = nest,
                                                    .input = input,
                                                    .tensor = tensor,
                                                    .visit = -1,
                                                    .ring = -1}))
        p->failed = true;
}

void lower_add_event(lower_planner *p, lower_event_kind kind, int32_t rank, int32_t nest,
                     int32_t input, int32_t tensor) {
    add_event_to(p, p->slots.n - 1, kind, rank, nest, input, tensor);
}

void lower_number_ring(lower_planner *p, int32_t n, int input) {
    const cleave_nest *nest = &p->model->nests[n];
    if (p->failed || nest->turn == 0 || !cleave_ring_passes(nest, input))
        return;
    int32_t family = p->schedule->family_of[nest->inputs[input].tensor];
    p->events.items[p->events.n - 1].ring = p->schedule->n_rings[family]++;
}

void lower_forward_of_nest(lower_planner *p, int32_t n, lower_event_adder *add) {
    const cleave_nest *nest = &p->model->nests[n];
    for (int i = 0; i < nest->n_inputs; i++) {
        add(p, LOWER_READ, i, n, i, nest->inputs[i].tensor);
        lower_number_ring(p, n, i);
    }
    if (nest->turn + 1 < nest->n_turns)
        return;
    if (nest->attention != NULL)
        add(p, LOWER_WRITE, CLEAVE_RANK_COMPUTE + 1, n - nest->turn, 0, nest->statistics.tensor);
    add(p, LOWER_WRITE, CLEAVE_RANK_COMPUTE + 1, n - nest->turn, -1, nest->output.tensor);
}

static void forward_of_nests(lower_planner *p, bool in_prologue) {
    for (int32_t n = 0; n < p->model->n_nests; n++) {
        if ((p->micro != NULL && p->micro->in_prologue[n]) != in_prologue)
            continue;
        lower_begin_slot(p, n, -1, CLEAVE_PASS_FORWARD);
        lower_forward_of_nest(p, n, lower_add_event);
    }
}

static void forward(lower_planner *p) {
    const cleave_model *model = p->model;
    p->in = CLEAVE_BLOCK_FORWARD;
    forward_of_nests(p, true);
    p->schedule->n_prologue_slots = p->slots.n;
    forward_of_nests(p, false);
    for (int32_t o = 0; o < model->n_outputs && !p->training; o++)
        lower_add_event(p, LOWER_READ_OUTPUT, CLEAVE_RANK_COMPUTE + 2, -1, o, model->outputs[o]);
}

/* ---- backward -------------------------------------------------------------------------------- */

/* Calls `visit` for every base tensor under a tensor that needs a gradient. */
static void each_base(lower_planner *p, int32_t tensor, int32_t block,
                      void (*visit)(lower_planner *, int32_t, int32_t)) {
    const cleave_tensor *of = &p->model->tensors[tensor];
    if (!of->needs_gradient)
        return;
    if (of->view.kind == CLEAVE_VIEW_NONE)
        visit(p, tensor, block);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_base(p, of->view.sources[s], block, visit);
}

static void one_more(lower_planner *p, int32_t tensor, int32_t block) {
    p->schedule->n_contributing[tensor]++;
    if (p->block[tensor] > 0 && p->block[tensor] != block &&
        p->model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER)
        p->schedule->joins_late[tensor] = true;
    p->block[tensor] = block;
}

static void one_less(lower_planner *p, int32_t tensor, int32_t block) {
    (void)block;
    if (--p->pending[tensor] > 0 || p->model->tensors[tensor].kind != CLEAVE_TENSOR_PARAMETER)
        return;
    p->whole_in[tensor] = p->slots.n - 1;
    p->failed = !CLEAVE_LIST_PUSH(&p->updated, tensor) || p->failed;
}

/* Inputs of which a pass of a nest gives the gradient: of queries all turns together one. */
static uint32_t gradients_of(const lower_planner *p, int32_t n, cleave_pass pass) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = cleave_nest_pass_inputs(p->model, nest, pass);
    return nest->turn > 0 ? gradients & ~UINT32_C(1) : gradients;
}

static void each_gradient(lower_planner *p, int32_t n, cleave_pass pass,
                          void (*visit)(lower_planner *, int32_t, int32_t)) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = gradients_of(p, n, pass);
    int32_t block = 1;
    if (p->of != NULL)
        block += cleave_schedule_stage_of(p->of, nest->op) * CLEAVE_PASS_UPDATE + (int32_t)pass;
    for (int i = 0; i < nest->n_inputs; i++)
        if (gradients & (1u << i))
            each_base(p, nest->inputs[i].tensor, block, visit);
}

/* That of queries, to which all turns add, is whole with the last. */
static void gradient_events(lower_planner *p, int32_t n, cleave_pass pass) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = cleave_nest_pass_inputs(p->model, nest, pass);
    for (int i = 0; i < nest->n_inputs; i++) {
        bool of_turns = i == 0 && nest->n_turns > 0;
        if (!(gradients >> i & 1) || (of_turns && nest->turn + 1 < nest->n_turns))
            continue;
        lower_add_event(p, LOWER_WRITE_GRADIENT, CLEAVE_RANK_COMPUTE + 1 + i,
                        of_turns ? n - nest->turn : n, i, nest->inputs[i].tensor);
        lower_number_ring(p, n, i);
    }
}

/* `first`: of the passes of the nest. */
static void backward_of_nest(lower_planner *p, int32_t n, cleave_pass pass, bool first) {
    const cleave_nest *nest = &p->model->nests[n];
    if (first)
        lower_prepare_backward(p, n);
    lower_begin_slot(p, n, -1, pass);
    if (first && nest->turn == 0) {
        lower_add_event(p, LOWER_READ_GRADIENT, 0, n, -1, nest->output.tensor);
        if (nest->kept_combined)
            (p->again[n] ? lower_add_again : lower_add_event)(p, LOWER_READ_COMBINED, 1, n, -1,
                                                              cleave_nest_combined(nest)->tensor);
        if (nest->attention != NULL)
            (p->again[n] ? lower_add_again : lower_add_event)(p, LOWER_READ_COMBINED, 1, n, 0,
                                                              nest->output.tensor);
    }
    lower_read_again(p, n, pass, first);
    gradient_events(p, n, pass);
    each_gradient(p, n, pass, one_less);
}

/* Does a nest take statistics over the batch, for which all wait that split the samples?  The batch
   is outermost. */
static bool is_of_batch(const lower_planner *p, const cleave_nest *nest) {
    if (nest->kind != CLEAVE_NEST_MOMENTS || !nest->differentiable)
        return false;
    for (int d = 0; d < p->model->tensors[nest->output.tensor].rank; d++)
        for (int t = 0; t < nest->output.map[d].n_terms; t++)
            if (nest->operator_axis[nest->output.map[d].terms[t].axis] == 0)
                return false;
    return true;
}

/* Are gradients of such statistics next that follow from the one that this nest gives? */
static bool comes_before_batch(const lower_planner *p, int32_t n) {
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_nest *nest = &p->model->nests[i];
        if (nest->differentiable && nest->kind != CLEAVE_NEST_POINTWISE &&
            nest->kind != CLEAVE_NEST_POOL)
            return is_of_batch(p, nest);
    }
    return false;
}

static bool is_first_pass(const lower_planner *p, int32_t n, cleave_pass pass) {
    return pass == CLEAVE_PASS_INPUT_GRADIENT ||
           cleave_nest_pass_inputs(p->model, &p->model->nests[n], CLEAVE_PASS_INPUT_GRADIENT) == 0;
}

/* These passes of all nests, in reverse order, but for turns.  A gradient of weights that comes
   before gradients of statistics over the batch is put off until those are under way: so there is
   something to do while they are. */
static void backward_of_nests(lower_planner *p, cleave_pass from, cleave_pass to) {
    int32_t put_off = -1;
    for (int32_t i = p->model->n_nests - 1; i >= 0; i--) {
        const cleave_nest *nest = &p->model->nests[i];
        int32_t n = nest->n_turns > 0 ? i - 2 * nest->turn + nest->n_turns - 1 : i;
        if (put_off >= 0 && is_of_batch(p, nest)) {
            backward_of_nest(p, put_off, CLEAVE_PASS_WEIGHT_GRADIENT, false);
            put_off = -1;
        }
        for (cleave_pass pass = from; pass <= to && nest->differentiable; pass++) {
            if (cleave_nest_pass_inputs(p->model, nest, pass) == 0)
                continue;
            if (!is_first_pass(p, n, pass) && from != to && nest->kind != CLEAVE_NEST_POINTWISE &&
                comes_before_batch(p, n))
                put_off = n;
            else
                backward_of_nest(p, n, pass, is_first_pass(p, n, pass));
        }
    }
}

/* ---- gradients that go together -------------------------------------------------------------- */

/* These set out when the slot is through. */
static void set_out(lower_planner *p, int32_t from, int32_t to, int32_t slot) {
    for (int32_t i = from; i < to && !p->failed; i++) {
        int32_t tensor = p->updated.items[i];
        p->schedule->waits[tensor] = p->whole_in[tensor] < slot;
        if (p->schedule->waits[tensor])
            add_event_to(p, slot, LOWER_SET_OUT, LOWER_RANK_SETTLE, -1, -1, tensor);
    }
}

/* As python/cleave/torch/under_way.py has it, of parameters that are whole: a vector goes when what
   comes next has no room in it, when half of it is one gradient, or when backward is through. */
static void send_together(lower_planner *p) {
    int32_t first = 0, last_slot = p->slots.n - 1;
    int64_t waiting = 0;
    for (int32_t i = 0; i < p->updated.n; i++) {
        int32_t t = p->updated.items[i];
        const cleave_tensor *of = &p->model->tensors[t];
        int64_t bytes = cleave_tensor_size(of) * cleave_type_bytes(of->stored);
        if (waiting > 0 && waiting + bytes > p->together_bytes) {
            set_out(p, first, i, p->whole_in[t]);
            first = i;
            waiting = 0;
        }
        waiting += bytes;
        if (bytes > p->together_bytes / 2) {
            set_out(p, first, i + 1, p->whole_in[t]);
            first = i + 1;
            waiting = 0;
        }
    }
    set_out(p, first, p->updated.n, last_slot);
}

/* ---- updates --------------------------------------------------------------------------------- */

/* Notes in which slot a tensor is read last.  In the last micro-batch that is the last in time,
   too: stages go backward in the order of slots, and of what several of them read the gradient
   joins late where their gradients of weights stand apart. */
static void note_reader(lower_planner *p, int32_t tensor, int32_t slot) {
    const cleave_view *view = &p->model->tensors[tensor].view;
    for (int32_t i = 0; i < view->n_sources; i++)
        note_reader(p, view->sources[i], slot);
    p->schedule->early_in[tensor] = slot;
}

/* Behind the last slot that reads a parameter, and so behind all that give its gradient. */
static void early_updates(lower_planner *p) {
    int32_t *early_in = p->schedule->early_in;
    for (int32_t slot = 0; slot < p->slots.n; slot++) {
        const cleave_nest *nest = &p->model->nests[p->slots.items[slot].nest];
        for (int i = 0; i < nest->n_inputs; i++)
            note_reader(p, nest->inputs[i].tensor, slot);
    }
    for (int32_t t = 0; t < p->model->n_tensors; t++)
        if (p->model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER ||
            p->schedule->n_contributing[t] == 0 || p->schedule->joins_late[t] ||
            p->schedule->waits[t])
            early_in[t] = -1;
        else
            add_event_to(p, early_in[t], LOWER_UPDATE_EARLY, LOWER_RANK_UPDATE, -1, -1, t);
}

/* Updates wait for the norm of all gradients. */
static void norm(lower_planner *p, int32_t squares) {
    for (int32_t i = 0; i < p->updated.n; i++) {
        lower_begin_slot(p, -1, p->updated.items[i], CLEAVE_PASS_UPDATE);
        if (i == 0)
            lower_add_event(p, LOWER_NORM_BEGIN, 0, -1, -1, squares);
        lower_add_event(p, LOWER_NORM_ADD, 1, -1, -1, p->updated.items[i]);
    }
    lower_begin_slot(p, -1, squares, CLEAVE_PASS_UPDATE);
    lower_add_event(p, LOWER_NORM_END, 0, -1, -1, squares);
}

static void backward(lower_planner *p) {
    const cleave_model *model = p->model;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++)
            if (model->nests[n].differentiable)
                each_gradient(p, n, pass, one_more);
    memcpy(p->pending, p->schedule->n_contributing, (size_t)model->n_tensors * sizeof *p->pending);
    lower_find_again(p);
    p->in = CLEAVE_BLOCK_BACKWARD;
    backward_of_nests(p, CLEAVE_PASS_INPUT_GRADIENT,
                      p->of != NULL ? CLEAVE_PASS_INPUT_GRADIENT : CLEAVE_PASS_WEIGHT_GRADIENT);
    p->in = CLEAVE_BLOCK_WEIGHT;
    if (p->of != NULL)
        backward_of_nests(p, CLEAVE_PASS_WEIGHT_GRADIENT, CLEAVE_PASS_WEIGHT_GRADIENT);
    if (p->together_bytes > 0)
        send_together(p);
    if (model->squares == 0)
        early_updates(p);
    else if (p->updated.n > 0)
        norm(p, model->squares - 1);
    for (int32_t i = 0; i < p->updated.n; i++) {
        lower_begin_slot(p, -1, p->updated.items[i], CLEAVE_PASS_UPDATE);
        lower_add_event(p, LOWER_UPDATE, 0, -1, -1, p->updated.items[i]);
    }
    /* Where nothing has a gradient the last slot is a forward one: behind what that writes. */
    bool no_backward = p->slots.n > 0 && p->slots.items[p->slots.n - 1].pass == CLEAVE_PASS_FORWARD;
    int32_t rank = no_backward ? CLEAVE_RANK_COMPUTE + 1 : 0;
    for (int32_t a = 0; a < model->n_assignments; a++)
        lower_add_event(p, LOWER_ASSIGN, rank + 1, -1, a, model->assignments[a].source);
    lower_add_event(p, LOWER_READ_LOSS, rank + 2, -1, -1,
                    model->loss); /* last: nothing waits for it */
}

cleave_status lower_schedule_create(const cleave_model *model, bool training,
                                    int64_t together_bytes, const cleave_micro_batches *micro,
                                    const cleave_layout *layout, cleave_arena *arena,
                                    lower_schedule *schedule, cleave_error *error) {
    lower_schedule result = {0};
    lower_planner p = {.model = model, .training = training, .micro = micro, .schedule = &result};
    p.layout = layout;
    if (layout != NULL && cleave_schedule_parts_weights(&layout->schedule))
        p.of = &layout->schedule;
    if (micro == NULL && (layout == NULL || layout->schedule.n_stages <= 1))
        p.together_bytes = together_bytes;
    p.needed = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    p.again = CLEAVE_ARENA_ARRAY(arena, bool, model->n_nests);
    p.is_there = CLEAVE_ARENA_ARRAY(arena, bool, model->n_nests);
    result.again_in = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.stage_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_nests);
    result.n_movements = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.n_rings = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.pending = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.block = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.whole_in = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.waits = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    result.joins_late = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    result.early_in = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.n_contributing = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.failed = p.pending == NULL || p.block == NULL || p.whole_in == NULL || p.needed == NULL ||
               result.waits == NULL || p.again == NULL || p.is_there == NULL ||
               result.again_in == NULL || result.stage_of == NULL || result.n_movements == NULL ||
               result.n_rings == NULL || result.joins_late == NULL || result.early_in == NULL ||
               result.n_contributing == NULL || !lower_find_families(model, arena, &result);
    for (int32_t t = 0; t < model->n_tensors && !p.failed; t++)
        result.again_in[t] = result.early_in[t] = -1;
    for (int32_t n = 0; n < model->n_nests && !p.failed && layout != NULL; n++)
        result.stage_of[n] = cleave_schedule_stage_of(&layout->schedule, model->nests[n].op);
    if (!p.failed)
        forward(&p);
    if (!p.failed && training)
        backward(&p);
    if (!p.failed && training && layout != NULL)
        p.failed = !lower_visits_find(&p, arena);
    p.failed = p.failed || !lower_index_schedule(&p, arena);
    CLEAVE_LIST_FREE(&p.slots);
    CLEAVE_LIST_FREE(&p.events);
    CLEAVE_LIST_FREE(&p.updated);
    if (p.failed)
        return cleave_fail_memory(error, "lowering");
    *schedule = result;
    return CLEAVE_OK;
}
