/* Layouts: made, copied, checked, and drawn at random.

   A layout is legal when every operator's parts are counted by its degrees and replicas and stand
   on that many distinct devices of the machine; nothing else couples operators, so any legal splits
   together are a legal layout. */
#include "graph/model/layout.h"

#include "base/checked.h"
#include "base/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *const cleave_sharded_names[CLEAVE_N_SHARDED] = {"nothing", "update", "gradient",
                                                            "weight"};

cleave_status cleave_layout_create(const cleave_model *model, int32_t n_devices,
                                   cleave_arena *arena, cleave_layout *layout,
                                   cleave_error *error) {
    if (n_devices < 1 || n_devices > CLEAVE_MAX_DEVICES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%d devices are not in the range 1 to %d",
                           n_devices, CLEAVE_MAX_DEVICES);
    cleave_layout result = {.n_devices = n_devices,
                            .n_operators = model->n_operators,
                            .n_tensors = model->n_tensors,
                            .stores_scores = model->stores_scores,
                            .schedule = {.micro_batches = 1, .n_stages = 1}};
    memcpy(result.model_hash, model->hash, sizeof result.model_hash);
    result.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, model->n_operators);
    result.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    result.recompute = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    if (result.splits == NULL || result.sharded == NULL || result.recompute == NULL ||
        devices == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_split *split = &result.splits[op];
        *split = (cleave_split){.replicas = 1, .n_parts = 1, .devices = &devices[op]};
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            split->degree[a] = 1;
    }
    *layout = result;
    return CLEAVE_OK;
}

bool cleave_layout_rings(const cleave_layout *layout) {
    bool rings = false;
    for (int32_t op = 0; op < layout->n_operators && !rings; op++)
        rings = layout->splits[op].ring;
    return rings;
}

bool cleave_layout_is_whole(const cleave_layout *layout) {
    bool whole = cleave_schedule_is_plain(&layout->schedule) && !cleave_layout_rings(layout);
    for (int32_t op = 0; op < layout->n_operators && whole; op++)
        whole = !cleave_layout_recomputes(layout, op);
    return whole;
}

bool cleave_layout_is_plain(const cleave_layout *layout) {
    bool plain = cleave_layout_is_whole(layout);
    for (int32_t t = 0; t < layout->n_tensors && plain; t++)
        plain = layout->sharded[t] <= CLEAVE_SHARDED_UPDATE;
    return plain;
}

bool cleave_split_count(int n_axes, int32_t replicas, const int32_t *degree, int32_t *n_parts) {
    int64_t count = replicas;
    bool fits = replicas >= 1;
    for (int a = 0; a < n_axes && fits; a++)
        fits =
            degree[a] >= 1 && cleave_int64_multiply(count, degree[a], &count) && count <= INT32_MAX;
    if (fits)
        *n_parts = (int32_t)count;
    return fits;
}

bool cleave_split_same(const cleave_split *a, const cleave_split *b) {
    return a->replicas == b->replicas && a->n_parts == b->n_parts && a->ring == b->ring &&
           memcmp(a->degree, b->degree, sizeof a->degree) == 0 &&
           (a->devices == b->devices ||
            memcmp(a->devices, b->devices, (size_t)a->n_parts * sizeof *a->devices) == 0);
}

cleave_status cleave_layout_set(cleave_layout *layout, int32_t op, int32_t replicas,
                                const int32_t *degree, const int32_t *devices, cleave_arena *arena,
                                cleave_error *error) {
    cleave_split split = {.replicas = replicas};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = degree[a] == 0 ? 1 : degree[a];
    if (!cleave_split_count(CLEAVE_MAX_AXES, replicas, split.degree, &split.n_parts))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "operator %d: %d replicas and its degrees do not give a number of parts",
                           op, replicas);
    split.devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split.n_parts);
    if (split.devices == NULL)
        return cleave_fail_memory(error, "making a layout");
    memcpy(split.devices, devices, (size_t)split.n_parts * sizeof *devices);
    layout->splits[op] = split;
    return CLEAVE_OK;
}

static bool starts_alike(const cleave_split *split, const cleave_split *before) {
    return split->n_parts <= before->n_parts &&
           memcmp(split->devices, before->devices,
                  (size_t)split->n_parts * sizeof *split->devices) == 0;
}

