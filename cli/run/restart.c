/* Starting again from the last checkpoint. */
#include "cli/run/restart.h"

#include "cli/run/placement.h"
#include "exec/training/checkpoint.h"
#include "exec/world/ranks.h"

#include <stdio.h>
#include <string.h>

enum { MAX_ARGUMENTS = 128, ASK_SECONDS = 10 };

/* What is started next. */
typedef struct attempt {
    cleave_launch launch;
    const char *arguments[MAX_ARGUMENTS + 1];
} attempt;

/* Puts `OPTION VALUE` at the end, in the place of what was said before. */
static cleave_status set_option(attempt *next, const char *option, const char *value,
                                cleave_error *error) {
    const char **words = next->arguments;
    size_t length = strlen(option);
    int n = 0;
    for (int i = 0; words[i] != NULL; i++)
        if (strcmp(words[i], option) == 0 && words[i + 1] != NULL)
            i++;
        else if (strncmp(words[i], option, length) != 0 || words[i][length] != '=')
            words[n++] = words[i];
    if (n + 2 > MAX_ARGUMENTS)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "more than %d arguments", MAX_ARGUMENTS);
    words[n++] = option;
    words[n++] = value;
    words[n] = NULL;
    return CLEAVE_OK;
}

static cleave_status begin(const restart *how, int32_t n_ranks, char *const *arguments,
                           attempt *next, cleave_error *error) {
    int n = 0;
    for (; arguments[n] != NULL && n < MAX_ARGUMENTS; n++)
        next->arguments[n] = arguments[n];
    next->arguments[n] = NULL;
    if (arguments[n] != NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "more than %d arguments", MAX_ARGUMENTS);
    next->launch = (cleave_launch){.n_ranks = n_ranks, .patience_seconds = how->patience_seconds};
    return CLEAVE_OK;
}

/* Those that answer; of the first that does not, why. */
static cleave_status ask_hosts(const cleave_hosts *hosts, cleave_arena *arena, cleave_hosts *left,
                               const char **gone, cleave_error *error) {
    char self[4096];
    cleave_launch_answer *answers = CLEAVE_ARENA_ARRAY(arena, cleave_launch_answer, hosts->n);
    const char **names = CLEAVE_ARENA_ARRAY(arena, const char *, hosts->n);
    cleave_host *there = CLEAVE_ARENA_ARRAY(arena, cleave_host, hosts->n);
    if (answers == NULL || names == NULL || there == NULL)
        return cleave_fail_memory(error, "asking hosts");
    for (int32_t i = 0; i < hosts->n; i++)
        names[i] = hosts->items[i].name;
    CLEAVE_TRY(cleave_ranks_program(self, sizeof self, error));
    CLEAVE_TRY(cleave_launch_ask(self, names, hosts->n, ASK_SECONDS, arena, answers, error));
    *left = (cleave_hosts){.from = hosts->from, .items = there};
    *gone = NULL;
    for (int32_t i = 0; i < hosts->n; i++)
        if (answers[i].is_there)
            there[left->n++] = hosts->items[i];
        else if (*gone == NULL &&
                 (*gone = cleave_arena_printf(arena, "%s is not there: %s", names[i],
                                              answers[i].reason)) == NULL)
            return cleave_fail_memory(error, "asking hosts");
    return CLEAVE_OK;
}

/* A layout for the hosts that are left, and what it says of them. */
static cleave_status take_fewer(const restart *how, const cleave_hosts *left, const char *gone,
                                cleave_arena *arena, attempt *next, cleave_error *error) {
    fewer_found found;
    if (left->n == 0)
        return cleave_fail(error, CLEAVE_FAILED, "no host is left: %s", gone);
    CLEAVE_TRY(fewer_find(how->search, how->hosts, left, arena, &found, error));
    CLEAVE_TRY(set_option(next, "--machine", found.machine, error));
    CLEAVE_TRY(set_option(next, "--layout", found.layout, error));
    next->launch.n_ranks = found.n_devices;
    next->launch.hosts = found.placement;
    if (!how->quiet)
        fprintf(stderr, "cleave run: %s; goes on on %s by %s\n", gone, found.placement,
                found.layout);
    return CLEAVE_OK;
}

/* Which hosts, and with them which layout. */
static cleave_status take_hosts(const restart *how, bool first, cleave_arena *arena, attempt *next,
                                cleave_error *error) {
    cleave_hosts left;
    const char *gone;
    cleave_error missing;
    if (how->hosts->n == 0)
        return CLEAVE_OK;
    CLEAVE_TRY(ask_hosts(how->hosts, arena, &left, &gone, error));
    if (placement_make(&left, how->machine, next->launch.n_ranks, arena, &next->launch.hosts,
                       &missing) == CLEAVE_OK) {
        if (gone != NULL && !how->quiet)
            fprintf(stderr, "cleave run: %s; the others suffice: %s\n", gone, next->launch.hosts);
        return CLEAVE_OK;
    }
    return first ? cleave_fail(error, CLEAVE_FAILED, "%s", gone)
                 : take_fewer(how, &left, gone, arena, next, error);
}

static cleave_status try_once(const restart *how, int32_t n_ranks, char *const *arguments,
                              int64_t n_before, int64_t step, bool *told_to_end,
                              cleave_error *error) {
    attempt next;
    cleave_arena arena = {0};
    CLEAVE_TRY(begin(how, n_ranks, arguments, &next, error));
    cleave_status status = take_hosts(how, n_before == 0, &arena, &next, error);
    if (status == CLEAVE_OK && step >= 0)
        status = set_option(&next, "--from", how->checkpoint, error);
    if (status == CLEAVE_OK)
        status =
            cleave_ranks_launch(&next.launch, (char *const *)next.arguments, told_to_end, error);
    cleave_arena_free(&arena);
    return status;
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
    bool told_to_end = false;
    cleave_status status = try_once(how, n_ranks, arguments, 0, -1, &told_to_end, error);
    for (int64_t n = 1; status == CLEAVE_FAILED && !told_to_end && n <= how->most; n++) {
        int64_t step = cleave_checkpoint_newest(how->checkpoint);
        say(how, n, step, error);
        status = try_once(how, n_ranks, arguments, n, step, &told_to_end, error);
    }
    return status;
}
