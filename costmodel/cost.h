/* Prices of the items of a program on a machine. */
#ifndef CLEAVE_COSTMODEL_COST_H
#define CLEAVE_COSTMODEL_COST_H

#include "costmodel/byte_price.h"
#include "costmodel/machine.h"
#include "graph/lower/lower.h"
#include "graph/program/program.h"
#include "graph/program/work.h"

/* Seconds as picoseconds, to the nearest; what is too long or not a number becomes 2^61 (26 days:
   too much for any engine).
 */
static inline int64_t cleave_picoseconds(double seconds) {
    double picoseconds = seconds * 1e12 + 0.5;
    return picoseconds < 0x1p61 ? (picoseconds > 0 ? (int64_t)picoseconds : 0) : INT64_C(1) << 61;
}

/* Two such times one after the other. */
static inline int64_t cleave_picoseconds_sum(int64_t a, int64_t b) {
    return a < (INT64_C(1) << 61) - b ? a + b : INT64_C(1) << 61;
}

/* How long a link is taken by some bytes, picoseconds: rounded up, at least 1. */
static inline int64_t cleave_serialization(int64_t bytes, double bytes_per_second) {
    double picoseconds = (double)bytes * 1e12 / bytes_per_second;
    if (!(picoseconds < 0x1p61))
        return INT64_C(1) << 61;
    int64_t whole = (int64_t)picoseconds;
    whole += (double)whole < picoseconds;
    return whole > 1 ? whole : 1;
}

/* The seconds that the ends of a message need before it sets out over a link, by its protocol. */
static inline double cleave_link_agreement_seconds(const cleave_link *link, double bytes) {
    const cleave_protocol *protocol = &link->protocol;
    int n = protocol->n_agreements, i = 0;
    if (n == 0 || bytes < protocol->large_from_bytes)
        return 0;
    while (i + 1 < n && bytes > protocol->agreements[i + 1].bytes)
        i++;
    const cleave_agreement *at = &protocol->agreements[i];
    if (i + 1 == n || bytes <= at->bytes)
        return at->seconds;
    return at->seconds +
           (at[1].seconds - at->seconds) * (bytes - at->bytes) / (at[1].bytes - at->bytes);
}

/* And those that it takes the link. */
static inline double cleave_link_seconds(const cleave_link *link, double bytes) {
    const cleave_protocol *protocol = &link->protocol;
    double first = protocol->first_bytes < bytes ? protocol->first_bytes : bytes;
    double seconds = (bytes - first) / link->bytes_per_second;
    if (first > 0)
        seconds += first / protocol->first_bytes_per_second;
    return seconds;
}

static inline int64_t cleave_link_serialization(const cleave_link *link, int64_t bytes) {
    const cleave_protocol *protocol = &link->protocol;
    if (protocol->first_bytes <= 0)
        return cleave_serialization(bytes, link->bytes_per_second);
    int64_t picoseconds = cleave_picoseconds(cleave_link_seconds(link, (double)bytes));
    return picoseconds > 1 ? picoseconds : 1;
}

/* Seconds of one compute on a kind of device, and where the figure comes from: the measured kernel
   of the same key; else the fit of its family; else the roofline of the data sheet, launch +
   max(flops / (peak x efficiency), bytes / (bandwidth x efficiency)). */
double cleave_cost_compute(const cleave_device_kind *kind, const cleave_work *work,
                           cleave_provenance *provenance);

/* What the parts of some work take no less than together, however it is cut: launches apart, and at
   the most of its peaks that a kind reaches with kernels of any size.  0 where something was
   measured, or where the work begins no kernel. */
double cleave_cost_floor(const cleave_device_kind *kind, const cleave_work *work);

/* Remembers prices by (nest, pass, extents and padding of the part) from program to program: for
   the search. */
typedef struct cleave_cost_cache cleave_cost_cache;
cleave_status cleave_cost_cache_create(const cleave_model *model, const cleave_machine *machine,
                                       cleave_cost_cache **cache, cleave_error *error);
void cleave_cost_cache_destroy(cleave_cost_cache *cache);
/* The model is some blocks of that of `whole`, which has more weights to send together:
   `tensor_of_whole` [n_tensors] says which each is there. */
void cleave_cost_cache_stand_for(cleave_cost_cache *cache, const cleave_cost_cache *whole,
                                 const int32_t *tensor_of_whole);
const cleave_machine *cleave_cost_cache_machine(const cleave_cost_cache *cache);
/* From now on data come from outside, and bringing them in has its price in every step.  Without
   this they are there, as in a run that makes them up before its first step. */
