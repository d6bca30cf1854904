/* An arena that is reset hands out its memory again, zeroed, and asks for no more. */
#include "base/arena.h"

#include <criterion/criterion.h>
#include <stdlib.h>
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

/* That it is freed, and once, the address sanitizer sees. */
Test(arena_reset, adopted_memory_is_the_arenas_until_it_is_reset_or_freed) {
    cleave_arena arena = {0};
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 10; i++) {
            char *memory = malloc(1000);
            cr_assert_not_null(memory);
            cr_assert(cleave_arena_adopt(&arena, memory, 1000));
            memset(memory, round, 1000);
        }
        cr_expect_geq(arena.used_bytes, 10000);
        if (round < 2)
            cleave_arena_reset(&arena);
        else
            cleave_arena_free(&arena);
        cr_expect_eq(arena.used_bytes, 0);
        cr_expect_null(arena.adopted);
    }
}
