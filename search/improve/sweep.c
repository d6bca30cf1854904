#include "base/order.h"
#include "graph/model/precision.h"
#include "search/improve/sweep_internal.h"

/* Of more moves than this, and of a candidate with more blocks, only some are tried. */
enum { MOST_MOVES = 1 << 16, LEAST_CHOICES = 64, MOST_BLOCKS = 16 };

static bool is_with(const cleave_sweep_source *source, const cleave_choices *choices, int32_t a,
                    int32_t b, cleave_move_scope scope) {
    const int32_t *place_of = source->place_of, *list_of = source->candidates->list_of;
    if (scope == CLEAVE_MOVE_PLACE)
        return place_of[a] == place_of[b];
    return list_of[a] == list_of[b] && cleave_same_choice(choices->of[a], choices->of[b]);
}

int32_t cleave_sweep_members(const cleave_sweep_source *source, const cleave_choices *choices,
                             int32_t op, cleave_move_scope scope, int32_t *members) {
    int32_t first = scope == CLEAVE_MOVE_RUN ? op : 0, n = 0;
    if (scope == CLEAVE_MOVE_PLACE && source->place_of == NULL) {
        members[0] = op;
        return 1;
    }
    while (first > 0 && is_with(source, choices, first - 1, op, scope))
        first--;
    for (int32_t i = first; i < source->model->n_operators; i++)
        if (is_with(source, choices, i, op, scope))
            members[n++] = i;
        else if (scope == CLEAVE_MOVE_RUN)
            break;
    return n;
}

/* ---- the additive model ---------------------------------------------------------------------- */

static bool index_values(sweep_builder *b, cleave_arena *arena) {
    const cleave_additive_model *made = b->source->additive;
    for (int32_t op = 0; op < made->additive.n_variables; op++) {
        int32_t n = cleave_list_of(b->source->candidates, op)->n;
        int32_t *values = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
        if (values == NULL)
            return false;
        for (int32_t i = 0; i < n; i++)
            values[i] = -1;
        for (int32_t i = 0; i < made->additive.n_values[op]; i++)
            values[made->candidates[op][i]] = i;
        b->value_of[op] = values;
    }
    return true;
}

static void index_pairs(sweep_builder *b) {
    const cleave_additive *additive = &b->source->additive->additive;
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        b->first_pair[additive->pairs[p].a + 2]++;
        b->first_pair[additive->pairs[p].b + 2]++;
    }
    for (int32_t v = 0; v < additive->n_variables; v++)
        b->first_pair[v + 2] += b->first_pair[v + 1];
    for (int32_t p = 0; p < additive->n_pairs; p++) {
        b->pairs[b->first_pair[additive->pairs[p].a + 1]++] = p;
        b->pairs[b->first_pair[additive->pairs[p].b + 1]++] = p;
    }
}

static cleave_status index_additive(sweep_builder *b, cleave_arena *arena, cleave_error *error) {
    if (b->source->additive == NULL)
        return CLEAVE_OK;
    const cleave_additive *additive = &b->source->additive->additive;
    b->value_of = CLEAVE_ARENA_ARRAY(arena, int32_t *, additive->n_variables);
    b->first_pair = CLEAVE_ARENA_ARRAY(arena, int32_t, additive->n_variables + 3);
    b->pairs = CLEAVE_ARENA_ARRAY(arena, int32_t, 2 * (size_t)additive->n_pairs);
    if (b->value_of == NULL || b->first_pair == NULL || b->pairs == NULL || !index_values(b, arena))
        return cleave_fail_memory(error, "searching");
    index_pairs(b);
    return CLEAVE_OK;
}

/* Value of an operator where the operators of the group have `candidate`, the others what they have
   in the base. */
static int32_t value_at(const sweep_builder *b, int32_t op, int32_t candidate) {
    return b->value_of[op][b->is_member[op] ? candidate : b->base->of[op].candidate];
}

/* What of the additive total the operators of the group have a share in; false where the model
   lacks the candidate.  Neighbours whose own split it lacks are left out, here as in any other
   total of the group. */
