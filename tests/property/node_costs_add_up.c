/* The cost of an operator's split is what its parts cost: of drawn degrees, mostly uneven, all
   parts are derived and priced one by one, and totals, the busiest part and the quickest of each
   pass are those that cleave_node_cost_of finds by looking at a few of them. */
#include "../support/config_request.h"
#include "../support/ok.h"
#include "search/problem/node_cost.h"

#include "../support/models.h"
#include "../support/test_machine.h"
#include "base/random.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"

#include <stdio.h>
#include <string.h>

enum { MOST_LEAST = 3 * 64, MOST_PARTS = 4096 };

typedef struct subject {
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_node_costs *costs;
    cleave_cost_cache *cache;
    int n_uneven, n_told;
} subject;

typedef struct sum {
    int64_t total, largest, least[MOST_LEAST];
} sum;

static int64_t price_of(subject *s, int32_t nest, cleave_pass pass, cleave_part part) {
    part.device = 0;
    cleave_compute compute = {.nest = nest, .pass = pass, .part = part};
    cleave_item item = {.kind = CLEAVE_ITEM_COMPUTE};
    const cleave_program program = {.model = &s->model,
                                    .n_devices = s->machine.n_devices,
                                    .n_items = 1,
                                    .items = &item,
                                    .n_computes = 1,
                                    .computes = &compute};
    int64_t picoseconds;
    OK(cleave_cost_items, &program, s->cache, &picoseconds);
    return picoseconds;
}

/* One by one. */
static sum add_up(subject *s, int32_t op, const cleave_split *split) {
    const cleave_operator *of = &s->model.operators[op];
    cleave_parts *parts = CLEAVE_ARENA_ARRAY(&s->scratch, cleave_parts, s->model.n_nests);
    int64_t *busy = CLEAVE_ARENA_ARRAY(&s->scratch, int64_t, split->n_parts);
    sum result = {0};
    memset(result.least, 1, sizeof result.least);
    OK(cleave_parts_derive_operator, &s->model, op, split, NULL, &s->scratch, parts);
    for (int32_t i = 0; i < of->n_nests; i++)
        for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
            int32_t n = of->nests[i];
            int64_t *least = &result.least[i * CLEAVE_N_COMPUTE_PASSES + pass];
            if (pass != CLEAVE_PASS_FORWARD &&
                cleave_nest_pass_inputs(&s->model, &s->model.nests[n], (cleave_pass)pass) == 0)
                continue;
            for (int32_t p = 0; p < parts[n].n; p++) {
                if (parts[n].items[p].empty)
                    continue;
                int64_t price = price_of(s, n, (cleave_pass)pass, parts[n].items[p]);
                result.total += price;
                busy[parts[n].items[p].device] += price;
                *least = price < *least ? price : *least;
            }
        }
    for (int32_t p = 0; p < split->n_parts; p++)
        result.largest = busy[p] > result.largest ? busy[p] : result.largest;
    return result;
}

static cleave_split draw(subject *s, int32_t op, cleave_random *random) {
    const cleave_operator *of = &s->model.operators[op];
    cleave_split split = {.replicas = 1 + (int32_t)cleave_random_below(random, 3)};
    split.n_parts = split.replicas;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++) {
        int64_t most = a < of->n_axes && !of->axes[a].whole ? of->axes[a].extent : 1;
        split.degree[a] = 1;
        if (most > 1 && cleave_random_below(random, 2) == 0)
            split.degree[a] = 1 + (int32_t)cleave_random_below(random, most < 12 ? most : 12);
        if (split.n_parts * split.degree[a] > MOST_PARTS)
            split.degree[a] = 1;
        split.n_parts *= split.degree[a];
        s->n_uneven += split.degree[a] > 1 && most % split.degree[a] != 0;
    }
    if (cleave_random_below(random, 3) == 0) /* the first ones alone, as of a window */
        split.n_parts = 1 + (int32_t)cleave_random_below(random, split.n_parts);
    split.devices = CLEAVE_ARENA_ARRAY(&s->scratch, int32_t, split.n_parts);
    for (int32_t p = 0; p < split.n_parts; p++)
        split.devices[p] = p;
    return split;
}

static bool is_whole(const cleave_split *split) {
    int32_t n = split->replicas;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        n *= split->degree[a];
    return n == split->n_parts;
}

static void compare(subject *s, int32_t op, const cleave_split *split, const char *name) {
    sum all = add_up(s, op, split), few;
    cleave_node_cost cost;
    memset(few.least, 1, sizeof few.least);
    OK(cleave_node_cost_of, s->costs, op, split, &cost, few.least);
    cr_assert_eq(cost.total, all.total, "%s, %s in %d: %lld is not %lld", name,
                 s->model.operators[op].name, split->n_parts, (long long)cost.total,
                 (long long)all.total);
    cr_assert_eq(cost.largest, all.largest, "%s, %s in %d", name, s->model.operators[op].name,
                 split->n_parts);
    cr_assert_arr_eq(few.least, all.least, sizeof all.least);
    if (!is_whole(split))
        return;
    cleave_node_floor floor = cleave_node_floor_of(s->costs, op);
    cr_assert_leq(cleave_node_floor_under(&floor, split), (double)all.total, "%s, %s in %d", name,
                  s->model.operators[op].name, split->n_parts);
    s->n_told += floor.together > 0;
}

static void compare_all(subject *s, const char *name) {
    cleave_random random = {.key = cleave_hash_string(name)};
    s->machine = make_machine(&s->arena, 2, 2, "16 GiB");
    OK(cleave_node_costs_create, &s->model, &s->machine, &s->costs);
    OK(cleave_cost_cache_create, &s->model, &s->machine, &s->cache);
    for (int32_t op = 0; op < s->model.n_operators; op++)
        for (int i = 0; i < 12; i++) {
            cr_assert_leq(s->model.operators[op].n_nests * CLEAVE_N_COMPUTE_PASSES, MOST_LEAST);
            cleave_split split = draw(s, op, &random);
            compare(s, op, &split, name);
            cleave_arena_reset(&s->scratch);
        }
    cr_expect_gt(s->n_uneven, s->model.n_operators, "%s", name);
    cleave_cost_cache_destroy(s->cache);
    cleave_node_costs_destroy(s->costs);
    cleave_arena_free(&s->scratch);
    cleave_arena_free(&s->arena);
}

Test(node_costs, of_uneven_degrees_are_those_of_all_parts) {
    for (int which = 0; which < N_MODELS; which++) {
        subject s = {.n_uneven = 0};
        cleave_error error = {""};
        cr_assert(hand_model(which, &s.arena, &s.model, &error), "%s", error.message);
        compare_all(&s, hand_model_names[which]);
    }
}

/* Five blocks of tokens and more of them in some parts than in others, which see a part of each
   other (CLEAVE_SEEN_GRAIN). */
Test(node_costs, of_attention_are_by_how_much_is_seen) {
    static const char config[] =
        "{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_embd\": 8, \"n_layer\": 1, "
        "\"n_head\": 2, \"n_positions\": 320, \"attn_pdrop\": 0.0, \"resid_pdrop\": 0.0, "
        "\"embd_pdrop\": 0.0}";
    const cleave_import_request request = config_request(config, 3, 5 * CLEAVE_SEEN_GRAIN);
    subject s = {.n_uneven = 0};
    OK(cleave_model_import_as, &request, &s.arena, &s.model);
    OK(cleave_model_fuse_attention, &s.model, NULL, &s.arena, &s.model);
    compare_all(&s, "gpt");
    cr_expect_gt(s.n_told, 0);
}
