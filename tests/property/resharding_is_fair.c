/* What resharding costs, on drawn shardings: blocks of devices that are handed out to dimensions,
   replicas and keys, in any order, of tensors that they divide or do not. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "search/solve/resharding_internal.h"

#include "base/random.h"

#include "../support/collective_cost.h"
#include "../support/test_machine.h"

#include <math.h>

enum { N_CASES = 4000, NODES = 4, WIDTH = 4, DEVICES = NODES * WIDTH, RANK = 3 };

static cleave_arena arena;
static cleave_machine machine;
static cleave_collective_rules rules;
static cleave_resharder *resharder;
static cleave_tensor tensor;

static void set_up(void) {
    machine = make_machine(&arena, NODES, WIDTH, "1 GiB");
    OK(cleave_choose_collectives, &machine, false, &arena, &rules);
    OK(cleave_resharder_create, &machine, &rules, &resharder);
    tensor = (cleave_tensor){.rank = RANK, .shape = {32, 48, 16}, .order = {0, 1, 2}};
}

static void tear_down(void) {
    cleave_resharder_destroy(resharder);
    cleave_arena_free(&arena);
}
TestSuite(resharding, .init = set_up, .fini = tear_down);

/* Each factor of two of the devices goes to a dimension, or to replicas (3), or to keys (4). */
typedef struct drawn {
    int n_factors, target[4];
} drawn;

static drawn draw(cleave_random *random, int n_targets) {
    drawn d = {.n_factors = (int)cleave_random_below(random, 5)};
    for (int i = 0; i < d.n_factors; i++)
        d.target[i] = (int)cleave_random_below(random, n_targets);
    return d;
}

static void fill(const drawn *d, const int32_t *name, cleave_shard_entry *entries) {
    memset(entries, 0, DEVICES * sizeof *entries);
    for (int32_t p = 0; p < 1 << d->n_factors; p++) {
        int64_t degree[5] = {1, 1, 1, 1, 1}, index[5] = {0};
        for (int i = 0; i < d->n_factors; i++) {
            degree[d->target[i]] *= 2;
            index[d->target[i]] = index[d->target[i]] * 2 + (p >> i & 1);
        }
        cleave_shard_entry *entry = &entries[name[p]];
        entry->n_elements = 1;
        entry->key = (uint64_t)index[4];
        for (int k = 0; k < RANK; k++) {
            entry->box.lo[k] = cleave_block_start(tensor.shape[k], degree[k], index[k]);
            entry->box.hi[k] = cleave_block_start(tensor.shape[k], degree[k], index[k] + 1);
            entry->n_elements *= entry->box.hi[k] - entry->box.lo[k];
        }
    }
}

static cleave_sharding shard(const drawn *d, const int32_t *name, cleave_arena *scratch) {
    cleave_shard_entry entries[DEVICES];
    cleave_sharding made;
    fill(d, name, entries);
    OK(cleave_sharding_create, &tensor, DEVICES, entries, scratch, &made);
    return made;
}

static int64_t cost(const cleave_sharding *from, const cleave_sharding *to) {
    int64_t picoseconds = -1;
    OK(cleave_resharding_cost, resharder, from, to, CLEAVE_RESHARD_RESULTS, &picoseconds);
    return picoseconds;
}

static const int32_t *as_numbered(void) {
    static const int32_t same[DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return same;
}

/* Does every device have the box that it wants, and nobody a partial result? */
static bool is_there(const cleave_shard_entry *from, const cleave_shard_entry *to) {
    for (int32_t d = 0; d < DEVICES; d++)
        if (to[d].n_elements > 0 &&
            (from[d].n_elements == 0 || !cleave_box_equal(RANK, &from[d].box, &to[d].box)))
            return false;
    for (int32_t d = 0; d < DEVICES; d++)
        for (int32_t e = 0; e < d; e++)
            if (from[d].n_elements > 0 && from[e].n_elements > 0 && from[d].key != from[e].key)
                return false;
    return true;
}

Test(resharding, costs_nothing_just_where_all_is_there) {
    int n_free = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena scratch = {0};
        cleave_random random = {.key = i};
        drawn a = draw(&random, 5), b = draw(&random, 4);
        if (i % 3 == 0) /* others seldom are alike */
            b = a;
        for (int f = 0; f < b.n_factors; f++)
            b.target[f] = b.target[f] == 4 ? 3 : b.target[f];
        cleave_shard_entry from[DEVICES], to[DEVICES];
        fill(&a, as_numbered(), from);
        fill(&b, as_numbered(), to);
        cleave_sharding x = shard(&a, as_numbered(), &scratch),
                        y = shard(&b, as_numbered(), &scratch);
        int64_t found = cost(&x, &y);
        cr_assert_geq(found, 0);
        cr_assert_eq(found == 0, is_there(from, to), "case %d: %lld", (int)i, (long long)found);
        n_free += found == 0;
        cleave_arena_free(&scratch);
    }
    cr_expect_gt(n_free, N_CASES / 20);
}

