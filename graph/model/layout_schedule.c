/* Does a schedule go with the model and the splits? */
#include "graph/model/layout.h"
#include "graph/model/micro_batch.h"

#include <string.h>

/* ---- groups ---------------------------------------------------------------------------------- */

static void mark_devices(const cleave_layout *layout, int32_t stage, bool *on) {
    const cleave_schedule *schedule = &layout->schedule;
    int32_t first = schedule->first_operator == NULL ? 0 : schedule->first_operator[stage];
    int32_t end =
        stage + 1 < schedule->n_stages ? schedule->first_operator[stage + 1] : layout->n_operators;
    memset(on, 0, (size_t)layout->n_devices * sizeof *on);
    for (int32_t op = first; op < end; op++)
        for (int32_t p = 0; p < layout->splits[op].n_parts; p++)
            on[layout->splits[op].devices[p]] = true;
}

static cleave_status find_groups(const cleave_layout *layout, cleave_arena *scratch, int32_t *group,
                                 cleave_error *error) {
    int32_t n = layout->schedule.n_stages, n_groups = 0;
    bool *on = CLEAVE_ARENA_ARRAY(scratch, bool, layout->n_devices);
    int32_t *stage_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, layout->n_devices);
    int32_t *n_devices = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    if (on == NULL || stage_of == NULL || n_devices == NULL)
        return cleave_fail_memory(error, "finding the devices of stages");
    for (int32_t d = 0; d < layout->n_devices; d++)
        stage_of[d] = -1;
    for (int32_t s = 0; s < n; s++) {
        int32_t like = -1, n_own = 0, n_taken = 0;
        mark_devices(layout, s, on);
        for (int32_t d = 0; d < layout->n_devices; d++) {
            if (!on[d])
                continue;
            n_own++;
            if (stage_of[d] >= 0) {
                if (like >= 0 && stage_of[d] != like)
                    n_taken = -layout->n_devices;
                like = stage_of[d];
                n_taken++;
            }
        }
        if (like >= 0 && (n_taken != n_own || n_devices[like] != n_own))
            return cleave_fail(
                error, CLEAVE_BAD_INPUT,
                "schedule: stages %d and %d have some devices in common, and not all", like, s);
        group[s] = like >= 0 ? group[like] : n_groups++;
        n_devices[s] = n_own;
        for (int32_t d = 0; d < layout->n_devices; d++)
            if (on[d] && like < 0)
                stage_of[d] = s;
    }
    return CLEAVE_OK;
}

cleave_status cleave_layout_groups(const cleave_layout *layout, cleave_arena *arena,
                                   int32_t **group, cleave_error *error) {
    cleave_arena scratch = {0};
    int32_t *found = CLEAVE_ARENA_ARRAY(arena, int32_t, layout->schedule.n_stages);
    cleave_status status = found == NULL
                               ? cleave_fail_memory(error, "finding the devices of stages")
                               : find_groups(layout, &scratch, found, error);
    cleave_arena_free(&scratch);
    *group = found;
    return status;
}

/* ---- checks ---------------------------------------------------------------------------------- */

/* No operator cuts the samples of a micro-batch into more parts than there are. */
static cleave_status check_samples(const cleave_model *model, const cleave_layout *layout,
                                   const cleave_micro_batches *micro, cleave_error *error) {
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        int axis = micro->sharing.nest_axis[n];
        if (axis < 0 || nest->derivation != CLEAVE_DERIVE_OPERATOR)
            continue;
        int32_t degree = layout->splits[nest->op].degree[nest->operator_axis[axis]];
        int64_t extent = cleave_micro_batches_step(micro, nest->axes[axis].extent);
        if (degree > extent)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\": degree %d of axis %s is above its extent in a "
                               "micro-batch, %lld",
                               model->operators[nest->op].name, degree, nest->axes[axis].name,
                               (long long)extent);
    }
    return CLEAVE_OK;
}

static cleave_status check_stages(const cleave_model *model, const cleave_schedule *schedule,
                                  cleave_error *error) {
    if (schedule->n_stages < 1 || (schedule->n_stages > 1 && schedule->first_operator == NULL))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "schedule: %d stages", schedule->n_stages);
    for (int32_t s = 0; s < schedule->n_stages && schedule->n_stages > 1; s++) {
        int32_t first = schedule->first_operator[s];
        if (first >= model->n_operators || first < 0 || (s == 0 && first != 0))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "schedule: stage %d begins with operator %d of %d", s, first,
                               model->n_operators);
        if (s > 0 && first <= schedule->first_operator[s - 1])
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "schedule: stage %d begins with operator \"%s\", which leaves stage "
                               "%d without operators",
                               s, model->operators[first].name, s - 1);
    }
    return CLEAVE_OK;
}

