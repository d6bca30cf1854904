/* What a baseline in stages holds at least, before it is lowered.  A device goes through the blocks
   of its group in their order: a forward leaves what its backward reads; a backward lets that go,
   but where gradients of weights come later it leaves what these read; and from the first gradient
   of a weight to the last there is room for it.  Everything is counted once, and nothing of what is
   there only while a block is under way. */
#include "search/pipeline/internal.h"

#include "graph/lower/events.h"
#include "graph/model/precision.h"

#include <math.h>

/* ---- what stages keep ------------------------------------------------------------------------ */

/* Bytes of one stage, of the whole batch. */
typedef struct stage_keeps {
    double for_backward, for_weights;
} stage_keeps;

/* Of tensors that a stage keeps, the most that one reader does: several may share it. */
typedef struct kept_once {
    double *bytes; /* [n_tensors] */
    int32_t *tensors, n;
} kept_once;

typedef struct counting {
    const cleave_model *model;
    const cleave_layout *layout;
    const int32_t *gives_on; /* [n_tensors], see find_gives_on */
    kept_once for_backward, for_weights, gradients;
    stage_keeps *stages; /* [n_stages] */
} counting;

static bool make_once(kept_once *once, cleave_arena *arena, int32_t n) {
    *once =
        (kept_once){CLEAVE_ARENA_ARRAY(arena, double, n), CLEAVE_ARENA_ARRAY(arena, int32_t, n), 0};
    return once->bytes != NULL && once->tensors != NULL;
}

static void keep(kept_once *once, int32_t tensor, double bytes) {
    if (once->bytes[tensor] <= 0 && bytes > 0)
        once->tensors[once->n++] = tensor;
    once->bytes[tensor] = fmax(once->bytes[tensor], bytes);
}

static double sum_up(kept_once *once) {
    double sum = 0;
    for (int32_t i = 0; i < once->n; i++) {
        sum += once->bytes[once->tensors[i]];
        once->bytes[once->tensors[i]] = 0;
    }
    once->n = 0;
    return sum;
}

/* Parts that have something else of what an operand is; what follows owners has of its output as
   many as there are. */
static double count_parts(const counting *c, const cleave_nest *nest,
                          const cleave_operand *operand) {
    const cleave_split *split = &c->layout->splits[nest->op];
    double n = 1;
    if (nest->derivation == CLEAVE_DERIVE_OWNERS)
        return split->n_parts;
    for (int d = 0; d < c->model->tensors[operand->tensor].rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++) {
            int a = nest->operator_axis[operand->map[d].terms[t].axis];
            n *= a >= 0 ? split->degree[a] : 1;
        }
    return n;
}

/* A view has no more of the first that is behind it than either is. */
static double bytes_of(const cleave_model *model, int32_t tensor) {
    const cleave_tensor *base = &model->tensors[cleave_tensor_base(model, tensor)];
    double elements = (double)cleave_tensor_size(&model->tensors[tensor]);
    return fmin(elements, (double)cleave_tensor_size(base)) * (double)cleave_stored_bytes(base);
}

/* What is recomputed may have its inputs gathered again, and keys may go round once more. */
static void keep_input(counting *c, const cleave_nest *nest, const cleave_operand *input,
                       bool is_late) {
    const cleave_model *model = c->model;
    int32_t base = cleave_tensor_base(model, input->tensor), writer = model->writer[base];
    if (writer < 0)
        return;
    const cleave_nest *wrote = &model->nests[writer];
    double bytes = bytes_of(model, input->tensor), parts = count_parts(c, nest, input);
    if (is_late)
        keep(&c->for_weights, base, bytes / parts);
    if (c->layout->recompute[nest->op] || c->layout->splits[nest->op].ring)
        parts = fmax(parts, count_parts(c, wrote, &wrote->output));
    if (!c->layout->recompute[wrote->op])
        keep(&c->for_backward, base, bytes / parts);
}

