/* What the files of the importer share.

   The importer walks the live ONNX nodes in topological order.  Every ONNX value becomes either a
   constant (folded at once) or a tensor of the model under construction.  Views are tensors;
   operators are drafts that stay open: a later element-wise node with this operator's output as its
   only use is appended to the operator's tape.  Names that depend on an operator's final name are
   given at the end, and tensors that nothing reads are dropped. */
#ifndef CLEAVE_GRAPH_IMPORT_INTERNAL_H
#define CLEAVE_GRAPH_IMPORT_INTERNAL_H

#include "base/list.h"
#include "graph/import/handlers.h"
#include "graph/import/onnx/onnx_file.h"
#include "graph/model/model.h"
#include "graph/model/name_map.h"

enum { CLEAVE_LEAST_OPERATOR_SET = 1, CLEAVE_MOST_OPERATOR_SET = 24 };

/* What one import may make, so that a small file can't take all memory, or hours: elements of
   constants that are made or read while folding, and tensors, nests. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define CLEAVE_MOST_SPENT (INT64_C(1) << 22)
enum { CLEAVE_MOST_DRAFTS = 1 << 12 };
#else
#define CLEAVE_MOST_SPENT (INT64_C(1) << 30)
enum { CLEAVE_MOST_DRAFTS = 1 << 17 };
#endif

enum { CLEAVE_MOST_TABLES = 16 }; /* that are looked for among those that are there */

/* The domain of nodes that the fusing table makes and ONNX has no operator for: this pointer, which
   no file can have. */
extern const char *const cleave_fused_domain;

typedef enum cleave_value_state {
    CLEAVE_VALUE_UNKNOWN,  /* not computed (yet) */
    CLEAVE_VALUE_CONSTANT, /* `constant` */
    CLEAVE_VALUE_TENSOR,   /* `tensor` */
    CLEAVE_VALUE_SOURCE    /* a graph input or an initializer that nothing has used yet */
} cleave_value_state;

/* An ONNX value. */
typedef struct cleave_value {
    const char *name;
    cleave_value_state state;
    int32_t tensor;
    int32_t type;     /* element type as numbered by ONNX; 0: not known (yet) */
    bool shared;      /* its tensor may be read by others than the readers of this value */
    int32_t n_uses;   /* by live nodes, and as a graph output */
    int32_t producer; /* node, or -1 */
    cleave_onnx_tensor constant;
    bool has_tensor;                       /* of a constant: `tensor` has its elements */
    const cleave_onnx_tensor *initializer; /* of a source, else null */
    const cleave_onnx_value *input;        /* of a source, else null */
    bool running; /* a source that is kept, not trained: running statistics, weights of classes */
    bool chooses; /* no gradient of an output reaches it */
    bool starts_at_one;       /* a running source; else at 0 */
    bool weighs_classes;      /* a running source */
    bool named;               /* among the inputs that are data by request */
    bool has_given_dimension; /* one that is symbolic in the file */
} cleave_value;

typedef struct cleave_draft_tensor {
    cleave_tensor tensor;              /* name: null where it follows from its operator */
    int32_t op;                        /* operator that names or writes it, or -1 */
    const char *suffix;                /* of the operator's name, where name is null */
    const char *axes[CLEAVE_MAX_RANK]; /* what its dimensions are called */
    bool channels_last;                /* of a convolutional network, from rank 4 on */
    int32_t depth;                     /* of the views that it stands on */
    int64_t leaves;                    /* base pieces below it */
} cleave_draft_tensor;

typedef struct cleave_draft_nest {
    cleave_nest nest;
    const char *suffix; /* "" for the main nest */
} cleave_draft_nest;

typedef struct cleave_draft_operator {
    const cleave_onnx_node *main; /* null for the loss */
    const char *type;             /* where that is not the main node's; else null */
    const char *suffix;           /* of the main node's name; "" where it names one operator */
    bool main_is_fixed; /* a product, convolution or normalisation; else a tail becomes the main */
    int n_axes;
    cleave_axis axes[CLEAVE_MAX_AXES];
    int n_later;                  /* as of cleave_operator */
    int32_t main_nest, tail_nest; /* tail: the pointwise nest that writes output; -1: none yet */
    int32_t output;               /* tensor; -1: takes no tail */
    int64_t fan_in;               /* of a product or convolution: what its bias is drawn by */
    bool turns;                   /* it is rotary positions */
    bool bypassed;                /* a reader reads past it: dropped where nothing else reads it */
} cleave_draft_operator;

/* A constant of rotary positions, and what it was made of, by which it is known without being made
   again. */
