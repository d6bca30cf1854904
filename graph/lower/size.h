/* How large a program becomes, before it is lowered, and how much of that is taken on by whom. */
#ifndef CLEAVE_GRAPH_LOWER_SIZE_H
#define CLEAVE_GRAPH_LOWER_SIZE_H

#include "graph/model/layout.h"

/* Items, buffers and pieces of copies take about so many bytes each, with what simulates them. */
enum { CLEAVE_RECORD_BYTES = 256 };

/* Of a program that is lowered for its price, all of its micro-batches: about 2 GiB. */
enum { CLEAVE_MOST_RECORDS_PRICED = 8 << 20 };

/* Parts of operators in all micro-batches.  Beyond the first number a program that is lowered to be
   reported is made of three micro-batches, where these tell of all; beyond the second nobody asks
   every item of it what its price rests on; and beyond the third it is not tried whether the layout
   is any good. */
enum {
    CLEAVE_MOST_PARTS_REPORTED = 1 << 16,
    CLEAVE_MOST_PARTS_ASKED = 1 << 18,
    CLEAVE_MOST_PARTS_TRIED = 1 << 20,
};

/* Parts of all operators, in one micro-batch. */
int64_t cleave_layout_count_parts(const cleave_layout *layout);

#endif
