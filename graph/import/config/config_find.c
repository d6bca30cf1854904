/* Which family a configuration is of, and what is said of one that is of none. */
#include "base/nearest_word.h"
#include "graph/import/config/config_fields.h"

#include <stdio.h>
#include <string.h>

/* Families that are much used, and what they have that no family here has. */
static const struct {
    const char *model_type, *what;
} unsupported[] = {
    {"bailing_hybrid", "linear attention"},
    {"bamba", "state-space layers"},
    {"beit", "biases of scores by how far apart two patches are along both sides"},
    {"big_bird", "attention to blocks of keys, of which some are drawn at random"},
    {"bitnet", "weights that are rounded to three values"},
    {"clip",
     "similarities over the batch; its towers alone are clip_text_model and clip_vision_model"},
    {"convnext", "convolutions of images: such models are taken as ONNX files"},
    {"convnextv2", "convolutions of images: such models are taken as ONNX files"},
    {"deberta", "queries, keys and values in one weight whose biases are not"},
    {"deepseek_v32", "attention to keys that an indexer chooses"},
    {"deepseek_v4", "attention to keys that an indexer chooses"},
    {"dinov3_vit", "rotary positions that are drawn at random in training"},
    {"efficientnet", "convolutions of images: such models are taken as ONNX files"},
    {"falcon_h1", "state-space layers"},
    {"falcon_mamba", "state-space layers"},
    {"gemma3", "several parts; its texts alone are gemma3_text"},
    {"gemma3n", "layers that predict each other's input, and embeddings of each layer"},
    {"gemma3n_text", "layers that predict each other's input, and embeddings of each layer"},
    {"gemma4", "several parts"},
    {"gemma4_text", "embeddings of each layer, and layers that share keys"},
    {"glm_moe_dsa", "attention to keys that an indexer chooses"},
    {"hubert", "sounds as waves, which convolutions cut"},
    {"jamba", "state-space layers"},
    {"kimi_linear", "linear attention"},
    {"led", "global and local attention of one layer"},
    {"llama4", "several parts; its texts alone are llama4_text"},
    {"longcat_flash", "two attentions in a layer, and experts that do nothing"},
    {"longformer", "global and local attention of one layer"},
    {"mamba", "state-space layers"},
    {"mamba2", "state-space layers"},
    {"minimax", "linear attention"},
    {"mistral3", "several parts"},
    {"mllama", "texts that attend to images in some layers"},
    {"mobilenet_v1", "convolutions of images: such models are taken as ONNX files"},
    {"mobilenet_v2", "convolutions of images: such models are taken as ONNX files"},
    {"nemotron_h", "state-space layers"},
    {"olmo_hybrid", "linear attention"},
    {"phimoe", "a router that draws experts at random in training"},
    {"qwen2_5_vl", "several parts; its texts alone are qwen2_5_vl_text"},
    {"qwen2_vl", "several parts; its texts alone are qwen2_vl_text"},
    {"qwen3_5", "linear attention"},
    {"qwen3_5_moe", "linear attention"},
    {"qwen3_5_moe_text", "linear attention"},
    {"qwen3_5_text", "linear attention"},
    {"qwen3_next", "linear attention"},
    {"qwen3_vl", "several parts; its texts alone are qwen3_vl_text"},
    {"qwen3_vl_moe", "several parts; its texts alone are qwen3_vl_moe_text"},
    {"recurrent_gemma", "recurrent layers"},
    {"reformer", "attention to keys that hashes choose"},
    {"regnet", "convolutions of images: such models are taken as ONNX files"},
    {"resnet", "convolutions of images: such models are taken as ONNX files"},
    {"rwkv", "recurrent layers"},
    {"segformer", "convolutions of images: such models are taken as ONNX files"},
    {"siglip",
     "similarities over the batch; its towers alone are siglip_text_model and siglip_vision_model"},
    {"swin", "attention within windows of patches, which are shifted"},
    {"swinv2", "attention within windows of patches, which are shifted"},
    {"switch_transformers", "experts in an encoder and a decoder"},
    {"vit_mae", "patches that are hidden at random in training"},
    {"wav2vec2", "sounds as waves, which convolutions cut"},
    {"xlnet", "two streams of attention"},
    {"xlstm", "recurrent layers"},
    {"zamba", "state-space layers"},
    {"zamba2", "state-space layers"},
};

