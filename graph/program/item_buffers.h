/* Which buffers an item reads or writes. */
#ifndef CLEAVE_GRAPH_PROGRAM_ITEM_BUFFERS_H
#define CLEAVE_GRAPH_PROGRAM_ITEM_BUFFERS_H

#include "graph/program/program.h"

/* The records that items refer to, wherever they stand: of a program, a fragment, or what is being
   made. */
typedef struct cleave_item_records {
    const cleave_compute *computes; /* null: there are none */
    const cleave_update *updates;
    const cleave_load *loads;
    const cleave_copy *copies;
    const cleave_copy_piece *copy_pieces; /* null: they are not listed, and not visited */
    const cleave_message *messages;
} cleave_item_records;

/* Calls `visit` with each of them, -1 where the item has none in that place.  Of a message it is
   the one at the item's end.  Inline, since estimates go through all items of a fragment. */
static inline void cleave_item_visit_buffers(const cleave_item_records *records,
                                             const cleave_item *item,
                                             void (*visit)(void *context, int32_t buffer),
                                             void *context) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE: {
        const cleave_compute *compute = &records->computes[item->subject];
        for (int i = 0; i < CLEAVE_MAX_INPUTS; i++) {
            visit(context, compute->inputs[i]);
            visit(context, compute->input_gradients[i]);
        }
        visit(context, compute->output);
        visit(context, compute->combined);
        visit(context, compute->output_gradient);
        visit(context, compute->workspace);
        break;
    }
    case CLEAVE_ITEM_UPDATE: {
        const cleave_update *update = &records->updates[item->subject];
        visit(context, update->parameter);
        visit(context, update->gradient);
        visit(context, update->master);
        visit(context, update->state[0]);
        visit(context, update->state[1]);
        visit(context, update->squares);
        break;
    }
    case CLEAVE_ITEM_LOAD:
        visit(context, records->loads[item->subject].buffer);
        break;
    case CLEAVE_ITEM_COPY: {
        if (records->copy_pieces == NULL)
            break;
        const cleave_copy *copy = &records->copies[item->subject];
        for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
            visit(context, records->copy_pieces[p].destination);
            visit(context, records->copy_pieces[p].source);
        }
        break;
    }
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT: {
        const cleave_message *message = &records->messages[item->subject];
        bool sends = message->source == item->device;
        visit(context, sends ? message->source_buffer : message->destination_buffer);
        break;
    }
    case CLEAVE_ITEM_SYNC:
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        break;
    }
}

#endif
