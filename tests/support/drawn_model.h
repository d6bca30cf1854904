/* A random ONNX model under construction: operands of random origin, nodes, and what is to be fed
   to it.  All follows from the seed.  What is drawn is written down, so that a failing test can
   say what it was. */
#ifndef CLEAVE_TESTS_SUPPORT_DRAWN_MODEL_H
#define CLEAVE_TESTS_SUPPORT_DRAWN_MODEL_H

#include "base/arena.h"
#include "base/random.h"
#include "graph/model/box.h"
#include "onnx_writer.h"

#include <stdbool.h>

/* Where values lie, so that derivatives exist. */
typedef enum drawn_domain {
    DRAWN_ANY,      /* -1.4 .. 1.4, 0.15 from zero */
    DRAWN_POSITIVE, /* 0.4 .. 2 */
    DRAWN_UNIT,     /* -0.8 .. 0.8, 0.1 from zero */
    DRAWN_DISTINCT, /* -1.5 .. 1.5, no two close to each other */
    DRAWN_OFF_GRID, /* -2 .. 2, 0.1 from multiples of a half */
    DRAWN_ABOVE_ONE /* 1.2 .. 3 */
} drawn_domain;

enum { DRAWN_MOST_OUTPUTS = 8, DRAWN_MOST_DATA = 24 };

typedef struct drawn_shape {
    int rank;
    int64_t extent[CLEAVE_MAX_RANK];
} drawn_shape;

typedef struct drawn_model {
    cleave_arena *arena;
    cleave_random random;
    int opset;
    bytes graph, attributes; /* attributes of the next node */
    int n_names;
    int n_data;
    struct {
        const char *name;
        const void *values; /* floats or int64_t */
    } data[DRAWN_MOST_DATA];
    int n_outputs;
    struct {
        const char *name;
        bool is_float;
    } outputs[DRAWN_MOST_OUTPUTS];
    /* A value that an operand may be made of; null: none. */
    const char *source;
    int64_t source_size;
    const char *anchor; /* a parameter of every model */
    /* The parameter drawn last, to be drawn again. */
    const char *last;
    drawn_shape last_shape;
    drawn_domain last_domain;
    bool plain;                           /* operands are parameters, data and constants only */
    char text[8192], attribute_text[512]; /* what was drawn; attributes of the next node */
} drawn_model;

/* ---- choices ---- */
int64_t draw_between(drawn_model *m, int64_t least, int64_t most);
void draw_permutation(drawn_model *m, int rank, int64_t *permutation); /* of 0 .. rank - 1 */
bool draw_chance(drawn_model *m, double probability);
double draw_number(drawn_model *m, double least, double most);
drawn_shape draw_shape(drawn_model *m, int least_rank, int most_rank);
drawn_shape shape_of(int rank, const int64_t *extents);
int64_t shape_size(drawn_shape shape);
/* A shape that broadcasts into this one: leading dimensions left out, others 1. */
drawn_shape draw_broadcast(drawn_model *m, drawn_shape shape);
/* An axis, perhaps counted from the end. */
int64_t draw_sign_of_axis(drawn_model *m, int64_t axis, int rank);

/* ---- values: the name of one ---- */

/* Of any origin: a parameter, data, a constant, or computed from parameters. */
const char *draw_operand(drawn_model *m, drawn_shape shape, drawn_domain domain);
const char *draw_parameter(drawn_model *m, drawn_shape shape, drawn_domain domain);
const char *draw_constant(drawn_model *m, drawn_shape shape, drawn_domain domain);
/* Integers in least..most: data or a constant. */
const char *draw_ids(drawn_model *m, drawn_shape shape, int64_t least, int64_t most);
/* Truth values, by a comparison or as data. */
const char *draw_booleans(drawn_model *m, drawn_shape shape);
/* Constants with these values: a list, a scalar. */
const char *put_list(drawn_model *m, int n, const int64_t *values);
const char *put_scalar(drawn_model *m, double value);
const char *put_integer_scalar(drawn_model *m, int64_t value);
const char *put_floats(drawn_model *m, int n, const float *values);

/* ---- nodes ---- */
void set_integer(drawn_model *m, const char *name, int64_t value);
void set_number(drawn_model *m, const char *name, double value);
void set_text(drawn_model *m, const char *name, const char *value);
void set_texts(drawn_model *m, const char *name, const char *words);
void set_integers(drawn_model *m, const char *name, int n, const int64_t *values);
/* A node with the attributes set before, inputs by a format of words; gives its output. */
const char *put_node(drawn_model *m, const char *type, const char *inputs, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with n outputs, those left out null: writes their names. */
void put_node_outputs(drawn_model *m, const char *type, const char *inputs, int n,
                      const char **outputs);
const char *put_reshape(drawn_model *m, const char *value, drawn_shape shape);
const char *put_slice(drawn_model *m, const char *value, int rank, const int64_t *starts,
                      const int64_t *ends, const int64_t *steps);
/* An output of the operator under test. */
void put_output(drawn_model *m, const char *name);
void put_discrete_output(drawn_model *m, const char *name); /* integers or truth values */

/* A note in the text. */
void put_note(drawn_model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
