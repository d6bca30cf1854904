/* Reads the events of a Chrome trace one at a time, so that a trace of any size needs little
   memory. */
#ifndef CLEAVE_CLI_TRACE_READER_H
#define CLEAVE_CLI_TRACE_READER_H

#include "base/json.h"

#include <stdio.h>

typedef struct trace_reader {
    const char *path;
    FILE *stream;
    char *text; /* of the current event */
    size_t n, capacity;
    int64_t n_events; /* read so far */
} trace_reader;

/* Opens a file at its first event if it is a trace: a list, or an object with a list "traceEvents".
   Otherwise false: there is nothing to close, and what is wrong with the file, if anything, is for
   others to say. */
bool trace_reader_open(trace_reader *reader, const char *path);
void trace_reader_close(trace_reader *reader);

/* The next event as a document, to be freed; null after the last.  BAD_INPUT names the event. */
cleave_status trace_reader_next(trace_reader *reader, cleave_json **event, cleave_error *error);

/* Hands over every event that is left. */
typedef cleave_status (*trace_take)(void *context, const cleave_json_cursor *event,
                                    cleave_error *error);
cleave_status trace_reader_each(trace_reader *reader, trace_take take, void *context,
                                cleave_error *error);

#endif
