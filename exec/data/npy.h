/* NumPy's files of one array each, `NAME.npy`: a magic word, the length of a header, the header,
   which is a Python dictionary of type, order and shape, and then the elements.

   Several of them, each under the name of a tensor, stand for a file of tensors:
   `x=train.npy,targets=labels.npy`.  Nothing in a header is trusted. */
#ifndef CLEAVE_EXEC_DATA_NPY_H
#define CLEAVE_EXEC_DATA_NPY_H

#include "exec/data/safetensors.h"

typedef struct cleave_npy_file {
    const char *name, *path;
} cleave_npy_file;

enum { CLEAVE_MOST_NPY_FILES = 64, CLEAVE_MOST_NPY_HEADER_BYTES = 1 << 16 };

/* Does the text name such files? */
bool cleave_npy_is_list(const char *text);
/* `files` has room for CLEAVE_MOST_NPY_FILES; names and paths live in the arena.  BAD_INPUT. */
cleave_status cleave_npy_list_parse(const char *text, cleave_arena *arena, cleave_npy_file *files,
                                    int32_t *n, cleave_error *error);

/* Reads a header, the dictionary alone, for `data_bytes` of elements: sets all of the entry but its
   name.  BAD_INPUT naming the file, `path`. */
cleave_status cleave_npy_parse(const char *header, size_t header_bytes, int64_t data_bytes,
                               const char *path, cleave_safetensors_entry *entry,
                               cleave_error *error);

/* Opens an array as a file of one tensor; cleave_safetensors_close closes it. */
cleave_status cleave_npy_open(const cleave_npy_file *npy, cleave_arena *arena,
                              cleave_safetensors *file, cleave_error *error);

#endif
