/* The writer that makes a task graph of a program: an exec an item, a comm a message, a dep for
   whatever one of them waits for, and an exec on a device of its own for what a message is later
   than its links. */
#include "simulator/events/tasks.h"

#include "base/file.h"

#include <inttypes.h>

typedef struct dump {
    FILE *out;
    const cleave_program *program;
    const cleave_machine *machine;
    const cleave_engine_problem *problem;
    const cleave_timeline *timeline;
    int64_t *late;  /* [n_messages] picoseconds after its links */
    int32_t *rest;  /* [n_messages] the exec that takes them, counted from 0; -1: none */
    int32_t n_late; /* messages that are late at all */
} dump;

static void write_time(FILE *out, int64_t picoseconds) {
    fprintf(out, "%" PRId64 ".%012" PRId64, picoseconds / INT64_C(1000000000000),
            picoseconds % INT64_C(1000000000000));
}

/* Switches come after both lanes of all devices, and what late messages have for themselves. */
static int32_t vertex_of(const dump *d, int32_t vertex) {
    return vertex < d->machine->n_devices
               ? vertex
               : vertex - d->machine->n_devices + 2 * d->program->n_devices + d->n_late;
}

static void find_late(dump *d, const int64_t *hop_begin) {
    const cleave_engine_problem *problem = d->problem;
    for (int32_t m = 0; m < problem->step.n_messages; m++) {
        int64_t tail = 0;
        for (int32_t h = problem->step.hop_start[m]; h < problem->step.hop_start[m + 1]; h++)
            tail = cleave_later(tail, hop_begin[h] + problem->step.hop_serialization[h]) +
                   problem->link_latency[problem->step.hop_link[h]];
        d->late[m] = d->timeline->arrival[m] - tail;
        d->rest[m] = d->late[m] > 0 ? d->n_late++ : -1;
    }
}

/* Only links that messages cross: of two between the same vertices no route takes the second. */
static cleave_status write_links(const dump *d, cleave_arena *scratch, cleave_error *error) {
    const cleave_engine_problem *problem = d->problem;
    bool *used = CLEAVE_ARENA_ARRAY(scratch, bool, d->machine->n_links);
    if (used == NULL)
        return cleave_fail_memory(error, "writing a task graph");
    for (int32_t h = 0; h < problem->step.hop_start[problem->step.n_messages]; h++)
        used[problem->step.hop_link[h]] = true;
    for (int32_t l = 0; l < d->machine->n_links; l++) {
        const cleave_link *link = &d->machine->links[l];
        if (used[l])
            fprintf(d->out, "link %d %d %.17g %.17g\n", vertex_of(d, link->from),
                    vertex_of(d, link->to), link->bytes_per_second, link->latency_seconds);
    }
    return CLEAVE_OK;
}

static void write_exec(const dump *d, int32_t task, int32_t device, int64_t picoseconds) {
    fprintf(d->out, "exec %d %d ", task, device);
    write_time(d->out, picoseconds);
    fprintf(d->out, "\n");
}

static void write_comm(const dump *d, int32_t message) {
    const cleave_message *m = &d->program->messages[message];
    const int32_t *hop_start = d->problem->step.hop_start;
    fprintf(d->out, "comm %d %d %d %" PRId64, d->program->n_items + message, m->source,
            m->destination, m->bytes);
    for (int32_t h = hop_start[message]; h + 1 < hop_start[message + 1]; h++)
        fprintf(d->out, " %d", vertex_of(d, d->machine->links[d->problem->step.hop_link[h]].to));
    fprintf(d->out, "\n");
}

/* The task at whose end a message has arrived. */
static int32_t arrival_of(const dump *d, int32_t message) {
    int32_t comm = d->program->n_items + message, rest = d->rest[message];
    return rest < 0 ? comm : d->program->n_items + d->program->n_messages + rest;
}

/* What an item takes by itself: nothing where a dep says what it waits for. */
static int64_t own_time(const dump *d, int32_t item) {
    uint8_t kind = d->problem->step.kind[item];
    bool by_dep = kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_SYNC;
    return by_dep ? 0 : d->timeline->end[item] - d->timeline->start[item];
}

