/* Buckets of distances: near keys have one each, far ones share buckets that widen with the
   logarithm of the distance. */
#include "graph/import/config/distances.h"

#include <math.h>

/* Both ways half of the buckets are for keys behind the query. */
static int64_t bucket_of(const cleave_config *config, bool both_ways, int64_t distance) {
    int64_t n = both_ways ? config->buckets / 2 : config->buckets, first = 0;
    if (both_ways && distance > 0)
        first = n;
    int64_t away = distance < 0 ? -distance : both_ways ? distance : 0, exact = n / 2;
    if (away < exact)
        return first + away;
    /* In f32, as the framework has it, where a border falls on a distance. */
    float range = (float)log((double)config->distance / (double)exact);
    float share = logf((float)away / (float)exact) / range * (float)(n - exact);
    int64_t far = exact + (int64_t)fminf(share, (float)n);
    return first + (far < n - 1 ? far : n - 1);
}

const char *cleave_compose_distance_bias(cleave_composer *c, const cleave_config *config,
                                         const char *scope, bool both_ways) {
    const int64_t n = config->sequence, shape[] = {n, n};
    int64_t *buckets = CLEAVE_ARENA_ARRAY(c->arena, int64_t, n * n);
    c->failed = c->failed || buckets == NULL;
    if (c->failed)
        return NULL;
    for (int64_t query = 0; query < n; query++)
        for (int64_t key = 0; key < n; key++)
            buckets[query * n + key] = bucket_of(config, both_ways, key - query);
    const char *ids =
        cleave_compose_ids(c, cleave_compose_name(c, "%s.buckets", scope), 2, shape, buckets);
    const char *bias =
        cleave_compose_embedding(c, scope, ids, config->buckets, config->heads, NULL);
    return cleave_compose_transpose(c, cleave_compose_name(c, "%s.of_heads", scope), bias, 3,
                                    (int64_t[]){2, 0, 1});
}
