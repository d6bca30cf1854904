/* A task graph of its records: ids are checked, routes found, and dependencies turned round into
   lists of who comes next. */
#include "base/order.h"
#include "simulator/events/tasks_records.h"

#include <stdlib.h>
#include <string.h>

static cleave_status sort_tasks(tasks_reader *r) {
    r->by_id = CLEAVE_ARENA_ARRAY(r->arena, const task_record *, r->tasks.n);
    if (r->by_id == NULL)
        return tasks_short_of_memory(r);
    for (int32_t t = 0; t < r->tasks.n; t++) {
        const task_record *task = &r->tasks.items[t];
        if (task->id >= r->tasks.n)
            return FAIL_AT(r, task->line, "the id %d is not below the number of tasks, %d",
                           task->id, r->tasks.n);
        if (r->by_id[task->id] != NULL)
            return FAIL_AT(r, task->line, "the id %d is that of line %d", task->id,
                           r->by_id[task->id]->line);
        r->by_id[task->id] = task;
    }
    return CLEAVE_OK;
}

static cleave_status check_devices(tasks_reader *r) {
    int32_t largest = -1;
    const task_record *of = NULL;
    for (int32_t t = 0; t < r->tasks.n; t++) {
        const task_record *task = &r->tasks.items[t];
        int32_t device = task->device >= 0             ? task->device
                         : task->source > task->target ? task->source
                                                       : task->target;
        if (device > largest) {
            largest = device;
            of = task;
        }
    }
    if (r->n_devices < 0)
        r->n_devices = largest + 1;
    if (largest >= r->n_devices)
        return FAIL_AT(r, of->line, "%d is not one of the %d devices", largest, r->n_devices);
    r->out->n_devices = r->n_devices;
    return CLEAVE_OK;
}

static int compare_links(const void *a, const void *b) {
    const link_record *x = a, *y = b;
    CLEAVE_ORDER_BY(x->from, y->from);
    return CLEAVE_ORDER(x->to, y->to);
}

static cleave_status sort_links(tasks_reader *r) {
    CLEAVE_SORT(r->links.items, r->links.n, compare_links);
    r->out->n_links = r->links.n;
    r->out->link_latency = CLEAVE_ARENA_ARRAY(r->arena, int64_t, r->links.n);
    if (r->out->link_latency == NULL)
        return tasks_short_of_memory(r);
    for (int32_t l = 0; l < r->links.n; l++) {
        const link_record *link = &r->links.items[l];
        r->out->link_latency[l] = link->latency;
        if (l > 0 && compare_links(link - 1, link) == 0) {
            int32_t a = link[-1].line, b = link->line;
            return FAIL_AT(r, a > b ? a : b, "the link from %d to %d is there already, in line %d",
                           link->from, link->to, a > b ? b : a);
        }
    }
    return CLEAVE_OK;
}

static int32_t find_link(const tasks_reader *r, int32_t from, int32_t to) {
    link_record wanted = {.from = from, .to = to};
    const link_record *found = r->links.n > 0 ? bsearch(&wanted, r->links.items, (size_t)r->links.n,
                                                        sizeof *r->links.items, compare_links)
                                              : NULL;
    return found != NULL ? (int32_t)(found - r->links.items) : -1;
}

/* First link that leaves `from`, or where it would be. */
static int32_t first_link_from(const tasks_reader *r, int32_t from) {
    int32_t at = 0;
    CLEAVE_BISECT(at, r->links.n, middle, r->links.items[middle].from < from);
    return at;
}

static cleave_status route_by_switch(const tasks_reader *r, const task_record *task,
                                     int32_t *route) {
    int32_t n_switches = 0;
    for (int32_t l = first_link_from(r, task->source);
         l < r->links.n && r->links.items[l].from == task->source; l++) {
        int32_t through = r->links.items[l].to;
        int32_t second = through >= r->n_devices ? find_link(r, through, task->target) : -1;
        if (second < 0)
            continue;
        if (n_switches++ > 0)
            return FAIL_AT(r, task->line,
                           "several switches join devices %d and %d: say which with VIA",
                           task->source, task->target);
        route[0] = l;
        route[1] = second;
    }
    if (n_switches == 0)
        return FAIL_AT(r, task->line, "no link and no switch joins device %d to device %d",
                       task->source, task->target);
    return CLEAVE_OK;
}

static cleave_status find_route(const tasks_reader *r, const task_record *task, int32_t *route,
                                int32_t *n_hops) {
    *n_hops = 1;
    if (task->n_via == 0) {
        route[0] = find_link(r, task->source, task->target);
        if (route[0] >= 0)
            return CLEAVE_OK;
        *n_hops = 2;
        return route_by_switch(r, task, route);
    }
    int32_t from = task->source;
    for (int32_t v = 0; v <= task->n_via; v++) {
        int32_t to = v < task->n_via ? r->vias.items[task->first_via + v] : task->target;
        route[v] = find_link(r, from, to);
        if (route[v] < 0)
            return FAIL_AT(r, task->line, "no link from node %d to node %d", from, to);
        from = to;
    }
    *n_hops = task->n_via + 1;
    return CLEAVE_OK;
}

static void fill_hops(const tasks_reader *r, const task_record *task, const int32_t *route,
                      int32_t n_hops) {
    cleave_tasks *out = r->out;
    for (int32_t h = 0; h < n_hops; h++) {
        int32_t at = out->hop_start[task->id] + h;
        out->hop_link[at] = route[h];
        out->hop_serialization[at] =
            task->bytes == 0
                ? 0
                : cleave_serialization(task->bytes, r->links.items[route[h]].bytes_per_second);
    }
}

