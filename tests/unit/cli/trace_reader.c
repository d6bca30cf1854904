/* Reading the events of a trace one at a time. */
#include "cli/trace_reader.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

static char path[512];
static void make_path(void) {
    snprintf(path, sizeof path, CLEAVE_BINARY_DIR "/trace-reader-test-%ld.json", (long)getpid());
}
static void remove_file(void) { unlink(path); }
TestSuite(trace_reader, .init = make_path, .fini = remove_file);

static void write_text(const char *text) {
    FILE *stream = fopen(path, "wb");
    cr_assert_not_null(stream);
    fputs(text, stream);
    fclose(stream);
}

/* Reads all events; their number, or -1 - those before the one that is wrong. */
static int read_all(const char *text, cleave_error *error) {
    trace_reader reader;
    int n = 0;
    write_text(text);
    cr_assert(trace_reader_open(&reader, path), "not a trace: %s", text);
    for (;; n++) {
        cleave_json *event;
        if (trace_reader_next(&reader, &event, error) != CLEAVE_OK) {
            n = -1 - n;
            break;
        }
        if (event == NULL)
            break;
        cleave_json_free(event);
    }
    trace_reader_close(&reader);
    return n;
}

Test(trace_reader, events_are_found_wherever_they_stand) {
    cleave_error error = {""};
    cr_expect_eq(read_all("[]", &error), 0);
    cr_expect_eq(read_all(" [ {} ,\r\n\t{\"a\": [{}, {}]} ] ", &error), 2);
    cr_expect_eq(read_all("{\"traceEvents\":[{}]}", &error), 1);
    cr_expect_eq(read_all("{\"a\": {\"traceEvents\": [1, \"]}\\\"\"]}, \"b\\\"\": 3, "
                          "\"traceEvents\" : [{\"x\": \"}],[{\"}], \"c\": []}",
                          &error),
                 1);
}

Test(trace_reader, what_is_no_trace_is_left_to_others) {
    static const char *const texts[] = {"",
                                        "{}",
                                        "{\"cleave_machine\": 1}",
                                        "{\"a\": {\"traceEvents\": []}}",
                                        "{\"traceEvents\": {}}",
                                        "{\"a",
                                        "{\"a\": \"",
                                        "traceEvents"};
    trace_reader reader;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text(texts[i]);
        cr_expect_not(trace_reader_open(&reader, path), "a trace: %s", texts[i]);
    }
    cr_expect_not(trace_reader_open(&reader, CLEAVE_BINARY_DIR), "a folder");
    cr_expect_not(trace_reader_open(&reader, "/nowhere"));
}

Test(trace_reader, what_is_wrong_is_said_with_the_number_of_the_event) {
    static const struct {
        const char *text;
        int n_before;
        const char *message;
    } cases[] = {{"[", 0, "event 0: the file ends before it"},
                 {"[{}, {}", 2, "event 2: neither a comma"},
                 {"[{} {}]", 1, "event 1: neither a comma"},
                 {"[{}, 3]", 1, "event 1: not an object"},
                 {"[{}, {\"a\": \"}", 1, "event 1: the file ends within it"},
                 {"[{}, {\"a\" 1}]", 1, "event 1"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cleave_error error = {""};
        cr_expect_eq(read_all(cases[i].text, &error), -1 - cases[i].n_before, "%s", cases[i].text);
        cr_expect_not_null(strstr(error.message, cases[i].message), "%s: %s", cases[i].text,
                           error.message);
        cr_expect_not_null(strstr(error.message, path), "%s", error.message);
    }
}

/* A hundred thousand events, and no more memory than one needs. */
Test(trace_reader, memory_is_that_of_the_longest_event) {
    FILE *stream = fopen(path, "wb");
    cr_assert_not_null(stream);
    fputs("[{\"n\": 0}", stream);
    for (int i = 1; i < 100000; i++)
        fprintf(stream, ",\n{\"n\": %d}", i);
    fputs("]", stream);
    fclose(stream);
    trace_reader reader;
    cleave_json *event;
    cr_assert(trace_reader_open(&reader, path));
    for (int i = 0;; i++) {
        int64_t n;
        OK(trace_reader_next, &reader, &event);
        if (event == NULL) {
            cr_expect_eq(i, 100000);
            break;
        }
        cleave_json_cursor root = cleave_json_root(event), at;
        cr_assert(cleave_json_find(&root, "n", &at));
        OK(cleave_json_integer, &at, i, i, &n);
        cleave_json_free(event);
    }
    cr_expect_leq(reader.capacity, 1024);
    trace_reader_close(&reader);
}
