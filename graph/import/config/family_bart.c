/* OPT, and BART and its kin, which have an encoder beside the decoder: layer norms before
   attention and unit or behind them, and a unit of two products.  Positions are a table, or waves
   that nothing trains. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_gpt.h"

#include <math.h>

/* The layers of one side. */
typedef struct stack {
    cleave_composer *c;
    const cleave_config *config;
    const char *scope;
    bool is_causal;
    const char *memory; /* what the encoder gave; null: there is none */
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
    const char *parts[3];
    cleave_composed_attention how = cleave_gpt_attention(s->config);
    how.is_causal = s->is_causal && from == x;
    for (int i = 0; i < 3; i++) {
        parts[i] =
            linear(s, scope, modules[i], i == 0 ? x : from, s->config->width, s->config->width);
        parts[i] = cleave_compose_split_heads(s->c, name_of(s, scope, heads[i]), parts[i],
                                              &how.heads, i == 0);
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
    bool waves; /* positions are, else a table */
    int apart;  /* of half as many frequencies as the width, so many less is where 1 / 10000 is */
} sides_style;

/* Sines, and then cosines, of what is the slower the further back: [length, width]. */
static const char *waves_of(const stack *s, const sides_style *style, const char *name,
                            int64_t first) {
    const int64_t shape[] = {s->config->sequence, s->config->width}, half = shape[1] / 2;
    float *values = CLEAVE_ARENA_ARRAY(s->c->arena, float, shape[0] * shape[1]);
    s->c->failed = s->c->failed || values == NULL;
    for (int64_t t = 0; values != NULL && t < shape[0]; t++)
        for (int64_t i = 0; i < half; i++) {
            double angle =
                (double)(first + t) * pow(10000, -(double)i / (double)(half - style->apart));
            values[t * shape[1] + i] = (float)sin(angle);
            values[t * shape[1] + half + i] = (float)cos(angle);
        }
    return cleave_compose_floats(s->c, name, 2, shape, values);
}

/* What the layers read of rows of the embedding's table. */
static const char *embed(const stack *s, const sides_style *style, const char *data,
                         const char *table) {
    cleave_composer *c = s->c;
    const cleave_config *config = s->config;
    const char *tokens = name_of(s, s->scope, "embed_tokens");
    const char *positions = name_of(s, s->scope, "embed_positions");
    const char *ids = cleave_compose_data(c, data, CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = CLEAVE_COMPOSE(c, "Gather", tokens, table, ids);
    x = cleave_compose_scaled(c, tokens, x, config->scales ? sqrt((double)config->width) : 1);
    positions = style->waves ? waves_of(s, style, positions, config->first_position)
                             : cleave_compose_rows(c, positions, config->positions + FIRST_ROW,
                                                   config->width, FIRST_ROW, config->sequence);
    x = CLEAVE_COMPOSE(c, "Add", name_of(s, s->scope, "embedded"), x, positions);
    if (style->norms_embedding)
        x = cleave_gpt_norm(c, config, s->scope, "layernorm_embedding", x);
    return cleave_compose_dropout(c, name_of(s, s->scope, "dropout"), x, config->dropout);
}

static const char *run_side(const stack *s, const sides_style *style, int64_t layers,
                            const char *x) {
    x = run_layers(s, layers, x);
    return style->norms_last ? cleave_gpt_norm(s->c, s->config, s->scope, "layer_norm", x) : x;
}

static const char *compose_sides(cleave_composer *c, const cleave_config *config,
                                 const sides_style *style) {
    cleave_config own = *config;
    own.epsilon = 1e-5;
    own.attention_bias = true;
    own.norms_before = style->norms_before;
    const char *table = cleave_compose_parameter(c, "model.shared.weight", 2,
                                                 (int64_t[]){config->vocabulary, config->width});
    const stack encoder = {.c = c, .config = &own, .scope = "model.encoder"};
    const char *x = embed(&encoder, style, "input_ids", table);
    x = run_side(&encoder, style, config->layers, x);
    const stack decoder = {
        .c = c, .config = &own, .scope = "model.decoder", .is_causal = true, .memory = x};
    x = embed(&decoder, style, "decoder_input_ids", table);
    x = run_side(&decoder, style, config->decoder_layers, x);
    return config->tied
               ? cleave_compose_tied(c, "lm_head", x, table)
               : cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
}

const char *cleave_compose_bart(cleave_composer *c, const cleave_config *config) {
    return compose_sides(c, config, &(sides_style){.norms_embedding = true});
}
