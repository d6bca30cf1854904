#include "graph/program/framework_memory.h"

#include "base/list.h"
#include "graph/program/caching_allocator.h"

#include <stdlib.h>

typedef struct change {
    int32_t item; /* before which it happens */
    int32_t device;
    int32_t id; /* a buffer; or behind them the mask of a compute, or the own part of a buffer */
    int64_t bytes;
} change;

static int64_t allocation(int64_t bytes) {
    int64_t unit = CLEAVE_CACHED_ROUNDING;
    return (bytes + unit - 1) / unit * unit;
}

/* Lets go before it allocates; else in the order of ids. */
static int compare_changes(const void *a, const void *b) {
    const change *x = a, *y = b;
    if (x->item != y->item)
        return x->item < y->item ? -1 : 1;
    if ((x->bytes > 0) != (y->bytes > 0))
        return x->bytes > 0 ? 1 : -1;
    return (x->id > y->id) - (x->id < y->id);
}

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
    int32_t forward_last, backward_first;
    int32_t own;     /* 1 + the buffer of this device that it was gathered from; 0: not gathered */
    bool is_written; /* by a compute */
    bool is_scores;  /* backward of a softmax reads it */
    bool is_added;   /* computes write gradients there, not copies of others' */
} use;

typedef struct lives {
    const cleave_program *program;
    bool is_eager;
    int32_t *parameter;      /* 1 + the persistent buffer with most, [n_tensors x n_devices]; */
    int32_t *written;        /* 1 + the buffer that a compute wrote last, [n_tensors x n_devices] */
    int32_t *waiting, *next; /* for backward: first item of [n_nests x n_devices], [n_items] */
    use *uses;               /* [n_buffers] */
    bool *again;             /* [n_nests] it is recomputed */
    bool *is_read;           /* [n_nests] backward of another reads what it gives */
    CLEAVE_LIST(change) changes;
    bool failed; /* memory was short */
} lives;

static int64_t place(const lives *l, int32_t tensor, int32_t device) {
    return (int64_t)tensor * l->program->n_devices + device;
}

/* Elements of a piece. */
static int64_t size_of(const cleave_program *program, int32_t b) {
    const cleave_buffer *of = &program->buffers[b];
    return cleave_box_size(program->model->tensors[of->tensor].rank, &of->box);
}

