/* Gemma: its norms scale by 1 + weight, and its embedding is scaled.  From Gemma 2 on attention and
   unit are normed behind, too, some layers see a window alone, and scores have a scale of their
   own; scores and logits are capped in Gemma 2, and in Gemma 3 queries and keys have norms, and
   layers with a window rotary positions of their own. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_llama.h"

#include <math.h>
#include <string.h>

static cleave_config with_scaled_embedding(const cleave_config *config) {
    cleave_config own = *config;
    own.embedding_scale = sqrt((double)config->width);
    return own;
}

/* "gelu" in its files means the form with tanh. */
const char *cleave_compose_gemma(cleave_composer *c, const cleave_config *config) {
    cleave_config own = with_scaled_embedding(config);
    if (strcmp(own.activation, "gelu") == 0)
        own.activation = "gelu_pytorch_tanh";
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.norm = CLEAVE_NORM_RMS_PLUS_ONE});
}

static const cleave_decoder_norms both_sides = {
    .before_attention = "input_layernorm",
    .after_attention = "post_attention_layernorm",
    .before_feed = "pre_feedforward_layernorm",
    .after_feed = "post_feedforward_layernorm",
};

/* Every other layer, and the first of all, has a window. */
const char *cleave_compose_gemma2(cleave_composer *c, const cleave_config *config) {
    cleave_config own = with_scaled_embedding(config);
    own.whole_every = 2;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.norm = CLEAVE_NORM_RMS_PLUS_ONE, .norms = &both_sides});
}

/* VaultGemma has no norms behind. */
const char *cleave_compose_vaultgemma(cleave_composer *c, const cleave_config *config) {
    static const cleave_decoder_norms before = {.before_attention = "input_layernorm",
                                                .before_feed = "pre_feedforward_layernorm"};
    cleave_config own = with_scaled_embedding(config);
    own.whole_every = 2;
    return cleave_compose_decoder(
        c, &own, &(cleave_decoder_style){.norm = CLEAVE_NORM_RMS_PLUS_ONE, .norms = &before});
}

const char *cleave_compose_gemma3(cleave_composer *c, const cleave_config *config) {
    const cleave_config own = with_scaled_embedding(config);
    return cleave_compose_decoder(c, &own,
                                  &(cleave_decoder_style){.norm = CLEAVE_NORM_RMS_PLUS_ONE,
                                                          .head_norms = true,
                                                          .norms = &both_sides});
}
