/* Task graphs whose makespans are worked out by hand, and files that are refused. */
#include "simulator/events/tasks.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

static int64_t makespan(const char *text) {
    cleave_arena arena = {0};
    cleave_tasks tasks;
    cleave_tasks_timeline timeline;
    OK(cleave_tasks_parse, text, strlen(text), "test.dag", &arena, &tasks);
    OK(cleave_tasks_simulate, &tasks, &arena, &timeline);
    cleave_arena_free(&arena);
    return timeline.makespan;
}

static const int64_t second = INT64_C(1000000000000);

/* 1 s, then 1e9 bytes at 1e9 B/s with 0.1 s latency, then 2 s: 1 + 1.1 + 2. */
Test(tasks, chain_adds_up) {
    cr_expect_eq(makespan("node 2\nlink 0 1 1e9 0.1\nexec 0 0 1\ncomm 1 0 1 1000000000\n"
                          "exec 2 1 2\ndep 0 1\ndep 1 2\n"),
                 41 * second / 10);
}

/* After 1 s on device 0: there 3 s more (ends 4); or 2e9 bytes over (2 s), 0.5 s on device 1, 1e9
   bytes back (1 s): ends 4.5.  Then 1 s: 5.5. */
Test(tasks, diamond_waits_for_its_longer_side) {
    cr_expect_eq(makespan("# a diamond\nnode 2\nlink 0 1 1e9 0\nlink 1 0 1e9 0\n"
                          "exec 5 0 1\nexec 0 0 1\nexec 1 0 3\ncomm 2 0 1 2000000000\n"
                          "exec 3 1 0.5\ncomm 4 1 0 1000000000\ndep 0 1\ndep 0 2\ndep 2 3\n"
                          "dep 3 4\ndep 1 5\ndep 4 5\n"),
                 55 * second / 10);
}

/* Both transfers are ready at 1 and cross the uplink of device 0, 1 s each, the smaller id first:
   they arrive at 2 and 3; 1 s on device 1 ends at 3, 5 s on device 2 at 8. */
Test(tasks, star_shares_the_uplink) {
    cr_expect_eq(makespan("node 3\nlink 0 3 1e9 0\nlink 3 1 1e9 0\nlink 3 2 1e9 0\nexec 0 0 1\n"
                          "comm 1 0 1 1000000000\ncomm 2 0 2 1000000000\nexec 3 1 1\n"
                          "exec 4 2 5\ndep 0 1\ndep 0 2\ndep 1 3\ndep 2 4\n"),
                 8 * second);
}

/* One link, two transfers of 1 s and 2 s, ready at once: the smaller id goes first, and 0.25 s
   after the second has left the link it is there: 3.25. */
Test(tasks, transfers_on_one_link_take_turns) {
    cr_expect_eq(makespan("node 2\nlink 0 1 1e9 0.25\ncomm 0 0 1 1000000000\n"
                          "comm 1 0 1 2000000000\n"),
                 325 * second / 100);
}

/* 4e9 bytes over 2e9 B/s (2 s, latency 0.5) and 1e9 B/s (4 s, latency 0.25): the second link starts
   at 0.5 and is free at 4.5, and 0.25 later all is there: 4.75.  With the slow link first it is
   done with link one at 4, and 0.25 + 0.5 later there: 4.75, not before. */
Test(tasks, two_hops_cut_through_a_switch) {
    cr_expect_eq(makespan("node 2\nlink 0 2 2e9 0.5\nlink 2 1 1e9 0.25\ncomm 0 0 1 4000000000\n"),
                 475 * second / 100);
    cr_expect_eq(makespan("node 2\nlink 0 2 1e9 0.25\nlink 2 1 2e9 0.5\ncomm 0 0 1 4000000000\n"),
                 475 * second / 100);
}

/* With two switches the route must be named; over 3 it takes 1 s, over 2 it would take 2. */
Test(tasks, via_names_the_route) {
    cr_expect_eq(makespan("node 2\nlink 0 2 5e8 0\nlink 2 1 5e8 0\nlink 0 3 1e9 0\n"
                          "link 3 1 1e9 0\ncomm 0 0 1 1000000000 3\n"),
                 second);
}

