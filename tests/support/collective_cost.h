/* Prices of single collectives in closed form. */
#ifndef CLEAVE_TESTS_SUPPORT_COLLECTIVE_COST_H
#define CLEAVE_TESTS_SUPPORT_COLLECTIVE_COST_H

#include "costmodel/collective_rounds.h"

#include <stdlib.h>

static inline cleave_collective_cost collective_cost_parts(const cleave_machine *machine,
                                                           const cleave_collective *collective) {
    cleave_collective_rounds rounds;
    double *load = calloc((size_t)machine->n_links + 1, sizeof *load);
    cleave_collective_rounds_find(machine, collective, load, &rounds);
    free(load);
    return cleave_collective_rounds_price(&rounds, collective->bytes, collective->bytes);
}

/* Picoseconds from its last join to its end. */
static inline int64_t collective_cost(const cleave_machine *machine,
                                      const cleave_collective *collective) {
    cleave_collective_cost cost = collective_cost_parts(machine, collective);
    return cost.busy + cost.rest;
}

#endif