static bool total_at(const sweep_builder *b, int32_t candidate, int64_t *total) {
    const cleave_additive *additive = &b->source->additive->additive;
    *total = 0;
    for (int32_t m = 0; m < b->n_members; m++) {
        int32_t v = b->members[m], value = value_at(b, v, candidate);
        if (value < 0)
            return false;
        *total += additive->cost[v][value];
        for (int32_t i = b->first_pair[v]; i < b->first_pair[v + 1]; i++) {
            const cleave_additive_pair *pair = &additive->pairs[b->pairs[i]];
            int32_t other = pair->a == v ? pair->b : pair->a, at = value_at(b, other, candidate);
            if (at < 0 || (b->is_member[other] && other < v))
                continue; /* or counted with the other */
            int32_t row = pair->a == v ? value : at, column = pair->a == v ? at : value;
            *total += pair->cost[(int64_t)row * additive->n_values[pair->b] + column];
        }
    }
    return true;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Elements of an operand that the first part of a candidate reads or writes. */
static int64_t elements_of(const cleave_model *model, const cleave_nest *nest,
                           const cleave_operand *operand, const cleave_candidate *c) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    int64_t elements = 1;
    for (int d = 0; d < tensor->rank; d++) {
        int64_t width = 1;
        for (int t = 0; t < operand->map[d].n_terms; t++) {
            int axis = operand->map[d].terms[t].axis, of = nest->operator_axis[axis];
            int64_t degree = of >= 0 && c->degree[of] > 1 ? c->degree[of] : 1;
            int64_t extent = (nest->axes[axis].extent + degree - 1) / degree;
            width += operand->map[d].terms[t].stride * (extent - 1);
        }
        elements *= width < tensor->shape[d] ? width : tensor->shape[d];
    }
    return elements;
}

/* Bytes of the operands of an operator's parts, as many times the first: parameters with gradient
   and state.  What moves on the way is not in them. */
static int64_t held_by(const sweep_builder *b, int32_t op, const cleave_candidate *c) {
    const cleave_model *model = b->source->model;
    int64_t bytes = 0;
    for (int32_t k = 0; k < model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &model->nests[model->operators[op].nests[k]];
        if (nest->derivation != CLEAVE_DERIVE_OPERATOR)
            continue;
        for (int i = 0; i < nest->n_inputs; i++) {
            bool trained = cleave_model_trains(model) &&
                           cleave_tensor_sees_parameter(model, nest->inputs[i].tensor);
            const cleave_tensor *tensor = &model->tensors[nest->inputs[i].tensor];
            bytes += elements_of(model, nest, &nest->inputs[i], c) *
                     (trained ? cleave_type_bytes(tensor->type) +
                                    cleave_lasting_bytes(tensor, b->source->optimizer_states)
                              : cleave_stored_bytes(tensor));
        }
        bytes += elements_of(model, nest, &nest->output, c) *
                 cleave_stored_bytes(&model->tensors[nest->output.tensor]);
    }
    return bytes * c->n_parts;
}

/* By how much that changes when the group gets a candidate. */
static int64_t bytes_of(const sweep_builder *b, int32_t candidate) {
    int32_t op = b->members[0];
    const cleave_candidate_list *list = cleave_list_of(b->source->candidates, op);
    int64_t present = held_by(b, op, &list->items[b->base->of[op].candidate]);
    return b->n_members * (held_by(b, op, &list->items[candidate]) - present);
}

