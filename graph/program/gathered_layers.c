#include "graph/program/gathered_layers.h"

#include "graph/model/layer_name.h"
#include "graph/model/precision.h"

#include <string.h>

enum { ROOT = 0 };

/* What a device does with a layer, from the first item that reads of it to the last; or with the
   root in a micro-batch. */
typedef struct visit {
    int32_t unit, device;
    int32_t first, last;
    int32_t forward_last, backward; /* the last item of forward, the first of backward; -1: none */
    int32_t before, behind, root; /* 1 + the device's visits of layers, and of the root; 0: none */
} visit;

typedef struct gathered_layers {
    const cleave_program *program;
    const cleave_framework_row *framework;
    cleave_allocations *all;
    int32_t *unit;         /* [n_tensors] ROOT, or a layer from 1 on; -1: no parameter */
    int32_t *first, *next; /* 1 + a parameter of each unit, [n_tensors + 1], and 1 + the next of the
                              same, [n_tensors]; 0: none */
    int32_t *whole;        /* [n_tensors x n_devices] 1 + the largest buffer that was gathered */
    int32_t *given;        /* [n_buffers] 1 + the visit in which a gradient arises */
    int32_t (*open)[2];    /* [n_devices] 1 + the visit of the root, and of a layer */
    CLEAVE_LIST(visit) visits;
    bool failed;
} gathered_layers;

static int64_t place(const gathered_layers *g, int32_t tensor, int32_t device) {
    return (int64_t)tensor * g->program->n_devices + device;
}

/* As many bytes as a piece takes in a type. */
static int64_t bytes_in(const gathered_layers *g, int32_t b, cleave_type type) {
    const cleave_buffer *of = &g->program->buffers[b];
    return cleave_box_size(g->program->model->tensors[of->tensor].rank, &of->box) *
           cleave_type_bytes(type);
}

/* Lists the parameters of each layer in their order. */
static void list_parameters(gathered_layers *g) {
    const cleave_model *model = g->program->model;
    cleave_layers_number(model, g->unit);
    for (int32_t t = model->n_tensors - 1; t >= 0; t--) {
        if (g->unit[t] < ROOT)
            continue;
        g->next[t] = g->first[g->unit[t]];
        g->first[g->unit[t]] = t + 1;
    }
}

static bool is_gathered(const gathered_layers *g, int32_t b) {
    const cleave_buffer *of = &g->program->buffers[b];
    return of->kind == CLEAVE_BUFFER_PARAMETER && !of->persistent && of->tensor >= 0 &&
           g->program->model->tensors[of->tensor].kind == CLEAVE_TENSOR_PARAMETER;
}

static void find_gathered(gathered_layers *g, bool *done) {
    const cleave_program *program = g->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        if (!is_gathered(g, b))
            continue;
        done[b] = true;
        const cleave_buffer *of = &program->buffers[b];
        int32_t *known = &g->whole[place(g, of->tensor, of->device)];
        if (*known == 0 || program->buffers[*known - 1].bytes < of->bytes)
            *known = b + 1;
    }
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (of->kind == CLEAVE_BUFFER_PARAMETER && of->persistent &&
            g->whole[place(g, of->tensor, of->device)] > 0)
            done[b] = of->type != cleave_exact_type(&program->model->tensors[of->tensor]);
    }
}

/* ---- visits ---------------------------------------------------------------------------------- */

/* A layer's goes on while no other layer is read, and into backward where its weights stay; the
   root's until forward comes again. */
static bool goes_on(const gathered_layers *g, const visit *of, int32_t unit, bool backward) {
    return of->unit == unit && ((of->backward >= 0) == backward ||
                                (backward && (unit == ROOT || g->framework->gathers.keeps_last)));
}

static visit *begin_visit(gathered_layers *g, int32_t device, int32_t unit, int32_t item) {
    const int32_t *open = g->open[device];
    const visit made = {.unit = unit,
                        .device = device,
                        .first = item,
                        .forward_last = -1,
                        .backward = -1,
                        .before = unit != ROOT ? open[1] : 0,
                        .root = unit != ROOT ? open[0] : 0};
    g->failed = g->failed || !CLEAVE_LIST_PUSH(&g->visits, made);
    if (g->failed)
        return NULL;
    for (int k = 0; k < 2 && unit != ROOT; k++)
        if (open[k] > 0 && g->visits.items[open[k] - 1].behind == 0)
            g->visits.items[open[k] - 1].behind = g->visits.n;
    return &g->visits.items[g->visits.n - 1];
}

