/* The layouts that people use without a search, from the roles of axes and from who reads whom.

   Each is a rule that sets the split of one operator after the other, in the order of the model, so
   that an operator can follow the ones it reads. */
#include "search/problem/baselines.h"

#include "graph/model/gather.h"
#include "graph/model/ring.h"
#include "search/problem/goes_with.h"
#include "search/problem/group_split.h"
#include "search/problem/node_cost.h"

#include <string.h>

const char *const cleave_baseline_names[CLEAVE_N_BASELINES + 1] = {
    "data-parallel",   "single",        "layer-per-device",
    "one-weird-trick", "megatron",      "zero-1",
    "zero-3",          "megatron-1f1b", NULL};

typedef struct builder {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena *arena;
    cleave_layout *layout;
    int32_t n_devices;  /* of a group: each stage has one */
    int32_t n_groups;   /* 1 without stages */
    cleave_group group; /* their grid */
    bool ring;          /* keys go round among the devices of context */
    bool whole_tokens;  /* outside of products all that share them compute the same */
    const int32_t *all; /* [n_groups][n_devices] those to use, ascending */
    int *axis_of;       /* [n_operators] axis that is split; -1: none */
} builder;

/* ---- questions about operators ---- */

static int axis_with_role(const cleave_operator *op, const char *role) {
    for (int a = 0; a < op->n_axes; a++)
        if (op->roles[a] != NULL && strcmp(op->roles[a], role) == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

static int axis_named(const cleave_operator *op, const char *name) {
    for (int a = 0; a < op->n_axes; a++)
        if (strcmp(op->axes[a].name, name) == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

/* Is a tensor a parameter, or a view of one? */
static bool is_parameter(const cleave_model *model, int32_t tensor) {
    while (model->tensors[tensor].view.kind != CLEAVE_VIEW_NONE)
        tensor = model->tensors[tensor].view.sources[0];
    return model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER;
}

/* The operator that feeds the first of this operator's nests that reads another operator; -1: none
   does. */
static int32_t operator_before(const cleave_model *model, int32_t op) {
    const cleave_operator *of = &model->operators[op];
    for (int32_t i = 0; i < of->n_nests; i++) {
        const cleave_nest *nest = &model->nests[of->nests[i]];
        for (int j = 0; j < nest->n_inputs; j++) {
            int32_t source = cleave_tensor_writer(model, nest->inputs[j].tensor);
            if (source >= 0 && model->nests[source].op != op)
                return model->nests[source].op;
        }
    }
    return -1;
}

static cleave_nest_kind kind_of(const cleave_model *model, int32_t op) {
    return model->nests[model->operators[op].main_nest].kind;
}

/* A product with a parameter: a dense layer. */
static bool is_dense(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    if (nest->kind != CLEAVE_NEST_PRODUCT)
        return false;
    for (int i = 0; i < nest->n_inputs; i++)
        if (is_parameter(model, nest->inputs[i].tensor))
            return true;
    return false;
}

/* A product of two activations, as in attention, or all of that. */
static bool is_attention_product(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    return nest->kind == CLEAVE_NEST_ATTENTION ||
           (nest->kind == CLEAVE_NEST_PRODUCT && nest->n_inputs == 2 &&
            cleave_tensor_writer(model, nest->inputs[0].tensor) >= 0 &&
            cleave_tensor_writer(model, nest->inputs[1].tensor) >= 0);
}

/* ---- setting splits ---- */

static const int32_t *devices_of(const builder *b, int32_t op) {
    int32_t stage = cleave_schedule_stage_of(&b->layout->schedule, op);
    return b->all + (int64_t)(stage % b->n_groups) * b->n_devices;
}

static int32_t degree_of(const builder *b, int32_t op, int axis, int32_t most) {
    int64_t extent = b->model->operators[op].axes[axis].extent;
    return extent < most ? (int32_t)extent : most;
}

/* Splits one axis over all devices, or as many as its extent allows; without an axis every device
   computes the whole, as every rank of a data parallel program would. */
static cleave_status split_axis(const builder *b, int32_t op, int axis, cleave_error *error) {
    int32_t degree[CLEAVE_MAX_AXES] = {0}, replicas = 1;
    if (axis < 0)
        replicas = b->n_devices;
    else
        degree[axis] = degree_of(b, op, axis, b->n_devices);
    b->axis_of[op] = axis;
    return cleave_layout_set(b->layout, op, replicas, degree, devices_of(b, op), b->arena, error);
}

static cleave_status split_samples(const builder *b, int32_t op, cleave_error *error) {
    return split_axis(b, op, axis_with_role(&b->model->operators[op], "sample"), error);
}

/* ---- the baselines ---- */

static cleave_status data_parallel(const builder *b, bool *applies, cleave_error *error) {
    for (int32_t op = 0; op < b->model->n_operators; op++)
        CLEAVE_TRY(split_samples(b, op, error));
    *applies = true;
    return CLEAVE_OK;
}

static cleave_status single(const builder *b, bool *applies, cleave_error *error) {
    (void)b; /* a new layout has everything on device 0 */
    (void)error;
    *applies = true;
    return CLEAVE_OK;
}

/* Cuts the operators, in order, into runs of about equal node cost: an operator goes to the device
   in whose share the middle of its own time lies. */
static cleave_status layer_per_device(const builder *b, bool *applies, cleave_error *error) {
    cleave_node_costs *costs;
    int64_t *time = CLEAVE_ARENA_ARRAY(b->arena, int64_t, b->model->n_operators), total = 0;
    if (time == NULL)
        return cleave_fail_memory(error, "making a layout");
    CLEAVE_TRY(cleave_node_costs_create(b->model, b->machine, &costs, error));
    cleave_status status = CLEAVE_OK;
    for (int32_t op = 0; op < b->model->n_operators && status == CLEAVE_OK; op++) {
        cleave_node_cost cost = {0};
        status = cleave_node_cost_whole(costs, op, &cost, error);
        time[op] = cost.total;
        total += cost.total;
    }
    cleave_node_costs_destroy(costs);
    CLEAVE_TRY(status);
    double before = 0;
    for (int32_t op = 0; op < b->model->n_operators; op++) {
        double middle = before + (double)time[op] / 2;
        double share = total > 0 ? middle / (double)total : 0;
        int32_t device = (int32_t)(share * b->machine->n_devices);
        device = device < b->machine->n_devices ? device : b->machine->n_devices - 1;
        b->layout->splits[op].devices[0] = device;
        before += (double)time[op];
    }
    *applies = b->machine->n_devices > 1;
    return CLEAVE_OK;
}

/* Krizhevsky, "One weird trick for parallelizing convolutional neural networks", 2014: dense layers
   by output feature, everything else by sample.  An element-wise operator after a dense layer goes
   with it where it has the same axis. */
static cleave_status one_weird_trick(const builder *b, bool *applies, cleave_error *error) {
    const cleave_model *model = b->model;
    *applies = false;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t before = operator_before(model, op);
        int axis = -1;
        if (is_dense(model, op)) {
            axis = axis_with_role(of, "parameter");
            *applies = *applies || axis >= 0;
        } else if (before >= 0 && kind_of(model, op) == CLEAVE_NEST_POINTWISE &&
                   kind_of(model, before) == CLEAVE_NEST_PRODUCT && b->axis_of[before] >= 0) {
            axis = axis_named(of, model->operators[before].axes[b->axis_of[before]].name);
        }
        if (axis >= 0)
            CLEAVE_TRY(split_axis(b, op, axis, error));
        else
            CLEAVE_TRY(split_samples(b, op, error));
    }
    return CLEAVE_OK;
}

/* The axis of tokens: the dimension behind the samples', where features come after it; -1: none. */
static int token_axis(const cleave_model *model, int32_t op) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    const cleave_dimension_map *map = &nest->output.map[1];
    if (model->tensors[nest->output.tensor].rank < 3 || map->n_terms != 1)
        return -1;
    int axis = nest->operator_axis[map->terms[0].axis];
    return axis >= 0 && !of->axes[axis].whole && strcmp(of->roles[axis], "sample") != 0 ? axis : -1;
}

/* Does an operand go along an axis of its nest? */
static bool goes_along(const cleave_model *model, const cleave_operand *operand, int axis) {
    for (int d = 0; d < model->tensors[operand->tensor].rank; d++)
        for (int t = 0; t < operand->map[d].n_terms; t++)
            if (operand->map[d].terms[t].axis == axis)
                return true;
    return false;
}

/* Does every nest of an operator write along an axis, so that its parts need nothing of each other?
 */
static bool is_written_along(const cleave_model *model, int32_t op, int axis) {
    const cleave_operator *of = &model->operators[op];
    for (int32_t n = 0; n < of->n_nests; n++) {
        const cleave_nest *nest = &model->nests[of->nests[n]];
        bool writes = nest->derivation == CLEAVE_DERIVE_OWNERS;
        for (int d = 0; d < model->tensors[nest->output.tensor].rank && !writes; d++)
            for (int t = 0; t < nest->output.map[d].n_terms; t++)
                writes = writes || nest->operator_axis[nest->output.map[d].terms[t].axis] == axis;
        if (!writes)
            return false;
    }
    return true;
}

static bool is_loss(const cleave_model *model, int32_t op) {
    return cleave_model_trains(model) && model->nests[model->writer[model->loss]].op == op;
}

/* The rows of a table of parameters; -1: the operator looks up none. */
static int table_axis(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    int rows = cleave_gather_axis(nest);
    if (rows < 0 || !is_parameter(model, nest->inputs[1].tensor))
        return -1;
    return nest->operator_axis[rows];
}

/* An axis of which a product's weights, its other input and its output each have their own: of
   experts; -1: there is none. */
static int expert_axis(const cleave_model *model, int32_t op) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    for (int a = 0; a < nest->n_axes && is_dense(model, op); a++) {
        bool all = nest->operator_axis[a] >= 0 && !of->axes[nest->operator_axis[a]].whole &&
                   goes_along(model, &nest->output, a);
        for (int i = 0; i < 2; i++)
            all = all && goes_along(model, &nest->inputs[i], a);
        if (all)
            return nest->operator_axis[a];
    }
    return -1;
}

/* What megatron's rule knows of the operators before. */
typedef struct megatron_marks {
    bool *columns; /* is it split like the columns of a product? */
    int *tokens;   /* the axis that is cut by context; -1: none, or no tokens */
    int *experts;  /* and that of experts */
} megatron_marks;

/* As the operator before it is cut along its axis, if it is. */
static cleave_status follow(const builder *b, const int *axis_of, int32_t before, int32_t op,
                            int32_t degree, int *axis, cleave_error *error) {
    *axis = -1;
    if (degree < 2 || before < 0 || axis_of[before] < 0)
        return CLEAVE_OK;
    return cleave_axis_goes_with(b->model, before, axis_of[before], op, degree, axis, error);
}

/* Where the columns, rows, heads or tokens of an operator are cut by `tensor`. */
static cleave_status cut_by_tensor(const builder *b, int32_t op, int32_t before,
                                   const megatron_marks *marks, int *axis, cleave_error *error) {
    const cleave_model *model = b->model;
    const cleave_operator *of = &model->operators[op];
    bool *columns = marks->columns;
    *axis = -1;
    if (before >= 0 && columns[before])
        CLEAVE_TRY(
            follow(b, b->axis_of, before, op, b->group.degree[CLEAVE_GROUP_TENSOR], axis, error));
    if (is_attention_product(model, op)) {
        *axis = axis_named(of, "h");
        *axis = *axis >= 0 ? *axis : axis_named(of, "b1");
        columns[op] = *axis >= 0;
    } else if (is_dense(model, op)) {
        columns[op] = *axis < 0;
        *axis = *axis >= 0 ? *axis : axis_with_role(of, "parameter");
    } else {
        if (*axis >= 0 && !is_loss(model, op) && !is_written_along(model, op, *axis))
            *axis = -1; /* a normalisation of what is split by columns */
        columns[op] = *axis >= 0;
        *axis = *axis >= 0 ? *axis : table_axis(model, op);
        *axis = *axis >= 0 || b->whole_tokens ? *axis : token_axis(model, op);
    }
    return CLEAVE_OK;
}

/* The axis of attention's queries where keys can go round; else -1. */
static int ring_axis(const builder *b, int32_t op) {
    const cleave_nest *nest = &b->model->nests[b->model->operators[op].main_nest];
    return b->ring && nest->attention != NULL ? nest->operator_axis[nest->attention->rows] : -1;
}

/* Jacobs et al., "DeepSpeed Ulysses", 2023: tokens are cut everywhere but in attention, to which
   each device brings all tokens of some of its heads.  Or they are cut there, too, and keys go
   round. */
static cleave_status cut_by_context(const builder *b, int32_t op, int32_t before,
                                    const megatron_marks *marks, cleave_group_cut *cut,
                                    cleave_error *error) {
    int32_t degree = b->group.degree[CLEAVE_GROUP_CONTEXT];
    int axis = -1;
    marks->tokens[op] = -1;
    if (degree < 2)
        return CLEAVE_OK;
    cut->tensor_first = is_attention_product(b->model, op);
    if (cut->tensor_first && ring_axis(b, op) >= 0) {
        cut->axis[CLEAVE_GROUP_CONTEXT] = ring_axis(b, op);
        return CLEAVE_OK;
    }
    if (cut->tensor_first) {
        cut->axis[CLEAVE_GROUP_CONTEXT] = cut->axis[CLEAVE_GROUP_TENSOR];
        return CLEAVE_OK;
    }
    CLEAVE_TRY(follow(b, marks->tokens, before, op, degree, &axis, error));
    axis = axis >= 0 ? axis : token_axis(b->model, op);
    if (axis >= 0 && b->model->operators[op].axes[axis].extent >= degree)
        marks->tokens[op] = cut->axis[CLEAVE_GROUP_CONTEXT] = axis;
    return CLEAVE_OK;
}

/* Samples, but of what has experts these. */
static cleave_status cut_by_expert(const builder *b, int32_t op, int32_t before,
                                   const megatron_marks *marks, cleave_group_cut *cut,
                                   cleave_error *error) {
    int32_t degree = b->group.degree[CLEAVE_GROUP_EXPERT];
    int axis = degree < 2 ? -1 : expert_axis(b->model, op);
    if (axis < 0 && kind_of(b->model, op) == CLEAVE_NEST_POINTWISE)
        CLEAVE_TRY(follow(b, marks->experts, before, op, degree, &axis, error));
    marks->experts[op] = axis;
    cut->axis[CLEAVE_GROUP_EXPERT] = axis >= 0 ? axis : cut->axis[CLEAVE_GROUP_DATA];
    return CLEAVE_OK;
}

/* Shoeybi et al., "Megatron-LM", 2019, and Korthikanti et al., "Reducing activation recomputation
   in large transformer models", 2022: of two dense layers in a row the first is split by columns
   and the second by rows; what lies between, attention included, is split like the columns (by
   head; of products apart, their second batch axis).  What lies outside is split by tokens, so that
   the sums behind the rows are scattered and gathered again before the next columns, or, as in the
   first of the two, computed by all alike.  The vocabulary is split, too, both where tokens are
   looked up and where the loss is taken.  Applies where there is attention, with heads for all. */
static cleave_status megatron(const builder *b, bool *applies, cleave_error *error) {
    const cleave_model *model = b->model;
    const int32_t *degree = b->group.degree;
    const megatron_marks marks = {.columns = CLEAVE_ARENA_ARRAY(b->arena, bool, model->n_operators),
                                  .tokens = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_operators),
                                  .experts = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_operators)};
    if (marks.columns == NULL || marks.tokens == NULL || marks.experts == NULL)
        return cleave_fail_memory(error, "making a layout");
    bool has_heads = false, has_experts = false, has_room = true;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t before = operator_before(model, op);
        int samples = axis_with_role(of, "sample"), axis;
        CLEAVE_TRY(cut_by_tensor(b, op, before, &marks, &axis, error));
        cleave_group_cut cut = {.axis = {samples, samples, -1, axis}};
        CLEAVE_TRY(cut_by_context(b, op, before, &marks, &cut, error));
        CLEAVE_TRY(cut_by_expert(b, op, before, &marks, &cut, error));
        has_experts = has_experts || marks.experts[op] >= 0;
        if (is_attention_product(model, op) && axis >= 0) {
            has_heads = true;
            has_room = has_room && (degree[CLEAVE_GROUP_CONTEXT] == 1 || ring_axis(b, op) >= 0 ||
                                    of->axes[axis].extent >= (int64_t)degree[CLEAVE_GROUP_TENSOR] *
                                                                 degree[CLEAVE_GROUP_CONTEXT]);
        }
        b->axis_of[op] = axis;
        if (axis >= 0 && axis == samples)
            CLEAVE_TRY(split_samples(b, op, error));
        else
            CLEAVE_TRY(cleave_group_split(model, op, &b->group, &cut, devices_of(b, op), b->arena,
                                          b->layout, error));
        b->layout->splits[op].ring = b->ring && cleave_ring_fits(model, op, &b->layout->splits[op]);
    }
    *applies = has_heads && has_room && (has_experts || degree[CLEAVE_GROUP_EXPERT] == 1);
    return CLEAVE_OK;
}

