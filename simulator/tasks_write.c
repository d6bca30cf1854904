/* The writer that makes a task graph of a program: an exec an item, a comm a message, a dep for
   whatever one of them waits for. */
#include "simulator/tasks.h"

#include "base/file.h"

#include <inttypes.h>

static void write_time(FILE *out, int64_t picoseconds) {
    fprintf(out, "%" PRId64 ".%012" PRId64, picoseconds / INT64_C(1000000000000),
            picoseconds % INT64_C(1000000000000));
}

/* Switches come after both lanes of all devices. */
static int32_t vertex_of(const cleave_program *program, const cleave_machine *machine,
                         int32_t vertex) {
    return vertex < machine->n_devices ? vertex
                                       : vertex - machine->n_devices + 2 * program->n_devices;
}

/* Only links that messages cross: of two between the same vertices no route takes the second. */
static cleave_status write_links(FILE *out, const cleave_program *program,
                                 const cleave_machine *machine,
                                 const cleave_engine_problem *problem, cleave_error *error) {
    cleave_arena scratch = {0};
    bool *used = CLEAVE_ARENA_ARRAY(&scratch, bool, machine->n_links);
    if (used == NULL)
        return cleave_fail_memory(error, "writing a task graph");
    for (int32_t h = 0; h < problem->hop_start[problem->n_messages]; h++)
        used[problem->hop_link[h]] = true;
    for (int32_t l = 0; l < machine->n_links; l++) {
        const cleave_link *link = &machine->links[l];
        if (used[l])
            fprintf(out, "link %d %d %.17g %.17g\n", vertex_of(program, machine, link->from),
                    vertex_of(program, machine, link->to), link->bytes_per_second,
                    link->latency_seconds);
    }
    cleave_arena_free(&scratch);
    return CLEAVE_OK;
}

static void write_comm(FILE *out, const cleave_program *program, const cleave_machine *machine,
                       const cleave_engine_problem *problem, int32_t message) {
    const cleave_message *m = &program->messages[message];
    fprintf(out, "comm %d %d %d %" PRId64, program->n_items + message, m->source, m->destination,
            m->bytes);
    for (int32_t h = problem->hop_start[message]; h + 1 < problem->hop_start[message + 1]; h++)
        fprintf(out, " %d", vertex_of(program, machine, machine->links[problem->hop_link[h]].to));
    fprintf(out, "\n");
}

/* What an item takes by itself: nothing where a dep says what it waits for. */
static int64_t own_time(const cleave_engine_problem *problem, const cleave_timeline *timeline,
                        int32_t item) {
    bool by_dep = problem->kind[item] == CLEAVE_ENGINE_WAIT_ARRIVAL ||
                  problem->kind[item] == CLEAVE_ENGINE_SYNC;
    return by_dep ? 0 : timeline->end[item] - timeline->start[item];
}

static void write_deps(FILE *out, const cleave_program *program,
                       const cleave_engine_problem *problem) {
    for (int32_t q = 0; q < problem->n_queues; q++)
        for (int32_t k = problem->queue_start[q]; k < problem->queue_start[q + 1]; k++) {
            int32_t item = problem->queue_items[k].item, subject = problem->subject[item];
            if (k > problem->queue_start[q])
                fprintf(out, "dep %d %d\n", problem->queue_items[k - 1].item, item);
            if (problem->kind[item] == CLEAVE_ENGINE_POST)
                fprintf(out, "dep %d %d\n", item, program->n_items + subject);
            else if (problem->kind[item] == CLEAVE_ENGINE_WAIT_ARRIVAL)
                fprintf(out, "dep %d %d\n", program->n_items + subject, item);
            else if (problem->kind[item] == CLEAVE_ENGINE_SYNC)
                fprintf(out, "dep %d %d\n", subject, item);
        }
}

cleave_status cleave_tasks_write(const char *path, const cleave_program *program,
                                 const cleave_machine *machine,
                                 const cleave_engine_problem *problem,
                                 const cleave_timeline *timeline, cleave_error *error) {
    if (problem->n_collectives > 0)
        return cleave_fail(error, CLEAVE_FAILED,
                           "a program with symbolic collectives can't be a task graph");
    if (program->n_items > INT32_MAX - program->n_messages)
        return cleave_fail(error, CLEAVE_FAILED, "%d items and %d messages: too many for one graph",
                           program->n_items, program->n_messages);
    cleave_file_writer writer;
    CLEAVE_TRY(cleave_file_writer_open(&writer, path, error));
    FILE *out = writer.stream;
    fprintf(out, "# items 0..%d, messages from %d; devices %d..%d are communication lanes\n",
            program->n_items - 1, program->n_items, program->n_devices, 2 * program->n_devices - 1);
    fprintf(out, "node %d\n", 2 * program->n_devices);
    cleave_status status = write_links(out, program, machine, problem, error);
    if (status != CLEAVE_OK) {
        cleave_file_writer_abandon(&writer);
        return status;
    }
    for (int32_t i = 0; i < program->n_items; i++) {
        int32_t lane = problem->queue[i] & 1;
        fprintf(out, "exec %d %d ", i, problem->queue[i] / 2 + lane * program->n_devices);
        write_time(out, own_time(problem, timeline, i));
        fprintf(out, "\n");
    }
    for (int32_t m = 0; m < program->n_messages; m++)
        write_comm(out, program, machine, problem, m);
    write_deps(out, program, problem);
    return cleave_file_writer_commit(&writer, error);
}
