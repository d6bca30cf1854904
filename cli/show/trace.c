/* What `cleave show` prints of a trace: the time in each sort of event, measured beside predicted
   where there are both, and how much each process works.  Events are read one at a time. */
#include "base/order.h"
#include "cli/show/show.h"

#include "cli/table.h"
#include "graph/program/program.h"

#include <string.h>

enum { MAX_PROCESSES_SHOWN = 32, MAX_CATEGORIES = 256 };

typedef struct total {
    double microseconds;
    int64_t count;
} total;

typedef enum side { SIDE_MEASURED, SIDE_PREDICTED, SIDE_OTHER, N_SIDES } side;
static const char *const side_suffixes[N_SIDES] = {" measured", " predicted", ""};

typedef struct process {
    int64_t pid;
    const char *name;               /* in the arena; null: not said */
    double end;                     /* microseconds */
    double at_work[CLEAVE_N_LANES]; /* microseconds in all but waits, by thread: thread 0, and the
                                       others */
    CLEAVE_LIST(total) totals;      /* by category */
} process;

typedef struct summary {
    cleave_arena *arena;
    const char *categories[MAX_CATEGORIES]; /* in the arena; the last is of all that had no place */
    int32_t n_categories;
    double end;                     /* microseconds */
    CLEAVE_LIST(process) processes; /* by pid */
} summary;

static process *find_process(summary *s, int64_t pid) {
    int32_t low = 0;
    CLEAVE_BISECT(low, s->processes.n, middle, s->processes.items[middle].pid < pid);
    if (low < s->processes.n && s->processes.items[low].pid == pid)
        return &s->processes.items[low];
    if (!CLEAVE_LIST_PUSH(&s->processes, (process){0}))
        return NULL;
    process *at = &s->processes.items[low];
    memmove(at + 1, at, (size_t)(s->processes.n - 1 - low) * sizeof *at);
    *at = (process){.pid = pid};
    return at;
}

static int32_t find_category(summary *s, const char *name) {
    for (int32_t c = 0; c < s->n_categories; c++)
        if (strcmp(s->categories[c], name) == 0)
            return c;
    if (s->n_categories == MAX_CATEGORIES)
        return MAX_CATEGORIES - 1;
    bool last = s->n_categories == MAX_CATEGORIES - 1;
    const char *copy = cleave_arena_string(s->arena, last ? "others" : name);
    if (copy == NULL)
        return -1;
    s->categories[s->n_categories] = copy;
    return s->n_categories++;
}

static bool is_wait(const char *category) {
    return strcmp(category, "wait") == 0 || strcmp(category, "sync") == 0 ||
           strcmp(category, "await") == 0;
}

typedef struct span {
    int64_t process, thread;
    const char *category;
    double start, duration; /* microseconds */
} span;

static bool add_span(summary *s, const span *added) {
    process *p = find_process(s, added->process);
    int32_t c = find_category(s, added->category);
    if (p == NULL || c < 0)
        return false;
    while (p->totals.n <= c)
        if (!CLEAVE_LIST_PUSH(&p->totals, (total){0}))
            return false;
    p->totals.items[c].microseconds += added->duration;
    p->totals.items[c].count++;
    if (!is_wait(added->category))
        p->at_work[added->thread == 0 ? CLEAVE_LANE_MAIN : CLEAVE_LANE_COMMUNICATION] +=
            added->duration;
    double end = added->start + added->duration;
    p->end = end > p->end ? end : p->end;
    s->end = p->end > s->end ? p->end : s->end;
    return true;
}

static cleave_status add_process_name(summary *s, const cleave_json_cursor *event, int64_t pid,
                                      cleave_error *error) {
    cleave_json_cursor arguments;
    const char *name;
    CLEAVE_TRY(cleave_json_get(event, "args", &arguments, error));
    CLEAVE_TRY(cleave_json_get_string(&arguments, "name", &name, error));
    process *p = find_process(s, pid);
    if (p == NULL || (p->name = cleave_arena_string(s->arena, name)) == NULL)
        return cleave_fail_memory(error, "adding up a trace");
    return CLEAVE_OK;
}

/* 0 where it is missing or no integer. */
static cleave_status get_id(const cleave_json_cursor *event, const char *key, int64_t *id,
                            cleave_error *error) {
    cleave_json_cursor at;
    *id = 0;
    if (!cleave_json_find(event, key, &at) || cleave_json_type_of(&at) != CLEAVE_JSON_INTEGER)
        return CLEAVE_OK;
    return cleave_json_integer(&at, INT64_MIN, INT64_MAX, id, error);
}

