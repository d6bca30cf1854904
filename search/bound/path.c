/* Paths: what follows what in every layout.

   Let time(nest, pass) be what no non-empty part is quicker than, in any layout that is looked at.
   Two quantities are worked out, by induction:
     ready(t)    no element of tensor t is there earlier;
     wanted(t)   no element of the complete gradient of t is there earlier.
   Forward: a non-empty part of a nest starts after some element of every input of which its box
   can't be empty (bound_reads_always), so its output is ready no earlier than the largest ready()
   of those, plus time.  An element of a view is an element of its source; of a concatenation, of
   one of its sources (so the smallest counts); of a padding, maybe of none.
   Backward: a part runs on the device of its forward part, later in the order of that device's main
   lane, and after some element of its output's complete gradient.  An element of a gradient is
   complete when every part that read it has contributed; where an operand covers its tensor under
   every split (bound_covers_always) that is at least one part of that nest, so wanted(t) is at
   least the end of its backward pass.  Every element of the source of a reshape, transpose,
   concatenation or padding is one of the view; a slice may leave it out, and then nothing is
   claimed.
   The step is no shorter than the end of any pass.

   A chain is such a path that is the same in every layout, so that its time is a sum over
   operators, whatever each of them chooses: every element of it begins after some part of the one
   before has ended.  Only a concatenation has a choice.  There the chain goes on at the last nest
   that the chains of all its sources have in common, which ends before any of them does. */
#include "search/bound/internal.h"

#include <stdlib.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static bool is_whole(const cleave_model *model, const cleave_nest *nest, int axis) {
    return nest->derivation == CLEAVE_DERIVE_OPERATOR &&
           (nest->operator_axis[axis] < 0 ||
            model->operators[nest->op].axes[nest->operator_axis[axis]].whole);
}

/* The box that ends first is that of a part at the start of all split axes, the one that starts
   last is at their end. */
bool bound_reads_always(const cleave_model *model, const cleave_nest *nest,
                        const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t first_end = map->offset + 1, last_start = map->offset;
        for (int t = 0; t < map->n_terms; t++) {
            int axis = map->terms[t].axis;
            int64_t reach = map->terms[t].stride * (nest->axes[axis].extent - 1);
            if (is_whole(model, nest, axis))
                first_end += reach;
            else
                last_start += reach;
        }
        if (first_end <= 0 || last_start >= tensor->shape[d])
            return false;
    }
    return true;
}

/* Per dimension: whole axes give each box its width; then each split axis, by rising stride, must
   not step over what is covered so far. */
bool bound_covered_box(const cleave_model *model, const cleave_nest *nest,
                       const cleave_operand *operand, cleave_box *box) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    *box = cleave_box_of_shape(tensor->rank, tensor->shape);
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t width = 1, stride[CLEAVE_MAX_TERMS], reach[CLEAVE_MAX_TERMS];
        int n = 0;
        for (int t = 0; t < map->n_terms; t++) {
            int64_t extent = nest->axes[map->terms[t].axis].extent;
            if (is_whole(model, nest, map->terms[t].axis)) {
                width += map->terms[t].stride * (extent - 1);
                continue;
            }
            int place = n++;
            for (; place > 0 && stride[place - 1] > map->terms[t].stride; place--) {
                stride[place] = stride[place - 1];
                reach[place] = reach[place - 1];
            }
            stride[place] = map->terms[t].stride;
            reach[place] = map->terms[t].stride * (extent - 1);
        }
        for (int t = 0; t < n; t++) {
            if (reach[t] > 0 && stride[t] > width)
                return false;
            width += reach[t];
        }
        box->lo[d] = larger(0, map->offset);
        if (map->offset + width < tensor->shape[d])
            box->hi[d] = map->offset + width;
        if (box->lo[d] >= box->hi[d])
            return false;
    }
    return true;
}

cleave_status bound_covered_pieces(const cleave_model *model, const cleave_nest *nest,
                                   uint32_t inputs, cleave_piece_list *pieces,
                                   cleave_error *error) {
    for (int i = 0; i < nest->n_inputs; i++) {
        cleave_box box;
        if ((inputs >> i & 1) != 0 && bound_covered_box(model, nest, &nest->inputs[i], &box))
            CLEAVE_TRY(cleave_view_pull(model, nest->inputs[i].tensor, &box, pieces, error));
    }
    return CLEAVE_OK;
}

