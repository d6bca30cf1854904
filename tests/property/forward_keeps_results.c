/* One pass forward by itself: any layout of it, in stages and micro-batches or not, gives what one
   device gives; the very bytes that the first pass of training under the same layout gives; in less
   memory; and nothing that is searched or bounded is beaten. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/interpreter.h"
#include "../support/ok.h"
#include "../support/test_machine.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "search/bound/micro_batches.h"
#include "search/search.h"
#include "simulator/scan/period.h"
#include "simulator/step/simulated_step.h"

#include <math.h>
#include <stdio.h>

/* Behind headers that have parameters of the name of its type. */
#include "../support/onnx_writer.h"

enum { N_DEVICES = 4, BATCH = 12 };

/* Three layers with a residual; what is to be least is their mean, and besides the last layer is an
   output, as it is and turned. */
static cleave_model make_model(bool with_loss, int64_t batch, cleave_arena *arena) {
    bytes graph = {.n = 0}, turn = {.n = 0}, flat = {.n = 0};
    cleave_model model;
    graph_input(&graph, "x", "batch 8");
    graph_input(&graph, "w1", "8 16");
    graph_input(&graph, "b1", "16");
    graph_input(&graph, "w2", "16 8");
    graph_input(&graph, "w3", "8 8");
    attribute_integer(&flat, "keepdims", 0);
    attribute_integers(&turn, "perm", 2, (int64_t[]){1, 0});
    node(&graph, "MatMul", "first", "x w1", "a", NULL);
    node(&graph, "Add", "bias", "a b1", "s", NULL);
    node(&graph, "Tanh", "bend", "s", "t", NULL);
    node(&graph, "MatMul", "second", "t w2", "u", NULL);
    node(&graph, "Add", "residual", "u x", "v", NULL);
    node(&graph, "Relu", "rectify", "v", "r", NULL);
    node(&graph, "MatMul", "third", "r w3", "y", NULL);
    node(&graph, "Transpose", "turn", "y", "z", &turn);
    node(&graph, "Mul", "square", "y y", "q", NULL);
    node(&graph, "ReduceMean", "mean", "q", "least", &flat);
    graph_output(&graph, "least");
    graph_output(&graph, "y");
    graph_output(&graph, "z");
    bytes file = model_file(&graph, 13);
    OK(cleave_model_import_as,
       &(cleave_import_request){.file = "three layers",
                                .data = file.data,
                                .bytes = file.n,
                                .batch = batch,
                                .with_loss = with_loss},
       arena, &model);
    cr_assert_eq(model.n_outputs, 3);
    return model;
}

static void run(const cleave_model *model, const cleave_layout *layout, bool training,
                cleave_arena *arena, cleave_program *program, interpreter_result *result) {
    const cleave_lower_options lower = {.training = training, .optimizer_states = 1};
    interpreter_options options = {.seed = 3,
                                   .timing_seed = 7,
                                   .steps = 1,
                                   .optimizer = cleave_optimizer_default(CLEAVE_OPTIMIZER_SGD)};
    options.optimizer.momentum = 0.9;
    OK(cleave_lower, model, layout, &lower, arena, program);
    OK(cleave_program_check, program);
    OK(interpreter_run, program, &options, arena, result);
}

/* Every element of every output lies on one device. */
static void expect_covered(const cleave_program *program) {
    const cleave_model *model = program->model;
    int64_t covered[3] = {0};
    for (int32_t o = 0; o < program->n_outputs; o++) {
        const cleave_output *piece = &program->outputs[o];
        covered[piece->output] +=
            cleave_box_size(model->tensors[model->outputs[piece->output]].rank, &piece->box);
    }
    for (int32_t o = 0; o < model->n_outputs; o++)
        cr_assert_eq(covered[o], cleave_tensor_size(&model->tensors[model->outputs[o]]));
}

/* Of forward nothing is left of training. */
static void expect_nothing_more(const cleave_program *program) {
    cr_assert_eq(program->n_updates, 0);
    for (int32_t c = 0; c < program->n_computes; c++)
        cr_assert_eq(program->computes[c].pass, CLEAVE_PASS_FORWARD);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        cleave_buffer_kind kind = program->buffers[b].kind;
        cr_assert(kind != CLEAVE_BUFFER_GRADIENT && kind != CLEAVE_BUFFER_STATE &&
                  kind != CLEAVE_BUFFER_ACTIVATION_GRADIENT);
    }
}

