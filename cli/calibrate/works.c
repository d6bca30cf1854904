/* Which work calibration measures. */
#include "cli/calibrate/works.h"

#include "base/order.h"
#include "costmodel/cost.h"
#include "graph/lower/lower.h"
#include "graph/model/layout.h"
#include "graph/program/operator_work.h"
#include "search/problem/candidates.h"
#include "search/search.h"

#include <string.h>

enum { N_PASSES = CLEAVE_PASS_WEIGHT_GRADIENT + 1, MOST_MICRO_BATCHES = 16 };

/* What adds works of one model. */
typedef struct collector {
    calibrate_works *works;
    const cleave_model *model;
    const cleave_machine *machine;
    int64_t touched_bytes; /* in a step of the layout whose work is added */
    cleave_reuse *usual;   /* [n_nests][N_PASSES] */
} collector;

static cleave_status add_work(const collector *c, const cleave_nest *nest, cleave_pass pass,
                              const cleave_part *part, const cleave_reuse *reuse, bool wanted,
                              cleave_error *error) {
    calibrate_work work = {.model = c->model,
                           .nest = nest,
                           .pass = pass,
                           .part = *part,
                           .reuse = *reuse,
                           .wanted = wanted};
    cleave_provenance provenance;
    bool backward = pass != CLEAVE_PASS_FORWARD;
    if (!c->works->whole_operators) {
        cleave_work_describe(c->model, nest, pass, part, &work.work);
    } else {
        int32_t lead = cleave_operator_lead(c->model, nest->op, backward);
        bool is_second = pass == CLEAVE_PASS_WEIGHT_GRADIENT &&
                         cleave_nest_pass_inputs(c->model, nest, CLEAVE_PASS_INPUT_GRADIENT) != 0;
        if (nest != &c->model->nests[lead] || is_second)
            return CLEAVE_OK;
        cleave_operator_work_describe(c->model, nest->op, backward, part, &work.work);
    }
    work.work.has_kernels = false; /* it will be timed as it is */
    work.expected_seconds = cleave_cost_compute(&c->machine->kinds[0], &work.work, &provenance);
    return CLEAVE_LIST_PUSH(c->works, work) ? CLEAVE_OK
                                            : cleave_fail_memory(error, "listing what to measure");
}

static const cleave_reuse *usual_reuse(const collector *c, int32_t nest, cleave_pass pass) {
    return &c->usual[N_PASSES * nest + (int)pass];
}

static cleave_status add_part(const collector *c, const cleave_nest *nest, const cleave_part *part,
                              cleave_error *error) {
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++)
        if (pass == CLEAVE_PASS_FORWARD || cleave_nest_pass_inputs(c->model, nest, pass) != 0)
            CLEAVE_TRY(add_work(c, nest, pass, part,
                                usual_reuse(c, (int32_t)(nest - c->model->nests), pass), false,
                                error));
    return CLEAVE_OK;
}

/* The parts of the nests of operator `op`. */
static cleave_status add_operator(const collector *c, const cleave_layout *layout, int32_t op,
                                  cleave_error *error) {
    cleave_arena arena = {0};
    cleave_parts *parts;
    cleave_status status = cleave_parts_derive(c->model, layout, NULL, &arena, &parts, error);
    for (int32_t n = 0; n < c->model->n_nests && status == CLEAVE_OK; n++) {
        const cleave_nest *nest = &c->model->nests[n];
        for (int32_t p = 0; p < parts[n].n && status == CLEAVE_OK; p++)
            if (nest->op == op && !parts[n].items[p].empty)
                status = add_part(c, nest, &parts[n].items[p], error);
    }
    cleave_arena_free(&arena);
    return status;
}

