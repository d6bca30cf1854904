/* The layouts that people use without a search, from the roles of axes and from who reads whom.

   Each is a rule that sets the split of one operator after the other, in the order of the model, so
   that an operator can follow the ones it reads. */
#include "search/problem/baselines.h"

#include "search/problem/node_cost.h"

#include <string.h>

const char *const cleave_baseline_names[CLEAVE_N_BASELINES + 1] = {
    "data-parallel", "single", "layer-per-device", "one-weird-trick", "megatron", NULL};

typedef struct builder {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena *arena;
    cleave_layout *layout;
    int32_t n_devices;
    const int32_t *all; /* [n_devices] those to use, ascending */
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

/* The nest that writes a tensor, or the first source of a view; -1: comes from outside. */
static int32_t nest_behind(const cleave_model *model, int32_t tensor) {
    while (model->tensors[tensor].view.kind != CLEAVE_VIEW_NONE)
        tensor = model->tensors[tensor].view.sources[0];
    return model->writer[tensor];
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
            int32_t source = nest_behind(model, nest->inputs[j].tensor);
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

/* A product of two activations, as in attention. */
static bool is_attention_product(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    return nest->kind == CLEAVE_NEST_PRODUCT && nest->n_inputs == 2 &&
           nest_behind(model, nest->inputs[0].tensor) >= 0 &&
           nest_behind(model, nest->inputs[1].tensor) >= 0;
}

/* ---- setting splits ---- */

/* Splits one axis over all devices, or as many as its extent allows; without an axis every device
   computes the whole, as every rank of a data parallel program would. */
static cleave_status split_axis(const builder *b, int32_t op, int axis, cleave_error *error) {
    int32_t degree[CLEAVE_MAX_AXES] = {0}, n_devices = b->n_devices, replicas = 1;
    if (axis < 0) {
        replicas = n_devices;
    } else {
        int64_t extent = b->model->operators[op].axes[axis].extent;
        degree[axis] = extent < n_devices ? (int32_t)extent : n_devices;
    }
    b->axis_of[op] = axis;
    return cleave_layout_set(b->layout, op, replicas, degree, b->all, b->arena, error);
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

/* Shoeybi et al., "Megatron-LM", 2019: of two dense layers in a row the first is split by columns
   and the second by rows, so that only the second needs an all-reduce; what lies between, attention
   included, is split like the columns (by head; of products apart, their second batch axis), and
   what follows a row-split layer is whole on every device.  Applies where there is attention. */
static cleave_status megatron(const builder *b, bool *applies, cleave_error *error) {
    const cleave_model *model = b->model;
    *applies = false;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t before = operator_before(model, op);
        int axis = -1;
        bool in_columns =
            before >= 0 && b->axis_of[before] >= 0 &&
            !(is_dense(model, before) &&
              strcmp(model->operators[before].roles[b->axis_of[before]], "reduction") == 0);
        if (is_attention_product(model, op)) {
            axis = axis_named(of, "h");
            axis = axis >= 0 ? axis : axis_named(of, "b1");
            *applies = *applies || axis >= 0;
        } else if (is_dense(model, op)) {
            axis = axis_with_role(of, in_columns ? "reduction" : "parameter");
        } else if (in_columns) {
            axis = axis_named(of, model->operators[before].axes[b->axis_of[before]].name);
        }
        CLEAVE_TRY(split_axis(b, op, axis, error));
    }
    return CLEAVE_OK;
}

typedef cleave_status baseline_function(const builder *b, bool *applies, cleave_error *error);

cleave_status cleave_baseline_layout(const cleave_model *model, const cleave_machine *machine,
                                     const char *name, uint64_t seed, cleave_arena *arena,
                                     cleave_layout *layout, bool *applies, cleave_error *error) {
    static baseline_function *const rules[] = {data_parallel, single, layer_per_device,
                                               one_weird_trick, megatron};
    cleave_layout result;
    bool does_apply = true;
    if (strcmp(name, "random") == 0) {
        CLEAVE_TRY(cleave_layout_random(model, machine->n_devices, seed, arena, &result, error));
    } else {
        int which = 0;
        while (cleave_baseline_names[which] != NULL &&
               strcmp(cleave_baseline_names[which], name) != 0)
            which++;
        if (cleave_baseline_names[which] == NULL)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "method \"%s\" is no baseline: they are data-parallel, single, "
                               "layer-per-device, one-weird-trick, megatron and random",
                               name);
        CLEAVE_TRY(cleave_layout_create(model, machine->n_devices, arena, &result, error));
        int32_t *all = CLEAVE_ARENA_ARRAY(arena, int32_t, machine->n_devices);
        builder b = {.model = model,
                     .machine = machine,
                     .arena = arena,
                     .layout = &result,
                     .n_devices = machine->n_devices,
                     .all = all,
                     .axis_of = CLEAVE_ARENA_ARRAY(arena, int, model->n_operators)};
        if (all == NULL || b.axis_of == NULL)
            return cleave_fail_memory(error, "making a layout");
        for (int32_t d = 0; d < machine->n_devices; d++)
            all[d] = d;
        CLEAVE_TRY(rules[which](&b, &does_apply, error));
    }
    strncpy(result.machine, machine->name, sizeof result.machine - 1);
    strncpy(result.method, name, sizeof result.method - 1);
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
                 .all = devices,
                 .axis_of = CLEAVE_ARENA_ARRAY(arena, int, model->n_operators)};
    if (b.axis_of == NULL)
        return cleave_fail_memory(error, "making a layout");
    CLEAVE_TRY(data_parallel(&b, &applies, error));
    *layout = result;
    return CLEAVE_OK;
}
