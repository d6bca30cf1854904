/* What transfers and collectives take on links and devices. */
#include "costmodel/byte_price.h"
#include "costmodel/collective_rounds.h"
#include "search/solve/resharding_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what never changes ---------------------------------------------------------------------- */

static void find_route(const cleave_machine *machine, int32_t source, int32_t destination,
                       reshard_route *route, int32_t *links) {
    route->n = cleave_machine_route(machine, source, destination, links);
    for (int32_t l = 0; l < route->n; l++) {
        const cleave_link *link = &machine->links[links[l]];
        route->latency += (float)link->latency_seconds;
        route->overhead = fmaxf(route->overhead, (float)link->overhead_seconds);
        route->overhead_per_byte =
            fmaxf(route->overhead_per_byte, (float)link->overhead_seconds_per_byte);
    }
}

/* Nodes of one type do alike what is shared out alike, so that it is enough to look at one; on a
   torus messages pass through all of them. */
static void find_nodes(cleave_resharder *r) {
    const cleave_machine *machine = r->machine;
    int32_t device = 0;
    for (int32_t t = 0; t < machine->n_node_types; t++)
        for (int32_t k = 0; k < machine->node_types[t].count; k++) {
            int32_t end = device + machine->node_types[t].n_devices, start = device;
            end = end < machine->n_devices ? end : machine->n_devices;
            for (; device < end; device++) {
                r->node_start[device] = start;
                r->node_end[device] = end;
            }
        }
    bool alike = machine->n_node_types == 1 && machine->network.shape != CLEAVE_NETWORK_TORUS;
    r->few = alike && machine->n_devices <= RESHARD_FEW;
    r->everywhere = r->few || (!alike && machine->n_devices <= RESHARD_MOST_TABLED);
}

static bool allocate(cleave_resharder *r) {
    int32_t n = r->machine->n_devices, n_links = r->machine->n_links;
    r->link_per_byte = CLEAVE_ARENA_ARRAY(&r->arena, double, n_links);
    r->shares = CLEAVE_ARENA_ARRAY(&r->arena, double, n_links);
    r->seen = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n_links);
    r->groups = CLEAVE_ARENA_ARRAY(&r->arena, reshard_group *, RESHARD_GROUP_ROWS);
    r->load.link = CLEAVE_ARENA_ARRAY(&r->arena, double, n_links);
    r->load.device = CLEAVE_ARENA_ARRAY(&r->arena, double, n);
    r->scattered = CLEAVE_ARENA_ARRAY(&r->arena, double, n);
    r->n_roots = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->speakers = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->owners = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->group = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->node_start = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->node_end = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    r->in_focus = CLEAVE_ARENA_ARRAY(&r->arena, bool, n);
    r->remote[0] = CLEAVE_ARENA_ARRAY(&r->arena, reshard_remote_sum, n);
    r->remote[1] = CLEAVE_ARENA_ARRAY(&r->arena, reshard_remote_sum, n);
    r->readings = CLEAVE_ARENA_ARRAY(&r->arena, reshard_reading, n);
    r->from_in_focus = CLEAVE_ARENA_ARRAY(&r->arena, bool, n);
    r->to_in_focus = CLEAVE_ARENA_ARRAY(&r->arena, bool, n);
    if (n <= RESHARD_MOST_TABLED)
        r->routes = CLEAVE_ARENA_ARRAY(&r->arena, reshard_route, n * n);
    return (r->routes != NULL || n > RESHARD_MOST_TABLED) && r->remote[0] != NULL &&
           r->remote[1] != NULL && r->from_in_focus != NULL && r->to_in_focus != NULL &&
           r->node_start != NULL && r->node_end != NULL && r->in_focus != NULL &&
           r->link_per_byte != NULL && r->shares != NULL && r->seen != NULL && r->groups != NULL &&
           r->load.link != NULL && r->load.device != NULL && r->scattered != NULL &&
           r->readings != NULL && r->n_roots != NULL && r->speakers != NULL && r->owners != NULL &&
           r->group != NULL;
}

