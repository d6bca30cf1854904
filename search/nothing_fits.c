#include "search/session.h"

cleave_status session_fail_nothing_fits(session *s, cleave_error *error) {
    char least[32], limit[32], under[512];
    int64_t limit_bytes = s->options->memory_limit_bytes;
    for (int32_t k = 0; k < s->machine->n_kinds && s->options->memory_limit_bytes <= 0; k++)
        if (s->machine->kinds[k].memory_bytes > limit_bytes)
            limit_bytes = s->machine->kinds[k].memory_bytes;
    cleave_unit_format((double)s->pricer.least_peak_bytes, CLEAVE_UNIT_BYTES, least, sizeof least);
    cleave_unit_format((double)limit_bytes, CLEAVE_UNIT_BYTES, limit, sizeof limit);
    cleave_constraints_describe(s->options->constraints, under, sizeof under);
    return cleave_fail(error, CLEAVE_NO_LAYOUT,
                       "no layout fits in %s of memory per device%s: the least that any of %lld "
                       "layouts tried needs is %s",
                       limit, under, (long long)s->pricer.n_priced, least);
}
