/* Prices: which source is taken, what fits find, and collectives in closed form. */
#include "costmodel/cost.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"
#include "costmodel/byte_price.h"
#include "costmodel/cost_exchange.h"

#include "../../support/collective_cost.h"
#include "../../support/perceptron.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(cost, .fini = tear_down);

/* 1 TFLOP/s at half efficiency, 100 GB/s at a quarter, 10 us of launch. */
static cleave_device_kind plain_kind(void) {
    return (cleave_device_kind){
        .name = "k",
        .source = "",
        .memory_bytes = 1 << 30,
        .flops_per_second = 1e12,
        .bytes_per_second = 1e11,
        .efficiency = {[CLEAVE_EFFICIENCY_PRODUCT] = cleave_efficiency_flat(0.5),
                       [CLEAVE_EFFICIENCY_MEMORY] = cleave_efficiency_flat(0.25)},
        .launch_seconds = 1e-5};
}

static cleave_work work(const char *key, const char *family, double flops, double bytes) {
    cleave_work w = {.flops = flops, .bytes = bytes};
    snprintf(w.key, sizeof w.key, "%s", key);
    snprintf(w.family, sizeof w.family, "%s", family);
    return w;
}

static void add(cleave_device_kind *kind, const char *key, const char *family, double seconds,
                double flops, double bytes) {
    cleave_kernel_time kernel = {key, family, seconds, 0, flops, bytes, 0, 0};
    OK(cleave_device_kind_add_kernel, kind, &kernel, &arena);
}

/* 1e9 flops at 5e11 a second are 2 ms, 1e6 bytes at 2.5e10 are 40 us: the larger, and the launch.
 */
Test(cost, data_sheet_is_a_roofline) {
    cleave_device_kind kind = plain_kind();
    cleave_provenance provenance;
    cleave_work by_flops = work("a", "f", 1e9, 1e6), by_bytes = work("b", "f", 1e3, 1e9);
    cr_expect_float_eq(cleave_cost_compute(&kind, &by_flops, &provenance), 2.01e-3, 1e-12);
    cr_expect_eq(provenance, CLEAVE_PROVENANCE_DATA_SHEET);
    cr_expect_float_eq(cleave_cost_compute(&kind, &by_bytes, &provenance), 0.04001, 1e-12);
}

/* Half way between 100 and 10,000 by logarithms is 1,000; outside the nearest counts.  Gradients of
   weights have no table, so that of products counts, and of f32 there is one share for all. */
Test(cost, products_reach_what_their_smallest_extent_lets_them) {
    cleave_device_kind kind = plain_kind();
    kind.rates[CLEAVE_BF16] = 4e12;
    kind.launch_seconds = 0;
    kind.efficiency[CLEAVE_EFFICIENCY_BF16_PRODUCT] =
        (cleave_efficiency){.n = 2, .size = {100, 10000}, .share = {0.2, 0.6}};
    const struct {
        double smallest;
        cleave_type type;
        cleave_pass pass;
        double seconds; /* of 1e12 flops */
    } cases[] = {{1000, CLEAVE_BF16, CLEAVE_PASS_FORWARD, 0.25 / 0.4},
                 {1, CLEAVE_BF16, CLEAVE_PASS_INPUT_GRADIENT, 0.25 / 0.2},
                 {1e6, CLEAVE_BF16, CLEAVE_PASS_WEIGHT_GRADIENT, 0.25 / 0.6},
                 {1000, CLEAVE_F32, CLEAVE_PASS_FORWARD, 1 / 0.5}};
    for (int i = 0; i < 4; i++) {
        cleave_work w = work("p", "f", 1e12, 1);
        cleave_provenance provenance;
        w.sort = CLEAVE_WORK_PRODUCT;
        w.type = cases[i].type;
        w.pass = cases[i].pass;
        w.smallest = cases[i].smallest;
        cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), cases[i].seconds, 1e-9);
    }
}

/* Products in groups take the tables of products until they have their own; of f32 there is none.
 */
