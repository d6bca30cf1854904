/* What `cleave export` says of a launch, and its file. */
#ifndef CLEAVE_CLI_EXPORT_LAUNCH_H
#define CLEAVE_CLI_EXPORT_LAUNCH_H

#include "base/json.h"
#include "cli/inputs.h"
#include "search/launch/launch.h"

/* `unsaid`: what the file does not say of the model, or null. */
void export_print_launch(const cleave_launch *of, const char *unsaid);
/* Members of an open object. */
void export_put_launch(const cleave_launch *of, cleave_json_writer *w);
/* With the sizes of the model, where that comes from a config.json. */
cleave_status export_write_launch(const char *path, const common_options *common,
                                  const cleave_launch *launch, cleave_arena *arena,
                                  const char **unsaid, cleave_error *error);

#endif
