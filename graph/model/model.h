/* A model: what is computed.  Tensors, views of tensors, and nests.

   A nest is a loop nest: named axes and, for every operand, a map from axes to the operand's
   dimensions.  For each point of its axes it evaluates a scalar expression (its tape) on the
   operands' elements there, and combines the results into the output's element.  Convolution,
   product, pooling, normalisation, softmax and loss are all of this form, so lowering, the
   reference kernels, flop counts and gradients need no rule per operator.

   An operator is what a person and a layout see: a group of nests under one name that share one
   split. Views (reshape, transpose, concatenation, slice, pad) have no nest: boxes are pulled back
   through them.

   Built once by the importer (or by a test), checked by cleave_model_check, then read-only. */
#ifndef CLEAVE_GRAPH_MODEL_MODEL_H
#define CLEAVE_GRAPH_MODEL_MODEL_H

#include "base/arena.h"
#include "base/error.h"
#include "graph/model/box.h"
#include "graph/model/opcode.h"

#include <stdbool.h>
#include <stdint.h>

enum { CLEAVE_MAX_AXES = 12, CLEAVE_MAX_INPUTS = 8, CLEAVE_MAX_TAPE = 32, CLEAVE_MAX_TERMS = 2 };

/* A tensor is of one of the first two; in memory an f32 one may be of the three that are shorter,
   or the statistics of rows of attention: see graph/model/precision.h. */
typedef enum cleave_type {
    CLEAVE_F32,
    CLEAVE_I64,
    CLEAVE_BF16,
    CLEAVE_F16, /* this and the next have prices, and no kernels */
    CLEAVE_F8,
    CLEAVE_STATISTICS,
    CLEAVE_N_TYPES
} cleave_type;
/* Activations are f32, which holds every integer from minus this to this, and not the next one. */
#define CLEAVE_MOST_EXACT_INTEGER (INT64_C(1) << 24)
static inline int64_t cleave_type_bytes(cleave_type type) {
    static const int64_t all[CLEAVE_N_TYPES] = {
        [CLEAVE_F32] = 4, [CLEAVE_I64] = 8, [CLEAVE_BF16] = 2,
        [CLEAVE_F16] = 2, [CLEAVE_F8] = 1,  [CLEAVE_STATISTICS] = 8};
    return all[type];
}
static inline bool cleave_type_is_short(cleave_type type) {
    return type == CLEAVE_BF16 || type == CLEAVE_F16 || type == CLEAVE_F8;
}

typedef enum cleave_tensor_kind {
    CLEAVE_TENSOR_ACTIVATION, /* written by a nest, or a view; or neither written nor read */
    CLEAVE_TENSOR_PARAMETER,  /* trained, unless it is frozen */
    CLEAVE_TENSOR_BUFFER,     /* kept from step to step, not trained: running statistics */
    CLEAVE_TENSOR_DATA,       /* given from outside at each step: inputs, targets */
    CLEAVE_TENSOR_CONSTANT    /* known since the import */
} cleave_tensor_kind;

typedef enum cleave_view_kind {
    CLEAVE_VIEW_NONE,      /* a base tensor */
    CLEAVE_VIEW_RESHAPE,   /* same elements in row-major order of the logical shapes */
    CLEAVE_VIEW_TRANSPOSE, /* dimension d of the view is dimension permutation[d] of the source */
    CLEAVE_VIEW_CONCAT,    /* sources one after the other along `axis` */
    CLEAVE_VIEW_SLICE, /* element i of dimension d is element begin[d] + step[d] x i of the source
                        */
    CLEAVE_VIEW_PAD /* element i of dimension d is element i - begin[d] of the source, else `fill`
                     */
} cleave_view_kind;

typedef struct cleave_view {
    cleave_view_kind kind;
    int32_t n_sources;
    const int32_t
        *sources; /* [n_sources] tensor ids, smaller than the view's own; 1 except for concat */
    int axis;
    int permutation[CLEAVE_MAX_RANK];
    int64_t begin[CLEAVE_MAX_RANK], step[CLEAVE_MAX_RANK]; /* steps of 1 or more */
    float fill;
} cleave_view;

