/* The fit of a link's figures: recovered from samples that follow the model, and little moved by a
   few that don't. */
#include "exec/measure/link_fit.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>

enum { MOST = 64 };
static const cleave_link_measurement ethernet = {.latency_seconds = 30e-6,
                                                 .bytes_per_second = 0.118e9,
                                                 .overhead_seconds = 4e-6,
                                                 .overhead_seconds_per_byte = 0.3e-9};

static void add(cleave_link_sample *samples, int32_t *n, cleave_link_sample_kind kind, double bytes,
                double seconds) {
    samples[(*n)++] = (cleave_link_sample){kind, bytes, seconds};
}

/* How long a message has its link, by the protocol. */
static double link_seconds(const cleave_link_measurement *of, double bytes) {
    double first = fmin(bytes, of->first_bytes);
    return (bytes - first) / of->bytes_per_second +
           (first > 0 ? first / of->first_bytes_per_second : 0);
}

/* 1 KiB to 64 MiB. */
static int32_t sample(const cleave_link_measurement *of, cleave_link_sample *samples) {
    int32_t n = 0;
    add(samples, &n, CLEAVE_LINK_POST, 8, of->overhead_seconds);
    add(samples, &n, CLEAVE_LINK_ONE_WAY, 8,
        of->overhead_seconds + of->latency_seconds +
            8 * fmax(of->overhead_seconds_per_byte, 1 / of->bytes_per_second));
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= 4) {
        double post = of->overhead_seconds, end = of->overhead_seconds_per_byte * bytes;
        double link = link_seconds(of, bytes), before = of->latency_seconds;
        if (of->n_agreements > 0 && bytes >= of->large_from_bytes)
            before += of->agreements[0].seconds;
        add(samples, &n, CLEAVE_LINK_ONE_WAY, bytes, post + before + fmax(link, end));
        add(samples, &n, CLEAVE_LINK_BOTH_WAYS, bytes, 2 * post + before + fmax(link, 2 * end));
        if (bytes >= 1 << 18 && bytes <= 4 << 20)
            add(samples, &n, CLEAVE_LINK_PROCESSOR, bytes, 2 * (post + end));
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
    int32_t n = sample(&ethernet, samples);
    OK(cleave_link_fit, samples, n, 0, &got);
    expect_figures(&got, &ethernet, 5e-3);
}

/* At 10 Gbit/s the link takes longer one way, the processors both ways, and none is measured that
   computes; unshaped the processors take longer both times, by which nothing is known of the link
   but that it is no slower. */
Test(link_fit, processors_show_where_they_take_longer_than_the_link) {
    cleave_link_measurement wanted = ethernet, got;
    cleave_link_sample samples[MOST];
    wanted.bytes_per_second = 1.2e9;
    wanted.overhead_seconds_per_byte = 0.6e-9;
    int32_t n = sample(&wanted, samples), kept = 0;
    for (int32_t i = 0; i < n; i++)
        if (samples[i].kind != CLEAVE_LINK_PROCESSOR)
            samples[kept++] = samples[i];
    OK(cleave_link_fit, samples, kept, 0, &got);
    expect_figures(&got, &wanted, 5e-3);
    wanted.bytes_per_second = 4e9;
    n = sample(&wanted, samples);
    OK(cleave_link_fit, samples, n, 0, &got);
    expect_near(got.overhead_seconds_per_byte, wanted.overhead_seconds_per_byte, 5e-3, "per byte");
    cr_expect_gt(got.bytes_per_second, 1 / wanted.overhead_seconds_per_byte);
}

/* One round trip that the system interrupted. */
Test(link_fit, one_odd_sample_moves_nothing) {
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    int32_t n = sample(&ethernet, samples);
    samples[9].seconds *= 10;
    OK(cleave_link_fit, samples, n, 0, &got);
    expect_figures(&got, &ethernet, 5e-3);
}

