/* What DTensor sends: one tensor of 64 bytes on a mesh of 2 x 2 devices. */
#include "graph/export/moves.h"

#include <criterion/criterion.h>

enum { WHOLE = CLEAVE_LIE_WHOLE, PARTIAL = CLEAVE_LIE_PARTIAL };
static const cleave_mesh mesh = {.n = 2, .size = {2, 2}};

static double move(int32_t from_outer, int32_t from_inner, int32_t to_outer, int32_t to_inner) {
    const cleave_lie from = {.of = {from_outer, from_inner}}, to = {.of = {to_outer, to_inner}};
    return cleave_lie_move_bytes(&mesh, &from, &to, 64);
}

Test(export_moves, what_stays_or_is_cut_from_the_whole_sends_nothing) {
    cr_expect_eq(move(0, 1, 0, 1), 0);
    cr_expect_eq(move(PARTIAL, WHOLE, PARTIAL, WHOLE), 0);
    cr_expect_eq(move(WHOLE, WHOLE, 0, 1), 0);
}

/* Two all-reduces of 2 devices, of 64 bytes on each: 4 x (64 + 64), where one of 4 devices sends
   4 x 2 x 3/4 x 64 = 384. */
Test(export_moves, sums_over_two_dimensions_are_two_sums) {
    cr_expect_eq(move(PARTIAL, PARTIAL, WHOLE, WHOLE), 512);
}

/* Half of 64 bytes each way, then an all-reduce of 32: 4 x (32 + 32). */
Test(export_moves, a_sum_in_shares_halves_what_follows) {
    cr_expect_eq(move(PARTIAL, PARTIAL, 0, WHOLE), 4 * (32 + 32));
    cr_expect_eq(move(PARTIAL, WHOLE, 0, WHOLE), 4 * 32);
}

/* Blocks of 16: half of each is exchanged. */
Test(export_moves, another_dimension_is_an_exchange) { cr_expect_eq(move(0, 1, 0, 0), 4 * 8); }

/* The inner cut is of half a tensor: it can't stay when the outer one goes.  16 are gathered, then
   32, and the whole is cut anew. */
Test(export_moves, an_inner_block_is_gathered_before_the_outer_one_changes) {
    cr_expect_eq(move(0, 0, WHOLE, 0), 4 * (16 + 32));
}

/* Inner first made whole: 16 are gathered; of blocks of 32 a half is exchanged; then cut. */
Test(export_moves, dimensions_that_change_places_are_gathered_between) {
    cr_expect_eq(move(0, 1, 1, 0), 4 * (16 + 16));
}

/* One of four devices has 64 bytes: it keeps a half and sends one, then two do so with halves of
   32; or it sends all of it, and then two do; back, halves come to one.  What is whole is there. */
Test(export_moves, what_one_device_has_alone_is_shared_and_given_to_it) {
    const int32_t first = cleave_mesh_alone(0), second = cleave_mesh_alone(1);
    cr_expect_eq(move(first, first, 0, 1), 32 + 2 * 16);
    cr_expect_eq(move(first, second, WHOLE, WHOLE), 64 + 2 * 64);
    cr_expect_eq(move(0, 1, first, first), 2 * 16 + 32);
    cr_expect_eq(move(WHOLE, WHOLE, second, first), 0);
    cr_expect_eq(move(PARTIAL, WHOLE, first, WHOLE), 2 * 64);
    cr_expect_eq(move(first, 0, second, 0), 2 * 32);
}

/* Rows lie by the inner dimension with the first of the outer.  To have them by both, blocks of a
   half must be whole on both: 32 are gathered by each of two, then halves shared with two, and cut.
 */
Test(export_moves, who_shares_rows_that_are_cut_has_them_whole_first) {
    cr_expect_eq(move(cleave_mesh_alone(0), 0, 0, 0), 2 * 32 + 2 * 32);
}
