/* Values that come from the seed: initial parameters and made-up data.

   Every value is a function of (seed, name, logical row-major index), so that a device can make
   any box of a tensor by itself, and what a model starts from does not depend on the layout. */
#ifndef CLEAVE_EXEC_DATA_INITIAL_H
#define CLEAVE_EXEC_DATA_INITIAL_H

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

/* One element of made-up data, by a key of the datum. */
float cleave_initial_normal(uint64_t key, int64_t index);
int64_t cleave_initial_id(uint64_t key, int64_t index, int64_t below);

#endif
