/* A table that grows by a row a step. */
#include "exec/training/training_log.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char header[] = "step,epoch,loss,learning_rate,gradient_norm,seconds,"
                             "samples_per_second,validation_loss,validation_accuracy\n";

enum { MOST_ROW_BYTES = 512 };

/* Is it empty, or has it the header of such a table? */
static bool is_log(FILE *stream) {
    char start[sizeof header];
    size_t n = fread(start, 1, sizeof header - 1, stream);
    return n == 0 || (n == sizeof header - 1 && memcmp(start, header, n) == 0);
}

static cleave_status fail_other(const char *path, cleave_error *error) {
    return cleave_fail(error, CLEAVE_BAD_INPUT,
                       "%s: is there and is no log of a training: another name, or remove it",
                       path);
}

cleave_status cleave_training_log_check(const char *path, cleave_error *error) {
    FILE *stream = fopen(path, "rb");
    if (stream == NULL)
        return CLEAVE_OK;
    bool fits = is_log(stream);
    fclose(stream);
    return fits ? CLEAVE_OK : fail_other(path, error);
}

/* Where the rows of steps up to `done` end, behind the header. */
static long end_of_steps(FILE *stream, int64_t done) {
    char row[MOST_ROW_BYTES], *end;
    long at = (long)sizeof header - 1;
    int64_t last = 0;
    while (fgets(row, sizeof row, stream) != NULL) {
        long long step = strtoll(row, &end, 10);
        size_t n = strlen(row);
        if (end == row || *end != ',' || row[n - 1] != '\n' || step <= last || step > done)
            break;
        last = step;
        at += (long)n;
    }
    return at;
}

static cleave_status fail_to_write(const char *path, cleave_error *error) {
    return cleave_fail(error, CLEAVE_FAILED, "%s: could not be written: %s", path, strerror(errno));
}

cleave_status cleave_training_log_open(cleave_training_log *log, const char *path, int64_t done,
                                       cleave_error *error) {
    FILE *stream = fopen(path, "r+b");
    if (stream == NULL && errno == ENOENT)
        stream = fopen(path, "w+b");
    if (stream == NULL)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (!is_log(stream)) {
        fclose(stream);
        return fail_other(path, error);
    }
    bool is_new = ftell(stream) == 0;
    long end = is_new ? 0 : end_of_steps(stream, done);
    bool written = fflush(stream) == 0 && ftruncate(fileno(stream), end) == 0 &&
                   fseek(stream, end, SEEK_SET) == 0 && (!is_new || fputs(header, stream) >= 0) &&
                   fflush(stream) == 0;
    if (!written) {
        fail_to_write(path, error);
        fclose(stream);
        return CLEAVE_FAILED;
    }
    *log = (cleave_training_log){path, stream};
    return CLEAVE_OK;
}

cleave_status cleave_training_log_put(cleave_training_log *log, const cleave_training_row *row,
                                      cleave_error *error) {
    const double values[] = {row->epoch,           row->loss,
                             row->learning_rate,   row->gradient_norm,
                             row->seconds,         row->samples_per_second,
                             row->validation_loss, row->validation_accuracy};
    bool written = fprintf(log->stream, "%lld", (long long)row->step) > 0;
    for (size_t i = 0; i < sizeof values / sizeof *values && written; i++)
        written = isnan(values[i]) ? fputc(',', log->stream) != EOF
                                   : fprintf(log->stream, ",%.9g", values[i]) > 0;
    written = written && fputc('\n', log->stream) != EOF && fflush(log->stream) == 0;
    return written ? CLEAVE_OK : fail_to_write(log->path, error);
}

void cleave_training_log_close(cleave_training_log *log) {
    if (log->stream != NULL)
        fclose(log->stream);
    log->stream = NULL;
}

void cleave_training_row_format(const cleave_training_row *row, char *text, size_t bytes) {
    char epoch[32] = "", norm[32] = "", rate[48] = "", held_out[64] = "";
    if (!isnan(row->epoch))
        snprintf(epoch, sizeof epoch, "epoch %.2f, ", row->epoch);
    if (!isnan(row->samples_per_second))
        snprintf(rate, sizeof rate, ", %.4g samples/s", row->samples_per_second);
    if (!isnan(row->validation_loss))
        snprintf(held_out, sizeof held_out, ", held out %.4g and %.1f %%", row->validation_loss,
                 100 * row->validation_accuracy);
    if (!isnan(row->gradient_norm))
        snprintf(norm, sizeof norm, ", norm %.4g", row->gradient_norm);
    snprintf(text, bytes, "%sloss %.4g%s%s%s", epoch, row->loss, norm, rate, held_out);
}
