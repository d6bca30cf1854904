/* Figures of a machine file by their names. */
#include "costmodel/machine_figures.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PLACES = 256, MOST_DEPTH = 8 };

/* Where a figure stands. */
typedef struct place {
    cleave_json_cursor object;
    const char *key;
    bool is_quantity;
} place;

typedef struct walk {
    int32_t n;
    place places[MOST_PLACES];
    char names[320];    /* of those that there are, with commas between */
    bool in_calibrated; /* the walk is in a kind that was ... */
    bool calibrated;    /* ... and what is wanted is a rate of such a kind */
} walk;

/* What nobody would vary: measured times, and what is no figure of the machine. */
static bool is_left_out(const char *key) {
    static const char *const keys[] = {"cleave_machine", "kernels", "fits", NULL};
    for (int i = 0; keys[i] != NULL; i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

static bool is_figure(const cleave_json_cursor *at, bool *is_quantity) {
    const char *text;
    cleave_json_type type = cleave_json_type_of(at);
    *is_quantity = type == CLEAVE_JSON_STRING;
    if (*is_quantity)
        return cleave_json_string(at, &text, NULL) == CLEAVE_OK && isdigit((unsigned char)text[0]);
    return type == CLEAVE_JSON_INTEGER || type == CLEAVE_JSON_REAL;
}

/* What of a name is behind its first part, where that is this one; else null. */
static const char *behind(const char *name, const char *part) {
    size_t length = strlen(part);
    if (strncmp(name, part, length) != 0)
        return NULL;
    if (name[length] == '.' && name[length + 1] != '\0')
        return name + length + 1;
    return name[length] == '\0' ? name + length : NULL;
}

/* Names that lead to several places are said once: a list's elements are most often alike. */
static void list_name(walk *w, const char *name) {
    size_t used = strlen(w->names), length = strlen(name);
    for (const char *at = w->names; (at = strstr(at, name)) != NULL; at += length)
        if ((at == w->names || at[-1] == ' ') && (at[length] == ',' || at[length] == '\0'))
            return;
    snprintf(w->names + used, sizeof w->names - used, "%s%s", used > 0 ? ", " : "", name);
}

static void walk_value(walk *w, const cleave_json_cursor *at, const char *rest, const char *name,
                       int depth);

static void add_place(walk *w, const cleave_json_cursor *object, const char *key,
                      bool is_quantity) {
    bool is_size = strcmp(key, "memory") == 0 && is_quantity;
    w->calibrated = w->calibrated || (w->in_calibrated && !is_size);
    if (w->n < MOST_PLACES)
        w->places[w->n++] = (place){*object, key, is_quantity};
}

/* `name` is what has been gone, `rest` what of the wanted one is left; null: all are listed. */
static void walk_object(walk *w, const cleave_json_cursor *object, const char *rest,
                        const char *name, int depth) {
    cleave_json_cursor kernels;
    bool was_in = w->in_calibrated;
    w->in_calibrated = was_in || (cleave_json_find(object, "kernels", &kernels) &&
                                  cleave_json_count(&kernels) > 0);
    for (int32_t i = 0; i < cleave_json_count(object); i++) {
        const char *key;
        bool is_quantity;
        cleave_json_cursor member = cleave_json_member(object, i, &key);
        const char *left = rest != NULL ? behind(rest, key) : NULL;
        char longer[192];
        if (is_left_out(key) || (rest != NULL && left == NULL))
            continue;
        snprintf(longer, sizeof longer, "%s%s%s", name, name[0] != '\0' ? "." : "", key);
        if (!is_figure(&member, &is_quantity))
            walk_value(w, &member, left, longer, depth + 1);
        else if (rest == NULL)
            list_name(w, longer);
        else if (left[0] == '\0')
            add_place(w, object, key, is_quantity);
    }
    w->in_calibrated = was_in;
}

/* By what it leads through, or by its number. */
static const char *behind_element(const cleave_json_cursor *element, int32_t number,
                                  const char *rest) {
    cleave_json_cursor through;
    const char *text, *left = NULL;
    char digits[16];
    snprintf(digits, sizeof digits, "%d", number);
    if (cleave_json_type_of(element) == CLEAVE_JSON_OBJECT &&
        cleave_json_find(element, "through", &through) &&
        cleave_json_string(&through, &text, NULL) == CLEAVE_OK)
        left = behind(rest, text);
    return left != NULL ? left : behind(rest, digits);
}

static void walk_value(walk *w, const cleave_json_cursor *at, const char *rest, const char *name,
                       int depth) {
    bool named = false;
    if (depth > MOST_DEPTH)
        return;
    if (cleave_json_type_of(at) == CLEAVE_JSON_OBJECT)
        walk_object(w, at, rest, name, depth);
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return;
    for (int pass = 0; pass < 2 && !named; pass++) /* those that are named, or else all */
        for (int32_t i = 0; i < cleave_json_count(at); i++) {
            cleave_json_cursor element = cleave_json_element(at, i);
            const char *left = rest != NULL ? behind_element(&element, i, rest) : NULL;
            named = named || left != NULL;
            if (pass == 1 || left != NULL)
                walk_value(w, &element, pass == 1 ? rest : left, name, depth + 1);
        }
}

static walk find(const cleave_json *machine, const char *name) {
    walk w = {0};
    const cleave_json_cursor root = cleave_json_root(machine);
    walk_value(&w, &root, name, "", 0);
    return w;
}

cleave_status cleave_machine_figure_find(const cleave_json *machine, const char *name,
                                         bool *is_quantity, cleave_error *error) {
    const walk found = find(machine, name);
    if (found.n == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%.100s is no figure of the machine; it has %s",
                           name, find(machine, NULL).names);
    if (found.calibrated)
        return cleave_fail(
            error, CLEAVE_BAD_INPUT,
            "%.100s: the kind of device was calibrated, and its measured times would "
            "not follow that figure",
            name);
    for (int32_t i = 1; i < found.n; i++)
        if (found.places[i].is_quantity != found.places[0].is_quantity)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%.100s is a number here and a quantity there", name);
    *is_quantity = found.places[0].is_quantity;
    return CLEAVE_OK;
}

cleave_status cleave_machine_figure_set(cleave_json *machine, const char *name, const char *text,
                                        cleave_error *error) {
    const walk found = find(machine, name);
    for (int32_t i = 0; i < found.n; i++) {
        const place *at = &found.places[i];
        CLEAVE_TRY(at->is_quantity ? cleave_json_replace_string(&at->object, at->key, text, error)
                                   : cleave_json_replace_number(&at->object, at->key,
                                                                strtod(text, NULL), error));
    }
    return CLEAVE_OK;
}
