/* Products on an array that is described: by hand where that is easy. */
#include "costmodel/array.h"
#include "../../support/ok.h"
#include "costmodel/machine.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* One core of 8 x 8 multipliers at 1 GHz: 128 GFLOP/s; memory that never binds; on chip no tile but
   8 x 8 fits: 8 x 8 x 4 bytes of sums and 2 x 16 x 64 x 2 bytes that stream in are 4352. */
static const cleave_array one = {.cores = 1,
                                 .rows = 8,
                                 .columns = 8,
                                 .cycles_per_second = 1e9,
                                 .on_chip_bytes = 4352,
                                 .bytes_per_second = 1e18,
                                 .sustained = 1};

Test(array, peak_is_two_operations_of_each_multiplier_a_cycle) {
    cr_expect_eq(cleave_array_flops(&one), 128e9);
}

/* 8 x 8 outputs, 100 cycles of sums, 16 to fill and 8 to empty: 100 / 124.  Of 9 x 8 outputs there
   are two tiles, the second for a single row: 9 / 16 of that. */
Test(array, share_is_what_is_used_of_cycles_and_of_tiles) {
    cr_expect_float_eq(cleave_array_share(&one, 8, 8, 100), 100.0 / 124, 1e-12);
    cr_expect_float_eq(cleave_array_share(&one, 9, 8, 100), 100.0 / 124 * 9 / 16, 1e-12);
}

/* Four tiles on three cores take two waves of three. */
Test(array, cores_take_tiles_in_waves) {
    cleave_array three = one;
    three.cores = 3;
    cr_expect_float_eq(cleave_array_share(&three, 32, 8, 100), 100.0 / 124 * 4 / 6, 1e-12);
}

/* 8 x 100 and 100 x 8 are read and 8 x 8 written, two bytes each: 3328 bytes, at 1 GB/s 3328 ns for
   12800 operations that take 100 ns at the peak. */
Test(array, memory_binds_where_it_is_slow) {
    cleave_array slow = one;
    slow.bytes_per_second = 1e9;
    cr_expect_float_eq(cleave_array_share(&slow, 8, 8, 100), 100.0 / 3328, 1e-12);
}

Test(array, more_of_anything_is_never_slower_on_large_products) {
    static const double factors[] = {1, 2, 4};
    double before[4] = {0};
    for (int i = 0; i < 3; i++) {
        cleave_array a = {108, 16, 16, 1.4e9, 96e3, 1e12, 0.8}, b = a, c = a, d = a;
        a.cores *= factors[i];
        b.cycles_per_second *= factors[i];
        c.on_chip_bytes *= factors[i];
        d.bytes_per_second *= factors[i];
        const cleave_array *all[] = {&a, &b, &c, &d};
        for (int j = 0; j < 4; j++) {
            double rate = cleave_array_share(all[j], 4096, 4096, 4096) * cleave_array_flops(all[j]);
            cr_expect_geq(rate, before[j] * (1 - 1e-9));
            before[j] = rate;
        }
    }
}

static cleave_status read(const char *more, cleave_arena *arena, cleave_machine *machine,
                          cleave_error *error) {
    char text[1024];
    snprintf(text, sizeof text,
             "{\"cleave_machine\": 1, \"name\": \"m\", \"kinds\": {\"k\": {\"memory\": \"1 GiB\","
             " \"flops\": \"1 TFLOP/s\", \"memory_bandwidth\": \"1000 GB/s\"%s}},"
             " \"node\": {\"devices\": 1, \"kind\": \"k\"}}",
             more);
    return cleave_machine_parse(text, strlen(text), "m.json", 0, arena, machine, error);
}

/* 100 x 16 x 16 x 2 x 1.5 GHz = 76.8 TFLOP/s. */
Test(array, kind_that_is_described_has_its_rate_and_table) {
    cleave_arena arena = {0};
    cleave_machine machine;
    OK(read,
       ", \"array\": {\"cores\": 100, \"rows\": 16, \"columns\": 16,"
       " \"clock\": \"1.5 GHz\", \"on_chip\": \"128 KiB\", \"sustained\": 0.9}",
       &arena, &machine);
    const cleave_device_kind *kind = &machine.kinds[0];
    const cleave_array same = {100, 16, 16, 1.5e9, 128 * 1024, 1e12, 0.9};
    cr_expect_float_eq(kind->rates[CLEAVE_BF16], 76.8e12, 1);
    const cleave_efficiency *table = &kind->efficiency[CLEAVE_EFFICIENCY_BF16_PRODUCT];
    cr_expect_eq(table->n, 10);
    cr_expect_float_eq(
        cleave_efficiency_find(kind->efficiency, CLEAVE_EFFICIENCY_BF16_PRODUCT, 4096),
        cleave_array_share(&same, 4096, 4096, 4096), 1e-12);
    cr_expect_lt(table->share[0], table->share[table->n - 1]);
    cleave_arena_free(&arena);
}

Test(array, what_contradicts_or_does_not_fit_is_refused) {
    static const char *const texts[][2] = {
        {", \"rates\": {\"bf16\": \"2 TFLOP/s\"}, \"array\": {\"cores\": 1, \"rows\": 8,"
         " \"columns\": 8, \"clock\": \"1 GHz\", \"on_chip\": \"64 KiB\"}",
         "leave them out"},
        {", \"array\": {\"cores\": 1, \"rows\": 8, \"columns\": 8, \"clock\": \"1 GHz\","
         " \"on_chip\": \"1 KiB\"}",
         "no tile of 8 x 8"},
        {", \"array\": {\"cores\": 0, \"rows\": 8, \"columns\": 8, \"clock\": \"1 GHz\","
         " \"on_chip\": \"64 KiB\"}",
         "cores"},
        {", \"array\": {\"cores\": 1, \"rows\": 8, \"columns\": 8, \"clock\": \"1 GB/s\","
         " \"on_chip\": \"64 KiB\"}",
         "$.kinds.k.array.clock"}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        cleave_arena arena = {0};
        cleave_machine machine;
        cleave_error error = {""};
        cr_expect_eq(read(texts[i][0], &arena, &machine, &error), CLEAVE_BAD_INPUT);
        cr_expect(strstr(error.message, texts[i][1]) != NULL, "%s", error.message);
        cleave_arena_free(&arena);
    }
}
