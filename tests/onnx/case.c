/* One of ONNX's own tests. */
#include "tests/onnx/case.h"

#include "../support/interpreter.h"
#include "base/file.h"
#include "exec/data/initial.h"
#include "exec/rank.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "tests/onnx/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_DATA_SETS = 16, N_DEVICES = 4, N_LAYOUTS = 3 };

/* Which inputs are given as constants: ever more, until the model is taken. */
typedef enum fixing {
    FIX_NONE,
    FIX_LATER_INTEGERS,
    FIX_LATER,
    FIX_INTEGERS,
    FIX_ALL,
    N_FIXINGS
} fixing;

static bool is_fixed(const onnx_case *test, fixing how, int i) {
    bool integer = test->inputs[i].tensor.integers != NULL;
    switch (how) {
    case FIX_LATER_INTEGERS:
        return i > 0 && integer;
    case FIX_LATER:
        return i > 0;
    case FIX_INTEGERS:
        return integer;
    case FIX_ALL:
        return true;
    default:
        return false;
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Appends a varint; the message has room. */
static void put_varint(blob *message, size_t value) {
    for (; value >= 0x80; value >>= 7)
        message->data[message->bytes++] = (char)((value & 0x7f) | 0x80);
    message->data[message->bytes++] = (char)value;
}

static void put_bytes(blob *message, int field, const void *data, size_t bytes) {
    put_varint(message, (size_t)field << 3 | 2);
    put_varint(message, bytes);
    memcpy(message->data + message->bytes, data, bytes);
    message->bytes += bytes;
}

/* The model with another initializer: a message that goes on after its end is merged with it. */
static cleave_status add_initializer(const onnx_case *test, const blob *tensor, const char *name,
                                     blob *model) {
    enum { MODEL_GRAPH = 7, GRAPH_INITIALIZER = 5, TENSOR_NAME = 8, ROOM = 64 };
    size_t length = strlen(name), room = tensor->bytes + length + ROOM;
    blob named = {.data = CLEAVE_ARENA_ARRAY(test->arena, char, room)};
    blob graph = {.data = CLEAVE_ARENA_ARRAY(test->arena, char, room)};
    blob longer = {.data = CLEAVE_ARENA_ARRAY(test->arena, char, model->bytes + room)};
    if (named.data == NULL || graph.data == NULL || longer.data == NULL)
        return cleave_fail_memory(test->error, "fixing an input");
    memcpy(named.data, tensor->data, tensor->bytes);
    named.bytes = tensor->bytes;
    put_bytes(&named, TENSOR_NAME, name, length);
    put_bytes(&graph, GRAPH_INITIALIZER, named.data, named.bytes);
    memcpy(longer.data, model->data, model->bytes);
    longer.bytes = model->bytes;
    put_bytes(&longer, MODEL_GRAPH, graph.data, graph.bytes);
    *model = longer;
    return CLEAVE_OK;
}

static cleave_status read_tensor(onnx_case *test, const char *path, blob *result) {
    CLEAVE_TRY(cleave_file_read(path, test->arena, &result->data, &result->bytes, test->error));
    return cleave_onnx_decode_tensor(result->data, result->bytes, strrchr(path, '/') + 1,
                                     test->arena, &result->tensor, test->error);
}

static cleave_status read_inputs(onnx_case *test, const char *data_set) {
    for (int i = 0; i < test->n_inputs; i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/input_%d.pb", data_set, i);
        CLEAVE_TRY(read_tensor(test, path, &test->inputs[i]));
    }
    return CLEAVE_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Every source starts with its value, whatever the importer took it for. */
static cleave_status give_values(const onnx_case *test, const cleave_model *model) {
    for (int i = 0; i < test->n_inputs; i++) {
        const cleave_onnx_tensor *input = &test->inputs[i].tensor;
        int32_t t = cleave_model_find_tensor(model, test->values[i]->name);
        if (t < 0)
            continue;
        cleave_tensor *tensor = &model->tensors[t];
        const void *value =
            tensor->type == CLEAVE_I64 ? (const void *)input->integers : input->floats;
        if (tensor->view.kind != CLEAVE_VIEW_NONE || tensor->kind == CLEAVE_TENSOR_ACTIVATION)
            continue;
        if (value == NULL || cleave_tensor_size(tensor) != input->n)
            return cleave_fail(test->error, CLEAVE_FAILED, "input %s has another type or size",
                               tensor->name);
        tensor->value = value;
    }
    return CLEAVE_OK;
}

static cleave_status load(void *context, const cleave_buffer *buffer, int64_t step, void *data,
                          cleave_error *error) {
    (void)error;
    const cleave_model *model = context;
    cleave_initial_fill_data(&model->tensors[buffer->tensor], 0, step, &buffer->box, data);
    return CLEAVE_OK;
}

/* ONNX's own tolerance for floats; integers and truth values are exact. */
static bool close_enough(double got, double want, bool exact) {
    if (isnan(want) || isinf(want) || exact)
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 1e-7 + 1e-3 * fabs(want);
}

cleave_status onnx_case_compare(const onnx_case *test, int32_t o, int rank, const int64_t *shape,
                                const double *got) {
    const cleave_onnx_tensor *want = &test->outputs[o].tensor;
    bool same_shape = rank == want->rank;
    for (int d = 0; d < rank && same_shape; d++)
        same_shape = shape[d] == want->shape[d];
    if (!same_shape)
        return cleave_fail(test->error, CLEAVE_FAILED, "output %d has another shape", (int)o);
    for (int64_t i = 0; i < want->n; i++) {
        double wanted = want->floats != NULL ? (double)want->floats[i] : (double)want->integers[i];
        if (!close_enough(got[i], wanted, want->integers != NULL))
            return cleave_fail(test->error, CLEAVE_FAILED,
                               "element %lld of output %d is %.9g, it has to be %.9g", (long long)i,
                               (int)o, got[i], wanted);
    }
    return CLEAVE_OK;
}

cleave_status onnx_case_read_outputs(onnx_case *test, int32_t n, const char *data_set) {
    for (int32_t o = 0; o < n; o++) {
        char path[1024];
        if (o == MOST_TENSORS)
            return cleave_fail(test->error, CLEAVE_BAD_INPUT, "more than %d outputs", MOST_TENSORS);
        snprintf(path, sizeof path, "%s/output_%d.pb", data_set, (int)o);
        CLEAVE_TRY(read_tensor(test, path, &test->outputs[o]));
    }
    return CLEAVE_OK;
}

/* ---- on one rank, as the command does -------------------------------------------------------- */

/* On one device an output is one piece. */
static cleave_status compare_output(const onnx_case *test, const cleave_rank *rank,
                                    const cleave_output *output) {
    const cleave_model *model = rank->program->model;
    const cleave_tensor *tensor = &model->tensors[model->outputs[output->output]];
    const void *data = cleave_rank_buffer(rank, output->buffer);
    cleave_box box = cleave_box_of_shape(tensor->rank, tensor->shape);
    int64_t strides[CLEAVE_MAX_RANK], index[CLEAVE_MAX_RANK] = {0}, n = cleave_tensor_size(tensor);
    double *got = CLEAVE_ARENA_ARRAY(test->arena, double, n);
    if (got == NULL)
        return cleave_fail_memory(test->error, "comparing an output");
    cleave_tensor_strides(tensor, &box, strides);
    for (int64_t i = 0; i < n; i++) {
        int64_t at = 0;
        for (int d = 0; d < tensor->rank; d++)
            at += index[d] * strides[d];
        got[i] = tensor->type == CLEAVE_I64 ? (double)((const int64_t *)data)[at]
                                            : (double)((const float *)data)[at];
        for (int d = tensor->rank - 1; d >= 0 && ++index[d] == tensor->shape[d]; d--)
            index[d] = 0;
    }
    return onnx_case_compare(test, output->output, tensor->rank, tensor->shape, got);
}

static cleave_status step_rank(const onnx_case *test, cleave_rank *rank) {
    const cleave_program *program = rank->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->persistent && buffer->kind != CLEAVE_BUFFER_DATA &&
            buffer->kind != CLEAVE_BUFFER_STATE)
            cleave_initial_fill(&program->model->tensors[buffer->tensor], 0, &buffer->box,
                                cleave_rank_buffer(rank, b));
    }
    rank->load = load;
    rank->load_context = (void *)program->model;
    CLEAVE_TRY(cleave_rank_step(rank, 0, test->error));
    for (int32_t o = 0; o < program->n_outputs; o++)
        CLEAVE_TRY(compare_output(test, rank, &program->outputs[o]));
    return CLEAVE_OK;
}

static cleave_status lower(const onnx_case *test, const cleave_model *model,
                           const cleave_layout *layout, cleave_kernels *kernels,
                           cleave_program *program) {
    cleave_lower_options options = {.workspace = cleave_kernel_workspace,
                                    .workspace_context = kernels};
    CLEAVE_TRY(cleave_lower(model, layout, &options, test->arena, program, test->error));
    return cleave_program_check(program, test->error);
}

static cleave_status run_rank(const onnx_case *test, const cleave_model *model,
                              cleave_kernels *kernels) {
    cleave_run_options options = {.steps = 1, .forward = true, .quiet = true};
    cleave_layout layout;
    cleave_program program;
    cleave_rank rank = {0};
    CLEAVE_TRY(cleave_layout_create(model, 1, test->arena, &layout, test->error));
    CLEAVE_TRY(lower(test, model, &layout, kernels, &program));
    cleave_status status =
        cleave_rank_create_within(&rank, test->world, &program, &options, test->arena, test->error);
    if (status == CLEAVE_OK)
        status = cleave_rank_new_memory(&rank, &rank.memory, test->error);
    if (status == CLEAVE_OK)
        status = step_rank(test, &rank);
    cleave_rank_destroy(&rank);
    return status;
}

/* ---- under random layouts -------------------------------------------------------------------- */

static cleave_status run_layout(const onnx_case *test, const cleave_model *model, uint64_t seed,
                                cleave_kernels *kernels) {
    interpreter_options options = {.timing_seed = seed, .steps = 1, .kernels = kernels};
    interpreter_result result;
    cleave_layout layout;
    cleave_program program;
    CLEAVE_TRY(cleave_layout_random(model, N_DEVICES, seed, test->arena, &layout, test->error));
    CLEAVE_TRY(lower(test, model, &layout, kernels, &program));
    CLEAVE_TRY(interpreter_run(&program, &options, test->arena, &result, test->error));
    for (int32_t o = 0; o < model->n_outputs; o++) {
        const cleave_tensor *tensor = &model->tensors[model->outputs[o]];
        int64_t n = cleave_tensor_size(tensor);
        double *got = CLEAVE_ARENA_ARRAY(test->arena, double, n);
        if (got == NULL)
            return cleave_fail_memory(test->error, "comparing an output");
        for (int64_t i = 0; i < n; i++)
            got[i] = (double)result.outputs[o][i];
        if (tensor->type == CLEAVE_F32) /* the interpreter gives no others */
            CLEAVE_TRY(onnx_case_compare(test, o, tensor->rank, tensor->shape, got));
    }
    return CLEAVE_OK;
}

static cleave_status run_layouts(const onnx_case *test, const cleave_model *model,
                                 cleave_kernels *kernels) {
    for (uint64_t seed = 0; seed < N_LAYOUTS; seed++)
        if (run_layout(test, model, seed, kernels) != CLEAVE_OK) {
            cleave_error_prefix(test->error, "layout %d", (int)seed);
            return CLEAVE_FAILED;
        }
    return CLEAVE_OK;
}

/* A model that was taken has to run. */
static cleave_status run_model(onnx_case *test, const cleave_model *model, const char *data_set) {
    cleave_kernels *kernels;
    CLEAVE_TRY(give_values(test, model));
    CLEAVE_TRY(onnx_case_read_outputs(test, model->n_outputs, data_set));
    CLEAVE_TRY(cleave_kernels_create(&kernels, test->error));
    cleave_status status = run_rank(test, model, kernels);
    if (status == CLEAVE_OK)
        status = run_layouts(test, model, kernels);
    cleave_kernels_destroy(kernels);
    return status == CLEAVE_OK ? CLEAVE_OK : CLEAVE_FAILED;
}

/* One try at one data set; BAD_INPUT: refused. */
static cleave_status try_fixing(onnx_case *test, fixing how, const char *data_set, int *n_fixed) {
    blob bytes = test->model;
    cleave_model model;
    *n_fixed = 0;
    for (int i = 0; i < test->n_inputs; i++)
        if (is_fixed(test, how, i)) {
            CLEAVE_TRY(add_initializer(test, &test->inputs[i], test->values[i]->name, &bytes));
            ++*n_fixed;
        }
    CLEAVE_TRY(cleave_model_import_as(
        &(cleave_import_request){.file = "model.onnx", .data = bytes.data, .bytes = bytes.bytes},
        test->arena, &model, test->error));
    return run_model(test, &model, data_set);
}

static cleave_status run_data_set(onnx_case *test, const char *data_set, onnx_result *result) {
    cleave_error first = {""};
    CLEAVE_TRY(read_inputs(test, data_set));
    cleave_status status = onnx_case_run_as_data(test, data_set);
    result->as_data = result->as_data && status == CLEAVE_OK;
    if (status != CLEAVE_OK && status != CLEAVE_BAD_INPUT) {
        cleave_error_prefix(test->error, "as data");
        return CLEAVE_FAILED;
    }
    status = CLEAVE_BAD_INPUT;
    for (fixing how = FIX_NONE; how < N_FIXINGS && status == CLEAVE_BAD_INPUT; how++) {
        status = try_fixing(test, how, data_set, &result->n_fixed);
        /* What is refused even with its settings known is refused for that. */
        if (status == CLEAVE_BAD_INPUT && how <= FIX_LATER_INTEGERS)
            first = *test->error;
    }
    if (status == CLEAVE_BAD_INPUT)
        *test->error = first;
    return status;
}

/* ---- one case -------------------------------------------------------------------------------- */

static bool is_initializer(const cleave_onnx_graph *graph, const char *name) {
    for (int32_t i = 0; i < graph->n_initializers; i++)
        if (strcmp(graph->initializers[i].name, name) == 0)
            return true;
    return false;
}

static cleave_status read_model(onnx_case *test, const char *folder, cleave_onnx_graph *graph) {
    char path[1024];
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    CLEAVE_TRY(
        cleave_file_read(path, test->arena, &test->model.data, &test->model.bytes, test->error));
    CLEAVE_TRY(cleave_onnx_decode(test->model.data, test->model.bytes, "model.onnx", test->arena,
                                  graph, test->error));
    test->graph = graph;
    for (int32_t i = 0; i < graph->n_inputs; i++) {
        if (is_initializer(graph, graph->inputs[i].name))
            continue;
        if (test->n_inputs == MOST_TENSORS)
            return cleave_fail(test->error, CLEAVE_BAD_INPUT, "more than %d inputs", MOST_TENSORS);
        test->values[test->n_inputs++] = &graph->inputs[i];
    }
    return CLEAVE_OK;
}

static cleave_status run_case(onnx_case *test, const char *folder, onnx_result *result) {
    cleave_onnx_graph graph;
    CLEAVE_TRY(read_model(test, folder, &graph));
    if (graph.n_nodes == 1)
        snprintf(result->operator, sizeof result->operator, "%s", graph.nodes[0].type);
    int n = 0;
    for (; n < MOST_DATA_SETS; n++) {
        char data_set[900];
        snprintf(data_set, sizeof data_set, "%s/test_data_set_%d", folder, n);
        if (access(data_set, F_OK) != 0)
            break;
        CLEAVE_TRY(run_data_set(test, data_set, result));
    }
    return n > 0 ? CLEAVE_OK : cleave_fail(test->error, CLEAVE_FAILED, "has no data");
}

onnx_result onnx_case_run(cleave_world *world, const char *folder) {
    onnx_result result = {.outcome = ONNX_PASSED, .as_data = true};
    cleave_arena arena = {0};
    cleave_error error = {""};
    onnx_case test = {.world = world, .arena = &arena, .error = &error};
    cleave_status status = run_case(&test, folder, &result);
    if (status != CLEAVE_OK)
        result.outcome = status == CLEAVE_BAD_INPUT ? ONNX_NOT_SUPPORTED : ONNX_FAILED;
    snprintf(result.reason, sizeof result.reason, "%s", error.message);
    cleave_arena_free(&arena);
    return result;
}
