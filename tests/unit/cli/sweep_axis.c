/* Lists and ranges of values are what a reader of the table would take them for. */
#include "../../support/ok.h"
#include "cli/search/options.h"
#include "cli/sweep/axis.h"

#include <criterion/criterion.h>
#include <string.h>

static const option_row rows[] = {SEARCH_ROWS};
static const option_table options = COMMAND_OPTIONS(rows);
static const char machine_text[] = "{\"network\": {\"bandwidth\": \"1 GB/s\", \"lanes\": 2.5}}";

static cleave_arena arena;
static cleave_json *machine;
static void set_up(void) {
    OK(cleave_json_parse, machine_text, strlen(machine_text), "m.json", &machine);
}
static void tear_down(void) {
    cleave_json_free(machine);
    cleave_arena_free(&arena);
}
TestSuite(sweep_axis, .init = set_up, .fini = tear_down);

/* `texts` with "|" between. */
static void expect(const char *text, const char *texts, const char *unit, bool carries) {
    sweep_axis axis;
    cleave_error error = {""};
    char found[512] = "";
    cr_assert_eq(sweep_axis_parse(text, &options, machine, &arena, &axis, &error), CLEAVE_OK,
                 "%s: %s", text, error.message);
    for (int32_t i = 0; i < axis.n; i++)
        strcat(strcat(found, i > 0 ? "|" : ""), axis.texts[i]);
    cr_expect_str_eq(found, texts, "%s is %s", text, found);
    cr_expect_str_eq(axis.unit, unit, "%s", text);
    cr_expect_eq(axis.carries, carries, "%s", text);
}

static void refuse(const char *text, const char *said) {
    sweep_axis axis;
    cleave_error error = {""};
    cr_expect_eq(sweep_axis_parse(text, &options, machine, &arena, &axis, &error), CLEAVE_BAD_INPUT,
                 "%s", text);
    cr_expect(strstr(error.message, said) != NULL, "no \"%s\" in: %s", said, error.message);
}

Test(sweep_axis, list_is_sorted_and_has_each_value_once) {
    expect("devices=16,8,64,8", "8|16|64", "", false);
}

Test(sweep_axis, range_doubles_and_ends_at_its_end) {
    expect("devices=8..64", "8|16|32|64", "", false);
    expect("network.bandwidth=10..100Gbit/s", "10 Gbit/s|20 Gbit/s|40 Gbit/s|80 Gbit/s|100 Gbit/s",
           "Gbit/s", true);
    expect("devices=5..5", "5", "", false);
}

Test(sweep_axis, range_goes_by_a_factor_or_a_difference) {
    expect("network.bandwidth=10..400x4Gbit/s", "10 Gbit/s|40 Gbit/s|160 Gbit/s|400 Gbit/s",
           "Gbit/s", true);
    expect("batch=64..200+64", "64|128|192|200", "", false);
    expect("network.lanes=0.5..2+0.5", "0.5|1|1.5|2", "", true);
    expect("network.lanes=1..1e3x10", "1|10|100|1000", "", true);
}

/* 1, 1.5, 2.25, 3.375, 5.06, 7.59 to the nearest whole ones: 1 2 2 3 5 8. */
Test(sweep_axis, whole_numbers_between_are_rounded) {
    expect("devices=1..9x1.5", "1|2|3|5|8|9", "", false);
}

Test(sweep_axis, lists_and_ranges_mix_and_spaces_do_not_count) {
    expect("memory-limit=1..4, 3 GiB", "1 GiB|2 GiB|3 GiB|4 GiB", "GiB", true);
    expect("memory-limit=1GiB..4 GiB", "1 GiB|2 GiB|4 GiB", "GiB", true);
}

Test(sweep_axis, options_of_words_take_words) {
    expect("optimizer=sgd,adam", "sgd|adam", "", true);
    expect("method=auto,data-parallel", "auto|data-parallel", "", false);
}

Test(sweep_axis, what_is_no_value_is_refused_by_name) {
    refuse("devices", "NAME=VALUES");
    refuse("=3", "NAME=VALUES");
    refuse("devices=", "--vary devices=: a number is missing");
    refuse("devices=8..", "end of a range");
    refuse("devices=8..4", "smaller");
    refuse("devices=8,,9", "a number is missing");
    refuse("devices=1.5", "whole numbers");
    refuse("devices=0..4", "above 0");
    refuse("devices=1..4x1", "above 1");
    refuse("devices=1..4+0", "larger one");
    refuse("devices=1..4x", "missing behind");
    refuse("devices=-4", "a number is missing");
    refuse("devices=1..99999+1", "1024 values");
    refuse("network.bandwidth=1 GB/s,2 MB/s", "one unit");
    refuse("network.bandwidth=1 GB/s 2", "commas");
    refuse("network.bandwith=1 GB/s", "network.bandwidth");
    refuse("optimizer=sgd,,adam", "empty");
    refuse("optimizer=sgd,sgd", "twice");
}
