/* Copies of strided blocks: against a walk written with nothing but indices. */
#include "exec/kernels/copy.h"

#include "base/random.h"
#include "graph/model/attention.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

enum { ELEMENTS = 4096 };

/* A random piece within ELEMENTS on both sides: a permuted dense block, with gaps. */
static cleave_copy_piece random_piece(cleave_random *random, cleave_copy_mode mode) {
    cleave_copy_piece piece = {.mode = mode, .type = CLEAVE_F32, .fill = 2.5f};
    piece.rank = (int)cleave_random_below(random, 5);
    for (int d = 0; d < piece.rank; d++)
        piece.extent[d] = 1 + cleave_random_below(random, 5);
    for (int side = 0; side < 2; side++) {
        int64_t stride = 1, *strides = side == 0 ? piece.destination_stride : piece.source_stride;
        int first = (int)cleave_random_below(random, 5);
        for (int i = 0; i < piece.rank; i++) {
            int d = (first + i) % piece.rank;
            strides[d] = stride;
            stride *= piece.extent[d] + cleave_random_below(random, 2);
        }
    }
    piece.destination_offset = cleave_random_below(random, 100);
    piece.source_offset = cleave_random_below(random, 100);
    return piece;
}

static void walk(const cleave_copy_piece *piece, float *to, const float *from) {
    int64_t n = 1;
    for (int d = 0; d < piece->rank; d++)
        n *= piece->extent[d];
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, a = piece->destination_offset, b = piece->source_offset;
        for (int d = piece->rank - 1; d >= 0; d--) {
            a += rest % piece->extent[d] * piece->destination_stride[d];
            b += rest % piece->extent[d] * piece->source_stride[d];
            rest /= piece->extent[d];
        }
        if (piece->mode == CLEAVE_COPY_ASSIGN)
            to[a] = from[b];
        else if (piece->mode == CLEAVE_COPY_SUM)
            to[a] += from[b];
        else if (piece->mode == CLEAVE_COPY_MAX)
            to[a] = fmaxf(to[a], from[b]);
        else
            to[a] = piece->fill;
    }
}

Test(copy, every_mode_touches_its_block_and_nothing_else) {
    static float source[ELEMENTS], expected[ELEMENTS], got[ELEMENTS];
    cleave_copy_mode modes[] = {CLEAVE_COPY_ASSIGN, CLEAVE_COPY_SUM, CLEAVE_COPY_MAX,
                                CLEAVE_COPY_FILL};
    for (uint64_t seed = 0; seed < 400; seed++) {
        cleave_random random = {.key = seed};
        for (int i = 0; i < ELEMENTS; i++) {
            source[i] = (float)cleave_random_below(&random, 1000);
            expected[i] = got[i] = (float)cleave_random_below(&random, 1000);
        }
        cleave_copy_piece piece = random_piece(&random, modes[seed % 4]);
        walk(&piece, expected, source);
        cleave_copy_piece_run(&piece, got, piece.mode == CLEAVE_COPY_FILL ? NULL : source);
        cr_assert(memcmp(expected, got, sizeof got) == 0, "seed %llu", (unsigned long long)seed);
    }
}

Test(copy, cuts_do_what_the_whole_does) {
    static float source[ELEMENTS], expected[ELEMENTS], got[ELEMENTS];
    cleave_copy_mode modes[] = {CLEAVE_COPY_ASSIGN, CLEAVE_COPY_SUM, CLEAVE_COPY_MAX,
                                CLEAVE_COPY_FILL, CLEAVE_COPY_MOMENTS};
    int n_cut = 0;
    for (uint64_t seed = 0; seed < 400; seed++) {
        cleave_random random = {.key = seed};
        for (int i = 0; i < ELEMENTS; i++) {
            source[i] = (float)(1 + cleave_random_below(&random, 1000));
            expected[i] = got[i] = (float)(1 + cleave_random_below(&random, 1000));
        }
        cleave_copy_piece piece = random_piece(&random, modes[seed % 5]);
        if (piece.mode == CLEAVE_COPY_MOMENTS) {
            if (piece.rank < 2)
                continue;
            piece.extent[0] = 1; /* the record's dimension: its stride is that of the entries */
            piece.destination_stride[0] = piece.source_stride[0] = 1200;
        }
        cleave_copy_piece_run(&piece, expected, piece.mode == CLEAVE_COPY_FILL ? NULL : source);
        int32_t n = cleave_copy_piece_cuts(&piece, 1 + (int32_t)(seed % 4));
        cr_assert(n >= 1 && n <= 1 + (int32_t)(seed % 4));
        n_cut += n > 1;
        for (int32_t i = 0; i < n; i++) {
            cleave_copy_piece cut;
            cleave_copy_piece_cut(&piece, n, i, &cut);
            cleave_copy_piece_run(&cut, got, piece.mode == CLEAVE_COPY_FILL ? NULL : source);
        }
        cr_assert(memcmp(expected, got, sizeof got) == 0, "seed %llu", (unsigned long long)seed);
    }
    cr_expect(n_cut > 100, "only %d were cut", n_cut);
}

