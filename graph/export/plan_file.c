/* The plan as a file: docs/formats.md. */
#include "graph/export/plan.h"

#include "base/json.h"
#include "graph/model/training_file.h"

#include <stdio.h>
#include <string.h>

enum { PLAN_VERSION = 1 };

/* "S0": cut along dimension 0; "S1/2": each of two runs of dimension 1 is; "R": whole everywhere;
   "P": parts that add up; "@0": with the first alone. */
static void put_word(cleave_json_writer *out, int32_t dimension, bool partial) {
    char word[16];
    int32_t runs = dimension / CLEAVE_FRAME_RUNS;
    if (cleave_mesh_is_alone(dimension))
        snprintf(word, sizeof word, "@%d", cleave_mesh_coordinate(dimension));
    else
        snprintf(word, sizeof word, runs > 0 ? "S%d/%d" : "S%d", dimension % CLEAVE_FRAME_RUNS,
                 runs);
    cleave_json_put_string(out, partial ? "P" : dimension == CLEAVE_FRAME_APART ? "R" : word);
}

/* By dimension of the mesh; `of`: a dimension of the tensor by axis, `sums`: axes that add up.
 */
static void put_words(cleave_json_writer *out, const char *key, const cleave_mesh *mesh,
                      const cleave_mesh_cut *cut, const int8_t *of, const bool *sums) {
    cleave_json_open_array(out, key, true);
    for (int i = 0; i < mesh->n; i++) {
        int32_t axis = cut->axis[i], dimension = axis < 0 ? axis : of[axis];
        put_word(out, axis >= 0 && dimension < 0 ? CLEAVE_FRAME_APART : dimension,
                 sums != NULL && axis >= 0 && sums[axis]);
    }
    cleave_json_end_array(out);
}

static void put_shape(cleave_json_writer *out, const char *key, int rank, const int64_t *shape) {
    cleave_json_open_array(out, key, true);
    for (int d = 0; d < rank; d++)
        cleave_json_put_integer(out, shape[d]);
    cleave_json_end_array(out);
}

static void put_axes(cleave_json_writer *out, const cleave_mesh *mesh, const cleave_operator *op,
                     const cleave_mesh_cut *cut) {
    cleave_json_open_array(out, "axes", true);
    for (int i = 0; i < mesh->n; i++)
        if (cut->axis[i] < 0)
            cleave_json_put_null(out);
        else
            cleave_json_put_string(out, op->axes[cut->axis[i]].name);
    cleave_json_end_array(out);
}

/* "mlp.weight" of "a.mlp.weight" in module "a". */
static const char *name_in(const char *module, const char *parameter) {
    size_t n = strlen(module);
    bool inside = strncmp(parameter, module, n) == 0 && parameter[n] == '.';
    return inside ? parameter + n + 1 : cleave_export_own_name(parameter);
}

/* Is it all that the module of experts does? */
static bool is_of_experts(const cleave_planned_operator *planned, int32_t id) {
    return planned->leader == id && planned->router != id;
}

static void put_operator(cleave_json_writer *out, const cleave_model *model,
                         const cleave_export_plan *plan, int32_t id) {
    const cleave_operator *op = &model->operators[id];
    const cleave_planned_operator *planned = &plan->operators[id];
    const cleave_frame *frame = &planned->frame;
    bool loss = planned->name.named == CLEAVE_NAMED_LOSS;
    cleave_json_begin_object(out, true);
    cleave_json_set_string(out, "operator", op->name);
    cleave_json_set_string(out, "type", is_of_experts(planned, id) ? "Experts" : op->type);
    put_axes(out, &plan->mesh, op, &planned->cut);
    put_words(out, "input", &plan->mesh, &planned->cut, frame->input, NULL);
    if (!loss) {
        put_words(out, "output", &plan->mesh, &planned->cut, frame->output, frame->sums);
        put_words(out, "then", &plan->mesh, &planned->then, frame->output, NULL);
    }
    if (frame->rank > 0)
        cleave_json_set_integer(out, "rank", frame->rank);
    if (plan->target == CLEAVE_TARGET_JAX && frame->input_rank > 0 && frame->rank > 0) {
        put_shape(out, "input_shape", frame->input_rank, frame->input_shape);
        put_shape(out, "output_shape", frame->rank, frame->output_shape);
    }
    if (planned->name.named == CLEAVE_NAMED_MODULE) {
        cleave_json_open_object(out, "parameters", true);
        for (int32_t i = 0; i < frame->n_parameters; i++) {
            const cleave_frame_parameter *read = &frame->parameters[i];
            if (cleave_export_owns(model, planned, read))
                put_words(out, name_in(planned->name.module, model->tensors[read->tensor].name),
                          &plan->mesh, &planned->cut, read->dimension, NULL);
        }
        cleave_json_end_object(out);
    }
    cleave_json_end_object(out);
}

static void put_named(cleave_json_writer *out, const cleave_model *model,
                      const cleave_export_plan *plan, const char *key, cleave_named named) {
    cleave_json_open_object(out, key, false);
    for (int32_t op = 0; op < model->n_operators; op++)
        if (plan->operators[op].name.named == named && !cleave_export_is_called_before(plan, op)) {
            cleave_json_key(out, plan->operators[op].name.module);
            put_operator(out, model, plan, op);
        }
    cleave_json_end_object(out);
}

