/* What the user wants to be left as it is: operators whose splits are fixed, sorts of axes that
   alone may be split, a framework that is to run the layout.  Every function takes null for "no
   constraints". */
#ifndef CLEAVE_SEARCH_PROBLEM_CONSTRAINTS_H
#define CLEAVE_SEARCH_PROBLEM_CONSTRAINTS_H

#include "costmodel/machine.h"
#include "graph/export/plan.h"
#include "graph/model/axis_sort.h"
#include "graph/model/layout.h"

/* Zeroed, it allows everything; the functions below add to it. */
typedef struct cleave_constraints {
    const cleave_layout *fixed;    /* null: none; splits of the operators in is_fixed */
    const char *fixed_from;        /* the file, for messages */
    const bool *is_fixed;          /* [n_operators] */
    const bool *is_update_fixed;   /* [n_tensors] parameters whose update is that of `fixed` */
    int32_t n_fixed;               /* operators */
    uint32_t sorts;                /* bits of cleave_axis_sort that may be split; 0: all */
    const char *only;              /* the same as the user said it */
    cleave_axis_sorts axis_sorts;  /* where `sorts` is not 0 */
    const cleave_sayable *sayable; /* [n_operators] what the framework can say; null: none is asked
                                      for */
    int32_t n_devices;             /* of its stage, on all of which every operator then is, */
    bool narrows;                  /* unless the framework can run it on some alone */
    cleave_target target;
} cleave_constraints;

/* --fix: a layout file of some of the model's operators, which keep their splits; so do the updates
   of the parameters that it lists.  Its collectives are checked and not used.  `n_devices` are
   those of the search.  BAD_INPUT as cleave_layout_read, and where a listed operator has a part on
   another device, naming the operator and both. */
cleave_status cleave_constraints_fix(cleave_constraints *constraints, const char *path,
                                     const cleave_model *model, int32_t n_devices,
                                     cleave_arena *arena, cleave_error *error);

/* --only: names of sorts with commas between.  BAD_INPUT for another name. */
cleave_status cleave_constraints_restrict(cleave_constraints *constraints, const char *only,
                                          const cleave_model *model, cleave_arena *arena,
                                          cleave_error *error);

/* --for: what this framework can say, of this many devices. */
cleave_status cleave_constraints_for(cleave_constraints *constraints, cleave_target target,
                                     const cleave_model *model, int32_t n_devices,
                                     cleave_arena *arena, cleave_error *error);

/* The same within a stage on so many devices, of a model that may be shortened: `stands_for` as of
   cleave_few_blocks, or null.  No operator is fixed. */
cleave_status cleave_constraints_in_stage(const cleave_constraints *constraints, int32_t n_devices,
                                          const cleave_model *model, const int32_t *stands_for,
                                          cleave_arena *arena, const cleave_constraints **result,
                                          cleave_error *error);

/* May a stage begin with this operator? */
bool cleave_constraints_allow_stage(const cleave_constraints *constraints, int32_t op);

/* May this axis of an operator be split?  Whole axes are not looked at, fixed operators neither. */
bool cleave_constraints_allow_axis(const cleave_constraints *constraints, int32_t op, int axis);

/* May an operator stand on devices of its own?  Where the sort "operator" is not allowed, every
   operator has the first so many devices, 0 .. n_parts - 1, so that of any two operators one has
   all devices of the other and none is left to anyone. */
bool cleave_constraints_allow_blocks(const cleave_constraints *constraints);

/* Is a framework to run what is found?  Axes are cut into equal blocks alone then. */
bool cleave_constraints_have_target(const cleave_constraints *constraints);
/* Has this operator to be on all devices? */
bool cleave_constraints_take_all_for(const cleave_constraints *constraints, int32_t op);
/* May there be stages, micro-batches and recomputation? */
bool cleave_constraints_allow_stages(const cleave_constraints *constraints);

/* The split that a fixed operator keeps; null where it is not fixed. */
const cleave_split *cleave_constraints_fixed_split(const cleave_constraints *constraints,
                                                   int32_t op);

/* Do they say the same of two operators with the same axes? */
bool cleave_constraints_alike(const cleave_constraints *constraints, const cleave_model *model,
                              int32_t a, int32_t b);

/* Does a split keep to them?  Operators that are fixed keep theirs, whatever its axes.  Replicas
   are always allowed. */
bool cleave_constraints_allow(const cleave_constraints *constraints, const cleave_model *model,
                              int32_t op, const cleave_split *split);

/* The same for all operators, and the updates of parameters. */
bool cleave_constraints_allow_layout(const cleave_constraints *constraints,
                                     const cleave_model *model, const cleave_layout *layout);

/* Makes a layout keep to them: fixed operators get their splits; elsewhere degrees of forbidden
   axes become replicas, and devices the first so many in the order that they had.  What is allowed
   stays.  Nothing of the layout's old splits is written to. */
cleave_status cleave_constraints_impose(const cleave_constraints *constraints,
                                        const cleave_model *model, cleave_layout *layout,
                                        cleave_arena *arena, cleave_error *error);

/* Fails with NO_LAYOUT, naming operator, file and limit, where the fixed splits alone need more
   memory on a device than it has (`memory_limit_bytes`, 0: the machine's): parameters that the
   operators read there and what one part reads and writes at once, which every layout has to hold.
   A proof, not an estimate; passing says nothing. */
cleave_status cleave_constraints_check_memory(const cleave_constraints *constraints,
                                              const cleave_model *model,
                                              const cleave_machine *machine,
                                              int64_t memory_limit_bytes, cleave_error *error);

/* " under --fix FILE (3 operators) and --only sample", or "" where there are none. */
void cleave_constraints_describe(const cleave_constraints *constraints, char *text, size_t bytes);

#endif
