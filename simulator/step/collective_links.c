/* A collective takes the links between devices that follow one another in it, or as a library's
   price has it, those within nodes and the ways out of all members; an all-to-all those
   of its transfers, which its price knows.  Many tensors are combined by the same devices, so links
   are found by groups of devices.

   Of a window (graph/model/fold.h), links that messages or collectives within windows use are taken
   by their images in window 0, and then a group that is in all windows must take all of them or
   none; or one of them, the same as all such groups, that nothing within a window takes any more:
   till then it is free when its image is, and afterwards none asks.  All others serve such groups
   alone.  There, links that the same groups take are free at the same times, so one of them stands
   for all. */
#include "simulator/step/collective_links.h"

#include <string.h>

enum { TABLE = 256, MOST_CLASSES = 64 };

typedef struct group {
    const int32_t *devices;
    int32_t n_devices, first, n;          /* links */
    int32_t next;                         /* in the same row of the table */
    int32_t first_join;                   /* item; of one that is in all windows */
    bool inner;                           /* all of it in this window, or there are none */
    const cleave_collective_links *known; /* of an all-to-all; else null */
} group;

typedef struct finder {
    const cleave_price_context *of;
    const int32_t *image;
    int32_t n_groups;
    group *groups;     /* [n_groups] */
    int32_t *row;      /* [TABLE] group + 1 */
    int32_t *group_of; /* [n_collectives] */
    int32_t
        *seen; /* [n_links] group + 1 that took it last; null if `nearby`: there are few links */
    /* Of a window that is not `nearby`, else null: */
    int32_t *images;  /* [n_links] links of the present group that have this image */
    bool *shared;     /* [n_links] used within windows, */
    int32_t *last;    /* [n_links] by this item the last time */
    int32_t *met;     /* [n_links] of this image the link that the present group met last, */
    int32_t *alone;   /* [n_links] and 1 + the only one that groups take which take one; 0: none */
    uint64_t *takers; /* [n_links] bits of the groups that take it */
    int32_t *links;
    int64_t n_links, capacity;
} finder;

static cleave_status short_of_memory(const finder *f) {
    return cleave_fail_memory(f->of->error, "pricing a step");
}

static int32_t find_group(finder *f, const cleave_collective *collective,
                          const cleave_collective_links *known) {
    int32_t n = collective->n_devices;
    int32_t *row = &f->row[(uint32_t)(collective->devices[0] + 31 * n) % TABLE];
    for (int32_t g = *row - 1; g >= 0 && known == NULL; g = f->groups[g].next)
        if (f->groups[g].n_devices == n && f->groups[g].known == NULL &&
            (f->groups[g].devices == collective->devices ||
             memcmp(f->groups[g].devices, collective->devices, (size_t)n * sizeof(int32_t)) == 0))
            return g;
    f->groups[f->n_groups] =
        (group){.devices = collective->devices,
                .n_devices = n,
                .next = *row - 1,
                .known = known,
                .first_join = INT32_MAX,
                .inner = f->image == NULL || !cleave_program_spans(f->of->program, collective)};
    *row = ++f->n_groups;
    return f->n_groups - 1;
}

static bool take(finder *f, int32_t link) {
    if (f->n_links == f->capacity) {
        int64_t capacity = 2 * f->capacity + 1024;
        int32_t *links = CLEAVE_ARENA_ARRAY(f->of->arena, int32_t, capacity);
        if (links == NULL)
            return false;
        if (f->n_links > 0)
            memcpy(links, f->links, (size_t)f->n_links * sizeof *links);
        f->links = links;
        f->capacity = capacity;
    }
    f->links[f->n_links++] = link;
    return true;
}

/* Has the present group met a link before?  It has now. */
static bool meet(finder *f, int32_t g, int32_t link) {
    if (f->seen != NULL) {
        bool met = f->seen[link] == g + 1;
        f->seen[link] = g + 1;
        return met;
    }
    for (int64_t l = f->groups[g].first; l < f->n_links; l++)
        if (f->links[l] == link)
            return true;
    return false;
}

/* Of an all-to-all, which lies in one window. */
static cleave_status take_known(finder *f, group *of) {
    for (int32_t l = 0; l < of->known->n; l++)
        if (!take(f, of->known->links[l]))
            return short_of_memory(f);
    of->n = of->known->n;
    return CLEAVE_OK;
}

