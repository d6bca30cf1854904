/* Does a tensor of a file fit one of a model, and what is said where it does not. */
#ifndef CLEAVE_EXEC_DATA_FITS_H
#define CLEAVE_EXEC_DATA_FITS_H

#include "exec/data/safetensors.h"

/* The rank and the shape that a tensor has in files. */
int cleave_file_shape(const cleave_tensor *tensor, const int64_t **shape);

/* BAD_INPUT where it has another type or shape. */
cleave_status cleave_check_fits(const char *path, const cleave_safetensors_entry *entry,
                                const cleave_tensor *tensor, cleave_error *error);

/* BAD_INPUT: type and shape that are there and that are needed, and what else would do. */
cleave_status cleave_fail_to_fit(const char *path, const cleave_safetensors_entry *entry,
                                 const cleave_tensor *tensor, const char *also,
                                 cleave_error *error);

#endif
