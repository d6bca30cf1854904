/* What `cleave explain` found, for people and in JSON. */
#ifndef CLEAVE_CLI_EXPLAIN_REPORT_H
#define CLEAVE_CLI_EXPLAIN_REPORT_H

#include "base/json.h"
#include "search/explain/explain.h"

extern const char *const explain_buffer_names[CLEAVE_N_BUFFER_KINDS]; /* "parameters", ... */

/* Operators that are alike but for a number in their names, as those of layers are, told once. */
typedef struct explain_told {
    const char *name;
    int32_t count;        /* so many operators, */
    int32_t first;        /* and the first of them by their share */
    int32_t best;         /* that whose next best split is the best; -1: none has one */
    explain_operator sum; /* of all of them */
} explain_told;

/* Finds [*n] of them, the largest shares first; null: memory is short. */
explain_told *explain_tell(const explanation *e, cleave_arena *arena, int32_t *n);
/* What is said instead of the next best split where there is none. */
const char *explain_why_no_other(const explanation *e, const explain_told *of);

/* "critical_seconds": {..}, by sort: a member of an open object. */
void explain_put_critical(cleave_json_writer *writer, const explain_path *path);

void explain_print(const explanation *e, cleave_arena *arena);
cleave_status explain_print_json(const explanation *e, cleave_error *error);

#endif
