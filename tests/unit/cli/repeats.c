/* Names of layers, told once. */
#include "cli/repeats.h"

#include <criterion/criterion.h>

static cleave_arena arena;
static repeats found;

static void find(const char *const *names, const char *const *kinds, int32_t n) {
    cleave_error error;
    cr_assert_eq(repeats_find(names, kinds, n, &arena, &found, &error), CLEAVE_OK);
    cr_assert_leq(found.n, n);
}

static void expect(int32_t at, const char *name, int32_t first, int32_t count) {
    cr_assert_lt(at, found.n);
    cr_expect_str_eq(found.items[at].name, name);
    cr_expect_eq(found.items[at].first, first, "%s begins at %d", name, found.items[at].first);
    cr_expect_eq(found.items[at].count, count, "%s stands for %d", name, found.items[at].count);
}

/* Layers repeat more often than what a layer has two of. */
Test(repeats, the_number_that_varies_most_is_the_range) {
    static const char *const names[] = {"in",      "l.0.a_1", "l.0.a_2", "l.1.a_1",
                                        "l.1.a_2", "l.2.a_1", "l.2.a_2", "out"};
    static const char *const kinds[] = {"", "", "", "", "", "", "", ""};
    static const int32_t of[] = {0, 1, 2, 1, 2, 1, 2, 3};
    find(names, kinds, 8);
    cr_expect_eq(found.n, 4);
    expect(0, "in", 0, 1);
    expect(1, "l.[0-2].a_1", 1, 3);
    expect(2, "l.[0-2].a_2", 2, 3);
    expect(3, "out", 7, 1);
    for (int i = 0; i < 8; i++)
        cr_expect_eq(found.of[i], of[i], "name %d is in %d", i, found.of[i]);
    cleave_arena_free(&arena);
}

Test(repeats, what_is_of_another_kind_stays_out_of_the_range) {
    static const char *const names[] = {"h.9", "h.0", "h.1", "h.2", "h.10", "h.4", "h.5"};
    static const char *const kinds[] = {"x", "x", "x", "x", "x", "y", "x"};
    find(names, kinds, 7);
    cr_expect_eq(found.n, 2);
    expect(0, "h.[0-2,5,9-10]", 0, 6);
    expect(1, "h.4", 5, 1);
    cleave_arena_free(&arena);
}

/* Two are read as quickly as a range; "01" and a number of ten digits are no numbers. */
Test(repeats, few_and_odd_names_stay_as_they_are) {
    static const char *const names[] = {
        "c1", "c2", "x01", "x02", "x03", "y1234567890", "y1234567891", "y1234567892", "", "z", "z"};
    static const char *const kinds[] = {"", "", "", "", "", "", "", "", "", "", ""};
    find(names, kinds, 11);
    cr_expect_eq(found.n, 11);
    for (int32_t i = 0; i < 11; i++)
        expect(i, names[i], i, 1);
    find(names, kinds, 0);
    cr_expect_eq(found.n, 0);
    cleave_arena_free(&arena);
}
