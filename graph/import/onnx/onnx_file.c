/* Decodes ONNX files: the one place that knows protobuf.

   Messages of the format may nest without bound (an attribute may hold a graph), and the unpacker
   follows them by recursion, so depth is checked on the raw bytes first. */
#include "graph/import/onnx/onnx_file.h"

#include "base/checked.h"
#include "graph/import/onnx/onnx_branches.h"
#include "graph/import/onnx/onnx_constants.h"

#include <onnx/onnx.pb-c.h>
#include <string.h>

enum { MOST_NESTING = 32 };
static const int64_t most_elements = INT64_C(1) << 40;

typedef struct decoder {
    const char *file;
    cleave_arena *arena;
    cleave_error *error;
} decoder;

/* ---- nesting of the raw bytes ------------------------------------------------------------ */

/* Reads a varint at *at; false at the end of the bytes or when it is longer than 64 bits. */
static bool read_varint(const uint8_t *bytes, size_t n, size_t *at, uint64_t *value) {
    *value = 0;
    for (int shift = 0; shift < 64 && *at < n; shift += 7) {
        uint8_t byte = bytes[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if ((byte & 0x80) == 0)
            return true;
    }
    return false;
}

/* Is every message in `bytes` well delimited and at most `depth` deep? */
static bool nesting_is_sound(const ProtobufCMessageDescriptor *descriptor, const uint8_t *bytes,
                             size_t n, int depth) {
    if (depth == 0)
        return false;
    for (size_t at = 0; at < n;) {
        uint64_t tag, length = 0;
        if (!read_varint(bytes, n, &at, &tag))
            return false;
        switch (tag & 7) {
        case 0:
            if (!read_varint(bytes, n, &at, &length))
                return false;
            length = 0;
            break;
        case 1:
            length = 8;
            break;
        case 2:
            if (!read_varint(bytes, n, &at, &length))
                return false;
            break;
        case 5:
            length = 4;
            break;
        default:
            return false;
        }
        if (length > n - at)
            return false;
        const ProtobufCFieldDescriptor *field =
            (tag & 7) == 2 && tag >> 3 <= UINT32_MAX
                ? protobuf_c_message_descriptor_get_field(descriptor, (unsigned)(tag >> 3))
                : NULL;
        if (field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE &&
            !nesting_is_sound(field->descriptor, bytes + at, (size_t)length, depth - 1))
            return false;
        at += (size_t)length;
    }
    return true;
}

/* ---- tensors ----------------------------------------------------------------------------- */

static const char *copy_string(const decoder *d, const char *string) {
    return cleave_arena_string(d->arena, string != NULL ? string : "");
}

/* The elements of a tensor as they lie in the file: as those of `type` do. */
typedef struct stored_elements {
    const void *at;
    size_t n;
    int32_t type;
} stored_elements;

/* In the field of their type, or, as BOOL, in that of INT32. */
static stored_elements typed_elements(const Onnx__TensorProto *proto) {
    switch (proto->data_type) {
    case CLEAVE_ONNX_FLOAT:
        return (stored_elements){proto->float_data, proto->n_float_data, CLEAVE_ONNX_FLOAT};
    case CLEAVE_ONNX_DOUBLE:
        return (stored_elements){proto->double_data, proto->n_double_data, CLEAVE_ONNX_DOUBLE};
    case CLEAVE_ONNX_INT64:
        return (stored_elements){proto->int64_data, proto->n_int64_data, CLEAVE_ONNX_INT64};
    default:
        return (stored_elements){proto->int32_data, proto->n_int32_data, CLEAVE_ONNX_INT32};
    }
}

/* A decimal number of bytes. */
static bool read_bytes(const char *text, int64_t *value) {
    *value = 0;
    if (*text == '\0')
        return false;
    for (; *text >= '0' && *text <= '9'; text++)
        if (!cleave_int64_multiply(*value, 10, value) ||
            !cleave_int64_add(*value, *text - '0', value))
            return false;
    return *text == '\0';
}

static cleave_status decode_external(const decoder *d, const Onnx__TensorProto *proto,
                                     const char *place, cleave_onnx_tensor *tensor) {
    cleave_onnx_external *external = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_external, 1);
    if (external == NULL)
        return cleave_fail_memory(d->error, "reading a tensor");
    *external = (cleave_onnx_external){.length = -1};
    if (proto->has_raw_data || typed_elements(proto).n > 0)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s has data both in this file and in another", d->file, place);
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = proto->external_data[i]->key, *value = proto->external_data[i]->value;
        key = key != NULL ? key : "";
        value = value != NULL ? value : "";
        bool is_location = strcmp(key, "location") == 0;
        int64_t *number = strcmp(key, "offset") == 0   ? &external->offset
                          : strcmp(key, "length") == 0 ? &external->length
                                                       : NULL;
        if (is_location && (external->location = copy_string(d, value)) == NULL)
            return cleave_fail_memory(d->error, "reading a tensor");
        if (is_location      ? external->location[0] == '\0'
            : number != NULL ? !read_bytes(value, number)
                             : strcmp(key, "checksum") != 0)
            return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                               "%s: %s has external data with %s \"%s\"; supported are a "
                               "location, and an offset and a length in bytes",
                               d->file, place, key, value);
    }
    if (external->location == NULL)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s has external data without a location", d->file, place);
    tensor->external = external;
    return CLEAVE_OK;
}

