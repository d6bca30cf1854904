/* What benches share: a row of the one table that tests/bench/run prints, clocks, and the peak of
 * a core. */
#ifndef CLEAVE_TESTS_BENCH_ROW_H
#define CLEAVE_TESTS_BENCH_ROW_H

#include "base/error.h"
#include "base/order.h"
#include "base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

/* `wanted` is "" where nothing is. */
__attribute__((format(printf, 3, 4))) static inline void
bench_row(const char *what, const char *wanted, const char *format, ...) {
    char found[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(found, sizeof found, format, arguments);
    va_end(arguments);
    printf("%-44s %-46s %s\n", what, found, wanted);
    fflush(stdout);
}

static inline double bench_processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Most memory of this process so far. */
static inline double bench_peak_mebibytes(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024;
}

/* Of a core, in GFLOP/s: the fastest of some loops of multiply-adds, compiled for the processor at
   hand, as kernels are; twelve vectors of accumulators hide their latency and stay in registers. */
#ifdef __AVX512F__
enum { BENCH_LANES = 16 };
#else
enum { BENCH_LANES = 8 };
#endif
typedef float bench_lane __attribute__((vector_size(BENCH_LANES * sizeof(float))));

static inline double bench_peak_gflops(void) {
    enum { CHAINS = 12, ROUNDS = 4000000 };
    double best = 0;
    volatile float keep = 0.999f;
    for (int repeat = 0; repeat < 5; repeat++) {
        bench_lane sums[CHAINS], a, b;
        for (int i = 0; i < BENCH_LANES; i++) {
            a[i] = keep;
            b[i] = 1e-3f * keep;
        }
        for (int i = 0; i < CHAINS; i++)
            sums[i] = a * (float)i;
        double before = cleave_clock_seconds();
        for (int r = 0; r < ROUNDS; r++)
#pragma GCC unroll 12
            for (int i = 0; i < CHAINS; i++)
                sums[i] = sums[i] * a + b;
        double seconds = cleave_clock_seconds() - before;
        for (int i = 1; i < CHAINS; i++)
            sums[0] += sums[i];
        keep = 0.999f + 0 * sums[0][3];
        double gflops = 2.0 * BENCH_LANES * CHAINS * ROUNDS / seconds / 1e9;
        best = gflops > best ? gflops : best;
    }
    return best;
}

#endif
