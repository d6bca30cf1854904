#include "graph/lower/slots.h"

#include "base/list.h"
#include "graph/lower/events.h"
#include "graph/lower/visit.h"
#include "graph/model/ring.h"

#include <stdlib.h>
#include <string.h>

typedef struct planner {
    const cleave_model *model;
    bool training;
    const cleave_micro_batches *micro; /* or null */
    const cleave_schedule *of;         /* whose blocks part gradients of weights; null: none does */
    const cleave_layout *layout;       /* or null */
    bool *needed;                      /* [n_tensors] backward needs it, or what comes again does */
    bool *again;                       /* [n_nests] its forward comes again ... */
    bool *is_there;                    /* [n_nests] ... and has its slot */
    cleave_block_kind in;              /* that the slots that follow belong to */
    int32_t *block; /* [n_tensors] 1 + that of the passes that contribute; 0: none yet */
    lower_schedule *schedule;
    CLEAVE_LIST(cleave_slot) slots;
    lower_event_list events;
    int32_t *pending; /* [n_tensors] backward passes that have not contributed yet */
    CLEAVE_LIST(int32_t) updated;
    bool failed;
} planner;

/* ---- families -------------------------------------------------------------------------------- */

static int32_t root_of(int32_t *parent, int32_t tensor) {
    while (parent[tensor] != tensor)
        tensor = parent[tensor] = parent[parent[tensor]];
    return tensor;
}

static void join(int32_t *parent, int32_t a, int32_t b) {
    int32_t x = root_of(parent, a), y = root_of(parent, b);
    parent[x > y ? x : y] = x > y ? y : x;
}

static bool find_families(const cleave_model *model, cleave_arena *arena, lower_schedule *s) {
    size_t n = (size_t)model->n_tensors;
    int32_t *parent = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    s->family_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    s->first_member = CLEAVE_ARENA_ARRAY(arena, int32_t, n + 2);
    s->members = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (parent == NULL || s->family_of == NULL || s->first_member == NULL || s->members == NULL)
        return false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        parent[t] = t;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t i = 0; i < model->tensors[t].view.n_sources; i++)
            join(parent, t, model->tensors[t].view.sources[i]);
    for (int32_t a = 0; a < model->n_assignments; a++)
        join(parent, model->assignments[a].target, model->assignments[a].source);
    for (int32_t i = 0; i < model->n_nests; i++)
        join(parent, model->nests[i].output.tensor, cleave_nest_combined(&model->nests[i])->tensor);
    for (int32_t t = 0; t < model->n_tensors; t++) { /* a root is the least of its family */
        int32_t root = root_of(parent, t);
        s->family_of[t] = root == t ? s->n_families++ : s->family_of[root];
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE)
            s->first_member[s->family_of[t] + 1]++;
    }
    for (int32_t f = 0; f < s->n_families; f++)
        s->first_member[f + 1] += s->first_member[f];
    int32_t *next = CLEAVE_ARENA_ARRAY(arena, int32_t, s->n_families);
    if (next == NULL)
        return false;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].view.kind == CLEAVE_VIEW_NONE) {
            int32_t f = s->family_of[t];
            s->members[s->first_member[f] + next[f]++] = t;
        }
    return true;
}

/* ---- slots and events ------------------------------------------------------------------------ */

static void begin_slot(planner *p, int32_t nest, int32_t tensor, cleave_pass pass) {
    if (!CLEAVE_LIST_PUSH(&p->slots, (cleave_slot){.nest = nest,
                                                   .tensor = tensor,
                                                   .pass = (uint8_t)pass,
                                                   .block = (uint8_t)p->in}))
        p->failed = true;
}

static void add_event(planner *p, lower_event_kind kind, int32_t rank, int32_t nest, int32_t input,
                      int32_t tensor) {
    if (!CLEAVE_LIST_PUSH(&p->events, (lower_event){.kind = kind,
                                                    .slot = p->slots.n - 1,
                                                    .rank = rank,
                                                    .nest = nest,
                                                    .input = input,
                                                    .tensor = tensor,
                                                    .visit = -1,
                                                    .ring = -1}))
        p->failed = true;
}

/* The last event is of keys that go round: from the second turn on something comes there. */
static void number_ring(planner *p, int32_t n, int input) {
    const cleave_nest *nest = &p->model->nests[n];
    if (p->failed || nest->turn == 0 || !cleave_ring_passes(nest, input))
        return;
    int32_t family = p->schedule->family_of[nest->inputs[input].tensor];
    p->events.items[p->events.n - 1].ring = p->schedule->n_rings[family]++;
}

