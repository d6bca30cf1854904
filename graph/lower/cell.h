/* The cells of a tensor: who combines each and who sends what to whom. */
#ifndef CLEAVE_GRAPH_LOWER_CELL_H
#define CLEAVE_GRAPH_LOWER_CELL_H

#include "graph/lower/move.h"

/* The contributions, sorted by (key, device), and the demands of one cell. */
typedef struct lower_cell {
    const cleave_box *box;
    int32_t n_contributions, n_demands;
    const int32_t *contributions, *demands;
    /* Cells with the same number here have the same contributions, or demands; -1: nothing is
       known. */
    int32_t contributors, readers;
} lower_cell;

enum { LOWER_LAST_BUCKETS = 64 };

/* What the cells of a movement are decided with. */
typedef struct lower_cutting {
    /* The same as in the movement, side by side: */
    int64_t *key;             /* [contributions] */
    int32_t *holder, *reader; /* devices of the [contributions] and of the [demands] */
    /* Of the present cell, [n_devices]: */
    bool *reads,
        *speaks;      /* the device has a demand; and it contributes what nobody does before it */
    int32_t *readers; /* [n_readers] devices, by their first demands */
    int32_t n_readers;
    int32_t *first_demand, *first_contribution; /* indices within the cell */
    int32_t *listed, n_listed; /* the device is among the speakers where it has this number */
    int32_t *speakers;         /* [n_speakers] contributing devices, ascending */
    int32_t n_speakers;
    int32_t n_speaking; /* of `speaks` */
    int32_t *owners;
    move_place *sum_of;         /* [n_devices] of owners, while a cell is combined; else 0 */
    int32_t *next_demand;       /* [demands] within the cell, of the same device; or -1 */
    int32_t *next_contribution; /* [contributions] the same */
    bool one_each;              /* every contribution of the cell has a key of its own */
    int32_t last_bucket[LOWER_LAST_BUCKETS];
    uint64_t readers_hash, speaking_hash; /* of these sets of devices */
    /* The numbers of the contributors and readers that this is known of; -1: not of the present
       cell, nor of the next one. */
    int32_t known_readers, known_holders, known_speakers, known_speaking, known_keys;
} lower_cutting;

static inline int32_t lower_cell_holder(const movement *move, const lower_cell *at, int32_t i) {
    return move->cutting->holder[at->contributions[i]];
}

static inline int64_t lower_cell_key(const movement *move, const lower_cell *at, int32_t i) {
    return move->cutting->key[at->contributions[i]];
}

void lower_cells_begin(lower_builder *builder, movement *move);
/* Values and partial results become flows and locals, or wait for a collective. */
void lower_cell_done(lower_builder *builder, movement *move, const lower_cell *cell);
/* Once all cells are done: what becomes no collective moves, too. */
void lower_cells_settle(lower_builder *builder, movement *move);

/* ---- for those that decide it ---------------------------------------------------------------- */

int32_t lower_add_box(lower_builder *builder, movement *move, const cleave_box *box);
/* A box of a cell that lies on a device: a contribution, or a sum of them. */
typedef struct lower_held {
    int32_t device, box;
    move_place place;
} lower_held;
/* Delivers it to all demands of one reader. */
void lower_deliver(lower_builder *builder, movement *move, const lower_cell *at,
                   const lower_held *held, int32_t reader);
/* Does contribution i speak for its key, where device `owner` (-1: none) holds the sum?  Those of
   one key stand side by side. */
bool lower_cell_speaks(const movement *move, const lower_cell *at, int32_t i, int32_t owner);
/* Marks the devices that speak for the cell's keys, once its readers are; returns their number. */
int32_t lower_mark_speakers(const lower_builder *builder, movement *move, const lower_cell *at);
/* Partial results that are combined by owners, block by block. */
void lower_combine_cell(lower_builder *builder, movement *move, const lower_cell *at);

#endif