/* The stage that writes what is read, views seen through, is no later than the one that reads it.
 */
static int32_t latest_writer(const cleave_model *model, const cleave_schedule *schedule,
                             int32_t tensor) {
    const cleave_tensor *of = &model->tensors[tensor];
    int32_t latest = -1, writer = of->view.kind == CLEAVE_VIEW_NONE ? model->writer[tensor] : -1;
    if (writer >= 0)
        latest = cleave_schedule_stage_of(schedule, model->nests[writer].op);
    for (int32_t s = 0; s < of->view.n_sources; s++) {
        int32_t stage = latest_writer(model, schedule, of->view.sources[s]);
        latest = stage > latest ? stage : latest;
    }
    return latest;
}

static cleave_status check_directions(const cleave_model *model, const cleave_schedule *schedule,
                                      cleave_error *error) {
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        int32_t stage = cleave_schedule_stage_of(schedule, nest->op);
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t writer = latest_writer(model, schedule, nest->inputs[i].tensor);
            if (writer > stage)
                return cleave_fail(error, CLEAVE_BAD_INPUT,
                                   "schedule: operator \"%s\" of stage %d reads tensor %s of stage "
                                   "%d",
                                   model->operators[nest->op].name, stage,
                                   model->tensors[nest->inputs[i].tensor].name, writer);
        }
    }
    return CLEAVE_OK;
}

static cleave_status check_in_flight(const cleave_schedule *schedule, cleave_error *error) {
    if (schedule->in_flight == NULL)
        return CLEAVE_OK;
    if (schedule->kind != CLEAVE_SCHEDULE_1F1B && schedule->kind != CLEAVE_SCHEDULE_ZB_H1)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "schedule: in_flight is not for %s",
                           cleave_schedule_names[schedule->kind]);
    for (int32_t s = 0; s < schedule->n_stages; s++)
        if (schedule->in_flight[s] < 1)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "schedule: %d micro-batches in flight in stage %d are below 1",
                               schedule->in_flight[s], s);
    return CLEAVE_OK;
}

static cleave_status check_sooner(const cleave_schedule *schedule, cleave_error *error) {
    if (schedule->sooner > 0 && !cleave_schedule_kind_parts_weights(schedule->kind))
        return cleave_fail(error, CLEAVE_BAD_INPUT, "schedule: sooner is not for %s",
                           cleave_schedule_names[schedule->kind]);
    return CLEAVE_OK;
}

/* Running statistics of a second forward would be others. */
static cleave_status check_recompute(const cleave_model *model, const cleave_layout *layout,
                                     cleave_error *error) {
    for (int32_t a = 0; a < model->n_assignments; a++) {
        int32_t writer = cleave_tensor_writer(model, model->assignments[a].source);
        if (writer >= 0 && cleave_layout_recomputes(layout, model->nests[writer].op))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "operator \"%s\" has running statistics and can't be recomputed",
                               model->operators[model->nests[writer].op].name);
    }
    return CLEAVE_OK;
}

static cleave_status check_all(const cleave_model *model, const cleave_layout *layout,
                               cleave_arena *scratch, cleave_error *error) {
    const cleave_schedule *schedule = &layout->schedule;
    cleave_micro_batches micro;
    int32_t *group;
    CLEAVE_TRY(check_stages(model, schedule, error));
    CLEAVE_TRY(check_directions(model, schedule, error));
    CLEAVE_TRY(check_in_flight(schedule, error));
    CLEAVE_TRY(check_sooner(schedule, error));
    if (schedule->micro_batches != 1) {
        CLEAVE_TRY(
            cleave_micro_batches_find(model, schedule->micro_batches, scratch, &micro, error));
        CLEAVE_TRY(check_samples(model, layout, &micro, error));
    }
    CLEAVE_TRY(cleave_layout_groups(layout, scratch, &group, error));
    return cleave_schedule_check_order(schedule, group, error);
}

cleave_status cleave_layout_check_schedule(const cleave_model *model, const cleave_layout *layout,
                                           cleave_error *error) {
    const cleave_schedule *schedule = &layout->schedule;
    CLEAVE_TRY(check_recompute(model, layout, error));
    if (cleave_schedule_is_plain(schedule) && schedule->kind == CLEAVE_SCHEDULE_1F1B)
        return CLEAVE_OK;
    cleave_arena scratch = {0};
    cleave_status status = check_all(model, layout, &scratch, error);
    cleave_arena_free(&scratch);
    return status;
}