void cleave_cost_cache_load_data(cleave_cost_cache *cache);

/* A route and what a message on it costs its ends: the largest overheads among its links. */
typedef struct cleave_route_price {
    _Alignas(64) int32_t source; /* a line of the caches each: all pairs are asked for in turn */
    int32_t destination, n_links;
    const int32_t *links; /* [n_links] */
    double overhead_seconds, overhead_seconds_per_byte;
    const cleave_protocol *protocol; /* of the link that makes messages wait for most polls */
    double latency_seconds;          /* of all its links */
} cleave_route_price;
/* Of two different devices of the machine; holds until the next call. */
const cleave_route_price *cleave_cost_route(cleave_cost_cache *cache, int32_t source,
                                            int32_t destination);

/* What a chore takes on a kind of device that has this price, picoseconds. */
int64_t cleave_cost_chore(const cleave_copy_price *price, const cleave_copy *chore);

/* How much of its price an item takes where no other device of its node computes, [n_items], in (0,
   1]: by what calibration found of its family of kernels; 1 where that is not known. */
cleave_status cleave_cost_alone(const cleave_program *program, cleave_cost_cache *cache,
                                float *alone, cleave_error *error);
/* Do kernels of the machine's kinds take each other's time, or messages wait for polls? */
bool cleave_cost_knows_neighbours(const cleave_cost_cache *cache);

/* Duration of every item, picoseconds, [n_items]: compute, update, load and copy times; the
   overhead of a send or a receive, the largest among the links of its route; of a JOIN, the posts
   and sums of the whole collective (but 0 where
   it is an all-to-all: cost_exchange.h); 0 for what waits.  The program's devices must be among the
   machine's, and its model the cache's. */
cleave_status cleave_cost_items(const cleave_program *program, cleave_cost_cache *cache,
                                int64_t *duration, cleave_error *error);

/* What a price rests on. */
typedef struct cleave_price_basis {
    cleave_provenance provenance;
    int32_t source; /* a measured kernel, or the fit of a family; 0 .. cleave_cost_n_sources - 1;
                       -1: a data sheet, or a link */
    double spread;  /* relative; half of all cases lie within it: of a kernel, the runs that were
                       timed; of a fit, other kernels of the family; 0 where `source` is -1: not
                       known */
} cleave_price_basis;

enum { CLEAVE_N_PROVENANCES = 3 };

/* The basis of every item's price, [n_items]; of a wait, that of the transfer that it waits for. */
cleave_status cleave_cost_basis(const cleave_program *program, cleave_cost_cache *cache,
                                cleave_price_basis *basis, cleave_error *error);
int32_t cleave_cost_n_sources(const cleave_cost_cache *cache);

/* A collective in closed form: its links are taken for `busy` picoseconds from the last join (or
   from when they are free), and it has ended `rest` picoseconds later. */
typedef struct cleave_collective_cost {
    int64_t busy, rest;
    int64_t processor; /* picoseconds of each device: posts and sums; what its JOIN takes */
} cleave_collective_cost;
/* Bytes of the vector that it is sent in with others (costmodel/sent_together.h); it pays its share
   of that one's price. */
int64_t cleave_cost_cache_vector_bytes(const cleave_cost_cache *cache,
                                       const cleave_collective *collective);
/* Remembers by (kind, algorithm, devices) what does not depend on bytes. */
cleave_status cleave_cost_cache_collective(cleave_cost_cache *cache,
                                           const cleave_collective *collective,
                                           cleave_collective_cost *cost, cleave_error *error);
/* All that a collective of two devices or more takes, its processor's share too, for n sizes of its
   vector; the bytes that it has do not count. */
void cleave_cost_collective_sizes(const cleave_machine *machine,
                                  const cleave_collective *collective, double *load, int n,
                                  const int64_t *bytes, double *seconds);

/* Rules by which the collectives of a layout run as quickly as they can on a machine, by closed
   form: for each kind, and groups of d devices in each of k nodes, where d divides the devices of a
   node and k the number of nodes; or, with `whole_only`, for the group of all devices alone.
   What the default would choose anyway has no rule.  FAILED when memory is short. */
cleave_status cleave_choose_collectives(const cleave_machine *machine, bool whole_only,
                                        cleave_arena *arena, cleave_collective_rules *rules,
                                        cleave_error *error);

/* A cleave_workspace_function with a cleave_machine as context: what calibration found, else
   predicted from the family, and 0 where nothing is known of it. */
int64_t cleave_cost_workspace(void *machine, const cleave_model *model, const cleave_nest *nest,
                              cleave_pass pass, const cleave_part *part);

#endif
