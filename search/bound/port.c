/* The boxes of parts, by arithmetic on a way's degrees, wherever its parts stand.

   Blocks of an axis are balanced, so of an axis of e points split g ways they have floor(e / g) or
   ceil(e / g) points, and where g > e some parts are empty and all others have one point.  Parts
   are the product of the blocks of all axes, and replicas.  Axes that an operand lacks have all
   their blocks over every element: as keys, where the nest has the axis; as replicas, where it is
   another nest's.

   A nest that is derived from the owners of an output has a part for each part of the nest that
   wrote that.  Where R of these write one box, they cut it along its longest dimension; so boxes
   are at most so large as before, and only where R is 1 they are the same. */
#include "search/bound/shares.h"

#include <math.h>

/* Lengths of a nest's axes in its parts, and how many parts there are. */
typedef struct lengths {
    int64_t least[CLEAVE_MAX_AXES], most[CLEAVE_MAX_AXES];
    int32_t blocks[CLEAVE_MAX_AXES]; /* that are not empty, of each axis; 0: not known */
    int64_t n_parts;                 /* that are not empty */
    int64_t n_spare;                 /* of each cell of those axes: replicas */
    int32_t cut;                     /* so many parts cut one box */
    bool has_empty;
} lengths;

static int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static void lengths_by_operator(const cleave_model *model, const cleave_nest *nest,
                                const cleave_candidate_way *way, lengths *l) {
    const cleave_operator *op = &model->operators[nest->op];
    bool has[CLEAVE_MAX_AXES] = {false}, twice = false;
    l->n_parts = l->n_spare = way->replicas;
    l->cut = 1;
    for (int i = 0; i < nest->n_axes; i++) {
        int a = nest->operator_axis[i];
        int64_t extent = nest->axes[i].extent, degree = a < 0 ? 1 : way->degree[a];
        l->least[i] = degree > extent ? 1 : extent / degree;
        l->most[i] = (extent + degree - 1) / degree;
        l->blocks[i] = (int32_t)least_of(degree, extent);
        l->has_empty = l->has_empty || degree > extent;
        twice = twice || (a >= 0 && has[a]);
        if (a >= 0)
            has[a] = true;
        l->n_parts *= l->blocks[i];
    }
    for (int a = 0; a < op->n_axes; a++)
        if (!has[a]) {
            l->n_parts *= way->degree[a];
            l->n_spare *= way->degree[a];
        }
    for (int i = 0; i < nest->n_axes && twice; i++) /* two axes go together */
        l->blocks[i] = 0;
    l->n_parts = twice ? 0 : l->n_parts;
    l->has_empty = l->has_empty || twice;
}

static void dimension_lengths(const cleave_tensor *tensor, const cleave_operand *operand,
                              const cleave_nest *nest, const lengths *l, int64_t *least,
                              int64_t *most) {
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int64_t shortest = 1, longest = 1, first = map->offset, end = map->offset + 1;
        for (int t = 0; t < map->n_terms; t++) {
            int axis = map->terms[t].axis;
            int64_t stride = map->terms[t].stride;
            shortest += stride * (l->least[axis] - 1);
            longest += stride * (l->most[axis] - 1);
            end += stride * (nest->axes[axis].extent - 1);
        }
        if (first < 0) /* what sticks out is not there */
            shortest += first;
        if (end > tensor->shape[d])
            shortest -= end - tensor->shape[d];
        least[d] = shortest > 0 ? shortest : 0;
        most[d] = least_of(longest, tensor->shape[d]);
    }
}

static void count_holders(const cleave_nest *nest, const cleave_operand *operand, int rank,
                          const lengths *l, bound_port *port) {
    int64_t keys = 1;
    bool known = true;
    for (int i = 0; i < nest->n_axes; i++)
        if (!cleave_operand_maps_axis(operand, rank, i)) {
            known = known && l->blocks[i] > 0;
            keys *= l->blocks[i] > 0 ? l->blocks[i] : 1;
        }
    port->n_keys = known ? (int32_t)keys : 1;
    port->n_devices = (int32_t)((known ? keys : 1) * l->n_spare);
}

static void find_lengths(const cleave_model *model, const cleave_nest *nest,
                         const cleave_candidate_way *way, lengths *l);