/* A layout as a step runs it. */
static cleave_status look_into(collector *c, const cleave_layout *layout, cleave_arena *arena,
                               cleave_program *program, cleave_reuse **reuses,
                               cleave_error *error) {
    const cleave_lower_options options = {.training = cleave_model_trains(c->model)};
    CLEAVE_TRY(cleave_lower(c->model, layout, &options, arena, program, error));
    CLEAVE_TRY(cleave_reuse_find(program, arena, reuses, error));
    c->touched_bytes = 0;
    for (int32_t d = 0; d < program->n_devices; d++)
        c->touched_bytes =
            program->peak_bytes[d] > c->touched_bytes ? program->peak_bytes[d] : c->touched_bytes;
    return CLEAVE_OK;
}

/* All work of a layout, in its own surroundings: a device that computes the whole model touches
   more between two runs of a kernel than one of several that share it. */
static cleave_status add_layout(collector *c, const cleave_layout *layout, bool wanted,
                                cleave_error *error) {
    cleave_arena arena = {0};
    cleave_program program;
    cleave_reuse *reuses;
    cleave_status status = look_into(c, layout, &arena, &program, &reuses, error);
    for (int32_t i = 0; status == CLEAVE_OK && i < program.n_computes; i++) {
        const cleave_compute *compute = &program.computes[i];
        status = add_work(c, &c->model->nests[compute->nest], compute->pass, &compute->part,
                          &reuses[i], wanted, error);
    }
    cleave_arena_free(&arena);
    return status;
}

/* The mean of `n` others, and another one. */
static void add_to_mean(cleave_reuse *mean, int32_t n, const cleave_reuse *other) {
    mean->in_place += (other->in_place - mean->in_place) / (n + 1);
    for (int i = 0; i < CLEAVE_N_REUSES; i++)
        mean->bytes[i] += (other->bytes[i] - mean->bytes[i]) / (n + 1);
}

/* Of every nest and pass, in a layout. */
static cleave_status find_usual(collector *c, const cleave_layout *layout, cleave_arena *arena,
                                cleave_error *error) {
    cleave_arena scratch = {0};
    cleave_program program;
    cleave_reuse *reuses;
    size_t n = N_PASSES * (size_t)c->model->n_nests;
    int32_t *n_met = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n);
    c->usual = CLEAVE_ARENA_ARRAY(arena, cleave_reuse, n);
    cleave_status status = n_met != NULL && c->usual != NULL
                               ? look_into(c, layout, &scratch, &program, &reuses, error)
                               : cleave_fail_memory(error, "listing what to measure");
    for (int32_t i = 0; status == CLEAVE_OK && i < program.n_computes; i++) {
        int32_t at = N_PASSES * program.computes[i].nest + (int)program.computes[i].pass;
        add_to_mean(&c->usual[at], n_met[at]++, &reuses[i]);
    }
    cleave_arena_free(&scratch);
    return status;
}

static cleave_status add_baselines(collector *c, cleave_arena *arena, cleave_error *error) {
    for (int b = 0; cleave_baseline_names[b] != NULL; b++) {
        cleave_layout layout;
        bool applies = false;
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, cleave_baseline_names[b], 0, arena,
                                          &layout, &applies, error));
        if (applies)
            CLEAVE_TRY(add_layout(c, &layout, true, error));
    }
    return CLEAVE_OK;
}

/* Data parallelism in micro-batches, where the model can be cut: products that add to their output,
   and all kernels at smaller extents. */
static cleave_status add_micro_batches(collector *c, cleave_arena *arena, cleave_error *error) {
    for (int32_t m = 2; m <= MOST_MICRO_BATCHES; m *= 2) {
        const cleave_schedule schedule = {.micro_batches = m, .n_stages = 1};
        const cleave_baseline_shape shape = {.schedule = &schedule, .n_groups = 1};
        cleave_layout layout;
        cleave_error why_not;
        bool applies = false;
        CLEAVE_TRY(cleave_baseline_in_stages(c->model, c->machine, "data-parallel", &shape, arena,
                                             &layout, &applies, error));
        if (!applies || cleave_layout_check(c->model, &layout, &why_not) != CLEAVE_OK)
            return CLEAVE_OK;
        CLEAVE_TRY(add_layout(c, &layout, false, error));
    }
    return CLEAVE_OK;
}

