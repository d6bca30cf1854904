#include "near_best.h"
#include "draws.h"
#include "ok.h"
#include "perceptron.h"
#include "test_machine.h"

#include "base/order.h"
#include "search/problem/candidates.h"
#include "search/search.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { N_LAYERS = 2, N_OPERATORS = 2 * N_LAYERS + 1, MOST = 1 << 17, N_LIMITS = 5 };

/* The i-th chain that is looked at; by hand all of so many, from one on, five limits each. */
static int n_asked(void) { return (int)draws_asked("CLEAVE_TEST_CASES", 0); }
static int n_chains(int n_usual) { return n_asked() > 0 ? n_asked() : n_usual; }
static int chain_of(const int *of, int i) {
    return n_asked() > 0 ? (int)draws_asked("CLEAVE_TEST_FIRST", 0) + i : of[i];
}

typedef struct outcome {
    int64_t step, bytes;
} outcome;

typedef struct chain {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_pricer pricer;
    cleave_candidates candidates;
    cleave_collective_rules rules;
    cleave_layout layout;
    bool is_mixed; /* two kinds of devices */
    int32_t n;
    outcome *all; /* [MOST] */
} chain;

static void price(chain *c) {
    cleave_price made;
    const cleave_price_subject what = {.layout = &c->layout, .in_steps = true};
    if (cleave_layout_check(&c->model, &c->layout, NULL) != CLEAVE_OK)
        return;
    cr_assert_lt(c->n, MOST);
    OK(cleave_pricer_price, &c->pricer, &what, NULL, &made);
    c->all[c->n++] = (outcome){made.step, made.peak_bytes};
}

