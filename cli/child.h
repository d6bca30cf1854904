/* Runs this command again as a child and reads the JSON object that it prints. */
#ifndef CLEAVE_CLI_CHILD_H
#define CLEAVE_CLI_CHILD_H

#include "base/json.h"

/* `arguments` ends with null and starts with the subcommand.  The child's stderr is ours.  When it
   fails, its exit code is the status. */
cleave_status child_run_json(const char *const *arguments, cleave_json **document,
                             cleave_error *error);

#endif
