/* One growing text, and the two ways in which foreign text gets into it. */
#include "page/markup.h"

#include "base/file.h"
#include "base/list.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void append(cleave_markup *to, const char *text, size_t n) {
    to->failed = to->failed || !cleave_bytes_reserve(&to->text, &to->capacity, to->n + n + 1);
    if (to->failed)
        return;
    memcpy(to->text + to->n, text, n);
    to->n += n;
    to->text[to->n] = '\0';
}

static void append_string(cleave_markup *to, const char *text) { append(to, text, strlen(text)); }

/* Bytes of the character of UTF-8 that a text begins with; 0 where it is none: cut short, longer
   than it need be, a half of a pair, or beyond U+10FFFF. */
static size_t character_bytes(const unsigned char *at) {
    size_t n = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (n == 0 || at[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool is_too_long = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool is_too_large = (at[0] == 0xed && at[1] > 0x9f) || (at[0] == 0xf4 && at[1] > 0x8f);
    return is_too_long || is_too_large ? 0 : n;
}

static const char *name_of(unsigned char c) {
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ? "\xef\xbf\xbd" : NULL;
    }
}

static void append_escaped(cleave_markup *to, const char *text) {
    const unsigned char *at = (const unsigned char *)text;
    while (*at != '\0') {
        size_t n = character_bytes(at);
        const char *name = n == 0 ? "\xef\xbf\xbd" : n == 1 ? name_of(*at) : NULL;
        if (name != NULL)
            append_string(to, name);
        else
            append(to, (const char *)at, n);
        at += n > 0 ? n : 1;
    }
}

/* Puts what a conversion asks for; returns what follows it. */
static const char *put_conversion(cleave_markup *to, const char *at, va_list *arguments) {
    char one[32], text[400];
    size_t n = 1 + strspn(at + 1, "+-0123456789.l");
    assert(n + 2 < sizeof one);
    snprintf(one, sizeof one, "%.*s", (int)n + 1, at);
    text[0] = '\0';
    switch (at[n]) {
    case '%':
        append(to, "%", 1);
        break;
    case 's':
        append_escaped(to, va_arg(*arguments, const char *));
        break;
    case 'd':
        if (strstr(one, "ll") != NULL)
            snprintf(text, sizeof text, one, va_arg(*arguments, long long));
        else
            snprintf(text, sizeof text, one, va_arg(*arguments, int));
        break;
    case 'f':
    case 'g':
        snprintf(text, sizeof text, one, va_arg(*arguments, double));
        break;
    default:
        assert(false && "no such conversion");
    }
    append_string(to, text);
    return at + n + 1;
}

void cleave_markup_put(cleave_markup *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    for (const char *at = format; *at != '\0';) {
        size_t n = strcspn(at, "%");
        append(to, at, n);
        at += n;
        if (*at == '%')
            at = put_conversion(to, at, &arguments);
    }
    va_end(arguments);
}

/* In JSON these stand within strings alone, so they may be escaped wherever they are. */
static void append_json(cleave_markup *to, const char *json) {
    for (const char *at = json; *at != '\0';) {
        size_t n = strcspn(at, "<>&\xe2");
        append(to, at, n);
        at += n;
        if (*at == '\0')
            return;
        bool is_separator =
            strncmp(at, "\xe2\x80\xa8", 3) == 0 || strncmp(at, "\xe2\x80\xa9", 3) == 0;
        char escaped[8];
        if (is_separator)
            snprintf(escaped, sizeof escaped, "\\u202%c", at[2] == '\xa8' ? '8' : '9');
        else if (*at == '\xe2')
            snprintf(escaped, sizeof escaped, "%c", *at);
        else
            snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)*at);
        append_string(to, escaped);
        at += is_separator ? 3 : 1;
    }
}

void cleave_markup_put_data(cleave_markup *to, const char *id, cleave_json_writer *json) {
    if (json->failed || json->text == NULL)
        to->failed = true;
    cleave_markup_put(to, "<script type=\"application/json\" id=\"%s\">", id);
    if (!to->failed)
        append_json(to, json->text);
    cleave_markup_put(to, "</script>\n");
    cleave_json_writer_free(json);
}

void cleave_markup_put_asset(cleave_markup *to, const char *text) { append_string(to, text); }

void cleave_markup_free(cleave_markup *markup) {
    free(markup->text);
    *markup = (cleave_markup){0};
}

cleave_status cleave_markup_write(cleave_markup *from, const char *path, cleave_error *error) {
    cleave_status status = from->failed ? cleave_fail_memory(error, "writing a page")
                                        : cleave_file_write(path, from->text, from->n, error);
    cleave_markup_free(from);
    return status;
}
