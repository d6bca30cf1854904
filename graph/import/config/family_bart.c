/* OPT, XGLM and BioGPT, and BART and its kin, which have an encoder beside the decoder, of sounds
   where it is Whisper's: layer norms before attention and unit or behind them, and a unit of two
   products.  Positions are a table, or waves that nothing trains. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_gpt.h"

#include <math.h>

/* The layers of one side. */
typedef struct stack {
    cleave_composer *c;
    const cleave_config *config;
    const char *scope;
    bool is_causal;
    bool plain_keys;    /* they have no bias */
    const char *memory; /* what the encoder gave; null: there is none */
    int64_t places;     /* as many of it; 0: as many as a text has */
} stack;

static const char *name_of(const stack *s, const char *scope, const char *what) {
    return cleave_compose_name(s->c, "%s.%s", scope, what);
}

static const char *linear(const stack *s, const char *scope, const char *what, const char *x,
                          int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(s->c, name_of(s, scope, what), x, n_in, n_out,
                                 s->config->attention_bias);
}

/* ---- layers ---------------------------------------------------------------------------------- */

/* Queries of x, keys and values of `from`. */
static const char *attend(const stack *s, const char *scope, const char *x, const char *from) {
    static const char *const modules[] = {"q_proj", "k_proj", "v_proj"};
    static const char *const heads[] = {"q", "k", "v"};
    const int64_t width = s->config->width;
    const char *parts[3];
    cleave_composed_attention how = cleave_gpt_attention(s->config);
    how.is_causal = s->is_causal && from == x;
    cleave_heads seen = how.heads;
    seen.length = from != x && s->places > 0 ? s->places : seen.length;
    for (int i = 0; i < 3; i++) {
        const bool has_bias = s->config->attention_bias && !(i == 1 && s->plain_keys);
        parts[i] = cleave_compose_linear(s->c, name_of(s, scope, modules[i]), i == 0 ? x : from,
                                         width, width, has_bias);
        parts[i] = cleave_compose_split_heads(s->c, name_of(s, scope, heads[i]), parts[i],
                                              i == 0 ? &how.heads : &seen, i == 0);
    }
    x = cleave_compose_attention(s->c, scope, &how, parts[0], parts[1], parts[2]);
    return linear(s, scope, "out_proj", x, s->config->width, s->config->width);
}

static const char *feed(const stack *s, const char *block, const char *x) {
    const cleave_config *config = s->config;
    x = linear(s, block, "fc1", x, config->width, config->inner);
    x = cleave_gpt_activate(s->c, config, block, x);
    x = cleave_compose_dropout(s->c, name_of(s, block, "activation_dropout"), x,
                               config->unit_dropout);
    return linear(s, block, "fc2", x, config->inner, config->width);
}

/* Adds what `module` of the block gives, the unit where it is null; the sum is called so. */
static const char *add_part(const stack *s, const char *block, const char *module,
                            const char *memory, const char *sum, const char *x) {
    bool before = s->config->norms_before;
    const char *norm =
        module == NULL ? "final_layer_norm" : cleave_compose_name(s->c, "%s_layer_norm", module);
    const char *y = before ? cleave_gpt_norm(s->c, s->config, block, norm, x) : x;
    y = module == NULL ? feed(s, block, y)
                       : attend(s, name_of(s, block, module), y, memory != NULL ? memory : y);
    x = cleave_gpt_add(s->c, s->config, name_of(s, block, sum), x, y);
    return before ? x : cleave_gpt_norm(s->c, s->config, block, norm, x);
}

static const char *run_layers(const stack *s, int64_t layers, const char *x) {
    for (int64_t i = 0; i < layers; i++) {
        const char *block = cleave_compose_name(s->c, "%s.layers.%lld", s->scope, (long long)i);
        x = add_part(s, block, "self_attn", NULL, "attended", x);
        if (s->memory != NULL)
            x = add_part(s, block, "encoder_attn", s->memory, "informed", x);
        x = add_part(s, block, NULL, NULL, "output", x);
    }
    return x;
}

/* ---- OPT ------------------------------------------------------------------------------------- */

/* The first two rows of a table of positions are no positions. */
enum { FIRST_ROW = 2 };

const char *cleave_compose_opt(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.epsilon = 1e-5;
    int64_t width = config->width,
            embedded = config->embedded_width > 0 ? config->embedded_width : width;
    const stack decoder = {.c = c, .config = &own, .scope = "model.decoder", .is_causal = true};
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "model.decoder.embed_tokens", ids,
                                             config->vocabulary, embedded, &table);
    if (embedded != width)
        x = cleave_compose_linear(c, "model.decoder.project_in", x, embedded, width, false);
    const char *positions =
        cleave_compose_rows(c, "model.decoder.embed_positions", config->positions + FIRST_ROW,
                            width, FIRST_ROW, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", "model.decoder.embedded", x, positions);
    x = run_layers(&decoder, config->layers, x);
    if (config->norms_before)
        x = cleave_gpt_norm(c, &own, "model.decoder", "final_layer_norm", x);
    if (embedded != width)
        x = cleave_compose_linear(c, "model.decoder.project_out", x, width, embedded, false);
    return config->tied
               ? cleave_compose_tied(c, "lm_head", x, table)
               : cleave_compose_linear(c, "lm_head", x, embedded, config->vocabulary, false);
}

