#include "graph/program/framework_memory.h"

#include "graph/model/layer_name.h"
#include "graph/program/caching_allocator.h"
#include "graph/program/gathered_layers.h"

#include <string.h>

/* Marks the buffers whose memory a framework has: those in which something lies that is no message,
   and of gradients of a parameter on a device the largest.  `largest` [n_tensors x n_devices] has 1
   + a buffer. */
static void mark(const cleave_program *program, int32_t *largest, bool *has) {
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (of->kind != CLEAVE_BUFFER_MESSAGE)
            has[of->storage] = true;
        if (of->kind != CLEAVE_BUFFER_GRADIENT || of->storage != b)
            continue;
        int32_t *known = &largest[(int64_t)of->tensor * program->n_devices + of->device];
        if (*known > 0 && program->buffers[*known - 1].bytes >= of->bytes) {
            has[b] = false;
        } else {
            if (*known > 0)
                has[*known - 1] = false;
            *known = b + 1;
        }
    }
}

/* ---- how long things live -------------------------------------------------------------------- */

/* What computes do with the memory of a buffer; items, -1: none. */
typedef struct use {
    int32_t forward_last, backward_first, backward_last;
    int32_t loss_first; /* of a loss over classes that reads it, the first of forward */
    int32_t logits;     /* 1 + the buffer of the logits whose gradient it is */
    int32_t made_from; /* the first item of its layer that is made again; -1: it is not, or later */
    bool is_made_again; /* what backward reads is */
    int32_t own;     /* 1 + the buffer of this device that it was gathered from; 0: not gathered */
    bool is_written; /* by a compute */
    bool is_scores;  /* backward of a softmax reads it */
    bool is_added;   /* computes write gradients there, not copies of others' */
} use;

typedef struct lives {
    const cleave_program *program;
    const cleave_framework_row *framework;
    int32_t *parameter;      /* 1 + the persistent buffer with most, [n_tensors x n_devices]; */
    int32_t *written;        /* 1 + the buffer that a compute wrote last, [n_tensors x n_devices] */
    int32_t *waiting, *next; /* for backward: first item of [n_nests x n_devices], [n_items] */
    use *uses;               /* [n_buffers] */
    bool *again;             /* [n_nests] it is recomputed */
    bool *is_read;           /* [n_nests] backward of another reads what it gives */
    bool *is_inside;         /* [n_nests] in a checkpoint, and made again although we keep it */
    int32_t *layer, *made_from; /* [n_devices] 1 + the operator with which what is made again of a
                                   layer began, and the item */
    cleave_allocations all;
} lives;

static int64_t place(const lives *l, int32_t tensor, int32_t device) {
    return (int64_t)tensor * l->program->n_devices + device;
}

/* Elements of a piece. */
static int64_t size_of(const cleave_program *program, int32_t b) {
    const cleave_buffer *of = &program->buffers[b];
    return cleave_box_size(program->model->tensors[of->tensor].rank, &of->box);
}

/* From an item to another, with what they need. */
static void put(lives *l, int32_t device, int32_t first, int32_t last, int64_t bytes) {
    cleave_allocations_add(&l->all, device, CLEAVE_STREAM_COMPUTE,
                           cleave_moment(first, CLEAVE_STEPS_OF_ITEM - 1),
                           cleave_moment(last + 1, 0), bytes);
}

static bool has_opcode(const cleave_nest *nest, cleave_opcode opcode) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->tape[i].opcode == opcode)
            return true;
    return false;
}

/* exp(s - m) / l, as it is given: where it is dropped out, too, what is kept of s stands for it. */
static bool gives_weights(const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_POINTWISE && nest->n_instructions >= 3 &&
           nest->tape[0].opcode == CLEAVE_OP_SUB && nest->tape[1].opcode == CLEAVE_OP_EXP &&
           nest->tape[2].opcode == CLEAVE_OP_DIV && !has_opcode(nest, CLEAVE_OP_DROPOUT);
}

