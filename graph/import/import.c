/* The importer's driver: names, order and liveness of the ONNX graph, then node by node. */
#include "graph/import/import.h"

#include "base/file.h"
#include "graph/import/config/config.h"
#include "graph/import/internal.h"
#include "graph/model/digraph.h"
#include "graph/model/model_internal.h"
#include "graph/model/precision.h"

#include <math.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

cleave_status cleave_import_define(cleave_importer *im, cleave_value value) {
    if (cleave_name_map_find(&im->names, value.name) >= 0)
        return cleave_import_fail(im, "%s is defined twice", value.name);
    int32_t id = im->values.n;
    if (!CLEAVE_LIST_PUSH(&im->values, value) || !cleave_name_map_set(&im->names, value.name, id))
        return cleave_import_no_memory(im);
    return CLEAVE_OK;
}

/* Does it hide something, and nothing else?  Exporters fold masks into initializers. */
static bool is_mask(const cleave_onnx_tensor *tensor) {
    bool hides = false;
    for (int64_t i = 0; i < tensor->n; i++) {
        bool hidden = tensor->floats[i] <= -1e9f, seen = fpclassify(tensor->floats[i]) == FP_ZERO;
        if (!hidden && !seen)
            return false;
        hides = hides || hidden;
    }
    return hides;
}

/* One number, called as exporters call what they add. */
static bool is_added_scalar(const cleave_onnx_tensor *tensor) {
    static const char *const prefixes[] = {"val_", "onnx::", "/", "_val_"};
    for (size_t i = 0; tensor->n == 1 && i < sizeof prefixes / sizeof *prefixes; i++)
        if (strncmp(tensor->name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    return false;
}

cleave_value cleave_import_initializer_value(const cleave_onnx_tensor *tensor) {
    cleave_value value = {.name = tensor->name, .producer = -1};
    /* What is trained are floats of some extent; scalars, masks and integers are constants, and
       what has no elements. */
    if (tensor->floats != NULL && tensor->rank > 0 && tensor->n > 0 && !is_mask(tensor) &&
        !is_added_scalar(tensor)) {
        value.state = CLEAVE_VALUE_SOURCE;
        value.initializer = tensor;
    } else {
        value.state = CLEAVE_VALUE_CONSTANT;
        value.constant = *tensor;
    }
    return value;
}

static cleave_status define_values(cleave_importer *im) {
    const cleave_onnx_graph *graph = &im->graph;
    for (int32_t i = 0; i < graph->n_initializers; i++) {
        const cleave_onnx_tensor *tensor = &graph->initializers[i];
        CLEAVE_TRY(cleave_import_define(im, cleave_import_initializer_value(tensor)));
        if (tensor->floats != NULL && tensor->rank > 0)
            im->has_float_initializers = true;
    }
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        /* Old files list initializers as inputs too. */
        int32_t known = cleave_name_map_find(&im->names, graph->inputs[i].name);
        if (known >= 0 && known < graph->n_initializers)
            continue;
        CLEAVE_TRY(cleave_import_define(im, (cleave_value){.name = graph->inputs[i].name,
                                                           .state = CLEAVE_VALUE_SOURCE,
                                                           .producer = -1,
                                                           .input = &graph->inputs[i]}));
    }
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        im->node = &graph->nodes[n];
        for (int32_t i = 0; i < im->node->n_outputs; i++)
            if (im->node->outputs[i][0] != '\0')
                CLEAVE_TRY(cleave_import_define(
                    im, (cleave_value){.name = im->node->outputs[i], .producer = n}));
    }
    im->node = NULL;
    return CLEAVE_OK;
}

/* ---- order and liveness ---------------------------------------------------------------------- */

typedef CLEAVE_LIST(int32_t) id_list;

