/* What rounds of refinements leave to the next ones. */
#include "search/improve/auto.h"

cleave_status auto_state_create(const cleave_model *model, cleave_arena *arena, auto_state *state,
                                cleave_error *error) {
    auto_state s = {0};
    const cleave_refine_limits none = {0};
    s.tasks = CLEAVE_ARENA_ARRAY(arena, cleave_refine_state, AUTO_MAX_TASKS);
    if (s.tasks == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t i = 0; i < AUTO_MAX_TASKS; i++)
        CLEAVE_TRY(cleave_refine_state_create(model, NULL, &none, arena, &s.tasks[i], error));
    for (int32_t i = 0; i < AUTO_MAX_POOL; i++)
        CLEAVE_TRY(cleave_choices_create(model, arena, &s.pool[i].choices, error));
    *state = s;
    return CLEAVE_OK;
}

void auto_pool_add(const cleave_model *model, const auto_entry *entry, int32_t *n_pool,
                   auto_entry *pool) {
    int32_t place = 0;
    for (int32_t i = 0; i < *n_pool; i++)
        if (cleave_choices_equal(model, &pool[i].choices, &entry->choices)) {
            pool[i].is_local_optimum = pool[i].is_local_optimum || entry->is_local_optimum;
            return;
        }
    while (place < *n_pool && !cleave_price_better(&entry->price, &pool[place].price))
        place++;
    if (place == AUTO_MAX_POOL)
        return;
    if (*n_pool < AUTO_MAX_POOL)
        ++*n_pool;
    cleave_choices room = pool[*n_pool - 1].choices;
    for (int32_t i = *n_pool - 1; i > place; i--)
        pool[i] = pool[i - 1];
    pool[place] = *entry;
    pool[place].choices = room;
    cleave_choices_copy(model, &entry->choices, &room);
}
