/* Pricing: the same lowering, memory plan and simulator as everywhere else. */
#include "search/price/price.h"

#include "search/price/price_folded.h"
#include "search/price/used_rules.h"
#include "simulator/step/simulated_step.h"

#include <float.h>
#include <stdlib.h>

cleave_status cleave_pricer_create(const cleave_model *model, const cleave_machine *machine,
                                   const cleave_search_options *options, cleave_pricer *pricer,
                                   cleave_error *error) {
    cleave_pricer result = {.model = model,
                            .machine = machine,
                            .memory_limit_bytes = options->memory_limit_bytes,
                            .least_peak_bytes = INT64_MAX};
    result.lower = (cleave_lower_options){.training = model->loss >= 0,
                                          .optimizer_states = options->optimizer_states,
                                          .workspace = cleave_cost_workspace,
                                          .workspace_context = (void *)(uintptr_t)machine};
    CLEAVE_TRY(cleave_cost_cache_create(model, machine, &result.cache, error));
    *pricer = result;
    return CLEAVE_OK;
}

void cleave_pricer_destroy(cleave_pricer *pricer) {
    if (pricer->cache != NULL)
        cleave_cost_cache_destroy(pricer->cache);
    cleave_arena_free(&pricer->arena);
}

static int64_t limit_of(const cleave_pricer *pricer, int32_t device) {
    const cleave_device_kind *kind = &pricer->machine->kinds[pricer->machine->device_kind[device]];
    return pricer->memory_limit_bytes > 0 ? pricer->memory_limit_bytes : kind->memory_bytes;
}

void cleave_pricer_weigh(cleave_pricer *pricer, const cleave_program *program,
                         cleave_price *price) {
    int64_t own_bytes = cleave_program_own_bytes(program);
    for (int32_t d = 0; d < program->n_devices; d++) {
        int64_t limit = limit_of(pricer, d);
        int64_t bytes =
            program->peak_bytes[d] + cleave_machine_runtime_bytes(pricer->machine, d, own_bytes);
        if (bytes > price->peak_bytes)
            price->peak_bytes = bytes;
        if (bytes - limit > price->excess_bytes)
            price->excess_bytes = bytes - limit;
    }
    if (price->peak_bytes < pricer->least_peak_bytes)
        pricer->least_peak_bytes = price->peak_bytes;
}

/* The step of a program in the pricer's arena; `grounds` may be null. */
static cleave_status simulate(cleave_pricer *pricer, const cleave_layout *layout,
                              const cleave_program *program, int64_t *step,
                              cleave_price_grounds *grounds, cleave_error *error) {
    cleave_timeline timeline;
    cleave_simulated_step made;
    if (grounds == NULL) {
        CLEAVE_TRY(cleave_simulate(program, pricer->cache, CLEAVE_RULE_SCAN, &pricer->arena,
                                   &timeline, error));
        *step = timeline.step;
        return CLEAVE_OK;
    }
    CLEAVE_TRY(cleave_simulated_step_make(program, pricer->cache, &pricer->arena, &made, error));
    *step = made.timeline.step;
    grounds->known = true;
    grounds->shares = made.prices.shares;
    cleave_find_used_rules(program, &layout->collectives, grounds->used_rules);
    return CLEAVE_OK;
}

static cleave_status price_in_arena(cleave_pricer *pricer, const cleave_layout *layout,
                                    bool expanded, cleave_price *price,
                                    cleave_price_grounds *grounds, cleave_error *error) {
    cleave_price result = {0};
    cleave_program program;
    pricer->lower.symbolic_collectives = !expanded;
    CLEAVE_TRY(
        cleave_lower(pricer->model, layout, &pricer->lower, &pricer->arena, &program, error));
    cleave_pricer_weigh(pricer, &program, &result);
    pricer->n_priced++;
    if (result.excess_bytes == 0) {
        CLEAVE_TRY(simulate(pricer, layout, &program, &result.step, grounds, error));
        if (expanded)
            result.bytes_sent = cleave_program_bytes_sent(&program);
    }
    *price = result;
    return CLEAVE_OK;
}

cleave_status cleave_price_layout(cleave_pricer *pricer, const cleave_layout *layout, bool expanded,
                                  cleave_price *price, cleave_error *error) {
    cleave_arena_reset(&pricer->arena);
    return price_in_arena(pricer, layout, expanded, price, NULL, error);
}

cleave_status cleave_price_with_grounds(cleave_pricer *pricer, const cleave_layout *layout,
                                        cleave_price *price, cleave_price_grounds *grounds,
                                        cleave_error *error) {
    cleave_arena_reset(&pricer->arena);
    return price_in_arena(pricer, layout, true, price, grounds, error);
}

cleave_status cleave_pricer_estimate(cleave_pricer *pricer, const cleave_layout *layout,
                                     cleave_estimate **estimate, cleave_error *error) {
    pricer->lower.symbolic_collectives = !pricer->in_steps;
    return cleave_estimate_create(pricer->model, layout, &pricer->lower, pricer->cache, estimate,
                                  error);
}

/* A memory plan may need so many times more than what is live in the worst slot, by holes, or less,
   since a slot counts all that it uses as if at once: beyond that nothing has to be planned to know
   whether a layout fits.  A plan by whole slots has holes, too, and is rarely below that by items:
   of random layouts by 6 % at most (tests/property/estimates_keep_times.c). */
static const double most_above = 1.5, most_below = 2, most_above_slots = 1.1;

typedef enum fit { FITS, IN_DOUBT, TOO_LARGE } fit;

