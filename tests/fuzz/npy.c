/* Fuzzes the reader of the headers of arrays: what is accepted has the data that it says. */
#include "exec/data/npy.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

/* The dictionary up to a newline, then the data. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t header_bytes = end != NULL ? (size_t)(end - data) : size;
    int64_t data_bytes = end != NULL ? (int64_t)(size - header_bytes - 1) : 0;
    cleave_error error = {""};
    cleave_safetensors_entry entry = {.name = "x"};
    cleave_status status =
        cleave_npy_parse((const char *)data, header_bytes, data_bytes, "fuzz.npy", &entry, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0') || strchr(error.message, '\n') != NULL)
        abort();
    if (status == CLEAVE_OK &&
        (cleave_safetensors_bytes(&entry) != data_bytes || entry.rank > CLEAVE_MAX_RANK))
        abort();
    return 0;
}
