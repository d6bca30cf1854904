/* What the files of checkpoints share: which are in a folder, and their manifests. */
#ifndef CLEAVE_EXEC_TRAINING_CHECKPOINT_READ_H
#define CLEAVE_EXEC_TRAINING_CHECKPOINT_READ_H

#include "base/list.h"
#include "exec/data/manifest.h"

/* Of the names of folders of checkpoints. */
#define CHECKPOINT_PREFIX "step-"

typedef CLEAVE_LIST(int64_t) checkpoint_steps;

/* Steps of which there is a folder whose name begins so, the newest first.  False when it can't be
   read. */
bool checkpoint_list(const char *folder, const char *prefix, checkpoint_steps *steps);

/* That of one folder.  BAD_INPUT. */
cleave_status checkpoint_read_manifest(const char *folder, cleave_arena *arena,
                                       cleave_manifest *manifest, cleave_error *error);

#endif
