/* What main lanes do beside the computes of nests, in every layout.

   Updates.  Every parameter with a gradient is updated at least once, whole or in pieces, and as
   the price of an update is a launch plus so much a byte, pieces together cost no less than the
   whole.

   Sums.  A nest may add what it gives to what another one gave, which costs nothing
   (cleave_nest_adds); here nests are those that can't, so that each contributes a buffer of its
   own. Let q nests of one operator read tensor X, an activation whose gradient is wanted, by the
   same map from the same axes of the operator, one whole axis to a dimension.  Then parts of equal
   number read equal boxes of X on the same device, and in backward each of the q contributes to the
   gradient over that box, under keys of their own.  Take an element of X.  Of those devices that
   have contributions over it, one is preferred to speak for a key by all keys that it holds
   (is_better in graph/lower/cell.c is one order for all keys), and it holds a key of each of the q
   nests.  It adds up the q by itself before anything leaves it, as part of a collective or not:
   q - 1 sums, each three passes over the element, in copies of the main lane.

   In any layout whose collectives are in steps: let c contributions, each under keys of its own, be
   over an element of an activation's gradient, of different nests or inputs.  However they come
   together, c - 1 times two of them are added up, on whatever device: in a copy that packs, at the
   owner, or in a step of a collective.  The main lane does that, as for all activations, by three
   passes over the element.  (Closed forms hide sums behind links.)

   Prices round to a picosecond, up or down; a launch of one or more makes up for that, however many
   the pieces, and where launches cost nothing nothing is claimed. */
#include "search/bound/internal.h"

#include "costmodel/byte_price.h"
#include "graph/model/precision.h"

#include <math.h>
#include <stdlib.h>

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
    for (int32_t t = 0; t < model->n_tensors && cleave_model_trains(model) && status == CLEAVE_OK;
         t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_PARAMETER || !tensor->needs_gradient)
            continue;
        cleave_buffer buffer = {.bytes = cleave_tensor_size(tensor) *
                                         cleave_type_bytes(cleave_exact_type(tensor))};
        cleave_update update = {
            .tensor = t,
            .master = cleave_has_master(tensor) ? 0 : -1,
            .squares = -1,
            .state = {optimizer_states > 0 ? 0 : -1, optimizer_states > 1 ? 0 : -1}};
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

/* Of an element of a tensor's gradient: three passes, over values or over partial results, which
   are no smaller. */
static double sum_bytes(const cleave_tensor *tensor) {
    return 3 * (double)cleave_type_bytes(cleave_value_gradient_type(tensor));
}

/* At least what sums of so many bytes take, wherever they are; they may be parts of copies, and so
   have the launch of either. */
static int64_t least_sum_price(const cleave_machine *machine, double bytes) {
    double launch = INFINITY, per_byte = INFINITY;
    for (int32_t d = 0; d < machine->n_kinds; d++) {
        if (first_device_of_kind(machine, d) < 0)
            continue;
        cleave_byte_price price = cleave_sum_price_of(&machine->kinds[d]);
        cleave_byte_price copy = cleave_byte_price_of(&machine->kinds[d], "copy");
        launch = fmin(launch, fmin(price.launch_seconds, copy.launch_seconds));
        per_byte = fmin(per_byte, price.seconds_per_byte);
    }
    int64_t fixed = cleave_picoseconds(launch);
    return fixed < 1 ? 0 : fixed - 1 + cleave_picoseconds(per_byte * bytes * (1 - 1e-9));
}

/* Is every dimension of the operand one axis of the operator, all of it? */
static bool is_plain(const cleave_model *model, const cleave_nest *nest,
                     const cleave_operand *operand) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    if (nest->derivation != CLEAVE_DERIVE_OPERATOR)
        return false;
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        if (map->n_terms != 1 || map->offset != 0 || map->terms[0].stride != 1 ||
            nest->operator_axis[map->terms[0].axis] < 0 ||
            nest->axes[map->terms[0].axis].extent != tensor->shape[d])
            return false;
    }
    return true;
}

static bool same_axes(const cleave_model *model, const cleave_nest *a, const cleave_operand *x,
                      const cleave_nest *b, const cleave_operand *y) {
    for (int d = 0; d < model->tensors[x->tensor].rank; d++)
        if (a->operator_axis[x->map[d].terms[0].axis] != b->operator_axis[y->map[d].terms[0].axis])
            return false;
    return true;
}

/* Of a pass, those to whose gradient it contributes a buffer of its own. */
static uint32_t buffered_inputs(const cleave_model *model, const cleave_nest *nest,
                                cleave_pass pass) {
    uint32_t inputs = nest->differentiable ? cleave_nest_pass_inputs(model, nest, pass) : 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (cleave_nest_adds(model, nest, i, pass))
            inputs &= ~(1u << i);
    return inputs;
}

