/* Links between ranks, over whatever transport they really use.  For messages of many sizes, since
   MPI sends small and large ones in different ways, some things are measured, each a median:

     one way     half a round trip
     both ways   two messages at once, one each way, as in most collectives
     processor   by how much a rank's computation is longer while two messages go, one each way, and
                 both ranks compute with a poll now and then, as in a step
     polls       by how many pieces of computation a message one way comes later where its sender
                 computes, or its receiver, than where both do nothing but wait

   and the figures that the simulator uses are fitted to them: see link_fit.h.

   Messages are as those of a step: on large pages, as arenas are (where one rank reads the other's
   memory a page at a time, small ones take twice as long); just written by their sender, so that no
   cache has a copy from the last time; after each rank has touched some times as much else.  All
   sizes are measured in turn, several times over: virtual processors are moved about every few
   seconds, to where messages take up to half as long again, and what is measured at one time only
   would have some sizes here and others there. */
#include "exec/measure/measure_link.h"

#include "base/progress.h"
#include "exec/measure/link_samples.h"
#include "exec/world/memory.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 8,
    N_SIZES = CLEAVE_LINK_N_SIZES,
    TOUCHED_TIMES = 4,            /* as many bytes as a message has are touched between two */
    LEAST_POLLED_BYTES = 1 << 10, /* of messages that are watched between pieces of computation */
    MOST_POLLED_BYTES = 4 << 20,
    N_ROUNDS = 5,
    MAX_REPEATS = 64,
    SEND = 0,
    RECEIVE = 1,
    TAG = 7
};

/* Of the array that a rank computes on: in its second cache. */
enum { WORK_FLOATS = 1 << 16 };

/* One rank's side of the measurement with its peer. */
typedef struct pair {
    cleave_world *world;
    int32_t peer;
    bool first;                /* sends first */
    char *outgoing, *incoming; /* [CLEAVE_LINK_MOST_BYTES] */
    uint8_t written;           /* differs from time to time */
    float *work;               /* [WORK_FLOATS] */
} pair;

/* As a rank waits in a step: on a machine with no processor to spare, what moves the bytes in the
   system runs no sooner than the ranks that wait for them give way. */
static void wait_for(const pair *p, int32_t request) {
    while (!cleave_world_test(p->world, request, NULL))
        sched_yield();
}

/* Half the round trip of some bytes, now. */
static double ping(const pair *p, int64_t bytes) {
    double start = cleave_clock_seconds();
    for (int turn = 0; turn < 2; turn++)
        if ((turn == 0) == p->first) {
            cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
            wait_for(p, SEND);
        } else {
            cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
            wait_for(p, RECEIVE);
        }
    return (cleave_clock_seconds() - start) / 2;
}

static double ping_smallest(const pair *p) {
    double seconds[MAX_REPEATS];
    for (int r = -2; r < MAX_REPEATS; r++) { /* two to warm up */
        double once = ping(p, SMALL_BYTES);
        if (r >= 0)
            seconds[r] = once;
    }
    return cleave_link_median(seconds, MAX_REPEATS);
}

/* Seconds that posting a small message takes. */
static double post(const pair *p, int repeats) {
    double seconds[MAX_REPEATS];
    for (int r = 0; r < repeats; r++) {
        cleave_world_receive(p->world, RECEIVE, p->incoming, SMALL_BYTES, p->peer, TAG);
        double start = cleave_clock_seconds();
        cleave_world_send(p->world, SEND, p->outgoing, SMALL_BYTES, p->peer, TAG);
        seconds[r] = cleave_clock_seconds() - start;
        wait_for(p, SEND);
        wait_for(p, RECEIVE);
    }
    return cleave_link_median(seconds, repeats);
}

/* Seconds of two messages at once, one each way. */
static double exchange(const pair *p, int64_t bytes) {
    double start = cleave_clock_seconds();
    cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
    cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
    wait_for(p, SEND);
    wait_for(p, RECEIVE);
    return cleave_clock_seconds() - start;
}

/* As a step does before it sends something.  What is touched lies behind the message; the largest
   ones leave nothing of each other in a cache. */
static void prepare(pair *p, int64_t bytes) {
    int64_t behind = CLEAVE_LINK_MOST_BYTES - bytes,
            touched = TOUCHED_TIMES * bytes < behind ? TOUCHED_TIMES * bytes : behind;
    const volatile char *lines = p->outgoing + bytes;
    for (int64_t i = 0; i < touched; i += 64)
        (void)lines[i];
    memset(p->outgoing, ++p->written, (size_t)bytes);
    ping(p, SMALL_BYTES); /* both start together */
}

/* A piece of computation on what is in the caches, about a millisecond long. */
static void compute(const pair *p) {
    for (int pass = 0; pass < 64; pass++)
        for (int i = 0; i < WORK_FLOATS; i++)
            p->work[i] = p->work[i] * 0.999f + 1e-3f;
}

/* Seconds of computing `pieces` pieces with a poll between them, while messages of some bytes go
   both ways or (0) none does. */
