/* Phi, GPT-NeoX, Persimmon, GPT-J and CodeGen: layer norms with biases, a unit of two products, and
   rotary positions of a share of each head.  Attention and unit may be added to the same x, and may
   read the same norm of it.  GPT-J and CodeGen turn pairs of neighbours. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_gpt.h"
#include "graph/import/config/sides.h"

typedef struct turned {
    cleave_composer *c;
    const cleave_config *config;
    cleave_rotary_tables rotary;
} turned;

static const char *turn(const turned *t, const char *scope, const char *which, const char *x) {
    return cleave_compose_rotary(t->c, cleave_compose_name(t->c, "%s.%s_turned", scope, which), x,
                                 &t->rotary, t->config->head);
}

/* Queries or keys, which may be normed first. */
static const char *norm_and_turn(const turned *t, const char *scope, const char *which,
                                 const char *x) {
    if (t->config->qk_norm)
        x = cleave_compose_norm(t->c, cleave_compose_name(t->c, "%s.%s_layernorm", scope, which), x,
                                t->config->head, t->config->epsilon, CLEAVE_NORM_LAYER);
    return turn(t, scope, which, x);
}

/* A unit whose two products are so called in `scope`. */
static const char *feed(const turned *t, const char *scope, const char *wide, const char *narrow,
                        const char *x) {
    cleave_composer *c = t->c;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, wide), x, t->config->width,
                              t->config->inner, true);
    x = cleave_gpt_activate(c, t->config, scope, x);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.%s", scope, narrow), x,
                                 t->config->inner, t->config->width, true);
}

static turned begin(cleave_composer *c, const cleave_config *config) {
    return (turned){
        .c = c, .config = config, .rotary = cleave_compose_rotary_tables(c, "rotary", config)};
}

/* ---- Phi ------------------------------------------------------------------------------------- */

static const char *phi_heads(const turned *t, const char *scope, const char *which, const char *x,
                             const cleave_heads *heads) {
    cleave_composer *c = t->c;
    bool is_query = which[0] == 'q';
    int64_t n = (is_query ? heads->heads : heads->kv_heads) * heads->size;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.%s_proj", scope, which), x,
                              t->config->width, n, true);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.%s", scope, which), x, heads,
                                   is_query);
    return which[0] == 'v' ? x : norm_and_turn(t, scope, which, x);
}

static const char *phi_block(const turned *t, const char *x, int64_t layer) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const cleave_composed_attention how = cleave_gpt_attention(config);
    const char *block = cleave_compose_name(c, "model.layers.%lld", (long long)layer);
    const char *scope = cleave_compose_name(c, "%s.self_attn", block);
    const char *y = cleave_gpt_norm(c, config, block, "input_layernorm", x);
    const char *q = phi_heads(t, scope, "q", y, &how.heads);
    const char *k = phi_heads(t, scope, "k", y, &how.heads);
    const char *v = phi_heads(t, scope, "v", y, &how.heads);
    const char *attended = cleave_compose_attention(c, scope, &how, q, k, v);
    attended = cleave_compose_linear(c, cleave_compose_name(c, "%s.dense", scope), attended,
                                     config->heads * config->head, config->width, true);
    y = feed(t, cleave_compose_name(c, "%s.mlp", block), "fc1", "fc2", y);
    x = cleave_gpt_add(c, config, cleave_compose_name(c, "%s.attended", block), x, attended);
    return cleave_gpt_add(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

const char *cleave_compose_phi(cleave_composer *c, const cleave_config *config) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "model.embed_tokens", ids, config->vocabulary,
                                             config->width, &table);
    x = cleave_compose_dropout(c, "model.embed_dropout", x, config->embedding_dropout);
    const turned t = begin(c, config);
    for (int64_t i = 0; i < config->layers; i++)
        x = phi_block(&t, x, i);
    x = cleave_gpt_norm(c, config, "model", "final_layernorm", x);
    return cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, true);
}

/* ---- GPT-NeoX and Persimmon ------------------------------------------------------------------ */