static cleave_status build_tasks(tasks_reader *r) {
    cleave_tasks *out = r->out;
    int32_t n = r->tasks.n, route[MAX_FIELDS], n_hops;
    out->n_tasks = n;
    out->device = CLEAVE_ARENA_ARRAY(r->arena, int32_t, n);
    out->duration = CLEAVE_ARENA_ARRAY(r->arena, int64_t, n);
    out->bytes = CLEAVE_ARENA_ARRAY(r->arena, int64_t, n);
    out->hop_start = CLEAVE_ARENA_ARRAY(r->arena, int32_t, (size_t)n + 1);
    if (out->device == NULL || out->duration == NULL || out->bytes == NULL ||
        out->hop_start == NULL)
        return tasks_short_of_memory(r);
    for (int32_t t = 0; t < n; t++) {
        const task_record *task = r->by_id[t];
        out->device[t] = task->device;
        out->duration[t] = task->duration;
        out->bytes[t] = task->bytes;
        n_hops = 0;
        if (task->device < 0)
            CLEAVE_TRY(find_route(r, task, route, &n_hops));
        if (out->hop_start[t] > INT32_MAX - n_hops)
            return FAIL_AT(r, task->line, "the transfers cross more than 2^31 links");
        out->hop_start[t + 1] = out->hop_start[t] + n_hops;
    }
    out->hop_link = CLEAVE_ARENA_ARRAY(r->arena, int32_t, out->hop_start[n]);
    out->hop_serialization = CLEAVE_ARENA_ARRAY(r->arena, int64_t, out->hop_start[n]);
    if (out->hop_link == NULL || out->hop_serialization == NULL)
        return tasks_short_of_memory(r);
    for (int32_t t = 0; t < n; t++)
        if (out->device[t] < 0) {
            CLEAVE_TRY(find_route(r, r->by_id[t], route, &n_hops));
            fill_hops(r, r->by_id[t], route, n_hops);
        }
    return CLEAVE_OK;
}

static cleave_status build_deps(tasks_reader *r) {
    cleave_tasks *out = r->out;
    int32_t n = r->tasks.n;
    /* Counts two places on, so that filling in leaves the starts in their own places. */
    out->next_start = CLEAVE_ARENA_ARRAY(r->arena, int32_t, (size_t)n + 2);
    out->next = CLEAVE_ARENA_ARRAY(r->arena, int32_t, r->deps.n);
    out->n_before = CLEAVE_ARENA_ARRAY(r->arena, int32_t, n);
    if (out->next_start == NULL || out->next == NULL || out->n_before == NULL)
        return tasks_short_of_memory(r);
    for (int32_t d = 0; d < r->deps.n; d++) {
        const dep_record *dep = &r->deps.items[d];
        int32_t largest = dep->before > dep->after ? dep->before : dep->after;
        if (largest >= n)
            return FAIL_AT(r, dep->line, "there is no task %d: ids are 0..%d", largest, n - 1);
        out->next_start[dep->before + 2]++;
        out->n_before[dep->after]++;
    }
    for (int32_t t = 0; t < n; t++)
        out->next_start[t + 2] += out->next_start[t + 1];
    for (int32_t d = 0; d < r->deps.n; d++)
        out->next[out->next_start[r->deps.items[d].before + 1]++] = r->deps.items[d].after;
    return CLEAVE_OK;
}

/* Takes away what waits for nothing until nothing is left, or a cycle is. */
static cleave_status check_cycles(const tasks_reader *r, cleave_arena *scratch) {
    const cleave_tasks *out = r->out;
    int32_t n = out->n_tasks, n_ready = 0;
    int32_t *ready = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    int32_t *before = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    if (ready == NULL || before == NULL)
        return tasks_short_of_memory(r);
    for (int32_t t = 0; t < n; t++) {
        before[t] = out->n_before[t];
        if (before[t] == 0)
            ready[n_ready++] = t;
    }
    for (int32_t k = 0; k < n_ready; k++)
        for (int32_t e = out->next_start[ready[k]]; e < out->next_start[ready[k] + 1]; e++)
            if (--before[out->next[e]] == 0)
                ready[n_ready++] = out->next[e];
    if (n_ready == n)
        return CLEAVE_OK;
    int32_t stuck = 0;
    while (before[stuck] == 0)
        stuck++;
    return FAIL_AT(r, r->by_id[stuck]->line,
                   "task %d waits for ever: it is on a cycle of deps or after one", stuck);
}

static cleave_status check_range(const tasks_reader *r) {
    const cleave_tasks *out = r->out;
    unsigned __int128 total = 0;
    for (int32_t t = 0; t < out->n_tasks; t++)
        total += (unsigned __int128)out->duration[t];
    for (int32_t h = 0; h < out->hop_start[out->n_tasks]; h++)
        total += (unsigned __int128)out->hop_serialization[h] +
                 (unsigned __int128)out->link_latency[out->hop_link[h]];
    if (total > INT64_MAX / 4)
        return cleave_fail(r->error, CLEAVE_BAD_INPUT,
                           "%s: the times add up to more than 26 days: too long to simulate in "
                           "picoseconds",
                           r->name);
    return CLEAVE_OK;
}

cleave_status tasks_build(tasks_reader *r) {
    CLEAVE_TRY(sort_tasks(r));
    CLEAVE_TRY(check_devices(r));
    CLEAVE_TRY(sort_links(r));
    CLEAVE_TRY(build_tasks(r));
    CLEAVE_TRY(build_deps(r));
    CLEAVE_TRY(check_range(r));
    cleave_arena scratch = {0};
    cleave_status status = check_cycles(r, &scratch);
    cleave_arena_free(&scratch);
    return status;
}