static double computing(const pair *p, int pieces, int64_t bytes) {
    ping(p, SMALL_BYTES);
    double start = cleave_clock_seconds();
    if (bytes > 0) {
        cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
        cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
    }
    for (int i = 0; i < pieces; i++) {
        compute(p);
        cleave_world_test(p->world, SEND, NULL);
        cleave_world_test(p->world, RECEIVE, NULL);
    }
    double seconds = cleave_clock_seconds() - start;
    wait_for(p, SEND);
    wait_for(p, RECEIVE);
    return seconds;
}

/* What both messages take from this rank's processor. */
static double processor_share(const pair *p, int64_t bytes, int pieces, int repeats) {
    double with[MAX_REPEATS], without[MAX_REPEATS];
    for (int r = 0; r < repeats; r++) {
        without[r] = computing(p, pieces, 0);
        with[r] = computing(p, pieces, bytes);
    }
    return cleave_link_median(with, repeats) - cleave_link_median(without, repeats);
}

static const double piece_seconds = 2e-3;

/* Seconds until the second rank has a message from the first, whose `sender` or other end computes
   for `piece` seconds between two looks at it; 0: both only wait. */
static double watch_message(const pair *p, int64_t bytes, double piece, bool sender, int repeats) {
    double seconds[MAX_REPEATS];
    bool computes = piece > 0 && p->first == sender;
    int request = p->first ? SEND : RECEIVE;
    for (int r = 0; r < repeats; r++) {
        ping(p, SMALL_BYTES); /* both start together */
        /* It may be posted at any time within a piece. */
        double start = cleave_clock_seconds(), until = start + piece * (r + 0.5) / repeats;
        if (p->first)
            cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
        else
            cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
        while (!cleave_world_test(p->world, request, NULL)) {
            while (computes && cleave_clock_seconds() < until)
                ;
            until += piece;
            if (!computes)
                sched_yield();
        }
        seconds[r] = cleave_clock_seconds() - start;
    }
    return cleave_link_median(seconds, repeats);
}

/* The mean of both ranks' figures, so that both have the same. */
static double agree(const pair *p, double value) {
    double other = value;
    if (p->first) {
        cleave_world_send_now(p->world, &value, sizeof value, p->peer, NULL);
        cleave_world_receive_now(p->world, &other, sizeof other, p->peer, NULL);
    } else {
        cleave_world_receive_now(p->world, &other, sizeof other, p->peer, NULL);
        cleave_world_send_now(p->world, &value, sizeof value, p->peer, NULL);
    }
    return (value + other) / 2;
}

/* What was measured of a size so far. */
typedef struct size_times {
    int64_t bytes;
    int n;
    double one_way[MAX_REPEATS], both_ways[MAX_REPEATS];
} size_times;

/* Of each sort, as many as the time allows, but one; returns the seconds that one took. */
static double measure_size(pair *p, double seconds_budget, size_times *size) {
    enum { MOST = MAX_REPEATS / (N_ROUNDS + 1) };
    double start = cleave_clock_seconds(), spent = 0;
    int made = 0;
    do {
        prepare(p, size->bytes);
        double one_way = ping(p, size->bytes);
        prepare(p, size->bytes);
        double both_ways = exchange(p, size->bytes);
        size->one_way[size->n] = one_way;
        size->both_ways[size->n++] = both_ways;
        made++;
        spent = agree(p, cleave_clock_seconds() - start);
    } while (spent < seconds_budget && made < MOST);
    return spent / made;
}

/* What messages of all sizes take; how many sizes there were.  Large ones are left out where they
   take too long; what is left of a warm-up before the first round is not counted.

   The smallest message, which overhead and latency are taken from, is measured between all the
   others, and its least median counts: 64 of them take less than a tick of the scheduler, so where
   something else uses the processors they are all slow at one moment and all undisturbed at
   another. */
static int measure_sizes(pair *p, double seconds_budget, size_times *sizes, double *posting,
                         double *smallest) {
    double budget = seconds_budget / (N_SIZES * N_ROUNDS);
    int n = N_SIZES;
    for (int i = 0; i < N_SIZES; i++)
        sizes[i] = (size_times){.bytes = (int64_t)CLEAVE_LINK_LEAST_BYTES << i};
    *posting = *smallest = INFINITY;
    for (int round = -1; round < N_ROUNDS; round++)
        for (int i = 0; i < n; i++) {
            if (i % 8 == 0) {
                *posting = fmin(*posting, agree(p, post(p, MAX_REPEATS)));
                *smallest = fmin(*smallest, agree(p, ping_smallest(p)));
            }
            double took = measure_size(p, round < 0 ? 0 : budget, &sizes[i]);
            if (round < 0) {
                sizes[i].n = 0;
                n = cleave_link_sizes_left(i, n, took, seconds_budget);
            }
        }
    return n;
}

