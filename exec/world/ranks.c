/* Programs that run as ranks. */
#include "exec/world/ranks.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { MAX_ARGUMENTS = 128 };

cleave_status cleave_world_launch_self(int32_t n_ranks, char *const *arguments,
                                       cleave_error *error) {
    bool told_to_end;
    const cleave_launch how = {.n_ranks = n_ranks};
    return cleave_ranks_launch(&how, arguments, &told_to_end, error);
}

cleave_status cleave_ranks_program(char *path, size_t bytes, cleave_error *error) {
    ssize_t n = readlink("/proc/self/exe", path, bytes - 1);
    if (n <= 0)
        return cleave_fail(error, CLEAVE_FAILED, "the path of this program can't be found");
    path[n] = '\0';
    return CLEAVE_OK;
}

cleave_status cleave_ranks_launch(const cleave_launch *how, char *const *arguments,
                                  bool *told_to_end, cleave_error *error) {
    char self[4096]; /* the launcher would look a name up in PATH */
    char *command_line[MAX_ARGUMENTS + 1] = {self};
    CLEAVE_TRY(cleave_ranks_program(self, sizeof self, error));
    for (int i = 1; arguments[i] != NULL; i++) {
        if (i == MAX_ARGUMENTS)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "more than %d arguments", MAX_ARGUMENTS);
        command_line[i] = arguments[i];
    }
    int exit_code = 0;
    CLEAVE_TRY(cleave_launch_ranks(how, command_line, &exit_code, told_to_end, error));
    if (error != NULL)
        error->message[0] = '\0';
    return exit_code >= CLEAVE_OK && exit_code <= CLEAVE_NO_LAYOUT ? (cleave_status)exit_code
                                                                   : CLEAVE_FAILED;
}

void cleave_ranks_end(cleave_world *world, const char *command, cleave_status status,
                      cleave_error *error) {
    /* Rank 0 ends the world meanwhile, unless this rank is the only one that found it. */
    if (status == CLEAVE_BAD_INPUT && cleave_world_rank(world) != 0)
        nanosleep(&(struct timespec){.tv_sec = 2}, NULL);
    if (status != CLEAVE_OK && error->message[0] != '\0') {
        fprintf(stderr, "cleave %s: %s\n", command, error->message);
        fflush(stderr);
        error->message[0] = '\0';
        /* The launcher carries the line; it must have done so before the world goes down. */
        nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    }
    fflush(stdout);
    cleave_world_end(world, (int)status);
}
