/* The arrays that the engines keep beside problem and timeline. */
#ifndef CLEAVE_SIMULATOR_STEP_ENGINE_WORKSPACE_H
#define CLEAVE_SIMULATOR_STEP_ENGINE_WORKSPACE_H

#include "simulator/events/event_queue.h"
#include "simulator/scan/scan_rule.h"
#include "simulator/step/engine.h"

/* What the events engine knows of a message, side by side since an event touches most of it. */
typedef struct cleave_message_state {
    int64_t head, tail; /* see link.h */
    int64_t delay;      /* by polls */
    int64_t left;       /* when it has left without that, as far as is known */
    int64_t release;    /* when it has left; -1: not yet known */
    int64_t arrival;    /* -1: not yet known */
    int32_t hop, end;   /* the next hop, and the end of them, of which the last is both ends' */
    int32_t arrival_waiter, release_waiter; /* first lane of those that wait; -1: none */
    int32_t posted;                         /* ends posted so far */
} cleave_message_state;

struct cleave_engine_workspace {
    /* Links and messages. */
    int64_t *link_free;      /* [n_links] events */
    cleave_scan_link *links; /* [n_links] scan */
    int64_t *head;           /* [n_messages] scan: when the first of the two posts ended */
    int64_t *release;        /* [n_messages] scan: when it has left */
    int64_t *hop_begin;      /* [n_hops] */
    int64_t *end_begin;      /* [n_messages][2] when its source and its destination began to work on
                               each message that has work */
    cleave_message_state *messages;             /* [n_messages] events */
    int32_t *joined;                            /* [n_collectives] */
    int64_t *collective_ready, *collective_end; /* [n_collectives]; end -1: not yet known */
    /* Queues. */
    int64_t *clock;        /* [n_queues] */
    int32_t *position;     /* [n_queues] of the current item within queue_items */
    bool *begun;           /* [n_queues] the current item has started */
    int32_t *next_waiter;  /* [n_queues] in the list of those that wait for the same thing */
    int32_t *first_waiter; /* [n_collectives] first lane of those that wait; -1: none */
    /* Devices: how the communication lane charges the main lane. */
    int64_t *processor_free;       /* [n_devices] events: after its work on messages */
    cleave_scan_link *processors;  /* [n_devices] scan */
    int64_t *worked, *worked_seen; /* [n_devices] events: as the next two, of work on messages */
    int64_t *busy_until; /* [n_devices] events: when the communication lane's last work ends */
    int64_t *taken;      /* [n_devices] events: all its work so far */
    int64_t *taken_seen; /* [n_devices] events: of it, what the current main item has counted */
    cleave_scan_device *devices; /* [n_devices] scan */
    cleave_event_queue events;   /* one event per queue, message and collective at most */
};

#endif
