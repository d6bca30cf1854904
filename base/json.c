/* JSON reading, over jansson: the only file that includes it.  jansson checks the syntax, keeps
   the members of an object in file order and rejects duplicate keys, numbers out of range and
   bytes that are not UTF-8; this file adds places, types, ranges and units to its errors. */
#include "base/json.h"

#include "base/file.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the last call of cleave_json_member stood, so that going through the members in order
   takes constant time each.  Hence a document is not for two threads at once. */
typedef struct member_place {
    const void *object;
    int32_t index;
    void *iterator;
} member_place;

struct cleave_json {
    json_t *root;
    member_place *place;
    char name[];
};

/* jansson has no const; only what replaces a member changes a value. */
static json_t *value_of(const cleave_json_cursor *at) { return (json_t *)at->value; }

/* The word that begins where jansson stopped, or was read before it stopped, if it is a number that
   Python writes and JSON lacks; null: another one. */
static const char *find_python_number(const char *text, size_t bytes, size_t stopped,
                                      size_t *begin) {
    static const char *const words[] = {"Infinity", "-Infinity", "NaN"};
    for (*begin = stopped < bytes ? stopped : bytes;
         *begin > 0 && memchr("-InfityNa", text[*begin - 1], 9) != NULL; --*begin)
        continue;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) <= bytes - *begin &&
            memcmp(text + *begin, words[i], strlen(words[i])) == 0)
            return words[i];
    return NULL;
}

/* As json_loadb, but that what Python writes of numbers that are not finite becomes a string, for
   whoever wants a number there to name it.  Where such a word stands is for jansson to say, which
   begins anew for each: hence not too many. */
static json_t *load(const char *text, size_t bytes, json_error_t *problem) {
    enum { MOST_WORDS = 64 };
    json_t *root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, problem);
    char *quoted = NULL;
    for (int i = 0; i < MOST_WORDS && root == NULL; i++) {
        size_t begin;
        const char *word = json_error_code(problem) != json_error_invalid_syntax
                               ? NULL
                               : find_python_number(text, bytes, (size_t)problem->position, &begin);
        char *longer = word != NULL ? malloc(bytes + sizeof "\"\"") : NULL;
        if (longer == NULL)
            break;
        const size_t end = begin + strlen(word);
        memcpy(longer, text, begin);
        snprintf(longer + begin, end - begin + 3, "\"%s\"", word);
        memcpy(longer + end + 2, text + end, bytes - end);
        free(quoted);
        text = quoted = longer;
        bytes += 2;
        root = json_loadb(text, bytes, JSON_REJECT_DUPLICATES, problem);
    }
    free(quoted);
    return root;
}

/* What some editors begin a text with, by its encoding. */
static bool has_mark(const char *text, size_t bytes, const char *mark) {
    return bytes >= strlen(mark) && memcmp(text, mark, strlen(mark)) == 0;
}
static size_t mark_of_utf8(const char *text, size_t bytes) {
    return has_mark(text, bytes, "\xef\xbb\xbf") ? 3 : 0;
}
static bool is_utf16(const char *text, size_t bytes) {
    return has_mark(text, bytes, "\xff\xfe") || has_mark(text, bytes, "\xfe\xff");
}

bool cleave_json_begins(const void *data, size_t bytes) {
    const char *text = data;
    size_t i = mark_of_utf8(text, bytes);
    while (i < bytes && memchr(" \t\r\n", text[i], 4) != NULL)
        i++;
    return is_utf16(text, bytes) || (i < bytes && (text[i] == '{' || text[i] == '['));
}

