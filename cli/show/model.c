/* What `cleave show` prints of a model: its operators with their axes, parameters and flops. */
#include "cli/show/show.h"

#include "cli/inputs.h"
#include "cli/table.h"
#include "graph/import/import.h"
#include "graph/model/part.h"
#include "graph/program/work.h"

#include <math.h>
#include <string.h>

/* A symbolic batch is set to `batch`, or to 1 where none was given; a model that can't be trained
   is shown without a loss, and `untrained` says why. */
static cleave_status import(const show_values *values, cleave_arena *arena, cleave_model *model,
                            cleave_error *untrained, cleave_error *error) {
    int64_t batch = values->common.batch;
    static const bool with_loss[] = {true, false};
    cleave_status status = CLEAVE_OK;
    cleave_error reasons[2] = {{""}, {""}}; /* of the batches that are tried */
    for (int l = 0; l < 2; l++)
        for (int64_t b = batch; b <= (batch > 0 ? batch : 1); b++) {
            cleave_import_request request = inputs_request(&values->common);
            request.file = values->file;
            request.batch = b;
            request.with_loss = with_loss[l];
            status = cleave_model_import_as(&request, arena, model, error);
            *untrained = reasons[b - batch];
            if (status == CLEAVE_OK)
                return CLEAVE_OK;
            reasons[b - batch] = *error;
        }
    return status;
}

/* Elements of the parameters that this operator is the first to use; marks them in `counted`. */
static int64_t count_parameters(const cleave_model *model, const cleave_operator *op,
                                bool *counted) {
    int64_t count = 0;
    for (int32_t n = 0; n < op->n_nests; n++) {
        const cleave_nest *nest = &model->nests[op->nests[n]];
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t base = cleave_tensor_base(model, nest->inputs[i].tensor);
            if (model->tensors[base].kind != CLEAVE_TENSOR_PARAMETER || counted[base])
                continue;
            counted[base] = true;
            count += cleave_tensor_size(&model->tensors[base]);
        }
    }
    return count;
}

static double count_flops(const cleave_model *model, const cleave_operator *op) {
    double flops = 0;
    for (int32_t n = 0; n < op->n_nests; n++) {
        const cleave_nest *nest = &model->nests[op->nests[n]];
        cleave_part whole = cleave_part_whole(nest, 0);
        cleave_work work;
        cleave_work_describe(model, nest, CLEAVE_PASS_FORWARD, &whole, &work);
        flops += work.flops;
    }
    return flops;
}

/* "n=32 k=64 h=55 w=55 (c=3 r=11)": what is in parentheses is never split. */
static void describe_axes(const cleave_operator *op, char *text, size_t bytes) {
    size_t used = 0;
    bool open = false;
    text[0] = '\0';
    for (int a = 0; a < op->n_axes && used < bytes; a++) {
        const cleave_axis *axis = &op->axes[a];
        const char *close = open && !axis->whole ? ")" : "";
        const char *begin = axis->whole && !open ? "(" : "";
        used += (size_t)snprintf(text + used, bytes - used, "%s%s%s%s=%lld", close,
                                 a > 0 ? " " : "", begin, axis->name, (long long)axis->extent);
        open = axis->whole;
    }
    if (open && used < bytes)
        snprintf(text + used, bytes - used, ")");
}

static void format_count(double count, const char *unit, char *text, size_t bytes) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    int p = 0;
    for (; count >= 1000 && p < 5; p++)
        count /= 1000;
    snprintf(text, bytes, p == 0 ? "%.0f %s%s" : "%.3g %s%s", count, prefixes[p], unit);
}

/* Counts beyond a million as a power of ten. */
static void put_splits(table *t, double splits) {
    if (splits < 1e6)
        table_format(t, "%.0f", splits);
    else
        table_format(t, "10^%.1f", log10(splits));
}