/* By which kinds are compared. */
static double seconds_of_copy(const cleave_copy_price *price, double bytes) {
    return cleave_copy_price_seconds(price, 1, bytes, 0, bytes / 64);
}

cleave_status cleave_resharder_create(const cleave_machine *machine,
                                      const cleave_collective_rules *rules,
                                      cleave_resharder **resharder, cleave_error *error) {
    cleave_resharder *r = calloc(1, sizeof *r);
    if (r == NULL)
        return cleave_fail_memory(error, "pricing transfers");
    r->machine = machine;
    r->rules = rules;
    if (!allocate(r)) {
        cleave_resharder_destroy(r);
        return cleave_fail_memory(error, "pricing transfers");
    }
    find_nodes(r);
    for (int32_t l = 0; l < machine->n_links; l++)
        r->link_per_byte[l] = 1 / machine->links[l].bytes_per_second;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        cleave_copy_price price = cleave_copy_price_of(&machine->kinds[k]);
        if (k == 0 || seconds_of_copy(&price, 0x1p20) > seconds_of_copy(&r->copy, 0x1p20))
            r->copy = price;
    }
    *resharder = r;
    return CLEAVE_OK;
}

void cleave_resharder_of(cleave_resharder *resharder, const cleave_sent_together *together,
                         int32_t tensor) {
    resharder->together = together;
    resharder->tensor = tensor;
}

void cleave_resharder_destroy(cleave_resharder *resharder) {
    if (resharder == NULL)
        return;
    CLEAVE_LIST_FREE(&resharder->load.links);
    CLEAVE_LIST_FREE(&resharder->load.devices);
    CLEAVE_LIST_FREE(&resharder->cells);
    CLEAVE_LIST_FREE(&resharder->results);
    CLEAVE_LIST_FREE(&resharder->focus);
    CLEAVE_LIST_FREE(&resharder->route_links);
    cleave_arena_free(&resharder->arena);
    free(resharder);
}

/* ---- loads ----------------------------------------------------------------------------------- */

static void load_link(cleave_resharder *r, int32_t link, double seconds) {
    if (r->load.link[link] == 0 && !CLEAVE_LIST_PUSH(&r->load.links, link)) {
        r->failed = true;
        return;
    }
    r->load.link[link] += seconds;
}

static void load_device(cleave_resharder *r, int32_t device, double seconds) {
    if (r->load.device[device] == 0 && !CLEAVE_LIST_PUSH(&r->load.devices, device)) {
        r->failed = true;
        return;
    }
    r->load.device[device] += seconds;
}

void reshard_copy(cleave_resharder *r, int32_t device, double bytes, double rows) {
    load_device(r, device, cleave_copy_price_seconds(&r->copy, 1, bytes, 0, rows));
}

void reshard_sum(cleave_resharder *r, int32_t device, double bytes, double rows) {
    load_device(r, device, cleave_copy_price_seconds(&r->copy, 1, bytes, bytes, rows));
}

/* The links from one device to another; they stay until the next route is asked for. */
static const int32_t *route_between(cleave_resharder *r, int32_t source, int32_t destination,
                                    reshard_route *route, int32_t *buffer) {
    reshard_route *known = r->routes == NULL
                               ? NULL
                               : &r->routes[(int64_t)source * r->machine->n_devices + destination];
    if (known != NULL && known->is_known) {
        *route = *known;
        return r->route_links.items + route->first;
    }
    *route = (reshard_route){.first = r->route_links.n, .is_known = true};
    find_route(r->machine, source, destination, route, buffer);
    for (int32_t l = 0; l < route->n && known != NULL; l++)
        r->failed = !CLEAVE_LIST_PUSH(&r->route_links, buffer[l]) || r->failed;
    if (known != NULL && !r->failed)
        *known = *route;
    return buffer;
}

/* Of packing or unpacking, in all. */
static double seconds_of_rows(const cleave_resharder *r, double n, double bytes, double rows) {
    return rows > 0 ? cleave_copy_price_seconds(&r->copy, n, 2 * bytes, 0, rows) : 0;
}