Test(cost, products_in_groups_have_tables_of_their_own) {
    cleave_device_kind kind = plain_kind();
    cleave_provenance provenance;
    cleave_work w = work("p", "f", 1e12, 1);
    kind.rates[CLEAVE_BF16] = 4e12;
    kind.launch_seconds = 0;
    kind.efficiency[CLEAVE_EFFICIENCY_BF16_PRODUCT] = cleave_efficiency_flat(0.5);
    kind.efficiency[CLEAVE_EFFICIENCY_BF16_WEIGHTS] = cleave_efficiency_flat(0.25);
    w.type = CLEAVE_BF16;
    w.sort = CLEAVE_WORK_GROUPED_PRODUCT;
    w.smallest = 1000;
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 0.5, 1e-9);
    w.pass = CLEAVE_PASS_WEIGHT_GRADIENT;
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 1, 1e-9);
    kind.efficiency[CLEAVE_EFFICIENCY_BF16_GROUPED] =
        (cleave_efficiency){.n = 2, .size = {100, 10000}, .share = {0.2, 0.6}};
    kind.efficiency[CLEAVE_EFFICIENCY_BF16_GROUPED_WEIGHTS] = cleave_efficiency_flat(0.2);
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 1.25, 1e-9);
    w.pass = CLEAVE_PASS_INPUT_GRADIENT;
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 0.25 / 0.4, 1e-9);
    w.type = CLEAVE_F32;
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 2, 1e-9);
}

/* Backward of attention takes forward's table where it has none, and both that of large products
   where there is neither; memory has its own, by bytes. */
Test(cost, kernels_without_a_table_take_that_of_their_kin) {
    cleave_device_kind kind = plain_kind();
    cleave_provenance provenance;
    cleave_work w = work("a", "f", 1e12, 1);
    kind.launch_seconds = 0;
    w.sort = CLEAVE_WORK_ATTENTION;
    w.pass = CLEAVE_PASS_INPUT_GRADIENT;
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 2, 1e-9);
    kind.efficiency[CLEAVE_EFFICIENCY_ATTENTION] = cleave_efficiency_flat(0.8);
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 1.25, 1e-9);
    kind.efficiency[CLEAVE_EFFICIENCY_ATTENTION_BACKWARD] = cleave_efficiency_flat(0.4);
    cr_expect_float_eq(cleave_cost_compute(&kind, &w, &provenance), 2.5, 1e-9);
    kind.efficiency[CLEAVE_EFFICIENCY_MEMORY] =
        (cleave_efficiency){.n = 2, .size = {1e6, 1e9}, .share = {0.1, 0.5}};
    cleave_work copy = work("c", "f", 0, 1e9);
    cr_expect_float_eq(cleave_cost_compute(&kind, &copy, &provenance), 0.02, 1e-9);
    copy.sort = CLEAVE_WORK_LOSS;
    cr_expect_float_eq(cleave_cost_compute(&kind, &copy, &provenance), 0.02, 1e-9);
    kind.efficiency[CLEAVE_EFFICIENCY_LOSS] = cleave_efficiency_flat(0.2);
    cr_expect_float_eq(cleave_cost_compute(&kind, &copy, &provenance), 0.05, 1e-9);
}

/* Times made from 5 us + 2 ps a flop + 30 ps a byte, one of eight thrown far off: least absolute
   deviations still find the three numbers, where least squares would not. */
