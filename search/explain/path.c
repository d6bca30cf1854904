/* Every segment of the critical path is an item, and every item lies in a slot: the slot's nest
   says the operator, the item's kind and lane the sort of work. */
#include "search/explain/path.h"

#include "base/order.h"
#include "graph/program/memory_plan.h"
#include "simulator/report/critical_path.h"
#include "simulator/step/busy.h"

#include <string.h>

const char *const explain_sort_names[EXPLAIN_N_SORTS] = {
    "forward", "input-gradient", "weight-gradient", "update", "exchange", "sync", "waiting"};

typedef struct finder {
    const cleave_model *model;
    const cleave_program *program;
    const cleave_few *few; /* null: the program has all items */
    const cleave_engine_problem *problem;
    const cleave_turned *turned;
    const int32_t *reader; /* [n_tensors] first operator that reads a base tensor, or -1 */
    explain_path *path;
} finder;

static cleave_status find_readers(const cleave_model *model, cleave_arena *scratch,
                                  const int32_t **reader, cleave_error *error) {
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, model->n_tensors);
    if (first == NULL)
        return cleave_fail_memory(error, "explaining a step");
    memset(first, -1, (size_t)model->n_tensors * sizeof *first);
    for (int32_t n = model->n_nests - 1; n >= 0; n--)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            first[cleave_tensor_base(model, model->nests[n].inputs[i].tensor)] = model->nests[n].op;
    *reader = first;
    return CLEAVE_OK;
}

/* The operator that a tensor's pieces are charged to: who writes it, or who reads it first. */
static int32_t operator_of_tensor(const finder *f, int32_t tensor) {
    if (tensor < 0)
        return -1;
    int32_t base = cleave_tensor_base(f->model, tensor);
    int32_t writer = f->model->writer[base];
    return writer >= 0 ? f->model->nests[writer].op : f->reader[base];
}

static int32_t operator_of_item(const finder *f, const cleave_item *item) {
    if (item->slot < 0 || item->slot >= f->program->n_slots)
        return -1;
    const cleave_slot *slot = &f->program->slots[item->slot];
    return slot->nest >= 0 ? f->model->nests[slot->nest].op : operator_of_tensor(f, slot->tensor);
}

explain_sort explain_sort_of_item(const cleave_program *program, const cleave_item *item) {
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        return (explain_sort)program->computes[item->subject].pass;
    case CLEAVE_ITEM_UPDATE:
        return EXPLAIN_UPDATE;
    default:
        return item->lane == CLEAVE_LANE_COMMUNICATION ? EXPLAIN_SYNC : EXPLAIN_EXCHANGE;
    }
}

/* ---- the path ---- */

static void charge(finder *f, int32_t op, explain_sort sort, int64_t picoseconds) {
    f->path->picoseconds[sort] += picoseconds;
    if (op < 0)
        return;
    f->path->operators[op].picoseconds[sort] += picoseconds;
    f->path->operators[op].total += picoseconds;
}

/* A wait for a message: as long as the links are taken by it, that is its transfer; the rest is
   latency, and what the links carried before it. */
static int64_t transfer_of(const finder *f, int32_t message, int64_t waited) {
    int64_t taken = 0;
    for (int32_t h = f->problem->step.hop_start[message];
         h < f->problem->step.hop_start[message + 1]; h++)
        taken += f->problem->step.hop_serialization[h];
    return taken < waited ? taken : waited;
}

static bool waits_for_message(const finder *f, int32_t item) {
    uint8_t kind = f->problem->step.kind[item];
    return kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_WAIT_RELEASE;
}

static void charge_segment(finder *f, const cleave_critical_segment *segment) {
    const cleave_item *item = &f->program->items[segment->item];
    int32_t op = operator_of_item(f, item);
    explain_sort sort = explain_sort_of_item(f->program, item);
    if (!waits_for_message(f, segment->item)) {
        charge(f, op, sort, segment->picoseconds);
        return;
    }
    int64_t transfer =
        transfer_of(f, f->problem->step.subject[segment->item], segment->picoseconds);
    charge(f, op, sort, transfer);
    if (op >= 0)
        f->path->operators[op].transfers += transfer;
    charge(f, op, EXPLAIN_WAITING, segment->picoseconds - transfer);
}

typedef struct use {
    int32_t op, link;
    int64_t picoseconds;
} use;

static int by_operator_and_link(const void *a, const void *b) {
    const use *x = a, *y = b;
    CLEAVE_ORDER_BY(x->op, y->op);
    return CLEAVE_ORDER(x->link, y->link);
}

