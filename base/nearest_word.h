/* What somebody who wrote something else may have meant. */
#ifndef CLEAVE_BASE_NEAREST_WORD_H
#define CLEAVE_BASE_NEAREST_WORD_H

#include <stddef.h>

/* Of words that are offered one by one the nearest to `text`. */
typedef struct cleave_nearest_word {
    const char *text;
    size_t length;
    const char *word; /* null: none is near */
    size_t distance;
} cleave_nearest_word;

/* Near is what begins with the text, or the text with it, three letters or more; or what differs
   from it by letters that are few for its length: one of up to five, two of up to eight, three of
   more, each too many, missing or another. */
void cleave_nearest_word_offer(cleave_nearest_word *nearest, const char *word);

#endif
