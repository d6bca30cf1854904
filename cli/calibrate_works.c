/* Which work calibration measures. */
#include "cli/calibrate_works.h"

#include "costmodel/cost.h"
#include "graph/layout.h"
#include "graph/lower/lower.h"
#include "search/candidates.h"
#include "search/search.h"

#include <stdlib.h>
#include <string.h>

/* What adds works of one model. */
typedef struct collector {
    calibrate_works *works;
    const cleave_model *model;
    const cleave_machine *machine;
    const cleave_reuse *reuse; /* [n_nests x 3] */
    int64_t step_bytes;
} collector;

/* The parameter under some views, -1: the tensor is none. */
static int32_t parameter_under(const cleave_model *model, int32_t tensor) {
    while (model->tensors[tensor].view.kind != CLEAVE_VIEW_NONE &&
           model->tensors[tensor].view.n_sources == 1)
        tensor = model->tensors[tensor].view.sources[0];
    return model->tensors[tensor].kind == CLEAVE_TENSOR_PARAMETER ? tensor : -1;
}

int32_t calibrate_works_uses(const cleave_model *model, const cleave_nest *nest) {
    int32_t most = 1;
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t parameter = parameter_under(model, nest->inputs[i].tensor), n = 0;
        for (int32_t other = 0; parameter >= 0 && other < model->n_nests; other++) {
            const cleave_nest *of = &model->nests[other];
            n += of->kind == nest->kind && i < of->n_inputs &&
                 parameter_under(model, of->inputs[i].tensor) == parameter;
        }
        most = n > most ? n : most;
    }
    return most;
}

/* The code of a recurrence's steps, and what they keep to themselves, is met again in the next of
   them.  What is not run on the first device has its operands from anywhere in the step. */
static cleave_reuse reuse_of(const collector *c, const cleave_nest *nest, cleave_pass pass) {
    cleave_reuse reuse = c->reuse[3 * (nest - c->model->nests) + (int)pass];
    bool forward = pass == CLEAVE_PASS_FORWARD, known = reuse.step >= 0;
    reuse.step = c->step_bytes / calibrate_works_uses(c->model, nest);
    if (known)
        return reuse;
    reuse.output = c->step_bytes;
    reuse.output_gradient = 0;
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
        reuse.inputs[i] = forward && i == 0 ? 0 : c->step_bytes / (forward ? 1 : 2);
        reuse.input_gradients[i] = c->step_bytes / 2;
    }
    return reuse;
}

static cleave_status add_part(const collector *c, const cleave_nest *nest, const cleave_part *part,
                              bool wanted, cleave_error *error) {
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++) {
        if (pass != CLEAVE_PASS_FORWARD && cleave_nest_pass_inputs(c->model, nest, pass) == 0)
            continue;
        calibrate_work work = {.model = c->model,
                               .nest = nest,
                               .pass = pass,
                               .part = *part,
                               .reuse = reuse_of(c, nest, pass),
                               .wanted = wanted};
        cleave_provenance provenance;
        cleave_work_describe(c->model, nest, pass, part, &work.work);
        work.expected_seconds = cleave_cost_compute(&c->machine->kinds[0], &work.work, &provenance);
        if (!CLEAVE_LIST_PUSH(c->works, work))
            return cleave_fail_memory(error, "listing what to measure");
    }
    return CLEAVE_OK;
}

/* The parts of the nests of operator `op`, or of all where it is -1. */
static cleave_status add_layout(const collector *c, const cleave_layout *layout, int32_t op,
                                bool wanted, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_parts *parts;
    cleave_status status = cleave_parts_derive(c->model, layout, &arena, &parts, error);
    for (int32_t n = 0; n < c->model->n_nests && status == CLEAVE_OK; n++) {
        const cleave_nest *nest = &c->model->nests[n];
        for (int32_t p = 0; p < parts[n].n && status == CLEAVE_OK; p++)
            if ((op < 0 || nest->op == op) && !parts[n].items[p].empty)
                status = add_part(c, nest, &parts[n].items[p], wanted, error);
    }
    cleave_arena_free(&arena);
    return status;
}

