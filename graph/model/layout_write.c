/* The writer of layout files (docs/formats.md).  It has one order, that of the model, and one form
   for everything, so equal layouts are equal files. */
#include "graph/model/layout.h"

#include "base/json.h"
#include "graph/model/schedule_file.h"
#include "graph/model/training_file.h"

#include <math.h>

static void put_operator(cleave_json_writer *out, const cleave_operator *op,
                         const cleave_split *split, bool recompute) {
    cleave_json_open_object(out, op->name, true);
    cleave_json_open_object(out, "split", true);
    for (int a = 0; a < op->n_axes; a++)
        if (split->degree[a] > 1)
            cleave_json_set_integer(out, op->axes[a].name, split->degree[a]);
    cleave_json_end_object(out);
    if (split->replicas > 1)
        cleave_json_set_integer(out, "replicas", split->replicas);
    cleave_json_open_array(out, "devices", true);
    for (int32_t p = 0; p < split->n_parts; p++)
        cleave_json_put_integer(out, split->devices[p]);
    cleave_json_end_array(out);
    if (recompute)
        cleave_json_set_truth(out, "recompute", true);
    if (split->ring)
        cleave_json_set_truth(out, "ring", true);
    cleave_json_end_object(out);
}

static void put_parameters(cleave_json_writer *out, const cleave_model *model,
                           const cleave_layout *layout) {
    bool any = false;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (!layout->sharded[t])
            continue;
        if (!any) {
            cleave_json_open_object(out, "parameters", false);
            any = true;
        }
        cleave_json_open_object(out, model->tensors[t].name, true);
        for (uint8_t what = CLEAVE_SHARDED_UPDATE; what <= layout->sharded[t]; what++)
            cleave_json_set_string(out, cleave_sharded_names[what], "sharded");
        cleave_json_end_object(out);
    }
    if (any)
        cleave_json_end_object(out);
}

static void put_layout(cleave_json_writer *out, const cleave_model *model,
                       const cleave_layout *layout) {
    cleave_json_begin_object(out, false);
    cleave_json_set_integer(out, "cleave_layout", CLEAVE_LAYOUT_VERSION);
    cleave_training_open_model(out, model);
    cleave_json_set_integer(out, "graph", model->graph_version);
    cleave_json_end_object(out);
    cleave_json_set_string(out, "machine", layout->machine);
    cleave_json_set_integer(out, "devices", layout->n_devices);
    cleave_json_set_string(out, "method", layout->method);
    if (layout->predicted_step_seconds > 0 && isfinite(layout->predicted_step_seconds))
        cleave_json_set_number(out, "predicted_step_seconds", layout->predicted_step_seconds);
    if (layout->stores_scores)
        cleave_json_set_string(out, "attention", "stored");
    if (!cleave_model_trains(model))
        cleave_json_set_string(out, "step", "forward");
    cleave_training_write(out, model);
    cleave_schedule_write(out, model, &layout->schedule);
    cleave_json_open_object(out, "operators", false);
    for (int32_t op = 0; op < model->n_operators; op++)
        put_operator(out, &model->operators[op], &layout->splits[op],
                     cleave_layout_recomputes(layout, op));
    cleave_json_end_object(out);
    put_parameters(out, model, layout);
    const cleave_collective_rules *collectives = &layout->collectives;
    if (collectives->direct || collectives->n > 0) {
        cleave_json_key(out, "collectives");
        cleave_collective_rules_write(out, collectives);
    }
    cleave_json_end_object(out);
}

cleave_status cleave_layout_write(const char *path, const cleave_model *model,
                                  const cleave_layout *layout, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_check(model, layout, error));
    cleave_json_writer out = {0};
    put_layout(&out, model, layout);
    return cleave_json_write_file(&out, path, "writing a layout", error);
}
