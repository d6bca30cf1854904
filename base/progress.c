/* Progress on stderr.  Nothing is shown in the first two seconds, so that short work stays quiet;
   then a terminal gets a bar that is redrawn, and a log gets a line every ten seconds. */
#include "base/progress.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double quiet_seconds = 2, terminal_interval_seconds = 0.1, line_interval_seconds = 10;

double cleave_clock_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double cleave_processor_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void cleave_progress_begin(cleave_progress *progress, const char *what, bool quiet) {
    *progress = (cleave_progress){.what = what,
                                  .quiet = quiet,
                                  .terminal = isatty(STDERR_FILENO) != 0,
                                  .started_seconds = cleave_clock_seconds()};
}

static void show_bar(double fraction) {
    enum { WIDTH = 30 };
    char bar[WIDTH + 1];
    int filled = (int)(fraction * WIDTH);
    memset(bar, ' ', WIDTH);
    memset(bar, '#', (size_t)filled);
    bar[WIDTH] = '\0';
    fprintf(stderr, " [%s] %3.0f %%", bar, 100 * fraction);
}

void cleave_progress_update(cleave_progress *progress, double fraction, const char *note) {
    if (progress->quiet)
        return;
    double now = cleave_clock_seconds();
    double interval = progress->terminal ? terminal_interval_seconds : line_interval_seconds;
    if (now - progress->started_seconds < quiet_seconds ||
        (progress->shown && now - progress->shown_seconds < interval))
        return;
    progress->shown = true;
    progress->shown_seconds = now;
    if (fraction > 1)
        fraction = 1;
    /* Carriage return and "erase to the end of the line". */
    fprintf(stderr, "%s%s", progress->terminal ? "\r\033[K" : "", progress->what);
    if (fraction >= 0 && progress->terminal)
        show_bar(fraction);
    else if (fraction >= 0)
        fprintf(stderr, ": %.0f %%", 100 * fraction);
    fprintf(stderr, " %.0f s", now - progress->started_seconds);
    if (note != NULL)
        fprintf(stderr, "  %s", note);
    if (!progress->terminal)
        fputc('\n', stderr);
    fflush(stderr);
}

void cleave_progress_end(cleave_progress *progress) {
    if (progress->quiet || !progress->shown)
        return;
    fprintf(stderr, "%s%s: %.0f s\n", progress->terminal ? "\r\033[K" : "", progress->what,
            cleave_clock_seconds() - progress->started_seconds);
    progress->shown = false;
}
