#include "search/problem/drafts.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DRAFTS = 1 << 15 };

static void factorize(drafts *d, int32_t n, int level) {
    for (int32_t p = 2; n > 1; p++)
        for (; n % p == 0; n /= p) {
            d->level[d->n_primes] = level;
            d->prime[d->n_primes++] = p;
        }
}

static int64_t largest_block(int64_t extent, int64_t degree) {
    return (extent + degree - 1) / degree;
}

/* May a target that is split `before` ways be split `after` ways? */
static bool allowed(const drafts *d, int target, int32_t before, int32_t after) {
    if (target == 0)
        return true;
    const cleave_axis *axis = &d->op->axes[target - 1];
    return d->splits[target - 1] && after <= axis->extent &&
           ((d->even_targets >> target & 1) == 0 || axis->extent % after == 0) &&
           largest_block(axis->extent, after) < largest_block(axis->extent, before);
}

static void add_draft(drafts *d) {
    if (d->list.n == MAX_DRAFTS) {
        d->truncated = true;
        return;
    }
    d->current.index = d->list.n;
    d->failed = d->failed || !CLEAVE_LIST_PUSH(&d->list, d->current);
}

/* Hands out factor i of the first n. */
static void hand_out(drafts *d, int i, int n) {
    if (i == n) {
        add_draft(d);
        return;
    }
    int32_t prime = d->prime[i];
    int level = d->level[i], first = d->first_target;
    if (i > 0 && d->prime[i - 1] == prime && d->level[i - 1] == level)
        first = d->target_of[i - 1];
    for (int t = first; t <= d->op->n_axes && !d->truncated && !d->failed; t++) {
        if (!allowed(d, t, d->current.total[t], d->current.total[t] * prime))
            continue;
        d->target_of[i] = t;
        d->current.degree[level][t] *= prime;
        d->current.total[t] *= prime;
        hand_out(d, i + 1, n);
        d->current.degree[level][t] /= prime;
        d->current.total[t] /= prime;
    }
}

static void begin(drafts *d, int32_t n_devices) {
    for (int t = 0; t < DRAFT_TARGETS; t++)
        d->current.total[t] = d->current.degree[0][t] = d->current.degree[1][t] = 1;
    d->current.n_parts = 1;
    d->n_devices = n_devices;
}

static void take(drafts *d, int32_t n_devices, int32_t devices_per_node, int outer_level) {
    int32_t within = devices_per_node;
    if (within < 1 || n_devices % within != 0)
        within = n_devices;
    begin(d, n_devices);
    factorize(d, within, 0);
    factorize(d, n_devices / within, outer_level);
}

void drafts_take_blocks(drafts *d, int32_t n_devices, int32_t devices_per_node) {
    take(d, n_devices, devices_per_node, 1);
}

void drafts_take_degrees(drafts *d, int32_t n_devices, int32_t devices_per_node) {
    take(d, n_devices, devices_per_node, 0);
}

bool drafts_take_windows(drafts *d, int32_t n_devices, int32_t window_devices, int outer) {
    int32_t windows = n_devices / window_devices;
    begin(d, n_devices);
    d->first_target = outer + 1;
    if (outer >= 0)
        d->even_targets |= UINT32_C(1) << (outer + 1);
    d->all_devices = true;
    if (!allowed(d, outer + 1, 1, windows))
        return false;
    d->current.total[outer + 1] = d->current.degree[1][outer + 1] = windows;
    d->current.n_parts = windows;
    factorize(d, window_devices, 0);
    return true;
}

bool drafts_make(drafts *d) {
    for (int n = 0; n <= d->n_primes; n++) {
        if (n > 0)
            d->current.n_parts *= d->prime[n - 1];
        if (!d->all_devices || n == d->n_primes)
            hand_out(d, 0, n);
    }
    return !d->failed;
}

/* ---- how many there are, without making them ----

   A way to hand out the first n factors is a way to give each target some factors of each group of
   equal ones, and whether a target may have them does not depend on what the others get.  So they
   are counted by going over the targets, with a state for how many of each group are gone. */

typedef struct groups {
    int n, prime[DRAFT_MAX_PRIMES], most[DRAFT_MAX_PRIMES];
    int32_t n_states; /* mixed radix, the first group lowest */
} groups;

static groups group_factors(const drafts *d) {
    groups g = {.n_states = 1};
    for (int i = 0; i < d->n_primes; i++) {
        bool more = i > 0 && d->prime[i] == d->prime[i - 1] && d->level[i] == d->level[i - 1];
        if (!more)
            g.prime[g.n++] = d->prime[i];
        g.most[g.n - 1]++;
    }
    for (int k = 0; k < g.n; k++)
        g.n_states *= g.most[k] + 1;
    return g;
}

/* May a target have all that a state says, handed out in order? */
static bool may_have(const drafts *d, const groups *g, int target, int32_t state) {
    int32_t total = 1;
    for (int k = 0; k < g->n; state /= g->most[k] + 1, k++)
        for (int i = 0; i < state % (g->most[k] + 1); i++) {
            if (!allowed(d, target, total, total * g->prime[k]))
                return false;
            total *= g->prime[k];
        }
    return true;
}

/* Can one state's factors be taken beside those of another? */
static bool has_room(const groups *g, int32_t a, int32_t b) {
    for (int k = 0; k < g->n; k++) {
        int32_t radix = g->most[k] + 1;
        if (a % radix + b % radix >= radix)
            return false;
        a /= radix;
        b /= radix;
    }
    return true;
}

/* ways[state] for all targets; `next` is scratch. */
static void count_ways(const drafts *d, const groups *g, double *ways, double *next) {
    memset(ways, 0, (size_t)g->n_states * sizeof *ways);
    ways[0] = 1;
    for (int t = 0; t <= d->op->n_axes; t++) {
        memset(next, 0, (size_t)g->n_states * sizeof *next);
        for (int32_t had = 0; had < g->n_states; had++)
            for (int32_t s = 0; may_have(d, g, t, had) && s < g->n_states - had; s++)
                if (ways[s] > 0 && has_room(g, s, had))
                    next[s + had] += ways[s];
        memcpy(ways, next, (size_t)g->n_states * sizeof *ways);
    }
}

bool drafts_count(const drafts *d, bool places, double *n_splits) {
    groups g = group_factors(d);
    double *ways = malloc((size_t)g.n_states * 2 * sizeof *ways), total = 0;
    if (ways == NULL)
        return false;
    count_ways(d, &g, ways, ways + g.n_states);
    int32_t n_parts = 1, state = 0, place = 1;
    for (int k = 0; k < g.n; place *= g.most[k] + 1, k++)
        for (int i = 0; i < g.most[k]; i++) {
            if (!d->all_devices)
                total += ways[state] * (places ? d->n_devices / n_parts : 1);
            state += place;
            n_parts *= g.prime[k];
        }
    *n_splits = total + ways[state]; /* all devices: one block */
    free(ways);
    return true;
}
