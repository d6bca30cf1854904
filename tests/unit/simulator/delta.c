/* Delta simulation on steps worked out by hand: times, how little is simulated, what is refused. */
#include "../../support/ok.h"
#include "../../support/put_fragments.h"

#include <criterion/criterion.h>
#include <string.h>

enum { W = CLEAVE_PRICED_WORK, P = CLEAVE_PRICED_POST, A = CLEAVE_PRICED_WAIT_ARRIVAL };
enum { M = CLEAVE_PRICED_MARK, S = CLEAVE_PRICED_SYNC };
enum { J = CLEAVE_PRICED_JOIN, T = CLEAVE_PRICED_AWAIT };
enum { N_SLOTS = 10 };

/* A fragment with one message over link 0 that takes 30, one collective of two on no link that
   takes 40, and a mark, for those items that want them. */
typedef struct sample {
    cleave_priced_fragment fragment;
    cleave_priced_chunk chunks[2];
    uint8_t kind[16];
    int32_t queue[16], subject[16];
    int64_t duration[16];
    int32_t hop_start[2], hop_link[1], joins[1], link_start[2];
    int64_t serialization[1], busy[1], rest[1];
} sample;

static void sample_begin(sample *s, int32_t slot) {
    *s = (sample){.hop_start = {0, 1}, .serialization = {30}, .joins = {2}, .busy = {40}};
    s->fragment = (cleave_priced_fragment){.n_chunks = 1,
                                           .n_messages = 1,
                                           .n_collectives = 1,
                                           .n_marks = 1,
                                           .chunks = s->chunks,
                                           .kind = s->kind,
                                           .queue = s->queue,
                                           .subject = s->subject,
                                           .duration = s->duration,
                                           .hop_start = s->hop_start,
                                           .hop_link = s->hop_link,
                                           .hop_serialization = s->serialization,
                                           .collective_joins = s->joins,
                                           .collective_busy = s->busy,
                                           .collective_rest = s->rest,
                                           .collective_link_start = s->link_start};
    s->chunks[0].slot = slot;
}

static void item(sample *s, int kind, int32_t queue, int64_t duration) {
    int32_t i = s->fragment.n_items++;
    s->kind[i] = (uint8_t)kind;
    s->queue[i] = queue;
    s->subject[i] = kind == W ? -1 : 0;
    s->duration[i] = duration;
    s->chunks[s->fragment.n_chunks - 1].n_items++;
}

static void next_chunk(sample *s, int32_t slot) {
    s->chunks[s->fragment.n_chunks++] =
        (cleave_priced_chunk){.slot = slot, .first_item = s->fragment.n_items};
}

/* One link with a latency of 7, a place for every slot. */
static cleave_delta *make_of(int32_t n_devices) {
    cleave_delta *delta;
    const cleave_delta_shape shape = {.n_places = N_SLOTS,
                                      .n_slots = N_SLOTS,
                                      .n_devices = n_devices,
                                      .n_links = 1,
                                      .link_latency = (int64_t[]){7}};
    OK(cleave_delta_create, &shape, &delta);
    cleave_delta_be_eager(delta);
    return delta;
}

static cleave_delta *make(void) { return make_of(2); }

static put_fragments made; /* each test is a process of its own */

static void put(cleave_delta *delta, int32_t place, const sample *s) {
    OK(put_fragment, &made, delta, place, s == NULL ? NULL : &s->fragment);
}

static void destroy(cleave_delta *delta) {
    cleave_delta_destroy(delta);
    put_fragments_free(&made);
}

static int64_t run(cleave_delta *delta) {
    int64_t step;
    OK(cleave_delta_run_below, delta, INT64_MAX, &step);
    cr_assert_eq(step, cleave_delta_full(delta));
    return step;
}

/* Device 0 works, then sends to device 1, which then works 10. */
static void sample_of_chain(sample *s, int32_t slot, int64_t work) {
    sample_begin(s, slot);
    item(s, W, 0, work);
    item(s, P, 0, 0);
    item(s, P, 2, 0);
    item(s, A, 2, 0);
    item(s, W, 2, 10);
}

static cleave_delta *make_chain(void) {
    cleave_delta *delta = make();
    for (int32_t slot = 0; slot < N_SLOTS; slot++) {
        sample s;
        sample_of_chain(&s, slot, 100);
        put(delta, slot, &s);
    }
    return delta;
}

