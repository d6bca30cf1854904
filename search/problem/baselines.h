/* The layouts that people use without a search. */
#ifndef CLEAVE_SEARCH_PROBLEM_BASELINES_H
#define CLEAVE_SEARCH_PROBLEM_BASELINES_H

#include "costmodel/machine.h"
#include "graph/model/layout.h"

extern const char *const cleave_baseline_names[]; /* ends with null */
enum { CLEAVE_N_BASELINES = 5 };

/* Data parallel over some of the devices, ascending, unpriced. */
cleave_status cleave_data_parallel_layout(const cleave_model *model, const cleave_machine *machine,
                                          int32_t n_devices, const int32_t *devices,
                                          cleave_arena *arena, cleave_layout *layout,
                                          cleave_error *error);

/* The layout of one baseline, or of "random", unpriced; `applies` false where it does not (the
   layout is then legal, but nothing more).  BAD_INPUT for another name. */
cleave_status cleave_baseline_layout(const cleave_model *model, const cleave_machine *machine,
                                     const char *name, uint64_t seed, cleave_arena *arena,
                                     cleave_layout *layout, bool *applies, cleave_error *error);

#endif
