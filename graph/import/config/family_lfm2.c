/* LFM2: most layers have a short convolution in place of attention: every element of the width is
   weighed with its few last places, by weights of its own, between two gates.  The others are made
   like Llama's, with norms of each head.  Of its second kind all layers but the first have
   experts. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"
#include "graph/import/config/sides.h"

static const char *name_of(const cleave_decoder *d, const char *scope, const char *what) {
    return cleave_compose_name(d->c, "%s.%s", scope, what);
}

/* ---- in place of Llama's attention ----------------------------------------------------------- */

/* Each column of x [batch, length, width] with those before it, as many in all as there are taps.
 */
static const char *convolve(const cleave_decoder *d, const char *module, const char *x) {
    static const int64_t turned[] = {0, 2, 1};
    cleave_composer *c = d->c;
    const int64_t width = d->config->width, taps = d->config->taps;
    const char *weight =
        cleave_compose_parameter(c, name_of(d, module, "weight"), 3, (int64_t[]){width, 1, taps});
    x = cleave_compose_transpose(c, name_of(d, module, "columns"), x, 3, turned);
    x = CLEAVE_COMPOSE(c, "Conv", module, x, weight);
    cleave_compose_integers(c, "kernel_shape", 1, &taps);
    cleave_compose_integers(c, "pads", 2, (int64_t[]){taps - 1, 0});
    cleave_compose_integer(c, "group", width);
    return cleave_compose_transpose(c, name_of(d, module, "places"), x, 3, turned);
}

static const char *mix(const cleave_decoder *d, const char *block, const char *x) {
    static const char *const names[] = {"before", "behind", "x"};
    cleave_composer *c = d->c;
    const int64_t width = d->config->width;
    const char *scope = name_of(d, block, "conv"), *parts[3];
    x = cleave_compose_sides(c, name_of(d, scope, "in_proj"), x, "ntc,sdc->ntsd", 3,
                             (int64_t[]){3, width, width});
    for (int i = 0; i < 3; i++)
        parts[i] = cleave_compose_side(c, name_of(d, scope, names[i]), x, 2, i, d->config->sequence,
                                       width);
    x = CLEAVE_COMPOSE(c, "Mul", name_of(d, scope, "let_in"), parts[0], parts[2]);
    x = convolve(d, name_of(d, scope, "conv"), x);
    x = CLEAVE_COMPOSE(c, "Mul", name_of(d, scope, "let_out"), parts[1], x);
    return cleave_compose_linear(c, name_of(d, scope, "out_proj"), x, width, width, false);
}

static const char *attend(const cleave_decoder *d, const char *block, const char *x,
                          int64_t layer) {
    static const char *const which[] = {"q", "k", "v"};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const cleave_composed_attention how = cleave_decoder_attention(config, layer);
    const char *scope = name_of(d, block, "self_attn"), *parts[3];
    for (int i = 0; i < 3; i++) {
        const int64_t heads = i == 0 ? config->heads : config->kv_heads;
        const char *name = name_of(d, scope, which[i]);
        parts[i] = cleave_compose_linear(c, cleave_compose_name(c, "%s_proj", name), x,
                                         config->width, heads * config->head, false);
        parts[i] =
            cleave_compose_cut_heads(c, name_of(d, name, "parts"), parts[i], &how.heads, i == 0);
        if (i < 2)
            parts[i] =
                cleave_compose_norm(c, cleave_compose_name(c, "%s_layernorm", name), parts[i],
                                    config->head, config->epsilon, CLEAVE_NORM_RMS);
        parts[i] = cleave_compose_turn_heads(c, name, parts[i]);
        if (i < 2)
            parts[i] = cleave_compose_rotary(c, cleave_compose_name(c, "%s_turned", name), parts[i],
                                             &d->rotary, config->head);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, name_of(d, scope, "out_proj"), x, config->heads * config->head,
                                 config->width, false);
}

static const char *attend_or_mix(cleave_decoder *d, const char *block, const char *x,
                                 int64_t layer) {
    const cleave_of_layers *attending = &d->config->attending;
    return attending->n == 0 || attending->has[layer] ? attend(d, block, x, layer)
                                                      : mix(d, block, x);
}

/* ---- units ----------------------------------------------------------------------------------- */

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    cleave_composer *c = d->c;
    const int64_t width = d->config->width, inner = d->config->inner;
    const char *scope = name_of(d, block, "feed_forward");
    (void)layer;
    const char *gate = cleave_compose_linear(c, name_of(d, scope, "w1"), x, width, inner, false);
    const char *up = cleave_compose_linear(c, name_of(d, scope, "w3"), x, width, inner, false);
    gate = cleave_compose_activation(c, cleave_activation_find("silu"), name_of(d, scope, "act"),
                                     gate);
    x = CLEAVE_COMPOSE(c, "Mul", name_of(d, scope, "gated"), gate, up);
    return cleave_compose_linear(c, name_of(d, scope, "w2"), x, inner, width, false);
}

static const char *feed_experts(const cleave_decoder *d, const char *block, const char *x,
                                int64_t layer) {
    const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SIGMOID,
                                     .correction = d->config->corrects ? "expert_bias" : NULL};
    return layer < d->config->dense_layers
               ? feed(d, block, x, layer)
               : cleave_compose_experts(d, name_of(d, block, "feed_forward"), x, &how);
}

/* ---- the models ------------------------------------------------------------------------------ */

static const cleave_decoder_norms norms = {
    .before_attention = "operator_norm", .before_feed = "ffn_norm", .last = "embedding_norm"};

const char *cleave_compose_lfm2(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(
        c, config, &(cleave_decoder_style){.norms = &norms, .attend = attend_or_mix, .feed = feed});
}

const char *cleave_compose_lfm2_moe(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.groups = own.group_choices = 1;
    own.activation = "silu";
    return cleave_compose_decoder(
        c, &own,
        &(cleave_decoder_style){.norms = &norms, .attend = attend_or_mix, .feed = feed_experts});
}
