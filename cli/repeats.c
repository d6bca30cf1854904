/* Finding names that are alike but for one number. */
#include "cli/repeats.h"

#include "base/list.h"
#include "base/order.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST = 3, MOST_DIGITS = 9 };

/* A name with one of its numbers left out. */
typedef struct pattern {
    uint64_t key; /* a hash of what is left, and of the kind */
    int32_t name;
    int32_t place; /* of the number */
    int32_t number;
    int32_t count; /* of names that have this pattern */
} pattern;

typedef CLEAVE_LIST(pattern) patterns;

static size_t digits_at(const char *text) { return strspn(text, "0123456789"); }

static uint64_t key_without(const char *name, size_t place, size_t digits, const char *kind) {
    uint64_t key = cleave_hash_string(kind);
    for (size_t i = 0; i < place; i++)
        key = cleave_hash_join(key, (unsigned char)name[i]);
    key = cleave_hash_join(key, UINT64_MAX); /* where the number was */
    for (size_t i = place + digits; name[i] != '\0'; i++)
        key = cleave_hash_join(key, (unsigned char)name[i]);
    return key;
}

/* Numbers without leading zeros, so that a range says what it stands for. */
static bool add_patterns(const char *name, const char *kind, int32_t index, patterns *all) {
    for (size_t i = 0; name[i] != '\0'; i++) {
        size_t digits = digits_at(name + i);
        if (digits == 0)
            continue;
        if (digits <= MOST_DIGITS && (digits == 1 || name[i] != '0') && i < INT32_MAX) {
            const pattern p = {key_without(name, i, digits, kind), index, (int32_t)i,
                               (int32_t)strtol(name + i, NULL, 10), 0};
            if (!CLEAVE_LIST_PUSH(all, p))
                return false;
        }
        i += digits - 1;
    }
    return true;
}

static int compare_patterns(const void *a, const void *b) {
    const pattern *x = a, *y = b;
    CLEAVE_ORDER_BY(x->key, y->key);
    return CLEAVE_ORDER(x->number, y->number);
}

/* Behind the patterns that are alike from the first on. */
static int32_t end_of(const pattern *items, int32_t n, int32_t first) {
    int32_t end = first + 1;
    while (end < n && items[end].key == items[first].key)
        end++;
    return end;
}

/* Of each name the pattern that most names have, the first of equals: `chosen` [n]. */
static void choose(patterns *all, pattern *chosen) {
    CLEAVE_SORT(all->items, all->n, compare_patterns);
    for (int32_t first = 0, end; first < all->n; first = end) {
        end = end_of(all->items, all->n, first);
        for (int32_t i = first; i < end; i++) {
            pattern p = all->items[i];
            pattern *best = &chosen[p.name];
            p.count = end - first;
            if (p.count > best->count || (p.count == best->count && p.place < best->place))
                *best = p;
        }
    }
}

/* "a.[0-3,8-11].b" of the names of patterns [n] that are alike. */
static const char *write_range(const char *name, const pattern *of, int32_t n,
                               cleave_arena *arena) {
    const char *ranges = "";
    for (int32_t i = 0, next; i < n && ranges != NULL; i = next) {
        int32_t low = of[i].number, high = low;
        for (next = i + 1; next < n && of[next].number <= high + 1; next++)
            high = of[next].number;
        const char *comma = i > 0 ? "," : "";
        ranges = high > low ? cleave_arena_printf(arena, "%s%s%d-%d", ranges, comma, low, high)
                            : cleave_arena_printf(arena, "%s%s%d", ranges, comma, low);
    }
    const char *number = name + of[0].place;
    return ranges == NULL ? NULL
                          : cleave_arena_printf(arena, "%.*s[%s]%s", of[0].place, name, ranges,
                                                number + digits_at(number));
}

/* Sets group_of [n] to the first name of each one's group, and range [n] of such first names. */
static bool group(const char *const *names, pattern *chosen, int32_t n, cleave_arena *arena,
                  int32_t *group_of, const char **range) {
    CLEAVE_SORT(chosen, n, compare_patterns);
    for (int32_t begin = 0, end; begin < n; begin = end) {
        end = end_of(chosen, n, begin);
        if (chosen[begin].count == 0 || end - begin < LEAST)
            continue;
        int32_t first = chosen[begin].name;
        for (int32_t i = begin; i < end; i++)
            first = chosen[i].name < first ? chosen[i].name : first;
        for (int32_t i = begin; i < end; i++)
            group_of[chosen[i].name] = first;
        range[first] = write_range(names[first], chosen + begin, end - begin, arena);
        if (range[first] == NULL)
            return false;
    }
    return true;
}

static cleave_status list(const char *const *names, int32_t n, const int32_t *group_of,
                          const char *const *range, cleave_arena *arena, repeats *found,
                          cleave_error *error) {
    repeat *items = CLEAVE_ARENA_ARRAY(arena, repeat, n);
    int32_t *of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (items == NULL || of == NULL)
        return cleave_fail_memory(error, "grouping names");
    int32_t n_items = 0;
    for (int32_t i = 0; i < n; i++) {
        of[i] = group_of[i] < i ? of[group_of[i]] : n_items;
        if (of[i] == n_items)
            items[n_items++] = (repeat){range[i] != NULL ? range[i] : names[i], i, 0};
        items[of[i]].count++;
    }
    *found = (repeats){n_items, items, of};
    return CLEAVE_OK;
}

cleave_status repeats_find(const char *const *names, const char *const *kinds, int32_t n,
                           cleave_arena *arena, repeats *found, cleave_error *error) {
    patterns all = {0};
    pattern *chosen = CLEAVE_ARENA_ARRAY(arena, pattern, n);
    int32_t *group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    const char **range = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    bool made = chosen != NULL && group_of != NULL && range != NULL;
    for (int32_t i = 0; i < n && made; i++) {
        chosen[i] = (pattern){.name = i};
        group_of[i] = i;
        range[i] = NULL;
        made = add_patterns(names[i], kinds[i], i, &all);
    }
    if (made) {
        choose(&all, chosen);
        made = group(names, chosen, n, arena, group_of, range);
    }
    CLEAVE_LIST_FREE(&all);
    return made ? list(names, n, group_of, range, arena, found, error)
                : cleave_fail_memory(error, "grouping names");
}