/* `space` null: without its columns. */
static void print_operators(const cleave_model *model, const show_space *space, cleave_arena *arena,
                            bool *counted) {
    static const char *const heads[] = {
        "operator", "type", "axes (never split)", "parameters", "forward", "splits", "searched"};
    table t = {.arena = arena, .n_columns = space != NULL ? 7 : 5, .align = "lllrrrr"};
    table_heads(&t, heads);
    for (int32_t o = 0; o < model->n_operators; o++) {
        const cleave_operator *op = &model->operators[o];
        char text[512];
        table_text(&t, op->name);
        table_text(&t, op->type);
        describe_axes(op, text, sizeof text);
        table_text(&t, text);
        table_format(&t, "%lld", (long long)count_parameters(model, op, counted));
        format_count(count_flops(model, op), "FLOP", text, sizeof text);
        table_text(&t, text);
        if (space != NULL) {
            put_splits(&t, space->splits[o]);
            put_splits(&t, space->searched[o]);
        }
    }
    table_print_repeats(&t, stdout);
}

static void print_space(const show_space *space) {
    printf(
        "10^%.1f layouts on %d device%s of %s: the product of the splits, without the choices of "
        "updates and collectives\n",
        space->log10_layouts, space->n_devices, space->n_devices == 1 ? "" : "s", space->machine);
    if (space->truncated)
        printf("10^%.1f of them are searched: of each operator the best splits by their own cost\n",
               space->log10_searched);
    else
        printf("all of them are searched: nothing is cut off\n");
}

static const char *input_kind(const cleave_model *model, const cleave_model_input *input) {
    if (input->tensor < 0)
        return "not read";
    cleave_tensor_kind kind = model->tensors[input->tensor].kind;
    return kind == CLEAVE_TENSOR_DATA        ? "data"
           : kind == CLEAVE_TENSOR_PARAMETER ? "parameter"
                                             : "buffer";
}

/* May the two be told of in one row?  Of data, each has to be named by whoever gives them. */
static bool is_same_row(const cleave_model *model, const cleave_model_input *a,
                        const cleave_model_input *b) {
    return a == b || (a->why == b->why && a->tensor >= 0 && b->tensor >= 0 &&
                      model->tensors[a->tensor].kind != CLEAVE_TENSOR_DATA);
}

static void print_inputs(const cleave_model *model, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 3, .align = "lll"};
    if (model->n_inputs == 0)
        return;
    table_heads(&t, (const char *const[]){"input", "taken for", "since"});
    for (int32_t i = 0; i < model->n_inputs; i++) {
        const cleave_model_input *input = &model->inputs[i];
        int32_t before = 0, n = 0;
        for (int32_t k = 0; k < model->n_inputs; k++) {
            before += k < i && is_same_row(model, &model->inputs[k], input);
            n += is_same_row(model, &model->inputs[k], input);
        }
        if (before > 0)
            continue;
        if (n > 1)
            table_format(&t, "%s and %d more", input->name, (int)n - 1);
        else
            table_text(&t, input->name);
        table_text(&t, input_kind(model, input));
        table_text(&t, input->why != NULL ? input->why : "nothing needs it");
    }
    table_print(&t, stdout);
    printf("\n");
}

static void print_text(const show_values *values, const cleave_model *model,
                       const cleave_error *untrained, const show_space *space, cleave_arena *arena,
                       bool *counted) {
    printf("model %s, hash %s, graph version %d\n", values->file, model->hash,
           model->graph_version);
    if (model->batch > 0)
        printf("batch %lld%s\n", (long long)model->batch,
               values->common.batch > 0 ? "" : " (the model leaves it open; set it with --batch)");
    printf("%d ONNX nodes make %d operators%s\n", model->n_onnx_nodes, model->n_operators,
           cleave_model_trains(model) ? ", the loss among them" : "; no loss, forward only");
    if (!cleave_model_trains(model))
        printf("it can't be trained: %s\n", untrained->message);
    printf("\n");
    print_inputs(model, arena);
    print_operators(model, space, arena, counted);
    int64_t parameters = cleave_model_parameter_count(model);
    char size[64];
    cleave_unit_format(4.0 * (double)parameters, CLEAVE_UNIT_BYTES, size, sizeof size);
    printf("\n%lld parameters, %s\n", (long long)parameters, size);
    inputs_print_room(model);
    if (space != NULL)
        print_space(space);
}

