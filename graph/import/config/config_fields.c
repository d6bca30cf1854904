/* Reads the fields of a configuration by the table of its family. */
#include "graph/import/config/config_fields.h"

#include <string.h>

/* What changes neither what is computed nor how it is trained: tokens with a meaning for texts,
   how values were drawn or are stored, what other libraries do when they generate or classify, and
   code of a model's own, in place of which stand the framework's classes of its model_type. */
static const char *const harmless[] = {"_attn_implementation",
                                       "_attn_implementation_autoset",
                                       "_name_or_path",
                                       "architectures",
                                       "attn_implementation",
                                       "attention_softmax_in_fp32",
                                       "auto_map",
                                       "aux_loss_alpha",
                                       "bias_dropout_fusion",
                                       "bos_token_id",
                                       "cache_implementation",
                                       "chunk_size_feed_forward",
                                       "classifier_dropout",
                                       "cls_token_id",
                                       "decoder_start_token_id",
                                       "dense_act_fn",
                                       "dtype",
                                       "encoder_stride",
                                       "eos_token_id",
                                       "ep_size",
                                       "finetuning_task",
                                       "gradient_checkpointing",
                                       "id2label",
                                       "init_std",
                                       "initializer_factor",
                                       "initializer_range",
                                       "is_gated_act",
                                       "is_llama_config",
                                       "keys_to_ignore_at_inference",
                                       "label2id",
                                       "mask_token_id",
                                       "masked_softmax_fusion",
                                       "max_length",
                                       "model_type",
                                       "n_ctx",
                                       "n_positions",
                                       "num_labels",
                                       "num_nextn_predict_layers",
                                       "offset_alibi",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_past",
                                       "pad_token_id",
                                       "pooler_act",
                                       "pooler_output_size",
                                       "prefix",
                                       "pretraining_tp",
                                       "problem_type",
                                       "qa_dropout",
                                       "reorder_and_upcast_attn",
                                       "return_dict",
                                       "router_aux_loss_coef",
                                       "sep_token_id",
                                       "seq_aux",
                                       "seq_classif_dropout",
                                       "skip_bias_add",
                                       "skip_bias_add_qkv",
                                       "summary_activation",
                                       "summary_first_dropout",
                                       "summary_proj_to_labels",
                                       "summary_type",
                                       "summary_use_proj",
                                       "task_specific_params",
                                       "torch_dtype",
                                       "transformers_version",
                                       "unk_token_id",
                                       "use_cache"};

static const struct {
    const char *name, *why;
} refused[] = {
    {"quantization_config", "quantised weights are not supported"},
    {"text_config", "models of several parts are not supported"},
    {"vision_config", "models of several parts are not supported"},
    {"audio_config", "models of several parts are not supported"},
};

static bool is_field(const cleave_family *family, const char *name) {
    for (size_t i = 0; i < family->fields->n; i++)
        if (strcmp(family->fields->rows[i].name, name) == 0)
            return true;
    return false;
}

static bool is_harmless(const char *name) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return false;
}