void reshard_send(cleave_resharder *r, int32_t source, int32_t destination, double bytes,
                  double packs, double unpacks) {
    if (!r->in_focus[source]) {
        reshard_remote(r, destination, false, bytes, 1, unpacks);
        return;
    }
    if (!r->in_focus[destination]) {
        reshard_remote(r, source, true, bytes, 1, packs);
        return;
    }
    reshard_route route;
    int32_t buffer[CLEAVE_MAX_ROUTE];
    const int32_t *links = route_between(r, source, destination, &route, buffer);
    for (int32_t l = 0; l < route.n; l++)
        load_link(r, links[l], bytes * r->link_per_byte[links[l]]);
    double post = (double)route.overhead + (double)route.overhead_per_byte * bytes;
    load_device(r, source, post + seconds_of_rows(r, 1, bytes, packs));
    load_device(r, destination, post + seconds_of_rows(r, 1, bytes, unpacks));
    r->load.latency = reshard_more(r->load.latency, (double)route.latency);
}

/* What a device exchanges with other nodes goes by the way to the same place of a neighbouring one,
   of which half is in its own. */
static void load_remote(cleave_resharder *r, int32_t device, bool out) {
    reshard_remote_sum *sum = &r->remote[out][device];
    reshard_route route;
    int32_t buffer[CLEAVE_MAX_ROUTE], width = r->node_end[device] - r->node_start[device];
    int32_t other = device + width < r->machine->n_devices ? device + width : device - width;
    if (other < 0)
        other = r->node_start[device] > 0 ? 0 : r->machine->n_devices - 1;
    const int32_t *links = out ? route_between(r, device, other, &route, buffer)
                               : route_between(r, other, device, &route, buffer);
    int32_t half = (route.n + 1) / 2;
    for (int32_t l = out ? 0 : route.n - half; l < (out ? half : route.n); l++)
        load_link(r, links[l], sum->bytes * r->link_per_byte[links[l]]);
    load_device(r, device,
                sum->messages * (double)route.overhead +
                    (double)route.overhead_per_byte * sum->bytes +
                    seconds_of_rows(r, sum->copies, sum->copied, sum->rows));
    r->load.latency = reshard_more(r->load.latency, (double)route.latency);
    *sum = (reshard_remote_sum){0};
}

/* ---- collectives ----------------------------------------------------------------------------- */

/* As the simulator has it: a collective takes the links between devices that follow one another. */
enum { NEIGHBOURS = 16 };
static bool find_group_links(cleave_resharder *r, reshard_group *group) {
    int32_t links[CLEAVE_MAX_ROUTE];
    CLEAVE_LIST(int32_t) all = {0};
    bool pushed = true;
    r->n_groups++;
    for (int32_t i = 0; i < group->n_devices; i++) {
        if (i == NEIGHBOURS && group->n_devices > 2 * NEIGHBOURS)
            i = group->n_devices - 1;
        int32_t n = cleave_machine_route(r->machine, group->devices[i],
                                         group->devices[(i + 1) % group->n_devices], links);
        for (int32_t l = 0; l < n; l++) {
            if (r->seen[links[l]] == r->n_groups)
                continue;
            r->seen[links[l]] = r->n_groups;
            pushed = pushed && CLEAVE_LIST_PUSH(&all, links[l]);
        }
    }
    group->n_links = all.n;
    group->links = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, all.n);
    pushed = pushed && group->links != NULL;
    if (pushed && all.n > 0)
        memcpy(group->links, all.items, (size_t)all.n * sizeof *all.items);
    CLEAVE_LIST_FREE(&all);
    return pushed;
}

