/* Measured against predicted, item by item. */
#include "simulator/report/timeline_errors.h"

#include <string.h>

const char *const cleave_time_row_names[CLEAVE_N_TIME_ROWS] = {"compute, measured prices",
                                                               "compute, predicted prices",
                                                               "compute, data-sheet prices",
                                                               "update",
                                                               "load",
                                                               "copy",
                                                               "send and receive",
                                                               "waiting"};

/* A wait that is over at once still takes a look or two at what came: less than this. */
static const int64_t least_wait = 20000000;

/* The row of an item that works; CLEAVE_TIME_WAITING for one that waits. */
static cleave_time_row row_of(const cleave_item *item, cleave_provenance provenance) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return provenance == CLEAVE_PROVENANCE_MEASURED    ? CLEAVE_TIME_COMPUTE_MEASURED
               : provenance == CLEAVE_PROVENANCE_PREDICTED ? CLEAVE_TIME_COMPUTE_PREDICTED
                                                           : CLEAVE_TIME_COMPUTE_DATA_SHEET;
    case CLEAVE_ITEM_UPDATE:
        return CLEAVE_TIME_UPDATE;
    case CLEAVE_ITEM_LOAD:
        return CLEAVE_TIME_LOAD;
    case CLEAVE_ITEM_COPY:
        return CLEAVE_TIME_COPY;
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_JOIN:
        return CLEAVE_TIME_POST;
    case CLEAVE_ITEM_WAIT:
    case CLEAVE_ITEM_SYNC:
    case CLEAVE_ITEM_AWAIT:
        break;
    }
    return CLEAVE_TIME_WAITING;
}

static int64_t size_of(const cleave_item_error *error) {
    int64_t difference = error->measured - error->predicted;
    return difference < 0 ? -difference : difference;
}

/* Items come in order, so among equals the first stays in front. */
static void keep_largest(cleave_timeline_errors *errors, cleave_item_error error) {
    int32_t at = errors->n_largest;
    while (at > 0 && size_of(&errors->largest[at - 1]) < size_of(&error))
        at--;
    if (at == CLEAVE_N_LARGEST_ERRORS)
        return;
    int32_t n_kept = errors->n_largest < CLEAVE_N_LARGEST_ERRORS ? errors->n_largest
                                                                 : CLEAVE_N_LARGEST_ERRORS - 1;
    memmove(&errors->largest[at + 1], &errors->largest[at],
            (size_t)(n_kept - at) * sizeof *errors->largest);
    errors->largest[at] = error;
    errors->n_largest = n_kept + 1;
}

static int64_t later_post(const cleave_message *message, const cleave_timeline *timeline) {
    int64_t send = timeline->end[message->send_item],
            receive = timeline->end[message->receive_item];
    return send > receive ? send : receive;
}

static void compare_message(const cleave_timeline_pair *pair, int32_t wait,
                            cleave_timeline_errors *errors) {
    const cleave_timeline *measured = pair->measured;
    const cleave_item *item = &pair->program->items[wait];
    const cleave_message *message = &pair->program->messages[item->subject];
    if (item->device != message->destination ||
        measured->end[wait] - measured->start[wait] < least_wait ||
        measured->end[message->send_item] < 0 || measured->end[message->receive_item] < 0)
        return;
    errors->n_messages_compared++;
    cleave_item_error error = {.item = wait,
                               .is_message = true,
                               .predicted = pair->predicted->arrival[item->subject] -
                                            later_post(message, pair->predicted),
                               .measured = measured->end[wait] - later_post(message, measured)};
    keep_largest(errors, error);
}

static void compare_work(const cleave_timeline_pair *pair, int32_t item, cleave_time_row row,
                         cleave_timeline_errors *errors) {
    cleave_time_total *waiting = &errors->totals[CLEAVE_TIME_WAITING],
                      *total = &errors->totals[row];
    cleave_item_error error = {.item = item,
                               .predicted = pair->price[item],
                               .measured =
                                   pair->typical_duration != NULL
                                       ? pair->typical_duration[item]
                                       : pair->measured->end[item] - pair->measured->start[item]};
    total->n++;
    total->predicted += error.predicted;
    total->measured += error.measured;
    waiting->predicted -= error.predicted;
    waiting->measured -= error.measured;
    if (row != CLEAVE_TIME_POST)
        keep_largest(errors, error);
}

void cleave_timeline_compare(const cleave_timeline_pair *pair, cleave_timeline_errors *errors) {
    const cleave_program *program = pair->program;
    cleave_time_total *waiting = &errors->totals[CLEAVE_TIME_WAITING];
    *errors = (cleave_timeline_errors){0};
    waiting->predicted = pair->predicted->step * program->n_devices;
    waiting->measured = pair->measured->step * program->n_devices;
    for (int32_t i = 0; i < program->n_items; i++) {
        if (pair->measured->start[i] < 0 || pair->measured->end[i] < pair->measured->start[i])
            continue;
        cleave_time_row row = row_of(&program->items[i], pair->basis[i].provenance);
        if (row != CLEAVE_TIME_WAITING)
            compare_work(pair, i, row, errors);
        else if (program->items[i].kind == CLEAVE_ITEM_WAIT)
            compare_message(pair, i, errors);
    }
}