/* Is input 0 of a nest the scores of a softmax that has a result of its own? */
static bool reads_scores(const cleave_model *model, const cleave_nest *nest) {
    const cleave_operator *op = &model->operators[nest->op];
    bool compares = nest->n_instructions >= 2 && nest->tape[0].opcode == CLEAVE_OP_SUB &&
                    nest->tape[1].opcode == CLEAVE_OP_EXP;
    for (int32_t i = 0; compares && i < op->n_nests; i++)
        if (gives_weights(&model->nests[op->nests[i]]))
            return true;
    return false;
}

/* Was a piece put together of this device's own and those of others? */
static void note_gathered(lives *l, int32_t b, use *of) {
    const cleave_buffer *whole = &l->program->buffers[b];
    if (whole->tensor < 0 || of->is_written || whole->kind != CLEAVE_BUFFER_ACTIVATION)
        return;
    int32_t own = l->written[place(l, whole->tensor, whole->device)];
    const cleave_buffer *part = own > 0 ? &l->program->buffers[own - 1] : NULL;
    int rank = l->program->model->tensors[whole->tensor].rank;
    if (part != NULL && part->bytes < whole->bytes &&
        cleave_box_contains(rank, &whole->box, &part->box))
        of->own = own;
}

/* The first of the nests of a loss that reads what this one does begins with the logits. */
static bool reads_logits(const cleave_model *model, int32_t id) {
    const cleave_nest *nest = &model->nests[id];
    const cleave_operator *op = &model->operators[nest->op];
    return cleave_nest_is_of_loss(model, nest) &&
           nest->inputs[0].tensor == model->nests[op->nests[0]].inputs[0].tensor;
}

static void note_read(use *of, int32_t item) {
    of->backward_first = of->backward_first < 0 ? item : of->backward_first;
    of->backward_last = item;
}

static void note_forward(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_buffer *buffers = l->program->buffers;
    int n_inputs = l->program->model->nests[compute->nest].n_inputs;
    for (int k = 0; k < n_inputs; k++) {
        int32_t b = compute->inputs[k];
        if (b < 0)
            continue;
        use *of = &l->uses[buffers[b].storage];
        of->forward_last = item;
        if (k == 0 && of->loss_first < 0 && reads_logits(l->program->model, compute->nest))
            of->loss_first = item;
        note_gathered(l, b, of);
    }
    int32_t b = compute->output;
    if (b < 0)
        return;
    use *of = &l->uses[buffers[b].storage];
    of->forward_last = item;
    of->is_written = true;
    of->is_made_again = l->is_inside[compute->nest];
    l->written[place(l, buffers[b].tensor, buffers[b].device)] = b + 1;
    l->layer[buffers[b].device] = 0;
}

/* Is it the same layer's? */
static bool is_with(const cleave_model *model, int32_t a, int32_t b) {
    size_t end = 0, other = 0;
    const char *x = model->operators[a].name, *y = model->operators[b].name;
    return cleave_layer_of(x, &end) >= 0 && cleave_layer_of(y, &other) >= 0 && end == other &&
           strncmp(x, y, end) == 0;
}

/* Forward once more is part of backward.  Without a compiler a whole layer comes at once. */
static void note_again(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_program *program = l->program;
    int32_t device = program->items[item].device, op = program->model->nests[compute->nest].op;
    if (l->layer[device] == 0 || !is_with(program->model, l->layer[device] - 1, op)) {
        l->layer[device] = op + 1;
        l->made_from[device] = item;
    }
    for (int k = 0; k < program->model->nests[compute->nest].n_inputs; k++) {
        int32_t b = compute->inputs[k];
        use *of = b >= 0 ? &l->uses[program->buffers[b].storage] : NULL;
        if (of != NULL)
            note_read(of, item);
        if (of != NULL && of->is_made_again && l->framework->is_eager)
            of->made_from = l->made_from[device];
    }
    int32_t b = compute->output;
    if (b < 0)
        return;
    use *of = &l->uses[program->buffers[b].storage];
    of->is_written = true;
    if (l->framework->is_eager)
        of->made_from = l->made_from[device];
}

