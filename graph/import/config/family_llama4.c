/* Ministral 3, whose queries grow with their place, and Llama 4, its texts: experts in some layers,
   whose inputs are weighed and not their results, beside one that all tokens go through; layers
   that turn pairs of neighbours, and norm queries and keys behind that, and others whose queries
   grow with their place. */
#include "graph/import/config/experts.h"
#include "graph/import/config/families.h"

#include <math.h>

/* Queries times 1 + scale x log(1 + the steps that lie before their place), of which the first is
   `first`; as they are where no text is as long as a step. */
static const char *grow(const cleave_decoder *d, const char *name, const char *x, double step,
                        double scale, int64_t first) {
    const int64_t shape[] = {d->config->sequence, 1};
    if ((double)(shape[0] - 1 + first) < step)
        return x;
    float *values = CLEAVE_ARENA_ARRAY(d->c->arena, float, shape[0]);
    d->c->failed = d->c->failed || values == NULL;
    for (int64_t t = 0; values != NULL && t < shape[0]; t++)
        values[t] = (float)(log1p(floor((double)(t + first) / step)) * scale + 1);
    const char *by = cleave_compose_floats(d->c, cleave_compose_name(d->c, "%s_temperatures", name),
                                           2, shape, values);
    return CLEAVE_COMPOSE(d->c, "Mul", cleave_compose_name(d->c, "%s_scaled", name), x, by);
}

/* ---- Ministral 3 ----------------------------------------------------------------------------- */

static const char *heads_of_ministral(const cleave_decoder *d, const char *scope, const char *which,
                                      const char *x, const cleave_heads *heads, int64_t layer) {
    const cleave_rotary *r = &d->config->rotary[0];
    x = cleave_decoder_project(d, scope, which, x, heads, layer);
    return which[0] == 'q' && r->place_scale > 0
               ? grow(d, cleave_compose_name(d->c, "%s.q", scope), x, (double)r->original_positions,
                      r->place_scale, 0)
               : x;
}

const char *cleave_compose_ministral3(cleave_composer *c, const cleave_config *config) {
    return cleave_compose_decoder(c, config, &(cleave_decoder_style){.heads = heads_of_ministral});
}

/* ---- Llama 4 --------------------------------------------------------------------------------- */

static const char *heads_of(const cleave_decoder *d, const char *scope, const char *which,
                            const char *x, const cleave_heads *heads, int64_t layer) {
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const bool is_query = which[0] == 'q', is_value = which[0] == 'v';
    const int64_t n = (is_query ? heads->heads : heads->kv_heads) * heads->size;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which), x,
                              config->width, n, config->attention_bias);
    const char *name = cleave_compose_name(c, "%s.%s", scope, which);
    x = cleave_compose_split_heads(c, name, x, heads, is_query);
    if (is_value)
        return x;
    if (cleave_layer_turns(config, layer)) {
        x = cleave_compose_rotary(c, cleave_compose_name(c, "%s_turned", name), x, &d->rotary,
                                  heads->size);
        return config->qk_norm
                   ? cleave_compose_norm(c, cleave_compose_name(c, "%s_norm", name), x, heads->size,
                                         config->epsilon, CLEAVE_NORM_RMS_BARE)
                   : x;
    }
    return is_query && config->scales ? grow(d, name, x, config->place_step, config->place_scale, 1)
                                      : x;
}

static const char *feed(const cleave_decoder *d, const char *block, const char *x, int64_t layer) {
    static const cleave_expert_style how = {.routing = CLEAVE_ROUTING_SIGMOID_OF_CHOSEN,
                                            .router = "router",
                                            .transposed = true,
                                            .weighs_inputs = true};
    cleave_composer *c = d->c;
    const cleave_config *config = d->config;
    const char *scope = cleave_compose_name(c, "%s.feed_forward", block);
    if (config->routed.n > 0 ? !config->routed.has[layer] : (layer + 1) % config->sparse_step != 0)
        return cleave_compose_gated(c, config, scope, x, config->inner);
    const char *shared = cleave_compose_gated(
        c, config, cleave_compose_name(c, "%s.shared_expert", scope), x, config->expert_inner);
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.sum", scope), shared,
                          cleave_compose_experts(d, scope, x, &how));
}

const char *cleave_compose_llama4(cleave_composer *c, const cleave_config *config) {
    cleave_config own = *config;
    own.rotary[0].interleaved = true;
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.heads = heads_of, .feed = feed});
}
