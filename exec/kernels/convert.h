/* Elements of one type from those of another. */
#ifndef CLEAVE_EXEC_KERNELS_CONVERT_H
#define CLEAVE_EXEC_KERNELS_CONVERT_H

#include "base/bf16.h"
#include "graph/model/model.h"

/* n elements, of types f32 and bf16, or of one type; the arrays do not overlap. */
void cleave_convert(cleave_type from_type, const void *from, cleave_type type, void *to, int64_t n);

/* One element of an array of f32 or bf16. */
static inline float cleave_element_get(cleave_type type, const void *array, int64_t at) {
    return type == CLEAVE_BF16 ? cleave_bf16_widen(((const uint16_t *)array)[at])
                               : ((const float *)array)[at];
}
static inline void cleave_element_put(cleave_type type, void *array, int64_t at, float value) {
    if (type == CLEAVE_BF16)
        ((uint16_t *)array)[at] = cleave_bf16_round(value);
    else
        ((float *)array)[at] = value;
}

#endif
