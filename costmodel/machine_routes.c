/* Routes within a node, by one search from every vertex: in layers of hops, where each vertex keeps
   the way in with the largest least bandwidth, then the smallest link.  Only switches and cards
   pass messages on, so a search looks at the links of its source and of inner vertices. */
#include "costmodel/machine_routes.h"

#include <stdlib.h>
#include <string.h>

typedef struct search {
    const cleave_node_type *type;
    cleave_node_routes *routes;
    int32_t *out_start, *out_links; /* links by their source */
    int32_t *hops;                  /* [vertices] of the best way, -1: none yet */
    double *width;                  /* [vertices] its least bandwidth */
    int32_t *last;                  /* [vertices] its last link */
    int32_t *order;                 /* [vertices] in the order they were reached */
} search;

static void sort_links_by_source(search *s) {
    int32_t n = s->routes->n_links;
    for (int32_t l = 0; l < n; l++)
        s->out_start[s->routes->local_links[l].from + 2]++;
    for (int32_t v = 0; v < s->routes->n_vertices; v++)
        s->out_start[v + 2] += s->out_start[v + 1];
    for (int32_t l = 0; l < n; l++)
        s->out_links[s->out_start[s->routes->local_links[l].from + 1]++] = l;
}

/* A vertex is only expanded when its layer is complete, since `order` is by layers. */
static void search_from(search *s, int32_t source) {
    int32_t n_reached = 0;
    memset(s->hops, -1, (size_t)s->routes->n_vertices * sizeof *s->hops);
    s->hops[source] = 0;
    s->width[source] = 1e300;
    s->order[n_reached++] = source;
    for (int32_t k = 0; k < n_reached; k++) {
        int32_t v = s->order[k];
        if (v != source && v < s->type->n_devices)
            continue;
        for (int32_t o = s->out_start[v]; o < s->out_start[v + 1]; o++) {
            int32_t l = s->out_links[o], to = s->routes->local_links[l].to;
            double bandwidth =
                s->type->link_classes[s->routes->local_links[l].class_id].bytes_per_second;
            double width = bandwidth < s->width[v] ? bandwidth : s->width[v];
            if (s->hops[to] < 0)
                s->order[n_reached++] = to;
            else if (s->hops[to] != s->hops[v] + 1 || width < s->width[to] ||
                     (width <= s->width[to] && l > s->last[to]))
                continue;
            s->hops[to] = s->hops[v] + 1;
            s->width[to] = width;
            s->last[to] = l;
        }
    }
}

static cleave_status take_routes(search *s, int32_t source, int64_t *capacity,
                                 cleave_error *error) {
    cleave_node_routes *routes = s->routes;
    int64_t cell = (int64_t)source * routes->n_vertices;
    for (int32_t v = 0; v < routes->n_vertices; v++, cell++) {
        int64_t first = routes->start[cell], n_hops = s->hops[v] > 0 ? s->hops[v] : 0;
        if (n_hops > CLEAVE_MAX_LOCAL_ROUTE)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "a route within a node crosses %lld links, more than %d",
                               (long long)n_hops, CLEAVE_MAX_LOCAL_ROUTE);
        while (first + n_hops > *capacity) {
            *capacity *= 2;
            int32_t *grown = realloc(routes->links, (size_t)*capacity * sizeof *grown);
            if (grown == NULL)
                return cleave_fail_memory(error, "finding routes");
            routes->links = grown;
        }
        routes->start[cell + 1] = first + n_hops;
        for (int32_t at = v, h = (int32_t)n_hops; h > 0; h--) {
            routes->links[first + h - 1] = s->last[at];
            at = routes->local_links[s->last[at]].from;
        }
    }
    return CLEAVE_OK;
}

cleave_status cleave_machine_find_local_routes(const cleave_machine *machine,
                                               const cleave_node_type *type,
                                               cleave_node_routes *routes, cleave_error *error) {
    size_t n = (size_t)routes->n_vertices;
    cleave_arena scratch = {0};
    search s = {
        .type = type,
        .routes = routes,
        .out_start = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n + 2),
        .out_links = CLEAVE_ARENA_ARRAY(&scratch, int32_t, routes->n_links),
        .hops = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .width = CLEAVE_ARENA_ARRAY(&scratch, double, n),
        .last = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
        .order = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n),
    };
    int64_t capacity = 1024;
    routes->start = CLEAVE_ARENA_ARRAY(machine->arena, int64_t, n * n + 1);
    routes->links = malloc((size_t)capacity * sizeof *routes->links);
    cleave_status status = CLEAVE_OK;
    if (s.out_start == NULL || s.out_links == NULL || s.hops == NULL || s.width == NULL ||
        s.last == NULL || s.order == NULL || routes->start == NULL || routes->links == NULL) {
        status = cleave_fail_memory(error, "finding routes");
    } else {
        sort_links_by_source(&s);
        for (int32_t v = 0; v < routes->n_vertices && status == CLEAVE_OK; v++) {
            search_from(&s, v);
            status = take_routes(&s, v, &capacity, error);
        }
    }
    int32_t *kept = NULL;
    if (status == CLEAVE_OK) {
        int64_t total = routes->start[n * n];
        kept = CLEAVE_ARENA_ARRAY(machine->arena, int32_t, total);
        if (kept == NULL)
            status = cleave_fail_memory(error, "finding routes");
        else
            memcpy(kept, routes->links, (size_t)total * sizeof *kept);
    }
    free(routes->links);
    routes->links = kept;
    cleave_arena_free(&scratch);
    return status;
}
