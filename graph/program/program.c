/* Reading programs, and the check of every invariant. */
#include "graph/program/program.h"

#include "graph/program/work.h"

bool cleave_program_spans(const cleave_program *program, const cleave_collective *collective) {
    int32_t i = 0;
    while (i < collective->n_devices && cleave_program_has(program, collective->devices[i]))
        i++;
    return i < collective->n_devices;
}

int32_t cleave_program_count_spanning(const cleave_program *program) {
    int32_t n = 0;
    for (int32_t c = 0; c < program->n_collectives && program->n_windows > 1; c++)
        n += cleave_program_spans(program, &program->collectives[c]);
    return n;
}

int64_t cleave_program_own_bytes(const cleave_program *program) {
    enum { PER_ITEM = 2 * sizeof(int64_t) + sizeof(bool), PER_MESSAGE = sizeof(int32_t) };
    const struct {
        int32_t n;
        size_t bytes;
    } arrays[] = {{program->n_items, sizeof *program->items + PER_ITEM},
                  {program->n_slots, sizeof *program->slots},
                  {program->n_buffers, sizeof *program->buffers},
                  {program->n_computes, sizeof *program->computes},
                  {program->n_updates, sizeof *program->updates},
                  {program->n_loads, sizeof *program->loads},
                  {program->n_copies, sizeof *program->copies},
                  {program->n_copy_pieces, sizeof *program->copy_pieces},
                  {program->n_messages, sizeof *program->messages + PER_MESSAGE},
                  {program->n_collectives, sizeof *program->collectives},
                  {program->n_held, sizeof *program->held}};
    int64_t bytes = 0, n_windows = program->n_windows > 1 ? program->n_windows : 1;
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        bytes += (int64_t)arrays[i].n * (int64_t)arrays[i].bytes;
    /* Slots and the collectives of all windows are there once. */
    int64_t once = (int64_t)program->n_slots * (int64_t)sizeof *program->slots +
                   (int64_t)program->n_spanning * (int64_t)sizeof *program->collectives;
    return once + (bytes - once) * n_windows;
}

double cleave_update_bytes(const cleave_program *program, const cleave_update *update) {
    int64_t exact = program->buffers[update->gradient].bytes;
    int n_states = (update->state[0] >= 0) + (update->state[1] >= 0);
    cleave_type stored = program->buffers[update->parameter].type;
    int64_t copy =
        update->master < 0 ? 0 : exact / cleave_type_bytes(CLEAVE_F32) * cleave_type_bytes(stored);
    return cleave_work_bytes_of_update(exact, n_states) + (double)copy;
}

static cleave_status bad_item(const cleave_program *program, int32_t item, const char *what,
                              cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "program item %d of %d (kind %d, device %d): %s", item,
                       program->n_items, (int)program->items[item].kind,
                       program->items[item].device, what);
}

static bool buffer_on(const cleave_program *program, int32_t buffer, int32_t device, int32_t item) {
    if (buffer < 0)
        return true;
    if (buffer >= program->n_buffers)
        return false;
    const cleave_buffer *root = &program->buffers[program->buffers[buffer].storage];
    return root->device == device && (program->items[item].lane != CLEAVE_LANE_MAIN ||
                                      (root->first <= item && item <= root->last));
}

static bool piece_side_fits(const cleave_program *program, const cleave_copy_piece *piece,
                            cleave_type type, int32_t buffer, int64_t offset,
                            const int64_t *stride) {
    int64_t last = offset;
    for (int d = 0; d < piece->rank; d++) {
        if (piece->extent[d] < 1 || stride[d] < 0)
            return false;
        last += (piece->extent[d] - 1) * stride[d];
    }
    return offset >= 0 && (last + 1) * cleave_type_bytes(type) <= program->buffers[buffer].bytes;
}

static cleave_status check_copy(const cleave_program *program, int32_t item, cleave_error *error) {
    const cleave_copy *copy = &program->copies[program->items[item].subject];
    int32_t device = program->items[item].device;
    for (int32_t p = copy->first_piece; p < copy->first_piece + copy->n_pieces; p++) {
        const cleave_copy_piece *piece = &program->copy_pieces[p];
        bool fill = piece->mode == CLEAVE_COPY_FILL;
        if (piece->destination < 0 || !buffer_on(program, piece->destination, device, item) ||
            (!fill && (piece->source < 0 || !buffer_on(program, piece->source, device, item))))
            return bad_item(program, item,
                            "a copy uses a buffer of another device or out of its life", error);
        if (!piece_side_fits(program, piece, piece->type, piece->destination,
                             piece->destination_offset, piece->destination_stride) ||
            (!fill && !piece_side_fits(program, piece, piece->source_type, piece->source,
                                       piece->source_offset, piece->source_stride)))
            return bad_item(program, item, "a copy leaves its buffer", error);
        if (program->buffers[piece->destination].type != piece->type ||
            (!fill && program->buffers[piece->source].type != piece->source_type))
            return bad_item(program, item, "a copy takes elements for what they are not", error);
    }
    return CLEAVE_OK;
}

