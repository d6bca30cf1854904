#include "base/bf16.h"

#include <criterion/criterion.h>
#include <math.h>

/* 7 bits behind the point: 1 + 2^-7 is the number next to 1. */
Test(bf16, rounds_to_the_nearest_and_ties_to_even) {
    cr_expect_eq(cleave_bf16_round(1.0f), 0x3f80);
    cr_expect_eq(cleave_bf16_round(1 + 0x1p-8f), 0x3f80);            /* a tie, down to even */
    cr_expect_eq(cleave_bf16_round(1 + 0x1p-8f + 0x1p-20f), 0x3f81); /* above it */
    cr_expect_eq(cleave_bf16_round(1 + 3 * 0x1p-8f), 0x3f82);        /* a tie, up to even */
    cr_expect_eq(cleave_bf16_round(-(1 + 3 * 0x1p-8f)), 0xbf82);
    cr_expect_eq(cleave_bf16_round(0x1.fffffep127f), 0x7f80); /* beyond all: infinite */
    cr_expect(isnan(cleave_bf16_widen(cleave_bf16_round(nanf("")))));
}

Test(bf16, widens_exactly) {
    for (uint32_t x = 0; x < 0x10000; x++) {
        float wide = cleave_bf16_widen((uint16_t)x);
        cr_assert(isnan(wide) || cleave_bf16_round(wide) == x, "%x", x);
    }
}
