/* Phi-3: Llama with one product for queries, keys and values, and one for both sides of the gated
   unit, which GLM has, too; what is added to the stream may be dropped. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_llama.h"

/* One product for several of a kind, x [batch, length, width] to [batch, length, side, ...]: which
   it is is an axis of its own, so that a split of what each gives leaves a device with the same
   share of all. */
static const char *side_by_side(const cleave_decoder *d, const char *scope, const char *x,
                                const char *equation, int rank, const int64_t *shape) {
    cleave_composer *c = d->c;
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; i++)
        rows *= shape[i];
    const char *weight = cleave_compose_parameter(c, cleave_compose_name(c, "%s.weight", scope), 2,
                                                  (int64_t[]){rows, shape[rank - 1]});
    weight =
        cleave_compose_reshape(c, cleave_compose_name(c, "%s.sides", scope), weight, rank, shape);
    x = CLEAVE_COMPOSE(c, "Einsum", scope, x, weight);
    cleave_compose_text(c, "equation", equation);
    return x;
}

static const char *gate_and_up(const cleave_decoder *d, const char *scope, const char *x) {
    return side_by_side(d, scope, x, "ntd,sfd->ntsf", 3,
                        (int64_t[]){2, d->config->inner, d->config->width});
}

/* Of as many heads each. */
static const char *queries_keys_values(const cleave_decoder *d, const char *scope, const char *x) {
    return side_by_side(d, scope, x, "ntc,shdc->ntshd", 4,
                        (int64_t[]){3, d->config->heads, d->config->head, d->config->width});
}

/* One of them, [batch, length, n]. */
static const char *side_of(const cleave_decoder *d, const char *name, const char *x, int64_t side,
                           int64_t n) {
    cleave_composer *c = d->c;
    x = cleave_compose_slice(c, cleave_compose_name(c, "%s.side", name), x, 2, side, side + 1);
    return cleave_compose_reshape(c, name, x, 3, (int64_t[]){0, d->config->sequence, n});
}

static const char *attend(cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.self_attn", block);
    const cleave_composed_attention how = cleave_decoder_attention(config, layer);
    const int64_t wide = config->heads * config->head, narrow = config->kv_heads * config->head;
    const int64_t ends[] = {wide, wide + narrow, wide + 2 * narrow};
    const char *const which[] = {"q", "k", "v"};
    const char *parts[3];
    const bool alike = wide == narrow;
    const char *qkv = cleave_compose_name(c, "%s.qkv_proj", scope);
    x = alike ? queries_keys_values(d, qkv, x)
              : cleave_compose_linear(c, qkv, x, config->width, ends[2], false);
    for (int i = 0; i < 3; i++) {
        const char *name = cleave_compose_name(c, "%s.%s_part", scope, which[i]);
        const char *part =
            alike ? side_of(d, name, x, i, wide)
                  : cleave_compose_slice(c, name, x, -1, i > 0 ? ends[i - 1] : 0, ends[i]);
        parts[i] = cleave_decoder_heads(d, scope, which[i], part, &how.heads, layer);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.o_proj", scope), x, wide,
                                 config->width, false);
}

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    (void)layer;
    cleave_composer *c = d->c;
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    x = gate_and_up(d, cleave_compose_name(c, "%s.gate_up_proj", scope), x);
    const char *gate = side_of(d, cleave_compose_name(c, "%s.gate", scope), x, 0, inner);
    const char *up = side_of(d, cleave_compose_name(c, "%s.up", scope), x, 1, inner);
    gate = cleave_compose_activation(c, cleave_activation_find(d->config->activation),
                                     cleave_compose_name(c, "%s.activation_fn", scope), gate);
    x = CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.gated", scope), up, gate);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.down_proj", scope), x, inner, width,
                                 false);
}

const char *cleave_compose_phi3(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config,
                                  &(cleave_decoder_style){.attend = attend, .feed = feed});
}

/* GLM: neighbours are the pairs that are turned.  From GLM-4-0414 on attention and unit are normed
   behind, too. */
static const char *compose_glm(cleave_composer *c, const cleave_config *config,
                               const cleave_decoder_norms *norms) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    own.attention_bias = false; /* of queries, keys and values alone */
    return cleave_compose_decoder(
        c, &own,
        &(cleave_decoder_style){.biases = config->attention_bias, .norms = norms, .feed = feed});
}

const char *cleave_compose_glm(cleave_composer *c, const cleave_config *config) {
    return compose_glm(c, config, NULL);
}

const char *cleave_compose_glm4(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_norms norms = {.before_attention = "input_layernorm",
                                               .after_attention = "post_self_attn_layernorm",
                                               .before_feed = "post_attention_layernorm",
                                               .after_feed = "post_mlp_layernorm"};
    return compose_glm(c, config, &norms);
}