/* What they call their modules. */
typedef struct neox_names {
    const char *model, *embedding, *attention, *norm, *head; /* norm: the last one */
} neox_names;

/* One product gives query, key and value of each head side by side. */
static const char *neox_attend(const turned *t, const char *scope, const char *x) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const char *which[] = {"q", "k", "v"}, *parts[3];
    const cleave_composed_attention how = cleave_gpt_attention(config);
    cleave_heads triple = how.heads;
    triple.size *= 3;
    x = cleave_compose_linear(c, cleave_compose_name(c, "%s.query_key_value", scope), x,
                              config->width, 3 * config->width, config->attention_bias);
    x = cleave_compose_split_heads(c, cleave_compose_name(c, "%s.qkv", scope), x, &triple, true);
    for (int i = 0; i < 3; i++) {
        parts[i] = cleave_compose_slice(c, cleave_compose_name(c, "%s.%s", scope, which[i]), x, 3,
                                        i * config->head, (i + 1) * config->head);
        if (i < 2)
            parts[i] = norm_and_turn(t, scope, which[i], parts[i]);
    }
    x = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    return cleave_compose_linear(c, cleave_compose_name(c, "%s.dense", scope), x, config->width,
                                 config->width, config->attention_bias);
}

static const char *neox_block(const turned *t, const neox_names *names, const char *x,
                              int64_t layer) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const char *block = cleave_compose_name(c, "%s.layers.%lld", names->model, (long long)layer);
    const char *y = cleave_gpt_norm(c, config, block, "input_layernorm", x);
    y = neox_attend(t, cleave_compose_name(c, "%s.%s", block, names->attention), y);
    const char *attended =
        cleave_gpt_add(c, config, cleave_compose_name(c, "%s.attended", block), x, y);
    y = cleave_gpt_norm(c, config, block, "post_attention_layernorm",
                        config->parallel ? x : attended);
    y = feed(t, cleave_compose_name(c, "%s.mlp", block), "dense_h_to_4h", "dense_4h_to_h", y);
    return cleave_gpt_add(c, config, cleave_compose_name(c, "%s.output", block), attended, y);
}

static const char *compose_neox(cleave_composer *c, const cleave_config *config,
                                const neox_names *names) {
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x =
        cleave_compose_embedding(c, cleave_compose_name(c, "%s.%s", names->model, names->embedding),
                                 ids, config->vocabulary, config->width, &table);
    x = cleave_compose_dropout(c, cleave_compose_name(c, "%s.emb_dropout", names->model), x,
                               config->dropout);
    const turned t = begin(c, config);
    for (int64_t i = 0; i < config->layers; i++)
        x = neox_block(&t, names, x, i);
    x = cleave_gpt_norm(c, config, names->model, names->norm, x);
    return config->tied
               ? cleave_compose_tied(c, names->head, x, table)
               : cleave_compose_linear(c, names->head, x, config->width, config->vocabulary, false);
}

const char *cleave_compose_gpt_neox(cleave_composer *c, const cleave_config *config) {
    static const neox_names names = {"gpt_neox", "embed_in", "attention", "final_layer_norm",
                                     "embed_out"};
    return compose_neox(c, config, &names);
}

const char *cleave_compose_persimmon(cleave_composer *c, const cleave_config *config) {
    static const neox_names names = {"model", "embed_tokens", "self_attn", "final_layernorm",
                                     "lm_head"};
    cleave_config own = *config;
    own.attention_bias = true;
    return compose_neox(c, &own, &names);
}

/* ---- GPT-J and CodeGen ----------------------------------------------------------------------- */

/* Queries, keys or values [batch, heads, length, head], of which the first two are turned. */
static const char *split_and_turn(const turned *t, const char *scope, const char *which,
                                  const char *x, const cleave_heads *heads) {
    x = cleave_compose_split_heads(t->c, cleave_compose_name(t->c, "%s.%s", scope, which), x, heads,
                                   which[0] == 'q');
    return which[0] == 'v' ? x : turn(t, scope, which, x);
}

