/* The method "branch-and-bound": from the best start that is found quickly, all of the space is
   searched, except what a bound excludes (search/solve/branch_and_bound.h).  What is certified is
   the step with collectives as one item each, under the updates of the start; it is reported beside
   the full simulation, like all that is found. */
#include "search/session.h"
#include "search/solve/branch_and_bound.h"

/* The quickest that fits, of what was found or given; null: nothing fits. */
static const cleave_layout *best_start(const session *s) {
    const cleave_layout *best = NULL;
    int64_t step = INT64_MAX;
    for (int32_t i = 0; i < s->n_given + s->n_found; i++) {
        bool given = i < s->n_given;
        const cleave_price *price = given ? &s->given[i].price : &s->found[i - s->n_given].price;
        if (price->excess_bytes > 0 || price->step >= step)
            continue;
        step = price->step;
        best = given ? s->given[i].layout : &s->found[i - s->n_given].layout;
    }
    return best;
}

cleave_status session_certify(session *s, cleave_error *error) {
    /* Refinement takes all the time that it gets. */
    if (s->options->time_seconds <= 0)
        CLEAVE_TRY(session_refine(s, error));
    const cleave_layout *start = best_start(s);
    if (start == NULL)
        return CLEAVE_OK;
    cleave_certified certified;
    cleave_price price;
    double left = session_seconds_left(s);
    cleave_progress_update(&s->progress, -1, "certifying the optimum");
    CLEAVE_TRY(cleave_branch_and_bound(s->pricer, &s->candidates, start,
                                       left > 0 ? cleave_clock_seconds() + left : 0,
                                       s->options->interrupted, &s->work, &certified, error));
    s->result.certified_seconds = (double)certified.bound * 1e-12;
    s->result.is_certified = certified.complete;
    const cleave_price_subject what = {.layout = &certified.layout};
    CLEAVE_TRY(cleave_pricer_price(s->pricer, &what, NULL, &price, error));
    return session_add_found(s, "branch-and-bound", &certified.layout, &price, error);
}
