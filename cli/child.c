/* Runs this command again as a child. */
#include "cli/child.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 64 };

/* In the child: never returns. */
static void become(const char *const *arguments, int output) {
    static char name[] = "cleave", path[] = "/proc/self/exe";
    char *all[MAX_ARGUMENTS + 2] = {name};
    for (int i = 0; i < MAX_ARGUMENTS && arguments[i] != NULL; i++)
        all[i + 1] = (char *)(uintptr_t)arguments[i]; /* exec does not write to them */
    if (dup2(output, STDOUT_FILENO) >= 0)
        execv(path, all);
    _exit(CLEAVE_FAILED);
}

/* Everything until the end of the pipe, in `*text` on the heap; false when memory is short. */
static bool drain(int input, char **text, size_t *bytes) {
    size_t capacity = 0, n = 0;
    char *data = NULL;
    for (;;) {
        if (n == capacity) {
            capacity = 2 * capacity + 4096;
            char *grown = realloc(data, capacity);
            if (grown == NULL)
                break;
            data = grown;
        }
        ssize_t got = read(input, data + n, capacity - n);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            *text = data;
            *bytes = n;
            return true;
        }
        n += (size_t)got;
    }
    free(data);
    return false;
}

static cleave_status wait_for(pid_t child, const char *what, cleave_error *error) {
    int outcome = 0;
    while (waitpid(child, &outcome, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(outcome) && WEXITSTATUS(outcome) == 0)
        return CLEAVE_OK;
    if (WIFEXITED(outcome))
        return cleave_fail(error,
                           WEXITSTATUS(outcome) <= CLEAVE_NO_LAYOUT
                               ? (cleave_status)WEXITSTATUS(outcome)
                               : CLEAVE_FAILED,
                           "`cleave %s` failed with exit code %d", what, WEXITSTATUS(outcome));
    return cleave_fail(error, CLEAVE_FAILED, "`cleave %s` was ended by signal %d", what,
                       WTERMSIG(outcome));
}

cleave_status child_run_json(const char *const *arguments, cleave_json **document,
                             cleave_error *error) {
    int ends[2];
    if (pipe(ends) != 0)
        return cleave_fail(error, CLEAVE_FAILED, "no pipe: %s", strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        become(arguments, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return cleave_fail(error, CLEAVE_FAILED, "no new process: %s", strerror(errno));
    }
    char *text = NULL;
    size_t bytes = 0;
    bool complete = drain(ends[0], &text, &bytes);
    close(ends[0]);
    cleave_status status = wait_for(child, arguments[0], error);
    if (status == CLEAVE_OK && !complete)
        status = cleave_fail_memory(error, "reading what a child printed");
    if (status == CLEAVE_OK)
        status = cleave_json_parse(text, bytes, arguments[0], document, error);
    free(text);
    return status;
}
