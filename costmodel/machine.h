/* A machine: devices of some kinds, links between them, and the routes that messages take. */
#ifndef CLEAVE_COSTMODEL_MACHINE_H
#define CLEAVE_COSTMODEL_MACHINE_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "costmodel/efficiency.h"
#include "costmodel/likeness.h"
#include "costmodel/machine_collectives.h"
#include "graph/model/layout.h" /* CLEAVE_MAX_DEVICES */
#include "graph/program/framework.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a cost comes from. */
typedef enum cleave_provenance {
    CLEAVE_PROVENANCE_MEASURED,
    CLEAVE_PROVENANCE_PREDICTED, /* from measured neighbours of the same operator and pass */
    CLEAVE_PROVENANCE_DATA_SHEET /* roofline */
} cleave_provenance;

/* What is known of one kernel: see graph/program/work.h for key and family. */
typedef struct cleave_kernel_time {
    const char *key, *family;
    double seconds; /* median; 0: not timed, only its workspace is known */
    double spread;  /* half the interquartile range over the median */
    double flops, bytes;
    int64_t workspace_bytes;
    double alone_seconds; /* median while the other devices did nothing; 0: not measured */
} cleave_kernel_time;

/* Fitted efficiency of one family: seconds = launch + flops x seconds_per_flop + bytes x
   seconds_per_byte.  Of copies and their kin bytes beyond those that are near, in the caches, may
   go at another rate. */
typedef struct cleave_family_fit {
    const char *family;
    double launch_seconds, seconds_per_flop, seconds_per_byte;
    double spread; /* median of |fitted / measured - 1| at kernels that a fit was made without
                      (cross-validation in ten parts); 1 where a single kernel is all there is */
    int64_t workspace_bytes; /* the most that any kernel of the family takes, timed or not, */
    double largest_bytes;    /* and the most bytes that any of them moves */
    double near_bytes, far_seconds_per_byte; /* not below seconds_per_byte; 0: all go alike */
    double alone; /* seconds alone over seconds with all devices busy, the median over its kernels,
                     or of what moves bytes over their time, and its standard error, in (0, 1];
                     0: not measured */
} cleave_family_fit;

static inline double cleave_family_fit_seconds(const cleave_family_fit *fit, double flops,
                                               double bytes) {
    double far = fit->near_bytes > 0 && bytes > fit->near_bytes ? bytes - fit->near_bytes : 0;
    return fit->launch_seconds + fit->seconds_per_flop * flops +
           fit->seconds_per_byte * (bytes - far) + fit->far_seconds_per_byte * far;
}

typedef struct cleave_device_kind {
    const char *name, *source;
    int64_t memory_bytes;
    double flops_per_second, bytes_per_second;           /* peaks, of products in f32 */
    double rates[CLEAVE_N_TYPES];                        /* and in shorter types; 0: it has none */
    cleave_efficiency efficiency[CLEAVE_N_EFFICIENCIES]; /* of the roofline */
    double launch_seconds;                               /* per compute item */
    cleave_framework framework; /* said by who asks, and no figure of a file */
    int64_t runtime_bytes;      /* resident memory of a rank beside arena and program; 0: unknown */
    const char *kernel_version; /* libraries that the times are of; null where none are */
    int32_t threads;            /* of a device, that the times are of; 0: one, or nothing is said */
    int32_t n_kernels, n_fits;
    cleave_kernel_time *kernels; /* sorted by key */
    int32_t kernel_capacity;     /* that `kernels` has room for; 0: no more than there are */
    cleave_family_fit *fits;
    cleave_likened *likened; /* timed kernels of each fit, one fit's after the other's, */
    int32_t *first_likened;  /* [n_fits + 1] from here on; null: fits are all there is */
} cleave_device_kind;

static inline int32_t cleave_device_kind_threads(const cleave_device_kind *kind) {
    return kind->threads > 1 ? kind->threads : 1;
}

/* The peak of products of this type. */
static inline double cleave_device_kind_flops(const cleave_device_kind *kind, cleave_type type) {
    return kind->rates[type] > 0 ? kind->rates[type] : kind->flops_per_second;
}

/* A transport works only while it is called: by a rank that waits all the time, by one that
   computes between two pieces of its work.  So many of them an end computes until a message is
   through. */
typedef struct cleave_polls {
    double small;           /* of a small message */
    double large, per_byte; /* of a large one: large + per_byte x its bytes */
} cleave_polls;

/* How long the ends of a large message agree before it sets out. */
typedef struct cleave_agreement {
    double bytes, seconds;
} cleave_agreement;

enum { CLEAVE_MAX_AGREEMENTS = 6 };

