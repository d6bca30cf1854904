/* Collectives, run by the executor and simulated: how long they take and how long they should have.
   Started as ranks, each on a device, by an MPI launcher; tests/bench/collectives does that.

   The movement comes from lowering small models, with nothing made for it alone:

     all-reduce       a dense layer's weights under a sample split
     reduce-scatter   the same with a sharded update, up to the update,
     all-gather       and from the update on
     all-to-all       an activation written split by rows and read split by columns

   BYTES is the whole vector, of all-to-all what each device has before and after.

   A movement lasts from when the last device begins with it until the last one has ended it, of
   one step, by the clock that the ranks of one machine share; what is reported is the median over
   the steps, the first left out, and the same interval of the simulated step.

   usage: bench_collectives MACHINE.json|none [KIND ALGORITHM BYTES STEPS]...
          bench_collectives --links MACHINE.json MILLISECONDS OUT.json
   KIND is one of the four, ALGORITHM default or one that a layout can name.  At two levels half of
   the ranks are a node.  Rank 0 prints a line of JSON for each collective, with times in seconds;
   of 0 steps only what is predicted.  The second form writes the machine with the link between two
   ranks as it is now, which takes about so long: a process of its own, since in one that has just
   measured its link large collectives took up to half as long again. */
#include "base/order.h"
#include "base/progress.h"
#include "cli/calibrate/link.h"
#include "exec/data/values.h"
#include "exec/rank.h"
#include "exec/world/memory.h"
#include "exec/world/world.h"
#include "graph/lower/lower.h"
#include "simulator/step/simulate.h"

#include "tests/bench/arguments.h"
#include "tests/support/hand_model.h"

#include <errno.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 4, MOST_STEPS = 1000 };

typedef enum movement { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, N_MOVEMENTS } movement;
static const char *const movement_names[N_MOVEMENTS] = {"all-reduce", "reduce-scatter",
                                                        "all-gather", "all-to-all"};
/* What the cost model has a closed form of. */
enum { N_KINDS = 3 };
static const cleave_collective_kind kinds[N_KINDS] = {CLEAVE_ALL_REDUCE, CLEAVE_REDUCE_SCATTER,
                                                      CLEAVE_ALL_GATHER};
static const char *const algorithm_names[CLEAVE_N_ALGORITHMS] = {
    [CLEAVE_ALGORITHM_DEFAULT] = "default",
    [CLEAVE_ALGORITHM_RING] = "ring",
    [CLEAVE_ALGORITHM_HALVING_DOUBLING] = "halving-doubling",
    [CLEAVE_ALGORITHM_TREE] = "tree",
    [CLEAVE_ALGORITHM_TWO_LEVEL] = "two-level"};

typedef struct bench {
    movement movement;
    cleave_collective_algorithm algorithm;
    int64_t bytes, steps;
    const char *machine; /* null: nothing is predicted */
    cleave_world *world;
    cleave_arena arena;
    cleave_model model;
    cleave_layout layout;
    cleave_program program;
    int32_t tensor;          /* that is moved */
    double took[MOST_STEPS]; /* rank 0 */
    double loss;             /* of the last step, rank 0; NaN: none */
} bench;

/* ---- Models ---- */

/* loss = sum of (x w')^2 with x [SAMPLES, width] and w [width, width]. */
static cleave_status make_dense(bench *b, int64_t width, cleave_error *error) {
    cleave_model *model = &b->model;
    *model = begin_model("collectives", 0, 4, 2, &b->arena);
    int32_t x = add_tensor(model, CLEAVE_TENSOR_DATA, "x", 2, SAMPLES, width);
    int32_t y = add_tensor(model, CLEAVE_TENSOR_ACTIVATION, "y", 2, SAMPLES, width);
    b->tensor = add_tensor(model, CLEAVE_TENSOR_PARAMETER, "weight", 2, width, width);
    model->tensors[b->tensor].fan_in = width;
    add_product(model, "dense", x, b->tensor, y);
    add_loss(model, y);
    return cleave_model_finish(model, error);
}

