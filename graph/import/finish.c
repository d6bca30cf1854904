/* From drafts to the model: outputs, names, the order of nests, and dropping what nothing reads. */
#include "graph/import/internal.h"
#include "graph/import/operators/pointwise.h"

#include <string.h>

/* ---- outputs --------------------------------------------------------------------------------- */

/* The tensor of a graph output, under its name: the one that computes it where that is free to be
   called so, else a view of it.  taken: [n tensors], already an output. */
static cleave_status name_output(cleave_importer *im, cleave_value *value, bool *taken,
                                 int32_t n_taken, int32_t *output) {
    const char *name = value->name;
    int32_t tensor;
    CLEAVE_TRY(cleave_import_value_tensor(im, value, &tensor));
    cleave_draft_tensor *draft = &im->tensors.items[tensor];
    *output = tensor;
    bool has_name = draft->tensor.name != NULL && strcmp(draft->tensor.name, name) == 0;
    bool free_to_name = draft->tensor.kind == CLEAVE_TENSOR_ACTIVATION && tensor < n_taken &&
                        !taken[tensor] && draft->tensor.view.kind == CLEAVE_VIEW_NONE;
    if (has_name || free_to_name) {
        draft->tensor.name = name;
        if (tensor < n_taken)
            taken[tensor] = true;
        return CLEAVE_OK;
    }
    cleave_tensor same = draft->tensor;
    cleave_view view = {.kind = CLEAVE_VIEW_RESHAPE, .n_sources = 1, .sources = &tensor};
    CLEAVE_TRY(cleave_import_new_view(im, name, view, same.rank, same.shape, output));
    memcpy(im->tensors.items[*output].tensor.order, same.order, sizeof same.order);
    return CLEAVE_OK;
}

/* The copy of a view or constant has its name.  (Inputs keep theirs: it is that of their data.) */
static cleave_status give_name_away(cleave_importer *im, int32_t tensor, const char *name) {
    cleave_tensor *copied = &im->tensors.items[tensor].tensor;
    bool is_made =
        copied->kind == CLEAVE_TENSOR_ACTIVATION || copied->kind == CLEAVE_TENSOR_CONSTANT;
    if (!is_made || copied->name == NULL || strcmp(copied->name, name) != 0)
        return CLEAVE_OK;
    copied->name = cleave_arena_printf(im->arena, "%s.before_copy", name);
    return copied->name != NULL ? CLEAVE_OK : cleave_import_no_memory(im);
}

/* A model of views alone has nothing that a device could do: its outputs are copied. */
static cleave_status compute_outputs(cleave_importer *im) {
    for (int32_t i = 0; i < im->graph.n_outputs; i++) {
        const char *name = im->graph.outputs[i].name;
        cleave_value *value = &im->values.items[cleave_name_map_find(&im->names, name)];
        im->node = &im->graph.nodes[value->producer >= 0 ? value->producer : 0];
        int32_t tensor;
        CLEAVE_TRY(cleave_import_value_tensor(im, value, &tensor));
        value->type = cleave_import_type(value);
        CLEAVE_TRY(give_name_away(im, tensor, name));
        CLEAVE_TRY(cleave_import_copy(im, name, tensor, &value->tensor));
        value->state = CLEAVE_VALUE_TENSOR;
    }
    return CLEAVE_OK;
}

static cleave_status name_outputs(cleave_importer *im, cleave_model *model) {
    if (im->nests.n == 0)
        CLEAVE_TRY(compute_outputs(im));
    im->node = NULL;
    model->n_outputs = im->graph.n_outputs;
    model->outputs = CLEAVE_ARENA_ARRAY(im->arena, int32_t, model->n_outputs);
    int32_t n_taken = im->tensors.n;
    bool *taken = CLEAVE_ARENA_ARRAY(&im->scratch, bool, n_taken);
    if (model->outputs == NULL || taken == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < model->n_outputs; i++) {
        int32_t id = cleave_name_map_find(&im->names, im->graph.outputs[i].name);
        cleave_value *value = &im->values.items[id];
        CLEAVE_TRY(name_output(im, value, taken, n_taken, &model->outputs[i]));
        im->tensors.items[model->outputs[i]].tensor.truth =
            cleave_import_type(value) == CLEAVE_ONNX_BOOL;
    }
    return CLEAVE_OK;
}

/* ---- names ----------------------------------------------------------------------------------- */

