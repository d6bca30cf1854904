#include "search/pipeline/priced.h"

static void put_numbers(cleave_digest *digest, const int32_t *numbers, int32_t n) {
    cleave_digest_put(digest, numbers == NULL ? -1 : n);
    for (int32_t i = 0; numbers != NULL && i < n; i++)
        cleave_digest_put(digest, numbers[i]);
}

/* Most operators share the list of their devices with the one before: it is read once. */
static void put_splits(cleave_digest *digest, const cleave_layout *layout) {
    cleave_digest devices = cleave_digest_begin(0);
    for (int32_t op = 0; op < layout->n_operators; op++) {
        const cleave_split *split = &layout->splits[op], *before = op > 0 ? split - 1 : NULL;
        cleave_digest_put(digest, split->replicas);
        for (int a = 0; a < CLEAVE_MAX_AXES; a++)
            cleave_digest_put(digest, split->degree[a] > 1 ? split->degree[a] : 1);
        if (before == NULL || before->devices != split->devices ||
            before->n_parts != split->n_parts) {
            devices = cleave_digest_begin(0);
            put_numbers(&devices, split->devices, split->n_parts);
        }
        cleave_digest_put(digest, (int64_t)devices.a);
        cleave_digest_put(digest, (int64_t)devices.b);
        cleave_digest_put(digest, cleave_layout_recomputes(layout, op));
    }
}

static void put_schedule(cleave_digest *digest, const cleave_schedule *schedule) {
    const int32_t facts[] = {schedule->micro_batches, schedule->n_stages, (int32_t)schedule->kind,
                             schedule->sooner, schedule->n_orders};
    put_numbers(digest, facts, sizeof facts / sizeof *facts);
    put_numbers(digest, schedule->first_operator, schedule->n_stages);
    put_numbers(digest, schedule->in_flight, schedule->n_stages);
    put_numbers(digest, schedule->n_blocks, schedule->n_orders);
    for (int32_t g = 0; g < schedule->n_orders; g++)
        for (int32_t i = 0; i < schedule->n_blocks[g]; i++) {
            const cleave_stage_block *block = &schedule->orders[g][i];
            const int32_t of[] = {(int32_t)block->kind, block->stage, block->micro_batch};
            put_numbers(digest, of, sizeof of / sizeof *of);
        }
}

cleave_digest cleave_layout_digest(const cleave_layout *layout) {
    cleave_digest digest = cleave_digest_begin(0);
    put_splits(&digest, layout);
    put_schedule(&digest, &layout->schedule);
    for (int32_t t = 0; t < layout->n_tensors; t++)
        cleave_digest_put(&digest, layout->sharded[t]);
    cleave_digest_put(&digest, layout->collectives.n);
    cleave_digest_put(&digest, layout->stores_scores);
    return digest;
}

const cleave_priced_layout *cleave_priced_find(const cleave_priced_layouts *priced,
                                               const cleave_digest *key) {
    for (int32_t i = 0; i < priced->n; i++)
        if (priced->items[i].key.a == key->a && priced->items[i].key.b == key->b)
            return &priced->items[i];
    return NULL;
}
