/* Splits are enumerated as in search/problem/candidates.c, by handing out prime factors, but of one
   level: in order of devices an axis that comes later lies further inside. */
#include "search/problem/space.h"

#include "base/list.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PRIMES = 32, MAX_SPLITS = 4096 };

typedef struct enumeration {
    const cleave_operator *op;
    int outer; /* axis; -1: replicas */
    int n_primes;
    int32_t prime[MAX_PRIMES];
    int target[MAX_PRIMES];
    cleave_split current;
    CLEAVE_LIST(cleave_split) splits;
    bool failed;
} enumeration;

int cleave_window_outer_axis(const cleave_operator *op) {
    for (int a = 0; a < op->n_axes; a++)
        if (op->roles[a] != NULL && strcmp(op->roles[a], "sample") == 0 && !op->axes[a].whole)
            return a;
    return -1;
}

static int64_t largest_block(int64_t extent, int64_t degree) {
    return (extent + degree - 1) / degree;
}

/* The outermost axis is cut into equal ranges. */
static bool allowed(const enumeration *e, int target, int64_t before, int64_t after) {
    if (target < 0)
        return true;
    const cleave_axis *axis = &e->op->axes[target];
    if (axis->whole || after > axis->extent || (target == e->outer && axis->extent % after != 0))
        return false;
    return largest_block(axis->extent, after) < largest_block(axis->extent, before);
}

/* Hands out factor i; equal factors in ascending order of target.  Few are left to chance: of more
   than MAX_SPLITS the first are kept. */
static void hand_out(enumeration *e, int i) {
    if (i == e->n_primes) {
        if (e->splits.n < MAX_SPLITS)
            e->failed = e->failed || !CLEAVE_LIST_PUSH(&e->splits, e->current);
        return;
    }
    int first = i > 0 && e->prime[i - 1] == e->prime[i] ? e->target[i - 1] : e->outer;
    for (int t = first; t < e->op->n_axes && !e->failed; t++) {
        int32_t *degree = t < 0 ? &e->current.replicas : &e->current.degree[t];
        if (!allowed(e, t, *degree, (int64_t)*degree * e->prime[i]))
            continue;
        e->target[i] = t;
        *degree *= e->prime[i];
        hand_out(e, i + 1);
        *degree /= e->prime[i];
    }
}

static void keep_allowed(const cleave_window_frame *frame, int32_t op, cleave_window_list *list) {
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++)
        if (cleave_constraints_allow(frame->constraints, op, &list->items[i]))
            list->items[n++] = list->items[i];
    list->n = n;
}

static cleave_status make_list(const cleave_window_frame *frame, int32_t of,
                               const cleave_window_space *space, cleave_arena *arena,
                               cleave_window_list *list, cleave_error *error) {
    const cleave_operator *op = &frame->model->operators[of];
    int32_t windows = space->n_devices / space->window_devices;
    enumeration e = {.op = op, .outer = cleave_window_outer_axis(op)};
    e.current = (cleave_split){.replicas = e.outer < 0 ? windows : 1,
                               .n_parts = space->n_devices,
                               .devices = (int32_t *)(uintptr_t)space->devices};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        e.current.degree[a] = a == e.outer ? windows : 1;
    for (int32_t rest = space->window_devices, p = 2; rest > 1; p++)
        for (; rest % p == 0 && e.n_primes < MAX_PRIMES; rest /= p)
            e.prime[e.n_primes++] = p;
    if (allowed(&e, e.outer, 1, windows))
        hand_out(&e, 0);
    list->n = e.splits.n;
    list->items = CLEAVE_ARENA_ARRAY(arena, cleave_split, e.splits.n);
    cleave_status status = CLEAVE_OK;
    if (e.failed || list->items == NULL)
        status = cleave_fail_memory(error, "listing splits of a window");
    else if (list->n > 0)
        memcpy(list->items, e.splits.items, (size_t)list->n * sizeof *list->items);
    CLEAVE_LIST_FREE(&e.splits);
    CLEAVE_TRY(status);
    if (frame->constraints != NULL)
        keep_allowed(frame, of, list);
    if (list->n == 0)
        return cleave_fail(error, CLEAVE_NO_LAYOUT,
                           "%s can't be cut into %d equal windows of %d devices", op->name, windows,
                           space->window_devices);
    return CLEAVE_OK;
}

/* The operators before the blocks are groups of their own, then come the places in a block. */
static int32_t group_operators(const cleave_blocks *blocks, int32_t n_operators,
                               cleave_window_space *space) {
    int32_t end = blocks->first + blocks->n * blocks->period, n = 0;
    for (int32_t op = 0; op < n_operators; op++) {
        bool repeats = op >= blocks->first + blocks->period && op < end;
        space->group_of[op] = repeats ? space->group_of[op - blocks->period] : n;
        if (!repeats)
            space->first_op[n++] = op;
    }
    return n;
}

cleave_status cleave_window_space_create(const cleave_window_frame *frame, cleave_arena *arena,
                                         cleave_window_space *space, cleave_error *error) {
    int32_t n_operators = frame->model->n_operators;
    cleave_window_space made = {.n_devices = frame->n_devices,
                                .window_devices = frame->window_devices,
                                .group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operators),
                                .first_op = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operators),
                                .class_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_operators),
                                .lists =
                                    CLEAVE_ARENA_ARRAY(arena, cleave_window_list, n_operators)};
    int32_t *devices = CLEAVE_ARENA_ARRAY(arena, int32_t, frame->n_devices);
    if (made.group_of == NULL || made.first_op == NULL || made.class_of == NULL ||
        made.lists == NULL || devices == NULL)
        return cleave_fail_memory(error, "listing splits of a window");
    for (int32_t d = 0; d < frame->n_devices; d++)
        devices[d] = d;
    made.devices = devices;
    made.n_groups = group_operators(&frame->blocks, n_operators, &made);
    for (int32_t g = 0; g < made.n_groups; g++) {
        int32_t op = made.first_op[g];
        made.class_of[g] = frame->constraints == NULL ? frame->class_of[op] : g;
        if (made.class_of[g] >= made.n_classes)
            made.n_classes = made.class_of[g] + 1;
        cleave_window_list *list = &made.lists[made.class_of[g]];
        if (list->n == 0)
            CLEAVE_TRY(make_list(frame, op, &made, arena, list, error));
    }
    *space = made;
    return CLEAVE_OK;
}
