/* What came of the points of a sweep, and the file that holds it, whole or not yet: sweep.json.

   The file says what the sweep is of, so that one that goes on (--resume) goes on with the same.
   What follows from records alone (throughput, cost, knees) is in it for readers, and is not read
   back. */
#ifndef CLEAVE_CLI_SWEEP_RECORD_H
#define CLEAVE_CLI_SWEEP_RECORD_H

#include "cli/sweep/plan.h"

typedef struct sweep_record {
    bool is_done;
    const char *why; /* no layout fits, in these words; null: what follows is set */
    const char *method;
    int64_t batch, micro_batches, stages, recomputed_operators;
    double step_seconds, lower_bound_seconds; /* bound: 0 where none is known */
    double links;                             /* share of the step */
    int64_t peak_bytes, bytes_sent;           /* bytes_sent: -1 where it is not known */
} sweep_record;

/* What is asked about money and time; 0: nothing. */
typedef struct sweep_question {
    double price_per_device_hour, samples;
} sweep_question;

typedef struct sweep {
    sweep_plan plan;
    const char *model_hash;
    sweep_question question;
    sweep_record *records; /* [n_points] */
} sweep;

/* Samples a second of a point that is done and fits; else 0. */
double sweep_throughput(const sweep *of, int32_t point);
/* Days that `samples` take, and what they cost; of a point that is done and fits. */
double sweep_days(const sweep *of, int32_t point, double samples);
double sweep_cost(const sweep *of, int32_t point, double samples);

/* What `search --json` said of a point. */
cleave_status sweep_record_take(const cleave_json *searched, cleave_arena *arena,
                                sweep_record *record, cleave_error *error);

/* The whole file, with the points that are done. */
void sweep_put(const sweep *of, cleave_json_writer *w);

/* Takes the records of a file; `records` are zeroed where it has none yet.  BAD_INPUT where it is
   of another sweep. */
cleave_status sweep_parse(const char *text, size_t bytes, const char *name, cleave_arena *arena,
                          sweep *of, cleave_error *error);

#endif
