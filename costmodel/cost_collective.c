/* Collectives in closed form.  A collective is a number of rounds; in a round every device
   exchanges a share of the vector with a partner, all at once.  A round takes the largest latency
   among its routes, and the largest time among its links for all that crosses them: so devices of
   one node share their card.

       ring               n - 1 rounds of 1/n with the next device; twice that for an all-reduce
       halving-doubling   log2 n rounds, of 1/2, 1/4 ... with the partner at n/2, n/4 ...; twice
   that for an all-reduce; devices beyond a power of two hand their vector to one of the others
   before and get it back after direct             one round of 1/n with every other device; two for
   an all-reduce

   An all-to-all is always direct. */
#include "costmodel/cost.h"

#include <math.h>
#include <stdlib.h>

/* One round of one byte a message. */
typedef struct pattern {
    double latency, seconds_per_byte;
} pattern;

typedef struct pricing {
    const cleave_machine *machine;
    const cleave_collective *collective;
    double *load;              /* [n_links] messages across each, in the current round */
    double overhead, per_byte; /* largest of all rounds */
    double busy, rest;         /* seconds */
    double sent, n_messages;   /* bytes and messages, the most that one device sends */
} pricing;

static void cross(pricing *p, int32_t from, int32_t to, pattern *round) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    double latency = 0;
    for (int32_t l = 0; l < n; l++) {
        const cleave_link *link = &p->machine->links[links[l]];
        latency += link->latency_seconds;
        p->overhead = fmax(p->overhead, link->overhead_seconds);
        p->per_byte = fmax(p->per_byte, link->overhead_seconds_per_byte);
        p->load[links[l]] += 1;
        round->seconds_per_byte =
            fmax(round->seconds_per_byte, p->load[links[l]] / link->bytes_per_second);
    }
    round->latency = fmax(round->latency, latency);
}

static void clear(pricing *p, int32_t from, int32_t to) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    for (int32_t l = 0; l < n; l++)
        p->load[links[l]] = 0;
}

/* The largest power of two that is at most n. */
static int32_t power_within(int32_t n) {
    int32_t power = 1;
    while (power <= n / 2)
        power *= 2;
    return power;
}

/* Who sends to whom in a round. */
typedef enum shape { NEXT, AT_DISTANCE, EVERY_OTHER, FOLDED } shape;

/* Counts every message of a round on its links, or takes the counts back; `distance` is of
   AT_DISTANCE, and where FOLDED devices begin. */
static void for_each(pricing *p, shape who, int32_t distance, pattern *round, bool counting) {
    int32_t n = p->collective->n_devices, power = power_within(n);
    for (int32_t i = 0; i < n; i++) {
        int32_t first = 0, last = -1;
        if (who == NEXT)
            first = last = (i + 1) % n;
        else if (who == AT_DISTANCE && i < power)
            first = last = i ^ distance;
        else if (who == FOLDED && i >= distance)
            first = last = i - distance;
        else if (who == EVERY_OTHER)
            last = n - 1;
        for (int32_t j = first; j <= last; j++) {
            if (j == i)
                continue;
            if (counting)
                cross(p, i, j, round);
            else
                clear(p, i, j);
        }
    }
}

/* `times` equal rounds of messages of `bytes`, `messages` of them sent by a device in each. */
static void add_rounds(pricing *p, shape who, int32_t distance, double times, double bytes,
                       double messages) {
    pattern round = {0, 0};
    for_each(p, who, distance, &round, true);
    for_each(p, who, distance, &round, false);
    p->busy += times * bytes * round.seconds_per_byte;
    p->rest += times * round.latency;
    p->sent += times * bytes * messages;
    p->n_messages += times * messages;
}

static void add_halving(pricing *p, double phases, double bytes) {
    int32_t n = p->collective->n_devices, power = power_within(n);
    if (power < n)
        add_rounds(p, FOLDED, power, 2, bytes, 1);
    for (int32_t distance = power / 2; distance >= 1; distance /= 2) {
        bytes /= 2;
        add_rounds(p, AT_DISTANCE, distance, phases, bytes, 1);
    }
}

cleave_collective_cost cleave_cost_collective_parts(const cleave_machine *machine,
                                                    const cleave_collective *collective,
                                                    double *load) {
    pricing p = {.machine = machine, .collective = collective, .load = load};
    int32_t n = collective->n_devices;
    double bytes = (double)collective->bytes, share = bytes / n;
    double phases = collective->kind == CLEAVE_ALL_REDUCE ? 2 : 1;
    if (n < 2)
        return (cleave_collective_cost){0};
    if (collective->kind == CLEAVE_ALL_TO_ALL || collective->algorithm == CLEAVE_ALGORITHM_DIRECT)
        add_rounds(&p, EVERY_OTHER, 0, phases, share, n - 1);
    else if (collective->algorithm == CLEAVE_ALGORITHM_RING)
        add_rounds(&p, NEXT, 0, phases * (n - 1), share, 1);
    else
        add_halving(&p, phases, bytes);
    bool sums = collective->kind == CLEAVE_ALL_REDUCE || collective->kind == CLEAVE_REDUCE_SCATTER;
    const cleave_device_kind *kind = &machine->kinds[machine->device_kind[collective->devices[0]]];
    /* A sum reads two and writes one; (n - 1)/n of the vector is summed in. */
    double sum_seconds =
        sums ? 3 * (bytes - share) / (kind->bytes_per_second * kind->memory_efficiency) : 0;
    /* What is sent is received as well. */
    double processor = 2 * (p.n_messages * p.overhead + p.sent * p.per_byte) + sum_seconds;
    return (cleave_collective_cost){.busy = cleave_picoseconds(p.busy),
                                    .rest = cleave_picoseconds(p.rest),
                                    .processor = cleave_picoseconds(processor)};
}

int64_t cleave_cost_collective(const cleave_machine *machine, const cleave_collective *collective) {
    double *load = calloc((size_t)machine->n_links + 1, sizeof *load);
    if (load == NULL)
        return INT64_C(1) << 61;
    cleave_collective_cost cost = cleave_cost_collective_parts(machine, collective, load);
    free(load);
    return cost.busy + cost.rest;
}
