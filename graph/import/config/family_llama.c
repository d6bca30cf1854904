/* Llama and what is made like it: RMS norms before attention and a gated unit, rotary positions,
   heads that share keys.  Mistral adds windows, Qwen2 biases of queries, keys and values, Qwen3
   norms of queries and keys, as OLMo 2 does over all heads; Granite scales what others don't,
   SmolLM3 has layers without rotary positions, as EXAONE 4 and Command R7B have those without a
   window; StarCoder2, AFM and Nemotron have a unit without a gate.  ERNIE 4.5, Command R7B and
   Helium turn pairs of neighbours. */
#include "graph/import/config/family_llama.h"
#include "graph/import/config/families.h"

#include <math.h>

static const char *norm(const cleave_decoder *d, const char *scope, const char *x, int64_t width) {
    return cleave_compose_norm(d->c, scope, x, width, d->config->epsilon, d->style->norm);
}

static const cleave_decoder_norms of_llama = {.before_attention = "input_layernorm",
                                              .before_feed = "post_attention_layernorm"};

static bool is_windowed(const cleave_config *config, int64_t layer) {
    if (config->windowed.n > 0)
        return config->windowed.has[layer];
    return config->whole_every > 0 ? (layer + 1) % config->whole_every != 0
                                   : layer >= config->first_windowed_layer;
}

bool cleave_layer_turns(const cleave_config *config, int64_t layer) {
    if (config->turns_windowed)
        return config->window > 0 && is_windowed(config, layer);
    if (config->turned.n > 0)
        return config->turned.has[layer];
    return config->unturned_every == 0 || (layer + 1) % config->unturned_every != 0;
}

int64_t cleave_layer_window(const cleave_config *config, int64_t layer) {
    bool hides = config->window < config->sequence && is_windowed(config, layer);
    return hides ? config->window : 0;
}

/* Norms the heads of x [batch, length, heads, size], each by a weight of its own. */
static const char *norm_each_head(const cleave_decoder *d, const char *scope, const char *x,
                                  int64_t heads, int64_t size) {
    cleave_composer *c = d->c;
    const char **weights = CLEAVE_ARENA_ARRAY(c->arena, const char *, heads);
    c->failed = c->failed || weights == NULL;
    for (int64_t i = 0; weights != NULL && i < heads; i++)
        weights[i] = cleave_compose_parameter(
            c, cleave_compose_name(c, "%s.norms.%lld.weight", scope, (long long)i), 1, &size);
    const char *all = cleave_compose_name(c, "%s.weights", scope);
    all = cleave_compose_node(c, "Concat", all, (int32_t)heads, weights);
    cleave_compose_integer(c, "axis", 0);
    all = cleave_compose_reshape(c, cleave_compose_name(c, "%s.of_heads", scope), all, 2,
                                 (int64_t[]){heads, size});
    x = cleave_compose_norm(c, cleave_compose_name(c, "%s.normal", scope), x, size,
                            d->config->epsilon, CLEAVE_NORM_LAYER_BARE);
    return CLEAVE_COMPOSE(c, "Mul", scope, x, all);
}

const char *cleave_decoder_heads(const cleave_decoder *d, const char *scope, const char *which,
                                 const char *x, const cleave_heads *heads, int64_t layer) {
    cleave_composer *c = d->c;
    bool is_query = which[0] == 'q', is_local = d->config->rotary[1].theta > 0;
    x = cleave_compose_cut_heads(c, cleave_compose_name(c, "%s.%s.parts", scope, which), x, heads,
                                 is_query);
    if (which[0] != 'v' && d->style->head_norms)
        x = norm(d, cleave_compose_name(c, "%s.%s_norm", scope, which), x, heads->size);
    if (which[0] != 'v' && d->style->own_norms)
        x = norm_each_head(d, cleave_compose_name(c, "%s.%s_layernorm", scope, which), x,
                           is_query ? heads->heads : heads->kv_heads, heads->size);
    x = cleave_compose_turn_heads(c, cleave_compose_name(c, "%s.%s", scope, which), x);
    if (which[0] == 'v' || !cleave_layer_turns(d->config, layer))
        return x;
    return cleave_compose_rotary(
        c, cleave_compose_name(c, "%s.%s_turned", scope, which), x,
        is_local && is_windowed(d->config, layer) ? &d->local_rotary : &d->rotary, heads->size);
}

