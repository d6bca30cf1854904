/* A table for people. */
#include "cli/table.h"

#include <stdarg.h>
#include <string.h>

void table_text(table *t, const char *text) {
    const char *copy = cleave_arena_string(t->arena, text);
    (void)CLEAVE_LIST_PUSH(&t->cells, copy != NULL ? copy : "");
}

void table_format(table *t, const char *format, ...) {
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    table_text(t, text);
}

void table_quantity(table *t, double value, cleave_unit unit) {
    char text[64];
    cleave_unit_format(value, unit, text, sizeof text);
    table_text(t, text);
}

void table_print(table *t, FILE *stream) {
    size_t width[TABLE_MAX_COLUMNS] = {0};
    for (int32_t i = 0; i < t->cells.n; i++) {
        size_t length = strlen(t->cells.items[i]);
        if (length > width[i % t->n_columns])
            width[i % t->n_columns] = length;
    }
    for (int32_t i = 0; i < t->cells.n; i++) {
        int column = i % t->n_columns;
        bool last = column + 1 == t->n_columns;
        const char *gap = column == 0 ? "" : "  ", *end = last ? "\n" : "";
        int pad = (int)width[column];
        if (t->align[column] == 'r')
            fprintf(stream, "%s%*s%s", gap, pad, t->cells.items[i], end);
        else
            fprintf(stream, "%s%-*s%s", gap, last ? 0 : pad, t->cells.items[i], end);
    }
    CLEAVE_LIST_FREE(&t->cells);
}
