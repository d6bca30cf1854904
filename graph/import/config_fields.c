/* Reads the fields of a configuration by the table of its family. */
#include "graph/import/config_fields.h"

#include <string.h>

/* What changes neither what is computed nor how it is trained: tokens with a meaning for texts,
   how values were drawn or are stored, what other libraries do when they generate or classify. */
static const char *const harmless[] = {"_attn_implementation",
                                       "_attn_implementation_autoset",
                                       "_name_or_path",
                                       "architectures",
                                       "attn_implementation",
                                       "bos_token_id",
                                       "classifier_dropout",
                                       "cls_token_id",
                                       "decoder_start_token_id",
                                       "dtype",
                                       "encoder_stride",
                                       "eos_token_id",
                                       "finetuning_task",
                                       "gradient_checkpointing",
                                       "id2label",
                                       "initializer_factor",
                                       "initializer_range",
                                       "keys_to_ignore_at_inference",
                                       "label2id",
                                       "mask_token_id",
                                       "max_length",
                                       "model_type",
                                       "n_ctx",
                                       "n_positions",
                                       "num_labels",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_past",
                                       "pad_token_id",
                                       "pooler_act",
                                       "pooler_output_size",
                                       "prefix",
                                       "pretraining_tp",
                                       "problem_type",
                                       "reorder_and_upcast_attn",
                                       "return_dict",
                                       "sep_token_id",
                                       "summary_activation",
                                       "summary_first_dropout",
                                       "summary_proj_to_labels",
                                       "summary_type",
                                       "summary_use_proj",
                                       "task_specific_params",
                                       "torch_dtype",
                                       "transformers_version",
                                       "use_cache"};

static const struct {
    const char *name, *why;
} refused[] = {
    {"auto_map", "it names code that comes with the model, which is not executed"},
    {"quantization_config", "quantised weights are not supported"},
    {"text_config", "models of several parts are not supported"},
    {"vision_config", "models of several parts are not supported"},
    {"audio_config", "models of several parts are not supported"},
};

static const cleave_field *find_field(const cleave_field *fields, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
    return NULL;
}

static bool is_harmless(const char *name) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return false;
}

static cleave_status check_names(const cleave_json_cursor *root, const char *model_type,
                                 const cleave_field *fields, int n_fields, cleave_error *error) {
    for (int32_t i = 0; i < cleave_json_count(root); i++) {
        const char *name;
        cleave_json_cursor at = cleave_json_member(root, i, &name);
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
            if (strcmp(refused[k].name, name) == 0)
                return cleave_json_fail(&at, error, "%s", refused[k].why);
        if (find_field(fields, n_fields, name) == NULL && !is_harmless(name))
            return cleave_json_fail(&at, error,
                                    "is no field that is known of model_type %s, and may change "
                                    "the model",
                                    model_type);
    }
    return CLEAVE_OK;
}

/* ---- values ---------------------------------------------------------------------------------- */

static cleave_status read_square(const cleave_json_cursor *at, int64_t *value,
                                 cleave_error *error) {
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, value, error);
    int64_t sides[2];
    if (cleave_json_count(at) != 2)
        return cleave_json_fail(at, error, "has %d numbers, it has to have two",
                                (int)cleave_json_count(at));
    for (int i = 0; i < 2; i++) {
        cleave_json_cursor side = cleave_json_element(at, i);
        CLEAVE_TRY(cleave_json_integer(&side, 1, CLEAVE_MOST_EXTENT, &sides[i], error));
    }
    if (sides[0] != sides[1])
        return cleave_json_fail(at, error, "%lld x %lld is no square, others are not supported",
                                (long long)sides[0], (long long)sides[1]);
    *value = sides[0];
    return CLEAVE_OK;
}

static cleave_status read_function(const cleave_json_cursor *at, bool may_be_gated,
                                   const char **value, cleave_arena *arena, cleave_error *error) {
    static const char gated[] = "gated-";
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, error));
    bool has_gate = may_be_gated && strncmp(name, gated, sizeof gated - 1) == 0;
    if (cleave_activation_find(name + (has_gate ? sizeof gated - 1 : 0)) == NULL)
        return cleave_json_fail(at, error, "\"%.64s\" is no function that is supported", name);
    *value = cleave_arena_string(arena, name);
    return *value != NULL ? CLEAVE_OK : cleave_fail_memory(error, "reading a configuration");
}

static cleave_status read_layers(const cleave_json_cursor *at, cleave_layer_types *types,
                                 cleave_arena *arena, cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    int32_t n = cleave_json_count(at);
    if (n > CLEAVE_MOST_LAYERS)
        return cleave_json_fail(at, error, "%d layers are more than %d", (int)n,
                                CLEAVE_MOST_LAYERS);
    bool *list = CLEAVE_ARENA_ARRAY(arena, bool, n);
    if (list == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        const char *type;
        CLEAVE_TRY(cleave_json_string(&element, &type, error));
        list[i] = strcmp(type, "sliding_attention") == 0;
        if (!list[i] && strcmp(type, "full_attention") != 0)
            return cleave_json_fail(&element, error,
                                    "\"%.64s\" is not supported, but full_attention and "
                                    "sliding_attention",
                                    type);
    }
    *types = (cleave_layer_types){n, list};
    return CLEAVE_OK;
}