static void note_backward(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_model *model = l->program->model;
    const cleave_nest *nest = &model->nests[compute->nest];
    bool scores = reads_scores(model, nest);
    for (int k = 0; k < nest->n_inputs; k++) {
        int32_t b = compute->input_gradients[k], logits = compute->inputs[k];
        use *of = b >= 0 ? &l->uses[l->program->buffers[b].storage] : NULL;
        if (of != NULL)
            of->is_added = true;
        if (of != NULL && k == 0 && logits >= 0 && reads_logits(model, compute->nest))
            of->logits = l->program->buffers[logits].storage + 1;
    }
    for (int k = 0; k <= nest->n_inputs; k++) {
        int32_t b = k < nest->n_inputs ? compute->inputs[k] : compute->output;
        use *of = b >= 0 ? &l->uses[l->program->buffers[b].storage] : NULL;
        if (of != NULL && k == 0 && scores) {
            of->is_scores = true;
        } else if (of != NULL) {
            note_read(of, item);
        }
    }
}

/* What ends an operator with a product between others that are recomputed, and no backward reads.
 */
static bool ends_kept_product(const lives *l, int32_t id) {
    const cleave_model *model = l->program->model;
    const cleave_operator *op = &model->operators[model->nests[id].op];
    const cleave_nest *product = &model->nests[op->main_nest];
    bool between = false;
    for (int k = 0; k < product->n_inputs; k++) {
        int32_t writer = cleave_tensor_writer(model, product->inputs[k].tensor);
        between = between || (writer >= 0 && l->again[writer]);
    }
    return between && product->kind == CLEAVE_NEST_PRODUCT && !l->again[id] && !l->is_read[id] &&
           op->nests[op->n_nests - 1] == id;
}

/* What waits from forward until backward besides what that reads: of dropout a mask of a byte for
   each element; without a compiler the result of a product that a checkpoint keeps. */
static void note_waiting(lives *l, int32_t item) {
    const cleave_program *program = l->program;
    const cleave_item *at = &program->items[item];
    const cleave_compute *compute = &program->computes[at->subject];
    const cleave_nest *nest = &program->model->nests[compute->nest];
    bool masks = nest->attention == NULL && has_opcode(nest, CLEAVE_OP_DROPOUT);
    if (!masks && !(l->framework->is_eager && ends_kept_product(l, compute->nest)))
        return;
    int32_t *first = &l->waiting[(int64_t)compute->nest * program->n_devices + at->device];
    if (compute->pass == CLEAVE_PASS_FORWARD) {
        if (l->again[compute->nest] && program->slots[at->slot].generation == 0)
            return;
        while (*first > 0)
            first = &l->next[*first - 1];
        *first = item + 1;
    } else if (compute->pass == CLEAVE_PASS_INPUT_GRADIENT && *first > 0) {
        int32_t from = *first - 1, subject = program->items[from].subject;
        const cleave_buffer *output = &program->buffers[program->computes[subject].output];
        *first = l->next[from];
        put(l, at->device, masks ? from : program->buffers[output->storage].last + 1, item,
            masks ? output->bytes / cleave_type_bytes(output->type) : output->bytes);
    }
}

/* A mask that is filled in a view: back autograd has what comes, a copy of it, a clone of that and
   what is filled, all at once (PyTorch's CopySlices); the first two are the program's. */
static void note_filling(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_buffer *buffers = l->program->buffers;
    int32_t in = compute->output_gradient, out = compute->input_gradients[0];
    if (!l->framework->fills_masks || compute->pass != CLEAVE_PASS_INPUT_GRADIENT || in < 0 ||
        out < 0 || !cleave_nest_masks_by_place(&l->program->model->nests[compute->nest]))
        return;
    int n_there = buffers[in].storage == buffers[out].storage ? 1 : 2;
    for (int k = n_there; k < 4; k++)
        put(l, buffers[out].device, item, item, buffers[out].bytes);
}

static void note_readers(lives *l) {
    const cleave_model *model = l->program->model;
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int k = 0; k < model->nests[n].n_inputs; k++) {
            int32_t writer = cleave_tensor_writer(model, model->nests[n].inputs[k].tensor);
            if (writer >= 0 && (model->nests[n].kept_inputs >> k & 1) != 0)
                l->is_read[writer] = true;
        }
}

/* Checkpoints are of layers: between what is made again of one only products and attention keep
   what they give, and not what follows them in our operators. */