static cleave_status add_baselines(const collector *c, cleave_arena *arena, cleave_error *error) {
    for (int b = 0; cleave_baseline_names[b] != NULL; b++) {
        cleave_layout layout;
        bool applies = false;
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, cleave_baseline_names[b], 0, arena,
                                          &layout, &applies, error));
        if (applies)
            CLEAVE_TRY(add_layout(c, &layout, -1, true, error));
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
        CLEAVE_TRY(add_layout(c, &layout, list->op, false, error));
    }
    return CLEAVE_OK;
}

static cleave_status add_candidates(const collector *c, cleave_arena *arena, cleave_error *error) {
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

/* From the first device of data parallelism, which all devices are like. */
static cleave_status find_reuse(collector *c, cleave_arena *arena, cleave_error *error) {
    cleave_layout layout;
    cleave_program program;
    cleave_reuse *reuse;
    bool applies = false;
    const cleave_lower_options options = {.training = true};
    CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "data-parallel", 0, arena, &layout,
                                      &applies, error));
    if (!applies)
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "single", 0, arena, &layout,
                                          &applies, error));
    CLEAVE_TRY(cleave_lower(c->model, &layout, &options, arena, &program, error));
    CLEAVE_TRY(cleave_program_reuse(&program, 0, arena, &reuse, error));
    c->reuse = reuse;
    c->step_bytes = program.peak_bytes[0];
    return CLEAVE_OK;
}

cleave_status calibrate_works_add(calibrate_works *works, const cleave_model *model,
                                  const cleave_machine *machine, cleave_error *error) {
    collector c = {.works = works, .model = model, .machine = machine};
    cleave_arena arena = {0};
    cleave_status status = find_reuse(&c, &arena, error);
    if (status == CLEAVE_OK)
        status = add_baselines(&c, &arena, error);
    if (status == CLEAVE_OK)
        status = add_candidates(&c, &arena, error);
    cleave_arena_free(&arena);
    return status;
}

cleave_status calibrate_works_add_layout(calibrate_works *works, const cleave_model *model,
                                         const cleave_machine *machine, const cleave_layout *layout,
                                         cleave_error *error) {
    collector c = {.works = works, .model = model, .machine = machine};
    cleave_arena arena = {0};
    if (layout->n_devices > machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--layout: it is for %d devices, and this machine has %d",
                           layout->n_devices, machine->n_devices);
    cleave_status status = find_reuse(&c, &arena, error);
    if (status == CLEAVE_OK)
        status = add_layout(&c, layout, -1, true, error);
    cleave_arena_free(&arena);
    return status;
}

static int compare_keys(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    int order = strcmp(x->work.key, y->work.key);
    return order != 0 ? order : (int)y->wanted - (int)x->wanted;
}

static int compare_importance(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    if (x->wanted != y->wanted)
        return x->wanted ? -1 : 1;
    if (x->expected_seconds != y->expected_seconds)
        return x->expected_seconds > y->expected_seconds ? -1 : 1;
    return strcmp(x->work.key, y->work.key);
}

/* Work `n` + 1 of the same key. */
static void add_to_mean(cleave_reuse *mean, const cleave_reuse *added, int64_t n) {
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
        mean->inputs[i] += (added->inputs[i] - mean->inputs[i]) / (n + 1);
        mean->input_gradients[i] +=
            (added->input_gradients[i] - mean->input_gradients[i]) / (n + 1);
    }
    mean->output += (added->output - mean->output) / (n + 1);
    mean->output_gradient += (added->output_gradient - mean->output_gradient) / (n + 1);
}

void calibrate_works_order(calibrate_works *works) {
    if (works->n == 0)
        return;
    qsort(works->items, (size_t)works->n, sizeof *works->items, compare_keys);
    int32_t kept = 1, n_alike = 1;
    for (int32_t i = 1; i < works->n; i++) {
        calibrate_work *last = &works->items[kept - 1];
        if (strcmp(works->items[i].work.key, last->work.key) == 0) {
            add_to_mean(&last->reuse, &works->items[i].reuse, n_alike++);
            continue;
        }
        works->items[kept++] = works->items[i];
        n_alike = 1;
    }
    works->n = kept;
    qsort(works->items, (size_t)works->n, sizeof *works->items, compare_importance);
}