cleave_status cleave_json_parse(const char *text, size_t bytes, const char *name,
                                cleave_json **document, cleave_error *error) {
    cleave_json *result = calloc(1, sizeof *result + strlen(name) + 1);
    member_place *place = calloc(1, sizeof *place);
    if (result == NULL || place == NULL) {
        free(result);
        free(place);
        return cleave_fail_memory(error, "reading JSON");
    }
    strcpy(result->name, name);
    result->place = place;
    json_error_t problem;
    const size_t mark = mark_of_utf8(text, bytes);
    result->root = load(text + mark, bytes - mark, &problem);
    if (result->root == NULL) {
        cleave_json_free(result);
        if (bytes == 0)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the file is empty", name);
        if (is_utf16(text, bytes))
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "%s: the text is UTF-16: save it as UTF-8, as JSON is", name);
        bool foreign = json_error_code(&problem) == json_error_invalid_syntax;
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: line %d, column %d: %s%s", name,
                           problem.line, problem.column, foreign ? "not JSON: " : "", problem.text);
    }
    *document = result;
    return CLEAVE_OK;
}

cleave_status cleave_json_read(const char *path, cleave_json **document, cleave_error *error) {
    cleave_arena arena = {0};
    char *text;
    size_t bytes;
    cleave_status status = cleave_file_read(path, &arena, &text, &bytes, error);
    if (status == CLEAVE_OK)
        status = cleave_json_parse(text, bytes, path, document, error);
    cleave_arena_free(&arena);
    return status;
}

void cleave_json_free(cleave_json *document) {
    if (document == NULL)
        return;
    json_decref(document->root);
    free(document->place);
    free(document);
}

cleave_json_cursor cleave_json_root(const cleave_json *document) {
    return (cleave_json_cursor){.document = document, .value = document->root, .path = "$"};
}

cleave_json_type cleave_json_type_of(const cleave_json_cursor *at) {
    switch (json_typeof(value_of(at))) {
    case JSON_OBJECT:
        return CLEAVE_JSON_OBJECT;
    case JSON_ARRAY:
        return CLEAVE_JSON_ARRAY;
    case JSON_STRING:
        return CLEAVE_JSON_STRING;
    case JSON_INTEGER:
        return CLEAVE_JSON_INTEGER;
    case JSON_REAL:
        return CLEAVE_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return CLEAVE_JSON_BOOLEAN;
    case JSON_NULL:
        break;
    }
    return CLEAVE_JSON_NULL;
}

/* The place of a member: ".key" for a plain word, "["any text"]" otherwise, as names of operators
   have dots and slashes.  A path that grows too long is cut. */
static cleave_json_cursor member_cursor(const cleave_json_cursor *at, const char *key,
                                        const void *value) {
    static const char *const word =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    cleave_json_cursor member = {.document = at->document, .value = value};
    bool plain = key[0] != '\0' && key[strspn(key, word)] == '\0';
    snprintf(member.path, sizeof member.path, plain ? "%s.%s" : "%s[\"%s\"]", at->path, key);
    return member;
}

bool cleave_json_find(const cleave_json_cursor *at, const char *key, cleave_json_cursor *member) {
    const json_t *value = json_object_get(value_of(at), key);
    if (value == NULL)
        return false;
    *member = member_cursor(at, key, value);
    return true;
}

const char *cleave_json_own_key(const cleave_json_cursor *at) {
    const char *key;
    json_t *value;
    json_object_foreach(value_of(at), key, value) {
        if (strncmp(key, "cleave_", strlen("cleave_")) == 0)
            return key;
    }
    return NULL;
}

cleave_status cleave_json_get(const cleave_json_cursor *at, const char *key,
                              cleave_json_cursor *member, cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    if (cleave_json_find(at, key, member))
        return CLEAVE_OK;
    const char *own = cleave_json_own_key(at);
    return own == NULL || strncmp(key, "cleave_", strlen("cleave_")) != 0
               ? cleave_json_fail(at, error, "the key \"%s\" is missing", key)
               : cleave_json_fail(at, error,
                                  "the key \"%s\" is missing, and there is \"%.64s\": is it "
                                  "another file?",
                                  key, own);
}