typedef struct cleave_turned_table {
    int32_t tensor;
    const float *from; /* elements; null: not of one table alone */
    int64_t negative;  /* columns whose sign was changed */
    bool is_filled;    /* with ones, beyond what is turned */
} cleave_turned_table;

struct cleave_importer {
    const char *file;
    const char *inputs, *dimensions; /* as requested, or null */
    int64_t batch;
    bool with_loss, evaluates;
    cleave_arena *arena;  /* of the model */
    cleave_arena scratch; /* of the import */
    cleave_error *error;
    cleave_onnx_graph graph;
    bool has_batch; /* the file has a symbolic batch dimension */
    bool has_float_initializers;
    bool is_convolutional; /* has convolutions or pools: data of rank 4 and 5 is channels last */
    const cleave_onnx_node *node; /* being imported */
    cleave_name_map names;        /* of values */
    CLEAVE_LIST(cleave_value) values;
    CLEAVE_LIST(cleave_draft_tensor) tensors;
    CLEAVE_LIST(cleave_draft_nest) nests;
    CLEAVE_LIST(cleave_draft_operator) operators;
    CLEAVE_LIST(cleave_assignment) assignments;
    int32_t loss, targets;
    int64_t spent; /* elements: see CLEAVE_MOST_SPENT */
    int32_t n_tables;
    cleave_turned_table tables[CLEAVE_MOST_TABLES];
    int graph_version; /* of the newest row of the fusing table that was used */
};

static inline void cleave_import_note_version(cleave_importer *im, int version) {
    im->graph_version = version > im->graph_version ? version : im->graph_version;
}