static void keep_nest(counting *c, const cleave_nest *nest) {
    uint32_t late = cleave_nest_pass_inputs(c->model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
    uint32_t soon = cleave_nest_pass_inputs(c->model, nest, CLEAVE_PASS_INPUT_GRADIENT);
    uint32_t reads = soon != 0 ? lower_inputs_read(nest, soon) : 0;
    uint32_t reads_late = late != 0 ? lower_inputs_read(nest, late) : 0;
    int32_t out = nest->output.tensor, given = out;
    for (int i = 0; i < nest->n_inputs; i++)
        if (((reads | reads_late) >> i & 1) != 0)
            keep_input(c, nest, &nest->inputs[i], (reads_late >> i & 1) != 0);
    if (nest->kept_output && !c->layout->recompute[nest->op])
        keep(&c->for_backward, out, bytes_of(c->model, out) / count_parts(c, nest, &nest->output));
    if (late == 0)
        return;
    while (c->gives_on[given] >= 0)
        given = c->gives_on[given];
    keep(&c->gradients, given,
         (double)(cleave_tensor_size(&c->model->tensors[out]) *
                  cleave_type_bytes(cleave_value_gradient_type(&c->model->tensors[out]))) /
             count_parts(c, nest, &nest->output));
}

/* The tensor whose gradient may be that of another as it is, so that they lie in one place; -1:
   none is. */
static cleave_status find_gives_on(const cleave_model *model, cleave_arena *arena,
                                   const int32_t **found, cleave_error *error) {
    int32_t *readers = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    int32_t *to = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (readers == NULL || to == NULL)
        return cleave_fail_memory(error, "searching");
    cleave_model_count_readers(model, readers);
    for (int32_t t = 0; t < model->n_tensors; t++)
        to[t] = -1;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t s = 0; s < model->tensors[t].view.n_sources; s++)
            if (readers[model->tensors[t].view.sources[s]] == 1)
                to[model->tensors[t].view.sources[s]] = t;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        bool passes = nest->kind == CLEAVE_NEST_POINTWISE && nest->kept_inputs == 0;
        for (int i = 0; i < nest->n_inputs && passes && !nest->kept_output; i++)
            if (readers[nest->inputs[i].tensor] == 1)
                to[nest->inputs[i].tensor] = nest->output.tensor;
    }
    *found = to;
    return CLEAVE_OK;
}

static cleave_status count_stages(pipeline_finder *f, const cleave_layout *layout, counting *c) {
    const cleave_model *model = f->pricer->model;
    cleave_arena *arena = &f->pricer->arena;
    const cleave_schedule *schedule = &layout->schedule;
    *c = (counting){.model = model,
                    .layout = layout,
                    .stages = CLEAVE_ARENA_ARRAY(arena, stage_keeps, schedule->n_stages)};
    if (c->stages == NULL || !make_once(&c->for_backward, arena, model->n_tensors) ||
        !make_once(&c->for_weights, arena, model->n_tensors) ||
        !make_once(&c->gradients, arena, model->n_tensors))
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(find_gives_on(model, arena, &c->gives_on, f->error));
    for (int32_t s = 0; s < schedule->n_stages; s++) {
        int32_t op = schedule->n_stages > 1 ? schedule->first_operator[s] : 0;
        int32_t end =
            s + 1 < schedule->n_stages ? schedule->first_operator[s + 1] : model->n_operators;
        for (; op < end; op++)
            for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
                const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
                if (nest->differentiable && cleave_model_trains(model))
                    keep_nest(c, nest);
            }
        c->stages[s].for_backward = sum_up(&c->for_backward);
        c->stages[s].for_weights = sum_up(&c->for_weights) + sum_up(&c->gradients);
    }
    return CLEAVE_OK;
}

/* ---- when a group holds it ------------------------------------------------------------------- */

