/* The reader of layout files (docs/formats.md).  It believes nothing: every key is known, every
   value in range, every operator of the model listed, and the whole is a legal layout before it is
   given back. */
#include "graph/model/layout.h"

#include "base/file.h"
#include "base/json.h"
#include "graph/model/schedule_file.h"
#include "graph/model/training_file.h"

#include <math.h>
#include <string.h>

typedef struct reader {
    const cleave_model *model;
    cleave_arena *arena;
    cleave_layout *layout;
    bool *listed;         /* [n_operators] */
    bool *listed_updates; /* [n_tensors] */
    bool some;            /* not all operators have to be listed */
} reader;

static cleave_status read_model_of(const cleave_json_cursor *root, const cleave_model *model,
                                   cleave_error *error) {
    static const char *const keys[] = {"file", "hash", "batch", "graph", NULL};
    cleave_json_cursor at, file, hash, batch, graph;
    CLEAVE_TRY(cleave_json_get(root, "model", &at, error));
    CLEAVE_TRY(cleave_json_expect_keys(&at, keys, error));
    CLEAVE_TRY(cleave_json_get(&at, "file", &file, error));
    CLEAVE_TRY(cleave_json_get(&at, "hash", &hash, error));
    CLEAVE_TRY(cleave_json_get(&at, "batch", &batch, error));
    CLEAVE_TRY(cleave_json_get(&at, "graph", &graph, error));
    const char *made_for, *made_for_hash;
    int64_t value;
    CLEAVE_TRY(cleave_json_string(&file, &made_for, error));
    CLEAVE_TRY(cleave_json_string(&hash, &made_for_hash, error));
    CLEAVE_TRY(cleave_json_integer(&batch, 0, INT64_MAX, &value, error));
    if (value != model->batch)
        return cleave_json_fail(&batch, error, "was made for batch %lld, but the batch is %lld",
                                (long long)value, (long long)model->batch);
    CLEAVE_TRY(cleave_json_integer(&graph, 0, INT64_MAX, &value, error));
    if (value != model->graph_version)
        return cleave_json_fail(&graph, error,
                                "was made with version %lld of the operators' fusing, but this is "
                                "version %d",
                                (long long)value, model->graph_version);
    if (strcmp(made_for_hash, model->hash) != 0)
        return cleave_json_fail(&hash, error,
                                "was made for another model: %.64s with hash %.40s, but %.64s has "
                                "hash %s",
                                made_for, made_for_hash, cleave_file_name(model->file),
                                model->hash);
    return CLEAVE_OK;
}

static cleave_status read_degrees(const cleave_json_cursor *at, const cleave_operator *op,
                                  cleave_split *split, cleave_error *error) {
    cleave_json_cursor degrees;
    CLEAVE_TRY(cleave_json_get(at, "split", &degrees, error));
    CLEAVE_TRY(cleave_json_expect_object(&degrees, error));
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split->degree[a] = 1;
    for (int32_t i = 0; i < cleave_json_count(&degrees); i++) {
        const char *name;
        cleave_json_cursor degree = cleave_json_member(&degrees, i, &name);
        int a = 0;
        while (a < op->n_axes && strcmp(op->axes[a].name, name) != 0)
            a++;
        if (a == op->n_axes)
            return cleave_json_fail(&degree, error, "operator \"%.128s\" has no axis \"%.64s\"",
                                    op->name, name);
        int64_t value;
        CLEAVE_TRY(cleave_json_integer(&degree, 1, INT32_MAX, &value, error));
        if (value > op->axes[a].extent)
            return cleave_json_fail(&degree, error, "degree %lld is above the axis's extent %lld",
                                    (long long)value, (long long)op->axes[a].extent);
        split->degree[a] = (int32_t)value;
    }
    return CLEAVE_OK;
}