/* May group g, which is in all windows, take so many of the links that have this image? */
static bool may_take(finder *f, int32_t g, int32_t image, int32_t n) {
    if (!f->shared[image] || n == f->of->program->n_windows)
        return true;
    int32_t other = f->alone[image];
    f->alone[image] = f->met[image] + 1;
    return n == 1 && f->last[image] < f->groups[g].first_join &&
           (other == 0 || other == f->alone[image]);
}

/* The links on a way of a group that are new to it; those that windows share by their images. */
static cleave_status take_way(finder *f, int32_t g, int32_t from, int32_t to) {
    const group *of = &f->groups[g];
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(f->of->machine, of->devices[from], of->devices[to], links);
    for (int32_t l = 0; l < n; l++) {
        int32_t image = of->inner ? links[l] : f->image[links[l]];
        int32_t link = of->inner || f->shared != NULL ? links[l] : image; /* nearby: by images */
        bool is_shared = !of->inner && f->shared != NULL && f->shared[image];
        if (meet(f, g, link))
            continue;
        if (!of->inner && f->shared != NULL)
            f->met[image] = link;
        if (is_shared && f->images[image]++ > 0)
            continue;
        if (!take(f, is_shared ? image : link))
            return short_of_memory(f);
    }
    return CLEAVE_OK;
}

/* Members of each node, where a library's collectives go round within nodes and from each member to
   its like in the next node, by the ways out of all of them; else all, which are one ring. */
static int32_t count_beside(const finder *f, const group *of) {
    const cleave_machine *machine = f->of->machine;
    int32_t n = of->n_devices, beside = 1;
    if (!cleave_machine_knows_collectives(machine))
        return n;
    while (beside < n && cleave_machine_same_node(machine, of->devices[0], of->devices[beside]))
        beside++;
    for (int32_t i = 1; i < n; i++)
        if (cleave_machine_same_node(machine, of->devices[i - 1], of->devices[i]) ==
            (i % beside == 0))
            return n;
    return n % beside == 0 ? beside : n;
}

/* Those of the first `n` members. */
static cleave_status take_ways(finder *f, int32_t g, int32_t n) {
    const group *of = &f->groups[g];
    int32_t beside = count_beside(f, of);
    for (int32_t i = 0; i < n; i++) {
        int32_t next = i % beside + 1 < beside ? i + 1 : i + 1 - beside;
        int32_t like = (i + beside) % of->n_devices;
        if (next != i)
            CLEAVE_TRY(take_way(f, g, i, next));
        if (like != i)
            CLEAVE_TRY(take_way(f, g, i, like));
    }
    return CLEAVE_OK;
}

/* Every link on the ways of a group, once. */
static cleave_status find_links(finder *f, int32_t g) {
    group *of = &f->groups[g];
    of->first = (int32_t)f->n_links;
    if (of->known != NULL)
        return take_known(f, of);
    CLEAVE_TRY(take_ways(f, g, of->n_devices));
    of->n = (int32_t)f->n_links - of->first;
    for (int32_t l = of->first; l < (int32_t)f->n_links && !of->inner; l++) {
        int32_t link = f->links[l], n = f->images[link];
        f->images[link] = 0;
        if (!may_take(f, g, link, n))
            return cleave_fail(f->of->error, CLEAVE_NO_LAYOUT,
                               "an all-reduce of %d devices crosses a link of some windows only",
                               of->n_devices);
    }
    return CLEAVE_OK;
}

/* Those on the ways of the members in the first window and on to the next. */
static cleave_status find_nearby_links(finder *f, int32_t g) {
    group *of = &f->groups[g];
    of->first = (int32_t)f->n_links;
    CLEAVE_TRY(take_ways(f, g, of->n_devices / f->of->program->n_windows));
    of->n = (int32_t)f->n_links - of->first;
    return CLEAVE_OK;
}

static void use(finder *f, int32_t n, const int32_t *links, int32_t item) {
    for (int32_t l = 0; l < n; l++) {
        f->shared[links[l]] = true;
        f->last[links[l]] = item;
    }
}

/* What is used within windows, and until when: by messages, and by groups in one window. */
static void mark_shared(finder *f) {
    const cleave_program *program = f->of->program;
    const cleave_priced_fragment *priced = f->of->priced;
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind == CLEAVE_ITEM_SEND || item->kind == CLEAVE_ITEM_RECEIVE) {
            int32_t first = priced->hop_start[item->subject];
            use(f, priced->hop_start[item->subject + 1] - first, priced->hop_link + first, i);
        } else if (item->kind == CLEAVE_ITEM_JOIN) {
            group *of = &f->groups[f->group_of[item->subject]];
            if (of->inner)
                use(f, of->n, f->links + of->first, i);
            else if (of->first_join > i)
                of->first_join = i;
        }
    }
}