Test(delta, without_fragments_a_step_takes_no_time) {
    cleave_delta *delta = make();
    sample empty = {.fragment = {.n_items = 0}};
    cr_expect_eq(run(delta), 0);
    cleave_delta_accept(delta);
    cleave_delta_reject(delta);
    put(delta, 0, &empty);
    cr_expect_eq(run(delta), 0);
    destroy(delta);
}

/* Each slot adds 100 on device 0; the last message leaves at 1000, takes 30 and 7, and is followed
   by 10: 1047.  With 30 more in the first slot all else is 30 later: that slot is simulated, the
   nine others are jumped over. */
Test(delta, a_change_that_moves_all_by_one_amount_simulates_one_slot) {
    cleave_delta *delta = make_chain();
    sample s;
    cr_expect_eq(run(delta), 1047);
    cleave_delta_accept(delta);
    cleave_delta_counts before = cleave_delta_count(delta);
    sample_of_chain(&s, 0, 130);
    put(delta, 0, &s);
    cr_expect_eq(run(delta), 1077);
    cleave_delta_counts after = cleave_delta_count(delta);
    cr_expect_eq(after.slots - before.slots, 1);
    cr_expect_eq(after.slots_jumped - before.slots_jumped, N_SLOTS - 1);
    cleave_delta_reject(delta);
    cr_expect_eq(run(delta), 1047);
    destroy(delta);
}

/* Two messages of the communication lanes, the first 0..30 on the link; device 0 works 35 there and
   posts the second, 35..45.  A message of the main lanes, ready at 0, waits for as long as a run of
   these took, 30, and arrives at 30 + 30 + 7.  Where the first message takes 20, that is 20, and
   all that the link knows but this is what it was. */
Test(delta, what_a_link_knows_of_its_runs_counts) {
    cleave_delta *delta = make();
    sample first, second, last;
    sample_begin(&first, 0);
    item(&first, P, 1, 0);
    item(&first, P, 3, 0);
    put(delta, 0, &first);
    sample_begin(&second, 1);
    second.serialization[0] = 10;
    item(&second, W, 1, 35);
    item(&second, P, 1, 0);
    item(&second, P, 3, 0);
    put(delta, 1, &second);
    sample_begin(&last, 2);
    item(&last, P, 0, 0);
    item(&last, P, 2, 0);
    item(&last, A, 2, 0);
    put(delta, 2, &last);
    for (int32_t slot = 3; slot < N_SLOTS; slot++) {
        sample rest;
        sample_begin(&rest, slot);
        for (int k = 0; k < 16; k++)
            item(&rest, W, 2, 1);
        put(delta, slot, &rest);
    }
    cr_expect_eq(run(delta), 67 + 112);
    cleave_delta_accept(delta);
    first.serialization[0] = 20;
    put(delta, 0, &first);
    cr_expect_eq(run(delta), 57 + 112);
    destroy(delta);
}

/* What was accepted in the middle is where the next change starts: 1047 + 30 + 5. */
Test(delta, what_was_jumped_over_is_a_base_like_any_other) {
    cleave_delta *delta = make_chain();
    sample s;
    sample_of_chain(&s, 0, 130);
    cleave_delta_accept(delta); /* runs, since nobody has */
    put(delta, 0, &s);
    cleave_delta_accept(delta);
    sample_of_chain(&s, 5, 105);
    put(delta, 5, &s);
    cr_expect_eq(run(delta), 1082);
    cleave_delta_reject(delta);
    put(delta, 9, NULL); /* one slot less: 1077 - 100 */
    cr_expect_eq(run(delta), 977);
    destroy(delta);
}

/* Main works 100 and is marked, then 100 more.  Communication waits for the mark, 100, and works
   30, which the second piece of main work pays for: 230.  With the mark one piece later it waits
   until 200, works until 230 and nobody pays. */
/* Device 0 works and sends to device 1, which has worked 137: what was sent after 100 is there just
   then, and after 130 it waits until 167.  Then both work 100 in each of eight slots. */
static cleave_delta *make_idle(const sample *last) {
    cleave_delta *delta = make();
    for (int32_t slot = 1; slot < N_SLOTS - 1; slot++) {
        sample s;
        sample_begin(&s, slot);
        for (int i = 0; i < 4; i++) {
            item(&s, W, 0, 25);
            item(&s, W, 2, 25);
        }
        put(delta, slot, &s);
    }
    put(delta, N_SLOTS - 1, last);
    return delta;
}

