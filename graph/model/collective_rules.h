/* Which algorithm each collective of a layout runs by: rules by kind, group and size, so that
   lowering needs no costs and the executor no machine. */
#ifndef CLEAVE_GRAPH_MODEL_COLLECTIVE_RULES_H
#define CLEAVE_GRAPH_MODEL_COLLECTIVE_RULES_H

#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/random.h"
#include "graph/model/collective_steps.h"

typedef struct cleave_collective_rule {
    cleave_collective_kind kind;
    int32_t n_devices;   /* of the group; 0: any */
    int32_t n_nodes;     /* that it lies in; 0: any */
    int64_t up_to_bytes; /* of its vector; 0: any */
    cleave_collective_algorithm algorithm;
} cleave_collective_rule;

typedef struct cleave_collective_rules {
    bool direct;          /* none at all: every pair exchanges through owners */
    int32_t node_devices; /* so many consecutive devices are a node; 0: not known, and then no group
                             runs at two levels and no rule with nodes fits */
    int32_t n;
    cleave_collective_rule *items; /* [n] the first that fits counts */
} cleave_collective_rules;

/* The algorithm for a group of `n` devices, ascending, and a vector of `bytes`.  Never DEFAULT or
   DIRECT: that is what stands where no rule fits, or where the group does not allow what the rule
   says (two levels need as many members in each of several nodes).  `node_members` gets the members
   in each node for TWO_LEVEL, else 1. */
cleave_collective_algorithm cleave_collective_rules_choose(const cleave_collective_rules *rules,
                                                           cleave_collective_kind kind, int32_t n,
                                                           const int32_t *devices, int64_t bytes,
                                                           int32_t *node_members);

/* The rule that fits, or -1. */
int32_t cleave_collective_rules_find(const cleave_collective_rules *rules,
                                     cleave_collective_kind kind, int32_t n, const int32_t *devices,
                                     int64_t bytes);

/* Reads and writes the value of "collectives" in a layout: see docs/formats.md.  BAD_INPUT names
   the place. */
cleave_status cleave_collective_rules_read(const cleave_json_cursor *at, cleave_arena *arena,
                                           cleave_collective_rules *rules, cleave_error *error);
void cleave_collective_rules_write(cleave_json_writer *writer,
                                   const cleave_collective_rules *rules);

/* Any rules: for tests of what must hold under all. */
cleave_status cleave_collective_rules_random(cleave_random *random, cleave_arena *arena,
                                             cleave_collective_rules *rules, cleave_error *error);

/* BAD_INPUT naming what is out of range. */
cleave_status cleave_collective_rules_check(const cleave_collective_rules *rules,
                                            cleave_error *error);

cleave_status cleave_collective_rules_copy(const cleave_collective_rules *rules,
                                           cleave_arena *arena, cleave_collective_rules *copy,
                                           cleave_error *error);

#endif