/* Up to 64 KiB at twenty times the rate. */
Test(link_fit, bursts_of_a_shaped_link_hide_nothing) {
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    int32_t n = sample(&ethernet, samples);
    for (int32_t i = 0; i < n; i++)
        if (samples[i].bytes <= 1 << 16 && samples[i].kind != CLEAVE_LINK_POST)
            samples[i].seconds -= 0.95 * samples[i].bytes / ethernet.bytes_per_second;
    OK(cleave_link_fit, samples, n, 0, &got);
    expect_near(got.bytes_per_second, ethernet.bytes_per_second, 0.02, "bandwidth");
    expect_near(got.overhead_seconds, ethernet.overhead_seconds, 0.02, "overhead");
}

/* Where the processors copy everything there is no link to speak of, but it has a bandwidth: a
   twentieth of 1 ns a byte. */
Test(link_fit, a_link_that_costs_nothing_has_a_bandwidth) {
    const cleave_link_measurement memory = {.latency_seconds = 1e-9,
                                            .bytes_per_second = 1e18,
                                            .overhead_seconds = 0.5e-6,
                                            .overhead_seconds_per_byte = 1e-9};
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    int32_t n = sample(&memory, samples);
    OK(cleave_link_fit, samples, n, 0, &got);
    expect_near(got.bytes_per_second, 20e9, 0.01, "bandwidth");
    expect_near(got.overhead_seconds_per_byte, 1e-9, 0.06, "overhead per byte");
}

/* Messages that are large take 60 us more, and the first MiB of any goes at ten times the rate. */
Test(link_fit, a_protocol_is_recovered) {
    const cleave_link_measurement wanted = {.latency_seconds = 2e-6,
                                            .bytes_per_second = 4e9,
                                            .overhead_seconds = 4e-6,
                                            .overhead_seconds_per_byte = 0.01e-9,
                                            .large_from_bytes = 1 << 16,
                                            .n_agreements = 1,
                                            .agreements = {{1 << 16, 60e-6}},
                                            .first_bytes = 1 << 20,
                                            .first_bytes_per_second = 40e9};
    cleave_link_sample samples[MOST];
    cleave_link_measurement got;
    int32_t n = sample(&wanted, samples);
    OK(cleave_link_fit, samples, n, wanted.large_from_bytes, &got);
    expect_near(got.bytes_per_second, wanted.bytes_per_second, 0.01, "bandwidth");
    for (int i = 0; i < got.n_agreements; i++)
        expect_near(got.agreements[i].seconds, wanted.agreements[0].seconds, 0.01, "agreement");
    expect_near(got.first_bytes, wanted.first_bytes, 0, "first bytes");
    expect_near(got.first_bytes_per_second, wanted.first_bytes_per_second, 0.05, "their rate");
}

/* Those of 64 KiB set out 20 us later, all larger ones 60. */
Test(link_fit, messages_of_each_size_take_what_they_took) {
    cleave_link_measurement wanted = ethernet, got;
    cleave_link_sample samples[MOST];
    wanted.bytes_per_second = 1.2e9;
    wanted.large_from_bytes = 1 << 16;
    wanted.n_agreements = 1;
    wanted.agreements[0].seconds = 60e-6;
    int32_t n = sample(&wanted, samples);
    for (int32_t i = 0; i < n; i++)
        samples[i].seconds -= samples[i].bytes == 1 << 16 ? 40e-6 : 0;
    OK(cleave_link_fit, samples, n, wanted.large_from_bytes, &got);
    for (int32_t i = 0; i < n; i++) {
        double bytes = samples[i].bytes, agreed = 0;
        for (int a = 0; a < got.n_agreements && got.agreements[a].bytes <= bytes; a++)
            agreed = got.agreements[a].seconds;
        if (samples[i].kind == CLEAVE_LINK_ONE_WAY && bytes >= wanted.large_from_bytes)
            expect_near(got.overhead_seconds + got.latency_seconds + agreed +
                            fmax(link_seconds(&got, bytes), got.overhead_seconds_per_byte * bytes),
                        samples[i].seconds, 0.03, "one way");
    }
}

/* 1 KiB to 4 MiB, large ones from 64 KiB on: 3 pieces and another one for each MiB; small ones half
   a piece.  Nothing is exact: each is off by up to a tenth of a piece. */
