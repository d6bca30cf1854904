/* The scalar functions that tapes are made of: one table, a row each, of what a function is and how
   it is differentiated.  A new function is a new row, and a vector form in exec/kernels/tape.c
   where it has to be fast.

   The formulas are text, since they are computed in three precisions: float over tiles
   (exec/kernels/tape.c), double in the reference kernels, long double on constants
   (graph/import/fold/evaluate.c).  Each of these includes <tgmath.h>, where exp is the function of
   its argument's type, and expands the table with its own words for

     real    its type, for constants that are not whole
     a, b    the operands
     v       the result; in derivatives only
     p, q    the instruction's numbers
     place   what the place of the element gives: for INDEX its index along axis a; for DROPOUT
             1 / (1 - p) or 0, by (seed, step, output's name, q, its number among those of the
             tape, logical row-major index of the output element); for UNIFORM a number of [0, 1),
             by the same and p, the stream, an integer */
#ifndef CLEAVE_GRAPH_MODEL_OPCODE_H
#define CLEAVE_GRAPH_MODEL_OPCODE_H

#include <stdbool.h>

/* Name, number of operands, value; derivative by a, and what it needs; the same by b.

   A function of one operand with the name of an ONNX operator is that operator.  Derivatives are
   NONE, PLUS (1), MINUS (-1), TIMES(d), OVER(d) (1 / d) and RATIO(n, d) (n / d), told apart so that
   a gradient that is divided is rounded once.  They need the values of A, B (operands), V (the
   result), or OUTPUT: V, and a nest that ends so keeps its output for it, and not its inputs.

   ROUND takes halves to even.  MASK is 0 whatever a is, infinities included; a selection is the sum
   of two.  Numbers of opcodes stand in the keys of machine files: rows are added at the end. */
