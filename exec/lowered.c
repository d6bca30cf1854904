/* The program that a run's options ask for. */
#include "exec/lowered.h"

#include "exec/kernels/kernel.h"
#include "graph/lower/lower.h"

cleave_status cleave_lower_run(const cleave_model *model, const cleave_layout *layout,
                               const cleave_run_options *options, cleave_arena *arena,
                               cleave_program *program, cleave_error *error) {
    cleave_kernels *kernels = NULL; /* for workspaces; a rank has its own */
    CLEAVE_TRY(cleave_kernels_create_threads(options->device_threads, &kernels, error));
    cleave_lower_options lower = {
        .training = !options->forward,
        .optimizer_states = options->forward ? 0 : cleave_optimizer_states(&options->optimizer),
        .workspace = options->reference_kernels ? NULL : cleave_kernel_workspace,
        .workspace_context = kernels};
    cleave_status status = cleave_lower(model, layout, &lower, arena, program, error);
    cleave_kernels_destroy(kernels);
    CLEAVE_TRY(status);
    return cleave_program_check(program, error);
}
