/* What is priced by its bytes: copies, sums, updates and loads. */
#include "exec/kernels/share.h"
#include "exec/measure/repeats.h"
#include "exec/world/memory.h"

#include <stdlib.h>

typedef struct vector_subject {
    cleave_team *team;
    float *memory; /* arrays of n, the first of each `stride` after the last one's */
    int n_arrays;
    int64_t n, stride;
    cleave_copy_piece piece;
    const cleave_optimizer *optimizer;
} vector_subject;

static cleave_status run_copy(void *context, cleave_error *error) {
    (void)error;
    vector_subject *of = context;
    cleave_share_copy(of->team, &of->piece, of->memory, of->memory + of->stride);
    return CLEAVE_OK;
}

static void update_range(void *context, int64_t from, int64_t to) {
    const vector_subject *of = context;
    int states = cleave_optimizer_states(of->optimizer);
    float *const state[2] = {states > 0 ? of->memory + 2 * of->stride + from : NULL,
                             states > 1 ? of->memory + 3 * of->stride + from : NULL};
    const cleave_update_step at = {.step = 1, .scale = 1};
    cleave_optimizer_update(of->optimizer, &at, to - from, of->memory + from,
                            of->memory + of->stride + from, state);
}

static cleave_status run_update(void *context, cleave_error *error) {
    (void)error;
    vector_subject *of = context;
    cleave_share_range(of->team, 0, of->n, update_range, of);
    return CLEAVE_OK;
}

/* Arrays begin at lines of the cache, as in an arena, and at different places of their pages: a
   read a little after a write to the same place of another page waits for it, which makes copies of
   some sizes take many times as long. */
static int64_t stride_of(int64_t n) {
    enum { PAGE_FLOATS = 1024, APART_FLOATS = 272 };
    return (n + PAGE_FLOATS - 1) / PAGE_FLOATS * PAGE_FLOATS + APART_FLOATS;
}

enum { MOST_VECTORS = 4, FEW_FLOATS = 32 };

/* The same of a few floats: a step copies every 100 us or so, and updates all parameters in a row,
   so that instructions lie in a cache.  Without that the least copy took 2 to 3 us, in place of the
   0.3 that it takes in a step. */
static vector_subject few_of(const vector_subject *of, float *memory) {
    vector_subject few = *of;
    few.memory = memory;
    few.stride = FEW_FLOATS;
    few.n = FEW_FLOATS;
    for (int d = 0; d < of->piece.rank; d++)
        few.piece.extent[d] = of->piece.extent[d] < 3 ? of->piece.extent[d] : 3;
    few.piece.destination_stride[0] = few.piece.source_stride[0] = 4;
    few.piece.destination_stride[1] = few.piece.source_stride[1] = 1;
    return few;
}

/* What writes the second array touches so many times as much. */
enum { TOUCHED_TIMES = 4 };

/* What is copied to, mostly a buffer of messages, lies where something else was a little before: by
   addresses so many times the bytes that are copied, but no more than so many, before what it is
   copied from was written (docs/internals/measured.md). */
enum { TENANT_TIMES = 64, MOST_TENANT_BYTES = 1 << 20 };

/* Was the second array just written, and the first one a little before, or its place touched? */
typedef enum recency { NONE_RECENT, SECOND_RECENT, BOTH_RECENT } recency;

