#include "simulator/step/simulate.h"

#include "costmodel/machine_fold.h"
#include "simulator/step/price.h"
#include "simulator/step/settle.h"

/* One more pair of devices, by their numbers among all, between which something goes. */
static void note_way(const cleave_program *program, bool *known, int32_t source,
                     int32_t destination, int32_t *n_ways, cleave_fold_way *ways) {
    size_t n = (size_t)program->n_devices;
    bool *is_known = &known[(size_t)cleave_program_stands_for(program, source) * n +
                            (size_t)cleave_program_stands_for(program, destination)];
    if (!*is_known)
        ways[(*n_ways)++] = (cleave_fold_way){source, destination};
    *is_known = true;
}

/* Pairs of devices between which messages go, or transfers of an all-to-all, each once. */
static cleave_status list_ways(const cleave_program *program, cleave_arena *arena, int32_t *n_ways,
                               cleave_fold_way **ways, cleave_error *error) {
    size_t n = (size_t)program->n_devices;
    bool *known = cleave_arena_alloc(arena, n, n);
    int64_t most = program->n_messages;
    for (int32_t c = 0; c < program->n_collectives; c++)
        most += program->collectives[c].n_transfers;
    most = most < (int64_t)(n * n) ? most : (int64_t)(n * n);
    *ways = CLEAVE_ARENA_ARRAY(arena, cleave_fold_way, most);
    if (known == NULL || *ways == NULL)
        return cleave_fail_memory(error, "folding a machine");
    *n_ways = 0;
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        note_way(program, known, cleave_program_device(program, message->source),
                 cleave_program_device(program, message->destination), n_ways, *ways);
    }
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        for (int32_t t = 0; t < of->n_transfers; t++)
            note_way(program, known, of->devices[of->transfers[t].source],
                     of->devices[of->transfers[t].destination], n_ways, *ways);
    }
    return CLEAVE_OK;
}

/* What a fold needs of the machine. */
static cleave_status fold_machine(const cleave_program *program, const cleave_machine *machine,
                                  cleave_arena *arena, int32_t **image, cleave_error *error) {
    int32_t window = cleave_program_window(program), stride = cleave_program_stride(program);
    int32_t n_ways = 0;
    cleave_fold_way *ways = NULL;
    *image = NULL;
    if (program->n_windows < 2)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_machine_fold_check(machine, window, error));
    CLEAVE_TRY(cleave_machine_fold_links(machine, stride, program->n_windows, arena, image, error));
    if (program->n_groups < 2)
        return CLEAVE_OK;
    CLEAVE_TRY(list_ways(program, arena, &n_ways, &ways, error));
    return cleave_machine_fold_ways(machine, stride, program->n_windows, n_ways, ways, *image,
                                    error);
}

static cleave_status prepare(const cleave_program *program, const cleave_turns *turns,
                             cleave_cost_cache *cache, cleave_arena *arena,
                             cleave_engine_problem *problem, cleave_error *error) {
    const cleave_machine *machine = cleave_cost_cache_machine(cache);
    const cleave_fragment whole = {.program = *program};
    cleave_engine_problem made = {.n_queues = program->n_devices * CLEAVE_N_LANES,
                                  .n_links = machine->n_links,
                                  .has_stages = program->has_stages};
    if (turns != NULL) {
        made.cuts = turns->first_item;
        made.n_cuts = turns->n_blocks + 1;
    }
    int32_t *image;
    CLEAVE_TRY(fold_machine(program, machine, arena, &image, error));
    CLEAVE_TRY(cleave_price(&whole, cache, image, arena, &made.step, error));
    CLEAVE_TRY(cleave_price_latencies(machine, arena, &made.link_latency, error));
    CLEAVE_TRY(cleave_engine_finish(&made, arena, error));
    *problem = made;
    return CLEAVE_OK;
}

cleave_status cleave_simulate_prepare(const cleave_program *program, cleave_cost_cache *cache,
                                      cleave_arena *arena, cleave_engine_problem *problem,
                                      cleave_error *error) {
    return prepare(program, NULL, cache, arena, problem, error);
}

cleave_status cleave_simulate_prepare_few(const cleave_program *program, const cleave_turns *turns,
                                          cleave_cost_cache *cache, cleave_arena *arena,
                                          cleave_engine_problem *problem, cleave_error *error) {
    return prepare(program, turns, cache, arena, problem, error);
}

cleave_status cleave_simulate_run(const cleave_engine_problem *problem, cleave_rule rule,
                                  cleave_engine_workspace *workspace, cleave_timeline *timeline,
                                  cleave_error *error) {
    return rule == CLEAVE_RULE_SCAN ? cleave_engine_run_scan(problem, workspace, timeline, error)
                                    : cleave_engine_run_events(problem, workspace, timeline, error);
}

cleave_status cleave_simulate(const cleave_program *program, cleave_cost_cache *cache,
                              cleave_rule rule, cleave_arena *arena, cleave_timeline *timeline,
                              cleave_error *error) {
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_settling *settling;
    CLEAVE_TRY(cleave_simulate_prepare(program, cache, arena, &problem, error));
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, arena, &workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, arena, timeline, error));
    CLEAVE_TRY(cleave_settling_create(program, cache, &problem, arena, &settling, error));
    CLEAVE_TRY(cleave_settling_apply(settling, rule, &problem, workspace, timeline, error));
    return cleave_simulate_run(&problem, rule, workspace, timeline, error);
}
