/* One value of a configuration, by the kind of its field. */
#include "graph/import/config/field_values.h"

#include <stdio.h>
#include <string.h>

static cleave_status read_square(const cleave_json_cursor *at, int64_t *value,
                                 cleave_error *error) {
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, value, error);
    int64_t sides[2];
    if (cleave_json_count(at) != 2)
        return cleave_json_fail(at, error, "has %d numbers, it has to have two",
                                (int)cleave_json_count(at));
    for (int i = 0; i < 2; i++) {
        cleave_json_cursor side = cleave_json_element(at, i);
        CLEAVE_TRY(cleave_json_integer(&side, 1, CLEAVE_MOST_EXTENT, &sides[i], error));
    }
    if (sides[0] != sides[1])
        return cleave_json_fail(at, error, "%lld x %lld is no square, others are not supported",
                                (long long)sides[0], (long long)sides[1]);
    *value = sides[0];
    return CLEAVE_OK;
}

static cleave_status read_period(const cleave_json_cursor *at, int64_t *value,
                                 cleave_error *error) {
    const char *text;
    if (cleave_json_type_of(at) != CLEAVE_JSON_STRING)
        return cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, value, error);
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    size_t alike = strspn(text, "L");
    if (alike == 0 || strcmp(text + alike, "G") != 0)
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but such as LLLG", text);
    *value = (int64_t)alike + 1;
    return CLEAVE_OK;
}

static cleave_status read_function(const cleave_json_cursor *at, bool may_be_gated,
                                   const char **value, cleave_arena *arena, cleave_error *error) {
    static const char gated[] = "gated-";
    const char *name;
    CLEAVE_TRY(cleave_json_string(at, &name, error));
    bool has_gate = may_be_gated && strncmp(name, gated, sizeof gated - 1) == 0;
    if (cleave_activation_find(name + (has_gate ? sizeof gated - 1 : 0)) == NULL)
        return cleave_json_fail(at, error, "\"%.64s\" is no function that is supported", name);
    *value = cleave_arena_string(arena, name);
    return *value != NULL ? CLEAVE_OK : cleave_fail_memory(error, "reading a configuration");
}

/* Which of two texts it is. */
static cleave_status read_either(const cleave_json_cursor *at, const char *texts, bool *is_second,
                                 cleave_error *error) {
    const char *second = strchr(texts, ' ') + 1, *text;
    size_t n = (size_t)(second - texts) - 1;
    CLEAVE_TRY(cleave_json_string(at, &text, error));
    *is_second = strcmp(text, second) == 0;
    if (!*is_second && (strlen(text) != n || strncmp(text, texts, n) != 0))
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but %.*s and %s", text,
                                (int)n, texts, second);
    return CLEAVE_OK;
}

static cleave_status read_switch(const cleave_json_cursor *at, const char *texts, bool *has,
                                 cleave_error *error) {
    int64_t value;
    (void)texts;
    CLEAVE_TRY(cleave_json_integer(at, 0, 1, &value, error));
    *has = value != 0;
    return CLEAVE_OK;
}

/* What is said of one layer, by the texts of the field. */
typedef cleave_status (*layer_reader)(const cleave_json_cursor *at, const char *texts, bool *has,
                                      cleave_error *error);