/* BAD_INPUT at the node being imported: "FILE: node NAME (TYPE): ...". */
cleave_status cleave_import_fail(cleave_importer *im, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
cleave_status cleave_import_no_memory(cleave_importer *im);
/* Before rows x columns elements are made or read: BAD_INPUT where the import then has gone through
   more than CLEAVE_MOST_SPENT. */
cleave_status cleave_import_spend(cleave_importer *im, int64_t rows, int64_t columns);

/* ---- node.c: attributes, inputs and outputs of the node being imported ---- */

const cleave_onnx_attribute *cleave_import_attribute(const cleave_importer *im, const char *name);
cleave_status cleave_import_integer(cleave_importer *im, const char *name, int64_t otherwise,
                                    int64_t *value);
cleave_status cleave_import_number(cleave_importer *im, const char *name, double otherwise,
                                   double *value);
cleave_status cleave_import_string(cleave_importer *im, const char *name, const char *otherwise,
                                   const char **value);
/* A list of `n` integers, each in least..most; all `otherwise` where the node has none. */
cleave_status cleave_import_integers(cleave_importer *im, const char *name, int n, int64_t least,
                                     int64_t most, int64_t otherwise, int64_t *values);
/* Constant integers from an attribute or, where that is missing, from input i.  `*n` is -1 where
   the node has neither; at most 2 x CLEAVE_MAX_RANK values. */
cleave_status cleave_import_list(cleave_importer *im, const char *attribute, int i, int *n,
                                 int64_t *values);
/* A constant scalar in input i; `otherwise` where it is left out. */
cleave_status cleave_import_scalar(cleave_importer *im, int i, double otherwise, double *value);
/* Is there an input i, or an output i that something uses? */
bool cleave_import_has_input(const cleave_importer *im, int i);
bool cleave_import_uses_output(const cleave_importer *im, int i);
/* The value of input or output i, which must be there. */
cleave_value *cleave_import_input(cleave_importer *im, int i);
cleave_value *cleave_import_output(cleave_importer *im, int i);
/* A constant of input i, or null where it is none. */
const cleave_onnx_tensor *cleave_import_constant(cleave_importer *im, int i);
/* A dimension that may count from the end. */
cleave_status cleave_import_axis(cleave_importer *im, int64_t axis, int rank, int *result);

/* ---- draft.c: tensors, nests and operators under construction ---- */

/* The ONNX type of a value's elements.  Whatever it is, activations are computed and kept in f32:
   integers are exact to 2^24, booleans are 0 and 1. */
int32_t cleave_import_type(const cleave_value *value);
static inline bool cleave_onnx_type_is_integer(int32_t type) {
    return type == CLEAVE_ONNX_INT32 || type == CLEAVE_ONNX_INT64;
}

/* Input i as a tensor, made if need be: integers where it is data or a constant of integers, else
   f32. */
cleave_status cleave_import_tensor(cleave_importer *im, int i, int32_t *tensor);
/* The tensor of a value, made if need be; any type. */
cleave_status cleave_import_value_tensor(cleave_importer *im, cleave_value *value, int32_t *tensor);
/* Output i becomes this tensor, or the tensor of another value.  Its elements are of the type of
   input 0, unless cleave_import_set_type says another one. */
void cleave_import_set_output(cleave_importer *im, int i, int32_t tensor, bool shared);

void cleave_import_set_type(cleave_importer *im, int i, int32_t type);

/* What a new f32 tensor is: named `name`, or `suffix` after operator `op` where name is null; axes
   and memory order as tensor `like` has them, if it has the same rank (-1: the usual ones). */
typedef struct cleave_new_tensor {
    const char *name;
    int32_t op;
    const char *suffix;
    int rank;
    const int64_t *shape;
    int32_t like;
} cleave_new_tensor;

/* An activation; or, with values, a constant. */
cleave_status cleave_import_new_tensor(cleave_importer *im, cleave_new_tensor what,
                                       int32_t *tensor);
cleave_status cleave_import_constant_tensor(cleave_importer *im, cleave_new_tensor what,
                                            const float *values, int32_t *tensor);
/* A view; takes sources, axis and so on from `view` (whose sources are copied). */
cleave_status cleave_import_new_view(cleave_importer *im, const char *name, cleave_view view,
                                     int rank, const int64_t *shape, int32_t *tensor);
/* The shape and order in memory that input i, a weight, is read in: a parameter that nothing else
   uses is stored so, others are viewed so. */
cleave_status cleave_import_refine(cleave_importer *im, int i, int rank, const int64_t *shape,
                                   const int *order, int32_t *tensor);
/* The same of a tensor that is (or is behind) an input, `shared` if others read it too. */
cleave_status cleave_import_refine_tensor(cleave_importer *im, int32_t source, bool shared,
                                          int rank, const int64_t *shape, const int *order,
                                          int32_t *tensor);
/* Says how a parameter starts, or all those that a view is made of, unless that is said already;
   does nothing to other tensors. */
void cleave_import_initialise(cleave_importer *im, int32_t tensor, int64_t fan_in, float value);

int64_t cleave_shape_size(int rank, const int64_t *shape);
bool cleave_has_shape(const cleave_tensor *tensor, int rank, const int64_t *shape);
const char *cleave_import_axis_name(int rank, int dimension);

/* Opens an operator whose main node is the one being imported; its axes come next. */
cleave_status cleave_import_new_operator(cleave_importer *im, bool main_is_fixed, int32_t *op);
/* Adds an axis to an operator; a name that it has already becomes name2, name3, ...  Returns the
   axis, or -1 where there are too many. */
int cleave_import_add_axis(cleave_importer *im, int32_t op, const char *name, int64_t extent,
                           bool whole);
cleave_status cleave_import_add_nest(cleave_importer *im, const cleave_nest *nest,
                                     const char *suffix, int32_t *id);
/* The operator whose output this value is, and alone uses, so that a tail may join it; -1: none.
   Sees through reshapes; `*base` is the operator's output. */
int32_t cleave_import_open_operator(const cleave_importer *im, int32_t tensor, bool shared,
                                    int32_t *base);
/* The pointwise nest that writes the operator's output, with room for `n_instructions` and
   `n_inputs` more, made if need be; -1 in `*nest`: no room. */
cleave_status cleave_import_tail(cleave_importer *im, int32_t op, int n_instructions, int n_inputs,
                                 int32_t *nest);

/* Is the tensor of input i read by others than the node being imported? */
bool cleave_import_is_shared(cleave_importer *im, int i);
/* Says that an output is an activation of a convolutional network: channels last. */
void cleave_import_channels_last(cleave_importer *im, int32_t tensor);

/* ---- nest.c: nests under construction ---- */

/* An axis of the nest that is an axis of its operator; or, with operator_axis -1, its own. */
int cleave_nest_add_axis(cleave_nest *nest, const char *name, int64_t extent, bool whole,
                         int operator_axis);
/* All axes of an operator, in order. */
void cleave_nest_take_axes(cleave_nest *nest, const cleave_draft_operator *op);
/* Adds an input, moving the registers of a tape that is there already; returns its register. */
int cleave_nest_add_input(cleave_nest *nest, int32_t tensor);
void cleave_map_axis(cleave_operand *operand, int dimension, int axis);
/* An operand whose dimensions are the nest's first axes, and such an input. */
cleave_operand cleave_whole_operand(int32_t tensor, int rank);
int cleave_nest_add_whole_input(cleave_nest *nest, int32_t tensor, int rank);
/* All dimensions of an operand, aligned at the last ones, to axes 0..rank-1 of extents `shape`. */
void cleave_map_broadcast(cleave_operand *operand, const cleave_tensor *tensor, int rank,
                          const int64_t *shape);
void cleave_map_offset(cleave_operand *operand, int dimension, int64_t offset);
void cleave_map_term(cleave_operand *operand, int dimension, int axis, int64_t stride);
/* Appends an instruction and returns its register. */
int cleave_nest_emit(cleave_nest *nest, cleave_opcode opcode, int a, int b, double p, double q);
/* The register of the tape's value; register 0 where the tape is empty. */
int cleave_nest_value(const cleave_nest *nest);

/* ---- what handlers and folding read of a node alike: views.c, slices.c ---- */

/* The target shape of Reshape, Squeeze, Unsqueeze and Flatten for an input of this shape. */
cleave_status cleave_import_target_shape(cleave_importer *im, int rank, const int64_t *shape,
                                         int *target_rank, int64_t *target);
/* begin, step and shape of a Slice. */
cleave_status cleave_import_slice_ranges(cleave_importer *im, int rank, const int64_t *shape,
                                         int64_t *begin, int64_t *step, int64_t *result);
/* The axis of a Split and the sizes of its parts: [n outputs]. */
cleave_status cleave_import_split_sizes(cleave_importer *im, int rank, const int64_t *shape,
                                        int *axis, int64_t **sizes);

/* ---- steps of the import, in their order ---- */

/* Adds a value; BAD_INPUT where its name is in use. */
cleave_status cleave_import_define(cleave_importer *im, cleave_value value);
/* An initializer as a value: a source, or a constant where it is nothing to train. */
cleave_value cleave_import_initializer_value(const cleave_onnx_tensor *tensor);
/* Notes what a node says about values that it reads: running statistics and the like. */
void cleave_import_survey_node(cleave_importer *im, const cleave_onnx_node *node);
/* Marks the inputs that are data by request; inputs.c. */
cleave_status cleave_import_name_inputs(cleave_importer *im);
/* Gives symbolic dimensions the lengths that the request says; dimensions.c. */
cleave_status cleave_import_give_dimensions(cleave_importer *im);
/* Has a graph input a dimension that is symbolic in the file? */
bool cleave_import_is_open(const cleave_value *value);
/* Finds the symbol of the batch; every other symbolic dimension is refused. */
cleave_status cleave_import_check_batch(cleave_importer *im);
/* Behind the nodes: a batch that is asked for of a model with a fixed one has to be that of some
   data.  (Weights of classes, say, are data without one.) */
cleave_status cleave_import_check_fixed_batch(cleave_importer *im);
/* What a graph input is taken for: data, a parameter or a buffer. */
cleave_tensor_kind cleave_import_input_kind(const cleave_importer *im, const cleave_value *value,
                                            const char **why);
/* Replaces nodes that spell out an operator by one of that operator; order, live: [n_nodes];
   fuse/rewrite.c. */
cleave_status cleave_import_rewrite(cleave_importer *im, const int32_t *order, bool *live);
/* Runs the handler of the node being imported, unless it can be folded; operators.c. */
cleave_status cleave_import_node(cleave_importer *im);
/* Computes the outputs of that node where it has constants alone; fold/fold.c. */
cleave_status cleave_import_fold(cleave_importer *im, bool *folded);
/* The loss of a model whose first output this is: a scalar is trained as it is, logits get a mean
   softmax cross-entropy; operators/loss.c. */
cleave_status cleave_import_loss(cleave_importer *im, cleave_value *output);
/* Makes one operator of each attention among the drafts; fuse/fuse.c. */
cleave_status cleave_import_fuse(cleave_importer *im);
/* Stores parameters that are seen in parts alone as they are seen, so that each part is one box;
   once the model's outputs are known; seen_in_parts.c. */
cleave_status cleave_import_store_as_seen(cleave_importer *im, const cleave_model *model);
/* Drops operators that are bypassed and that nothing reads; compact.c. */
cleave_status cleave_import_drop_bypassed(cleave_importer *im);
/* Drops nests without an operator, and operators without a nest; compact.c. */
cleave_status cleave_import_compact(cleave_importer *im);
/* The model's list of inputs; new_id: [n drafts] tensors of the model, or -1; inputs.c. */
cleave_status cleave_import_list_inputs(cleave_importer *im, const int32_t *new_id,
                                        cleave_model *model);
/* Drafts become the model: names, order, compaction; finish.c. */
cleave_status cleave_import_finish(cleave_importer *im, cleave_model *model);

#endif