typedef void event_adder(planner *p, lower_event_kind kind, int32_t rank, int32_t nest,
                         int32_t input, int32_t tensor);

/* What a nest reads and writes; of one in turns, what the first is said to have written is there
   with the last. */
static void forward_of_nest(planner *p, int32_t n, event_adder *add) {
    const cleave_nest *nest = &p->model->nests[n];
    for (int i = 0; i < nest->n_inputs; i++) {
        add(p, LOWER_READ, i, n, i, nest->inputs[i].tensor);
        number_ring(p, n, i);
    }
    if (nest->turn + 1 < nest->n_turns)
        return;
    if (nest->attention != NULL)
        add(p, LOWER_WRITE, CLEAVE_RANK_COMPUTE + 1, n - nest->turn, 0, nest->statistics.tensor);
    add(p, LOWER_WRITE, CLEAVE_RANK_COMPUTE + 1, n - nest->turn, -1, nest->output.tensor);
}

static void forward_of_nests(planner *p, bool in_prologue) {
    for (int32_t n = 0; n < p->model->n_nests; n++) {
        if ((p->micro != NULL && p->micro->in_prologue[n]) != in_prologue)
            continue;
        begin_slot(p, n, -1, CLEAVE_PASS_FORWARD);
        forward_of_nest(p, n, add_event);
    }
}

static void forward(planner *p) {
    const cleave_model *model = p->model;
    p->in = CLEAVE_BLOCK_FORWARD;
    forward_of_nests(p, true);
    p->schedule->n_prologue_slots = p->slots.n;
    forward_of_nests(p, false);
    for (int32_t o = 0; o < model->n_outputs && !p->training; o++)
        add_event(p, LOWER_READ_OUTPUT, CLEAVE_RANK_COMPUTE + 2, -1, o, model->outputs[o]);
}

/* Calls `visit` for every base tensor under a tensor that needs a gradient. */
static void each_base(planner *p, int32_t tensor, int32_t block,
                      void (*visit)(planner *, int32_t, int32_t)) {
    const cleave_tensor *of = &p->model->tensors[tensor];
    if (!of->needs_gradient)
        return;
    if (of->view.kind == CLEAVE_VIEW_NONE)
        visit(p, tensor, block);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_base(p, of->view.sources[s], block, visit);
}

static void one_more(planner *p, int32_t tensor, int32_t block) {
    p->schedule->n_contributing[tensor]++;
    if (p->block[tensor] > 0 && p->block[tensor] != block &&
        p->model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER)
        p->schedule->joins_late[tensor] = true;
    p->block[tensor] = block;
}

static void one_less(planner *p, int32_t tensor, int32_t block) {
    (void)block;
    if (--p->pending[tensor] == 0 && p->model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER)
        p->failed = !CLEAVE_LIST_PUSH(&p->updated, tensor) || p->failed;
}

/* Inputs of which a pass of a nest gives the gradient: of queries all turns together one. */
static uint32_t gradients_of(const planner *p, int32_t n, cleave_pass pass) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = cleave_nest_pass_inputs(p->model, nest, pass);
    return nest->turn > 0 ? gradients & ~UINT32_C(1) : gradients;
}

static void each_gradient(planner *p, int32_t n, cleave_pass pass,
                          void (*visit)(planner *, int32_t, int32_t)) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = gradients_of(p, n, pass);
    int32_t block = 1;
    if (p->of != NULL)
        block += cleave_schedule_stage_of(p->of, nest->op) * CLEAVE_PASS_UPDATE + (int32_t)pass;
    for (int i = 0; i < nest->n_inputs; i++)
        if (gradients & (1u << i))
            each_base(p, nest->inputs[i].tensor, block, visit);
}

/* ---- recomputation ---- */

/* Calls `visit` for every base tensor under a tensor that a nest of the same stage writes. */
static void each_of_stage(planner *p, int32_t tensor, int32_t stage,
                          void (*visit)(planner *, int32_t)) {
    const cleave_tensor *of = &p->model->tensors[tensor];
    int32_t writer = of->view.kind == CLEAVE_VIEW_NONE ? p->model->writer[tensor] : -1;
    if (writer >= 0 && p->schedule->stage_of[writer] == stage)
        visit(p, tensor);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_of_stage(p, of->view.sources[s], stage, visit);
}