typedef struct cleave_tensor {
    const char *name; /* unique; that of ONNX where there is one */
    cleave_tensor_kind kind;
    cleave_type type;
    bool truth; /* data or an output of ONNX type BOOL: 0 or 1, and BOOL in files */
    int rank;
    int64_t shape[CLEAVE_MAX_RANK]; /* logical, refined: a dense layer's weight after a flatten is
                                       [k, c, h, w] */
    int order[CLEAVE_MAX_RANK]; /* dimensions as they lie in memory, outermost first: channels last
                                   is n h w c. Every local piece is dense in this order. */
    cleave_view view;
    bool frozen;         /* of a parameter: it stays as it is */
    bool needs_gradient; /* a parameter that is trained can be reached through it */
    bool real;           /* it would need one if no parameter were frozen, and outputs trained */
    cleave_type stored;  /* derived: of its values in memory and in messages; of its initial value,
                            and in files, it is `type` */
    /* Initial value (row-major in the logical shape): of a constant always, of a parameter, buffer
       or datum where the file has one; else null.  f32 or int64, by `type`. */
    const void *value;
    /* Shape in the file, where it differs from the refined one (same elements in row-major order).
     */
    int file_rank;
    int64_t file_shape[CLEAVE_MAX_RANK];
    float initial_value; /* what fills a buffer, or a parameter with fan_in 0, without a value; and
                            made-up float data, where it is not 0 */
    int64_t fan_in;      /* Kaiming uniform: U(-1/sqrt(fan_in), 1/sqrt(fan_in)); 0: filled with
                            initial_value */
    int64_t below; /* I64 data are ids of tables of this extent; made-up ones lie in 0..below-1.
                      0: they are no ids; made-up ones are 0 */
    int64_t filled_rows; /* along filled_dimension the first so many, in the mean, are not zero; 0:
                            nothing is known (graph/model/filled.h) */
    int filled_dimension;
    int64_t dropped_from; /* elements from this on are choices without a row; 0: it has none */
    int64_t also;         /* given data may have this value besides (ignored targets); 0: none */
} cleave_tensor;

/* index = offset + sum of stride x axis.  Where that falls outside the tensor the operand has no
   element there and the point contributes nothing (padding).  No terms: always `offset` (broadcast,
   or one slice). */
typedef struct cleave_dimension_map {
    int64_t offset;
    int n_terms;
    struct {
        int axis;
        int64_t stride;
    } terms[CLEAVE_MAX_TERMS]; /* strides of 1 or more */
} cleave_dimension_map;

typedef struct cleave_operand {
    int32_t tensor;                            /* may be a view (inputs only) */
    cleave_dimension_map map[CLEAVE_MAX_RANK]; /* one per dimension of the tensor */
} cleave_operand;

typedef enum cleave_combiner {
    CLEAVE_COMBINE_NONE, /* no axis is missing from the output's map */
    CLEAVE_COMBINE_SUM,
    CLEAVE_COMBINE_MAX,       /* ties: the first in row-major order of the missing axes */
    CLEAVE_COMBINE_MOMENTS,   /* output [3, ...]: count, mean and M2 (sum of squared deviations) of
                                 the values.  Dimension 0 is mapped from an axis of extent 3, whole,
                                 that no input and no operator has: it makes boxes come out right,
                                 and is not one of the axes that are combined over. */
    CLEAVE_COMBINE_STATISTICS /* of an attention's statistics alone: the maximum, and sums of
                                 exponentials above it */
} cleave_combiner;