static void put_idle(cleave_delta *delta, int64_t work) {
    sample s;
    sample_begin(&s, 0);
    item(&s, W, 0, work);
    item(&s, W, 2, 137);
    item(&s, P, 0, 0);
    item(&s, P, 3, 0);
    item(&s, A, 2, 0);
    put(delta, 0, &s);
}

static int64_t count_slots(cleave_delta *delta, int64_t expected) {
    int64_t before = cleave_delta_count(delta).slots;
    cr_expect_eq(run(delta), expected);
    return cleave_delta_count(delta).slots - before;
}

/* Devices 0 and 1 work in slot 0, then one sends to the other, while device 2 works 10.  A message
   that leaves at 100 arrives at 137; with 60 of work it leaves at 60, and slot 1 is jumped over,
   two of its devices 40 earlier and one not.  After that is accepted devices 2 and 3 take the link
   until 80: the message waits for it and arrives at 117.  That its head met the link at 100 would
   be long enough after 80, but is no longer true. */
Test(delta, when_a_head_met_a_link_moves_with_its_devices) {
    cleave_delta *delta = make_of(4);
    sample work, message, other;
    sample_begin(&message, 1);
    item(&message, P, 0, 0);
    item(&message, P, 2, 0);
    next_chunk(&message, 2);
    item(&message, A, 2, 0);
    put(delta, 1, &message);
    sample_begin(&other, 1);
    item(&other, W, 4, 10);
    put(delta, 3, &other);
    for (int64_t duration = 100; duration >= 60; duration -= 40) {
        sample_begin(&work, 0);
        item(&work, W, 0, duration);
        item(&work, W, 2, duration);
        put(delta, 0, &work);
        cr_expect_eq(count_slots(delta, duration + 37), duration == 100 ? 3 : 1);
        cleave_delta_accept(delta);
    }
    sample_begin(&other, 0);
    other.serialization[0] = 80;
    item(&other, P, 4, 0);
    item(&other, P, 6, 0);
    put(delta, 2, &other);
    cr_expect_eq(run(delta), 117);
    destroy(delta);
}

/* The communication lane works 10 at the end, as of time 0, since it had nothing to do before.
   Base: device 1 never waited and pays them, 137 + 800 + 10.  Later it has waited since, and pays
   none, 167 + 800: only this slot asks for that, and the eight before it follow. */
Test(delta, when_a_lane_last_waited_matters_only_to_what_asks_for_it) {
    sample last;
    sample_begin(&last, N_SLOTS - 1);
    item(&last, W, 3, 10);
    cleave_delta *delta = make_idle(&last);
    put_idle(delta, 100);
    cr_expect_eq(run(delta), 947);
    cleave_delta_accept(delta);
    put_idle(delta, 130);
    cr_expect_eq(count_slots(delta, 967), 2);
    cleave_delta_accept(
        delta); /* slots jumped over know nothing of the wait, and must not matter */
    put(delta, 4, NULL);
    cr_expect_eq(run(delta), 867);
    destroy(delta);
}

/* Here the communication lane waits for the main lane first, and so is past all its waits: 937 + 0
   of the mark, and 10 more on either lane; 30 later after the change, in all slots. */
Test(delta, what_the_communication_lane_has_passed_is_forgotten) {
    sample last;
    sample_begin(&last, N_SLOTS - 1);
    item(&last, M, 2, 0);
    item(&last, S, 3, 0);
    item(&last, W, 3, 10);
    cleave_delta *delta = make_idle(&last);
    put_idle(delta, 100);
    cr_expect_eq(run(delta), 947);
    cleave_delta_accept(delta);
    put_idle(delta, 130);
    cr_expect_eq(count_slots(delta, 977), 1);
    cleave_delta_accept(delta);
    put_idle(delta, 100);
    cr_expect_eq(count_slots(delta, 947), 1);
    destroy(delta);
}

/* Device 0 works 100 and posts a message to itself that arrives at 100 + 500 + 7; then it waits for
   what devices 1 and 2 do together, 200 + 40, and only then for the message: 607 + 10.  With 60 of
   work the message is 40 earlier, the second wait is not, and by then the device is no more: yet
   what it waits for last is. */