static cleave_status measure_vectors(vector_subject *of, cleave_measured_run *run, recency recent,
                                     const cleave_measured_bytes *in, cleave_measurement *result,
                                     cleave_error *error) {
    of->stride = of->n < INT64_MAX / 64 ? stride_of(of->n) : 0;
    of->memory =
        of->stride > 0
            ? cleave_memory_allocate((size_t)of->n_arrays * (size_t)of->stride * sizeof(float))
            : NULL;
    if (of->memory == NULL)
        return cleave_fail_memory(error, "measuring copies");
    for (int64_t i = 0; i < of->n_arrays * of->stride; i++)
        of->memory[i] = 0.5f;
    cleave_measurement measured = {0};
    size_t bytes = (size_t)of->n * sizeof *of->memory;
    size_t between = TOUCHED_TIMES * bytes;
    if (recent == SECOND_RECENT)
        between += TENANT_TIMES * bytes < MOST_TENANT_BYTES ? TENANT_TIMES * bytes
                                                            : (size_t)MOST_TENANT_BYTES;
    size_t all = in->touched_bytes < 0 ? SIZE_MAX : (size_t)in->touched_bytes;
    cleave_surroundings around = {0};
    cleave_surroundings_add(&around, (cleave_used_memory){.touched_since = all});
    if (recent != NONE_RECENT) {
        cleave_surroundings_add(
            &around, (cleave_used_memory){.memory = of->memory,
                                          .bytes = bytes,
                                          .touched_since = between < all ? between : all});
        cleave_surroundings_add(
            &around, (cleave_used_memory){.memory = of->memory + of->stride, .bytes = bytes});
    }
    float few_memory[MOST_VECTORS * FEW_FLOATS] = {0};
    vector_subject few = few_of(of, few_memory);
    cleave_status status =
        cleave_measure_repeats(run, of, &few, &around, in->seconds_budget, &measured, error);
    free(of->memory);
    if (status == CLEAVE_OK)
        *result = measured;
    return status;
}

static int64_t floats_of(int64_t bytes) { return bytes > 12 ? bytes / 4 : 3; }

cleave_status cleave_copy_measure(const cleave_measured_bytes *in, cleave_copy_mode mode,
                                  cleave_measurement *result, cleave_error *error) {
    int64_t n = floats_of(in->bytes) / 3 * 3; /* whole records of moments */
    vector_subject of = {.team = in->team, .n_arrays = 2, .n = n};
    of.piece = (cleave_copy_piece){.mode = mode,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {3, n / 3},
                                   .destination_stride = {n / 3, 1},
                                   .source_stride = {n / 3, 1}};
    /* What is copied to lies where something else was.  What is added to was written by the pass
       before the one that wrote what is added. */
    recency recent = mode == CLEAVE_COPY_ASSIGN ? SECOND_RECENT : BOTH_RECENT;
    return measure_vectors(&of, run_copy, recent, in, result, error);
}

cleave_status cleave_rows_measure(const cleave_measured_bytes *in, int64_t row_bytes, int64_t apart,
                                  cleave_measurement *result, cleave_error *error) {
    int64_t row = row_bytes / 4, n_rows = in->bytes / row_bytes;
    vector_subject of = {.team = in->team,
                         .n_arrays = 2,
                         .n = n_rows * row * apart}; /* as far as the source reaches */
    of.piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {n_rows, row},
                                   .destination_stride = {row, 1},
                                   .source_stride = {row * apart, 1}};
    return measure_vectors(&of, run_copy, SECOND_RECENT, in, result, error);
}

cleave_status cleave_update_measure(const cleave_measured_bytes *in,
                                    const cleave_optimizer *optimizer, cleave_measurement *result,
                                    cleave_error *error) {
    vector_subject of = {.team = in->team,
                         .n_arrays = 2 + cleave_optimizer_states(optimizer),
                         .n = floats_of(in->bytes),
                         .optimizer = optimizer};
    return measure_vectors(&of, run_update, NONE_RECENT, in, result, error);
}

cleave_status cleave_load_measure(const cleave_measured_bytes *in, cleave_measurement *result,
                                  cleave_error *error) {
    int64_t pixels = floats_of(in->bytes) / 3;
    vector_subject of = {.n_arrays = 2, .n = 3 * pixels};
    of.piece = (cleave_copy_piece){.mode = CLEAVE_COPY_ASSIGN,
                                   .type = CLEAVE_F32,
                                   .rank = 2,
                                   .extent = {3, pixels},
                                   .destination_stride = {1, 3},
                                   .source_stride = {pixels, 1}};
    return measure_vectors(&of, run_copy, NONE_RECENT, in, result, error);
}
