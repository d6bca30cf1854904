/* Links between ranks, over whatever transport they really use.  For messages of many sizes, since
   MPI sends small and large ones in different ways, three things are measured, each a median:

     one way     half a round trip
     both ways   two messages at once, one each way, as in most collectives
     processor   by how much a rank's computation is longer while two messages go, one each way, and
                 both ranks compute with a poll now and then, as in a step
     polls       by how many pieces of computation a message one way comes later where its sender
                 computes, or its receiver, than where both do nothing but wait

   and the figures that the simulator uses are fitted to them: see link_fit.h. */
#include "exec/measure_link.h"

#include "base/progress.h"

#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    SMALL_BYTES = 8,
    LEAST_BYTES = 1 << 10, /* sizes are these, every power of two up to */
    FINE_BYTES = 1 << 20,  /* since a message may go in another way from any of them on, and */
    MOST_BYTES = 64 << 20, /* every fourth power of two up to these */
    LEAST_PROCESSOR_BYTES = 256 << 10, /* below, it is lost in the noise; above, it takes long */
    MOST_PROCESSOR_BYTES = 4 << 20,
    LEAST_POLLED_BYTES = 1 << 10, /* of messages that are watched between pieces of computation */
    MOST_POLLED_BYTES = 4 << 20,
    MOST_POLL_SAMPLES = 16,
    MOST_SAMPLES = 64,
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
    char *outgoing, *incoming; /* [MOST_BYTES] */
    float *work;               /* [WORK_FLOATS] */
} pair;

/* As a rank waits in a step: on a machine with no processor to spare, what moves the bytes in the
   system runs no sooner than the ranks that wait for them give way. */
static void wait_for(const pair *p, int32_t request) {
    while (!cleave_world_test(p->world, request, NULL))
        sched_yield();
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, compare_doubles);
    return values[n / 2];
}

/* Half the round trip of some bytes. */
static double ping(const pair *p, int64_t bytes, int repeats) {
    double seconds[MAX_REPEATS];
    for (int r = -2; r < repeats; r++) { /* two to warm up */
        double start = cleave_clock_seconds();
        for (int turn = 0; turn < 2; turn++)
            if ((turn == 0) == p->first) {
                cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
                wait_for(p, SEND);
            } else {
                cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
                wait_for(p, RECEIVE);
            }
        if (r >= 0)
            seconds[r] = (cleave_clock_seconds() - start) / 2;
    }
    return median(seconds, repeats);
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
    return median(seconds, repeats);
}

/* Seconds of two messages at once, one each way. */
static double exchange(const pair *p, int64_t bytes, int repeats) {
    double seconds[MAX_REPEATS];
    for (int r = -1; r < repeats; r++) {
        ping(p, SMALL_BYTES, 1); /* both start together */
        double start = cleave_clock_seconds();
        cleave_world_receive(p->world, RECEIVE, p->incoming, bytes, p->peer, TAG);
        cleave_world_send(p->world, SEND, p->outgoing, bytes, p->peer, TAG);
        wait_for(p, SEND);
        wait_for(p, RECEIVE);
        if (r >= 0)
            seconds[r] = cleave_clock_seconds() - start;
    }
    return median(seconds, repeats);
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
    ping(p, SMALL_BYTES, 1);
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
    return median(with, repeats) - median(without, repeats);
}

static const double piece_seconds = 2e-3;

/* Seconds until the second rank has a message from the first, whose `sender` or other end computes
   for `piece` seconds between two looks at it; 0: both only wait. */
