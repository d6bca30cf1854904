/* Statuses and messages. */
#include "base/error.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a file holds may be part of a message. */
static void keep_one_line(char *message) {
    for (; *message != '\0'; message++)
        if (iscntrl((unsigned char)*message))
            *message = '?';
}

cleave_status cleave_fail(cleave_error *error, cleave_status status, const char *format, ...) {
    if (error != NULL) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(error->message, sizeof error->message, format, arguments);
        va_end(arguments);
        keep_one_line(error->message);
    }
    return status;
}

void cleave_error_prefix(cleave_error *error, const char *format, ...) {
    if (error == NULL)
        return;
    char joined[sizeof error->message];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(joined, sizeof joined, format, arguments);
    va_end(arguments);
    size_t used = length < 0 ? 0 : (size_t)length;
    if (used < sizeof joined)
        snprintf(joined + used, sizeof joined - used, ": %s", error->message);
    memcpy(error->message, joined, sizeof joined);
}

cleave_status cleave_fail_memory(cleave_error *error, const char *what) {
    return cleave_fail(error, CLEAVE_FAILED, "out of memory while %s", what);
}
