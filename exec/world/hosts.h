/* Hosts, and how many ranks each has room for: from a host file, or from what a batch system says
   of its allocation.

   A host file has a host a line, and what people have for other programs is taken as it is:

       # comment                      alpha              one slot, as MPICH has it
       alpha:4                        MPICH, Intel MPI
       alpha slots=4 max_slots=8      Open MPI, DeepSpeed; the most is never reached
       alpha                          again: one slot more, as in PBS_NODEFILE

   Hosts are in the order in which they are first named. */
#ifndef CLEAVE_EXEC_WORLD_HOSTS_H
#define CLEAVE_EXEC_WORLD_HOSTS_H

#include "base/arena.h"
#include "base/error.h"

#include <stdint.h>

enum { CLEAVE_MOST_HOSTS = 1 << 12, CLEAVE_MOST_HOST_NAME = 253, CLEAVE_MOST_SLOTS = 1 << 20 };

typedef struct cleave_host {
    const char *name; /* letters, digits, points, bars */
    int32_t slots;    /* 1 .. CLEAVE_MOST_SLOTS */
} cleave_host;

typedef struct cleave_hosts {
    const char *from; /* where they are from: a path, or words for messages */
    int32_t n;
    const cleave_host *items; /* [n] */
} cleave_hosts;

/* Of a host file; `from` stands for it in errors.  Everything lives in the arena.  BAD_INPUT names
   the line, or says that there is no host. */
cleave_status cleave_hosts_parse(const char *text, size_t bytes, const char *from,
                                 cleave_arena *arena, cleave_hosts *hosts, cleave_error *error);

/* Of Slurm: its list of nodes, such as "gpu[01-03,07],login1", and the tasks of each, such as
   "4(x2),3", or one number for all; null: one. */
cleave_status cleave_hosts_parse_slurm(const char *nodes, const char *tasks, const char *from,
                                       cleave_arena *arena, cleave_hosts *hosts,
                                       cleave_error *error);

/* Those of the batch system that this process is in: Slurm, else PBS, by their variables
   (SLURM_JOB_NODELIST with SLURM_TASKS_PER_NODE, SLURM_NTASKS_PER_NODE or SLURM_JOB_CPUS_PER_NODE;
   PBS_NODEFILE).  n == 0: in none. */
cleave_status cleave_hosts_find(cleave_arena *arena, cleave_hosts *hosts, cleave_error *error);

#endif