/* z = y = x, all [rows, columns]. */
static cleave_status make_copies(bench *b, int64_t rows, int64_t columns, cleave_error *error) {
    static const char *const names[] = {"y", "z"};
    b->model = begin_model("collectives", 0, 3, 2, &b->arena);
    int32_t x = add_tensor(&b->model, CLEAVE_TENSOR_DATA, "x", 2, rows, columns);
    for (int i = 0; i < 2; i++) {
        int32_t to = add_tensor(&b->model, CLEAVE_TENSOR_ACTIVATION, names[i], 2, rows, columns);
        add_pointwise(&b->model, names[i], x, to, CLEAVE_OP_COPY);
        b->tensor = i == 0 ? to : b->tensor;
        x = to;
    }
    return cleave_model_finish(&b->model, error);
}

/* ---- Layout and program ---- */

static cleave_status make_layout(bench *b, int32_t n_devices, cleave_error *error) {
    CLEAVE_TRY(cleave_layout_create(&b->model, n_devices, &b->arena, &b->layout, error));
    int32_t *devices = CLEAVE_ARENA_ARRAY(&b->arena, int32_t, n_devices);
    cleave_collective_rule *rules = CLEAVE_ARENA_ARRAY(&b->arena, cleave_collective_rule, N_KINDS);
    if (devices == NULL || rules == NULL)
        return cleave_fail_memory(error, "making the layout");
    for (int32_t d = 0; d < n_devices; d++)
        devices[d] = d;
    /* Every device computes the whole loss, or the one that reports it would start late. */
    int32_t by_rows[CLEAVE_MAX_AXES] = {n_devices}, by_columns[CLEAVE_MAX_AXES] = {1, n_devices},
            whole[CLEAVE_MAX_AXES] = {1};
    bool copies = b->movement == ALL_TO_ALL;
    CLEAVE_TRY(cleave_layout_set(&b->layout, 0, 1, by_rows, devices, &b->arena, error));
    CLEAVE_TRY(cleave_layout_set(&b->layout, 1, copies ? 1 : n_devices, copies ? by_columns : whole,
                                 devices, &b->arena, error));
    b->layout.sharded[b->tensor] = b->movement == REDUCE_SCATTER || b->movement == ALL_GATHER;
    b->layout.collectives = (cleave_collective_rules){.n = N_KINDS, .items = rules};
    if (b->algorithm == CLEAVE_ALGORITHM_TWO_LEVEL)
        b->layout.collectives.node_devices = n_devices / 2;
    for (int k = 0; k < N_KINDS; k++)
        rules[k] = (cleave_collective_rule){.kind = kinds[k], .algorithm = b->algorithm};
    CLEAVE_TRY(cleave_layout_check(&b->model, &b->layout, error));
    cleave_kernels *kernels = NULL; /* for workspaces; the rank has its own */
    CLEAVE_TRY(cleave_kernels_create(&kernels, error));
    cleave_lower_options options = {
        .training = !copies, .workspace = cleave_kernel_workspace, .workspace_context = kernels};
    cleave_status status =
        cleave_lower(&b->model, &b->layout, &options, &b->arena, &b->program, error);
    cleave_kernels_destroy(kernels);
    return status;
}

/* ---- The interval of the movement in a timeline ---- */

/* Is the item one of the movement's?  Of a sharded update the reduction comes before the update and
   the rest after it, on every device; `updated` says which. */
static bool belongs(const bench *b, const cleave_item *item, bool updated) {
    const cleave_program *program = &b->program;
    if (b->movement == REDUCE_SCATTER ? updated : b->movement == ALL_GATHER ? !updated : false)
        return false;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT:
        return program->messages[item->subject].tensor == b->tensor;
    case CLEAVE_ITEM_COPY: {
        const cleave_copy *copy = &program->copies[item->subject];
        for (int32_t p = 0; p < copy->n_pieces; p++) {
            const cleave_copy_piece *piece = &program->copy_pieces[copy->first_piece + p];
            int32_t buffers[2] = {piece->destination, piece->source};
            for (int i = 0; i < 2; i++)
                if (buffers[i] >= 0 && program->buffers[buffers[i]].tensor == b->tensor)
                    return true;
        }
        return false;
    }
    default:
        return false;
    }
}

/* When a device begins with the movement and when it has ended it: its own items from the first one
   to the last.  Posting a receive counts, since the price of a message has the receiver's processor
   there. */