static cleave_status check_compute(const cleave_program *program, int32_t item,
                                   cleave_error *error) {
    const cleave_compute *compute = &program->computes[program->items[item].subject];
    int32_t device = program->items[item].device;
    bool fine = compute->part.device == device &&
                buffer_on(program, compute->output, device, item) &&
                buffer_on(program, compute->combined, device, item) &&
                buffer_on(program, compute->output_gradient, device, item) &&
                buffer_on(program, compute->workspace, device, item);
    for (int i = 0; i < CLEAVE_MAX_INPUTS; i++)
        fine = fine && buffer_on(program, compute->inputs[i], device, item) &&
               buffer_on(program, compute->input_gradients[i], device, item);
    return fine ? CLEAVE_OK
                : bad_item(program, item,
                           "a compute uses a buffer of another device or out of its life", error);
}

static cleave_status check_message_item(const cleave_program *program, int32_t item,
                                        cleave_error *error) {
    const cleave_item *at = &program->items[item];
    const cleave_message *message = &program->messages[at->subject];
    bool sends = message->source == at->device;
    if ((!sends && message->destination != at->device) || message->source == message->destination ||
        message->lane != at->lane || message->bytes < 1)
        return bad_item(program, item, "a message is not between two devices of this lane", error);
    int32_t posted = sends ? message->send_item : message->receive_item;
    if (at->kind == CLEAVE_ITEM_WAIT ? posted < 0 || posted >= item
                                     : posted != item || sends != (at->kind == CLEAVE_ITEM_SEND))
        return bad_item(program, item,
                        "a message is waited for before it is posted, or posted twice", error);
    int32_t buffer = sends ? message->source_buffer : message->destination_buffer;
    int64_t offset = sends ? message->source_offset : message->destination_offset;
    if (buffer < 0 || !buffer_on(program, buffer, at->device, item) || offset < 0 ||
        offset > program->buffers[buffer].bytes - message->bytes)
        return bad_item(program, item, "a message leaves its buffer", error);
    return CLEAVE_OK;
}

/* `n_subjects` by kinds of items; a SYNC's subject is an earlier one. */
static int64_t elements_of(const cleave_program *program, int32_t buffer) {
    return program->buffers[buffer].bytes / cleave_type_bytes(program->buffers[buffer].type);
}

static cleave_status check_update(const cleave_program *program, int32_t item,
                                  cleave_error *error) {
    const cleave_update *update = &program->updates[program->items[item].subject];
    int32_t device = program->items[item].device, master = update->master;
    if (update->parameter < 0 || update->gradient < 0 ||
        !buffer_on(program, update->parameter, device, item) ||
        !buffer_on(program, update->gradient, device, item) ||
        !buffer_on(program, master, device, item) ||
        !buffer_on(program, update->squares, device, item) || update->first < 0 ||
        elements_of(program, update->parameter) - update->first <
            elements_of(program, update->gradient) ||
        (master >= 0 && elements_of(program, master) != elements_of(program, update->gradient)) ||
        program->buffers[update->gradient].type != CLEAVE_F32 ||
        program->buffers[master >= 0 ? master : update->parameter].type != CLEAVE_F32)
        return bad_item(program, item, "an update whose buffers do not match", error);
    return CLEAVE_OK;
}

static cleave_status check_item(const cleave_program *program, const int32_t *n_subjects,
                                int32_t item, cleave_error *error) {
    const cleave_item *at = &program->items[item];
    if (at->kind > CLEAVE_ITEM_AWAIT || at->lane >= CLEAVE_N_LANES || at->device < 0 ||
        at->device >= program->n_devices || at->slot < 0 || at->slot >= program->n_slots ||
        at->subject < 0 ||
        at->subject >= (at->kind == CLEAVE_ITEM_SYNC ? item : n_subjects[at->kind]))
        return bad_item(program, item, "out of range", error);
    switch ((cleave_item_kind)at->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return check_compute(program, item, error);
    case CLEAVE_ITEM_COPY:
        return check_copy(program, item, error);
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT:
        return check_message_item(program, item, error);
    case CLEAVE_ITEM_SYNC:
        if (program->items[at->subject].device != at->device ||
            program->items[at->subject].lane == at->lane)
            return bad_item(program, item, "a sync waits for its own lane or another device",
                            error);
        return CLEAVE_OK;
    case CLEAVE_ITEM_UPDATE:
        return check_update(program, item, error);
    default:
        return CLEAVE_OK;
    }
}

