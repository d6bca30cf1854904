#include "search/improve/polish.h"

#include <stdio.h>
#include <string.h>

/* What it may spend where sweeps leave changes out, so that none shows an optimum, in times of what
   it takes to lower the whole model once in steps, or in bytes of fragments where that is more. */
static const int64_t most_wholes = 64, least_work = INT64_C(1) << 28;

typedef struct polish_run {
    session *session;
    cleave_refine refine;
    cleave_chain chain;
    cleave_structure structure;
    cleave_refine_state state;
    cleave_arena arena;
    atomic_bool stop;
} polish_run;

bool session_polishes(const session *s) {
    return strcmp(s->options->method, "auto") == 0 && s->options->proposals <= 0 &&
           s->machine->n_devices <= SESSION_FEW_DEVICES;
}

static void after_proposal(void *context, const cleave_refine_state *state) {
    polish_run *run = context;
    session *s = run->session;
    if (session_interrupted(s))
        atomic_store(&run->stop, true);
    if (s->progress.quiet)
        return;
    char best[32], note[96];
    cleave_unit_format((double)state->best_price.step * 1e-12, CLEAVE_UNIT_SECONDS, best,
                       sizeof best);
    snprintf(note, sizeof note, "best %s in steps, %lld proposals", best,
             (long long)state->proposals);
    cleave_progress_update(&s->progress, -1, note);
}

static cleave_refine_limits limits_of(const session *s, int64_t whole_work) {
    int64_t work = most_wholes * whole_work;
    cleave_refine_limits limits = {
        .work = work > least_work ? work : least_work, .whole_sweeps = true, .singles = true};
    if (s->options->time_seconds > 0)
        limits.seconds = session_polish_seconds_left(s);
    return limits;
}

static cleave_status begin(polish_run *run, const cleave_choices *choices,
                           const cleave_layout *like, const cleave_price *price,
                           cleave_error *error) {
    session *s = run->session;
    const cleave_chain_start start = {choices, price};
    CLEAVE_TRY(cleave_structure_create(s->model, &s->candidates, s->options->constraints,
                                       &run->arena, &run->structure, error));
    run->refine = (cleave_refine){
        .source = {.model = s->model,
                   .candidates = &s->candidates,
                   .structure = &run->structure,
                   .optimizer_states = s->options->optimizer_states,
                   .additive = s->has_costs ? &s->costs_of_changes : NULL},
        .like = like,
        .in_steps = true,
        .pricer = &s->pricers[0],
        .chain = &run->chain,
        .arena = &run->arena,
        .stop = &run->stop,
        .after = after_proposal,
        .context = run,
    };
    const cleave_chain_frame frame = {&s->candidates, like, true};
    CLEAVE_TRY(cleave_chain_begin(&s->pricers[0], &frame, &start, &run->arena, &run->chain, error));
    run->refine.whole_work = cleave_estimate_count(run->chain.estimate).bytes;
    const cleave_refine_limits limits = limits_of(s, run->refine.whole_work);
    CLEAVE_TRY(cleave_refine_state_create(s->model, choices, &limits, false, 0, &run->arena,
                                          &run->state, error));
    run->state.best_price = *price;
    return CLEAVE_OK;
}

static cleave_status descend(polish_run *run, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error) {
    session *s = run->session;
    cleave_choices choices;
    CLEAVE_TRY(cleave_choices_create(s->model, &run->arena, &choices, error));
    if (!cleave_choices_of(s->model, &s->candidates, start, &choices))
        return CLEAVE_OK;
    CLEAVE_TRY(begin(run, &choices, start, price, error));
    CLEAVE_TRY(cleave_refine_run(&run->refine, &run->state, error));
    CLEAVE_TRY(cleave_choices_layout(s->model, &s->candidates, &run->state.best, start, &s->work,
                                     &polished->layout, error));
    polished->is_local_optimum = run->state.is_local_optimum;
    polished->is_changed = run->state.accepted > 0;
    polished->done = true;
    s->result.proposals += run->state.proposals;
    s->result.accepted += run->state.accepted;
    return CLEAVE_OK;
}

cleave_status session_polish(session *s, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error) {
    polish_run run = {.session = s};
    *polished = (cleave_polished){0};
    cleave_status status = descend(&run, start, price, polished, error);
    cleave_chain_end(&run.chain);
    cleave_arena_free(&run.arena);
    return status;
}