static cleave_status copy_layout(const cleave_layout *layout, const cleave_model *model,
                                 bool shares, cleave_arena *arena, cleave_layout *copy,
                                 cleave_error *error) {
    cleave_layout result = *layout;
    result.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, layout->n_operators);
    result.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    result.recompute = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
    if (result.splits == NULL || result.sharded == NULL || result.recompute == NULL)
        return cleave_fail_memory(error, "copying a layout");
    for (int32_t op = 0; op < layout->n_operators; op++)
        result.recompute[op] = cleave_layout_recomputes(layout, op);
    CLEAVE_TRY(
        cleave_collective_rules_copy(&layout->collectives, arena, &result.collectives, error));
    CLEAVE_TRY(cleave_schedule_copy(&layout->schedule, arena, &result.schedule, error));
    memcpy(result.sharded, layout->sharded, (size_t)model->n_tensors * sizeof *layout->sharded);
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op];
        if (shares && op > 0 && starts_alike(split, &result.splits[op - 1])) {
            int32_t *devices = result.splits[op - 1].devices;
            result.splits[op] = *split;
            result.splits[op].devices = devices;
        } else {
            CLEAVE_TRY(cleave_layout_set(&result, op, split->replicas, split->degree,
                                         split->devices, arena, error));
            result.splits[op].ring = split->ring;
        }
    }
    *copy = result;
    return CLEAVE_OK;
}

cleave_status cleave_layout_copy(const cleave_layout *layout, const cleave_model *model,
                                 cleave_arena *arena, cleave_layout *copy, cleave_error *error) {
    return copy_layout(layout, model, false, arena, copy, error);
}

cleave_status cleave_layout_keep(const cleave_layout *layout, const cleave_model *model,
                                 cleave_arena *arena, cleave_layout *copy, cleave_error *error) {
    return copy_layout(layout, model, true, arena, copy, error);
}

static cleave_status check_devices(const cleave_operator *op, const cleave_split *split,
                                   int32_t n_devices, cleave_error *error) {
    for (int32_t p = 0; p < split->n_parts; p++)
        if (split->devices[p] < 0 || split->devices[p] >= n_devices)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\": device %d is not in the range 0 to %d", op->name,
                               split->devices[p], n_devices - 1);
    bool ascends = true; /* as nearly all do */
    for (int32_t p = 1; p < split->n_parts && ascends; p++)
        ascends = split->devices[p - 1] < split->devices[p];
    if (ascends)
        return CLEAVE_OK;
    int32_t *sorted = malloc((size_t)split->n_parts * sizeof *sorted);
    if (sorted == NULL)
        return cleave_fail_memory(error, "checking a layout");
    memcpy(sorted, split->devices, (size_t)split->n_parts * sizeof *sorted);
    cleave_sort_int32(sorted, split->n_parts);
    cleave_status status = CLEAVE_OK;
    for (int32_t p = 1; p < split->n_parts && status == CLEAVE_OK; p++)
        if (sorted[p] == sorted[p - 1])
            status = cleave_fail(error, CLEAVE_BAD_INPUT,
                                 "operator \"%s\": device %d has two parts", op->name, sorted[p]);
    free(sorted);
    return status;
}

cleave_status cleave_split_check(const cleave_operator *op, const cleave_split *split,
                                 int32_t n_devices, cleave_error *error) {
    if (split->replicas < 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "operator \"%s\": %d replicas, but at least 1 is needed", op->name,
                           split->replicas);
    for (int a = 0; a < op->n_axes; a++) {
        const cleave_axis *axis = &op->axes[a];
        int32_t degree = split->degree[a];
        if (degree < 1)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\": degree %d of axis %s is below 1", op->name, degree,
                               axis->name);
        if (axis->whole && degree > 1)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\": axis %s can't be split, but its degree is %d",
                               op->name, axis->name, degree);
        if (degree > axis->extent)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\": degree %d of axis %s is above its extent %lld",
                               op->name, degree, axis->name, (long long)axis->extent);
    }
    int32_t n_parts;
    if (!cleave_split_count(op->n_axes, split->replicas, split->degree, &n_parts))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "operator \"%s\": its replicas and degrees give more than 2^31 parts",
                           op->name);
    if (n_parts > n_devices)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "operator \"%s\": its replicas and degrees give %d parts, more parts than "
            "there are devices (%d)",
            op->name, n_parts, n_devices);
    if (n_parts != split->n_parts)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "operator \"%s\": %d parts by its replicas and degrees, but it has %d devices",
            op->name, n_parts, split->n_parts);
    return check_devices(op, split, n_devices, error);
}

/* What goes forward once has no update to shard and nothing to recompute. */
static cleave_status check_forward(const cleave_model *model, const cleave_layout *layout,
                                   cleave_error *error) {
    for (int32_t t = 0; t < model->n_tensors && !cleave_model_trains(model); t++)
        if (layout->sharded[t])
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "\"%s\" can't be sharded: one pass forward updates nothing",
                               model->tensors[t].name);
    for (int32_t op = 0; op < model->n_operators && !cleave_model_trains(model); op++)
        if (cleave_layout_recomputes(layout, op))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\" can't be recomputed: one pass forward has no "
                               "backward",
                               model->operators[op].name);
    return CLEAVE_OK;
}

