/* A test's inputs as data of a run, its outputs from what the run saves. */
#include "exec/data/tensor_file.h"
#include "exec/run.h"
#include "graph/import/import.h"
#include "tests/onnx/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct run_files {
    char folder[64], data[96], saved[96];
} run_files;

static cleave_status import(const onnx_case *test, cleave_model *model) {
    char names[4096] = "";
    size_t used = 0;
    for (int i = 0; i < test->n_inputs && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? "," : "",
                                 test->values[i]->name);
    const cleave_import_request request = {.file = "model.onnx",
                                           .data = test->model.data,
                                           .bytes = test->model.bytes,
                                           .inputs = test->n_inputs > 0 ? names : NULL};
    CLEAVE_TRY(cleave_model_import_as(&request, test->arena, model, test->error));
    for (int32_t i = 0; i < model->n_inputs; i++)
        if (model->inputs[i].tensor >= 0 &&
            model->tensors[model->inputs[i].tensor].kind != CLEAVE_TENSOR_DATA)
            return cleave_fail(test->error, CLEAVE_FAILED, "input %s is no data, since %s",
                               model->inputs[i].name, model->inputs[i].why);
    return CLEAVE_OK;
}

static cleave_status write_data(const onnx_case *test, const char *path) {
    cleave_safetensors_entry entries[MOST_TENSORS];
    cleave_safetensors_writer writer;
    for (int i = 0; i < test->n_inputs; i++) {
        const cleave_onnx_tensor *input = &test->inputs[i].tensor;
        entries[i] = (cleave_safetensors_entry){
            .name = test->values[i]->name,
            .type = input->floats != NULL ? CLEAVE_F32 : CLEAVE_I64,
            .stored = input->type == CLEAVE_ONNX_BOOL ? CLEAVE_STORED_TRUTH : CLEAVE_STORED_WHOLE,
            .rank = input->rank};
        memcpy(entries[i].shape, input->shape, sizeof input->shape);
    }
    CLEAVE_TRY(cleave_file_writer_open(&writer.file, path, test->error));
    CLEAVE_TRY(cleave_safetensors_writer_begin(&writer, test->n_inputs, entries, test->error));
    cleave_status status = CLEAVE_OK;
    for (int i = 0; i < test->n_inputs && status == CLEAVE_OK; i++) {
        const cleave_onnx_tensor *input = &test->inputs[i].tensor;
        const void *values = input->floats != NULL ? (const void *)input->floats : input->integers;
        status = cleave_safetensors_write(&writer, &entries[i], 0, input->n, values, test->error);
    }
    if (status == CLEAVE_OK)
        return cleave_file_writer_commit(&writer.file, test->error);
    cleave_file_writer_abandon(&writer.file);
    return status;
}

static cleave_status compare_saved(const onnx_case *test, const cleave_tensor_file *saved,
                                   int32_t o) {
    const char *name = test->graph->outputs[o].name;
    const cleave_onnx_tensor *want = &test->outputs[o].tensor;
    const cleave_safetensors_entry *entry = cleave_safetensors_find(&saved->file, name);
    if (entry == NULL || (entry->stored == CLEAVE_STORED_TRUTH) != (want->type == CLEAVE_ONNX_BOOL))
        return cleave_fail(test->error, CLEAVE_FAILED, "output %s is saved as %s", name,
                           entry != NULL ? cleave_safetensors_type_name(entry) : "another one");
    void *read = CLEAVE_ARENA_ARRAY(test->arena, int64_t, entry->n_elements);
    double *got = CLEAVE_ARENA_ARRAY(test->arena, double, entry->n_elements);
    if (read == NULL || got == NULL)
        return cleave_fail_memory(test->error, "reading an output");
    CLEAVE_TRY(cleave_tensor_file_read(saved, entry, 0, entry->n_elements, read, test->error));
    for (int64_t i = 0; i < entry->n_elements; i++)
        got[i] = entry->type == CLEAVE_I64 ? (double)((const int64_t *)read)[i]
                                           : (double)((const float *)read)[i];
    return onnx_case_compare(test, o, entry->rank, entry->shape, got);
}

static cleave_status check_saved(const onnx_case *test, const char *path) {
    cleave_tensor_file saved;
    CLEAVE_TRY(cleave_tensor_file_open(path, test->arena, &saved, test->error));
    cleave_status status = CLEAVE_OK;
    for (int32_t o = 0; o < test->graph->n_outputs && status == CLEAVE_OK; o++)
        status = compare_saved(test, &saved, o);
    cleave_tensor_file_close(&saved);
    return status;
}

static cleave_status run(onnx_case *test, const cleave_model *model, const run_files *files) {
    const cleave_run_options options = {.steps = 1,
                                        .forward = true,
                                        .data = test->n_inputs > 0 ? files->data : NULL,
                                        .save = files->saved,
                                        .quiet = true};
    cleave_layout layout;
    cleave_run_result result;
    CLEAVE_TRY(cleave_layout_create(model, 1, test->arena, &layout, test->error));
    CLEAVE_TRY(write_data(test, files->data));
    CLEAVE_TRY(
        cleave_run(test->world, model, &layout, &options, test->arena, &result, test->error));
    return check_saved(test, files->saved) == CLEAVE_OK ? CLEAVE_OK : CLEAVE_FAILED;
}

cleave_status onnx_case_run_as_data(onnx_case *test, const char *data_set) {
    cleave_model model;
    run_files files = {.folder = "/tmp/cleave_onnx_XXXXXX"};
    CLEAVE_TRY(import(test, &model));
    CLEAVE_TRY(onnx_case_read_outputs(test, test->graph->n_outputs, data_set));
    if (mkdtemp(files.folder) == NULL)
        return cleave_fail(test->error, CLEAVE_FAILED, "no folder for the data of a run");
    snprintf(files.data, sizeof files.data, "%s/data.safetensors", files.folder);
    snprintf(files.saved, sizeof files.saved, "%s/saved.safetensors", files.folder);
    cleave_status status = run(test, &model, &files);
    unlink(files.data);
    unlink(files.saved);
    rmdir(files.folder);
    return status;
}
