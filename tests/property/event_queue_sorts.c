/* The event queue against a look at everything that waits, over random pushes and pops: few times
   and many, far apart and all alike, before and after what has been taken out, in bursts, and a
   queue that runs empty and is used again. */
#include "../support/draws.h"
#include "base/random.h"
#include "simulator/events/event_queue.h"

#include <criterion/criterion.h>

enum { ROOM = 256, N_ROUNDS = 200, N_STEPS = 1500 };

typedef struct model {
    cleave_event waiting[ROOM];
    int32_t n;
} model;

static int32_t least_of(const model *m) {
    int32_t least = 0;
    for (int32_t k = 1; k < m->n; k++)
        if (cleave_event_before(&m->waiting[k], &m->waiting[least]))
            least = k;
    return least;
}

static void push(cleave_event_queue *queue, model *m, int64_t time, int32_t key) {
    cleave_event_queue_push(queue, time, key);
    m->waiting[m->n++] = (cleave_event){.time = time, .key = key};
}

/* Takes one out of both; its time. */
static int64_t pop(cleave_event_queue *queue, model *m, uint64_t round) {
    int32_t least = least_of(m);
    cleave_event expected = m->waiting[least];
    cr_assert(cleave_event_queue_is_due(queue, expected.time));
    cr_assert_not(cleave_event_queue_is_due(queue, expected.time - 1));
    cleave_event found = cleave_event_queue_pop(queue);
    cr_assert(found.time == expected.time && found.key == expected.key,
              "round %d: (%lld, %d) instead of (%lld, %d)", (int)round, (long long)found.time,
              found.key, (long long)expected.time, expected.key);
    m->waiting[least] = m->waiting[--m->n];
    cr_assert_eq(queue->n, m->n);
    cr_assert_leq(queue->n_pool, ROOM);
    return expected.time;
}

Test(event_queue, gives_what_is_least_of_all_that_waits) {
    static cleave_event near[ROOM], pool[ROOM];
    static model m;
    cleave_event_queue queue = {.near = near, .pool = pool};
    for (uint64_t round = seed_from(0); round < seed_end(N_ROUNDS); round++) {
        cleave_random random = {.key = round};
        int64_t now = 0, spread = INT64_C(1) << cleave_random_below(&random, 46);
        int64_t most = 1 + cleave_random_below(&random, round % 4 == 0 ? 200 : 20);
        int32_t key = 0;
        m.n = 0;
        cleave_event_queue_reset(&queue);
        for (int32_t step = 0; step < N_STEPS; step++) {
            bool is_odd_one = cleave_random_below(&random, 50) == 0;
            int64_t n_pushes = m.n < most ? cleave_random_below(&random, 4) : 0;
            for (int64_t k = 0; k < n_pushes; k++) {
                int64_t time = now + cleave_random_below(&random, spread);
                /* Now and then at once, much later, or before what has been taken out. */
                if (is_odd_one)
                    time = k == 0 ? now : k == 1 ? now + 1000 * spread / 7 : now / 2;
                /* Neighbouring keys change places, so that the later is not always the larger. */
                push(&queue, &m, time, key++ ^ 1);
            }
            for (int64_t k = cleave_random_below(&random, 4); k > 0 && m.n > 0; k--)
                now = pop(&queue, &m, round);
        }
        while (m.n > 0)
            pop(&queue, &m, round);
        cr_assert_not(cleave_event_queue_is_due(&queue, INT64_MAX));
    }
}