static reshard_group *find_group(cleave_resharder *r, int32_t n, const int32_t *devices) {
    uint64_t hash = (uint64_t)n;
    for (int32_t i = 0; i < n; i++)
        hash = (hash ^ (uint64_t)devices[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
    reshard_group **row = &r->groups[hash % RESHARD_GROUP_ROWS], *group;
    for (group = *row; group != NULL; group = group->next)
        if (group->hash == hash && group->n_devices == n &&
            memcmp(group->devices, devices, (size_t)n * sizeof *devices) == 0)
            return group;
    group = CLEAVE_ARENA_ARRAY(&r->arena, reshard_group, 1);
    int32_t *copy = CLEAVE_ARENA_ARRAY(&r->arena, int32_t, n);
    if (group == NULL || copy == NULL)
        return NULL;
    memcpy(copy, devices, (size_t)n * sizeof *devices);
    *group = (reshard_group){.n_devices = n, .devices = copy, .hash = hash, .next = *row};
    if (!find_group_links(r, group))
        return NULL;
    return *row = group;
}

/* The price is nearly linear between two powers of two, where the algorithm does not change. */
static void find_line(cleave_resharder *r, const reshard_group *group, cleave_collective_kind kind,
                      int size, reshard_line *line) {
    int32_t node_members = 1;
    int64_t bytes = INT64_C(1) << size;
    cleave_collective collective = {
        .kind = kind, .n_devices = group->n_devices, .devices = group->devices, .bytes = bytes};
    collective.algorithm = cleave_collective_rules_choose(r->rules, kind, group->n_devices,
                                                          group->devices, bytes, &node_members);
    collective.node_members = node_members;
    cleave_collective_rounds rounds;
    cleave_collective_rounds_find(r->machine, &collective, r->shares, &rounds);
    for (int end = 0; end < 2; end++) {
        int64_t at = end == 0 ? bytes / 2 : bytes;
        cleave_collective_cost cost = cleave_collective_rounds_price(&rounds, at, at);
        line->bytes[end] = (double)at;
        line->busy[end] = (double)cost.busy * 1e-12;
        line->rest[end] = (double)cost.rest * 1e-12;
        line->processor[end] = (double)cost.processor * 1e-12;
    }
    line->known = true;
}

static double between(double share, const double *ends) {
    return ends[0] + share * (ends[1] - ends[0]);
}

void reshard_collective(cleave_resharder *r, cleave_collective_kind kind, int32_t n,
                        const int32_t *devices, double bytes) {
    reshard_group *group = find_group(r, n, devices);
    if (group == NULL) {
        r->failed = true;
        return;
    }
    double vector =
        r->together != NULL
            ? (double)cleave_sent_together_bytes(r->together, kind, r->tensor, (int64_t)bytes)
            : bytes;
    int size = 0;
    while (size < RESHARD_N_SIZES - 1 && (double)(INT64_C(1) << size) < vector)
        size++;
    reshard_line *line = &group->lines[kind][size];
    if (!line->known)
        find_line(r, group, kind, size, line);
    double share = (vector - line->bytes[0]) / (line->bytes[1] - line->bytes[0]);
    double part = vector > bytes ? bytes / vector : 1;
    double busy = part * between(share, line->busy);
    double processor = part * between(share, line->processor);
    for (int32_t l = 0; l < group->n_links; l++)
        load_link(r, group->links[l], busy);
    for (int32_t i = 0; i < n; i++)
        if (r->in_focus[devices[i]])
            load_device(r, devices[i], processor);
    r->load.latency = reshard_more(r->load.latency, part * between(share, line->rest));
}

double reshard_end_stage(cleave_resharder *r) {
    for (int32_t i = 0; i < r->focus.n; i++)
        for (int out = 0; out < 2; out++)
            if (r->remote[out][r->focus.items[i]].messages > 0)
                load_remote(r, r->focus.items[i], out == 1);
    double link = 0, device = 0, latency = r->load.latency;
    for (int32_t i = 0; i < r->load.links.n; i++) {
        double *at = &r->load.link[r->load.links.items[i]];
        link = reshard_more(link, *at);
        *at = 0;
    }
    for (int32_t i = 0; i < r->load.devices.n; i++) {
        double *at = &r->load.device[r->load.devices.items[i]];
        device = reshard_more(device, *at);
        *at = 0;
    }
    r->load.links.n = r->load.devices.n = 0;
    r->load.latency = 0;
    return link + device + latency;
}
