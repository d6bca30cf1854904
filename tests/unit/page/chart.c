/* Axes have the ticks that a reader wants, and charts stay within their frame. */
#include "page/chart.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void expect_ticks(const cleave_axis *axis, const char *wanted) {
    char text[400] = "";
    for (int i = 0; i < axis->n_ticks; i++) {
        char tick[32];
        cleave_axis_format(axis, axis->ticks[i], tick, sizeof tick);
        strcat(strcat(text, i > 0 ? " " : ""), tick);
    }
    cr_expect_str_eq(text, wanted);
}

Test(chart, linear_axes_begin_at_0_and_end_at_a_tick_of_their_unit) {
    cleave_axis axis = cleave_axis_make(0.1, 0.93, CLEAVE_UNIT_SECONDS, 0);
    expect_ticks(&axis, "0 200 400 600 800 1000");
    cr_expect_str_eq(axis.unit, "ms");
}

Test(chart, linear_axes_of_values_far_from_0_do_not) {
    cleave_axis axis = cleave_axis_make(3.0 * 0x1p30, 4.0 * 0x1p30, CLEAVE_UNIT_BYTES, 0);
    expect_ticks(&axis, "3 3.2 3.4 3.6 3.8 4");
    cr_expect_str_eq(axis.unit, "GiB");
}

Test(chart, logarithmic_axes_have_powers) {
    cleave_axis devices = cleave_axis_make(8, 512, CLEAVE_UNIT_PLAIN, 2);
    expect_ticks(&devices, "8 16 32 64 128 256 512");
    cleave_axis seconds = cleave_axis_make(0.003, 0.3, CLEAVE_UNIT_SECONDS, 10);
    expect_ticks(&seconds, "5 10 20 50 100 200");
    seconds.from = 0;
    seconds.to = 2;
    cr_expect_float_eq(cleave_axis_place(&seconds, 0.03), 1, 1e-9);
}

Test(chart, a_single_value_has_an_axis) {
    for (int base = 0; base <= 10; base += base == 0 ? 2 : 8)
        for (int value = 0; value < 2; value++) {
            cleave_axis axis = cleave_axis_make(value, value, CLEAVE_UNIT_PLAIN, base);
            cr_expect_lt(axis.least, axis.most);
            cr_expect(isfinite(cleave_axis_place(&axis, value)));
        }
}

/* A gap begins a new line: M, and an L only after it. */
Test(chart, a_curve_has_a_gap_where_a_value_is_missing) {
    const cleave_chart_point points[] = {{1, 10, NULL, NULL},
                                         {2, 20, NULL, "#plan-2"},
                                         {3, NAN, NULL, NULL},
                                         {4, 5, "<four>", NULL}};
    const cleave_chart_curve curves[] = {{.name = "a \"name\"", .n = 4, .points = points}};
    const cleave_chart chart = {
        "t<", {"devices", CLEAVE_UNIT_PLAIN, 2}, {"step", CLEAVE_UNIT_SECONDS, 0}, 1, curves};
    cleave_markup made = {0};
    cleave_chart_put(&made, &chart);
    cr_assert_not(made.failed);
    const char *line = strstr(made.text, "curve c0\" d=\"M");
    cr_assert_not_null(line);
    char drawn[200] = "";
    for (const char *c = line + 13; *c != '"'; c++)
        if (*c == 'M' || *c == 'L')
            strncat(drawn, c, 1);
    cr_expect_str_eq(drawn, "MLM");
    cr_expect_not_null(strstr(made.text, "<a href=\"#plan-2\">"));
    cr_expect_not_null(strstr(made.text, "<title>&lt;four&gt;</title>"));
    cr_expect_not_null(strstr(made.text, "aria-label=\"t&lt;\""));
    cr_expect_null(strstr(made.text, "nan"));
    cleave_markup_free(&made);
}