static void find_interval(const bench *b, int32_t device, const int64_t *start, const int64_t *end,
                          int64_t *begun, int64_t *ended) {
    *begun = -1;
    *ended = 0;
    bool updated = false;
    for (int32_t i = 0; i < b->program.n_items; i++) {
        const cleave_item *item = &b->program.items[i];
        if (item->device != device)
            continue;
        updated = updated || item->kind == CLEAVE_ITEM_UPDATE;
        if (!belongs(b, item, updated))
            continue;
        if (*begun < 0 || start[i] < *begun)
            *begun = start[i];
        *ended = end[i] > *ended ? end[i] : *ended;
    }
}

/* ---- Running ---- */

/* Ranks leave a barrier one after the other, as much apart as a short collective lasts; so they
   agree on a moment that is still to come. */
static cleave_status begin_together(const bench *b, cleave_error *error) {
    static const double ahead_seconds = 2e-4;
    double latest = cleave_clock_seconds();
    CLEAVE_TRY(cleave_world_meet(b->world, &latest, 1, "before a step", error));
    while (cleave_clock_seconds() < latest + ahead_seconds)
        ;
    return CLEAVE_OK;
}

static cleave_status measure_step(bench *b, cleave_rank *rank, int64_t step, cleave_error *error) {
    CLEAVE_TRY(begin_together(b, error));
    CLEAVE_TRY(cleave_rank_step(rank, step, error));
    int64_t begun, ended;
    find_interval(b, rank->device, rank->start, rank->end, &begun, &ended);
    double latest[] = {rank->step_started + 1e-12 * (double)begun,
                       rank->step_started + 1e-12 * (double)ended};
    CLEAVE_TRY(cleave_world_meet(b->world, latest, 2, "behind a step", error));
    b->took[step] = latest[1] - latest[0];
    return CLEAVE_OK;
}

static cleave_status measure_steps(bench *b, cleave_rank *rank, cleave_values *values,
                                   cleave_error *error) {
    CLEAVE_TRY(cleave_values_fill(values, rank, error));
    rank->load = cleave_values_load;
    rank->load_context = values;
    for (int64_t step = 0; step < b->steps; step++)
        CLEAVE_TRY(measure_step(b, rank, step, error));
    b->loss = NAN;
    if (b->program.loss_buffer >= 0 && b->program.loss_device == 0 && rank->device == 0)
        b->loss = (double)*(const float *)cleave_rank_buffer(rank, b->program.loss_buffer);
    return CLEAVE_OK;
}

static cleave_status run(bench *b, cleave_error *error) {
    cleave_run_options options = {
        .steps = b->steps,
        .forward = !b->program.training,
        .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD),
        .stall_timeout_seconds = 60,
        .quiet = true,
    };
    /* The gradient grows with the width. */
    options.optimizer.learning_rate = 0.01 / (double)b->model.tensors[b->tensor].shape[0];
    cleave_values *values = NULL;
    cleave_rank rank = {0};
    CLEAVE_TRY(cleave_values_open(&b->model, &options, NULL, &values, error));
    cleave_status status =
        cleave_rank_create_within(&rank, b->world, &b->program, &options, &b->arena, error);
    if (status == CLEAVE_OK)
        status = cleave_rank_new_memory(&rank, &rank.memory, error);
    if (status == CLEAVE_OK)
        status = measure_steps(b, &rank, values, error);
    cleave_rank_destroy(&rank);
    cleave_values_close(values);
    return status;
}

/* ---- Predicting ---- */

/* In closed form over all devices; NaN where there is none. */
static double closed_seconds(bench *b, const cleave_machine *machine) {
    int32_t n = b->layout.n_devices, *devices = CLEAVE_ARENA_ARRAY(&b->arena, int32_t, n);
    double *load = CLEAVE_ARENA_ARRAY(&b->arena, double, machine->n_links), seconds = NAN;
    if (b->movement == ALL_TO_ALL || n < 2 || devices == NULL || load == NULL)
        return NAN;
    for (int32_t d = 0; d < n; d++)
        devices[d] = d;
    cleave_collective collective = {.kind = kinds[b->movement], .n_devices = n, .devices = devices};
    collective.algorithm = cleave_collective_rules_choose(
        &b->layout.collectives, collective.kind, n, devices, b->bytes, &collective.node_members);
    cleave_cost_collective_sizes(machine, &collective, load, 1, &b->bytes, &seconds);
    return seconds;
}

