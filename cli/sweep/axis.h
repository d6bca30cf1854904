/* What `sweep` varies: "--vary NAME=VALUES".

   NAME is an option of `search` without its dashes ("devices", "memory-limit", "optimizer") or a
   figure of the machine file (costmodel/machine_figures.h).  VALUES are, with commas between, words
   of an option that takes words, else numbers and ranges with one unit for all:

     8,16,64             these
     8..512              8, 16, 32 ... up to 512: twice the one before, and the last in any case
     10..400x4Gbit/s     four times the one before
     64..512+64          64 more than the one before */
#ifndef CLEAVE_CLI_SWEEP_AXIS_H
#define CLEAVE_CLI_SWEEP_AXIS_H

#include "base/arena.h"
#include "base/json.h"
#include "cli/options.h"

enum { SWEEP_MOST_VALUES = 1024 };

typedef struct sweep_axis {
    const char *name;
    const option_row *option; /* null: a figure of the machine */
    bool is_words;            /* and no numbers */
    bool carries;             /* a layout that is found at one value may be tried at another */
    const char *unit;         /* "Gbit/s"; "" of plain numbers and words */
    int32_t n;
    double *numbers;     /* [n] in that unit, ascending; of words 0, 1, ... */
    const char **texts;  /* [n] with the unit, as an option or a machine file takes them */
    const char **labels; /* [n] without it */
} sweep_axis;

/* Reads one, in the arena.  `options` are those that may be varied.  BAD_INPUT names what is wrong
   with name or values. */
cleave_status sweep_axis_parse(const char *text, const option_table *options,
                               const cleave_json *machine, cleave_arena *arena, sweep_axis *axis,
                               cleave_error *error);

/* "KEY": a value, without its unit. */
void sweep_axis_put(const sweep_axis *axis, int32_t at, const char *key, cleave_json_writer *w);
/* "network.bandwidth [Gbit/s]": the name with the unit. */
const char *sweep_axis_heading(const sweep_axis *axis, cleave_arena *arena);

#endif
