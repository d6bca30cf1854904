/* How long a message of the main lane waits for a link that the communication lane uses: numbers
   derived by hand. */
#include "simulator/scan/scan_rule.h"

#include <criterion/criterion.h>

/* Four messages of 10, which come to the link one `apart` from the other; when one of the main lane
   begins that comes at 5, and the end of the four. */
static int64_t begin_behind_four(int64_t apart, int64_t *end) {
    cleave_scan_link link = {0};
    for (int64_t i = 0; i < 4; i++) {
        int64_t head = i * apart, tail = head;
        cleave_scan_serve(&link, 1, 10, 0, &head, &tail);
    }
    int64_t head = 5, tail = head, begin = cleave_scan_serve(&link, 0, 3, 0, &head, &tail);
    *end = link.free[1];
    return begin;
}

Test(scan_rule, what_is_posted_at_once_is_waited_for_together) {
    int64_t end;
    cr_expect_eq(begin_behind_four(0, &end), 40);
    cr_expect_eq(end, 43);
}

/* Each comes when the one before has gone through: no two of them queue up. */
Test(scan_rule, of_slices_one_after_the_other_one_is_waited_for) {
    int64_t end;
    cr_expect_eq(begin_behind_four(10, &end), 15);
    cr_expect_eq(end, 43);
}

/* Each comes while the one before is on its way: two at a time, from 9 i to 10 i + 10. */
Test(scan_rule, of_slices_with_a_credit_more_what_has_queued_up_is_waited_for) {
    int64_t end;
    cr_expect_eq(begin_behind_four(9, &end), 5 + 13); /* the last: from 27 to 40 */
    cr_expect_eq(end, 43);
}
