/* The door: what include/cleave/cleave.h promises, in terms of the rooms.  Opaque objects are the
   house's own, each beside the arena that it lives in. */
#ifndef CLEAVE_LIBRARY_OBJECTS_H
#define CLEAVE_LIBRARY_OBJECTS_H

#include "costmodel/machine.h"
#include "graph/model/layout.h"
#include "graph/model/model.h"

/* The object is the first member, so that a pointer to it is one to what holds it. */
typedef struct door_model {
    cleave_model model;
    cleave_arena arena;
} door_model;

typedef struct door_machine {
    cleave_machine machine;
    cleave_arena arena;
} door_machine;

typedef struct door_layout {
    cleave_layout layout;
    cleave_arena arena;
} door_layout;

/* Settings of `bytes` bytes, which begin with their size, from those of a program that may have
   been compiled with more or fewer of them; what it has not stays as it is.  `given` may be null.
   BAD_INPUT where it sets some that are not known here. */
cleave_status door_take_settings(void *settings, size_t bytes, const void *given,
                                 cleave_error *error);

/* Values of state per parameter; `name` may be null. */
cleave_status door_optimizer_states(const char *name, double momentum, int *states,
                                    cleave_error *error);

/* Can the layout be put on this machine? */
cleave_status door_check_layout(const cleave_model *model, const cleave_machine *machine,
                                const cleave_layout *layout, cleave_error *error);

#endif
