/* Where the gates of a recurrence lie in its parameters.

   ONNX keeps the gates of a weight below each other, [d, g x h, c].  A split of the hidden units
   takes its share of every gate: g pieces of such a matrix, whose bounding box is nearly all of it,
   but one box of [places, g, h, c].  So a parameter that is read here alone is stored under that
   shape, which moves nothing in the file.

   Some exporters (PyTorch's) keep a parameter per direction, with the gates in an order of their
   own, and put them into ONNX's by slices and concatenations.  Those are looked through: gates are
   numbered as the parameter has them, if all weights of the direction have them so, and the cells
   know where to find each.  Nothing is copied then.  Whatever is not found is read through a view
   of the input under that shape. */
#include "graph/import/draft_views.h"
#include "graph/import/operators/recurrent.h"

#include <string.h>

/* Where a place of `gated` is in the input of the node that it is of. */
static const struct {
    int input, n_sides, side;
} where[CLEAVE_N_GATED] = {[CLEAVE_WEIGHT_OF_INPUTS] = {1, 1, 0},
                           [CLEAVE_WEIGHT_OF_STATE] = {2, 1, 0},
                           [CLEAVE_BIAS_OF_INPUTS] = {3, 2, 0},
                           [CLEAVE_BIAS_OF_STATE] = {3, 2, 1}};

typedef struct found {
    bool known; /* as one place of a parameter that nothing else reads */
    int32_t parameter;
    int64_t place;
    int position[CLEAVE_MAX_GATES];
} found;

/* The shape of a gate; returns its rank. */
static int gate_shape(const cleave_recurrence *r, int gated, int64_t *shape) {
    shape[0] = r->hidden;
    shape[1] = gated == CLEAVE_WEIGHT_OF_INPUTS ? r->features : r->hidden;
    return gated < CLEAVE_BIAS_OF_INPUTS ? 2 : 1;
}

/* ---- who reads it ---------------------------------------------------------------------------- */

/* The nodes that an input of the node at hand is computed by, from parameters on; more nodes, or
   nodes with more inputs, are not looked at. */
enum { MOST_NODES = 64, MOST_INPUTS = 64 };
typedef struct node_set {
    int n;
    int32_t nodes[MOST_NODES];
} node_set;

static const cleave_value *find_value(const cleave_importer *im, const char *name) {
    int32_t id = name[0] != '\0' ? cleave_name_map_find(&im->names, name) : -1;
    return id >= 0 ? &im->values.items[id] : NULL;
}

static bool add_producers(const cleave_importer *im, const char *name, node_set *set) {
    const cleave_value *value = find_value(im, name);
    if (value == NULL || value->state == CLEAVE_VALUE_CONSTANT || value->producer < 0)
        return true;
    for (int i = 0; i < set->n; i++)
        if (set->nodes[i] == value->producer)
            return true;
    const cleave_onnx_node *node = &im->graph.nodes[value->producer];
    if (set->n == MOST_NODES || node->n_inputs > MOST_INPUTS)
        return false;
    set->nodes[set->n++] = value->producer;
    bool all = true;
    for (int32_t i = 0; all && i < node->n_inputs; i++)
        all = add_producers(im, node->inputs[i], set);
    return all;
}

static int32_t count_uses(const cleave_importer *im, const node_set *set, const char *name) {
    int32_t n = 0;
    for (int k = 0; k < set->n; k++) {
        const cleave_onnx_node *node = &im->graph.nodes[set->nodes[k]];
        for (int32_t i = 0; i < node->n_inputs; i++)
            n += strcmp(node->inputs[i], name) == 0;
    }
    return n;
}

/* Is all that input i is computed from read for this input alone? */
static bool is_read_here_alone(cleave_importer *im, int i) {
    node_set set = {.n = 0};
    bool alone = add_producers(im, im->node->inputs[i], &set);
    alone = alone && cleave_import_input(im, i)->n_uses == 1;
    for (int k = 0; alone && k < set.n; k++) {
        const cleave_onnx_node *node = &im->graph.nodes[set.nodes[k]];
        for (int32_t j = 0; alone && j < node->n_inputs; j++) {
            const cleave_value *value = find_value(im, node->inputs[j]);
            alone = value == NULL || value->state == CLEAVE_VALUE_CONSTANT ||
                    value->n_uses == count_uses(im, &set, node->inputs[j]);
        }
    }
    return alone;
}

