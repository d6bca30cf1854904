/* Options: one table gives values, defaults and errors. */
#include "cli/options.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

typedef struct values {
    const char *model, *file;
    int64_t batch;
    double time, memory, rate, far;
    bool json;
    option_texts models;
    option_integers batches;
} values;

static const option_row rows[] = {
    {"FILE", NULL, OPTION_POSITIONAL, offsetof(values, file), .help = "a file"},
    {"--name", "M", OPTION_TEXT, offsetof(values, model), .required = true, .help = "a name"},
    {"--batch", "N", OPTION_INTEGER, offsetof(values, batch), .least = 1, .most = 64,
     .standard = "8", .help = "a batch"},
    {"--time", "SECONDS", OPTION_SECONDS, offsetof(values, time), .help = "a time"},
    {"--memory", "SIZE", OPTION_BYTES, offsetof(values, memory), .help = "a size"},
    {"--rate", "R", OPTION_NUMBER, offsetof(values, rate), .least = -1, .most = 1,
     .help = "a rate"},
    {"--far", "R", OPTION_NUMBER, offsetof(values, far), .least = 2, .most = 1e30, .help = "far"},
    {"--json", NULL, OPTION_FLAG, offsetof(values, json), .help = "as JSON"},
    {"--model", "M", OPTION_TEXT_LIST, offsetof(values, models), .help = "models"},
    {"--of", "N", OPTION_INTEGER_LIST, offsetof(values, batches), .least = 1, .most = 9,
     .help = "batches"},
};
static const option_table table = {rows, sizeof rows / sizeof rows[0]};

/* Parses a command line that is written as one string. */
static cleave_status parse(const char *line, values *v, cleave_error *error) {
    static char words[512];
    char *arguments[32];
    int n = 0;
    bool help;
    snprintf(words, sizeof words, "%s", line);
    for (char *word = strtok(words, " "); word != NULL; word = strtok(NULL, " "))
        arguments[n++] = word;
    return options_parse(&table, n, arguments, v, sizeof *v, &help, error);
}

Test(options, values_land_in_the_struct) {
    values v;
    OK(parse,
       "--name a.onnx data.bin --batch=16 --time 2min --memory 2GiB --rate -0.5 "
       "--json --model x --of 3 --model y --of 4",
       &v);
    cr_expect_str_eq(v.model, "a.onnx");
    cr_expect_str_eq(v.file, "data.bin");
    cr_expect_eq(v.batch, 16);
    cr_expect_eq(v.time, 120);
    cr_expect_eq(v.memory, 2147483648.0); /* 2 x 2^30 */
    cr_expect_eq(v.rate, -0.5);
    cr_expect(v.json);
    cr_assert_eq(v.models.n, 2);
    cr_expect_str_eq(v.models.items[1], "y");
    cr_assert_eq(v.batches.n, 2);
    cr_expect_eq(v.batches.items[0], 3);
}

Test(options, defaults_are_parsed_and_given_values_replace_them) {
    values v;
    cr_assert_eq(parse("--name a", &v, NULL), CLEAVE_OK);
    cr_expect_eq(v.batch, 8);
    cr_expect_not(v.json);
    cr_assert_eq(parse("--name a --batch 9 --time 5", &v, NULL), CLEAVE_OK);
    cr_expect_eq(v.batch, 9);
    cr_expect_eq(v.time, 5);
}

Test(options, mistakes_are_named) {
    static const char *const lines[][2] = {
        {"", "--name"},
        {"--name a --nane b", "unknown option --nane: is it --name?"},
        {"--name a --bacth 2", "unknown option --bacth: is it --batch?"},
        {"--name a --mem 2", "unknown option --mem: is it --memory?"},
        {"--name a --batch-size=2", "unknown option --batch-size=2: is it --batch?"},
        {"--name a --jobs 2", "unknown option --jobs: FILE stands by itself"},
        {"--name a -t 2", "unknown option -t: FILE stands by itself"},
        {"--name", "--name"},
        {"--name --json", "--name"},
        {"--name a --batch x", "\"x\""},
        {"--name a --batch 3x", "\"3x\""},
        {"--name a --batch 0", "0"},
        {"--name a --batch 65", "65"},
        {"--name a --batch 99999999999999999999", "99999999999999999999"},
        {"--name a --batch 3 --batch 3", "--batch"},
        {"--name a --json=1", "--json"},
        {"--name a --rate nan", "nan"},
        {"--name a --rate 1e999", "1e999"},
        {"--name a --rate 2", "2"},
        {"--name a --far 1", "--far: 1 is below 2"},
        {"--name a --far 1e31", "--far: 1e31 is above 1e+30"},
        {"--name a --time -1", "-1"},
        {"--name a --time 5GB", "5GB"},
        {"--name a --memory 5parsecs", "5parsecs"},
        {"--name a b c", "FILE"},
        {"--name a --of 10", "10"},
        {"--name a -x", "-x"},
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        values v;
        cleave_error error = {""};
        cr_expect_eq(parse(lines[i][0], &v, &error), CLEAVE_BAD_INPUT, "%s", lines[i][0]);
        cr_expect_not_null(strstr(error.message, lines[i][1]), "%s: %s", lines[i][0],
                           error.message);
    }
}

Test(options, help_wins_over_what_is_missing) {
    values v;
    bool help = false;
    char *arguments[] = {"--batch", "--help"};
    cr_expect_eq(options_parse(&table, 2, arguments, &v, sizeof v, &help, NULL), CLEAVE_OK);
    cr_expect(help);
}

Test(options, help_names_every_option_and_its_default) {
    char text[8192] = "";
    FILE *stream = fmemopen(text, sizeof text, "w");
    options_print_help(&table, stream);
    fclose(stream);
    for (int r = 0; r < table.n_rows; r++) {
        cr_expect_not_null(strstr(text, rows[r].name));
        cr_expect_not_null(strstr(text, rows[r].help));
    }
    cr_expect_not_null(strstr(text, "default 8"));
}

/* Arguments without a name go to the rows in their order, wherever they stand. */
Test(options, several_positional_arguments_land_in_order) {
    static const option_row two[] = {
        {"A", NULL, OPTION_POSITIONAL, offsetof(values, model), .required = true, .help = "one"},
        {"B", NULL, OPTION_POSITIONAL, offsetof(values, file), .required = true, .help = "other"},
        {"--json", NULL, OPTION_FLAG, offsetof(values, json), .help = "as JSON"},
    };
    static const option_table of_two = {two, 3};
    char a[] = "a", b[] = "b", json[] = "--json", *arguments[] = {a, json, b, a};
    values v;
    bool help;
    cleave_error error = {""};
    cr_assert_eq(options_parse(&of_two, 3, arguments, &v, sizeof v, &help, &error), CLEAVE_OK);
    cr_expect_str_eq(v.model, "a");
    cr_expect_str_eq(v.file, "b");
    cr_expect(v.json);
    cr_expect_eq(options_parse(&of_two, 4, arguments, &v, sizeof v, &help, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, "B is given twice");
    cr_expect_eq(options_parse(&of_two, 2, arguments, &v, sizeof v, &help, &error),
                 CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, "B is missing (--help explains)");
}
