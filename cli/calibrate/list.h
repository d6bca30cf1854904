/* `cleave calibrate --list-kernels`: what is to be timed elsewhere, in words that a script of that
   framework understands. */
#ifndef CLEAVE_CLI_CALIBRATE_LIST_H
#define CLEAVE_CLI_CALIBRATE_LIST_H

#include "cli/calibrate/calibrate.h"

/* Writes the file: whole operators as baselines and the best layout found have them, then as other
   splits would, those first that take longest; copies and updates; collectives.  docs/formats.md
   has the format. */
cleave_status calibrate_list(const calibrate_values *values, cleave_arena *arena,
                             cleave_error *error);

#endif