/* ---- all of them ---- */

typedef cleave_status baseline_function(const builder *b, bool *applies, cleave_error *error);
static const struct {
    const char *name;
    baseline_function *rule;
    bool has_stages;   /* it may be run in stages ... */
    bool needs_stages; /* ... and is not without */
    cleave_sharded sharded;
} baselines[CLEAVE_N_BASELINES] = {
    {"data-parallel", data_parallel, true, false, CLEAVE_SHARDED_NOTHING},
    {"single", single, false, false, CLEAVE_SHARDED_NOTHING},
    {"layer-per-device", layer_per_device, false, false, CLEAVE_SHARDED_NOTHING},
    {"one-weird-trick", one_weird_trick, true, false, CLEAVE_SHARDED_NOTHING},
    {"megatron", megatron, true, false, CLEAVE_SHARDED_NOTHING},
    {"zero-1", data_parallel, true, false, CLEAVE_SHARDED_UPDATE},
    {"zero-3", data_parallel, true, false, CLEAVE_SHARDED_WEIGHT},
    {"megatron-1f1b", megatron, true, true, CLEAVE_SHARDED_NOTHING},
};

cleave_sharded cleave_baseline_shards(const char *name) {
    cleave_sharded sharded = CLEAVE_SHARDED_NOTHING;
    for (int b = 0; b < CLEAVE_N_BASELINES; b++)
        sharded = strcmp(baselines[b].name, name) == 0 ? baselines[b].sharded : sharded;
    return sharded;
}

