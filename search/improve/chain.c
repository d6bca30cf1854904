#include "search/improve/chain.h"

#include <float.h>

static cleave_status allocate(cleave_chain *c, const cleave_model *model, cleave_arena *arena,
                              cleave_error *error) {
    c->old = CLEAVE_ARENA_ARRAY(arena, cleave_choice, model->n_operators);
    c->changed = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    c->is_changed = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
    c->resharded = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (c->old == NULL || c->changed == NULL || c->is_changed == NULL || c->resharded == NULL)
        return cleave_fail_memory(error, "searching");
    return cleave_choices_create(model, arena, &c->choices, error);
}

static cleave_window_change change_of(const cleave_chain *c) {
    return (cleave_window_change){&c->layout, c->changed, c->n_changed};
}

static cleave_status price_proposal(cleave_chain *c, const cleave_price_bar *bar,
                                    cleave_price *price, cleave_error *error) {
    const cleave_window_change change = change_of(c);
    if (c->windows != NULL)
        return cleave_windows_price(c->windows, &change, bar != NULL && bar->below < INT64_MAX,
                                    price, error);
    const cleave_price_subject what = {.layout = &c->layout,
                                       .in_steps = c->in_steps,
                                       .view = CLEAVE_VIEW_FOLDED,
                                       .estimate = c->estimate};
    return cleave_pricer_price(c->pricer, &what, bar, price, error);
}

/* Runs the estimate, but plans no memory where the price is known. */
static cleave_status price_start(cleave_chain *c, const cleave_price *known, cleave_price *price,
                                 cleave_error *error) {
    const cleave_price_bar none = {.below = INT64_MIN};
    CLEAVE_TRY(price_proposal(c, known != NULL && c->windows == NULL ? &none : NULL, price, error));
    if (known == NULL)
        return CLEAVE_OK;
    double over = known->excess_bytes > 0 ? price->over : 0; /* only estimates know it */
    *price = *known;
    price->over = over;
    return CLEAVE_OK;
}

static void place(cleave_chain *c, int32_t op, cleave_choice choice) {
    const cleave_candidate *candidate = &cleave_list_of(c->candidates, op)->items[choice.candidate];
    if (c->windows != NULL)
        c->layout.splits[op] = cleave_candidate_split(candidate);
    else
        cleave_candidate_place(candidate, choice.start, &c->layout.splits[op]);
    c->choices.of[op] = choice;
}

/* Thousands of operators on thousands of devices: these are listed once. */
static cleave_status begin_windows(cleave_chain *c, const cleave_chain_frame *frame,
                                   cleave_arena *arena, cleave_error *error) {
    const cleave_model *model = c->pricer->model;
    c->layout = *frame->like;
    c->layout.splits = CLEAVE_ARENA_ARRAY(arena, cleave_split, model->n_operators);
    c->layout.sharded = CLEAVE_ARENA_ARRAY(arena, uint8_t, model->n_tensors);
    if (c->layout.splits == NULL || c->layout.sharded == NULL)
        return cleave_fail_memory(error, "searching");
    for (int32_t op = 0; op < model->n_operators; op++)
        place(c, op, c->choices.of[op]);
    return cleave_windows_begin(c->windows, &c->layout, frame->window_devices, &c->price, error);
}

cleave_status cleave_chain_begin(cleave_pricer *pricer, const cleave_chain_frame *frame,
                                 const cleave_chain_start *start, cleave_arena *arena,
                                 cleave_chain *chain, cleave_error *error) {
    const cleave_model *model = pricer->model;
    cleave_chain c = {.pricer = pricer,
                      .candidates = frame->candidates,
                      .in_steps = frame->in_steps,
                      .windows = frame->windows};
    CLEAVE_TRY(allocate(&c, model, arena, error));
    cleave_choices_copy(model, start->choices, &c.choices);
    if (c.windows != NULL) {
        CLEAVE_TRY(begin_windows(&c, frame, arena, error));
        *chain = c;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_choices_layout(model, frame->candidates, start->choices, frame->like, arena,
                                     &c.layout, error));
    CLEAVE_TRY(cleave_pricer_estimate(pricer, &c.layout, c.in_steps, &c.estimate, error));
    cleave_status status = price_start(&c, start->price, &c.price, error);
    if (status != CLEAVE_OK) {
        cleave_chain_end(&c);
        return status;
    }
    *chain = c;
    return CLEAVE_OK;
}

void cleave_chain_end(cleave_chain *chain) {
    cleave_estimate_destroy(chain->estimate);
    chain->estimate = NULL;
    chain->pricer = NULL;
}

