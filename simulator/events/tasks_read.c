/* The reader of task graphs: lines become records, of which the graph is made (tasks_build.c).  The
   format is described in tasks.h. */
#include "simulator/events/tasks_records.h"

#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- fields ---- */

static cleave_status read_integer(const tasks_reader *r, int field, const char *what, int64_t most,
                                  int64_t *value) {
    char *end;
    errno = 0;
    long long number = strtoll(r->fields[field], &end, 10);
    if (end == r->fields[field] || *end != '\0' || errno != 0 || number < 0 || number > most)
        return FAIL_AT(r, r->line, "%s \"%.40s\" is not an integer from 0 to %lld", what,
                       r->fields[field], (long long)most);
    *value = number;
    return CLEAVE_OK;
}

static cleave_status read_id(const tasks_reader *r, int field, const char *what, int64_t most,
                             int32_t *value) {
    int64_t number;
    CLEAVE_TRY(read_integer(r, field, what, most, &number));
    *value = (int32_t)number;
    return CLEAVE_OK;
}

static cleave_status read_number(const tasks_reader *r, int field, const char *what, bool positive,
                                 double *value) {
    char *end;
    double number = strtod(r->fields[field], &end);
    if (end == r->fields[field] || *end != '\0' || !isfinite(number) || number < 0 ||
        (positive && number <= 0))
        return FAIL_AT(r, r->line, "%s \"%.40s\" is not a number %s", what, r->fields[field],
                       positive ? "above 0" : "of 0 or more");
    *value = number;
    return CLEAVE_OK;
}

static cleave_status read_vertex(const tasks_reader *r, int field, int32_t *vertex) {
    return read_id(r, field, "the node", CLEAVE_MAX_TASK_VERTICES - 1, vertex);
}

/* ---- records ---- */

static cleave_status read_node(tasks_reader *r) {
    int64_t number;
    if (r->n_devices >= 0)
        return FAIL_AT(r, r->line, "a second `node`; the first is in line %d", r->node_line);
    CLEAVE_TRY(read_integer(r, 1, "the number of devices", CLEAVE_MAX_TASK_VERTICES, &number));
    r->n_devices = (int32_t)number;
    r->node_line = r->line;
    return CLEAVE_OK;
}

static cleave_status read_link(tasks_reader *r) {
    link_record link = {.line = r->line};
    double latency;
    CLEAVE_TRY(read_vertex(r, 1, &link.from));
    CLEAVE_TRY(read_vertex(r, 2, &link.to));
    CLEAVE_TRY(read_number(r, 3, "the bandwidth", true, &link.bytes_per_second));
    CLEAVE_TRY(read_number(r, 4, "the latency", false, &latency));
    if (link.from == link.to)
        return FAIL_AT(r, r->line, "a link from node %d to itself", link.from);
    link.latency = cleave_picoseconds(latency);
    return CLEAVE_LIST_PUSH(&r->links, link) ? CLEAVE_OK : tasks_short_of_memory(r);
}

static cleave_status read_exec(tasks_reader *r) {
    task_record task = {.line = r->line};
    double seconds;
    CLEAVE_TRY(read_id(r, 1, "the id", INT32_MAX, &task.id));
    CLEAVE_TRY(read_vertex(r, 2, &task.device));
    CLEAVE_TRY(read_number(r, 3, "the time", false, &seconds));
    task.duration = cleave_picoseconds(seconds);
    return CLEAVE_LIST_PUSH(&r->tasks, task) ? CLEAVE_OK : tasks_short_of_memory(r);
}

static cleave_status read_comm(tasks_reader *r) {
    task_record task = {.line = r->line, .device = -1, .first_via = r->vias.n};
    CLEAVE_TRY(read_id(r, 1, "the id", INT32_MAX, &task.id));
    CLEAVE_TRY(read_vertex(r, 2, &task.source));
    CLEAVE_TRY(read_vertex(r, 3, &task.target));
    CLEAVE_TRY(read_integer(r, 4, "the size", INT64_MAX, &task.bytes));
    if (task.source == task.target)
        return FAIL_AT(r, r->line, "a transfer from device %d to itself", task.source);
    for (int field = 5; field < r->n_fields; field++, task.n_via++) {
        int32_t via;
        CLEAVE_TRY(read_vertex(r, field, &via));
        if (!CLEAVE_LIST_PUSH(&r->vias, via))
            return tasks_short_of_memory(r);
    }
    return CLEAVE_LIST_PUSH(&r->tasks, task) ? CLEAVE_OK : tasks_short_of_memory(r);
}

