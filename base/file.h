/* Whole files: read at once, and written so that a reader sees the old file or the new one. */
#ifndef CLEAVE_BASE_FILE_H
#define CLEAVE_BASE_FILE_H

#include "base/arena.h"
#include "base/checksum.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* What comes behind the folders of a path: the same file elsewhere has the same name. */
const char *cleave_file_name(const char *path);

/* Opens a regular file to be read, and says how long it is.  Never waits, as for whoever would
 * write to a pipe.  BAD_INPUT when it can't be opened, is of another kind, or is what Git LFS
 * leaves in the place of a file that was not fetched. */
cleave_status cleave_file_open(const char *path, FILE **stream, int64_t *bytes,
                               cleave_error *error);

/* Reads a regular file into the arena, with a zero byte after its end.  BAD_INPUT when it can't be
 * read. */
cleave_status cleave_file_read(const char *path, cleave_arena *arena, char **data, size_t *bytes,
                               cleave_error *error);

/* A file under a temporary name beside its final one; commit syncs and renames, abandon removes. */
typedef struct cleave_file_writer {
    FILE *stream;
    char path[4096];
    char temporary[4096 + 32];
    cleave_checksum sum; /* of what was put; its bytes, too */
} cleave_file_writer;

cleave_status cleave_file_writer_open(cleave_file_writer *writer, const char *path,
                                      cleave_error *error);
/* The same without a temporary name, for a file of a folder that is renamed as a whole.  What is
   there under the name is written over, but not through a link. */
cleave_status cleave_file_writer_open_within(cleave_file_writer *writer, const char *folder,
                                             const char *name, cleave_error *error);
/* Appends, for files of many gigabytes: the system begins to write them to the disk at once, so
   that the commit need not wait for all of it.  FAILED with the reason, as of a full disk. */
cleave_status cleave_file_writer_put(cleave_file_writer *writer, const void *data, size_t bytes,
                                     cleave_error *error);
cleave_status cleave_file_writer_commit(cleave_file_writer *writer, cleave_error *error);
void cleave_file_writer_abandon(cleave_file_writer *writer);

/* The length and the checksum of a file; of one of more than `most` bytes the checksum is that of
   about so many of them, in pieces all over it.  BAD_INPUT when it can't be read. */
cleave_status cleave_file_checksum(const char *path, int64_t most, int64_t *bytes,
                                   uint64_t *checksum, cleave_error *error);

/* Reads `bytes` bytes from `at` on of an open file, of many gigabytes too; moves no position, so
   threads and readers may share a descriptor.  FAILED naming the place. */
cleave_status cleave_file_read_at(int descriptor, const char *path, int64_t at, void *data,
                                  size_t bytes, cleave_error *error);

/* Writes down which names a folder has. */
cleave_status cleave_folder_sync(const char *path, cleave_error *error);

/* What tells whether an open file was written to since. */
typedef struct cleave_file_stamp {
    int64_t bytes, seconds, nanoseconds; /* when it was last modified */
} cleave_file_stamp;
cleave_file_stamp cleave_file_stamp_take(int descriptor);
/* FAILED when it differs from what is there now. */
cleave_status cleave_file_stamp_check(const cleave_file_stamp *stamp, int descriptor,
                                      const char *path, cleave_error *error);

/* The three calls above for data that is in memory. */
cleave_status cleave_file_write(const char *path, const void *data, size_t bytes,
                                cleave_error *error);

#endif