static cleave_status read_devices(const cleave_json_cursor *at, const reader *in,
                                  cleave_split *split, cleave_error *error) {
    cleave_json_cursor devices;
    CLEAVE_TRY(cleave_json_get_array(at, "devices", &devices, error));
    split->n_parts = cleave_json_count(&devices);
    split->devices = CLEAVE_ARENA_ARRAY(in->arena, int32_t, split->n_parts);
    if (split->devices == NULL)
        return cleave_fail_memory(error, "reading a layout");
    for (int32_t p = 0; p < split->n_parts; p++) {
        cleave_json_cursor device = cleave_json_element(&devices, p);
        int64_t value;
        CLEAVE_TRY(cleave_json_integer(&device, 0, in->layout->n_devices - 1, &value, error));
        split->devices[p] = (int32_t)value;
    }
    return CLEAVE_OK;
}

static cleave_status read_operator(const cleave_json_cursor *at, const char *name, const reader *in,
                                   cleave_error *error) {
    static const char *const keys[] = {"split", "replicas", "devices", "recompute", "ring", NULL};
    int32_t op = cleave_model_find_operator(in->model, name);
    if (op < 0)
        return cleave_json_fail(at, error, "%.64s has no operator \"%.128s\"",
                                cleave_file_name(in->model->file), name);
    if (in->listed[op])
        return cleave_json_fail(at, error, "operator \"%.128s\" is listed twice", name);
    in->listed[op] = true;
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    cleave_split split = {.replicas = 1};
    CLEAVE_TRY(read_degrees(at, &in->model->operators[op], &split, error));
    cleave_json_cursor replicas;
    if (cleave_json_find(at, "replicas", &replicas)) {
        int64_t value;
        CLEAVE_TRY(cleave_json_integer(&replicas, 1, INT32_MAX, &value, error));
        split.replicas = (int32_t)value;
    }
    CLEAVE_TRY(read_devices(at, in, &split, error));
    cleave_json_cursor truth;
    if (cleave_json_find(at, "recompute", &truth))
        CLEAVE_TRY(cleave_json_truth(&truth, &in->layout->recompute[op], error));
    if (cleave_json_find(at, "ring", &truth))
        CLEAVE_TRY(cleave_json_truth(&truth, &split.ring, error));
    cleave_error reason = {{0}};
    cleave_status status =
        cleave_split_check(&in->model->operators[op], &split, in->layout->n_devices, &reason);
    if (status == CLEAVE_BAD_INPUT)
        return cleave_json_fail(at, error, "%s", reason.message);
    if (status != CLEAVE_OK)
        return cleave_fail(error, status, "%s", reason.message);
    in->layout->splits[op] = split;
    return CLEAVE_OK;
}

static cleave_status read_operators(const cleave_json_cursor *root, const reader *in,
                                    cleave_error *error) {
    cleave_json_cursor at;
    CLEAVE_TRY(cleave_json_get(root, "operators", &at, error));
    CLEAVE_TRY(cleave_json_expect_object(&at, error));
    for (int32_t i = 0; i < cleave_json_count(&at); i++) {
        const char *name;
        cleave_json_cursor member = cleave_json_member(&at, i, &name);
        CLEAVE_TRY(read_operator(&member, name, in, error));
    }
    for (int32_t op = 0; op < in->model->n_operators && !in->some; op++)
        if (!in->listed[op])
            return cleave_json_fail(&at, error, "operator \"%.128s\" of %.64s is missing",
                                    in->model->operators[op].name,
                                    cleave_file_name(in->model->file));
    return CLEAVE_OK;
}

/* How much of a parameter's state is sharded: the update, the gradient only with it, and the weight
   only with both. */
static cleave_status read_sharded(const cleave_json_cursor *at, uint8_t *sharded,
                                  cleave_error *error) {
    static const char *const keys[] = {"update", "gradient", "weight", NULL};
    static const char *const ways[] = {"replicated", "sharded"};
    cleave_json_cursor key;
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    CLEAVE_TRY(cleave_json_get(at, "update", &key, error));
    *sharded = CLEAVE_SHARDED_NOTHING;
    for (uint8_t what = CLEAVE_SHARDED_UPDATE; what < CLEAVE_N_SHARDED; what++) {
        int which = 0;
        if (!cleave_json_find(at, cleave_sharded_names[what], &key))
            continue;
        CLEAVE_TRY(cleave_json_word(&key, ways, 2, &which, error));
        if (which == 1 && *sharded + 1 != what)
            return cleave_json_fail(&key, error, "can't be sharded where the %s is not",
                                    cleave_sharded_names[what - 1]);
        *sharded = which == 1 ? what : *sharded;
    }
    return CLEAVE_OK;
}