Test(cost, a_fit_finds_its_coefficients_despite_an_outlier) {
    cleave_device_kind kind = plain_kind();
    const double flops[] = {1e6, 1e9, 5e8, 2e7, 1e8, 3e8, 7e7, 2e9};
    const double bytes[] = {1e6, 1e5, 3e7, 2e6, 5e5, 4e6, 2e7, 8e5};
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    for (int i = 0; i < 8; i++) {
        double seconds = 5e-6 + 2e-12 * flops[i] + 3e-11 * bytes[i];
        add(&kind, keys[i], "f", i == 3 ? 1.5 * seconds : seconds, flops[i], bytes[i]);
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_assert_eq(kind.n_fits, 1);
    cr_expect_float_eq(kind.fits[0].launch_seconds, 5e-6, 1e-12);
    cr_expect_float_eq(kind.fits[0].seconds_per_flop, 2e-12, 1e-18);
    cr_expect_float_eq(kind.fits[0].seconds_per_byte, 3e-11, 1e-17);
    cr_expect_float_eq(kind.fits[0].spread, 0, 1e-9); /* the median is not the outlier */
    cleave_provenance provenance;
    cleave_work known = work("d", "f", 2e7, 2e6), unknown = work("z", "f", 1e7, 1e6);
    double measured = 1.5 * (5e-6 + 4e-5 + 6e-5);
    cr_expect_float_eq(cleave_cost_compute(&kind, &known, &provenance), measured, 1e-15);
    cr_expect_eq(provenance, CLEAVE_PROVENANCE_MEASURED);
    cr_expect_float_eq(cleave_cost_compute(&kind, &unknown, &provenance), 5.5e-5, 1e-11);
    cr_expect_eq(provenance, CLEAVE_PROVENANCE_PREDICTED);
}

/* One measurement fixes one coefficient: 1e9 flops (2 ms by the roofline) outweigh 1e6 bytes. */
Test(cost, a_single_measurement_gives_an_efficiency) {
    cleave_device_kind kind = plain_kind();
    add(&kind, "a", "f", 4e-3, 1e9, 1e6);
    add(&kind, "c", "copy", 1e-3, 0, 1e7);
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_assert_eq(kind.n_fits, 2);
    cr_expect_str_eq(kind.fits[0].family, "copy");
    cr_expect_float_eq(kind.fits[0].seconds_per_byte, 1e-10, 1e-19);
    cr_expect_float_eq(kind.fits[1].seconds_per_flop, 4e-12, 1e-20);
    cr_expect_float_eq(kind.fits[1].seconds_per_byte, 0, 1e-30);
}

/* 0.1 us, 20 ps a byte up to 4 MiB and 60 ps for each beyond; one of the small ones is far off. */
static double near_and_far(double bytes) {
    return 1e-7 + 2e-11 * bytes + (bytes > 0x1p22 ? 4e-11 * (bytes - 0x1p22) : 0);
}

static void add_copies(cleave_device_kind *kind, double (*seconds_of)(double)) {
    static const char *const keys[] = {"a", "b", "c", "d", "e", "f", "g"};
    for (int i = 0; i < 7; i++) {
        double bytes = ldexp(64, 4 * i < 20 ? 4 * i : 2 * i + 8);
        add(kind, keys[i], "copy", (i == 1 ? 3 : 1) * seconds_of(bytes), 0, bytes);
    }
}

Test(cost, copies_that_no_cache_holds_have_a_rate_of_their_own) {
    cleave_device_kind kind = plain_kind();
    add_copies(&kind, near_and_far);
    add(&kind, "h", "copy", near_and_far(0x1p24), 0, 0x1p24);
    add(&kind, "i", "copy", near_and_far(0x1p27), 0, 0x1p27);
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_expect_float_eq(kind.fits[0].near_bytes, 0x1p22, 1);
    cr_expect_float_eq(kind.fits[0].seconds_per_byte, 2e-11, 1e-16);
    cr_expect_float_eq(kind.fits[0].far_seconds_per_byte, 6e-11, 1e-16);
    cleave_byte_price price = cleave_byte_price_of(&kind, "copy");
    cleave_provenance provenance;
    for (double bytes = 1; bytes < 1e10; bytes *= 7) {
        cleave_work copy = work("z", "copy", 0, bytes);
        double expected = near_and_far(bytes);
        cr_expect_float_eq(cleave_byte_price_seconds(&price, 1, bytes), expected, 1e-6 * expected);
        cr_expect_float_eq(cleave_byte_price_seconds(&price, 3, 3 * bytes), 3 * expected,
                           3e-6 * expected);
        cr_expect_float_eq(cleave_cost_compute(&kind, &copy, &provenance), expected,
                           1e-6 * expected);
    }
}

static double all_alike(double bytes) { return 1e-7 + 2e-11 * bytes; }

Test(cost, copies_that_all_go_alike_have_one_rate) {
    cleave_device_kind kind = plain_kind();
    add_copies(&kind, all_alike);
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_expect_float_eq(kind.fits[0].near_bytes, 0, 0);
    cr_expect_float_eq(cleave_byte_price_of(&kind, "copy").far_excess, 0, 0);
}

/* 0.2 us, 2 ns a row, 20 ps a byte up to 128 KiB and 100 ps for each beyond. */
static double in_rows(double bytes, double n_rows) {
    return 2e-7 + 2e-9 * n_rows + 2e-11 * bytes + (bytes > 0x1p17 ? 8e-11 * (bytes - 0x1p17) : 0);
}

Test(cost, copies_in_rows_are_priced_by_their_rows) {
    cleave_device_kind kind = plain_kind();
    add_copies(&kind, all_alike);
    OK(cleave_device_kind_fit, &kind, &arena);
    cleave_copy_price price = cleave_copy_price_of(&kind);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 1e6, 0, 1e5), all_alike(1e6), 1e-12);
    for (double bytes = 0x1p11; bytes <= 0x1p23; bytes *= 64)
        for (double row = 32; row <= 512; row *= 4) {
            cleave_work copy;
            cleave_work_describe_rows(bytes, bytes / row, &copy);
            add(&kind, copy.key, copy.family, in_rows(bytes, copy.flops), copy.flops, bytes);
        }
    OK(cleave_device_kind_fit, &kind, &arena);
    price = cleave_copy_price_of(&kind);
    for (double bytes = 64; bytes < 1e9; bytes *= 5)
        for (double row = 8; row < 1e6; row *= 7) {
            double n_rows = bytes / row, dense = all_alike(bytes), rows = in_rows(bytes, n_rows);
            double share = row > 8192 ? 8192 / row : 1; /* of longer rows, read and written */
            double expected = n_rows > 1 && rows > dense ? dense + (rows - dense) * share : dense;
            cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, bytes, 0, n_rows), expected,
                               1e-4 * expected, "%g bytes in %g rows", bytes, n_rows);
            cr_expect_float_eq(cleave_copy_price_seconds(&price, 3, 3 * bytes, 0, 3 * n_rows),
                               3 * expected, 3e-4 * expected);
        }
}