/* Do the data in the file have as many elements as the dimensions say? */
static cleave_status find_elements(const decoder *d, const Onnx__TensorProto *proto,
                                   const char *place, const cleave_onnx_tensor *tensor,
                                   stored_elements *elements) {
    size_t bytes = cleave_onnx_element_bytes(tensor->type), rest = 0;
    *elements = typed_elements(proto);
    if (proto->has_raw_data) {
        *elements =
            (stored_elements){proto->raw_data.data, proto->raw_data.len / bytes, tensor->type};
        rest = proto->raw_data.len % bytes;
    }
    if (rest != 0 || elements->n != (size_t)tensor->n)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s has %lld elements by its dimensions, but %zu in its data",
                           d->file, place, (long long)tensor->n, elements->n);
    return CLEAVE_OK;
}

static cleave_status check_tensor(const decoder *d, const Onnx__TensorProto *proto,
                                  const char *place, cleave_onnx_tensor *tensor) {
    if (proto->n_dims > CLEAVE_MAX_RANK)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s has rank %zu, at most %d is supported", d->file, place,
                           proto->n_dims, CLEAVE_MAX_RANK);
    if (cleave_onnx_element_bytes(proto->data_type) == 0)
        return cleave_fail(
            d->error, CLEAVE_BAD_INPUT,
            "%s: %s has data type %s (%d), supported are FLOAT, DOUBLE, INT32, INT64 "
            "and BOOL",
            d->file, place, cleave_onnx_type_name(proto->data_type), (int)proto->data_type);
    *tensor = (cleave_onnx_tensor){.type = proto->data_type, .rank = (int)proto->n_dims, .n = 1};
    /* Dimensions of 0 count as 1 here, so that no product of some of them can overflow. */
    int64_t bound = 1;
    for (size_t i = 0; i < proto->n_dims; i++) {
        int64_t extent = proto->dims[i];
        tensor->shape[i] = extent;
        if (extent < 0 || !cleave_int64_multiply(bound, extent > 0 ? extent : 1, &bound) ||
            bound > most_elements)
            return cleave_fail(
                d->error, CLEAVE_BAD_INPUT,
                "%s: dimension %zu of %s is %lld: negative, or more than 2^40 elements", d->file, i,
                place, (long long)extent);
        tensor->n *= extent;
    }
    return CLEAVE_OK;
}

static cleave_status decode_tensor(const decoder *d, const Onnx__TensorProto *proto,
                                   const char *place, cleave_onnx_tensor *tensor) {
    CLEAVE_TRY(check_tensor(d, proto, place, tensor));
    tensor->name = copy_string(d, proto->name);
    if (tensor->name == NULL)
        return cleave_fail_memory(d->error, "reading a tensor");
    if (proto->has_data_location &&
        proto->data_location != ONNX__TENSOR_PROTO__DATA_LOCATION__DEFAULT)
        return decode_external(d, proto, place, tensor);
    stored_elements elements;
    CLEAVE_TRY(find_elements(d, proto, place, tensor, &elements));
    return cleave_onnx_tensor_fill(tensor, elements.type, elements.at, d->arena)
               ? CLEAVE_OK
               : cleave_fail_memory(d->error, "reading a tensor");
}

/* ---- attributes and nodes ---------------------------------------------------------------- */