/* ---- where it lies --------------------------------------------------------------------------- */

/* A run of elements of a tensor, side by side in row-major order. */
typedef struct run {
    int32_t tensor;
    int64_t begin, n;
} run;

static bool enter_concatenation(const cleave_importer *im, const cleave_tensor *at, run *of) {
    const cleave_view *view = &at->view;
    int64_t inner = cleave_shape_size(at->rank - view->axis - 1, at->shape + view->axis + 1);
    int64_t row = at->shape[view->axis] * inner;
    int64_t outer = of->begin / row, within = of->begin % row;
    for (int32_t s = 0; s < view->n_sources; s++) {
        int64_t length = im->tensors.items[view->sources[s]].tensor.shape[view->axis] * inner;
        if (within < length) {
            *of = (run){view->sources[s], outer * length + within, of->n};
            return within + of->n <= length;
        }
        within -= length;
    }
    return false;
}

/* Along the innermost dimension that is cut, and what is inside of it, elements stay together. */
static bool enter_slice(const cleave_importer *im, const cleave_tensor *at, run *of) {
    const cleave_tensor *source = &im->tensors.items[at->view.sources[0]].tensor;
    int64_t rest = of->begin, begin = 0, stride = 1, together = 1;
    bool cut = false;
    for (int d = at->rank - 1; d >= 0; d--) {
        if (!cut)
            together *= at->shape[d];
        if (!cut && at->view.step[d] != 1)
            return false;
        cut = cut || at->shape[d] < source->shape[d];
        begin += (at->view.begin[d] + at->view.step[d] * (rest % at->shape[d])) * stride;
        rest /= at->shape[d];
        stride *= source->shape[d];
    }
    bool fits = of->begin % together + of->n <= together;
    *of = (run){at->view.sources[0], begin, of->n};
    return fits;
}

/* Follows a run to the tensor under its views; false where it does not stay together. */
static bool find_run(const cleave_importer *im, run *of) {
    for (;;) {
        const cleave_tensor *at = &im->tensors.items[of->tensor].tensor;
        switch (at->view.kind) {
        case CLEAVE_VIEW_NONE:
            return true;
        case CLEAVE_VIEW_RESHAPE:
            of->tensor = at->view.sources[0];
            break;
        case CLEAVE_VIEW_CONCAT:
            if (!enter_concatenation(im, at, of))
                return false;
            break;
        case CLEAVE_VIEW_SLICE:
            if (!enter_slice(im, at, of))
                return false;
            break;
        default:
            return false;
        }
    }
}

/* All gates of one place of an input: in one parameter, side by side in some order? */
static found find_gates(const cleave_importer *im, const cleave_recurrence *r, int64_t direction,
                        int gated, int32_t tensor) {
    int64_t shape[2], place = direction * where[gated].n_sides + where[gated].side;
    int64_t size = cleave_shape_size(gate_shape(r, gated, shape), shape);
    found result = {.known = true};
    bool taken[CLEAVE_MAX_GATES] = {false};
    for (int g = 0; g < r->n_gates; g++) {
        run gate = {tensor, (place * r->n_gates + g) * size, size};
        if (!find_run(im, &gate) || gate.begin % size != 0)
            return (found){.known = false};
        int64_t there = gate.begin / size;
        const cleave_tensor *base = &im->tensors.items[gate.tensor].tensor;
        if (g == 0)
            result = (found){true, gate.tensor, there / r->n_gates, {0}};
        result.position[g] = (int)(there % r->n_gates);
        if (base->kind != CLEAVE_TENSOR_PARAMETER || gate.tensor != result.parameter ||
            there / r->n_gates != result.place || taken[result.position[g]] ||
            cleave_tensor_size(base) % (r->n_gates * size) != 0)
            return (found){.known = false};
        taken[result.position[g]] = true;
    }
    return result;
}

/* ---- in which order it is read --------------------------------------------------------------- */

static bool has_order(const cleave_recurrence *r, const found *of, int64_t direction) {
    return of->known && memcmp(of->position, r->position[direction],
                               (size_t)r->n_gates * sizeof *of->position) == 0;
}

