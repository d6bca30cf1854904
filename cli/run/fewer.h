/* What is left of a machine when hosts are gone, and the layout that a search finds for it. */
#ifndef CLEAVE_CLI_RUN_FEWER_H
#define CLEAVE_CLI_RUN_FEWER_H

#include "exec/world/hosts.h"

enum { FEWER_MOST_OPTIONS = 64 };

/* How a layout of what is left is found. */
typedef struct fewer_search {
    const char *machine; /* the file of the whole one; null: none was given */
    const char
        *folder; /* where what is found is written: on-2-hosts.machine.json, and its layout */
    int n_options;
    const char *options[FEWER_MOST_OPTIONS]; /* of `search`, such as --model M */
    bool quiet;
} fewer_search;

typedef struct fewer_found {
    const char *machine, *layout; /* files */
    int32_t n_devices;
    const char *placement; /* as placement_make has it */
} fewer_found;

/* Of the nodes of the machine, which are the first hosts in their order, those are left whose host
   is among `left`; other hosts of `left` take the place of the first ones that are gone.  Searches,
   which may take minutes.  BAD_INPUT where there is no machine; NO_LAYOUT where nothing fits. */
cleave_status fewer_find(const fewer_search *search, const cleave_hosts *hosts,
                         const cleave_hosts *left, cleave_arena *arena, fewer_found *found,
                         cleave_error *error);

#endif
