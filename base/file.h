/* Whole files: read at once, and written so that a reader sees the old file or the new one. */
#ifndef CLEAVE_BASE_FILE_H
#define CLEAVE_BASE_FILE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>
#include <stdio.h>

/* Reads a regular file into the arena, with a zero byte after its end.  BAD_INPUT when it can't be
 * read. */
cleave_status cleave_file_read(const char *path, cleave_arena *arena, char **data, size_t *bytes,
                               cleave_error *error);

/* A file under a temporary name beside its final one; commit syncs and renames, abandon removes. */
typedef struct cleave_file_writer {
    FILE *stream;
    char path[4096];
    char temporary[4096 + 32];
} cleave_file_writer;

cleave_status cleave_file_writer_open(cleave_file_writer *writer, const char *path,
                                      cleave_error *error);
cleave_status cleave_file_writer_commit(cleave_file_writer *writer, cleave_error *error);
void cleave_file_writer_abandon(cleave_file_writer *writer);

/* The three calls above for data that is in memory. */
cleave_status cleave_file_write(const char *path, const void *data, size_t bytes,
                                cleave_error *error);

#endif
