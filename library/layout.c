/* Layouts: read, known by name, looked at and changed. */
#include "costmodel/cost.h"
#include "library/objects.h"
#include "search/search.h"

#include <stdlib.h>
#include <string.h>

/* An empty holder, or null and an error. */
static door_layout *make(cleave_error *error) {
    door_layout *made = calloc(1, sizeof *made);
    if (made == NULL)
        cleave_fail_memory(error, "making a layout");
    return made;
}

/* What was made, or nothing of it. */
static cleave_status conclude(cleave_status status, door_layout *made, cleave_layout **layout) {
    if (status == CLEAVE_OK)
        *layout = &made->layout;
    else
        cleave_layout_free(&made->layout);
    return status;
}

cleave_status cleave_layout_load(const char *path, const cleave_model *model,
                                 cleave_layout **layout, cleave_error *error) {
    door_layout *made = make(error);
    if (made == NULL)
        return CLEAVE_FAILED;
    return conclude(cleave_layout_read(path, model, &made->arena, &made->layout, error), made,
                    layout);
}

cleave_status cleave_layout_load_text(const char *text, size_t bytes, const char *name,
                                      const cleave_model *model, cleave_layout **layout,
                                      cleave_error *error) {
    door_layout *made = make(error);
    if (made == NULL)
        return CLEAVE_FAILED;
    return conclude(
        cleave_layout_parse(text, bytes, name, model, &made->arena, &made->layout, error), made,
        layout);
}

const char *cleave_baseline_name(int32_t i) {
    int32_t n = 0;
    while (cleave_baseline_names[n] != NULL)
        n++;
    return i >= 0 && i < n ? cleave_baseline_names[i] : NULL;
}

static cleave_status make_baseline(const cleave_model *model, const cleave_machine *machine,
                                   const char *name, uint64_t seed, door_layout *made,
                                   cleave_error *error) {
    bool applies = false;
    CLEAVE_TRY(cleave_baseline_layout(model, machine, name, seed, &made->arena, &made->layout,
                                      &applies, error));
    if (!applies)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "the method %s does not apply to this model on %d devices", name,
                           machine->n_devices);
    if (strcmp(name, "random") == 0)
        return CLEAVE_OK; /* draws its algorithms, too */
    return cleave_choose_collectives(machine, true, &made->arena, &made->layout.collectives, error);
}

cleave_status cleave_layout_baseline(const cleave_model *model, const cleave_machine *machine,
                                     const char *name, uint64_t seed, cleave_layout **layout,
                                     cleave_error *error) {
    door_layout *made = make(error);
    if (made == NULL)
        return CLEAVE_FAILED;
    return conclude(make_baseline(model, machine, name, seed, made, error), made, layout);
}

void cleave_layout_free(cleave_layout *layout) {
    door_layout *made = (door_layout *)layout;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}

int32_t cleave_layout_device_count(const cleave_layout *layout) { return layout->n_devices; }

int32_t cleave_layout_degree(const cleave_layout *layout, int32_t op, int32_t axis) {
    if (op < 0 || op >= layout->n_operators || axis < 0 || axis >= CLEAVE_MAX_AXES)
        return 0;
    return layout->splits[op].degree[axis];
}

const int32_t *cleave_layout_parts(const cleave_layout *layout, int32_t op, int32_t *n_parts) {
    bool is_there = op >= 0 && op < layout->n_operators;
    *n_parts = is_there ? layout->splits[op].n_parts : 0;
    return is_there ? layout->splits[op].devices : NULL;
}

int32_t cleave_layout_micro_batch_count(const cleave_layout *layout) {
    return layout->schedule.micro_batches;
}

int32_t cleave_layout_stage_count(const cleave_layout *layout) { return layout->schedule.n_stages; }

int32_t cleave_layout_stage(const cleave_layout *layout, int32_t op) {
    return op >= 0 && op < layout->n_operators ? cleave_schedule_stage_of(&layout->schedule, op)
                                               : -1;
}

const char *cleave_layout_schedule(const cleave_layout *layout) {
    return cleave_schedule_names[layout->schedule.kind];
}

bool cleave_layout_is_recomputed(const cleave_layout *layout, int32_t op) {
    return op >= 0 && op < layout->n_operators && cleave_layout_recomputes(layout, op);
}

cleave_status cleave_layout_change(cleave_layout *layout, const cleave_model *model, int32_t op,
                                   int32_t replicas, const int32_t *degree, const int32_t *devices,
                                   cleave_error *error) {
    CLEAVE_TRY(cleave_layout_check(model, layout, error));
    if (op < 0 || op >= layout->n_operators)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "operator %d is not one of the %d of %s", op,
                           layout->n_operators, model->file);
    int32_t all[CLEAVE_MAX_AXES] = {0};
    cleave_split old = layout->splits[op];
    memcpy(all, degree, (size_t)model->operators[op].n_axes * sizeof *all);
    CLEAVE_TRY(cleave_layout_set(layout, op, replicas, all, devices,
                                 &((door_layout *)layout)->arena, error));
    cleave_status status =
        cleave_split_check(&model->operators[op], &layout->splits[op], layout->n_devices, error);
    if (status != CLEAVE_OK)
        layout->splits[op] = old;
    return status;
}

cleave_status door_check_layout(const cleave_model *model, const cleave_machine *machine,
                                const cleave_layout *layout, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_check(model, layout, error));
    if (layout->n_devices != machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "the layout is for %d devices, but %d of the machine %s were loaded",
                           layout->n_devices, machine->n_devices, machine->name);
    return CLEAVE_OK;
}
