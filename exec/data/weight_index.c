#include "exec/data/weight_index.h"

#include "base/json.h"

#include <string.h>

/* A plain name: it can't lead out of the folder. */
static cleave_status check_name(const cleave_json_cursor *at, const char *name,
                                cleave_error *error) {
    if (name[0] == '\0' || name[0] == '.' || strchr(name, '/') != NULL)
        return cleave_json_fail(at, error, "\"%.64s\" is no name of a file beside the index", name);
    return CLEAVE_OK;
}

/* Which shard has this name: one that is there, or a new one. */
static cleave_status find_shard(const cleave_json_cursor *at, cleave_arena *arena,
                                cleave_weight_index *index, int32_t *shard, cleave_error *error) {
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, error));
    for (*shard = index->n_shards; *shard > 0; --*shard) /* most are in the last one */
        if (strcmp(index->shards[*shard - 1], name) == 0) {
            --*shard;
            return CLEAVE_OK;
        }
    CLEAVE_TRY(check_name(at, name, error));
    if (index->n_shards == CLEAVE_MOST_SHARDS)
        return cleave_json_fail(at, error, "is in one more than %d files", CLEAVE_MOST_SHARDS);
    *shard = index->n_shards++;
    index->shards[*shard] = cleave_arena_string(arena, name);
    return index->shards[*shard] != NULL ? CLEAVE_OK
                                         : cleave_fail_memory(error, "reading an index of weights");
}

static cleave_status read_index(const cleave_json *document, cleave_arena *arena,
                                cleave_weight_index *index, cleave_error *error) {
    cleave_json_cursor root = cleave_json_root(document), map;
    CLEAVE_TRY(cleave_json_expect_object(&root, error));
    if (!cleave_json_find(&root, "weight_map", &map))
        return cleave_json_fail(&root, error,
                                "not a safetensors file, nor an index of some: no \"weight_map\"");
    CLEAVE_TRY(cleave_json_expect_object(&map, error));
    int32_t n = cleave_json_count(&map);
    if (n == 0)
        return cleave_json_fail(&map, error, "has no tensors");
    index->tensors = CLEAVE_ARENA_ARRAY(arena, cleave_indexed_tensor, n);
    index->shards = CLEAVE_ARENA_ARRAY(arena, const char *, CLEAVE_MOST_SHARDS);
    if (index->tensors == NULL || index->shards == NULL)
        return cleave_fail_memory(error, "reading an index of weights");
    for (int32_t i = 0; i < n; i++) {
        const char *name;
        cleave_json_cursor at = cleave_json_member(&map, i, &name);
        cleave_indexed_tensor *tensor = &index->tensors[i];
        CLEAVE_TRY(find_shard(&at, arena, index, &tensor->shard, error));
        tensor->name = cleave_arena_string(arena, name);
        if (tensor->name == NULL)
            return cleave_fail_memory(error, "reading an index of weights");
    }
    index->n_tensors = n;
    return CLEAVE_OK;
}

cleave_status cleave_weight_index_parse(const char *text, size_t bytes, const char *path,
                                        cleave_arena *arena, cleave_weight_index *index,
                                        cleave_error *error) {
    cleave_json *document = NULL;
    cleave_weight_index read = {0};
    CLEAVE_TRY(cleave_json_parse(text, bytes, path, &document, error));
    cleave_status status = read_index(document, arena, &read, error);
    cleave_json_free(document);
    if (status == CLEAVE_OK)
        *index = read;
    return status;
}
