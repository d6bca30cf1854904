#include "simulator/step/live_bytes.h"

#include "graph/program/memory_plan.h"

#include <stdlib.h>
#include <string.h>

cleave_status live_bytes_begin(live_bytes *live, cleave_error *error) {
    size_t n_places = (size_t)live->n_places, n_devices = (size_t)live->n_devices;
    live->steps = calloc(n_devices * ((size_t)live->n_slots + 1), sizeof *live->steps);
    live->most = calloc(n_devices, sizeof *live->most);
    live->counted = calloc(n_places + 1, sizeof(remembered_fragment *));
    live->placed = calloc(n_places + 1, sizeof(remembered_fragment *));
    live->stale = calloc(n_places + 1, sizeof *live->stale);
    if (live->steps == NULL || live->most == NULL || live->counted == NULL ||
        live->placed == NULL || live->stale == NULL)
        return cleave_fail_memory(error, "estimating");
    return CLEAVE_OK;
}

void live_bytes_free(live_bytes *live) {
    free(live->steps);
    free(live->most);
    free(live->counted);
    free(live->placed);
    free(live->stale);
    CLEAVE_LIST_FREE(&live->stale_places);
}

cleave_status live_bytes_put(live_bytes *live, int32_t place, remembered_fragment *fragment,
                             cleave_error *error) {
    if (!live->stale[place] && !CLEAVE_LIST_PUSH(&live->stale_places, place))
        return cleave_fail_memory(error, "estimating");
    live->stale[place] = true;
    live->placed[place] = fragment;
    return CLEAVE_OK;
}

static void weigh(live_bytes *live, remembered_fragment *fragment, int32_t sign) {
    if (fragment == NULL)
        return;
    const cleave_fragment_price *price = fragment->shared->price;
    const int32_t *slots = live->slots[fragment->place];
    for (int32_t i = 0; i < price->n_live; i++) {
        const cleave_life *of = &price->live[i];
        int64_t *steps = &live->steps[(size_t)of->device * ((size_t)live->n_slots + 1)];
        int64_t bytes = sign * cleave_buffer_aligned(of->bytes);
        steps[slots[cleave_life_used_from(of)]] += bytes;
        steps[slots[cleave_life_used_to(of)] + 1] -= bytes;
        live->most[of->device] = -1;
    }
    live->own_bytes += sign * price->own_bytes;
    live->bytes_sent += sign * price->bytes_sent;
    fragment->uses += sign;
}

static void update(live_bytes *live) {
    for (int32_t i = 0; i < live->stale_places.n; i++) {
        int32_t place = live->stale_places.items[i];
        live->stale[place] = false;
        if (live->counted[place] == live->placed[place])
            continue;
        weigh(live, live->counted[place], -1);
        weigh(live, live->placed[place], 1);
        live->counted[place] = live->placed[place];
    }
    live->stale_places.n = 0;
}

int64_t live_bytes_most(live_bytes *live, int32_t device) {
    update(live);
    if (live->most[device] >= 0)
        return live->most[device];
    const int64_t *steps = &live->steps[(size_t)device * ((size_t)live->n_slots + 1)];
    int64_t now = 0, most = 0;
    for (int32_t slot = 0; slot < live->n_slots; slot++) {
        now += steps[slot];
        most = now > most ? now : most;
    }
    live->most[device] = most;
    return most;
}

double live_bytes_over(live_bytes *live, int32_t device, int64_t bytes) {
    update(live);
    const int64_t *steps = &live->steps[(size_t)device * ((size_t)live->n_slots + 1)];
    int64_t now = 0;
    double over = 0;
    for (int32_t slot = 0; slot < live->n_slots; slot++) {
        now += steps[slot];
        if (now <= bytes)
            continue;
        double share = (double)(now - bytes) / (double)(bytes > 1 ? bytes : 1);
        over += share * share * share;
    }
    return over;
}

static int32_t count_ranges(const live_bytes *live) {
    int32_t n = 0;
    for (int32_t place = 0; place < live->n_places; place++)
        if (live->counted[place] != NULL)
            n += live->counted[place]->shared->price->n_live;
    return n;
}

/* Of devices with limited room. */
static int32_t list_lives(const live_bytes *live, const int64_t *room, cleave_life *lives) {
    int32_t n = 0;
    for (int32_t place = 0; place < live->n_places; place++) {
        if (live->counted[place] == NULL)
            continue;
        const cleave_fragment_price *price = live->counted[place]->shared->price;
        const int32_t *slots = live->slots[place];
        for (int32_t i = 0; i < price->n_live; i++) {
            if (room[price->live[i].device] == INT64_MAX)
                continue;
            lives[n] = price->live[i];
            cleave_life_renumber(&lives[n++], slots);
        }
    }
    return n;
}

/* No plan is smaller than what is in use at once. */
static bool may_fit(live_bytes *live, const int64_t *room) {
    int32_t d = 0;
    while (d < live->n_devices && live_bytes_most(live, d) <= room[d])
        d++;
    return d == live->n_devices;
}

cleave_status live_bytes_fit(live_bytes *live, const int64_t *room, bool *fit,
                             cleave_error *error) {
    *fit = false;
    if (!may_fit(live, room))
        return CLEAVE_OK;
    cleave_life *items = malloc(((size_t)count_ranges(live) + 1) * sizeof *items);
    if (items == NULL)
        return cleave_fail_memory(error, "estimating");
    const cleave_lives lives = {.n = list_lives(live, room, items),
                                .n_devices = live->n_devices,
                                .n_items = live->n_slots,
                                .items = items};
    cleave_status status = cleave_memory_lives_fit(&lives, room, fit, error);
    free(items);
    return status;
}

int64_t live_bytes_own(live_bytes *live) {
    update(live);
    return live->own_bytes;
}

int64_t live_bytes_sent(live_bytes *live) {
    update(live);
    return live->bytes_sent;
}
