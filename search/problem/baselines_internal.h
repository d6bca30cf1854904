/* What the table of baselines and their rules share.

   A rule sets the split of one operator after the other, in the order of the model, so that an
   operator can follow the ones it reads. */
#ifndef CLEAVE_SEARCH_PROBLEM_BASELINES_INTERNAL_H
#define CLEAVE_SEARCH_PROBLEM_BASELINES_INTERNAL_H

#include "costmodel/machine.h"
#include "graph/model/layout.h"
#include "search/problem/group_split.h"

typedef struct baseline_builder {
    const cleave_model *model;
    const cleave_machine *machine;
    cleave_arena *arena;
    cleave_layout *layout;
    int32_t n_devices;       /* of a group: each stage has one */
    int32_t n_groups;        /* 1 without stages */
    cleave_group_grid group; /* their grid */
    bool ring;               /* keys go round among the devices of context */
    bool whole_tokens;       /* outside of products all that share them compute the same */
    const int32_t *all;      /* [n_groups][n_devices] those to use, of each group ascending */
    int *axis_of;            /* [n_operators] axis that is split; -1: none */
} baseline_builder;

/* baseline_rules.c: the axis with a role, or a name, that may be split; -1: none. */
int baseline_axis_with_role(const cleave_operator *op, const char *role);
int baseline_axis_named(const cleave_operator *op, const char *name);
/* Is a tensor a parameter, or a view of one? */
bool baseline_is_parameter(const cleave_model *model, int32_t tensor);
/* The operator that feeds the first of this operator's nests that reads another operator; -1: none
   does. */
int32_t baseline_operator_before(const cleave_model *model, int32_t op);
cleave_nest_kind baseline_kind_of(const cleave_model *model, int32_t op);
/* A product with a parameter: a dense layer. */
bool baseline_is_dense(const cleave_model *model, int32_t op);
/* Those of the operator's stage. */
const int32_t *baseline_devices_of(const baseline_builder *b, int32_t op);
cleave_status baseline_split_samples(const baseline_builder *b, int32_t op, cleave_error *error);

/* The rules; `applies` false: the layout is legal, but no such baseline. */
cleave_status baseline_data_parallel(const baseline_builder *b, bool *applies, cleave_error *error);
cleave_status baseline_single(const baseline_builder *b, bool *applies, cleave_error *error);
cleave_status baseline_layer_per_device(const baseline_builder *b, bool *applies,
                                        cleave_error *error);
cleave_status baseline_one_weird_trick(const baseline_builder *b, bool *applies,
                                       cleave_error *error);
/* baseline_megatron.c */
cleave_status baseline_megatron(const baseline_builder *b, bool *applies, cleave_error *error);

#endif
