/* A table for people. */
#include "cli/table.h"

#include "cli/repeats.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

void table_text(table *t, const char *text) {
    const char *copy = cleave_arena_string(t->arena, text);
    (void)CLEAVE_LIST_PUSH(&t->cells, copy != NULL ? copy : "");
}

void table_heads(table *t, const char *const *heads) {
    for (int i = 0; i < t->n_columns; i++)
        table_text(t, heads[i]);
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
    assert(t->n_columns <= TABLE_MAX_COLUMNS);
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

/* All cells of a row but the first. */
static const char *join_rest(const table *t, int32_t row) {
    const char *joined = "";
    for (int c = 1; c < t->n_columns && joined != NULL; c++)
        joined =
            cleave_arena_printf(t->arena, "%s\t%s", joined, t->cells.items[row * t->n_columns + c]);
    return joined;
}

void table_print_repeats(table *t, FILE *stream) {
    int32_t n = t->cells.n / t->n_columns;
    const char **names = CLEAVE_ARENA_ARRAY(t->arena, const char *, n);
    const char **rest = CLEAVE_ARENA_ARRAY(t->arena, const char *, n);
    bool made = names != NULL && rest != NULL;
    for (int32_t row = 0; row < n && made; row++) {
        names[row] = t->cells.items[row * t->n_columns];
        rest[row] = join_rest(t, row);
        made = rest[row] != NULL;
    }
    repeats found;
    if (made && repeats_find(names, rest, n, t->arena, &found, NULL) == CLEAVE_OK) {
        t->cells.n = 0;
        for (int32_t i = 0; i < found.n; i++) {
            t->cells.items[t->cells.n++] = found.items[i].name;
            for (int c = 1; c < t->n_columns; c++)
                t->cells.items[t->cells.n++] =
                    t->cells.items[found.items[i].first * t->n_columns + c];
        }
    }
    table_print(t, stream);
}