static double watch_message(const pair *p, int64_t bytes, double piece, bool sender, int repeats) {
    double seconds[MAX_REPEATS];
    bool computes = piece > 0 && p->first == sender;
    int request = p->first ? SEND : RECEIVE;
    for (int r = 0; r < repeats; r++) {
        ping(p, SMALL_BYTES, 1); /* both start together */
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
    return median(seconds, repeats);
}

/* The mean of both ranks' figures, so that both have the same. */
static double agree(const pair *p, double value) {
    double other = value;
    if (p->first) {
        cleave_world_send_now(p->world, &value, sizeof value, p->peer);
        cleave_world_receive_now(p->world, &other, sizeof other, p->peer);
    } else {
        cleave_world_receive_now(p->world, &other, sizeof other, p->peer);
        cleave_world_send_now(p->world, &value, sizeof value, p->peer);
    }
    return (value + other) / 2;
}

typedef struct link_samples {
    int32_t n;
    cleave_link_sample items[MOST_SAMPLES];
} link_samples;

static void add(link_samples *to, cleave_link_sample_kind kind, int64_t bytes, double seconds) {
    if (seconds > 0 && to->n < MOST_SAMPLES)
        to->items[to->n++] = (cleave_link_sample){kind, (double)bytes, seconds};
}

/* Few: on a machine that others use as well a message now and then takes milliseconds. */
static int repeats_within(double budget, double seconds) {
    enum { FEWEST = 3, MOST = 20 };
    double fit = budget / (seconds > 1e-6 ? seconds : 1e-6);
    return fit > MOST ? MOST : fit < FEWEST ? FEWEST : (int)fit;
}

/* All that decides how long to go on is agreed, so that both ranks do the same.

   The smallest message, which overhead and latency are taken from, is measured between all the
   others, and its least median counts: 64 of them take less than a tick of the scheduler, so where
   something else uses the processors they are all slow at one moment and all undisturbed at
   another. */
static void measure(const pair *p, double seconds_budget, link_samples *found) {
    double budget = seconds_budget / 16; /* of one size and sort */
    double posting = INFINITY, smallest = INFINITY;
    double start = cleave_clock_seconds();
    compute(p);
    double piece = agree(p, cleave_clock_seconds() - start), last = 0;
    for (int64_t bytes = LEAST_BYTES; bytes <= MOST_BYTES && last < budget / 4;
         bytes *= bytes < FINE_BYTES ? 2 : 4) {
        posting = fmin(posting, agree(p, post(p, MAX_REPEATS)));
        smallest = fmin(smallest, agree(p, ping(p, SMALL_BYTES, MAX_REPEATS)));
        int repeats =
            repeats_within(budget, 8 * last); /* the larger one takes four times as long */
        double one_way = agree(p, ping(p, bytes, repeats));
        double both_ways = agree(p, exchange(p, bytes, repeats));
        add(found, CLEAVE_LINK_ONE_WAY, bytes, one_way);
        add(found, CLEAVE_LINK_BOTH_WAYS, bytes, both_ways);
        last = both_ways;
        bool is_power_of_four = (bytes & INT64_C(0x5555555555555555)) != 0;
        if (bytes < LEAST_PROCESSOR_BYTES || bytes > MOST_PROCESSOR_BYTES || !is_power_of_four)
            continue;
        /* Long enough for both messages to go while there is still something to compute. */
        int pieces = 4 + (int)(2 * both_ways / (piece > 1e-6 ? piece : 1e-6));
        repeats = repeats_within(2 * budget, 2 * pieces * piece);
        add(found, CLEAVE_LINK_PROCESSOR, bytes,
            agree(p, processor_share(p, bytes, pieces, repeats)));
    }
    add(found, CLEAVE_LINK_POST, SMALL_BYTES, posting);
    add(found, CLEAVE_LINK_ONE_WAY, SMALL_BYTES, smallest);
}

/* What the second rank found. */
static double agree_with_second(const pair *p, double value) {
    if (p->first)
        cleave_world_receive_now(p->world, &value, sizeof value, p->peer);
    else
        cleave_world_send_now(p->world, &value, sizeof value, p->peer);
    return value;
}

typedef struct poll_samples {
    int32_t n;
    cleave_poll_sample sending[MOST_POLL_SAMPLES], receiving[MOST_POLL_SAMPLES];
} poll_samples;

static void insert(cleave_poll_sample *samples, int32_t n, cleave_poll_sample made) {
    for (; n > 0 && samples[n - 1].bytes > made.bytes; n--)
        samples[n] = samples[n - 1];
    samples[n] = made;
}

static void add_polled(const pair *p, int64_t bytes, poll_samples *found) {
    int repeats = bytes <= 1 << 18 ? 9 : 5;
    double seconds[3];
    for (int i = 0; i < 3; i++)
        seconds[i] = agree_with_second(
            p, watch_message(p, bytes, i > 0 ? piece_seconds : 0, i == 1, repeats));
    double sent = fmax(0, (seconds[1] - seconds[0]) / piece_seconds);
    double received = fmax(0, (seconds[2] - seconds[0]) / piece_seconds);
    insert(found->sending, found->n, (cleave_poll_sample){(double)bytes, sent});
    insert(found->receiving, found->n, (cleave_poll_sample){(double)bytes, received});
    found->n++;
}

/* In the order of bytes; as far as the time allows.  Where large messages seem to begin sizes in
   between are looked at, which takes no more than a few small messages do. */
static void measure_polls(const pair *p, double seconds_budget, poll_samples *found) {
    double started = cleave_clock_seconds(), spent = 0;
    for (int64_t bytes = LEAST_POLLED_BYTES;
         bytes <= MOST_POLLED_BYTES && (found->n < 4 || spent < seconds_budget); bytes *= 4) {
        add_polled(p, bytes, found);
        spent = agree(p, cleave_clock_seconds() - started);
    }
    while (found->n < MOST_POLL_SAMPLES) {
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
        link_samples found = {0};
        poll_samples polled = {0};
        size_t work_bytes = WORK_FLOATS * sizeof *p.work;
        char *memory = malloc((size_t)2 * MOST_BYTES + work_bytes);
        if (memory == NULL)
            return cleave_fail_memory(error, "measuring a link");
        memset(memory, 0, (size_t)2 * MOST_BYTES + work_bytes); /* real pages */
        p.work = (float *)(void *)memory;
        p.outgoing = memory + work_bytes;
        p.incoming = p.outgoing + MOST_BYTES;
        measure(&p, seconds_budget, &found);
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
