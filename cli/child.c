/* Runs this command again as a child. */
#define _GNU_SOURCE /* pipe2 */
#include "cli/child.h"

#include "base/list.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WATCH_MILLISECONDS = 200 };

void child_add(child_arguments *to, const char *word) {
    assert(to->n < CHILD_MOST_WORDS);
    to->words[to->n++] = word;
}

void child_add_text(child_arguments *to, const char *option, const char *text) {
    if (text == NULL)
        return;
    child_add(to, option);
    child_add(to, text);
}

static char *new_number(child_arguments *to) {
    assert(to->n_numbers < CHILD_MOST_NUMBERS);
    return to->numbers[to->n_numbers++];
}

void child_add_integer(child_arguments *to, const char *option, int64_t value) {
    if (value == 0)
        return;
    char *text = new_number(to);
    snprintf(text, sizeof to->numbers[0], "%" PRId64, value);
    child_add_text(to, option, text);
}

static void add_number(child_arguments *to, const char *option, double value) {
    if (!(value < 0 || value > 0))
        return;
    char *text = new_number(to);
    snprintf(text, sizeof to->numbers[0], "%.17g", value);
    child_add_text(to, option, text);
}

void child_add_common(child_arguments *to, const common_options *common) {
    child_add_text(to, "--model", common->model);
    child_add_text(to, "--inputs", common->inputs);
    child_add_text(to, "--dimensions", common->dimensions);
    child_add_text(to, "--precision", common->precision);
    child_add_text(to, "--reduce-precision", common->reduce_precision);
    child_add_text(to, "--frozen", common->frozen);
    child_add_text(to, "--optimizer", common->optimizer);
    child_add_integer(to, "--batch", common->batch);
    child_add_integer(to, "--sequence", common->sequence);
    child_add_integer(to, "--seed", common->seed);
    child_add_integer(to, "--device-threads", common->device_threads);
    add_number(to, "--capacity-factor", common->capacity_factor);
    add_number(to, "--momentum", common->momentum);
    add_number(to, "--clip-norm", common->clip_norm);
    if (common->forward)
        child_add(to, "--forward");
}

/* In the child: never returns.  One that is watched is ended by us, not by a Ctrl-C that is meant
   for us; and threads of ours may have blocked signals. */
static void become(const char *const *arguments, int output, int errors) {
    static char name[] = "cleave", path[] = "/proc/self/exe";
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (errors >= 0 && (setpgid(0, 0) != 0 || dup2(errors, STDERR_FILENO) < 0))
        _exit(CLEAVE_FAILED);
    char *all[CHILD_MOST_WORDS + 2] = {name};
    for (int i = 0; i < CHILD_MOST_WORDS && arguments[i] != NULL; i++)
        all[i + 1] = (char *)(uintptr_t)arguments[i]; /* exec does not write to them */
    if (dup2(output, STDOUT_FILENO) >= 0)
        execv(path, all);
    _exit(CLEAVE_FAILED);
}

/* Waits until there is something to read; false where the watcher wants no more of it. */
static bool wait_for_text(int input, const child_watch *watch) {
    struct pollfd ready = {.fd = input, .events = POLLIN};
    while (watch != NULL && poll(&ready, 1, WATCH_MILLISECONDS) <= 0)
        if (!watch->go_on(watch->context))
            return false;
    return true;
}

/* Everything until the end of the pipe, in `*text` on the heap; false when memory is short. */
static bool drain(int input, const child_watch *watch, pid_t child, char **text, size_t *bytes) {
    size_t capacity = 0, n = 0;
    char *data = NULL;
    while (cleave_bytes_reserve(&data, &capacity, n + 1)) {
        if (!wait_for_text(input, watch)) {
            kill(child, SIGTERM);
            watch = NULL;
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

/* Its first line, without the name of the command. */
static void take_message(FILE *errors, const char *command, char *message, size_t bytes) {
    char line[sizeof(cleave_error)] = "", prefix[64];
    rewind(errors);
    if (fgets(line, sizeof line, errors) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\n")] = '\0';
    snprintf(prefix, sizeof prefix, "cleave %s: ", command);
    size_t skipped = strncmp(line, prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
    snprintf(message, bytes, "%s", line + skipped);
}

/* `errors`: where its stderr goes; null: to ours. */
static cleave_status run_child(const char *const *arguments, const child_watch *watch, FILE *errors,
                               cleave_json **document, cleave_error *error) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) /* of several threads no child gets another one's */
        return cleave_fail(error, CLEAVE_FAILED, "no pipe: %s", strerror(errno));
    int errors_to = errors != NULL ? fileno(errors) : -1;
    pid_t child = fork();
    if (child == 0)
        become(arguments, ends[1], errors_to);
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return cleave_fail(error, CLEAVE_FAILED, "no new process: %s", strerror(errno));
    }
    char *text = NULL;
    size_t bytes = 0;
    bool complete = drain(ends[0], watch, child, &text, &bytes);
    close(ends[0]);
    cleave_status status = wait_for(child, arguments[0], error);
    if (status == CLEAVE_OK && !complete)
        status = cleave_fail_memory(error, "reading what a child printed");
    if (status == CLEAVE_OK)
        status = cleave_json_parse(text, bytes, arguments[0], document, error);
    free(text);
    return status;
}

cleave_status child_run_json(const char *const *arguments, cleave_json **document,
                             cleave_error *error) {
    return run_child(arguments, NULL, NULL, document, error);
}

cleave_status child_watch_json(const char *const *arguments, const child_watch *watch,
                               cleave_json **document, cleave_error *error) {
    FILE *errors = tmpfile();
    char message[sizeof error->message];
    if (errors == NULL)
        return cleave_fail(error, CLEAVE_FAILED, "no temporary file: %s", strerror(errno));
    cleave_status status = run_child(arguments, watch, errors, document, error);
    take_message(errors, arguments[0], message, sizeof message);
    fclose(errors);
    return status == CLEAVE_OK || message[0] == '\0' ? status
                                                     : cleave_fail(error, status, "%s", message);
}
