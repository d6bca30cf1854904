/* The tape of look-ups, written and recognised. */
#include "graph/model/gather.h"

enum { N_INSTRUCTIONS = 7 };

static void write_tape(const cleave_nest *nest, int v, cleave_instruction *tape) {
    enum { IDS, TABLE, ZERO, NEGATIVE, WRAP, ID, INDEX, HIT };
    double extent = (double)nest->axes[v].extent;
    const cleave_instruction code[N_INSTRUCTIONS] = {
        {.opcode = CLEAVE_OP_CONSTANT},
        {.opcode = CLEAVE_OP_LESS, .a = IDS, .b = ZERO},
        {.opcode = CLEAVE_OP_SCALE, .a = NEGATIVE, .p = extent},
        {.opcode = CLEAVE_OP_ADD, .a = IDS, .b = WRAP},
        {.opcode = CLEAVE_OP_INDEX, .a = v},
        {.opcode = CLEAVE_OP_EQUAL, .a = ID, .b = INDEX},
        {.opcode = CLEAVE_OP_MASK, .a = TABLE, .b = HIT},
    };
    for (int i = 0; i < N_INSTRUCTIONS; i++)
        tape[i] = code[i];
}

void cleave_gather_emit(cleave_nest *nest, int v) {
    write_tape(nest, v, nest->tape);
    nest->n_instructions = N_INSTRUCTIONS;
}

static bool same_number(double a, double b) { return a >= b && a <= b; }

int cleave_gather_axis(const cleave_nest *nest) {
    cleave_instruction expected[N_INSTRUCTIONS];
    if (nest->n_inputs != 2 || nest->n_instructions != N_INSTRUCTIONS ||
        nest->combiner != CLEAVE_COMBINE_SUM || nest->tape[4].opcode != CLEAVE_OP_INDEX)
        return -1;
    int v = nest->tape[4].a;
    if (v < 0 || v >= nest->n_axes)
        return -1;
    write_tape(nest, v, expected);
    for (int i = 0; i < N_INSTRUCTIONS; i++) {
        const cleave_instruction *it = &nest->tape[i], *like = &expected[i];
        if (it->opcode != like->opcode || it->a != like->a || it->b != like->b ||
            !same_number(it->p, like->p) || !same_number(it->q, like->q))
            return -1;
    }
    return v;
}
