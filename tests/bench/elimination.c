/* The exact solvers of the additive model on graphs of the kinds that networks give, with random
   costs: variables are operators, pairs the tensors between them.
     usage: bench_elimination [MOST_ENTRIES [PART OF A GRAPH'S NAME, or none]]
   A table has at most so many entries (2^22).  Of each graph and number of values: milliseconds,
   whether the optimum was proven and else how far from it at most, entries of the largest table,
   and how many sums a second go into minima, in thousand millions; that times 8 bytes is what
   memory would have to give if nothing was read twice. Beside it the rate at which memory is read.
   Then elimination, or with a limit the relaxation, and GLPK on chains with skips.
 */
#include "arguments.h"
#include "row.h"

#include "base/random.h"
#include "search/solve/additive.h"
#include "search/solve/eliminate_plan.h"
#include "tests/support/integer_program.h"

#include <stdbool.h>
#include <string.h>

enum { ROOM = 4000, REPEATS = 3 };

typedef struct graph {
    cleave_additive additive;
    int32_t n_values[ROOM];
    const int64_t *cost[ROOM];
    cleave_additive_pair pairs[4 * ROOM];
} graph;

static int32_t add(graph *g) { return g->additive.n_variables++; }

static void join(graph *g, int32_t a, int32_t b) {
    g->pairs[g->additive.n_pairs++] = (cleave_additive_pair){.a = a, .b = b};
}

/* A new variable that reads another. */
static int32_t follow(graph *g, int32_t from) {
    int32_t v = add(g);
    join(g, from, v);
    return v;
}

static void make_chain(graph *g) {
    int32_t v = add(g);
    while (g->additive.n_variables < 100)
        v = follow(g, v);
}

/* 33 blocks of three convolutions, the third adds the block's input. */
static void make_resnet(graph *g) {
    int32_t v = add(g);
    for (int block = 0; block < 33; block++) {
        int32_t in = v;
        v = follow(g, follow(g, follow(g, v)));
        join(g, in, v);
    }
}

/* 12 blocks: three products, attention, a product that adds the block's input, a normalisation, two
   products of which the second adds what the first read, a normalisation. */
static void make_transformer(graph *g) {
    int32_t x = add(g);
    for (int block = 0; block < 12; block++) {
        int32_t q = follow(g, x), k = follow(g, x), v = follow(g, x);
        int32_t attention = follow(g, q);
        join(g, k, attention);
        join(g, v, attention);
        int32_t out = follow(g, attention);
        join(g, x, out);
        int32_t norm = follow(g, out);
        int32_t second = follow(g, follow(g, norm));
        join(g, norm, second);
        x = follow(g, second);
    }
}

/* 9 blocks of four branches of 1, 2, 3 and 2 operators; each branch reads all ends of the block
   before, which lie beside each other. */
static void make_inception(graph *g) {
    int32_t end[4] = {0, 0, 0, 0}, n_ends = 1;
    add(g);
    for (int block = 0; block < 9; block++) {
        static const int length[4] = {1, 2, 3, 2};
        int32_t next[4];
        for (int b = 0; b < 4; b++) {
            int32_t v = add(g);
            for (int32_t e = 0; e < n_ends; e++)
                join(g, end[e], v);
            for (int i = 1; i < length[b]; i++)
                v = follow(g, v);
            next[b] = v;
        }
        memcpy(end, next, sizeof end);
        n_ends = 4;
    }
}

/* Each cell reads the one below and the one of the step before. */
static void make_grid(graph *g, int32_t layers, int32_t steps) {
    for (int32_t t = 0; t < steps; t++)
        for (int32_t l = 0; l < layers; l++) {
            int32_t v = add(g);
            if (l > 0)
                join(g, v - 1, v);
            if (t > 0)
                join(g, v - layers, v);
        }
}

static void make_lstm(graph *g) { make_grid(g, 2, 40); }
static void make_lstm3(graph *g) { make_grid(g, 3, 40); }

/* Two layers of 40 steps, then two of 40 whose upper cells read one operator that reads all the
   first ones. */
static void make_translation(graph *g) {
    make_grid(g, 2, 40);
    int32_t memory = add(g), start = memory + 1;
    for (int32_t t = 0; t < 40; t++)
        join(g, 2 * t + 1, memory);
    make_grid(g, 2, 40);
    for (int32_t i = 0; i < 40; i++)
        join(g, memory, start + 2 * i + 1);
}

typedef struct kind {
    const char *name;
    void (*make)(graph *g);
} kind;

