/* Values that come from the seed: initial parameters, made-up data and dropout masks.

   Every value is a function of (seed, name, logical row-major index), so that a device can make
   any box of a tensor by itself, and what a model starts from does not depend on the layout. */
#ifndef CLEAVE_EXEC_KERNELS_INITIAL_H
#define CLEAVE_EXEC_KERNELS_INITIAL_H

#include "base/random.h"
#include "graph/model/box.h"
#include "graph/model/model.h"

/* Fills a box of a parameter, buffer or constant, dense in the tensor's memory order, from its
   value where the model has one, else U(-1/sqrt(fan_in), 1/sqrt(fan_in)), else initial_value.
   `data` is float or int64_t by the tensor's type. */
void cleave_initial_fill(const cleave_tensor *tensor, uint64_t seed, const cleave_box *box,
                         void *data);

/* Fills a box of a datum: floats of its initial_value, or standard normal ones where that is 0; ids
   uniform in 0..below-1 (0 where below is less than 1); from its value where the model has one. */
void cleave_initial_fill_data(const cleave_tensor *tensor, uint64_t seed, int64_t step,
                              const cleave_box *box, void *data);

/* One element of made-up data. */
uint64_t cleave_initial_data_key(uint64_t seed, int64_t step, const char *name);
float cleave_initial_normal(uint64_t key, int64_t index);
int64_t cleave_initial_id(uint64_t key, int64_t index, int64_t below);

/* Dropout: an element is kept with probability 1 - ratio.  `least` is the ratio's threshold. */
uint64_t cleave_dropout_key(uint64_t seed, int64_t step, const char *output_name);
static inline uint64_t cleave_dropout_threshold(double ratio) {
    return ratio <= 0 ? 0 : ratio >= 1 ? UINT64_C(1) << 53 : (uint64_t)(ratio * 0x1p53);
}
static inline bool cleave_dropout_keeps(uint64_t key, int64_t index, uint64_t least) {
    return cleave_hash_join(key, (uint64_t)index) >> 11 >= least;
}
/* UNIFORM: in [0, 1), by the key of a dropout, with as many digits as a float holds. */
static inline double cleave_uniform_draw(uint64_t key, double stream, int64_t index) {
    return (double)(cleave_hash_join(cleave_hash_join(key, (uint64_t)stream), (uint64_t)index) >>
                    40) *
           0x1p-24;
}

#endif