static cleave_status check_names(const cleave_json_cursor *root, const cleave_family *family,
                                 cleave_error *error) {
    for (int32_t i = 0; i < cleave_json_count(root); i++) {
        const char *name;
        cleave_json_cursor at = cleave_json_member(root, i, &name);
        for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
            if (strcmp(refused[k].name, name) == 0)
                return cleave_json_fail(&at, error, "%s", refused[k].why);
        if (!is_field(family, name) && !is_harmless(name))
            return cleave_json_fail(&at, error,
                                    "is no field that is known of model_type %s, and may change "
                                    "the model",
                                    family->model_type);
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

static cleave_status read_period(const cleave_json_cursor *at, int64_t *value,
                                 cleave_error *error) {
    const char *text;
    if (cleave_json_type_of(at) != CLEAVE_JSON_STRING)
        return cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, value, error);
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    size_t alike = strspn(text, "L");
    if (alike == 0 || strcmp(text + alike, "G") != 0)
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but such as LLLG", text);
    *value = (int64_t)alike + 1;
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

static cleave_status read_layer_type(const cleave_json_cursor *at, bool *has, cleave_error *error) {
    const char *type;
    CLEAVE_TRY(cleave_json_string(at, &type, error));
    *has = strcmp(type, "sliding_attention") == 0;
    if (!*has && strcmp(type, "full_attention") != 0)
        return cleave_json_fail(at, error,
                                "\"%.64s\" is not supported, but full_attention and "
                                "sliding_attention",
                                type);
    return CLEAVE_OK;
}

static cleave_status read_switch(const cleave_json_cursor *at, bool *has, cleave_error *error) {
    int64_t value;
    CLEAVE_TRY(cleave_json_integer(at, 0, 1, &value, error));
    *has = value != 0;
    return CLEAVE_OK;
}

static cleave_status
read_layers(const cleave_json_cursor *at,
            cleave_status (*read)(const cleave_json_cursor *at, bool *has, cleave_error *error),
            cleave_of_layers *of_layers, cleave_arena *arena, cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    int32_t n = cleave_json_count(at);
    if (n > CLEAVE_MOST_LAYERS)
        return cleave_json_fail(at, error, "%d layers are more than %d", (int)n,
                                CLEAVE_MOST_LAYERS);
    bool *has = CLEAVE_ARENA_ARRAY(arena, bool, n);
    if (has == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read(&element, &has[i], error));
    }
    *of_layers = (cleave_of_layers){n, has};
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

static cleave_status read_rotaries(const cleave_json_cursor *at, cleave_rotary rotary[2],
                                   cleave_error *error) {
    static const char *const keys[] = {"full_attention", "sliding_attention", NULL};
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    for (int i = 0; keys[i] != NULL; i++) {
        cleave_json_cursor of;
        if (cleave_json_find(at, keys[i], &of))
            CLEAVE_TRY(cleave_rotary_read(&of, &rotary[i], error));
    }
    return CLEAVE_OK;
}

/* What is not supported has to be off. */
static cleave_status check_fixed(const cleave_json_cursor *at, const cleave_field *field,
                                 cleave_error *error) {
    const char *text;
    bool is_on;
    if (field->kind != CLEAVE_FIELD_IS) {
        bool wanted = field->kind == CLEAVE_FIELD_YES;
        CLEAVE_TRY(cleave_json_truth(at, &is_on, error));
        return is_on == wanted ? CLEAVE_OK
                               : cleave_json_fail(at, error, "is %s, which is not supported",
                                                  is_on ? "true" : "false");
    }
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    if (strcmp(text, field->text) != 0)
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but \"%s\"", text,
                                field->text);
    return CLEAVE_OK;
}

static cleave_status read_either(const cleave_json_cursor *at, const char *texts, bool *is_second,
                                 cleave_error *error) {
    const char *second = strchr(texts, ' ') + 1, *text;
    size_t n = (size_t)(second - texts) - 1;
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    *is_second = strcmp(text, second) == 0;
    if (!*is_second && (strlen(text) != n || strncmp(text, texts, n) != 0))
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but %.*s and %s", text,
                                (int)n, texts, second);
    return CLEAVE_OK;
}

static cleave_status check_zero(const cleave_json_cursor *at, cleave_error *error) {
    double value;
    CLEAVE_TRY(cleave_json_number(at, &value, error));
    return value == 0 ? CLEAVE_OK
                      : cleave_json_fail(at, error, "%g is not supported, but 0", value);
}

