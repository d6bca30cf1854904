#include "exec/training/decay.h"

#include <stdio.h>
#include <string.h>

/* The next of some patterns with commas between, cut off where it is too long for any name; null:
   there is none. */
static const char *next_pattern(const char *at, char *pattern, size_t bytes) {
    size_t n = strcspn(at, ",");
    snprintf(pattern, bytes, "%.*s", (int)(n < bytes ? n : bytes - 1), at);
    return at[n] == ',' ? at + n + 1 : NULL;
}

bool cleave_decay_acts(const char *patterns, const char *name) {
    char pattern[256];
    for (const char *at = patterns; at != NULL;) {
        at = next_pattern(at, pattern, sizeof pattern);
        if (cleave_pattern_matches(pattern, name))
            return false;
    }
    return true;
}

cleave_status cleave_decay_check(const char *patterns, const cleave_model *model,
                                 cleave_error *error) {
    char pattern[256];
    for (const char *at = patterns; at != NULL;) {
        bool any = false;
        at = next_pattern(at, pattern, sizeof pattern);
        for (int32_t t = 0; t < model->n_tensors && !any; t++)
            any = model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER &&
                  cleave_pattern_matches(pattern, model->tensors[t].name);
        if (!any)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: --no-decay: no parameter is named like \"%.128s\"", model->file,
                               pattern);
    }
    return CLEAVE_OK;
}
