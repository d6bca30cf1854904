/* Runs this command again as a child and reads the JSON object that it prints. */
#ifndef CLEAVE_CLI_CHILD_H
#define CLEAVE_CLI_CHILD_H

#include "base/json.h"
#include "cli/inputs.h"

enum { CHILD_MOST_WORDS = 256, CHILD_MOST_NUMBERS = 16 };

/* Arguments of a child; a zeroed one has none. */
typedef struct child_arguments {
    const char *words[CHILD_MOST_WORDS + 1]; /* [n], then null */
    int n, n_numbers;
    char numbers[CHILD_MOST_NUMBERS][32]; /* those that are words */
} child_arguments;

void child_add(child_arguments *to, const char *word);
/* An option and its value; nothing where that is null or 0. */
void child_add_text(child_arguments *to, const char *option, const char *text);
void child_add_integer(child_arguments *to, const char *option, int64_t value);
/* What says which model is to be trained, how, and by how many threads of a device. */
void child_add_common(child_arguments *to, const common_options *common);

/* `arguments` ends with null and starts with the subcommand.  The child's stderr is ours.  When it
   fails, its exit code is the status. */
cleave_status child_run_json(const char *const *arguments, cleave_json **document,
                             cleave_error *error);

/* Asked a few times a second while a child runs; false ends it. */
typedef struct child_watch {
    bool (*go_on)(void *context);
    void *context;
} child_watch;

/* The same for several children at once, by threads.  What the child says on stderr is the message
   of the error, and Ctrl-C is for us alone. */
cleave_status child_watch_json(const char *const *arguments, const child_watch *watch,
                               cleave_json **document, cleave_error *error);

#endif