cleave_status cleave_layout_check(const cleave_model *model, const cleave_layout *layout,
                                  cleave_error *error) {
    if (strcmp(layout->model_hash, model->hash) != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout was made for another model: its hash is %s, that of %s is "
                           "%s",
                           layout->model_hash, model->file, model->hash);
    if (layout->n_operators != model->n_operators)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout has %d operators, but the model has %d", layout->n_operators,
                           model->n_operators);
    if (layout->n_devices < 1 || layout->n_devices > CLEAVE_MAX_DEVICES)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%d devices are not in the range 1 to %d",
                           layout->n_devices, CLEAVE_MAX_DEVICES);
    CLEAVE_TRY(cleave_collective_rules_check(&layout->collectives, error));
    for (int32_t op = 0; op < model->n_operators; op++)
        CLEAVE_TRY(cleave_split_check(&model->operators[op], &layout->splits[op], layout->n_devices,
                                      error));
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (layout->sharded[t] && model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "the update of \"%s\" can't be sharded: it is no parameter",
                               model->tensors[t].name);
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (layout->sharded[t] >= CLEAVE_N_SHARDED)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "\"%s\": no way %d to be sharded",
                               model->tensors[t].name, layout->sharded[t]);
    CLEAVE_TRY(check_forward(model, layout, error));
    return cleave_layout_check_schedule(model, layout, error);
}

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

/* Distinct devices: a third of the time an aligned block, a third any contiguous block, else any
   devices in any order. */
static void draw_devices(int32_t n_devices, cleave_random *random, cleave_split *split) {
    int32_t n = split->n_parts;
    int64_t style = cleave_random_below(random, 3);
    if (style < 2) {
        int64_t start = style == 0 ? n * cleave_random_below(random, n_devices / n)
                                   : cleave_random_below(random, n_devices - n + 1);
        for (int32_t p = 0; p < n; p++)
            split->devices[p] = (int32_t)start + p;
        return;
    }
    for (int32_t p = 0; p < n_devices; p++)
        split->devices[p] = p;
    for (int32_t p = 0; p < n; p++) {
        int64_t other = p + cleave_random_below(random, n_devices - p);
        int32_t device = split->devices[p];
        split->devices[p] = split->devices[other];
        split->devices[other] = device;
    }
}

void cleave_split_random(const cleave_operator *op, int32_t n_devices, cleave_random *random,
                         cleave_split *split) {
    /* Half of the time the number of parts aimed at is uniform, half its logarithm is, so that both
       few parts and many are likely. */
    int64_t most = cleave_random_below(random, 2) == 0
                       ? 1 + cleave_random_below(random, n_devices)
                       : (int64_t)exp(cleave_random_next_uniform(random) * log(n_devices + 1.0));
    most = most < 1 ? 1 : smaller(most, n_devices);
    int order[CLEAVE_MAX_AXES], n = 0;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split->degree[a] = 1;
    for (int a = 0; a < op->n_axes; a++) {
        if (op->axes[a].whole || op->axes[a].extent < 2)
            continue;
        int64_t place = cleave_random_below(random, n + 1);
        order[n] = order[place];
        order[place] = a;
        n++;
    }
    int64_t parts = 1;
    for (int i = 0; i < n; i++) {
        int64_t room = smaller(most / parts, op->axes[order[i]].extent);
        if (room < 2 || cleave_random_below(random, 3) == 0)
            continue;
        split->degree[order[i]] = (int32_t)(1 + cleave_random_below(random, room));
        parts *= split->degree[order[i]];
    }
    split->replicas = 1;
    if (most / parts > 1 && cleave_random_below(random, 3) == 0)
        split->replicas = (int32_t)(1 + cleave_random_below(random, most / parts));
    split->n_parts = (int32_t)(parts * split->replicas);
    draw_devices(n_devices, random, split);
}

cleave_status cleave_layout_random(const cleave_model *model, int32_t n_devices, uint64_t seed,
                                   cleave_arena *arena, cleave_layout *layout,
                                   cleave_error *error) {
    cleave_layout result;
    CLEAVE_TRY(cleave_layout_create(model, n_devices, arena, &result, error));
    strcpy(result.method, "random");
    cleave_random random = {.key = cleave_hash_join(seed, cleave_hash_string("random layout"))};
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, n_devices);
    if (devices == NULL)
        return cleave_fail_memory(error, "drawing a layout");
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_split split = {.devices = devices};
        cleave_split_random(&model->operators[op], n_devices, &random, &split);
        CLEAVE_TRY(cleave_layout_set(&result, op, split.replicas, split.degree, split.devices,
                                     arena, error));
    }
    /* Half of the layouts have sharded updates, for half of their parameters. */
    bool sharding = cleave_random_below(&random, 2) == 1;
    for (int32_t t = 0; t < model->n_tensors; t++)
        if (sharding && cleave_model_trains(model) &&
            model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            result.sharded[t] = cleave_random_below(&random, 2) == 1;
    CLEAVE_TRY(cleave_collective_rules_random(&random, arena, &result.collectives, error));
    *layout = result;
    return CLEAVE_OK;
}
