/* Statuses and messages, as the door has them.  A fallible function returns a status and fills an
   error that names the offending values; the status is also the exit code of the command. */
#ifndef CLEAVE_BASE_ERROR_H
#define CLEAVE_BASE_ERROR_H

#include "include/cleave/cleave.h"

/* Fills `error` (which may be null) and returns `status`, so that a caller can return the call. */
cleave_status cleave_fail(cleave_error *error, cleave_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts "prefix: " before the message, as an error travels up to where the place is known. */
void cleave_error_prefix(cleave_error *error, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Shorthand for "out of memory while ...". */
cleave_status cleave_fail_memory(cleave_error *error, const char *what);

#define CLEAVE_TRY(call)                                                                           \
    do {                                                                                           \
        cleave_status cleave_try_status = (call);                                                  \
        if (cleave_try_status != CLEAVE_OK)                                                        \
            return cleave_try_status;                                                              \
    } while (0)

#endif
