/* A language model by the text of its config.json, to be imported with a loss. */
#ifndef CLEAVE_TESTS_SUPPORT_CONFIG_REQUEST_H
#define CLEAVE_TESTS_SUPPORT_CONFIG_REQUEST_H

#include "graph/import/import.h"

#include <string.h>

static inline cleave_import_request config_request(const char *text, int64_t batch,
                                                   int64_t sequence) {
    return (cleave_import_request){.file = "config.json",
                                   .data = text,
                                   .bytes = strlen(text),
                                   .batch = batch,
                                   .sequence = sequence,
                                   .with_loss = true};
}

#endif