static const kind kinds[] = {
    {"chain of 100", make_chain},
    {"ResNet, 33 blocks", make_resnet},
    {"transformer, 12 blocks", make_transformer},
    {"Inception, 9 blocks", make_inception},
    {"LSTM grid 2 x 40", make_lstm},
    {"LSTM grid 3 x 40", make_lstm3},
    {"encoder and decoder", make_translation},
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static int64_t *draw(int64_t n, cleave_random *random, cleave_arena *arena) {
    int64_t *numbers = CLEAVE_ARENA_ARRAY(arena, int64_t, n);
    if (numbers == NULL)
        exit(1);
    for (int64_t i = 0; i < n; i++)
        numbers[i] = cleave_random_below(random, 1000000);
    return numbers;
}

static void draw_costs(graph *g, int32_t n_values, cleave_arena *arena) {
    cleave_random random = {.key = 1};
    g->additive.n_values = g->n_values;
    g->additive.cost = g->cost;
    g->additive.pairs = g->pairs;
    for (int32_t v = 0; v < g->additive.n_variables; v++) {
        g->n_values[v] = n_values;
        g->cost[v] = draw(n_values, &random, arena);
    }
    for (int32_t i = 0; i < g->additive.n_pairs; i++)
        g->pairs[i].cost = draw((int64_t)n_values * n_values, &random, arena);
}

static void fail(const cleave_error *error) {
    fprintf(stderr, "bench_elimination: %s\n", error->message);
    exit(1);
}

static void run(const kind *of, int32_t n_values, int64_t most_entries) {
    static graph g;
    cleave_arena arena = {0}, results = {0};
    cleave_error error = {""};
    cleave_elimination_plan plan;
    cleave_additive_solution solution;
    double milliseconds[REPEATS];
    g = (graph){0};
    of->make(&g);
    draw_costs(&g, n_values, &arena);
    if (cleave_elimination_plan_create(&g.additive, most_entries, &arena, &plan, &error) !=
        CLEAVE_OK)
        fail(&error);
    for (int i = 0; i < REPEATS; i++) {
        cleave_arena_reset(&results);
        double before = cleave_clock_seconds();
        if (cleave_additive_eliminate(&g.additive, most_entries, &results, &solution, &error) !=
            CLEAVE_OK)
            fail(&error);
        milliseconds[i] = 1e3 * (cleave_clock_seconds() - before);
    }
    double median = cleave_median(milliseconds, REPEATS);
    printf("%-24s %6d %6d %10.2f %9lld %8.2f   ", of->name, (int)g.additive.n_variables,
           (int)n_values, median, (long long)plan.largest, (double)plan.work / median / 1e6);
    if (solution.outcome == CLEAVE_ADDITIVE_OPTIMAL)
        printf("optimal\n");
    else
        printf("within %.2f %%\n",
               100 * (double)(solution.total - solution.bound) / (double)solution.total);
    fflush(stdout);
    cleave_arena_free(&arena);
    cleave_arena_free(&results);
}

/* Both on a chain with skips and a few values, which GLPK can still do; with a limit the relaxation
   beside it. */
static void compare(int32_t n_variables, int32_t n_values, bool limited) {
    static graph g;
    cleave_arena arena = {0};
    cleave_error error = {""};
    cleave_additive_solution a, b;
    cleave_random random = {.key = 2};
    g = (graph){0};
    int32_t v = add(&g);
    while (g.additive.n_variables < n_variables)
        v = follow(&g, v);
    for (int32_t i = 0; i + 3 < n_variables; i += 3)
        join(&g, i, i + 3);
    draw_costs(&g, n_values, &arena);
    const int64_t **weight = CLEAVE_ARENA_ARRAY(&arena, const int64_t *, n_variables);
    for (int32_t i = 0; i < n_variables && weight != NULL; i++)
        weight[i] = draw(n_values, &random, &arena);
    cleave_additive_limit limit = {weight, 300000 * (int64_t)n_variables};
    double begun = cleave_clock_seconds();
    cleave_status status =
        limited ? cleave_additive_relax(&g.additive, 1, &limit, INT64_MAX, &arena, &a, &error)
                : cleave_additive_eliminate(&g.additive, INT64_MAX, &arena, &a, &error);
    double between = cleave_clock_seconds();
    if (status != CLEAVE_OK || weight == NULL ||
        solve_integer_program(&g.additive, limited, &limit, 60, &arena, &b, &error) != CLEAVE_OK)
        fail(&error);
    printf("%d variables of %d values%s: %s %.2f ms, total %lld, bound %lld; GLPK %.2f ms, total "
           "%lld, bound %lld\n",
           (int)n_variables, (int)n_values, limited ? " with a limit" : "",
           limited ? "relaxation" : "elimination", 1e3 * (between - begun), (long long)a.total,
           (long long)a.bound, 1e3 * (cleave_clock_seconds() - between), (long long)b.total,
           (long long)b.bound);
    fflush(stdout);
    cleave_arena_free(&arena);
}

/* Thousand millions of 8-byte numbers a second, summed out of 256 MiB. */
static double memory_rate(void) {
    enum { N = 1 << 25 };
    int64_t *numbers = malloc(N * sizeof *numbers);
    double rate = 0;
    volatile int64_t keep = 1;
    if (numbers == NULL)
        return 0;
    for (int i = 0; i < N; i++)
        numbers[i] = i + keep;
    for (int repeat = 0; repeat < 3; repeat++) {
        double before = cleave_clock_seconds();
        int64_t sum = 0;
        for (int i = 0; i < N; i++)
            sum += numbers[i];
        keep = sum;
        double found = N / (cleave_clock_seconds() - before) / 1e9;
        rate = found > rate ? found : rate;
    }
    free(numbers);
    return rate;
}

int main(int argc, char **argv) {
    static const int32_t values[] = {16, 64, 128};
    bench_arguments a = bench_begin(argc, argv);
    int64_t most_entries = bench_take_integer(&a, "MOST_ENTRIES", 1, 1 << 30, 1 << 22);
    bool no_graph = bench_take_flag(&a, "none");
    const char *part = bench_take_name(&a, "PART", true, &kinds[0].name, sizeof kinds[0], N_KINDS);
    bench_end(&a);
    printf("memory gives %.2f thousand million entries a second\n", memory_rate());
    printf("%-24s %6s %6s %10s %9s %8s\n", "graph", "vars", "values", "ms", "largest", "Gsums/s");
    for (int k = 0; k < N_KINDS; k++)
        for (int i = 0; i < 3 && !no_graph; i++)
            if (part == NULL || strstr(kinds[k].name, part) != NULL)
                run(&kinds[k], values[i], most_entries);
    if (part != NULL)
        return 0;
    for (int limited = 0; limited < 2; limited++) {
        compare(30, 8, limited);
        compare(100, 8, limited);
    }
    return 0;
}
