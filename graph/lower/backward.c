/* Backward, in reverse order of the nests.  A part that read a box of a tensor contributes to the
   gradient over that box; a part that wrote one reads the gradient over it. */
#include "graph/lower/events.h"

#include "graph/model/ring.h"

#include <string.h>

/* Does what a pass gives for an input add up over the micro-batches by itself, and not by copies?
   Only products can add at no cost. */
static bool carries(const lowering *state, int32_t n, int i, cleave_pass pass) {
    const lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    int32_t n_reduced = 0, n_others = 0;
    lower_count_reduced(state, nest->inputs[i].tensor, &n_reduced, &n_others);
    return n_reduced == 0 && lower_goes_on(builder, n) && pass == CLEAVE_PASS_WEIGHT_GRADIENT &&
           nest->kind == CLEAVE_NEST_PRODUCT &&
           lower_value_when(builder, nest->inputs[i].tensor) != CLEAVE_WHEN_EVERY;
}

/* Adds what one part gives to the gradient of an input, through views, to the base tensors'
 * movements. */
void lower_contribute_gradient(lowering *state, const lower_event *event, int32_t p, int32_t buffer,
                               bool is_carried) {
    lower_builder *builder = &state->base;
    int32_t n = event->nest, i = event->input;
    const lower_operand *operand =
        &state->operands.items[lower_row(state, state->schedule->read[n][i])[p]];
    const cleave_part *part = &builder->parts[n].items[p];
    for (int32_t q = 0; q < operand->n_pieces; q++) {
        const cleave_piece *piece = &state->pieces.items[operand->first_piece + q].piece;
        if (!builder->model->tensors[piece->tensor].needs_gradient)
            continue;
        int64_t key =
            ((((int64_t)n * CLEAVE_MAX_INPUTS + i) << 18 | piece->index) << 20) | part->key;
        int32_t n_reduced = 0, n_others = 0;
        lower_count_reduced(state, piece->tensor, &n_reduced, &n_others);
        movement *move = n_reduced > 0
                             ? &lower_visiting_of(state, event->visit, piece->tensor)->move
                             : &state->tensors[piece->tensor].backward;
        move_contribution *added = move_contribute(builder, move, key, part->device);
        lower_region_of_piece(builder->model->tensors[piece->tensor].rank, piece, buffer,
                              &added->at);
        added->may_take = operand->whole;
        added->every_window = lower_in_every_window(builder, n);
        if (!is_carried && n_reduced == 0 && lower_goes_on(builder, n) &&
            lower_value_when(builder, piece->tensor) != CLEAVE_WHEN_EVERY)
            move_carry(builder, move,
                       builder->model->tensors[piece->tensor].kind == CLEAVE_TENSOR_PARAMETER
                           ? CLEAVE_BUFFER_GRADIENT
                           : CLEAVE_BUFFER_ACTIVATION_GRADIENT,
                       added);
    }
}

/* Calls `visit` for every base tensor under a tensor that needs a gradient. */
static void each_base(lowering *state, int32_t tensor, void (*visit)(lowering *, int32_t)) {
    const cleave_tensor *of = &state->base.model->tensors[tensor];
    if (!of->needs_gradient)
        return;
    if (of->view.kind == CLEAVE_VIEW_NONE)
        visit(state, tensor);
    for (int32_t s = 0; s < of->view.n_sources; s++)
        each_base(state, of->view.sources[s], visit);
}

/* The demands of a parameter's gradient: what each device updates. */
static void demand_parameter_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    for (int32_t i = 0; i < of->shares.n; i++) {
        lower_share *share = &of->shares.items[i];
        const lower_holder *holder = &of->holders.items[share->holder];
        const cleave_box *box = &share->at.box;
        int32_t buffer = lower_buffer(builder, CLEAVE_BUFFER_GRADIENT, holder->device, tensor, box);
        lower_pad_share(builder, share, buffer);
        lower_region region = lower_region_of(builder, buffer);
        share->first_demand = of->backward.demands.n;
        bool one = of->sharded || (state->uses.items[holder->first_use].next < 0);
        if (one) {
            LOWER_PUSH(
                builder, &of->backward.demands,
                (move_demand){
                    .operand = -1, .device = holder->device, .at = region, .may_move = true});
            continue;
        }
        lower_copy_begin(builder); /* elements that nobody on this device uses */
        lower_copy_add(builder, tensor, CLEAVE_COPY_FILL, box, &region, NULL, 0);
        lower_copy_end(builder, holder->device, CLEAVE_LANE_MAIN);
        lower_demand_uses(state, &of->backward, holder, &region);
    }
    if (of->sharded)
        lower_demand_like_shares(state, &of->backward);
}

