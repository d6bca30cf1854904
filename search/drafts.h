/* The ways to split an operator over blocks of devices, as the ways to hand out prime factors.

   Equal factors of one level are handed out in ascending order of target, since devices of a level
   are alike: 16 nodes of 4 devices and six targets give thousands of ways and not 6^6.  A factor
   that leaves the largest block of an axis as large as before is dominated and not handed out. */
#ifndef CLEAVE_SEARCH_DRAFTS_H
#define CLEAVE_SEARCH_DRAFTS_H

#include "base/list.h"
#include "graph/model/model.h"

enum { DRAFT_LEVELS = 2, DRAFT_TARGETS = CLEAVE_MAX_AXES + 1, DRAFT_MAX_PRIMES = 32 };

/* Target 0 is replicas, target 1 + a is axis a. */
typedef struct draft {
    int32_t degree[DRAFT_LEVELS][DRAFT_TARGETS]; /* level 0: within a node; level 1: nodes */
    int32_t total[DRAFT_TARGETS], n_parts;
    int32_t index;       /* in the order in which they were made */
    int64_t picoseconds; /* for who prices them; 0 at first */
} draft;

/* Begin with the first three members set and all else zeroed; free `list`. */
typedef struct drafts {
    const cleave_operator *op;
    bool splits[CLEAVE_MAX_AXES]; /* axes that may be split */
    bool blocks;                  /* not only the first block of a size */
    int32_t n_devices;
    int n_primes;
    int32_t prime[DRAFT_MAX_PRIMES]; /* innermost level first */
    int level[DRAFT_MAX_PRIMES];
    int target_of[DRAFT_MAX_PRIMES];
    draft current;
    CLEAVE_LIST(draft) list; /* smaller blocks first */
    bool truncated, failed;
} drafts;

/* The factors of so many devices; nodes of unequal sizes count as one. */
void drafts_take_devices(drafts *d, int32_t n_devices, int32_t devices_per_node);

/* Fills the list, with the first 2^15 ways at most; false when memory is short. */
bool drafts_make(drafts *d);

/* How many there are at each of their blocks, also where the list holds fewer, without making them;
   exact below 2^53.  False when memory is short. */
bool drafts_count(const drafts *d, double *n_splits);

#endif
