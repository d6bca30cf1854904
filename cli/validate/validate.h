/* What `cleave validate` finds of one run, and what it prints of all. */
#ifndef CLEAVE_CLI_VALIDATE_VALIDATE_H
#define CLEAVE_CLI_VALIDATE_VALIDATE_H

#include "cli/validate/runs.h"
#include "simulator/report/price_shares.h"

/* A run and what is predicted of it. */
typedef struct validated_run {
    const run_record *run;
    const char *refused; /* why it is not priced; null: it is, and what follows is set */
    cleave_status status;
    double step_seconds;
    cleave_price_shares shares;
    double plan_bytes;     /* of the fullest device, as a search says it */
    double memory_bytes;   /* what a framework would allocate there, where that is known, */
    double reserved_bytes; /* and its allocator reserve */
} validated_run;

typedef struct validated_table {
    const char *file;
    int32_t n;
    validated_run *runs; /* [n] in the order of the table */
} validated_table;

/* A line for each run, those that are not priced with the reason, and how well each group, and all
   of them, agree. */
cleave_status validate_print_text(const validated_table *table, cleave_arena *arena,
                                  cleave_error *error);
/* One JSON object of the same. */
cleave_status validate_print_json(const validated_table *table, cleave_arena *arena,
                                  cleave_error *error);

#endif
