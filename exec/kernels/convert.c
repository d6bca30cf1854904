#include "exec/kernels/convert.h"

void cleave_convert(cleave_type from_type, const void *from, cleave_type type, void *to,
                    int64_t n) {
    if (from_type == type) {
        memcpy(to, from, (size_t)(n * cleave_type_bytes(type)));
    } else if (type == CLEAVE_BF16) {
        const float *restrict wide = from;
        uint16_t *restrict half = to;
        for (int64_t i = 0; i < n; i++)
            half[i] = cleave_bf16_round(wide[i]);
    } else {
        const uint16_t *restrict half = from;
        float *restrict wide = to;
        for (int64_t i = 0; i < n; i++)
            wide[i] = cleave_bf16_widen(half[i]);
    }
}
