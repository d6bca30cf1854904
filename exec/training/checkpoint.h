/* Checkpoints: a folder of folders, step-50, step-100, ..., each with the state of a training after
   so many steps: files of tensors, and a manifest that names them (exec/data/manifest.h).

   One is written in the folder `writing`, synced, and then renamed, so what is called step-N is
   whole, but for what disks and people do to it later; the checksums tell.  Of what lies in the
   folder only files that a manifest lists are ever deleted. */
#ifndef CLEAVE_EXEC_TRAINING_CHECKPOINT_H
#define CLEAVE_EXEC_TRAINING_CHECKPOINT_H

#include "exec/data/manifest.h"
#include "exec/data/values.h"

/* The checkpoint of a step in a folder of them. */
void cleave_checkpoint_path(const char *folder, int64_t step, char *path, size_t bytes);

/* The step of the newest that is called one; -1: there is none. */
int64_t cleave_checkpoint_newest(const char *folder);

/* What a run goes on from. */
typedef struct cleave_resumed {
    char folder[4096]; /* "": it begins at the beginning */
    int64_t step;      /* that were done there */
    char skipped[512]; /* what was wrong with a newer checkpoint, the newest; "": nothing */
} cleave_resumed;

/* Looks for what options->from names, a checkpoint or a folder of them, of which the newest that is
   whole is taken; reads all of it once.  BAD_INPUT where there is none, and where it is of another
   model, precision, optimizer, seed or other data than this run, or beyond its last step. */
cleave_status cleave_checkpoint_find(const cleave_model *model, const cleave_run_options *options,
                                     cleave_resumed *resumed, cleave_error *error);

/* What can be said of options->checkpoint before anything is run: BAD_INPUT where it can't be made,
   or where it has checkpoints and the run goes on from none. */
cleave_status cleave_checkpoint_check(const cleave_run_options *options, cleave_error *error);

/* The folder of a run; rank 0 holds it for itself as long as it is open. */
typedef struct cleave_checkpoints {
    int descriptor;            /* that is locked; -1: not of rank 0, or not open */
    double written_seconds;    /* when the last one was, by the clock of the process; */
    double took_seconds;       /* how long it took to be on the disk, */
    int64_t bytes;             /* and its size */
    int64_t last_step;         /* that was written; -1: none */
    cleave_manifest_file data; /* in the arena */
    cleave_arena arena;
} cleave_checkpoints;

/* On every rank.  Makes the folder where there is none.  BAD_INPUT where another run has it. */
cleave_status cleave_checkpoints_open(cleave_checkpoints *checkpoints, const cleave_rank *rank,
                                      cleave_error *error);
void cleave_checkpoints_close(cleave_checkpoints *checkpoints);

/* On every rank: writes step-`step`, and drops the oldest beyond options->keep.  Where a value is
   not a number nothing is written, and `nan_in`, on rank 0, names its tensor.  FAILED with the
   reason, as of a full disk; older ones are then as they were. */
cleave_status cleave_checkpoints_write(cleave_checkpoints *checkpoints, const cleave_values *values,
                                       const cleave_rank *rank, int64_t step, const char **nan_in,
                                       cleave_error *error);

#endif
