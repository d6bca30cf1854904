/* The order of samples: every sample once an epoch, by the seed, whoever asks. */
#include "exec/data/sample_order.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

Test(sample_order, a_permutation_takes_every_place_once) {
    /* Around powers of four, where the network's domain is exactly as large, or almost four times.
     */
    const int64_t sizes[] = {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 1000};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (uint64_t key = 0; key < 20; key++) {
            bool taken[1000] = {false};
            for (int64_t i = 0; i < sizes[s]; i++) {
                int64_t at = cleave_permute(key, sizes[s], i);
                cr_assert(at >= 0 && at < sizes[s] && !taken[at], "%lld of %lld: %lld",
                          (long long)i, (long long)sizes[s], (long long)at);
                taken[at] = true;
            }
        }
    int64_t large = INT64_C(3) << 40; /* no list of them anywhere */
    cr_assert(cleave_permute(1, large, large - 1) < large);
}

Test(sample_order, a_sample_comes_anywhere_as_often) {
    /* Of 20,000 permutations of 10 each place gets each sample 2,000 times, with a standard
       deviation of sqrt(20000 x 0.1 x 0.9) = 42: 250 is six of them. */
    int counts[10][10] = {{0}};
    for (uint64_t key = 0; key < 20000; key++)
        for (int64_t i = 0; i < 10; i++)
            counts[i][cleave_permute(key, 10, i)]++;
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            cr_assert(abs(counts[i][j] - 2000) < 250, "%d at %d: %d times", i, j, counts[i][j]);
}

Test(sample_order, an_epoch_leaves_out_what_fills_no_batch) {
    /* 10 samples in batches of 4: 2 steps an epoch, and samples 8 and 9 are left out. */
    cleave_sample_order order = {.n = 10, .batch = 4};
    cr_assert_eq(cleave_sample_order_steps(&order), 2);
    const int64_t wanted[] = {0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3};
    for (int64_t i = 0; i < 12; i++)
        cr_assert_eq(cleave_sample_order_at(&order, i / 4, i % 4), wanted[i]);
    order.whole = true; /* a third step: 8, 9, and two from the beginning to fill it */
    cr_assert_eq(cleave_sample_order_steps(&order), 3);
    const int64_t last[] = {8, 9, 0, 1};
    for (int64_t i = 0; i < 4; i++)
        cr_assert_eq(cleave_sample_order_at(&order, 2, i), last[i]);
    order.n = 3;
    order.whole = false;
    cr_assert_eq(cleave_sample_order_steps(&order), 0);
}

Test(sample_order, epochs_and_seeds_shuffle_differently) {
    cleave_sample_order order = {.n = 64, .batch = 16, .seed = 7, .shuffled = true};
    bool taken[64] = {false};
    int same_epoch = 0, same_seed = 0;
    cleave_sample_order other = order;
    other.seed = 8;
    for (int64_t i = 0; i < 64; i++) {
        int64_t at = cleave_sample_order_at(&order, i / 16, i % 16);
        cr_assert(!taken[at]);
        taken[at] = true;
        same_epoch += at == cleave_sample_order_at(&order, 4 + i / 16, i % 16);
        same_seed += at == cleave_sample_order_at(&other, i / 16, i % 16);
    }
    /* Two permutations agree in one place on average. */
    cr_assert(same_epoch < 8 && same_seed < 8, "%d, %d", same_epoch, same_seed);
}
