/* Apertus: Llama with norms of queries and keys, and a unit without a gate, whose function has two
   numbers that are trained. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_llama.h"

/* The softplus of a parameter that has one element. */
static const char *softplus(cleave_composer *c, const char *scope, const char *parameter,
                            const char *name) {
    static const int64_t one = 1;
    return CLEAVE_COMPOSE(
        c, "Softplus", cleave_compose_name(c, "%s.%s", scope, name),
        cleave_compose_parameter(c, cleave_compose_name(c, "%s.%s", scope, parameter), 1, &one));
}

/* x through the function whose module is `scope`, which bends by two numbers: above 0 by the first
   one, and below by the second one and a half. */
static const char *bend(cleave_composer *c, const char *scope, const char *x) {
    const char *alpha = softplus(c, scope, "alpha_p", "alpha");
    const char *beta = softplus(c, scope, "alpha_n", "softplus");
    const char *half = cleave_compose_scalar(c, cleave_compose_name(c, "%s.half", scope), 0.5);
    beta = CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.beta", scope), beta, half);
    x = CLEAVE_COMPOSE(c, "Xielu", scope, x, alpha, beta);
    cleave_compose_as_own(c);
    return x;
}

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    cleave_composer *c = d->c;
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    (void)layer;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.up_proj", scope), x, width, inner,
                              false);
    x = bend(c, cleave_compose_name(c, "%s.act_fn", scope), x);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.down_proj", scope), x, inner, width,
                                 false);
}

const char *cleave_compose_apertus(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_norms norms = {.before_attention = "attention_layernorm",
                                               .before_feed = "feedforward_layernorm"};
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.head_norms = true, .norms = &norms, .feed = feed});
}