/* The slowest link of every transfer on the path, added up by operator. */
static cleave_status find_links(finder *f, const cleave_critical_path *critical,
                                cleave_arena *scratch, cleave_error *error) {
    use *uses = CLEAVE_ARENA_ARRAY(scratch, use, critical->n);
    if (uses == NULL)
        return cleave_fail_memory(error, "explaining a step");
    int32_t n = 0;
    for (int32_t i = 0; i < critical->n; i++) {
        int32_t item = critical->segments[i].item, best = -1;
        int32_t op = operator_of_item(f, &f->program->items[item]);
        if (op < 0 || !waits_for_message(f, item))
            continue;
        int32_t m = f->problem->step.subject[item];
        for (int32_t h = f->problem->step.hop_start[m]; h < f->problem->step.hop_start[m + 1]; h++)
            if (best < 0 ||
                f->problem->step.hop_serialization[h] > f->problem->step.hop_serialization[best])
                best = h;
        uses[n++] = (use){op, f->problem->step.hop_link[best], critical->segments[i].picoseconds};
    }
    CLEAVE_SORT(uses, n, by_operator_and_link);
    for (int32_t i = 0; i < n;) {
        use sum = uses[i];
        for (i++; i < n && uses[i].op == sum.op && uses[i].link == sum.link; i++)
            sum.picoseconds += uses[i].picoseconds;
        explain_operator *op = &f->path->operators[sum.op];
        if (sum.picoseconds > op->link_picoseconds) {
            op->link = sum.link;
            op->link_picoseconds = sum.picoseconds;
        }
    }
    return CLEAVE_OK;
}

/* ---- what is busiest, and fullest ---- */

static cleave_status find_busiest(finder *f, cleave_arena *scratch, cleave_error *error) {
    cleave_busy busy;
    CLEAVE_TRY(cleave_busy_find(f->problem, f->turned, scratch, &busy, error));
    for (int32_t d = 0; d < busy.n_devices; d++)
        if (busy.device[d] > f->path->device_busy) {
            f->path->device_busy = busy.device[d];
            f->path->busiest_device = d;
        }
    for (int32_t l = 0; l < busy.n_links; l++)
        if (busy.link[l] > f->path->link_busy) {
            f->path->link_busy = busy.link[l];
            f->path->busiest_link = l;
        }
    return CLEAVE_OK;
}

static bool is_held(const cleave_buffer *buffer) {
    switch (buffer->kind) {
    case CLEAVE_BUFFER_PARAMETER:
    case CLEAVE_BUFFER_GRADIENT:
    case CLEAVE_BUFFER_STATE:
    case CLEAVE_BUFFER_RUNNING:
    case CLEAVE_BUFFER_ACTIVATION:
        return true;
    default:
        return false;
    }
}

/* How many buffers, of as many micro-batches, one stands for. */
static int64_t times_of_buffer(const finder *f, int32_t buffer) {
    return f->few != NULL ? cleave_few_times_of_buffer(f->few, buffer) : 1;
}

/* Memory that operators hold: [n_operators x n_devices] would be large, so device by device. */
static cleave_status find_memory(finder *f, cleave_arena *scratch, cleave_error *error) {
    const cleave_program *program = f->program;
    int32_t *next = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_buffers);
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices);
    int64_t *bytes = CLEAVE_ARENA_ARRAY(scratch, int64_t, f->model->n_operators);
    if (next == NULL || first == NULL || bytes == NULL)
        return cleave_fail_memory(error, "explaining a step");
    memset(first, -1, (size_t)program->n_devices * sizeof *first);
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *buffer = &program->buffers[b];
        if (buffer->storage != b || !is_held(buffer) || operator_of_tensor(f, buffer->tensor) < 0)
            continue;
        next[b] = first[buffer->device];
        first[buffer->device] = b;
    }
    for (int32_t d = 0; d < program->n_devices; d++) {
        memset(bytes, 0, (size_t)f->model->n_operators * sizeof *bytes);
        for (int32_t b = first[d]; b >= 0; b = next[b]) {
            int32_t op = operator_of_tensor(f, program->buffers[b].tensor);
            bytes[op] += program->buffers[b].bytes * times_of_buffer(f, b);
            if (bytes[op] > f->path->operators[op].memory_bytes)
                f->path->operators[op].memory_bytes = bytes[op];
        }
    }
    return CLEAVE_OK;
}