/* Keeps one link of those that the same groups take. */
static void thin_out(finder *f) {
    struct {
        uint64_t takers;
        int32_t link;
    } classes[MOST_CLASSES];
    int n_classes = 0;
    if (f->n_groups > 64)
        return;
    for (int32_t g = 0; g < f->n_groups; g++)
        for (int32_t l = 0; l < f->groups[g].n; l++)
            f->takers[f->links[f->groups[g].first + l]] |= UINT64_C(1) << g;
    for (int32_t g = 0; g < f->n_groups; g++) {
        group *of = &f->groups[g];
        int32_t kept = 0, *links = f->links + of->first;
        for (int32_t l = 0; l < of->n; l++) {
            int c = 0;
            while (c < n_classes && classes[c].takers != f->takers[links[l]])
                c++;
            if (!f->shared[links[l]] && c == n_classes && n_classes < MOST_CLASSES) {
                classes[n_classes].takers = f->takers[links[l]];
                classes[n_classes++].link = links[l];
            }
            if (f->shared[links[l]] || c == n_classes || classes[c].link == links[l])
                links[kept++] = links[l];
        }
        of->n = kept;
    }
}

static cleave_status list_links(const finder *f) {
    cleave_priced_fragment *priced = f->of->priced;
    int64_t total = 0;
    for (int32_t c = 0; c < priced->n_collectives; c++)
        total += f->groups[f->group_of[c]].n;
    if (total > INT32_MAX)
        return cleave_fail(f->of->error, CLEAVE_FAILED, "the collectives cross too many links");
    priced->collective_links = CLEAVE_ARENA_ARRAY(f->of->arena, int32_t, total);
    if (priced->collective_links == NULL)
        return short_of_memory(f);
    int32_t at = 0;
    for (int32_t c = 0; c < priced->n_collectives; c++) {
        const group *of = &f->groups[f->group_of[c]];
        if (of->n > 0)
            memcpy(priced->collective_links + at, f->links + of->first,
                   (size_t)of->n * sizeof *f->links);
        priced->collective_link_start[c] = at;
        at += of->n;
    }
    priced->collective_link_start[priced->n_collectives] = at;
    return CLEAVE_OK;
}

cleave_status cleave_find_collective_links(const cleave_price_context *pricing,
                                           const cleave_collective_links *known) {
    const int32_t *image = pricing->image;
    int32_t n = pricing->priced->n_collectives, n_links = pricing->machine->n_links;
    cleave_arena *arena = pricing->arena;
    finder f = {.of = pricing,
                .image = image,
                .groups = cleave_arena_alloc(arena, (size_t)n, sizeof *f.groups),
                .row = CLEAVE_ARENA_ARRAY(arena, int32_t, TABLE),
                .group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n)};
    bool nearby = pricing->nearby && image != NULL, folded = image != NULL && !nearby;
    if (!nearby)
        f.seen = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
    if (folded) {
        f.images = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
        f.shared = CLEAVE_ARENA_ARRAY(arena, bool, n_links);
        f.takers = CLEAVE_ARENA_ARRAY(arena, uint64_t, n_links);
        f.last = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
        f.met = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
        f.alone = CLEAVE_ARENA_ARRAY(arena, int32_t, n_links);
    }
    if (f.groups == NULL || f.row == NULL || f.group_of == NULL || (!nearby && f.seen == NULL) ||
        (folded && (f.images == NULL || f.shared == NULL || f.takers == NULL || f.last == NULL ||
                    f.met == NULL || f.alone == NULL)))
        return short_of_memory(&f);
    for (int32_t c = 0; c < n; c++)
        f.group_of[c] = find_group(&f, &pricing->program->collectives[c],
                                   known[c].links != NULL ? &known[c] : NULL);
    for (int32_t g = 0; g < f.n_groups; g++)
        if (f.groups[g].inner)
            CLEAVE_TRY(find_links(&f, g));
    if (folded)
        mark_shared(&f);
    for (int32_t g = 0; g < f.n_groups; g++)
        if (!f.groups[g].inner)
            CLEAVE_TRY(nearby ? find_nearby_links(&f, g) : find_links(&f, g));
    if (folded)
        thin_out(&f);
    return list_links(&f);
}
