/* "auto": what it finds depends neither on threads nor on being interrupted, it ends at layouts
   that no single change improves, and it finds what there is. */
#include "../../support/ok.h"
#include "../../support/price_whole.h"
#include "search/bound/least_memory.h"
#include "search/improve/chain.h"
#include "search/improve/parallel.h"
#include "search/search.h"

#include "../../support/models.h"
#include "../../support/perceptron.h"
#include "../../support/test_machine.h"
#include "base/file.h"

#include <stdatomic.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_search_options options;
static char state_path[64];

static void set_up(void) {
    model = make_perceptron(&arena, 3, 64, 512);
    machine = make_machine(&arena, 2, 2, "1 GiB");
    options =
        (cleave_search_options){.method = "auto", .seed = 1, .optimizer_states = 1, .quiet = true};
    snprintf(state_path, sizeof state_path, "/tmp/cleave_state_%d.json", (int)getpid());
}
static void tear_down(void) {
    unlink(state_path);
    cleave_arena_free(&arena);
}
TestSuite(search_auto, .init = set_up, .fini = tear_down);

/* One that is interrupted may have found nothing that fits; then it says so and proves nothing. */
static cleave_search_result run(void) {
    cleave_error error = {""};
    cleave_search_result result = {0};
    cleave_status status = cleave_search(&model, &machine, &options, &arena, &result, &error);
    if (status == CLEAVE_NO_LAYOUT && options.interrupted != NULL && *options.interrupted != 0) {
        cr_expect_not_null(strstr(error.message, "the search was interrupted"), "%s",
                           error.message);
        cr_expect_null(strstr(error.message, "(proven"), "%s", error.message);
        return result;
    }
    cr_assert_eq(status, CLEAVE_OK, "%s", error.message);
    OK(cleave_layout_check, &model, &result.best.layout);
    return result;
}

static void expect_same(const cleave_search_result *a, const cleave_search_result *b,
                        const char *what) {
    cr_expect_eq(a->best.step_seconds, b->best.step_seconds, "%s: %g and %g s", what,
                 a->best.step_seconds, b->best.step_seconds);
    cr_expect_eq(a->proposals, b->proposals, "%s: %lld and %lld proposals", what,
                 (long long)a->proposals, (long long)b->proposals);
    cr_expect_eq(a->accepted, b->accepted, "%s", what);
    cr_expect_eq(a->is_local_optimum, b->is_local_optimum, "%s", what);
    for (int32_t op = 0; op < model.n_operators; op++) {
        const cleave_split *x = &a->best.layout.splits[op], *y = &b->best.layout.splits[op];
        cr_assert_eq(x->n_parts, y->n_parts, "%s", what);
        cr_expect_arr_eq(x->degree, y->degree, sizeof x->degree, "%s", what);
        cr_expect_arr_eq(x->devices, y->devices, (size_t)x->n_parts * sizeof *x->devices, "%s",
                         what);
    }
    cr_expect_arr_eq(a->best.layout.sharded, b->best.layout.sharded, (size_t)model.n_tensors, "%s",
                     what);
}

/* Which baselines are simulated in full, and what the step rests on. */
static void expect_same_report(const cleave_search_result *a, const cleave_search_result *b) {
    cr_assert_eq(a->n_baselines, b->n_baselines);
    for (int32_t i = 0; i < a->n_baselines; i++) {
        cr_expect_eq(a->baselines[i].applies, b->baselines[i].applies);
        cr_expect_eq(a->baselines[i].step_seconds, b->baselines[i].step_seconds);
        cr_expect_eq(a->baselines[i].bytes_sent, b->baselines[i].bytes_sent);
    }
    cr_expect_eq(a->shares.links, b->shares.links);
    cr_expect_arr_eq(a->shares.share, b->shares.share, sizeof a->shares.share);
}

Test(search_auto, result_does_not_depend_on_threads) {
    for (int64_t proposals = 0; proposals <= 400; proposals += 200) {
        options.proposals = proposals;
        options.n_threads = 1;
        cleave_search_result one = run();
        for (options.n_threads = 2; options.n_threads <= 5; options.n_threads++) {
            cleave_search_result more = run();
            expect_same(&one, &more, "threads");
            expect_same_report(&one, &more);
        }
    }
}

/* More than 8 devices and few operators: in steps, with changes of neighbours at once. */
Test(search_auto, result_in_steps_does_not_depend_on_threads) {
    machine = make_machine(&arena, 4, 4, "1 GiB");
    options.proposals = 120;
    options.n_threads = 1;
    cleave_search_result one = run();
    for (options.n_threads = 2; options.n_threads <= 3; options.n_threads++) {
        cleave_search_result more = run();
        expect_same(&one, &more, "threads");
    }
}

