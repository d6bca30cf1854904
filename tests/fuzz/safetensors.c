/* Fuzzes the reader of safetensors headers: entries that are accepted lie within the data, and what
   is stacked of them has as many elements as its parts. */
#include "fuzz.h"

#include "exec/data/stacked.h"

#include <stdlib.h>
#include <string.h>

/* Eight bytes of header length, the header, the data: as in a file. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint64_t header_bytes = 0;
    if (size < sizeof header_bytes)
        return 0;
    memcpy(&header_bytes, data, sizeof header_bytes);
    size_t rest = size - sizeof header_bytes;
    if (header_bytes > rest)
        header_bytes = rest;
    int64_t data_bytes = (int64_t)(rest - header_bytes);
    cleave_arena arena = {0};
    cleave_safetensors file = {0};
    cleave_error error = {""};
    cleave_status status =
        cleave_safetensors_parse((const char *)data + sizeof header_bytes, (size_t)header_bytes,
                                 data_bytes, "fuzz.safetensors", &arena, &file, &error);
    if (status != CLEAVE_OK && error.message[0] == '\0')
        abort();
    for (int32_t i = 0; status == CLEAVE_OK && i < file.n_entries; i++) {
        const cleave_safetensors_entry *entry = &file.entries[i];
        int64_t bytes = cleave_safetensors_bytes(entry);
        if (entry->offset < 0 || bytes < 0 || entry->offset > data_bytes - bytes)
            abort();
    }
    cleave_stacks stacks = {.n = 0};
    if (status == CLEAVE_OK &&
        cleave_stacks_find(file.entries, file.n_entries, &arena, &stacks, &error) != CLEAVE_OK)
        abort();
    for (int32_t i = 0; i < stacks.n; i++) {
        int64_t n = 0, all = 1;
        for (int32_t k = 0; k < stacks.items[i].n_parts; k++)
            n += file.entries[stacks.items[i].parts[k]].n_elements;
        for (int d = 0; d < stacks.items[i].entry.rank; d++)
            all *= stacks.items[i].entry.shape[d];
        if (n != stacks.items[i].entry.n_elements || n != all)
            abort();
    }
    cleave_arena_free(&arena);
    return 0;
}