/* Ready at 0 both; the device takes the smaller id, 2 s, then the other, 3 s; what waits for the
   first starts at 2 elsewhere: 2 + 4. */
Test(tasks, device_runs_one_at_a_time_by_id) {
    cr_expect_eq(makespan("exec 1 0 3\nexec 0 0 2\nexec 2 1 4\ndep 0 2\n"), 6 * second);
}

/* At 0, task by task: 0 and then 1 take no time, so 3 is next, and device 2 is its until 2; then 4
   takes no time, and 2 waits for that device although its id is smaller.  5 follows 3: 2 + 4. Level
   by level 2 would come before 3, and 5 would end at 7. */
Test(tasks, what_takes_no_time_is_over_before_the_next_is_looked_at) {
    cr_expect_eq(makespan("exec 0 0 0\nexec 1 1 0\nexec 2 2 1\nexec 3 2 2\nexec 4 3 0\n"
                          "exec 5 0 4\ndep 0 1\ndep 1 3\ndep 4 2\ndep 3 5\n"),
                 6 * second);
}

Test(tasks, no_tasks_take_no_time) { cr_expect_eq(makespan("node 4\n"), 0); }

static void expect_refused(const char *text, const char *place) {
    cleave_arena arena = {0};
    cleave_tasks tasks;
    cleave_error error = {""};
    cr_expect_eq(cleave_tasks_parse(text, strlen(text), "test.dag", &arena, &tasks, &error),
                 CLEAVE_BAD_INPUT, "%s", text);
    cr_expect_neq(strstr(error.message, place), NULL, "%s: %s", text, error.message);
    cleave_arena_free(&arena);
}

Test(tasks, wrong_files_are_refused_with_their_line) {
    expect_refused("node 2\nfoo 1\n", "test.dag: line 2: \"foo\"");
    expect_refused("exec 0 0\n", "line 1: 3 fields");
    expect_refused("exec 0 0 -1\n", "line 1: the time \"-1\"");
    expect_refused("exec 0 0 nan\n", "line 1: the time \"nan\"");
    expect_refused("exec 0 0 1x\n", "line 1: the time \"1x\"");
    expect_refused("exec 1 0 1\n", "line 1: the id 1 is not below");
    expect_refused("exec 0 0 1\nexec 0 0 1\n", "the id 0 is that of line");
    expect_refused("node 1\nexec 0 1 1\n", "line 2: 1 is not one of the 1 devices");
    expect_refused("node 2\ncomm 0 0 1 5\n", "line 2: no link and no switch");
    expect_refused("node 2\ncomm 0 0 0 5\n", "line 2: a transfer from device 0 to itself");
    expect_refused("node 2\nlink 0 1 1 0\nlink 0 1 1 0\ncomm 0 0 1 5\n", "line 3: the link");
    expect_refused("node 2\nlink 0 1 0 0\n", "line 2: the bandwidth \"0\"");
    expect_refused("node 2\nlink 0 2 1 0\nlink 2 1 1 0\nlink 0 3 1 0\nlink 3 1 1 0\ncomm 0 0 1 5\n",
                   "line 6: several switches");
    expect_refused("exec 0 0 1\ndep 0 1\n", "line 2: there is no task 1");
    expect_refused("exec 0 0 1\nexec 1 0 1\ndep 0 1\ndep 1 0\n", "waits for ever");
    expect_refused("exec 0 0 1\ndep 0 0\n", "waits for ever");
    expect_refused("exec 0 0 1e9\n", "26 days");
    expect_refused("node 2\nlink 0 1 1e-9 0\ncomm 0 0 1 9223372036854775807\n"
                   "comm 1 0 1 9223372036854775807\ncomm 2 0 1 9223372036854775807\n",
                   "26 days");
}

Test(tasks, zero_bytes_are_refused) {
    cleave_arena arena = {0};
    cleave_tasks tasks;
    cleave_error error = {""};
    cr_expect_eq(cleave_tasks_parse("node 1\n\0\n", 9, "test.dag", &arena, &tasks, &error),
                 CLEAVE_BAD_INPUT);
    cleave_arena_free(&arena);
}