/* The factors divide the tensor, so all shards are alike, and the two ways must agree; what the
   arithmetic takes for even is then marked as if it were not. */
Test(resharding, arithmetic_agrees_with_looking_at_every_cell) {
    int n_compared = 0;
    for (int few = 0; few < 2; few++)
        for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
            cleave_arena scratch = {0};
            cleave_random random = {.key = i};
            drawn a = draw(&random, 3), b = draw(&random, 4);
            cleave_sharding x = shard(&a, as_numbered(), &scratch),
                            y = shard(&b, as_numbered(), &scratch);
            resharder->few = resharder->everywhere = few == 1;
            cr_assert(x.is_even && y.is_even);
            double even = (double)cost(&x, &y);
            x.is_even = false;
            double looked = (double)cost(&x, &y);
            cr_assert(fabs(even - looked) <= 0.02 * looked, "case %d: %g and %g", (int)i, even,
                      looked);
            n_compared += looked > 0;
            cleave_arena_free(&scratch);
        }
    cr_expect_gt(n_compared, N_CASES);
}

/* Where several devices hold the same, arithmetic takes readers to be shared out among them evenly.
   Lowering does it by number, so most of the time they are, and never are all at one for nothing.
 */
Test(resharding, arithmetic_shares_readers_out_among_replicas) {
    int n_far = 0, n = 0;
    resharder->few = resharder->everywhere = true;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena scratch = {0};
        cleave_random random = {.key = i};
        drawn a = draw(&random, 4), b = draw(&random, 4);
        cleave_sharding x = shard(&a, as_numbered(), &scratch),
                        y = shard(&b, as_numbered(), &scratch);
        bool has_replicas = x.has_replicas;
        double even = (double)cost(&x, &y);
        x.is_even = false;
        double looked = (double)cost(&x, &y);
        cleave_arena_free(&scratch);
        if (!has_replicas || looked == 0)
            continue;
        cr_assert(even > 0.4 * looked && even < 1.3 * looked, "case %d: %g and %g", (int)i, even,
                  looked);
        n++;
        n_far += fabs(even - looked) > 0.3 * looked;
    }
    cr_expect_lt(n_far, n / 10, "%d of %d", n_far, n);
}

/* Looking at few of many nodes gives what looking at all gives, but where readers choose unevenly.
 */
Test(resharding, few_nodes_stand_for_all) {
    int n_far = 0, n = 0;
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena scratch = {0};
        cleave_random random = {.key = i};
        drawn a = draw(&random, 5), b = draw(&random, 4);
        cleave_sharding x = shard(&a, as_numbered(), &scratch),
                        y = shard(&b, as_numbered(), &scratch);
        resharder->few = resharder->everywhere = false;
        double seen = (double)cost(&x, &y);
        resharder->few = resharder->everywhere = true;
        double all = (double)cost(&x, &y);
        n += all > 0;
        n_far += fabs(seen - all) > 0.05 * all;
        cr_assert(seen <= 1.05 * all && seen >= 0.5 * all, "case %d: %g and %g", (int)i, seen, all);
        cleave_arena_free(&scratch);
    }
    cr_expect_lt(n_far, n / 50, "%d of %d", n_far, n);
}

/* Nodes are alike, and devices within them.  Where one device holds a shard nobody chooses by
   number; collectives, whose order goes by number, need groups of three. */
Test(resharding, costs_the_same_under_other_names_of_devices) {
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_arena scratch = {0};
        cleave_random random = {.key = i};
        drawn a = draw(&random, 3), b = draw(&random, 3);
        int32_t name[DEVICES], node = (int32_t)cleave_random_below(&random, NODES);
        for (int32_t d = 0; d < DEVICES; d++) {
            int32_t shift = (d / WIDTH) % 2 == 0 ? 1 : 3; /* each node turned its own way */
            name[d] = ((d / WIDTH + node) % NODES) * WIDTH + (d % WIDTH + shift) % WIDTH;
        }
        resharder->few = false;
        resharder->everywhere = true;
        cleave_sharding x = shard(&a, as_numbered(), &scratch),
                        y = shard(&b, as_numbered(), &scratch);
        cleave_sharding v = shard(&a, name, &scratch), w = shard(&b, name, &scratch);
        double before = (double)cost(&x, &y), after = (double)cost(&v, &w);
        cr_assert(fabs(before - after) <= 1e-6 * before + 1, "case %d: %g and %g", (int)i, before,
                  after);
        cleave_arena_free(&scratch);
    }
}

