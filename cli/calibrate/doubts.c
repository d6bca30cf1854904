/* Doubts about a calibration.  Two of them are counted by the seconds that kernels take, since a
   step is their sum; only of work that known strategies or given layouts do. */
#include "cli/calibrate/doubts.h"

#include "base/median.h"
#include "base/units.h"

/* A median is vague that may be off by more than this.  On a quiet machine 1 % of the seconds are
   of vague medians, beside two other busy processes 8 %; of message sizes 2 of 17, and 6. */
static const double vague = 0.1;
static const double most_of_seconds = 0.05, most_of_sizes = 0.25;
enum { FEW_REPEATS = 3 }; /* fewer have no quartiles */

void calibrate_doubts_measured(calibrate_doubts *doubts, const calibrate_work *work,
                               const cleave_measurement *result, bool hurried) {
    if (!work->wanted)
        return;
    double share = cleave_median_uncertainty(result->spread, result->repeats);
    double may_be_off = share * result->seconds;
    doubts->n_works++;
    doubts->seconds += result->seconds;
    if (result->repeats >= FEW_REPEATS && share > vague) {
        doubts->vague_seconds += result->seconds;
        if (may_be_off > doubts->vaguest_seconds) {
            doubts->vaguest = work;
            doubts->vaguest_seconds = may_be_off;
        }
    }
    if (result->repeats < FEW_REPEATS && hurried) {
        doubts->hasty_seconds += result->seconds;
        if (result->seconds > doubts->hastiest_seconds) {
            doubts->hastiest = work;
            doubts->hastiest_seconds = result->seconds;
        }
    }
}

void calibrate_doubts_left(calibrate_doubts *doubts, const calibrate_work *work) {
    if (!work->wanted)
        return;
    doubts->n_works++;
    doubts->n_left++;
    if (doubts->costliest_left == NULL)
        doubts->costliest_left = work;
}

void calibrate_doubts_link(calibrate_doubts *doubts, const cleave_link_figures *figures) {
    for (int i = 0; i < figures->n_sizes; i++) {
        doubts->n_sizes++;
        doubts->n_vague_sizes += figures->uncertainty[i] > vague;
        if (figures->uncertainty[i] > doubts->vaguest_share) {
            doubts->vaguest_share = figures->uncertainty[i];
            doubts->vaguest_bytes = (int64_t)CLEAVE_LINK_LEAST_BYTES << i;
        }
    }
}

static const char *pass_of(const calibrate_work *work) { return cleave_pass_names[work->pass]; }

void calibrate_doubts_print(const calibrate_doubts *d, double time, bool again, FILE *to) {
    const char *anew = again ? "once more" : "into a new file, since this one keeps what it has";
    if (d->n_left > 0)
        fprintf(to,
                "cleave: warning: --time %g is too short: %d of %d sorts of work that known "
                "strategies do are predicted, not measured, the costliest of them %s, %s; run "
                "it again on the same file, or with more --time\n",
                time, d->n_left, d->n_works, d->costliest_left->nest->name,
                pass_of(d->costliest_left));
    if (d->hasty_seconds > most_of_seconds * d->seconds)
        fprintf(
            to,
            "cleave: warning: --time %g is too short: %.0f %% of the time measured is of kernels "
            "that ran fewer than %d times, such as %s, %s; calibrate %s, with more --time\n",
            time, 100 * d->hasty_seconds / d->seconds, FEW_REPEATS, d->hastiest->nest->name,
            pass_of(d->hastiest), anew);
    if (d->vague_seconds > most_of_seconds * d->seconds)
        fprintf(to,
                "cleave: warning: %.0f %% of the time measured is of kernels that varied so much "
                "that their medians may be off by more than %.0f %%, such as %s, %s; quiet the "
                "machine and calibrate %s\n",
                100 * d->vague_seconds / d->seconds, 100 * vague, d->vaguest->nest->name,
                pass_of(d->vaguest), anew);
    if (d->n_vague_sizes > most_of_sizes * d->n_sizes) {
        char bytes[32];
        cleave_unit_format((double)d->vaguest_bytes, CLEAVE_UNIT_BYTES, bytes, sizeof bytes);
        fprintf(to,
                "cleave: warning: messages of %d of %d sizes varied so much that their medians may "
                "be off by more than %.0f %%, those of %s by %.0f %%; quiet the machine and run it "
                "again\n",
                d->n_vague_sizes, d->n_sizes, 100 * vague, bytes, 100 * d->vaguest_share);
    }
}
