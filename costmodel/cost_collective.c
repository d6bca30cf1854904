/* Collectives in closed form: the steps of the plan (graph/model/collective_steps.h), each as if
   all of its messages began together.  A step takes, one after the other,

     posting      the messages that a member sends and receives
     the links    the largest time among them for all that crosses them (so devices of one node
                  share its card), or what a member's processor works on its messages meanwhile if
                  that is longer; and the largest latency among the routes
     adding up    where it reduces: what is received and what is there are read, the sum written

   What processors do beside the links is not charged to what their devices compute, as the steps
   would: a member joins with its posts and sums alone.

   and steps that are alike are worked out once.  Of members of several kinds the slowest counts.
   Blocks are taken as equal. */
#include "costmodel/collective_rounds.h"
#include "costmodel/cost.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct pricing {
    const cleave_machine *machine;
    const cleave_collective *collective;
    double *load; /* [n_links] shares of the vector across each, in the current step */
    double bytes_per_second, seconds_per_byte; /* of the last link that was crossed */
    cleave_byte_price sum;
    cleave_collective_rounds *rounds;
} pricing;

static inline double larger(double a, double b) { return a > b ? a : b; }

static void cross(pricing *p, int32_t from, int32_t to, double share, cleave_round_cost *round) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    double latency = 0;
    for (int32_t l = 0; l < n; l++) {
        const cleave_link *link = &p->machine->links[links[l]];
        latency += link->latency_seconds;
        round->post.fixed = larger(round->post.fixed, link->overhead_seconds);
        round->post.per_byte =
            larger(round->post.per_byte, share * link->overhead_seconds_per_byte);
        if (link->bytes_per_second != p->bytes_per_second) { /* links are of few sorts */
            p->bytes_per_second = link->bytes_per_second;
            p->seconds_per_byte = 1 / link->bytes_per_second;
        }
        p->load[links[l]] += share;
        round->load_per_byte =
            larger(round->load_per_byte, p->load[links[l]] * p->seconds_per_byte);
        if (share * p->seconds_per_byte > round->message_per_byte) {
            round->message_per_byte = share * p->seconds_per_byte;
            round->link = link;
        }
    }
    round->latency = larger(round->latency, latency);
    round->largest_share = larger(round->largest_share, share);
}

static void clear(pricing *p, int32_t from, int32_t to) {
    int32_t links[CLEAVE_MAX_ROUTE];
    int32_t n = cleave_machine_route(p->machine, p->collective->devices[from],
                                     p->collective->devices[to], links);
    for (int32_t l = 0; l < n; l++)
        p->load[links[l]] = 0;
}

/* `times` such steps; `posts` messages that a member sends and receives in each, and `sums` of what
   it receives. */
static void add_rounds(pricing *p, cleave_round_cost round, double times, double posts,
                       double sums) {
    round.times = times;
    round.processor.fixed = posts * round.post.fixed + sums * p->sum.launch_seconds;
    round.processor.per_byte = sums * 3 * round.largest_share * p->sum.seconds_per_byte;
    round.work_per_byte = posts * round.post.per_byte;
    round.sums = sums;
    round.sum = p->sum;
    p->rounds->items[p->rounds->n++] = round;
}

/* Gathering mirrors reducing: the same partners exchange as much, and rings have one partner. */
static int32_t distance_of(const cleave_collective_step *step) {
    if (step->phase->shape == CLEAVE_PHASE_HALVING)
        return step->phase->power >> (step->step + 1);
    if (step->phase->shape == CLEAVE_PHASE_DOUBLING)
        return INT32_C(1) << step->step;
    return step->phase->shape == CLEAVE_PHASE_RING ? 0 : -1;
}

