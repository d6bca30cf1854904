/* Names of items. */
#include "simulator/report/item_label.h"

#include <stdio.h>

static const char *const kind_names[] = {"compute", "update", "load", "copy", "send",
                                         "receive", "wait",   "sync", "join", "await"};

const char *cleave_item_label_tensor(const cleave_program *program, int32_t tensor) {
    bool known = tensor >= 0 && tensor < program->model->n_tensors;
    return known ? program->model->tensors[tensor].name : "?";
}

const char *cleave_item_label_slot(const cleave_program *program, int32_t slot) {
    const cleave_slot *of = &program->slots[slot];
    return of->nest >= 0 ? program->model->nests[of->nest].name
                         : cleave_item_label_tensor(program, of->tensor);
}

cleave_item_label cleave_item_label_of(const cleave_program *program, const cleave_item *item) {
    bool in_slot = item->slot >= 0 && item->slot < program->n_slots;
    const cleave_slot *slot = in_slot ? &program->slots[item->slot] : NULL;
    cleave_item_label label = {.kind = kind_names[item->kind],
                               .name = "",
                               .pass = in_slot ? cleave_pass_names[slot->pass] : ""};
    int32_t subject = item->subject;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        label.name = program->model->nests[program->computes[subject].nest].name;
        label.pass = cleave_pass_names[program->computes[subject].pass];
        break;
    case CLEAVE_ITEM_UPDATE:
        label.name = cleave_item_label_tensor(program, program->updates[subject].tensor);
        label.pass = cleave_pass_names[CLEAVE_PASS_UPDATE];
        break;
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT:
        label.name = cleave_item_label_tensor(program, program->messages[subject].tensor);
        break;
    case CLEAVE_ITEM_LOAD:
        label.name = cleave_item_label_tensor(
            program, program->buffers[program->loads[subject].buffer].tensor);
        break;
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        label.name = cleave_item_label_tensor(program, program->collectives[subject].tensor);
        break;
    case CLEAVE_ITEM_COPY:
        label.name = in_slot ? cleave_item_label_slot(program, item->slot) : "?";
        break;
    case CLEAVE_ITEM_SYNC:
        break;
    }
    return label;
}

void cleave_item_label_format(const cleave_program *program, const cleave_item *item, char *text,
                              size_t bytes) {
    cleave_item_label label = cleave_item_label_of(program, item);
    const cleave_message *message;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
    case CLEAVE_ITEM_UPDATE:
        snprintf(text, bytes, "%s %s", label.name, label.pass);
        break;
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT:
        message = &program->messages[item->subject];
        snprintf(text, bytes, "%s %s %d -> %d", label.kind, label.name, message->source,
                 message->destination);
        break;
    case CLEAVE_ITEM_COPY:
        snprintf(text, bytes, "copy for %s %s", label.name, label.pass);
        break;
    case CLEAVE_ITEM_LOAD:
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
    case CLEAVE_ITEM_SYNC:
        snprintf(text, bytes, "%s %s", label.kind, label.name);
    }
}
