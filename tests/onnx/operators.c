/* ONNX's own tests, run forward: how many pass, by operator.  What is supported has to be right, so
   a single failure fails; what is not supported has to be refused, and is listed with its reasons.
   Usage: onnx_operators FOLDER [PART OF A NAME]; with the latter, one line for each such test. */
#include "base/list.h"
#include "base/order.h"
#include "tests/onnx/case.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_PER_CASE = 10, SKIPPED = 77, MOST_REASONS = 3, MOST_REASON = 90 };

typedef struct onnx_suite {
    const char *folder;
    /* As many as pass, and as do with their inputs as data, with the tests of ONNX 1.12. */
    int least_passed, least_as_data;
} onnx_suite;

static const onnx_suite suites[] = {{"node", 737, 605},
                                    {"simple", 7, 3},
                                    {"pytorch-operator", 28, 28},
                                    {"pytorch-converted", 69, 69}};

/* Tests of random numbers that come from numpy's generator. */
static const char *const random_tests[] = {
    "test_bernoulli",          "test_bernoulli_seed",
    "test_bernoulli_expanded", "test_bernoulli_seed_expanded",
    "test_training_dropout",   "test_training_dropout_default"};

typedef struct named_result {
    char name[128];  /* of the folder */
    char group[100]; /* row of the table */
    onnx_result result;
} named_result;

typedef CLEAVE_LIST(named_result) result_list;

/* ---- one test, in a process of its own ------------------------------------------------------- */

static void ended_badly(int outcome, onnx_result *result) {
    result->outcome = ONNX_FAILED;
    if (WIFSIGNALED(outcome) && (WTERMSIG(outcome) == SIGXCPU || WTERMSIG(outcome) == SIGALRM))
        snprintf(result->reason, sizeof result->reason, "took more than %d s", SECONDS_PER_CASE);
    else
        snprintf(result->reason, sizeof result->reason, "crashed (signal %d)",
                 WIFSIGNALED(outcome) ? WTERMSIG(outcome) : 0);
}

/* Of the processor; of the clock, where others may keep it busy, ten times as much. */
static void limit_time(void) {
    struct rlimit limit = {.rlim_cur = SECONDS_PER_CASE, .rlim_max = SECONDS_PER_CASE + 1};
    setrlimit(RLIMIT_CPU, &limit);
    alarm(10 * SECONDS_PER_CASE);
}

static onnx_result run_apart(cleave_world *world, const char *folder) {
    onnx_result result = {.outcome = ONNX_FAILED, .reason = "could not be started"};
    int ends[2], outcome = 0;
    if (pipe(ends) != 0)
        return result;
    pid_t child = fork();
    if (child == 0) {
        limit_time();
        result = onnx_case_run(world, folder);
        _exit(write(ends[1], &result, sizeof result) == (ssize_t)sizeof result ? 0 : 1);
    }
    close(ends[1]);
    bool whole = child > 0 && read(ends[0], &result, sizeof result) == (ssize_t)sizeof result;
    close(ends[0]);
    if (child > 0 && waitpid(child, &outcome, 0) == child && !whole)
        ended_badly(outcome, &result);
    return result;
}

static onnx_result run_test(cleave_world *world, const char *folder, const char *name) {
    onnx_result result = run_apart(world, folder);
    for (size_t i = 0; i < sizeof random_tests / sizeof *random_tests; i++)
        if (strcmp(name, random_tests[i]) == 0) {
            result.outcome = ONNX_NOT_SUPPORTED;
            snprintf(result.reason, sizeof result.reason, "random numbers of another generator");
        }
    return result;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const named_result *)a)->name, ((const named_result *)b)->name);
}

static bool list_tests(const char *folder, const char *part, result_list *list) {
    DIR *directory = opendir(folder);
    if (directory == NULL)
        return false;
    for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
        named_result test = {.name = ""};
        snprintf(test.name, sizeof test.name, "%s", entry->d_name);
        if (strncmp(test.name, "test_", 5) == 0 && strstr(test.name, part) != NULL &&
            !CLEAVE_LIST_PUSH(list, test))
            abort();
    }
    closedir(directory);
    CLEAVE_SORT(list->items, list->n, compare_names);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* The operator; of a test that writes a function out as other operators, that function. */
static void name_group(const result_list *list, named_result *test) {
    const char *operator= test->result.operator, * of = "";
    const char *expanded = strstr(test->name, "_expanded");
    if (expanded != NULL) {
        named_result whole = {.name = ""};
        snprintf(whole.name, sizeof whole.name, "%.*s", (int)(expanded - test->name), test->name);
        const named_result *found =
            bsearch(&whole, list->items, (size_t)list->n, sizeof whole, compare_names);
        operator= found != NULL ? found->result.operator: "";
        of = ", written out";
    }
    snprintf(test->group, sizeof test->group, "%s%s", operator[0] != '\0' ? operator: "several",
             of);
}

static int compare_groups(const void *a, const void *b) {
    const named_result *x = a, *y = b;
    int order = strcmp(x->group, y->group);
    return order != 0 ? order : compare_names(a, b);
}

