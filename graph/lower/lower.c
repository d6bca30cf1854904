#include "graph/lower/assemble.h"
#include "graph/lower/family.h"
#include "graph/lower/outputs.h"

/* Failures inside unwind to here.  `scratch` holds what one family needs and the program does not:
   in a deep model that is most of what lowering asks for. */
static cleave_status lower_guarded(lowering *state, lower_assembly *assembly, cleave_arena *scratch,
                                   const lower_schedule *schedule, cleave_program *program) {
    lower_builder *builder = &state->base;
    if (setjmp(builder->unwind) != 0)
        return builder->status;
    assembly->first_row = LOWER_ARRAY(builder, int32_t, schedule->n_events);
    lowering_begin(state, schedule);
    builder->arena = scratch;
    for (int32_t f = 0; f < schedule->n_families; f++) {
        cleave_arena_reset(scratch);
        lower_family(state, f);
        lower_assembly_add(assembly, state);
    }
    builder->arena = builder->lasting;
    lower_assembly_finish(assembly, program);
    return CLEAVE_OK;
}

/* Other micro-batches have the pieces of the first one, of other buffers, and squares of gradients
   go to buffers that are known at the end. */
static bool counts_pieces(const cleave_model *model, const cleave_micro_batches *micro,
                          const cleave_lower_options *options) {
    return options->for_price && micro == NULL && model->squares == 0;
}

static cleave_status check_request(const cleave_model *model, const cleave_layout *layout,
                                   const cleave_lower_options *options, cleave_error *error) {
    if (options->training && !cleave_model_trains(model))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the model has no loss, so it can't be trained", model->file);
    for (int32_t op = 0; op < model->n_operators; op++)
        if (layout->splits[op].ring && model->nests[model->operators[op].main_nest].n_turns == 0)
            return cleave_fail(error, CLEAVE_FAILED,
                               "operator %s: keys go round, but the model has no turns of them",
                               model->operators[op].name);
    return CLEAVE_OK;
}

static cleave_status lower_devices(const cleave_model *model, const cleave_layout *layout,
                                   const cleave_fold *fold, const cleave_lower_options *options,
                                   cleave_arena *arena, cleave_program *program,
                                   cleave_turns *turns, cleave_error *error) {
    CLEAVE_TRY(check_request(model, layout, options, error));
    cleave_program result = {.model = model,
                             .n_devices = layout->n_devices,
                             .n_windows = fold == NULL ? 1 : fold->n_windows,
                             .n_groups = fold == NULL ? 1 : fold->n_groups,
                             .windows_outermost = fold != NULL && fold->windows_outermost,
                             .training = options->training,
                             .has_stages = layout->schedule.n_stages > 1,
                             .symbolic = options->symbolic_collectives};
    cleave_parts *parts;
    lower_schedule schedule;
    cleave_micro_batches micro = {.n = layout->schedule.micro_batches};
    const cleave_micro_batches *cut = micro.n > 1 ? &micro : NULL;
    if (cut != NULL)
        CLEAVE_TRY(cleave_micro_batches_find(model, micro.n, arena, &micro, error));
    if (cut != NULL && !options->training)
        CLEAVE_TRY(lower_outputs_check_cut(model, cut, error));
    CLEAVE_TRY(cleave_parts_derive(model, layout, cut, arena, &parts, error));
    CLEAVE_TRY(lower_schedule_create(model, options->training, options->together_bytes, cut, layout,
                                     arena, &schedule, error));
    result.parts = parts;
    lowering *state = cleave_arena_alloc(arena, 1, sizeof *state);
    lower_assembly *assembly = cleave_arena_alloc(arena, 1, sizeof *assembly);
    if (state == NULL || assembly == NULL)
        return cleave_fail_memory(error, "lowering");
    state->base = (lower_builder){.model = model,
                                  .layout = layout,
                                  .options = options,
                                  .arena = arena,
                                  .lasting = arena,
                                  .error = error,
                                  .parts = parts,
                                  .n_devices = layout->n_devices,
                                  .fold = fold,
                                  .micro = cut,
                                  .turns = turns,
                                  .counts_pieces = counts_pieces(model, cut, options)};
    *assembly = (lower_assembly){.builder = &state->base, .schedule = &schedule};
    cleave_arena scratch = {0};
    cleave_status status = lower_guarded(state, assembly, &scratch, &schedule, &result);
    cleave_arena_free(&scratch);
    lower_assembly_free(assembly);
    lowering_free(state);
    CLEAVE_TRY(status);
    result.n_spanning = cleave_program_count_spanning(&result);
    if (turns == NULL)
        CLEAVE_TRY(cleave_memory_plan(&result, options->enough_bytes, arena, error));
    *program = result;
    return CLEAVE_OK;
}

cleave_status cleave_lower(const cleave_model *model, const cleave_layout *layout,
                           const cleave_lower_options *options, cleave_arena *arena,
                           cleave_program *program, cleave_error *error) {
    return lower_devices(model, layout, NULL, options, arena, program, NULL, error);
}

cleave_status cleave_lower_few(const cleave_model *model, const cleave_layout *layout,
                               const cleave_fold *fold, const cleave_lower_options *options,
                               cleave_arena *arena, cleave_program *program, cleave_turns *turns,
                               cleave_error *error) {
    return lower_devices(model, fold != NULL ? &fold->window : layout, fold, options, arena,
                         program, turns, error);
}

cleave_status cleave_lower_window(const cleave_model *model, const cleave_fold *fold,
                                  const cleave_lower_options *options, cleave_arena *arena,
                                  cleave_program *program, cleave_error *error) {
    if (!options->training)
        CLEAVE_TRY(lower_outputs_check_fold(model, fold, error));
    return lower_devices(model, &fold->window, fold, options, arena, program, NULL, error);
}