/* Of all devices, and of the fullest.  (One that keeps some of an output may have more.) */
static void expect_less_memory(const cleave_program *program, const cleave_program *trained,
                               int seed) {
    int64_t all = 0, all_trained = 0, most = 0, most_trained = 0;
    for (int32_t d = 0; d < program->n_devices; d++) {
        int64_t taken = program->peak_bytes[d], of_training = trained->peak_bytes[d];
        all += taken;
        all_trained += of_training;
        most = taken > most ? taken : most;
        most_trained = of_training > most_trained ? of_training : most_trained;
    }
    cr_assert_lt(most, most_trained, "seed %d", seed);
    cr_assert_lt(all, all_trained, "seed %d", seed);
}

/* What adds up over devices does so in an order that depends on who asks for it: with parts that
   have whole sums, nothing does.  False: then it would be no layout. */
static bool keep_sums_whole(const cleave_model *model, cleave_layout *layout, cleave_arena *arena) {
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        cleave_split *split = &layout->splits[op];
        bool cut = false;
        for (int a = 0; a < of->n_axes; a++)
            cut = cut || (split->degree[a] > 1 && strcmp(of->roles[a], "reduction") == 0);
        const int32_t degree[CLEAVE_MAX_AXES] = {0};
        if (cut)
            OK(cleave_layout_set, layout, op, 1, degree, split->devices, arena);
    }
    return cleave_layout_check(model, layout, NULL) == CLEAVE_OK;
}

static void compare(const cleave_model *model, const interpreter_result *result,
                    const interpreter_result *expected, float off, int seed) {
    for (int32_t o = 0; o < model->n_outputs; o++)
        for (int64_t i = 0; i < cleave_tensor_size(&model->tensors[model->outputs[o]]); i++)
            cr_assert(fabsf(result->outputs[o][i] - expected->outputs[o][i]) <= off,
                      "seed %d: output %d[%d] is %.9g, not %.9g", seed, (int)o, (int)i,
                      (double)result->outputs[o][i], (double)expected->outputs[o][i]);
}

/* The model as it is trained may go forward, too. */
static void try_layout(const cleave_model *model, const cleave_model *trained,
                       const cleave_layout *layout, bool is_exact,
                       const interpreter_result *expected, int seed) {
    cleave_arena scratch = {0};
    cleave_program program, other;
    interpreter_result result, forward, training;
    run(model, layout, false, &scratch, &program, &result);
    expect_covered(&program);
    expect_nothing_more(&program);
    compare(model, &result, expected, 1e-5f, seed);
    run(trained, layout, false, &scratch, &other, &forward);
    compare(model, &result, &forward, 0, seed);
    run(trained, layout, true, &scratch, &other, &training);
    cr_assert_float_eq(training.loss[0], (double)result.outputs[0][0], is_exact ? 0 : 1e-6,
                       "seed %d: %.9g in training, %.9g", seed, training.loss[0],
                       (double)result.outputs[0][0]);
    expect_less_memory(&program, &other, seed);
    cleave_arena_free(&scratch);
}

Test(forward, any_layout_gives_the_same_outputs_and_the_bytes_of_training) {
    cleave_arena arena = {0};
    cleave_model model = make_model(false, BATCH, &arena),
                 trained = make_model(true, BATCH, &arena);
    cleave_layout single;
    cleave_program program;
    interpreter_result expected;
    int n_cut = 0, n_staged = 0, n_exact = 0;
    cr_assert(!cleave_model_trains(&model) && cleave_model_trains(&trained));
    OK(cleave_layout_create, &model, 1, &arena, &single);
    run(&model, &single, false, &arena, &program, &expected);
    for (uint64_t seed = seed_from(0); seed < seed_end(150); seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout, whole;
        OK(cleave_layout_random, &model, N_DEVICES, (uint64_t)seed, &scratch, &layout);
        draw_schedule(&model, (uint64_t)seed, 6, &scratch, &layout);
        OK(cleave_layout_copy, &layout, &model, &scratch, &whole);
        bool is_exact = seed % 2 == 1 && keep_sums_whole(&model, &whole, &scratch);
        n_exact += is_exact;
        n_cut += layout.schedule.micro_batches > 1;
        n_staged += layout.schedule.n_stages > 1;
        try_layout(&model, &trained, is_exact ? &whole : &layout, is_exact, &expected, (int)seed);
        cleave_arena_free(&scratch);
    }
    cr_expect_gt(n_cut, 20);
    cr_expect_gt(n_staged, 20);
    cr_expect_gt(n_exact, 20);
    cleave_arena_free(&arena);
}