/* What fast kernels and costs tell apart; meaning is in maps, tape and combiner alone. */
typedef enum cleave_nest_kind {
    CLEAVE_NEST_CONVOLUTION, /* input x weight, summed, with windows: axes n g k h w c r s in some
                                subset */
    CLEAVE_NEST_PRODUCT,     /* a x b summed over the axes that the output lacks, plain maps (no
                                windows) */
    CLEAVE_NEST_POOL,        /* window sum or maximum of one tensor (and constant weights) */
    CLEAVE_NEST_MOMENTS,     /* statistics */
    CLEAVE_NEST_POINTWISE,   /* any tape, no axis missing */
    CLEAVE_NEST_REDUCE,      /* any tape, plain maps, sum or maximum over the axes missing */
    CLEAVE_NEST_GATHER,      /* look-up by data: see graph/model/gather.h */
    CLEAVE_NEST_ATTENTION /* several nests at once, without their scores: graph/model/attention.h;
                             its tape is that of the last of them */
} cleave_nest_kind;

typedef struct cleave_axis {
    const char *name; /* "n", "k", "h", ... unique within its operator or nest */
    int64_t extent;
    bool whole; /* never split */
} cleave_axis;

/* Where the parts of a nest come from. */
typedef enum cleave_derivation {
    CLEAVE_DERIVE_OPERATOR, /* the split of its operator; axis i of the nest is operator axis
                               operator_axis[i] */
    CLEAVE_DERIVE_OWNERS /* of the output of an earlier nest: parts of that nest that write the same
                            box (they differ only in summed axes) form a group, and cut that box
                            along its longest dimension into balanced blocks, one each.  Axis i is
                            dimension i of that output. */
} cleave_derivation;

typedef struct cleave_nest {
    const char *name; /* unique: the operator's, with a suffix for all but its main nest */
    cleave_nest_kind kind;
    int32_t op; /* operator */
    cleave_derivation derivation;
    int32_t owners_of; /* nest id, for OWNERS */
    int n_axes;
    cleave_axis axes[CLEAVE_MAX_AXES];
    int operator_axis[CLEAVE_MAX_AXES]; /* for OPERATOR; -1: an axis the operator lacks, whole */
    int n_inputs;
    cleave_operand inputs[CLEAVE_MAX_INPUTS];
    cleave_operand output;     /* of a base activation that no other nest writes, but for turns */
    cleave_operand statistics; /* of an ATTENTION: written, too, for backward to read */
    const struct cleave_attention *attention; /* what an ATTENTION does; else null */
    int32_t turn, n_turns; /* of an ATTENTION whose keys go round (graph/model/ring.h), one of so
                              many nests that follow each other; else 0 of 0 */
    cleave_combiner combiner;
    int n_instructions;
    cleave_instruction tape[CLEAVE_MAX_TAPE];
    /* Derived by cleave_model_finish: */
    bool differentiable;      /* its output needs a gradient; never of a MAX other than a POOL's */
    uint32_t gradient_inputs; /* bit i: backward gives a gradient of input i */
    uint32_t kept_inputs;     /* bit i: backward reads input i */
    bool kept_output;         /* backward reads the part's own output piece */
    bool kept_combined;       /* backward reads the combined output (moments), or the statistics */
    bool in_place; /* forward may write its output over input 0 (pointwise, same map, input 0 not
                      kept) */
} cleave_nest;

/* Unit of a layout. */
typedef struct cleave_operator {
    const char *name, *type; /* name of the main ONNX node; its ONNX type */
    int n_axes;
    cleave_axis axes[CLEAVE_MAX_AXES]; /* in the order of the layout's devices, outermost first */
    const char
        *roles[CLEAVE_MAX_AXES]; /* "sample", "attribute", "parameter", "reduction": labels only */
    int n_later; /* the last so many axes came without a new graph version: the hash goes over the
                    operator as it was with them whole, so layouts from before stay valid */
    int32_t main_nest;
    int32_t n_nests;
    const int32_t *nests;
} cleave_operator;

/* At the end of a step, buffer `target` takes the value of `source`. */
typedef struct cleave_assignment {
    int32_t target, source;
} cleave_assignment;

/* An input of the ONNX graph. */
typedef struct cleave_model_input {
    const char *name;
    int32_t tensor;  /* -1: nothing reads it */
    const char *why; /* the tensor is of its kind, as a sentence */
} cleave_model_input;