const char *cleave_decoder_project(const cleave_decoder *d, const char *scope, const char *which,
                                   const char *x, const cleave_heads *heads, int64_t layer) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    int64_t n = (which[0] == 'q' ? heads->heads : heads->kv_heads) * heads->size;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which), x,
                              config->width, n,
                              config->attention_bias || config->qkv_bias || d->style->biases);
    if (which[0] != 'v' && d->style->wide_norms)
        x = norm(d, cleave_compose_name(c, "%s.%s_norm", scope, which), x, n);
    x = cleave_compose_clip(c, cleave_compose_name(c, "%s.%s_clipped", scope, which), x,
                            config->projection_clip);
    return cleave_decoder_heads(d, scope, which, x, heads, layer);
}

cleave_composed_attention cleave_decoder_attention(const cleave_config *config, int64_t layer) {
    double divisor = config->query_scale > 0 ? config->query_scale : (double)config->head;
    return (cleave_composed_attention){
        .heads = {config->sequence, config->heads, config->kv_heads, config->head},
        .scale = config->score_scale > 0 ? config->score_scale : 1 / sqrt(divisor),
        .cap = config->score_cap,
        .is_causal = true,
        .window = cleave_layer_window(config, layer),
        .dropout = config->attention_dropout};
}

/* What heads give times the sigmoid of a product of what attention reads. */
static const char *gate_heads(const cleave_decoder *d, const char *scope, const char *x,
                              const char *given) {
    cleave_composer *c = d->c;
    const char *module = cleave_compose_name(c, "%s.gate_proj", scope);
    const char *gate = cleave_compose_linear(c, module, x, d->config->width,
                                             d->config->heads * d->config->head, false);
    gate = CLEAVE_COMPOSE(c, "Sigmoid", cleave_compose_name(c, "%s.sigmoid", module), gate);
    return CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.gated", scope), given, gate);
}

static const char *attend(cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(d->c, "%s.self_attn", block);
    cleave_composed_attention how = cleave_decoder_attention(config, layer);
    how.is_causal = !d->style->sees_ahead;
    if (d->style->sinks)
        how.sinks = cleave_compose_parameter(d->c, cleave_compose_name(d->c, "%s.sinks", scope), 1,
                                             &how.heads.heads);
    const cleave_heads_of_layer heads =
        d->style->heads != NULL ? d->style->heads : cleave_decoder_project;
    const char *q = heads(d, scope, "q", x, &how.heads, layer);
    const char *k = heads(d, scope, "k", x, &how.heads, layer);
    const char *v = heads(d, scope, "v", x, &how.heads, layer);
    const char *given = cleave_compose_attention(d->c, scope, &how, q, k, v);
    if (d->style->gates)
        given = gate_heads(d, scope, x, given);
    return cleave_compose_linear(d->c, cleave_compose_name(d->c, "%s.o_proj", scope), given,
                                 config->heads * config->head, config->width,
                                 config->attention_bias || config->output_bias);
}

const char *cleave_compose_gated(cleave_composer *c, const cleave_config *config, const char *scope,
                                 const char *x, int64_t inner) {
    const char *gate = cleave_compose_linear(c, cleave_compose_name(c, "%s.gate_proj", scope), x,
                                             config->width, inner, config->mlp_bias);
    const char *up = cleave_compose_linear(c, cleave_compose_name(c, "%s.up_proj", scope), x,
                                           config->width, inner, config->mlp_bias);
    gate = cleave_compose_activation(c, cleave_activation_find(config->activation),
                                     cleave_compose_name(c, "%s.act_fn", scope), gate);
    x = CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.gated", scope), gate, up);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.down_proj", scope), x, inner,
                                 config->width, config->mlp_bias);
}

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    (void)layer;
    return cleave_compose_gated(d->c, d->config, cleave_compose_name(d->c, "%s.mlp", block), x,
                                d->config->inner);
}

/* A module of the model beside the head. */
static const char *in_model(const cleave_decoder *d, const char *module) {
    const char *model = d->style->model != NULL ? d->style->model : "model";
    return cleave_compose_name(d->c, "%s.%s", model, module);
}

