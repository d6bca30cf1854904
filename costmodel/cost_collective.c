/* Collectives in closed form: the steps of the plan (graph/collective_steps.h), each as if all of
   its messages began together.  A step takes, one after the other,

     posting      the processor's share of the messages that a member sends and receives
     the links    the largest time among them for all that crosses them (so devices of one node
                  share its card), and the largest latency among the routes
     adding up    where it reduces: what is received and what is there are read, the sum written

   and steps that are alike are worked out once.  Of members of several kinds the slowest counts.
   Blocks are taken as equal. */
#include "costmodel/byte_price.h"
#include "costmodel/cost.h"

#include <math.h>
#include <stdlib.h>

typedef struct pricing {
    const cleave_machine *machine;
    const cleave_collective *collective;
    double *load; /* [n_links] bytes across each, in the current step */
    cleave_byte_price copy;
    double busy, rest, processor; /* seconds */
} pricing;

/* One step, its messages counted so far. */
typedef struct round_cost {
    double latency, link_seconds;
    double post_seconds;
    double largest_bytes;
} round_cost;

static void cross(pricing *p, int32_t from, int32_t to, double bytes, round_cost *round) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    double latency = 0, overhead = 0, per_byte = 0;
    for (int32_t l = 0; l < n; l++) {
        const cleave_link *link = &p->machine->links[links[l]];
        latency += link->latency_seconds;
        overhead = fmax(overhead, link->overhead_seconds);
        per_byte = fmax(per_byte, link->overhead_seconds_per_byte);
        p->load[links[l]] += bytes;
        round->link_seconds = fmax(round->link_seconds, p->load[links[l]] / link->bytes_per_second);
    }
    round->latency = fmax(round->latency, latency);
    round->post_seconds = fmax(round->post_seconds, overhead + bytes * per_byte);
    round->largest_bytes = fmax(round->largest_bytes, bytes);
}

static void clear(pricing *p, int32_t from, int32_t to) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    for (int32_t l = 0; l < n; l++)
        p->load[links[l]] = 0;
}

/* `times` such steps; `posts` messages that a member sends and receives in each. */
static void add_rounds(pricing *p, const round_cost *round, double times, double posts,
                       bool reduces) {
    p->busy += times * round->link_seconds;
    p->rest += times * round->latency;
    p->processor += times * posts * round->post_seconds;
    if (reduces)
        p->processor +=
            times * (p->copy.launch_seconds + 3 * round->largest_bytes * p->copy.seconds_per_byte);
}

static void add_step(pricing *p, const cleave_collective_plan *plan,
                     const cleave_collective_step *step) {
    round_cost round = {0};
    double block = (double)p->collective->bytes / plan->n_blocks;
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(plan, step, e);
        cross(p, x.from, x.to, block * (x.end - x.first), &round);
    }
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(plan, step, e);
        clear(p, x.from, x.to);
    }
    /* In a fold or a tree a member only sends or only receives. */
    bool both = step->phase->shape <= CLEAVE_PHASE_DOUBLING;
    add_rounds(p, &round, step->alike, both ? 2 : 1, step->reduces);
}

/* Every pair at once: what no plan is made of. */
static void add_direct(pricing *p) {
    int32_t n = p->collective->n_devices;
    bool reduces =
        p->collective->kind == CLEAVE_REDUCE_SCATTER || p->collective->kind == CLEAVE_ALL_REDUCE;
    round_cost round = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n; j++)
                if (i != j && pass == 0)
                    cross(p, i, j, (double)p->collective->bytes / n, &round);
                else if (i != j)
                    clear(p, i, j);
    add_rounds(p, &round, p->collective->kind == CLEAVE_ALL_REDUCE ? 2 : 1, 2 * (n - 1), false);
    if (reduces)
        p->processor +=
            (n - 1) * (p->copy.launch_seconds + 3 * round.largest_bytes * p->copy.seconds_per_byte);
}

/* Of the slowest kind among the members. */
static cleave_byte_price price_copies(const cleave_machine *machine,
                                      const cleave_collective *collective) {
    cleave_byte_price slowest = {0};
    int32_t last = -1;
    for (int32_t i = 0; i < collective->n_devices; i++) {
        int32_t kind = machine->device_kind[collective->devices[i]];
        if (kind == last)
            continue;
        last = kind;
        cleave_byte_price price = cleave_byte_price_of(&machine->kinds[kind], "copy");
        slowest.launch_seconds = fmax(slowest.launch_seconds, price.launch_seconds);
        slowest.seconds_per_byte = fmax(slowest.seconds_per_byte, price.seconds_per_byte);
    }
    return slowest;
}

cleave_collective_cost cleave_cost_collective_parts(const cleave_machine *machine,
                                                    const cleave_collective *collective,
                                                    double *load) {
    pricing p = {.machine = machine, .collective = collective, .load = load};
    if (collective->n_devices < 2)
        return (cleave_collective_cost){0};
    p.copy = price_copies(machine, collective);
    if (cleave_collective_has_plan(collective->kind, collective->algorithm, collective->n_devices,
                                   collective->node_members)) {
        cleave_collective_plan plan =
            cleave_collective_plan_of(collective->kind, collective->algorithm,
                                      collective->n_devices, collective->node_members);
        cleave_collective_step step;
        for (int32_t s = 0; s < plan.n_steps; s += step.alike) {
            step = cleave_collective_step_of(&plan, s);
            add_step(&p, &plan, &step);
        }
    } else {
        add_direct(&p);
    }
    return (cleave_collective_cost){.busy = cleave_picoseconds(p.busy),
                                    .rest = cleave_picoseconds(p.rest),
                                    .processor = cleave_picoseconds(p.processor)};
}

int64_t cleave_cost_collective(const cleave_machine *machine, const cleave_collective *collective) {
    double *load = calloc((size_t)machine->n_links + 1, sizeof *load);
    if (load == NULL)
        return INT64_C(1) << 61;
    cleave_collective_cost cost = cleave_cost_collective_parts(machine, collective, load);
    free(load);
    return cost.busy + cost.rest;
}