static void gptj_heads(const turned *t, const char *scope, const char *x, const cleave_heads *heads,
                       const char *parts[3]) {
    static const char *const which[] = {"q", "k", "v"};
    for (int i = 0; i < 3; i++) {
        const char *name = cleave_compose_name(t->c, "%s.%s_proj", scope, which[i]);
        const char *y =
            cleave_compose_linear(t->c, name, x, t->config->width, t->config->width, false);
        parts[i] = split_and_turn(t, scope, which[i], y, heads);
    }
}

/* One product, whose weight is in four parts, each with the queries, values and keys of a quarter
   of the heads. */
static void codegen_heads(const turned *t, const char *scope, const char *x,
                          const cleave_heads *heads, const char *parts[3]) {
    static const char *const which[] = {"q", "v", "k"};
    const int64_t shape[] = {4, 3, heads->heads / 4, heads->size, t->config->width};
    x = cleave_compose_sides(t->c, cleave_compose_name(t->c, "%s.qkv_proj", scope), x,
                             "ntc,mshdc->ntmshd", 5, shape);
    for (int i = 0; i < 3; i++) {
        const char *name = cleave_compose_name(t->c, "%s.%s_part", scope, which[i]);
        const char *y = cleave_compose_side(t->c, name, x, 3, i, heads->length, t->config->width);
        parts[i == 0 ? 0 : 3 - i] = split_and_turn(t, scope, which[i], y, heads);
    }
}

typedef void (*heads_of_scope)(const turned *t, const char *scope, const char *x,
                               const cleave_heads *heads, const char *parts[3]);

/* Attention and unit read one norm. */
static const char *gptj_block(const turned *t, const char *x, int64_t layer, heads_of_scope heads) {
    cleave_composer *c = t->c;
    const cleave_config *config = t->config;
    const cleave_composed_attention how = cleave_gpt_attention(config);
    const char *block = cleave_compose_name(c, "transformer.h.%lld", (long long)layer), *parts[3];
    const char *scope = cleave_compose_name(c, "%s.attn", block);
    const char *y = cleave_gpt_norm(c, config, block, "ln_1", x);
    heads(t, scope, y, &how.heads, parts);
    const char *attended = cleave_compose_attention(c, scope, &how, parts[0], parts[1], parts[2]);
    attended = cleave_compose_linear(c, cleave_compose_name(c, "%s.out_proj", scope), attended,
                                     config->width, config->width, false);
    y = feed(t, cleave_compose_name(c, "%s.mlp", block), "fc_in", "fc_out", y);
    x = cleave_gpt_add(c, config, cleave_compose_name(c, "%s.attended", block), x, attended);
    return cleave_gpt_add(c, config, cleave_compose_name(c, "%s.output", block), x, y);
}

static const char *compose_gptj(cleave_composer *c, const cleave_config *config,
                                heads_of_scope heads) {
    cleave_config own = *config;
    own.rotary[0].theta = 10000;
    own.rotary[0].interleaved = true;
    const char *table;
    const char *ids = cleave_compose_data(c, "input_ids", CLEAVE_ONNX_INT64, 1, &config->sequence);
    const char *x = cleave_compose_embedding(c, "transformer.wte", ids, config->vocabulary,
                                             config->width, &table);
    x = cleave_compose_dropout(c, "transformer.drop", x, config->embedding_dropout);
    const turned t = begin(c, &own);
    for (int64_t i = 0; i < config->layers; i++)
        x = gptj_block(&t, x, i, heads);
    x = cleave_gpt_norm(c, config, "transformer", "ln_f", x);
    if (!config->tied)
        return cleave_compose_linear(c, "lm_head", x, config->width, config->vocabulary, true);
    x = cleave_compose_tied(c, "lm_head", x, table);
    return CLEAVE_COMPOSE(c, "Add", "lm_head.biased", x,
                          cleave_compose_parameter(c, "lm_head.bias", 1, &config->vocabulary));
}

const char *cleave_compose_gptj(cleave_composer *c, const cleave_config *config) {
    return compose_gptj(c, config, gptj_heads);
}

const char *cleave_compose_codegen(cleave_composer *c, const cleave_config *config) {
    return compose_gptj(c, config, codegen_heads);
}