static void note_inside(lives *l) {
    const cleave_model *model = l->program->model;
    for (int32_t op = 0, end; op < model->n_operators; op = end) {
        int32_t first = -1, last = -1;
        for (end = op; end == op || (end < model->n_operators && is_with(model, op, end)); end++)
            if (l->again[model->operators[end].nests[0]]) {
                first = first < 0 ? end : first;
                last = end;
            }
        for (int32_t o = first + 1; first >= 0 && o < last; o++)
            for (int32_t i = 0; i < model->operators[o].n_nests; i++) {
                int32_t n = model->operators[o].nests[i];
                cleave_nest_kind kind = model->nests[n].kind;
                l->is_inside[n] = !l->again[n] && kind != CLEAVE_NEST_PRODUCT &&
                                  kind != CLEAVE_NEST_CONVOLUTION && kind != CLEAVE_NEST_ATTENTION;
            }
    }
}

static void note_uses(lives *l) {
    const cleave_program *program = l->program;
    if (l->framework->is_eager)
        note_readers(l);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        l->uses[b] = (use){.forward_last = -1,
                           .backward_first = -1,
                           .backward_last = -1,
                           .loss_first = -1,
                           .made_from = -1};
        if (of->kind != CLEAVE_BUFFER_PARAMETER || !of->persistent)
            continue;
        int32_t *known = &l->parameter[place(l, of->tensor, of->device)];
        if (*known == 0 || size_of(program, *known - 1) < size_of(program, b))
            *known = b + 1;
    }
    for (int32_t s = 0; s < program->n_slots; s++)
        if (program->slots[s].nest >= 0 && program->slots[s].generation > 0)
            l->again[program->slots[s].nest] = true;
    note_inside(l);
    for (int32_t i = 0; i < program->n_items; i++) {
        if (program->items[i].kind != CLEAVE_ITEM_COMPUTE)
            continue;
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        if (compute->pass == CLEAVE_PASS_FORWARD &&
            program->slots[program->items[i].slot].generation > 0)
            note_again(l, compute, i);
        else if (compute->pass == CLEAVE_PASS_FORWARD)
            note_forward(l, compute, i);
        else
            note_backward(l, compute, i);
        note_waiting(l, i);
        note_filling(l, compute, i);
    }
}

/* A framework has gradients in the type in which they are added up over devices. */
static int64_t bytes_of(const cleave_program *program, int32_t b) {
    const cleave_model *model = program->model;
    const cleave_buffer *of = &program->buffers[b];
    bool short_sums = cleave_type_is_short(model->reduce_precision) && !model->reduces_mixed;
    return of->kind == CLEAVE_BUFFER_GRADIENT && short_sums
               ? size_of(program, b) * cleave_type_bytes(model->reduce_precision)
               : of->bytes;
}

/* Has the device the whole of a gradient's parameter? */
static bool stays(const lives *l, int32_t b) {
    const cleave_buffer *of = &l->program->buffers[b];
    if (of->kind != CLEAVE_BUFFER_GRADIENT || !l->uses[b].is_added)
        return false;
    int32_t parameter = l->parameter[place(l, of->tensor, of->device)];
    return parameter > 0 && size_of(l->program, parameter - 1) == size_of(l->program, b);
}

static bool converts_logits(const lives *l, int32_t b) {
    const cleave_loss_kernels *loss = &l->framework->loss;
    return loss->apart && loss->exact && cleave_type_is_short(l->program->buffers[b].type);
}

/* Of logits and what a loss makes of them: a copy that is converted, what waits for backward, and
   what backward has beside that until it gives their gradient, which may be one of these. */
static void put_loss(lives *l, int32_t b) {
    const cleave_loss_kernels *loss = &l->framework->loss;
    const cleave_buffer *of = &l->program->buffers[b];
    const use *how = &l->uses[b];
    bool converts = converts_logits(l, b), stays = loss->in_place && !converts;
    int64_t bytes = size_of(l->program, b) * cleave_type_bytes(converts ? CLEAVE_F32 : of->type);
    bool gives = !converts && loss->beside == 0;
    put(l, of->device, of->first, stays ? how->backward_last - 1 : how->forward_last, of->bytes);
    if (converts && !loss->in_place)
        put(l, of->device, how->loss_first, how->forward_last, bytes);
    if (!stays)
        put(l, of->device, how->loss_first, how->backward_last - gives, bytes);
    for (int k = converts ? 0 : 1; k < loss->beside; k++)
        put(l, of->device, how->backward_first, how->backward_last, bytes);
}

