/* What the two halves of resharding share: which cells go where (resharding.c), and what that takes
   on links and devices (resharding_load.c). */
#ifndef CLEAVE_SEARCH_SOLVE_RESHARDING_INTERNAL_H
#define CLEAVE_SEARCH_SOLVE_RESHARDING_INTERNAL_H

#include "base/list.h"
#include "costmodel/byte_price.h"
#include "search/solve/resharding.h"

enum { RESHARD_N_SIZES = 48, RESHARD_N_KINDS = 3, RESHARD_MOST_TABLED = 256, RESHARD_FEW = 8 };

/* A collective among one group, between two powers of two of bytes. */
typedef struct reshard_line {
    bool known;
    double bytes[2], busy[2], rest[2], processor[2]; /* seconds */
} reshard_line;

typedef struct reshard_group {
    int32_t n_devices, n_links;
    int32_t *devices; /* [n_devices] ascending */
    int32_t *links;   /* [n_links] that it takes between its first members, and back to them */
    uint64_t hash;
    struct reshard_group *next;
    reshard_line lines[RESHARD_N_KINDS][RESHARD_N_SIZES];
} reshard_group;

enum { RESHARD_GROUP_ROWS = 1024 };

typedef struct reshard_route {
    int32_t first, n; /* links */
    float latency, overhead, overhead_per_byte;
    bool is_known;
} reshard_route;

/* What one stage takes so far; all 0 between resharding costs. */
typedef struct reshard_load {
    double *link, *device;               /* [n_links], [n_devices] seconds */
    CLEAVE_LIST(int32_t) links, devices; /* that are not 0 */
    double latency;
} reshard_load;

/* What a device exchanges with other nodes, one way. */
typedef struct reshard_remote_sum {
    double bytes, messages, copied, copies, rows; /* of them packed or unpacked */
} reshard_remote_sum;

/* What the shards of a grid have of a box: elements, each as often as shards have it, the number of
   shards that overlap it, and the first of them; -1: none. */
typedef struct reshard_overlap {
    double elements, n_shards;
    int32_t first;
} reshard_overlap;

/* Of a shard that is read, by arithmetic. */
typedef struct reshard_reading {
    int64_t resharding; /* the one that it is known of */
    reshard_overlap all;
    double packs, unpacks; /* rows, see below */
    bool gathers;          /* all that read it have some of it: so many elements */
    double gathered;
} reshard_reading;

typedef struct reshard_cell {
    int32_t from, to; /* shards */
    double bytes;
    double packs, unpacks; /* rows that it is in where it comes from, or goes to; 0: it lies there
                              in one piece */
} reshard_cell;

typedef struct reshard_flow {
    int32_t source, destination;
    double bytes, unpacks;
} reshard_flow;

struct cleave_resharder {
    const cleave_machine *machine;
    const cleave_collective_rules *rules;
    const cleave_sent_together *together; /* of this tensor; null: it goes alone */
    int32_t tensor;
    cleave_arena arena;
    cleave_copy_price copy; /* of the slowest kind */
    reshard_route *routes;  /* [n_devices squared], as they were asked for; or null */
    CLEAVE_LIST(int32_t) route_links;
    double *link_per_byte; /* [n_links] */
    double *shares;        /* [n_links] scratch of the closed form: all 0 */
    int32_t *seen;         /* [n_links] scratch */
    int32_t n_groups;
    reshard_group **groups; /* [RESHARD_GROUP_ROWS] */
    reshard_load load;
    int32_t *node_start; /* [n_devices] first device of the node of each */
    int32_t *node_end;
    bool everywhere; /* nodes are not alike, or links between them are shared by all, or all are
                        few: look at all */
    bool few;
    /* Of the present resharding: */
    bool *in_focus;                /* [n_devices] */
    reshard_remote_sum *remote[2]; /* [n_devices] in and out, of devices in focus */
    CLEAVE_LIST(int32_t) focus;    /* those devices */
    bool *from_in_focus,
        *to_in_focus; /* [n_devices] by shard: all false but while cells are found */
    const cleave_sharding *from, *to;
    cleave_resharding_sort sort;
    CLEAVE_LIST(reshard_cell) cells;
    CLEAVE_LIST(reshard_flow) results; /* the second stage */
    double *scattered;                 /* [n_devices] bytes by shard of `from` */
    int32_t *n_roots;                  /* [n_devices] the same */
    int64_t n_reshardings;
    reshard_reading *readings;          /* [n_devices] by shard of `to` */
    int32_t *speakers, *owners, *group; /* [n_devices] devices */
    bool failed;                        /* memory is short */
};

/* Devices of a collective. */
static inline int32_t reshard_least_collective(const cleave_resharder *r) {
    int32_t least = r->machine->collectives.least_devices;
    return least > 0 ? least : CLEAVE_LEAST_COLLECTIVE;
}
/* One message, packed and unpacked in so many rows (0: not at all); one of its ends at least is in
   focus. */
void reshard_send(cleave_resharder *r, int32_t source, int32_t destination, double bytes,
                  double packs, double unpacks);
/* A copy, or a sum, on a device: bytes read and written, in so many rows. */
void reshard_copy(cleave_resharder *r, int32_t device, double bytes, double rows);
void reshard_sum(cleave_resharder *r, int32_t device, double bytes, double rows);
/* A collective among devices, ascending. */
void reshard_collective(cleave_resharder *r, cleave_collective_kind kind, int32_t n,
                        const int32_t *devices, double bytes);
/* Messages between a device in focus and other nodes, in all. */
static inline void reshard_remote(cleave_resharder *r, int32_t device, bool out, double bytes,
                                  double messages, double rows) {
    reshard_remote_sum *sum = &r->remote[out][device];
    sum->bytes += bytes;
    sum->messages += messages;
    sum->copied += rows > 0 ? bytes : 0;
    sum->copies += rows > 0 ? messages : 0;
    sum->rows += rows * messages;
}
/* The values of even shardings, by arithmetic; false where they are not even (resharding_even.c).
 */
bool reshard_even(cleave_resharder *r);
/* Elements that two boxes have in common. */
double reshard_common(int rank, const cleave_box *a, const cleave_box *b);
/* The rows in which what a box has in common with another lies in it; 0: in one piece. */
double reshard_rows(const cleave_sharding *s, const cleave_box *box, const cleave_box *other);
const int32_t *reshard_list_group(cleave_resharder *r, const cleave_shard_member *members,
                                  int32_t n);
/* Seconds of what was loaded since the last time. */
double reshard_end_stage(cleave_resharder *r);

static inline double reshard_more(double a, double b) { return a > b ? a : b; }

#endif