void cleave_layout_shard(const cleave_model *model, cleave_sharded sharded, cleave_layout *layout) {
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            layout->sharded[t] = (uint8_t)cleave_sharded_as(&model->tensors[t], sharded);
}

static cleave_status lay_out_group(builder *b, const cleave_baseline_shape *shape,
                                   cleave_error *error) {
    int32_t node = b->machine->devices_per_node, n = b->n_devices;
    int32_t tensor = node > 0 && n % node == 0 ? node : n, context = 1, expert = 1;
    if (shape != NULL) {
        tensor = shape->tensor > 0 ? shape->tensor : tensor;
        context = shape->context > 1 ? shape->context : 1;
        expert = shape->expert > 1 ? shape->expert : 1;
        b->whole_tokens = shape->whole_tokens;
        b->ring = shape->ring && context > 1;
    }
    if (n % tensor != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d devices of a stage can't be cut into groups of %d", n, tensor);
    if (context > 1 && expert > 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "there are layouts of context %d and of expert %d, but not of both",
                           context, expert);
    if (n / tensor % ((int64_t)context * expert) != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d devices of a stage can't be cut into groups of tensor %d x %s %d", n,
                           tensor, context > 1 ? "context" : "expert",
                           context > 1 ? context : expert);
    b->group = (cleave_group){{n / tensor / context / expert, expert, context, tensor}};
    return CLEAVE_OK;
}

/* All devices in order, cut into as many groups as the shape wants. */
static cleave_status begin(builder *b, const cleave_baseline_shape *shape, cleave_error *error) {
    const cleave_schedule *schedule = shape != NULL ? shape->schedule : NULL;
    int32_t n = b->machine->n_devices, *all = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n);
    b->axis_of = CLEAVE_ARENA_ARRAY(b->arena, int, b->model->n_operators);
    CLEAVE_TRY(cleave_layout_create(b->model, n, b->arena, b->layout, error));
    if (all == NULL || b->axis_of == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t d = 0; d < n; d++)
        all[d] = d;
    b->all = all;
    b->n_groups = 1;
    if (schedule != NULL) {
        CLEAVE_TRY(cleave_schedule_copy(schedule, b->arena, &b->layout->schedule, error));
        b->n_groups = schedule->n_stages;
        if (schedule->kind == CLEAVE_SCHEDULE_INTERLEAVED)
            b->n_groups = shape->n_groups;
    }
    if (n % b->n_groups != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d devices can't be cut into %d equal groups, one for each stage", n,
                           b->n_groups);
    b->n_devices = n / b->n_groups;
    return lay_out_group(b, shape, error);
}

