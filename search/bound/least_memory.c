/* The order of slots follows from the model alone, and so does when each value, and each gradient,
   has to be somewhere:

     a value        from the forward pass that writes it to the last pass that reads it; parameters,
                    running statistics, data and constants are in memory all the time;
     a gradient     of an activation from the first pass that contributes to it to the last backward
                    pass of its writer, of a parameter from the first that contributes to its early
                    update, or, where it has none, its last (what is summed over devices is kept
                    until the main lane waits for the sum, which is where updates begin).

   While the computes of one slot run, which follow each other in the program, nothing moves: every
   element of what lives in the slot is in a buffer, of some device, that lives at the compute of
   that device.  So the peaks of all devices add up to the bytes of all that lives in any one slot.
   What is known to be read is the box that the parts of a nest cover together, whatever the split;
   boxes of one tensor count once where they overlap. */
#include "search/bound/least_memory.h"

#include "base/list.h"
#include "base/order.h"
#include "graph/lower/events.h"
#include "graph/model/precision.h"
#include "graph/model/view.h"
#include "search/bound/internal.h"

/* Boxes of a tensor that are told apart: of more, the others are left out. */
enum { MOST_BOXES = 1024 };

/* A box of a base tensor, or of its gradient, that is somewhere from one slot to another. */
typedef struct life {
    int32_t tensor;
    bool is_gradient;
    cleave_box box;
    int32_t first, last;
} life;

typedef struct lives {
    const cleave_model *model;
    lower_schedule schedule;
    int32_t *update_of; /* [n_tensors] slot; -1: none */
    CLEAVE_LIST(life) items;
    cleave_piece_list pieces; /* of the operand at hand */
} lives;

static int32_t last_slot(const lives *l) { return l->schedule.n_slots - 1; }

/* The last backward pass of a nest; -1: it has none. */
static int32_t last_backward(const lives *l, int32_t nest) {
    int32_t a = l->schedule.slot_of[nest][CLEAVE_PASS_INPUT_GRADIENT];
    int32_t b = l->schedule.slot_of[nest][CLEAVE_PASS_WEIGHT_GRADIENT];
    return a > b ? a : b;
}

/* From when on there is a value.  What is written in place lies in what it is made of until then.
 */
static int32_t written(const lives *l, int32_t tensor) {
    int32_t writer = l->model->writer[tensor];
    if (writer < 0)
        return 0;
    return l->schedule.slot_of[writer][CLEAVE_PASS_FORWARD] + l->model->nests[writer].in_place;
}

static cleave_status add(lives *l, int32_t tensor, bool is_gradient, const cleave_box *box,
                         int32_t first, int32_t last, cleave_error *error) {
    const life item = {tensor, is_gradient, *box, first, last};
    return first > last || CLEAVE_LIST_PUSH(&l->items, item)
               ? CLEAVE_OK
               : cleave_fail_memory(error, "bounding memory");
}

/* The pieces of base tensors that an operand reads, or writes, in every layout. */
static cleave_status pull(lives *l, const cleave_nest *nest, const cleave_operand *operand,
                          cleave_error *error) {
    cleave_box box;
    l->pieces.n = 0;
    if (!bound_covered_box(l->model, nest, operand, &box))
        return CLEAVE_OK;
    return cleave_view_pull(l->model, operand->tensor, &box, &l->pieces, error);
}

/* A value that a nest reads, until `last`. */
static cleave_status add_value(lives *l, int32_t n, const cleave_operand *operand, int32_t last,
                               cleave_error *error) {
    CLEAVE_TRY(pull(l, &l->model->nests[n], operand, error));
    for (int32_t p = 0; p < l->pieces.n; p++) {
        const cleave_piece *piece = &l->pieces.items[p];
        bool is_activation = l->model->tensors[piece->tensor].kind == CLEAVE_TENSOR_ACTIVATION;
        bool is_base = piece->tensor == operand->tensor;
        bool stays = l->model->tensors[piece->tensor].kind == CLEAVE_TENSOR_PARAMETER ||
                     l->model->tensors[piece->tensor].kind == CLEAVE_TENSOR_BUFFER;
        int32_t first = written(l, piece->tensor);
        if (!is_activation && (stays || is_base))
            last = last_slot(l);
        else if (!is_activation)
            first = l->schedule.slot_of[n][CLEAVE_PASS_FORWARD];
        CLEAVE_TRY(add(l, piece->tensor, false, &piece->box, first, last, error));
    }
    return CLEAVE_OK;
}