/* Messages of one pair and lane are posted in the same order at both ends: ids grow with both. */
static cleave_status check_message_order(const cleave_program *program, cleave_error *error) {
    cleave_arena scratch = {0};
    size_t n = (size_t)program->n_devices;
    int32_t *last = CLEAVE_ARENA_ARRAY(&scratch, int32_t, 2 * n * n * CLEAVE_N_LANES);
    cleave_status status =
        last == NULL ? cleave_fail_memory(error, "checking a program") : CLEAVE_OK;
    for (int32_t m = 0; m < program->n_messages && status == CLEAVE_OK; m++) {
        const cleave_message *message = &program->messages[m];
        int32_t *pair = &last[2 * (((size_t)message->source * n + (size_t)message->destination) *
                                       CLEAVE_N_LANES +
                                   message->lane)];
        if (message->send_item < pair[0] || message->receive_item < pair[1] ||
            message->send_item < 0 || message->receive_item < 0)
            status = cleave_fail(
                error, CLEAVE_FAILED,
                "message %d from device %d to %d is not posted in the same order at both ends", m,
                message->source, message->destination);
        pair[0] = message->send_item;
        pair[1] = message->receive_item;
    }
    cleave_arena_free(&scratch);
    return status;
}

/* What a step computes is by the parameters that it began with. */
static cleave_status check_update_order(const cleave_program *program, cleave_error *error) {
    cleave_arena scratch = {0};
    bool *is_new = CLEAVE_ARENA_ARRAY(&scratch, bool, program->n_buffers);
    cleave_status status =
        is_new == NULL ? cleave_fail_memory(error, "checking a program") : CLEAVE_OK;
    for (int32_t i = 0; i < program->n_items && status == CLEAVE_OK; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind == CLEAVE_ITEM_UPDATE)
            is_new[program->buffers[program->updates[item->subject].parameter].storage] = true;
        for (int k = 0; k < CLEAVE_MAX_INPUTS && item->kind == CLEAVE_ITEM_COMPUTE; k++) {
            int32_t read = program->computes[item->subject].inputs[k];
            if (read >= 0 && is_new[program->buffers[read].storage])
                status = bad_item(program, i, "a compute reads a parameter that is updated", error);
        }
    }
    cleave_arena_free(&scratch);
    return status;
}

/* Of a program without a memory plan nothing lies anywhere. */
static bool lies_in_arena(const cleave_program *program, const cleave_buffer *buffer) {
    return program->peak_bytes == NULL ||
           (buffer->offset >= 0 &&
            buffer->offset + buffer->bytes <= program->peak_bytes[buffer->device]);
}

cleave_status cleave_program_check(const cleave_program *program, cleave_error *error) {
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->device < 0 || buffer->device >= program->n_devices || buffer->bytes < 0 ||
            buffer->storage < 0 || buffer->storage >= program->n_buffers ||
            buffer->first > buffer->last || !lies_in_arena(program, buffer) ||
            program->buffers[buffer->storage].device != buffer->device ||
            program->buffers[buffer->storage].bytes < buffer->bytes)
            return cleave_fail(error, CLEAVE_FAILED, "program buffer %d of %d is out of place", b,
                               program->n_buffers);
    }
    const int32_t n_subjects[CLEAVE_ITEM_AWAIT + 1] = {
        [CLEAVE_ITEM_COMPUTE] = program->n_computes, [CLEAVE_ITEM_UPDATE] = program->n_updates,
        [CLEAVE_ITEM_LOAD] = program->n_loads,       [CLEAVE_ITEM_COPY] = program->n_copies,
        [CLEAVE_ITEM_SEND] = program->n_messages,    [CLEAVE_ITEM_RECEIVE] = program->n_messages,
        [CLEAVE_ITEM_WAIT] = program->n_messages,    [CLEAVE_ITEM_JOIN] = program->n_collectives,
        [CLEAVE_ITEM_AWAIT] = program->n_collectives};
    for (int32_t i = 0; i < program->n_items; i++)
        CLEAVE_TRY(check_item(program, n_subjects, i, error));
    CLEAVE_TRY(check_update_order(program, error));
    return check_message_order(program, error);
}
