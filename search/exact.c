/* The method "exact", which is also where "auto" begins: the additive model is solved by
   elimination, and the simulator says which of its solutions is best.

   How much of the synchronisation of parameters hides behind the backward pass is what the additive
   model can't know: half of it, to begin with, then none, and on few devices, where making the
   model takes no time, all of it, too.  Of few operators on more devices many values each count for
   more than that, so there it is half. */
#include "search/session.h"

#include <string.h>

static const int64_t most_entries = INT64_C(1) << 22;

/* With so few operators there is time for many values of each, and of splits over many devices
   there are many that cost the same by themselves. */
enum { FEW_OPERATORS = 32 };

static bool has_many_values(const session *s) {
    return s->machine->n_devices > CLEAVE_FEW_DEVICES && s->model->n_operators <= FEW_OPERATORS;
}

/* Pairs of values are priced one by one, and the more devices, the longer each takes. */
static int32_t values_for(const session *s) {
    return has_many_values(s) || s->machine->n_devices <= CLEAVE_FEW_DEVICES ? 32 : 16;
}

static cleave_status make(const session *s, double exposed_sync, cleave_arena *arena,
                          cleave_additive_model *made, cleave_error *error) {
    const cleave_layout *given[SESSION_MAX_GIVEN];
    for (int32_t g = 0; g < s->n_given; g++)
        given[g] = s->given[g].layout;
    const cleave_additive_options options = {.optimizer_states = s->options->optimizer_states,
                                             .memory_limit_bytes = s->options->memory_limit_bytes,
                                             .most_values = values_for(s),
                                             .exposed_sync = exposed_sync,
                                             .given = given,
                                             .n_given = s->n_given};
    return cleave_additive_model_create(s->model, s->machine, &s->candidates, &options, arena, made,
                                        error);
}

/* Keeps the objective of the solution whose layout is best. */
static void note_objective(session *s, const cleave_additive_model *made,
                           const cleave_additive_solution *solution, const cleave_price *price) {
    if (s->has_exact && !cleave_price_better(price, &s->exact_price))
        return;
    s->has_exact = true;
    s->exact_price = *price;
    int64_t total = solution->total + made->fixed;
    s->result.additive_seconds = (double)total * 1e-12;
    s->result.additive_gap =
        total > 0 ? (double)(solution->total - solution->bound) / (double)total : 0;
}

cleave_status session_take_solution(session *s, const cleave_additive_model *made,
                                    const cleave_additive_solution *solution, cleave_price *price,
                                    cleave_error *error) {
    cleave_layout layout;
    if (solution->value == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_additive_model_layout(made, s->model, s->machine, &s->candidates,
                                            solution->value, &s->work, &layout, error));
    layout.collectives = s->collectives;
    CLEAVE_TRY(cleave_constraints_impose(s->constraints, s->model, &layout, &s->work, error));
    const cleave_price_subject what = {
        .layout = &layout, .view = CLEAVE_VIEW_FOLDED, .memory = CLEAVE_MEMORY_IN_DOUBT};
    if (!session_knows_price(s, &layout, price))
        CLEAVE_TRY(cleave_pricer_price(s->pricer, &what, NULL, price, error));
    note_objective(s, made, solution, price);
    return session_add_found(s, "exact", &layout, price, error);
}

static cleave_status solve(session *s, const cleave_additive_model *made, cleave_arena *arena,
                           cleave_error *error) {
    cleave_additive_solution solution;
    cleave_price price = {0};
    CLEAVE_TRY(cleave_additive_eliminate(&made->additive, most_entries, arena, &solution, error));
    CLEAVE_TRY(session_take_solution(s, made, &solution, &price, error));
    if (price.excess_bytes == 0 || made->memory.most <= 0)
        return CLEAVE_OK;
    return session_solve_within(s, made, error);
}

cleave_status session_solve(session *s, cleave_error *error) {
    static const double others[] = {1, 0};
    int n_others = s->machine->n_devices <= CLEAVE_FEW_DEVICES ? 2 : !has_many_values(s);
    cleave_progress_update(&s->progress, -1, "solving the additive model");
    CLEAVE_TRY(make(s, 0.5, &s->work, &s->costs_of_changes, error));
    s->has_costs = true;
    CLEAVE_TRY(solve(s, &s->costs_of_changes, &s->work, error));
    for (int i = 0; i < n_others && !session_interrupted(s); i++) {
        cleave_arena arena = {0};
        cleave_additive_model made;
        cleave_status status = make(s, others[i], &arena, &made, error);
        if (status == CLEAVE_OK)
            status = solve(s, &made, &arena, error);
        cleave_arena_free(&arena);
        CLEAVE_TRY(status);
    }
    return CLEAVE_OK;
}
