/* A layout in the words of a framework: one mesh for all, and for every module how it is cut.

   A target runs all devices of a stage alike: every operator's parts are a grid of all of them, or
   (PyTorch, without stages) of those with some coordinates alone, where the others skip it.
   What of a layout it can't say is left out, and listed.  What remains is again a layout, the one
   that the target will run: so what is lost has a price. */
#ifndef CLEAVE_GRAPH_EXPORT_PLAN_H
#define CLEAVE_GRAPH_EXPORT_PLAN_H

#include "graph/export/mesh.h"
#include "graph/export/names.h"

typedef enum cleave_target {
    CLEAVE_TARGET_TORCH,
    CLEAVE_TARGET_JAX,
    CLEAVE_N_TARGETS
} cleave_target;
extern const char *const cleave_target_names[CLEAVE_N_TARGETS]; /* "torch", "jax" */
/* Can it run an operator on some devices alone, in one stage? */
extern const bool cleave_target_narrows[CLEAVE_N_TARGETS];
/* Has it stages, micro-batches and recomputation? */
extern const bool cleave_target_stages[CLEAVE_N_TARGETS];

/* One thing that is lost; in the order of the model. */
typedef struct cleave_lost {
    int32_t op, tensor; /* an operator, or a parameter, or neither: -1 */
    const char *what;   /* an axis, "devices", "update", ... */
    const char *why;
} cleave_lost;

typedef struct cleave_planned_operator {
    cleave_module_name name;
    cleave_frame frame;
    cleave_mesh_cut cut;
    cleave_mesh_cut then; /* its output, once it is moved to where it is read: partial sums are
                             whole, or added up in shares, then */
    bool in_layer;        /* of experts: all devices have it */
    int32_t leader; /* the operator as which it is cut, in a module with it, itself; -1: none */
    bool combines;  /* what experts give of a token */
    int32_t router, experts;    /* the leaders of its layer, where there is one */
    int8_t as[CLEAVE_MAX_AXES]; /* own axis by the leader's, or CLEAVE_MESH_REPEATS */
} cleave_planned_operator;

typedef struct cleave_planned_parameter {
    bool planned;                      /* a module with a name reads it */
    int32_t computed[CLEAVE_MAX_MESH]; /* dimension that each of the mesh cuts while it is used, or
                                          CLEAVE_FRAME_APART, or cleave_mesh_alone */
    int32_t stored[CLEAVE_MAX_MESH];   /* the same between steps */
} cleave_planned_parameter;

typedef struct cleave_export_plan {
    cleave_target target;
    cleave_mesh mesh;         /* of a group of devices */
    int32_t n_groups;         /* equal runs of devices; stage s is on group s mod n_groups */
    cleave_schedule schedule; /* as the target has it */
    const char *const
        *begins;            /* [schedule.n_stages] module with which each begins; of the first "" */
    cleave_mesh_cut *given; /* [schedule.n_stages] how what that module is given comes from the
                               stage before, in axes of its operator */
    bool *recompute;        /* [n_operators] */
    int32_t n_again;
    const char *const *again; /* [n_again] modules that are run again before their backward */
    cleave_planned_operator *operators;   /* [n_operators] */
    cleave_planned_parameter *parameters; /* [n_tensors] */
    int32_t n_lost;
    const cleave_lost *lost;
} cleave_export_plan;

/* Is this parameter the module's own?  Operators are fused with what others hold, too. */
bool cleave_export_owns(const cleave_model *model, const cleave_planned_operator *planned,
                        const cleave_frame_parameter *read);

/* Is it a call of a module (or a function of one) that an earlier operator is a call of, too? */
bool cleave_export_is_called_before(const cleave_export_plan *plan, int32_t op);

/* In the arena.  `model` is the layout's as cleave_model_fuse_attention leaves it, or before. */
cleave_status cleave_export_make(const cleave_model *model, const cleave_layout *layout,
                                 cleave_target target, cleave_arena *arena,
                                 cleave_export_plan *plan, cleave_error *error);

/* The same, but what is only had in another way, such as uneven blocks, is left out, too: what is
   read back of this is exported as it is. */
cleave_status cleave_export_make_exact(const cleave_model *model, const cleave_layout *layout,
                                       cleave_target target, cleave_arena *arena,
                                       cleave_export_plan *plan, cleave_error *error);

/* The layout that the target will run: the same but for what is lost. */
cleave_status cleave_export_read_back(const cleave_model *model, const cleave_layout *layout,
                                      const cleave_export_plan *plan, cleave_arena *arena,
                                      cleave_layout *result, cleave_error *error);

/* The file: docs/formats.md.  `costs` ([n_lost] seconds, negative: not known) may be null. */
cleave_status cleave_export_write(const char *path, const cleave_model *model,
                                  const cleave_export_plan *plan, const double *costs,
                                  cleave_error *error);

/* What of an operator a target can cut. */
typedef struct cleave_sayable {
    bool cut[CLEAVE_MAX_AXES];
    bool everywhere; /* on all devices alone */
    bool begins;     /* a stage can begin here: with the first module from here on */
} cleave_sayable;

/* Of all operators, [n_operators] in the arena.  Functions without a name may have anything, though
   they follow what they read. */
cleave_status cleave_sayable_find(const cleave_model *model, cleave_target target,
                                  cleave_arena *arena, cleave_sayable **sayable,
                                  cleave_error *error);

#endif