static cleave_onnx_attribute_kind attribute_kind(const Onnx__AttributeProto *proto) {
    switch (proto->type) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        return CLEAVE_ONNX_ATTRIBUTE_FLOAT;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        return CLEAVE_ONNX_ATTRIBUTE_INTEGER;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        return CLEAVE_ONNX_ATTRIBUTE_STRING;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        return proto->t != NULL ? CLEAVE_ONNX_ATTRIBUTE_TENSOR : CLEAVE_ONNX_ATTRIBUTE_OTHER;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        return CLEAVE_ONNX_ATTRIBUTE_FLOATS;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        return CLEAVE_ONNX_ATTRIBUTE_INTEGERS;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        return CLEAVE_ONNX_ATTRIBUTE_STRINGS;
    default:
        return CLEAVE_ONNX_ATTRIBUTE_OTHER;
    }
}

static const char **copy_texts(const decoder *d, size_t n, const ProtobufCBinaryData *texts) {
    const char **copies = CLEAVE_ARENA_ARRAY(d->arena, const char *, n);
    for (size_t i = 0; copies != NULL && i < n; i++) {
        copies[i] = cleave_arena_string_n(d->arena, (const char *)texts[i].data, texts[i].len);
        if (copies[i] == NULL)
            return NULL;
    }
    return copies;
}

static cleave_status decode_attribute(const decoder *d, const Onnx__AttributeProto *proto,
                                      const char *node, cleave_onnx_attribute *attribute) {
    *attribute = (cleave_onnx_attribute){.name = copy_string(d, proto->name),
                                         .kind = attribute_kind(proto),
                                         .number = proto->f,
                                         .integer = proto->i};
    if (proto->n_ints > INT32_MAX || proto->n_floats > INT32_MAX || proto->n_strings > INT32_MAX)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT, "%s: attribute %s of node %s is too long",
                           d->file, attribute->name, node);
    int64_t *integers = CLEAVE_ARENA_ARRAY(d->arena, int64_t, proto->n_ints);
    float *numbers = CLEAVE_ARENA_ARRAY(d->arena, float, proto->n_floats);
    attribute->string = cleave_arena_string_n(d->arena, (const char *)proto->s.data, proto->s.len);
    attribute->strings = copy_texts(d, proto->n_strings, proto->strings);
    if (attribute->name == NULL || integers == NULL || numbers == NULL ||
        attribute->string == NULL || attribute->strings == NULL)
        return cleave_fail_memory(d->error, "reading an attribute");
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_INTEGERS && proto->n_ints > 0)
        memcpy(integers, proto->ints, proto->n_ints * sizeof *integers);
    if (attribute->kind == CLEAVE_ONNX_ATTRIBUTE_FLOATS && proto->n_floats > 0)
        memcpy(numbers, proto->floats, proto->n_floats * sizeof *numbers);
    attribute->integers = integers;
    attribute->numbers = numbers;
    attribute->n = attribute->kind == CLEAVE_ONNX_ATTRIBUTE_INTEGERS  ? (int32_t)proto->n_ints
                   : attribute->kind == CLEAVE_ONNX_ATTRIBUTE_FLOATS  ? (int32_t)proto->n_floats
                   : attribute->kind == CLEAVE_ONNX_ATTRIBUTE_STRINGS ? (int32_t)proto->n_strings
                                                                      : 0;
    if (attribute->kind != CLEAVE_ONNX_ATTRIBUTE_TENSOR)
        return CLEAVE_OK;
    cleave_onnx_tensor *tensor = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_tensor, 1);
    const char *place =
        cleave_arena_printf(d->arena, "attribute %s of node %s", attribute->name, node);
    if (tensor == NULL || place == NULL)
        return cleave_fail_memory(d->error, "reading an attribute");
    CLEAVE_TRY(decode_tensor(d, proto->t, place, tensor));
    if (tensor->external != NULL)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s keeps its data in another file; only initializers may", d->file,
                           place);
    attribute->tensor = tensor;
    return CLEAVE_OK;
}

static cleave_status decode_graph(const decoder *d, const Onnx__GraphProto *proto,
                                  cleave_onnx_graph *graph);

/* The branches of an If, and what they read. */
static cleave_status decode_branches(const decoder *d, const Onnx__NodeProto *proto,
                                     cleave_onnx_node *node) {
    for (int32_t i = 0; i < node->n_attributes; i++) {
        cleave_onnx_attribute *attribute = &node->attributes[i];
        if (proto->attribute[i]->g == NULL)
            continue;
        cleave_onnx_graph *graph = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_graph, 1);
        if (graph == NULL)
            return cleave_fail_memory(d->error, "reading a branch");
        CLEAVE_TRY(decode_graph(d, proto->attribute[i]->g, graph));
        attribute->kind = CLEAVE_ONNX_ATTRIBUTE_GRAPH;
        attribute->graph = graph;
    }
    return cleave_onnx_add_captured(node, d->arena, d->error);
}

