/* Does a tensor of a file fit one of a model? */
#include "exec/data/fits.h"

#include <stdio.h>

static void describe_shape(int rank, const int64_t *shape, char *text, size_t bytes) {
    size_t used = 0;
    snprintf(text, bytes, "%s", rank == 0 ? "one element" : "");
    for (int d = 0; d < rank && used < bytes; d++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", d > 0 ? " x " : "",
                                 (long long)shape[d]);
}

int cleave_file_shape(const cleave_tensor *tensor, const int64_t **shape) {
    bool differs = tensor->file_rank > 0;
    *shape = differs ? tensor->file_shape : tensor->shape;
    return differs ? tensor->file_rank : tensor->rank;
}

cleave_status cleave_fail_to_fit(const char *path, const cleave_safetensors_entry *entry,
                                 const cleave_tensor *tensor, const char *also,
                                 cleave_error *error) {
    char found[160], wanted[160];
    const int64_t *shape;
    int rank = cleave_file_shape(tensor, &shape);
    const cleave_safetensors_entry as_wanted = {
        .type = tensor->type, .stored = tensor->truth ? CLEAVE_STORED_TRUTH : CLEAVE_STORED_WHOLE};
    describe_shape(entry->rank, entry->shape, found, sizeof found);
    describe_shape(rank, shape, wanted, sizeof wanted);
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: tensor %s is %s of %s, but the model needs %s of %s%s", path,
                       entry->name, cleave_safetensors_type_name(entry), found,
                       cleave_safetensors_type_name(&as_wanted), wanted, also);
}

cleave_status cleave_check_fits(const char *path, const cleave_safetensors_entry *entry,
                                const cleave_tensor *tensor, cleave_error *error) {
    const int64_t *shape;
    int rank = cleave_file_shape(tensor, &shape);
    bool fits = entry->type == tensor->type && entry->rank == rank;
    for (int d = 0; d < rank && fits; d++)
        fits = entry->shape[d] == shape[d];
    return fits ? CLEAVE_OK : cleave_fail_to_fit(path, entry, tensor, "", error);
}