static const cleave_decoder_norms *norms_of(const cleave_decoder *d) {
    return d->style->norms != NULL ? d->style->norms : &of_llama;
}

static const char *block_norm(const cleave_decoder *d, const char *block, const char *module,
                              const char *x) {
    return module == NULL
               ? x
               : norm(d, cleave_compose_name(d->c, "%s.%s", block, module), x, d->config->width);
}

/* What attention or the unit gives, dropped out and scaled, is added to the stream; `sum` is called
   so in the block. */
static const char *add_to(const cleave_decoder *d, const char *block, const char *part,
                          const char *sum, const char *x, const char *y) {
    cleave_composer *c = d->c;
    y = cleave_compose_dropout(c, cleave_compose_name(c, "%s.resid_%s_dropout", block, part), y,
                               d->config->dropout);
    y = cleave_compose_scaled(c, cleave_compose_name(c, "%s.%s", block, part), y,
                              d->config->residual_scale);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.%s", block, sum), x, y);
}

static const char *add_block(cleave_decoder *d, const char *x, int64_t layer) {
    const char *block =
        cleave_compose_name(d->c, "%s.%lld", in_model(d, "layers"), (long long)layer);
    const cleave_decoder_norms *norms = norms_of(d);
    const char *normed = block_norm(d, block, norms->before_attention, x);
    const char *y = (d->style->attend != NULL ? d->style->attend : attend)(d, block, normed, layer);
    y = block_norm(d, block, norms->after_attention, y);
    x = add_to(d, block, "attn", "attended", x, y);
    y = d->style->parallel ? normed : block_norm(d, block, norms->before_feed, x);
    y = (d->style->feed != NULL ? d->style->feed : feed)(d, block, y, layer);
    y = block_norm(d, block, norms->after_feed, y);
    return add_to(d, block, "mlp", "output", x, y);
}

const char *cleave_compose_decoder(cleave_composer *c, const cleave_config *config,
                                   const cleave_decoder_style *how) {
    cleave_decoder d = {.c = c, .config = config, .style = how};
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *table;
    const char *embedding = in_model(&d, "embed_tokens");
    const char *x =
        cleave_compose_embedding(c, embedding, ids, config->vocabulary, config->width, &table);
    x = cleave_compose_scaled(c, embedding, x, config->embedding_scale);
    x = cleave_compose_dropout(c, in_model(&d, "embed_dropout"), x, config->embedding_dropout);
    d.rotary = cleave_compose_rotary_tables(c, "rotary", config);
    if (config->rotary[1].theta > 0) {
        cleave_config local = *config;
        local.rotary[0] = config->rotary[1];
        d.local_rotary = cleave_compose_rotary_tables(c, "rotary.local", &local);
    }
    for (int64_t i = 0; i < config->layers; i++)
        x = add_block(&d, x, i);
    const char *last = norms_of(&d)->last;
    x = norm(&d, in_model(&d, last != NULL ? last : "norm"), x, config->width);
    x = config->tied
            ? cleave_compose_tied(c, "lm_head", x, table)
            : cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, false);
    if (config->head_bias)
        x = CLEAVE_COMPOSE(c, "Add", "lm_head.biased", x,
                           cleave_compose_parameter(c, "lm_head.bias", 1, &config->vocabulary));
    x = cleave_compose_scaled(c, "logits", x, config->logit_scale);
    return cleave_compose_soft_cap(c, "logits.capped", x, config->logit_cap);
}

const char *cleave_compose_llama(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.biases = false});
}

cleave_config cleave_with_switched_window(const cleave_config *config) {
    cleave_config own = *config;
    own.window = config->uses_window ? config->window : 0;
    return own;
}

const char *cleave_compose_qwen2(cleave_composer *c, const cleave_config *config) {
    const cleave_config own = cleave_with_switched_window(config);
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.biases = true});
}

const char *cleave_compose_qwen3(cleave_composer *c, const cleave_config *config) {
    const cleave_config own = cleave_with_switched_window(config);
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.head_norms = true});
}

/* Of a model of images and texts. */
const char *cleave_compose_qwen3_vl(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.model = "model.language_model", .head_norms = true});
}

