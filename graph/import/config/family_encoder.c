/* Blocks of encoders, which norm what attention and unit read, or what they give. */
#include "graph/import/config/family_encoder.h"
#include "graph/import/config/sides.h"

#include <math.h>

const char *cleave_encoder_name(const cleave_encoder *e, const char *scope, const char *what) {
    return cleave_compose_name(e->c, "%s.%s", scope, what);
}

const char *cleave_encoder_norm(const cleave_encoder *e, const char *scope, const char *what,
                                const char *x) {
    return cleave_compose_norm(e->c, cleave_encoder_name(e, scope, what), x, e->config->width,
                               e->config->epsilon, CLEAVE_NORM_LAYER);
}

/* A linear layer of the block, as wide as x where nothing else is said. */
static const char *linear(const cleave_encoder *e, const char *scope, const char *what,
                          const char *x, int64_t n_in, int64_t n_out) {
    return cleave_compose_linear(e->c, cleave_encoder_name(e, scope, what), x, n_in, n_out,
                                 !e->names->is_plain);
}

static const char *drop(const cleave_encoder *e, const char *block, const char *what,
                        const char *x) {
    return what == NULL ? x
                        : cleave_compose_dropout(e->c, cleave_encoder_name(e, block, what), x,
                                                 e->config->dropout);
}

static const char *attend(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_encoder_names *names = e->names;
    const char *const modules[] = {names->query, names->key, names->value};
    static const char *const heads[] = {"queries", "keys_of_heads", "values"};
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const int64_t width = config->heads * config->head;
    const char *scope = cleave_encoder_name(e, block, names->attention), *parts[3];
    cleave_composed_attention how = {
        .heads = {e->length, config->heads, config->heads, config->head},
        .scale = e->scale > 0 ? e->scale : 1 / sqrt((double)config->head),
        .bias = e->bias,
        .is_causal = e->is_causal,
        .dropout = config->attention_dropout};
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_linear(c, cleave_encoder_name(e, scope, modules[i]), x,
                                         config->width, width, e->biases);
        parts[i] = cleave_compose_split_heads(c, cleave_encoder_name(e, scope, heads[i]), parts[i],
                                              &how.heads, i == 0);
        if (e->rotary != NULL && i < 2)
            parts[i] =
                cleave_compose_rotary(c, cleave_compose_name(c, "%s.%s_turned", scope, heads[i]),
                                      parts[i], e->rotary, config->head);
    }
    if (e->score != NULL)
        how.bias = e->score(e, scope, parts[0], parts[1]);
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    x = linear(e, block, names->attended, x, width, config->width);
    return drop(e, block, names->attended_dropout, x);
}

const char *cleave_encoder_feed(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_config *config = e->config;
    const cleave_encoder_names *names = e->names;
    if (names->is_gated) {
        x = cleave_compose_gated_sides(e->c, block, x,
                                       &(cleave_gated_sides){.module = names->wide,
                                                             .function = names->act,
                                                             .activation = config->activation,
                                                             .length = e->length,
                                                             .width = config->width,
                                                             .inner = config->inner,
                                                             .bias = true});
    } else {
        const char *up =
            names->up != NULL ? linear(e, block, names->up, x, config->width, config->inner) : NULL;
        x = linear(e, block, names->wide, x, config->width, config->inner);
        x = cleave_compose_activation(e->c, cleave_activation_find(config->activation),
                                      cleave_encoder_name(e, block, names->act), x);
        if (up != NULL)
            x = CLEAVE_COMPOSE(e->c, "Mul", cleave_encoder_name(e, block, "gated"), x, up);
    }
    x = linear(e, block, names->narrow, x, config->inner, config->width);
    return drop(e, block, names->dropout, x);
}

/* Times a number for each element of the width, a parameter; x itself where there is no module. */
static const char *scale(const cleave_encoder *e, const char *block, const char *module,
                         const char *x) {
    if (module == NULL)
        return x;
    const char *factors =
        cleave_compose_parameter(e->c, cleave_encoder_name(e, block, module), 1, &e->config->width);
    return CLEAVE_COMPOSE(
        e->c, "Mul", cleave_encoder_name(e, block, cleave_compose_name(e->c, "%s.scaled", module)),
        x, factors);
}

static const char *add_block(const cleave_encoder *e, const char *block, const char *x) {
    const cleave_encoder_names *names = e->names;
    const char *y = cleave_encoder_norm(e, block, names->attention_norm, x);
    y = scale(e, block, names->attention_scale, attend(e, block, y));
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "attended"), x, y);
    y = cleave_encoder_norm(e, block, names->unit_norm, x);
    y = scale(e, block, names->unit_scale, cleave_encoder_feed(e, block, y));
    return CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "sum"), x, y);
}

const char *cleave_encoder_normed_block(const cleave_encoder *e, const char *block, const char *x) {
    const char *y = attend(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "attended"), x, y);
    x = cleave_encoder_norm(e, block, e->names->attention_norm, x);
    y = cleave_encoder_feed(e, block, x);
    x = CLEAVE_COMPOSE(e->c, "Add", cleave_encoder_name(e, block, "sum"), x, y);
    return cleave_encoder_norm(e, block, e->names->unit_norm, x);
}

const char *cleave_encoder_run(const cleave_encoder *e, const char *blocks, const char *x) {
    for (int64_t i = 0; i < e->config->layers; i++)
        x = add_block(e, cleave_compose_name(e->c, "%s.%lld", blocks, (long long)i), x);
    return x;
}

const char *cleave_encoder_row(const cleave_encoder *e, const char *name, const char *x,
                               int64_t row) {
    x = cleave_compose_slice(e->c, cleave_encoder_name(e, name, "row"), x, 1, row, row + 1);
    return cleave_compose_reshape(e->c, name, x, 2, (int64_t[]){0, e->config->width});
}
