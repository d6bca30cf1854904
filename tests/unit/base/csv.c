/* Comma-separated values, row by row. */
#include "base/csv.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

static cleave_arena arena;
static cleave_error error;

static cleave_csv begin(const char *text) { return cleave_csv_begin(text, strlen(text), "t.csv"); }

static void expect_row(cleave_csv *csv, int32_t n, const char *const *fields) {
    cleave_csv_row row;
    OK(cleave_csv_next, csv, &arena, &row);
    cr_assert_eq(row.n, n);
    for (int32_t i = 0; i < n; i++)
        cr_expect_str_eq(row.fields[i].text, fields[i]);
}

Test(csv, quotes_hold_commas_lines_and_quotes) {
    cleave_csv csv = begin("\xef\xbb\xbf"
                           "a , \"b, c\" ,\"d\"\"e\"\r\n"
                           "# a remark, with commas\n"
                           "  \n"
                           "\"two\nlines\",,\n"
                           "last");
    expect_row(&csv, 3, (const char *const[]){"a", "b, c", "d\"e"});
    expect_row(&csv, 3, (const char *const[]){"two\nlines", "", ""});
    expect_row(&csv, 1, (const char *const[]){"last"});
    expect_row(&csv, 0, NULL);
    expect_row(&csv, 0, NULL);
}

/* Lines within quotes count; columns are bytes from 1. */
Test(csv, fields_know_where_they_are) {
    cleave_csv csv = begin("\"x\ny\", z\n\nab, \"cd\"\n");
    cleave_csv_row row;
    OK(cleave_csv_next, &csv, &arena, &row);
    cr_expect_eq(row.fields[0].line, 1);
    cr_expect_eq(row.fields[1].line, 2);
    cr_expect_eq(row.fields[1].column, 5);
    OK(cleave_csv_next, &csv, &arena, &row);
    cr_expect_eq(row.fields[0].line, 4);
    cr_expect_eq(row.fields[1].column, 5);
}

static void expect_refused(const char *text, int n_rows_before, const char *place) {
    cleave_csv csv = begin(text);
    cleave_csv_row row;
    for (int i = 0; i < n_rows_before; i++)
        OK(cleave_csv_next, &csv, &arena, &row);
    cr_expect_eq(cleave_csv_next(&csv, &arena, &row, &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, place), "%s", error.message);
}

Test(csv, what_is_no_table_is_refused_with_its_place) {
    expect_refused("a,b\nc,\"d\n\n", 1, "t.csv:2:3"); /* where the quote opens */
    expect_refused("\"a\"b,c\n", 0, "t.csv:1:4");
    expect_refused("a,b\"c\n", 0, "t.csv:1:4");
}

Test(csv, a_byte_zero_is_no_text) {
    cleave_csv csv = cleave_csv_begin("a,\0b\n", 5, "t.csv");
    cleave_csv_row row;
    cr_expect_eq(cleave_csv_next(&csv, &arena, &row, &error), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "t.csv:1:3"), "%s", error.message);
}
