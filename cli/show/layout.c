/* What `cleave show` prints of a layout: a line per operator. */
#include "cli/show/show.h"

#include "cli/table.h"

#include <string.h>

/* Members that are strings or numbers, as text; "" when missing. */
static void describe_member(const cleave_json_cursor *at, const char *key, char *text,
                            size_t bytes) {
    cleave_json_cursor member;
    const char *string = "";
    int64_t integer;
    text[0] = '\0';
    if (!cleave_json_find(at, key, &member))
        return;
    if (cleave_json_string(&member, &string, NULL) == CLEAVE_OK)
        snprintf(text, bytes, "%s", string);
    else if (cleave_json_integer(&member, INT64_MIN, INT64_MAX, &integer, NULL) == CLEAVE_OK)
        snprintf(text, bytes, "%lld", (long long)integer);
}

/* "n=2 k=2", or "whole". */
static cleave_status describe_split(const cleave_json_cursor *split, char *text, size_t bytes,
                                    cleave_error *error) {
    size_t used = 0;
    snprintf(text, bytes, "whole");
    CLEAVE_TRY(cleave_json_expect_object(split, error));
    for (int32_t a = 0; a < cleave_json_count(split) && used < bytes; a++) {
        const char *axis;
        int64_t degree;
        cleave_json_cursor member = cleave_json_member(split, a, &axis);
        CLEAVE_TRY(cleave_json_integer(&member, 1, INT32_MAX, &degree, error));
        used += (size_t)snprintf(text + used, bytes - used, "%s%s=%lld", a > 0 ? " " : "", axis,
                                 (long long)degree);
    }
    return CLEAVE_OK;
}

/* "0-3 6": runs of consecutive devices are contracted. */
static cleave_status describe_devices(const cleave_json_cursor *devices, char *text, size_t bytes,
                                      cleave_error *error) {
    size_t used = 0;
    text[0] = '\0';
    CLEAVE_TRY(cleave_json_expect_array(devices, error));
    int32_t n = cleave_json_count(devices);
    for (int32_t i = 0; i < n && used < bytes;) {
        int64_t first, last, next = -1;
        cleave_json_cursor at = cleave_json_element(devices, i);
        CLEAVE_TRY(cleave_json_integer(&at, 0, INT32_MAX, &first, error));
        for (last = first, i++; i < n; i++, last = next) {
            at = cleave_json_element(devices, i);
            CLEAVE_TRY(cleave_json_integer(&at, 0, INT32_MAX, &next, error));
            if (next != last + 1)
                break;
        }
        used += (size_t)snprintf(text + used, bytes - used, "%s%lld", used > 0 ? " " : "",
                                 (long long)first);
        if (last > first && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "-%lld", (long long)last);
    }
    return CLEAVE_OK;
}

static cleave_status print_operators(const cleave_json_cursor *operators, cleave_arena *arena,
                                     cleave_error *error) {
    table t = {.arena = arena, .n_columns = 4, .align = "lrll"};
    table_heads(&t, (const char *const[]){"operator", "parts", "split",
                                          "devices, in the order of the parts"});
    cleave_status status = CLEAVE_OK;
    for (int32_t o = 0; o < cleave_json_count(operators) && status == CLEAVE_OK; o++) {
        const char *name;
        char split_text[256], device_text[512], replicas[32];
        cleave_json_cursor op = cleave_json_member(operators, o, &name), split, devices;
        if ((status = cleave_json_get(&op, "split", &split, error)) != CLEAVE_OK ||
            (status = cleave_json_get(&op, "devices", &devices, error)) != CLEAVE_OK ||
            (status = describe_split(&split, split_text, sizeof split_text, error)) != CLEAVE_OK ||
            (status = describe_devices(&devices, device_text, sizeof device_text, error)) !=
                CLEAVE_OK)
            break;
        describe_member(&op, "replicas", replicas, sizeof replicas);
        table_text(&t, name);
        table_format(&t, "%d", cleave_json_count(&devices));
        if (replicas[0] != '\0')
            table_format(&t, "%s replicas x %s", replicas, split_text);
        else
            table_text(&t, split_text);
        bool again = false;
        cleave_json_cursor recompute;
        if (cleave_json_find(&op, "recompute", &recompute) &&
            (status = cleave_json_truth(&recompute, &again, error)) != CLEAVE_OK)
            break;
        table_format(&t, "%s%s", device_text, again ? ", recomputed" : "");
    }
    if (status == CLEAVE_OK)
        table_print_repeats(&t, stdout);
    else
        CLEAVE_LIST_FREE(&t.cells);
    return status;
}