static void demand_activation_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    int32_t n = builder->model->writer[tensor];
    for (int32_t p = 0; p < builder->parts[n].n; p++) {
        const cleave_part *part = &builder->parts[n].items[p];
        if (part->empty)
            continue;
        cleave_box box;
        cleave_part_box(builder->model, part, &builder->model->nests[n].output, &box);
        int32_t buffer =
            lower_buffer(builder, CLEAVE_BUFFER_ACTIVATION_GRADIENT, part->device, tensor, &box);
        lower_set_region(
            builder, buffer,
            move_demand_of(builder, &state->tensors[tensor].backward, part->device, -1, true));
    }
}

void lower_begin_gradient(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    lower_do(builder, cleave_when_gradient(lower_value_when(builder, tensor)));
    if (builder->model->tensors[tensor].kind != CLEAVE_TENSOR_PARAMETER) {
        demand_activation_gradient(state, tensor);
        move_begin(builder, &of->backward);
        return;
    }
    demand_parameter_gradient(state, tensor);
    of->backward.lane = CLEAVE_LANE_COMMUNICATION;
    move_all(builder, &of->backward);
    lower_chores_of_gradient(state, &of->backward, CLEAVE_CHORE_BUCKET);
    of->main_after = LOWER_ARRAY(builder, int32_t, of->holders.n);
    for (int32_t h = 0; h < of->holders.n; h++) {
        int32_t device = of->holders.items[h].device;
        bool waits = of->backward.involved != NULL && of->backward.involved[device];
        of->main_after[h] = waits ? lower_mark(builder, device, CLEAVE_LANE_COMMUNICATION) : -1;
    }
}

/* A share of a gradient is sent alone, as it comes. */
static bool waits(const lowering *state, int32_t tensor) {
    return state->schedule->waits[tensor] &&
           state->tensors[tensor].sharded == CLEAVE_SHARDED_NOTHING;
}

static void one_pass_less(lowering *state, int32_t tensor) {
    state->part++; /* base tensors one after the other, behind what all parts give */
    if (state->member != NULL && *state->member != tensor)
        return;
    lower_begin_stretch(state, false, 0);
    int32_t n_reduced = 0, n_others = 0;
    lower_count_reduced(state, tensor, &n_reduced, &n_others);
    if (--state->tensors[tensor].pending == 0 && !state->schedule->joins_late[tensor] &&
        n_reduced == 0 && !waits(state, tensor))
        lower_begin_gradient(state, tensor);
}

void lower_set_out(lowering *state, const lower_event *event) {
    if (waits(state, event->tensor))
        lower_begin_gradient(state, event->tensor);
}

void lower_read_gradient(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    movement *move = &state->tensors[event->tensor].backward;
    const cleave_parts *parts = &builder->parts[event->nest];
    int32_t *binding = lower_binding(state, (int32_t)(event - state->schedule->events));
    lower_do(builder, cleave_when_gradient(lower_value_when(builder, event->tensor)));
    if (event->tensor == builder->model->loss) { /* the seed of backward */
        demand_activation_gradient(state, event->tensor);
        for (int32_t i = 0; i < move->demands.n; i++) {
            lower_copy_begin(builder);
            lower_copy_add(builder, event->tensor, CLEAVE_COPY_FILL, &move->demands.items[i].at.box,
                           &move->demands.items[i].at, NULL, 1);
            lower_copy_end(builder, move->demands.items[i].device, CLEAVE_LANE_MAIN);
        }
    } else {
        if (!move->begun)
            lower_begin_gradient(state, event->tensor); /* nobody reads it: zero */
        for (int32_t i = 0; i < move->demands.n; i++)
            move_arrive(builder, move, i);
    }
    int32_t demand = 0;
    for (int32_t p = 0; p < parts->n; p++)
        if (!parts->items[p].empty)
            binding[p] = move->demands.items[demand++].at.buffer;
}

