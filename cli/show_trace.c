/* What `cleave show` prints of a trace: the time in each sort of event. */
#include "cli/show.h"

#include "cli/table.h"

#include <string.h>

/* Time spent in events of one name. */
typedef struct total {
    const char *name;
    double microseconds;
    int64_t count;
} total;
typedef CLEAVE_LIST(total) total_list;

static bool add_event(total_list *totals, const char *name, double microseconds) {
    for (int32_t i = 0; i < totals->n; i++)
        if (strcmp(totals->items[i].name, name) == 0) {
            totals->items[i].microseconds += microseconds;
            totals->items[i].count++;
            return true;
        }
    return CLEAVE_LIST_PUSH(totals, (total){name, microseconds, 1});
}

/* Complete events ("ph": "X") by category, with their span. */
static cleave_status sum_events(const cleave_json_cursor *events, total_list *totals,
                                double *span_microseconds, cleave_error *error) {
    CLEAVE_TRY(cleave_json_expect_array(events, error));
    for (int32_t i = 0; i < cleave_json_count(events); i++) {
        cleave_json_cursor event = cleave_json_element(events, i), at;
        const char *phase, *category = "";
        double start, duration;
        CLEAVE_TRY(cleave_json_get(&event, "ph", &at, error));
        CLEAVE_TRY(cleave_json_string(&at, &phase, error));
        if (strcmp(phase, "X") != 0)
            continue;
        CLEAVE_TRY(cleave_json_get(&event, "ts", &at, error));
        CLEAVE_TRY(cleave_json_number(&at, &start, error));
        CLEAVE_TRY(cleave_json_get(&event, "dur", &at, error));
        CLEAVE_TRY(cleave_json_number(&at, &duration, error));
        if (cleave_json_find(&event, "cat", &at))
            CLEAVE_TRY(cleave_json_string(&at, &category, error));
        if (start + duration > *span_microseconds)
            *span_microseconds = start + duration;
        if (!add_event(totals, category, duration))
            return cleave_fail_memory(error, "adding up a trace");
    }
    return CLEAVE_OK;
}

cleave_status show_trace(const cleave_json_cursor *root, cleave_arena *arena, cleave_error *error) {
    cleave_json_cursor events = *root;
    if (cleave_json_type_of(root) == CLEAVE_JSON_OBJECT)
        CLEAVE_TRY(cleave_json_get(root, "traceEvents", &events, error));
    total_list totals = {0};
    double span = 0;
    cleave_status status = sum_events(&events, &totals, &span, error);
    if (status == CLEAVE_OK) {
        char text[64];
        cleave_unit_format(1e-6 * span, CLEAVE_UNIT_SECONDS, text, sizeof text);
        printf("trace of %s; open it with ui.perfetto.dev to see when each item happens\n\n", text);
        table t = {.arena = arena, .n_columns = 3, .align = "lrr"};
        table_text(&t, "events");
        table_text(&t, "how many");
        table_text(&t, "time, all devices");
        for (int32_t i = 0; i < totals.n; i++) {
            table_text(&t, totals.items[i].name[0] != '\0' ? totals.items[i].name : "-");
            table_format(&t, "%lld", (long long)totals.items[i].count);
            table_quantity(&t, 1e-6 * totals.items[i].microseconds, CLEAVE_UNIT_SECONDS);
        }
        table_print(&t, stdout);
    }
    CLEAVE_LIST_FREE(&totals);
    return status;
}
