/* Progress of work longer than two seconds, on stderr: a bar on a terminal, plain lines otherwise.
 */
#ifndef CLEAVE_BASE_PROGRESS_H
#define CLEAVE_BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct cleave_progress {
    const char *what;     /* "calibrating kernels" */
    bool terminal, quiet; /* quiet: nothing is ever shown */
    double started_seconds, shown_seconds;
    bool shown;
} cleave_progress;

/* Monotonic seconds since some fixed point. */
double cleave_clock_seconds(void);
/* That all threads of this process have had of processors; from any origin. */
double cleave_processor_seconds(void);

void cleave_progress_begin(cleave_progress *progress, const char *what, bool quiet);
/* fraction in 0..1, or below 0 when it is not known; note may be null.  Cheap to call often. */
void cleave_progress_update(cleave_progress *progress, double fraction, const char *note);
void cleave_progress_end(cleave_progress *progress);

#endif