/* Inputs that a pass reads: a product needs, for each gradient, the other factors. */
uint32_t lower_inputs_read(const cleave_nest *nest, uint32_t gradients) {
    if (nest->kind != CLEAVE_NEST_PRODUCT && nest->kind != CLEAVE_NEST_CONVOLUTION)
        return nest->kept_inputs;
    uint32_t read = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (gradients & (1u << i))
            read |= ~(1u << i);
    return read & nest->kept_inputs;
}

/* ---- accumulating: what several nests read alike, such as the weight of a recurrence's cells, or
   what a normalisation takes statistics of and scales ------------------------------------------ */

static int32_t stage_of(const lower_builder *builder, int32_t nest) {
    return cleave_schedule_stage_of(&builder->layout->schedule, builder->model->nests[nest].op);
}

static cleave_type gradient_type(const lowering *state, int32_t n, int i, const cleave_part *part) {
    const cleave_model *model = state->base.model;
    return cleave_gradient_type(model, &model->nests[n], part, i);
}

/* Do two nests of one stage read the same pieces on the same devices, part by part?  Then what they
   give to the gradient may be summed where it arises, replicas included.  (Which of two stages of
   the same devices gives first is for the schedule to say.)  One nest gives all of its own at once.
 */
static bool read_alike(const lowering *state, int32_t n, int i, lower_accumulator like) {
    const cleave_parts *a = &state->base.parts[n], *b = &state->base.parts[like.nest];
    if (n == like.nest || a->n != b->n ||
        lower_goes_on(&state->base, n) != lower_goes_on(&state->base, like.nest) ||
        stage_of(&state->base, n) != stage_of(&state->base, like.nest))
        return false;
    for (int32_t p = 0; p < a->n; p++) {
        const cleave_part *x = &a->items[p], *y = &b->items[p];
        if (x->empty != y->empty || x->device != y->device || x->key != y->key ||
            lower_row(state, state->schedule->read[n][i])[p] !=
                lower_row(state, state->schedule->read[like.nest][like.input])[p] ||
            gradient_type(state, n, i, x) != gradient_type(state, like.nest, like.input, y))
            return false;
    }
    return true;
}

static int32_t visit_of(const lowering *state, lower_accumulator of) {
    return state->schedule->events[state->schedule->write_gradient[of.nest][of.input]].visit;
}

/* May others add to what this pass gives for an input?  To a weight's gradient where products give
   it, and to an activation's in each micro-batch by itself. */
static bool may_be_added_to(const lowering *state, int32_t n, int i, cleave_pass pass) {
    const lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[n];
    int32_t tensor = nest->inputs[i].tensor, n_reduced = 0, n_others = 0;
    if (pass == CLEAVE_PASS_INPUT_GRADIENT)
        return !cleave_tensor_sees_parameter(builder->model, tensor) &&
               !cleave_ring_passes(nest, i) && nest->n_turns == 0 &&
               lower_value_when(builder, tensor) == CLEAVE_WHEN_EVERY;
    lower_count_reduced(state, tensor, &n_reduced, &n_others);
    return nest->kind == CLEAVE_NEST_PRODUCT &&
           (!lower_goes_on(builder, n) || carries(state, n, i, pass) || n_others == 0);
}

/* The gradient that this pass adds to, the last one that was given; `nest` is -1 where there is
   none, and from now on this one is there for others. */
static lower_accumulator find_accumulator(lowering *state, const lower_event *event,
                                          cleave_pass pass) {
    int32_t n = event->nest, i = event->input;
    lower_tensor *of = &state->tensors[state->base.model->nests[n].inputs[i].tensor];
    if (!may_be_added_to(state, n, i, pass))
        return (lower_accumulator){-1, -1};
    bool adds = cleave_nest_adds(state->base.model, &state->base.model->nests[n], i, pass);
    for (int32_t a = of->accumulators.n - 1; a >= 0 && adds; a--)
        if (visit_of(state, of->accumulators.items[a]) == event->visit &&
            read_alike(state, n, i, of->accumulators.items[a]))
            return of->accumulators.items[a];
    LOWER_PUSH(&state->base, &of->accumulators, (lower_accumulator){n, i});
    return (lower_accumulator){-1, -1};
}

