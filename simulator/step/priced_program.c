#include "simulator/step/priced_program.h"

#include "base/process.h"
#include "base/units.h"
#include "costmodel/machine_fold.h"
#include "graph/lower/lower.h"
#include "graph/lower/size.h"
#include "graph/model/fold.h"
#include "graph/program/traffic.h"

/* The memory of a rank is its arena, the program and what the runtime itself takes. */
static cleave_status count_peaks(const cleave_machine *machine, const cleave_program *program,
                                 int32_t n_devices, cleave_arena *arena, int64_t **peak_bytes,
                                 cleave_error *error) {
    int64_t own_bytes = cleave_program_own_bytes(program);
    int64_t *peaks = CLEAVE_ARENA_ARRAY(arena, int64_t, n_devices);
    if (peaks == NULL)
        return cleave_fail_memory(error, "counting memory");
    for (int32_t d = 0; d < n_devices; d++)
        peaks[d] = program->peak_bytes[cleave_program_stands_for(program, d)] +
                   cleave_machine_runtime_bytes(machine, d, own_bytes);
    *peak_bytes = peaks;
    return CLEAVE_OK;
}

/* ---- what is lowered ------------------------------------------------------------------------- */

typedef struct lowerer {
    const cleave_pricing *of;
    cleave_lower_options options;
    cleave_arena *arena;
    const cleave_fold *fold; /* null: all devices */
} lowerer;

static bool has_many_parts(const cleave_layout *layout) {
    return cleave_layout_count_parts(layout) * layout->schedule.micro_batches >
           CLEAVE_MOST_PARTS_REPORTED;
}

/* NO_LAYOUT, saying why, where they don't tell of all. */
static cleave_status lower_few(const lowerer *l, cleave_priced_program *priced,
                               cleave_error *error) {
    if (!l->options.training || !cleave_few_tell(l->of->layout))
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "three micro-batches do not tell of all");
    CLEAVE_TRY(cleave_few_lower(l->of->model, l->of->layout, l->fold, &l->options, NULL, l->arena,
                                &priced->few, error));
    CLEAVE_TRY(cleave_few_check(&priced->few, priced->cache, error));
    priced->program = priced->few.program;
    priced->is_few = true;
    return CLEAVE_OK;
}

/* Of all micro-batches. */
static cleave_status lower_all(const lowerer *l, cleave_program *program, cleave_error *error) {
    return l->fold != NULL
               ? cleave_lower_window(l->of->model, l->fold, &l->options, l->arena, program, error)
               : cleave_lower(l->of->model, l->of->layout, &l->options, l->arena, program, error);
}

static cleave_status lower(const lowerer *l, cleave_priced_program *priced, cleave_error *error) {
    bool is_many = has_many_parts(l->fold != NULL ? &l->fold->window : l->of->layout);
    cleave_status status = CLEAVE_NO_LAYOUT;
    if (!l->of->all_micro_batches && (is_many || l->of->few_micro_batches))
        status = lower_few(l, priced, error);
    return status == CLEAVE_NO_LAYOUT ? lower_all(l, &priced->program, error) : status;
}

/* Nothing is told by fewer devices and micro-batches than are lowered here. */
static cleave_status refuse_size(const lowerer *l, cleave_error *error) {
    const cleave_schedule *schedule = &l->of->layout->schedule;
    char memory[32];
    cleave_unit_format((double)l->options.most_records * CLEAVE_RECORD_BYTES, CLEAVE_UNIT_BYTES,
                       memory, sizeof memory);
    return cleave_fail(error, CLEAVE_FAILED,
                       "a program of %d devices and %d micro-batches, item by item, takes more "
                       "than the %s of memory that there are: %s",
                       l->of->layout->n_devices, schedule->micro_batches, memory,
                       l->of->all_micro_batches
                           ? "ask for no file of all items, or take a layout of "
                             "fewer devices or micro-batches"
                           : "take a layout of fewer devices or micro-batches");
}

/* The first window where the layout folds, else all devices. */
static cleave_status lower_devices(lowerer *l, cleave_priced_program *priced, cleave_error *error) {
    cleave_fold fold;
    cleave_error why_not = {""};
    cleave_status status = CLEAVE_NO_LAYOUT;
    if (l->options.symbolic_collectives && !l->of->all_devices &&
        cleave_machine_may_fold(l->of->machine, NULL))
        status = cleave_fold_find(l->of->model, l->of->layout, l->of->machine->devices_per_node,
                                  l->arena, &fold, &why_not);
    if (status == CLEAVE_OK) {
        l->fold = &fold;
        status = lower(l, priced, &why_not);
        priced->is_folded = status == CLEAVE_OK;
        l->fold = NULL;
    }
    if (status == CLEAVE_NO_LAYOUT)
        status = lower(l, priced, &why_not);
    if (status == CLEAVE_NO_LAYOUT)
        return refuse_size(l, error);
    if (status != CLEAVE_OK && error != NULL)
        *error = why_not;
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static cleave_status count(const cleave_machine *machine, cleave_arena *arena,
                           cleave_priced_program *priced, cleave_error *error) {
    const cleave_program *whole = priced->is_few ? &priced->few.whole : &priced->program;
    const cleave_traffic_times times = cleave_priced_times(priced);
    priced->bytes_sent = cleave_program_bytes_sent(&priced->program, &times);
    priced->n_items = (int64_t)whole->n_items * whole->n_windows;
    priced->n_messages = (int64_t)whole->n_messages * whole->n_windows;
    return count_peaks(machine, whole, priced->n_devices, arena, &priced->peak_bytes, error);
}

cleave_status cleave_priced_program_make(const cleave_pricing *of, cleave_arena *arena,
                                         cleave_priced_program *priced, cleave_error *error) {
    const cleave_machine *machine = of->machine;
    cleave_machine context = *machine; /* the workspace function takes a plain pointer */
    bool closed_form = of->closed_form || of->layout->n_devices > CLEAVE_MOST_LOWERED ||
                       cleave_machine_knows_collectives(machine);
    lowerer l = {.of = of,
                 .options = {.training = cleave_model_trains(of->model),
                             .symbolic_collectives = closed_form,
                             .least_collective = machine->collectives.least_devices,
                             .together_bytes = machine->collectives.together_bytes,
                             .most_records = cleave_process_memory_bytes() / CLEAVE_RECORD_BYTES,
                             .optimizer_states = of->optimizer_states,
                             .workspace = cleave_cost_workspace,
                             .workspace_context = &context},
                 .arena = arena};
    cleave_priced_program result = {.n_devices = of->layout->n_devices};
    CLEAVE_TRY(cleave_cost_cache_create(of->model, machine, &result.cache, error));
    cleave_status status = lower_devices(&l, &result, error);
    if (status == CLEAVE_OK)
        status = count(machine, arena, &result, error);
    if (status != CLEAVE_OK) {
        cleave_cost_cache_destroy(result.cache);
        return status;
    }
    *priced = result;
    return CLEAVE_OK;
}