static int32_t visit_unit(gathered_layers *g, int32_t device, int32_t unit, bool backward,
                          int32_t item) {
    int32_t *open = &g->open[device][unit != ROOT];
    visit *of = *open > 0 ? &g->visits.items[*open - 1] : NULL;
    if (of == NULL || !goes_on(g, of, unit, backward)) {
        of = begin_visit(g, device, unit, item);
        if (of == NULL)
            return 0;
        *open = g->visits.n;
    }
    of->last = item;
    if (!backward)
        of->forward_last = item;
    else if (of->backward < 0)
        of->backward = item;
    return *open;
}

static void visit_buffer(gathered_layers *g, int32_t b, bool backward, int32_t item) {
    const cleave_buffer *buffers = g->program->buffers;
    int32_t s = b >= 0 ? buffers[b].storage : -1;
    if (s < 0 || buffers[s].tensor < 0 ||
        g->whole[place(g, buffers[s].tensor, buffers[s].device)] == 0)
        return;
    bool gives = buffers[s].kind == CLEAVE_BUFFER_GRADIENT;
    if (!gives && !is_gathered(g, s))
        return;
    int32_t at = visit_unit(g, buffers[s].device, g->unit[buffers[s].tensor], backward, item);
    if (gives)
        g->given[s] = at;
}

static void find_visits(gathered_layers *g) {
    const cleave_program *program = g->program;
    for (int32_t i = 0; i < program->n_items && !g->failed; i++) {
        if (program->items[i].kind != CLEAVE_ITEM_COMPUTE)
            continue;
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        bool backward = compute->pass != CLEAVE_PASS_FORWARD ||
                        program->slots[program->items[i].slot].generation > 0;
        for (int k = 0; k < program->model->nests[compute->nest].n_inputs; k++) {
            visit_buffer(g, compute->inputs[k], backward, i);
            if (compute->pass != CLEAVE_PASS_FORWARD)
                visit_buffer(g, compute->input_gradients[k], backward, i);
        }
    }
}

/* ---- what they take -------------------------------------------------------------------------- */

/* The vector of a unit, with an element's bytes as its weights have or as their gradients do. */
static int64_t vector_bytes(const gathered_layers *g, const visit *of, bool sums) {
    const cleave_model *model = g->program->model;
    int64_t bytes = 0;
    for (int32_t t = g->first[of->unit] - 1; t >= 0; t = g->next[t] - 1) {
        int32_t b = g->whole[place(g, t, of->device)];
        if (b > 0 && (!sums || model->tensors[t].needs_gradient))
            bytes +=
                bytes_in(g, b - 1,
                         sums ? cleave_reduce_type(model, t, cleave_exact_type(&model->tensors[t]))
                              : model->tensors[t].stored);
    }
    return bytes;
}

static const visit *visit_at(const gathered_layers *g, int32_t at) {
    return at > 0 ? &g->visits.items[at - 1] : NULL;
}

static bool begins_forward(const visit *of) { return of->backward != of->first; }

/* Until when a vector stays that is copied: until the next has come, or the root is through. */
static int64_t copied_until(const gathered_layers *g, const visit *of) {
    const visit *behind = visit_at(g, of->behind), *root = visit_at(g, of->root);
    if (begins_forward(of) && behind != NULL && begins_forward(behind))
        return cleave_moment(behind->first, 2);
    if (begins_forward(of) && root != NULL && root->forward_last >= of->first)
        return cleave_moment(root->forward_last + 1, 0);
    return cleave_moment(of->first, 2);
}

/* Backward a vector is asked for by the layer before, or by the root. */
static int64_t asked_for(const gathered_layers *g, const visit *of) {
    const visit *before = visit_at(g, of->before), *root = visit_at(g, of->root);
    if (begins_forward(of))
        return cleave_moment(of->first, 1);
    if (before != NULL && before->backward >= 0)
        return cleave_moment(before->backward, 3);
    return root != NULL && root->backward >= 0 ? cleave_moment(root->backward, 3)
                                               : cleave_moment(of->first, 0);
}

