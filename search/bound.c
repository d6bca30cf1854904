/* Two bounds, of which the larger is taken.

   Work.  A device runs its compute items one after the other, in one lane, so the step is at least
   what the busiest device computes, which is at least the sum over all devices divided by their
   number.  That sum is a sum over operators, and each operator's term is at least the least one
   over its candidates (least_total).  Updates run in the same lane; every parameter with a gradient
   is updated at least once, whole or in pieces, and as the price of an update is a launch plus so
   much a byte, pieces together cost no less than the whole.  Sums, copies and messages only add.

   Path.  Let least(nest, pass) be the time of the quickest non-empty part over all candidates.  Two
   quantities are worked out, and hold for every candidate of every operator, by induction:
     ready(t)    no element of tensor t is there earlier;
     wanted(t)   no element of the complete gradient of t is there earlier.
   Forward: a non-empty part of a nest starts after some element of every input of which its box
   can't be empty (reads_always), so its output is ready no earlier than the largest ready() of
   those, plus least.  An element of a view is an element of its source; of a concatenation, of one
   of its sources (so the smallest counts); of a padding, maybe of none.
   Backward: a part runs on the device of its forward part, later in the order of that device's main
   lane, and after some element of its output's complete gradient.  An element of a gradient is
   complete when every part that read it has contributed; where an operand covers its tensor under
   every split (covers_always) that is at least one part of that nest, so wanted(t) is at least the
   end of its backward pass.  Every element of the source of a reshape, transpose, concatenation or
   padding is one of the view; a slice may leave it out, and then nothing is claimed.
   The step is no shorter than the end of any pass. */
#include "search/bound.h"

#include <stdlib.h>

typedef struct walk {
    const cleave_model *model;
    const cleave_candidates *candidates;
    int64_t *least;  /* [n_nests][CLEAVE_N_COMPUTE_PASSES] picoseconds */
    int64_t *ready;  /* [n_nests] of the nest's output */
    int64_t *wanted; /* [n_tensors] base tensors only */
} walk;

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void collect_least(walk *w) {
    for (int32_t op = 0; op < w->model->n_operators; op++) {
        const cleave_operator *of = &w->model->operators[op];
        const int64_t *least = w->candidates->lists[w->candidates->list_of[op]].least;
        for (int32_t i = 0; i < of->n_nests; i++)
            for (int pass = 0; pass < CLEAVE_N_COMPUTE_PASSES; pass++) {
                int64_t picoseconds = least[i * CLEAVE_N_COMPUTE_PASSES + pass];
                w->least[of->nests[i] * CLEAVE_N_COMPUTE_PASSES + pass] =
                    picoseconds == INT64_MAX ? 0 : picoseconds;
            }
    }
}

static bool is_whole(const cleave_model *model, const cleave_nest *nest, int axis) {
    return nest->derivation == CLEAVE_DERIVE_OPERATOR &&
           (nest->operator_axis[axis] < 0 ||
            model->operators[nest->op].axes[nest->operator_axis[axis]].whole);
}

/* Is an operand's clipped box non-empty for every non-empty part?  The box that ends first is that
   of a part at the start of all split axes, the one that starts last is at their end. */
static bool reads_always(const cleave_model *model, const cleave_nest *nest,
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

/* Do the boxes of all parts together cover the tensor, even where parts are single points of the
   split axes?  Per dimension: whole axes give each box its width; then each split axis, by rising
   stride, must not step over what is covered so far. */
static bool covers_always(const cleave_model *model, const cleave_nest *nest,
                          const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
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
        if (map->offset > 0 || map->offset + width < tensor->shape[d])
            return false;
    }
    return true;
}

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

static void want(walk *w, int32_t tensor, int64_t end) {
    const cleave_tensor *of = &w->model->tensors[tensor];
    if (of->view.kind == CLEAVE_VIEW_NONE)
        w->wanted[tensor] = larger(w->wanted[tensor], end);
    else if (of->view.kind != CLEAVE_VIEW_SLICE)
        for (int32_t i = 0; i < of->view.n_sources; i++)
            want(w, of->view.sources[i], end);
}

