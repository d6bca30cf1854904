#include "search/solve/readings.h"

#include "base/list.h"
#include "base/random.h"

enum { READING_ROWS = 256 };

/* Tables are made once for all readings that are alike. */
typedef struct reading_table {
    uint64_t key;
    const int64_t *kept, *read;
    struct reading_table *next;
} reading_table;

typedef struct reading_list {
    additive_making *making;
    CLEAVE_LIST(cleave_additive_reading) items;
    reading_table *rows[READING_ROWS];
} reading_list;

/* Where what was written stays for the writer's own backward, who reads it as it lies there holds
   no more. */
static bool fill_table(additive_making *m, const additive_encounter *met, bool stays, bool is_kept,
                       reading_table *table) {
    const cleave_port *write = met->of_first->write, *read = met->of_second->read;
    size_t n = (size_t)read->n_values;
    int64_t *kept = cleave_arena_alloc(m->arena, (size_t)write->n_values, n * sizeof *kept);
    int64_t *all = cleave_arena_alloc(m->arena, (size_t)write->n_values, n * sizeof *all);
    for (int32_t x = 0; x < write->n_values && kept != NULL && all != NULL; x++)
        for (int32_t y = 0; y < read->n_values; y++) {
            const cleave_sharding *has = &write->distinct[write->of_value[x]],
                                  *reads = &read->distinct[read->of_value[y]];
            int64_t *to = &all[(size_t)x * n + (size_t)y];
            *to = stays && cleave_sharding_equal(has, reads)
                      ? 0
                      : additive_bytes_of(reads) / met->n_alike;
            kept[(size_t)x * n + (size_t)y] = is_kept ? *to : 0;
        }
    table->kept = kept;
    table->read = all;
    return kept != NULL && all != NULL;
}

static const reading_table *table_of(reading_list *list, const additive_encounter *met) {
    additive_making *m = list->making;
    bool stays = additive_backward_reads(m, met->first, met->of_first->tensor);
    bool is_kept = additive_backward_reads(m, met->second, met->of_second->tensor);
    uint64_t key = cleave_hash_join(met->of_first->write->key, met->of_second->read->key);
    key = cleave_hash_join(key, 4 * (uint64_t)met->n_alike + 2 * stays + is_kept);
    reading_table **row = &list->rows[key % READING_ROWS];
    for (const reading_table *known = *row; known != NULL; known = known->next)
        if (known->key == key)
            return known;
    reading_table *made = CLEAVE_ARENA_ARRAY(&m->scratch, reading_table, 1);
    if (made == NULL || !fill_table(m, met, stays, is_kept, made))
        return NULL;
    made->key = key;
    made->next = *row;
    *row = made;
    return made;
}

static cleave_status list_one(void *context, const additive_encounter *met, cleave_error *error) {
    reading_list *list = context;
    if (met->n_alike == 0)
        return CLEAVE_OK; /* a parameter, which is there for good */
    const reading_table *table = table_of(list, met);
    const cleave_additive_reading made = {.writer = met->first,
                                          .reader = met->second,
                                          .kept = table != NULL ? table->kept : NULL,
                                          .read = table != NULL ? table->read : NULL};
    return table != NULL && CLEAVE_LIST_PUSH(&list->items, made)
               ? CLEAVE_OK
               : cleave_fail_memory(error, "pricing what operators read");
}

cleave_status additive_list_readings(additive_making *m, cleave_additive_model *made,
                                     cleave_error *error) {
    reading_list list = {.making = m};
    cleave_status status = additive_for_each_encounter(m, list_one, &list, error);
    cleave_additive_reading *readings =
        CLEAVE_ARENA_ARRAY(m->arena, cleave_additive_reading, list.items.n + 1);
    if (status == CLEAVE_OK && readings == NULL)
        status = cleave_fail_memory(error, "pricing what operators read");
    for (int32_t i = 0; i < list.items.n && status == CLEAVE_OK; i++)
        readings[i] = list.items.items[i];
    made->n_readings = list.items.n;
    made->readings = readings;
    CLEAVE_LIST_FREE(&list.items);
    return status;
}