int32_t cleave_json_count(const cleave_json_cursor *at) {
    size_t count = json_is_object(value_of(at))  ? json_object_size(value_of(at))
                   : json_is_array(value_of(at)) ? json_array_size(value_of(at))
                                                 : 0;
    return count < INT32_MAX ? (int32_t)count : INT32_MAX;
}

cleave_json_cursor cleave_json_element(const cleave_json_cursor *at, int32_t index) {
    cleave_json_cursor element = {.document = at->document,
                                  .value = json_array_get(value_of(at), (size_t)index)};
    snprintf(element.path, sizeof element.path, "%s[%d]", at->path, index);
    return element;
}

cleave_json_cursor cleave_json_member(const cleave_json_cursor *at, int32_t index,
                                      const char **key) {
    member_place *place = at->document->place;
    if (place->object != at->value || place->index > index)
        *place = (member_place){.object = at->value, .iterator = json_object_iter(value_of(at))};
    for (; place->index < index; place->index++)
        place->iterator = json_object_iter_next(value_of(at), place->iterator);
    *key = json_object_iter_key(place->iterator);
    return member_cursor(at, *key, json_object_iter_value(place->iterator));
}

cleave_status cleave_json_fail(const cleave_json_cursor *at, cleave_error *error,
                               const char *format, ...) {
    char message[sizeof error->message / 2];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s: %s", at->document->name, at->path,
                       message);
}

/* What a value is, for "... expected, but this is ...". */
static void describe(const cleave_json_cursor *at, char *text, size_t bytes) {
    json_t *value = value_of(at);
    if (json_is_string(value))
        snprintf(text, bytes, "\"%.64s\"", json_string_value(value));
    else if (json_is_integer(value))
        snprintf(text, bytes, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, bytes, "%.17g", json_real_value(value));
    else if (json_is_object(value) || json_is_array(value))
        snprintf(text, bytes, json_is_object(value) ? "an object" : "a list");
    else
        snprintf(text, bytes, "%s",
                 json_is_null(value)   ? "null"
                 : json_is_true(value) ? "true"
                                       : "false");
}

static cleave_status fail_type(const cleave_json_cursor *at, const char *expected,
                               cleave_error *error) {
    char found[128];
    describe(at, found, sizeof found);
    return cleave_json_fail(at, error, "%s is expected here, not %s", expected, found);
}

cleave_status cleave_json_string(const cleave_json_cursor *at, const char **value,
                                 cleave_error *error) {
    if (!json_is_string(value_of(at)))
        return fail_type(at, "a string", error);
    *value = json_string_value(value_of(at));
    return CLEAVE_OK;
}

cleave_status cleave_json_word(const cleave_json_cursor *at, const char *const *words, int n_words,
                               int *which, cleave_error *error) {
    const char *text = NULL;
    char known[256] = "";
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    for (int i = 0; i < n_words; i++) {
        if (strcmp(text, words[i]) == 0) {
            *which = i;
            return CLEAVE_OK;
        }
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i == 0 ? "" : ", ", words[i]);
    }
    return cleave_json_fail(at, error, "\"%.64s\" is none of: %s", text, known);
}

cleave_status cleave_json_truth(const cleave_json_cursor *at, bool *value, cleave_error *error) {
    if (!json_is_boolean(value_of(at)))
        return fail_type(at, "true or false", error);
    *value = json_is_true(value_of(at));
    return CLEAVE_OK;
}

cleave_status cleave_json_integer(const cleave_json_cursor *at, int64_t least, int64_t most,
                                  int64_t *value, cleave_error *error) {
    if (!json_is_integer(value_of(at)))
        return fail_type(at, "an integer", error);
    int64_t number = json_integer_value(value_of(at));
    if (number < least || number > most)
        return cleave_json_fail(at, error, "%lld is not in the range %lld to %lld",
                                (long long)number, (long long)least, (long long)most);
    *value = number;
    return CLEAVE_OK;
}

cleave_status cleave_json_number(const cleave_json_cursor *at, double *value, cleave_error *error) {
    if (!json_is_number(value_of(at)))
        return fail_type(at, "a number", error);
    *value = json_number_value(value_of(at));
    return CLEAVE_OK;
}