static void need(planner *p, int32_t tensor) { p->needed[tensor] = true; }

/* May its forward come again?  What adds up over the micro-batches, or is there for all of them, is
   kept. */
static bool may_come_again(const planner *p, int32_t n) {
    const cleave_nest *nest = &p->model->nests[n];
    return p->layout != NULL && cleave_layout_recomputes(p->layout, nest->op) &&
           (p->micro == NULL || (!p->micro->in_prologue[n] &&
                                 p->micro->value[nest->output.tensor] == CLEAVE_WHEN_EVERY));
}

/* Those whose output backward needs, or one of them. */
static void find_again(planner *p) {
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

static void add_again(planner *p, lower_event_kind kind, int32_t rank, int32_t n, int32_t input,
                      int32_t tensor) {
    add_event(p, kind, rank, n, input, tensor);
    if (!p->failed)
        p->events.items[p->events.n - 1].again = true;
}

/* The second forward of the nest that writes a tensor, just before the first slot that needs it. */
static void come_again(planner *p, int32_t tensor) {
    int32_t n = p->model->writer[tensor];
    const cleave_nest *nest = &p->model->nests[n];
    if (!p->again[n] || p->is_there[n])
        return;
    p->is_there[n] = true; /* already, while what it reads is made */
    for (int i = 0; i < nest->n_inputs; i++)
        each_of_stage(p, nest->inputs[i].tensor, p->schedule->stage_of[n], come_again);
    for (int32_t turn = n; turn < n + (nest->n_turns > 0 ? nest->n_turns : 1); turn++) {
        p->is_there[turn] = true;
        begin_slot(p, turn, -1, CLEAVE_PASS_FORWARD);
        if (p->failed)
            return;
        p->slots.items[p->slots.n - 1].generation = 1;
        forward_of_nest(p, turn, add_again);
    }
}

static bool sees_again(const planner *p, int32_t tensor, int32_t stage) {
    const cleave_tensor *of = &p->model->tensors[tensor];
    bool sees = of->view.kind == CLEAVE_VIEW_NONE && p->schedule->again_in[tensor] == stage;
    for (int32_t s = 0; s < of->view.n_sources && !sees; s++)
        sees = sees_again(p, of->view.sources[s], stage);
    return sees;
}

/* All that a nest's backward needs comes again before its first slot. */
static void prepare_backward(planner *p, int32_t n) {
    const cleave_nest *nest = &p->model->nests[n];
    for (int i = 0; i < nest->n_inputs; i++)
        if ((nest->kept_inputs >> i & 1) != 0)
            each_of_stage(p, nest->inputs[i].tensor, p->schedule->stage_of[n], come_again);
    if (nest->kept_output || nest->kept_combined)
        come_again(p, nest->output.tensor);
}

/* What came again the first pass reads then, unless the nest's own forward has come again and read
   it; and of weights that are sharded, and keys that go round, nothing is there that a pass does
   not read itself. */
static void read_again(planner *p, int32_t n, cleave_pass pass, bool first) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t read = lower_inputs_read(nest, cleave_nest_pass_inputs(p->model, nest, pass));
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t tensor = nest->inputs[i].tensor;
        bool comes = first && !p->is_there[n] && (nest->kept_inputs >> i & 1) != 0 &&
                     sees_again(p, tensor, p->schedule->stage_of[n]);
        if (comes || cleave_ring_passes(nest, i) ||
            ((read >> i & 1) != 0 && p->layout != NULL &&
             lower_sees_sharded(p->model, p->layout, tensor, CLEAVE_SHARDED_WEIGHT)))
            add_again(p, LOWER_READ, 2 + i, n, i, tensor);
        number_ring(p, n, i);
    }
}

/* ---- backward ---- */

/* That of queries, to which all turns add, is whole with the last. */
static void gradient_events(planner *p, int32_t n, cleave_pass pass) {
    const cleave_nest *nest = &p->model->nests[n];
    uint32_t gradients = cleave_nest_pass_inputs(p->model, nest, pass);
    for (int i = 0; i < nest->n_inputs; i++) {
        bool of_turns = i == 0 && nest->n_turns > 0;
        if (!(gradients >> i & 1) || (of_turns && nest->turn + 1 < nest->n_turns))
            continue;
        add_event(p, LOWER_WRITE_GRADIENT, CLEAVE_RANK_COMPUTE + 1 + i,
                  of_turns ? n - nest->turn : n, i, nest->inputs[i].tensor);
        number_ring(p, n, i);
    }
}

