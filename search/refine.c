/* The method "auto", as a part of a search: what was given and found is improved
   (search/improve/improve.h), and what is best in steps descends once more at the end. */
#include "search/session.h"

#include <string.h>

/* On few devices that takes little. */
bool session_polishes(const session *s) {
    return strcmp(s->options->method, "auto") == 0 && s->options->proposals <= 0 &&
           s->machine->n_devices <= CLEAVE_FEW_DEVICES;
}

static cleave_improvement improvement_of(session *s) {
    const cleave_search_options *o = s->options;
    return (cleave_improvement){.model = s->model,
                                .machine = s->machine,
                                .candidates = &s->candidates,
                                .constraints = s->constraints,
                                .additive = s->has_costs ? &s->costs_of_changes : NULL,
                                .optimizer_states = o->optimizer_states,
                                .memory_limit_bytes = o->memory_limit_bytes,
                                .seed = o->seed,
                                .proposals = o->proposals,
                                .time_seconds = o->time_seconds,
                                .started_seconds = s->started_seconds,
                                .until_seconds = s->started_seconds + o->time_seconds -
                                                 s->report_seconds - s->stage_seconds,
                                .polishes = session_polishes(s),
                                .resume_file = o->resume_file,
                                .n_threads = s->n_threads,
                                .pricers = s->pricers,
                                .arena = &s->work,
                                .progress = &s->progress,
                                .interrupted = o->interrupted};
}

/* The prices in steps that starts got on the way; what was found stands by them. */
static void take_starts(session *s, const cleave_improve_start *starts, bool in_steps) {
    for (int32_t g = 0; g < s->n_given; g++) {
        s->given[g].has_full = starts[g].has_full;
        s->given[g].full = starts[g].full;
    }
    for (int32_t i = 0; i < s->n_found && in_steps; i++)
        s->found[i].price = starts[s->n_given + i].full;
    session_sort_found(s);
}

cleave_status session_refine(session *s, cleave_error *error) {
    const cleave_improvement with = improvement_of(s);
    cleave_improve_start starts[SESSION_MAX_GIVEN + SESSION_MAX_FOUND];
    cleave_improved improved;
    int32_t n = 0;
    for (int32_t g = 0; g < s->n_given; g++)
        starts[n++] = (cleave_improve_start){.layout = s->given[g].layout,
                                             .price = s->given[g].price,
                                             .has_full = s->given[g].has_full,
                                             .full = s->given[g].full};
    for (int32_t i = 0; i < s->n_found; i++)
        starts[n++] = (cleave_improve_start){
            .layout = &s->found[i].layout, .price = s->found[i].price, .was_found = true};
    CLEAVE_TRY(cleave_improve(&with, starts, n, &improved, error));
    take_starts(s, starts, improved.in_steps);
    for (int32_t i = 0; i < improved.n; i++) {
        const cleave_layout *layout = &improved.items[i].layout;
        CLEAVE_TRY(session_add_found(s, "auto", layout, &improved.items[i].price, error));
        session_mark_optimum(s, layout, improved.items[i].is_local_optimum);
    }
    s->whole_work = improved.whole_work;
    s->result.proposals = improved.proposals;
    s->result.accepted = improved.accepted;
    return CLEAVE_OK;
}

/* In what is left of the time, but no more than was kept for it. */
static double seconds_to_polish(const session *s) {
    double left = s->started_seconds + s->options->time_seconds - cleave_clock_seconds();
    left = left < s->polish_seconds ? left : s->polish_seconds;
    return s->options->time_seconds <= 0 ? 0 : left > 1e-6 ? left : 1e-6;
}

cleave_status session_polish(session *s, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error) {
    const cleave_improvement with = improvement_of(s);
    CLEAVE_TRY(cleave_polish(&with, start, price, seconds_to_polish(s), polished, error));
    s->result.proposals += polished->proposals;
    s->result.accepted += polished->accepted;
    return CLEAVE_OK;
}
