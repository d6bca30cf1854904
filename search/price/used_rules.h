/* Which of a layout's rules for collectives its own collectives run by. */
#ifndef CLEAVE_SEARCH_PRICE_USED_RULES_H
#define CLEAVE_SEARCH_PRICE_USED_RULES_H

#include "graph/model/collective_rules.h"
#include "graph/program/program.h"

/* Marks the rules ([rules->n]) that a collective of the program runs by, which has them in their
   steps or in closed form. */
void cleave_find_used_rules(const cleave_program *program, const cleave_collective_rules *rules,
                            bool *used);
/* Leaves those rules that are marked. */
void cleave_keep_rules(const bool *used, cleave_collective_rules *rules);

#endif