static uint32_t gradient_inputs(const cleave_model *model, const cleave_nest *nest) {
    return buffered_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT) |
           buffered_inputs(model, nest, CLEAVE_PASS_WEIGHT_GRADIENT);
}

/* How many nests of the operator, from the i-th on, contribute as input j of that one does: the
   first of them has the number, the others none, since each counts those behind it only. */
static int32_t count_alike(const cleave_model *model, const cleave_operator *op, int32_t i, int j) {
    const cleave_nest *first = &model->nests[op->nests[i]];
    const cleave_operand *operand = &first->inputs[j];
    int32_t n = 0;
    for (int32_t k = 0; k < op->n_nests; k++) {
        const cleave_nest *nest = &model->nests[op->nests[k]];
        uint32_t inputs = gradient_inputs(model, nest);
        bool contributes = false;
        for (int l = 0; l < nest->n_inputs && !contributes; l++)
            contributes = (inputs >> l & 1) != 0 && nest->inputs[l].tensor == operand->tensor &&
                          is_plain(model, nest, &nest->inputs[l]) &&
                          same_axes(model, nest, &nest->inputs[l], first, operand) &&
                          (k != i || l == j);
        if (contributes && k < i)
            return 0; /* counted there */
        n += contributes;
    }
    return n;
}

static int64_t sum_work(const cleave_model *model, const cleave_machine *machine) {
    int64_t work = 0;
    for (int32_t o = 0; o < model->n_operators; o++) {
        const cleave_operator *op = &model->operators[o];
        for (int32_t i = 0; i < op->n_nests; i++) {
            const cleave_nest *nest = &model->nests[op->nests[i]];
            uint32_t inputs = gradient_inputs(model, nest);
            for (int j = 0; j < nest->n_inputs; j++) {
                const cleave_tensor *tensor = &model->tensors[nest->inputs[j].tensor];
                if ((inputs >> j & 1) == 0 || tensor->kind != CLEAVE_TENSOR_ACTIVATION ||
                    tensor->view.kind != CLEAVE_VIEW_NONE ||
                    !is_plain(model, nest, &nest->inputs[j]))
                    continue;
                int32_t n = count_alike(model, op, i, j);
                double bytes = (double)cleave_tensor_size(tensor) * sum_bytes(tensor);
                if (n > 1 && bytes > 0)
                    work += least_sum_price(machine, bytes * (n - 1));
            }
        }
    }
    return work;
}

/* ---- sums of whatever contributes ------------------------------------------------------------ */

/* Elements of the buffers that a nest contributes to each tensor in the pass of input gradients. */
static cleave_status count_contributions(const cleave_model *model, const cleave_nest *nest,
                                         double *elements, cleave_error *error) {
    uint32_t inputs = buffered_inputs(model, nest, CLEAVE_PASS_INPUT_GRADIENT);
    cleave_piece_list pieces = {0};
    cleave_status status = bound_covered_pieces(model, nest, inputs, &pieces, error);
    for (int32_t p = 0; p < pieces.n && status == CLEAVE_OK; p++)
        elements[pieces.items[p].tensor] += (double)cleave_box_size(
            model->tensors[pieces.items[p].tensor].rank, &pieces.items[p].box);
    CLEAVE_LIST_FREE(&pieces);
    return status;
}

/* In place of those of sum_work, which are among them. */
static cleave_status all_sum_work(const cleave_model *model, const cleave_machine *machine,
                                  int64_t *work, cleave_error *error) {
    double *elements = calloc((size_t)model->n_tensors + 1, sizeof *elements);
    cleave_status status =
        elements != NULL ? CLEAVE_OK : cleave_fail_memory(error, "bounding the step");
    int64_t sum = 0;
    for (int32_t n = 0; n < model->n_nests && status == CLEAVE_OK; n++)
        status = count_contributions(model, &model->nests[n], elements, error);
    for (int32_t t = 0; t < model->n_tensors && status == CLEAVE_OK; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        double more = elements[t] - (double)cleave_tensor_size(tensor);
        if (more > 0 && tensor->kind == CLEAVE_TENSOR_ACTIVATION && tensor->needs_gradient)
            sum += least_sum_price(machine, more * sum_bytes(tensor));
    }
    free(elements);
    CLEAVE_TRY(status);
    *work = sum > *work ? sum : *work;
    return CLEAVE_OK;
}

cleave_status bound_other_work(const cleave_model *model, const cleave_machine *machine,
                               int optimizer_states, bool in_steps, int64_t *work,
                               cleave_error *error) {
    int64_t sums = 0;
    CLEAVE_TRY(update_work(model, machine, optimizer_states, work, error));
    if (cleave_model_trains(model))
        sums = sum_work(model, machine);
    if (cleave_model_trains(model) && in_steps)
        CLEAVE_TRY(all_sum_work(model, machine, &sums, error));
    *work += sums;
    return CLEAVE_OK;
}
