/* The arguments of benches, taken one after the other.  What is not understood ends a bench with 2
 * and a line that says what is known; --help or -h ends it with 0 and the comment that its source
 * begins with: usage, what it measures, and what it prints.  Also compiled as C++. */
#ifndef CLEAVE_TESTS_BENCH_ARGUMENTS_H
#define CLEAVE_TESTS_BENCH_ARGUMENTS_H

#include <glob.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct bench_arguments {
    const char *program;
    char **words; /* that are left, null behind the last */
} bench_arguments;

__attribute__((format(printf, 2, 3), noreturn)) static inline void
bench_refuse(const bench_arguments *a, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "%s: ", a->program);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, " (--help says more)\n");
    va_end(arguments);
    exit(2);
}

/* The first comment of a source, without what makes it one. */
static inline void bench_print_head(const bench_arguments *a) {
    char line[256], *end = NULL;
    FILE *file = fopen(BENCH_SOURCE, "r");
    if (file == NULL)
        bench_refuse(a, "the help is in %s, which can't be read", BENCH_SOURCE);
    while (end == NULL && fgets(line, sizeof line, file) != NULL) {
        end = strstr(line, " */");
        if (end != NULL)
            memcpy(end, "\n", 2);
        printf("%s",
               strncmp(line, "/* ", 3) == 0 || strncmp(line, "   ", 3) == 0 ? line + 3 : line);
    }
    fclose(file);
}

/* BENCH_SOURCE is the file that has main. */
static inline bench_arguments bench_begin(int argc, char **argv) {
    const char *slash = strrchr(argv[0], '/');
    bench_arguments a = {slash != NULL ? slash + 1 : argv[0], argv + 1};
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            bench_print_head(&a);
            exit(0);
        }
    return a;
}

/* Null where nothing is left; these and all that follow are then what was not given. */
static inline const char *bench_take(bench_arguments *a) {
    return *a->words != NULL ? *a->words++ : NULL;
}

/* Whether the next word is this one; takes it then. */
static inline bool bench_take_flag(bench_arguments *a, const char *flag) {
    bool is_next = *a->words != NULL && strcmp(*a->words, flag) == 0;
    a->words += is_next;
    return is_next;
}

/* The same of an option that a value has to follow. */
static inline bool bench_take_option(bench_arguments *a, const char *option) {
    bool is_next = bench_take_flag(a, option);
    if (is_next && *a->words == NULL)
        bench_refuse(a, "%s: a value has to follow", option);
    return is_next;
}

/* `otherwise` where nothing is left. */
static inline double bench_take_number(bench_arguments *a, const char *what, double least,
                                       double most, double otherwise) {
    const char *word = bench_take(a);
    if (word == NULL)
        return otherwise;
    char *end;
    double value = strtod(word, &end);
    if (end == word || *end != '\0' || !(value >= least && value <= most))
        bench_refuse(a, "%s %s: a number from %.10g to %.10g is wanted", what, word, least, most);
    return value;
}

/* Up to 2^53. */
static inline int64_t bench_take_integer(bench_arguments *a, const char *what, int64_t least,
                                         int64_t most, int64_t otherwise) {
    double value = bench_take_number(a, what, (double)least, (double)most, (double)otherwise);
    if (value != floor(value))
        bench_refuse(a, "%s %g: a whole number is wanted", what, value);
    return (int64_t)value;
}

/* One of n names or, `partly`, a part of one; they are `stride` bytes apart, a member of the rows
   of a table.  Null where nothing is left. */
static inline const char *bench_take_name(bench_arguments *a, const char *what, bool partly,
                                          const char *const *names, size_t stride, size_t n) {
    char known[8192] = "", *end = known;
    const char *word = bench_take(a), *last = "";
    for (size_t i = 0; i < n && word != NULL; i++) {
        const char *name = *(const char *const *)(const void *)((const char *)names + i * stride);
        if (strcmp(name, word) == 0 || (partly && strstr(name, word) != NULL))
            return word;
        size_t room = sizeof known - (size_t)(end - known);
        if (strcmp(name, last) != 0 && strlen(name) + 3 < room)
            end += snprintf(end, room, "%s%s", end == known ? "" : ", ", name);
        last = name;
    }
    if (word != NULL)
        bench_refuse(a, "%s %s: %s %s", what, word, partly ? "in none of" : "none of", known);
    return NULL;
}

/* The name of a file in a folder of configs. */
static inline const char *bench_take_shipped(bench_arguments *a, const char *what,
                                             const char *folder, const char *ending) {
    char pattern[4096];
    glob_t found;
    snprintf(pattern, sizeof pattern, CLEAVE_SOURCE_DIR "/configs/%s/*%s", folder, ending);
    if (glob(pattern, 0, NULL, &found) != 0)
        bench_refuse(a, "nothing is like %s", pattern);
    const char **names = (const char **)malloc(found.gl_pathc * sizeof *names);
    for (size_t i = 0; i < found.gl_pathc && names != NULL; i++) {
        char *name = strrchr(found.gl_pathv[i], '/') + 1;
        name[strlen(name) - strlen(ending)] = '\0';
        names[i] = name;
    }
    const char *taken =
        bench_take_name(a, what, false, names, sizeof *names, names != NULL ? found.gl_pathc : 0);
    free(names);
    globfree(&found);
    return taken;
}

/* Refuses what is left. */
static inline void bench_end(const bench_arguments *a) {
    if (*a->words != NULL)
        bench_refuse(a, "%s: not expected", *a->words);
}

#endif
