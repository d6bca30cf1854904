/* Ctrl-C, for commands that end early and keep what they have. */
#ifndef CLEAVE_CLI_INTERRUPT_H
#define CLEAVE_CLI_INTERRUPT_H

#include <signal.h>

/* From here on the first SIGINT sets what this points to, and a second one ends the process. */
const volatile sig_atomic_t *interrupt_watch(void);
/* From here on none is heard: what is written is written whole. */
void interrupt_ignore(void);

#endif
