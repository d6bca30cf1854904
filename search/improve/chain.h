/* Where a search stands: a layout of the space as a choice for every operator, its price, and a
   proposal, which is taken or taken back. */
#ifndef CLEAVE_SEARCH_IMPROVE_CHAIN_H
#define CLEAVE_SEARCH_IMPROVE_CHAIN_H

#include "search/price/price_window.h"
#include "search/problem/choices.h"

typedef struct cleave_chain {
    cleave_pricer *pricer;
    const cleave_candidates *candidates;
    bool in_steps;           /* collectives, in all its prices */
    cleave_windows *windows; /* that its prices are estimates of; null: of all devices */
    cleave_layout layout;    /* with the proposal; splits have room for all devices, of windows they
                                refer to those of candidates */
    cleave_choices choices;  /* of the same */
    cleave_price price;      /* without the proposal */
    cleave_price proposed;   /* with it, once priced */
    int64_t proposals, accepted;
    int64_t work;       /* of the proposals, in bytes of fragments: depends on the layouts only */
    int64_t whole_work; /* what planning the memory of all devices counts as; 0 to begin with */
    /* The proposal: */
    cleave_choice *old; /* [n_operators] where changed */
    int32_t *changed;   /* [n_operators] ascending in no order */
    int32_t *resharded; /* [n_tensors] */
    bool *is_changed;   /* [n_operators] */
    int32_t n_changed, n_resharded;
    cleave_estimate *estimate;
} cleave_chain;

/* Where a chain may go. */
typedef struct cleave_chain_start {
    const cleave_choices *choices;
    const cleave_price *price; /* of that very layout, which saves planning its memory; null: not
                                  known */
} cleave_chain_start;

/* What a chain is of. */
typedef struct cleave_chain_frame {
    const cleave_candidates *candidates;
    const cleave_layout *like; /* number of devices, collectives ... */
    bool in_steps;             /* ... and how these are priced */
    cleave_windows *windows;   /* null: all devices are priced; else these windows ... */
    int32_t window_devices;    /* ... of so many devices, of whose space the candidates are */
} cleave_chain_frame;

/* Begins with choices and prices them; NO_LAYOUT where these are none of windows.  Lives in the
   arena, but for what cleave_chain_end frees. */
cleave_status cleave_chain_begin(cleave_pricer *pricer, const cleave_chain_frame *frame,
                                 const cleave_chain_start *start, cleave_arena *arena,
                                 cleave_chain *chain, cleave_error *error);
void cleave_chain_end(cleave_chain *chain);

/* Proposes another choice; nothing where it is the same. */
cleave_status cleave_chain_change(cleave_chain *chain, int32_t op, cleave_choice choice,
                                  cleave_error *error);
/* Proposes that the update of a parameter is sharded, or not. */
cleave_status cleave_chain_shard(cleave_chain *chain, int32_t tensor, bool sharded,
                                 cleave_error *error);
/* Prices the proposal, where it changes anything.  Where the step turns out to be `below` or more,
   or the layout does not fit and the proposal comes no nearer, memory may be left unplanned:
   `proposed` is then said to be over the limit.  So it is, by INT64_MAX bytes, where it is none of
   windows: it can only be rejected then.  Where it is asked only whether the step is below, one
   that is not may be any such. */
cleave_status cleave_chain_price(cleave_chain *chain, int64_t below, bool only_whether,
                                 cleave_error *error);
/* After pricing only. */
cleave_status cleave_chain_accept(cleave_chain *chain, cleave_error *error);
cleave_status cleave_chain_reject(cleave_chain *chain, cleave_error *error);

/* To other choices, at no proposal. */
cleave_status cleave_chain_go_to(cleave_chain *chain, const cleave_chain_start *to,
                                 cleave_error *error);

#endif