Test(delta, times_are_moved_as_their_slots_were_not_as_devices_are_now) {
    cleave_delta *delta = make_of(3);
    sample work, message, together;
    sample_begin(&message, 1);
    message.serialization[0] = 500;
    item(&message, P, 0, 0);
    item(&message, P, 0, 0);
    next_chunk(&message, 3);
    item(&message, A, 0, 0);
    item(&message, W, 0, 10);
    put(delta, 1, &message);
    sample_begin(&together, 1);
    item(&together, J, 2, 0);
    item(&together, J, 4, 0);
    next_chunk(&together, 2);
    item(&together, T, 0, 0);
    put(delta, 2, &together);
    for (int64_t duration = 100; duration >= 60; duration -= 40) {
        sample_begin(&work, 0);
        item(&work, W, 0, duration);
        item(&work, M, 0, 0); /* the communication lane is past the time that it never waited */
        item(&work, S, 1, 0);
        item(&work, W, 2, 200);
        put(delta, 0, &work);
        cr_expect_eq(count_slots(delta, duration + 517), duration == 100 ? 4 : 1);
        cleave_delta_accept(delta);
    }
    destroy(delta);
}

/* Devices 0 and 1 work 100 and 200 in every slot, apart.  With 40 less in the first one slot is
   simulated; all others follow part by part, and the slower device ends when it did. */
Test(delta, slots_in_a_row_follow_part_by_part) {
    cleave_delta *delta = make();
    sample s;
    for (int32_t slot = 0; slot < N_SLOTS; slot++) {
        sample_begin(&s, slot);
        item(&s, W, 0, 100);
        item(&s, W, 2, 200);
        put(delta, slot, &s);
    }
    cr_expect_eq(run(delta), N_SLOTS * 200);
    cleave_delta_accept(delta);
    sample_begin(&s, 0);
    item(&s, W, 0, 60);
    item(&s, W, 2, 200);
    put(delta, 0, &s);
    cr_expect_eq(count_slots(delta, N_SLOTS * 200), 1);
    cleave_delta_accept(delta);
    sample_begin(&s, N_SLOTS - 1); /* device 0 has come to 860 */
    item(&s, W, 0, 2000);
    put(delta, N_SLOTS - 1, &s);
    cr_expect_eq(count_slots(delta, 2860), 1);
    destroy(delta);
}

Test(delta, marks_join_the_lanes_of_a_device) {
    cleave_delta *delta = make();
    sample s;
    for (int late = 0; late < 2; late++) {
        sample_begin(&s, 0);
        item(&s, W, 0, 100);
        if (late)
            item(&s, W, 0, 100);
        item(&s, M, 0, 0);
        next_chunk(&s, 1);
        item(&s, S, 1, 0);
        item(&s, W, 1, 30);
        if (!late)
            item(&s, W, 0, 100);
        put(delta, 0, &s);
        cr_expect_eq(run(delta), 230);
        cleave_delta_accept(delta);
    }
    destroy(delta);
}

static void refuse_as(cleave_status status, cleave_delta *delta, const sample *s, const char *why) {
    cleave_error error = {""};
    cr_expect_eq(put_fragment(&made, delta, 0, &s->fragment, &error), status, "%s", why);
    cr_expect_neq(strstr(error.message, why), NULL, "'%s' does not say '%s'", error.message, why);
}

static void refuse(cleave_delta *delta, const sample *s, const char *why) {
    refuse_as(CLEAVE_FAILED, delta, s, why);
}

Test(delta, broken_fragments_are_refused_and_change_nothing) {
    cleave_delta *delta = make_chain();
    sample s;
    sample_begin(&s, 0);
    item(&s, P, 0, 0);
    next_chunk(&s, 1);
    item(&s, P, 2, 0);
    refuse(delta, &s, "not completed in the chunk");
    sample_begin(&s, 0);
    item(&s, J, 0, 0);
    refuse(delta, &s, "not completed in the chunk");
    sample_begin(&s, 0);
    item(&s, T, 0, 0);
    refuse(delta, &s, "before what it waits for");
    sample_begin(&s, 0);
    item(&s, M, 0, 0);
    item(&s, S, 2, 0);
    refuse(delta, &s, "other lane");
    sample_begin(&s, 0);
    item(&s, W, 4, 1);
    refuse(delta, &s, "on queue 4 of 4");
    sample_begin(&s, 0);
    item(&s, W, 0, -1);
    refuse(delta, &s, "duration");
    sample_begin(&s, N_SLOTS);
    item(&s, W, 0, 1);
    refuse(delta, &s, "not within the step");
    sample_begin(&s, 0);
    item(&s, W, 0, INT64_MAX / 2);
    refuse_as(CLEAVE_BAD_INPUT, delta, &s, "26 days");
    s.hop_link[0] = 1;
    s.duration[0] = 0;
    refuse(delta, &s, "on link 1 of 1");
    cr_expect_eq(run(delta), 1047);
    destroy(delta);
}