static void put_operator(cleave_json_writer *w, const cleave_model *model, int32_t o,
                         const show_space *space, bool *counted) {
    const cleave_operator *op = &model->operators[o];
    cleave_json_open_object(w, op->name, true);
    cleave_json_set_string(w, "type", op->type);
    for (int whole = 0; whole < 2; whole++) {
        cleave_json_open_object(w, whole ? "never_split" : "axes", true);
        for (int a = 0; a < op->n_axes; a++)
            if (op->axes[a].whole == (whole == 1))
                cleave_json_set_integer(w, op->axes[a].name, op->axes[a].extent);
        cleave_json_end_object(w);
    }
    cleave_json_set_integer(w, "parameters", count_parameters(model, op, counted));
    cleave_json_set_number(w, "forward_flops", count_flops(model, op));
    if (space != NULL) {
        cleave_json_set_number(w, "splits", space->splits[o]);
        cleave_json_set_number(w, "searched", space->searched[o]);
    }
    cleave_json_end_object(w);
}

static cleave_status print_json(const show_values *values, const cleave_model *model,
                                const show_space *space, bool *counted, cleave_error *error) {
    cleave_json_writer w = {0};
    cleave_json_begin_object(&w, false);
    cleave_json_set_string(&w, "model", values->file);
    cleave_json_set_string(&w, "hash", model->hash);
    cleave_json_set_integer(&w, "batch", model->batch);
    cleave_json_set_integer(&w, "parameters", cleave_model_parameter_count(model));
    if (space != NULL) {
        cleave_json_set_string(&w, "machine", space->machine);
        cleave_json_set_integer(&w, "devices", space->n_devices);
        cleave_json_set_number(&w, "log10_layouts", space->log10_layouts);
        cleave_json_set_number(&w, "log10_searched", space->log10_searched);
    }
    cleave_json_open_object(&w, "inputs", false);
    for (int32_t i = 0; i < model->n_inputs; i++) {
        const cleave_model_input *input = &model->inputs[i];
        cleave_json_open_object(&w, input->name, true);
        cleave_json_set_string(&w, "taken_for", input_kind(model, input));
        if (input->why != NULL)
            cleave_json_set_string(&w, "since", input->why);
        cleave_json_end_object(&w);
    }
    cleave_json_end_object(&w);
    cleave_json_open_object(&w, "operators", false);
    for (int32_t o = 0; o < model->n_operators; o++)
        put_operator(&w, model, o, space, counted);
    cleave_json_end_object(&w);
    cleave_json_end_object(&w);
    return inputs_print_json(&w, error);
}

cleave_status show_model(const show_values *values, cleave_arena *arena, cleave_error *error) {
    cleave_model model;
    cleave_error untrained = {""};
    show_space counts, *space = NULL;
    CLEAVE_TRY(import(values, arena, &model, &untrained, error));
    if (values->common.machine != NULL) {
        CLEAVE_TRY(show_space_count(&model, values->common.machine, (int32_t)values->common.devices,
                                    arena, &counts, error));
        space = &counts;
    }
    bool *counted = CLEAVE_ARENA_ARRAY(arena, bool, model.n_tensors);
    if (counted == NULL)
        return cleave_fail_memory(error, "counting parameters");
    if (values->common.json)
        return print_json(values, &model, space, counted, error);
    print_text(values, &model, &untrained, space, arena, counted);
    return CLEAVE_OK;
}