/* Sums cost 0.2 us and 0.01 ns for each byte, copies 0.1 us and twice as much for each.  What is
   packed, and in part added to what is there, has the launch of a copy. */
Test(cost, sums_are_priced_by_their_own_family) {
    cleave_device_kind kind = plain_kind();
    add_copies(&kind, all_alike);
    OK(cleave_device_kind_fit, &kind, &arena);
    cleave_copy_price price = cleave_copy_price_of(&kind);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 3e6, 3e6, 0), all_alike(3e6), 1e-10);
    for (double bytes = 192; bytes < 1e9; bytes *= 16) {
        cleave_work sum;
        cleave_work_describe_bytes("sum", bytes, &sum);
        add(&kind, sum.key, sum.family, 0.2e-6 + 1e-11 * bytes, 0, bytes);
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    price = cleave_copy_price_of(&kind);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 3e6, 3e6, 0), 30.2e-6, 1e-9);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 2, 6e6, 6e6, 0), 60.4e-6, 2e-9);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 2e6, 0, 0), all_alike(2e6), 1e-10);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 5e6, 3e6, 0), all_alike(2e6) + 30e-6,
                       1e-9);
}

/* As above, and rows of copies take five times as much for each byte and 1 ns each: of a sum in
   rows only that they are rows counts. */
Test(cost, sums_in_rows_do_not_go_at_the_rate_of_copies) {
    cleave_device_kind kind = plain_kind();
    add_copies(&kind, all_alike);
    for (double bytes = 2048; bytes < 1e8; bytes *= 16) {
        cleave_work work;
        cleave_work_describe_bytes("sum", bytes, &work);
        add(&kind, work.key, work.family, 0.2e-6 + 1e-11 * bytes, 0, bytes);
        for (double row = 32; row <= 512; row *= 4) {
            cleave_work_describe_rows(bytes, bytes / row, &work);
            add(&kind, work.key, work.family, 1e-9 * bytes / row + 1e-10 * bytes, bytes / row,
                bytes);
        }
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    cleave_copy_price price = cleave_copy_price_of(&kind);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 3e6, 3e6, 2000), 30.2e-6 + 2e-6, 2e-8);
    cr_expect_float_eq(cleave_copy_price_seconds(&price, 1, 3e6, 0, 2000), 300e-6 + 2e-6, 1e-6);
}

/* A kernel of which only the workspace is known takes no part in the fit, and is itself predicted.
 */
Test(cost, a_kernel_that_was_not_timed_has_no_part_in_times) {
    cleave_device_kind kind = plain_kind();
    add(&kind, "a", "f", 4e-3, 1e9, 1e6);
    add(&kind, "b", "f", 0, 5e9, 1e6);
    OK(cleave_device_kind_fit, &kind, &arena);
    cr_assert_eq(kind.n_fits, 1);
    cr_expect_float_eq(kind.fits[0].seconds_per_flop, 4e-12, 1e-20);
    cleave_provenance provenance;
    cleave_work untimed = work("b", "f", 5e9, 1e6);
    cr_expect_float_eq(cleave_cost_compute(&kind, &untimed, &provenance), 0.02, 1e-12);
    cr_expect_eq(provenance, CLEAVE_PROVENANCE_PREDICTED);
}

