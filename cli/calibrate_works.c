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
    int64_t touched_bytes; /* in a step of the layout whose work is added */
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

/* Between two runs of a kernel a step touches all of its memory.  But what a backward pass reads
   was written by the forward pass of the same step, and the last of it is read first: from nothing
   to all of the memory ago, half of it in the mean. */
static int64_t touched_before(const collector *c, const cleave_nest *nest, cleave_pass pass) {
    int64_t bytes = c->touched_bytes / calibrate_works_uses(c->model, nest);
    return pass == CLEAVE_PASS_FORWARD ? bytes : bytes / 2;
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
                               .touched_bytes = touched_before(c, nest, pass),
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

/* What a device touches in a step: the largest arena. */
static cleave_status find_touched_bytes(collector *c, const cleave_layout *layout,
                                        cleave_error *error) {
    cleave_arena arena = {0};
    cleave_program program;
    const cleave_lower_options options = {.training = true};
    cleave_status status = cleave_lower(c->model, layout, &options, &arena, &program, error);
    c->touched_bytes = 0;
    for (int32_t d = 0; status == CLEAVE_OK && d < program.n_devices; d++)
        c->touched_bytes =
            program.peak_bytes[d] > c->touched_bytes ? program.peak_bytes[d] : c->touched_bytes;
    cleave_arena_free(&arena);
    return status;
}

/* All work of a layout, in its own surroundings: a device that computes the whole model touches
   more between two runs of a kernel than one of several that share it. */
static cleave_status add_wanted(collector *c, const cleave_layout *layout, cleave_error *error) {
    CLEAVE_TRY(find_touched_bytes(c, layout, error));
    return add_layout(c, layout, -1, true, error);
}

static cleave_status add_baselines(collector *c, cleave_arena *arena, cleave_error *error) {
    for (int b = 0; cleave_baseline_names[b] != NULL; b++) {
        cleave_layout layout;
        bool applies = false;
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, cleave_baseline_names[b], 0, arena,
                                          &layout, &applies, error));
        if (applies)
            CLEAVE_TRY(add_wanted(c, &layout, error));
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

/* In the surroundings of data parallelism, or of a single device where that does not apply. */
static cleave_status add_candidates(collector *c, cleave_arena *arena, cleave_error *error) {
    cleave_layout usual;
    bool applies = false;
    CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "data-parallel", 0, arena, &usual,
                                      &applies, error));
    if (!applies)
        CLEAVE_TRY(cleave_baseline_layout(c->model, c->machine, "single", 0, arena, &usual,
                                          &applies, error));
    CLEAVE_TRY(find_touched_bytes(c, &usual, error));
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
    collector c = {works, model, machine, 0};
    cleave_arena arena = {0};
    cleave_status status = add_baselines(&c, &arena, error);
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
    collector c = {works, model, machine, 0};
    if (layout->n_devices > machine->n_devices)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--layout: it is for %d devices, and this machine has %d",
                           layout->n_devices, machine->n_devices);
    CLEAVE_TRY(add_wanted(&c, layout, error));
    *touched_bytes = c.touched_bytes;
    return CLEAVE_OK;
}

static int compare_keys(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    int order = strcmp(x->work.key, y->work.key);
    if (order != 0 || x->wanted != y->wanted)
        return order != 0 ? order : (int)y->wanted - (int)x->wanted;
    return (x->touched_bytes > y->touched_bytes) - (x->touched_bytes < y->touched_bytes);
}

static int compare_importance(const void *a, const void *b) {
    const calibrate_work *x = a, *y = b;
    if (x->wanted != y->wanted)
        return x->wanted ? -1 : 1;
    if (x->expected_seconds != y->expected_seconds)
        return x->expected_seconds > y->expected_seconds ? -1 : 1;
    return strcmp(x->work.key, y->work.key);
}

void calibrate_works_order(calibrate_works *works) {
    if (works->n == 0)
        return;
    qsort(works->items, (size_t)works->n, sizeof *works->items, compare_keys);
    int32_t kept = 1;
    for (int32_t i = 1; i < works->n; i++) {
        calibrate_work *last = &works->items[kept - 1];
        if (strcmp(works->items[i].work.key, last->work.key) != 0)
            works->items[kept++] = works->items[i];
        else if (works->items[i].wanted)
            last->expected_seconds += works->items[i].expected_seconds;
    }
    works->n = kept;
    qsort(works->items, (size_t)works->n, sizeof *works->items, compare_importance);
}