/* How a transport treats messages of different sizes; all 0: all alike. */
typedef struct cleave_protocol {
    double
        large_from_bytes; /* messages of so many bytes or more are large: the ends agree first, */
    /* which takes no link, but so long: of some sizes, ascending; linear between them, and as the
       nearest outside. */
    int n_agreements;
    cleave_agreement agreements[CLEAVE_MAX_AGREEMENTS];
    double first_bytes, first_bytes_per_second; /* so many bytes of a message go at another rate
                                                   than the rest; 0: none */
    cleave_polls sending, receiving;
} cleave_protocol;

typedef struct cleave_link {
    int32_t from, to; /* vertices: devices first, then switches and cards */
    double bytes_per_second, latency_seconds;
    /* Processor time at each end of a message over it: to post it, and while it is on its way. */
    double overhead_seconds, overhead_seconds_per_byte;
    cleave_protocol protocol;
} cleave_link;

/* Links as a file declares them: of one kind, joining groups of vertices. */
typedef struct cleave_link_class {
    const char *through; /* every member is joined with its group's own switch; null: every two
                            members of a group are joined directly.  Both directions. */
    double bytes_per_second, latency_seconds, overhead_seconds;
    double copy_bytes_per_second; /* 1 / overhead_seconds_per_byte; 0: no processor time per byte */
    cleave_protocol protocol;
    int32_t n_groups;
    const int32_t *group_start; /* [n_groups + 1] */
    const int32_t *members;     /* vertices of a node: its devices, then its inner vertices */
} cleave_link_class;

enum {
    CLEAVE_MAX_NODE_DEVICES = 1024,
    CLEAVE_MAX_INNER_VERTICES = 256,
    CLEAVE_MAX_TORUS_DIMENSIONS = 3,
    CLEAVE_MAX_NETWORK_LEVELS = 4,
    /* Links of a route: within a node, between nodes, and in all. */
    CLEAVE_MAX_LOCAL_ROUTE = 7,
    CLEAVE_MAX_NETWORK_ROUTE = 18,
    CLEAVE_MAX_ROUTE = 2 * CLEAVE_MAX_LOCAL_ROUTE + CLEAVE_MAX_NETWORK_ROUTE
};

/* Nodes that are alike.  Vertices of a node: its devices, then switches and cards. */
typedef struct cleave_node_type {
    int32_t count;
    int32_t n_devices;
    int32_t *kinds; /* [n_devices] */
    int32_t n_inner;
    const char **inner_names; /* [n_inner] */
    int32_t n_link_classes;
    cleave_link_class *link_classes;
} cleave_node_type;

typedef enum cleave_network_shape {
    CLEAVE_NETWORK_NONE,
    CLEAVE_NETWORK_DIRECT,  /* every two nodes */
    CLEAVE_NETWORK_TORUS,   /* neighbours of a grid, row-major, that closes on itself */
    CLEAVE_NETWORK_SWITCHES /* levels of switches: one, leaf and spine, a fat tree */
} cleave_network_shape;

/* A level of switches.  The first joins vertices of nodes, any other the switches of the level
   before, each of them with each switch of its group. */
typedef struct cleave_network_level {
    cleave_link_class links; /* its figures and `through`; it has no groups */
    int32_t nodes;           /* consecutive nodes under a group of switches; 0: all */
    int32_t n_switches;      /* of a group; of the first level one for each rail */
    double oversubscription; /* what comes from below over what goes up; 0: the bandwidth was given
                              */
} cleave_network_level;

/* A vertex that nodes have by name, or, where `name` is null, the device of that number. */
typedef struct cleave_join {
    const char *name;
    int32_t device;
    int32_t rail; /* the first level's switch that it goes to */
} cleave_join;

typedef struct cleave_network {
    cleave_network_shape shape;
    int32_t n_joins, n_rails;
    cleave_join *joins; /* [n_joins] by rail; a node has one or more of them */
    int32_t n_dimensions, size[CLEAVE_MAX_TORUS_DIMENSIONS]; /* of a torus */
    int32_t n_levels; /* 1 where there are no switches: the links between nodes */
    cleave_network_level levels[CLEAVE_MAX_NETWORK_LEVELS];
} cleave_network;

typedef struct cleave_machine_routes cleave_machine_routes;

typedef struct cleave_machine {
    const char *name;
    int32_t n_devices; /* in use: the first of all nodes' */
    int32_t n_vertices, n_links, n_kinds;
    int32_t *device_kind;     /* [n_devices] */
    const char **vertex_name; /* [n_vertices] such as "device 5", "node 1 card", "switch" */
    cleave_link *links;       /* [n_links] directed */
    cleave_device_kind *kinds;

    /* As declared: nodes of some types, one type after the other, and a network. */
    int32_t n_node_types;
    cleave_node_type *node_types;
    cleave_network network;
    cleave_machine_collectives collectives;
    int32_t n_nodes;
    int32_t devices_per_node; /* of every node, or, where they differ, their greatest common
                                 divisor: so many consecutive devices always share a node */

    cleave_machine_routes *routes;
    cleave_arena *arena;
} cleave_machine;