/* Seconds of a rank's processor for the messages of a size that takes some seconds. */
static double measure_processor(const pair *p, double budget, int64_t bytes, double both_ways,
                                double piece) {
    int pieces = cleave_link_pieces(both_ways, piece);
    int repeats = cleave_link_repeats(budget, 2 * pieces * piece);
    return agree(p, processor_share(p, bytes, pieces, repeats));
}

/* All that decides how long to go on is agreed, so that both ranks do the same. */
static void measure(pair *p, double seconds_budget, cleave_link_samples *found,
                    cleave_link_figures *result) {
    size_times sizes[N_SIZES];
    double posting, smallest, start = cleave_clock_seconds();
    compute(p);
    double piece = agree(p, cleave_clock_seconds() - start);
    int n = measure_sizes(p, seconds_budget, sizes, &posting, &smallest);
    for (int i = 0; i < n; i++) {
        int64_t bytes = sizes[i].bytes;
        double both_ways = agree(p, cleave_link_median(sizes[i].both_ways, sizes[i].n));
        cleave_link_samples_add(found, CLEAVE_LINK_ONE_WAY, bytes,
                                agree(p, cleave_link_median(sizes[i].one_way, sizes[i].n)));
        result->uncertainty[i] = cleave_link_uncertainty(sizes[i].one_way, sizes[i].n);
        cleave_link_samples_add(found, CLEAVE_LINK_BOTH_WAYS, bytes, both_ways);
        if (cleave_link_asks_processors(bytes))
            cleave_link_samples_add(
                found, CLEAVE_LINK_PROCESSOR, bytes,
                measure_processor(p, seconds_budget / 8, bytes, both_ways, piece));
    }
    result->n_sizes = n;
    cleave_link_samples_add(found, CLEAVE_LINK_POST, SMALL_BYTES, posting);
    cleave_link_samples_add(found, CLEAVE_LINK_ONE_WAY, SMALL_BYTES, smallest);
}

/* What the second rank found. */
static double agree_with_second(const pair *p, double value) {
    if (p->first)
        cleave_world_receive_now(p->world, &value, sizeof value, p->peer, NULL);
    else
        cleave_world_send_now(p->world, &value, sizeof value, p->peer, NULL);
    return value;
}

static void add_polled(const pair *p, int64_t bytes, cleave_link_polled *found) {
    int repeats = bytes <= 1 << 18 ? 9 : 5;
    double seconds[3];
    for (int i = 0; i < 3; i++)
        seconds[i] = agree_with_second(
            p, watch_message(p, bytes, i > 0 ? piece_seconds : 0, i == 1, repeats));
    cleave_link_polled_add(found, bytes, seconds, piece_seconds);
}

/* In the order of bytes; as far as the time allows.  Where large messages seem to begin sizes in
   between are looked at, which takes no more than a few small messages do. */
static void measure_polls(const pair *p, double seconds_budget, cleave_link_polled *found) {
    double started = cleave_clock_seconds(), spent = 0;
    for (int64_t bytes = LEAST_POLLED_BYTES;
         bytes <= MOST_POLLED_BYTES && (found->n < 4 || spent < seconds_budget); bytes *= 4) {
        add_polled(p, bytes, found);
        spent = agree(p, cleave_clock_seconds() - started);
    }
    while (found->n < CLEAVE_LINK_MOST_POLLED) {
        int64_t between = cleave_link_next_polled(found->receiving, found->n);
        if (between == 0)
            break;
        add_polled(p, between, found);
    }
}

cleave_status cleave_link_measure(cleave_world *world, int32_t a, int32_t b, double seconds_budget,
                                  cleave_link_figures *result, cleave_error *error) {
    int32_t rank = cleave_world_rank(world);
    CLEAVE_TRY(cleave_world_reserve(world, 2, error));
    cleave_world_barrier(world);
    if (rank == a || rank == b) {
        pair p = {.world = world, .peer = rank == a ? b : a, .first = rank == a};
        cleave_link_samples found = {0};
        cleave_link_polled polled = {0};
        size_t work_bytes = WORK_FLOATS * sizeof *p.work;
        char *memory = cleave_memory_allocate((size_t)2 * CLEAVE_LINK_MOST_BYTES + work_bytes);
        if (memory == NULL)
            return cleave_fail_memory(error, "measuring a link");
        memset(memory, 0, (size_t)2 * CLEAVE_LINK_MOST_BYTES + work_bytes); /* real pages */
        p.outgoing = memory;
        p.incoming = p.outgoing + CLEAVE_LINK_MOST_BYTES;
        p.work = (float *)(void *)(p.incoming + CLEAVE_LINK_MOST_BYTES);
        measure(&p, seconds_budget, &found, result);
        measure_polls(&p, seconds_budget, &polled);
        free(memory);
        cleave_link_fit_polls(polled.receiving, polled.n, 0, &result->receiving);
        double large_from = result->receiving.large_from_bytes;
        cleave_link_fit_polls(polled.sending, polled.n, large_from, &result->sending);
        CLEAVE_TRY(cleave_link_fit(found.items, found.n, large_from, &result->link, error));
    }
    cleave_world_barrier(world);
    return CLEAVE_OK;
}
