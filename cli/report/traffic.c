#include "cli/report/traffic.h"

#include "base/order.h"
#include "graph/program/traffic.h"

#include <string.h>

typedef struct counter {
    const report_step *step;
    report_traffic *traffic;
    report_link *links; /* [machine's] */
    bool takes_busy;    /* links are as long busy as it takes to send what crosses them; else the
                           simulation has said how long */
} counter;

/* Rows of the matrix are devices where there are few, else whole nodes. */
static void choose_cells(const report_step *step, report_traffic *traffic) {
    int32_t n = step->layout->n_devices, node = step->machine->devices_per_node;
    int32_t each = (n + REPORT_MOST_CELLS - 1) / REPORT_MOST_CELLS;
    if (each > 1 && node > 1)
        each = (each + node - 1) / node * node;
    traffic->devices_per_cell = each;
    traffic->n_cells = (n + each - 1) / each;
}

static void send(counter *c, int32_t source, int32_t destination, double bytes) {
    report_traffic *t = c->traffic;
    int32_t route[CLEAVE_MAX_ROUTE];
    int32_t row = source / t->devices_per_cell, column = destination / t->devices_per_cell;
    double *cell = &t->bytes[(size_t)row * (size_t)t->n_cells + (size_t)column];
    *cell += bytes;
    t->total_bytes += bytes;
    int32_t n = cleave_machine_route(c->step->machine, source, destination, route);
    for (int32_t i = 0; i < n; i++) {
        c->links[route[i]].bytes += bytes;
        if (c->takes_busy)
            c->links[route[i]].busy_seconds +=
                bytes / c->step->machine->links[route[i]].bytes_per_second;
    }
}

/* The same in so many windows, and in each as in the first. */
typedef struct windows {
    counter *counter;
    int32_t n;
} windows;

static void send_in_windows(void *context, int32_t source, int32_t destination, double bytes) {
    const windows *to = context;
    int32_t stride = cleave_program_stride(&to->counter->step->of.priced.program);
    for (int32_t j = 0; j < to->n; j++)
        send(to->counter, source + j * stride, destination + j * stride, bytes);
}

/* ---- messages ---- */

static cleave_status count_messages(counter *c, cleave_arena *scratch, cleave_error *error) {
    const cleave_program *program = &c->step->of.priced.program;
    windows to = {c, report_step_windows(c->step)};
    size_t n = (size_t)program->n_devices;
    int64_t *between = CLEAVE_ARENA_ARRAY(scratch, int64_t, n * n);
    if (between == NULL)
        return cleave_fail_memory(error, "counting traffic");
    for (int32_t m = 0; m < program->n_messages; m++)
        between[(size_t)program->messages[m].source * n +
                (size_t)program->messages[m].destination] += program->messages[m].bytes;
    for (int32_t source = 0; source < program->n_devices; source++)
        for (int32_t destination = 0; destination < program->n_devices; destination++) {
            int64_t bytes = between[(size_t)source * n + (size_t)destination];
            if (bytes > 0)
                send_in_windows(&to, cleave_program_device(program, source),
                                cleave_program_device(program, destination), (double)bytes);
        }
    return CLEAVE_OK;
}

/* Of a program in steps. */
static void take_busy_links(counter *c) {
    const cleave_priced_fragment *step = &c->step->of.simulated.problem.step;
    for (int32_t h = 0; h < step->hop_start[step->n_messages]; h++)
        c->links[step->hop_link[h]].busy_seconds += 1e-12 * (double)step->hop_serialization[h];
}

/* ---- collectives in closed form ---- */

static bool goes_alike(const cleave_collective *a, const cleave_collective *b) {
    return a->kind == b->kind && a->algorithm == b->algorithm &&
           a->node_members == b->node_members && a->n_devices == b->n_devices &&
           (a->devices == b->devices ||
            memcmp(a->devices, b->devices, (size_t)a->n_devices * sizeof *a->devices) == 0);
}

static void send_collective(counter *c, const cleave_collective *of, double bytes) {
    bool spans = cleave_program_spans(&c->step->of.priced.program, of);
    windows to = {c, spans ? 1 : report_step_windows(c->step)};
    cleave_collective_sends(of, bytes, send_in_windows, &to);
}

/* Many tensors are combined by the same devices: these are sent as one. */
static cleave_status count_collectives(counter *c, cleave_arena *scratch, cleave_error *error) {
    const cleave_program *program = &c->step->of.priced.program;
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_collectives);
    double *bytes = CLEAVE_ARENA_ARRAY(scratch, double, program->n_collectives);
    int32_t n = 0;
    if (first == NULL || bytes == NULL)
        return cleave_fail_memory(error, "counting traffic");
    for (int32_t i = 0; i < program->n_collectives; i++) {
        const cleave_collective *of = &program->collectives[i];
        int32_t k = of->n_transfers > 0 ? n : 0;
        while (k < n && !goes_alike(of, &program->collectives[first[k]]))
            k++;
        if (k == n)
            first[n++] = i;
        bytes[k] += (double)of->bytes;
    }
    for (int32_t k = 0; k < n; k++)
        send_collective(c, &program->collectives[first[k]], bytes[k]);
    return CLEAVE_OK;
}

/* ---- all of it ---- */

static int by_busy(const void *a, const void *b) {
    const report_link *x = a, *y = b;
    CLEAVE_ORDER_BY(y->busy_seconds, x->busy_seconds);
    return CLEAVE_ORDER(x->link, y->link);
}

static void sort_links(counter *c) {
    report_traffic *t = c->traffic;
    for (int32_t l = 0; l < c->step->machine->n_links; l++)
        if (c->links[l].bytes > 0) {
            c->links[t->n_links] = c->links[l];
            c->links[t->n_links++].link = l;
        }
    t->links = c->links;
    CLEAVE_SORT(t->links, t->n_links, by_busy);
    for (size_t i = 0; i < (size_t)t->n_cells * (size_t)t->n_cells; i++)
        t->most_bytes = t->bytes[i] > t->most_bytes ? t->bytes[i] : t->most_bytes;
}

cleave_status report_traffic_find(const report_step *step, cleave_arena *arena,
                                  report_traffic *traffic, cleave_error *error) {
    report_traffic made = {0};
    choose_cells(step, &made);
    made.bytes = CLEAVE_ARENA_ARRAY(arena, double, (size_t)made.n_cells *(size_t)made.n_cells);
    counter c = {.step = step,
                 .traffic = &made,
                 .takes_busy = step->of.priced.program.symbolic,
                 .links = CLEAVE_ARENA_ARRAY(arena, report_link, step->machine->n_links)};
    if (made.bytes == NULL || c.links == NULL)
        return cleave_fail_memory(error, "counting traffic");
    cleave_arena scratch = {0};
    cleave_status status = count_messages(&c, &scratch, error);
    if (status == CLEAVE_OK &&
        step->of.priced.program.symbolic) /* else they stand there in messages, too */
        status = count_collectives(&c, &scratch, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    if (!c.takes_busy)
        take_busy_links(&c);
    sort_links(&c);
    *traffic = made;
    return CLEAVE_OK;
}