/* A hundred kernels, each added in the middle of those before: the order stays. */
Test(cost, kernels_stay_in_order_as_their_array_grows) {
    cleave_device_kind kind = plain_kind();
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "%03d", i % 2 == 0 ? i : 200 - i);
        add(&kind, key, "f", i + 1, 1, 1);
    }
    cr_assert_eq(kind.n_kernels, 100);
    for (int i = 0; i < 100; i++) {
        char key[16];
        snprintf(key, sizeof key, "%03d", i % 2 == 0 ? i : 200 - i);
        cr_expect_float_eq(cleave_device_kind_find_kernel(&kind, key)->seconds, i + 1, 0);
    }
}

static cleave_machine machine_of(const char *name) {
    cleave_machine machine;
    OK(shipped_machine, name, 0, &arena, &machine);
    return machine;
}

static cleave_collective all_reduce(cleave_collective_algorithm algorithm, const int32_t *devices,
                                    int32_t n) {
    return (cleave_collective){.kind = CLEAVE_ALL_REDUCE,
                               .algorithm = algorithm,
                               .n_devices = n,
                               .devices = devices,
                               .bytes = 80000000};
}

/* Four P100s of a node: 6 rounds of 20 MB at 20 GB/s, 1 ms each, and 5 us of latency each. */
Test(cost, ring_within_a_node) {
    cleave_machine machine = machine_of("p100-4x4");
    const int32_t devices[] = {0, 1, 2, 3};
    cleave_collective collective = all_reduce(CLEAVE_ALGORITHM_RING, devices, 4);
    cr_expect_eq(collective_cost(&machine, &collective), INT64_C(6030000000));
}

/* Halving-doubling there: 40 MB and 20 MB, twice each: 2 x (2 + 1) ms, and 4 x 5 us. */
Test(cost, halving_doubling_within_a_node) {
    cleave_machine machine = machine_of("p100-4x4");
    const int32_t devices[] = {0, 1, 2, 3};
    cleave_collective collective = all_reduce(CLEAVE_ALGORITHM_HALVING_DOUBLING, devices, 4);
    cr_expect_eq(collective_cost(&machine, &collective), INT64_C(6020000000));
}

/* Two nodes of four: in the round between nodes four messages of 40 MB share a card of 12.5 GB/s,
   160 MB in 12.8 ms; alone, over the 12 GB/s to the card, one would take 3.33 ms.  Latency there is
   3 + 2 + 2 + 3 us.  Then 20 MB and 10 MB within the node: 1 + 0.5 ms, 5 us each.  All twice. */
Test(cost, devices_of_a_node_share_its_card) {
    cleave_machine machine = machine_of("p100-4x4");
    const int32_t devices[] = {0, 1, 2, 3, 4, 5, 6, 7};
    cleave_collective collective = all_reduce(CLEAVE_ALGORITHM_HALVING_DOUBLING, devices, 8);
    cr_expect_eq(collective_cost(&machine, &collective), INT64_C(28640000000));
}

/* A ring steps as slowly as its slowest way: of 6 rounds of 20 MB each has 1 ms and 100 us. */
Test(cost, the_longest_latency_of_a_round_counts) {
    cleave_machine machine = machine_of("p100-4x4");
    const int32_t devices[] = {0, 1, 2, 3};
    int32_t links[CLEAVE_MAX_ROUTE];
    cr_assert_eq(cleave_machine_route(&machine, 1, 2, links), 1);
    machine.links[links[0]].latency_seconds = 1e-4;
    cleave_collective collective = all_reduce(CLEAVE_ALGORITHM_RING, devices, 4);
    cr_expect_eq(collective_cost(&machine, &collective), INT64_C(6600000000));
}

/* Devices 0 and 4 are of two nodes, 5 is beside 4.  40 MB go from 0 to each of these, and back:
   over the 12 GB/s to and from the card of 0 twice 3.33 ms, and no link takes longer.  Of 1 ms for
   each of four posts, 0 has half done when its first message starts, so 2 ms are hidden. */