/* A reason without the place, and without what would have been supported. */
static void shorten(const char *reason, char *text) {
    const char *after = strstr(reason, "): ");
    const char *start = after != NULL ? after + 3 : reason;
    size_t length = strcspn(start, ";");
    const char *cut = strstr(start, ", supported");
    if (cut != NULL && (size_t)(cut - start) < length)
        length = (size_t)(cut - start);
    snprintf(text, MOST_REASON, "%.*s", (int)length, start);
}

static void print_reasons(const named_result *tests, int n) {
    char seen[MOST_REASONS][MOST_REASON];
    int n_seen = 0, more = 0;
    for (int i = 0; i < n; i++) {
        char text[MOST_REASON];
        bool known = tests[i].result.outcome != ONNX_NOT_SUPPORTED;
        shorten(tests[i].result.reason, text);
        for (int k = 0; k < n_seen; k++)
            known = known || strcmp(seen[k], text) == 0;
        if (known)
            continue;
        if (n_seen == MOST_REASONS) {
            more = 1;
            continue;
        }
        memcpy(seen[n_seen++], text, sizeof text);
        printf("%s%s", n_seen > 1 ? "; " : "  ", text);
    }
    printf("%s\n", more ? "; ..." : "");
}

typedef struct tally {
    int of[ONNX_N_OUTCOMES], as_data, fixed;
} tally;

static tally count(const named_result *tests, int n) {
    tally sum = {0};
    for (int i = 0; i < n; i++) {
        onnx_outcome outcome = tests[i].result.outcome;
        sum.of[outcome]++;
        sum.as_data += outcome == ONNX_PASSED && tests[i].result.as_data;
        sum.fixed += outcome == ONNX_PASSED && tests[i].result.n_fixed > 0;
    }
    return sum;
}

static void print_row(const char *name, tally sum) {
    printf("%-36s %6d %6d %6d %6d %6d", name, sum.of[ONNX_PASSED], sum.as_data, sum.fixed,
           sum.of[ONNX_FAILED], sum.of[ONNX_NOT_SUPPORTED]);
}

static void print_table(const char *suite, result_list *list) {
    printf("\n%-36s %6s %6s %6s %6s %6s\n", suite, "passed", "data", "fixed", "failed", "not");
    CLEAVE_SORT(list->items, list->n, compare_groups);
    for (int first = 0, next; first < list->n; first = next) {
        const named_result *tests = list->items + first;
        for (next = first + 1;
             next < list->n && strcmp(list->items[next].group, tests->group) == 0;)
            next++;
        print_row(tests->group, count(tests, next - first));
        print_reasons(tests, next - first);
    }
    print_row("all", count(list->items, list->n));
    printf("\n");
}

static void print_test(const named_result *test) {
    static const char *const names[] = {"passed", "FAILED", "not supported"};
    printf("%s: %s", test->name, names[test->result.outcome]);
    if (test->result.outcome != ONNX_PASSED)
        printf(": %s", test->result.reason);
    else
        printf("%s with %d inputs fixed", test->result.as_data ? ", as data too," : "",
               test->result.n_fixed);
    printf("\n");
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* How many things are wrong with the suite. */
static int run_suite(cleave_world *world, const char *data, const onnx_suite *suite,
                     const char *part) {
    char folder[512], path[1024];
    result_list list = {0};
    snprintf(folder, sizeof folder, "%s/%s", data, suite->folder);
    if (!list_tests(folder, part, &list)) {
        printf("%s: can't be read\n", folder);
        return 1;
    }
    for (int i = 0; i < list.n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, list.items[i].name);
        list.items[i].result = run_test(world, path, list.items[i].name);
    }
    for (int i = 0; i < list.n; i++) {
        name_group(&list, &list.items[i]);
        if (part[0] != '\0' || list.items[i].result.outcome == ONNX_FAILED)
            print_test(&list.items[i]);
    }
    tally sum = count(list.items, list.n);
    int wrong = sum.of[ONNX_FAILED];
    if (part[0] == '\0') {
        print_table(suite->folder, &list);
        if (sum.of[ONNX_PASSED] < suite->least_passed) {
            printf("%s: %d passed, it were %d\n", suite->folder, sum.of[ONNX_PASSED],
                   suite->least_passed);
            wrong++;
        }
        if (sum.as_data < suite->least_as_data) {
            printf("%s: %d passed with their inputs as data, it were %d\n", suite->folder,
                   sum.as_data, suite->least_as_data);
            wrong++;
        }
    }
    CLEAVE_LIST_FREE(&list);
    return wrong;
}

int main(int n_arguments, char **arguments) {
    cleave_world *world = NULL;
    cleave_error error = {""};
    if (n_arguments < 2) {
        fprintf(stderr, "usage: onnx_operators FOLDER [PART OF A NAME]\n");
        return 2;
    }
    if (access(arguments[1], F_OK) != 0) {
        printf("skipped: there is no %s; Debian has it in libonnx-testdata\n", arguments[1]);
        return SKIPPED;
    }
    if (cleave_world_begin(&world, &error) != CLEAVE_OK) {
        fprintf(stderr, "%s\n", error.message);
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int wrong = 0;
    for (size_t i = 0; i < sizeof suites / sizeof *suites; i++)
        wrong += run_suite(world, arguments[1], &suites[i], n_arguments > 2 ? arguments[2] : "");
    printf("%s: failures %d\n", wrong == 0 ? "passed" : "FAILED", wrong);
    cleave_world_end(world, 0);
    return wrong > 0;
}