/* ---- local optima ---------------------------------------------------------------------------- */

static cleave_price price_of(cleave_pricer *pricer, const cleave_layout *layout, bool in_steps) {
    cleave_price price;
    OK(price_whole, pricer, layout, in_steps, &price);
    return price;
}

/* Of every split of the declared space and both updates of every parameter, priced from scratch,
   how many improve the layout. */
static int n_improving(const cleave_layout *found, bool in_steps) {
    cleave_node_costs *costs;
    cleave_candidates candidates;
    cleave_pricer pricer;
    int n = 0;
    OK(cleave_node_costs_create, &model, &machine, &costs);
    OK(cleave_candidates_create, &model, &machine, costs, &found, 1, &arena, &candidates);
    OK(cleave_pricer_create, &model, &machine, options.optimizer_states, options.memory_limit_bytes,
       &pricer);
    cleave_price price = price_of(&pricer, found, in_steps), changed;
    cleave_split tried = {.devices = CLEAVE_ARENA_ARRAY(&arena, int32_t, machine.n_devices)};
    for (int32_t op = 0; op < model.n_operators; op++) {
        const cleave_candidate_list *list = &candidates.lists[candidates.list_of[op]];
        cleave_split kept = found->splits[op];
        for (int32_t i = 0; i < list->n; i++)
            for (int32_t start = 0; start < list->items[i].n_starts; start++) {
                cleave_candidate_place(&list->items[i], start, &tried);
                found->splits[op] = tried;
                changed = price_of(&pricer, found, in_steps);
                n += cleave_price_better(&changed, &price);
            }
        found->splits[op] = kept;
    }
    for (int32_t t = 0; t < model.n_tensors; t++)
        if (model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER) {
            found->sharded[t] = !found->sharded[t];
            changed = price_of(&pricer, found, in_steps);
            n += cleave_price_better(&changed, &price);
            found->sharded[t] = !found->sharded[t];
        }
    cleave_pricer_destroy(&pricer);
    cleave_node_costs_destroy(costs);
    return n;
}

/* The rules of the collectives that changed layouts need, where a result keeps its own only. */
static void give_all_rules(cleave_layout *layout) {
    OK(cleave_choose_collectives, &machine, false, &arena, &layout->collectives);
}

Test(search_auto, ends_where_no_single_change_improves) {
    for (options.seed = 1; options.seed <= 3; options.seed++) {
        cleave_search_result result = run();
        cr_expect(result.is_local_optimum);
        cr_expect(result.optimum_in_steps);
        give_all_rules(&result.best.layout);
        cr_expect_eq(n_improving(&result.best.layout, true), 0);
    }
}

/* Where closed forms and steps of collectives don't agree on which of two layouts that differ by
   one split is quicker, what is found is the optimum in steps.  In each of these cases a descent in
   closed form ends where a single change improves the step.  Stages, which may be better, are not
   changed one operator at a time. */
Test(search_auto, last_descent_is_in_steps) {
    const cleave_schedule_wish whole = {.micro_batches = 1, .stages = 1, .kind = -1};
    static const struct {
        int layers, nodes, devices;
        int64_t batch, width;
    } cases[] = {{3, 4, 2, 256, 128}, {2, 3, 1, 512, 64}, {3, 2, 4, 128, 256}};
    int n_of_other_order = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model = make_perceptron(&arena, cases[i].layers, cases[i].batch, cases[i].width);
        machine = make_machine(&arena, cases[i].nodes, cases[i].devices, "1 GiB");
        cleave_search_result any = run();
        options.schedule = &whole;
        cleave_search_result result = run();
        options.schedule = NULL;
        cr_expect_leq(any.best.step_seconds, result.best.step_seconds, "case %zu: %.9f %.9f", i,
                      any.best.step_seconds * 1e6, result.best.step_seconds * 1e6);
        cr_expect(result.is_local_optimum);
        cr_expect(result.optimum_in_steps);
        give_all_rules(&result.best.layout);
        cr_expect_eq(n_improving(&result.best.layout, true), 0, "case %zu", i);
        n_of_other_order += n_improving(&result.best.layout, false) > 0;
    }
    cr_expect_gt(n_of_other_order, 0);
}

/* ---- interrupting ---------------------------------------------------------------------------- */

static volatile sig_atomic_t flag;
static void raise_flag(int signal_number) {
    (void)signal_number;
    flag = 1;
}

static void interrupt_in(int64_t microseconds) {
    const struct itimerval timer = {.it_value = {microseconds / 1000000, microseconds % 1000000}};
    flag = 0;
    setitimer(ITIMER_REAL, &timer, NULL);
}

