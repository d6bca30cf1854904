/* A trace is one JSON object with a list of events, one a line: times in microseconds, a process
   (pid) per device and a thread (tid) per lane; the links are the process after the last device. */
#include "simulator/trace.h"

#include "base/file.h"
#include "base/json.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const item_names[] = {"compute", "update", "load", "copy", "send",
                                         "receive", "wait",   "sync", "join", "await"};
static const char *const lane_names[CLEAVE_N_LANES] = {"main", "communication"};

static void put_name(cleave_json_writer *w, const char *what, int32_t process, int32_t thread,
                     const char *name) {
    cleave_json_begin_object(w, true);
    cleave_json_key(w, "ph");
    cleave_json_put_string(w, "M");
    cleave_json_key(w, "name");
    cleave_json_put_string(w, what);
    cleave_json_key(w, "pid");
    cleave_json_put_integer(w, process);
    cleave_json_key(w, "tid");
    cleave_json_put_integer(w, thread);
    cleave_json_key(w, "args");
    cleave_json_begin_object(w, true);
    cleave_json_key(w, "name");
    cleave_json_put_string(w, name);
    cleave_json_end_object(w);
    cleave_json_end_object(w);
}

typedef struct span {
    const char *name, *category;
    int32_t process, thread;
    int64_t start, end; /* picoseconds */
    int64_t bytes;      /* 0: none to say */
} span;

static void put_span(cleave_json_writer *w, const span *s) {
    cleave_json_begin_object(w, true);
    cleave_json_key(w, "ph");
    cleave_json_put_string(w, "X");
    cleave_json_key(w, "name");
    cleave_json_put_string(w, s->name);
    cleave_json_key(w, "cat");
    cleave_json_put_string(w, s->category);
    cleave_json_key(w, "pid");
    cleave_json_put_integer(w, s->process);
    cleave_json_key(w, "tid");
    cleave_json_put_integer(w, s->thread);
    cleave_json_key(w, "ts");
    cleave_json_put_number(w, (double)s->start * 1e-6);
    cleave_json_key(w, "dur");
    cleave_json_put_number(w, (double)(s->end - s->start) * 1e-6);
    if (s->bytes > 0) {
        cleave_json_key(w, "args");
        cleave_json_begin_object(w, true);
        cleave_json_key(w, "bytes");
        cleave_json_put_integer(w, s->bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_object(w);
}

static const char *tensor_name(const cleave_program *program, int32_t tensor) {
    bool known = tensor >= 0 && tensor < program->model->n_tensors;
    return known ? program->model->tensors[tensor].name : "?";
}

static void name_item(const cleave_program *program, const cleave_item *item, char *name,
                      size_t bytes) {
    const char *kind = item_names[item->kind];
    const cleave_compute *compute;
    const cleave_message *message;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        compute = &program->computes[item->subject];
        snprintf(name, bytes, "%s %s", program->model->nests[compute->nest].name,
                 cleave_pass_names[compute->pass]);
        break;
    case CLEAVE_ITEM_UPDATE:
        snprintf(name, bytes, "%s update",
                 tensor_name(program, program->updates[item->subject].tensor));
        break;
    case CLEAVE_ITEM_SEND:
    case CLEAVE_ITEM_RECEIVE:
    case CLEAVE_ITEM_WAIT:
        message = &program->messages[item->subject];
        snprintf(name, bytes, "%s %s %d -> %d", kind, tensor_name(program, message->tensor),
                 message->source, message->destination);
        break;
    case CLEAVE_ITEM_LOAD:
        snprintf(
            name, bytes, "%s %s", kind,
            tensor_name(program, program->buffers[program->loads[item->subject].buffer].tensor));
        break;
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        snprintf(name, bytes, "%s %s", kind,
                 tensor_name(program, program->collectives[item->subject].tensor));
        break;
    case CLEAVE_ITEM_COPY:
    case CLEAVE_ITEM_SYNC:
        snprintf(name, bytes, "%s", kind);
    }
}

static void put_items(cleave_json_writer *w, const cleave_program *program,
                      const cleave_timeline *timeline) {
    char name[256];
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        span s = {.name = name,
                  .category = item_names[item->kind],
                  .process = item->device,
                  .thread = item->lane,
                  .start = timeline->start[i],
                  .end = timeline->end[i]};
        bool waits = item->kind == CLEAVE_ITEM_WAIT || item->kind == CLEAVE_ITEM_SYNC ||
                     item->kind == CLEAVE_ITEM_AWAIT;
        if (s.start < 0 || s.end < s.start || (waits && s.end == s.start))
            continue;
        if (item->kind == CLEAVE_ITEM_COPY)
            s.bytes = program->copies[item->subject].bytes;
        name_item(program, item, name, sizeof name);
        put_span(w, &s);
    }
}

static void put_links(cleave_json_writer *w, const cleave_program *program,
                      const cleave_trace_links *links) {
    const cleave_engine_problem *problem = links->problem;
    char name[256];
    bool *used = calloc((size_t)problem->n_links + 1, sizeof *used);
    w->failed |= used == NULL;
    for (int32_t m = 0; m < problem->n_messages && used != NULL; m++) {
        const cleave_message *message = &program->messages[m];
        snprintf(name, sizeof name, "%s %d -> %d", tensor_name(program, message->tensor),
                 message->source, message->destination);
        for (int32_t h = problem->hop_start[m]; h < problem->hop_start[m + 1]; h++) {
            span s = {.name = name,
                      .category = "transfer",
                      .process = program->n_devices,
                      .thread = problem->hop_link[h],
                      .start = links->hop_begin[h],
                      .end = links->hop_begin[h] + problem->hop_serialization[h],
                      .bytes = message->bytes};
            put_span(w, &s);
            used[problem->hop_link[h]] = true;
        }
    }
    put_name(w, "process_name", program->n_devices, 0, "links");
    for (int32_t l = 0; l < problem->n_links && used != NULL; l++)
        if (used[l]) {
            const cleave_link *link = &links->machine->links[l];
            snprintf(name, sizeof name, "%s -> %s", links->machine->vertex_name[link->from],
                     links->machine->vertex_name[link->to]);
            put_name(w, "thread_name", program->n_devices, l, name);
        }
    free(used);
}

static void put_trace(cleave_json_writer *w, const cleave_program *program,
                      const cleave_timeline *timeline, const cleave_trace_links *links) {
    char name[64];
    cleave_json_begin_object(w, false);
    cleave_json_key(w, "displayTimeUnit");
    cleave_json_put_string(w, "ms");
    cleave_json_key(w, "traceEvents");
    cleave_json_begin_array(w, false);
    for (int32_t d = 0; d < program->n_devices; d++) {
        snprintf(name, sizeof name, "device %d", d);
        put_name(w, "process_name", d, 0, name);
        for (int32_t lane = 0; lane < CLEAVE_N_LANES; lane++)
            put_name(w, "thread_name", d, lane, lane_names[lane]);
    }
    put_items(w, program, timeline);
    if (links != NULL)
        put_links(w, program, links);
    cleave_json_end_array(w);
    cleave_json_end_object(w);
}

cleave_status cleave_trace_write(const char *path, const cleave_program *program,
                                 const cleave_timeline *timeline, const cleave_trace_links *links,
                                 cleave_error *error) {
    cleave_json_writer writer = {0};
    put_trace(&writer, program, timeline, links);
    cleave_status status = writer.failed ? cleave_fail_memory(error, "writing a trace")
                                         : cleave_file_write(path, writer.text, writer.n, error);
    cleave_json_writer_free(&writer);
    return status;
}
