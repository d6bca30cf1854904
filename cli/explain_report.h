/* What `cleave explain` found, for people and in JSON. */
#ifndef CLEAVE_CLI_EXPLAIN_REPORT_H
#define CLEAVE_CLI_EXPLAIN_REPORT_H

#include "search/explain/explain.h"

void explain_print(const explanation *e, cleave_arena *arena);
cleave_status explain_print_json(const explanation *e, cleave_error *error);

#endif
