/* Lowering: a model and a layout become a program. */
#ifndef CLEAVE_GRAPH_LOWER_LOWER_H
#define CLEAVE_GRAPH_LOWER_LOWER_H

#include "graph/model/fold.h"
#include "graph/program/program.h"

/* Bytes of scratch that a kernel needs for this work; from the machine file when predicting, from
   the kernel library when running. */
typedef int64_t cleave_workspace_function(void *context, const cleave_model *model,
                                          const cleave_nest *nest, cleave_pass pass,
                                          const cleave_part *part);

typedef struct cleave_lower_options {
    bool training;             /* the model must have a loss */
    bool symbolic_collectives; /* collectives as one item each: for the search */
    int32_t least_collective;  /* devices of one; 0: CLEAVE_LEAST_COLLECTIVE */
    int64_t together_bytes;    /* gradients of parameters set out in vectors of so many bytes, when
                                  backward has given the last of one, as frameworks have it; not in
                                  micro-batches or stages.  0: each as it comes */
    bool for_price; /* pieces of copies are counted, but may not be listed: a price needs none */
    int64_t most_records;        /* items, buffers and pieces of copies of all micro-batches; 0: any
                                    number.        More is NO_LAYOUT */
    const int64_t *enough_bytes; /* [n_devices] arenas that need not be smaller; null: none */
    int optimizer_states;        /* 0, 1 (momentum) or 2 (Adam, AdamW) state values per parameter */
    cleave_workspace_function *workspace; /* may be null: none */
    void *workspace_context;
} cleave_lower_options;

/* The layout must be legal (cleave_layout_check).  The program lives in `arena` and refers to the
   model; the memory plan is done.  FAILED when memory is short or the program has more than 2^31
   items. */
cleave_status cleave_lower(const cleave_model *model, const cleave_layout *layout,
                           const cleave_lower_options *options, cleave_arena *arena,
                           cleave_program *program, cleave_error *error);

/* Lowers three micro-batches of the many that a layout has, and no memory plan: what a step of all
   of them does follows from `turns`.  The layout is to be trained and has more than three.  Of all
   devices, or, with a fold of the layout (it may be null), as cleave_lower_window has it. */
cleave_status cleave_lower_few(const cleave_model *model, const cleave_layout *layout,
                               const cleave_fold *fold, const cleave_lower_options *options,
                               cleave_arena *arena, cleave_program *program, cleave_turns *turns,
                               cleave_error *error);

/* Lowers the first window of a fold and never any other: the program has M devices of each group,
   and W windows of it side by side are the program of all devices, item by item.  NO_LAYOUT, saying
   why, where something turns out not to be the same in all windows. */
cleave_status cleave_lower_window(const cleave_model *model, const cleave_fold *fold,
                                  const cleave_lower_options *options, cleave_arena *arena,
                                  cleave_program *program, cleave_error *error);

#endif