static int64_t bytes_of_gradient(const lowering *state, const lower_event *event, int32_t p,
                                 const lower_operand *operand) {
    const cleave_part *part = &state->base.parts[event->nest].items[p];
    return cleave_box_size(state->base.model->tensors[operand->tensor].rank, &operand->box) *
           cleave_type_bytes(gradient_type(state, event->nest, event->input, part));
}

/* Once for all pieces of what the part read. */
static void note_addition(lowering *state, const lower_event *event, cleave_pass pass, int32_t p,
                          const lower_operand *operand) {
    lower_builder *builder = &state->base;
    const cleave_nest *nest = &builder->model->nests[event->nest];
    const cleave_part *part = &builder->parts[event->nest].items[p];
    if (pass != CLEAVE_PASS_INPUT_GRADIENT ||
        state->pieces.items[operand->first_piece].piece.index != 0)
        return;
    cleave_additions of = cleave_additions_of(builder->model, nest, pass, part, event->input);
    if (!of.compiled && !of.eager)
        return;
    lower_begin_stretch(state, false, 1);
    lower_do(builder, CLEAVE_WHEN_EVERY);
    lower_chore(builder, part->device,
                (cleave_copy){.chore = CLEAVE_CHORE_ADD,
                              .chore_bytes = bytes_of_gradient(state, event, p, operand),
                              .additions = of});
}

/* In every micro-batch but the first. */
static void note_accumulation(lowering *state, const lower_event *event, int32_t p,
                              const lower_operand *operand) {
    lower_do(&state->base, CLEAVE_WHEN_EVERY);
    lower_chore(&state->base, operand->device,
                (cleave_copy){.chore = CLEAVE_CHORE_ACCUMULATE,
                              .carries = true,
                              .chore_bytes = bytes_of_gradient(state, event, p, operand)});
}

/* Nest by nest: what the parts give for one input, and the movement once all have given theirs. */
void lower_write_gradient(lowering *state, const lower_event *event) {
    lower_builder *builder = &state->base;
    int32_t n = event->nest, i = event->input;
    cleave_pass pass = state->schedule->slots[event->slot].pass;
    lower_accumulator first = find_accumulator(state, event, pass);
    bool is_carried = carries(state, n, i, pass);
    bool goes_round = cleave_ring_passes(&builder->model->nests[n], i);
    for (int32_t p = 0; p < builder->parts[n].n; p++) {
        int32_t id = lower_row(state, state->schedule->read[n][i])[p];
        if (id < 0)
            continue;
        const lower_operand *operand = &state->operands.items[id];
        int32_t *binding = &lower_binding(state, state->schedule->write_gradient[n][i])[p];
        state->part = p;
        if (first.nest >= 0) {
            *binding =
                lower_binding(state, state->schedule->write_gradient[first.nest][first.input])[p];
            lower_row(state, state->schedule->write_gradient[n][i])[p] = LOWER_ADDS;
            note_addition(state, event, pass, p, operand);
            continue;
        }
        lower_begin_stretch(state, false, 0);
        *binding = lower_buffer_of_type(
            builder,
            pass == CLEAVE_PASS_WEIGHT_GRADIENT ? CLEAVE_BUFFER_GRADIENT
                                                : CLEAVE_BUFFER_ACTIVATION_GRADIENT,
            operand->device, operand->tensor,
            cleave_gradient_type(builder->model, &builder->model->nests[n],
                                 &builder->parts[n].items[p], i),
            &operand->box);
        if (is_carried) {
            lower_row(state, state->schedule->write_gradient[n][i])[p] = LOWER_CARRIES;
            note_accumulation(state, event, p, operand);
        }
        if (!goes_round)
            lower_contribute_gradient(state, event, p, *binding, is_carried);
    }
    if (goes_round)
        lower_ring_gradient(state, event);
    state->part = builder->parts[n].n;
    each_base(state, event->tensor, one_pass_less);
}
