/* Graph algorithms, over igraph, which only this file includes.  Its default is to abort on an
   error; here it returns codes instead, and the caller's handler is put back. */
#include "graph/model/digraph.h"

#include <igraph/igraph.h>
#include <stdbool.h>

static cleave_status fail_igraph(igraph_error_t code, cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "graph of operators: %s", igraph_strerror(code));
}

static cleave_status check_edges(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                                 const int32_t *to, cleave_error *error) {
    for (int32_t i = 0; i < n_edges; i++)
        if (from[i] < 0 || from[i] >= n_vertices || to[i] < 0 || to[i] >= n_vertices)
            return cleave_fail(error, CLEAVE_FAILED, "edge %d from %d to %d among %d vertices",
                               (int)i, (int)from[i], (int)to[i], (int)n_vertices);
    return CLEAVE_OK;
}

static igraph_error_t build(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                            const int32_t *to, igraph_t *graph) {
    igraph_vector_int_t edges;
    igraph_error_t code = igraph_vector_int_init(&edges, 2 * (igraph_integer_t)n_edges);
    if (code != IGRAPH_SUCCESS)
        return code;
    for (int32_t i = 0; i < n_edges; i++) {
        VECTOR(edges)[2 * i] = from[i];
        VECTOR(edges)[2 * i + 1] = to[i];
    }
    code = igraph_create(graph, &edges, n_vertices, IGRAPH_DIRECTED);
    igraph_vector_int_destroy(&edges);
    return code;
}

/* The smallest vertex in a strong component of two or more, or with an edge to itself. */
static igraph_error_t find_on_cycle(const igraph_t *graph, int32_t n_vertices, int32_t n_edges,
                                    const int32_t *from, const int32_t *to, int32_t *vertex) {
    igraph_vector_int_t label, size;
    igraph_error_t code = igraph_vector_int_init(&label, 0);
    if (code != IGRAPH_SUCCESS)
        return code;
    code = igraph_vector_int_init(&size, 0);
    if (code != IGRAPH_SUCCESS) {
        igraph_vector_int_destroy(&label);
        return code;
    }
    code = igraph_connected_components(graph, &label, &size, NULL, IGRAPH_STRONG);
    if (code == IGRAPH_SUCCESS) {
        *vertex = n_vertices;
        for (int32_t v = n_vertices - 1; v >= 0; v--)
            if (VECTOR(size)[VECTOR(label)[v]] > 1)
                *vertex = v;
        for (int32_t i = 0; i < n_edges; i++)
            if (from[i] == to[i] && from[i] < *vertex)
                *vertex = from[i];
    }
    igraph_vector_int_destroy(&size);
    igraph_vector_int_destroy(&label);
    return code;
}

static igraph_error_t sort(const igraph_t *graph, int32_t n_vertices, int32_t *order) {
    igraph_vector_int_t sorted;
    igraph_error_t code = igraph_vector_int_init(&sorted, 0);
    if (code != IGRAPH_SUCCESS)
        return code;
    code = igraph_topological_sorting(graph, &sorted, IGRAPH_OUT);
    for (int32_t i = 0; code == IGRAPH_SUCCESS && i < n_vertices; i++)
        order[i] = (int32_t)VECTOR(sorted)[i];
    igraph_vector_int_destroy(&sorted);
    return code;
}

cleave_status cleave_digraph_order(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                                   const int32_t *to, int32_t *order, int32_t *on_cycle,
                                   cleave_error *error) {
    CLEAVE_TRY(check_edges(n_vertices, n_edges, from, to, error));
    bool forward = true;
    for (int32_t i = 0; i < n_edges; i++)
        forward = forward && from[i] < to[i];
    igraph_error_handler_t *handler = igraph_set_error_handler(igraph_error_handler_ignore);
    igraph_t graph;
    igraph_bool_t acyclic = true;
    int32_t vertex = -1;
    igraph_error_t code = build(n_vertices, n_edges, from, to, &graph);
    if (code == IGRAPH_SUCCESS) {
        code = igraph_is_dag(&graph, &acyclic);
        if (code == IGRAPH_SUCCESS && !acyclic)
            code = find_on_cycle(&graph, n_vertices, n_edges, from, to, &vertex);
        else if (code == IGRAPH_SUCCESS && !forward)
            code = sort(&graph, n_vertices, order);
        igraph_destroy(&graph);
    }
    igraph_set_error_handler(handler);
    if (code != IGRAPH_SUCCESS)
        return fail_igraph(code, error);
    for (int32_t v = 0; forward && v < n_vertices; v++)
        order[v] = v;
    *on_cycle = vertex;
    return CLEAVE_OK;
}

/* Numbers components in the order of their smallest vertices. */
static igraph_error_t number_components(const igraph_t *graph, int32_t n_vertices,
                                        int32_t *component, int32_t *n_components) {
    igraph_vector_int_t label, number;
    igraph_integer_t count = 0;
    igraph_error_t code = igraph_vector_int_init(&label, 0);
    if (code != IGRAPH_SUCCESS)
        return code;
    code = igraph_connected_components(graph, &label, NULL, &count, IGRAPH_WEAK);
    if (code == IGRAPH_SUCCESS)
        code = igraph_vector_int_init(&number, count);
    if (code == IGRAPH_SUCCESS) {
        igraph_vector_int_fill(&number, -1);
        int32_t next = 0;
        for (int32_t v = 0; v < n_vertices; v++) {
            igraph_integer_t *of_label = &VECTOR(number)[VECTOR(label)[v]];
            if (*of_label < 0)
                *of_label = next++;
            component[v] = (int32_t)*of_label;
        }
        *n_components = next;
        igraph_vector_int_destroy(&number);
    }
    igraph_vector_int_destroy(&label);
    return code;
}

cleave_status cleave_digraph_components(int32_t n_vertices, int32_t n_edges, const int32_t *from,
                                        const int32_t *to, int32_t *component,
                                        int32_t *n_components, cleave_error *error) {
    CLEAVE_TRY(check_edges(n_vertices, n_edges, from, to, error));
    igraph_error_handler_t *handler = igraph_set_error_handler(igraph_error_handler_ignore);
    igraph_t graph;
    igraph_error_t code = build(n_vertices, n_edges, from, to, &graph);
    if (code == IGRAPH_SUCCESS) {
        code = number_components(&graph, n_vertices, component, n_components);
        igraph_destroy(&graph);
    }
    igraph_set_error_handler(handler);
    return code == IGRAPH_SUCCESS ? CLEAVE_OK : fail_igraph(code, error);
}