Test(link_fit, polls_are_recovered) {
    cleave_poll_sample samples[7];
    cleave_poll_figures got;
    int32_t n = 0;
    for (double bytes = 1 << 10; bytes <= 1 << 22; bytes *= 4, n++)
        samples[n] = (cleave_poll_sample){bytes, (bytes < 1 << 16 ? 0.5 : 3 + bytes / 0x1p20) +
                                                     (n % 3 - 1) * 0.1};
    cleave_link_fit_polls(samples, n, 0, &got);
    expect_near(got.large_from_bytes, 1 << 16, 0, "large from");
    expect_near(got.small, 0.5, 0.1, "small");
    expect_near(got.large, 3, 0.1, "large");
    expect_near(got.per_byte, 0x1p-20, 0.1, "per byte");
}

/* 1 KiB to 64 MiB, finely up to 1 MiB, as calibration does it; all that is larger than 1 MiB is 15
   % off, now in one direction, now in the other.  Of its time the 75 us of a large message are
   little or nothing; of 32 KiB they are most. */
Test(link_fit, what_small_messages_show_is_not_lost_to_the_noise_of_large_ones) {
    const double large_from = 1 << 15, large = 75e-6;
    cleave_link_sample samples[MOST];
    cleave_link_measurement wanted = ethernet, got;
    int32_t n = 0;
    wanted.bytes_per_second = 4e9;
    add(samples, &n, CLEAVE_LINK_POST, 8, wanted.overhead_seconds);
    add(samples, &n, CLEAVE_LINK_ONE_WAY, 8, wanted.overhead_seconds + wanted.latency_seconds);
    for (double bytes = 1024; bytes <= 64 << 20; bytes *= bytes < 1 << 20 ? 2 : 4) {
        double small = wanted.overhead_seconds + wanted.latency_seconds;
        double end = wanted.overhead_seconds_per_byte * bytes;
        double link = bytes / wanted.bytes_per_second;
        small += bytes >= large_from ? large : 0;
        double off = bytes <= 1 << 20 ? 1 : n % 4 < 2 ? 1.15 : 1 / 1.15;
        add(samples, &n, CLEAVE_LINK_ONE_WAY, bytes, (small + fmax(link, end)) * off);
        add(samples, &n, CLEAVE_LINK_BOTH_WAYS, bytes,
            (small + wanted.overhead_seconds + fmax(link, 2 * end)) / off);
    }
    OK(cleave_link_fit, samples, n, large_from, &got);
    expect_near(got.large_from_bytes, large_from, 0, "large from");
    expect_near(got.agreements[0].seconds, large, 0.1, "agreement");
}

/* What a transport does whose large messages begin at `large_from`. */
static cleave_poll_sample polled(double bytes, double large_from) {
    return (cleave_poll_sample){bytes, bytes < large_from ? 0.5 : 2.5 + bytes / 0x1p23};
}

/* Wherever large messages begin, looking in between finds it to less than half as much again. */
Test(link_fit, looking_in_between_finds_where_large_messages_begin) {
    for (double large_from = 2e3; large_from < 4e6; large_from *= 1.37) {
        cleave_poll_sample samples[16];
        cleave_poll_figures got;
        int32_t n = 0;
        for (double bytes = 1 << 10; bytes <= 1 << 22; bytes *= 4)
            samples[n++] = polled(bytes, large_from);
        for (int64_t between; (between = cleave_link_next_polled(samples, n)) != 0;) {
            int32_t i = n++;
            cr_assert_leq(n, 16);
            for (; i > 0 && samples[i - 1].bytes > (double)between; i--)
                samples[i] = samples[i - 1];
            samples[i] = polled((double)between, large_from);
            cr_assert(i > 0 && samples[i - 1].bytes < (double)between);
        }
        cleave_link_fit_polls(samples, n, 0, &got);
        cr_expect_geq(got.large_from_bytes, large_from);
        cr_expect_leq(got.large_from_bytes, fmax(1.5 * large_from, large_from + 1024), "%g: %g",
                      large_from, got.large_from_bytes);
    }
}