/* By events, of the program that ran. */
static cleave_status predict(bench *b, const cleave_machine *machine, double *seconds,
                             cleave_error *error) {
    cleave_cost_cache *cache;
    cleave_timeline timeline;
    CLEAVE_TRY(cleave_cost_cache_create(&b->model, machine, &cache, error));
    cleave_status status =
        cleave_simulate(&b->program, cache, CLEAVE_RULE_EVENTS, &b->arena, &timeline, error);
    cleave_cost_cache_destroy(cache);
    CLEAVE_TRY(status);
    int64_t latest_begin = 0, latest_end = 0;
    for (int32_t d = 0; d < b->program.n_devices; d++) {
        int64_t begun, ended;
        find_interval(b, d, timeline.start, timeline.end, &begun, &ended);
        latest_begin = begun > latest_begin ? begun : latest_begin;
        latest_end = ended > latest_end ? ended : latest_end;
    }
    *seconds = 1e-12 * (double)(latest_end - latest_begin);
    return CLEAVE_OK;
}

static void put_number(const char *name, double value) {
    if (isfinite(value))
        printf(", \"%s\": %.9g", name, value);
    else
        printf(", \"%s\": null", name);
}

static cleave_status report(bench *b, cleave_error *error) {
    double predicted = NAN, closed = NAN;
    if (b->machine != NULL) {
        cleave_machine machine;
        CLEAVE_TRY(
            cleave_machine_read(b->machine, b->layout.n_devices, &b->arena, &machine, error));
        CLEAVE_TRY(predict(b, &machine, &predicted, error));
        closed = closed_seconds(b, &machine);
    }
    int64_t first = b->steps > 1 ? 1 : 0, n = b->steps - first; /* the first is for warming up */
    double *took = b->took + first;
    cleave_sort_doubles(took, n);
    printf("{\"collective\": \"%s\", \"algorithm\": \"%s\", \"devices\": %d, \"bytes\": %lld",
           movement_names[b->movement], algorithm_names[b->algorithm], b->layout.n_devices,
           (long long)b->bytes);
    put_number("predicted_seconds", predicted);
    put_number("closed_seconds", closed);
    put_number("measured_seconds", n > 0 ? took[n / 2] : (double)NAN);
    put_number("least_seconds", n > 0 ? took[0] : (double)NAN);
    put_number("most_seconds", n > 0 ? took[n - 1] : (double)NAN);
    put_number("loss", b->loss);
    printf("}\n");
    return CLEAVE_OK;
}

/* ---- The command line ---- */

static int find_name(const char *const *names, int n, const char *name) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static cleave_status parse_integer(const char *text, const char *what, int64_t least, int64_t most,
                                   int64_t *value, cleave_error *error) {
    char *rest;
    errno = 0;
    long long number = strtoll(text, &rest, 10);
    if (errno != 0 || rest == text || *rest != '\0' || number < least || number > most)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s %s: a number from %lld to %lld is wanted",
                           what, text, (long long)least, (long long)most);
    *value = number;
    return CLEAVE_OK;
}

/* One collective, of four words. */
static cleave_status parse(char **words, bench *b, cleave_error *error) {
    int kind = find_name(movement_names, N_MOVEMENTS, words[0]);
    int algorithm = find_name(algorithm_names, CLEAVE_N_ALGORITHMS, words[1]);
    if (kind < 0 || algorithm < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s %s: no such %s", words[0], words[1],
                           kind < 0 ? "collective" : "algorithm");
    CLEAVE_TRY(parse_integer(words[2], "bytes", 4, INT64_C(1) << 32, &b->bytes, error));
    CLEAVE_TRY(parse_integer(words[3], "steps", 0, MOST_STEPS, &b->steps, error));
    b->movement = (movement)kind;
    b->algorithm = (cleave_collective_algorithm)algorithm;
    return CLEAVE_OK;
}