typedef struct cleave_model {
    const char *file;  /* as given */
    char hash[33];     /* of the graph with its shapes, not the weights */
    int64_t batch;     /* 0 where the model has no symbolic batch dimension */
    int graph_version; /* of the newest row of the fusing table that applies to it */
    /* F32 or a shorter one: of values, and of partial sums on their way (graph/model/precision.h).
     */
    cleave_type precision, reduce_precision;
    bool reduces_mixed; /* sums of activations as `reduce_precision`, of gradients of parameters f32
                         */
    bool precision_asked; /* for: a layout that was made for another one is taken, too */
    int32_t n_frozen;
    const char *const *frozen; /* [n_frozen] patterns of names of parameters that are not trained */
    bool frozen_asked;         /* for: a layout that was made for others is taken, too */
    int32_t n_tensors, n_nests, n_operators, n_assignments, n_outputs;
    cleave_tensor *tensors;
    cleave_nest *nests; /* in topological order: forward runs them so, backward in reverse */
    cleave_operator *operators;
    cleave_assignment *assignments;
    int32_t n_inputs;
    cleave_model_input *inputs; /* of the file, in its order; for `show` and messages */
    int32_t *outputs; /* tensor ids of the model's outputs (may be views), under their ONNX names */
    int32_t loss; /* scalar (rank 0) tensor written by the last nest of @loss; -1: none, and a step
                     is one pass forward (cleave_model_trains) */
    int32_t targets; /* data tensor named "targets", or -1 */
    int32_t
        squares; /* 0, or 1 + the tensor that no nest reads or writes, but lowering does: the sum
                    of the squares of all gradients of parameters, by which these are clipped */
    int32_t n_onnx_nodes; /* for `show` */
    bool stores_scores;   /* what layouts of it say of attention, unless a file says otherwise */
    /* Derived by cleave_model_finish: who writes and reads. */
    int32_t *writer; /* [n_tensors] nest that writes a base activation, else -1 */
    cleave_arena *arena;
} cleave_model;

/* The kind of a step, which all rooms ask here: training, or one pass forward, without gradients,
   their synchronisation and updates. */
static inline bool cleave_model_trains(const cleave_model *model) { return model->loss >= 0; }

/* FIRST: of models that no newer row of the table fuses; LANGUAGE: with rows of language models. */
enum {
    CLEAVE_FIRST_GRAPH_VERSION = 3,
    CLEAVE_LANGUAGE_GRAPH_VERSION = 4,
    CLEAVE_PLACES_GRAPH_VERSION = 5, /* masks by place, and rotary positions of neighbours */
    CLEAVE_PARTS_GRAPH_VERSION = 6,  /* parameters that are seen in parts are stored so */
    CLEAVE_GRAPH_VERSION = 7         /* what two activations both merge is summed as one axis */
};

/* Views of views: how deep they may be stacked, and how many base pieces one may have. */
enum { CLEAVE_MAX_VIEW_DEPTH = 64, CLEAVE_MAX_VIEW_LEAVES = 4096 };

/* Fills in what is derived (writer, needs_gradient, gradient_inputs, kept_*, in_place, hash), then
   checks.  Gradients are wanted of what lies between a parameter and the loss, so of nothing in a
   model without one; but of everything where it names no output either, as nests that are looked at
   by themselves. */
cleave_status cleave_model_finish(cleave_model *model, cleave_error *error);

/* Freezes the parameters of a finished model whose names match one of the patterns, "a,b*", as of
   fnmatch(3): they keep their values, and what leads to them alone gets no gradient.  Null: as the
   model is; "": none, and that is asked for.  BAD_INPUT where a pattern matches none, or nothing is
   left to train. */
cleave_status cleave_model_freeze(cleave_model *model, const char *patterns, cleave_error *error);
/* From now on gradients of parameters are clipped by the norm of all of them together, which the
   program then finds before it updates.  Of a finished model that trains; another one stays as it
   is. */
cleave_status cleave_model_clip(cleave_model *model, cleave_error *error);
bool cleave_pattern_matches(const char *pattern, const char *name);

