/* An arena that is reset hands out its memory again, zeroed, and asks for no more. */
#include "base/arena.h"

#include <criterion/criterion.h>
#include <string.h>

Test(arena_reset, the_same_work_gets_the_same_memory_zeroed) {
    cleave_arena arena = {0};
    /* The first round grows block by block, the reset joins the blocks, and from then on every
       round fits into that one. */
    char *place[3] = {NULL};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 100; i++) {
            char *piece = cleave_arena_alloc(&arena, 5000, 1);
            cr_assert_not_null(piece);
            for (int k = 0; k < 5000; k++)
                cr_assert_eq(piece[k], 0);
            memset(piece, 1, 5000);
            place[round] = i == 99 ? piece : place[round];
        }
        cr_expect_eq(arena.used_bytes, 500000);
        cleave_arena_reset(&arena);
        cr_expect_eq(arena.used_bytes, 0);
    }
    cr_expect_eq(place[1], place[2]);
    cleave_arena_free(&arena);
}

Test(arena_reset, an_empty_arena_stays_empty) {
    cleave_arena arena = {0};
    cleave_arena_reset(&arena);
    cr_expect_null(arena.blocks);
}
