/* Order, cycles and components of directed graphs. */
#include "graph/model/digraph.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>

Test(digraph, an_order_that_will_do_is_kept) {
    /* 0 -> 2, 1 -> 2: 0 1 2 goes forward already. */
    int32_t from[] = {0, 1}, to[] = {2, 2}, order[3], on_cycle = 7;
    OK(cleave_digraph_order, 3, 2, from, to, order, &on_cycle);
    cr_expect_eq(on_cycle, -1);
    for (int32_t i = 0; i < 3; i++)
        cr_expect_eq(order[i], i);
}

Test(digraph, every_edge_goes_forward_in_the_order) {
    /* 3 -> 1 -> 0, 3 -> 2 -> 0: against the numbering. */
    int32_t from[] = {3, 1, 3, 2}, to[] = {1, 0, 2, 0}, order[4], on_cycle, place[4];
    OK(cleave_digraph_order, 4, 4, from, to, order, &on_cycle);
    cr_expect_eq(on_cycle, -1);
    for (int32_t i = 0; i < 4; i++)
        place[order[i]] = i;
    for (int i = 0; i < 4; i++)
        cr_expect_lt(place[from[i]], place[to[i]]);
}

Test(digraph, the_smallest_vertex_on_a_cycle_is_named) {
    /* 0 -> 3 -> 2 -> 4 -> 3: the cycle is 2 3 4; 0 only leads to it. */
    int32_t from[] = {0, 3, 2, 4}, to[] = {3, 2, 4, 3}, order[5] = {9}, on_cycle;
    OK(cleave_digraph_order, 5, 4, from, to, order, &on_cycle);
    cr_expect_eq(on_cycle, 2);
    cr_expect_eq(order[0], 9, "order is not written");
}

Test(digraph, an_edge_to_itself_is_a_cycle) {
    int32_t from[] = {1}, to[] = {1}, order[2], on_cycle;
    OK(cleave_digraph_order, 2, 1, from, to, order, &on_cycle);
    cr_expect_eq(on_cycle, 1);
}

Test(digraph, a_vertex_out_of_range_is_an_error) {
    int32_t from[] = {0}, to[] = {2}, order[2], on_cycle;
    cleave_error error = {""};
    cr_expect_eq(cleave_digraph_order(2, 1, from, to, order, &on_cycle, &error), CLEAVE_FAILED);
    cr_expect_str_eq(error.message, "edge 0 from 0 to 2 among 2 vertices");
}

Test(digraph, no_vertices_are_in_order) {
    int32_t on_cycle = 3;
    OK(cleave_digraph_order, 0, 0, NULL, NULL, NULL, &on_cycle);
    cr_expect_eq(on_cycle, -1);
}

Test(digraph, components_ignore_direction_and_are_numbered_by_their_smallest_vertex) {
    /* {0, 4}, {1, 3}, {2} */
    int32_t from[] = {4, 1}, to[] = {0, 3}, component[5], n;
    int32_t expected[] = {0, 1, 2, 1, 0};
    OK(cleave_digraph_components, 5, 2, from, to, component, &n);
    cr_expect_eq(n, 3);
    for (int i = 0; i < 5; i++)
        cr_expect_eq(component[i], expected[i]);
}
