/* Calls that have to succeed. */
#ifndef CLEAVE_TESTS_SUPPORT_OK_H
#define CLEAVE_TESTS_SUPPORT_OK_H

#include "base/error.h"

#include <criterion/criterion.h>

/* Calls a function whose last argument is an error, which is left out here; where it fails, so does
   the test, with its message. */
#define OK(function, ...)                                                                          \
    do {                                                                                           \
        cleave_error ok_error = {""};                                                              \
        cr_assert_eq(function(__VA_ARGS__, &ok_error), CLEAVE_OK, "%s", ok_error.message);         \
    } while (0)

#endif
