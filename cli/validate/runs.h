/* A table of runs that were measured: RUNS.csv of `cleave validate`.

   The first row names columns, in any order; each further row is a run.  A cell is read as the
   option that its column is like would be, and an empty one is the column's default.  What a run
   was is said in the degrees that people start frameworks with. */
#ifndef CLEAVE_CLI_VALIDATE_RUNS_H
#define CLEAVE_CLI_VALIDATE_RUNS_H

#include "base/arena.h"
#include "cli/options.h"

/* What the cells of a row say; numbers are filled in where others tell. */
typedef struct run_record {
    int32_t line;
    const char *group, *name; /* "" where they are not given */
    const char *model;        /* a file, or the text of a config.json */
    const char *machine;      /* a file */
    const char *schedule, *recompute, *sharding, *precision, *reduce_precision, *attention,
        *optimizer;
    const char *sequence_parallel; /* "yes" or "no" */
    const char *framework;
    const char *layers;  /* of each stage, such as "13|11"; null: as takes least */
    const char *besides; /* what the run did that has no column: it is not priced; null: nothing */
    int64_t devices, sequence, batch, micro_batch, micro_batches;
    int64_t data, tensor, pipeline, virtual_stages, context, expert; /* degrees */
    double capacity_factor;                                          /* of experts; 0: not given */
    /* Measured: seconds, and bytes of the fullest device, allocated and reserved; 0: not. */
    double step, memory, reserved;
} run_record;

typedef struct run_table {
    int32_t n;
    run_record *rows;
} run_table;

/* Reads a whole table; paths in it are relative to its folder.  BAD_INPUT, with file, line and
   column, for what is no table, for columns and values that are not known, and for numbers that
   contradict each other. */
cleave_status runs_read(const char *path, cleave_arena *arena, run_table *table,
                        cleave_error *error);
cleave_status runs_parse(const char *text, size_t bytes, const char *path, cleave_arena *arena,
                         run_table *table, cleave_error *error);

#endif
