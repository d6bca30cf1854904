/* Fuzzes the reader of indices of weights: what is accepted names a file of the folder for each
   tensor. */
#include "exec/data/weight_index.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    cleave_arena arena = {0};
    cleave_weight_index index = {0};
    cleave_error error = {""};
    cleave_status status = cleave_weight_index_parse((const char *)data, size, "fuzz.index.json",
                                                     &arena, &index, &error);
    if ((status == CLEAVE_OK) != (error.message[0] == '\0'))
        abort();
    for (int32_t i = 0; i < index.n_tensors; i++)
        if (index.tensors[i].shard < 0 || index.tensors[i].shard >= index.n_shards)
            abort();
    for (int32_t s = 0; s < index.n_shards; s++)
        if (strchr(index.shards[s], '/') != NULL || index.shards[s][0] == '.')
            abort();
    cleave_arena_free(&arena);
    return 0;
}