/* Copies of gradients, where they are all-reduced.  A chore counts what is read and written. */
static void put_buckets(lives *l, int32_t *last_chore, int64_t *at_once) {
    const cleave_program *program = l->program;
    const cleave_model *model = program->model;
    cleave_buckets kind = l->framework->buckets;
    int64_t each = cleave_type_bytes(model->reduces_mixed ? CLEAVE_F32 : model->reduce_precision);
    int64_t stored = cleave_type_is_short(model->precision) ? cleave_type_bytes(CLEAVE_BF16)
                                                            : cleave_type_bytes(CLEAVE_F32);
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind != CLEAVE_ITEM_COPY ||
            program->copies[item->subject].chore != CLEAVE_CHORE_BUCKET)
            continue;
        int64_t bytes = program->copies[item->subject].chore_bytes / (stored + each) * each;
        last_chore[item->device] = i;
        at_once[item->device] += bytes;
        if (kind == CLEAVE_BUCKETS_KEPT)
            put(l, item->device, 0, program->n_items - 1, bytes);
    }
    for (int32_t d = 0; d < program->n_devices && kind == CLEAVE_BUCKETS_AT_ONCE; d++)
        put(l, d, last_chore[d], last_chore[d],
            at_once[d] < CLEAVE_MOST_AT_ONCE * each ? at_once[d] : CLEAVE_MOST_AT_ONCE * each);
}

/* A share of a gradient has a place of its own where the whole goes. */
static void put_shares(lives *l, const int32_t *largest, const bool *done) {
    const cleave_program *program = l->program;
    for (int32_t u = 0; u < program->n_updates; u++) {
        int32_t b = program->updates[u].gradient;
        const cleave_buffer *of = &program->buffers[b];
        int32_t whole = largest[place(l, of->tensor, of->device)] - 1;
        if (!done[b] && whole != b && of->storage == b && !stays(l, whole))
            put(l, of->device, of->first, of->last, of->bytes);
    }
}

/* When it is there: with what is made again of its layer, or where it is the gradient of logits of
   short numbers, when that has been converted. */
static int32_t first_of(const lives *l, int32_t b) {
    const cleave_buffer *of = &l->program->buffers[b];
    const use *how = &l->uses[b];
    if (how->logits > 0 && converts_logits(l, how->logits - 1))
        return l->uses[how->logits - 1].backward_last + 1;
    if (how->logits > 0 && l->framework->loss.apart && l->framework->loss.beside == 0)
        return l->uses[how->logits - 1].backward_last;
    return how->made_from >= 0 && how->made_from < of->first ? how->made_from : of->first;
}

static void list_changes(lives *l, const bool *has, const bool *done) {
    const cleave_program *program = l->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        const use *how = &l->uses[b];
        if (!has[b] || done[b] || of->storage != b || of->last < of->first)
            continue;
        bool goes = how->forward_last >= 0 && how->forward_last < of->last;
        if (l->framework->loss.apart && how->loss_first >= 0 && how->backward_last >= 0) {
            put_loss(l, b);
        } else if (stays(l, b)) {
            put(l, of->device, l->framework->buckets == CLEAVE_BUCKETS_NONE ? 0 : of->first,
                program->n_items - 1, bytes_of(program, b));
        } else if (how->own > 0 && goes && how->backward_first > how->forward_last) {
            put(l, of->device, of->first, how->forward_last, of->bytes);
            put(l, of->device, how->forward_last + 1, how->backward_first - 1,
                program->buffers[how->own - 1].bytes);
            put(l, of->device, how->backward_first, of->last, of->bytes);
        } else if (how->is_made_again && goes && how->backward_first > how->forward_last) {
            put(l, of->device, of->first, how->forward_last, of->bytes);
            put(l, of->device, how->made_from >= 0 ? how->made_from : how->backward_first, of->last,
                of->bytes);
        } else if (how->is_scores && goes && how->backward_first < 0) {
            put(l, of->device, of->first, how->forward_last, of->bytes);
        } else {
            put(l, of->device, first_of(l, b), of->last, bytes_of(program, b));
        }
    }
}