static void write_tasks(const dump *d) {
    const cleave_program *program = d->program;
    for (int32_t i = 0; i < program->n_items; i++) {
        int32_t lane = d->problem->step.queue[i] & 1;
        write_exec(d, i, d->problem->step.queue[i] / 2 + lane * program->n_devices, own_time(d, i));
    }
    for (int32_t m = 0; m < program->n_messages; m++)
        write_comm(d, m);
    for (int32_t m = 0; m < program->n_messages; m++)
        if (d->rest[m] >= 0)
            write_exec(d, arrival_of(d, m), 2 * program->n_devices + d->rest[m], d->late[m]);
}

static void write_deps(const dump *d) {
    const cleave_engine_problem *problem = d->problem;
    FILE *out = d->out;
    int32_t n_items = d->program->n_items;
    for (int32_t m = 0; m < d->program->n_messages; m++)
        if (d->rest[m] >= 0)
            fprintf(out, "dep %d %d\n", n_items + m, arrival_of(d, m));
    for (int32_t q = 0; q < problem->n_queues; q++)
        for (int32_t k = problem->queue_start[q]; k < problem->queue_start[q + 1]; k++) {
            int32_t item = problem->queue_items[k].item, subject = problem->step.subject[item];
            if (k > problem->queue_start[q])
                fprintf(out, "dep %d %d\n", problem->queue_items[k - 1].item, item);
            if (problem->step.kind[item] == CLEAVE_PRICED_POST)
                fprintf(out, "dep %d %d\n", item, n_items + subject);
            else if (problem->step.kind[item] == CLEAVE_PRICED_WAIT_ARRIVAL)
                fprintf(out, "dep %d %d\n", arrival_of(d, subject), item);
            else if (problem->step.kind[item] == CLEAVE_PRICED_SYNC)
                fprintf(out, "dep %d %d\n", subject, item);
        }
}

static cleave_status write_all(dump *d, const int64_t *hop_begin, cleave_arena *scratch,
                               cleave_error *error) {
    d->late = CLEAVE_ARENA_ARRAY(scratch, int64_t, d->program->n_messages);
    d->rest = CLEAVE_ARENA_ARRAY(scratch, int32_t, d->program->n_messages);
    if (d->late == NULL || d->rest == NULL)
        return cleave_fail_memory(error, "writing a task graph");
    find_late(d, hop_begin);
    int32_t n = d->program->n_devices, n_items = d->program->n_items;
    fprintf(d->out, "# items 0..%d, messages from %d; devices %d..%d are communication lanes\n",
            n_items - 1, n_items, n, 2 * n - 1);
    fprintf(d->out, "node %d\n", 2 * n + d->n_late);
    CLEAVE_TRY(write_links(d, scratch, error));
    write_tasks(d);
    write_deps(d);
    return CLEAVE_OK;
}

cleave_status cleave_tasks_write(const char *path, const cleave_program *program,
                                 const cleave_machine *machine,
                                 const cleave_engine_problem *problem,
                                 const cleave_timeline *timeline, const int64_t *hop_begin,
                                 cleave_error *error) {
    if (problem->step.n_collectives > 0)
        return cleave_fail(error, CLEAVE_FAILED,
                           "a program with symbolic collectives can't be a task graph");
    if (program->n_items > INT32_MAX - 2 * (int64_t)program->n_messages - 2 * program->n_devices)
        return cleave_fail(error, CLEAVE_FAILED, "%d items and %d messages: too many for one graph",
                           program->n_items, program->n_messages);
    cleave_file_writer writer;
    cleave_arena scratch = {0};
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    dump d = {.out = writer.stream,
              .program = program,
              .machine = machine,
              .problem = problem,
              .timeline = timeline};
    cleave_status status = write_all(&d, hop_begin, &scratch, error);
    cleave_arena_free(&scratch);
    if (status != CLEAVE_OK) {
        cleave_file_writer_abandon(&writer);
        return status;
    }
    return cleave_file_writer_commit(&writer, error);
}