/* Wherever the clock happens to interrupt it, time and again, the end is the same. */
static void expect_resumed_as_if_never_interrupted(int64_t first, int64_t more, int least) {
    cleave_search_result whole = run();
    signal(SIGALRM, raise_flag);
    options.resume_file = state_path;
    options.interrupted = &flag;
    int n_interrupted = 0;
    for (int64_t wait = first; wait < 60000; wait = wait * 3 / 2) {
        cleave_search_result result;
        unlink(state_path);
        int rounds = 0;
        do {
            interrupt_in(wait + more * rounds++);
            result = run();
            n_interrupted += flag != 0;
        } while (flag != 0);
        expect_same(&whole, &result, "resumed");
    }
    interrupt_in(0);
    options.resume_file = NULL;
    options.interrupted = NULL;
    cr_expect_gt(n_interrupted, least);
}

Test(search_auto, goes_on_to_the_same_end) {
    expect_resumed_as_if_never_interrupted(500, 3000, 10);
}

Test(search_auto, goes_on_to_the_same_end_with_threads_and_so_many_proposals) {
    options.proposals = 3000;
    options.n_threads = 3;
    expect_resumed_as_if_never_interrupted(500, 3000, 10);
}

Test(search_auto, goes_on_to_the_same_end_in_steps) {
    machine = make_machine(&arena, 4, 4, "1 GiB");
    options.proposals = 200;
    options.n_threads = 2;
    expect_resumed_as_if_never_interrupted(20000, 20000, 2);
}

static cleave_error expect_refused(const char *part) {
    cleave_error error = {""};
    cleave_search_result result;
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, part), "%s", error.message);
    return error;
}

static void expect_other_state(const char *part) {
    cleave_error error = expect_refused(part);
    cr_expect_not_null(strstr(error.message, state_path), "%s", error.message);
}

/* What comes after the refinements is looked for again, and found again. */
Test(search_auto, goes_on_to_the_same_stages) {
    model = make_perceptron(&arena, 8, 4096, 64);
    options.memory_limit_bytes = run().baselines[0].peak_bytes * 6 / 10;
    cleave_search_result whole = run();
    cr_assert_gt(whole.best.layout.schedule.micro_batches, 1);
    expect_resumed_as_if_never_interrupted(500, 20000, 4);
}

Test(search_auto, what_leaves_no_state_is_not_resumed) {
    const cleave_schedule_wish staged = {.kind = -1, .recompute = -1, .stages = 2};
    options.resume_file = state_path;
    options.method = "exact";
    expect_refused("by method auto alone, not by exact");
    options.method = "auto";
    options.schedule = &staged;
    expect_refused("nothing but stages");
    options.schedule = NULL;
    machine = make_machine(&arena, 32, 4, "1 GiB");
    expect_refused("on 128 devices");
}

Test(search_auto, a_search_that_has_ended_is_read_from_its_state) {
    options.resume_file = state_path;
    cleave_search_result first = run();
    cleave_search_result again = run();
    expect_same(&first, &again, "read");
}

Test(search_auto, state_of_another_search_is_refused) {
    options.resume_file = state_path;
    run();
    options.seed = 2;
    expect_other_state("the state is of another search");
    options.seed = 1;
    options.memory_limit_bytes = 1 << 29;
    expect_other_state("the state is of another search");
}

/* Every byte of a state may be wrong. */
Test(search_auto, damaged_states_are_refused_or_harmless) {
    char *text, *copy;
    size_t bytes;
    options.resume_file = state_path;
    options.proposals = 40;
    run();
    OK(cleave_file_read, state_path, &arena, &text, &bytes);
    copy = CLEAVE_ARENA_ARRAY(&arena, char, bytes);
    static const char wrong[] = "9-]{\"x";
    for (size_t i = 0; i < bytes; i += 1 + bytes / 150) {
        cleave_error error = {""};
        cleave_search_result result;
        memcpy(copy, text, bytes);
        copy[i] = wrong[i % (sizeof wrong - 1)];
        OK(cleave_file_write, state_path, copy, bytes);
        cleave_status status = cleave_search(&model, &machine, &options, &arena, &result, &error);
        cr_expect(status == CLEAVE_OK || status == CLEAVE_BAD_INPUT, "byte %zu: %s", i,
                  error.message);
        cr_expect(status == CLEAVE_OK || error.message[0] != '\0');
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

Test(search_auto, shards_updates_where_memory_is_short) {
    options.optimizer_states = 2;
    cleave_search_result roomy = run();
    for (int percent = 90; percent >= 60; percent -= 10) {
        options.memory_limit_bytes = roomy.baselines[0].peak_bytes * percent / 100;
        cleave_search_result result = run();
        cr_expect_leq(result.best.peak_bytes, options.memory_limit_bytes);
    }
}

Test(search_auto, says_what_holds_memory_and_whether_it_is_proven) {
    cleave_error error = {""};
    cleave_search_result result;
    options.memory_limit_bytes = 4096;
    options.time_seconds = 60; /* which would not help */
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "(proven: any layout holds "), "%s", error.message);
    cr_expect_null(strstr(error.message, "no --time was left"), "%s", error.message);
    options.time_seconds = 0;
    cr_expect_not_null(strstr(error.message, "held by "), "%s", error.message);
    /* Shares of three parameters of 1 MiB, their states and gradients: more than is proven, since
       gradients need not all be there at once.  The search finds room and few proposals don't. */
    int64_t least;
    OK(cleave_least_memory, &model, 1, &least);
    options.memory_limit_bytes = INT64_C(3) * 3 * (1 << 20) / machine.n_devices;
    cr_assert_lt(least, options.memory_limit_bytes * machine.n_devices);
    cr_expect_leq(run().best.peak_bytes, options.memory_limit_bytes);
    options.method = "mcmc";
    options.proposals = 1;
    cr_expect_eq(cleave_search(&model, &machine, &options, &arena, &result, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "(unproven: any layout of the whole batch at once "),
                       "%s", error.message);
    cr_expect_not_null(strstr(error.message, "with --micro-batches"), "%s", error.message);
}

