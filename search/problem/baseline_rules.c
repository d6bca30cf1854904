/* The rules that split each operator along one axis, and what rules ask of an operator. */
#include "search/problem/baselines_internal.h"

#include "search/problem/node_cost.h"

#include <string.h>

/* ---- questions about operators ---- */

int baseline_axis_with_role(const cleave_operator *op, const char *role) {
    for (int a = 0; a < op->n_axes; a++)
        if (op->roles[a] != NULL && strcmp(op->roles[a], role) == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

int baseline_axis_named(const cleave_operator *op, const char *name) {
    for (int a = 0; a < op->n_axes; a++)
        if (strcmp(op->axes[a].name, name) == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

bool baseline_is_parameter(const cleave_model *model, int32_t tensor) {
    return model->tensors[cleave_tensor_base(model, tensor)].kind == CLEAVE_TENSOR_PARAMETER;
}

int32_t baseline_operator_before(const cleave_model *model, int32_t op) {
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

cleave_nest_kind baseline_kind_of(const cleave_model *model, int32_t op) {
    return model->nests[model->operators[op].main_nest].kind;
}

bool baseline_is_dense(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    if (nest->kind != CLEAVE_NEST_PRODUCT)
        return false;
    for (int i = 0; i < nest->n_inputs; i++)
        if (baseline_is_parameter(model, nest->inputs[i].tensor))
            return true;
    return false;
}

/* ---- setting splits ---- */

const int32_t *baseline_devices_of(const baseline_builder *b, int32_t op) {
    int32_t stage = cleave_schedule_stage_of(&b->layout->schedule, op);
    return b->all + (int64_t)(stage % b->n_groups) * b->n_devices;
}

static int32_t degree_of(const baseline_builder *b, int32_t op, int axis, int32_t most) {
    int64_t extent = b->model->operators[op].axes[axis].extent;
    return extent < most ? (int32_t)extent : most;
}

/* Splits one axis over all devices, or as many as its extent allows; without an axis every device
   computes the whole, as every rank of a data parallel program would. */
static cleave_status split_axis(const baseline_builder *b, int32_t op, int axis,
                                cleave_error *error) {
    int32_t degree[CLEAVE_MAX_AXES] = {0}, replicas = 1;
    if (axis < 0)
        replicas = b->n_devices;
    else
        degree[axis] = degree_of(b, op, axis, b->n_devices);
    b->axis_of[op] = axis;
    return cleave_layout_set(b->layout, op, replicas, degree, baseline_devices_of(b, op), b->arena,
                             error);
}

cleave_status baseline_split_samples(const baseline_builder *b, int32_t op, cleave_error *error) {
    return split_axis(b, op, baseline_axis_with_role(&b->model->operators[op], "sample"), error);
}

/* ---- the rules ---- */

cleave_status baseline_data_parallel(const baseline_builder *b, bool *applies,
                                     cleave_error *error) {
    for (int32_t op = 0; op < b->model->n_operators; op++)
        CLEAVE_TRY(baseline_split_samples(b, op, error));
    *applies = true;
    return CLEAVE_OK;
}

cleave_status baseline_single(const baseline_builder *b, bool *applies, cleave_error *error) {
    (void)b; /* a new layout has everything on device 0 */
    (void)error;
    *applies = true;
    return CLEAVE_OK;
}

/* Cuts the operators, in order, into runs of about equal node cost: an operator goes to the device
   in whose share the middle of its own time lies. */
cleave_status baseline_layer_per_device(const baseline_builder *b, bool *applies,
                                        cleave_error *error) {
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
cleave_status baseline_one_weird_trick(const baseline_builder *b, bool *applies,
                                       cleave_error *error) {
    const cleave_model *model = b->model;
    *applies = false;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t before = baseline_operator_before(model, op);
        int axis = -1;
        if (baseline_is_dense(model, op)) {
            axis = baseline_axis_with_role(of, "parameter");
            *applies = *applies || axis >= 0;
        } else if (before >= 0 && baseline_kind_of(model, op) == CLEAVE_NEST_POINTWISE &&
                   baseline_kind_of(model, before) == CLEAVE_NEST_PRODUCT &&
                   b->axis_of[before] >= 0) {
            axis = baseline_axis_named(of, model->operators[before].axes[b->axis_of[before]].name);
        }
        if (axis >= 0)
            CLEAVE_TRY(split_axis(b, op, axis, error));
        else
            CLEAVE_TRY(baseline_split_samples(b, op, error));
    }
    return CLEAVE_OK;
}
