/* Units: what is parsed, what is refused, and that exact text comes back as the same double. */
#include "base/units.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct example {
    const char *text;
    cleave_unit unit;
    double value;
} example;

Test(units, quantities_are_parsed) {
    static const example examples[] = {
        {"25 GB/s", CLEAVE_UNIT_BYTES_PER_SECOND, 25e9},
        {"56 Gbit/s", CLEAVE_UNIT_BYTES_PER_SECOND, 7e9}, /* 56 / 8 */
        {"12 GiB", CLEAVE_UNIT_BYTES, 12884901888.0},     /* 12 x 2^30 */
        {"12GiB", CLEAVE_UNIT_BYTES, 12884901888.0},
        {"1.5 kB", CLEAVE_UNIT_BYTES, 1500},
        {"8 us", CLEAVE_UNIT_SECONDS, 8e-6},
        {"2 min", CLEAVE_UNIT_SECONDS, 120},
        {"2.8 TFLOP/s", CLEAVE_UNIT_FLOPS, 2.8e12},
        {"1.41 GHz", CLEAVE_UNIT_HERTZ, 1.41e9},
        {".5e1 s", CLEAVE_UNIT_SECONDS, 5},
        {"0 B", CLEAVE_UNIT_BYTES, 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        double value = -1;
        OK(cleave_unit_parse, examples[i].text, examples[i].unit, &value);
        cr_expect_float_eq(value, examples[i].value, 1e-15 * examples[i].value, "%s",
                           examples[i].text);
    }
}

Test(units, what_is_no_quantity_is_refused_and_named) {
    static const example examples[] = {
        {"25", CLEAVE_UNIT_BYTES_PER_SECOND, 0},
        {"", CLEAVE_UNIT_BYTES, 0},
        {"GB", CLEAVE_UNIT_BYTES, 0},
        {"-1 GB", CLEAVE_UNIT_BYTES, 0},
        {"inf s", CLEAVE_UNIT_SECONDS, 0},
        {"nan s", CLEAVE_UNIT_SECONDS, 0},
        {"0x10 s", CLEAVE_UNIT_SECONDS, 0},
        {"1e400 s", CLEAVE_UNIT_SECONDS, 0},
        {"25 GB/s", CLEAVE_UNIT_SECONDS, 0},
        {"8 GB", CLEAVE_UNIT_BYTES_PER_SECOND, 0},
        {"1 GB/s ", CLEAVE_UNIT_BYTES_PER_SECOND, 0},
        {"1  GB", CLEAVE_UNIT_BYTES, 0},
        {" 1 GB", CLEAVE_UNIT_BYTES, 0},
        {"1 gb", CLEAVE_UNIT_BYTES, 0},
        {". s", CLEAVE_UNIT_SECONDS, 0},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        double value = 42;
        cleave_error error = {""};
        cr_expect_eq(cleave_unit_parse(examples[i].text, examples[i].unit, &value, &error),
                     CLEAVE_BAD_INPUT, "%s", examples[i].text);
        cr_expect_eq(value, 42);
        cr_expect_not_null(strstr(error.message, examples[i].text), "%s", error.message);
    }
}

Test(units, people_read_three_or_four_digits) {
    static const example examples[] = {
        {"0 s", CLEAVE_UNIT_SECONDS, 0},
        {"1.21 s", CLEAVE_UNIT_SECONDS, 1.2099},
        {"12.3 ms", CLEAVE_UNIT_SECONDS, 0.0123},
        {"999 us", CLEAVE_UNIT_SECONDS, 999.4e-6},
        {"7200 s", CLEAVE_UNIT_SECONDS, 7200},
        {"512 B", CLEAVE_UNIT_BYTES, 512},
        {"1.00 KiB", CLEAVE_UNIT_BYTES, 1024},
        {"1023 MiB", CLEAVE_UNIT_BYTES, 1023.0 * 1048576},
        {"12.5 GB/s", CLEAVE_UNIT_BYTES_PER_SECOND, 12.5e9},
        {"2.80 TFLOP/s", CLEAVE_UNIT_FLOPS, 2.8e12},
    };
    for (size_t i = 0; i < sizeof examples / sizeof examples[0]; i++) {
        char text[40];
        cleave_unit_format(examples[i].value, examples[i].unit, text, sizeof text);
        cr_expect_str_eq(text, examples[i].text);
    }
}

Test(units, exact_text_parses_to_the_same_double) {
    static const double values[] = {0, 1, 1e-12, 0.1, 1.0 / 3, 5e-324, 1e300, 6.02214076e23};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        for (cleave_unit unit = CLEAVE_UNIT_BYTES; unit <= CLEAVE_UNIT_HERTZ; unit++) {
            char text[64];
            double back = -1;
            cleave_unit_format_exact(values[i], unit, text, sizeof text);
            cr_expect_eq(cleave_unit_parse(text, unit, &back, NULL), CLEAVE_OK, "%s", text);
            cr_expect_eq(back, values[i], "%s", text);
        }
}
