/* Puts a graph together in memory, in the structures that ONNX files are read into: a call per
   node.

   Values go by their names, as in the file; a call returns the name of what it makes.  The first
   failure, which is want of memory, sticks: later calls do nothing and return null, and
   cleave_compose_finish says what happened.  So those who put families of models together write one
   line per node.  Parameters are inputs of fixed shape: names and shapes alone, never elements. */
#ifndef CLEAVE_GRAPH_IMPORT_COMPOSE_H
#define CLEAVE_GRAPH_IMPORT_COMPOSE_H

#include "base/list.h"
#include "graph/import/onnx/onnx_file.h"

/* The operator set that composed graphs use: the first one with Gelu. */
enum { CLEAVE_COMPOSED_OPERATOR_SET = 20 };

/* Names and elements live in `arena`; zero all else. */
typedef struct cleave_composer {
    bool trains;       /* else nothing is dropped out */
    const char *again; /* behind names of nodes, where parameters are those of others; null: "" */
    cleave_arena *arena;
    cleave_error *error;
    bool failed;
    CLEAVE_LIST(cleave_onnx_node) nodes;
    CLEAVE_LIST(cleave_onnx_value) inputs;
} cleave_composer;

/* A name from parts, such as "%s.%s", scope, part. */
const char *cleave_compose_name(cleave_composer *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A node of one output, both called `name`.  Its inputs follow as texts; null or "": left out. */
#define CLEAVE_COMPOSE(c, type, name, ...)                                                         \
    cleave_compose_node((c), (type), (name),                                                       \
                        (int32_t)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(const char *)),   \
                        (const char *[]){__VA_ARGS__})
const char *cleave_compose_node(cleave_composer *c, const char *type, const char *name,
                                int32_t n_inputs, const char *const *inputs);

/* Another output of the node that was composed last; it is called `name`. */
const char *cleave_compose_output(cleave_composer *c, const char *name);
/* That node is none of ONNX's, but one of Cleave's own. */
void cleave_compose_as_own(cleave_composer *c);
/* Attributes of that node. */
void cleave_compose_integer(cleave_composer *c, const char *attribute, int64_t value);
void cleave_compose_number(cleave_composer *c, const char *attribute, double value);
void cleave_compose_text(cleave_composer *c, const char *attribute, const char *value);
void cleave_compose_integers(cleave_composer *c, const char *attribute, int32_t n,
                             const int64_t *values);

/* Inputs of the graph; a parameter that is there is that one, of the same shape.  Data have the
 * batch, which stays open, before the given dimensions. */
const char *cleave_compose_parameter(cleave_composer *c, const char *name, int rank,
                                     const int64_t *shape);
/* One that is not trained; a checkpoint has it. */
const char *cleave_compose_kept(cleave_composer *c, const char *name, int rank,
                                const int64_t *shape);
const char *cleave_compose_data(cleave_composer *c, const char *name, int32_t type, int rank,
                                const int64_t *shape);

/* Constants.  Elements are not copied, and have to live as long as the arena. */
const char *cleave_compose_floats(cleave_composer *c, const char *name, int rank,
                                  const int64_t *shape, const float *values);
const char *cleave_compose_ids(cleave_composer *c, const char *name, int rank, const int64_t *shape,
                               const int64_t *values);
const char *cleave_compose_scalar(cleave_composer *c, const char *name, double value);

/* Views.  A dimension of 0 stays what it is; of -1 it is what is left. */
const char *cleave_compose_reshape(cleave_composer *c, const char *name, const char *x, int rank,
                                   const int64_t *shape);
const char *cleave_compose_transpose(cleave_composer *c, const char *name, const char *x, int rank,
                                     const int64_t *permutation);
/* Elements begin..end-1 of one dimension; -1: the last one. */
const char *cleave_compose_slice(cleave_composer *c, const char *name, const char *x, int64_t axis,
                                 int64_t begin, int64_t end);
const char *cleave_compose_concat(cleave_composer *c, const char *name, int64_t axis, const char *a,
                                  const char *b);

/* Gives the graph, with one output [batch, shape].  FAILED where memory was short at any call.
   Frees what the composer holds outside of the arena, in any case. */
cleave_status cleave_compose_finish(cleave_composer *c, const char *output, int rank,
                                    const int64_t *shape, cleave_onnx_graph *graph);

#endif