/* 8 samples of 96 channels and 56 x 112 pixels, channels last.  The upper half of images of 112
   rows, cut into 37: by its rows of pixels, of which each is 112 x 96 floats; not by its columns,
   of which there are more.  Cut into 100, there are columns alone to cut by. */
Test(copy, cuts_leave_rows_as_long_as_they_are) {
    const int64_t rows = 56, columns = 112, channels = 96, row = columns * channels;
    const cleave_copy_piece half = {
        .mode = CLEAVE_COPY_ASSIGN,
        .rank = 4,
        .extent = {8, channels, rows, columns},
        .destination_stride = {rows * row, 1, row, channels},
        .source_stride = {2 * rows * row, 1, row, channels},
    };
    cr_assert_eq(cleave_copy_piece_cuts(&half, 37), 37);
    cleave_copy_piece cut;
    cleave_copy_piece_cut(&half, 37, 36, &cut); /* of 56 rows, 19 pieces have two and 18 one */
    cr_expect_eq(cut.extent[2], 1);
    cr_expect_eq(cut.source_offset, 55 * row);
    cr_expect_eq(cut.extent[0] * cut.extent[1] * cut.extent[3], 8 * row);
    cr_assert_eq(cleave_copy_piece_cuts(&half, 100), 100);
    cleave_copy_piece_cut(&half, 100, 0, &cut);
    cr_expect_eq(cut.extent[2], rows);
    cr_expect_eq(cut.extent[3], 2);
}

/* Of whole numbers below 10, whose squares have an exact sum: in any order, and cut anywhere. */
Test(copy, squares_are_added_up_in_one_element) {
    static float source[ELEMENTS];
    for (uint64_t seed = 0; seed < 400; seed++) {
        cleave_random random = {.key = seed};
        for (int i = 0; i < ELEMENTS; i++)
            source[i] = (float)cleave_random_below(&random, 10);
        cleave_copy_piece piece = random_piece(&random, CLEAVE_COPY_SQUARES);
        memset(piece.destination_stride, 0, sizeof piece.destination_stride);
        piece.destination_offset = 1;
        piece.fill = 0.5f;
        double sum = 0;
        int64_t n = 1;
        for (int d = 0; d < piece.rank; d++)
            n *= piece.extent[d];
        for (int64_t i = 0; i < n; i++) {
            int64_t rest = i, at = piece.source_offset;
            for (int d = piece.rank - 1; d >= 0; d--) {
                at += rest % piece.extent[d] * piece.source_stride[d];
                rest /= piece.extent[d];
            }
            sum += (double)source[at] * (double)source[at];
        }
        float got[3] = {7, 7, 7};
        int32_t cuts = cleave_copy_piece_cuts(&piece, 1 + (int32_t)(seed % 4));
        for (int32_t i = 0; i < cuts; i++) {
            cleave_copy_piece cut;
            cleave_copy_piece_cut(&piece, cuts, i, &cut);
            cleave_copy_piece_run(&cut, got, source);
        }
        cr_assert((double)got[1] == 7 + sum / 2, "seed %d: %g, not %g", (int)seed, (double)got[1],
                  7 + sum / 2);
        cr_assert(got[0] == 7 && got[2] == 7);
    }
}

