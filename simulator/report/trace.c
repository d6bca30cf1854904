/* A trace is one JSON object with a list of events, one a line: times in microseconds, a process
   (pid) per device and timeline, a thread (tid) per lane; the links are the last process.  Viewers
   sort processes by their index, which is the pid here: measured is above predicted. */
#include "simulator/report/trace.h"

#include "base/file.h"
#include "base/json.h"
#include "simulator/report/item_label.h"

#include <stdio.h>
#include <stdlib.h>

enum { N_SIDES = 2, FLUSH_BYTES = 1 << 20 };
static const char *const side_names[N_SIDES] = {"measured", "predicted"};
static const char *const lane_names[CLEAVE_N_LANES] = {"main", "communication"};

typedef struct trace_writer {
    cleave_json_writer json;
    FILE *stream;
} trace_writer;

/* Hands over what is written so far. */
static void drain(trace_writer *w) {
    if (!w->json.failed && w->json.n > 0)
        fwrite(w->json.text, 1, w->json.n, w->stream); /* commit sees the error flag */
    w->json.n = 0;
}

static void begin_metadata(cleave_json_writer *w, const char *what, int32_t process,
                           int32_t thread) {
    cleave_json_begin_object(w, true);
    cleave_json_set_string(w, "ph", "M");
    cleave_json_set_string(w, "name", what);
    cleave_json_set_integer(w, "pid", process);
    cleave_json_set_integer(w, "tid", thread);
    cleave_json_open_object(w, "args", true);
}

static void put_name(cleave_json_writer *w, const char *what, int32_t process, int32_t thread,
                     const char *name) {
    begin_metadata(w, what, process, thread);
    cleave_json_set_string(w, "name", name);
    cleave_json_end_object(w);
    cleave_json_end_object(w);
}

static void put_sort_index(cleave_json_writer *w, const char *what, int32_t process, int32_t thread,
                           int32_t index) {
    begin_metadata(w, what, process, thread);
    cleave_json_set_integer(w, "sort_index", index);
    cleave_json_end_object(w);
    cleave_json_end_object(w);
}

typedef struct span {
    const char *name, *category;
    int32_t process, thread;
    int64_t start, end; /* picoseconds */
    int64_t bytes;      /* 0: none to say */
} span;

static void put_span(trace_writer *writer, const span *s) {
    cleave_json_writer *w = &writer->json;
    cleave_json_begin_object(w, true);
    cleave_json_set_string(w, "ph", "X");
    cleave_json_set_string(w, "name", s->name);
    cleave_json_set_string(w, "cat", s->category);
    cleave_json_set_integer(w, "pid", s->process);
    cleave_json_set_integer(w, "tid", s->thread);
    cleave_json_set_number(w, "ts", (double)s->start / 1e6);
    cleave_json_set_number(w, "dur", (double)(s->end - s->start) / 1e6);
    if (s->bytes > 0) {
        cleave_json_open_object(w, "args", true);
        cleave_json_set_integer(w, "bytes", s->bytes);
        cleave_json_end_object(w);
    }
    cleave_json_end_object(w);
    if (w->n >= FLUSH_BYTES)
        drain(writer);
}

static void put_items(trace_writer *w, const cleave_program *program,
                      const cleave_timeline *timeline, int32_t side) {
    char name[256];
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        span s = {.name = name,
                  .category = cleave_item_label_of(program, item).kind,
                  .process = item->device * N_SIDES + side,
                  .thread = item->lane,
                  .start = timeline->start[i],
                  .end = timeline->end[i]};
        bool waits = item->kind == CLEAVE_ITEM_WAIT || item->kind == CLEAVE_ITEM_SYNC ||
                     item->kind == CLEAVE_ITEM_AWAIT;
        if (s.start < 0 || s.end < s.start || (waits && s.end == s.start))
            continue;
        if (item->kind == CLEAVE_ITEM_COPY)
            s.bytes = program->copies[item->subject].bytes;
        cleave_item_label_format(program, item, name, sizeof name);
        put_span(w, &s);
    }
}