/* Axis i of the nest is dimension i of the output that it is derived from. */
static void lengths_by_owners(const cleave_model *model, const cleave_nest *nest,
                              const cleave_candidate_way *way, lengths *l) {
    const cleave_nest *source = &model->nests[nest->owners_of];
    const cleave_tensor *tensor = &model->tensors[source->output.tensor];
    int64_t least[CLEAVE_MAX_RANK], most[CLEAVE_MAX_RANK];
    bound_port port;
    lengths of = {0};
    find_lengths(model, source, way, &of);
    dimension_lengths(tensor, &source->output, source, &of, least, most);
    count_holders(source, &source->output, tensor->rank, &of, &port);
    bool simple = source->derivation == CLEAVE_DERIVE_OPERATOR;
    *l = (lengths){.cut = simple ? port.n_keys : 0, .n_spare = simple ? of.n_spare : 1};
    for (int i = 0; i < nest->n_axes; i++) {
        l->least[i] = least[i];
        l->most[i] = most[i];
    }
    if (l->cut == 1) {
        l->n_parts = of.n_parts;
        l->has_empty = of.has_empty;
    } else { /* a block each, if the boxes are long enough along any dimension */
        int64_t longest = 0;
        for (int d = 0; d < tensor->rank; d++)
            longest = least[d] > longest ? least[d] : longest;
        bool all = l->cut > 1 && longest >= l->cut;
        l->n_parts = all ? of.n_parts : 0;
        l->has_empty = !all || of.has_empty;
    }
}

static void find_lengths(const cleave_model *model, const cleave_nest *nest,
                         const cleave_candidate_way *way, lengths *l) {
    *l = (lengths){0};
    if (nest->derivation == CLEAVE_DERIVE_OPERATOR)
        lengths_by_operator(model, nest, way, l);
    else
        lengths_by_owners(model, nest, way, l);
}

/* Is every dimension one axis of the nest, and every axis there? */
static bool is_plain(const cleave_nest *nest, const cleave_operand *operand, int rank) {
    bool plain = nest->n_axes == rank;
    for (int i = 0; i < nest->n_axes; i++)
        plain = plain && cleave_operand_maps_axis(operand, rank, i);
    for (int d = 0; d < rank; d++)
        plain = plain && operand->map[d].n_terms == 1 && operand->map[d].terms[0].stride == 1 &&
                operand->map[d].offset == 0;
    return plain;
}

/* Elements of a box, and of a box that some dimension is cut of, whichever is longest. */
static void count_elements(int rank, const lengths *l, const int64_t *least, bool plain,
                           bound_port *port) {
    double smallest = 1, largest = 1;
    for (int d = 0; d < rank; d++) {
        smallest *= (double)least[d];
        largest *= (double)port->most[d];
    }
    if (l->cut != 1) {
        double cut_smallest = rank == 0 ? 0 : HUGE_VAL, cut_largest = 0;
        for (int d = 0; d < rank && plain && l->cut > 1; d++) {
            double shorter = (double)(least[d] / l->cut);
            double longer = (double)((port->most[d] + l->cut - 1) / l->cut);
            cut_smallest =
                fmin(cut_smallest, least[d] > 0 ? smallest / (double)least[d] * shorter : 0);
            cut_largest = fmax(cut_largest, largest / (double)port->most[d] * longer);
        }
        bool known = plain && l->cut > 1 && rank > 0;
        smallest = known ? cut_smallest : 0;
        largest = known ? cut_largest : largest;
    }
    port->least = (int64_t)smallest;
    port->largest = (int64_t)(largest + 0.5);
}

void bound_port_of(const cleave_model *model, const cleave_nest *nest, int input,
                   const cleave_candidate_way *way, bound_port *port) {
    const cleave_operand *operand = input < 0 ? &nest->output : &nest->inputs[input];
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    int64_t least[CLEAVE_MAX_RANK] = {0};
    lengths l;
    find_lengths(model, nest, way, &l);
    *port = (bound_port){.n_parts = (int32_t)l.n_parts};
    dimension_lengths(tensor, operand, nest, &l, least, port->most);
    count_holders(nest, operand, tensor->rank, &l, port);
    count_elements(tensor->rank, &l, least, is_plain(nest, operand, tensor->rank), port);
}

bool bound_runs_everywhere(const cleave_model *model, const cleave_nest *nest,
                           const cleave_candidate_way *way, int32_t n_devices) {
    lengths l;
    if (way->n_parts != n_devices)
        return false;
    find_lengths(model, nest, way, &l);
    return !l.has_empty;
}