static cleave_status named(const cleave_model *model, const cleave_machine *machine,
                           const char *name, const cleave_baseline_shape *shape,
                           cleave_arena *arena, cleave_layout *layout, bool *applies,
                           cleave_error *error) {
    builder b = {.model = model, .machine = machine, .arena = arena, .layout = layout};
    int which = 0;
    while (which < CLEAVE_N_BASELINES && strcmp(baselines[which].name, name) != 0)
        which++;
    if (which == CLEAVE_N_BASELINES)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "method \"%s\" is no baseline: they are data-parallel, single, "
            "layer-per-device, one-weird-trick, megatron, zero-1, zero-3, megatron-1f1b "
            "and random",
            name);
    if (shape != NULL && !baselines[which].has_stages)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method \"%s\" has no stages and no micro-batches", name);
    CLEAVE_TRY(begin(&b, shape, error));
    CLEAVE_TRY(baselines[which].rule(&b, applies, error));
    *applies = *applies && (b.n_groups > 1 || !baselines[which].needs_stages) &&
               (baselines[which].sharded == CLEAVE_SHARDED_NOTHING || cleave_model_trains(model));
    cleave_layout_shard(model,
                        shape != NULL && shape->sharded > baselines[which].sharded
                            ? shape->sharded
                            : baselines[which].sharded,
                        layout);
    return CLEAVE_OK;
}