static cleave_status collect_edges(cleave_importer *im, id_list *from, id_list *to) {
    for (int32_t n = 0; n < im->graph.n_nodes; n++) {
        im->node = &im->graph.nodes[n];
        for (int32_t i = 0; i < im->node->n_inputs; i++) {
            if (im->node->inputs[i][0] == '\0')
                continue;
            int32_t id = cleave_name_map_find(&im->names, im->node->inputs[i]);
            if (id < 0)
                return cleave_import_fail(im, "input %s is not defined", im->node->inputs[i]);
            int32_t producer = im->values.items[id].producer;
            if (producer >= 0 && (!CLEAVE_LIST_PUSH(from, producer) || !CLEAVE_LIST_PUSH(to, n)))
                return cleave_import_no_memory(im);
        }
    }
    im->node = NULL;
    return CLEAVE_OK;
}

static cleave_status find_order(cleave_importer *im, int32_t *order) {
    id_list from = {0}, to = {0};
    int32_t on_cycle = -1;
    cleave_status status = collect_edges(im, &from, &to);
    if (status == CLEAVE_OK)
        status = cleave_digraph_order(im->graph.n_nodes, from.n, from.items, to.items, order,
                                      &on_cycle, im->error);
    CLEAVE_LIST_FREE(&from);
    CLEAVE_LIST_FREE(&to);
    if (status == CLEAVE_OK && on_cycle >= 0) {
        im->node = &im->graph.nodes[on_cycle];
        status = cleave_import_fail(im, "lies on a cycle");
    }
    return status;
}

/* Counts what is used, from the outputs back; live: [n_nodes]. */
static cleave_status find_live(cleave_importer *im, const int32_t *order, bool *live) {
    if (im->graph.n_outputs == 0)
        return cleave_import_fail(im, "the graph has no outputs");
    for (int32_t i = 0; i < im->graph.n_outputs; i++) {
        int32_t id = cleave_name_map_find(&im->names, im->graph.outputs[i].name);
        if (id < 0)
            return cleave_import_fail(im, "graph output %s is not defined",
                                      im->graph.outputs[i].name);
        im->values.items[id].n_uses++;
    }
    for (int32_t k = im->graph.n_nodes - 1; k >= 0; k--) {
        const cleave_onnx_node *node = &im->graph.nodes[order[k]];
        for (int32_t i = 0; i < node->n_outputs; i++) {
            int32_t id = cleave_name_map_find(&im->names, node->outputs[i]);
            if (id >= 0 && im->values.items[id].n_uses > 0)
                live[order[k]] = true;
        }
        for (int32_t i = 0; live[order[k]] && i < node->n_inputs; i++) {
            int32_t id = cleave_name_map_find(&im->names, node->inputs[i]);
            if (id >= 0)
                im->values.items[id].n_uses++;
        }
    }
    return CLEAVE_OK;
}

/* What a node says about single values: what is not trained, and whether it convolves. */
void cleave_import_survey_node(cleave_importer *im, const cleave_onnx_node *node) {
    static const char *const windowed[] = {"Conv",          "ConvTranspose", "MaxPool",
                                           "AveragePool",   "LpPool",        "GlobalAveragePool",
                                           "GlobalMaxPool", "GlobalLpPool"};
    static const struct {
        const char *type;
        int input;
        bool starts_at_one, weighs_classes;
    } kept[] = {{"BatchNormalization", 3, false, false},
                {"BatchNormalization", 4, true, false},
                {"NegativeLogLikelihoodLoss", 2, true, true},
                {"SoftmaxCrossEntropyLoss", 2, true, true}};
    for (size_t i = 0; i < sizeof windowed / sizeof *windowed; i++)
        im->is_convolutional = im->is_convolutional || strcmp(node->type, windowed[i]) == 0;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
        bool has = strcmp(node->type, kept[i].type) == 0 && kept[i].input < node->n_inputs;
        int32_t id = has ? cleave_name_map_find(&im->names, node->inputs[kept[i].input]) : -1;
        if (id < 0)
            continue;
        im->values.items[id].running = true;
        im->values.items[id].starts_at_one = kept[i].starts_at_one;
        im->values.items[id].weighs_classes = kept[i].weighs_classes;
    }
}

/* Does a gradient come through output i of such a node?  Comparisons and places have none. */
static bool passes_gradient(const cleave_onnx_node *node, int32_t i) {
    static const char *const none[] = {"ArgMax",      "ArgMin",         "Equal",
                                       "Greater",     "GreaterOrEqual", "Less",
                                       "LessOrEqual", "Shape",          "Size"};
    for (size_t k = 0; k < sizeof none / sizeof *none; k++)
        if (strcmp(node->type, none[k]) == 0)
            return false;
    return i == 0 || strcmp(node->type, "TopK") != 0;
}

