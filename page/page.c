#include "page/page.h"

#include "page/assets.h"

void cleave_page_begin(cleave_markup *page, const char *title, const char *about) {
    cleave_markup_put(page,
                      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'\">\n"
                      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                      "<meta name=\"color-scheme\" content=\"light dark\">\n"
                      "<meta name=\"referrer\" content=\"no-referrer\">\n"
                      "<title>%s</title>\n<style>",
                      cleave_asset_style.digest, cleave_asset_script.digest, title);
    cleave_markup_put_asset(page, cleave_asset_style.text);
    cleave_markup_put(
        page,
        "</style>\n</head>\n<body>\n<header>\n<h1>%s</h1>\n<p class=\"about\">%s</p>\n"
        "<nav aria-label=\"Sections\"></nav>\n</header>\n<main>\n",
        title, about);
}

void cleave_page_begin_section(cleave_markup *page, const char *id, const char *title) {
    cleave_markup_put(page,
                      "<section id=\"%s\" aria-labelledby=\"%s-title\">\n"
                      "<h2 id=\"%s-title\">%s</h2>\n",
                      id, id, id, title);
}

void cleave_page_end_section(cleave_markup *page) { cleave_markup_put(page, "</section>\n"); }

void cleave_page_put_note(cleave_markup *page, const char *note) {
    cleave_markup_put(page, "<p class=\"note\">%s</p>\n", note);
}

void cleave_page_end(cleave_markup *page) {
    cleave_markup_put(page, "</main>\n<script>");
    cleave_markup_put_asset(page, cleave_asset_script.text);
    cleave_markup_put(page, "</script>\n</body>\n</html>\n");
}