/* `first`: of the passes of the nest. */
static void backward_of_nest(planner *p, int32_t n, cleave_pass pass, bool first) {
    const cleave_nest *nest = &p->model->nests[n];
    if (first)
        prepare_backward(p, n);
    begin_slot(p, n, -1, pass);
    if (first && nest->turn == 0) {
        add_event(p, LOWER_READ_GRADIENT, 0, n, -1, nest->output.tensor);
        if (nest->kept_combined)
            (p->again[n] ? add_again : add_event)(p, LOWER_READ_COMBINED, 1, n, -1,
                                                  cleave_nest_combined(nest)->tensor);
        if (nest->attention != NULL)
            (p->again[n] ? add_again : add_event)(p, LOWER_READ_COMBINED, 1, n, 0,
                                                  nest->output.tensor);
    }
    read_again(p, n, pass, first);
    gradient_events(p, n, pass);
    each_gradient(p, n, pass, one_less);
}

/* These passes of all nests, in reverse order, but for turns. */
static void backward_of_nests(planner *p, cleave_pass from, cleave_pass to) {
    for (int32_t i = p->model->n_nests - 1; i >= 0; i--) {
        const cleave_nest *nest = &p->model->nests[i];
        int32_t n = nest->n_turns > 0 ? i - 2 * nest->turn + nest->n_turns - 1 : i;
        for (cleave_pass pass = from; pass <= to && nest->differentiable; pass++)
            if (cleave_nest_pass_inputs(p->model, nest, pass) != 0)
                backward_of_nest(
                    p, n, pass,
                    pass == CLEAVE_PASS_INPUT_GRADIENT ||
                        cleave_nest_pass_inputs(p->model, nest, CLEAVE_PASS_INPUT_GRADIENT) == 0);
    }
}

/* Updates wait for the norm of all gradients. */
static void norm(planner *p, int32_t squares) {
    for (int32_t i = 0; i < p->updated.n; i++) {
        begin_slot(p, -1, p->updated.items[i], CLEAVE_PASS_UPDATE);
        if (i == 0)
            add_event(p, LOWER_NORM_BEGIN, 0, -1, -1, squares);
        add_event(p, LOWER_NORM_ADD, 1, -1, -1, p->updated.items[i]);
    }
    begin_slot(p, -1, squares, CLEAVE_PASS_UPDATE);
    add_event(p, LOWER_NORM_END, 0, -1, -1, squares);
}

static void backward(planner *p) {
    const cleave_model *model = p->model;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++)
            if (model->nests[n].differentiable)
                each_gradient(p, n, pass, one_more);
    memcpy(p->pending, p->schedule->n_contributing, (size_t)model->n_tensors * sizeof *p->pending);
    find_again(p);
    p->in = CLEAVE_BLOCK_BACKWARD;
    backward_of_nests(p, CLEAVE_PASS_INPUT_GRADIENT,
                      p->of != NULL ? CLEAVE_PASS_INPUT_GRADIENT : CLEAVE_PASS_WEIGHT_GRADIENT);
    p->in = CLEAVE_BLOCK_WEIGHT;
    if (p->of != NULL)
        backward_of_nests(p, CLEAVE_PASS_WEIGHT_GRADIENT, CLEAVE_PASS_WEIGHT_GRADIENT);
    if (model->squares > 0 && p->updated.n > 0)
        norm(p, model->squares - 1);
    for (int32_t i = 0; i < p->updated.n; i++) {
        begin_slot(p, -1, p->updated.items[i], CLEAVE_PASS_UPDATE);
        add_event(p, LOWER_UPDATE, 0, -1, -1, p->updated.items[i]);
    }
    /* Where nothing has a gradient the last slot is a forward one: behind what that writes. */
    bool no_backward = p->slots.n > 0 && p->slots.items[p->slots.n - 1].pass == CLEAVE_PASS_FORWARD;
    int32_t rank = no_backward ? CLEAVE_RANK_COMPUTE + 1 : 0;
    for (int32_t a = 0; a < model->n_assignments; a++)
        add_event(p, LOWER_ASSIGN, rank + 1, -1, a, model->assignments[a].source);
    add_event(p, LOWER_READ_LOSS, rank + 2, -1, -1, model->loss); /* last: nothing waits for it */
}

