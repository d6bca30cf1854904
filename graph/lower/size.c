#include "graph/lower/size.h"

int64_t cleave_layout_count_parts(const cleave_layout *layout) {
    int64_t n_parts = 0;
    for (int32_t op = 0; op < layout->n_operators; op++)
        n_parts += layout->splits[op].n_parts;
    return n_parts;
}