static cleave_status read_layers(const cleave_json_cursor *at, layer_reader read,
                                 const cleave_field *field, cleave_of_layers *of_layers,
                                 cleave_arena *arena, cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    int32_t n = cleave_json_count(at);
    if (n > CLEAVE_MOST_LAYERS)
        return cleave_json_fail(at, error, "%d layers are more than %d", (int)n,
                                CLEAVE_MOST_LAYERS);
    bool *has = CLEAVE_ARENA_ARRAY(arena, bool, n);
    if (has == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    for (int32_t i = 0; i < n; i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        CLEAVE_TRY(read(&element, field->text, &has[i], error));
    }
    *of_layers = (cleave_of_layers){n, has, field->name};
    return CLEAVE_OK;
}

/* The layers that have it, by their numbers. */
static cleave_status read_places(const cleave_json_cursor *at, const cleave_field *field,
                                 cleave_of_layers *of_layers, cleave_arena *arena,
                                 cleave_error *error) {
    bool *has = CLEAVE_ARENA_ARRAY(arena, bool, CLEAVE_MOST_LAYERS);
    if (has == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        const cleave_json_cursor element = cleave_json_element(at, i);
        int64_t layer;
        CLEAVE_TRY(cleave_json_integer(&element, 0, CLEAVE_MOST_LAYERS - 1, &layer, error));
        has[layer] = true;
    }
    *of_layers = (cleave_of_layers){CLEAVE_MOST_LAYERS, has, field->name};
    return CLEAVE_OK;
}

/* Runs of layers: a list of [[TEXT, ...], N], each of N times the layers that its texts say. */
static cleave_status read_runs(const cleave_json_cursor *at, const cleave_field *field,
                               cleave_of_layers *of_layers, cleave_arena *arena,
                               cleave_error *error) {
    bool *has = CLEAVE_ARENA_ARRAY(arena, bool, CLEAVE_MOST_LAYERS);
    if (has == NULL)
        return cleave_fail_memory(error, "reading a configuration");
    int32_t n = 0;
    CLEAVE_TRY(cleave_json_expect_array(at, error));
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        cleave_json_cursor run = cleave_json_element(at, i);
        int64_t times;
        CLEAVE_TRY(cleave_json_expect_array(&run, error));
        if (cleave_json_count(&run) != 2)
            return cleave_json_fail(&run, error, "is no list of layers and how often they come");
        cleave_json_cursor layers = cleave_json_element(&run, 0);
        cleave_json_cursor count = cleave_json_element(&run, 1);
        CLEAVE_TRY(cleave_json_expect_array(&layers, error));
        CLEAVE_TRY(cleave_json_integer(&count, 1, CLEAVE_MOST_LAYERS, &times, error));
        int32_t each = cleave_json_count(&layers);
        if (each * times > CLEAVE_MOST_LAYERS - n)
            return cleave_json_fail(&run, error, "layers are more than %d", CLEAVE_MOST_LAYERS);
        for (int32_t k = 0; k < each * (int32_t)times; k++) {
            cleave_json_cursor layer = cleave_json_element(&layers, k % each);
            CLEAVE_TRY(read_either(&layer, field->text, &has[n++], error));
        }
    }
    if (n == 0)
        return cleave_json_fail(at, error, "has no layers");
    *of_layers = (cleave_of_layers){n, has, field->name};
    return CLEAVE_OK;
}

/* A number, or a list of such for the layers, which have to be the same. */
static cleave_status read_alike(const cleave_json_cursor *at, int64_t *value, cleave_error *error) {
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, value, error);
    if (cleave_json_count(at) == 0)
        return cleave_json_fail(at, error, "is empty");
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        cleave_json_cursor element = cleave_json_element(at, i);
        int64_t of_layer = 0;
        CLEAVE_TRY(cleave_json_integer(&element, 1, CLEAVE_MOST_EXTENT, &of_layer, error));
        if (i > 0 && of_layer != *value)
            return cleave_json_fail(&element, error,
                                    "%lld is another than %lld: layers that differ in it are not "
                                    "supported",
                                    (long long)of_layer, (long long)*value);
        *value = of_layer;
    }
    return CLEAVE_OK;
}

static cleave_status read_number(const cleave_json_cursor *at, bool is_rate, double *value,
                                 cleave_error *error) {
    CLEAVE_TRY(cleave_json_number(at, value, error));
    if (is_rate ? !(*value >= 0 && *value < 1) : !(*value > 0 && *value < 1e30))
        return cleave_json_fail(at, error, is_rate ? "%g is not in [0, 1)" : "%g is not above 0",
                                *value);
    return CLEAVE_OK;
}

static cleave_status read_rotaries(const cleave_json_cursor *at, cleave_arena *arena,
                                   cleave_rotary rotary[2], cleave_error *error) {
    static const char *const keys[] = {"full_attention", "sliding_attention", NULL};
    CLEAVE_TRY(cleave_json_expect_object(at, error));
    CLEAVE_TRY(cleave_json_expect_keys(at, keys, error));
    for (int i = 0; keys[i] != NULL; i++) {
        cleave_json_cursor of;
        if (cleave_json_find(at, keys[i], &of))
            CLEAVE_TRY(cleave_rotary_read(&of, NULL, arena, &rotary[i], error));
    }
    return CLEAVE_OK;
}

