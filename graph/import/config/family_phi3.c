/* Phi-3: Llama with one product for queries, keys and values, and one for both sides of the gated
   unit, which GLM has, too; what is added to the stream may be dropped. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_llama.h"
#include "graph/import/config/sides.h"

/* Of as many heads each. */
static const char *queries_keys_values(const cleave_decoder *d, const char *scope, const char *x) {
    return cleave_compose_sides(
        d->c, scope, x, "ntc,shdc->ntshd", 4,
        (int64_t[]){3, d->config->heads, d->config->head, d->config->width});
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
            alike ? cleave_compose_side(c, name, x, 2, i, config->sequence, wide)
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
    const cleave_config *config = d->config;
    const int64_t width = config->width, inner = config->inner;
    const char *scope = cleave_compose_name(c, "%s.mlp", block);
    x = cleave_compose_gated_sides(c, scope, x,
                                   &(cleave_gated_sides){.module = "gate_up_proj",
                                                         .function = "activation_fn",
                                                         .activation = config->activation,
                                                         .length = config->sequence,
                                                         .width = width,
                                                         .inner = inner});
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
    return cleave_compose_decoder(c, &own, &(cleave_decoder_style){.norms = norms, .feed = feed});
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
