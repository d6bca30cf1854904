/* The window goes the way of every program: lowering, memory plan, prices, simulation. */
#include "search/price/price_folded.h"

#include "costmodel/machine_fold.h"
#include "search/price/repeat.h"

/* Bytes that a collective in closed form would send in its steps. */
static double collective_bytes(const cleave_collective *of) {
    if (!cleave_collective_has_plan(of->kind, of->algorithm, of->n_devices, of->node_members))
        return 0;
    const cleave_collective_plan plan =
        cleave_collective_plan_of(of->kind, of->algorithm, of->n_devices, of->node_members);
    double blocks = 0;
    for (int32_t s = 0; s < plan.n_steps;) {
        const cleave_collective_step step = cleave_collective_step_of(&plan, s);
        double in_step = 0;
        for (int32_t e = 0; e < step.n_exchanges; e++) {
            const cleave_exchange exchange = cleave_collective_exchange_of(&plan, &step, e);
            in_step += exchange.end - exchange.first;
        }
        blocks += in_step * step.alike;
        s += step.alike;
    }
    return blocks * (double)of->bytes / plan.n_blocks;
}

/* Of all windows.  Many tensors are combined by the same devices. */
static int64_t count_bytes(const cleave_program *program) {
    int64_t messages = 0;
    double collectives = 0, per_byte = 0;
    const cleave_collective *last = NULL;
    for (int32_t m = 0; m < program->n_messages; m++)
        messages += program->messages[m].bytes;
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        bool everywhere = of->devices[of->n_devices - 1] >= program->n_devices;
        if (last == NULL || of->kind != last->kind || of->algorithm != last->algorithm ||
            of->n_devices != last->n_devices || of->node_members != last->node_members)
            per_byte = of->bytes > 0 ? collective_bytes(of) / (double)of->bytes : 0;
        last = of;
        collectives += per_byte * (double)of->bytes * (everywhere ? 1 : program->n_windows);
    }
    return messages * program->n_windows + (int64_t)(collectives + 0.5);
}

static cleave_status lower_window(cleave_pricer *pricer, const cleave_layout *layout,
                                  cleave_program *program, cleave_error *error) {
    cleave_fold fold;
    cleave_arena_reset(&pricer->arena);
    pricer->lower.symbolic_collectives = true;
    CLEAVE_TRY(cleave_fold_find(pricer->model, layout, pricer->machine->devices_per_node,
                                &pricer->arena, &fold, error));
    CLEAVE_TRY(cleave_machine_fold_check(pricer->machine, fold.n_devices, error));
    return cleave_lower_window(pricer->model, &fold, &pricer->lower, &pricer->arena, program,
                               error);
}

static cleave_status price_program(cleave_pricer *pricer, const cleave_program *program,
                                   cleave_price *price, cleave_error *error) {
    cleave_timeline timeline;
    cleave_price result = {0};
    cleave_pricer_weigh(pricer, program, &result);
    pricer->n_priced++;
    if (result.excess_bytes == 0) {
        CLEAVE_TRY(cleave_simulate(program, pricer->cache, CLEAVE_RULE_SCAN, &pricer->arena,
                                   &timeline, error));
        result.step = timeline.step;
        result.bytes_sent = count_bytes(program);
    }
    *price = result;
    return CLEAVE_OK;
}

/* From a few blocks; `known` false where that can't be. */
static cleave_status price_repeated(cleave_pricer *pricer, const cleave_layout *layout, bool folded,
                                    bool *known, cleave_price *price, cleave_error *error) {
    cleave_repeated repeated;
    cleave_timeline timeline;
    cleave_price result = {0};
    *known = false;
    if (pricer->repeats == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_repeats_extend(pricer->repeats, layout, folded, known, &repeated, error));
    if (!*known)
        return CLEAVE_OK;
    cleave_pricer_weigh(pricer, &repeated.whole.program, &result);
    pricer->n_priced++;
    if (result.excess_bytes == 0) {
        CLEAVE_TRY(cleave_repeated_simulate(&repeated, &timeline, error));
        result.step = timeline.step;
        result.bytes_sent = folded ? count_bytes(&repeated.whole.program) : 0;
    }
    *price = result;
    return CLEAVE_OK;
}

