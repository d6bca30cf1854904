/* Prices of the items of a program on a machine. */
#ifndef CLEAVE_COSTMODEL_COST_H
#define CLEAVE_COSTMODEL_COST_H

#include "costmodel/machine.h"
#include "graph/lower.h"
#include "graph/program.h"
#include "graph/work.h"

/* Seconds of one compute on a kind of device, and where the figure comes from. */
double cleave_cost_compute(const cleave_device_kind *kind, const cleave_work *work,
                           cleave_provenance *provenance);

/* Remembers prices by (nest, pass, extents of the part) from program to program: for the search. */
typedef struct cleave_cost_cache cleave_cost_cache;
cleave_status cleave_cost_cache_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_cost_cache **cache, cleave_error *error);
void cleave_cost_cache_destroy(cleave_cost_cache *cache);

/* Duration of every item, picoseconds, [n_items]: compute, update, load and copy times; the
   processor's share of posting a send or a receive; 0 for waits. */
cleave_status cleave_cost_items(const cleave_program *program, cleave_cost_cache *cache,
                                int64_t *duration, cleave_error *error);

/* A collective in closed form: picoseconds from its last join to its end. */
int64_t cleave_cost_collective(const cleave_machine *machine, const cleave_collective *collective);

/* A cleave_workspace_function with a cleave_machine as context: measured, else 0. */
int64_t cleave_cost_workspace(void *machine, const cleave_model *model, const cleave_nest *nest,
                              cleave_pass pass, const cleave_part *part);

#endif
