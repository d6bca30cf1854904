/* Markup that grows: HTML and SVG.  The format is ours, whatever is put in by it is escaped, so
   nothing that a file says can become markup, in text or in an attribute. */
#ifndef CLEAVE_PAGE_MARKUP_H
#define CLEAVE_PAGE_MARKUP_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct cleave_markup {
    char *text; /* zero-terminated; owned */
    size_t n, capacity;
    bool failed; /* memory was short: text is not to be used */
} cleave_markup;

/* As printf has it, of %s %d %lld %f %g and %%, but that the text of a %s is escaped: & < > " ' by
   their names, control characters and what is no UTF-8 by U+FFFD.  Attributes are written in double
   quotes. */
void cleave_markup_put(cleave_markup *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A block of data for the script: a JSON text (base/json.h), which is finished and freed.  Nothing
   in it can end the block: < > & and the separators of lines U+2028 and U+2029 are escaped. */
void cleave_markup_put_data(cleave_markup *to, const char *id, cleave_json_writer *json);

/* As it is: what is embedded (page/assets.h), and nothing else. */
void cleave_markup_put_asset(cleave_markup *to, const char *text);

/* Writes all of it to a file, and frees it. */
cleave_status cleave_markup_write(cleave_markup *from, const char *path, cleave_error *error);
void cleave_markup_free(cleave_markup *markup);

#endif
