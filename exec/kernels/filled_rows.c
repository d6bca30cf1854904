#include "exec/kernels/filled_rows.h"

#include <string.h>

enum { BLOCK = 32 };

typedef struct filled_rows {
    const cleave_blas_product *product;
    const cleave_matrices *at;
    cleave_filled_place place;
    int64_t n;
    int64_t step_a, step_b, step_c; /* bytes from row to row of each matrix; 0: it lacks them */
    const char *first;              /* of the matrix that is looked at */
    int64_t next, across, width;    /* its bytes to the next row, the next element; elements */
} filled_rows;

static filled_rows describe(const cleave_blas_product *p, const cleave_matrices *at,
                            cleave_filled_place place) {
    filled_rows r = {.product = p, .at = at, .place = place};
    int64_t a_down = (p->a_transposed ? 1 : p->a_row) * at->operand;
    int64_t a_across = (p->a_transposed ? p->a_row : 1) * at->operand;
    int64_t b_down = (p->b_transposed ? 1 : p->b_row) * at->operand;
    int64_t b_across = (p->b_transposed ? p->b_row : 1) * at->operand;
    if (place == CLEAVE_FILLED_COLUMNS) {
        r.first = (const char *)at->b_of + at->b;
        r.n = p->n;
        r.width = p->k;
        r.step_c = at->result;
        r.step_b = r.next = b_across;
        r.across = b_down;
        return r;
    }
    bool sums = place == CLEAVE_FILLED_SUMMED;
    r.first = (const char *)at->a_of + at->a;
    r.n = sums ? p->k : p->m;
    r.width = sums ? p->m : p->k;
    r.step_a = r.next = sums ? a_across : a_down;
    r.across = sums ? a_down : a_across;
    r.step_b = sums ? b_down : 0;
    r.step_c = sums ? 0 : p->c_row * at->result;
    return r;
}

/* Contiguous numbers, whatever their signs; as many at a time as fill vectors. */
static bool are_zero(const char *x, int64_t n, bool half) {
    enum { STEP = 64 };
    const uint16_t *halves = (const uint16_t *)(const void *)x;
    const uint32_t *wholes = (const uint32_t *)(const void *)x;
    for (int64_t i = 0; i < n; i += STEP) {
        int64_t end = i + STEP < n ? i + STEP : n;
        uint32_t any = 0;
        for (int64_t k = i; k < end && half; k++)
            any |= halves[k] & UINT32_C(0x7fff);
        for (int64_t k = i; k < end && !half; k++)
            any |= wholes[k] & UINT32_C(0x7fffffff);
        if (any != 0)
            return false;
    }
    return true;
}

static bool is_empty(const filled_rows *r, int64_t block) {
    bool half = r->at->operand != (int64_t)sizeof(float);
    int64_t end = (block + 1) * BLOCK < r->n ? (block + 1) * BLOCK : r->n;
    int64_t at_once = r->across == r->at->operand ? r->width : 1;
    for (int64_t i = block * BLOCK; i < end; i++)
        for (int64_t k = 0; k < r->width; k += at_once)
            if (!are_zero(r->first + i * r->next + k * r->across, at_once, half))
                return false;
    return true;
}

static cleave_blas_product part_of(const filled_rows *r, int64_t begin, int64_t n,
                                   cleave_matrices *at) {
    cleave_blas_product part = *r->product;
    *at = *r->at;
    at->a += begin * r->step_a;
    at->b += begin * r->step_b;
    at->c += begin * r->step_c;
    *(r->place == CLEAVE_FILLED_ROWS      ? &part.m
      : r->place == CLEAVE_FILLED_COLUMNS ? &part.n
                                          : &part.k) = n;
    return part;
}

/* The result of rows that are zero, or, where the rows are summed over, all of it. */
static void zero_result(const filled_rows *r, int64_t begin, int64_t n) {
    cleave_matrices at;
    cleave_blas_product part = part_of(r, begin, n, &at);
    for (int64_t i = 0; i < part.m && part.beta <= 0; i++)
        memset((char *)at.c_of + at.c + i * part.c_row * at.result, 0,
               (size_t)(part.n * at.result));
}

/* Of a run so many rows are multiplied at once.  oneDNN compiles products of bf16 for each shape:
   few are met where all are a block, two, four ... or the rest behind the last whole one. */
static int64_t rows_at_once(const filled_rows *r, int64_t rows) {
    int64_t taken = BLOCK;
    if (r->at->operand == (int64_t)sizeof(float) || rows < BLOCK)
        return rows;
    while (2 * taken <= rows)
        taken *= 2;
    return taken;
}

cleave_status cleave_filled_multiply(const cleave_kernels *kernels, const cleave_kernel_call *call,
                                     const cleave_blas_product *product,
                                     const cleave_matrices *whole, cleave_filled_place place,
                                     int64_t pieces, cleave_error *error) {
    filled_rows r = describe(product, whole, place);
    bool sums = place == CLEAVE_FILLED_SUMMED, any = false;
    for (int64_t begin = 0, end, n; begin < r.n; begin = end) {
        bool empty = is_empty(&r, begin / BLOCK);
        for (end = begin; end < r.n && is_empty(&r, end / BLOCK) == empty;)
            end = end + BLOCK < r.n ? end + BLOCK : r.n;
        if (empty && !sums)
            zero_result(&r, begin, end - begin);
        for (int64_t i = begin; i < end && !empty; i += n) {
            cleave_matrices at;
            n = rows_at_once(&r, end - i);
            cleave_blas_product part = part_of(&r, i, n, &at);
            part.beta = sums && any ? 1 : part.beta;
            if (any)
                CLEAVE_TRY(cleave_kernel_poll_now(call, error));
            any = true;
            CLEAVE_TRY(cleave_multiply_in_pieces(kernels, call, &part, &at,
                                                 at.operand == (int64_t)sizeof(float) ? pieces : 1,
                                                 error));
        }
    }
    if (sums && !any)
        zero_result(&r, 0, r.n);
    return CLEAVE_OK;
}

int64_t cleave_filled_workspace(cleave_kernels *kernels, const cleave_blas_product *product,
                                const cleave_matrices *whole, cleave_filled_place place) {
    filled_rows r = describe(product, whole, place);
    int64_t most = 0, rest = r.n % BLOCK;
    for (int64_t n = rest > 0 ? rest : BLOCK; n <= r.n; n = n < BLOCK ? BLOCK : 2 * n)
        for (int adds = 0; adds < (place == CLEAVE_FILLED_SUMMED ? 2 : 1); adds++) {
            cleave_matrices at;
            cleave_blas_product part = part_of(&r, 0, n, &at);
            part.beta = adds ? 1 : part.beta;
            int64_t bytes = cleave_multiply_workspace(kernels, &part, &at, 1);
            if (bytes < 0)
                return -1;
            most = bytes > most ? bytes : most;
        }
    return most;
}
