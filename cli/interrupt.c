/* Ctrl-C. */
#include "cli/interrupt.h"

#include <stddef.h>

/* A handler can reach nothing but a global. */
static volatile sig_atomic_t interrupted;

static void interrupt(int signal_number) {
    (void)signal_number;
    interrupted = 1;
}

const volatile sig_atomic_t *interrupt_watch(void) {
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    return &interrupted;
}

void interrupt_ignore(void) { signal(SIGINT, SIG_IGN); }
