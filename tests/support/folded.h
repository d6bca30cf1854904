/* A drawn layout on a drawn machine, of which one window is simulated and all devices are. */
#ifndef CLEAVE_TESTS_SUPPORT_FOLDED_H
#define CLEAVE_TESTS_SUPPORT_FOLDED_H

#include "base/random.h"
#include "costmodel/machine.h"
#include "graph/program/program.h"

typedef struct fold_trial {
    cleave_arena arena;
    cleave_error error;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_random random;
    bool windows_outermost; /* of stages: each window has a node of every group */
    char name[200];
} fold_trial;

/* What came of simulating a program. */
typedef struct fold_outcome {
    cleave_status status;
    cleave_program program;
    int64_t step[2], *ends[2]; /* by rule; [n_queues] end of the last item */
    int64_t *between;
    char why[300];
} fold_outcome;

int32_t fold_below(fold_trial *t, int64_t n);
/* For calls that fill the trial's error. */
void fold_ok(const fold_trial *t, cleave_status status);

/* Nodes of one, two or four devices: joined by a switch or directly, each device with a link of its
   own to the card, or two on one PCIe switch; one node may be of a slower kind.  On some a
   library's collectives were measured. */
void make_fold_machine(fold_trial *t, int32_t n_nodes, int32_t per_node, bool direct, bool mixed);
/* One of configs/models; of some draws gradients are clipped. */
void import_to_fold(fold_trial *t, const char *file, int64_t batch);

int sample_axis(const cleave_operator *op); /* -1: it has none */
/* Samples outermost, the rest of the devices to any axes that come after; the devices in order. */
void draw_fold_split(fold_trial *t, int32_t op);
/* Any algorithm for all collectives. */
void draw_fold_rules(fold_trial *t);
bool draw_fold_layout(fold_trial *t); /* false: what was drawn is no layout */

fold_outcome simulate_fold(fold_trial *t, bool folded, bool expanded);
/* Folded against full; false: it doesn't fold.  Adds how many devices are of windows that have less
   of shares; null: none may. */
bool compare_folded(fold_trial *t, bool expanded, int *n_less);

#endif