/* The lives of the fullest device's buffers: of all micro-batches. */
static cleave_status list_lives(finder *f, cleave_arena *scratch, cleave_few_lives *lives,
                                cleave_error *error) {
    const cleave_program *program = f->program;
    if (f->few != NULL)
        return cleave_few_list_lives(f->few, f->path->fullest_device, scratch, lives, error);
    *lives =
        (cleave_few_lives){.n_positions = program->n_items,
                           .lives = CLEAVE_ARENA_ARRAY(scratch, cleave_life, program->n_buffers),
                           .buffers = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_buffers)};
    if (lives->lives == NULL || lives->buffers == NULL)
        return cleave_fail_memory(error, "explaining a step");
    for (int32_t b = 0; b < program->n_buffers; b++) {
        if (program->buffers[b].device != f->path->fullest_device ||
            program->buffers[b].storage != b)
            continue;
        lives->lives[lives->n] = cleave_buffer_life(&program->buffers[b]);
        lives->buffers[lives->n++] = b;
    }
    return CLEAVE_OK;
}

/* What lies in the fullest device's arena at the item where most is in use. */
static cleave_status find_held(finder *f, cleave_arena *scratch, cleave_error *error) {
    cleave_few_lives lives;
    CLEAVE_TRY(list_lives(f, scratch, &lives, error));
    int64_t *change = CLEAVE_ARENA_ARRAY(scratch, int64_t, (size_t)lives.n_positions + 1);
    if (change == NULL)
        return cleave_fail_memory(error, "explaining a step");
    for (int32_t i = 0; i < lives.n; i++) {
        change[cleave_life_used_from(&lives.lives[i])] += lives.lives[i].bytes;
        change[cleave_life_used_to(&lives.lives[i]) + 1] -= lives.lives[i].bytes;
    }
    int64_t in_use = 0, most = -1;
    int32_t at = 0;
    for (int32_t i = 0; i < lives.n_positions; i++) {
        in_use += change[i];
        if (in_use > most) {
            most = in_use;
            at = i;
        }
    }
    for (int32_t i = 0; i < lives.n; i++) {
        const cleave_life *life = &lives.lives[i];
        if (cleave_life_used_from(life) <= at && at <= cleave_life_used_to(life))
            f->path->held_bytes[f->program->buffers[lives.buffers[i]].kind] += life->bytes;
    }
    return CLEAVE_OK;
}

/* ---- all of it ---- */

static cleave_status find(finder *f, const cleave_simulated_step *simulated, cleave_arena *scratch,
                          cleave_error *error) {
    cleave_critical_path critical;
    CLEAVE_TRY(find_readers(f->model, scratch, &f->reader, error));
    CLEAVE_TRY(cleave_critical_path_find(&simulated->problem, &simulated->turned,
                                         &simulated->timeline, scratch, &critical, error));
    for (int32_t i = 0; i < critical.n; i++)
        charge_segment(f, &critical.segments[i]);
    CLEAVE_TRY(find_links(f, &critical, scratch, error));
    CLEAVE_TRY(find_busiest(f, scratch, error));
    CLEAVE_TRY(find_memory(f, scratch, error));
    return find_held(f, scratch, error);
}

cleave_status explain_path_find(const cleave_model *model, const cleave_priced_program *priced,
                                const cleave_simulated_step *simulated, cleave_arena *arena,
                                explain_path *path, cleave_error *error) {

    explain_path made = {.step = simulated->timeline.step, .busiest_link = -1};
    made.operators = CLEAVE_ARENA_ARRAY(arena, explain_operator, model->n_operators);
    if (made.operators == NULL)
        return cleave_fail_memory(error, "explaining a step");
    for (int32_t op = 0; op < model->n_operators; op++)
        made.operators[op].link = -1;
    for (int32_t d = 0; d < priced->program.n_devices; d++) {
        int64_t peak_bytes = priced->peak_bytes[cleave_program_device(&priced->program, d)];
        if (peak_bytes > made.peak_bytes) {
            made.peak_bytes = peak_bytes;
            made.fullest_device = d;
        }
    }
    finder f = {.model = model,
                .program = &priced->program,
                .few = priced->is_few ? &priced->few : NULL,
                .problem = &simulated->problem,
                .turned = &simulated->turned,
                .path = &made};
    cleave_arena scratch = {0};
    cleave_status status = find(&f, simulated, &scratch, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    *path = made;
    return CLEAVE_OK;
}