/* What attention and the unit give is normed, not what they read. */
const cleave_decoder_norms cleave_norms_behind = {.after_attention = "post_attention_layernorm",
                                                  .after_feed = "post_feedforward_layernorm"};

const char *cleave_compose_olmo2(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.wide_norms = true, .norms = &cleave_norms_behind});
}

/* Rotary positions are scaled in layers without a window alone, where nothing else is said. */
const char *cleave_compose_olmo3(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.whole_every = 4;
    if (own.rotary[1].theta <= 0)
        own.rotary[1].theta = config->rotary[0].theta;
    return cleave_compose_olmo2(c, &own);
}

const char *cleave_compose_exaone4(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.turns_windowed = config->window > 0;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.head_norms = true, .norms = &cleave_norms_behind});
}

/* Its logits are divided. */
const char *cleave_compose_granite(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.logit_scale = 1 / config->logit_scale;
    return cleave_compose_llama(c, &own);
}

const char *cleave_compose_smollm3(cleave_composer *c, const cleave_config *config) {
    const cleave_config own = cleave_with_switched_window(config);
    return cleave_compose_llama(c, &own);
}

/* Two products and a function between them. */
static const char *feed_plain(const cleave_decoder *d, const char *block, const char *x,
                              const char *const modules[3], bool bias) {
    cleave_composer *c = d->c;
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, modules[0]), x, width,
                              inner, bias);
    x = cleave_compose_activation(c, cleave_activation_find(d->config->activation),
                                  cleave_compose_name(c, "%s.%s", scope, modules[1]), x);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, modules[2]), x, inner,
                                 width, bias);
}

static const char *feed_starcoder2(const cleave_decoder *d, const char *block, const char *x,
                                   int64_t layer) {
    static const char *const modules[] = {"c_fc", "act", "c_proj"};
    (void)layer;
    return feed_plain(d, block, x, modules, d->config->attention_bias);
}

/* All its products have a bias, or none has. */
const char *cleave_compose_starcoder2(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER, .feed = feed_starcoder2});
}

static const char *feed_up_and_down(const cleave_decoder *d, const char *block, const char *x,
                                    int64_t layer) {
    static const char *const modules[] = {"up_proj", "act_fn", "down_proj"};
    (void)layer;
    return feed_plain(d, block, x, modules, d->config->mlp_bias);
}

const char *cleave_compose_arcee(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.feed = feed_up_and_down});
}

const char *cleave_compose_nemotron(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config,
        &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER_PLUS_ONE, .feed = feed_up_and_down});
}

/* Attention and unit read the same norm, side by side. */
const char *cleave_compose_cohere2(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = own.turns_windowed = true;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER_UNBIASED, .parallel = true});
}

/* All layers see all before them; what else Command R7B has, it has not. */
const char *cleave_compose_cohere(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER_UNBIASED, .parallel = true});
}

const char *cleave_compose_stablelm(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config,
                                  &(cleave_decoder_style){.own_norms = config->qk_norm,
                                                          .norm = CLEAVE_NORM_LAYER,
                                                          .parallel = config->parallel});
}

const char *cleave_compose_olmo(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.epsilon = 1e-5;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER_BARE});
}

const char *cleave_compose_ernie4_5(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    own.mlp_bias = config->attention_bias;
    return cleave_compose_llama(c, &own);
}

const char *cleave_compose_helium(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    return cleave_compose_llama(c, &own);
}

/* InternLM3: all its products have a bias, or none has. */
const char *cleave_compose_internlm3(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.mlp_bias = config->attention_bias;
    return cleave_compose_llama(c, &own);
}

/* An encoder, of masked tokens. */
const char *cleave_compose_eurobert(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.head_bias = config->mlp_bias;
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.sees_ahead = true});
}

const char *cleave_compose_jais2(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.norm = CLEAVE_NORM_LAYER, .feed = feed_up_and_down});
}

/* Granite whose logits are multiplied, and which may norm what attention and unit give, too. */
const char *cleave_compose_hyperclovax(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_norms both = {.before_attention = "input_layernorm",
                                              .after_attention = "post_norm1",
                                              .before_feed = "post_attention_layernorm",
                                              .after_feed = "post_norm2"};
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.norms = config->norms_behind ? &both : NULL});
}