/* Sharding the update of a parameter takes most of its state off. */
static int64_t bytes_of_update(const sweep_builder *b, int32_t tensor) {
    const cleave_tensor *of = &b->source->model->tensors[tensor];
    int64_t bytes = cleave_tensor_size(of) * cleave_type_bytes(cleave_exact_type(of));
    int64_t change = -bytes * b->source->optimizer_states;
    if (!b->kind.lean)
        return 0;
    return b->base->sharded[tensor] ? -change : change;
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Was a candidate tried with smaller windows? */
static bool is_old(const sweep_builder *b, int32_t op, const cleave_candidate *candidate) {
    if (b->source->windows_before == 0)
        return false;
    int outer = cleave_outer_axis(&b->source->model->operators[op]);
    int32_t degree = outer < 0 ? candidate->replicas : candidate->degree[outer];
    return degree % b->source->windows_before == 0;
}

/* Elements of the parameters that an operator reads. */
static int64_t parameters_of(const cleave_model *model, const cleave_operator *op) {
    int64_t elements = 0;
    for (int32_t i = 0; i < op->n_nests; i++) {
        const cleave_nest *nest = &model->nests[op->nests[i]];
        for (int j = 0; j < nest->n_inputs; j++) {
            int32_t tensor = cleave_tensor_base(model, nest->inputs[j].tensor);
            const cleave_tensor *of = &model->tensors[tensor];
            elements += of->kind == CLEAVE_TENSOR_PARAMETER ? cleave_tensor_size(of) : 0;
        }
    }
    return elements;
}

/* ---- moves ----------------------------------------------------------------------------------- */

/* By how much the step changes when the group gets a candidate, as far as costs say.  Of windows
   these are not known, but what is data parallel loses most where weights are large: those
   operators are changed first, and where not all can be tried, the others are not. */
static int64_t promise_of(const sweep_builder *b, int32_t candidate) {
    const cleave_model *model = b->source->model;
    if (b->source->place_of != NULL)
        return -parameters_of(model, &model->operators[b->members[0]]);
    const cleave_candidate_list *list = cleave_list_of(b->source->candidates, b->members[0]);
    int32_t present = b->base->of[b->members[0]].candidate;
    int64_t before, after;
    if (b->source->additive != NULL && total_at(b, present, &before)) {
        if (total_at(b, candidate, &after))
            return after - before;
        return INT64_C(1) << 50; /* it was among the dearest by itself */
    }
    return b->n_members * (list->items[candidate].picoseconds - list->items[present].picoseconds);
}

void sweep_add(sweep_builder *b, cleave_move move) {
    b->failed = b->failed || !CLEAVE_LIST_PUSH(&b->moves, move);
}

int32_t sweep_first_device(const sweep_builder *b, int32_t op) {
    const cleave_candidate *c =
        &cleave_list_of(b->source->candidates, op)->items[b->base->of[op].candidate];
    return b->base->of[op].start * c->n_parts;
}

/* Blocks worth trying where there are too many for all: where operators are that the group
   exchanges tensors with, and where it is. */
static bool is_near(const sweep_builder *b, const cleave_candidate *c, int32_t start) {
    int32_t op = b->members[0];
    const cleave_structure *s = b->source->structure;
    if (c->n_starts <= MOST_BLOCKS || start == 0 || sweep_first_device(b, op) / c->n_parts == start)
        return true;
    for (int32_t i = s->first_neighbor[op]; i < s->first_neighbor[op + 1]; i++)
        if (sweep_first_device(b, s->neighbors[i]) / c->n_parts == start)
            return true;
    return false;
}

static int by_promise(const void *a, const void *b) {
    const cleave_move *x = a, *y = b;
    CLEAVE_ORDER_BY(x->promise, y->promise);
    CLEAVE_ORDER_BY(x->op, y->op);
    CLEAVE_ORDER_BY(x->tensor, y->tensor);
    CLEAVE_ORDER_BY(x->scope, y->scope);
    CLEAVE_ORDER_BY(x->choice.candidate, y->choice.candidate);
    CLEAVE_ORDER_BY(x->choice.start, y->choice.start);
    CLEAVE_ORDER_BY(x->with, y->with);
    return (x->with_choice.candidate > y->with_choice.candidate) -
           (x->with_choice.candidate < y->with_choice.candidate);
}

/* One that takes memory off, one that takes time off, in turn. */
static void sort_lean(cleave_move *moves, int32_t n) {
    CLEAVE_SORT(moves, n, by_promise);
    for (int32_t i = 0; i < n; i++) {
        int64_t bytes = moves[i].bytes;
        moves[i].bytes = 2 * (int64_t)i;
        moves[i].promise = bytes;
    }
    CLEAVE_SORT(moves, n, by_promise);
    for (int32_t i = 0; i < n; i++)
        moves[i].promise =
            2 * (int64_t)i + 1 < moves[i].bytes ? 2 * (int64_t)i + 1 : moves[i].bytes;
    CLEAVE_SORT(moves, n, by_promise);
}

/* Every choice for the group at hand, whose first operator stands for it. */
static void add_choices(sweep_builder *b) {
    int32_t op = b->members[0], first = b->moves.n;
    const cleave_candidate_list *list = cleave_list_of(b->source->candidates, op);
    for (int32_t i = 0; i < list->n && !b->failed; i++) {
        if (is_old(b, op, &list->items[i]))
            continue;
        int64_t promise = promise_of(b, i);
        int64_t bytes = b->kind.lean ? bytes_of(b, i) : 0;
        for (int32_t start = 0; start < list->items[i].n_starts; start++) {
            cleave_choice choice = {i, start};
            if (is_near(b, &list->items[i], start))
                sweep_add(b, (cleave_move){.promise = promise,
                                           .bytes = bytes,
                                           .op = op,
                                           .tensor = -1,
                                           .scope = b->scope,
                                           .choice = choice,
                                           .with = -1});
            else
                b->complete = false;
        }
    }
    int32_t most = MOST_MOVES / b->source->model->n_operators;
    most = most > LEAST_CHOICES ? most : LEAST_CHOICES;
    if (b->moves.n - first > most && b->source->place_of == NULL) {
        CLEAVE_SORT(b->moves.items + first, b->moves.n - first, by_promise);
        b->moves.n = first + most;
        b->complete = false;
    }
}

/* The group at hand, or one operator, from its first member on. */
static void add_members(sweep_builder *b, cleave_move_scope scope) {
    b->scope = scope;
    for (int32_t m = 0; m < b->n_members; m++)
        b->is_member[b->members[m]] = true;
    add_choices(b);
    for (int32_t m = 0; m < b->n_members; m++)
        b->is_member[b->members[m]] = false;
}

/* The first one stands for a group, and one operator is no group. */
static void add_operator(sweep_builder *b, int32_t op) {
    const cleave_sweep_source *s = b->source;
    bool windows = s->place_of != NULL;
    if (windows && s->place_of[op] < b->n_places)
        return;
    b->n_places++;
    b->members[0] = op;
    b->n_members = 1;
    if (!b->kind.groups || windows)
        add_members(b, CLEAVE_MOVE_PLACE);
    if (windows) /* whether it is a group will be seen when it is tried */
        add_members(b, CLEAVE_MOVE_GROUP);
    if (!b->kind.groups || windows)
        return;
    int32_t n = cleave_sweep_members(s, b->base, op, CLEAVE_MOVE_GROUP, b->members);
    b->n_members = n;
    if (n > 1 && b->members[0] == op)
        add_members(b, CLEAVE_MOVE_GROUP);
    b->n_members = cleave_sweep_members(s, b->base, op, CLEAVE_MOVE_RUN, b->members);
    if (b->kind.lean && b->n_members > 1 && b->n_members < n && b->members[0] == op)
        add_members(b, CLEAVE_MOVE_RUN);
}

cleave_status cleave_sweep_create(const cleave_sweep_source *source, const cleave_choices *base,
                                  cleave_sweep_kind kind, cleave_arena *arena, cleave_sweep *sweep,
                                  cleave_error *error) {
    int32_t n_ops = source->model->n_operators;
    sweep_builder b = {.source = source, .base = base, .kind = kind, .complete = true};
    b.members = CLEAVE_ARENA_ARRAY(arena, int32_t, n_ops);
    b.is_member = CLEAVE_ARENA_ARRAY(arena, bool, n_ops);
    if (b.members == NULL || b.is_member == NULL)
        return cleave_fail_memory(error, "searching");
    CLEAVE_TRY(index_additive(&b, arena, error));
    for (int32_t op = 0; op < n_ops && !b.failed; op++)
        add_operator(&b, op);
    for (int32_t i = 0; !kind.groups && i < source->structure->n_parameters; i++) {
        int32_t tensor = source->structure->parameters[i];
        sweep_add(
            &b, (cleave_move){
                    .bytes = bytes_of_update(&b, tensor), .op = -1, .tensor = tensor, .with = -1});
    }
    if (kind.pairs && !kind.groups && !kind.lean && source->additive != NULL &&
        !sweep_add_pairs(&b, arena))
        b.failed = true;
    if (kind.lean)
        sort_lean(b.moves.items, b.moves.n);
    else
        CLEAVE_SORT(b.moves.items, b.moves.n, by_promise);
    cleave_sweep result = {.n = b.moves.n, .complete = b.complete};
    result.moves = CLEAVE_ARENA_ARRAY(arena, cleave_move, b.moves.n);
    for (int32_t i = 0; i < b.moves.n && result.moves != NULL; i++)
        result.moves[i] = b.moves.items[i];
    CLEAVE_LIST_FREE(&b.moves);
    if (b.failed || result.moves == NULL)
        return cleave_fail_memory(error, "searching");
    *sweep = result;
    return CLEAVE_OK;
}