/* What is claimed of every layout must hold for any that is drawn, devices added up. */
Test(search_auto, no_drawn_layout_holds_less_than_is_proven) {
    for (int which = 0; which < N_MODELS; which++)
        for (int states = 0; states <= 2; states++)
            for (uint64_t seed = 0; seed < 40; seed++) {
                cleave_error error = {""};
                cleave_arena own = {0};
                cleave_model drawn;
                cleave_layout layout;
                cleave_program program;
                int32_t n_devices = 1 + (int32_t)(seed % 6);
                cr_assert(hand_model(which, &own, &drawn, &error), "%s", error.message);
                const cleave_lower_options lower = {.training = drawn.loss >= 0,
                                                    .optimizer_states = states};
                OK(cleave_layout_random, &drawn, n_devices, seed, &own, &layout);
                OK(cleave_lower, &drawn, &layout, &lower, &own, &program);
                int64_t held = 0, least;
                OK(cleave_least_memory, &drawn, states, &least);
                for (int32_t d = 0; d < n_devices; d++)
                    held += program.peak_bytes[d];
                cr_expect_geq(held, least, "%s, seed %d: %lld bytes, %lld proven",
                              hand_model_names[which], (int)seed, (long long)held,
                              (long long)least);
                cr_expect_gt(least, 0);
                cleave_arena_free(&own);
            }
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct counted {
    atomic_int done[64], most_worker;
} counted;

static cleave_status count_task(void *context, int32_t worker, int32_t task, cleave_error *error) {
    counted *c = context;
    atomic_fetch_add(&c->done[task], 1);
    if (worker > atomic_load(&c->most_worker))
        atomic_store(&c->most_worker, worker);
    if (task == 17 || task == 23)
        return cleave_fail(error, CLEAVE_FAILED, "task %d", task);
    return CLEAVE_OK;
}

Test(search_auto, every_task_is_done_once_and_the_first_failure_is_told) {
    for (int32_t threads = 1; threads <= 8; threads++) {
        counted c = {0};
        cleave_error error = {""};
        cleave_parallel parallel = {
            .n_threads = threads, .n_tasks = 17, .task = count_task, .context = &c};
        OK(cleave_parallel_run, &parallel);
        for (int task = 0; task < 17; task++)
            cr_expect_eq(c.done[task], 1);
        cr_expect_lt(c.most_worker, threads);
        parallel.n_tasks = 64;
        cr_expect_eq(cleave_parallel_run(&parallel, &error), CLEAVE_FAILED);
        cr_expect_str_eq(error.message, "task 17");
    }
}

/* Links over which a matrix of a megabyte takes three hours: no split is worth it, and none may be
   too dear to be looked at. */
Test(search_auto, links_may_be_too_slow_for_any_use) {
    machine = parse_machine(&arena, 2, 2, "1 GiB", "100 GB/s", "1 us",
                            "\"bandwidth\": \"100 B/s\", \"latency\": \"1 us\"");
    const cleave_search_result result = run();
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect_eq(result.best.layout.splits[op].n_parts, 1);
}

/* Forward on one device there is one layout: nothing to be drawn, and an end all the same. */
Test(search_auto, ends_where_there_is_one_layout, .timeout = 60) {
    machine = make_machine(&arena, 1, 1, "1 GiB");
    model.loss = -1; /* one pass forward */
    const cleave_search_result result = run();
    cr_expect(result.is_local_optimum);
    cr_expect_eq(result.proposals, 0);
}