static void shard(chain *c, uint8_t sharded) {
    for (int32_t t = 0; t < c->model.n_tensors; t++)
        if (c->model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            c->layout.sharded[t] = sharded;
}

/* Whatever of the state of all parameters is sharded, with nothing or all recomputed. */
static void price_shards(chain *c) {
    for (uint8_t sharded = CLEAVE_SHARDED_UPDATE; sharded < CLEAVE_N_SHARDED; sharded++) {
        shard(c, sharded);
        for (int all = 0; all < 2; all++) {
            for (int32_t op = 0; op < N_OPERATORS; op++)
                c->layout.recompute[op] = all == 1;
            price(c);
        }
    }
    shard(c, CLEAVE_SHARDED_NOTHING);
}

static cleave_split split_on(int32_t *device) {
    cleave_split split = {.replicas = 1, .n_parts = 1, .devices = device};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = 1;
    return split;
}

/* All marks; with the many splits of one stage some of them. */
static void price_marks(chain *c) {
    uint32_t step = c->layout.schedule.n_stages == 1 ? 10 : 1;
    for (uint32_t marks = 0; marks < 1u << N_OPERATORS; marks += step) {
        for (int32_t op = 0; op < N_OPERATORS; op++)
            c->layout.recompute[op] = (marks >> op & 1) != 0;
        price(c);
    }
}

/* In one stage, all splits of both devices. */
static void price_splits(chain *c, int32_t op) {
    if (op == N_OPERATORS) {
        price_marks(c);
        price_shards(c);
        return;
    }
    const cleave_candidate_list *list = &c->candidates.lists[c->candidates.list_of[op]];
    for (int32_t i = 0; i < list->n; i++) {
        c->layout.splits[op] = cleave_candidate_split(&list->items[i]);
        price_splits(c, op + 1);
    }
}

/* All of it on the other device. */
static void price_other(chain *c) {
    static int32_t other[1] = {1};
    for (int32_t op = 0; op < N_OPERATORS; op++)
        c->layout.splits[op] = split_on(&other[0]);
    price_marks(c);
}

/* In two stages each has a device. */
static void price_cuts(chain *c, cleave_schedule_kind kind, int32_t *devices) {
    for (int32_t cut = 1; cut < N_OPERATORS; cut++) {
        int32_t first[2] = {0, cut};
        c->layout.schedule.kind = kind;
        c->layout.schedule.n_stages = 2;
        c->layout.schedule.first_operator = first;
        for (int32_t op = 0; op < N_OPERATORS; op++) {
            c->layout.splits[op] = split_on(&devices[op >= cut]);
        }
        price_marks(c);
    }
}

static void price_all(chain *c) {
    static int32_t orders[2][2] = {{0, 1}, {1, 0}};
    for (int32_t m = 1; m <= 4; m *= 2) {
        c->layout.schedule = (cleave_schedule){.micro_batches = m, .n_stages = 1};
        price_splits(c, 0);
        if (c->is_mixed)
            price_other(c);
        for (int order = 0; order < 1 + c->is_mixed; order++) {
            price_cuts(c, CLEAVE_SCHEDULE_1F1B, orders[order]);
            price_cuts(c, CLEAVE_SCHEDULE_ZB_H1, orders[order]);
            price_cuts(c, CLEAVE_SCHEDULE_GPIPE, orders[order]);
        }
    }
}

/* The first are on the machine of other tests. */
static void draw_machine(chain *c, int i, cleave_random *random) {
    static const char *const bandwidth[] = {"1 GB/s", "4 GB/s", "10 GB/s", "40 GB/s"};
    static const char *const memory[] = {"50 GB/s", "200 GB/s"};
    const char *links = cleave_arena_printf(
        &c->arena, "\"bandwidth\": \"%s\", \"latency\": \"%d us\"",
        bandwidth[cleave_random_below(random, 4)], 1 + (int)cleave_random_below(random, 20));
    c->machine =
        i < 3 ? make_machine(&c->arena, 1, 2, "16 GiB")
              : parse_machine(&c->arena, 1, 2, "16 GiB", memory[cleave_random_below(random, 2)],
                              i % 2 == 0 ? "1 us" : "5 us", links);
}

/* The slower device is 1.5, 2, 3 or 4 times slower. */
static void draw_two_kinds(chain *c, cleave_random *random) {
    static const char *const bandwidth[] = {"1 GB/s", "4 GB/s", "10 GB/s", "40 GB/s"};
    static const double slower[] = {1.5, 2, 3, 4};
    const char *links = cleave_arena_printf(
        &c->arena, "\"bandwidth\": \"%s\", \"latency\": \"%d us\"",
        bandwidth[cleave_random_below(random, 4)], 1 + (int)cleave_random_below(random, 20));
    double rate = cleave_random_below(random, 2) == 0 ? 50 : 200;
    c->machine =
        parse_two_kinds(&c->arena, 1, slower[cleave_random_below(random, 4)], "16 GiB", rate,
                        cleave_random_below(random, 2) == 0 ? "1 us" : "5 us", links);
}

static void begin(chain *c, int i) {
    static const int64_t sizes[][2] = {{64, 64}, {2048, 64}, {64, 512}};
    cleave_random random = {.key = seed_from((uint64_t)i)};
    cleave_node_costs *costs;
    int64_t batch = i < 3 ? sizes[i][0] : INT64_C(16) << cleave_random_below(&random, 8);
    int64_t width = i < 3 ? sizes[i][1] : INT64_C(16) << cleave_random_below(&random, 6);
    c->model = make_perceptron(&c->arena, N_LAYERS, batch, width);
    if (c->is_mixed)
        draw_two_kinds(c, &random);
    else
        draw_machine(c, i, &random);
    c->all = CLEAVE_ARENA_ARRAY(&c->arena, outcome, MOST);
    OK(cleave_node_costs_create, &c->model, &c->machine, &costs);
    OK(cleave_candidates_create, &c->model, &c->machine, costs, NULL, 0, &c->arena, &c->candidates);
    cleave_node_costs_destroy(costs);
    OK(cleave_pricer_create, &c->model, &c->machine, 1, INT64_C(1) << 40, &c->pricer);
    OK(cleave_choose_collectives, &c->machine, false, &c->arena, &c->rules);
    OK(cleave_layout_create, &c->model, 2, &c->arena, &c->layout);
    c->layout.collectives = c->rules;
}

static double best_within(const chain *c, int64_t bytes) {
    int64_t best = INT64_MAX;
    for (int32_t i = 0; i < c->n; i++)
        if (c->all[i].bytes <= bytes && c->all[i].step < best)
            best = c->all[i].step;
    return (double)best * 1e-12;
}

/* Limits from what the quickest of all needs down to a tenth above what the leanest does. */
static void compare(chain *c, double *ratio) {
    const outcome *quickest = &c->all[0];
    int64_t least = INT64_MAX;
    for (int32_t i = 0; i < c->n; i++) {
        quickest = c->all[i].step < quickest->step ? &c->all[i] : quickest;
        least = c->all[i].bytes < least ? c->all[i].bytes : least;
    }
    for (int l = 0; l < N_LIMITS; l++) {
        int64_t lean = least + least / 10;
        int64_t limit = quickest->bytes - (quickest->bytes - lean) * l / (N_LIMITS - 1);
        const cleave_search_options options = {
            .method = "auto", .optimizer_states = 1, .memory_limit_bytes = limit, .quiet = true};
        cleave_search_result result;
        OK(cleave_search, &c->model, &c->machine, &options, &c->arena, &result);
        ratio[l] = result.best.step_seconds / best_within(c, limit);
        if (ratio[l] > 1.001 && n_asked() > 0)
            printf("limit %d: %.4f\n", l, ratio[l]);
        if (!cleave_layout_is_plain(&result.best.layout))
            cr_expect_leq(result.staged_bound_seconds, best_within(c, INT64_MAX));
    }
}

void expect_near_best(const int *of, int n_usual, bool is_mixed) {
    int n = n_chains(n_usual) * N_LIMITS;
    double *ratio = calloc((size_t)n, sizeof *ratio);
    for (int i = 0; i < n_chains(n_usual); i++) {
        chain c = {.is_mixed = is_mixed};
        begin(&c, chain_of(of, i));
        if (n_asked() > 0)
            printf("chain %d%s\n", chain_of(of, i), is_mixed ? ", of two kinds" : "");
        price_all(&c);
        compare(&c, &ratio[i * N_LIMITS]);
        cleave_pricer_destroy(&c.pricer);
        cleave_arena_free(&c.arena);
    }
    int few = (n * 95 + 99) / 100 - 1; /* no more than the 20th part are behind it */
    cleave_sort_doubles(ratio, n);
    printf("found over the best of all, %d cases: median %.4f, 95th %.4f, most %.4f\n", n,
           ratio[n / 2], ratio[few], ratio[n - 1]);
    cr_expect_leq(ratio[few], 1.005);
    cr_expect_leq(ratio[n - 1], 1.03);
    free(ratio);
}
