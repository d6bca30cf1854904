/* What a checkpoint says of the data that it was trained on, by which others are told from them. */
#ifndef CLEAVE_EXEC_DATA_IDENTITY_H
#define CLEAVE_EXEC_DATA_IDENTITY_H

#include "exec/data/manifest.h"
#include "exec/run.h"

/* Name, length and checksum of what the options name; the name is null where data are made up.
   Strings live in the arena, or are the options'.  Of data of more than a GiB the checksum is that
   of pieces all over them.  BAD_INPUT when they can't be read. */
cleave_status cleave_data_identify(const cleave_run_options *options, cleave_arena *arena,
                                   cleave_manifest_file *identity, cleave_error *error);

#endif