/* The closed form of an all-reduce among all, an all-gather and a reduce-scatter of the whole. */
Test(resharding, knows_collectives) {
    const drawn whole = {4, {3, 3, 3, 3}}, partial = {4, {4, 4, 4, 4}}, split = {4, {0, 0, 0, 0}};
    cleave_sharding replicated = shard(&whole, as_numbered(), &arena),
                    keys = shard(&partial, as_numbered(), &arena),
                    rows = shard(&split, as_numbered(), &arena);
    int32_t devices[DEVICES];
    memcpy(devices, as_numbered(), sizeof devices);
    const struct {
        const cleave_sharding *from, *to;
        cleave_collective_kind kind;
    } cases[] = {{&keys, &replicated, CLEAVE_ALL_REDUCE},
                 {&rows, &replicated, CLEAVE_ALL_GATHER},
                 {&keys, &rows, CLEAVE_REDUCE_SCATTER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_collective collective = {.kind = cases[i].kind,
                                        .n_devices = DEVICES,
                                        .devices = devices,
                                        .bytes = 32 * 48 * 16 * 4};
        collective.algorithm = cleave_collective_rules_choose(
            &rules, collective.kind, DEVICES, devices, collective.bytes, &collective.node_members);
        double closed = (double)collective_cost(&machine, &collective);
        double found = (double)cost(cases[i].from, cases[i].to);
        /* Besides there are posts and sums, and packing. */
        cr_expect(found >= closed && found < 1.3 * closed + 30e6, "%d: %g and %g", (int)i, found,
                  closed);
    }
}

/* Runs of a cell's elements that follow each other in the box around it, one by one; 0: all do. */
static double count_runs(const cleave_box *box, const cleave_box *cell) {
    int64_t before = -2;
    double runs = 0;
    for (int64_t i = cell->lo[0]; i < cell->hi[0]; i++)
        for (int64_t k = cell->lo[2]; k < cell->hi[2]; k++)
            for (int64_t j = cell->lo[1]; j < cell->hi[1]; j++) {
                int64_t at = ((i - box->lo[0]) * (box->hi[2] - box->lo[2]) + k - box->lo[2]) *
                                 (box->hi[1] - box->lo[1]) +
                             j - box->lo[1];
                runs += at != before + 1;
                before = at;
            }
    return runs > 1 ? runs : 0;
}

Test(resharding, counts_the_rows_of_cells) {
    for (uint64_t i = seed_from(0); i < seed_end(N_CASES); i++) {
        cleave_random random = {.key = i};
        const cleave_sharding s = {.rank = RANK, .order = {0, 2, 1}}; /* in memory */
        cleave_box box = {0}, cell = {0};
        for (int d = 0; d < RANK; d++) {
            box.lo[d] = cleave_random_below(&random, 3);
            box.hi[d] = box.lo[d] + 1 + cleave_random_below(&random, 5);
            cell.lo[d] = box.lo[d] + cleave_random_below(&random, box.hi[d] - box.lo[d]);
            cell.hi[d] = cell.lo[d] + 1 + cleave_random_below(&random, box.hi[d] - cell.lo[d]);
        }
        cr_assert_float_eq(reshard_rows(&s, &box, &cell), count_runs(&box, &cell), 0);
    }
}

/* Of columns a device has what it sends in one piece, and what it gets in rows, its own too. */
Test(resharding, rows_have_their_price) {
    const drawn columns = {2, {2, 2}}, samples = {2, {0, 0}};
    cleave_sharding x = shard(&columns, as_numbered(), &arena),
                    y = shard(&samples, as_numbered(), &arena);
    double dense = (double)cost(&x, &y);
    resharder->copy.seconds_per_row = 1e-6;
    double rows = (double)cost(&x, &y);
    double expected = 4 * 8 * 48 * 1e6; /* picoseconds, of 1 us a row */
    cr_expect_float_eq(rows - dense, expected, 1e-3 * expected, "%g", rows - dense);
}