static const char **copy_strings(const decoder *d, size_t n, char **strings) {
    const char **copies = CLEAVE_ARENA_ARRAY(d->arena, const char *, n);
    for (size_t i = 0; copies != NULL && i < n; i++) {
        copies[i] = copy_string(d, strings[i]);
        if (copies[i] == NULL)
            return NULL;
    }
    return copies;
}

static cleave_status check_attribute_names(const decoder *d, const cleave_onnx_node *node) {
    enum { MOST = 256 };
    if (node->n_attributes > MOST)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: node %s (%s) has %d attributes, at most %d are supported", d->file,
                           node->name, node->type, (int)node->n_attributes, MOST);
    for (int32_t i = 1; i < node->n_attributes; i++)
        for (int32_t k = 0; k < i; k++)
            if (strcmp(node->attributes[i].name, node->attributes[k].name) == 0)
                return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                                   "%s: node %s (%s) has attribute %s twice", d->file, node->name,
                                   node->type, node->attributes[i].name);
    return CLEAVE_OK;
}

static cleave_status decode_node(const decoder *d, const Onnx__NodeProto *proto,
                                 cleave_onnx_node *node) {
    if (proto->n_input > INT32_MAX || proto->n_output > INT32_MAX || proto->n_attribute > INT32_MAX)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT, "%s: a node has too many inputs", d->file);
    *node = (cleave_onnx_node){.name = copy_string(d, proto->name),
                               .type = copy_string(d, proto->op_type),
                               .domain = copy_string(d, proto->domain),
                               .n_inputs = (int32_t)proto->n_input,
                               .n_outputs = (int32_t)proto->n_output,
                               .n_attributes = (int32_t)proto->n_attribute,
                               .inputs = copy_strings(d, proto->n_input, proto->input),
                               .outputs = copy_strings(d, proto->n_output, proto->output)};
    node->attributes = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_attribute, proto->n_attribute);
    if (node->name == NULL || node->type == NULL || node->domain == NULL || node->inputs == NULL ||
        node->outputs == NULL || node->attributes == NULL)
        return cleave_fail_memory(d->error, "reading a node");
    /* From here on an unnamed node goes by the first output that it has. */
    for (int32_t i = 0; node->name[0] == '\0' && i < node->n_outputs; i++)
        node->name = node->outputs[i];
    for (int32_t i = 0; i < node->n_attributes; i++)
        CLEAVE_TRY(decode_attribute(d, proto->attribute[i], node->name, &node->attributes[i]));
    CLEAVE_TRY(check_attribute_names(d, node));
    return strcmp(node->type, "If") == 0 ? decode_branches(d, proto, node) : CLEAVE_OK;
}

/* ---- the graph --------------------------------------------------------------------------- */

static cleave_status decode_value(const decoder *d, const Onnx__ValueInfoProto *proto,
                                  cleave_onnx_value *value) {
    *value = (cleave_onnx_value){.name = copy_string(d, proto->name)};
    if (value->name == NULL)
        return cleave_fail_memory(d->error, "reading a value");
    if (proto->type == NULL || proto->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        proto->type->tensor_type == NULL)
        return CLEAVE_OK;
    const Onnx__TypeProto__Tensor *type = proto->type->tensor_type;
    value->type = type->elem_type;
    if (type->shape == NULL)
        return CLEAVE_OK;
    if (type->shape->n_dim > CLEAVE_MAX_RANK)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT,
                           "%s: %s has rank %zu, at most %d is supported", d->file, value->name,
                           type->shape->n_dim, CLEAVE_MAX_RANK);
    value->has_shape = true;
    value->rank = (int)type->shape->n_dim;
    for (int i = 0; i < value->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = type->shape->dim[i];
        /* Below 0: exporters of frameworks that write open dimensions so. */
        if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
            dim->dim_value >= 0) {
            value->shape[i] = dim->dim_value;
            continue;
        }
        bool named = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        value->shape[i] = -1;
        value->symbols[i] = copy_string(d, named ? dim->dim_param : "");
        if (value->symbols[i] == NULL)
            return cleave_fail_memory(d->error, "reading a value");
    }
    return CLEAVE_OK;
}