Test(cost, links_of_an_all_to_all_begin_while_the_rest_is_posted) {
    cleave_machine machine = machine_of("p100-4x4");
    for (int32_t l = 0; l < machine.n_links; l++)
        machine.links[l].overhead_seconds = 1e-3;
    const cleave_model model = {0};
    cleave_cost_cache *cache;
    OK(cleave_cost_cache_create, &model, &machine, &cache);
    const int32_t devices[] = {0, 4, 5};
    const cleave_transfer transfers[] = {
        {0, 1, 40000000}, {0, 2, 40000000}, {1, 0, 40000000}, {2, 0, 40000000}};
    const cleave_packing packing[3] = {{0}};
    const cleave_collective collective = {.kind = CLEAVE_ALL_TO_ALL,
                                          .n_devices = 3,
                                          .devices = devices,
                                          .n_transfers = 4,
                                          .transfers = transfers,
                                          .packing = packing};
    const cleave_exchange_price *price = cleave_cost_cache_exchange(cache, &collective);
    cr_expect_float_eq(price->message, 4e7 / 12e9, 1e-9);
    cr_expect_float_eq(price->link, 8e7 / 12e9, 1e-9);
    cr_expect_float_eq(price->processor[0], 4e-3, 1e-9);
    cr_expect_float_eq(price->processor[1], 2e-3, 1e-9);
    cleave_collective_cost cost = cleave_exchange_price_cost(&collective, price);
    cr_expect_eq(cost.busy, cleave_picoseconds(8e7 / 12e9 - 2e-3));
    cr_expect_eq(cost.rest, cleave_picoseconds(1e-5));
    cleave_cost_cache_destroy(cache);
}

/* Scratch is left as it was found, so that one array serves many collectives. */
Test(cost, scratch_of_collectives_stays_clear) {
    cleave_machine machine = machine_of("k80-16x4");
    double *load = CLEAVE_ARENA_ARRAY(&arena, double, machine.n_links);
    const int32_t devices[] = {0, 1, 2, 5, 8, 9, 17, 40, 62};
    for (int a = CLEAVE_ALGORITHM_RING; a <= CLEAVE_ALGORITHM_DIRECT; a++) {
        cleave_collective collective = all_reduce((cleave_collective_algorithm)a, devices, a + 4);
        collective.node_members = 4;
        cleave_collective_rounds rounds;
        cleave_collective_rounds_find(&machine, &collective, load, &rounds);
        cr_expect_gt(rounds.n, 0);
        for (int32_t l = 0; l < machine.n_links; l++)
            cr_assert_float_eq(load[l], 0, 0);
    }
}

/* Two devices: each sums one half of the vector, 12 bytes read and written for every float of it,
   of which 1 MiB is near; the rest takes 30 ps a byte more. */
Test(cost, sums_of_a_collective_that_no_cache_holds_take_longer) {
    cleave_machine machine = machine_of("p100-4x4");
    double *load = CLEAVE_ARENA_ARRAY(&arena, double, machine.n_links);
    const int32_t devices[] = {0, 1};
    cleave_family_fit copies = {.family = "copy", .seconds_per_byte = 2e-11};
    machine.kinds[0].fits = &copies;
    machine.kinds[0].n_fits = 1;
    cleave_collective collective = all_reduce(CLEAVE_ALGORITHM_RING, devices, 2);
    for (int64_t bytes = 1 << 16; bytes <= 1 << 28; bytes *= 4) {
        double alike, seconds;
        copies.near_bytes = copies.far_seconds_per_byte = 0;
        cleave_cost_collective_sizes(&machine, &collective, load, 1, &bytes, &alike);
        copies.near_bytes = 1 << 20;
        copies.far_seconds_per_byte = 5e-11;
        cleave_cost_collective_sizes(&machine, &collective, load, 1, &bytes, &seconds);
        double far = fmax(0, 1.5 * (double)bytes - (1 << 20));
        cr_expect_float_eq(seconds - alike, 3e-11 * far, 1e-11, "%lld", (long long)bytes);
    }
}

/* 8 MB of data, read and written once at 25 GB/s, after 10 us; none where they are there already.
 */
Test(cost, a_load_reads_and_writes_its_data) {
    cleave_device_kind kind = plain_kind();
    int32_t device_kind[] = {0};
    const cleave_machine machine = {
        .n_devices = 1, .n_kinds = 1, .kinds = &kind, .device_kind = device_kind};
    const cleave_model model = {0};
    cleave_cost_cache *cache;
    cleave_item item = {.kind = CLEAVE_ITEM_LOAD};
    cleave_load load = {.buffer = 0};
    cleave_buffer buffer = {.bytes = 8000000};
    const cleave_program program = {.model = &model,
                                    .n_devices = 1,
                                    .n_items = 1,
                                    .items = &item,
                                    .loads = &load,
                                    .buffers = &buffer};
    int64_t duration;
    OK(cleave_cost_cache_create, &model, &machine, &cache);
    OK(cleave_cost_items, &program, cache, &duration);
    cr_expect_eq(duration, 0);
    cleave_cost_cache_load_data(cache);
    OK(cleave_cost_items, &program, cache, &duration);
    cr_expect_eq(duration, cleave_picoseconds(1e-5 + 16e6 / 25e9));
    cleave_cost_cache_destroy(cache);
}