static cleave_status read_dep(tasks_reader *r) {
    dep_record dep = {.line = r->line};
    CLEAVE_TRY(read_id(r, 1, "the id", INT32_MAX, &dep.before));
    CLEAVE_TRY(read_id(r, 2, "the id", INT32_MAX, &dep.after));
    return CLEAVE_LIST_PUSH(&r->deps, dep) ? CLEAVE_OK : tasks_short_of_memory(r);
}

typedef struct record_row {
    const char *name, *fields;
    int least, most; /* fields, with the name */
    cleave_status (*read)(tasks_reader *r);
} record_row;

static const record_row records[] = {
    {"node", "N", 2, 2, read_node},
    {"link", "A B BANDWIDTH LATENCY", 5, 5, read_link},
    {"exec", "ID DEVICE SECONDS", 4, 4, read_exec},
    {"comm", "ID SOURCE DESTINATION BYTES [VIA...]", 5, MAX_FIELDS, read_comm},
    {"dep", "A B", 3, 3, read_dep},
};
enum { N_RECORDS = sizeof records / sizeof records[0] };

/* Cuts one zero-terminated line into fields, in place. */
static void cut_line(tasks_reader *r, char *line) {
    line[strcspn(line, "#")] = '\0';
    r->n_fields = 0;
    for (;;) {
        line += strspn(line, " \t\r\v\f");
        if (*line == '\0' || r->n_fields > MAX_FIELDS)
            return;
        r->fields[r->n_fields++] = line;
        line += strcspn(line, " \t\r\v\f");
        if (*line != '\0')
            *line++ = '\0';
    }
}

static cleave_status read_line(tasks_reader *r, char *line) {
    cut_line(r, line);
    if (r->n_fields == 0)
        return CLEAVE_OK;
    for (int k = 0; k < N_RECORDS; k++) {
        if (strcmp(r->fields[0], records[k].name) != 0)
            continue;
        if (r->n_fields < records[k].least || r->n_fields > records[k].most)
            return FAIL_AT(r, r->line, "%d fields where `%s %s` is expected", r->n_fields,
                           records[k].name, records[k].fields);
        return records[k].read(r);
    }
    return FAIL_AT(r, r->line, "\"%.40s\" is none of node, link, exec, comm, dep", r->fields[0]);
}

static cleave_status read_lines(tasks_reader *r, char *text, size_t bytes) {
    if (memchr(text, '\0', bytes) != NULL)
        return cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s: not a text: it holds zero bytes",
                           r->name);
    for (char *line = text; line != NULL;) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end = '\0';
        if (r->line == INT32_MAX)
            return cleave_fail(r->error, CLEAVE_BAD_INPUT, "%s: too many lines", r->name);
        r->line++;
        CLEAVE_TRY(read_line(r, line));
        line = end != NULL ? end + 1 : NULL;
    }
    return CLEAVE_OK;
}

cleave_status cleave_tasks_parse(const char *text, size_t bytes, const char *name,
                                 cleave_arena *arena, cleave_tasks *tasks, cleave_error *error) {
    cleave_tasks made = {0};
    tasks_reader r = {.name = name, .n_devices = -1, .arena = arena, .out = &made, .error = error};
    char *copy = malloc(bytes + 1);
    cleave_status status = copy != NULL ? CLEAVE_OK : tasks_short_of_memory(&r);
    if (status == CLEAVE_OK) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
        status = read_lines(&r, copy, bytes);
    }
    if (status == CLEAVE_OK)
        status = tasks_build(&r);
    free(copy);
    CLEAVE_LIST_FREE(&r.links);
    CLEAVE_LIST_FREE(&r.tasks);
    CLEAVE_LIST_FREE(&r.vias);
    CLEAVE_LIST_FREE(&r.deps);
    if (status == CLEAVE_OK)
        *tasks = made;
    return status;
}

cleave_status cleave_tasks_read(const char *path, cleave_arena *arena, cleave_tasks *tasks,
                                cleave_error *error) {
    cleave_arena file = {0};
    char *text;
    size_t bytes;
    cleave_status status = cleave_file_read(path, &file, &text, &bytes, error);
    if (status == CLEAVE_OK && bytes == 0)
        status = cleave_fail(error, CLEAVE_BAD_INPUT, "%s: the file is empty", path);
    if (status == CLEAVE_OK)
        status = cleave_tasks_parse(text, bytes, path, arena, tasks, error);
    cleave_arena_free(&file);
    return status;
}
