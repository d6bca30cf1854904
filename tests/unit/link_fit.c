/* The fit of a link's figures: recovered from samples that follow the model, and little moved by a
   few that don't. */
#include "exec/link_fit.h"

#include <criterion/criterion.h>
#include <math.h>

enum { MOST = 64 };
static const cleave_link_measurement ethernet = {30e-6, 0.118e9, 4e-6, 0.3e-9};

static void add(cleave_link_sample *samples, int32_t *n, cleave_link_sample_kind kind, double bytes,
                double seconds) {
    samples[(*n)++] = (cleave_link_sample){kind, bytes, seconds};
}

/* 1 KiB to 64 MiB. */
static int32_t sample(const cleave_link_measurement *of, cleave_link_sample *samples) {
    int32_t n = 0;
    add(samples, &n, CLEAVE_LINK_POST, 8, of->overhead_seconds);
    add(samples, &n, CLEAVE_LINK_ONE_WAY, 8,
        of->overhead_seconds + of->latency_seconds +
            8 * (of->overhead_seconds_per_byte + 1 / of->bytes_per_second));
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= 4) {
        double end = of->overhead_seconds + of->overhead_seconds_per_byte * bytes;
        double link = of->latency_seconds + bytes / of->bytes_per_second;
        add(samples, &n, CLEAVE_LINK_ONE_WAY, bytes, end + link);
        add(samples, &n, CLEAVE_LINK_BOTH_WAYS, bytes, 2 * end + link);
        if (bytes >= 1 << 18 && bytes <= 4 << 20)
            add(samples, &n, CLEAVE_LINK_PROCESSOR, bytes, 2 * end);
    }
    return n;
}

static void expect_near(double got, double wanted, double tolerance, const char *what) {
    cr_expect(fabs(got / wanted - 1) <= tolerance, "%s: %g, not %g", what, got, wanted);
}

static void expect_figures(const cleave_link_measurement *got,
                           const cleave_link_measurement *wanted, double tolerance) {
    expect_near(got->latency_seconds, wanted->latency_seconds, tolerance, "latency");
    expect_near(got->bytes_per_second, wanted->bytes_per_second, tolerance, "bandwidth");
    expect_near(got->overhead_seconds, wanted->overhead_seconds, tolerance, "overhead");
    expect_near(got->overhead_seconds_per_byte, wanted->overhead_seconds_per_byte, tolerance,
                "overhead per byte");
}

Test(link_fit, figures_are_recovered_from_what_follows_the_model) {
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    cleave_error error = {""};
    int32_t n = sample(&ethernet, samples);
    cr_assert_eq(cleave_link_fit(samples, n, &got, &error), CLEAVE_OK, "%s", error.message);
    expect_figures(&got, &ethernet, 5e-3);
}

/* One round trip that the system interrupted. */
Test(link_fit, one_odd_sample_moves_nothing) {
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    cleave_error error = {""};
    int32_t n = sample(&ethernet, samples);
    samples[9].seconds *= 10;
    cr_assert_eq(cleave_link_fit(samples, n, &got, &error), CLEAVE_OK, "%s", error.message);
    expect_figures(&got, &ethernet, 5e-3);
}

/* Up to 64 KiB at twenty times the rate. */
Test(link_fit, bursts_of_a_shaped_link_hide_nothing) {
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    cleave_error error = {""};
    int32_t n = sample(&ethernet, samples);
    for (int32_t i = 0; i < n; i++)
        if (samples[i].bytes <= 1 << 16 && samples[i].kind != CLEAVE_LINK_POST)
            samples[i].seconds -= 0.95 * samples[i].bytes / ethernet.bytes_per_second;
    cr_assert_eq(cleave_link_fit(samples, n, &got, &error), CLEAVE_OK, "%s", error.message);
    expect_near(got.bytes_per_second, ethernet.bytes_per_second, 0.02, "bandwidth");
    expect_near(got.overhead_seconds, ethernet.overhead_seconds, 0.02, "overhead");
}

/* Where the processors copy everything there is no link to speak of, but it has a bandwidth: a
   twentieth of 1 ns a byte. */
Test(link_fit, a_link_that_costs_nothing_has_a_bandwidth) {
    const cleave_link_measurement memory = {1e-9, 1e18, 0.5e-6, 1e-9};
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    cleave_error error = {""};
    int32_t n = sample(&memory, samples);
    cr_assert_eq(cleave_link_fit(samples, n, &got, &error), CLEAVE_OK, "%s", error.message);
    expect_near(got.bytes_per_second, 20e9, 0.01, "bandwidth");
    expect_near(got.overhead_seconds_per_byte, 1e-9, 0.06, "overhead per byte");
}