/* Sources that do no more than choose: no gradient of any output reaches them, so no framework
   trains them either (the bias that balances a router). */
static cleave_status find_choosing(cleave_importer *im, const int32_t *order, const bool *live) {
    bool *reached = CLEAVE_ARENA_ARRAY(&im->scratch, bool, im->values.n);
    if (reached == NULL)
        return cleave_import_no_memory(im);
    for (int32_t i = 0; i < im->graph.n_outputs; i++)
        reached[cleave_name_map_find(&im->names, im->graph.outputs[i].name)] = true;
    for (int32_t k = im->graph.n_nodes - 1; k >= 0; k--) {
        const cleave_onnx_node *node = &im->graph.nodes[order[k]];
        bool passes = false;
        for (int32_t i = 0; i < node->n_outputs && live[order[k]]; i++) {
            int32_t id = cleave_name_map_find(&im->names, node->outputs[i]);
            passes = passes || (id >= 0 && reached[id] && passes_gradient(node, i));
        }
        for (int32_t i = 0; i < node->n_inputs && passes; i++) {
            int32_t id = cleave_name_map_find(&im->names, node->inputs[i]);
            if (id >= 0)
                reached[id] = true;
        }
    }
    bool any = false;
    for (int32_t i = 0; i < im->values.n; i++)
        any = any || (reached[i] && im->values.items[i].state == CLEAVE_VALUE_SOURCE);
    for (int32_t i = 0; i < im->values.n; i++)
        im->values.items[i].chooses = any && im->values.items[i].n_uses > 0 && !reached[i];
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static cleave_status import_nodes(cleave_importer *im) {
    int32_t *order = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->graph.n_nodes);
    bool *live = CLEAVE_ARENA_ARRAY(&im->scratch, bool, im->graph.n_nodes);
    if (order == NULL || live == NULL)
        return cleave_import_no_memory(im);
    CLEAVE_TRY(define_values(im));
    CLEAVE_TRY(cleave_import_name_inputs(im));
    CLEAVE_TRY(cleave_import_give_dimensions(im));
    CLEAVE_TRY(find_order(im, order));
    CLEAVE_TRY(find_live(im, order, live));
    CLEAVE_TRY(cleave_import_rewrite(im, order, live));
    for (int32_t i = 0; i < im->graph.n_nodes; i++)
        if (live[i])
            cleave_import_survey_node(im, &im->graph.nodes[i]);
    CLEAVE_TRY(find_choosing(im, order, live));
    CLEAVE_TRY(cleave_import_check_batch(im));
    for (int32_t i = 0; i < im->graph.n_nodes; i++) {
        im->node = &im->graph.nodes[order[i]];
        if (live[order[i]])
            CLEAVE_TRY(cleave_import_node(im));
    }
    return cleave_import_check_fixed_batch(im);
}

static cleave_status add_loss(cleave_importer *im) {
    const char *name = im->graph.outputs[0].name;
    cleave_value *value = &im->values.items[cleave_name_map_find(&im->names, name)];
    if (value->state != CLEAVE_VALUE_TENSOR)
        return cleave_import_fail(im, "output %s is computed from nothing: it can't be trained",
                                  name);
    return cleave_import_loss(im, value);
}