static cleave_status add_forward(lives *l, int32_t n, cleave_error *error) {
    const cleave_nest *nest = &l->model->nests[n];
    int32_t forward = l->schedule.slot_of[n][CLEAVE_PASS_FORWARD], backward = last_backward(l, n);
    for (int i = 0; i < nest->n_inputs; i++) {
        int32_t last = forward;
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++) {
            uint32_t read = lower_inputs_read(nest, cleave_nest_pass_inputs(l->model, nest, pass));
            int32_t slot = l->schedule.slot_of[n][pass];
            if ((read >> i & 1) != 0 && slot > last)
                last = slot;
        }
        CLEAVE_TRY(add_value(l, n, &nest->inputs[i], last, error));
    }
    bool is_kept = nest->kept_output || nest->kept_combined;
    int32_t last = is_kept && backward > forward ? backward : forward;
    CLEAVE_TRY(add_value(l, n, &nest->output, last, error));
    return nest->attention != NULL ? add_value(l, n, &nest->statistics, last, error) : CLEAVE_OK;
}

static cleave_status add_gradients(lives *l, int32_t n, cleave_pass pass, cleave_error *error) {
    const cleave_nest *nest = &l->model->nests[n];
    uint32_t gradients = cleave_nest_pass_inputs(l->model, nest, pass);
    int32_t slot = l->schedule.slot_of[n][pass];
    for (int i = 0; i < nest->n_inputs && slot >= 0; i++) {
        if ((gradients >> i & 1) == 0)
            continue;
        CLEAVE_TRY(pull(l, nest, &nest->inputs[i], error));
        for (int32_t p = 0; p < l->pieces.n; p++) {
            int32_t tensor = l->pieces.items[p].tensor, writer = l->model->writer[tensor];
            if (!l->model->tensors[tensor].needs_gradient)
                continue;
            int32_t last = writer >= 0                         ? last_backward(l, writer)
                           : l->schedule.early_in[tensor] >= 0 ? l->schedule.early_in[tensor]
                                                               : l->update_of[tensor];
            CLEAVE_TRY(add(l, tensor, true, &l->pieces.items[p].box, slot, last, error));
        }
    }
    return CLEAVE_OK;
}

/* ---- adding up ------------------------------------------------------------------------------- */

/* What lives longest comes first, so that what is left out of the others lives as long as they. */
static int by_tensor(const void *a, const void *b) {
    const life *x = a, *y = b;
    CLEAVE_ORDER_BY(x->tensor, y->tensor);
    CLEAVE_ORDER_BY(x->is_gradient, y->is_gradient);
    CLEAVE_ORDER_BY(y->last, x->last);
    return CLEAVE_ORDER(x->first, y->first);
}

/* Elements of a box that are in none of those before it, which have none in common; -1: some stick
   out of it, and how many is not found out. */
static int64_t size_beside(int rank, const life *items, const int32_t *before, int32_t n,
                           const cleave_box *box) {
    int64_t size = cleave_box_size(rank, box);
    for (int32_t i = 0; i < n; i++) {
        const cleave_box *other = &items[before[i]].box;
        if (!cleave_box_overlap(rank, box, other))
            continue;
        if (!cleave_box_contains(rank, box, other))
            return -1;
        size -= cleave_box_size(rank, other);
    }
    return size;
}

