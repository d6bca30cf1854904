/* The layouts that people use without a search. */
#ifndef CLEAVE_SEARCH_PROBLEM_BASELINES_H
#define CLEAVE_SEARCH_PROBLEM_BASELINES_H

#include "costmodel/machine.h"
#include "graph/model/layout.h"

extern const char *const cleave_baseline_names[]; /* ends with null */
extern const char cleave_baseline_list[];         /* "data-parallel, single, ..., " */
enum { CLEAVE_N_BASELINES = 8 };

/* Data parallel over some of the devices, ascending, unpriced. */
cleave_status cleave_data_parallel_layout(const cleave_model *model, const cleave_machine *machine,
                                          int32_t n_devices, const int32_t *devices,
                                          cleave_arena *arena, cleave_layout *layout,
                                          cleave_error *error);

/* How a baseline is run in stages: each of them on a group of devices of its own. */
typedef struct cleave_baseline_shape {
    const cleave_schedule *schedule; /* with stages of equal numbers of devices; null: plain */
    int32_t n_groups;                /* of an interleaved one; of others as many as stages */
    int32_t
        neighbours; /* devices of a group that follow each other (cleave_group_device); 0: all */
    int32_t tensor; /* of megatron: devices that share each product, the samples being shared among
                       the others of a group; 0: those of a node, or all of a smaller group */
    int32_t context, expert; /* of megatron, besides (search/problem/group_split.h); 0 as 1 */
    bool ring;               /* of megatron: in attention, too, context cuts tokens, and keys go
                                round (graph/model/ring.h) */
    bool whole_tokens;       /* of megatron: what lies outside of products is not split by tokens */
    cleave_sharded sharded;  /* as cleave_layout_shard does, if not by its name anyway */
} cleave_baseline_shape;

/* How many experts a model has, the most of its layers; 0: none. */
int64_t cleave_baseline_experts(const cleave_model *model);

/* Shards so much of the state of all parameters (cleave_sharded_as). */
void cleave_layout_shard(const cleave_model *model, cleave_sharded sharded, cleave_layout *layout);
/* What a baseline shards by its name: "zero-3" weights.  Of other names nothing. */
cleave_sharded cleave_baseline_shards(const char *name);

/* The layout of one baseline, or of "random", unpriced; `applies` false where it does not (the
   layout is then legal, but nothing more).  BAD_INPUT for another name. */
cleave_status cleave_baseline_layout(const cleave_model *model, const cleave_machine *machine,
                                     const char *name, uint64_t seed, cleave_arena *arena,
                                     cleave_layout *layout, bool *applies, cleave_error *error);

/* The same of a baseline in stages or micro-batches.  It may be illegal: samples may be too few,
   which cleave_layout_check says.  BAD_INPUT for a shape that it does not have on this machine. */
cleave_status cleave_baseline_in_stages(const cleave_model *model, const cleave_machine *machine,
                                        const char *name, const cleave_baseline_shape *shape,
                                        cleave_arena *arena, cleave_layout *layout, bool *applies,
                                        cleave_error *error);

#endif