static void count_messages(pricing *p, const cleave_collective_plan *plan,
                           const cleave_collective_step *step, cleave_round_cost *round) {
    for (int r = 0; r < p->rounds->n && round->distance >= 0; r++) {
        const cleave_round_cost *other = &p->rounds->items[r];
        if (other->distance == round->distance && other->size == round->size &&
            other->member_stride == round->member_stride) {
            *round = *other;
            return;
        }
    }
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(plan, step, e);
        cross(p, x.from, x.to, (double)(x.end - x.first) / plan->n_blocks, round);
    }
    if (step->n_exchanges > p->machine->n_links / 16) { /* cheaper than to find the ways again */
        memset(p->load, 0, (size_t)p->machine->n_links * sizeof *p->load);
        return;
    }
    for (int32_t e = 0; e < step->n_exchanges; e++) {
        cleave_exchange x = cleave_collective_exchange_of(plan, step, e);
        clear(p, x.from, x.to);
    }
}

static void add_step(pricing *p, const cleave_collective_plan *plan,
                     const cleave_collective_step *step) {
    cleave_round_cost round = {.distance = distance_of(step),
                               .size = step->phase->size,
                               .member_stride = step->phase->member_stride};
    count_messages(p, plan, step, &round);
    /* In a fold or a tree a member only sends or only receives. */
    bool both = step->phase->shape <= CLEAVE_PHASE_DOUBLING;
    add_rounds(p, round, step->alike, both ? 2 : 1, step->reduces ? 1 : 0);
}

/* Every pair at once: what no plan is made of. */
static void add_direct(pricing *p) {
    int32_t n = p->collective->n_devices;
    cleave_collective_kind kind = p->collective->kind;
    bool sums = kind == CLEAVE_REDUCE_SCATTER || kind == CLEAVE_ALL_REDUCE;
    cleave_round_cost round = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < n; i++)
            for (int32_t j = 0; j < n; j++)
                if (i != j && pass == 0)
                    cross(p, i, j, 1.0 / n, &round);
                else if (i != j)
                    clear(p, i, j);
    add_rounds(p, round, 1, 2 * (n - 1), sums ? n - 1 : 0);
    if (kind == CLEAVE_ALL_REDUCE)
        add_rounds(p, round, 1, 2 * (n - 1), 0);
}

/* Of the slowest kind among the members. */
static cleave_byte_price price_sums(const cleave_machine *machine,
                                    const cleave_collective *collective) {
    cleave_byte_price slowest = {0};
    int32_t last = -1;
    for (int32_t i = 0; i < collective->n_devices; i++) {
        int32_t kind = machine->device_kind[collective->devices[i]];
        if (kind == last)
            continue;
        last = kind;
        cleave_byte_price price = cleave_sum_price_of(&machine->kinds[kind]);
        slowest.launch_seconds = fmax(slowest.launch_seconds, price.launch_seconds);
        slowest.seconds_per_byte = fmax(slowest.seconds_per_byte, price.seconds_per_byte);
        if (price.far_excess > slowest.far_excess) {
            slowest.near_bytes = price.near_bytes;
            slowest.far_excess = price.far_excess;
        }
    }
    return slowest;
}

/* Seconds per byte from the members of a node, of which this is the first, to those of the next, or
   at last round to the first: each to its neighbour, all at once. */
static double find_way_out(pricing *p, int32_t first, int32_t members) {
    int32_t n = p->collective->n_devices;
    cleave_round_cost out = {0};
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = first; i < first + members && i < n; i++) {
            int32_t beside = i + members < n ? i + members : first == 0 ? n - 1 : i - first;
            if (pass == 0)
                cross(p, i, beside, 1.0 / members, &out);
            else
                clear(p, i, beside);
        }
    return out.load_per_byte;
}

/* By what a library was measured to do: one round, of which processors have what they were found to
   have, or of ways that the library has between nodes the quickest. */