static cleave_status decode_opset(const decoder *d, const Onnx__ModelProto *model, int64_t *opset) {
    *opset = 0;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (domain == NULL || domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0)
            *opset = model->opset_import[i]->version;
    }
    return *opset > 0 ? CLEAVE_OK
                      : cleave_fail(d->error, CLEAVE_BAD_INPUT,
                                    "%s: does not say which ONNX operator set it uses", d->file);
}

static cleave_status decode_graph(const decoder *d, const Onnx__GraphProto *proto,
                                  cleave_onnx_graph *graph) {
    if (proto->n_node > INT32_MAX || proto->n_initializer > INT32_MAX ||
        proto->n_input > INT32_MAX || proto->n_output > INT32_MAX)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT, "%s: the graph is too large", d->file);
    if (proto->n_sparse_initializer > 0)
        return cleave_fail(d->error, CLEAVE_BAD_INPUT, "%s: sparse initializers are not supported",
                           d->file);
    graph->n_nodes = (int32_t)proto->n_node;
    graph->n_initializers = (int32_t)proto->n_initializer;
    graph->n_inputs = (int32_t)proto->n_input;
    graph->n_outputs = (int32_t)proto->n_output;
    graph->nodes = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_node, graph->n_nodes);
    graph->initializers = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_tensor, graph->n_initializers);
    graph->inputs = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_value, graph->n_inputs);
    graph->outputs = CLEAVE_ARENA_ARRAY(d->arena, cleave_onnx_value, graph->n_outputs);
    if (graph->nodes == NULL || graph->initializers == NULL || graph->inputs == NULL ||
        graph->outputs == NULL)
        return cleave_fail_memory(d->error, "reading a graph");
    for (int32_t i = 0; i < graph->n_nodes; i++)
        CLEAVE_TRY(decode_node(d, proto->node[i], &graph->nodes[i]));
    for (int32_t i = 0; i < graph->n_initializers; i++) {
        const char *name = proto->initializer[i]->name;
        CLEAVE_TRY(decode_tensor(d, proto->initializer[i], name != NULL ? name : "an initializer",
                                 &graph->initializers[i]));
    }
    for (int32_t i = 0; i < graph->n_inputs; i++)
        CLEAVE_TRY(decode_value(d, proto->input[i], &graph->inputs[i]));
    for (int32_t i = 0; i < graph->n_outputs; i++)
        CLEAVE_TRY(decode_value(d, proto->output[i], &graph->outputs[i]));
    return CLEAVE_OK;
}

cleave_status cleave_onnx_decode(const void *data, size_t bytes, const char *file,
                                 cleave_arena *arena, cleave_onnx_graph *graph,
                                 cleave_error *error) {
    decoder d = {file, arena, error};
    cleave_onnx_graph result = {0};
    if (bytes == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the file is empty", file);
    Onnx__ModelProto *model = NULL;
    if (nesting_is_sound(&onnx__model_proto__descriptor, data, bytes, MOST_NESTING))
        model = onnx__model_proto__unpack(NULL, bytes, data);
    if (model == NULL)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: not an ONNX model: the %zu bytes are truncated or of another format", file, bytes);
    cleave_status status = CLEAVE_OK;
    if (model->graph == NULL || model->graph->n_node == 0)
        status =
            cleave_fail(error, CLEAVE_BAD_INPUT, "%s: has no graph, or one without nodes", file);
    if (status == CLEAVE_OK)
        status = decode_opset(&d, model, &result.opset);
    if (status == CLEAVE_OK)
        status = decode_graph(&d, model->graph, &result);
    onnx__model_proto__free_unpacked(model, NULL);
    if (status == CLEAVE_OK)
        status = cleave_onnx_take_weights(&result, arena, error);
    if (status == CLEAVE_OK)
        *graph = result;
    return status;
}

cleave_status cleave_onnx_decode_tensor(const void *data, size_t bytes, const char *file,
                                        cleave_arena *arena, cleave_onnx_tensor *tensor,
                                        cleave_error *error) {
    decoder d = {file, arena, error};
    cleave_onnx_tensor result;
    Onnx__TensorProto *proto = NULL;
    if (nesting_is_sound(&onnx__tensor_proto__descriptor, data, bytes, MOST_NESTING))
        proto = onnx__tensor_proto__unpack(NULL, bytes, data);
    if (proto == NULL)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%s: not an ONNX tensor: the %zu bytes are truncated or of another format", file,
            bytes);
    cleave_status status = decode_tensor(&d, proto, "the tensor", &result);
    onnx__tensor_proto__free_unpacked(proto, NULL);
    if (status == CLEAVE_OK)
        *tensor = result;
    return status;
}