/* "sharded, gradient sharded". */
static void print_updates(const cleave_json_cursor *root, cleave_arena *arena) {
    static const char *const more[] = {"gradient", "weight"};
    table t = {.arena = arena, .n_columns = 2, .align = "ll"};
    cleave_json_cursor parameters;
    if (!cleave_json_find(root, "parameters", &parameters))
        return;
    table_text(&t, "parameter");
    table_text(&t, "update");
    for (int32_t i = 0; i < cleave_json_count(&parameters); i++) {
        const char *name;
        char update[128], text[128];
        cleave_json_cursor parameter = cleave_json_member(&parameters, i, &name);
        describe_member(&parameter, "update", update, sizeof update);
        for (int k = 0; k < 2; k++) {
            describe_member(&parameter, more[k], text, sizeof text);
            size_t used = strlen(update);
            if (text[0] != '\0')
                snprintf(update + used, sizeof update - used, ", %s %s", more[k], text);
        }
        table_text(&t, name);
        table_text(&t, update);
    }
    printf("\n");
    table_print_repeats(&t, stdout);
}

/* What a rule leaves out does not matter. */
static void put_member(table *t, const cleave_json_cursor *rule, const char *key) {
    char text[64];
    describe_member(rule, key, text, sizeof text);
    table_text(t, text[0] != '\0' ? text : "any");
}

/* A row per rule; one algorithm for all is a rule, too. */
static void print_collectives(const cleave_json_cursor *root, cleave_arena *arena) {
    static const char *const keys[] = {"devices", "nodes", "up_to"};
    table t = {.arena = arena, .n_columns = 5, .align = "lrrrl"};
    static const char *const heads[] = {"collective", "devices", "nodes", "up to", "algorithm"};
    cleave_json_cursor collectives;
    if (!cleave_json_find(root, "collectives", &collectives))
        return;
    table_heads(&t, heads);
    for (int32_t i = 0; i < cleave_json_count(&collectives); i++) {
        const char *kind;
        char for_all[64];
        cleave_json_cursor rules = cleave_json_member(&collectives, i, &kind);
        if (strcmp(kind, "node") == 0)
            continue;
        describe_member(&collectives, kind, for_all, sizeof for_all);
        int32_t n = for_all[0] != '\0' ? 1 : cleave_json_count(&rules);
        for (int32_t r = 0; r < n; r++) {
            cleave_json_cursor rule = for_all[0] != '\0' ? rules : cleave_json_element(&rules, r);
            table_text(&t, kind);
            for (int k = 0; k < 3; k++)
                put_member(&t, &rule, keys[k]);
            if (for_all[0] != '\0')
                table_text(&t, for_all);
            else
                put_member(&t, &rule, "algorithm");
        }
    }
    printf("\n");
    table_print(&t, stdout);
}

cleave_status show_layout(const cleave_json_cursor *root, cleave_arena *arena,
                          cleave_error *error) {
    cleave_json_cursor model, operators, step;
    char file[256], batch[32], machine[128], method[64], devices[32];
    CLEAVE_TRY(cleave_json_get(root, "model", &model, error));
    CLEAVE_TRY(cleave_json_get(root, "operators", &operators, error));
    CLEAVE_TRY(cleave_json_expect_object(&operators, error));
    describe_member(&model, "file", file, sizeof file);
    describe_member(&model, "batch", batch, sizeof batch);
    describe_member(root, "machine", machine, sizeof machine);
    describe_member(root, "method", method, sizeof method);
    describe_member(root, "devices", devices, sizeof devices);
    printf("layout of %s%s%s on %s devices%s%s%s%s\n", file, batch[0] != '\0' ? ", batch " : "",
           batch, devices, machine[0] != '\0' ? " of " : "", machine,
           method[0] != '\0' ? ", found by " : "", method);
    double seconds = 0;
    if (cleave_json_find(root, "predicted_step_seconds", &step) &&
        cleave_json_number(&step, &seconds, NULL) == CLEAVE_OK) {
        char text[64];
        cleave_unit_format(seconds, CLEAVE_UNIT_SECONDS, text, sizeof text);
        printf("predicted step: %s\n", text);
    }
    CLEAVE_TRY(show_schedule(root, &operators, arena, error));
    printf("\n");
    CLEAVE_TRY(print_operators(&operators, arena, error));
    print_updates(root, arena);
    print_collectives(root, arena);
    return CLEAVE_OK;
}