static void add_measured(pricing *p) {
    const cleave_collective *collective = p->collective;
    const cleave_machine *machine = p->machine;
    const cleave_machine_collectives *known = &machine->collectives;
    int32_t n = collective->n_devices, members = 1;
    bool all_reduces = collective->kind == CLEAVE_ALL_REDUCE;
    while (members < n &&
           cleave_machine_same_node(machine, collective->devices[0], collective->devices[members]))
        members++;
    int32_t n_nodes = (n + members - 1) / members;
    cleave_collective_span span = cleave_machine_collectives_within(
        known, machine->device_kind[collective->devices[0]], (int32_t)collective->kind, members);
    double within = members > 1 ? 1 / span.bytes_per_second : 0;
    double out = 0;
    for (int32_t h = 0; members < n && h < (machine->n_node_types > 1 ? n_nodes : 1); h++)
        out = larger(out, find_way_out(p, h * members, members) / known->between_share);
    const cleave_library_way as_measured = {.base_seconds = span.latency_seconds,
                                            .between_seconds = known->between_latency_seconds,
                                            .alone_seconds = known->between_latency_seconds,
                                            .share = 1};
    bool has_ways = n_nodes > 1 && known->library != NULL;
    int n_ways = has_ways ? known->library->n_ways : 1;
    for (int w = 0; w < n_ways; w++) {
        const cleave_library_way *way = has_ways ? &known->library->ways[w] : &as_measured;
        if (way->is_tree && !all_reduces)
            continue;
        double sent = (all_reduces ? 2.0 : 1.0) * (way->is_tree ? 1 : (n - 1.0) / n);
        double seconds_per_byte = larger(within, out / way->share);
        if (way->most_bytes_per_second > 0)
            seconds_per_byte = larger(seconds_per_byte, 1 / way->most_bytes_per_second);
        double latency = cleave_library_way_latency(way, has_ways && all_reduces, members, n_nodes);
        const cleave_round_line processor = {
            .fixed = fmin(span.overhead_seconds, latency),
            .per_byte = sent * fmin(span.overhead_seconds_per_byte, seconds_per_byte)};
        double load_per_byte = sent * seconds_per_byte - processor.per_byte;
        p->rounds->items[p->rounds->n++] = (cleave_round_cost){.distance = -1,
                                                               .times = 1,
                                                               .latency = latency - processor.fixed,
                                                               .load_per_byte = load_per_byte,
                                                               .message_per_byte = load_per_byte,
                                                               .processor = processor,
                                                               .largest_share = sent};
    }
    p->rounds->is_choice = has_ways;
}

static void price(pricing *p) {
    const cleave_collective *collective = p->collective;
    if (cleave_machine_knows_collectives(p->machine)) {
        add_measured(p);
        return;
    }
    p->sum = price_sums(p->machine, collective);
    if (!cleave_collective_has_plan(collective->kind, collective->algorithm, collective->n_devices,
                                    collective->node_members)) {
        add_direct(p);
        return;
    }
    cleave_collective_plan plan = cleave_collective_plan_of(
        collective->kind, collective->algorithm, collective->n_devices, collective->node_members);
    cleave_collective_step step;
    for (int32_t s = 0; s < plan.n_steps; s += step.alike) {
        step = cleave_collective_step_of(&plan, s);
        add_step(p, &plan, &step);
    }
}

/* What a run of steps that share links takes.  Its members cross the shared link in turn, so what
   they do between two steps is hidden behind the turns of the others: either the link is never
   idle, or a member goes through all steps and waits for the largest of its turns once. */
typedef struct run {
    double link, member, turn, last;
} run;

static double end_run(run *r) {
    double seconds = fmax(r->link + r->last, r->member + r->turn);
    *r = (run){0};
    return seconds;
}

/* How long a round's messages need to set out. */
static double agreement_of(const cleave_round_cost *round, double bytes) {
    return round->link == NULL
               ? 0
               : cleave_link_agreement_seconds(round->link, round->largest_share * bytes);
}

/* What the protocol of the slowest link adds to the bytes of a message over its bandwidth. */
static double find_excess(const cleave_round_cost *round, double bytes) {
    return round->link == NULL ? 0
                               : cleave_link_seconds(round->link, round->largest_share * bytes) -
                                     round->largest_share * bytes / round->link->bytes_per_second;
}

