/* `cleave show`: recognises a file by its content and prints it for a person. */
#include "cli/show/show.h"

#include "base/file.h"
#include "cli/command.h"
#include "graph/import/config/config.h"
#include "graph/import/onnx/onnx_encode.h"

#include <string.h>

static const option_row rows[] = {
    {"FILE", NULL, OPTION_POSITIONAL, offsetof(show_values, file), .required = true,
     .help = "a model, machine, layout or trace; or the word operators"},
    ROW_BATCH,
    ROW_SEQUENCE,
    ROW_DIMENSIONS,
    ROW_INPUTS,
    ROW_CAPACITY,
    {"--machine", "MACHINE.json", OPTION_TEXT, offsetof(show_values, common.machine),
     .help = "of a model: say how many splits and layouts it has on this machine"},
    ROW_DEVICES,
    {"--onnx", "OUT.onnx", OPTION_OUTPUT, offsetof(show_values, onnx),
     .help = "of a config.json: write the graph that it stands for, parameters being inputs"},
    {"--json", NULL, OPTION_FLAG, offsetof(show_values, common.json),
     .help = "of a model: print one JSON object instead of text"},
};

/* Options that belong to models. */
static cleave_status check_is_model(const show_values *values, cleave_error *error) {
    const char *option = values->common.machine != NULL ? "--machine"
                         : values->onnx != NULL         ? "--onnx"
                         : values->common.json          ? "--json"
                                                        : NULL;
    return option == NULL
               ? CLEAVE_OK
               : cleave_fail(error, CLEAVE_BAD_INPUT, "%s goes with a model, which %s is not",
                             option, values->file);
}

/* Writes the graph of a configuration. */
static cleave_status write_onnx(const show_values *values, const char *text, size_t text_bytes,
                                cleave_arena *arena, cleave_error *error) {
    const cleave_config_request request = {.file = values->file,
                                           .data = text,
                                           .bytes = text_bytes,
                                           .sequence = values->common.sequence,
                                           .capacity_factor = values->common.capacity_factor,
                                           .trains = true};
    cleave_onnx_graph graph;
    const char *data;
    size_t bytes;
    CLEAVE_TRY(cleave_config_decode(&request, arena, &graph, error));
    CLEAVE_TRY(cleave_onnx_encode(&graph, arena, &data, &bytes, error));
    return cleave_file_write(values->onnx, data, bytes, error);
}

static cleave_status show_json(const char *path, const cleave_json *document, cleave_arena *arena,
                               cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document), found;
    if (cleave_json_find(&root, "cleave_layout", &found))
        return show_layout(&root, arena, error);
    if (cleave_json_find(&root, "cleave_machine", &found))
        return show_machine(path, arena, error);
    return cleave_json_fail(&root, error,
                            "this is neither a machine, nor a layout, nor a trace, nor a language "
                            "model's configuration: none of the keys \"cleave_machine\", "
                            "\"cleave_layout\", \"traceEvents\", \"model_type\" is here");
}

static cleave_status show(const void *any, char *const *arguments, cleave_arena *arena,
                          cleave_error *error) {
    const show_values *values = any;
    (void)arguments;
    char *data;
    size_t bytes;
    if (values->common.devices > 0 && values->common.machine == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--devices goes with --machine");
    if (strcmp(values->file, "operators") == 0) {
        CLEAVE_TRY(check_is_model(values, error));
        show_operators(arena);
        return CLEAVE_OK;
    }
    trace_reader trace; /* may be larger than the memory */
    if (trace_reader_open(&trace, values->file)) {
        cleave_status status = check_is_model(values, error);
        if (status == CLEAVE_OK)
            status = show_trace(&trace, arena, error);
        trace_reader_close(&trace);
        return status;
    }
    CLEAVE_TRY(cleave_file_read(values->file, arena, &data, &bytes, error));
    if (!cleave_json_begins(data, bytes))
        return values->onnx == NULL
                   ? show_model(values, arena, error)
                   : cleave_fail(error, CLEAVE_BAD_INPUT,
                                 "--onnx goes with a language model's config.json, which %s is not",
                                 values->file);
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(data, bytes, values->file, &document, error));
    cleave_json_cursor root = cleave_json_root(document), found;
    bool is_config = cleave_json_find(&root, "model_type", &found) ||
                     cleave_json_find(&root, "_class_name", &found);
    cleave_status status = is_config ? CLEAVE_OK : check_is_model(values, error);
    if (status == CLEAVE_OK && is_config && values->onnx != NULL)
        status = write_onnx(values, data, bytes, arena, error);
    if (status == CLEAVE_OK)
        status = is_config ? show_model(values, arena, error)
                           : show_json(values->file, document, arena, error);
    cleave_json_free(document);
    return status;
}

const command command_show = {
    .name = "show",
    .summary = "print a model, machine, layout or trace for a person",
    .details = "Recognises the file by its content.  For the word operators it lists the ONNX\n"
               "operators that models may have, with their operator sets and attributes; a file\n"
               "of that name is ./operators.  For a model with --machine it counts the splits of\n"
               "each operator that a search considers, those before it keeps the best of many,\n"
               "and the layouts that they make up.",
    .examples = "  cleave show configs/models/alexnet.onnx --batch 32\n"
                "  cleave show configs/models/alexnet.onnx --batch 256 \\\n"
                "      --machine configs/machines/k80-16x4.json --devices 16\n"
                "  cleave show operators\n",
    .options = COMMAND_OPTIONS(rows),
    .value_bytes = sizeof(show_values),
    .run = show,
};
