/* A trace has the items of each lane in the order of the program, all but those that took no time:
   so walking along with the program finds the item of every event. */
#include "cli/report/step.h"

#include "cli/trace_reader.h"
#include "simulator/report/item_label.h"

#include <stdlib.h>
#include <string.h>

typedef struct matcher {
    const cleave_program *program;
    cleave_timeline *measured;
    const int32_t *start, *items; /* of each queue in order */
    int32_t *next;                /* [queues] the first that is not found yet */
} matcher;

static bool is_it(const matcher *m, int32_t item, const char *category, const char *name) {
    char label[256];
    const cleave_item *of = &m->program->items[item];
    if (strcmp(cleave_item_label_of(m->program, of).kind, category) != 0)
        return false;
    cleave_item_label_format(m->program, of, label, sizeof label);
    return strcmp(label, name) == 0;
}

static int64_t picoseconds(double microseconds) { return (int64_t)(microseconds * 1e6 + 0.5); }

static cleave_status take_span(matcher *m, const cleave_json_cursor *event, int32_t queue,
                               cleave_error *error) {
    const char *category, *name;
    double start, duration;
    CLEAVE_TRY(cleave_json_get_string(event, "cat", &category, error));
    CLEAVE_TRY(cleave_json_get_string(event, "name", &name, error));
    CLEAVE_TRY(cleave_json_get_number(event, "ts", &start, error));
    CLEAVE_TRY(cleave_json_get_number(event, "dur", &duration, error));
    if (!(start >= 0 && start < 1e12 && duration >= 0 && duration < 1e12))
        return cleave_json_fail(event, error, "its times are not those of a step");
    int32_t at = m->next[queue];
    while (at < m->start[queue + 1] && !is_it(m, m->items[at], category, name))
        at++;
    if (at == m->start[queue + 1])
        return cleave_json_fail(event, error,
                                "device %d has no %.20s \"%.100s\" here: it is a run of another "
                                "layout, model or batch",
                                queue / 2, category, name);
    m->next[queue] = at + 1;
    int32_t item = m->items[at];
    m->measured->start[item] = picoseconds(start);
    m->measured->end[item] = picoseconds(start) + picoseconds(duration);
    if (m->measured->end[item] > m->measured->step)
        m->measured->step = m->measured->end[item];
    return CLEAVE_OK;
}

/* Processes are told by their numbers: measured ones are even (simulator/report/trace.c). */
static cleave_status take_event(void *context, const cleave_json_cursor *event,
                                cleave_error *error) {
    matcher *m = context;
    const char *phase;
    int64_t process, thread;
    CLEAVE_TRY(cleave_json_get_string(event, "ph", &phase, error));
    if (strcmp(phase, "X") != 0)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_json_get_integer(event, "pid", 0, INT32_MAX, &process, error));
    CLEAVE_TRY(cleave_json_get_integer(event, "tid", 0, INT32_MAX, &thread, error));
    bool is_measured = process % 2 == 0 && process / 2 < m->program->n_devices;
    return is_measured && thread < CLEAVE_N_LANES
               ? take_span(m, event, (int32_t)(process + thread), error)
               : CLEAVE_OK;
}

/* The items of each queue, 2 x device + lane, in order. */
static cleave_status list_queues(matcher *m, cleave_arena *arena, cleave_error *error) {
    const cleave_program *program = m->program;
    int32_t n_queues = 2 * program->n_devices;
    int32_t *start = CLEAVE_ARENA_ARRAY(arena, int32_t, n_queues + 1);
    int32_t *items = CLEAVE_ARENA_ARRAY(arena, int32_t, program->n_items);
    m->next = CLEAVE_ARENA_ARRAY(arena, int32_t, n_queues);
    if (start == NULL || items == NULL || m->next == NULL)
        return cleave_fail_memory(error, "reading a run");
    for (int32_t i = 0; i < program->n_items; i++)
        start[2 * program->items[i].device + program->items[i].lane + 1]++;
    for (int32_t q = 0; q < n_queues; q++) {
        start[q + 1] += start[q];
        m->next[q] = start[q];
    }
    for (int32_t i = 0; i < program->n_items; i++)
        items[m->next[2 * program->items[i].device + program->items[i].lane]++] = i;
    memcpy(m->next, start, (size_t)n_queues * sizeof *start);
    m->start = start;
    m->items = items;
    return CLEAVE_OK;
}

cleave_status report_step_measure(report_step *step, const char *trace, cleave_arena *arena,
                                  cleave_error *error) {
    const cleave_program *program = &step->of.priced.program;
    cleave_timeline measured = {.start = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_items),
                                .end = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_items)};
    matcher m = {.program = program, .measured = &measured};
    trace_reader reader;
    if (measured.start == NULL || measured.end == NULL)
        return cleave_fail_memory(error, "reading a run");
    memset(measured.start, -1, (size_t)program->n_items * sizeof *measured.start);
    memset(measured.end, -1, (size_t)program->n_items * sizeof *measured.end);
    if (step->of.priced.is_folded)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: on %d devices nothing is shown of a run: only some of them are "
                           "simulated, for all",
                           trace, step->layout->n_devices);
    CLEAVE_TRY(list_queues(&m, arena, error));
    if (!trace_reader_open(&reader, trace))
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: no trace; `cleave run --trace FILE` writes one", trace);
    cleave_status status = trace_reader_each(&reader, take_event, &m, error);
    trace_reader_close(&reader);
    CLEAVE_TRY(status);
    if (measured.step == 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: nothing was measured in it; `cleave run --trace FILE` writes what "
                           "was",
                           trace);
    step->measured = measured;
    return CLEAVE_OK;
}