/* `name`, or `name#2`, `name#3` ... where that is in use. */
static cleave_status make_unique(cleave_importer *im, cleave_name_map *used, const char *name,
                                 const char **unique) {
    const char *candidate = name;
    /* The value of a name is the number that its last duplicate got. */
    int32_t last = cleave_name_map_find(used, name);
    for (int32_t i = last < 1 ? 2 : last + 1;
         candidate != NULL && cleave_name_map_find(used, candidate) >= 0; i++) {
        candidate = cleave_arena_printf(im->arena, "%s#%d", name, (int)i);
        if (!cleave_name_map_set(used, name, i))
            return cleave_import_no_memory(im);
    }
    if (candidate == NULL || !cleave_name_map_set(used, candidate, 1))
        return cleave_import_no_memory(im);
    *unique = candidate;
    return CLEAVE_OK;
}

static const char *joined(cleave_importer *im, const char *name, const char *suffix) {
    return suffix[0] == '\0' ? name : cleave_arena_printf(im->arena, "%s%s", name, suffix);
}

static cleave_status name_operators(cleave_importer *im, cleave_model *model) {
    cleave_name_map used = {.arena = &im->scratch};
    model->n_operators = im->operators.n;
    model->operators = CLEAVE_ARENA_ARRAY(im->arena, cleave_operator, model->n_operators);
    if (model->operators == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < model->n_operators; i++) {
        const cleave_draft_operator *draft = &im->operators.items[i];
        cleave_operator *op = &model->operators[i];
        const char *name =
            joined(im, draft->main != NULL ? draft->main->name : "@loss", draft->suffix);
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(make_unique(im, &used, name, &op->name));
        op->type = draft->type != NULL   ? draft->type
                   : draft->main != NULL ? draft->main->type
                                         : "SoftmaxCrossEntropy";
        op->n_axes = draft->n_axes;
        op->n_later = draft->n_later;
        memcpy(op->axes, draft->axes, sizeof op->axes);
    }
    return CLEAVE_OK;
}

/* Names of the file come first, so that no derived one takes them. */
static cleave_status name_tensors(cleave_importer *im, const cleave_model *model,
                                  const int32_t *new_id) {
    cleave_name_map used = {.arena = &im->scratch};
    for (int derived = 0; derived < 2; derived++)
        for (int32_t i = 0; i < im->tensors.n; i++) {
            cleave_draft_tensor *draft = &im->tensors.items[i];
            if (new_id[i] < 0 || (draft->tensor.name == NULL) != (derived == 1))
                continue;
            const char *name = draft->tensor.name;
            if (derived == 1)
                name = joined(im, model->operators[draft->op].name, draft->suffix);
            if (name == NULL)
                return cleave_import_no_memory(im);
            CLEAVE_TRY(make_unique(im, &used, name, &draft->tensor.name));
        }
    return CLEAVE_OK;
}

/* ---- what is read ---------------------------------------------------------------------------- */

enum { WANTED = -2 };

/* Of a tensor, and of sources that are behind `from`: those before it are yet to come. */
static void use_sources(const cleave_importer *im, int32_t from, int32_t tensor, int32_t *used) {
    const cleave_view *view = &im->tensors.items[tensor].tensor.view;
    for (int32_t k = 0; view->kind != CLEAVE_VIEW_NONE && k < view->n_sources; k++) {
        int32_t source = view->sources[k];
        bool is_new = used[source] != 1;
        used[source] = 1;
        if (is_new && source > from)
            use_sources(im, from, source, used);
    }
}

static void number(const cleave_importer *im, int32_t tensor, int32_t *new_id, int32_t *n) {
    const cleave_view *view = &im->tensors.items[tensor].tensor.view;
    if (new_id[tensor] != WANTED)
        return;
    for (int32_t k = 0; view->kind != CLEAVE_VIEW_NONE && k < view->n_sources; k++)
        number(im, view->sources[k], new_id, n);
    new_id[tensor] = (*n)++;
}

