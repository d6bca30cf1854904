/* Models, and which version this is. */
#include "graph/import/import.h"
#include "library/objects.h"

#include <stdlib.h>

#define TEXT_OF(number) #number
#define DOTTED(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *cleave_version(void) {
    return DOTTED(CLEAVE_VERSION_MAJOR, CLEAVE_VERSION_MINOR, CLEAVE_VERSION_PATCH);
}

cleave_status cleave_model_load(const char *path, const cleave_model_settings *given,
                                cleave_model **model, cleave_error *error) {
    cleave_model_settings settings = CLEAVE_MODEL_SETTINGS_INIT;
    CLEAVE_TRY(door_take_settings(&settings, sizeof settings, given, error));
    door_model *made = calloc(1, sizeof *made);
    if (made == NULL)
        return cleave_fail_memory(error, "reading a model");
    const cleave_import_request request = {.file = path,
                                           .batch = settings.batch,
                                           .sequence = settings.sequence,
                                           .capacity_factor = settings.capacity_factor,
                                           .with_loss = !settings.forward,
                                           .inputs = settings.inputs,
                                           .dimensions = settings.dimensions,
                                           .clips = settings.clips_gradients,
                                           .precision = settings.precision,
                                           .reduce_precision = settings.reduce_precision};
    cleave_status status = cleave_model_import_as(&request, &made->arena, &made->model, error);
    made->model.stores_scores = settings.stores_scores;
    if (status == CLEAVE_OK)
        *model = &made->model;
    else
        cleave_model_free(&made->model);
    return status;
}

void cleave_model_free(cleave_model *model) {
    door_model *made = (door_model *)model;
    if (made != NULL)
        cleave_arena_free(&made->arena);
    free(made);
}

int32_t cleave_operator_count(const cleave_model *model) { return model->n_operators; }

static const cleave_operator *operator_of(const cleave_model *model, int32_t op) {
    return op >= 0 && op < model->n_operators ? &model->operators[op] : NULL;
}

const char *cleave_operator_name(const cleave_model *model, int32_t op) {
    const cleave_operator *of = operator_of(model, op);
    return of != NULL ? of->name : NULL;
}

const char *cleave_operator_axis(const cleave_model *model, int32_t op, int32_t axis,
                                 int64_t *extent) {
    const cleave_operator *of = operator_of(model, op);
    if (of == NULL || axis < 0 || axis >= of->n_axes)
        return NULL;
    if (extent != NULL)
        *extent = of->axes[axis].extent;
    return of->axes[axis].name;
}
