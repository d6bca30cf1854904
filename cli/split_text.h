/* Splits and devices as text for people, and in JSON. */
#ifndef CLEAVE_CLI_SPLIT_TEXT_H
#define CLEAVE_CLI_SPLIT_TEXT_H

#include "base/json.h"
#include "graph/model/layout.h"

/* "n=2 k=2", "2 replicas x n=2", or "whole". */
void split_text_degrees(const cleave_operator *op, const cleave_split *split, char *text,
                        size_t bytes);
/* "0-3 6": runs of consecutive devices are contracted; ends with ".." where it is cut. */
void split_text_devices(const cleave_split *split, char *text, size_t bytes);

/* "split": {..}, "replicas": R and "devices": [..], members of an open object. */
void split_text_put(cleave_json_writer *writer, const cleave_operator *op,
                    const cleave_split *split);

/* The same number of replicas, degrees and devices. */
bool split_text_same(const cleave_operator *op, const cleave_split *a, const cleave_split *b);

#endif