static void put_loss(cleave_json_writer *out, const cleave_model *model,
                     const cleave_export_plan *plan) {
    cleave_json_key(out, "loss");
    int32_t op = 0;
    while (op < model->n_operators && plan->operators[op].name.named != CLEAVE_NAMED_LOSS)
        op++;
    if (op == model->n_operators)
        cleave_json_put_null(out);
    else
        put_operator(out, model, plan, op);
}

static void put_parameter(cleave_json_writer *out, const cleave_tensor *tensor,
                          const cleave_export_plan *plan,
                          const cleave_planned_parameter *parameter) {
    bool filed = tensor->file_rank > 0;
    cleave_json_begin_object(out, true);
    put_shape(out, "shape", filed ? tensor->file_rank : tensor->rank,
              filed ? tensor->file_shape : tensor->shape);
    cleave_json_open_array(out, "stored", true);
    for (int i = 0; i < plan->mesh.n; i++)
        put_word(out, parameter->stored[i], false);
    cleave_json_end_array(out);
    cleave_json_end_object(out);
}

static void put_parameters(cleave_json_writer *out, const cleave_model *model,
                           const cleave_export_plan *plan) {
    cleave_json_open_object(out, "parameters", false);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (!plan->parameters[t].planned)
            continue;
        cleave_json_key(out, model->tensors[t].name);
        put_parameter(out, &model->tensors[t], plan, &plan->parameters[t]);
    }
    cleave_json_end_object(out);
}

/* Parameters that a stage reads, by the stage. */
static void put_stage_parameters(cleave_json_writer *out, const cleave_model *model,
                                 const cleave_export_plan *plan, int32_t stage) {
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_frame *frame = &plan->operators[op].frame;
        if (cleave_schedule_stage_of(&plan->schedule, op) != stage)
            continue;
        for (int32_t i = 0; i < frame->n_parameters; i++)
            cleave_json_put_string(out, model->tensors[frame->parameters[i].tensor].name);
    }
}

static void put_schedule(cleave_json_writer *out, const cleave_model *model,
                         const cleave_export_plan *plan) {
    const cleave_schedule *schedule = &plan->schedule;
    cleave_json_open_object(out, "schedule", false);
    cleave_json_set_string(out, "kind", cleave_schedule_names[schedule->kind]);
    cleave_json_set_integer(out, "micro_batches", schedule->micro_batches);
    cleave_json_set_integer(out, "groups", plan->n_groups);
    cleave_json_open_array(out, "stages", false);
    for (int32_t s = 0; s < schedule->n_stages && schedule->n_stages > 1; s++) {
        cleave_json_begin_object(out, true);
        cleave_json_set_string(out, "begins", plan->begins[s]);
        int32_t first = schedule->first_operator[s];
        put_words(out, "given", &plan->mesh, &plan->given[s], plan->operators[first].frame.input,
                  NULL);
        cleave_json_open_array(out, "parameters", true);
        put_stage_parameters(out, model, plan, s);
        cleave_json_end_array(out);
        cleave_json_end_object(out);
    }
    cleave_json_end_array(out);
    cleave_json_end_object(out);
}

static void put_again(cleave_json_writer *out, const cleave_export_plan *plan) {
    cleave_json_open_array(out, "recompute", true);
    for (int32_t i = 0; i < plan->n_again; i++)
        cleave_json_put_string(out, plan->again[i]);
    cleave_json_end_array(out);
}

static void put_lost(cleave_json_writer *out, const cleave_model *model,
                     const cleave_export_plan *plan, const double *costs) {
    cleave_json_open_array(out, "lost", false);
    for (int32_t i = 0; i < plan->n_lost; i++) {
        const cleave_lost *lost = &plan->lost[i];
        cleave_json_begin_object(out, true);
        if (lost->op >= 0 || lost->tensor >= 0)
            cleave_json_set_string(out, lost->op >= 0 ? "operator" : "parameter",
                                   lost->op >= 0 ? model->operators[lost->op].name
                                                 : model->tensors[lost->tensor].name);
        cleave_json_set_string(out, "what", lost->what);
        cleave_json_set_string(out, "why", lost->why);
        if (costs != NULL && costs[i] >= 0)
            cleave_json_set_number(out, "seconds", costs[i]);
        cleave_json_end_object(out);
    }
    cleave_json_end_array(out);
}

static void put_plan(cleave_json_writer *out, const cleave_model *model,
                     const cleave_export_plan *plan, const double *costs) {
    cleave_json_begin_object(out, false);
    cleave_json_set_integer(out, "cleave_plan", PLAN_VERSION);
    cleave_json_set_string(out, "for", cleave_target_names[plan->target]);
    cleave_training_open_model(out, model);
    cleave_json_end_object(out);
    cleave_json_open_array(out, "mesh", true);
    for (int i = 0; i < plan->mesh.n; i++)
        cleave_json_put_integer(out, plan->mesh.size[i]);
    cleave_json_end_array(out);
    put_named(out, model, plan, "modules", CLEAVE_NAMED_MODULE);
    put_named(out, model, plan, "functions", CLEAVE_NAMED_FUNCTION);
    put_loss(out, model, plan);
    put_parameters(out, model, plan);
    if (!cleave_schedule_is_plain(&plan->schedule))
        put_schedule(out, model, plan);
    if (plan->n_again > 0)
        put_again(out, plan);
    put_lost(out, model, plan, costs);
    cleave_json_end_object(out);
}

cleave_status cleave_export_write(const char *path, const cleave_model *model,
                                  const cleave_export_plan *plan, const double *costs,
                                  cleave_error *error) {
    cleave_json_writer out = {0};
    put_plan(&out, model, plan, costs);
    return cleave_json_write_file(&out, path, "writing a plan", error);
}
