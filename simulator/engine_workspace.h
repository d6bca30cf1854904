/* The arrays that the engines keep beside problem and timeline. */
#ifndef CLEAVE_SIMULATOR_ENGINE_WORKSPACE_H
#define CLEAVE_SIMULATOR_ENGINE_WORKSPACE_H

#include "simulator/engine.h"
#include "simulator/event_heap.h"

struct cleave_engine_workspace {
    /* Links and messages. */
    int64_t *link_free;   /* [n_links] */
    uint8_t *posted;      /* [n_messages] ends posted so far */
    int64_t *head, *tail; /* [n_messages] see link.h */
    int64_t *release;     /* [n_messages] when the first link is free again; -1: not yet known */
    int64_t *hop_begin;   /* [n_hops] */
    int32_t *hop;         /* [n_messages] the next one */
    int32_t *joined;      /* [n_collectives] */
    int64_t *collective_ready, *collective_end; /* [n_collectives]; end -1: not yet known */
    /* Queues. */
    int64_t *clock;        /* [n_queues] */
    int32_t *position;     /* [n_queues] of the current item within queue_items */
    bool *begun;           /* [n_queues] the current item has started */
    int32_t *next_waiter;  /* [n_queues] in the list of those that wait for the same thing */
    int32_t *first_waiter; /* [2 x n_messages + n_collectives] arrivals, releases, collectives */
    /* Devices: how the communication lane charges the main lane. */
    int64_t *busy_until;    /* [n_devices] events: when the communication lane's last work ends */
    int64_t *taken;         /* [n_devices] events: all its work so far */
    int64_t *taken_seen;    /* [n_devices] events: of it, what the current main item has counted */
    int64_t *busy_from;     /* [n_devices] scan: end of the main lane's last idle time */
    int64_t *pending;       /* [n_devices] scan: work ahead of the main lane's clock */
    int64_t *pending_begin; /* [n_devices] */
    int64_t *pending_end;   /* [n_devices] */
    cleave_event_heap heap; /* one event per queue, message and collective at most */
};

#endif
