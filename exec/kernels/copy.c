/* A piece is first brought into its simplest form: dimensions of extent 1 dropped, neighbours that
   lie densely in both operands merged, the destination's densest dimension innermost.  Most pieces
   are then a few long contiguous rows. */
#include "exec/kernels/copy.h"

#include "exec/kernels/convert.h"
#include "graph/model/attention.h"

#include <math.h>
#include <string.h>

typedef struct block {
    int rank;
    int64_t extent[CLEAVE_MAX_RANK], to[CLEAVE_MAX_RANK], from[CLEAVE_MAX_RANK];
} block;

static bool merges(const block *b, int64_t extent, int64_t to, int64_t from) {
    int last = b->rank - 1;
    return last >= 0 && b->to[last] == to * extent && b->from[last] == from * extent;
}

/* Dimensions first..rank-1 of the piece; the innermost last, by the destination's stride. */
static block simplify(const cleave_copy_piece *piece, int first) {
    int order[CLEAVE_MAX_RANK], n = 0;
    for (int d = first; d < piece->rank; d++) {
        if (piece->extent[d] == 1)
            continue;
        int i = n++;
        for (; i > 0 && piece->destination_stride[order[i - 1]] < piece->destination_stride[d]; i--)
            order[i] = order[i - 1];
        order[i] = d;
    }
    block b = {0};
    for (int i = 0; i < n; i++) {
        int d = order[i];
        int64_t extent = piece->extent[d], to = piece->destination_stride[d],
                from = piece->mode == CLEAVE_COPY_FILL ? to : piece->source_stride[d];
        if (merges(&b, extent, to, from)) {
            b.extent[b.rank - 1] *= extent;
            b.to[b.rank - 1] = to;
            b.from[b.rank - 1] = from;
            continue;
        }
        b.extent[b.rank] = extent;
        b.to[b.rank] = to;
        b.from[b.rank++] = from;
    }
    if (b.rank == 0) {
        b.rank = 1;
        b.extent[0] = b.to[0] = b.from[0] = 1;
    }
    return b;
}

/* In lanes, for the sake of vectors, and of a run of rows in double. */
static double sum_of_squares(int64_t n, const float *from, int64_t stride) {
    enum { LANES = 16, RUN = 4096 };
    double sum = 0;
    for (int64_t first = 0; first < n; first += RUN) {
        float lane[LANES] = {0};
        int64_t end = first + RUN < n ? first + RUN : n, i = first;
        for (; i + LANES <= end && stride == 1; i += LANES)
            for (int l = 0; l < LANES; l++)
                lane[l] += from[i + l] * from[i + l];
        for (; i < end; i++)
            lane[0] += from[i * stride] * from[i * stride];
        for (int l = 0; l < LANES; l++)
            sum += (double)lane[l];
    }
    return sum;
}

static void row_float(cleave_copy_mode mode, int64_t n, float *to, int64_t to_stride,
                      const float *from, int64_t from_stride, float fill) {
    switch (mode) {
    case CLEAVE_COPY_ASSIGN:
        if (to_stride == 1 && from_stride == 1)
            memmove(to, from, (size_t)n * sizeof *to);
        else
            for (int64_t i = 0; i < n; i++)
                to[i * to_stride] = from[i * from_stride];
        break;
    case CLEAVE_COPY_SUM:
        if (to_stride == 1 && from_stride == 1)
            for (int64_t i = 0; i < n; i++)
                to[i] += from[i];
        else
            for (int64_t i = 0; i < n; i++)
                to[i * to_stride] += from[i * from_stride];
        break;
    case CLEAVE_COPY_MAX:
        for (int64_t i = 0; i < n; i++)
            if (from[i * from_stride] > to[i * to_stride])
                to[i * to_stride] = from[i * from_stride];
        break;
    case CLEAVE_COPY_FILL:
        for (int64_t i = 0; i < n; i++)
            to[i * to_stride] = fill;
        break;
    case CLEAVE_COPY_SQUARES:
        *to += (float)((double)fill * sum_of_squares(n, from, from_stride));
        break;
    case CLEAVE_COPY_MOMENTS:
    case CLEAVE_COPY_STATISTICS:
    case CLEAVE_COPY_SHARE:
    case CLEAVE_COPY_SCALE:
        break;
    }
}