/* Adds what the items from..end, all of one tensor, hold to the slots. */
static void add_tensor(const lives *l, int32_t from, int32_t end, int states, int64_t *change) {
    const life *items = l->items.items;
    const cleave_tensor *tensor = &l->model->tensors[items[from].tensor];
    int32_t kept[MOST_BOXES], n_kept = 0;
    bool is_parameter = tensor->kind == CLEAVE_TENSOR_PARAMETER;
    int64_t each = items[from].is_gradient && is_parameter
                       ? cleave_type_bytes(cleave_exact_type(tensor))
                       : cleave_stored_bytes(tensor);
    if (!items[from].is_gradient && l->update_of[items[from].tensor] >= 0)
        each = cleave_lasting_bytes(tensor, states);
    for (int32_t i = from; i < end && n_kept < MOST_BOXES; i++) {
        const life *item = &items[i];
        int64_t size = size_beside(tensor->rank, items, kept, n_kept, &item->box);
        if (size <= 0)
            continue;
        change[item->first] += size * each;
        change[item->last + 1] -= size * each;
        int32_t n_left = 0; /* what it contains is in it from now on */
        for (int32_t k = 0; k < n_kept; k++)
            if (!cleave_box_contains(tensor->rank, &item->box, &items[kept[k]].box))
                kept[n_left++] = kept[k];
        kept[n_left++] = i;
        n_kept = n_left;
    }
}

static cleave_status add_up(lives *l, int states, cleave_arena *arena, int64_t *most,
                            cleave_error *error) {
    int64_t *change = CLEAVE_ARENA_ARRAY(arena, int64_t, (size_t)l->schedule.n_slots + 2);
    int64_t live = 0;
    if (change == NULL)
        return cleave_fail_memory(error, "bounding memory");
    CLEAVE_SORT(l->items.items, l->items.n, by_tensor);
    for (int32_t i = 0, end; i < l->items.n; i = end) {
        const life *item = &l->items.items[i];
        for (end = i + 1; end < l->items.n && l->items.items[end].tensor == item->tensor &&
                          l->items.items[end].is_gradient == item->is_gradient;)
            end++;
        add_tensor(l, i, end, states, change);
    }
    *most = 0;
    for (int32_t slot = 0; slot < l->schedule.n_slots; slot++) {
        live += change[slot];
        *most = live > *most ? live : *most;
    }
    return CLEAVE_OK;
}

static cleave_status find(lives *l, int states, cleave_arena *arena, int64_t *bytes,
                          cleave_error *error) {
    const cleave_model *model = l->model;
    CLEAVE_TRY(lower_schedule_create(model, cleave_model_trains(model), 0, NULL, NULL, arena,
                                     &l->schedule, error));
    l->update_of = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (l->update_of == NULL)
        return cleave_fail_memory(error, "bounding memory");
    for (int32_t t = 0; t < model->n_tensors; t++)
        l->update_of[t] = -1;
    for (int32_t slot = 0; slot < l->schedule.n_slots; slot++)
        if (l->schedule.slots[slot].tensor >= 0)
            l->update_of[l->schedule.slots[slot].tensor] = slot;
    for (int32_t n = 0; n < model->n_nests; n++) {
        CLEAVE_TRY(add_forward(l, n, error));
        for (cleave_pass pass = CLEAVE_PASS_INPUT_GRADIENT; pass <= CLEAVE_PASS_WEIGHT_GRADIENT;
             pass++)
            CLEAVE_TRY(add_gradients(l, n, pass, error));
    }
    return add_up(l, states, arena, bytes, error);
}

cleave_status cleave_least_memory(const cleave_model *model, int optimizer_states, int64_t *bytes,
                                  cleave_error *error) {
    lives l = {.model = model};
    cleave_arena arena = {0};
    int64_t found = 0;
    cleave_status status = find(&l, optimizer_states, &arena, &found, error);
    CLEAVE_LIST_FREE(&l.items);
    CLEAVE_LIST_FREE(&l.pieces);
    cleave_arena_free(&arena);
    if (status == CLEAVE_OK)
        *bytes = found;
    return status;
}

int64_t cleave_most_memory(const cleave_machine *machine, int64_t memory_limit_bytes) {
    int64_t sum = 0;
    for (int32_t d = 0; d < machine->n_devices; d++) {
        int64_t limit = memory_limit_bytes > 0
                            ? memory_limit_bytes
                            : machine->kinds[machine->device_kind[d]].memory_bytes;
        int64_t beside = cleave_machine_runtime_bytes(machine, d, 0);
        sum += limit > beside ? limit - beside : 0;
    }
    return sum;
}
