/* What a process is given, and keeps. */
#ifndef CLEAVE_BASE_PROCESS_H
#define CLEAVE_BASE_PROCESS_H

#include <stdint.h>

/* Cores that it may use: 1 or more. */
int32_t cleave_process_cores(void);

/* Bytes of memory that it may take: what the machine has, or what its limit leaves (ulimit -v). */
int64_t cleave_process_memory_bytes(void);

/* From here on, memory that was freed is taken again, instead of being given back to the system
   page by page and cleared for the next one: for work in which hundreds of megabytes come and go.
   It holds for the whole process (glibc's mallopt, which can't be asked what it was). */
void cleave_process_keep_memory(void);
/* As glibc begins, from here on; what is free goes back to the system. */
void cleave_process_release_memory(void);

#endif
