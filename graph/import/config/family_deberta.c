/* DeBERTa from its second version on: scores are of contents, of a query's content and where the
   key is from it, and of a key's content and where the query is.  What places give is a row for
   each bucket of distances, and each score takes one of a query's, or a key's, scores with all
   rows. */
#include "graph/import/config/families.h"
#include "graph/import/config/family_masked.h"

#include <math.h>

/* What the scores of all layers read. */
typedef struct places {
    const char *rows;                 /* [2 span, width] */
    const char *of_queries, *of_keys; /* [queries, keys], for each the place in [length x 2 span] of
                                       a bucket in the query's row, or the key's */
} places;

/* Where a query is from a key: near ones have a bucket each, far ones share them. */
static int64_t bucket_of(const cleave_config *config, int64_t distance) {
    const int64_t middle = config->place_buckets / 2, away = distance < 0 ? -distance : distance;
    if (config->place_buckets <= 0 || away <= middle)
        return distance;
    /* In f32, as the framework has it, where a border falls on a distance. */
    const float range = logf((float)(config->distance - 1) / (float)middle);
    const float share = logf((float)away / (float)middle) / range;
    const int64_t far = (int64_t)ceilf(share * (float)(middle - 1)) + middle;
    return distance < 0 ? -far : far;
}

/* How many buckets there are for queries behind a key. */
static int64_t span_of(const cleave_config *config) {
    return config->place_buckets > 0 ? config->place_buckets : config->distance;
}

static const char *places_of(const cleave_encoder *e, const char *name, bool of_key) {
    const int64_t n = e->length, span = span_of(e->config), shape[] = {n, n};
    int64_t *of_row = CLEAVE_ARENA_ARRAY(e->c->arena, int64_t, n * n);
    e->c->failed = e->c->failed || of_row == NULL;
    for (int64_t query = 0; of_row != NULL && query < n; query++)
        for (int64_t key = 0; key < n; key++) {
            int64_t bucket = bucket_of(e->config, query - key) + span;
            bucket = bucket < 0 ? 0 : bucket < 2 * span ? bucket : 2 * span - 1;
            of_row[query * n + key] = (of_key ? key : query) * 2 * span + bucket;
        }
    return cleave_compose_ids(e->c, name, 2, shape, of_row);
}

/* What a module makes of the rows of places, as [heads, size, 2 span]. */
static const char *project(const cleave_encoder *e, const char *scope, const char *module,
                           const char *x) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    c->again = config->shares_projections ? "@places" : NULL;
    x = cleave_compose_linear(c, cleave_encoder_name(e, scope, module), x, config->width,
                              config->width, true);
    c->again = NULL;
    const char *name = cleave_compose_name(c, "%s.%s.places", scope, module);
    x = cleave_compose_reshape(c, cleave_compose_name(c, "%s.heads", name), x, 3,
                               (int64_t[]){2 * span_of(config), config->heads, config->head});
    return cleave_compose_transpose(c, name, x, 3, (int64_t[]){1, 2, 0});
}

/* Scores [batch, heads, queries, keys] of contents and places. */
static const char *score_side(const cleave_encoder *e, const char *name, const char *contents,
                              const char *rows, const char *chosen) {
    cleave_composer *c = e->c;
    const cleave_config *config = e->config;
    const char *all =
        CLEAVE_COMPOSE(c, "MatMul", cleave_compose_name(c, "%s.all", name), contents, rows);
    all = cleave_compose_reshape(c, cleave_compose_name(c, "%s.flat", name), all, 3,
                                 (int64_t[]){0, config->heads, e->length * 2 * span_of(config)});
    const char *scores = CLEAVE_COMPOSE(c, "Gather", name, all, chosen);
    cleave_compose_integer(c, "axis", 2);
    return scores;
}

static const char *score(const cleave_encoder *e, const char *scope, const char *queries,
                         const char *keys) {
    cleave_composer *c = e->c;
    const places *of = e->scored;
    const bool shares = e->config->shares_projections;
    const char *rows = cleave_compose_dropout(c, cleave_encoder_name(e, scope, "pos_dropout"),
                                              of->rows, e->config->dropout);
    const char *of_queries =
        score_side(e, cleave_encoder_name(e, scope, "query_scores"), queries,
                   project(e, scope, shares ? "key_proj" : "pos_key_proj", rows), of->of_queries);
    const char *of_keys =
        score_side(e, cleave_encoder_name(e, scope, "key_scores"), keys,
                   project(e, scope, shares ? "query_proj" : "pos_query_proj", rows), of->of_keys);
    const char *both = CLEAVE_COMPOSE(c, "Add", cleave_encoder_name(e, scope, "place_scores"),
                                      of_queries, of_keys);
    return cleave_compose_scaled(c, cleave_encoder_name(e, scope, "place_scores"), both, e->scale);
}

const char *cleave_compose_deberta_v2(cleave_composer *c, const cleave_config *config) {
    cleave_masked of = cleave_masked_bert;
    of.model = "deberta";
    of.names.query = "query_proj";
    of.names.key = "key_proj";
    of.names.value = "value_proj";
    cleave_config own = *config;
    own.scores_places = !config->scales; /* as `position_biased_input` says */
    if (own.distance < 1)
        own.distance = own.positions;
    cleave_encoder e = cleave_masked_encoder(c, &own, &of);
    e.score = score;
    e.scale = 1 / sqrt(3 * (double)own.head);
    const int64_t shape[] = {2 * span_of(&own), own.width};
    places scored = {cleave_compose_parameter(c, "deberta.encoder.rel_embeddings.weight", 2, shape),
                     places_of(&e, "deberta.encoder.rows_of_queries", false),
                     places_of(&e, "deberta.encoder.rows_of_keys", true)};
    if (config->norms_behind)
        scored.rows = cleave_encoder_norm(&e, "deberta.encoder", "LayerNorm", scored.rows);
    e.scored = &scored;
    const char *table, *x = cleave_masked_embed(&e, &of, &table);
    return cleave_masked_logits(&e, &of, table, x);
}