cleave_status cleave_json_quantity(const cleave_json_cursor *at, cleave_unit unit, double *value,
                                   cleave_error *error) {
    const char *text;
    if (!json_is_string(value_of(at)))
        return fail_type(at, "a string with a number and a unit", error);
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    cleave_error reason;
    if (cleave_unit_parse(text, unit, value, &reason) != CLEAVE_OK)
        return cleave_json_fail(at, error, "%s", reason.message);
    return CLEAVE_OK;
}

cleave_status cleave_json_expect_object(const cleave_json_cursor *at, cleave_error *error) {
    return json_is_object(value_of(at)) ? CLEAVE_OK : fail_type(at, "an object", error);
}

cleave_status cleave_json_expect_array(const cleave_json_cursor *at, cleave_error *error) {
    return json_is_array(value_of(at)) ? CLEAVE_OK : fail_type(at, "a list", error);
}

cleave_status cleave_json_get_string(const cleave_json_cursor *at, const char *key,
                                     const char **value, cleave_error *error) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    return cleave_json_string(&member, value, error);
}

cleave_status cleave_json_get_truth(const cleave_json_cursor *at, const char *key, bool *value,
                                    cleave_error *error) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    return cleave_json_truth(&member, value, error);
}

cleave_status cleave_json_get_integer(const cleave_json_cursor *at, const char *key, int64_t least,
                                      int64_t most, int64_t *value, cleave_error *error) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    return cleave_json_integer(&member, least, most, value, error);
}

cleave_status cleave_json_get_number(const cleave_json_cursor *at, const char *key, double *value,
                                     cleave_error *error) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    return cleave_json_number(&member, value, error);
}

cleave_status cleave_json_get_amount(const cleave_json_cursor *at, const char *key, bool positive,
                                     double *value, cleave_error *error) {
    cleave_json_cursor member;
    CLEAVE_TRY(cleave_json_get(at, key, &member, error));
    CLEAVE_TRY(cleave_json_number(&member, value, error));
    if (!(*value >= 0) || (positive && *value <= 0) || !isfinite(*value))
        return cleave_json_fail(&member, error, "%g is not %s", *value,
                                positive ? "more than 0" : "0 or more");
    return CLEAVE_OK;
}

cleave_status cleave_json_get_array(const cleave_json_cursor *at, const char *key,
                                    cleave_json_cursor *array, cleave_error *error) {
    CLEAVE_TRY(cleave_json_get(at, key, array, error));
    return cleave_json_expect_array(array, error);
}

cleave_status cleave_json_expect_keys(const cleave_json_cursor *at, const char *const *keys,
                                      cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        const char *key;
        cleave_json_cursor member = cleave_json_member(at, i, &key);
        const char *const *known = keys;
        while (*known != NULL && strcmp(*known, key) != 0)
            known++;
        if (*known == NULL)
            return cleave_json_fail(&member, error, "the key \"%.64s\" is not known here", key);
    }
    return CLEAVE_OK;
}

/* Takes the value over. */
static cleave_status replace(const cleave_json_cursor *object, const char *key, json_t *value,
                             cleave_error *error) {
    if (value == NULL || json_object_set_new(value_of(object), key, value) != 0)
        return cleave_fail_memory(error, "changing JSON");
    return CLEAVE_OK;
}

cleave_status cleave_json_replace_string(const cleave_json_cursor *object, const char *key,
                                         const char *text, cleave_error *error) {
    return replace(object, key, json_string(text), error);
}

cleave_status cleave_json_replace_number(const cleave_json_cursor *object, const char *key,
                                         double value, cleave_error *error) {
    bool is_whole = value > -0x1p53 && value < 0x1p53 && value == (double)(json_int_t)value;
    return replace(object, key, is_whole ? json_integer((json_int_t)value) : json_real(value),
                   error);
}