bool bound_covers_always(const cleave_model *model, const cleave_nest *nest,
                         const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_box covered, all = cleave_box_of_shape(tensor->rank, tensor->shape);
    return bound_covered_box(model, nest, operand, &covered) &&
           cleave_box_contains(tensor->rank, &covered, &all);
}

enum { NONE = -1 };

typedef struct walk {
    const cleave_model *model;
    const int64_t *time;
    int64_t *ready;       /* [n_nests] of the nest's output */
    int64_t *wanted;      /* [n_tensors] base tensors only */
    int32_t *from;        /* [n_nests][passes] the element before it on its chain; NONE */
    int64_t *reach;       /* [n_nests][passes] time of the chain up to its end */
    int32_t *wanted_from; /* [n_tensors] the element that it waits for on its chain; NONE */
} walk;

static int64_t ready(const walk *w, int32_t tensor) {
    const cleave_tensor *of = &w->model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE)
        return w->model->writer[tensor] < 0 ? 0 : w->ready[w->model->writer[tensor]];
    if (of->view.kind == CLEAVE_VIEW_PAD)
        return 0;
    int64_t earliest = INT64_MAX;
    for (int32_t i = 0; i < of->view.n_sources; i++) {
        int64_t source = ready(w, of->view.sources[i]);
        earliest = source < earliest ? source : earliest;
    }
    return earliest;
}

static int32_t element_of(int32_t nest, int pass) { return nest * CLEAVE_N_COMPUTE_PASSES + pass; }

/* The forward pass that ends before any element of the tensor is there, or NONE. */
static int32_t chain_to(const walk *w, int32_t tensor) {
    const cleave_tensor *of = &w->model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE)
        return w->model->writer[tensor] < 0
                   ? NONE
                   : element_of(w->model->writer[tensor], CLEAVE_PASS_FORWARD);
    if (of->view.kind == CLEAVE_VIEW_PAD)
        return NONE;
    int32_t common = chain_to(w, of->view.sources[0]);
    for (int32_t i = 1; i < of->view.n_sources && common != NONE; i++)
        for (int32_t other = chain_to(w, of->view.sources[i]); other != common;)
            if (other > common) /* what is before has a smaller number */
                other = w->from[other];
            else
                common = w->from[common];
    return common;
}

static int64_t reach_of(const walk *w, int32_t element) {
    return element == NONE ? 0 : w->reach[element];
}

static void want(walk *w, int32_t tensor, int64_t end, int32_t element) {
    const cleave_tensor *of = &w->model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE) {
        w->wanted[tensor] = larger(w->wanted[tensor], end);
        if (w->reach[element] > reach_of(w, w->wanted_from[tensor]))
            w->wanted_from[tensor] = element;
    } else if (of->view.kind != CLEAVE_VIEW_SLICE) {
        for (int32_t i = 0; i < of->view.n_sources; i++)
            want(w, of->view.sources[i], end, element);
    }
}

static int64_t forward(walk *w) {
    const cleave_model *model = w->model;
    int64_t latest = 0;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        int32_t element = element_of(n, CLEAVE_PASS_FORWARD), from = NONE;
        int64_t start = 0;
        for (int i = 0; i < nest->n_inputs; i++) {
            if (!bound_reads_always(model, nest, &nest->inputs[i]))
                continue;
            int32_t before = chain_to(w, nest->inputs[i].tensor);
            start = larger(start, ready(w, nest->inputs[i].tensor));
            if (before != NONE && (from == NONE || w->reach[before] > w->reach[from]))
                from = before;
        }
        w->ready[n] = start + w->time[element];
        w->from[element] = from;
        w->reach[element] = reach_of(w, from) + w->time[element];
        latest = larger(latest, w->ready[n]);
    }
    return latest;
}

