/* The function that libFuzzer calls, and that replay.c calls in builds without it. */
#ifndef CLEAVE_TESTS_FUZZ_FUZZ_H
#define CLEAVE_TESTS_FUZZ_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
