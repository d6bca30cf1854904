/* Work that is told by its bytes, which calibration measures beside kernels: copies, sums, loads,
   updates and copies of rows, of several sizes. */
#ifndef CLEAVE_CLI_CALIBRATE_BYTES_H
#define CLEAVE_CLI_CALIBRATE_BYTES_H

#include "exec/measure/measure.h"
#include "graph/program/work.h"

#include <stdbool.h>
#include <stdint.h>

enum { CALIBRATE_MOST_BYTE_WORKS = 60 };

typedef struct calibrate_byte_work {
    int family;               /* a row of the table in cli/calibrate/bytes.c */
    int64_t bytes, row_bytes; /* how many, and in rows of how many (0: contiguous) */
    bool stands_for_memory;   /* the copy whose rate is the memory's */
} calibrate_byte_work;

/* All of it, in the order of measuring: the largest of every family, then sizes from one end to the
   other, then those in between, so that as far as time allows a fit has sizes that are far apart.
 */
typedef struct calibrate_byte_works {
    int32_t n;
    int32_t n_first; /* the largest, without which a family had no price at all */
    int32_t done;    /* so many are measured; 0 */
    calibrate_byte_work items[CALIBRATE_MOST_BYTE_WORKS];
} calibrate_byte_works;

void calibrate_byte_works_list(calibrate_byte_works *works);

/* As the cost model names it: see graph/program/work.h. */
void calibrate_byte_work_describe(const calibrate_byte_work *of, cleave_work *work);

/* Is it the family of such work, whose `flops` are none? */
bool calibrate_is_byte_family(const char *family);

/* See exec/measure/measure.h; the bytes are the work's.  Rows lie as far apart as in a tensor that
   is split over all devices by a dimension within others. */
cleave_status calibrate_byte_work_measure(const calibrate_byte_work *of, int32_t n_devices,
                                          cleave_measured_bytes in, cleave_measurement *result,
                                          cleave_error *error);

#endif