/* Every candidate of one operator, all others whole. */
static cleave_status add_candidates_of(const collector *c, const cleave_candidate_list *list,
                                       cleave_arena *arena, cleave_error *error) {
    cleave_layout layout;
    CLEAVE_TRY(cleave_layout_create(c->model, c->machine->n_devices, arena, &layout, error));
    cleave_split *split = &layout.splits[list->op];
    split->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, c->machine->n_devices);
    if (split->devices == NULL)
        return cleave_fail_memory(error, "listing what to measure");
    for (int32_t i = 0; i < list->n; i++) {
        cleave_candidate_place(&list->items[i], 0, split);
        CLEAVE_TRY(add_operator(c, &layout, list->op, error));
    }
    return CLEAVE_OK;
}

/* In the surroundings of data parallelism, or of a single device where that does not apply. */
static cleave_status add_candidates(collector *c, cleave_arena *arena, cleave_error *error) {
    cleave_layout usual;
    bool applies = false;
    CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "data-parallel", 0, arena, &usual,
                                      &applies, error));
    if (!applies)
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "single", 0, arena, &usual,
                                          &applies, error));
    CLEAVE_TRY(find_usual(c, &usual, arena, error));
    cleave_node_costs *costs;
    cleave_candidates candidates;
    CLEAVE_TRY(cleave_node_costs_create(c->model, c->machine, &costs, error));
    cleave_status status =
        cleave_candidates_create(c->model, c->machine, costs, NULL, 0, arena, &candidates, error);
    for (int32_t l = 0; status == CLEAVE_OK && l < candidates.n_lists; l++)
        status = add_candidates_of(c, &candidates.lists[l], arena, error);
    cleave_node_costs_destroy(costs);
    return status;
}

cleave_status calibrate_works_add(calibrate_works *works, const cleave_model *model,
                                  const cleave_machine *machine, int64_t *touched_bytes,
                                  cleave_error *error) {
    collector c = {.works = works, .model = model, .machine = machine};
    cleave_arena arena = {0};
    cleave_status status = add_baselines(&c, &arena, error);
    if (status == CLEAVE_OK)
        status = add_micro_batches(&c, &arena, error);
    if (status == CLEAVE_OK)
        status = add_candidates(&c, &arena, error);
    if (status == CLEAVE_OK)
        *touched_bytes = c.touched_bytes;
    cleave_arena_free(&arena);
    return status;
}

cleave_status calibrate_works_add_layout(calibrate_works *works, const cleave_model *model,
                                         const cleave_machine *machine, const cleave_layout *layout,
                                         int64_t *touched_bytes, cleave_error *error) {
    collector c = {.works = works, .model = model, .machine = machine};
    if (layout->n_devices > machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--layout: it is for %d devices, and this machine has %d",
                           layout->n_devices, machine->n_devices);
    CLEAVE_TRY(add_layout(&c, layout, true, error));
    *touched_bytes = c.touched_bytes;
    return CLEAVE_OK;
}

static int compare_keys(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    int order = strcmp(x->work.key, y->work.key);
    return order != 0 ? order : (int)y->wanted - (int)x->wanted;
}

static int compare_importance(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    CLEAVE_ORDER_BY(y->wanted, x->wanted);
    CLEAVE_ORDER_BY(y->expected_seconds, x->expected_seconds);
    return strcmp(x->work.key, y->work.key);
}

void calibrate_works_order(calibrate_works *works) {
    if (works->n == 0)
        return;
    CLEAVE_SORT(works->items, works->n, compare_keys);
    int32_t kept = 1, n_alike = 1;
    for (int32_t i = 1; i < works->n; i++) {
        calibrate_work *last = &works->items[kept - 1];
        const calibrate_work *work = &works->items[i];
        if (strcmp(work->work.key, last->work.key) != 0) {
            works->items[kept++] = *work;
            n_alike = 1;
        } else if (work->wanted) {
            last->expected_seconds += work->expected_seconds;
            add_to_mean(&last->reuse, n_alike++, &work->reuse);
        }
    }
    works->n = kept;
    CLEAVE_SORT(works->items, works->n, compare_importance);
}
