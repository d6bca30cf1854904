/* Reads the fields of a configuration by the table of its family. */
#include "graph/import/config/field_values.h"

#include <string.h>

/* What changes neither what is computed nor how it is trained: tokens with a meaning for texts,
   how values were drawn or are stored, what other libraries do when they generate or classify, and
   code of a model's own, in place of which stand the framework's classes of its model_type. */
static const char *const harmless[] = {"_attn_implementation",
                                       "_attn_implementation_autoset",
                                       "_name_or_path",
                                       "_num_labels",
                                       "architectures",
                                       "attention_softmax_in_fp32",
                                       "attn_implementation",
                                       "auto_map",
                                       "aux_loss_alpha",
                                       "bad_words_ids",
                                       "begin_suppress_tokens",
                                       "bias_dropout_fusion",
                                       "bos_token_id",
                                       "cache_implementation",
                                       "chunk_size_feed_forward",
                                       "classifier_dropout",
                                       "cls_token_id",
                                       "decoder_start_token_id",
                                       "dense_act_fn",
                                       "diversity_penalty",
                                       "do_sample",
                                       "dtype",
                                       "early_stopping",
                                       "encoder_no_repeat_ngram_size",
                                       "encoder_stride",
                                       "eos_token_id",
                                       "ep_size",
                                       "exponential_decay_length_penalty",
                                       "finetuning_task",
                                       "forced_bos_token_id",
                                       "forced_decoder_ids",
                                       "forced_eos_token_id",
                                       "gradient_checkpointing",
                                       "id2label",
                                       "init_std",
                                       "initializer_factor",
                                       "initializer_range",
                                       "is_gated_act",
                                       "is_llama_config",
                                       "keys_to_ignore_at_inference",
                                       "label2id",
                                       "length_penalty",
                                       "mask_token_id",
                                       "masked_softmax_fusion",
                                       "max_length",
                                       "min_length",
                                       "model_type",
                                       "n_ctx",
                                       "n_positions",
                                       "no_repeat_ngram_size",
                                       "num_beam_groups",
                                       "num_beams",
                                       "num_labels",
                                       "num_nextn_predict_layers",
                                       "num_return_sequences",
                                       "offset_alibi",
                                       "output_attentions",
                                       "output_hidden_states",
                                       "output_past",
                                       "output_scores",
                                       "pad_token_id",
                                       "pooler_act",
                                       "pooler_output_size",
                                       "prefix",
                                       "pretraining_tp",
                                       "problem_type",
                                       "qa_dropout",
                                       "remove_invalid_values",
                                       "reorder_and_upcast_attn",
                                       "repetition_penalty",
                                       "return_dict",
                                       "return_dict_in_generate",
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
                                       "suppress_tokens",
                                       "task_specific_params",
                                       "temperature",
                                       "tf_legacy_loss",
                                       "tokenizer_class",
                                       "top_k",
                                       "top_p",
                                       "torch_dtype",
                                       "torchscript",
                                       "transformers_version",
                                       "typical_p",
                                       "unk_token_id",
                                       "use_bfloat16",
                                       "use_cache"};

static const struct {
    const char *name, *why;
} refused[] = {
    {"quantization_config", "quantised weights are not supported; without the field the model is "
                            "planned as it trains, in what --precision says"},
    {"text_config", "models of several parts are not supported"},
    {"vision_config", "models of several parts are not supported"},
    {"audio_config", "models of several parts are not supported"},
};

/* What any configuration of the framework may have, and switches on what no family here has. */
static const cleave_field switches[] = {
    {.name = "add_cross_attention", .kind = CLEAVE_FIELD_NOT},
    {.name = "cross_attention_hidden_size", .kind = CLEAVE_FIELD_EMPTY},
    {.name = "is_decoder", .kind = CLEAVE_FIELD_NOT},
    {.name = "is_encoder_decoder", .kind = CLEAVE_FIELD_NOT},
    {.name = "pruned_heads", .kind = CLEAVE_FIELD_EMPTY},
    {.name = "tie_encoder_decoder", .kind = CLEAVE_FIELD_NOT},
};

static const cleave_field *find_switch(const char *name) {
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        if (strcmp(switches[i].name, name) == 0)
            return &switches[i];
    return NULL;
}

/* The field of a member `name` of the object `inside`; of the file itself: "". */
static bool is_field(const cleave_family *family, const char *inside, const char *name) {
    size_t n = strlen(inside);
    for (size_t i = 0; i < family->fields->n; i++) {
        const char *field = family->fields->rows[i].name;
        bool is_inside = n == 0 || (strncmp(field, inside, n) == 0 && field[n] == '.');
        if (is_inside && strcmp(field + (n > 0 ? n + 1 : 0), name) == 0)
            return true;
    }
    return false;
}

