/* The records of a task graph's lines, as they are read (tasks_read.c) and as the graph is made of
   them (tasks_build.c). */
#ifndef CLEAVE_SIMULATOR_EVENTS_TASKS_RECORDS_H
#define CLEAVE_SIMULATOR_EVENTS_TASKS_RECORDS_H

#include "base/list.h"
#include "costmodel/cost.h"
#include "simulator/events/tasks.h"

enum { MAX_FIELDS = 5 + CLEAVE_MAX_ROUTE };

typedef struct link_record {
    int32_t from, to, line;
    double bytes_per_second;
    int64_t latency;
} link_record;

typedef struct task_record {
    int32_t id, line;
    int32_t device;         /* of an exec, else -1 */
    int32_t source, target; /* of a comm */
    int64_t duration, bytes;
    int32_t first_via, n_via;
} task_record;

typedef struct dep_record {
    int32_t before, after, line;
} dep_record;

typedef struct tasks_reader {
    const char *name;
    int32_t line;
    char *fields[MAX_FIELDS + 1];
    int n_fields;
    int32_t n_devices; /* -1: no `node` yet */
    int32_t node_line;
    CLEAVE_LIST(link_record) links;
    CLEAVE_LIST(task_record) tasks;
    CLEAVE_LIST(int32_t) vias;
    CLEAVE_LIST(dep_record) deps;
    const task_record **by_id; /* [tasks.n] */
    cleave_arena *arena;
    cleave_tasks *out;
    cleave_error *error;
} tasks_reader;

#define FAIL_AT(r, at_line, ...)                                                                   \
    (cleave_fail((r)->error, CLEAVE_BAD_INPUT, __VA_ARGS__),                                       \
     cleave_error_prefix((r)->error, "%s: line %d", (r)->name, (at_line)), CLEAVE_BAD_INPUT)

static inline cleave_status tasks_short_of_memory(const tasks_reader *r) {
    return cleave_fail_memory(r->error, "reading a task graph");
}

/* Checks ids, finds routes, and turns dependencies round into lists of who comes next. */
cleave_status tasks_build(tasks_reader *r);

#endif
