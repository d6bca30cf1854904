/* JSON: what the reader refuses and how it says so, and that what is written reads back. */
#include "base/json.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cleave_json *parse(const char *text) {
    cleave_json *document = NULL;
    OK(cleave_json_parse, text, strlen(text), "test.json", &document);
    return document;
}

Test(json, malformed_text_is_refused_with_its_line) {
    static const char *const texts[] = {"{\n\"a\": }",
                                        "{\"a\": 1, \"a\": 2}",
                                        "[1e999]",
                                        "[1,]",
                                        "{\"a\": 99999999999999999999}",
                                        "\"\\xff\"",
                                        "[1] 2",
                                        "[\"\\u0000\"]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cleave_json *document = NULL;
        cleave_error error = {""};
        cr_expect_eq(cleave_json_parse(texts[i], strlen(texts[i]), "test.json", &document, &error),
                     CLEAVE_BAD_INPUT, "%s", texts[i]);
        cr_expect_eq(strncmp(error.message, "test.json: line ", 16), 0, "%s", error.message);
        cr_expect_null(document);
    }
}

/* Python's writer gives them by default, and much of what is written so is in fields that nobody
   reads.  A text that has the words in a string, or of which one is a part, is as it stands. */
Test(json, numbers_that_are_not_finite_are_named_by_who_wants_a_number) {
    cleave_json *document = parse("{\"a\": [0.0, Infinity, -Infinity],\"b\":NaN, \"NaN\": "
                                  "\"Infinity, NaN\"}");
    cleave_json_cursor root = cleave_json_root(document), a, b, text;
    cleave_error error;
    OK(cleave_json_get, &root, "a", &a);
    cr_expect_eq(cleave_json_count(&a), 3);
    for (int32_t i = 1; i < 3; i++) {
        double number = 7;
        cleave_json_cursor at = cleave_json_element(&a, i);
        cr_expect_eq(cleave_json_number(&at, &number, &error), CLEAVE_BAD_INPUT);
        cr_expect_str_eq(error.message, i == 1 ? "test.json: $.a[1]: a number is expected here, "
                                                 "not \"Infinity\""
                                               : "test.json: $.a[2]: a number is expected here, "
                                                 "not \"-Infinity\"");
    }
    const char *value = NULL;
    OK(cleave_json_get, &root, "b", &b);
    OK(cleave_json_string, &b, &value);
    cr_expect_str_eq(value, "NaN");
    OK(cleave_json_get, &root, "NaN", &text);
    OK(cleave_json_string, &text, &value);
    cr_expect_str_eq(value, "Infinity, NaN");
    cleave_json_free(document);
    static const char *const refused[] = {"[NaNs]", "[xNaN]", "[1Infinity]", "[-NaN]", "[NaN", "I"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        cr_expect_eq(
            cleave_json_parse(refused[i], strlen(refused[i]), "test.json", &document, &error),
            CLEAVE_BAD_INPUT, "%s", refused[i]);
}

Test(json, an_empty_file_is_said_to_be_empty) {
    cleave_json *document = NULL;
    cleave_error error = {""};
    cr_expect_eq(cleave_json_parse("", 0, "test.json", &document, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, "test.json: the file is empty");
}

/* As editors of some systems save it. */
Test(json, a_mark_of_utf_8_is_skipped_and_utf_16_is_named) {
    cleave_json *document = parse("\xef\xbb\xbf{\"a\": 1}");
    cleave_json_free(document);
    cr_expect(cleave_json_begins("\xef\xbb\xbf {", 5));
    cr_expect(cleave_json_begins("\r\n\t [", 5));
    cr_expect(!cleave_json_begins("\xef\xbb{", 3));
    cr_expect(!cleave_json_begins("\x08{", 2));
    static const char *const wide[] = {"\xff\xfe{\0}\0", "\xfe\xff\0{\0}"};
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        cleave_error error = {""};
        cr_expect(cleave_json_begins(wide[i], 6));
        cr_expect_eq(cleave_json_parse(wide[i], 6, "test.json", &document, &error),
                     CLEAVE_BAD_INPUT);
        cr_expect_str_eq(error.message,
                         "test.json: the text is UTF-16: save it as UTF-8, as JSON is");
    }
}

Test(json, members_keep_the_order_of_the_file) {
    cleave_json *document = parse("{\"z\": 1, \"a\": 2, \"m\": 3}");
    cleave_json_cursor root = cleave_json_root(document);
    static const char *const keys[] = {"z", "a", "m"};
    /* Forwards, then backwards: the remembered place must not leak into the answer. */
    for (int32_t turn = 0; turn < 6; turn++) {
        int32_t i = turn < 3 ? turn : 5 - turn;
        const char *key;
        int64_t value = 0;
        cleave_json_cursor member = cleave_json_member(&root, i, &key);
        cr_expect_str_eq(key, keys[i]);
        OK(cleave_json_integer, &member, 0, 9, &value);
        cr_expect_eq(value, i + 1);
    }
    cleave_json_free(document);
}

Test(json, errors_name_file_path_and_value) {
    cleave_json *document = parse("{\"operators\": {\"/a.b\": {\"split\": [1, \"x\"]}}}");
    cleave_json_cursor at = cleave_json_root(document);
    cleave_error error;
    OK(cleave_json_get, &at, "operators", &at);
    OK(cleave_json_get, &at, "/a.b", &at);
    OK(cleave_json_get, &at, "split", &at);
    int64_t value = 7;
    cleave_json_cursor second = cleave_json_element(&at, 1), first = cleave_json_element(&at, 0);
    cr_expect_eq(cleave_json_integer(&second, 0, 9, &value, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, "test.json: $.operators[\"/a.b\"].split[1]: an integer is "
                                    "expected here, not \"x\"");
    cr_expect_eq(cleave_json_integer(&first, 2, 9, &value, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message, "test.json: $.operators[\"/a.b\"].split[0]: 1 is not in the "
                                    "range 2 to 9");
    cr_expect_eq(value, 7, "outputs are left alone on failure");
    cr_expect_eq(cleave_json_get(&at, "n", &at, &error), CLEAVE_BAD_INPUT);
    cleave_json_free(document);
}

Test(json, unknown_keys_are_refused) {
    cleave_json *document = parse("{\"bandwidth\": 1, \"latencey\": 2}");
    cleave_json_cursor root = cleave_json_root(document);
    static const char *const keys[] = {"bandwidth", "latency", NULL};
    cleave_error error;
    cr_expect_eq(cleave_json_expect_keys(&root, keys, &error), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message,
                     "test.json: $.latencey: the key \"latencey\" is not known here");
    cleave_json_free(document);
}

Test(json, a_path_that_grows_too_long_is_cut) {
    char text[2100] = "", *end = text;
    for (int i = 0; i < 300; i++)
        end += sprintf(end, "{\"a\":");
    end += sprintf(end, "1");
    for (int i = 0; i < 300; i++)
        end += sprintf(end, "}");
    cleave_json *document = parse(text);
    cleave_json_cursor at = cleave_json_root(document);
    for (int i = 0; i < 300; i++)
        cr_assert(cleave_json_find(&at, "a", &at));
    cr_expect_eq(strlen(at.path), sizeof at.path - 1);
    int64_t value = 0;
    OK(cleave_json_integer, &at, 0, 9, &value);
    cleave_json_free(document);
}

Test(json, what_is_written_reads_back) {
    static const double numbers[] = {
        0, -0.0, 1, 0.1, 1.0 / 3, 1e300, 5e-324, 123456789012345680.0, -2.5e-7};
    enum { N = sizeof numbers / sizeof numbers[0] };
    cleave_json_writer writer = {0};
    cleave_json_begin_object(&writer, false);
    cleave_json_key(&writer, "text\n\"\\\x01");
    cleave_json_put_string(&writer, "tab\t\xc3\xa9");
    cleave_json_key(&writer, "numbers");
    cleave_json_begin_array(&writer, true);
    for (int i = 0; i < N; i++)
        cleave_json_put_number(&writer, numbers[i]);
    cleave_json_end_array(&writer);
    cleave_json_key(&writer, "least");
    cleave_json_put_integer(&writer, INT64_MIN);
    cleave_json_key(&writer, "infinite");
    cleave_json_put_number(&writer, INFINITY);
    cleave_json_end_object(&writer);
    cr_assert_not(writer.failed);

    cleave_json *document = parse(writer.text);
    cleave_json_cursor root = cleave_json_root(document), at;
    const char *text = "";
    cr_assert(cleave_json_find(&root, "text\n\"\\\x01", &at));
    OK(cleave_json_string, &at, &text);
    cr_expect_str_eq(text, "tab\t\xc3\xa9");
    cr_assert(cleave_json_find(&root, "numbers", &at));
    cr_assert_eq(cleave_json_count(&at), N);
    for (int i = 0; i < N; i++) {
        cleave_json_cursor element = cleave_json_element(&at, i);
        double value = NAN;
        OK(cleave_json_number, &element, &value);
        cr_expect_eq(memcmp(&value, &numbers[i], sizeof value), 0, "%.17g", numbers[i]);
    }
    int64_t least = 0;
    cr_assert(cleave_json_find(&root, "least", &at));
    OK(cleave_json_integer, &at, INT64_MIN, INT64_MAX, &least);
    cr_expect_eq(least, INT64_MIN);
    cr_assert(cleave_json_find(&root, "infinite", &at));
    cr_expect_eq(cleave_json_type_of(&at), CLEAVE_JSON_NULL);
    cleave_json_free(document);
    cleave_json_writer_free(&writer);
}

Test(json, containers_on_one_line_stay_on_it) {
    cleave_json_writer writer = {0};
    cleave_json_begin_object(&writer, false);
    cleave_json_key(&writer, "a");
    cleave_json_begin_object(&writer, true);
    cleave_json_key(&writer, "split");
    cleave_json_begin_object(&writer, false);
    cleave_json_end_object(&writer);
    cleave_json_key(&writer, "devices");
    cleave_json_begin_array(&writer, false);
    cleave_json_put_integer(&writer, 0);
    cleave_json_put_integer(&writer, 1);
    cleave_json_end_array(&writer);
    cleave_json_end_object(&writer);
    cleave_json_key(&writer, "b");
    cleave_json_put_integer(&writer, 2);
    cleave_json_end_object(&writer);
    cr_expect_str_eq(writer.text, "{\n"
                                  "  \"a\": {\"split\": {}, \"devices\": [0, 1]},\n"
                                  "  \"b\": 2\n"
                                  "}\n");
    cleave_json_writer_free(&writer);
}

Test(json, replaced_members_are_read_as_they_are_now_and_others_as_before) {
    const char text[] = "{\"a\": \"1 GB/s\", \"b\": {\"c\": 2, \"d\": 0.5}}";
    cleave_json *document;
    cleave_json_cursor b, at;
    double value;
    int64_t whole;
    OK(cleave_json_parse, text, strlen(text), "t", &document);
    cleave_json_cursor root = cleave_json_root(document);
    OK(cleave_json_get, &root, "b", &b);
    OK(cleave_json_replace_string, &root, "a", "3 GB/s");
    OK(cleave_json_replace_number, &b, "c", 7);
    OK(cleave_json_get, &root, "a", &at);
    OK(cleave_json_quantity, &at, CLEAVE_UNIT_BYTES_PER_SECOND, &value);
    cr_expect_eq(value, 3e9);
    OK(cleave_json_get, &b, "c", &at);
    OK(cleave_json_integer, &at, 0, 9, &whole); /* whole as it was */
    cr_expect_eq(whole, 7);
    OK(cleave_json_get, &b, "d", &at);
    OK(cleave_json_number, &at, &value);
    cr_expect_eq(value, 0.5);
    cleave_json_free(document);
}
