/* Starting ranks: this program again, so many times, by the MPI launcher that was found when Cleave
   was configured, here or on hosts; and asking hosts whether they can be started on. */
#ifndef CLEAVE_EXEC_WORLD_LAUNCH_H
#define CLEAVE_EXEC_WORLD_LAUNCH_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_launch {
    int32_t n_ranks;
    const char *hosts; /* "alpha:2,beta:4": the first ranks are on alpha; null: all here */
    /* Ranks that have begun to beat and then don't for longer are killed; 0: never. */
    double patience_seconds;
} cleave_launch;

/* Starts `arguments` (null-terminated, [0] is the program) as ranks, and waits.  The ranks' stdout
   is passed on, and of their stderr the lines that begin with "cleave" or the program's name; the
   launcher's own report of a failure is not, and of what ranks say of one the first line.
   `exit_code` is that of the first rank that failed after it had said why, 0 when none did.  FAILED
   when a rank died without a word.

   SIGINT and SIGTERM that come meanwhile go to all ranks as SIGTERM, the second one as SIGKILL, but
   not before all ranks have begun, 10 s at most; `told_to_end` says whether one came. */
cleave_status cleave_launch_ranks(const cleave_launch *how, char *const *arguments, int *exit_code,
                                  bool *told_to_end, cleave_error *error);

/* What a host says to the question whether `program` can be started there. */
typedef struct cleave_launch_answer {
    bool is_there;
    const char *reason; /* why not: a line of the launcher, or that it took too long */
} cleave_launch_answer;

/* Asks `n` hosts at once, by starting `program --version` on each as ranks are, and waits for all
   of them, `seconds` at most.  Reasons live in the arena. */
cleave_status cleave_launch_ask(const char *program, const char *const *hosts, int32_t n,
                                double seconds, cleave_arena *arena, cleave_launch_answer *answers,
                                cleave_error *error);

/* Between ranks and who launched them: lines on stderr, and the variable that asks for them.  A
   beat says that rank 0 goes on, the last that no more will come. */
#define CLEAVE_BEGUN "begun\n" /* once, as soon as all ranks are there */
#define CLEAVE_BEAT "beat\n"
#define CLEAVE_LAST_BEAT "last beat\n"
#define CLEAVE_ENDS_WITH                                                                           \
    "ends with code " /* and the code: launchers lose codes of MPI_Abort now and then */
#define CLEAVE_BEATS_VARIABLE "CLEAVE_BEATS"

#endif