static void label(const cleave_machine *machine, const char *name, cleave_layout *layout) {
    strncpy(layout->machine, machine->name, sizeof layout->machine - 1);
    strncpy(layout->method, name, sizeof layout->method - 1);
}

cleave_status cleave_baseline_layout(const cleave_model *model, const cleave_machine *machine,
                                     const char *name, uint64_t seed, cleave_arena *arena,
                                     cleave_layout *layout, bool *applies, cleave_error *error) {
    cleave_layout result;
    bool does_apply = true;
    if (strcmp(name, "random") == 0)
        CLEAVE_TRY(cleave_layout_random(model, machine->n_devices, seed, arena, &result, error));
    else
        CLEAVE_TRY(named(model, machine, name, NULL, arena, &result, &does_apply, error));
    label(machine, name, &result);
    *layout = result;
    *applies = does_apply;
    return CLEAVE_OK;
}

cleave_status cleave_baseline_in_stages(const cleave_model *model, const cleave_machine *machine,
                                        const char *name, const cleave_baseline_shape *shape,
                                        cleave_arena *arena, cleave_layout *layout, bool *applies,
                                        cleave_error *error) {
    cleave_layout result;
    bool does_apply;
    CLEAVE_TRY(named(model, machine, name, shape, arena, &result, &does_apply, error));
    label(machine, name, &result);
    *layout = result;
    *applies = does_apply;
    return CLEAVE_OK;
}

cleave_status cleave_data_parallel_layout(const cleave_model *model, const cleave_machine *machine,
                                          int32_t n_devices, const int32_t *devices,
                                          cleave_arena *arena, cleave_layout *layout,
                                          cleave_error *error) {
    cleave_layout result;
    bool applies;
    CLEAVE_TRY(cleave_layout_create(model, machine->n_devices, arena, &result, error));
    builder b = {.model = model,
                 .machine = machine,
                 .arena = arena,
                 .layout = &result,
                 .n_devices = n_devices,
                 .n_groups = 1,
                 .group = {{1, 1, 1, n_devices}},
                 .all = devices,
                 .axis_of = CLEAVE_ARENA_ARRAY(arena, int, model->n_operators)};
    if (b.axis_of == NULL)
        return cleave_fail_memory(error, "making a layout");
    CLEAVE_TRY(data_parallel(&b, &applies, error));
    *layout = result;
    return CLEAVE_OK;
}