/* The largest workspace of a family is 3 KiB, and the most bytes of its kernels are a quarter of
   those of the work: that is taken to need 12 KiB.  With as many bytes, or more, it is 3 KiB. */
Test(cost, workspaces_grow_beyond_what_was_measured) {
    const cleave_model model = make_perceptron(&arena, 1, 8, 64);
    const cleave_nest *nest = &model.nests[0];
    const cleave_part part = cleave_part_whole(nest, 0);
    cleave_work of;
    cleave_work_describe(&model, nest, CLEAVE_PASS_FORWARD, &part, &of);
    for (double bytes = of.bytes / 4; bytes <= 4 * of.bytes; bytes *= 4) {
        cleave_device_kind kind = plain_kind();
        int32_t device_kind[] = {0};
        cleave_machine machine = {
            .n_devices = 1, .n_kinds = 1, .kinds = &kind, .device_kind = device_kind};
        cr_expect_eq(cleave_cost_workspace(&machine, &model, nest, CLEAVE_PASS_FORWARD, &part), 0);
        const cleave_kernel_time kernels[] = {{"a", of.family, 1e-3, 0, 1e6, bytes / 2, 3072, 0},
                                              {"b", of.family, 2e-3, 0, 2e6, bytes, 1024, 0}};
        for (int k = 0; k < 2; k++)
            OK(cleave_device_kind_add_kernel, &kind, &kernels[k], &arena);
        OK(cleave_device_kind_fit, &kind, &arena);
        cr_expect_eq(cleave_cost_workspace(&machine, &model, nest, CLEAVE_PASS_FORWARD, &part),
                     bytes < of.bytes ? 4 * 3072 : 3072);
    }
}

/* Seven kernels that take 2 ps a flop, but for the third and the fifth, which take 3: a fit without
   any one of them still says 2, so five are met and two are off by a third, and the median is 0. Of
   two kernels, 2 and 3 ps, each fit says the other: 1.5 and 2/3 of the truth.  Of one nothing is
   known. */