/* ---- indices --------------------------------------------------------------------------------- */

static void sort_by_family(const planner *p, int32_t *next) {
    lower_schedule *s = p->schedule;
    for (int32_t e = 0; e < p->events.n; e++)
        s->first_event[s->family_of[p->events.items[e].tensor] + 1]++;
    for (int32_t f = 0; f < s->n_families; f++)
        s->first_event[f + 1] += s->first_event[f];
    for (int32_t e = 0; e < p->events.n; e++) {
        int32_t f = s->family_of[p->events.items[e].tensor];
        s->events[s->first_event[f] + next[f]++] = p->events.items[e];
    }
}

static void find_slots_of_nests(lower_schedule *s, int32_t n_nests) {
    for (int32_t n = 0; n < n_nests; n++)
        for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
            s->slot_of[n][pass] = -1;
    for (int32_t slot = 0; slot < s->n_slots; slot++)
        if (s->slots[slot].nest >= 0 && s->slots[slot].generation == 0)
            s->slot_of[s->slots[slot].nest][s->slots[slot].pass] = slot;
}

static void find_events_of_nests(lower_schedule *s, int32_t n_nests) {
    for (int32_t n = 0; n < n_nests; n++) {
        s->write[n] = s->read_gradient[n] = s->read_combined[n] = s->read_output[n] = -1;
        s->write_again[n] = s->write_statistics[n] = s->write_statistics_again[n] = -1;
        for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
            s->read[n][i] = s->write_gradient[n][i] = s->read_again[n][i] = s->read_back[n][0][i] =
                s->read_back[n][1][i] = -1;
    }
    for (int32_t e = 0; e < s->n_events; e++) {
        const lower_event *event = &s->events[e];
        switch (event->kind) {
        case LOWER_READ:
            if (s->slots[event->slot].pass != CLEAVE_PASS_FORWARD)
                s->read_back[event->nest][s->slots[event->slot].pass - 1][event->input] = e;
            else
                (event->again ? s->read_again : s->read)[event->nest][event->input] = e;
            break;
        case LOWER_WRITE:
            if (event->input < 0)
                (event->again ? s->write_again : s->write)[event->nest] = e;
            else
                (event->again ? s->write_statistics_again : s->write_statistics)[event->nest] = e;
            break;
        case LOWER_READ_GRADIENT:
            s->read_gradient[event->nest] = e;
            break;
        case LOWER_READ_COMBINED:
            (event->input < 0 ? s->read_combined : s->read_output)[event->nest] = e;
            break;
        case LOWER_WRITE_GRADIENT:
            s->write_gradient[event->nest][event->input] = e;
            break;
        case LOWER_READ_LOSS:
        case LOWER_READ_OUTPUT:
        case LOWER_GATHER:
        case LOWER_REDUCE:
        case LOWER_SETTLE:
        case LOWER_NORM_BEGIN:
        case LOWER_NORM_ADD:
        case LOWER_NORM_END:
        case LOWER_UPDATE:
        case LOWER_ASSIGN:
            break;
        }
    }
}

/* Puts a family among those listed for an operator, which ascend. */
static void touch(lower_schedule *s, int32_t op, int32_t family) {
    int32_t at = s->first_touched[op + 1];
    while (at > s->first_touched[op] && s->touched[at - 1] > family)
        at--;
    if (at > s->first_touched[op] && s->touched[at - 1] == family)
        return;
    memmove(&s->touched[at + 1], &s->touched[at],
            (size_t)(s->first_touched[op + 1] - at) * sizeof *s->touched);
    s->touched[at] = family;
    s->first_touched[op + 1]++;
}

/* Lists the families of an operator. */
static void touch_families(const cleave_model *model, lower_schedule *s, int32_t op) {
    s->first_touched[op + 1] = s->first_touched[op];
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++)
            touch(s, op, s->family_of[nest->inputs[i].tensor]);
        touch(s, op, s->family_of[nest->output.tensor]);
        touch(s, op, s->family_of[cleave_nest_combined(nest)->tensor]);
    }
}

