/* By how much polls make messages late: numbers derived by hand. */
#include "simulator/polls.h"

#include <criterion/criterion.h>

/* Device 0 works from 0 to 100 in four pieces of 25, then to 160 in three of 20, is idle, and works
   from 200 to 300 in one piece.  Device 1 works from 0 to 1000 in ten pieces of 100.  Message 0
   goes from 0 to 1 and waits for two pieces of its sender; message 1 from 1 to 0 waits for one of
   its sender and two of its receiver; message 2 is like message 0, and the work of its sender from
   100 on waits for it. */
static int32_t lane_start[] = {0, 3, 4}, pieces[] = {4, 3, 1, 10};
static int64_t begin[] = {0, 100, 200, 0}, end[] = {100, 160, 300, 1000};
static int32_t source[] = {0, 1, 0}, destination[] = {1, 0, 1};
static int32_t source_until[] = {3, 4, 1}, destination_until[] = {4, 3, 4};
static double sending[] = {2, 1, 2}, receiving[] = {0, 2, 0};
static const cleave_poll_profile profile = {
    lane_start,        begin,   end,      pieces, source, destination, source_until,
    destination_until, sending, receiving};

Test(polls, a_message_waits_for_pieces_of_its_sender) {
    cr_expect_eq(cleave_poll_delay(&profile, 0, 50), 50); /* both within the first work */
    cr_expect_eq(cleave_poll_delay(&profile, 0, 90), 42); /* 0.4 of 25, then 1.6 of 20 */
}

Test(polls, who_waits_polls_all_the_time) {
    cr_expect_eq(cleave_poll_delay(&profile, 0, 150), 10); /* half a piece, then nothing to do */
    cr_expect_eq(cleave_poll_delay(&profile, 0, 170), 0);
    cr_expect_eq(cleave_poll_delay(&profile, 0, 300), 0);
}

Test(polls, of_both_ends_the_later_counts) {
    cr_expect_eq(cleave_poll_delay(&profile, 1, 50), 100); /* sender 100, receiver 50 */
    cr_expect_eq(cleave_poll_delay(&profile, 1, 980), 20); /* until the sender waits */
}

Test(polls, work_that_waits_for_a_message_does_not_delay_it) {
    cr_expect_eq(cleave_poll_delay(&profile, 2, 50), 50);
    cr_expect_eq(cleave_poll_delay(&profile, 2, 90), 10);
    cr_expect_eq(cleave_poll_delay(&profile, 2, 120), 0);
}