static int64_t backward(walk *w) {
    const cleave_model *model = w->model;
    int64_t latest = 0;
    for (int32_t n = model->n_nests - 1; n >= 0; n--) {
        const cleave_nest *nest = &model->nests[n];
        int64_t start = larger(w->ready[n], w->wanted[nest->output.tensor]);
        int32_t before = w->wanted_from[nest->output.tensor];
        if (before == NONE)
            before = element_of(n, CLEAVE_PASS_FORWARD);
        for (int pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++) {
            uint32_t inputs = cleave_nest_pass_inputs(model, nest, (cleave_pass)pass);
            int32_t element = element_of(n, pass);
            int64_t end = start + w->time[element];
            if (inputs == 0)
                continue;
            latest = larger(latest, end);
            w->from[element] = before;
            w->reach[element] = w->reach[before] + w->time[element];
            for (int i = 0; i < nest->n_inputs; i++)
                if ((inputs >> i & 1) != 0 && bound_covers_always(model, nest, &nest->inputs[i]))
                    want(w, nest->inputs[i].tensor, end, element);
        }
    }
    return latest;
}

static cleave_status walk_model(const cleave_model *model, const int64_t *time,
                                cleave_arena *scratch, walk *made, int64_t *path,
                                cleave_error *error) {
    size_t n_elements = (size_t)model->n_nests * CLEAVE_N_COMPUTE_PASSES;
    size_t n_tensors = (size_t)model->n_tensors;
    walk w = {.model = model,
              .time = time,
              .ready = CLEAVE_ARENA_ARRAY(scratch, int64_t, model->n_nests),
              .wanted = CLEAVE_ARENA_ARRAY(scratch, int64_t, n_tensors),
              .from = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_elements),
              .reach = CLEAVE_ARENA_ARRAY(scratch, int64_t, n_elements),
              .wanted_from = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_tensors)};
    if (w.ready == NULL || w.wanted == NULL || w.from == NULL || w.reach == NULL ||
        w.wanted_from == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (size_t e = 0; e < n_elements; e++)
        w.from[e] = NONE;
    for (size_t t = 0; t < n_tensors; t++)
        w.wanted_from[t] = NONE;
    *path = forward(&w);
    if (cleave_model_trains(model))
        *path = larger(*path, backward(&w));
    *made = w;
    return CLEAVE_OK;
}

cleave_status bound_longest_path(const cleave_model *model, const int64_t *time, int64_t *path,
                                 cleave_error *error) {
    cleave_arena scratch = {0};
    walk w;
    cleave_status status = walk_model(model, time, &scratch, &w, path, error);
    cleave_arena_free(&scratch);
    return status;
}

static bool is_forward(int32_t element) {
    return element % CLEAVE_N_COMPUTE_PASSES == CLEAVE_PASS_FORWARD;
}

/* In the order of slots what an element comes from is known before it. */
static void find_what_follows(const cleave_model *model, const walk *w, int32_t element,
                              bool *follows) {
    for (int32_t n = model->n_nests - 1; n >= 0 && cleave_model_trains(model); n--)
        for (int pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++) {
            int32_t e = element_of(n, pass), from = w->from[e];
            follows[e] = from != NONE && (from == element || follows[from]);
        }
}

cleave_status bound_longest_chain(const cleave_model *model, const int64_t *time,
                                  cleave_arena *arena, bound_chain *chain, cleave_error *error) {
    int32_t n_elements = model->n_nests * CLEAVE_N_COMPUTE_PASSES, last = NONE, n = 0;
    walk w;
    int64_t path;
    CLEAVE_TRY(walk_model(model, time, arena, &w, &path, error));
    for (int32_t e = 0; e < n_elements; e++)
        if (last == NONE || w.reach[e] > w.reach[last])
            last = e;
    for (int32_t e = last; e != NONE; e = w.from[e])
        n++;
    bound_chain result = {.n = n,
                          .elements = CLEAVE_ARENA_ARRAY(arena, int32_t, n),
                          .follows = CLEAVE_ARENA_ARRAY(arena, bool, n_elements)};
    if (result.elements == NULL || result.follows == NULL)
        return cleave_fail_memory(error, "bounding the step");
    for (int32_t e = last; e != NONE; e = w.from[e])
        result.elements[--n] = e;
    while (result.n_forward < result.n && is_forward(result.elements[result.n_forward]))
        result.n_forward++;
    if (result.n_forward > 0)
        find_what_follows(model, &w, result.elements[result.n_forward - 1], result.follows);
    *chain = result;
    return CLEAVE_OK;
}