/* ---- BART and its kin ------------------------------------------------------------------------ */

/* What they differ in. */
typedef struct sides_style {
    bool norms_before, norms_embedding, norms_last;
    bool norms_words; /* what the decoder's embedding gives, unscaled, ahead of positions */
    bool waves;       /* positions are, else a table */
    int64_t first;    /* position, or row of the table */
    int apart;        /* half the width less that is as many frequencies as go down to 1 / 10000 */
} sides_style;

/* Sines, and then cosines, of what is the slower the further back: [length, width]. */
static const char *waves_of(const stack *s, const sides_style *style, const char *name) {
    const int64_t shape[] = {s->config->sequence, s->config->width}, half = shape[1] / 2;
    float *values = CLEAVE_ARENA_ARRAY(s->c->arena, float, shape[0] * shape[1]);
    s->c->failed = s->c->failed || values == NULL;
    for (int64_t t = 0; values != NULL && t < shape[0]; t++)
        for (int64_t i = 0; i < half; i++) {
            double angle =
                (double)(style->first + t) * pow(10000, -(double)i / (double)(half - style->apart));
            values[t * shape[1] + i] = (float)sin(angle);
            values[t * shape[1] + half + i] = (float)cos(angle);
        }
    return cleave_compose_floats(s->c, name, 2, shape, values);
}

/* What the layers read of x, which has no places yet. */
static const char *place(const stack *s, const sides_style *style, const char *x) {
    cleave_composer *c = s->c;
    const cleave_config *config = s->config;
    const char *name = name_of(s, s->scope, "embed_positions");
    const bool norms_words = style->norms_words && s->is_causal;
    if (norms_words)
        x = cleave_gpt_norm(c, config, s->scope, "layernorm_embedding", x);
    const char *positions =
        style->waves ? waves_of(s, style, name)
                     : cleave_compose_rows(c, name, config->positions + style->first, config->width,
                                           style->first, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", name_of(s, s->scope, "embedded"), x, positions);
    if (style->norms_embedding && !norms_words)
        x = cleave_gpt_norm(c, config, s->scope, "layernorm_embedding", x);
    return cleave_compose_dropout(c, name_of(s, s->scope, "dropout"), x, config->dropout);
}

static const char *run_side(const stack *s, const sides_style *style, int64_t layers,
                            const char *x) {
    x = run_layers(s, layers, place(s, style, x));
    return style->norms_last ? cleave_gpt_norm(s->c, s->config, s->scope, "layer_norm", x) : x;
}

/* Rows of the embedding's table, by ids that are the data so called. */
static const char *look_up(const stack *s, const char *data, const char *table) {
    const char *name = name_of(s, s->scope, "embed_tokens");
    const char *ids = cleave_compose_data(s->c, data, CLEAVE_ONNX_INT64, 1, &s->config->sequence);
    return cleave_compose_scaled(s->c, name, CLEAVE_COMPOSE(s->c, "Gather", name, table, ids),
                                 s->config->scales ? sqrt((double)s->config->width) : 1);
}

static const char *table_of(cleave_composer *c, const cleave_config *config, const char *module) {
    return cleave_compose_parameter(c, cleave_compose_name(c, "%s.weight", module), 2,
                                    (int64_t[]){config->vocabulary, config->width});
}

static cleave_config config_of_sides(const cleave_config *config, const sides_style *style) {
    cleave_config own = *config;
    own.epsilon = 1e-5;
    own.attention_bias = true;
    own.norms_before = style->norms_before;
    return own;
}

static const char *compose_sides(cleave_composer *c, const cleave_config *config,
                                 const sides_style *style) {
    const cleave_config own = config_of_sides(config, style);
    const stack encoder = {.c = c, .config = &own, .scope = "model.encoder"};
    stack decoder = {.c = c, .config = &own, .scope = "model.decoder", .is_causal = true};
    const char *table = table_of(c, config, "model.shared");
    const char *x = look_up(&encoder, "input_ids", table);
    decoder.memory = run_side(&encoder, style, config->layers, x);
    cleave_config of_decoder = own;
    of_decoder.scales = own.scales && !style->norms_words;
    decoder.config = &of_decoder;
    x = look_up(&decoder, "decoder_input_ids", table);
    x = run_side(&decoder, style, config->decoder_layers, x);
    return cleave_compose_tied(c, "lm_head", x, table);
}

const char *cleave_compose_bart(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config, &(sides_style){.norms_embedding = true, .first = FIRST_ROW});
}

