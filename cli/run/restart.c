/* Starting again from the last checkpoint. */
#include "cli/run/restart.h"

#include "exec/checkpoint.h"
#include "exec/ranks.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ARGUMENTS = 128 };

/* The arguments with `--from FOLDER` instead of what they go on from, in `again`. */
static cleave_status go_on(char *const *arguments, const char *folder, const char **again,
                           cleave_error *error) {
    int n = 0;
    for (int i = 0; arguments[i] != NULL; i++) {
        if (n + 3 > MAX_ARGUMENTS)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "more than %d arguments", MAX_ARGUMENTS);
        if (strcmp(arguments[i], "--from") == 0 && arguments[i + 1] != NULL)
            i++;
        else if (strncmp(arguments[i], "--from=", 7) != 0)
            again[n++] = arguments[i];
    }
    again[n++] = "--from";
    again[n++] = folder;
    again[n] = NULL;
    return CLEAVE_OK;
}

static void say(const restart *how, int64_t n, int64_t step, const cleave_error *error) {
    char from[64] = "the beginning";
    if (step >= 0)
        snprintf(from, sizeof from, "step %lld", (long long)step);
    if (error->message[0] != '\0')
        fprintf(stderr, "cleave run: %s\n", error->message);
    if (!how->quiet)
        fprintf(stderr, "cleave run: starts again from %s (%lld of %lld)\n", from, (long long)n,
                (long long)how->most);
}

cleave_status restart_ranks(const restart *how, int32_t n_ranks, char *const *arguments,
                            cleave_error *error) {
    const char *again[MAX_ARGUMENTS + 1];
    bool told_to_end = false;
    cleave_status status =
        cleave_ranks_launch(n_ranks, arguments, how->patience_seconds, &told_to_end, error);
    for (int64_t n = 1; status == CLEAVE_FAILED && !told_to_end && n <= how->most; n++) {
        int64_t step = cleave_checkpoint_newest(how->checkpoint);
        say(how, n, step, error);
        if (step >= 0)
            CLEAVE_TRY(go_on(arguments, how->checkpoint, again, error));
        status = cleave_ranks_launch(n_ranks, step >= 0 ? (char *const *)again : arguments,
                                     how->patience_seconds, &told_to_end, error);
    }
    return status;
}