/* Does backward of this (finished) nest work from its output alone?

   The rule, which kept_inputs and kept_output follow.  Backward is reverse differentiation of the
   tape towards gradient_inputs.  An instruction on the way may need the values of registers, as its
   row in graph/model/opcode.h says; registers are computed again from the inputs they depend on,
   and those inputs are kept.  But a POINTWISE nest keeps only its output, and this returns true,
   when
   - the last instruction's derivative is one of the output: RELU, SIGMOID, TANH, or LEAKY_RELU with
     p > 0, and
   - the instructions before it need no value that depends on an input.
   Where nothing needs a value, neither inputs nor output are kept and this returns false.  A
   maximum (POOL only) and MOMENTS keep in addition the inputs that the combined value depends on;
   MOMENTS keeps the combined output too. */
bool cleave_nest_backward_from_output(const cleave_nest *nest);

/* What kept_combined is about, of its nest. */
static inline const cleave_operand *cleave_nest_combined(const cleave_nest *nest) {
    return nest->kind == CLEAVE_NEST_ATTENTION ? &nest->statistics : &nest->output;
}

/* Every invariant written down above; in every build.  FAILED, naming the nest or tensor. */
cleave_status cleave_model_check(const cleave_model *model, cleave_error *error);

/* Adds how many nests, views, outputs and assignments read each tensor, to [n_tensors]. */
void cleave_model_count_readers(const cleave_model *model, int32_t *readers);
/* The last operator that reads each base tensor, views seen through; -1: none, [n_tensors]. */
void cleave_model_last_readers(const cleave_model *model, int32_t *last);
int32_t cleave_model_find_operator(const cleave_model *model, const char *name); /* -1: none */
int32_t cleave_model_find_tensor(const cleave_model *model, const char *name);   /* -1: none */

/* Strides, in elements, of a dense local piece with these extents in the tensor's memory order. */
void cleave_tensor_strides(const cleave_tensor *tensor, const cleave_box *box, int64_t *strides);
int64_t cleave_tensor_size(const cleave_tensor *tensor); /* elements */
/* Is it a parameter, or a view of one? */
bool cleave_tensor_sees_parameter(const cleave_model *model, int32_t tensor);
/* Is it `of`, or a view of it? */
bool cleave_tensor_sees(const cleave_model *model, int32_t tensor, int32_t of);
/* The first base tensor behind a tensor; itself where it is one. */
int32_t cleave_tensor_base(const cleave_model *model, int32_t tensor);
/* The nest that writes a tensor, or what the first source of a view comes from; -1: it comes from
   outside. */
int32_t cleave_tensor_writer(const cleave_model *model, int32_t tensor);
/* Does an index of the operand, of a tensor of this rank, move with an axis of the nest? */
bool cleave_operand_maps_axis(const cleave_operand *operand, int rank, int axis);

/* Backward passes: a product or convolution has two, the others one. */
typedef enum cleave_pass {
    CLEAVE_PASS_FORWARD,
    CLEAVE_PASS_INPUT_GRADIENT, /* of products and convolutions: the inputs that are not parameters;
                                   of the others: all inputs that need one, at once */
    CLEAVE_PASS_WEIGHT_GRADIENT, /* of products and convolutions: inputs that are parameters, or
                                    views of one */
    CLEAVE_PASS_UPDATE           /* the optimizer, per parameter and holder */
} cleave_pass;
extern const char
    *const cleave_pass_names[4]; /* "forward", "input-gradient", "weight-gradient", "update" */

/* Bits of the inputs whose gradient this backward pass gives; 0: the pass does not exist. */
uint32_t cleave_nest_pass_inputs(const cleave_model *model, const cleave_nest *nest,
                                 cleave_pass pass);

/* Can this backward pass add, at no cost, what it gives for an input to what others gave there?
   Products, tapes and look-ups can; a sum of products in bf16 would be rounded on its way. */
bool cleave_nest_adds(const cleave_model *model, const cleave_nest *nest, int input,
                      cleave_pass pass);

#endif