static fit estimate_fit(const cleave_pricer *pricer, cleave_estimate *estimate,
                        cleave_price *price) {
    int64_t own_bytes = cleave_estimate_own_bytes(estimate);
    fit result = FITS;
    for (int32_t d = 0; d < pricer->machine->n_devices; d++) {
        int64_t live = cleave_estimate_live_bytes(estimate, d), limit = limit_of(pricer, d);
        int64_t beside = cleave_machine_runtime_bytes(pricer->machine, d, own_bytes);
        if ((double)live / most_below + (double)beside > (double)limit)
            result = TOO_LARGE;
        else if ((double)live * most_above + (double)beside > (double)limit && result == FITS)
            result = IN_DOUBT;
        if (live + beside - limit > price->excess_bytes)
            price->excess_bytes = live + beside - limit;
        if (live + beside > limit)
            price->over += cleave_estimate_over(estimate, d, limit - beside);
        if (live + beside > price->peak_bytes)
            price->peak_bytes = live + beside;
    }
    return result;
}

/* Does it fit even by a plan of whole slots? */
static cleave_status fits_in_slots(const cleave_pricer *pricer, cleave_estimate *estimate,
                                   bool *fits, cleave_error *error) {
    int32_t n = pricer->machine->n_devices;
    int64_t own_bytes = cleave_estimate_own_bytes(estimate);
    int64_t *peak = malloc((size_t)n * sizeof *peak);
    cleave_status status = peak != NULL ? cleave_estimate_plan(estimate, peak, error)
                                        : cleave_fail_memory(error, "planning memory");
    *fits = status == CLEAVE_OK;
    for (int32_t d = 0; d < n && *fits; d++) {
        int64_t beside = cleave_machine_runtime_bytes(pricer->machine, d, own_bytes);
        *fits = (double)peak[d] * most_above_slots + (double)beside <= (double)limit_of(pricer, d);
    }
    free(peak);
    return status;
}

/* Lowers what has to be lowered to know whether it fits: a window of what folds, nothing of what
   fits by slots, else all. */
static cleave_status plan_memory(cleave_pricer *pricer, cleave_estimate *estimate,
                                 const cleave_layout *layout, cleave_price *price,
                                 cleave_error *error) {
    cleave_program program;
    bool folds = false, fits;
    if (!pricer->in_steps)
        CLEAVE_TRY(cleave_lower_if_folded(pricer, layout, &folds, &program, error));
    if (!folds) {
        pricer->n_devices_planned += layout->n_devices;
        CLEAVE_TRY(fits_in_slots(pricer, estimate, &fits, error));
        if (fits)
            return CLEAVE_OK;
        cleave_arena_reset(&pricer->arena);
        pricer->lower.symbolic_collectives = !pricer->in_steps;
        CLEAVE_TRY(
            cleave_lower(pricer->model, layout, &pricer->lower, &pricer->arena, &program, error));
    } else {
        pricer->n_devices_planned += program.n_devices;
    }
    price->peak_bytes = 0;
    cleave_pricer_weigh(pricer, &program, price);
    return CLEAVE_OK;
}

cleave_status cleave_price_if_it_fits(cleave_pricer *pricer, cleave_estimate *estimate, bool *fits,
                                      cleave_price *price, cleave_error *error) {
    cleave_price result = {0};
    CLEAVE_TRY(cleave_estimate_run(estimate, &result.step, error));
    fit known = estimate_fit(pricer, estimate, &result);
    *fits = known == FITS;
    if (known == IN_DOUBT)
        CLEAVE_TRY(fits_in_slots(pricer, estimate, fits, error));
    if (!*fits)
        return CLEAVE_OK;
    result.excess_bytes = 0, result.over = 0;
    pricer->n_priced++;
    *price = result;
    return CLEAVE_OK;
}

cleave_status cleave_price_proposal_below(cleave_pricer *pricer, cleave_estimate *estimate,
                                          const cleave_layout *layout, cleave_price_bar bar,
                                          cleave_price *price, cleave_error *error) {
    cleave_price result = {0};
    CLEAVE_TRY(cleave_estimate_run(estimate, &result.step, error));
    fit fits = estimate_fit(pricer, estimate, &result);
    bool is_below = result.step < bar.below && (result.over <= 0 || result.over < bar.below_over);
    if (fits == IN_DOUBT && !is_below) {
        result.excess_bytes = INT64_MAX;
    } else if (fits == IN_DOUBT) {
        result.excess_bytes = 0;
        CLEAVE_TRY(plan_memory(pricer, estimate, layout, &result, error));
    }
    if (fits == FITS || result.excess_bytes == 0)
        result.excess_bytes = 0, result.over = 0;
    pricer->n_priced++;
    *price = result;
    return CLEAVE_OK;
}

cleave_status cleave_price_proposal(cleave_pricer *pricer, cleave_estimate *estimate,
                                    const cleave_layout *layout, cleave_price *price,
                                    cleave_error *error) {
    const cleave_price_bar none = {INT64_MAX, DBL_MAX};
    return cleave_price_proposal_below(pricer, estimate, layout, none, price, error);
}

bool cleave_price_nearer(const cleave_price *a, const cleave_price *b) {
    if (a->excess_bytes == 0 || b->excess_bytes == 0)
        return a->excess_bytes == 0 && (b->excess_bytes > 0 || a->step < b->step);
    if (a->over < b->over || a->over > b->over)
        return a->over < b->over;
    return a->excess_bytes < b->excess_bytes;
}
