/* A layout: per operator, the degree of every axis, replicas, and the devices of its parts. */
#ifndef CLEAVE_GRAPH_MODEL_LAYOUT_H
#define CLEAVE_GRAPH_MODEL_LAYOUT_H

#include "base/random.h"
#include "graph/model/collective_rules.h"
#include "graph/model/model.h"
#include "graph/model/schedule.h"

typedef struct cleave_split {
    int32_t replicas; /* 1 or more */
    int32_t
        degree[CLEAVE_MAX_AXES]; /* per axis of the operator; 1: not split; at most the extent */
    int32_t n_parts;             /* replicas x product of the degrees */
    int32_t
        *devices; /* [n_parts], distinct; replicas outermost, then axes in table order, row-major */
    bool ring; /* of attention: keys go round among the parts of the queries (graph/model/ring.h) */
} cleave_split;

/* More devices than any layout file may name. */
enum { CLEAVE_MAX_DEVICES = 1 << 16 };

/* What of a parameter's state each of the devices that use it has a share of, and not the whole:
   each includes the ones before it.  (The stages of ZeRO: Rajbhandari et al., "ZeRO: Memory
   Optimizations Toward Training Trillion Parameter Models", 2020.) */
typedef enum cleave_sharded {
    CLEAVE_SHARDED_NOTHING,
    CLEAVE_SHARDED_UPDATE,   /* the state of the optimizer, and the work of the update */
    CLEAVE_SHARDED_GRADIENT, /* and the gradient, which is reduce-scattered where it arises */
    CLEAVE_SHARDED_WEIGHT,   /* and the parameter, which is gathered where it is read */
    CLEAVE_N_SHARDED
} cleave_sharded;
/* So much of the state of all parameters, as people shard it: of vectors (biases, norms) no more
   than the update, which saves as good as nothing and costs a message's latency each time
   (DeepSpeed has a threshold for it). */
static inline cleave_sharded cleave_sharded_as(const cleave_tensor *parameter,
                                               cleave_sharded sharded) {
    return parameter->rank < 2 && sharded > CLEAVE_SHARDED_UPDATE ? CLEAVE_SHARDED_UPDATE : sharded;
}
/* "nothing", "update", ...; all but the first are keys of the file format. */
extern const char *const cleave_sharded_names[CLEAVE_N_SHARDED];

typedef struct cleave_layout {
    char model_hash[33];
    char machine[64], method[32];  /* for people */
    double predicted_step_seconds; /* 0: not known */
    int32_t n_devices;             /* of the machine: device ids are 0..n_devices-1 */
    int32_t n_operators, n_tensors;
    cleave_split *splits; /* [n_operators], in the order of the model's operators */
    cleave_schedule schedule;
    bool *recompute; /* [n_operators] or null: its forward comes again before its backward, and what
                        backward alone reads of it is not kept until then */
    uint8_t *sharded; /* [n_tensors] cleave_sharded: how much of this parameter's state is */
    cleave_collective_rules collectives;
    bool stores_scores; /* of attention: no operator is one nest of graph/model/attention.h */
} cleave_layout;

/* All operators unsplit on device 0. */
cleave_status cleave_layout_create(const cleave_model *model, int32_t n_devices,
                                   cleave_arena *arena, cleave_layout *layout, cleave_error *error);
/* Sets one split; `degree` is [CLEAVE_MAX_AXES], where 0 counts as 1, and as many devices as there
   are parts are copied into the arena.  Does not check: see cleave_layout_check.  BAD_INPUT when
   the number of parts overflows. */
cleave_status cleave_layout_set(cleave_layout *layout, int32_t op, int32_t replicas,
                                const int32_t *degree, const int32_t *devices, cleave_arena *arena,
                                cleave_error *error);
cleave_status cleave_layout_copy(const cleave_layout *layout, const cleave_model *model,
                                 cleave_arena *arena, cleave_layout *copy, cleave_error *error);
/* The same, where nobody changes the copy: operators on the same devices as the one before share
   its list of them, since of thousands of devices and operators there is room for few lists. */
cleave_status cleave_layout_keep(const cleave_layout *layout, const cleave_model *model,
                                 cleave_arena *arena, cleave_layout *copy, cleave_error *error);

/* Is it legal for this model?  BAD_INPUT naming operator, axis and values. */
cleave_status cleave_layout_check(const cleave_model *model, const cleave_layout *layout,
                                  cleave_error *error);

static inline bool cleave_layout_recomputes(const cleave_layout *layout, int32_t op) {
    return layout->recompute != NULL && layout->recompute[op];
}

/* Do keys of any attention go round (graph/model/ring.h)? */
bool cleave_layout_rings(const cleave_layout *layout);

/* Is the whole batch in one stage, and nothing recomputed or passed round on the way? */
bool cleave_layout_is_whole(const cleave_layout *layout);
/* And nothing reduced or gathered: is it splits and sharded updates and nothing more? */
bool cleave_layout_is_plain(const cleave_layout *layout);

/* That of its schedule, which goes with the splits. */
cleave_status cleave_layout_check_schedule(const cleave_model *model, const cleave_layout *layout,
                                           cleave_error *error);

/* The group of devices of each stage, [n_stages] in the arena, numbered from 0 as they are met.
   BAD_INPUT where two stages have some devices in common and not all. */
cleave_status cleave_layout_groups(const cleave_layout *layout, cleave_arena *arena,
                                   int32_t **group, cleave_error *error);

/* The same for one split of one operator: the message names the operator. */
cleave_status cleave_split_check(const cleave_operator *op, const cleave_split *split,
                                 int32_t n_devices, cleave_error *error);
/* replicas x product of the degrees; false when it does not fit or one of them is below 1. */
bool cleave_split_count(int n_axes, int32_t replicas, const int32_t *degree, int32_t *n_parts);
/* The same replicas, degrees, devices and way of the keys? */
bool cleave_split_same(const cleave_split *a, const cleave_split *b);

/* Any legal layout drawn from a seed: splits of any splittable axes, replicas, any distinct
 * devices. */
cleave_status cleave_layout_random(const cleave_model *model, int32_t n_devices, uint64_t seed,
                                   cleave_arena *arena, cleave_layout *layout, cleave_error *error);
/* One random split of one operator with at most n_devices parts; devices has room for n_devices. */
void cleave_split_random(const cleave_operator *op, int32_t n_devices, cleave_random *random,
                         cleave_split *split);

/* The file format: docs/formats.md. */
enum { CLEAVE_LAYOUT_VERSION = 1 };
cleave_status cleave_layout_read(const char *path, const cleave_model *model, cleave_arena *arena,
                                 cleave_layout *layout, cleave_error *error);
cleave_status cleave_layout_parse(const char *text, size_t bytes, const char *name,
                                  const cleave_model *model, cleave_arena *arena,
                                  cleave_layout *layout, cleave_error *error);

/* What a layout file lists of a model; in the arena that it is read into. */
typedef struct cleave_layout_listed {
    const bool *operators; /* [n_operators] */
    const bool *updates;   /* [n_tensors] parameters whose update it says */
} cleave_layout_listed;

/* The same of a text that need not list all operators, with the same checks; those that it does not
   list are unsplit on device 0. */
cleave_status cleave_layout_parse_some(const char *text, size_t bytes, const char *name,
                                       const cleave_model *model, cleave_arena *arena,
                                       cleave_layout *layout, cleave_layout_listed *listed,
                                       cleave_error *error);
/* Written by cleave_layout_write, which the door has. */

#endif