/* ---- time ------------------------------------------------------------------------------------ */

static void simulate(const cleave_model *model, const cleave_machine *machine,
                     const cleave_layout *layout, cleave_arena *arena, int64_t *latency,
                     int64_t *period) {
    const cleave_lower_options lower = {0};
    cleave_cost_cache *cache;
    cleave_program program;
    cleave_simulated_step step;
    OK(cleave_cost_cache_create, model, machine, &cache);
    OK(cleave_lower, model, layout, &lower, arena, &program);
    OK(cleave_simulated_step_make, &program, NULL, cache, arena, &step);
    *latency = step.timeline.step;
    OK(cleave_scan_period, &step.problem, step.workspace, &step.timeline, period);
    cleave_cost_cache_destroy(cache);
}

/* Operators in three stages, a device each; m batches of 1 / m of the model's. */
static cleave_layout make_stages(const cleave_model *model, int32_t m, cleave_arena *arena) {
    cleave_layout layout;
    int32_t first[3] = {0}, n_stages = 3, *device = CLEAVE_ARENA_ARRAY(arena, int32_t, 3);
    for (int32_t s = 0; s < n_stages; s++) {
        first[s] = model->n_operators * s / n_stages;
        device[s] = s;
    }
    const cleave_schedule schedule = {
        .micro_batches = m, .n_stages = n_stages, .first_operator = first};
    OK(cleave_layout_create, model, n_stages, arena, &layout);
    OK(cleave_schedule_copy, &schedule, arena, &layout.schedule);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cleave_split one = layout.splits[op];
        one.devices = &device[cleave_schedule_stage_of(&schedule, op)];
        OK(cleave_layout_set, &layout, op, 1, one.degree, one.devices, arena);
    }
    OK(cleave_layout_check, model, &layout);
    return layout;
}

/* The same by another way: a batch of 40 such batches as micro-batches, and one of 20. */
Test(forward, the_period_is_what_one_more_batch_adds_to_a_long_pipeline) {
    cleave_arena arena = {0};
    cleave_machine machine = make_machine(&arena, 3, 1, "16 GiB");
    cleave_model one = make_model(false, 512, &arena), many[2];
    int64_t latency, period, other, long_steps[2];
    cleave_layout layout = make_stages(&one, 1, &arena);
    simulate(&one, &machine, &layout, &arena, &latency, &period);
    for (int i = 0; i < 2; i++) {
        int32_t m = 20 * (i + 1);
        many[i] = make_model(false, 512 * m, &arena);
        layout = make_stages(&many[i], m, &arena);
        simulate(&many[i], &machine, &layout, &arena, &long_steps[i], &other);
    }
    double each = (double)(long_steps[1] - long_steps[0]) / 20;
    cr_expect_float_eq((double)period, each, 0.01 * each, "%lld, not %g", (long long)period, each);
    cr_expect_lt((double)period, 0.8 * (double)latency, "%lld of %lld", (long long)period,
                 (long long)latency);
    cleave_arena_free(&arena);
}

/* ---- search ---------------------------------------------------------------------------------- */

