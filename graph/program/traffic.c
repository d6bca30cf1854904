#include "graph/program/traffic.h"

static int32_t count_windows(const cleave_program *program) {
    return program->n_windows > 1 ? program->n_windows : 1;
}

static bool has_plan(const cleave_collective *of) {
    return cleave_collective_has_plan(of->kind, of->algorithm, of->n_devices, of->node_members);
}

static cleave_collective_plan plan_of(const cleave_collective *of) {
    return cleave_collective_plan_of(of->kind, of->algorithm, of->n_devices, of->node_members);
}

void cleave_collective_sends(const cleave_collective *of, double bytes, cleave_send_function *send,
                             void *context) {
    for (int32_t t = 0; t < of->n_transfers; t++)
        send(context, of->devices[of->transfers[t].source],
             of->devices[of->transfers[t].destination], (double)of->transfers[t].bytes);
    if (!has_plan(of))
        return;
    const cleave_collective_plan plan = plan_of(of);
    for (int32_t s = 0; s < plan.n_steps;) {
        const cleave_collective_step step = cleave_collective_step_of(&plan, s);
        for (int32_t e = 0; e < step.n_exchanges; e++) {
            const cleave_exchange exchange = cleave_collective_exchange_of(&plan, &step, e);
            send(context, of->devices[exchange.from], of->devices[exchange.to],
                 bytes * (exchange.end - exchange.first) / plan.n_blocks * step.alike);
        }
        s += step.alike;
    }
}

/* Of each byte that every device has, or gets, all devices send so many. */
static double sent_per_byte(const cleave_collective *of) {
    if (of->kind == CLEAVE_ALL_TO_ALL)
        return 1;
    if (!has_plan(of))
        return 0;
    const cleave_collective_plan plan = plan_of(of);
    double blocks = 0;
    for (int32_t s = 0; s < plan.n_steps;) {
        const cleave_collective_step step = cleave_collective_step_of(&plan, s);
        double in_step = 0;
        for (int32_t e = 0; e < step.n_exchanges; e++) {
            const cleave_exchange exchange = cleave_collective_exchange_of(&plan, &step, e);
            in_step += exchange.end - exchange.first;
        }
        blocks += in_step * step.alike;
        s += step.alike;
    }
    return blocks / plan.n_blocks;
}

static int64_t times_of_message(const cleave_traffic_times *times, int32_t message) {
    return times != NULL && times->messages != NULL ? times->messages[message] : 1;
}
static int64_t times_of_collective(const cleave_traffic_times *times, int32_t collective) {
    return times != NULL && times->collectives != NULL ? times->collectives[collective] : 1;
}

int64_t cleave_program_bytes_sent(const cleave_program *program,
                                  const cleave_traffic_times *times) {
    int32_t n_windows = count_windows(program);
    int64_t messages = 0, collectives = 0;
    double per_byte = 0;
    const cleave_collective *last = NULL; /* many tensors are combined by the same devices */
    for (int32_t m = 0; m < program->n_messages; m++)
        messages += program->messages[m].bytes * times_of_message(times, m);
    for (int32_t c = 0; c < program->n_collectives && program->symbolic; c++) {
        const cleave_collective *of = &program->collectives[c];
        if (last == NULL || of->kind != last->kind || of->algorithm != last->algorithm ||
            of->n_devices != last->n_devices || of->node_members != last->node_members)
            per_byte = sent_per_byte(of);
        last = of;
        int64_t times_each =
            times_of_collective(times, c) * (cleave_program_spans(program, of) ? 1 : n_windows);
        collectives += times_each * (int64_t)(per_byte * (double)of->bytes + 0.5);
    }
    return messages * n_windows + collectives;
}

static cleave_sent *find_kind(cleave_sent *sent, int32_t *n, const cleave_collective *of) {
    int32_t i = 0;
    while (i < *n && (sent[i].kind != of->kind || sent[i].n_devices != of->n_devices))
        i++;
    if (i == *n)
        sent[(*n)++] = (cleave_sent){.kind = of->kind, .n_devices = of->n_devices};
    return &sent[i];
}

cleave_status cleave_program_sent_by_kind(const cleave_program *program,
                                          const cleave_traffic_times *times, cleave_arena *arena,
                                          cleave_sent **sent, int32_t *n_sent,
                                          cleave_error *error) {
    int32_t n_windows = count_windows(program), n = 0;
    cleave_sent *list = CLEAVE_ARENA_ARRAY(arena, cleave_sent, program->n_collectives + 1);
    if (list == NULL)
        return cleave_fail_memory(error, "counting what collectives send");
    for (int32_t c = 0; c < program->n_collectives; c++) {
        const cleave_collective *of = &program->collectives[c];
        int64_t times_each =
            times_of_collective(times, c) * (cleave_program_spans(program, of) ? 1 : n_windows);
        cleave_sent *kind = find_kind(list, &n, of);
        kind->times += times_each;
        kind->bytes += times_each * of->bytes;
        kind->bytes_sent += times_each * (int64_t)(sent_per_byte(of) * (double)of->bytes + 0.5);
    }
    cleave_sent messages = {.messages = true, .n_devices = 2};
    for (int32_t m = 0; m < program->n_messages; m++) {
        int64_t times_each = times_of_message(times, m) * n_windows;
        messages.bytes += program->messages[m].bytes * times_each;
        messages.times += times_each;
    }
    messages.bytes_sent = messages.bytes;
    if (messages.times > 0)
        list[n++] = messages;
    *sent = list;
    *n_sent = n;
    return CLEAVE_OK;
}

/* Between every two devices; windows are so many devices apart.  In shares of a byte: what blocks
   of collectives are is rounded to these, so that sums are exact. */
enum { SHARES = 1 << 14 };

typedef struct matrix {
    int64_t *shares;
    size_t n, window;
    int32_t n_windows;
    int64_t times;
} matrix;

static void add(void *context, int32_t source, int32_t destination, double bytes) {
    const matrix *to = context;
    int64_t shares = to->times * (int64_t)(bytes * SHARES + 0.5);
    for (int32_t j = 0; j < to->n_windows; j++) {
        size_t first = (size_t)j * to->window;
        to->shares[(first + (size_t)source) * to->n + first + (size_t)destination] += shares;
    }
}

cleave_status cleave_program_bytes_between(const cleave_program *program,
                                           const cleave_traffic_times *times, cleave_arena *arena,
                                           int64_t **bytes, cleave_error *error) {
    matrix each = {.n_windows = count_windows(program),
                   .window = (size_t)cleave_program_stride(program)};
    each.n = (size_t)program->n_devices * (size_t)each.n_windows;
    each.shares = CLEAVE_ARENA_ARRAY(arena, int64_t, each.n * each.n);
    if (each.shares == NULL)
        return cleave_fail_memory(error, "counting bytes between devices");
    for (int32_t m = 0; m < program->n_messages; m++) {
        each.times = times_of_message(times, m);
        add(&each, cleave_program_device(program, program->messages[m].source),
            cleave_program_device(program, program->messages[m].destination),
            (double)program->messages[m].bytes);
    }
    for (int32_t c = 0; c < program->n_collectives && program->symbolic; c++) {
        const cleave_collective *of = &program->collectives[c];
        matrix to = each;
        to.n_windows = cleave_program_spans(program, of) ? 1 : each.n_windows;
        to.times = times_of_collective(times, c);
        cleave_collective_sends(of, (double)of->bytes, add, &to);
    }
    for (size_t i = 0; i < each.n * each.n; i++)
        each.shares[i] = (each.shares[i] + SHARES / 2) / SHARES;
    *bytes = each.shares;
    return CLEAVE_OK;
}