/* Complete events ("ph": "X") and the names of processes; the others are passed over. */
static cleave_status add_event(void *context, const cleave_json_cursor *event,
                               cleave_error *error) {
    summary *s = context;
    const char *phase, *what = "";
    cleave_json_cursor at;
    span added = {.category = "-"};
    CLEAVE_TRY(cleave_json_get_string(event, "ph", &phase, error));
    CLEAVE_TRY(get_id(event, "pid", &added.process, error));
    CLEAVE_TRY(get_id(event, "tid", &added.thread, error));
    if (strcmp(phase, "M") == 0) {
        CLEAVE_TRY(cleave_json_get_string(event, "name", &what, error));
        return strcmp(what, "process_name") == 0 ? add_process_name(s, event, added.process, error)
                                                 : CLEAVE_OK;
    }
    if (strcmp(phase, "X") != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_get_number(event, "ts", &added.start, error));
    CLEAVE_TRY(cleave_json_get_number(event, "dur", &added.duration, error));
    if (cleave_json_find(event, "cat", &at))
        CLEAVE_TRY(cleave_json_string(&at, &added.category, error));
    return add_span(s, &added) ? CLEAVE_OK : cleave_fail_memory(error, "adding up a trace");
}

static side side_of(const process *p) {
    for (int i = 0; i < SIDE_OTHER && p->name != NULL; i++) {
        size_t length = strlen(p->name), suffix = strlen(side_suffixes[i]);
        if (length > suffix && strcmp(p->name + length - suffix, side_suffixes[i]) == 0)
            return (side)i;
    }
    return SIDE_OTHER;
}

/* Adds up one category over the processes of each side. */
static void sum_sides(const summary *s, int32_t category, total sums[N_SIDES]) {
    for (int32_t i = 0; i < s->processes.n; i++) {
        const process *p = &s->processes.items[i];
        if (category >= p->totals.n)
            continue;
        total *sum = &sums[side_of(p)];
        sum->microseconds += p->totals.items[category].microseconds;
        sum->count += p->totals.items[category].count;
    }
}

static void print_categories(const summary *s) {
    static const char *const heads[N_SIDES] = {"measured", "predicted", "time, all processes"};
    bool used[N_SIDES] = {false};
    int n_used = 0;
    for (int32_t i = 0; i < s->processes.n; i++)
        used[side_of(&s->processes.items[i])] |= s->processes.items[i].totals.n > 0;
    for (int i = 0; i < N_SIDES; i++)
        n_used += used[i];
    table t = {.arena = s->arena, .n_columns = 1 + 2 * n_used, .align = "lrrrrrr"};
    table_text(&t, "events");
    for (int i = 0; i < N_SIDES; i++)
        if (used[i]) {
            table_text(&t, "how many");
            table_text(&t, heads[i]);
        }
    for (int32_t c = 0; c < s->n_categories; c++) {
        total sums[N_SIDES] = {{0}};
        sum_sides(s, c, sums);
        table_text(&t, s->categories[c]);
        for (int i = 0; i < N_SIDES; i++)
            if (used[i]) {
                table_format(&t, "%lld", (long long)sums[i].count);
                table_quantity(&t, 1e-6 * sums[i].microseconds, CLEAVE_UNIT_SECONDS);
            }
    }
    table_print(&t, stdout);
}

static void print_processes(const summary *s) {
    table t = {.arena = s->arena, .n_columns = 4, .align = "lrrr"};
    table_heads(
        &t, (const char *const[]){"process", "until", "main lane at work", "communication lane"});
    for (int32_t i = 0; i < s->processes.n && i < MAX_PROCESSES_SHOWN; i++) {
        const process *p = &s->processes.items[i];
        bool has_lanes = p->name != NULL && strncmp(p->name, "device ", 7) == 0;
        if (p->name != NULL)
            table_text(&t, p->name);
        else
            table_format(&t, "%lld", (long long)p->pid);
        table_quantity(&t, 1e-6 * p->end, CLEAVE_UNIT_SECONDS);
        for (int lane = 0; lane < CLEAVE_N_LANES; lane++)
            if (has_lanes)
                table_quantity(&t, 1e-6 * p->at_work[lane], CLEAVE_UNIT_SECONDS);
            else
                table_text(&t, "-");
    }
    printf("\n");
    table_print(&t, stdout);
    if (s->processes.n > MAX_PROCESSES_SHOWN)
        printf("and %d more\n", s->processes.n - MAX_PROCESSES_SHOWN);
}

cleave_status show_trace(trace_reader *reader, cleave_arena *arena, cleave_error *error) {
    summary s = {.arena = arena};
    cleave_status status = trace_reader_each(reader, add_event, &s, error);
    if (status == CLEAVE_OK && s.n_categories == 0)
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: no event of the trace is complete (%s)",
                             reader->path, "\"ph\": \"X\", with \"ts\" and \"dur\"");
    if (status == CLEAVE_OK) {
        char text[64];
        cleave_unit_format(1e-6 * s.end, CLEAVE_UNIT_SECONDS, text, sizeof text);
        printf("trace of %s; open it with ui.perfetto.dev to see when each item happens\n\n", text);
        print_categories(&s);
        print_processes(&s);
    }
    for (int32_t i = 0; i < s.processes.n; i++)
        CLEAVE_LIST_FREE(&s.processes.items[i].totals);
    CLEAVE_LIST_FREE(&s.processes);
    return status;
}