static void expect_above_bounds(const cleave_problem *problem, const cleave_layout *layout,
                                cleave_arena *scratch) {
    int64_t step[2];
    cleave_micro_bound_options options = {.micro_batches = layout->schedule.micro_batches,
                                          .forms = CLEAVE_BOUND_STEPS,
                                          .layouts = &layout,
                                          .n_layouts = 1};
    simulate(problem->model, problem->machine, layout, scratch, &step[0], &step[1]);
    cr_assert_leq(step[1], step[0]);
    for (int goal = 0; goal < 2; goal++) {
        double bound;
        options.work_alone = goal == 1;
        OK(cleave_lower_bound_in_micro_batches, problem, &options, &bound);
        cr_assert_gt(bound, 0);
        cr_assert_leq(bound, 1e-12 * (double)step[goal], "of %s", goal ? "throughput" : "latency");
    }
}

Test(forward, no_drawn_layout_is_below_the_bounds) {
    cleave_arena arena = {0};
    cleave_model model = make_model(false, BATCH, &arena);
    cleave_machine machine = make_machine(&arena, 2, 2, "16 GiB");
    cleave_problem problem;
    OK(cleave_problem_create, &model, &machine, NULL, &arena, &problem);
    for (uint64_t seed = seed_from(0); seed < seed_end(60); seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        OK(cleave_layout_random, &model, machine.n_devices, (uint64_t)seed, &scratch, &layout);
        draw_schedule(&model, (uint64_t)seed, 4, &scratch, &layout);
        expect_above_bounds(&problem, &layout, &scratch);
        cleave_arena_free(&scratch);
    }
    cleave_arena_free(&arena);
}

/* `seconds` is of the found layout. */
static cleave_search_result search(const cleave_model *model, const cleave_machine *machine,
                                   const char *method, bool throughput, cleave_arena *arena) {
    cleave_search_result found;
    const cleave_search_options options = {
        .method = method, .n_threads = 1, .throughput = throughput, .quiet = true};
    OK(cleave_search, model, machine, &options, arena, &found);
    cr_assert(found.best.applies);
    return found;
}

Test(forward, what_is_found_is_no_worse_than_baselines_and_not_below_the_bound) {
    cleave_arena arena = {0};
    cleave_machine machine = make_machine(&arena, 2, 2, "16 GiB");
    double best[2];
    for (int size = 0; size < 2; size++) {
        cleave_model model = make_model(false, size == 0 ? 4 : 4096, &arena);
        for (int goal = 0; goal < 2; goal++) {
            cleave_search_result found = search(&model, &machine, "auto", goal == 1, &arena);
            double least = found.best.step_seconds * (1 + 1e-9);
            int64_t step[2];
            for (int32_t b = 0; b < found.n_baselines; b++)
                if (found.baselines[b].applies)
                    cr_expect_geq(found.baselines[b].step_seconds * (1 + 1e-9),
                                  found.best.step_seconds, "%s", cleave_baseline_names[b]);
            cr_expect_gt(found.lower_bound_seconds, 0);
            cr_expect_leq(found.lower_bound_seconds, least);
            simulate(&model, &machine, &found.best.layout, &arena, &step[0], &step[1]);
            cr_expect_float_eq(found.best.step_seconds, 1e-12 * (double)step[goal], 1e-12);
            best[goal] = found.best.step_seconds;
        }
        cr_expect_leq(best[1], best[0] * (1 + 1e-9));
    }
    cleave_arena_free(&arena);
}

/* ---- refusals -------------------------------------------------------------------------------- */

Test(forward, a_layout_has_no_updates_to_shard_and_nothing_to_recompute) {
    cleave_arena arena = {0};
    cleave_error error = {""};
    cleave_model model = make_model(false, BATCH, &arena);
    cleave_layout layout;
    OK(cleave_layout_create, &model, 2, &arena, &layout);
    layout.recompute[0] = true;
    cr_expect_eq(cleave_layout_check(&model, &layout, &error), CLEAVE_BAD_INPUT);
    layout.recompute[0] = false;
    OK(cleave_layout_check, &model, &layout);
    for (int32_t t = 0; t < model.n_tensors; t++)
        layout.sharded[t] = model.tensors[t].kind == CLEAVE_TENSOR_PARAMETER;
    cr_expect_eq(cleave_layout_check(&model, &layout, &error), CLEAVE_BAD_INPUT);
    cleave_arena_free(&arena);
}
