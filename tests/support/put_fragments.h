/* Fragments that are put once: made ready, and kept for as long as the delta lives. */
#ifndef CLEAVE_TESTS_SUPPORT_PUT_FRAGMENTS_H
#define CLEAVE_TESTS_SUPPORT_PUT_FRAGMENTS_H

#include "base/list.h"
#include "simulator/delta/checks.h"

typedef CLEAVE_LIST(cleave_delta_made *) put_fragments;

/* Null: nothing. */
static inline cleave_status put_fragment(put_fragments *made, cleave_delta *delta, int32_t place,
                                         const cleave_priced_fragment *fragment,
                                         cleave_error *error) {
    cleave_delta_made *ready = NULL;
    if (fragment != NULL)
        CLEAVE_TRY(cleave_delta_make(delta, place, fragment, &ready, error));
    if (ready != NULL && !CLEAVE_LIST_PUSH(made, ready))
        return cleave_fail_memory(error, "putting a fragment");
    return cleave_delta_put(delta, place, ready, error);
}

static inline void put_fragments_free(put_fragments *made) {
    for (int32_t i = 0; i < made->n; i++)
        cleave_delta_unmake(made->items[i]);
    CLEAVE_LIST_FREE(made);
}

#endif