static bool index_everything(planner *p, cleave_arena *arena) {
    const cleave_model *model = p->model;
    lower_schedule *s = p->schedule;
    size_t n_nests = (size_t)model->n_nests, n_families = (size_t)s->n_families, n_operands = 0;
    for (size_t n = 0; n < n_nests; n++)
        n_operands += (size_t)model->nests[n].n_inputs + 2;
    s->n_slots = p->slots.n;
    s->n_events = p->events.n;
    s->slots = CLEAVE_ARENA_ARRAY(arena, cleave_slot, s->n_slots);
    s->events = CLEAVE_ARENA_ARRAY(arena, lower_event, s->n_events);
    s->first_event = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families + 1);
    s->read = cleave_arena_alloc(arena, n_nests, sizeof *s->read);
    s->write_gradient = cleave_arena_alloc(arena, n_nests, sizeof *s->write_gradient);
    s->slot_of = cleave_arena_alloc(arena, n_nests, sizeof *s->slot_of);
    s->write = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_again = cleave_arena_alloc(arena, n_nests, sizeof *s->read_again);
    s->read_back = cleave_arena_alloc(arena, n_nests, sizeof *s->read_back);
    s->write_again = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->write_statistics = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->write_statistics_again = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_gradient = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_combined = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->read_output = CLEAVE_ARENA_ARRAY(arena, int32_t, n_nests);
    s->first_touched = CLEAVE_ARENA_ARRAY(arena, int32_t, (size_t)model->n_operators + 1);
    s->touched = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operands);
    int32_t *next = CLEAVE_ARENA_ARRAY(arena, int32_t, n_families);
    if (s->slots == NULL || s->events == NULL || s->first_event == NULL || s->read == NULL ||
        s->write_gradient == NULL || s->read_again == NULL || s->read_back == NULL ||
        s->write_again == NULL || s->write_statistics == NULL ||
        s->write_statistics_again == NULL || s->slot_of == NULL || s->write == NULL ||
        s->read_gradient == NULL || s->read_combined == NULL || s->read_output == NULL ||
        s->first_touched == NULL || s->touched == NULL || next == NULL)
        return false;
    if (s->n_slots > 0)
        memcpy(s->slots, p->slots.items, (size_t)s->n_slots * sizeof *s->slots);
    sort_by_family(p, next);
    find_slots_of_nests(s, model->n_nests);
    find_events_of_nests(s, model->n_nests);
    for (int32_t op = 0; op < model->n_operators; op++)
        touch_families(model, s, op);
    return true;
}

cleave_status lower_schedule_create(const cleave_model *model, bool training,
                                    const cleave_micro_batches *micro, const cleave_layout *layout,
                                    cleave_arena *arena, lower_schedule *schedule,
                                    cleave_error *error) {
    lower_schedule result = {0};
    planner p = {.model = model, .training = training, .micro = micro, .schedule = &result};
    p.layout = layout;
    if (layout != NULL && cleave_schedule_parts_weights(&layout->schedule))
        p.of = &layout->schedule;
    p.needed = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    p.again = CLEAVE_ARENA_ARRAY(arena, bool, model->n_nests);
    p.is_there = CLEAVE_ARENA_ARRAY(arena, bool, model->n_nests);
    result.again_in = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.stage_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_nests);
    result.n_movements = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.n_rings = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.pending = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.block = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    result.joins_late = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    result.n_contributing = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    p.failed = p.pending == NULL || p.block == NULL || p.needed == NULL || p.again == NULL ||
               p.is_there == NULL || result.again_in == NULL || result.stage_of == NULL ||
               result.n_movements == NULL || result.n_rings == NULL || result.joins_late == NULL ||
               result.n_contributing == NULL || !find_families(model, arena, &result);
    for (int32_t t = 0; t < model->n_tensors && !p.failed; t++)
        result.again_in[t] = -1;
    for (int32_t n = 0; n < model->n_nests && !p.failed && layout != NULL; n++)
        result.stage_of[n] = cleave_schedule_stage_of(&layout->schedule, model->nests[n].op);
    if (!p.failed)
        forward(&p);
    if (!p.failed && training)
        backward(&p);
    if (!p.failed && training && layout != NULL)
        p.failed = !lower_visits_find(model, micro, layout, p.slots.n, p.slots.items, &p.events,
                                      arena, &result);
    p.failed = p.failed || !index_everything(&p, arena);
    CLEAVE_LIST_FREE(&p.slots);
    CLEAVE_LIST_FREE(&p.events);
    CLEAVE_LIST_FREE(&p.updated);
    if (p.failed)
        return cleave_fail_memory(error, "lowering");
    *schedule = result;
    return CLEAVE_OK;
}
