/* A page that is one file: nothing is fetched, and nothing runs but its own script, by a content
   policy that names it, and its style, by their digests. */
#ifndef CLEAVE_PAGE_PAGE_H
#define CLEAVE_PAGE_PAGE_H

#include "page/markup.h"

/* Opens a page: its head, and the heading with the title and what it is about.  Sections follow. */
void cleave_page_begin(cleave_markup *page, const char *title, const char *about);
/* A section, which the head of the page links to by its short name.  `id` is ours: letters. */
void cleave_page_begin_section(cleave_markup *page, const char *id, const char *title);
void cleave_page_end_section(cleave_markup *page);
/* A sentence under what it explains. */
void cleave_page_put_note(cleave_markup *page, const char *note);
/* Closes the page: the script stands at its end. */
void cleave_page_end(cleave_markup *page);

#endif