/* A list of what a text has between bars. */
static cleave_status check_parts(const cleave_json_cursor *at, const char *text,
                                 cleave_error *error) {
    char joined[64] = "";
    const char *part;
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        const cleave_json_cursor element = cleave_json_element(at, i);
        const size_t used = strlen(joined);
        CLEAVE_TRY(cleave_json_string(&element, &part, error));
        snprintf(joined + used, sizeof joined - used, "%s%s", i > 0 ? "|" : "", part);
    }
    return strcmp(joined, text) == 0
               ? CLEAVE_OK
               : cleave_json_fail(at, error, "\"%s\" is not supported, but \"%s\"", joined, text);
}

/* What is not supported has to be off.  The name of a function may stand in an object of its own.
 */
static cleave_status check_fixed(const cleave_json_cursor *at, const cleave_field *field,
                                 cleave_error *error) {
    const char *text;
    bool is_on;
    if (field->kind != CLEAVE_FIELD_IS) {
        bool wanted = field->kind == CLEAVE_FIELD_YES;
        CLEAVE_TRY(cleave_json_truth(at, &is_on, error));
        return is_on == wanted ? CLEAVE_OK
                               : cleave_json_fail(at, error, "is %s, which is not supported",
                                                  is_on ? "true" : "false");
    }
    if (cleave_json_type_of(at) == CLEAVE_JSON_ARRAY)
        return check_parts(at, field->text, error);
    cleave_json_cursor name = *at;
    if (cleave_json_type_of(at) == CLEAVE_JSON_OBJECT && !cleave_json_find(at, "name", &name))
        return cleave_json_fail(at, error, "has no name");
    CLEAVE_TRY(cleave_json_string(&name, &text, error));
    if (strcmp(text, field->text) != 0)
        return cleave_json_fail(at, error, "\"%.64s\" is not supported, but \"%s\"", text,
                                field->text);
    return CLEAVE_OK;
}

static cleave_status check_number(const cleave_json_cursor *at, double wanted,
                                  cleave_error *error) {
    double value;
    CLEAVE_TRY(cleave_json_number(at, &value, error));
    return value >= wanted && value <= wanted
               ? CLEAVE_OK
               : cleave_json_fail(at, error, "%g is not supported, but %g", value, wanted);
}

static cleave_status check_exact(const cleave_json_cursor *at, double wanted, cleave_error *error) {
    if (cleave_json_type_of(at) != CLEAVE_JSON_ARRAY)
        return check_number(at, wanted, error);
    for (int32_t i = 0; i < cleave_json_count(at); i++) {
        cleave_json_cursor of_layer = cleave_json_element(at, i);
        CLEAVE_TRY(check_number(&of_layer, wanted, error));
    }
    return CLEAVE_OK;
}