/* Short rows, one after the other: a call of memmove for a few floats takes longer than these. */
static void short_rows(int64_t n_rows, float *to, int64_t to_next, const float *from,
                       int64_t from_next, int64_t n) {
    for (int64_t r = 0; r < n_rows; r++, to += to_next, from += from_next) {
        float *at = to;
        const float *next = from;
        int64_t left = n;
        for (; left >= 4; left -= 4, at += 4, next += 4)
            memmove(at, next, 4 * sizeof *at);
        if (left >= 2) {
            memmove(at, next, 2 * sizeof *at);
            at += 2;
            next += 2;
        }
        if (left % 2 != 0)
            *at = *next;
    }
}

/* Added short rows.  Where they lie far from each other, a processor does not see which comes next.
 */
static void short_sums(int64_t n_rows, float *to, int64_t to_next, const float *from,
                       int64_t from_next, int64_t n) {
    enum { AHEAD = 12, LINE = 16 };
    for (int64_t r = 0; r < n_rows; r++, to += to_next, from += from_next) {
        for (int64_t i = 0; i < n; i += LINE) {
            __builtin_prefetch(from + AHEAD * from_next + i);
            __builtin_prefetch(to + AHEAD * to_next + i, 1);
        }
        for (int64_t i = 0; i < n; i++)
            to[i] += from[i];
    }
}

/* Is neither end bf16, nor an integer? */
static bool is_exact(const cleave_copy_piece *piece) {
    return piece->type == CLEAVE_F32 &&
           (piece->source_type == CLEAVE_F32 || piece->mode == CLEAVE_COPY_FILL);
}

/* Are the rows of a block copied as they are, or added, and short? */
static bool has_short_rows(const cleave_copy_piece *piece, const block *b) {
    enum { SHORT = 32, SHORT_SUM = 256 };
    int inner = b->rank - 1;
    int64_t most = piece->mode == CLEAVE_COPY_ASSIGN ? SHORT
                   : piece->mode == CLEAVE_COPY_SUM  ? SHORT_SUM
                                                     : 0;
    return inner > 0 && is_exact(piece) && b->to[inner] == 1 && b->from[inner] == 1 &&
           b->extent[inner] <= most;
}

