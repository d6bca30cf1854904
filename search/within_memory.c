/* Layouts within the memory, by the additive model.

   What the model weighs of a layout (what persists, and what forward keeps) is less than the memory
   plan needs, by a share that differs from layout to layout: messages, gradients on their way.  So
   the model is solved under a limit of its own, which is lowered by what the last layout needed too
   much, until one fits, and then raised again, by halves, towards the lowest at which none did: its
   solutions lie on the curve of time over memory, and this looks for the place on it.  Multipliers
   make each of them quick (search/solve/relax.c). */
#include "search/session.h"

enum { MOST_TRIES = 6 };
static const int64_t most_entries = INT64_C(1) << 22;

static int64_t weigh(const cleave_additive_model *made, const int32_t *value) {
    int64_t sum = 0;
    for (int32_t v = 0; v < made->additive.n_variables; v++)
        sum += made->memory.weight[v][value[v]];
    return sum;
}

/* The least that any choice weighs. */
static int64_t least_weight(const cleave_additive_model *made) {
    int64_t sum = 0;
    for (int32_t v = 0; v < made->additive.n_variables; v++) {
        int64_t least = made->memory.weight[v][0];
        for (int32_t x = 1; x < made->additive.n_values[v]; x++)
            least = made->memory.weight[v][x] < least ? made->memory.weight[v][x] : least;
        sum += least;
    }
    return sum;
}

static int64_t clamp(int64_t value, int64_t least, int64_t most) {
    return value < least ? least : value > most ? most : value;
}

cleave_status session_solve_within(session *s, const cleave_additive_model *made,
                                   cleave_error *error) {
    /* Limits above `fits` and below `fails` have not been tried. */
    int64_t least = least_weight(made), fits = -1, fails = made->memory.most + 1;
    int64_t most = clamp(made->memory.most, least, INT64_MAX);
    for (int tries = 0; tries < MOST_TRIES && !session_interrupted(s); tries++) {
        cleave_additive_limit limit = {made->memory.weight, most};
        cleave_additive_solution solution;
        cleave_price price = {.excess_bytes = 1};
        cleave_arena scratch = {0};
        cleave_status status = cleave_additive_relax(&made->additive, 1, &limit, most_entries,
                                                     &scratch, &solution, error);
        int64_t next = least;
        if (status == CLEAVE_OK)
            status = session_take_solution(s, made, &solution, &price, error);
        if (status == CLEAVE_OK && solution.value != NULL && price.excess_bytes > 0)
            next = weigh(made, solution.value) - price.excess_bytes;
        cleave_arena_free(&scratch);
        CLEAVE_TRY(status);
        if (price.excess_bytes == 0)
            fits = most;
        else
            fails = most;
        if (fits >= 0)
            next = fits + (fails - fits) / 2;
        next = clamp(next, least, fails - 1);
        if (next <= fits || next == most || fails <= least)
            break;
        most = next;
    }
    return CLEAVE_OK;
}