static void add_weights(gathered_layers *g, const visit *of) {
    const cleave_model *model = g->program->model;
    int64_t end = cleave_moment(of->last + 1, 0);
    bool copies = g->framework->gathers.copies;
    cleave_allocations_add(g->all, of->device, CLEAVE_STREAM_GATHER, asked_for(g, of),
                           copies ? copied_until(g, of) : end, vector_bytes(g, of, false));
    for (int32_t t = g->first[of->unit] - 1; copies && t >= 0; t = g->next[t] - 1) {
        int32_t b = g->whole[place(g, t, of->device)];
        if (b > 0)
            cleave_allocations_add(g->all, of->device, CLEAVE_STREAM_COMPUTE,
                                   cleave_moment(of->first, begins_forward(of) ? 2 : 1), end,
                                   bytes_in(g, b - 1, model->tensors[t].stored));
    }
}

/* What is summed over devices, until the next is: of the layer that backward comes to then, or of
   the root. */
static void add_sums(gathered_layers *g, const visit *of) {
    const visit *next = visit_at(g, of->behind);
    if (of->backward < 0)
        return;
    if (of->unit == ROOT || next == NULL || next->backward < 0)
        next = visit_at(g, of->root);
    cleave_allocations_add(g->all, of->device, CLEAVE_STREAM_COMPUTE,
                           cleave_moment(of->last + 1, 1),
                           cleave_moment((next != NULL ? next->last : of->last + 1) + 1, 0),
                           vector_bytes(g, of, true));
}

static void add_gradients(gathered_layers *g, bool *done) {
    const cleave_program *program = g->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (of->kind != CLEAVE_BUFFER_GRADIENT || of->tensor < 0 ||
            g->whole[place(g, of->tensor, of->device)] == 0)
            continue;
        done[b] = true;
        if (g->given[b] > 0 && of->storage == b)
            cleave_allocations_add(g->all, of->device, CLEAVE_STREAM_COMPUTE,
                                   cleave_moment(of->first, 3),
                                   cleave_moment(g->visits.items[g->given[b] - 1].last + 1, 2),
                                   bytes_in(g, b, program->model->tensors[of->tensor].stored));
    }
    for (int32_t u = 0; u < program->n_updates; u++) {
        int32_t b = program->updates[u].gradient;
        const cleave_buffer *of = &program->buffers[b];
        if (done[b])
            cleave_allocations_add(g->all, of->device, CLEAVE_STREAM_REDUCE,
                                   cleave_moment(of->first, 3), cleave_moment(of->last + 1, 0),
                                   of->bytes);
    }
}

bool cleave_gathered_layers_add(const cleave_program *program,
                                const cleave_framework_row *framework, cleave_allocations *all,
                                bool *done) {
    if (!framework->gathers.by_layers)
        return true;
    int64_t n_places = (int64_t)program->model->n_tensors * program->n_devices;
    cleave_arena scratch = {0};
    gathered_layers g = {
        .program = program,
        .framework = framework,
        .all = all,
        .unit = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->model->n_tensors),
        .first = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->model->n_tensors + 1),
        .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->model->n_tensors),
        .whole = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
        .given = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_buffers),
        .open = cleave_arena_alloc(&scratch, (size_t)program->n_devices, sizeof *g.open)};
    g.failed = g.unit == NULL || g.first == NULL || g.next == NULL || g.whole == NULL ||
               g.given == NULL || g.open == NULL;
    if (!g.failed) {
        list_parameters(&g);
        find_gathered(&g, done);
        find_visits(&g);
    }
    if (!g.failed) {
        for (int32_t v = 0; v < g.visits.n; v++) {
            add_weights(&g, &g.visits.items[v]);
            add_sums(&g, &g.visits.items[v]);
        }
        add_gradients(&g, done);
    }
    CLEAVE_LIST_FREE(&g.visits);
    cleave_arena_free(&scratch);
    return !g.failed;
}
