/* `cleave calibrate --through torch`: lists, has Cleave's script time it in the user's Python, and
   takes the times.  The files between lie beside the machine file, so that a run that was ended
   goes on. */
#include "cli/calibrate/list.h"
#include "cli/calibrate/times.h"

#include <errno.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* What it prints goes to stderr where stdout has something else. */
static cleave_status run_script(const char *const *arguments, bool to_stderr, cleave_error *error) {
    posix_spawn_file_actions_t redirect, *actions = NULL;
    pid_t child;
    int outcome = 0;
    char *all[24] = {0}; /* which are not written to */
    for (int i = 0; arguments[i] != NULL; i++)
        all[i] = (char *)(uintptr_t)arguments[i];
    if (to_stderr && posix_spawn_file_actions_init(&redirect) == 0) {
        actions = &redirect;
        posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    }
    int failed = posix_spawnp(&child, all[0], actions, NULL, all, environ);
    if (actions != NULL)
        posix_spawn_file_actions_destroy(actions);
    if (failed != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "--python %s: it can't be started: %s", all[0],
                           strerror(failed));
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0)
        return CLEAVE_OK;
    return cleave_fail(error, CLEAVE_FAILED,
                       "`%s -m cleave.torch.calibrate` failed; the package is installed by `pip "
                       "install ./python`, and the same command goes on where this one stopped",
                       all[0]);
}

cleave_status calibrate_through(const calibrate_values *values, cleave_arena *arena,
                                cleave_error *error) {
    if (strcmp(values->through, "torch") != 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "--through %s: the framework that can be "
                           "calibrated through is torch",
                           values->through);
    calibrate_values with_files = *values;
    with_files.list = cleave_arena_printf(arena, "%s.kernels.json", values->output);
    with_files.import = cleave_arena_printf(arena, "%s.times.json", values->output);
    const char *threads =
        cleave_arena_printf(arena, "%lld", (long long)values->common.device_threads);
    const char *time = cleave_arena_printf(arena, "%.17g", values->time);
    if (with_files.list == NULL || with_files.import == NULL || threads == NULL || time == NULL)
        return cleave_fail_memory(error, "calibrating");
    CLEAVE_TRY(calibrate_list(&with_files, arena, error));
    const char *arguments[20] = {values->python,  "-m", "cleave.torch.calibrate",
                                 with_files.list, "-o", with_files.import,
                                 "--time",        time};
    int n = 8;
    if (values->device != NULL) {
        arguments[n++] = "--device";
        arguments[n++] = values->device;
    }
    if (values->common.device_threads > 0) {
        arguments[n++] = "--threads";
        arguments[n++] = threads;
    }
    if (values->compile)
        arguments[n++] = "--compile";
    if (values->common.quiet)
        arguments[n++] = "--quiet";
    fflush(stdout);
    CLEAVE_TRY(run_script(arguments, values->common.json, error));
    return calibrate_take(&with_files, arena, error);
}