static cleave_status read_graph(cleave_importer *im, const cleave_import_request *from,
                                const char *path) {
    bool is_config = cleave_json_begins(from->data, from->bytes);
    if (is_config && from->dimensions != NULL)
        return cleave_import_fail(im,
                                  "--dimensions goes with an ONNX file, which this is not (of a "
                                  "config.json --sequence says how long texts are)");
    if (is_config)
        return cleave_config_decode(
            &(cleave_config_request){.file = im->file,
                                     .data = from->data,
                                     .bytes = from->bytes,
                                     .batch = from->batch,
                                     .sequence = from->sequence,
                                     .capacity_factor = from->capacity_factor,
                                     .trains = from->with_loss},
            im->arena, &im->graph, im->error);
    CLEAVE_TRY(
        cleave_onnx_decode(from->data, from->bytes, im->file, im->arena, &im->graph, im->error));
    if (from->sequence > 0)
        return cleave_import_fail(im,
                                  "--sequence %lld goes with the config.json of a language "
                                  "model, which this is not (of an ONNX file --dimensions says "
                                  "how long texts are)",
                                  (long long)from->sequence);
    if (from->capacity_factor > 0)
        return cleave_import_fail(im,
                                  "--capacity-factor %g goes with the config.json of a language "
                                  "model, which this is not",
                                  from->capacity_factor);
    return cleave_onnx_read_external(&im->graph, path, im->arena, im->error);
}

static cleave_status import_graph(cleave_importer *im, const cleave_import_request *from,
                                  const char *path, cleave_model *model) {
    CLEAVE_TRY(read_graph(im, from, path));
    if (im->graph.opset < CLEAVE_LEAST_OPERATOR_SET || im->graph.opset > CLEAVE_MOST_OPERATOR_SET)
        return cleave_import_fail(im, "uses ONNX operator set %lld, supported are %d to %d",
                                  (long long)im->graph.opset, CLEAVE_LEAST_OPERATOR_SET,
                                  CLEAVE_MOST_OPERATOR_SET);
    CLEAVE_TRY(import_nodes(im));
    if (im->with_loss)
        CLEAVE_TRY(add_loss(im));
    CLEAVE_TRY(cleave_import_finish(im, model));
    return im->with_loss ? cleave_model_check_trained(model, im->error) : CLEAVE_OK;
}

/* Names come from the file and may hold anything; a message is one line. */
static void flatten_message(cleave_error *error) {
    for (char *c = error != NULL ? error->message : NULL; c != NULL && *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
}

static cleave_status import_data(const cleave_import_request *from, const char *path,
                                 cleave_arena *arena, cleave_model *model, cleave_error *error) {
    cleave_importer im = {.batch = from->batch,
                          .with_loss = from->with_loss,
                          .evaluates = from->evaluates,
                          .inputs = from->inputs,
                          .dimensions = from->dimensions,
                          .arena = arena,
                          .error = error,
                          .loss = -1,
                          .targets = -1,
                          .graph_version = CLEAVE_FIRST_GRAPH_VERSION};
    cleave_model result = {0};
    im.names.arena = &im.scratch;
    im.file = cleave_arena_string(arena, from->file);
    cleave_status status =
        im.file == NULL ? cleave_import_no_memory(&im) : import_graph(&im, from, path, &result);
    CLEAVE_LIST_FREE(&im.values);
    CLEAVE_LIST_FREE(&im.tensors);
    CLEAVE_LIST_FREE(&im.nests);
    CLEAVE_LIST_FREE(&im.operators);
    CLEAVE_LIST_FREE(&im.assignments);
    cleave_arena_free(&im.scratch);
    if (status == CLEAVE_OK)
        *model = result;
    else
        flatten_message(error);
    return status;
}

static cleave_status import_request(const cleave_import_request *request, cleave_arena *arena,
                                    cleave_model *model, cleave_error *error) {
    if (request->data != NULL)
        return import_data(request, NULL, arena, model, error);
    cleave_arena scratch = {0};
    cleave_import_request read = *request;
    char *data;
    cleave_status status = cleave_file_read(request->file, &scratch, &data, &read.bytes, error);
    if (status == CLEAVE_OK) {
        read.data = data;
        status = import_data(&read, request->file, arena, model, error);
    }
    cleave_arena_free(&scratch);
    return status;
}

cleave_status cleave_model_import_as(const cleave_import_request *request, cleave_arena *arena,
                                     cleave_model *model, cleave_error *error) {
    CLEAVE_TRY(import_request(request, arena, model, error));
    CLEAVE_TRY(cleave_model_freeze(model, request->frozen, error));
    CLEAVE_TRY(
        cleave_model_choose_precision(model, request->precision, request->reduce_precision, error));
    return request->clips ? cleave_model_clip(model, error) : CLEAVE_OK;
}
