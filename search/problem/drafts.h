/* The ways to split an operator, as the ways to hand out prime factors of numbers of devices: over
   aligned blocks of any size, or over all devices in order such that all windows of M devices do
   the same.  Windows have the operator's outermost axis, cut into equal ranges, and what of the M
   devices is left goes to that and to axes that come after it.

   Equal factors of one level are handed out in ascending order of target, since devices of a level
   are alike: 16 nodes of 4 devices and six targets give thousands of ways and not 6^6.  A factor
   that leaves the largest block of an axis as large as before is dominated and not handed out. */
#ifndef CLEAVE_SEARCH_PROBLEM_DRAFTS_H
#define CLEAVE_SEARCH_PROBLEM_DRAFTS_H

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

/* Begin with the first two members set and all else zeroed, then take devices; free `list`. */
typedef struct drafts {
    const cleave_operator *op;
    bool splits[CLEAVE_MAX_AXES]; /* axes that may be split */
    int first_target;             /* those before it get nothing */
    uint32_t even_targets;        /* bits of axes that are cut into equal ranges alone */
    bool all_devices;             /* and no smaller blocks */
    int32_t n_devices;
    int n_primes;
    int32_t prime[DRAFT_MAX_PRIMES]; /* innermost level first */
    int level[DRAFT_MAX_PRIMES];
    int target_of[DRAFT_MAX_PRIMES];
    draft current;
    CLEAVE_LIST(draft) list; /* smaller blocks first */
    bool truncated, failed;
} drafts;

/* Blocks of so many devices and of fewer; nodes of unequal sizes count as one. */
void drafts_take_blocks(drafts *d, int32_t n_devices, int32_t devices_per_node);
/* The same where it does not matter which factors are of which level: as many drafts as differ in
   what they give in all. */
void drafts_take_degrees(drafts *d, int32_t n_devices, int32_t devices_per_node);
/* All devices, as windows; `outer` is the axis that is outermost, -1: replicas are.  False where
   there are no such ways. */
bool drafts_take_windows(drafts *d, int32_t n_devices, int32_t window_devices, int outer);

/* Fills the list, with the first 2^15 ways at most; false when memory is short. */
bool drafts_make(drafts *d);

/* How many there are at each of their blocks (`places`: or at the first alone), also where the list
   holds fewer, without making them; exact below 2^53.  False when memory is short. */
bool drafts_count(const drafts *d, bool places, double *n_splits);

#endif
