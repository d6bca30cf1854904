/* What a machine is to whom only devices of one kind matter. */
#ifndef CLEAVE_COSTMODEL_MACHINE_KIND_H
#define CLEAVE_COSTMODEL_MACHINE_KIND_H

#include "costmodel/machine.h"

/* Kinds that devices in use have: [n_kinds] how many. */
void cleave_machine_count_kinds(const cleave_machine *machine, int32_t *n_devices);

/* The devices in use of one kind alone, 0, 1, ... in their order, in nodes without the others; null
   `kept`, or [n_devices of the kind] which they are.  `made` false: none is of that kind, or what
   is left is no machine, as of a torus, or where other devices join nodes to the network.  Kinds
   keep their numbers.  In the arena. */
cleave_status cleave_machine_of_kind(const cleave_machine *machine, int32_t kind,
                                     cleave_arena *arena, cleave_machine *of_kind, int32_t *kept,
                                     bool *made, cleave_error *error);

/* All devices in use, as if they were of that kind. */
cleave_status cleave_machine_as_kind(const cleave_machine *machine, int32_t kind,
                                     cleave_arena *arena, cleave_machine *as_kind,
                                     cleave_error *error);

#endif
