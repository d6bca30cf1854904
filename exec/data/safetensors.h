/* Tensors in files, in the safetensors format: eight bytes that hold the header's length
   (little-endian), a JSON header that gives every tensor's type, shape and place, then the data.

   Files are read and written by pieces, so that a model never lies in memory twice.  Types are F32,
   I64 and BOOL, and F16, BF16, I32 and U8 of files that are read.  Nothing in a file is trusted:
   sizes, places and overlaps are checked before use. */
#ifndef CLEAVE_EXEC_DATA_SAFETENSORS_H
#define CLEAVE_EXEC_DATA_SAFETENSORS_H

#include "base/arena.h"
#include "base/error.h"
#include "base/file.h"
#include "graph/model/model.h"

#include <stdio.h>

/* How a tensor's elements lie in the file: as in memory, or shorter. */
typedef enum cleave_stored {
    CLEAVE_STORED_WHOLE,
    CLEAVE_STORED_TRUTH, /* BOOL: a byte each in the file, 0 or 1 in memory; read, these are I64 */
    CLEAVE_STORED_F16,   /* F32 in memory, which has every value of F16 and BF16 */
    CLEAVE_STORED_BF16,
    CLEAVE_STORED_I32, /* I64 in memory, */
    CLEAVE_STORED_U8   /* and this, too */
} cleave_stored;

typedef struct cleave_safetensors_entry {
    const char *name;
    cleave_type type; /* of the elements in memory */
    cleave_stored stored;
    int rank;
    int64_t shape[CLEAVE_MAX_RANK];
    int64_t n_elements;
    int64_t offset; /* bytes, from the start of the data */
} cleave_safetensors_entry;

typedef struct cleave_safetensors {
    const char *path;
    FILE *stream;
    int64_t data_start; /* bytes, of the file */
    int32_t n_entries;
    cleave_safetensors_entry *entries; /* in the order of their data */
} cleave_safetensors;

/* Reads the header of `header_bytes` bytes of JSON for `data_bytes` of data; `path` stands for the
   file in errors.  BAD_INPUT naming file and tensor. */
cleave_status cleave_safetensors_parse(const char *header, size_t header_bytes, int64_t data_bytes,
                                       const char *path, cleave_arena *arena,
                                       cleave_safetensors *file, cleave_error *error);

/* Opens a file for reading; close it afterwards.  Entries live in the arena. */
cleave_status cleave_safetensors_open(const char *path, cleave_arena *arena,
                                      cleave_safetensors *file, cleave_error *error);
void cleave_safetensors_close(cleave_safetensors *file);

/* "F32", "I64", "BOOL", ... */
const char *cleave_safetensors_type_name(const cleave_safetensors_entry *entry);
/* Of its data in the file; no overflow, once the entry was read or is being written. */
int64_t cleave_safetensors_bytes(const cleave_safetensors_entry *entry);

/* Null where there is none of that name. */
const cleave_safetensors_entry *cleave_safetensors_find(const cleave_safetensors *file,
                                                        const char *name);

/* Elements first..first+count-1 of a tensor, in row-major order. */
cleave_status cleave_safetensors_read(const cleave_safetensors *file,
                                      const cleave_safetensors_entry *entry, int64_t first,
                                      int64_t count, void *data, cleave_error *error);

/* A file being written, under a temporary name until it is committed. */
typedef struct cleave_safetensors_writer {
    cleave_file_writer file;
    int64_t written; /* bytes of data that it has */
} cleave_safetensors_writer;

/* Writes the header to a file that was opened and holds nothing; sets n_elements and offset of
   every entry from types and shape.  Names are distinct.  A file that can't be written to is
   abandoned. */
cleave_status cleave_safetensors_writer_begin(cleave_safetensors_writer *writer, int32_t n_entries,
                                              cleave_safetensors_entry *entries,
                                              cleave_error *error);
/* From the first element of the first entry on, in order: FAILED otherwise. */
cleave_status cleave_safetensors_write(cleave_safetensors_writer *writer,
                                       const cleave_safetensors_entry *entry, int64_t first,
                                       int64_t count, const void *data, cleave_error *error);

#endif
