/* DBRX: Llama's attention by one product, layer norms without a bias, and experts whose weights lie
   below each other in one matrix.  What a router and its experts read may be shaken in training. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"

static const char *norm(const cleave_decoder *d, const char *scope, const char *module,
                        const char *x) {
    return cleave_compose_norm(d->c, cleave_compose_name(d->c, "%s.%s", scope, module), x,
                               d->config->width, 1e-5, CLEAVE_NORM_LAYER_UNBIASED);
}

static const char *attend(const cleave_decoder *d, const char *scope, const char *x,
                          int64_t layer) {
    static const char *const which[] = {"q", "k", "v"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const cleave_composed_attention how = cleave_decoder_attention(config, layer);
    const int64_t wide = config->width, narrow = config->kv_heads * config->head;
    const int64_t ends[] = {0, wide, wide + narrow, wide + 2 * narrow};
    const char *parts[3];
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.Wqkv", scope), x, wide, ends[3], false);
    x = cleave_compose_clip(c, cleave_compose_name(c, "%s.clipped", scope), x,
                            config->projection_clip);
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s_part", scope, which[i]), x,
                                        -1, ends[i], ends[i + 1]);
        parts[i] = cleave_decoder_heads(d, scope, which[i], parts[i], &how.heads, layer);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.out_proj", scope), x, wide, wide,
                                 false);
}

/* x times numbers around 1, drawn anew for each. */
static const char *shake(const cleave_decoder *d, const char *scope, const char *x) {
    cleave_composer *c = d->c;
    const double most = d->config->router_jitter;
    if (!(most > 0) || !c->trains)
        return x;
    const char *drawn =
        CLEAVE_COMPOSE(c, "RandomUniformLike", cleave_compose_name(c, "%s.noise", scope), x);
    cleave_compose_number(c, "low", 1 - most);
    cleave_compose_number(c, "high", 1 + most);
    return CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.shaken", scope), x, drawn);
}

static const char *add(const cleave_decoder *d, const char *scope, const char *sum, const char *x,
                       const char *y) {
    cleave_composer *c = d->c;
    const char *name = cleave_compose_name(c, "%s.%s", scope, sum);
    y = cleave_compose_dropout(c, cleave_compose_name(c, "%s.dropout", name), y,
                               d->config->dropout);
    return CLEAVE_COMPOSE(c, "Add", name, x, y);
}

static const char *add_block(const cleave_decoder *d, const char *x, int64_t layer) {
    static const cleave_expert_style how = {
        .routing = CLEAVE_ROUTING_SOFTMAX, .router = "router.layer", .in_matrices = true};
    cleave_composer *c = d->c;
    const char *block = cleave_compose_name(c, "transformer.blocks.%lld", (long long)layer);
    const char *first = cleave_compose_name(c, "%s.norm_attn_norm", block);
    const char *unit = cleave_compose_name(c, "%s.ffn", block);
    const char *y =
        attend(d, cleave_compose_name(c, "%s.attn", first), norm(d, first, "norm_1", x), layer);
    x = add(d, first, "attended", x, y);
    y = shake(d, unit, norm(d, first, "norm_2", x));
    return add(d, block, "output", x, cleave_compose_experts(d, unit, y, &how));
}

const char *cleave_compose_dbrx(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_style style = {.biases = false};
    cleave_config own = *config;
    own.normalises = config->choice_norm > 0;
    own.activation = "silu";
    const cleave_decoder d = {.c = c,
                              .config = &own,
                              .style = &style,
                              .rotary = cleave_compose_rotary_tables(c, "rotary", config)};
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.wte", ids, config->vocabulary,
                                             config->width, NULL);
    for (int64_t i = 0; i < config->layers; i++)
        x = add_block(&d, x, i);
    x = norm(&d, "transformer", "norm_f", x);
    return cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
}
