/* The layouts that people use without a search, from the roles of axes and from who reads whom:
   what there is by which name, and the devices that a rule then lays a model over. */
#include "search/problem/baselines.h"

#include "search/problem/baselines_internal.h"

#include <string.h>

/* Name, rule, may it be run in stages, and is it not without, what of the state it shards. */
#define BASELINES(ROW)                                                                             \
    ROW("data-parallel", baseline_data_parallel, true, false, CLEAVE_SHARDED_NOTHING)              \
    ROW("single", baseline_single, false, false, CLEAVE_SHARDED_NOTHING)                           \
    ROW("layer-per-device", baseline_layer_per_device, false, false, CLEAVE_SHARDED_NOTHING)       \
    ROW("one-weird-trick", baseline_one_weird_trick, true, false, CLEAVE_SHARDED_NOTHING)          \
    ROW("megatron", baseline_megatron, true, false, CLEAVE_SHARDED_NOTHING)                        \
    ROW("zero-1", baseline_data_parallel, true, false, CLEAVE_SHARDED_UPDATE)                      \
    ROW("zero-3", baseline_data_parallel, true, false, CLEAVE_SHARDED_WEIGHT)                      \
    ROW("megatron-1f1b", baseline_megatron, true, true, CLEAVE_SHARDED_NOTHING)

#define NAME(name, ...) name,
#define LISTED(name, ...) name ", "
#define ENTRY(...) {__VA_ARGS__},
const char *const cleave_baseline_names[] = {BASELINES(NAME) NULL};
const char cleave_baseline_list[] = BASELINES(LISTED);

typedef cleave_status baseline_function(const baseline_builder *b, bool *applies,
                                        cleave_error *error);
static const struct {
    const char *name;
    baseline_function *rule;
    bool has_stages, needs_stages;
    cleave_sharded sharded;
} baselines[] = {BASELINES(ENTRY)};
_Static_assert(sizeof baselines / sizeof baselines[0] == CLEAVE_N_BASELINES, "say how many");

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

static cleave_status lay_out_group(baseline_builder *b, const cleave_baseline_shape *shape,
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
    b->group = (cleave_group_grid){{n / tensor / context / expert, expert, context, tensor}};
    return CLEAVE_OK;
}

/* All devices, cut into as many groups as the shape wants. */
static cleave_status begin(baseline_builder *b, const cleave_baseline_shape *shape,
                           cleave_error *error) {
    const cleave_schedule *schedule = shape != NULL ? shape->schedule : NULL;
    int32_t n = b->machine->n_devices, *all = CLEAVE_ARENA_ARRAY(b->arena, int32_t, n);
    b->axis_of = CLEAVE_ARENA_ARRAY(b->arena, int, b->model->n_operators);
    CLEAVE_TRY(cleave_layout_create(b->model, n, b->arena, b->layout, error));
    if (all == NULL || b->axis_of == NULL)
        return cleave_fail_memory(error, "making a layout");
    b->all = all;
    b->n_groups = 1;
    if (schedule != NULL) {
        CLEAVE_TRY(cleave_schedule_copy(schedule, b->arena, &b->layout->schedule, error));
        b->n_groups = schedule->n_stages;
        if (cleave_schedule_kind_goes_round(schedule->kind))
            b->n_groups = shape->n_groups;
    }
    if (n % b->n_groups != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%d devices can't be cut into %d equal groups, one for each stage", n,
                           b->n_groups);
    b->n_devices = n / b->n_groups;
    int32_t run = shape != NULL && shape->neighbours > 0 ? shape->neighbours : b->n_devices;
    for (int32_t d = 0; d < n; d++)
        all[d] = cleave_group_device(d % b->n_devices, d / b->n_devices, b->n_groups, run);
    return lay_out_group(b, shape, error);
}

static cleave_status named(const cleave_model *model, const cleave_machine *machine,
                           const char *name, const cleave_baseline_shape *shape,
                           cleave_arena *arena, cleave_layout *layout, bool *applies,
                           cleave_error *error) {
    baseline_builder b = {.model = model, .machine = machine, .arena = arena, .layout = layout};
    int which = 0;
    while (which < CLEAVE_N_BASELINES && strcmp(baselines[which].name, name) != 0)
        which++;
    if (which == CLEAVE_N_BASELINES)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "method \"%s\" is no baseline: they are %sand random", name,
                           cleave_baseline_list);
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
    baseline_builder b = {.model = model,
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
    CLEAVE_TRY(baseline_data_parallel(&b, &applies, error));
    *layout = result;
    return CLEAVE_OK;
}
