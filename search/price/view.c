/* Whatever is lowered goes the way of every program: memory plan, prices, simulation. */
#include "search/price/view.h"

#include "costmodel/machine_fold.h"
#include "graph/lower/size.h"
#include "graph/program/traffic.h"
#include "simulator/scan/period.h"
#include "simulator/step/simulated_step.h"

/* ---- lowering -------------------------------------------------------------------------------- */

/* A few blocks, where the pricer knows how they repeat. */
static cleave_status lower_blocks(const cleave_pricer *pricer, const cleave_layout *layout,
                                  bool folded, cleave_lowered *lowered, cleave_error *error) {
    lowered->repeats = lowered->is_few = lowered->is_window = false;
    if (pricer->repeats == NULL || pricer->is_stream ||
        !cleave_schedule_is_plain(&layout->schedule))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_repeats_extend(pricer->repeats, layout, folded, &lowered->repeats,
                                     &lowered->repeated, error));
    if (lowered->repeats)
        lowered->program = lowered->repeated.few;
    return CLEAVE_OK;
}

/* Of many micro-batches three, where they tell of all. */
static cleave_status lower_window(cleave_pricer *pricer, const cleave_layout *layout,
                                  cleave_lowered *lowered, cleave_error *error) {
    cleave_fold *fold = &lowered->fold;
    cleave_arena_reset(&pricer->arena);
    pricer->lower.symbolic_collectives = true;
    CLEAVE_TRY(cleave_fold_find(pricer->model, layout, pricer->machine->devices_per_node,
                                &pricer->arena, fold, error));
    CLEAVE_TRY(cleave_machine_fold_check(pricer->machine, fold->n_devices, error));
    lowered->is_window = true;
    if (!lowered->is_few)
        return cleave_lower_window(pricer->model, fold, &pricer->lower, &pricer->arena,
                                   &lowered->program, error);
    CLEAVE_TRY(cleave_few_lower(pricer->model, layout, fold, &pricer->lower, pricer->machine,
                                &pricer->arena, &lowered->few, error));
    lowered->program = lowered->few.program;
    return CLEAVE_OK;
}

cleave_status cleave_lowered_fold(cleave_pricer *pricer, const cleave_layout *layout, bool is_few,
                                  bool must, bool *folds, cleave_lowered *lowered,
                                  cleave_error *error) {
    cleave_error why_not = {""};
    cleave_status status = CLEAVE_NO_LAYOUT;
    *folds = false;
    if (cleave_machine_may_fold(pricer->machine, &why_not)) {
        CLEAVE_TRY(lower_blocks(pricer, layout, true, lowered, error));
        *folds = lowered->repeats;
        if (*folds)
            return CLEAVE_OK;
        lowered->is_few = is_few && pricer->lower.training && cleave_few_tell(layout);
        status = lower_window(pricer, layout, lowered, &why_not);
    }
    *folds = status == CLEAVE_OK;
    if (status == CLEAVE_NO_LAYOUT && !must)
        return CLEAVE_OK;
    if (status != CLEAVE_OK && error != NULL)
        *error = why_not;
    return status;
}

bool cleave_lowers_to_many(const cleave_layout *layout) {
    return cleave_layout_count_parts(layout) * layout->schedule.micro_batches >
           CLEAVE_MOST_PARTS_ASKED;
}

cleave_status cleave_lowered_whole(cleave_pricer *pricer, const cleave_layout *layout,
                                   bool in_steps, cleave_lowered *lowered, cleave_error *error) {
    lowered->repeats = lowered->is_few = lowered->is_window = false;
    if (!in_steps)
        CLEAVE_TRY(lower_blocks(pricer, layout, false, lowered, error));
    if (lowered->repeats)
        return CLEAVE_OK;
    cleave_arena_reset(&pricer->arena);
    pricer->lower.symbolic_collectives = !in_steps;
    return cleave_lower(pricer->model, layout, &pricer->lower, &pricer->arena, &lowered->program,
                        error);
}

cleave_status cleave_lowered_few(cleave_pricer *pricer, const cleave_layout *layout, bool in_steps,
                                 bool *tell, cleave_lowered *lowered, cleave_error *error) {
    *lowered = (cleave_lowered){.is_few = true};
    *tell = pricer->lower.training && cleave_few_tell(layout);
    if (!*tell)
        return CLEAVE_OK;
    cleave_arena_reset(&pricer->arena);
    pricer->lower.symbolic_collectives = !in_steps;
    CLEAVE_TRY(cleave_few_lower(pricer->model, layout, NULL, &pricer->lower, pricer->machine,
                                &pricer->arena, &lowered->few, error));
    lowered->program = lowered->few.program;
    return CLEAVE_OK;
}

cleave_status cleave_lowered_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                         cleave_lowered *lowered, cleave_error *error) {
    bool folds;
    CLEAVE_TRY(cleave_lowered_fold(pricer, layout, false, false, &folds, lowered, error));
    return folds ? CLEAVE_OK : cleave_lowered_whole(pricer, layout, false, lowered, error);
}

/* ---- what follows from it -------------------------------------------------------------------- */

const cleave_program *cleave_lowered_program(const cleave_lowered *lowered) {
    return lowered->repeats  ? &lowered->repeated.whole.program
           : lowered->is_few ? &lowered->few.whole
                             : &lowered->program;
}

int32_t cleave_lowered_device(const cleave_lowered *lowered, int32_t device) {
    return lowered->is_window ? cleave_fold_device(&lowered->fold, device) : device;
}

cleave_status cleave_lowered_simulate(cleave_pricer *pricer, const cleave_lowered *lowered,
                                      int64_t *step, cleave_price_shares *shares,
                                      cleave_error *error) {
    cleave_timeline timeline;
    cleave_simulated_step made;
    if (lowered->repeats)
        return cleave_repeated_simulate(&lowered->repeated, step, shares, error);
    if (lowered->is_few) {
        CLEAVE_TRY(cleave_few_simulate(&lowered->few, pricer->cache, &pricer->arena, step, error));
        if (shares == NULL || *step < 0)
            return CLEAVE_OK;
        CLEAVE_TRY(cleave_simulated_step_make(&lowered->program, &lowered->few.turns, pricer->cache,
                                              &pricer->arena, &made, error));
        *shares = made.prices.shares;
        return CLEAVE_OK;
    }
    if (shares == NULL && !pricer->is_stream) {
        CLEAVE_TRY(cleave_simulate(&lowered->program, pricer->cache, CLEAVE_RULE_SCAN,
                                   &pricer->arena, &timeline, error));
        *step = timeline.step;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_simulated_step_make(&lowered->program, NULL, pricer->cache, &pricer->arena,
                                          &made, error));
    *step = made.timeline.step;
    if (shares != NULL)
        *shares = made.prices.shares;
    return pricer->is_stream
               ? cleave_scan_period(&made.problem, made.workspace, &made.timeline, step, error)
               : CLEAVE_OK;
}

int64_t cleave_lowered_bytes_sent(const cleave_lowered *lowered) {
    const cleave_traffic_times times = {lowered->few.message_times, lowered->few.collective_times};
    return lowered->is_few ? cleave_program_bytes_sent(&lowered->program, &times)
                           : cleave_program_bytes_sent(cleave_lowered_program(lowered), NULL);
}