static cleave_status number_tensors(cleave_importer *im, const cleave_model *model,
                                    int32_t **new_id, int32_t *n) {
    *new_id = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->tensors.n);
    if (*new_id == NULL)
        return cleave_import_no_memory(im);
    int32_t *used = *new_id; /* 1 while they are being found */
    for (int32_t i = 0; i < im->nests.n; i++) {
        const cleave_nest *nest = &im->nests.items[i].nest;
        used[nest->output.tensor] = 1;
        for (int k = 0; k < nest->n_inputs; k++)
            used[nest->inputs[k].tensor] = 1;
    }
    for (int32_t i = 0; i < model->n_outputs; i++)
        used[model->outputs[i]] = 1;
    for (int32_t i = 0; i < im->assignments.n; i++)
        used[im->assignments.items[i].target] = used[im->assignments.items[i].source] = 1;
    for (int32_t i = im->tensors.n - 1; i >= 0; i--)
        if (used[i] == 1)
            use_sources(im, i, i, used);
    *n = 0;
    /* Fusing puts new tensors under old views: sources come first all the same. */
    for (int32_t i = 0; i < im->tensors.n; i++)
        used[i] = used[i] == 1 ? WANTED : -1;
    for (int32_t i = 0; i < im->tensors.n; i++)
        number(im, i, used, n);
    return CLEAVE_OK;
}

static cleave_status place_tensors(cleave_importer *im, cleave_model *model,
                                   const int32_t *new_id) {
    model->tensors = CLEAVE_ARENA_ARRAY(im->arena, cleave_tensor, model->n_tensors);
    if (model->tensors == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < im->tensors.n; i++) {
        if (new_id[i] < 0)
            continue;
        cleave_tensor *tensor = &model->tensors[new_id[i]];
        *tensor = im->tensors.items[i].tensor;
        if (tensor->view.kind == CLEAVE_VIEW_NONE)
            continue;
        int32_t *sources = CLEAVE_ARENA_ARRAY(im->arena, int32_t, tensor->view.n_sources);
        if (sources == NULL)
            return cleave_import_no_memory(im);
        for (int32_t k = 0; k < tensor->view.n_sources; k++)
            sources[k] = new_id[tensor->view.sources[k]];
        tensor->view.sources = sources;
    }
    return CLEAVE_OK;
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* Nests in the order of their operators, which is topological: an operator reads only what was
   there when it was opened, and its tail in addition only parameters and constants. */
static cleave_status order_nests(cleave_importer *im, cleave_model *model, int32_t **new_id) {
    *new_id = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->nests.n);
    int32_t *ids = CLEAVE_ARENA_ARRAY(im->arena, int32_t, im->nests.n);
    if (*new_id == NULL || ids == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < im->nests.n; i++)
        model->operators[im->nests.items[i].nest.op].n_nests++;
    int32_t next = 0;
    for (int32_t i = 0; i < model->n_operators; i++) {
        cleave_operator *op = &model->operators[i];
        op->nests = ids + next;
        next += op->n_nests;
        op->n_nests = 0;
    }
    for (int32_t i = 0; i < im->nests.n; i++) {
        cleave_operator *op = &model->operators[im->nests.items[i].nest.op];
        (*new_id)[i] = (int32_t)(op->nests - ids) + op->n_nests++;
    }
    for (int32_t i = 0; i < im->nests.n; i++)
        ids[i] = i;
    for (int32_t i = 0; i < model->n_operators; i++)
        model->operators[i].main_nest = (*new_id)[im->operators.items[i].main_nest];
    return CLEAVE_OK;
}

static cleave_status place_nests(cleave_importer *im, cleave_model *model,
                                 const int32_t *tensor_id) {
    int32_t *nest_id;
    cleave_name_map used = {.arena = &im->scratch};
    model->n_nests = im->nests.n;
    model->nests = CLEAVE_ARENA_ARRAY(im->arena, cleave_nest, model->n_nests);
    if (model->nests == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(order_nests(im, model, &nest_id));
    for (int32_t i = 0; i < im->nests.n; i++) {
        cleave_nest *nest = &model->nests[nest_id[i]];
        *nest = im->nests.items[i].nest;
        nest->output.tensor = tensor_id[nest->output.tensor];
        for (int k = 0; k < nest->n_inputs; k++)
            nest->inputs[k].tensor = tensor_id[nest->inputs[k].tensor];
        if (nest->derivation == CLEAVE_DERIVE_OWNERS)
            nest->owners_of = nest_id[nest->owners_of];
        const char *name = joined(im, model->operators[nest->op].name, im->nests.items[i].suffix);
        if (name == NULL)
            return cleave_import_no_memory(im);
        CLEAVE_TRY(make_unique(im, &used, name, &nest->name));
    }
    return CLEAVE_OK;
}

/* ---- roles ----------------------------------------------------------------------------------- */

/* Does a tensor come of data?  `made` says it of what is written. */
static bool comes_of_data(const cleave_model *model, const bool *made, int32_t tensor) {
    const cleave_view *view = &model->tensors[tensor].view;
    bool comes = made[tensor] || (view->kind == CLEAVE_VIEW_NONE &&
                                  model->tensors[tensor].kind == CLEAVE_TENSOR_DATA);
    for (int32_t s = 0; s < view->n_sources && !comes; s++)
        comes = comes_of_data(model, made, view->sources[s]);
    return comes;
}

/* Which tensors that are written come of data: they alone have samples. */
static cleave_status find_made_of_data(cleave_importer *im, const cleave_model *model,
                                       bool **made) {
    *made = CLEAVE_ARENA_ARRAY(&im->scratch, bool, model->n_tensors);
    if (*made == NULL)
        return cleave_import_no_memory(im);
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        bool comes = false;
        for (int i = 0; i < nest->n_inputs; i++)
            comes = comes || comes_of_data(model, *made, nest->inputs[i].tensor);
        (*made)[nest->output.tensor] = comes;
    }
    return CLEAVE_OK;
}

