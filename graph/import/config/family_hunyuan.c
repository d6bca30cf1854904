/* Hunyuan: queries and keys are normed behind their rotary positions.  Its larger models have
   experts beside one unit that all tokens go through, as wide as each of them. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"

static const char *heads_of(const cleave_decoder *d, const char *scope, const char *which,
                            const char *x, const cleave_heads *heads, int64_t layer) {
    cleave_composer *c = d->c;
    const bool is_query = which[0] == 'q';
    const int64_t n = (is_query ? heads->heads : heads->kv_heads) * heads->size;
    (void)layer;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which), x,
                              d->config->width, n, d->config->attention_bias);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which), x, heads,
                                   is_query);
    if (which[0] == 'v')
        return x;
    x = cleave_compose_rotary(c, cleave_compose_name(c, "%s.%s_turned", scope, which), x,
                              &d->rotary, heads->size);
    return cleave_compose_norm(
        c, cleave_compose_name(c, is_query ? "%s.query_layernorm" : "%s.key_layernorm", scope), x,
        heads->size, d->config->epsilon, CLEAVE_NORM_RMS);
}

const char *cleave_compose_hunyuan_v1_dense(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.heads = heads_of});
}

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SOFTMAX, .router = "gate.wg"};
    cleave_composer *c = d->c;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    (void)layer;
    const char *shared = cleave_compose_gated(
        c, d->config, cleave_compose_name(c, "%s.shared_mlp", scope), x, d->config->inner);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope),
                          cleave_compose_experts(d, scope, x, &how), shared);
}

const char *cleave_compose_hunyuan_v1_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.expert_inner = own.inner;
    own.normalises = true;
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.heads = heads_of, .feed = feed});
}