cleave_status cleave_price_all_devices(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_price *price, cleave_error *error) {
    bool known;
    CLEAVE_TRY(price_repeated(pricer, layout, false, &known, price, error));
    return known ? CLEAVE_OK : cleave_price_layout(pricer, layout, false, price, error);
}

cleave_status cleave_price_folded(cleave_pricer *pricer, const cleave_layout *layout,
                                  cleave_price *price, cleave_error *error) {
    cleave_program program;
    bool known;
    CLEAVE_TRY(price_repeated(pricer, layout, true, &known, price, error));
    if (known)
        return CLEAVE_OK;
    CLEAVE_TRY(lower_window(pricer, layout, &program, error));
    return price_program(pricer, &program, price, error);
}

cleave_status cleave_lower_if_folded(cleave_pricer *pricer, const cleave_layout *layout,
                                     bool *folds, cleave_program *program, cleave_error *error) {
    *folds = false;
    if (!cleave_machine_may_fold(pricer->machine, NULL))
        return CLEAVE_OK;
    cleave_error why_not;
    cleave_status status = lower_window(pricer, layout, program, &why_not);
    if (status != CLEAVE_OK && status != CLEAVE_NO_LAYOUT && error != NULL)
        *error = why_not;
    *folds = status == CLEAVE_OK;
    return status == CLEAVE_NO_LAYOUT ? CLEAVE_OK : status;
}

cleave_status cleave_lower_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_program *program, cleave_error *error) {
    bool folds;
    CLEAVE_TRY(cleave_lower_if_folded(pricer, layout, &folds, program, error));
    if (folds)
        return CLEAVE_OK;
    cleave_arena_reset(&pricer->arena);
    pricer->lower.symbolic_collectives = true;
    return cleave_lower(pricer->model, layout, &pricer->lower, &pricer->arena, program, error);
}

cleave_status cleave_price_closed_form(cleave_pricer *pricer, const cleave_layout *layout,
                                       cleave_price *price, cleave_error *error) {
    cleave_program program;
    CLEAVE_TRY(cleave_lower_closed_form(pricer, layout, &program, error));
    return price_program(pricer, &program, price, error);
}

/* Lowering is left out. */
static cleave_status price_by_estimate(cleave_pricer *pricer, const cleave_layout *layout,
                                       bool *fits, cleave_price *price, cleave_error *error) {
    cleave_estimate *estimate;
    CLEAVE_TRY(cleave_pricer_estimate(pricer, layout, &estimate, error));
    cleave_status status = cleave_price_if_it_fits(pricer, estimate, fits, price, error);
    cleave_estimate_destroy(estimate);
    return status;
}

cleave_status cleave_price_found(cleave_pricer *pricer, const cleave_layout *layout,
                                 cleave_price *price, cleave_error *error) {
    cleave_program program;
    bool folds, fits;
    CLEAVE_TRY(cleave_lower_if_folded(pricer, layout, &folds, &program, error));
    if (folds)
        return price_program(pricer, &program, price, error);
    CLEAVE_TRY(price_by_estimate(pricer, layout, &fits, price, error));
    return fits ? CLEAVE_OK : cleave_price_layout(pricer, layout, false, price, error);
}

bool cleave_machine_may_fold(const cleave_machine *machine, cleave_error *error) {
    cleave_error ignored;
    error = error != NULL ? error : &ignored;
    if (machine->devices_per_node < 1 || machine->n_devices < 2 * machine->devices_per_node) {
        cleave_fail(error, CLEAVE_NO_LAYOUT, "%d devices are not several whole nodes",
                    machine->n_devices);
        return false;
    }
    return cleave_machine_fold_check(machine, machine->devices_per_node, error) == CLEAVE_OK;
}
