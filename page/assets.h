/* The style and the script of all pages, as their files in page/assets have them: put into the
   program by page/embed.cmake when it is built. */
#ifndef CLEAVE_PAGE_ASSETS_H
#define CLEAVE_PAGE_ASSETS_H

#include <stddef.h>

typedef struct cleave_asset {
    const char *text;   /* zero-terminated; nothing in it ends its element */
    const char *digest; /* "sha256-...", as a content policy names it */
} cleave_asset;

extern const cleave_asset cleave_asset_style;  /* all of page/assets/ *.css, by name */
extern const cleave_asset cleave_asset_figure; /* page/assets/figure.css alone: of drawings */
extern const cleave_asset cleave_asset_script; /* all of page/assets/ *.js, by name */

#endif