static cleave_status work(char **words, bench *b, cleave_error *error) {
    CLEAVE_TRY(parse(words, b, error));
    int64_t width = (int64_t)(sqrt((double)b->bytes / 4) + 0.5);
    if (4 * width * width != b->bytes)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "bytes %lld: four times a square is wanted",
                           (long long)b->bytes);
    CLEAVE_TRY(b->movement == ALL_TO_ALL
                   ? make_copies(b, width * cleave_world_size(b->world), width, error)
                   : make_dense(b, width, error));
    CLEAVE_TRY(make_layout(b, cleave_world_size(b->world), error));
    if (b->steps > 0)
        CLEAVE_TRY(run(b, error));
    return cleave_world_rank(b->world) == 0 ? report(b, error) : CLEAVE_OK;
}

static cleave_status measure_link(char **words, bench *b, cleave_error *error) {
    enum { MOST_MILLISECONDS = 60000 };
    int64_t milliseconds = 0;
    cleave_machine machine;
    cleave_link_figures figures;
    CLEAVE_TRY(parse_integer(words[1], "milliseconds", 1, MOST_MILLISECONDS, &milliseconds, error));
    if (cleave_world_size(b->world) != 2)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%d ranks: the link of two is measured",
                           cleave_world_size(b->world));
    CLEAVE_TRY(cleave_link_measure(b->world, 0, 1, 1e-3 * (double)milliseconds, &figures, error));
    if (cleave_world_rank(b->world) != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_machine_read(words[0], 2, &b->arena, &machine, error));
    cleave_link link = calibrate_link_of(&figures, 0, 1);
    CLEAVE_TRY(cleave_machine_create_node(machine.name, &machine.kinds[0], 2, &link, 1, &b->arena,
                                          &machine, error));
    return cleave_machine_write(words[2], &machine, error);
}

/* Opens the windows of connections as a run does in its first steps: every rank sends some large
   messages to every other one. */
static cleave_status warm_up(cleave_world *world, cleave_error *error) {
    enum { BYTES = 16 << 20, TIMES = 4, TAG = 7 };
    int32_t n = cleave_world_size(world), rank = cleave_world_rank(world);
    char *memory = cleave_memory_allocate((size_t)2 * BYTES);
    if (memory == NULL)
        return cleave_fail_memory(error, "warming up");
    memset(memory, 0, (size_t)2 * BYTES);
    cleave_status status = cleave_world_reserve(world, 2, error);
    for (int32_t i = 0; i < TIMES * (n - 1) && status == CLEAVE_OK; i++) {
        int32_t away = 1 + i % (n - 1);
        cleave_world_receive(world, 0, memory + BYTES, BYTES, (rank + n - away) % n, TAG);
        cleave_world_send(world, 1, memory, BYTES, (rank + away) % n, TAG);
        for (int32_t request = 0; request < 2; request++)
            while (!cleave_world_test(world, request, NULL))
                sched_yield();
    }
    free(memory);
    return status;
}

static cleave_status work_all(int n, char **words, bench *b, cleave_error *error) {
    enum { FIRST = 2, WORDS = 4 };
    if (n == FIRST + 3 && strcmp(words[1], "--links") == 0)
        return measure_link(words + FIRST, b, error);
    if (n < FIRST + WORDS || (n - FIRST) % WORDS != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "usage: bench_collectives MACHINE.json|none "
                           "[KIND ALGORITHM BYTES STEPS]... | --links MACHINE.json MILLISECONDS "
                           "OUT.json");
    cleave_world *world = b->world;
    CLEAVE_TRY(warm_up(world, error));
    for (int i = FIRST; i < n; i += WORDS) {
        *b = (bench){.world = world, .machine = strcmp(words[1], "none") == 0 ? NULL : words[1]};
        cleave_status status = work(words + i, b, error);
        cleave_arena_free(&b->arena);
        fflush(stdout);
        if (status != CLEAVE_OK)
            return status;
    }
    return CLEAVE_OK;
}

int main(int n, char **words) {
    static bench b;
    bench_begin(n, words); /* for --help; the rest is looked at where ranks can end together */
    cleave_error error = {""};
    cleave_status status = cleave_world_begin(&b.world, &error);
    if (status == CLEAVE_OK)
        status = work_all(n, words, &b, &error);
    if (status != CLEAVE_OK)
        fprintf(stderr, "bench_collectives: %s\n", error.message);
    if (b.world != NULL)
        cleave_world_end(b.world, (int)status);
    return (int)status;
}
