/* Machines of unequal devices: each is priced by its own kind, has its own memory, and the search
   gives the quick ones the work. */
#include "../../support/ok.h"
#include "costmodel/machine_kind.h"
#include "search/search.h"

#include "../../support/expect_bound.h"
#include "../../support/perceptron.h"

static cleave_arena arena;
static cleave_model model;

static void set_up(void) { model = make_perceptron(&arena, 3, 64, 512); }
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(mixed_machine, .init = set_up, .fini = tear_down);

/* A node of "quick" (0.5 TFLOP/s of products) and "slow" devices (0.125); all else takes no time.
 */
static cleave_machine make_mixed(const char *kinds, int32_t n_devices, const char *slow_memory) {
    cleave_machine machine;
    const char *text = cleave_arena_printf(
        &arena,
        "{\"cleave_machine\": 1, \"name\": \"mixed\", \"kinds\": {"
        "\"quick\": {\"memory\": \"1 GiB\", \"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": "
        "\"1000000 TB/s\", \"efficiency\": {\"product\": 0.5, \"memory\": 1}}, "
        "\"slow\": {\"memory\": \"%s\", \"flops\": \"0.25 TFLOP/s\", \"memory_bandwidth\": "
        "\"1000000 TB/s\", \"efficiency\": {\"product\": 0.5, \"memory\": 1}}}, "
        "\"node\": {\"devices\": %d, \"kinds\": [%s], \"links\": [{\"join\": [[%s]], "
        "\"bandwidth\": "
        "\"1000000 TB/s\", \"latency\": \"0 s\"}]}}",
        slow_memory, n_devices, kinds,
        n_devices == 2   ? "0, 1"
        : n_devices == 3 ? "0, 1, 2"
                         : "0, 1, 2, 3");
    OK(cleave_machine_parse, text, strlen(text), "mixed", 0, &arena, &machine);
    return machine;
}

static cleave_status search(const cleave_machine *machine, const char *method,
                            cleave_search_result *result, cleave_error *error) {
    cleave_search_options options = {
        .method = method, .proposals = 2000, .seed = 1, .optimizer_states = 1, .quiet = true};
    return cleave_search(&model, machine, &options, &arena, result, error);
}

static double step_of(const cleave_machine *machine, const char *method) {
    cleave_search_result result;
    OK(search, machine, method, &result);
    return result.best.step_seconds;
}

/* Half of the batch, 32 samples: three products forward, three gradients of weights, two of inputs
   (the first layer's is of data), each 2 x 32 x 512 x 512 flops.  At 0.125 TFLOP/s that is 1.0737
   ms; rectifiers and loss are 0.1 % of it. */
Test(mixed_machine, a_data_parallel_step_takes_the_time_of_its_slowest_device) {
    cleave_machine mixed = make_mixed("\"quick\", \"slow\"", 2, "1 GiB"),
                   slow = make_mixed("\"slow\", \"slow\"", 2, "1 GiB"),
                   quick = make_mixed("\"quick\", \"quick\"", 2, "1 GiB");
    double by_hand = 8 * 2.0 * 32 * 512 * 512 / 0.125e12;
    double step = step_of(&mixed, "data-parallel");
    cr_expect_float_eq(step, by_hand, 0.01 * by_hand, "%g, not %g", step, by_hand);
    cr_expect_float_eq(step, step_of(&slow, "data-parallel"), 1e-6 * step);
    cr_expect_float_eq(step, 4 * step_of(&quick, "data-parallel"), 1e-3 * step);
}

/* Alone on device 0 the same model takes what that device's kind takes. */
Test(mixed_machine, a_device_is_priced_by_its_own_kind) {
    cleave_machine quick_first = make_mixed("\"quick\", \"slow\"", 2, "1 GiB"),
                   slow_first = make_mixed("\"slow\", \"quick\"", 2, "1 GiB");
    double quick = step_of(&quick_first, "single"), slow = step_of(&slow_first, "single");
    cr_expect_float_eq(slow, 4 * quick, 1e-6 * slow);
}

/* Three layers of 1 MiB of weights, their gradients and momentum are 9 MiB on each device: a slow
   device of 8 MiB has no room for its share, and a quick one of 1 GiB has room for all. */
Test(mixed_machine, memory_is_that_of_each_kind) {
    cleave_machine small = make_mixed("\"quick\", \"slow\"", 2, "8 MiB"),
                   large = make_mixed("\"quick\", \"slow\"", 2, "64 MiB");
    cleave_search_result result;
    cleave_error error = {""};
    OK(search, &large, "data-parallel", &result);
    cr_expect_eq(search(&small, "data-parallel", &result, &error), CLEAVE_NO_LAYOUT);
    OK(search, &small, "single", &result);
    OK(search, &small, "auto", &result);
}