static int32_t first_device_of_kind(const cleave_machine *machine, int32_t kind) {
    for (int32_t d = 0; d < machine->n_devices; d++)
        if (machine->device_kind[d] == kind)
            return d;
    return -1;
}

/* One update of every parameter, in one piece each, on the kind of device where it takes least. */
static cleave_status update_work(const cleave_model *model, const cleave_machine *machine,
                                 int optimizer_states, int64_t *work, cleave_error *error) {
    cleave_cost_cache *cache;
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &cache, error));
    cleave_status status = CLEAVE_OK;
    *work = 0;
    for (int32_t t = 0; t < model->n_tensors && model->loss >= 0 && status == CLEAVE_OK; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER || !tensor->needs_gradient)
            continue;
        cleave_buffer buffer = {.bytes = cleave_tensor_size(tensor) * 4};
        cleave_update update = {
            .tensor = t, .state = {optimizer_states > 0 ? 0 : -1, optimizer_states > 1 ? 0 : -1}};
        cleave_item item = {.kind = CLEAVE_ITEM_UPDATE};
        cleave_program program = {.model = model,
                                  .n_items = 1,
                                  .items = &item,
                                  .n_updates = 1,
                                  .updates = &update,
                                  .n_buffers = 1,
                                  .buffers = &buffer};
        int64_t least = INT64_MAX, price = 0;
        for (int32_t k = 0; k < machine->n_kinds && status == CLEAVE_OK; k++) {
            item.device = first_device_of_kind(machine, k);
            if (item.device < 0)
                continue;
            program.n_devices = item.device + 1;
            status = cleave_cost_items(&program, cache, &price, error);
            least = price < least ? price : least;
        }
        *work += least;
    }
    cleave_cost_cache_destroy(cache);
    return status;
}

/* Forward of all nests, then backward; the latest end of any pass. */
static int64_t longest_path(walk *w) {
    const cleave_model *model = w->model;
    int64_t latest = 0;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        int64_t start = 0;
        for (int i = 0; i < nest->n_inputs; i++)
            if (reads_always(model, nest, &nest->inputs[i]))
                start = larger(start, ready(w, nest->inputs[i].tensor));
        w->ready[n] = start + w->least[n * CLEAVE_N_COMPUTE_PASSES + CLEAVE_PASS_FORWARD];
        latest = larger(latest, w->ready[n]);
    }
    for (int32_t n = model->n_nests - 1; n >= 0 && model->loss >= 0; n--) {
        const cleave_nest *nest = &model->nests[n];
        int64_t start = larger(w->ready[n], w->wanted[nest->output.tensor]);
        for (int pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT; pass++) {
            uint32_t inputs = cleave_nest_pass_inputs(model, nest, (cleave_pass)pass);
            int64_t end = start + w->least[n * CLEAVE_N_COMPUTE_PASSES + pass];
            if (inputs == 0)
                continue;
            latest = larger(latest, end);
            for (int i = 0; i < nest->n_inputs; i++)
                if ((inputs >> i & 1) != 0 && covers_always(model, nest, &nest->inputs[i]))
                    want(w, nest->inputs[i].tensor, end);
        }
    }
    return latest;
}

cleave_status cleave_lower_bound(const cleave_model *model, const cleave_machine *machine,
                                 const cleave_candidates *candidates, int optimizer_states,
                                 double *seconds, cleave_error *error) {
    int64_t work;
    CLEAVE_TRY(update_work(model, machine, optimizer_states, &work, error));
    walk w = {.model = model, .candidates = candidates};
    w.least = calloc((size_t)model->n_nests * CLEAVE_N_COMPUTE_PASSES + 1, sizeof *w.least);
    w.ready = calloc((size_t)model->n_nests + 1, sizeof *w.ready);
    w.wanted = calloc((size_t)model->n_tensors + 1, sizeof *w.wanted);
    bool made = w.least != NULL && w.ready != NULL && w.wanted != NULL;
    if (made) {
        for (int32_t op = 0; op < model->n_operators; op++)
            work += candidates->lists[candidates->list_of[op]].least_total;
        collect_least(&w);
        *seconds = (double)larger(work / machine->n_devices, longest_path(&w)) * 1e-12;
    }
    free(w.least);
    free(w.ready);
    free(w.wanted);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
}
