/* Tensors of a file by name: of safetensors, of an index of such files (NAME.json), of NumPy's
   arrays (exec/data/npy.h), or the initializers of an ONNX file (NAME.onnx).

   All but the last are read by pieces.  An ONNX file is decoded whole, with its external data, and
   its elements stay in the arena. */
#ifndef CLEAVE_EXEC_DATA_TENSOR_FILE_H
#define CLEAVE_EXEC_DATA_TENSOR_FILE_H

#include "exec/data/stacked.h"

typedef struct cleave_tensor_file {
    cleave_safetensors file; /* its path and entries, whatever the format */
    const void **values;     /* [n_entries] of an ONNX file; null: the elements are in the file */
    int32_t n_shards;        /* of an index, or arrays; 0: it is one file */
    cleave_safetensors *shards;
    int32_t *shard_of;    /* [n_plain] */
    int32_t n_plain;      /* of the entries; those behind them are */
    cleave_stacks stacks; /* these */
} cleave_tensor_file;

/* Close it afterwards; entries live in the arena.  BAD_INPUT naming file and tensor. */
cleave_status cleave_tensor_file_open(const char *path, cleave_arena *arena,
                                      cleave_tensor_file *file, cleave_error *error);
void cleave_tensor_file_close(cleave_tensor_file *file);

/* Elements first..first+count-1 of a tensor, in row-major order. */
cleave_status cleave_tensor_file_read(const cleave_tensor_file *file,
                                      const cleave_safetensors_entry *entry, int64_t first,
                                      int64_t count, void *data, cleave_error *error);

/* The system may begin to read them, since they will be wanted soon: it does so beside us, into
   memory that is nobody's. */
void cleave_tensor_file_expect(const cleave_tensor_file *file,
                               const cleave_safetensors_entry *entry, int64_t first, int64_t count);

/* The open files that it is made of; none of what was decoded whole. */
int32_t cleave_tensor_file_n_parts(const cleave_tensor_file *file);
const cleave_safetensors *cleave_tensor_file_part(const cleave_tensor_file *file, int32_t i);

#endif