cleave_status cleave_field_read(const cleave_json_cursor *at, const cleave_field *field,
                                cleave_arena *arena, void *member, cleave_error *error) {
    int64_t least = field->kind == CLEAVE_FIELD_EXTENT ? 1
                    : field->kind == CLEAVE_FIELD_LAST ? -1
                                                       : 0;
    switch (field->kind) {
    case CLEAVE_FIELD_EXTENT:
    case CLEAVE_FIELD_COUNT:
    case CLEAVE_FIELD_LAST:
        return cleave_json_integer(at, least, CLEAVE_MOST_EXTENT, member, error);
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_CAP:
    case CLEAVE_FIELD_RATE:
        return read_number(at, field->kind == CLEAVE_FIELD_RATE, member, error);
    case CLEAVE_FIELD_FLAG:
        return cleave_json_truth(at, member, error);
    case CLEAVE_FIELD_YES:
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
        return check_fixed(at, field, error);
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        return read_function(at, field->kind == CLEAVE_FIELD_GATED, member, arena, error);
    case CLEAVE_FIELD_EITHER:
        return read_either(at, field->text, member, error);
    case CLEAVE_FIELD_SQUARE:
        return read_square(at, member, error);
    case CLEAVE_FIELD_PERIOD:
        return read_period(at, member, error);
    case CLEAVE_FIELD_ROTARY:
        return cleave_rotary_read(at, field->text, arena, member, error);
    case CLEAVE_FIELD_ROTARIES:
        return read_rotaries(at, arena, member, error);
    case CLEAVE_FIELD_LAYERS:
        return read_layers(at, read_either, field, member, arena, error);
    case CLEAVE_FIELD_SWITCHES:
        return read_layers(at, read_switch, field, member, arena, error);
    case CLEAVE_FIELD_PLACES:
        return read_places(at, field, member, arena, error);
    case CLEAVE_FIELD_RUNS:
        return read_runs(at, field, member, arena, error);
    case CLEAVE_FIELD_ALIKE:
        return read_alike(at, member, error);
    case CLEAVE_FIELD_IDLE:
        return CLEAVE_OK;
    case CLEAVE_FIELD_EMPTY:
        if (cleave_json_type_of(at) != CLEAVE_JSON_OBJECT)
            CLEAVE_TRY(cleave_json_expect_array(at, error));
        return cleave_json_count(at) == 0
                   ? CLEAVE_OK
                   : cleave_json_fail(at, error, "is not empty, which is not supported");
    case CLEAVE_FIELD_EXACT:
        return check_exact(at, field->standard, error);
    case CLEAVE_FIELD_ONE:
        CLEAVE_TRY(cleave_json_integer(at, 1, CLEAVE_MOST_EXTENT, member, error));
        return *(int64_t *)member == 1 ? CLEAVE_OK
                                       : cleave_json_fail(at, error, "%lld is not supported, but 1",
                                                          (long long)*(int64_t *)member);
    case CLEAVE_FIELD_LABELS:
        CLEAVE_TRY(cleave_json_expect_object(at, error));
        *(int64_t *)member = cleave_json_count(at);
        return CLEAVE_OK;
    }
    return CLEAVE_OK;
}

void cleave_field_set_standard(const cleave_field *field, void *member) {
    switch (field->kind) {
    case CLEAVE_FIELD_EXTENT:
    case CLEAVE_FIELD_COUNT:
    case CLEAVE_FIELD_LAST:
    case CLEAVE_FIELD_ONE:
    case CLEAVE_FIELD_SQUARE:
    case CLEAVE_FIELD_PERIOD:
    case CLEAVE_FIELD_ALIKE:
    case CLEAVE_FIELD_LABELS:
        *(int64_t *)member = (int64_t)field->standard;
        break;
    case CLEAVE_FIELD_NUMBER:
    case CLEAVE_FIELD_CAP:
    case CLEAVE_FIELD_RATE:
        *(double *)member = field->standard;
        break;
    case CLEAVE_FIELD_FLAG:
    case CLEAVE_FIELD_EITHER:
        *(bool *)member = field->standard > 0;
        break;
    case CLEAVE_FIELD_FUNCTION:
    case CLEAVE_FIELD_GATED:
        *(const char **)member = field->text;
        break;
    case CLEAVE_FIELD_YES:
    case CLEAVE_FIELD_NOT:
    case CLEAVE_FIELD_IS:
    case CLEAVE_FIELD_ROTARY:
    case CLEAVE_FIELD_ROTARIES:
    case CLEAVE_FIELD_LAYERS:
    case CLEAVE_FIELD_SWITCHES:
    case CLEAVE_FIELD_PLACES:
    case CLEAVE_FIELD_RUNS:
    case CLEAVE_FIELD_IDLE:
    case CLEAVE_FIELD_EMPTY:
    case CLEAVE_FIELD_EXACT:
        break;
    }
}

bool cleave_field_has_member(const cleave_field *field) {
    return field->kind != CLEAVE_FIELD_YES && field->kind != CLEAVE_FIELD_NOT &&
           field->kind != CLEAVE_FIELD_IS && field->kind != CLEAVE_FIELD_EMPTY &&
           field->kind != CLEAVE_FIELD_EXACT && field->kind != CLEAVE_FIELD_IDLE;
}