/* Even blocks over all four take a quarter of the batch at the slow rate, 4 x that of the quick: a
   whole batch on one quick device takes as long, and half on each of two takes half. */
Test(mixed_machine, the_search_gives_quick_devices_the_work) {
    cleave_machine machine = make_mixed("\"quick\", \"quick\", \"slow\", \"slow\"", 4, "1 GiB");
    cleave_search_result result;
    OK(search, &machine, "auto", &result);
    double even = result.baselines[0].step_seconds, parts[4] = {0};
    cr_assert_str_eq(result.baselines[0].method, "data-parallel");
    cr_expect_leq(result.best.step_seconds, 0.55 * even, "%g of %g", result.best.step_seconds,
                  even);
    for (int32_t op = 0; op < model.n_operators; op++)
        for (int32_t p = 0; p < result.best.layout.splits[op].n_parts; p++)
            parts[result.best.layout.splits[op].devices[p]] +=
                1.0 / result.best.layout.splits[op].n_parts;
    cr_expect_gt(parts[0] + parts[1], parts[2] + parts[3]);
}

/* Before any walk: half of the batch on each of the quick ones is where one begins. */
Test(mixed_machine, a_walk_begins_with_the_quick_devices) {
    cleave_machine machine = make_mixed("\"quick\", \"slow\", \"quick\", \"slow\"", 4, "1 GiB");
    cleave_search_options options = {
        .method = "auto", .proposals = 16, .seed = 1, .optimizer_states = 1, .quiet = true};
    cleave_search_result result;
    OK(cleave_search, &model, &machine, &options, &arena, &result);
    cr_expect_leq(result.best.step_seconds, 0.51 * result.baselines[0].step_seconds);
}

/* Two of three layers take the quick device a sixth of the time that a slow one takes for all, and
   the third takes two slow ones as long: so with micro-batches a step is near a sixth, 0.67 of what
   the quick device takes alone, which is the best of what has stages on as many devices each. */
Test(mixed_machine, stages_have_unequal_numbers_of_unequal_devices) {
    cleave_machine machine = make_mixed("\"slow\", \"quick\", \"slow\"", 3, "1 GiB");
    const cleave_machine alone = make_mixed("\"quick\", \"quick\"", 2, "1 GiB");
    cleave_search_result result;
    OK(search, &machine, "auto", &result);
    double single = step_of(&alone, "single");
    cr_expect_leq(result.best.step_seconds, 0.85 * single, "%g of %g", result.best.step_seconds,
                  single);
    cr_assert_eq(result.best.layout.schedule.n_stages, 2);
    int parts[2] = {0};
    for (int32_t op = 0; op < model.n_operators; op++) {
        const cleave_split *split = &result.best.layout.splits[op];
        int32_t stage = cleave_schedule_stage_of(&result.best.layout.schedule, op);
        parts[stage] = split->n_parts > parts[stage] ? split->n_parts : parts[stage];
    }
    cr_expect_eq(parts[0] + parts[1], 3);
}

/* Of one kind a machine has its devices in their order, and the ways between them. */
Test(mixed_machine, devices_of_one_kind_are_a_machine) {
    cleave_machine machine = make_mixed("\"slow\", \"quick\", \"quick\", \"slow\"", 4, "8 MiB");
    cleave_machine of_kind, as_kind;
    int32_t kept[4], links[CLEAVE_MAX_ROUTE], n_of_kind[2];
    cleave_machine_count_kinds(&machine, n_of_kind);
    for (int32_t kind = 0; kind < 2; kind++) {
        int32_t first = machine.device_kind[0] == kind ? 0 : 1;
        bool made;
        OK(cleave_machine_of_kind, &machine, kind, &arena, &of_kind, kept, &made);
        cr_assert(made);
        cr_expect_eq(n_of_kind[kind], 2);
        cr_assert_eq(of_kind.n_devices, 2);
        cr_expect_eq(kept[0], first);
        cr_expect_eq(kept[1], 3 - first);
        cr_expect_eq(of_kind.device_kind[0], kind);
        cr_expect_eq(of_kind.device_kind[1], kind);
        cr_expect_eq(cleave_machine_route(&of_kind, 0, 1, links), 1);
        OK(cleave_machine_as_kind, &machine, kind, &arena, &as_kind);
        cr_expect_eq(as_kind.n_devices, 4);
        for (int32_t d = 0; d < 4; d++)
            cr_expect_eq(as_kind.device_kind[d], kind);
    }
}

Test(mixed_machine, the_bound_holds_for_any_placement) {
    cleave_machine machine = make_mixed("\"quick\", \"slow\", \"slow\", \"quick\"", 4, "1 GiB");
    expect_bound_to_hold(&model, &machine, 200, &arena);
}