static cleave_status follow(pipeline_finder *f, const counting *c, int32_t n_groups, int32_t g,
                            pipeline_held *held) {
    const cleave_schedule *schedule = &c->layout->schedule;
    bool parts = cleave_schedule_parts_weights(schedule), ends = false;
    int32_t n, n_begun = 0, m = schedule->micro_batches;
    cleave_stage_block *order;
    double now = 0;
    CLEAVE_TRY(
        cleave_schedule_order_of(schedule, n_groups, g, &f->pricer->arena, &order, &n, f->error));
    for (int32_t i = 0; i < n && !ends; i++) {
        const stage_keeps *keeps = &c->stages[order[i].stage];
        bool gives = order[i].kind == (parts ? CLEAVE_BLOCK_WEIGHT : CLEAVE_BLOCK_BACKWARD);
        ends = gives && order[i].micro_batch == m - 1;
        if (order[i].kind == CLEAVE_BLOCK_FORWARD)
            now += keeps->for_backward / m;
        else if (order[i].kind == CLEAVE_BLOCK_BACKWARD)
            now += ((parts ? keeps->for_weights : 0) - keeps->for_backward) / m;
        else
            now -= keeps->for_weights / m;
        n_begun += gives && order[i].micro_batch == 0;
        held->most[g] = fmax(held->most[g], now);
        if (n_begun == schedule->n_stages / n_groups && !ends)
            held->beside_gradients[g] = fmax(held->beside_gradients[g], now);
    }
    return CLEAVE_OK;
}

/* From the first group to the last there is less kept for backward, evenly, and more for gradients
   of weights: so the first and the last hold most, or those beside them. */
cleave_status pipeline_find_held(pipeline_finder *f, const cleave_layout *layout, int32_t n_groups,
                                 pipeline_held *held) {
    counting c;
    held->most = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, n_groups);
    held->beside_gradients = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, n_groups);
    if (held->most == NULL || held->beside_gradients == NULL)
        return cleave_fail_memory(f->error, "searching");
    CLEAVE_TRY(count_stages(f, layout, &c));
    for (int32_t g = 0; g < n_groups; g++)
        if (g < 2 || g + 2 >= n_groups)
            CLEAVE_TRY(follow(f, &c, n_groups, g, held));
    return CLEAVE_OK;
}

/* ---- beside the state ------------------------------------------------------------------------ */

/* Of several micro-batches gradients are added up, where they are not sharded as soon as they
   arise. */
cleave_status pipeline_find_least_bytes(pipeline_finder *f, const cleave_layout *layout,
                                        const pipeline_held *held, pipeline_candidate *of) {
    const cleave_model *model = f->pricer->model;
    double *state = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    double *gradients = CLEAVE_ARENA_ARRAY(&f->pricer->arena, double, of->n_groups);
    double n = f->pricer->machine->n_devices / of->n_groups;
    if (state == NULL || gradients == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        int32_t op = f->reader[t] - 1;
        if (op < 0)
            continue;
        int32_t g = cleave_schedule_stage_of(&layout->schedule, op) % of->n_groups;
        double share = pipeline_share_of_parameters(f, layout, op), all = 1 / n;
        double elements = (double)cleave_tensor_size(tensor);
        double exact = (double)cleave_type_bytes(cleave_exact_type(tensor)) * elements;
        state[g] += elements * (double)cleave_stored_bytes(tensor) *
                    (of->sharded >= CLEAVE_SHARDED_WEIGHT ? all : share);
        if (!tensor->needs_gradient)
            continue;
        state[g] += exact * (f->pricer->lower.optimizer_states + cleave_has_master(tensor)) *
                    (of->sharded >= CLEAVE_SHARDED_UPDATE ? all : share);
        gradients[g] += exact * (of->sharded >= CLEAVE_SHARDED_GRADIENT ? all : share);
    }
    of->least_bytes = 0;
    for (int32_t g = 0; g < of->n_groups; g++) {
        double beside = held->beside_gradients[g];
        of->least_bytes = fmax(of->least_bytes, state[g] + held->most[g]);
        if (beside > 0)
            of->least_bytes = fmax(of->least_bytes, state[g] + gradients[g] + beside);
    }
    return CLEAVE_OK;
}
