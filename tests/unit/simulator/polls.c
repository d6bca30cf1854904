/* By how much polls make messages late: numbers derived by hand. */
#include "simulator/step/polls.h"

#include <criterion/criterion.h>

/* Device 0 works from 0 to 100 in four pieces of 25, then to 160 in three of 20, is idle, and works
   from 200 to 300 in one piece.  Device 1 works from 0 to 1000 in ten pieces of 100.  Message 0
   goes from 0 to 1 and waits for two pieces of its sender; message 1 from 1 to 0 waits for one of
   its sender and two of its receiver; message 2 is like message 0, and the work of its sender from
   200 on waits for it. */
static int32_t run_start[] = {0, 2, 3}, run_first[] = {0, 2, 3, 4}, run_of[] = {0, 0, 1, 2, 3};
static int64_t sum[] = {0, 100, 160, 260, 1260};
static cleave_work_run runs[] = {{.begin = 0, .end = 160},
                                 {.begin = 200, .end = 300, .before = 40, .after = 40},
                                 {.begin = 0, .end = 1000, .before = -260, .after = -260}};
static int32_t pieces[] = {4, 3, 1, 10};
static cleave_end_polls ends[] = {{2, 0, 3, 2}, {0, 1, 4, 3}, {1, 1, 4, 3},
                                  {2, 0, 3, 0}, {2, 0, 2, 2}, {0, 1, 4, 3}};
static const cleave_poll_profile profile = {
    {run_start, run_first, run_of, sum, runs}, pieces, ends};

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
    cr_expect_eq(cleave_poll_delay(&profile, 2, 150), 10);
    cr_expect_eq(cleave_poll_delay(&profile, 2, 220), 0);
}

/* The work from 0 to 100 is taken from for 50, so it ends at 150, and the next at 210. */
Test(polls, pieces_are_longer_where_communication_takes_the_processor) {
    cleave_work_run longer[] = {{.begin = 0, .end = 210, .before = 0, .after = 50, .longer = 0},
                                {.begin = 250, .end = 350, .before = 90, .after = 90},
                                runs[2]};
    cleave_poll_profile taken = profile;
    taken.times.runs = longer;
    cr_expect_eq(cleave_poll_delay(&taken, 0, 50), 75);  /* 2 of 37.5 */
    cr_expect_eq(cleave_poll_delay(&taken, 0, 160), 40); /* 2 of 20 */
    cr_expect_eq(cleave_poll_delay(&taken, 0, 140), 44); /* 0.27 of 37.5, 1.73 of 20 */
}

/* It is only where the search begins. */
Test(polls, how_far_a_device_had_come_does_not_matter) {
    for (int64_t posted = 0; posted < 400; posted += 7) {
        int64_t delay = cleave_poll_delay(&profile, 0, posted);
        for (int32_t near = 0; near <= 3; near++) {
            cleave_end_polls moved[] = {{2, 0, 3, near}, {0, 1, 4, 3}};
            cleave_poll_profile other = profile;
            other.ends = moved;
            cr_expect_eq(cleave_poll_delay(&other, 0, posted), delay, "posted at %d, place %d",
                         (int)posted, (int)near);
        }
    }
}