/* Says so, where it is known what a family has. */
static cleave_status check_supported(const cleave_json_cursor *at, const char *type,
                                     cleave_error *error) {
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (strcmp(unsupported[i].model_type, type) == 0)
            return cleave_json_fail(at, error, "\"%s\" is not supported: it has %s", type,
                                    unsupported[i].what);
    return CLEAVE_OK;
}

static const cleave_family *find(const char *type) {
    for (int i = 0; i < cleave_n_families; i++)
        if (strcmp(cleave_families[i].model_type, type) == 0)
            return &cleave_families[i];
    return NULL;
}

/* The parts of a model of several, each of which may be a model of its own. */
typedef struct parts {
    char ours[192], others[192]; /* those of a family here, and those of none */
} parts;

static cleave_status name_part(const cleave_json_cursor *root, const char *name, parts *of,
                               cleave_error *error) {
    cleave_json_cursor part, at;
    const char *type;
    if (!cleave_json_find(root, name, &part) || cleave_json_type_of(&part) != CLEAVE_JSON_OBJECT ||
        !cleave_json_find(&part, "model_type", &at))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_string(&at, &type, error));
    char *list = find(type) != NULL ? of->ours : of->others;
    size_t used = strlen(list);
    snprintf(list + used, sizeof of->ours - used, "%s%s (\"%.40s\")", used > 0 ? ", " : "", name,
             type);
    return CLEAVE_OK;
}

/* Says which parts are supported, or, where nothing else is known of the type, that none is. */
static cleave_status check_parts(const cleave_json_cursor *root, const cleave_json_cursor *at,
                                 const char *type, cleave_error *error) {
    static const char *const names[] = {"text_config", "vision_config", "audio_config"};
    parts of = {"", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        CLEAVE_TRY(name_part(root, names[i], &of, error));
    if (of.ours[0] != '\0')
        return cleave_json_fail(at, error,
                                "\"%.64s\" has several parts, which are not planned together; "
                                "supported as a model is, written to a file of its own: %s",
                                type, of.ours);
    CLEAVE_TRY(check_supported(at, type, error));
    return of.others[0] == '\0' ? CLEAVE_OK
                                : cleave_json_fail(at, error,
                                                   "\"%.64s\" has several parts, and none of them "
                                                   "is supported: %s",
                                                   type, of.others);
}

static cleave_status fail_unknown(const cleave_json_cursor *at, const char *type,
                                  cleave_error *error) {
    char near[96] = "";
    cleave_nearest_word nearest = {.text = type, .length = strlen(type)};
    for (int i = 0; i < cleave_n_families; i++)
        cleave_nearest_word_offer(&nearest, cleave_families[i].model_type);
    if (nearest.word != NULL)
        snprintf(near, sizeof near, " (is it %s?)", nearest.word);
    return cleave_json_fail(at, error,
                            "\"%.64s\" is not supported%s: docs/models.md lists the %d that are",
                            type, near, cleave_n_families);
}

static cleave_status fail_typeless(const cleave_json_cursor *root, cleave_error *error) {
    cleave_json_cursor at;
    const char *name;
    const char *own = cleave_json_own_key(root);
    if (own != NULL)
        return cleave_json_fail(root, error,
                                "is no model: it has no model_type, and there is \"%.64s\": is "
                                "it another file?",
                                own);
    if (!cleave_json_find(root, "_class_name", &at))
        return cleave_json_fail(root, error,
                                "is no model: it has no model_type, as the configurations of "
                                "language models do");
    CLEAVE_TRY(cleave_json_string(&at, &name, error));
    return cleave_json_fail(root, error,
                            "is of Diffusers, by its _class_name \"%.64s\", and no language model: "
                            "such models are taken as ONNX files",
                            name);
}

cleave_status cleave_config_find_family(const cleave_json_cursor *root,
                                        const cleave_family **family, cleave_error *error) {
    cleave_json_cursor at;
    const char *type;
    CLEAVE_TRY(cleave_json_expect_object(root, error));
    if (!cleave_json_find(root, "model_type", &at))
        return fail_typeless(root, error);
    CLEAVE_TRY(cleave_json_string(&at, &type, error));
    const cleave_family *found = find(type);
    if (found == NULL) {
        CLEAVE_TRY(check_parts(root, &at, type, error));
        return fail_unknown(&at, type, error);
    }
    *family = found;
    return CLEAVE_OK;
}