/* ---- what they take -------------------------------------------------------------------------- */

/* The device on which most lives at once, and how much that is. */
static int32_t find_fullest(const cleave_allocations *all, int64_t *live, int64_t *most) {
    int32_t fullest = 0;
    *most = 0;
    for (int32_t i = 0; i < all->changes.n; i++) {
        const cleave_allocation_change *change = &all->changes.items[i];
        int64_t *of = &live[change->device];
        *of += change->bytes;
        if (*of > *most) {
            *most = *of;
            fullest = change->device;
        }
    }
    return fullest;
}

/* What it reserves for that; -1 when memory is short.  `block` is by id. */
static int64_t reserve(const cleave_allocations *all, int32_t device, int32_t *block) {
    cleave_caching_allocator allocator = {0};
    bool made = true;
    for (int32_t i = 0; i < all->changes.n && made; i++) {
        const cleave_allocation_change *of = &all->changes.items[i];
        if (of->device != device)
            continue;
        if (of->bytes < 0) {
            made = cleave_caching_release(&allocator, block[of->id]);
            continue;
        }
        block[of->id] = cleave_caching_allocate(&allocator, of->bytes, of->stream);
        made = block[of->id] >= 0;
    }
    int64_t reserved = made ? allocator.reserved_bytes : -1;
    cleave_caching_allocator_end(&allocator);
    return reserved;
}

static bool measure(lives *l, cleave_arena *scratch, cleave_framework_memory *memory) {
    const cleave_program *program = l->program;
    int64_t n_places = (int64_t)program->model->n_tensors * program->n_devices;
    bool *has = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    bool *done = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    int32_t *largest = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_places);
    int64_t *live = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    int32_t *last_chore = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices);
    int64_t *at_once = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    if (has == NULL || done == NULL || largest == NULL || live == NULL || last_chore == NULL ||
        at_once == NULL)
        return false;
    note_uses(l);
    mark(program, largest, has);
    if (!cleave_gathered_layers_add(program, l->framework, &l->all, done))
        return false;
    put_shares(l, largest, done);
    put_buckets(l, last_chore, at_once);
    list_changes(l, has, done);
    cleave_allocations_sort(&l->all);
    int32_t *block = CLEAVE_ARENA_ARRAY(scratch, int32_t, l->all.n);
    if (block == NULL || l->all.failed)
        return false;
    cleave_framework_memory found;
    int32_t fullest = find_fullest(&l->all, live, &found.allocated_bytes);
    found.reserved_bytes = reserve(&l->all, fullest, block);
    if (found.reserved_bytes < 0)
        return false;
    *memory = found;
    return true;
}

cleave_status cleave_program_framework_memory(const cleave_program *program,
                                              cleave_framework framework,
                                              cleave_framework_memory *memory,
                                              cleave_error *error) {
    int64_t n_nests = program->model->n_nests, n_devices = program->n_devices;
    int64_t n_places = program->model->n_tensors * n_devices;
    cleave_arena scratch = {0};
    lives l = {.program = program,
               .framework = &cleave_frameworks[framework],
               .parameter = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
               .written = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
               .waiting = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_nests * n_devices),
               .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items),
               .uses = CLEAVE_ARENA_ARRAY(&scratch, use, program->n_buffers),
               .again = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
               .is_read = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
               .is_inside = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
               .layer = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices),
               .made_from = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices)};
    bool made = l.parameter != NULL && l.written != NULL && l.waiting != NULL && l.next != NULL &&
                l.uses != NULL && l.again != NULL && l.is_read != NULL && l.is_inside != NULL &&
                l.layer != NULL && l.made_from != NULL && measure(&l, &scratch, memory);
    CLEAVE_LIST_FREE(&l.all.changes);
    cleave_arena_free(&scratch);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