/* Rows of which one end at least is bf16: computed in f32, and rounded once. */
static void row_half(const cleave_copy_piece *piece, int64_t n, void *to, int64_t to_stride,
                     const void *from, int64_t from_stride) {
    cleave_type type = piece->type, source = piece->source_type;
    if (piece->mode == CLEAVE_COPY_ASSIGN && to_stride == 1 && from_stride == 1) {
        cleave_convert(source, from, type, to, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        float x = piece->mode == CLEAVE_COPY_FILL
                      ? piece->fill
                      : cleave_element_get(source, from, i * from_stride);
        float before = piece->mode == CLEAVE_COPY_SUM || piece->mode == CLEAVE_COPY_MAX
                           ? cleave_element_get(type, to, i * to_stride)
                           : 0;
        x = piece->mode == CLEAVE_COPY_SUM                 ? before + x
            : piece->mode == CLEAVE_COPY_MAX && before > x ? before
                                                           : x;
        cleave_element_put(type, to, i * to_stride, x);
    }
}

/* The same of a dense sum, where it takes time. */
static void sum_half(const cleave_copy_piece *piece, int64_t n, void *to, const void *from) {
    float *restrict exact = to;
    uint16_t *restrict half = to;
    const uint16_t *restrict halves = from;
    const float *restrict floats = from;
    if (piece->type == CLEAVE_F32)
        for (int64_t i = 0; i < n; i++)
            exact[i] += cleave_bf16_widen(halves[i]);
    else if (piece->source_type == CLEAVE_F32)
        for (int64_t i = 0; i < n; i++)
            half[i] = cleave_bf16_round(cleave_bf16_widen(half[i]) + floats[i]);
    else
        for (int64_t i = 0; i < n; i++)
            half[i] = cleave_bf16_round(cleave_bf16_widen(half[i]) + cleave_bf16_widen(halves[i]));
}

static void row_of_halves(const cleave_copy_piece *piece, int64_t n, char *to, int64_t to_stride,
                          const char *from, int64_t from_stride) {
    if (piece->mode == CLEAVE_COPY_SUM && to_stride == 1 && from_stride == 1)
        sum_half(piece, n, to, from);
    else
        row_half(piece, n, to, to_stride, from, from_stride);
}

static void row_integer(cleave_copy_mode mode, int64_t n, int64_t *to, int64_t to_stride,
                        const int64_t *from, int64_t from_stride, float fill) {
    for (int64_t i = 0; i < n; i++) {
        int64_t value = mode == CLEAVE_COPY_FILL ? (int64_t)fill : from[i * from_stride];
        int64_t *at = &to[i * to_stride];
        *at = mode == CLEAVE_COPY_SUM                  ? *at + value
              : mode == CLEAVE_COPY_MAX && *at > value ? *at
                                                       : value;
    }
}

/* Chan, Golub and LeVeque: moments of a union from the moments of its two halves. */
static void row_moments(int64_t n, float *to, int64_t to_stride, int64_t to_record,
                        const float *from, int64_t from_stride, int64_t from_record) {
    for (int64_t i = 0; i < n; i++) {
        float *a = &to[i * to_stride];
        const float *b = &from[i * from_stride];
        double count_a = (double)a[0], count_b = (double)b[0], count = count_a + count_b;
        if (count_b <= 0)
            continue;
        double delta = (double)b[from_record] - (double)a[to_record];
        a[0] = (float)count;
        a[to_record] = (float)((double)a[to_record] + delta * count_b / count);
        a[2 * to_record] = (float)((double)a[2 * to_record] + (double)b[2 * from_record] +
                                   delta * delta * count_a * count_b / count);
    }
}

/* A sum above a maximum as one above another one, which is not smaller. */
static float sum_above(const cleave_row_statistics *of, float maximum) {
    return of->sum > 0 ? of->sum * expf(of->maximum - maximum) : 0;
}

static void row_statistics(cleave_copy_mode mode, int64_t n, cleave_row_statistics *to,
                           int64_t to_stride, const cleave_row_statistics *from,
                           int64_t from_stride) {
    for (int64_t i = 0; i < n; i++, to += to_stride, from += from_stride) {
        if (mode == CLEAVE_COPY_STATISTICS && from->sum > 0) {
            float maximum = to->maximum > from->maximum ? to->maximum : from->maximum;
            to->sum = sum_above(to, maximum) + sum_above(from, maximum);
            to->maximum = maximum;
        } else if (mode == CLEAVE_COPY_SHARE) {
            to->sum = from->sum > 0 ? sum_above(to, from->maximum) / from->sum : 0;
        } else if (mode == CLEAVE_COPY_ASSIGN) {
            *to = *from;
        }
    }
}

static void row_scaled(int64_t n, float *to, int64_t to_stride, const cleave_row_statistics *from,
                       int64_t from_stride) {
    if (to_stride == 1 && from_stride == 0)
        for (int64_t i = 0; i < n; i++)
            to[i] *= from->sum;
    else
        for (int64_t i = 0; i < n; i++)
            to[i * to_stride] *= from[i * from_stride].sum;
}

void cleave_copy_piece_run(const cleave_copy_piece *piece, void *destination, const void *source) {
    for (int d = 0; d < piece->rank; d++)
        if (piece->extent[d] <= 0)
            return;
    bool moments = piece->mode == CLEAVE_COPY_MOMENTS;
    block b = simplify(piece, moments ? 1 : 0);
    bool is_short = has_short_rows(piece, &b);
    int inner = b.rank - (is_short ? 2 : 1); /* what one call below runs over */
    int64_t at[CLEAVE_MAX_RANK] = {0}, to = piece->destination_offset, from = piece->source_offset;
    for (;;) {
        if (is_short)
            (piece->mode == CLEAVE_COPY_SUM ? short_sums : short_rows)(
                b.extent[inner], (float *)destination + to, b.to[inner],
                (const float *)source + from, b.from[inner], b.extent[inner + 1]);
        else if (moments)
            row_moments(b.extent[inner], (float *)destination + to, b.to[inner],
                        piece->destination_stride[0], (const float *)source + from, b.from[inner],
                        piece->source_stride[0]);
        else if (piece->type == CLEAVE_STATISTICS)
            row_statistics(piece->mode, b.extent[inner], (cleave_row_statistics *)destination + to,
                           b.to[inner], (const cleave_row_statistics *)source + from,
                           b.from[inner]);
        else if (piece->mode == CLEAVE_COPY_SCALE)
            row_scaled(b.extent[inner], (float *)destination + to, b.to[inner],
                       (const cleave_row_statistics *)source + from, b.from[inner]);
        else if (piece->type == CLEAVE_I64)
            row_integer(piece->mode, b.extent[inner], (int64_t *)destination + to, b.to[inner],
                        source == NULL ? NULL : (const int64_t *)source + from, b.from[inner],
                        piece->fill);
        else if (!is_exact(piece))
            row_of_halves(piece, b.extent[inner],
                          (char *)destination + to * cleave_type_bytes(piece->type), b.to[inner],
                          source == NULL
                              ? NULL
                              : (const char *)source + from * cleave_type_bytes(piece->source_type),
                          b.from[inner]);
        else
            row_float(piece->mode, b.extent[inner], (float *)destination + to, b.to[inner],
                      source == NULL ? NULL : (const float *)source + from, b.from[inner],
                      piece->fill);
        int d = inner - 1;
        for (; d >= 0; d--) {
            to += b.to[d];
            from += b.from[d];
            if (++at[d] < b.extent[d])
                break;
            to -= b.to[d] * b.extent[d];
            from -= b.from[d] * b.extent[d];
            at[d] = 0;
        }
        if (d < 0)
            return;
    }
}

/* Of the dimensions that can be cut into so many, the one whose steps are longest: what is then
   left of each is as contiguous as the whole.  Without any, the longest one; -1: there is none. */
static int cut_dimension(const cleave_copy_piece *piece, int32_t n) {
    int best = -1;
    for (int d = piece->mode == CLEAVE_COPY_MOMENTS ? 1 : 0; d < piece->rank; d++) {
        bool fits = piece->extent[d] >= n, best_fits = best >= 0 && piece->extent[best] >= n;
        if (best < 0 || (fits && !best_fits) ||
            (fits && piece->destination_stride[d] > piece->destination_stride[best]) ||
            (!fits && !best_fits && piece->extent[d] > piece->extent[best]))
            best = d;
    }
    return best;
}

int32_t cleave_copy_piece_cuts(const cleave_copy_piece *piece, int32_t wanted) {
    int d = cut_dimension(piece, wanted);
    int64_t most = d < 0 ? 1 : piece->extent[d];
    return wanted <= 1 || most <= 1 ? 1 : wanted < most ? wanted : (int32_t)most;
}

void cleave_copy_piece_cut(const cleave_copy_piece *piece, int32_t n, int32_t i,
                           cleave_copy_piece *cut) {
    *cut = *piece;
    int d = cut_dimension(piece, n);
    if (n <= 1 || d < 0)
        return;
    int64_t from = cleave_block_start(piece->extent[d], n, i);
    cut->extent[d] = cleave_block_start(piece->extent[d], n, i + 1) - from;
    cut->destination_offset += from * piece->destination_stride[d];
    cut->source_offset += from * piece->source_stride[d];
}
