/* The last descent, on steps.

   Collectives in closed form are some per cent off their steps, each layout's by a little else, so
   that of layouts that are nearly as good closed forms don't tell which is the best, and the one
   that no single change improves in closed form may be improved in steps.  On few devices estimates
   with collectives in their steps take little, so there what is best in steps descends once more by
   whole sweeps, until no single change improves what `simulate` and `run` do.  What is tried first
   is said by an additive model of changes of the start: the one that found it knows of each
   operator only what is cheap by itself.

   What comes of it follows from the start alone, as long as time is not limited. */
#include "search/improve/in_steps.h"
#include "search/improve/refine.h"

#include <stdio.h>
#include <string.h>

/* What it may spend where sweeps leave changes out, so that none shows an optimum, in times of what
   it takes to lower the whole model once in steps, or in bytes of fragments where that is more. */
static const int64_t most_wholes = 64, least_work = INT64_C(1) << 28;

typedef struct polish_run {
    const cleave_improvement *with;
    double most_seconds;
    cleave_refine refine;
    cleave_additive_model around; /* of changes of the start, which says what to try first */
    cleave_chain chain;
    cleave_structure structure;
    cleave_refine_state state;
    cleave_arena arena;
} polish_run;

static void after_proposal(void *context, const cleave_refine_state *state) {
    polish_run *run = context;
    const cleave_improvement *with = run->with;
    if (with->progress->quiet)
        return;
    char best[32], note[96];
    cleave_unit_format((double)state->best_price.step * 1e-12, CLEAVE_UNIT_SECONDS, best,
                       sizeof best);
    snprintf(note, sizeof note, "best %s in steps, %lld proposals", best,
             (long long)state->proposals);
    cleave_progress_update(with->progress, -1, note);
}

static cleave_refine_limits limits_of(double most_seconds, int64_t whole_work) {
    int64_t work = most_wholes * whole_work;
    return (cleave_refine_limits){.work = work > least_work ? work : least_work,
                                  .seconds = most_seconds,
                                  .whole_sweeps = true,
                                  .singles = true};
}

static cleave_status begin(polish_run *run, const cleave_choices *choices,
                           const cleave_layout *like, const cleave_price *price,
                           cleave_error *error) {
    const cleave_improvement *with = run->with;
    const cleave_chain_start start = {choices, price};
    CLEAVE_TRY(cleave_structure_create(with->model, with->candidates, with->constraints,
                                       &run->arena, &run->structure, error));
    CLEAVE_TRY(improve_look_around(with, choices, like, &run->around, error));
    run->refine = (cleave_refine){
        .source = {.model = with->model,
                   .candidates = with->candidates,
                   .structure = &run->structure,
                   .optimizer_states = with->optimizer_states,
                   .additive = with->additive != NULL ? &run->around : NULL},
        .like = like,
        .in_steps = true,
        .pricer = &with->pricers[0],
        .chain = &run->chain,
        .arena = &run->arena,
        .interrupted = with->interrupted,
        .after = after_proposal,
        .context = run,
    };
    const cleave_chain_frame frame = {
        .candidates = with->candidates, .like = like, .in_steps = true};
    CLEAVE_TRY(
        cleave_chain_begin(&with->pricers[0], &frame, &start, &run->arena, &run->chain, error));
    run->refine.whole_work = cleave_estimate_count(run->chain.estimate).bytes;
    const cleave_refine_limits limits = limits_of(run->most_seconds, run->refine.whole_work);
    CLEAVE_TRY(
        cleave_refine_state_create(with->model, choices, &limits, &run->arena, &run->state, error));
    run->state.best_price = *price;
    return CLEAVE_OK;
}

static cleave_status descend(polish_run *run, const cleave_layout *start, const cleave_price *price,
                             cleave_polished *polished, cleave_error *error) {
    const cleave_improvement *with = run->with;
    cleave_choices choices;
    CLEAVE_TRY(cleave_choices_create(with->model, &run->arena, &choices, error));
    if (!cleave_choices_of(with->model, with->candidates, start, &choices))
        return CLEAVE_OK;
    CLEAVE_TRY(begin(run, &choices, start, price, error));
    CLEAVE_TRY(cleave_refine_run(&run->refine, &run->state, error));
    CLEAVE_TRY(cleave_choices_layout(with->model, with->candidates, &run->state.best, start,
                                     with->arena, &polished->layout, error));
    polished->is_local_optimum = run->state.is_local_optimum;
    polished->is_changed = run->state.accepted > 0;
    polished->done = true;
    polished->proposals = run->state.proposals;
    polished->accepted = run->state.accepted;
    return CLEAVE_OK;
}

cleave_status cleave_polish(const cleave_improvement *with, const cleave_layout *start,
                            const cleave_price *price, double most_seconds,
                            cleave_polished *polished, cleave_error *error) {
    polish_run run = {.with = with, .most_seconds = most_seconds};
    *polished = (cleave_polished){0};
    cleave_status status = descend(&run, start, price, polished, error);
    cleave_chain_end(&run.chain);
    cleave_arena_free(&run.arena);
    return status;
}
