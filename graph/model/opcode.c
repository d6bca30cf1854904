/* What the table of opcodes says beside the formulas. */
#include "graph/model/opcode.h"

#include <strings.h>

enum {
    A = CLEAVE_NEEDS_A,
    B = CLEAVE_NEEDS_B,
    V = CLEAVE_NEEDS_RESULT,
    KEPT = 8,
    OUTPUT = V | KEPT
};

/* Has it a derivative? */
#define NONE 0
#define PLUS 1
#define MINUS 1
#define TIMES(d) 1
#define OVER(d) 1
#define RATIO(n, d) 1

typedef struct opcode_row {
    const char *name;
    int operands, gradient_operands;
    unsigned needs[2];
} opcode_row;

static const opcode_row rows[CLEAVE_N_OPCODES] = {
#define ROW(name, operands, value, by_a, needs_a, by_b, needs_b)                                   \
    {#name, operands, by_a + by_b, {needs_a, needs_b}},
    CLEAVE_OPCODES(ROW, , , , , , , )};

int cleave_opcode_operands(cleave_opcode opcode) { return rows[opcode].operands; }

int cleave_opcode_gradient_operands(cleave_opcode opcode) { return rows[opcode].gradient_operands; }

const char *cleave_opcode_name(cleave_opcode opcode) { return rows[opcode].name; }

cleave_opcode cleave_opcode_find(const char *name) {
    int i = 0;
    while (i < CLEAVE_N_OPCODES && strcasecmp(rows[i].name, name) != 0)
        i++;
    return (cleave_opcode)i;
}

/* A slope below zero makes the sign of LEAKY_RELU's operand unreadable from its result. */
static unsigned needs_of(const cleave_instruction *it, bool by_b) {
    return it->opcode == CLEAVE_OP_LEAKY_RELU && it->p <= 0 ? A : rows[it->opcode].needs[by_b];
}

unsigned cleave_instruction_needs(const cleave_instruction *it, bool by_b) {
    return needs_of(it, by_b) & (A | B | V);
}

bool cleave_instruction_keeps_output(const cleave_instruction *it) {
    return (needs_of(it, false) & KEPT) != 0;
}
