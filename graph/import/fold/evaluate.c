/* Fragments over constants: a tile of elements after the other, an instruction at a time. */
#include "graph/import/fold/fold.h"
#include "graph/import/operators/fragment.h"

#include <tgmath.h>

enum { TILE = 64, MOST_REGISTERS = CLEAVE_MOST_ARGUMENTS + CLEAVE_MOST_FRAGMENT };

typedef struct operand {
    const cleave_onnx_tensor *tensor;
    int64_t stride[CLEAVE_MAX_RANK]; /* by dimensions of the result; 0 where it is repeated */
} operand;

/* A fragment of operands that are known, row by row of its result. */
typedef struct evaluation {
    cleave_importer *im;
    const cleave_fragment *code;
    int n_operands;
    operand operands[CLEAVE_MOST_ARGUMENTS];
    int64_t base[CLEAVE_MOST_ARGUMENTS]; /* where each operand begins */
    cleave_folded out;
} evaluation;

static cleave_status broadcast(cleave_importer *im, int n, operand *operands, int *rank,
                               int64_t *shape) {
    *rank = 0;
    for (int i = 0; i < n; i++)
        *rank = operands[i].tensor->rank > *rank ? operands[i].tensor->rank : *rank;
    for (int d = 0; d < *rank; d++) {
        shape[d] = 1;
        for (int i = 0; i < n; i++) {
            int at = d - (*rank - operands[i].tensor->rank);
            int64_t extent = at >= 0 ? operands[i].tensor->shape[at] : 1;
            if (extent != 1 && shape[d] != 1 && extent != shape[d])
                return cleave_import_fail(im, "dimensions %lld and %lld do not fit",
                                          (long long)shape[d], (long long)extent);
            shape[d] = extent != 1 ? extent : shape[d];
        }
    }
    for (int i = 0; i < n; i++) {
        const cleave_onnx_tensor *tensor = operands[i].tensor;
        int64_t dense[CLEAVE_MAX_RANK];
        cleave_fold_strides(tensor->rank, tensor->shape, dense);
        for (int d = 0; d < *rank; d++) {
            int at = d - (*rank - tensor->rank);
            operands[i].stride[d] = at < 0 || tensor->shape[at] == 1 ? 0 : dense[at];
        }
    }
    return CLEAVE_OK;
}

/* No fragment with an INDEX or a DROPOUT is evaluated, so elements have no places. */
static void evaluate(const cleave_instruction *it, int n, const long double *a,
                     const long double *b, long double *y) {
    long double p = (long double)it->p, q = (long double)it->q;
    switch (it->opcode) {
#define ROW(name, operands, value, ...)                                                            \
    case CLEAVE_OP_##name:                                                                         \
        for (int i = 0; i < n; i++)                                                                \
            y[i] = (value);                                                                        \
        break;
        CLEAVE_OPCODES(ROW, long double, a[i], b[i], y[i], p, q, 0)
#undef ROW
    case CLEAVE_N_OPCODES:
        break;
    }
}

/* Elements to .. to + n of the result, in one row. */
static cleave_status evaluate_tile(evaluation *e, int64_t to, int n) {
    long double registers[MOST_REGISTERS][TILE];
    const cleave_fragment *code = e->code;
    int n_operands = e->n_operands, rank = e->out.tensor.rank;
    for (int k = 0; k < n_operands; k++) {
        const operand *of = &e->operands[k];
        int64_t stride = rank > 0 ? of->stride[rank - 1] : 0;
        for (int i = 0; i < n; i++)
            registers[k][i] = cleave_fold_read(of->tensor, e->base[k] + i * stride);
        e->base[k] += n * stride;
    }
    for (int k = 0; k < code->n; k++) {
        const cleave_instruction *it = &code->code[k];
        int a = it->a < 0 ? -1 - it->a : n_operands + it->a;
        int b = it->b < 0 ? -1 - it->b : n_operands + it->b;
        evaluate(it, n, registers[a], registers[b], registers[n_operands + k]);
    }
    const long double *value = registers[n_operands + code->n - 1];
    for (int i = 0; i < n; i++)
        CLEAVE_TRY(cleave_fold_write(e->im, &e->out, to + i, value[i]));
    return CLEAVE_OK;
}

static cleave_status evaluate_row(evaluation *e, int64_t row, int64_t length) {
    for (int64_t i = 0; i < length; i += TILE) {
        int run = length - i < TILE ? (int)(length - i) : TILE;
        CLEAVE_TRY(evaluate_tile(e, row * length + i, run));
    }
    return CLEAVE_OK;
}

cleave_status cleave_import_evaluate(cleave_importer *im, int n, const int *inputs,
                                     const cleave_fragment *code, int32_t type) {
    evaluation e = {.im = im, .code = code, .n_operands = n};
    int rank;
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    for (int i = 0; i < n; i++)
        e.operands[i] = (operand){.tensor = &cleave_import_input(im, inputs[i])->constant};
    CLEAVE_TRY(broadcast(im, n, e.operands, &rank, shape));
    CLEAVE_TRY(cleave_fold_new(im, type, rank, shape, &e.out));
    int64_t length = rank > 0 ? shape[rank - 1] : 1;
    int64_t rows = length > 0 ? e.out.tensor.n / length : 0;
    for (int64_t row = 0; row < rows; row++) {
        for (int k = 0; k < n; k++) {
            int64_t rest = row;
            e.base[k] = 0;
            for (int d = rank - 2; d >= 0; d--) {
                e.base[k] += rest % shape[d] * e.operands[k].stride[d];
                rest /= shape[d];
            }
        }
        CLEAVE_TRY(evaluate_row(&e, row, length));
    }
    return cleave_fold_deliver(im, 0, &e.out.tensor);
}
