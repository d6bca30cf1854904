/* Links between ranks.  Three figures are measured, each a median:

     post    seconds that posting a small message takes
     T(n)    half the round trip of n bytes, for a small and a large n
     extra   by how much a rank's computation is longer while a large message goes to or from it

   and explained by the terms that the simulator uses: T(n) = post + g n + latency + n / bandwidth
   with g n = extra.  Where the processor does all the copying (ranks of one machine) little is left
   for the link, which then gets the twentieth part of the time at least, so that it has a
   bandwidth. */
#include "exec/measure_link.h"

#include "base/progress.h"

#include <stdlib.h>
#include <string.h>

enum { SMALL_BYTES = 8, LARGE_BYTES = 4 << 20, MAX_REPEATS = 64, SEND = 0, RECEIVE = 1, TAG = 7 };

/* One rank's side of the measurement with its peer. */
typedef struct pair {
    cleave_world *world;
    int32_t peer;
    bool first; /* sends first */
    char *outgoing, *incoming;
} pair;

static void wait_for(const pair *p, int32_t request) {
    while (!cleave_world_test(p->world, request, NULL))
        continue;
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

/* A piece of computation that stays in registers, about a millisecond long. */
static double compute(double x) {
    for (int i = 0; i < 250000; i++)
        x = x * 0.999999 + 1e-6;
    return x;
}

/* Seconds of computing `pieces` pieces with a poll between them, while a large message goes both
   ways or none does. */
static double computing(const pair *p, int pieces, bool with_messages, volatile double *sink) {
    if (with_messages) {
        cleave_world_receive(p->world, RECEIVE, p->incoming, LARGE_BYTES, p->peer, TAG);
        cleave_world_send(p->world, SEND, p->outgoing, LARGE_BYTES, p->peer, TAG);
    }
    double start = cleave_clock_seconds();
    for (int i = 0; i < pieces; i++) {
        *sink = compute(*sink);
        cleave_world_test(p->world, SEND, NULL);
        cleave_world_test(p->world, RECEIVE, NULL);
    }
    double seconds = cleave_clock_seconds() - start;
    wait_for(p, SEND);
    wait_for(p, RECEIVE);
    return seconds;
}

/* Processor seconds of one end of one large message. */
static double processor_share(const pair *p, double large_seconds, int repeats) {
    volatile double sink = 1;
    double with[MAX_REPEATS], without[MAX_REPEATS];
    double start = cleave_clock_seconds();
    sink = compute(sink);
    double piece_seconds = cleave_clock_seconds() - start;
    /* Long enough for both messages to go while there is still something to compute. */
    int pieces = 4 + (int)(4 * large_seconds / (piece_seconds > 1e-6 ? piece_seconds : 1e-6));
    for (int r = 0; r < repeats; r++) {
        without[r] = computing(p, pieces, false, &sink);
        with[r] = computing(p, pieces, true, &sink);
    }
    double extra = median(with, repeats) - median(without, repeats);
    return extra > 0 ? extra / 2 : 0; /* of the two messages, each is half */
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

static cleave_link_measurement explain(double posting, double small, double large, double extra) {
    double n = LARGE_BYTES, most = 0.95 * (large - small);
    double share = extra < most ? extra : most > 0 ? most : 0;
    double link = large - small - share;
    double latency = small - posting;
    return (cleave_link_measurement){
        .latency_seconds = latency > 1e-9 ? latency : 1e-9,
        .bytes_per_second = n / (link > 1e-9 ? link : 1e-9),
        .overhead_seconds = posting,
        .overhead_seconds_per_byte = share / n,
    };
}

static void measure(const pair *p, double seconds_budget, cleave_link_measurement *result) {
    double small = agree(p, ping(p, SMALL_BYTES, MAX_REPEATS));
    double posting = agree(p, post(p, MAX_REPEATS));
    double large = agree(p, ping(p, LARGE_BYTES, 3));
    /* A round trip takes 2 `large`; one repeat of the share about ten times `large`. */
    double fit = seconds_budget / (16 * (large > 1e-5 ? large : 1e-5));
    int repeats = fit > MAX_REPEATS ? MAX_REPEATS : fit < 3 ? 3 : (int)fit;
    large = agree(p, ping(p, LARGE_BYTES, repeats));
    double extra = agree(p, processor_share(p, large, repeats < 15 ? repeats : 15));
    *result = explain(posting, small, large, extra);
}

cleave_status cleave_link_measure(cleave_world *world, int32_t a, int32_t b, double seconds_budget,
                                  cleave_link_measurement *result, cleave_error *error) {
    int32_t rank = cleave_world_rank(world);
    CLEAVE_TRY(cleave_world_reserve(world, 2, error));
    cleave_world_barrier(world);
    if (rank == a || rank == b) {
        pair p = {.world = world, .peer = rank == a ? b : a, .first = rank == a};
        p.outgoing = calloc(LARGE_BYTES, 1);
        p.incoming = calloc(LARGE_BYTES, 1);
        if (p.outgoing == NULL || p.incoming == NULL) {
            free(p.outgoing);
            free(p.incoming);
            return cleave_fail_memory(error, "measuring a link");
        }
        memset(p.outgoing, 1, LARGE_BYTES); /* real pages */
        memset(p.incoming, 1, LARGE_BYTES);
        measure(&p, seconds_budget, result);
        free(p.outgoing);
        free(p.incoming);
    }
    cleave_world_barrier(world);
    return CLEAVE_OK;
}