/* The table gives logits with a bias that checkpoints have, and that nothing trains. */
const char *cleave_compose_marian(cleave_composer *c, const cleave_config *config) {
    const char *x = compose_sides(c, config, &(sides_style){.waves = true});
    const char *bias =
        cleave_compose_kept(c, "final_logits_bias", 2, (int64_t[]){1, config->vocabulary});
    return CLEAVE_COMPOSE(c, "Add", "logits", x, bias);
}

const char *cleave_compose_mbart(cleave_composer *c, const cleave_config *config) {
    return compose_sides(
        c, config,
        &(sides_style){
            .norms_before = true, .norms_embedding = true, .norms_last = true, .first = FIRST_ROW});
}

const char *cleave_compose_blenderbot(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config, &(sides_style){.norms_before = true, .norms_last = true});
}

const char *cleave_compose_blenderbot_small(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config, &(sides_style){.norms_embedding = true, .norms_words = true});
}

const char *cleave_compose_pegasus(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config,
                         &(sides_style){.norms_before = true, .norms_last = true, .waves = true});
}

/* Positions begin behind the id that pads. */
const char *cleave_compose_m2m_100(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config,
                         &(sides_style){.norms_before = true,
                                        .norms_last = true,
                                        .waves = true,
                                        .first = config->padding + 1,
                                        .apart = 1});
}

/* ---- decoders alone -------------------------------------------------------------------------- */

static const char *compose_alone(cleave_composer *c, const cleave_config *config,
                                 const sides_style *style, const char *scope, const char *head) {
    const cleave_config own = config_of_sides(config, style);
    const stack decoder = {.c = c, .config = &own, .scope = scope, .is_causal = true};
    const char *table = table_of(c, config, name_of(&decoder, scope, "embed_tokens"));
    const char *x = look_up(&decoder, "input_ids", table);
    x = run_side(&decoder, style, config->layers, x);
    return config->tied
               ? cleave_compose_tied(c, head, x, table)
               : cleave_compose_linear(c, head, x, config->width, config->vocabulary, false);
}

const char *cleave_compose_xglm(cleave_composer *c, const cleave_config *config) {
    const sides_style style = {
        .norms_before = true, .norms_last = true, .waves = true, .first = FIRST_ROW, .apart = 1};
    return compose_alone(c, config, &style, "model", "lm_head");
}

const char *cleave_compose_biogpt(cleave_composer *c, const cleave_config *config) {
    const sides_style style = {.norms_before = true, .norms_last = true, .first = FIRST_ROW};
    return compose_alone(c, config, &style, "biogpt", "output_projection");
}

/* ---- Whisper --------------------------------------------------------------------------------- */

static const char *convolve(const stack *s, const char *module, const char *x, int64_t channels,
                            int64_t stride) {
    static const int64_t kernel = 3, pads[] = {1, 1};
    cleave_composer *c = s->c;
    const char *name = name_of(s, s->scope, module);
    const char *weight = cleave_compose_parameter(c, name_of(s, name, "weight"), 3,
                                                  (int64_t[]){s->config->width, channels, kernel});
    const char *bias = cleave_compose_parameter(c, name_of(s, name, "bias"), 1, &s->config->width);
    x = CLEAVE_COMPOSE(c, "Conv", name, x, weight, bias);
    cleave_compose_integers(c, "kernel_shape", 1, &kernel);
    cleave_compose_integers(c, "strides", 1, &stride);
    cleave_compose_integers(c, "pads", 2, pads);
    return CLEAVE_COMPOSE(c, "Gelu", name_of(s, name, "act"), x);
}

/* An encoder of sounds, given as the powers of frequencies in frames, of which two make one place;
   keys have no bias. */
const char *cleave_compose_whisper(cleave_composer *c, const cleave_config *config) {
    const sides_style heard = {.norms_before = true, .norms_last = true, .waves = true, .apart = 1};
    const sides_style said = {.norms_before = true, .norms_last = true};
    cleave_config of_sounds = config_of_sides(config, &heard);
    const cleave_config of_texts = of_sounds;
    of_sounds.sequence = config->places;
    const stack encoder = {
        .c = c, .config = &of_sounds, .scope = "model.encoder", .plain_keys = true};
    stack decoder = {.c = c,
                     .config = &of_texts,
                     .scope = "model.decoder",
                     .is_causal = true,
                     .plain_keys = true,
                     .places = config->places};
    const char *x = cleave_compose_data(c, "input_features", CLEAVE_ONNX_FLOAT, 2,
                                        (int64_t[]){config->channels, 2 * config->places});
    x = convolve(&encoder, "conv1", x, config->channels, 1);
    x = convolve(&encoder, "conv2", x, config->width, 2);
    x = cleave_compose_transpose(c, "model.encoder.frames", x, 3, (int64_t[]){0, 2, 1});
    decoder.memory = run_side(&encoder, &heard, config->layers, x);
    const char *table = table_of(c, config, "model.decoder.embed_tokens");
    x = look_up(&decoder, "decoder_input_ids", table);
    x = run_side(&decoder, &said, config->decoder_layers, x);
    return cleave_compose_tied(c, "proj_out", x, table);
}