/* Has a family fields inside of an object of this name? */
static bool is_object(const cleave_family *family, const char *name) {
    size_t n = strlen(name);
    for (size_t i = 0; i < family->fields->n; i++)
        if (strncmp(family->fields->rows[i].name, name, n) == 0 &&
            family->fields->rows[i].name[n] == '.')
            return true;
    return false;
}

/* A field by its name, which is OBJECT.MEMBER where it is inside of one. */
static bool find_field(const cleave_json_cursor *root, const char *name, cleave_json_cursor *at) {
    char object[64];
    const char *dot = strchr(name, '.');
    size_t n = dot != NULL ? (size_t)(dot - name) : 0;
    if (dot == NULL || n >= sizeof object)
        return cleave_json_find(root, name, at);
    memcpy(object, name, n);
    object[n] = '\0';
    cleave_json_cursor of;
    return cleave_json_find(root, object, &of) && cleave_json_type_of(&of) == CLEAVE_JSON_OBJECT &&
           cleave_json_find(&of, dot + 1, at);
}

static bool is_harmless(const char *name) {
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strcmp(harmless[i], name) == 0)
            return true;
    return false;
}

static cleave_status check_name(const cleave_json_cursor *at, const char *inside, const char *name,
                                const cleave_family *family, cleave_error *error) {
    if (cleave_json_type_of(at) == CLEAVE_JSON_NULL)
        return CLEAVE_OK; /* says nothing; what a family has of it is for its row to say */
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++)
        if (strcmp(refused[k].name, name) == 0)
            return cleave_json_fail(at, error, "%s", refused[k].why);
    const cleave_field *of_all = find_switch(name);
    if (of_all != NULL && !is_field(family, inside, name))
        return cleave_field_read(at, of_all, NULL, NULL, error);
    return is_field(family, inside, name) || is_harmless(name)
               ? CLEAVE_OK
               : cleave_json_fail(at, error,
                                  "is no field that is known of model_type %s, and may change "
                                  "the model",
                                  family->model_type);
}

static cleave_status check_names(const cleave_json_cursor *root, const cleave_family *family,
                                 cleave_error *error) {
    for (int32_t i = 0; i < cleave_json_count(root); i++) {
        const char *name, *member;
        cleave_json_cursor at = cleave_json_member(root, i, &name);
        if (!is_object(family, name)) {
            CLEAVE_TRY(check_name(&at, "", name, family, error));
            continue;
        }
        if (cleave_json_type_of(&at) == CLEAVE_JSON_NULL)
            continue;
        CLEAVE_TRY(cleave_json_expect_object(&at, error));
        for (int32_t k = 0; k < cleave_json_count(&at); k++) {
            cleave_json_cursor inner = cleave_json_member(&at, k, &member);
            CLEAVE_TRY(check_name(&inner, name, member, family, error));
        }
    }
    return CLEAVE_OK;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Another row of the same member that the file has; -1: none. */
static int other_row(const cleave_json_cursor *root, const cleave_family *family, int i) {
    const cleave_field *rows = family->fields->rows;
    cleave_json_cursor at;
    for (int k = 0; k < (int)family->fields->n; k++)
        if (k != i && rows[k].offset == rows[i].offset && rows[k].kind == rows[i].kind &&
            find_field(root, rows[k].name, &at) && cleave_json_type_of(&at) != CLEAVE_JSON_NULL)
            return k;
    return -1;
}

/* Null of what can follow from other members asks for that, whatever is left out stands for. */
static bool is_open(const cleave_field *field) {
    const bool follows = field->offset == offsetof(cleave_config, kv_heads) ||
                         field->offset == offsetof(cleave_config, head);
    return field->kind == CLEAVE_FIELD_COUNT || (field->kind == CLEAVE_FIELD_EXTENT && follows);
}

/* Reads row i.  Two names of a member have to agree. */
static cleave_status read_row(const cleave_json_cursor *root, const cleave_family *family, int i,
                              cleave_arena *arena, cleave_config *config, cleave_error *error) {
    const cleave_field *field = &family->fields->rows[i];
    void *member = (char *)config + field->offset;
    int other = cleave_field_has_member(field) ? other_row(root, family, i) : -1;
    cleave_json_cursor at;
    bool is_given = find_field(root, field->name, &at);
    if (!is_given || cleave_json_type_of(&at) == CLEAVE_JSON_NULL) {
        if (is_given && other < 0 && is_open(field))
            *(int64_t *)member = 0;
        if (is_given && field->kind == CLEAVE_FIELD_CAP)
            *(double *)member = 0;
        return field->required && other < 0
                   ? cleave_json_fail(root, error, "has no %s", field->name)
                   : CLEAVE_OK;
    }
    cleave_config before;
    memcpy(&before, config, sizeof before);
    CLEAVE_TRY(cleave_field_read(&at, field, arena, member, error));
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
        cleave_field_set_standard(&rows[i], (char *)config + rows[i].offset);
    for (int i = 0; i < (int)family->fields->n; i++)
        CLEAVE_TRY(read_row(root, family, i, arena, config, error));
    return CLEAVE_OK;
}