Test(cost, a_spread_is_what_a_fit_is_off_at_kernels_it_has_not_seen) {
    static const struct {
        unsigned slow; /* bit i: kernel i */
        int n;
        double spread;
    } cases[] = {{0x14, 7, 0}, {0x1, 2, (0.5 + 1.0 / 3) / 2}, {0, 1, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        cleave_device_kind kind = plain_kind();
        for (int i = 0; i < cases[c].n; i++) {
            char key[16];
            double flops = 1e6 * (1 << i);
            snprintf(key, sizeof key, "%d", i);
            add(&kind, key, "f", (cases[c].slow >> i & 1 ? 3e-12 : 2e-12) * flops, flops, 0);
        }
        OK(cleave_device_kind_fit, &kind, &arena);
        cr_expect_float_eq(kind.fits[0].spread, cases[c].spread, 1e-9, "case %zu: %g", c,
                           kind.fits[0].spread);
    }
}

/* Devices 0 and 2 were calibrated: two kernels, sources 0 and 1, and the fit of "copy", 2.  It was
   measured as 1 and 3 ms for the same bytes, so the fit has a spread.  Device 1 has a data sheet,
   and so has any link to it. */
Test(cost, a_basis_names_the_source_of_every_price) {
    cleave_device_kind kinds[2] = {plain_kind(), plain_kind()};
    add(&kinds[0], "c", "copy", 1e-3, 0, 1e7);
    add(&kinds[0], "d", "copy", 3e-3, 0, 1e7);
    OK(cleave_device_kind_fit, &kinds[0], &arena);
    int32_t device_kind[] = {0, 1, 0};
    const cleave_machine machine = {
        .n_devices = 3, .n_kinds = 2, .kinds = kinds, .device_kind = device_kind};
    const cleave_model model = {0};
    cleave_cost_cache *cache;
    OK(cleave_cost_cache_create, &model, &machine, &cache);
    cleave_item items[] = {{.kind = CLEAVE_ITEM_COPY, .device = 0},
                           {.kind = CLEAVE_ITEM_COPY, .device = 1},
                           {.kind = CLEAVE_ITEM_LOAD, .device = 0},
                           {.kind = CLEAVE_ITEM_SEND, .device = 0, .subject = 0},
                           {.kind = CLEAVE_ITEM_WAIT, .device = 2, .subject = 1}};
    cleave_message messages[] = {{.source = 0, .destination = 1}, {.source = 0, .destination = 2}};
    cleave_copy copy = {.bytes = 1000, .n_copies = 1, .n_rows = 10};
    const cleave_program program = {.model = &model,
                                    .n_devices = 3,
                                    .copies = &copy,
                                    .n_items = 5,
                                    .items = items,
                                    .n_messages = 2,
                                    .messages = messages};
    static const cleave_provenance provenance[] = {
        CLEAVE_PROVENANCE_PREDICTED, CLEAVE_PROVENANCE_DATA_SHEET, CLEAVE_PROVENANCE_DATA_SHEET,
        CLEAVE_PROVENANCE_DATA_SHEET, CLEAVE_PROVENANCE_MEASURED};
    cleave_price_basis basis[5];
    OK(cleave_cost_basis, &program, cache, basis);
    for (int i = 0; i < 5; i++) {
        cr_expect_eq(basis[i].provenance, provenance[i], "item %d", i);
        cr_expect_eq(basis[i].source, i == 0 ? 2 : -1, "item %d", i);
    }
    cr_expect_gt(kinds[0].fits[0].spread, 0);
    cr_expect_eq(basis[0].spread, kinds[0].fits[0].spread);
    cr_expect_eq(cleave_cost_n_sources(cache), 3);
    cleave_cost_cache_destroy(cache);
}

Test(cost, link_times_round_up_and_are_never_zero) {
    cr_expect_eq(cleave_serialization(1, 1e13), 1);
    cr_expect_eq(cleave_serialization(3, 2e12), 2);
    cr_expect_eq(cleave_serialization(1000000000, 1e9), INT64_C(1000000000000));
    cr_expect_eq(cleave_serialization(INT64_MAX, 1e-3), INT64_C(1) << 61);
    cr_expect_eq(cleave_picoseconds(1e-12), 1);
    cr_expect_eq(cleave_picoseconds((double)NAN), INT64_C(1) << 61);
}

/* Of kernels that take `first`, `first + step` ... of their time when alone. */
static double fit_alone(int n, double first, double step) {
    cleave_device_kind kind = plain_kind();
    for (int i = 0; i < n; i++) {
        char key[32];
        snprintf(key, sizeof key, "some %d", i);
        const cleave_kernel_time kernel = {.key = key,
                                           .family = "some",
                                           .seconds = 1e-3 * (i + 1),
                                           .bytes = 1e6 * (i + 1),
                                           .alone_seconds = 1e-3 * (i + 1) * (first + step * i)};
        OK(cleave_device_kind_add_kernel, &kind, &kernel, &arena);
    }
    OK(cleave_device_kind_fit, &kind, &arena);
    return kind.fits[0].alone;
}

/* Nine in order: the median is the fifth, its standard error one and a half places, which leaves
   the seventh.  Four around 1 say nothing. */
Test(cost, being_alone_counts_as_far_as_it_is_certain) {
    cr_expect_float_eq(fit_alone(9, 0.5, 0.05), 0.8, 1e-9);
    cr_expect_float_eq(fit_alone(9, 0.7, 0), 0.7, 1e-9);
    cr_expect_float_eq(fit_alone(4, 0.94, 0.03), 1, 1e-9);
}

/* Of 4 KiB 10 us, of 8 KiB 30: linear in between, and as the nearest outside; small ones agree on
   nothing. */
Test(cost, ends_agree_for_longer_the_larger_a_message_is) {
    const cleave_link link = {.protocol = {.large_from_bytes = 3 << 10,
                                           .n_agreements = 2,
                                           .agreements = {{4 << 10, 10e-6}, {8 << 10, 30e-6}}}};
    const double bytes[] = {(3 << 10) - 1, 3 << 10, 4 << 10, 5 << 10, 8 << 10, 1 << 20};
    const double expected[] = {0, 10e-6, 10e-6, 15e-6, 30e-6, 30e-6};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        cr_expect_float_eq(cleave_link_agreement_seconds(&link, bytes[i]), expected[i], 1e-12,
                           "%g bytes", bytes[i]);
}