/* From the maps of the main nest: an axis that the output lacks is a reduction; n and b* of what
   comes of data are samples; what else a parameter has is a parameter axis; the rest are
   attributes. */
static void name_roles(const cleave_model *model, const bool *made_of_data, cleave_operator *op) {
    const cleave_nest *nest = &model->nests[op->main_nest];
    for (int i = 0; i < op->n_axes; i++) {
        const char *name = op->axes[i].name;
        bool sample =
            made_of_data[nest->output.tensor] && (strcmp(name, "n") == 0 || name[0] == 'b');
        bool parameter = false;
        int axis = i; /* main nests begin with all axes of their operator but the later ones */
        if (i >= op->n_axes - op->n_later)
            for (axis = 0; axis < nest->n_axes && nest->operator_axis[axis] != i;)
                axis++;
        for (int k = 0; k < nest->n_inputs; k++) {
            const cleave_tensor *tensor = &model->tensors[nest->inputs[k].tensor];
            parameter =
                parameter || (cleave_tensor_sees_parameter(model, nest->inputs[k].tensor) &&
                              cleave_operand_maps_axis(&nest->inputs[k], tensor->rank, axis));
        }
        bool reduced = !cleave_operand_maps_axis(&nest->output,
                                                 model->tensors[nest->output.tensor].rank, axis);
        op->roles[i] = reduced     ? "reduction"
                       : sample    ? "sample"
                       : parameter ? "parameter"
                                   : "attribute";
    }
}

cleave_status cleave_import_finish(cleave_importer *im, cleave_model *model) {
    int32_t *tensor_id;
    bool *made_of_data;
    CLEAVE_TRY(cleave_import_drop_bypassed(im));
    CLEAVE_TRY(cleave_import_fuse(im));
    CLEAVE_TRY(name_outputs(im, model));
    CLEAVE_TRY(cleave_import_store_as_seen(im, model));
    model->file = im->file;
    model->batch = im->has_batch ? im->batch : 0;
    model->graph_version = im->graph_version;
    model->arena = im->arena;
    model->n_onnx_nodes = im->graph.n_nodes;
    CLEAVE_TRY(number_tensors(im, model, &tensor_id, &model->n_tensors));
    CLEAVE_TRY(cleave_import_list_inputs(im, tensor_id, model));
    CLEAVE_TRY(name_operators(im, model));
    CLEAVE_TRY(name_tensors(im, model, tensor_id));
    CLEAVE_TRY(place_tensors(im, model, tensor_id));
    CLEAVE_TRY(place_nests(im, model, tensor_id));
    CLEAVE_TRY(find_made_of_data(im, model, &made_of_data));
    for (int32_t i = 0; i < model->n_operators; i++)
        name_roles(model, made_of_data, &model->operators[i]);
    for (int32_t i = 0; i < model->n_outputs; i++)
        model->outputs[i] = tensor_id[model->outputs[i]];
    model->loss = im->loss >= 0 ? tensor_id[im->loss] : -1;
    model->targets = im->targets >= 0 ? tensor_id[im->targets] : -1;
    model->n_assignments = im->assignments.n;
    model->assignments = CLEAVE_ARENA_ARRAY(im->arena, cleave_assignment, model->n_assignments);
    if (model->assignments == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < model->n_assignments; i++)
        model->assignments[i] =
            (cleave_assignment){.target = tensor_id[im->assignments.items[i].target],
                                .source = tensor_id[im->assignments.items[i].source]};
    CLEAVE_TRY(cleave_model_finish(model, im->error));
    return CLEAVE_OK;
}
