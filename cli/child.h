/* Runs this command again as a child and reads the JSON object that it prints. */
#ifndef CLEAVE_CLI_CHILD_H
#define CLEAVE_CLI_CHILD_H

#include "base/json.h"

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