static cleave_status read_field(const cleave_json_cursor *at, const cleave_field *field,
                                cleave_arena *arena, void *member, cleave_error *error) {
    int64_t least = field->kind == CLEAVE_FIELD_EXTENT ? 1
                    : field->kind == CLEAVE_FIELD_LAST ? -1
                                                       : 0;
    switch (field->kind) {
    case CLEAVE_FIELD_EXTENT:
    case CLEAVE_FIELD_COUNT:
    case CLEAVE_FIELD_LAST:
        return cleave_json_integer(at, least, CLEAVE_MOST_EXTENT, member, error);
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_CAP:
    case CLEAVE_FIELD_RATE:
        return read_number(at, field->kind == CLEAVE_FIELD_RATE, member, error);
    case CLEAVE_FIELD_FLAG:
        return cleave_json_truth(at, member, error);
    case CLEAVE_FIELD_YES:
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
        return check_fixed(at, field, error);
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        return read_function(at, field->kind == CLEAVE_FIELD_GATED, member, arena, error);
    case CLEAVE_FIELD_EITHER:
        return read_either(at, field->text, member, error);
    case CLEAVE_FIELD_SQUARE:
        return read_square(at, member, error);
    case CLEAVE_FIELD_PERIOD:
        return read_period(at, member, error);
    case CLEAVE_FIELD_ROTARY:
        return cleave_rotary_read(at, member, error);
    case CLEAVE_FIELD_ROTARIES:
        return read_rotaries(at, member, error);
    case CLEAVE_FIELD_LAYERS:
        return read_layers(at, read_layer_type, member, arena, error);
    case CLEAVE_FIELD_SWITCHES:
        return read_layers(at, read_switch, member, arena, error);
    case CLEAVE_FIELD_EMPTY:
        CLEAVE_TRY(cleave_json_expect_array(at, error));
        return cleave_json_count(at) == 0
                   ? CLEAVE_OK
                   : cleave_json_fail(at, error, "is not empty, which is not supported");
    case CLEAVE_FIELD_ZERO:
        return check_zero(at, error);
    case CLEAVE_FIELD_ONE:
        CLEAVE_TRY(cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, member, error));
        return *(int64_t *)member == 1 ? CLEAVE_OK
                                       : cleave_json_fail(at, error, "%lld is not supported, but 1",
                                                          (long long)*(int64_t *)member);
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
    case CLEAVE_FIELD_LAST:
    case CLEAVE_FIELD_ONE:
    case CLEAVE_FIELD_SQUARE:
    case CLEAVE_FIELD_PERIOD:
    case CLEAVE_FIELD_LABELS:
        *(int64_t *)member = (int64_t)field->standard;
        break;
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_CAP:
    case CLEAVE_FIELD_RATE:
        *(double *)member = field->standard;
        break;
    case CLEAVE_FIELD_FLAG:
    case CLEAVE_FIELD_EITHER:
        *(bool *)member = field->standard > 0;
        break;
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        *(const char **)member = field->text;
        break;
    case CLEAVE_FIELD_YES:
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
    case CLEAVE_FIELD_ROTARY:
    case CLEAVE_FIELD_ROTARIES:
    case CLEAVE_FIELD_LAYERS:
    case CLEAVE_FIELD_SWITCHES:
    case CLEAVE_FIELD_EMPTY:
    case CLEAVE_FIELD_ZERO:
        break;
    }
}

/* Another row of the same member that the file has; -1: none. */
static int other_row(const cleave_json_cursor *root, const cleave_family *family, int i) {
    const cleave_field *rows = family->fields->rows;
    cleave_json_cursor at;
    for (int k = 0; k < (int)family->fields->n; k++)
        if (k != i && rows[k].offset == rows[i].offset && rows[k].kind == rows[i].kind &&
            cleave_json_find(root, rows[k].name, &at) &&
            cleave_json_type_of(&at) != CLEAVE_JSON_NULL)
            return k;
    return -1;
}

/* Does a row have a member of the configuration? */
static bool has_member(const cleave_field *field) {
    return field->kind != CLEAVE_FIELD_YES && field->kind != CLEAVE_FIELD_NOT &&
           field->kind != CLEAVE_FIELD_IS && field->kind != CLEAVE_FIELD_EMPTY &&
           field->kind != CLEAVE_FIELD_ZERO;
}

/* Reads row i.  Two names of a member have to agree. */
static cleave_status read_row(const cleave_json_cursor *root, const cleave_family *family, int i,
                              cleave_arena *arena, cleave_config *config, cleave_error *error) {
    const cleave_field *field = &family->fields->rows[i];
    void *member = (char *)config + field->offset;
    int other = has_member(field) ? other_row(root, family, i) : -1;
    cleave_json_cursor at;
    bool is_given = cleave_json_find(root, field->name, &at);
    if (!is_given || cleave_json_type_of(&at) == CLEAVE_JSON_NULL) {
        if (is_given && field->kind == CLEAVE_FIELD_COUNT)
            *(int64_t *)member = 0;
        if (is_given && field->kind == CLEAVE_FIELD_CAP)
            *(double *)member = 0;
        return field->required && other < 0
                   ? cleave_json_fail(root, error, "has no %s", field->name)
                   : CLEAVE_OK;
    }
    cleave_config before;
    memcpy(&before, config, sizeof before);
    CLEAVE_TRY(read_field(&at, field, arena, member, error));
    if (other >= 0 && other < i && memcmp(&before, config, sizeof before) != 0)
        return cleave_json_fail(&at, error, "says something else than %s",
                                family->fields->rows[other].name);
    return CLEAVE_OK;
}

cleave_status cleave_config_read(const cleave_json_cursor *root, const cleave_family *family,
                                 cleave_arena *arena, cleave_config *config, cleave_error *error) {
    CLEAVE_TRY(check_names(root, family, error));
    const cleave_field *rows = family->fields->rows;
    for (size_t i = 0; i < family->fields->n; i++)
        set_standard(&rows[i], (char *)config + rows[i].offset);
    for (int i = 0; i < (int)family->fields->n; i++)
        CLEAVE_TRY(read_row(root, family, i, arena, config, error));
    return CLEAVE_OK;
}
