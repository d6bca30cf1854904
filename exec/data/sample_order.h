/* In which order samples come.

   An epoch takes every sample once, as they stand in the file or shuffled, but for the last ones,
   which fill no batch and are left out: shuffled, others in every epoch.  What comes where is a
   function of (seed, epoch, place) alone: whoever wants a part of a batch finds its samples by
   itself, so they are the same under every layout, and a training that goes on from a checkpoint
   goes on in its epoch. */
#ifndef CLEAVE_EXEC_DATA_SAMPLE_ORDER_H
#define CLEAVE_EXEC_DATA_SAMPLE_ORDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_sample_order {
    int64_t n;     /* samples, at least 1 */
    int64_t batch; /* samples of a step, at least 1 */
    uint64_t seed;
    bool shuffled;
    bool whole; /* each once and none left out: the last batch is filled up from the beginning */
} cleave_sample_order;

/* Steps of an epoch; 0 where no batch can be filled. */
int64_t cleave_sample_order_steps(const cleave_sample_order *order);

/* The sample at a place of the batch of a step, both from 0. */
int64_t cleave_sample_order_at(const cleave_sample_order *order, int64_t step, int64_t place);

/* A permutation of 0..n-1 that is drawn by the key: where `i` goes. */
int64_t cleave_permute(uint64_t key, int64_t n, int64_t i);

#endif