/* The order of the weights of the inputs, if all weights have it; else ONNX's. */
static void choose_order(cleave_importer *im, cleave_recurrence *r, found all[2][CLEAVE_N_GATED]) {
    bool same = true;
    for (int64_t d = 0; d < r->n_directions; d++) {
        memcpy(r->position[d], all[d][CLEAVE_WEIGHT_OF_INPUTS].position, sizeof r->position[d]);
        for (int gated = 0; gated < CLEAVE_N_GATED; gated++)
            same = same && (!cleave_import_has_input(im, where[gated].input) ||
                            has_order(r, &all[d][gated], d));
        /* Where the reset gate comes before the product, the last gate is a product of its own. */
        if (r->n_gates == 3 && !r->linear_before_reset)
            same = same && r->position[d][2] == 2;
    }
    for (int64_t d = 0; d < 2 && !same; d++)
        for (int g = 0; g < CLEAVE_MAX_GATES; g++)
            r->position[d][g] = g;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* A tensor of whole places with the gates as a dimension of their own; `shared`: by a view. */
static cleave_status shape_gates(cleave_importer *im, const cleave_recurrence *r, int gated,
                                 int32_t source, bool shared, int32_t *tensor) {
    static const int order[4] = {0, 1, 2, 3};
    int64_t shape[4] = {0, r->n_gates};
    int rank = 2 + gate_shape(r, gated, shape + 2);
    int64_t size = cleave_shape_size(rank - 1, shape + 1);
    shape[0] = cleave_tensor_size(&im->tensors.items[source].tensor) / size;
    if (!shared)
        return cleave_import_refine_tensor(im, source, false, rank, shape, order, tensor);
    const char *name =
        cleave_arena_printf(im->arena, "%s.gates", im->node->inputs[where[gated].input]);
    if (name == NULL)
        return cleave_import_no_memory(im);
    return cleave_import_reshape(im, name, source, rank, shape, tensor);
}

/* All places of one input: as they were found, or all in one view. */
static cleave_status take_input(cleave_importer *im, cleave_recurrence *r, int first,
                                found all[2][CLEAVE_N_GATED]) {
    int input = where[first].input, n_sides = where[first].n_sides;
    bool known = true;
    int32_t tensor, view = -1;
    for (int64_t d = 0; d < r->n_directions; d++)
        for (int gated = first; gated < first + n_sides; gated++)
            known = known && has_order(r, &all[d][gated], d);
    if (!known) {
        CLEAVE_TRY(cleave_import_tensor(im, input, &tensor));
        CLEAVE_TRY(shape_gates(im, r, first, tensor, true, &view));
    }
    for (int64_t d = 0; d < r->n_directions; d++)
        for (int gated = first; gated < first + n_sides; gated++) {
            cleave_gates *gates = &r->gates[d][gated];
            *gates = (cleave_gates){view, d * n_sides + where[gated].side};
            if (!known)
                continue;
            gates->place = all[d][gated].place;
            CLEAVE_TRY(shape_gates(im, r, gated, all[d][gated].parameter, false, &gates->tensor));
        }
    return CLEAVE_OK;
}

cleave_status cleave_import_gates(cleave_importer *im, cleave_recurrence *r) {
    found all[2][CLEAVE_N_GATED] = {{{0}}};
    /* Found before any parameter changes its shape under the views. */
    for (int gated = 0; gated < CLEAVE_N_GATED; gated++) {
        int input = where[gated].input;
        int32_t tensor;
        if (!cleave_import_has_input(im, input) || !is_read_here_alone(im, input))
            continue;
        CLEAVE_TRY(cleave_import_tensor(im, input, &tensor));
        for (int64_t d = 0; d < r->n_directions; d++)
            all[d][gated] = find_gates(im, r, d, gated, tensor);
    }
    choose_order(im, r, all);
    for (int gated = 0; gated < CLEAVE_N_GATED; gated += where[gated].n_sides) {
        if (cleave_import_has_input(im, where[gated].input)) {
            CLEAVE_TRY(take_input(im, r, gated, all));
            continue;
        }
        for (int64_t d = 0; d < r->n_directions; d++)
            for (int side = 0; side < where[gated].n_sides; side++)
                r->gates[d][gated + side].tensor = -1;
    }
    return CLEAVE_OK;
}