Test(copy, integers_are_copied_exactly) {
    int64_t source[4] = {INT64_MAX, -1, 7, 9}, got[2] = {0, 0};
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_ASSIGN,
                               .type = CLEAVE_I64,
                               .rank = 1,
                               .extent = {2},
                               .destination_stride = {1},
                               .source_stride = {2}};
    cleave_copy_piece_run(&piece, got, source);
    cr_expect(got[0] == INT64_MAX && got[1] == 7);
}

/* {1, 2} has mean 1.5 and M2 0.5; {6} has mean 6 and M2 0; {1, 2, 6}: mean 3, M2 4 + 1 + 9 = 14.
   The second cell merges into an empty record, the third an empty one into it. */
Test(copy, merged_moments_are_those_of_the_union) {
    float a[9] = {2, 0, 1, 1.5f, 0, 4, 0.5f, 0, 0}, b[9] = {1, 2, 0, 6, 1.5f, 0, 0, 0.5f, 0};
    float expected[9] = {3, 2, 1, 3, 1.5f, 4, 14, 0.5f, 0};
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_MOMENTS,
                               .type = CLEAVE_F32,
                               .rank = 2,
                               .extent = {3, 3},
                               .destination_stride = {3, 1},
                               .source_stride = {3, 1}};
    cleave_copy_piece_run(&piece, a, b);
    for (int i = 0; i < 9; i++)
        cr_expect(fabs((double)a[i] - (double)expected[i]) < 1e-6, "element %d is %g", i,
                  (double)a[i]);
}

/* Scores {1, 1} and {3}: the sum above 3 is 1 + 2 exp(-2), of which the first has 2 exp(-2).  Where
   neither has a score there is no share; and numbers so low that a logarithm of the sum would be
   lost in them count alike. */
Test(copy, a_share_of_merged_statistics_is_that_of_the_union) {
    const float low = -0x1.fffffep127f;
    const cleave_row_statistics own[4] = {{1, 2}, {-INFINITY, 0}, {low, 3}, {0.5f, 1}};
    const cleave_row_statistics other[4] = {{3, 1}, {-INFINITY, 0}, {low, 1}, {-INFINITY, 0}};
    const double above = 2 * exp(-2.0), expected[4] = {above / (1 + above), 0, 0.75, 1};
    cleave_row_statistics merged[4], share[4];
    float rows[8] = {1, -2, 1, -2, 1, -2, 1, -2};
    memcpy(merged, own, sizeof own);
    memcpy(share, own, sizeof own);
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_STATISTICS,
                               .type = CLEAVE_STATISTICS,
                               .source_type = CLEAVE_STATISTICS,
                               .rank = 1,
                               .extent = {4},
                               .destination_stride = {1},
                               .source_stride = {1}};
    cleave_copy_piece_run(&piece, merged, other);
    cr_expect_float_eq((double)merged[0].maximum, 3, 1e-6);
    cr_expect_float_eq((double)merged[0].sum, 1 + above, 1e-6);
    piece.mode = CLEAVE_COPY_SHARE;
    cleave_copy_piece_run(&piece, share, merged);
    const cleave_copy_piece scale = {.mode = CLEAVE_COPY_SCALE,
                                     .type = CLEAVE_F32,
                                     .source_type = CLEAVE_STATISTICS,
                                     .rank = 2,
                                     .extent = {4, 2},
                                     .destination_stride = {2, 1},
                                     .source_stride = {1, 0}};
    cleave_copy_piece_run(&scale, rows, share);
    for (int r = 0; r < 4; r++)
        cr_expect(fabs((double)rows[2 * r] - expected[r]) < 1e-6 &&
                      fabs((double)rows[2 * r + 1] + 2 * expected[r]) < 1e-6,
                  "row %d is scaled by %g", r, (double)rows[2 * r]);
}

Test(copy, an_empty_block_touches_nothing) {
    float a[1] = {5}, b[1] = {6};
    cleave_copy_piece piece = {.mode = CLEAVE_COPY_ASSIGN,
                               .type = CLEAVE_F32,
                               .rank = 2,
                               .extent = {3, 0},
                               .destination_stride = {1, 1},
                               .source_stride = {1, 1}};
    cleave_copy_piece_run(&piece, a, b);
    cr_expect(a[0] > 4.5f && a[0] < 5.5f);
}
