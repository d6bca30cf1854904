/* An all-to-all of the symbolic form says what the messages say that stand for it when it is
   expanded: between every two devices, tensor by tensor, for random layouts; and its closed form is
   near to what those take. */
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/shipped.h"
#include "graph/lower/lower.h"
#include "simulator/step/simulate.h"

#include "../support/test_machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct trial {
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_cost_cache *cache;
    int64_t n_exchanges;
    double ratio_sum; /* closed form over steps */
    int n_ratios;
} trial;

/* Tensors of which something moves in a collective with steps. */
static bool *find_collected(trial *t, const cleave_program *program) {
    bool *collected = CLEAVE_ARENA_ARRAY(&t->scratch, bool, t->model.n_tensors);
    for (int32_t c = 0; c < program->n_collectives; c++)
        if (program->collectives[c].kind != CLEAVE_ALL_TO_ALL)
            collected[program->collectives[c].tensor] = true;
    return collected;
}

/* Adds what goes between devices, [n_tensors][n_devices][n_devices]. */
static int64_t *count_bytes(trial *t, const cleave_program *program) {
    size_t n = (size_t)program->n_devices;
    int64_t *bytes = CLEAVE_ARENA_ARRAY(&t->scratch, int64_t, (size_t)t->model.n_tensors * n * n);
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *of = &program->messages[m];
        bytes[((size_t)of->tensor * n + (size_t)of->source) * n + (size_t)of->destination] +=
            of->bytes;
    }
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        t->n_exchanges += of->n_transfers > 0;
        for (int32_t i = 0; i < of->n_transfers; i++) {
            size_t source = (size_t)of->devices[of->transfers[i].source];
            size_t destination = (size_t)of->devices[of->transfers[i].destination];
            bytes[((size_t)of->tensor * n + source) * n + destination] += of->transfers[i].bytes;
        }
    }
    return bytes;
}

static int64_t step_of(trial *t, const cleave_program *program) {
    cleave_timeline timeline;
    OK(cleave_simulate, program, t->cache, CLEAVE_RULE_SCAN, &t->scratch, &timeline);
    return timeline.step;
}

static void compare(trial *t, uint64_t seed) {
    cleave_layout layout;
    cleave_program symbolic, expanded;
    cleave_lower_options options = {.training = true, .symbolic_collectives = true};
    cleave_arena_reset(&t->scratch);
    OK(cleave_layout_random, &t->model, t->machine.n_devices, seed, &t->scratch, &layout);
    layout.collectives.direct = false;
    OK(cleave_lower, &t->model, &layout, &options, &t->scratch, &symbolic);
    OK(cleave_program_check, &symbolic);
    options.symbolic_collectives = false;
    OK(cleave_lower, &t->model, &layout, &options, &t->scratch, &expanded);
    bool *collected = find_collected(t, &expanded);
    int64_t *closed = count_bytes(t, &symbolic), *steps = count_bytes(t, &expanded);
    size_t pairs = (size_t)t->machine.n_devices * (size_t)t->machine.n_devices;
    for (int32_t tensor = 0; tensor < t->model.n_tensors; tensor++)
        for (size_t pair = 0; pair < pairs && !collected[tensor]; pair++)
            cr_assert_eq(closed[(size_t)tensor * pairs + pair],
                         steps[(size_t)tensor * pairs + pair], "seed %d, %s, pair %d", (int)seed,
                         t->model.tensors[tensor].name, (int)pair);
    t->ratio_sum += fabs((double)step_of(t, &symbolic) / (double)step_of(t, &expanded) - 1);
    t->n_ratios++;
}

static void check(const char *name, int32_t n_nodes, int32_t per_node, int n_layouts) {
    trial t = {0};
    t.machine = make_machine(&t.arena, n_nodes, per_node, "1 TiB");
    OK(shipped_model, name, 48, &t.arena, &t.model);
    OK(cleave_cost_cache_create, &t.model, &t.machine, &t.cache);
    for (uint64_t seed = seed_from(0); seed < seed_end(n_layouts); seed++)
        compare(&t, (uint64_t)seed);
    printf("%-10s %2d devices: %lld all-to-alls, steps differ by %.1f %% on average\n", name,
           t.machine.n_devices, (long long)t.n_exchanges, 100 * t.ratio_sum / t.n_ratios);
    cr_expect_gt(t.n_exchanges, n_layouts);
    cr_expect_lt(t.ratio_sum / t.n_ratios, 0.15);
    cleave_cost_cache_destroy(t.cache);
    cleave_arena_free(&t.scratch);
    cleave_arena_free(&t.arena);
}

Test(exchanges, keep_bytes_and_are_priced_near_their_messages) {
    check("lenet5", 6, 2, 60);
    check("byte_gpt", 4, 4, 6);
    check("byte_lstm", 3, 4, 6);
}
