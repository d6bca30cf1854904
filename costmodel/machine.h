/* A machine: devices of some kinds, links between them, and the routes that messages take. */
#ifndef CLEAVE_COSTMODEL_MACHINE_H
#define CLEAVE_COSTMODEL_MACHINE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

/* Where a cost comes from. */
typedef enum cleave_provenance {
    CLEAVE_PROVENANCE_MEASURED,
    CLEAVE_PROVENANCE_PREDICTED, /* from measured neighbours of the same operator and pass */
    CLEAVE_PROVENANCE_DATA_SHEET /* roofline */
} cleave_provenance;

/* One measured kernel: see graph/work.h for key and family. */
typedef struct cleave_kernel_time {
    const char *key, *family;
    double seconds; /* median */
    double spread;  /* half the interquartile range over the median */
    double flops, bytes;
    int64_t workspace_bytes;
} cleave_kernel_time;

/* Fitted efficiency of one family: seconds = launch + flops x per_flop + bytes x per_byte. */
typedef struct cleave_family_fit {
    const char *family;
    double launch_seconds, seconds_per_flop, seconds_per_byte;
    double spread; /* median of |fitted / measured - 1| */
} cleave_family_fit;

typedef struct cleave_device_kind {
    const char *name, *source;
    int64_t memory_bytes;
    double flops_per_second, bytes_per_second;    /* peaks */
    double product_efficiency, memory_efficiency; /* of the roofline, in (0, 1] */
    double launch_seconds;                        /* per compute item */
    int64_t runtime_bytes; /* resident memory of a rank beside its arena; 0 where not calibrated */
    const char *kernel_version; /* libraries that the times are of; null where none are */
    int32_t n_kernels, n_fits;
    cleave_kernel_time *kernels; /* sorted by key */
    cleave_family_fit *fits;
} cleave_device_kind;

typedef struct cleave_link {
    int32_t from, to; /* vertices: devices first, then switches and cards */
    double bytes_per_second, latency_seconds;
    double overhead_seconds,
        overhead_seconds_per_byte; /* processor time at each end of a message over it */
} cleave_link;

typedef struct cleave_machine {
    const char *name;
    int32_t n_devices, n_vertices, n_links, n_kinds;
    int32_t devices_per_node;
    int32_t *device_kind;     /* [n_devices] */
    const char **vertex_name; /* [n_vertices] */
    cleave_link *links;       /* directed */
    cleave_device_kind *kinds;
    /* Route of s -> d: links route_links[route_start[s x n_devices + d] .. route_start[... + 1]);
       fewest hops, ties by the larger least bandwidth, then the smaller link id.  A pair without
       one is an error on reading. */
    int64_t *route_start;
    int32_t *route_links;
    cleave_arena *arena;
} cleave_machine;

/* Reads a machine file (DESIGN.md section 13), keeps its first `n_devices` devices (0: all), finds
 * routes. */
cleave_status cleave_machine_read(const char *path, int32_t n_devices, cleave_arena *arena,
                                  cleave_machine *machine, cleave_error *error);
cleave_status cleave_machine_parse(const char *text, size_t bytes, const char *name,
                                   int32_t n_devices, cleave_arena *arena, cleave_machine *machine,
                                   cleave_error *error);

#endif
