#include "simulator/step/live_bytes.h"

#include "base/order.h"
#include "base/random.h"
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

/* ---- does it fit? ---------------------------------------------------------------------------- */

typedef struct device_digest {
    uint64_t a, b;
    int32_t device;
} device_digest;

static void put_number(device_digest *digest, int64_t number) {
    digest->a = cleave_hash64(digest->a ^ (uint64_t)number);
    digest->b = (digest->b + (uint64_t)number) * UINT64_C(0x9ddfea08eb382d69);
    digest->b ^= digest->b >> 32;
}

static void put_life(device_digest *digest, const cleave_life *of, const int32_t *slots) {
    cleave_life life = *of;
    cleave_life_renumber(&life, slots);
    put_number(digest, life.bytes * 2 + life.lane_only);
    put_number(digest, (int64_t)life.first << 32 | life.last);
    if (life.lane_only)
        put_number(digest, (int64_t)life.lane_first << 32 | life.lane_last);
}

static int by_digest(const void *a, const void *b) {
    const device_digest *x = a, *y = b;
    CLEAVE_ORDER_BY(x->a, y->a);
    CLEAVE_ORDER_BY(x->b, y->b);
    return CLEAVE_ORDER(x->device, y->device);
}

static void digest_devices(const live_bytes *live, const int64_t *room, device_digest *digests) {
    for (int32_t d = 0; d < live->n_devices; d++) {
        digests[d] = (device_digest){.device = d};
        put_number(&digests[d], room[d]);
    }
    for (int32_t place = 0; place < live->n_places; place++) {
        if (live->counted[place] == NULL)
            continue;
        const cleave_fragment_price *price = live->counted[place]->shared->price;
        for (int32_t i = 0; i < price->n_live; i++)
            if (room[price->live[i].device] != INT64_MAX)
                put_life(&digests[price->live[i].device], &price->live[i], live->slots[place]);
    }
}

/* Of devices that use the same at the same times and have the same room, one is planned: the others
   get INT64_MAX of it. */
static bool leave_out_alike(const live_bytes *live, int64_t *room) {
    device_digest *digests = malloc((size_t)live->n_devices * sizeof *digests);
    if (digests == NULL)
        return false;
    digest_devices(live, room, digests);
    CLEAVE_SORT(digests, live->n_devices, by_digest);
    for (int32_t i = 1; i < live->n_devices; i++)
        if (digests[i].a == digests[i - 1].a && digests[i].b == digests[i - 1].b)
            room[digests[i].device] = INT64_MAX;
    free(digests);
    return true;
}

static int32_t count_lives(const live_bytes *live) {
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

static cleave_status plan_fits(const live_bytes *live, const int64_t *room, bool *fit,
                               cleave_error *error) {
    cleave_life *items = malloc(((size_t)count_lives(live) + 1) * sizeof *items);
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

cleave_status live_bytes_fit(live_bytes *live, const int64_t *room, bool *fit,
                             cleave_error *error) {
    *fit = false;
    if (!may_fit(live, room))
        return CLEAVE_OK;
    int64_t *of_unlike = malloc((size_t)live->n_devices * sizeof *of_unlike);
    if (of_unlike == NULL)
        return cleave_fail_memory(error, "estimating");
    memcpy(of_unlike, room, (size_t)live->n_devices * sizeof *room);
    cleave_status status = leave_out_alike(live, of_unlike)
                               ? plan_fits(live, of_unlike, fit, error)
                               : cleave_fail_memory(error, "estimating");
    free(of_unlike);
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
