/* Surroundings of a kernel: in which order memory is used again, and what it holds then. */
#include "exec/measure/surroundings.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static cleave_used_memory used(size_t touched_since) {
    return (cleave_used_memory){.touched_since = touched_since};
}

Test(surroundings, what_was_used_longest_ago_comes_first) {
    cleave_surroundings of = {0};
    const size_t since[] = {5, 0, 70, 5, 6};
    for (size_t i = 0; i < sizeof since / sizeof *since; i++)
        cleave_surroundings_add(&of, used(since[i]));
    cr_assert_eq(of.n, 5);
    for (int i = 0; i + 1 < of.n; i++)
        cr_expect_geq(of.items[i].touched_since, of.items[i + 1].touched_since);
}

/* What a kernel writes over has its values again; what it reads keeps them, near or far. */
Test(surroundings, operands_hold_what_they_have_to) {
    enum { N = 4096 };
    static char over[N], near[N], far[N], values[N];
    cleave_surroundings of = {0};
    cleave_other_memory other;
    memset(over, 1, N);
    memset(near, 2, N);
    memset(far, 3, N);
    memset(values, 4, N);
    cleave_surroundings_add(&of, (cleave_used_memory){over, N, 100, values});
    cleave_surroundings_add(&of, (cleave_used_memory){near, N, 0, NULL});
    cleave_surroundings_add(&of, (cleave_used_memory){far, N, SIZE_MAX, NULL});
    OK(cleave_other_memory_create, &other, &of);
    cr_expect_eq(other.bytes, other.most); /* something is in no cache */
    OK(cleave_surroundings_set, &of, &other);
    for (int i = 0; i < N; i++)
        cr_assert(over[i] == 4 && near[i] == 2 && far[i] == 3, "byte %d", i);
    free(other.memory);
}

/* Between two uses only what lies there is walked, of which the second one's bytes are some: 70
   lines, then 20. */
Test(surroundings, what_is_used_counts_as_touched) {
    enum { LINE = 64 };
    static char near[10 * LINE];
    cleave_surroundings of = {0};
    cleave_other_memory other;
    cleave_surroundings_add(&of, used((size_t)100 * LINE));
    cleave_surroundings_add(&of, (cleave_used_memory){near, sizeof near, (size_t)20 * LINE, NULL});
    OK(cleave_other_memory_create, &other, &of);
    OK(cleave_surroundings_set, &of, &other);
    cr_expect_eq(other.at, (size_t)(70 + 20) * LINE);
    free(other.memory);
}

/* Less is walked where less is touched. */
Test(surroundings, other_memory_is_as_much_as_is_touched) {
    cleave_surroundings of = {0};
    cleave_other_memory other;
    cleave_surroundings_add(&of, used(1000));
    cleave_surroundings_add(&of, used(3000));
    OK(cleave_other_memory_create, &other, &of);
    cr_expect_eq(other.bytes, 3000);
    OK(cleave_surroundings_set, &of, &other);
    free(other.memory);
}