// clang-format off
#define CLEAVE_OPCODES(ROW, real, a, b, v, p, q, place)                                            \
    ROW(COPY,       1, a,                   PLUS, 0,                                     NONE, 0)  \
    ROW(CONSTANT,   0, p,                   NONE, 0,                                     NONE, 0)  \
    ROW(INDEX,      0, place,               NONE, 0,                                     NONE, 0)  \
    ROW(ADD,        2, a + b,               PLUS, 0,                                     PLUS, 0)  \
    ROW(SUB,        2, a - b,               PLUS, 0,              MINUS, 0)                        \
    ROW(MUL,        2, a * b,               TIMES(b), B,          TIMES(a), A)                     \
    ROW(DIV,        2, a / b,               OVER(b), B,           RATIO(-a, b * b), A | B)         \
    ROW(MIN,        2, a < b ? a : b,       TIMES(a <= b), A | B, TIMES((real)!(a <= b)), A | B)   \
    ROW(MAX,        2, a > b ? a : b,       TIMES(a >= b), A | B, TIMES((real)!(a >= b)), A | B)   \
    ROW(POW,        2, pow(a, b),           TIMES(b * pow(a, b - 1)), A | B,                       \
                                                                  TIMES(v * log(a)), A | V)        \
    ROW(EQUAL,      2, a == b,              NONE, 0,                                     NONE, 0)  \
    ROW(NEG,        1, -a,                  MINUS, 0,                                    NONE, 0)  \
    ROW(ABS,        1, fabs(a),             TIMES(a > 0 ? 1 : a < 0 ? -1 : 0), A,        NONE, 0)  \
    ROW(EXP,        1, exp(a),              TIMES(v), V,                                 NONE, 0)  \
    ROW(LOG,        1, log(a),              OVER(a), A,                                  NONE, 0)  \
    ROW(SQRT,       1, sqrt(a),             OVER(2 * v), V,                              NONE, 0)  \
    ROW(RSQRT,      1, 1 / sqrt(a),         TIMES((real)-0.5 * v * v * v), V,            NONE, 0)  \
    ROW(RECIPROCAL, 1, 1 / a,               TIMES(-v * v), V,                            NONE, 0)  \
    ROW(ERF,        1, erf(a),              TIMES((real)M_2_SQRTPI * exp(-a * a)), A,    NONE, 0)  \
    ROW(RELU,       1, a > 0 ? a : 0,       TIMES(v > 0), OUTPUT,                        NONE, 0)  \
    ROW(LEAKY_RELU, 1, a * (a > 0 ? 1 : p), TIMES((p > 0 ? v : a) > 0 ? 1 : p), OUTPUT,  NONE, 0)  \
    ROW(CLIP,       1, a < p ? p : a > q ? q : a, TIMES(((a >= p) & (a <= q)) ? 1 : 0), A, NONE, 0)\
    ROW(SIGMOID,    1, 1 / (1 + exp(-a)),   TIMES(v * (1 - v)), OUTPUT,                  NONE, 0)  \
    ROW(TANH,       1, tanh(a),             TIMES(1 - v * v), OUTPUT,                    NONE, 0)  \
    ROW(SCALE,      1, p * a + q,           TIMES(p), 0,                                 NONE, 0)  \
    ROW(DROPOUT,    1, a * place,           TIMES(place), 0,                             NONE, 0)  \
    ROW(LESS,       2, a < b,               NONE, 0,                                     NONE, 0)  \
    ROW(LESS_EQUAL, 2, a <= b,              NONE, 0,                                     NONE, 0)  \
    ROW(MASK,       2, b != 0 ? a : 0,      TIMES(b != 0), B,                            NONE, 0)  \
    ROW(FLOOR,      1, floor(a),            NONE, 0,                                     NONE, 0)  \
    ROW(CEIL,       1, ceil(a),             NONE, 0,                                     NONE, 0)  \
    ROW(ROUND,      1, rint(a),             NONE, 0,                                     NONE, 0)  \
    ROW(TRUNC,      1, trunc(a),            NONE, 0,                                     NONE, 0)  \
    ROW(SIGN,       1, a > 0 ? 1 : a < 0 ? -1 : 0, NONE, 0,                              NONE, 0)  \
    ROW(FMOD,       2, fmod(a, b),          PLUS, 0,                                     NONE, 0)  \
    ROW(LOG1P,      1, log1p(a),            OVER(1 + a), A,                              NONE, 0)  \
    ROW(SIN,        1, sin(a),              TIMES(cos(a)), A,                            NONE, 0)  \
    ROW(COS,        1, cos(a),              TIMES(-sin(a)), A,                           NONE, 0)  \
    ROW(TAN,        1, tan(a),              TIMES(1 + v * v), V,                         NONE, 0)  \
    ROW(ASIN,       1, asin(a),             OVER(sqrt(1 - a * a)), A,                    NONE, 0)  \
    ROW(ACOS,       1, acos(a),             OVER(-sqrt(1 - a * a)), A,                   NONE, 0)  \
    ROW(ATAN,       1, atan(a),             OVER(1 + a * a), A,                          NONE, 0)  \
    ROW(SINH,       1, sinh(a),             TIMES(cosh(a)), A,                           NONE, 0)  \
    ROW(COSH,       1, cosh(a),             TIMES(sinh(a)), A,                           NONE, 0)  \
    ROW(ASINH,      1, asinh(a),            OVER(sqrt(a * a + 1)), A,                    NONE, 0)  \
    ROW(ACOSH,      1, acosh(a),            OVER(sqrt(a * a - 1)), A,                    NONE, 0)  \
    ROW(ATANH,      1, atanh(a),            OVER(1 - a * a), A,                          NONE, 0) \
    ROW(UNIFORM,    0, place,               NONE, 0,                                     NONE, 0)

typedef enum cleave_opcode {
#define CLEAVE_ROW(name, ...) CLEAVE_OP_##name,
    CLEAVE_OPCODES(CLEAVE_ROW, , , , , , , )
#undef CLEAVE_ROW
    CLEAVE_N_OPCODES
} cleave_opcode;
// clang-format on

/* Registers 0..n_inputs-1 of a tape are the inputs' elements; instruction i writes register
   n_inputs + i; the last one is the value.  a and b are registers, but a of INDEX is an axis. */
typedef struct cleave_instruction {
    cleave_opcode opcode;
    int a, b;
    double p, q;
} cleave_instruction;

/* Registers that an instruction reads, and how many of them (the first ones) have a gradient. */
int cleave_opcode_operands(cleave_opcode opcode);
int cleave_opcode_gradient_operands(cleave_opcode opcode);

const char *cleave_opcode_name(cleave_opcode opcode); /* "ADD" */
/* By name, in letters of any case; CLEAVE_N_OPCODES: none. */
cleave_opcode cleave_opcode_find(const char *name);

/* Which values the derivative by a, or by b, reads: bits. */
enum { CLEAVE_NEEDS_A = 1, CLEAVE_NEEDS_B = 2, CLEAVE_NEEDS_RESULT = 4 };
unsigned cleave_instruction_needs(const cleave_instruction *it, bool by_b);

/* Does a nest that ends with it keep its output for it? */
bool cleave_instruction_keeps_output(const cleave_instruction *it);

#endif
