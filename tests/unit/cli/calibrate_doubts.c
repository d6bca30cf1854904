/* What calibration warns of. */
#include "cli/calibrate/doubts.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static cleave_nest nest = {.name = "product"};
static const calibrate_work wanted = {.nest = &nest, .wanted = true},
                            other = {.nest = &nest, .pass = CLEAVE_PASS_INPUT_GRADIENT};

static void expect_warnings(const calibrate_doubts *doubts, bool again, const char *wanted_text) {
    char *text = NULL;
    size_t bytes;
    FILE *to = open_memstream(&text, &bytes);
    calibrate_doubts_print(doubts, 5, again, to);
    fclose(to);
    if (wanted_text == NULL)
        cr_expect_str_empty(text);
    else
        cr_expect_not_null(strstr(text, wanted_text), "no '%s' in: %s", wanted_text, text);
    free(text);
}

static void measure(calibrate_doubts *doubts, const calibrate_work *work, double seconds,
                    double spread, int repeats, bool hurried) {
    const cleave_measurement result = {.seconds = seconds, .spread = spread, .repeats = repeats};
    calibrate_doubts_measured(doubts, work, &result, hurried);
}

/* Half the interval is 1.96 x 1.2533 / 1.349 = 1.82 spreads / sqrt(n): 10 % of 16 repeats with a
   spread of 22 %. */
Test(calibrate_doubts, a_kernel_that_varies_is_vague_by_its_repeats) {
    calibrate_doubts doubts = {0}, vague = {0};
    measure(&doubts, &wanted, 1, 0.21, 16, false);
    expect_warnings(&doubts, false, NULL);
    measure(&vague, &wanted, 1, 0.23, 16, false);
    expect_warnings(&vague, false, "100 % of the time measured is of kernels that varied");
    expect_warnings(&vague, false, "such as product, forward; quiet the machine");
    expect_warnings(&vague, false, "into a new file");
    expect_warnings(&vague, true, "calibrate once more");
}

Test(calibrate_doubts, what_takes_no_time_or_is_not_wanted_is_no_doubt) {
    calibrate_doubts doubts = {0};
    measure(&doubts, &wanted, 1, 0.01, 9, false);
    measure(&doubts, &wanted, 0.04, 3, 9, false);
    measure(&doubts, &other, 5, 3, 9, true);
    calibrate_doubts_left(&doubts, &other);
    expect_warnings(&doubts, false, NULL);
}

/* A long kernel runs once however much time there is. */
Test(calibrate_doubts, few_repeats_are_hasty_where_more_time_would_help) {
    calibrate_doubts doubts = {0};
    measure(&doubts, &wanted, 1, 0, 1, false);
    expect_warnings(&doubts, false, NULL);
    measure(&doubts, &wanted, 1, 0, 2, true);
    expect_warnings(&doubts, false,
                    "--time 5 is too short: 50 % of the time measured is of kernels that ran");
}

Test(calibrate_doubts, what_known_strategies_do_should_be_measured) {
    calibrate_doubts doubts = {0};
    measure(&doubts, &wanted, 1, 0, 9, false);
    calibrate_doubts_left(&doubts, &wanted);
    expect_warnings(&doubts, false, "--time 5 is too short: 1 of 2 sorts of work");
}

Test(calibrate_doubts, messages_vary_where_more_than_a_quarter_of_the_sizes_do) {
    calibrate_doubts doubts = {0};
    cleave_link_figures figures = {.n_sizes = 4, .uncertainty = {0.3, 0.02, 0.05, 0.01}};
    calibrate_doubts_link(&doubts, &figures);
    expect_warnings(&doubts, false, NULL);
    figures.uncertainty[2] = 0.4;
    doubts = (calibrate_doubts){0};
    calibrate_doubts_link(&doubts, &figures);
    expect_warnings(&doubts, false, "2 of 4 sizes");
    expect_warnings(&doubts, false, "those of 4.00 KiB by 40 %");
}
