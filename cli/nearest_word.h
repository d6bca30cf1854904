/* What somebody who wrote something else may have meant. */
#ifndef CLEAVE_CLI_NEAREST_WORD_H
#define CLEAVE_CLI_NEAREST_WORD_H

#include <stddef.h>

/* Of words that are offered one by one the nearest to `text`. */
typedef struct nearest_word {
    const char *text;
    size_t length;
    const char *word; /* null: none is near */
    size_t distance;
} nearest_word;

/* Near is what begins with the text, or the text with it, three letters or more; or what differs
   from it by letters that are few for its length: one of up to five, two of up to eight, three of
   more, each too many, missing or another. */
void nearest_word_offer(nearest_word *nearest, const char *word);

#endif