static void put(lives *l, int32_t device, int32_t id, int32_t first, int32_t last, int64_t bytes) {
    if (last < first || bytes == 0)
        return;
    const change taken = {first, device, id, allocation(bytes)};
    const change given = {last + 1, device, id, -allocation(bytes)};
    l->failed =
        l->failed || !CLEAVE_LIST_PUSH(&l->changes, taken) || !CLEAVE_LIST_PUSH(&l->changes, given);
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

static void note_forward(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_buffer *buffers = l->program->buffers;
    int n_inputs = l->program->model->nests[compute->nest].n_inputs;
    for (int k = 0; k < n_inputs; k++) {
        int32_t b = compute->inputs[k];
        if (b < 0)
            continue;
        use *of = &l->uses[buffers[b].storage];
        of->forward_last = item;
        note_gathered(l, b, of);
    }
    int32_t b = compute->output;
    if (b < 0)
        return;
    l->uses[buffers[b].storage].forward_last = item;
    l->uses[buffers[b].storage].is_written = true;
    l->written[place(l, buffers[b].tensor, buffers[b].device)] = b + 1;
}

static void note_backward(lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_model *model = l->program->model;
    const cleave_nest *nest = &model->nests[compute->nest];
    bool scores = reads_scores(model, nest);
    for (int k = 0; k < nest->n_inputs; k++)
        if (compute->input_gradients[k] >= 0)
            l->uses[l->program->buffers[compute->input_gradients[k]].storage].is_added = true;
    for (int k = 0; k <= nest->n_inputs; k++) {
        int32_t b = k < nest->n_inputs ? compute->inputs[k] : compute->output;
        use *of = b >= 0 ? &l->uses[l->program->buffers[b].storage] : NULL;
        if (of != NULL && k == 0 && scores)
            of->is_scores = true;
        else if (of != NULL && of->backward_first < 0)
            of->backward_first = item;
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
    if (!masks && !(l->is_eager && ends_kept_product(l, compute->nest)))
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
        put(l, at->device, program->n_buffers + subject,
            masks ? from : program->buffers[output->storage].last + 1, item,
            masks ? output->bytes / cleave_type_bytes(output->type) : output->bytes);
    }
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

static void note_uses(lives *l) {
    const cleave_program *program = l->program;
    if (l->is_eager)
        note_readers(l);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        l->uses[b] = (use){.forward_last = -1, .backward_first = -1};
        if (of->kind != CLEAVE_BUFFER_PARAMETER || !of->persistent)
            continue;
        int32_t *known = &l->parameter[place(l, of->tensor, of->device)];
        if (*known == 0 || size_of(program, *known - 1) < size_of(program, b))
            *known = b + 1;
    }
    for (int32_t s = 0; s < program->n_slots; s++)
        if (program->slots[s].nest >= 0 && program->slots[s].generation > 0)
            l->again[program->slots[s].nest] = true;
    for (int32_t i = 0; i < program->n_items; i++) {
        if (program->items[i].kind != CLEAVE_ITEM_COMPUTE)
            continue;
        const cleave_compute *compute = &program->computes[program->items[i].subject];
        if (compute->pass == CLEAVE_PASS_FORWARD)
            note_forward(l, compute, i);
        else
            note_backward(l, compute, i);
        note_waiting(l, i);
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

static void list_changes(lives *l, const bool *has) {
    const cleave_program *program = l->program;
    note_uses(l);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        const use *how = &l->uses[b];
        if (!has[b] || of->storage != b || of->last < of->first)
            continue;
        bool goes = how->forward_last >= 0 && how->forward_last < of->last;
        if (stays(l, b)) {
            put(l, of->device, b, 0, program->n_items - 1, bytes_of(program, b));
        } else if (how->own > 0 && goes && how->backward_first > how->forward_last) {
            put(l, of->device, b, of->first, how->forward_last, of->bytes);
            put(l, of->device, program->n_buffers + program->n_computes + b, how->forward_last + 1,
                how->backward_first - 1, program->buffers[how->own - 1].bytes);
            put(l, of->device, b, how->backward_first, of->last, of->bytes);
        } else if (how->is_scores && goes && how->backward_first < 0) {
            put(l, of->device, b, of->first, how->forward_last, of->bytes);
        } else {
            put(l, of->device, b, of->first, of->last, bytes_of(program, b));
        }
    }
}

/* ---- what they take -------------------------------------------------------------------------- */

/* The device on which most lives at once, and how much that is. */
static int32_t find_fullest(const change *changes, int32_t n, int64_t *live, int64_t *most) {
    int32_t fullest = 0;
    *most = 0;
    for (int32_t i = 0; i < n; i++) {
        int64_t *of = &live[changes[i].device];
        *of += changes[i].bytes;
        if (*of > *most) {
            *most = *of;
            fullest = changes[i].device;
        }
    }
    return fullest;
}

/* What it reserves for that; -1 when memory is short.  `block` is by id. */
static int64_t reserve(const change *changes, int32_t n, int32_t device, int32_t *block) {
    cleave_caching_allocator allocator = {0};
    bool made = true;
    for (int32_t i = 0; i < n && made; i++) {
        const change *of = &changes[i];
        if (of->device != device || of->bytes == 0)
            continue;
        if (of->bytes < 0) {
            made = cleave_caching_release(&allocator, block[of->id]);
            continue;
        }
        block[of->id] = cleave_caching_allocate(&allocator, of->bytes);
        made = block[of->id] >= 0;
    }
    int64_t reserved = made ? allocator.reserved_bytes : -1;
    cleave_caching_allocator_end(&allocator);
    return reserved;
}

static bool measure(lives *l, bool *has, int64_t *live, int32_t *block,
                    cleave_framework_memory *memory) {
    cleave_framework_memory found;
    list_changes(l, has);
    change *changes = l->changes.items;
    int32_t n = l->changes.n;
    if (n > 0)
        qsort(changes, (size_t)n, sizeof *changes, compare_changes);
    int32_t fullest = find_fullest(changes, n, live, &found.allocated_bytes);
    found.reserved_bytes = reserve(changes, n, fullest, block);
    if (l->failed || found.reserved_bytes < 0)
        return false;
    *memory = found;
    return true;
}

cleave_status cleave_program_framework_memory(const cleave_program *program,
                                              cleave_framework framework,
                                              cleave_framework_memory *memory,
                                              cleave_error *error) {
    int64_t n_buffers = program->n_buffers, n_devices = program->n_devices;
    int64_t n_places = program->model->n_tensors * n_devices;
    int64_t n_ids = 2 * n_buffers + program->n_computes;
    cleave_arena scratch = {0};
    bool *has = CLEAVE_ARENA_ARRAY(&scratch, bool, n_buffers);
    int32_t *largest = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places);
    int64_t *live = CLEAVE_ARENA_ARRAY(&scratch, int64_t, n_devices);
    int32_t *block = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_ids);
    lives l = {.program = program,
               .is_eager = cleave_frameworks[framework].is_eager,
               .parameter = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
               .written = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
               .waiting =
                   CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->model->n_nests * n_devices),
               .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items),
               .uses = CLEAVE_ARENA_ARRAY(&scratch, use, n_buffers),
               .again = CLEAVE_ARENA_ARRAY(&scratch, bool, program->model->n_nests),
               .is_read = CLEAVE_ARENA_ARRAY(&scratch, bool, program->model->n_nests)};
    bool made = has != NULL && largest != NULL && live != NULL && block != NULL &&
                l.parameter != NULL && l.written != NULL && l.waiting != NULL && l.next != NULL &&
                l.uses != NULL && l.again != NULL && l.is_read != NULL;
    if (made) {
        mark(program, largest, has);
        made = measure(&l, has, live, block, memory);
    }
    free(l.changes.items);
    cleave_arena_free(&scratch);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