static void put_link_names(cleave_json_writer *w, const cleave_trace_links *links, const bool *used,
                           int32_t process) {
    char name[256];
    put_name(w, "process_name", process, 0, "links predicted");
    put_sort_index(w, "process_sort_index", process, 0, process);
    for (int32_t l = 0; l < links->problem->n_links; l++)
        if (used[l]) {
            const cleave_link *link = &links->machine->links[l];
            snprintf(name, sizeof name, "%s -> %s", links->machine->vertex_name[link->from],
                     links->machine->vertex_name[link->to]);
            put_name(w, "thread_name", process, l, name);
        }
}

static void put_links(trace_writer *w, const cleave_program *program,
                      const cleave_trace_links *links) {
    const cleave_engine_problem *problem = links->problem;
    int32_t process = program->n_devices * N_SIDES;
    char name[256];
    bool *used = calloc((size_t)problem->n_links + 1, sizeof *used);
    if (used == NULL) {
        w->json.failed = true;
        return;
    }
    for (int32_t m = 0; m < problem->step.n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        snprintf(name, sizeof name, "%s %d -> %d",
                 cleave_item_label_tensor(program, message->tensor), message->source,
                 message->destination);
        for (int32_t h = problem->step.hop_start[m]; h < problem->step.hop_start[m + 1]; h++) {
            span s = {.name = name,
                      .category = "transfer",
                      .process = process,
                      .thread = problem->step.hop_link[h],
                      .start = links->hop_begin[h],
                      .end = links->hop_begin[h] + problem->step.hop_serialization[h],
                      .bytes = message->bytes};
            put_span(w, &s);
            used[problem->step.hop_link[h]] = true;
        }
    }
    put_link_names(&w->json, links, used, process);
    free(used);
}

static void put_device_names(cleave_json_writer *w, int32_t n_devices, int32_t side) {
    char name[64];
    for (int32_t d = 0; d < n_devices; d++) {
        int32_t process = d * N_SIDES + side;
        snprintf(name, sizeof name, "device %d %s", d, side_names[side]);
        put_name(w, "process_name", process, 0, name);
        put_sort_index(w, "process_sort_index", process, 0, process);
        for (int32_t lane = 0; lane < CLEAVE_N_LANES; lane++) {
            put_name(w, "thread_name", process, lane, lane_names[lane]);
            put_sort_index(w, "thread_sort_index", process, lane, lane);
        }
    }
}

static void put_trace(trace_writer *w, const cleave_trace *trace) {
    const cleave_timeline *sides[N_SIDES] = {trace->measured, trace->predicted};
    cleave_json_begin_object(&w->json, false);
    cleave_json_set_string(&w->json, "displayTimeUnit", "ms");
    cleave_json_open_array(&w->json, "traceEvents", false);
    for (int32_t side = 0; side < N_SIDES; side++)
        if (sides[side] != NULL) {
            put_device_names(&w->json, trace->program->n_devices, side);
            put_items(w, trace->program, sides[side], side);
        }
    if (trace->links != NULL)
        put_links(w, trace->program, trace->links);
    cleave_json_end_array(&w->json);
    cleave_json_end_object(&w->json);
    drain(w);
}

cleave_status cleave_trace_write(const char *path, const cleave_trace *trace, cleave_error *error) {
    cleave_file_writer file;
    CLEAVE_TRY(cleave_file_writer_open(&file, path, error));
    trace_writer writer = {.stream = file.stream};
    put_trace(&writer, trace);
    bool failed = writer.json.failed;
    cleave_json_writer_free(&writer.json);
    if (!failed)
        return cleave_file_writer_commit(&file, error);
    cleave_file_writer_abandon(&file);
    return cleave_fail_memory(error, "writing a trace");
}
