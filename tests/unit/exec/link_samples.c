/* What a measurement of a link decides without a clock: sizes, repeats, and what becomes of the
   seconds. */
#include "exec/measure/link_samples.h"

#include <criterion/criterion.h>

Test(link_samples, a_median_is_in_the_middle_whatever_the_order) {
    double odd[] = {5, 1, 9}, even[] = {4, 8, 2, 6}, one[] = {3};
    cr_expect_eq(cleave_link_median(odd, 3), 5);
    cr_expect_eq(cleave_link_median(even, 4), 6);
    cr_expect_eq(cleave_link_median(one, 1), 3);
}

/* Quartiles 3 and 7 of median 5: a spread of 4/5, and of 1.82 spreads the third. */
Test(link_samples, a_median_is_as_uncertain_as_its_quartiles_are_apart) {
    const double sorted[] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    cr_expect_float_eq(cleave_link_uncertainty(sorted, 9), 1.8209 * 0.8 / 3, 1e-4);
}

/* What messages take from a rank that computes is a difference, which noise may turn around. */
Test(link_samples, seconds_not_above_zero_are_no_samples) {
    cleave_link_samples samples = {0};
    cleave_link_samples_add(&samples, CLEAVE_LINK_ONE_WAY, 1024, 2e-6);
    cleave_link_samples_add(&samples, CLEAVE_LINK_PROCESSOR, 1 << 18, -1e-6);
    cleave_link_samples_add(&samples, CLEAVE_LINK_PROCESSOR, 1 << 18, 0);
    cleave_link_samples_add(&samples, CLEAVE_LINK_BOTH_WAYS, 2048, 3e-6);
    cr_assert_eq(samples.n, 2);
    cr_expect_eq(samples.items[0].kind, CLEAVE_LINK_ONE_WAY);
    cr_expect_eq(samples.items[1].bytes, 2048);
    cr_expect_eq(samples.items[1].seconds, 3e-6);
}

/* Two kinds of every size, three with the processors', and two of the smallest message. */
Test(link_samples, there_is_room_for_all_that_is_measured) {
    cleave_link_samples samples = {0};
    int64_t bytes = CLEAVE_LINK_LEAST_BYTES;
    int n = 2, n_processors = 0;
    for (int i = 0; i < CLEAVE_LINK_N_SIZES; i++, bytes *= 2) {
        n += 2 + cleave_link_asks_processors(bytes);
        n_processors += cleave_link_asks_processors(bytes);
    }
    cr_expect_eq(bytes / 2, CLEAVE_LINK_MOST_BYTES);
    cr_expect_eq(n_processors, 3); /* 256 KiB, 1 MiB, 4 MiB */
    for (int i = 0; i < n; i++)
        cleave_link_samples_add(&samples, CLEAVE_LINK_ONE_WAY, 1, 1);
    cr_expect_eq(samples.n, n);
    for (int i = 0; i < CLEAVE_LINK_MOST_SAMPLES; i++)
        cleave_link_samples_add(&samples, CLEAVE_LINK_ONE_WAY, 1, 1);
    cr_expect_eq(samples.n, CLEAVE_LINK_MOST_SAMPLES);
}

/* 2 ms pieces: 5 ms later where the sender computes are 2.5 pieces, and sooner is none; whatever
   the order of sizes, each stays with its own. */
Test(link_samples, polls_are_counted_in_pieces_and_sorted_by_size) {
    static const int64_t bytes[] = {1 << 10, 1 << 14, 1 << 18, 3 << 12, 5 << 13};
    cleave_link_polled polled = {0};
    for (int i = 0; i < 5; i++) {
        double alone = 1e-6 * (double)bytes[i];
        const double seconds[3] = {alone, alone + 1e-9 * (double)bytes[i], alone + 5e-3};
        cleave_link_polled_add(&polled, bytes[i], seconds, 2e-3);
    }
    cleave_link_polled_add(&polled, 1 << 20, (const double[]){3e-3, 2e-3, 3e-3}, 2e-3);
    cr_assert_eq(polled.n, 6);
    for (int i = 0; i < 5; i++) {
        cr_expect(i == 0 || polled.sending[i].bytes > polled.sending[i - 1].bytes);
        cr_expect_eq(polled.receiving[i].bytes, polled.sending[i].bytes);
        cr_expect_float_eq(polled.sending[i].polls, 1e-9 * polled.sending[i].bytes / 2e-3, 1e-9);
        cr_expect_float_eq(polled.receiving[i].polls, 2.5, 1e-9);
    }
    cr_expect_eq(polled.sending[5].polls, 0);
    cr_expect_eq(polled.receiving[5].polls, 0);
}

Test(link_samples, repeats_fit_the_budget_and_are_few) {
    cr_expect_eq(cleave_link_repeats(1, 0.1), 10);
    cr_expect_eq(cleave_link_repeats(1, 10), 3);
    cr_expect_eq(cleave_link_repeats(1, 1e-3), 20);
    cr_expect_eq(cleave_link_repeats(1, 0), 20);
}

/* Of a second no message may take more than 40 ms once; that which does is the last. */
Test(link_samples, a_size_that_takes_too_long_is_the_last) {
    cr_expect_eq(cleave_link_sizes_left(5, 17, 0.03, 1), 17);
    cr_expect_eq(cleave_link_sizes_left(5, 17, 0.05, 1), 6);
    cr_expect_eq(cleave_link_sizes_left(5, 17, 0.05, 2), 17);
}

Test(link_samples, computation_goes_on_for_longer_than_messages) {
    for (double both_ways = 1e-6; both_ways < 1; both_ways *= 3)
        for (double piece = 1e-5; piece < 1e-1; piece *= 7)
            cr_expect_gt(piece * cleave_link_pieces(both_ways, piece), 2 * both_ways);
    cr_expect_lt(cleave_link_pieces(1e-3, 0), 3000);
}