/* Reads a machine file, keeps its first `n_devices` devices (0: all), finds routes.  The format is
   described at the top of costmodel/machine_read.c.  BAD_INPUT names file, path and value. */
cleave_status cleave_machine_read(const char *path, int32_t n_devices, cleave_arena *arena,
                                  cleave_machine *machine, cleave_error *error);
cleave_status cleave_machine_parse(const char *text, size_t bytes, const char *name,
                                   int32_t n_devices, cleave_arena *arena, cleave_machine *machine,
                                   cleave_error *error);

/* The same of a document that was read, such as one whose figures were changed. */
cleave_status cleave_machine_take(const cleave_json *document, int32_t n_devices,
                                  cleave_arena *arena, cleave_machine *machine,
                                  cleave_error *error);

/* Is it known what a library's collectives take there?  Then they have no steps of ours. */
static inline bool cleave_machine_knows_collectives(const cleave_machine *machine) {
    return machine->collectives.n_spans > 0;
}

/* Are two devices of the machine in one node? */
bool cleave_machine_same_node(const cleave_machine *machine, int32_t a, int32_t b);

/* Do messages over any of its links ask more of their ends than to post them? */
bool cleave_machine_ends_work(const cleave_machine *machine);

/* One node of `n_devices` devices of one kind, each link of `links` joining two devices in both
   directions: what calibration makes. */
cleave_status cleave_machine_create_node(const char *name, const cleave_device_kind *kind,
                                         int32_t n_devices, const cleave_link *links,
                                         int32_t n_links, cleave_arena *arena,
                                         cleave_machine *machine, cleave_error *error);

/* Writes the whole machine as declared, whatever part of it is in use; read back, it is the same.
 */
cleave_status cleave_machine_write(const char *path, const cleave_machine *machine,
                                   cleave_error *error);

/* Derives vertices, links and routes of the first `n_devices` devices (0: all) of a machine that is
   declared; the readers and creators call it.  BAD_INPUT without the place of the file. */
cleave_status cleave_machine_build(cleave_machine *machine, int32_t n_devices, cleave_error *error);

/* Fills in the links of the route from one device to another, in order, and returns their number; 0
   from a device to itself.  Within a node: fewest hops, ties by the larger least bandwidth, then
   the smaller link ids; through switches and cards, never through a third device.  Between nodes:
   the same within both, by the card that makes the whole way shortest; of cards that are equal to a
   device its number chooses, in turn.  A torus is crossed dimension by dimension, the shorter way
   around.  Of several switches of a level the destination chooses (D-mod-k).  Time does not grow
   with the machine, but with the rails: from the table of a node, and arithmetic. */
int32_t cleave_machine_route(const cleave_machine *machine, int32_t source, int32_t destination,
                             int32_t links[CLEAVE_MAX_ROUTE]);

/* What can go from the first half of the devices to the other half at once, bytes per second, over
   whatever ways (a maximum flow); 0 for a machine of one device.  FAILED when memory is short. */
cleave_status cleave_machine_bisection(const cleave_machine *machine, double *bytes_per_second,
                                       cleave_error *error);

/* Resident memory of device d's rank beside its arena, for a program of `program_bytes` itself; 0
   where its kind was not calibrated. */
int64_t cleave_machine_runtime_bytes(const cleave_machine *machine, int32_t d,
                                     int64_t program_bytes);

/* Adds or replaces one kernel, keeping the order by key.  Strings are copied.  The array may move:
   copies of the kind made before no longer hold. */
cleave_status cleave_device_kind_add_kernel(cleave_device_kind *kind,
                                            const cleave_kernel_time *kernel, cleave_arena *arena,
                                            cleave_error *error);

/* What is known of the kernel of this key, or null. */
const cleave_kernel_time *cleave_device_kind_find_kernel(const cleave_device_kind *kind,
                                                         const char *key);

/* What a timed kernel tells beside the fit of its family. */
cleave_likened cleave_liken(const cleave_kernel_time *kernel, const cleave_family_fit *fit);

/* Finds what the timed kernels tell beside the fits, which are known.  Strings are not copied. */
cleave_status cleave_device_kind_liken(cleave_device_kind *kind, cleave_arena *arena,
                                       cleave_error *error);

/* Fits every family that has measured kernels: the sum of relative absolute deviations is least, a
   linear program.  Coefficients are 0 or more; with fewer than three measurements a family gets one
   coefficient, per flop or per byte, whichever its roofline rests on.  Replaces kind->fits, sorted
   by family, and likens. */
cleave_status cleave_device_kind_fit(cleave_device_kind *kind, cleave_arena *arena,
                                     cleave_error *error);

#endif