/* Seconds that the links of a round are taken, by all messages and by one. */
static double load_of(const cleave_round_cost *round, double bytes) {
    double messages =
        round->message_per_byte > 0 ? round->load_per_byte / round->message_per_byte : 1;
    return round->load_per_byte * bytes + messages * find_excess(round, bytes);
}

/* Seconds of a member's processor in a round. */
static double processor_of(const cleave_round_cost *round, double bytes) {
    double seconds = round->processor.fixed + round->processor.per_byte * bytes;
    return round->sums > 0
               ? seconds + cleave_byte_price_excess(&round->sum, round->sums,
                                                    round->sums * 3 * round->largest_share * bytes)
               : seconds;
}

/* The rounds that are taken: all, or of a choice the quickest. */
typedef struct taken {
    const cleave_round_cost *items;
    int n;
} taken;

static taken take(const cleave_collective_rounds *rounds, double bytes) {
    if (!rounds->is_choice)
        return (taken){rounds->items, rounds->n};
    const cleave_round_cost *best = &rounds->items[0];
    for (int i = 1; i < rounds->n; i++) {
        const cleave_round_cost *other = &rounds->items[i];
        if (other->latency + other->load_per_byte * bytes <
            best->latency + best->load_per_byte * bytes)
            best = other;
    }
    return (taken){best, 1};
}

static double total_seconds(taken rounds, double bytes) {
    double seconds = 0;
    run shared = {0};
    for (int i = 0; i < rounds.n; i++) {
        const cleave_round_cost *round = &rounds.items[i];
        double load = load_of(round, bytes), work = round->work_per_byte * bytes;
        double message = round->message_per_byte * bytes + find_excess(round, bytes);
        double rest = round->latency + agreement_of(round, bytes) + processor_of(round, bytes);
        if (round->load_per_byte <= round->message_per_byte * (1 + 1e-9)) {
            seconds += end_run(&shared) + round->times * (fmax(load, work) + rest);
            continue;
        }
        shared.link += round->times * load;
        shared.member += round->times * (fmax(message, work) + rest);
        shared.turn = fmax(shared.turn, load - message);
        shared.last = rest;
    }
    return seconds + end_run(&shared);
}

void cleave_collective_rounds_find(const cleave_machine *machine,
                                   const cleave_collective *collective, double *load,
                                   cleave_collective_rounds *rounds) {
    pricing p = {.machine = machine, .collective = collective, .load = load, .rounds = rounds};
    rounds->n = 0;
    rounds->is_choice = false;
    price(&p);
}

cleave_collective_cost cleave_collective_rounds_price(const cleave_collective_rounds *rounds,
                                                      int64_t part_bytes, int64_t vector_bytes) {
    double bytes = (double)vector_bytes, busy = 0, processor = 0;
    double share = part_bytes == vector_bytes ? 1 : (double)part_bytes / bytes;
    taken rounds_taken = take(rounds, bytes);
    for (int i = 0; i < rounds_taken.n; i++) {
        const cleave_round_cost *round = &rounds_taken.items[i];
        busy += round->times * load_of(round, bytes);
        processor += round->times * processor_of(round, bytes);
    }
    double total = total_seconds(rounds_taken, bytes);
    busy = fmin(busy, total);
    processor = fmin(processor, total - busy); /* the rest is hidden behind the links */
    return (cleave_collective_cost){.busy = cleave_picoseconds(share * busy),
                                    .rest = cleave_picoseconds(share * (total - busy - processor)),
                                    .processor = cleave_picoseconds(share * processor)};
}

void cleave_cost_collective_sizes(const cleave_machine *machine,
                                  const cleave_collective *collective, double *load, int n,
                                  const int64_t *bytes, double *seconds) {
    cleave_collective_rounds rounds;
    cleave_collective_rounds_find(machine, collective, load, &rounds);
    for (int i = 0; i < n; i++)
        seconds[i] = total_seconds(take(&rounds, (double)bytes[i]), (double)bytes[i]);
}
