/* What a program sends: its messages, and what collectives in symbolic form stand for, step by step
   of their algorithms.  These are counted as if their blocks were equal. */
#ifndef CLEAVE_GRAPH_PROGRAM_TRAFFIC_H
#define CLEAVE_GRAPH_PROGRAM_TRAFFIC_H

#include "graph/program/program.h"

typedef void cleave_send_function(void *context, int32_t source, int32_t destination, double bytes);

/* Of a collective like this one, of so many bytes: every pair of devices that it sends between, in
   its window. */
void cleave_collective_sends(const cleave_collective *of, double bytes, cleave_send_function *send,
                             void *context);

/* How often each is done: [n_messages], [n_collectives]; null: once. */
typedef struct cleave_traffic_times {
    const int32_t *messages, *collectives;
} cleave_traffic_times;

/* Bytes sent over one step by all devices of all windows.  `times` may be null. */
int64_t cleave_program_bytes_sent(const cleave_program *program, const cleave_traffic_times *times);

/* What collectives of one kind, of so many devices each, send in all; or messages. */
typedef struct cleave_sent {
    bool messages; /* else: */
    cleave_collective_kind kind;
    int32_t n_devices;
    int64_t times;
    int64_t bytes;      /* of vectors (of a reduce-scatter and an all-gather: whole), of messages */
    int64_t bytes_sent; /* by all devices */
} cleave_sent;

/* Of a program in symbolic form, in the arena; all that `cleave_program_bytes_sent` counts. */
cleave_status cleave_program_sent_by_kind(const cleave_program *program,
                                          const cleave_traffic_times *times, cleave_arena *arena,
                                          cleave_sent **sent, int32_t *n_sent, cleave_error *error);

/* Bytes between every pair, [source x n + destination], n being the devices of all windows.  Shares
   of a byte are added up as such, in any order alike. */
cleave_status cleave_program_bytes_between(const cleave_program *program,
                                           const cleave_traffic_times *times, cleave_arena *arena,
                                           int64_t **bytes, cleave_error *error);

#endif
