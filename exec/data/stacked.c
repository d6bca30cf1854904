#include "exec/data/stacked.h"

#include "base/order.h"

#include <stdlib.h>
#include <string.h>

static const char published[] = ".block_sparse_moe.", own[] = ".mlp.";
enum { MOST_EXPERTS = 1 << 16 };

/* How one part is called, and where its stack has it. */
typedef struct role {
    const char *end, *stack;
    int32_t which, of; /* of so many parts of an expert */
} role;

static const role roles[] = {
    {".gate_proj.weight", "gate_up_proj", 0, 2}, {".up_proj.weight", "gate_up_proj", 1, 2},
    {".down_proj.weight", "down_proj", 0, 1},    {".w1.weight", "gate_up_proj", 0, 2},
    {".w3.weight", "gate_up_proj", 1, 2},        {".w2.weight", "down_proj", 0, 1}};

typedef struct part {
    const char *stack; /* its name; null: the entry is none */
    int32_t place, of; /* among the parts of all experts; parts of one */
} part;

/* A name as models have it: the first `n` characters of one of a file, and what follows. */
static const char *renamed(const char *name, size_t n, const char *follows, cleave_arena *arena) {
    const char *old = strstr(name, published);
    if (old == NULL || old + sizeof published - 1 > name + n)
        return cleave_arena_printf(arena, "%.*s%s", (int)n, name, follows);
    const char *rest = old + sizeof published - 1;
    return cleave_arena_printf(arena, "%.*s%s%.*s%s", (int)(old - name), name, own,
                               (int)(name + n - rest), rest, follows);
}

/* P.experts.I.ROLE, or what is called otherwise and is no expert's; false: out of memory. */
static bool read_name(const char *name, cleave_arena *arena, part *p) {
    static const char experts[] = ".experts.";
    const char *found = strstr(name, experts);
    *p = (part){.stack = NULL};
    if (strlen(name) > 4096)
        return true;
    if (found == NULL) {
        if (strstr(name, published) == NULL)
            return true;
        *p = (part){renamed(name, strlen(name), "", arena), 0, 1};
        return p->stack != NULL;
    }
    const char *digits = found + sizeof experts - 1;
    size_t n_digits = strspn(digits, "0123456789");
    if (n_digits < 1 || n_digits > 5)
        return true;
    long expert = strtol(digits, NULL, 10);
    for (size_t i = 0; i < sizeof roles / sizeof *roles && expert < MOST_EXPERTS; i++)
        if (strcmp(digits + n_digits, roles[i].end) == 0) {
            const role *r = &roles[i];
            *p = (part){renamed(name, (size_t)(digits - name), r->stack, arena),
                        (int32_t)expert * r->of + r->which, r->of};
            return p->stack != NULL;
        }
    return true;
}

/* A part under its stack's name, and which entry it is. */
typedef struct named_part {
    part is;
    int32_t entry;
} named_part;

static int compare(const void *a, const void *b) {
    const named_part *x = a, *y = b;
    int order = strcmp(x->is.stack, y->is.stack);
    return order != 0 ? order : CLEAVE_ORDER(x->is.place, y->is.place);
}

static bool is_alike(const cleave_safetensors_entry *a, const cleave_safetensors_entry *b) {
    return a->type == b->type && a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape) == 0;
}

/* The stack of n parts in order; false where one is missing, there twice, or unlike the others. */
static bool describe(const cleave_safetensors_entry *entries, const named_part *parts, int32_t n,
                     cleave_stack *stack) {
    const cleave_safetensors_entry *first = &entries[parts[0].entry];
    int32_t of = parts[0].is.of;
    bool is_whole = strstr(first->name, ".experts.") == NULL;
    if (n % of != 0 || (is_whole ? n != 1 : first->rank != 2))
        return false;
    for (int32_t i = 0; i < n; i++)
        if (parts[i].is.place != i || !is_alike(first, &entries[parts[i].entry]))
            return false;
    stack->entry = *first;
    stack->entry.name = parts[0].is.stack;
    stack->n_parts = n;
    if (is_whole)
        return true;
    stack->entry.rank = 3;
    stack->entry.shape[0] = n / of;
    stack->entry.shape[1] = of * first->shape[0];
    stack->entry.shape[2] = first->shape[1];
    stack->entry.n_elements = n * first->n_elements;
    return true;
}

cleave_status cleave_stacks_find(const cleave_safetensors_entry *entries, int32_t n,
                                 cleave_arena *arena, cleave_stacks *stacks, cleave_error *error) {
    named_part *parts = CLEAVE_ARENA_ARRAY(arena, named_part, n);
    int32_t n_parts = 0;
    cleave_stacks found = {.n = 0};
    if (parts == NULL)
        return cleave_fail_memory(error, "stacking weights of experts");
    for (int32_t i = 0; i < n; i++) {
        parts[n_parts].entry = i;
        if (!read_name(entries[i].name, arena, &parts[n_parts].is))
            return cleave_fail_memory(error, "stacking weights of experts");
        n_parts += parts[n_parts].is.stack != NULL;
    }
    CLEAVE_SORT(parts, n_parts, compare);
    found.items = CLEAVE_ARENA_ARRAY(arena, cleave_stack, n_parts);
    int32_t *all = CLEAVE_ARENA_ARRAY(arena, int32_t, n_parts);
    if (found.items == NULL || all == NULL)
        return cleave_fail_memory(error, "stacking weights of experts");
    for (int32_t first = 0, end; first < n_parts; first = end) {
        for (end = first; end < n_parts; end++) {
            if (strcmp(parts[end].is.stack, parts[first].is.stack) != 0)
                break;
            all[end] = parts[end].entry;
        }
        found.items[found.n].parts = &all[first];
        found.n += describe(entries, &parts[first], end - first, &found.items[found.n]);
    }
    *stacks = found;
    return CLEAVE_OK;
}
