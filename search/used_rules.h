/* Which of a layout's rules for collectives its own collectives run by. */
#ifndef CLEAVE_SEARCH_USED_RULES_H
#define CLEAVE_SEARCH_USED_RULES_H

#include "graph/collective_rules.h"
#include "graph/program.h"

/* Leaves those rules that a collective of the program, which has them in closed form, runs by. */
cleave_status cleave_keep_used_rules(const cleave_program *program, cleave_arena *scratch,
                                     cleave_collective_rules *rules, cleave_error *error);

#endif