static cleave_status read_parameters(const cleave_json_cursor *root, const reader *in,
                                     cleave_error *error) {
    cleave_json_cursor at;
    if (!cleave_json_find(root, "parameters", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_expect_object(&at, error));
    for (int32_t i = 0; i < cleave_json_count(&at); i++) {
        const char *name;
        cleave_json_cursor member = cleave_json_member(&at, i, &name);
        int32_t tensor = cleave_model_find_tensor(in->model, name);
        if (tensor < 0 || in->model->tensors[tensor].kind != CLEAVE_TENSOR_PARAMETER)
            return cleave_json_fail(&member, error, "%.64s has no parameter \"%.128s\"",
                                    cleave_file_name(in->model->file), name);
        CLEAVE_TRY(read_sharded(&member, &in->layout->sharded[tensor], error));
        in->listed_updates[tensor] = true;
    }
    return CLEAVE_OK;
}

/* An optional string that must fit its place in the layout. */
static cleave_status read_label(const cleave_json_cursor *root, const char *key, char *label,
                                size_t bytes, cleave_error *error) {
    cleave_json_cursor at;
    const char *text;
    if (!cleave_json_find(root, key, &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_string(&at, &text, error));
    if (strlen(text) >= bytes)
        return cleave_json_fail(&at, error, "\"%.64s...\" is longer than %zu bytes", text,
                                bytes - 1);
    strcpy(label, text);
    return CLEAVE_OK;
}

/* What a step of the layout is, where it is not training. */
static cleave_status read_step(const cleave_json_cursor *root, const cleave_model *model,
                               cleave_error *error) {
    cleave_json_cursor at;
    const char *step = "training";
    bool found = cleave_json_find(root, "step", &at);
    if (found)
        CLEAVE_TRY(cleave_json_string(&at, &step, error));
    bool forward = strcmp(step, "forward") == 0;
    if (!forward && strcmp(step, "training") != 0)
        return cleave_json_fail(&at, error, "a step is \"training\" or \"forward\", not \"%.64s\"",
                                step);
    if (forward == cleave_model_trains(model))
        return cleave_json_fail(found ? &at : root, error, "%s",
                                forward
                                    ? "was made for one pass forward (--forward), not for training"
                                    : "was made for training, not for one pass forward");
    return CLEAVE_OK;
}

static cleave_status read_head(const cleave_json_cursor *root, const cleave_model *model,
                               int64_t *n_devices, cleave_error *error) {
    static const char *const keys[] = {"cleave_layout", "model",      "machine",
                                       "devices",       "method",     "predicted_step_seconds",
                                       "operators",     "parameters", "collectives",
                                       "schedule",      "attention",  "training",
                                       "step",          NULL};
    cleave_json_cursor version, devices, operators;
    int64_t value;
    CLEAVE_TRY(cleave_json_get(root, "cleave_layout", &version, error));
    CLEAVE_TRY(cleave_json_integer(&version, 0, INT64_MAX, &value, error));
    if (value != CLEAVE_LAYOUT_VERSION)
        return cleave_json_fail(&version, error,
                                "version %lld of layout files is not known, only %d",
                                (long long)value, CLEAVE_LAYOUT_VERSION);
    CLEAVE_TRY(cleave_json_get(root, "devices", &devices, error));
    CLEAVE_TRY(cleave_json_expect_keys(root, keys, error));
    CLEAVE_TRY(cleave_json_get(root, "operators", &operators, error));
    CLEAVE_TRY(read_step(root, model, error));
    CLEAVE_TRY(read_model_of(root, model, error));
    return cleave_json_integer(&devices, 1, CLEAVE_MAX_DEVICES, n_devices, error);
}

static cleave_status read_attention(const cleave_json_cursor *root, bool *stores_scores,
                                    cleave_error *error) {
    cleave_json_cursor at;
    const char *text;
    if (!cleave_json_find(root, "attention", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_string(&at, &text, error));
    *stores_scores = strcmp(text, "stored") == 0;
    if (!*stores_scores && strcmp(text, "fused") != 0)
        return cleave_json_fail(&at, error, "attention is \"fused\" or \"stored\", not \"%.64s\"",
                                text);
    return CLEAVE_OK;
}

/* `listed` null: all operators have to be. */
static cleave_status read_layout(const cleave_json *document, const cleave_model *model,
                                 cleave_arena *arena, cleave_layout *layout,
                                 cleave_layout_listed *listed, cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document), predicted, collectives, schedule;
    int64_t n_devices;
    CLEAVE_TRY(read_head(&root, model, &n_devices, error));
    CLEAVE_TRY(cleave_training_read(&root, model, error));
    cleave_layout result;
    CLEAVE_TRY(cleave_layout_create(model, (int32_t)n_devices, arena, &result, error));
    CLEAVE_TRY(read_label(&root, "machine", result.machine, sizeof result.machine, error));
    CLEAVE_TRY(read_label(&root, "method", result.method, sizeof result.method, error));
    if (cleave_json_find(&root, "predicted_step_seconds", &predicted)) {
        CLEAVE_TRY(cleave_json_number(&predicted, &result.predicted_step_seconds, error));
        if (!(result.predicted_step_seconds >= 0))
            return cleave_json_fail(&predicted, error, "%g seconds are below 0",
                                    result.predicted_step_seconds);
    }
    CLEAVE_TRY(read_attention(&root, &result.stores_scores, error));
    reader in = {.model = model, .arena = arena, .layout = &result, .some = listed != NULL};
    in.listed = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
    in.listed_updates = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors);
    if (in.listed == NULL || in.listed_updates == NULL)
        return cleave_fail_memory(error, "reading a layout");
    CLEAVE_TRY(read_operators(&root, &in, error));
    CLEAVE_TRY(read_parameters(&root, &in, error));
    if (cleave_json_find(&root, "collectives", &collectives))
        CLEAVE_TRY(cleave_collective_rules_read(&collectives, arena, &result.collectives, error));
    if (cleave_json_find(&root, "schedule", &schedule))
        CLEAVE_TRY(cleave_schedule_read(&schedule, model, arena, &result.schedule, error));
    cleave_error why = {""};
    cleave_status status = cleave_layout_check(model, &result, &why);
    if (status == CLEAVE_BAD_INPUT)
        return cleave_json_fail(&root, error, "%s", why.message);
    if (status != CLEAVE_OK)
        return cleave_fail(error, status, "%s", why.message);
    *layout = result;
    if (listed != NULL)
        *listed = (cleave_layout_listed){in.listed, in.listed_updates};
    return CLEAVE_OK;
}

cleave_status cleave_layout_parse_some(const char *text, size_t bytes, const char *name,
                                       const cleave_model *model, cleave_arena *arena,
                                       cleave_layout *layout, cleave_layout_listed *listed,
                                       cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_parse(text, bytes, name, &document, error));
    cleave_status status = read_layout(document, model, arena, layout, listed, error);
    cleave_json_free(document);
    return status;
}

cleave_status cleave_layout_parse(const char *text, size_t bytes, const char *name,
                                  const cleave_model *model, cleave_arena *arena,
                                  cleave_layout *layout, cleave_error *error) {
    return cleave_layout_parse_some(text, bytes, name, model, arena, layout, NULL, error);
}

cleave_status cleave_layout_read(const char *path, const cleave_model *model, cleave_arena *arena,
                                 cleave_layout *layout, cleave_error *error) {
    cleave_json *document;
    CLEAVE_TRY(cleave_json_read(path, &document, error));
    cleave_status status = read_layout(document, model, arena, layout, NULL, error);
    cleave_json_free(document);
    return status;
}