static cleave_status read_number(const cleave_json_cursor *at, bool is_rate, double *value,
                                 cleave_error *error) {
    CLEAVE_TRY(cleave_json_number(at, value, error));
    if (is_rate ? !(*value >= 0 && *value < 1) : !(*value > 0 && *value < 1e30))
        return cleave_json_fail(at, error, is_rate ? "%g is not in [0, 1)" : "%g is not above 0",
                                *value);
    return CLEAVE_OK;
}

/* What is not supported has to be off. */
static cleave_status check_fixed(const cleave_json_cursor *at, const cleave_field *field,
                                 cleave_error *error) {
    const char *text;
    bool is_on;
    if (field->kind == CLEAVE_FIELD_NOT) {
        CLEAVE_TRY(cleave_json_boolean(at, &is_on, error));
        return is_on ? cleave_json_fail(at, error, "is true, which is not supported") : CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    if (strcmp(text, field->text) != 0)
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but \"%s\"", text,
                                field->text);
    return CLEAVE_OK;
}

static cleave_status read_field(const cleave_json_cursor *at, const cleave_field *field,
                                cleave_arena *arena, void *member, cleave_error *error) {
    int64_t least = field->kind == CLEAVE_FIELD_EXTENT ? 1 : 0;
    switch (field->kind) {
    case CLEAVE_FIELD_EXTENT:
    case CLEAVE_FIELD_COUNT:
        return cleave_json_integer(at, least, CLEAVE_MOST_EXTENT, member, error);
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_RATE:
        return read_number(at, field->kind == CLEAVE_FIELD_RATE, member, error);
    case CLEAVE_FIELD_FLAG:
        return cleave_json_boolean(at, member, error);
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
        return check_fixed(at, field, error);
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        return read_function(at, field->kind == CLEAVE_FIELD_GATED, member, arena, error);
    case CLEAVE_FIELD_SQUARE:
        return read_square(at, member, error);
    case CLEAVE_FIELD_ROTARY:
        return cleave_rotary_read(at, member, error);
    case CLEAVE_FIELD_LAYERS:
        return read_layers(at, member, arena, error);
    case CLEAVE_FIELD_LABELS:
        CLEAVE_TRY(cleave_json_expect_object(at, error));
        *(int64_t *)member = cleave_json_count(at);
        return CLEAVE_OK;
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void set_standard(const cleave_field *field, void *member) {
    switch (field->kind) {
    case CLEAVE_FIELD_EXTENT:
    case CLEAVE_FIELD_COUNT:
    case CLEAVE_FIELD_SQUARE:
    case CLEAVE_FIELD_LABELS:
        *(int64_t *)member = (int64_t)field->standard;
        break;
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_RATE:
        *(double *)member = field->standard;
        break;
    case CLEAVE_FIELD_FLAG:
        *(bool *)member = field->standard > 0;
        break;
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        *(const char **)member = field->text;
        break;
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
    case CLEAVE_FIELD_ROTARY:
    case CLEAVE_FIELD_LAYERS:
        break;
    }
}

/* Another row of the same member that the file has; -1: none. */
static int other_row(const cleave_json_cursor *root, const cleave_field *fields, int n, int i) {
    cleave_json_cursor at;
    for (int k = 0; k < n; k++)
        if (k != i && fields[k].offset == fields[i].offset && fields[k].kind == fields[i].kind &&
            cleave_json_find(root, fields[k].name, &at) &&
            cleave_json_type_of(&at) != CLEAVE_JSON_NULL)
            return k;
    return -1;
}

/* Reads row i, which the file has.  Two names of a member have to agree. */
static cleave_status read_row(const cleave_json_cursor *root, const cleave_json_cursor *at,
                              const cleave_field *fields, int n, int i, cleave_arena *arena,
                              cleave_config *config, cleave_error *error) {
    const cleave_field *field = &fields[i];
    void *member = (char *)config + field->offset;
    bool fixed = field->kind == CLEAVE_FIELD_NOT || field->kind == CLEAVE_FIELD_IS;
    int other = fixed ? -1 : other_row(root, fields, n, i);
    cleave_config before;
    memcpy(&before, config, sizeof before);
    CLEAVE_TRY(read_field(at, field, arena, member, error));
    if (other >= 0 && other < i && memcmp(&before, config, sizeof before) != 0)
        return cleave_json_fail(at, error, "says something else than %s", fields[other].name);
    return CLEAVE_OK;
}

cleave_status cleave_config_read(const cleave_json_cursor *root, const char *model_type,
                                 const cleave_field *fields, int n_fields, cleave_arena *arena,
                                 cleave_config *config, cleave_error *error) {
    CLEAVE_TRY(check_names(root, model_type, fields, n_fields, error));
    for (int i = 0; i < n_fields; i++)
        set_standard(&fields[i], (char *)config + fields[i].offset);
    for (int i = 0; i < n_fields; i++) {
        const cleave_field *field = &fields[i];
        cleave_json_cursor at;
        bool given = cleave_json_find(root, field->name, &at);
        if (given && cleave_json_type_of(&at) != CLEAVE_JSON_NULL)
            CLEAVE_TRY(read_row(root, &at, fields, n_fields, i, arena, config, error));
        else if (given && field->kind == CLEAVE_FIELD_COUNT)
            *(int64_t *)((char *)config + field->offset) = 0;
        else if (field->required && other_row(root, fields, n_fields, i) < 0)
            return cleave_json_fail(root, error, "has no %s", field->name);
    }
    return CLEAVE_OK;
}
