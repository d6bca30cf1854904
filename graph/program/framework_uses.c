/* What computes do with buffers: which are kept from forward for backward, which are made again,
   and with what. */
#include "graph/model/layer_name.h"
#include "graph/program/framework_lives.h"

#include <string.h>

static bool has_dropout(const cleave_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++)
        if (nest->tape[i].opcode == CLEAVE_OP_DROPOUT)
            return true;
    return false;
}

/* exp(s - m) / l, as it is given: where it is dropped out, too, what is kept of s stands for it. */
static bool gives_weights(const cleave_nest *nest) {
    return cleave_nest_gives_softmax(nest) && !has_dropout(nest);
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

/* Is input k of a nest what a layer norm is of, whose backward reads its result instead?  Not what
   came from elsewhere: that stays until its gradient is sent. */
static bool reads_normed(const framework_lives *l, const cleave_nest *nest, int k) {
    const cleave_model *model = l->program->model;
    const cleave_operator *op = &model->operators[nest->op];
    return l->framework->keeps_normed && strcmp(op->type, "LayerNormalization") == 0 &&
           nest->inputs[k].tensor == model->nests[op->nests[0]].inputs[0].tensor;
}

/* Was a piece put together of this device's own and those of others? */
static void note_gathered(framework_lives *l, int32_t b, framework_use *of) {
    const cleave_buffer *whole = &l->program->buffers[b];
    if (whole->tensor < 0 || of->is_written || whole->kind != CLEAVE_BUFFER_ACTIVATION)
        return;
    int32_t own = l->written[framework_place(l, whole->tensor, whole->device)];
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

static void note_read(framework_use *of, int32_t item) {
    of->backward_first = of->backward_first < 0 ? item : of->backward_first;
    of->backward_last = item;
}

static void note_forward(framework_lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_buffer *buffers = l->program->buffers;
    int n_inputs = l->program->model->nests[compute->nest].n_inputs;
    for (int k = 0; k < n_inputs; k++) {
        int32_t b = compute->inputs[k];
        if (b < 0)
            continue;
        framework_use *of = &l->uses[buffers[b].storage];
        of->forward_last = item;
        if (k == 0 && of->loss_first < 0 && reads_logits(l->program->model, compute->nest))
            of->loss_first = item;
        note_gathered(l, b, of);
    }
    int32_t b = compute->output;
    if (b < 0)
        return;
    framework_use *of = &l->uses[buffers[b].storage];
    of->forward_last = item;
    of->is_written = true;
    of->is_made_again = l->is_inside[compute->nest];
    l->written[framework_place(l, buffers[b].tensor, buffers[b].device)] = b + 1;
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
static void note_again(framework_lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_program *program = l->program;
    int32_t device = program->items[item].device, op = program->model->nests[compute->nest].op;
    if (l->layer[device] == 0 || !is_with(program->model, l->layer[device] - 1, op)) {
        l->layer[device] = op + 1;
        l->made_from[device] = item;
    }
    for (int k = 0; k < program->model->nests[compute->nest].n_inputs; k++) {
        int32_t b = compute->inputs[k];
        framework_use *of = b >= 0 ? &l->uses[program->buffers[b].storage] : NULL;
        if (of != NULL)
            note_read(of, item);
        if (of != NULL && of->is_made_again && l->framework->is_eager)
            of->made_from = l->made_from[device];
    }
    int32_t b = compute->output;
    if (b < 0)
        return;
    framework_use *of = &l->uses[program->buffers[b].storage];
    of->is_written = true;
    if (l->framework->is_eager)
        of->made_from = l->made_from[device];
}

static void note_backward(framework_lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_model *model = l->program->model;
    const cleave_nest *nest = &model->nests[compute->nest];
    bool scores = reads_scores(model, nest);
    for (int k = 0; k < nest->n_inputs; k++) {
        int32_t b = compute->input_gradients[k], logits = compute->inputs[k];
        framework_use *of = b >= 0 ? &l->uses[l->program->buffers[b].storage] : NULL;
        if (of != NULL)
            of->is_added = true;
        if (of != NULL && k == 0 && logits >= 0 && reads_logits(model, compute->nest))
            of->logits = l->program->buffers[logits].storage + 1;
    }
    for (int k = 0; k <= nest->n_inputs; k++) {
        int32_t b = k < nest->n_inputs ? compute->inputs[k] : compute->output;
        framework_use *of = b >= 0 ? &l->uses[l->program->buffers[b].storage] : NULL;
        bool goes =
            k < nest->n_inputs &&
            ((k == 0 && scores) || (of != NULL && of->is_written && reads_normed(l, nest, k)));
        if (of != NULL && goes) {
            of->is_let_go = true;
        } else if (of != NULL) {
            note_read(of, item);
        }
    }
}

/* What ends an operator with a product between others that are recomputed, and no backward reads.
 */
static bool ends_kept_product(const framework_lives *l, int32_t id) {
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
   each element, of all where the device gets what others dropped out, which a framework does on
   each of them; without a compiler the result of a product that a checkpoint keeps. */
static void note_waiting(framework_lives *l, int32_t item) {
    const cleave_program *program = l->program;
    const cleave_item *at = &program->items[item];
    const cleave_compute *compute = &program->computes[at->subject];
    const cleave_nest *nest = &program->model->nests[compute->nest];
    bool masks = nest->attention == NULL && has_dropout(nest);
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
        framework_put(
            l, at->device, masks ? from : program->buffers[output->storage].last + 1, item,
            masks ? l->largest[framework_place(l, output->tensor, at->device)] : output->bytes);
    }
}

/* A mask that is filled in a view: back autograd has what comes, a copy of it, a clone of that and
   what is filled, all at once (PyTorch's CopySlices); the first two are the program's. */
static void note_filling(framework_lives *l, const cleave_compute *compute, int32_t item) {
    const cleave_buffer *buffers = l->program->buffers;
    int32_t in = compute->output_gradient, out = compute->input_gradients[0];
    if (!l->framework->fills_masks || compute->pass != CLEAVE_PASS_INPUT_GRADIENT || in < 0 ||
        out < 0 || !cleave_nest_masks_by_place(&l->program->model->nests[compute->nest]))
        return;
    int n_there = buffers[in].storage == buffers[out].storage ? 1 : 2;
    for (int k = n_there; k < 4; k++)
        framework_put(l, buffers[out].device, item, item, buffers[out].bytes);
}

static void note_readers(framework_lives *l) {
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
static void note_inside(framework_lives *l) {
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

/* What collectives send beside computes of activations, and on which devices. */
static void note_sent(framework_lives *l) {
    const cleave_program *program = l->program;
    for (int32_t c = 0; c < program->n_collectives && l->framework->records_streams; c++) {
        const cleave_collective *of = &program->collectives[c];
        for (int32_t k = 0; k < of->n_devices && of->lane == CLEAVE_LANE_MAIN; k++)
            if (of->tensor >= 0 && cleave_program_has(program, of->devices[k]))
                l->is_sent[framework_place(
                    l, of->tensor, cleave_program_stands_for(program, of->devices[k]))] = true;
    }
}

/* Numbers the runs of a device's items by 1 + their first: a new one begins where backward follows
   forward, or the other way round, or where a pass of a nest comes again.  False when memory is
   short. */
static bool note_runs(framework_lives *l, cleave_arena *scratch) {
    const cleave_program *program = l->program;
    enum { N_PASSES = CLEAVE_PASS_UPDATE + 1 }; /* that of the update stands for forward again */
    int64_t n_devices = program->n_devices;
    int32_t *open = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_devices);
    int32_t *seen =
        CLEAVE_ARENA_ARRAY(scratch, int32_t, program->model->n_nests * N_PASSES * n_devices);
    bool *is_backward = CLEAVE_ARENA_ARRAY(scratch, bool, n_devices);
    if (open == NULL || seen == NULL || is_backward == NULL)
        return false;
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        int32_t *run = &open[item->device];
        if (item->kind == CLEAVE_ITEM_COMPUTE) {
            const cleave_compute *compute = &program->computes[item->subject];
            bool again = program->slots[item->slot].generation > 0;
            bool backward = compute->pass != CLEAVE_PASS_FORWARD || again;
            int pass = again ? CLEAVE_PASS_UPDATE : (int)compute->pass;
            int32_t *last =
                &seen[((int64_t)compute->nest * N_PASSES + pass) * n_devices + item->device];
            if (*run == 0 || backward != is_backward[item->device] || *last == *run)
                *run = i + 1;
            *last = *run;
            is_backward[item->device] = backward;
        }
        l->run[i] = *run;
        l->run_end[*run] = i;
    }
    return true;
}

static void note_messages(framework_lives *l) {
    const cleave_program *program = l->program;
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        framework_use *of = &l->uses[program->buffers[message->source_buffer].storage];
        of->message_last =
            message->send_item > of->message_last ? message->send_item : of->message_last;
    }
}

bool framework_note_uses(framework_lives *l, cleave_arena *scratch) {
    const cleave_program *program = l->program;
    if (l->framework->records_streams && !note_runs(l, scratch))
        return false;
    note_sent(l);
    if (l->framework->is_eager)
        note_readers(l);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        l->uses[b] = (framework_use){.forward_last = -1,
                                     .backward_first = -1,
                                     .backward_last = -1,
                                     .message_last = -1,
                                     .loss_first = -1,
                                     .made_from = -1};
        if (of->kind == CLEAVE_BUFFER_ACTIVATION && of->tensor >= 0) {
            int64_t *most = &l->largest[framework_place(l, of->tensor, of->device)];
            int64_t elements = framework_size_of(program, b);
            *most = *most > elements ? *most : elements;
        }
        if (of->kind != CLEAVE_BUFFER_PARAMETER || !of->persistent)
            continue;
        int32_t *known = &l->parameter[framework_place(l, of->tensor, of->device)];
        if (*known == 0 || framework_size_of(program, *known - 1) < framework_size_of(program, b))
            *known = b + 1;
    }
    note_messages(l);
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
    return true;
}
