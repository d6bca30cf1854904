/* What is best of every number of groups and of micro-batches: where polishing begins. */
#include "search/pipeline/internal.h"

int32_t pipeline_device_at(const int32_t *order, int32_t place) {
    return order == NULL ? place : order[place];
}

static bool is_start_of(const pipeline_start *a, const pipeline_start *b) {
    for (int32_t d = 0; d < a->layout.n_devices; d++)
        if (pipeline_device_at(a->order, d) != pipeline_device_at(b->order, d))
            return false;
    return a->n_groups == b->n_groups && a->is_free == b->is_free &&
           a->layout.schedule.micro_batches == b->layout.schedule.micro_batches;
}

/* The devices of all groups, one after the other; `alike` false: some have more than others, or
   devices are left out. */
static cleave_status find_order(pipeline_finder *f, const pipeline_candidate *of,
                                const int32_t **order, bool *alike) {
    int32_t n_devices = f->pricer->machine->n_devices, n = n_devices / of->n_groups;
    *alike = true;
    *order = NULL;
    if (of->places == NULL)
        return CLEAVE_OK;
    for (int32_t g = 0; g < of->n_groups; g++)
        *alike = *alike && of->places[g].group->n_devices == n && n * of->n_groups == n_devices;
    int32_t *made = CLEAVE_ARENA_ARRAY(&f->work, int32_t, n_devices);
    if (made == NULL)
        return cleave_fail_memory(f->error, "searching");
    for (int32_t d = 0; d < n_devices && *alike; d++)
        made[d] = of->places[d / n].devices[d % n];
    *order = made;
    return CLEAVE_OK;
}

cleave_status pipeline_note_start(pipeline_finder *f, const pipeline_candidate *of,
                                  const cleave_layout *layout, const cleave_price *price) {
    pipeline_start start = {.n_groups = of->n_groups,
                            .is_free = of->plan != NULL && of->family == PIPELINE_FREE,
                            .layout = *layout,
                            .price = *price};
    bool alike;
    CLEAVE_TRY(find_order(f, of, &start.order, &alike));
    if (!alike)
        return CLEAVE_OK;
    int32_t i = 0;
    while (i < f->starts.n && !is_start_of(&f->starts.items[i], &start))
        i++;
    if (i < f->starts.n && !cleave_price_better(price, &f->starts.items[i].price))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_layout_copy(layout, f->pricer->model, &f->work, &start.layout, f->error));
    if (i < f->starts.n)
        f->starts.items[i] = start;
    else if (!CLEAVE_LIST_PUSH(&f->starts, start))
        return cleave_fail_memory(f->error, "searching");
    return CLEAVE_OK;
}