cleave_status cleave_chain_change(cleave_chain *c, int32_t op, cleave_choice choice,
                                  cleave_error *error) {
    if (cleave_same_choice(choice, c->choices.of[op]))
        return CLEAVE_OK;
    if (!c->is_changed[op]) {
        c->is_changed[op] = true;
        c->old[op] = c->choices.of[op];
        c->changed[c->n_changed++] = op;
    }
    place(c, op, choice);
    if (c->windows != NULL) /* they look at what has changed when they are priced */
        return CLEAVE_OK;
    return cleave_estimate_change(c->estimate, op, &c->layout.splits[op], error);
}

cleave_status cleave_chain_shard(cleave_chain *c, int32_t tensor, bool sharded,
                                 cleave_error *error) {
    if (c->choices.sharded[tensor] == sharded)
        return CLEAVE_OK;
    bool again = false; /* back to what it was */
    for (int32_t i = 0; i < c->n_resharded; i++)
        if (c->resharded[i] == tensor) {
            c->resharded[i] = c->resharded[--c->n_resharded];
            again = true;
            break;
        }
    if (!again)
        c->resharded[c->n_resharded++] = tensor;
    c->choices.sharded[tensor] = c->layout.sharded[tensor] = sharded;
    return cleave_estimate_shard(c->estimate, tensor, sharded, error);
}

static int64_t work_of(const cleave_chain *c) {
    return c->windows != NULL ? cleave_windows_work(c->windows)
                              : cleave_estimate_count(c->estimate).bytes;
}

cleave_status cleave_chain_price(cleave_chain *c, int64_t below, bool only_whether,
                                 cleave_error *error) {
    c->proposals++;
    if (c->n_changed == 0 && c->n_resharded == 0) {
        c->proposed = c->price;
        return CLEAVE_OK;
    }
    int64_t before = work_of(c);
    int64_t planned = c->pricer->n_devices_planned;
    bool fits = c->price.excess_bytes == 0;
    const cleave_price_bar bar = {.below = below,
                                  .below_over = fits ? DBL_MAX : c->price.over,
                                  .step_decides = fits,
                                  .only_whether = only_whether};
    CLEAVE_TRY(price_proposal(c, &bar, &c->proposed, error));
    planned = c->pricer->n_devices_planned - planned;
    c->work += work_of(c) - before;
    c->work += (int64_t)((double)c->whole_work * (double)planned / c->layout.n_devices);
    return CLEAVE_OK;
}

static void end_proposal(cleave_chain *c) {
    for (int32_t i = 0; i < c->n_changed; i++)
        c->is_changed[c->changed[i]] = false;
    c->n_changed = c->n_resharded = 0;
}

cleave_status cleave_chain_accept(cleave_chain *c, cleave_error *error) {
    if (c->n_changed > 0 || c->n_resharded > 0)
        CLEAVE_TRY(c->windows != NULL ? cleave_windows_accept(c->windows, error)
                                      : cleave_estimate_accept(c->estimate, error));
    c->price = c->proposed;
    c->accepted++;
    end_proposal(c);
    return CLEAVE_OK;
}

cleave_status cleave_chain_reject(cleave_chain *c, cleave_error *error) {
    for (int32_t i = 0; i < c->n_changed; i++)
        place(c, c->changed[i], c->old[c->changed[i]]);
    for (int32_t i = 0; i < c->n_resharded; i++) {
        uint8_t *sharded = &c->choices.sharded[c->resharded[i]];
        *sharded = c->layout.sharded[c->resharded[i]] = !*sharded;
    }
    const cleave_window_change change = change_of(c);
    if (c->n_changed > 0 || c->n_resharded > 0)
        CLEAVE_TRY(c->windows != NULL ? cleave_windows_reject(c->windows, &change, error)
                                      : cleave_estimate_reject(c->estimate, error));
    end_proposal(c);
    return CLEAVE_OK;
}

cleave_status cleave_chain_go_to(cleave_chain *c, const cleave_chain_start *to,
                                 cleave_error *error) {
    const cleave_model *model = c->pricer->model;
    int64_t accepted = c->accepted;
    for (int32_t op = 0; op < model->n_operators; op++)
        CLEAVE_TRY(cleave_chain_change(c, op, to->choices->of[op], error));
    for (int32_t t = 0; t < model->n_tensors; t++)
        CLEAVE_TRY(cleave_chain_shard(c, t, to->choices->sharded[t], error));
    c->proposed = c->price;
    if (c->n_changed > 0 || c->n_resharded > 0)
        CLEAVE_TRY(price_start(c, to->price, &c->proposed, error));
    CLEAVE_TRY(cleave_chain_accept(c, error));
    c->accepted = accepted;
    return CLEAVE_OK;
}
