#include "simulator/step/few.h"

#include "base/order.h"
#include "graph/program/memory_plan.h"
#include "simulator/scan/turns.h"
#include "simulator/step/settle.h"

#include <stdlib.h>
#include <string.h>

bool cleave_few_tell(const cleave_layout *layout) {
    for (int32_t t = 0; t < layout->n_tensors; t++)
        if (layout->sharded[t] > CLEAVE_SHARDED_UPDATE)
            return false; /* what one micro-batch gathers or reduces, another one waits for */
    return layout->schedule.micro_batches > CLEAVE_FEW_MICRO_BATCHES;
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Those that the one in between stands for, itself among them. */
static int32_t n_between(const cleave_turns *turns) {
    return turns->micro_batches - CLEAVE_FEW_MICRO_BATCHES + 1;
}

static void count_item(cleave_few *few, const cleave_item *item, int32_t times) {
    if (item->kind == CLEAVE_ITEM_SEND)
        few->message_times[item->subject] = times;
    if (item->kind == CLEAVE_ITEM_JOIN)
        few->collective_times[item->subject] = times;
}

int64_t cleave_few_times_of_buffer(const cleave_few *few, int32_t buffer) {
    return few->turns.owner[buffer] == 1 ? n_between(&few->turns) : 1;
}

/* By item, of what its kind is about; a collective in its steps has no item and counts for nothing.
 */
static cleave_status count_times(cleave_few *few, cleave_arena *arena, cleave_error *error) {
    const cleave_turns *turns = &few->turns;
    few->message_times = CLEAVE_ARENA_ARRAY(arena, int32_t, few->program.n_messages);
    few->collective_times = CLEAVE_ARENA_ARRAY(arena, int32_t, few->program.n_collectives);
    if (few->message_times == NULL || few->collective_times == NULL)
        return cleave_fail_memory(error, "counting micro-batches");
    for (int32_t b = 0; b < turns->n_blocks; b++)
        for (int32_t i = turns->first_item[b]; i < turns->first_item[b + 1]; i++)
            count_item(few, &few->program.items[i], turns->window[b] == 1 ? n_between(turns) : 1);
    return CLEAVE_OK;
}

/* What the micro-batch in between has, so many times more. */
static cleave_status count_whole(cleave_few *few, cleave_error *error) {
    const cleave_program *of = &few->program;
    const cleave_turns *turns = &few->turns;
    int64_t n_items = 0, kinds[CLEAVE_ITEM_AWAIT + 1] = {0}, n_pieces = 0, n_buffers = 0;
    int64_t more = n_between(turns) - 1, n_spanning = 0;
    int32_t last_collective = -1;
    for (int32_t b = 0; b < turns->n_blocks; b++)
        for (int32_t i = turns->first_item[b]; i < turns->first_item[b + 1]; i++) {
            const cleave_item *item = &of->items[i];
            if (turns->window[b] != 1)
                continue;
            /* Its joins stand side by side. */
            bool again = item->kind == CLEAVE_ITEM_JOIN && item->subject == last_collective;
            last_collective = item->kind == CLEAVE_ITEM_JOIN ? item->subject : last_collective;
            kinds[item->kind] += !again;
            n_spanning += item->kind == CLEAVE_ITEM_JOIN && !again &&
                          cleave_program_spans(of, &of->collectives[item->subject]);
            n_pieces += item->kind == CLEAVE_ITEM_COPY ? of->copies[item->subject].n_pieces : 0;
            n_items++;
        }
    for (int32_t b = 0; b < of->n_buffers; b++)
        n_buffers += turns->owner[b] == 1;
    if (of->n_items + more * n_items > INT32_MAX || of->n_buffers + more * n_buffers > INT32_MAX ||
        of->n_copy_pieces + more * n_pieces > INT32_MAX)
        return cleave_fail(error, CLEAVE_FAILED, "the program has more than 2^31 items");
    few->whole = *of;
    few->whole.n_items += (int32_t)(more * n_items);
    few->whole.n_buffers += (int32_t)(more * n_buffers);
    few->whole.n_copy_pieces += (int32_t)(more * n_pieces);
    few->whole.n_computes += (int32_t)(more * kinds[CLEAVE_ITEM_COMPUTE]);
    few->whole.n_loads += (int32_t)(more * kinds[CLEAVE_ITEM_LOAD]);
    few->whole.n_copies += (int32_t)(more * kinds[CLEAVE_ITEM_COPY]);
    few->whole.n_messages += (int32_t)(more * kinds[CLEAVE_ITEM_SEND]);
    few->whole.n_spanning += (int32_t)(more * n_spanning);
    few->whole.n_collectives += (int32_t)(more * kinds[CLEAVE_ITEM_JOIN]);
    return CLEAVE_OK;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A position of an item among those of its block at which a life begins or ends; others are not
   counted, since only the order matters. */
typedef struct place {
    int32_t block, rank;
} place;

typedef struct planning {
    const cleave_few *few;
    int32_t *of_device,
        *by_device;      /* [n_devices + 2]; buffers with memory of their own by device */
    int32_t device, end; /* those that are planned now are [device, end) */
    int32_t *rank;       /* [n_items + 1] */
    place *first, *last; /* [n_buffers] */
    place *lane_first, *lane_last;
    place *ends;             /* [few->turns.first_end[n_buffers]] */
    int32_t *base;           /* [n_turns + 1] positions before a turn, among all micro-batches */
    int32_t *begins, *order; /* [few + 2]; buffers by the micro-batch in which
                                their lives begin */
    const cleave_machine *machine; /* null: of each device the size is wanted */
    int64_t *enough;               /* [n_devices] the largest size so far of its kind; -1: none */
    cleave_planned_devices known;
} planning;

static bool begin_planning(const cleave_few *few, const cleave_machine *machine,
                           cleave_arena *scratch, planning *p) {
    size_t n = (size_t)few->program.n_buffers;
    size_t n_turns = (size_t)few->turns.n_turns;
    *p = (planning){.few = few,
                    .of_device = CLEAVE_ARENA_ARRAY(scratch, int32_t, few->program.n_devices + 2),
                    .by_device = CLEAVE_ARENA_ARRAY(scratch, int32_t, n),
                    .rank = CLEAVE_ARENA_ARRAY(scratch, int32_t, few->program.n_items + 1),
                    .first = CLEAVE_ARENA_ARRAY(scratch, place, n),
                    .last = CLEAVE_ARENA_ARRAY(scratch, place, n),
                    .lane_first = CLEAVE_ARENA_ARRAY(scratch, place, n),
                    .lane_last = CLEAVE_ARENA_ARRAY(scratch, place, n),
                    .ends = CLEAVE_ARENA_ARRAY(scratch, place, few->turns.first_end[n]),
                    .base = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_turns + 1),
                    .begins = CLEAVE_ARENA_ARRAY(scratch, int32_t, CLEAVE_FEW_MICRO_BATCHES + 2),
                    .order = CLEAVE_ARENA_ARRAY(scratch, int32_t, n),
                    .machine = machine,
                    .enough = CLEAVE_ARENA_ARRAY(scratch, int64_t, few->program.n_devices)};
    for (int32_t d = 0; d < few->program.n_devices && p->enough != NULL; d++)
        p->enough[d] = -1;
    return p->of_device != NULL && p->by_device != NULL && p->rank != NULL && p->first != NULL &&
           p->last != NULL && p->lane_first != NULL && p->lane_last != NULL && p->ends != NULL &&
           p->base != NULL && p->begins != NULL && p->order != NULL && p->enough != NULL;
}

static void list_buffers(planning *p) {
    const cleave_program *of = &p->few->program;
    for (int32_t b = 0; b < of->n_buffers; b++)
        p->of_device[of->buffers[b].device + 2] += of->buffers[b].storage == b;
    for (int32_t d = 0; d < of->n_devices; d++)
        p->of_device[d + 2] += p->of_device[d + 1];
    for (int32_t b = 0; b < of->n_buffers; b++)
        if (of->buffers[b].storage == b)
            p->by_device[p->of_device[of->buffers[b].device + 1]++] = b;
}

static place place_of(const cleave_turns *turns, const int32_t *rank, int32_t item) {
    int32_t block = cleave_last_not_above(turns->first_item, turns->n_blocks, item);
    return (place){block, rank[item] - rank[turns->first_item[block]]};
}

static void find_places(planning *p) {
    const cleave_program *of = &p->few->program;
    const cleave_turns *turns = &p->few->turns;
    const int32_t *first_buffer = &p->by_device[p->of_device[p->device]],
                  *end_buffer = &p->by_device[p->of_device[p->end]];
    int32_t *rank = p->rank;
    memset(rank, 0, ((size_t)of->n_items + 1) * sizeof *rank);
    for (const int32_t *b = first_buffer; b < end_buffer; b++) {
        const cleave_life life = cleave_buffer_life(&of->buffers[*b]);
        rank[life.first + 1] = rank[life.last + 1] = 1;
        rank[life.lane_first + 1] = rank[life.lane_last + 1] = 1;
        for (int32_t e = turns->first_end[*b]; e < turns->first_end[*b + 1]; e++)
            rank[turns->ends[e] + 1] = 1;
    }
    for (int32_t i = 0; i < of->n_items; i++)
        rank[i + 1] += rank[i];
    for (const int32_t *b = first_buffer; b < end_buffer; b++) {
        const cleave_life life = cleave_buffer_life(&of->buffers[*b]);
        p->first[*b] = place_of(turns, rank, life.first);
        p->last[*b] = place_of(turns, rank, life.last);
        p->lane_first[*b] = place_of(turns, rank, life.lane_first);
        p->lane_last[*b] = place_of(turns, rank, life.lane_last);
        for (int32_t e = turns->first_end[*b]; e < turns->first_end[*b + 1]; e++)
            p->ends[e] = place_of(turns, rank, turns->ends[e]);
    }
    for (int32_t t = 0; t < turns->n_turns; t++) {
        const int32_t *first = &turns->first_item[turns->turns[t].block];
        p->base[t + 1] = p->base[t] + rank[first[1]] - rank[first[0]];
    }
}

/* The window in which the life of a buffer begins. */
static int32_t window_of(const planning *p, int32_t b) {
    int32_t owner = p->few->turns.owner[b], begins = p->few->turns.window[p->first[b].block];
    int32_t window = owner != CLEAVE_WINDOW_NONE ? owner : begins;
    return window != CLEAVE_WINDOW_NONE ? window : CLEAVE_FEW_MICRO_BATCHES - 1;
}

static void sort_buffers(planning *p) {
    int32_t first = p->of_device[p->device], end = p->of_device[p->end];
    memset(p->begins, 0, (CLEAVE_FEW_MICRO_BATCHES + 2) * sizeof *p->begins);
    for (int32_t i = first; i < end; i++)
        p->begins[window_of(p, p->by_device[i]) + 2]++;
    for (int32_t w = 0; w < CLEAVE_FEW_MICRO_BATCHES; w++)
        p->begins[w + 2] += p->begins[w + 1];
    for (int32_t i = first; i < end; i++)
        p->order[p->begins[window_of(p, p->by_device[i]) + 1]++] = p->by_device[i];
}

/* In the micro-batch in between that comes `later` behind the first of these, or where it is once.
 */
static int32_t position(const planning *p, place at, int32_t later) {
    const cleave_turns *turns = &p->few->turns;
    bool is_between = turns->window[at.block] == 1;
    return p->base[turns->turns_of[turns->first_turn[at.block] + (is_between ? later : 0)]] +
           at.rank;
}

static int32_t last_position(const planning *p, int32_t buffer, int32_t later) {
    const int32_t *first_end = &p->few->turns.first_end[buffer];
    int32_t last = position(p, p->last[buffer], later);
    for (int32_t e = first_end[0]; e < first_end[1]; e++) {
        int32_t other = position(p, p->ends[e], later);
        last = other > last ? other : last;
    }
    return last;
}

/* Of lives that begin at one position the plan places those first that are listed first: as buffers
   are numbered, within what begins in one micro-batch. */
static int32_t list_lives(const planning *p, cleave_life *lives, int32_t *buffers) {
    const cleave_turns *turns = &p->few->turns;
    int32_t n = 0, end = p->base[turns->n_turns] - 1;
    for (int32_t u = 0; u < turns->micro_batches; u++) {
        bool last = u + 1 == turns->micro_batches;
        int32_t window = u == 0 ? 0 : last ? CLEAVE_FEW_MICRO_BATCHES - 1 : 1;
        int32_t later = window == 1 ? u - 1 : 0;
        for (int32_t i = p->begins[window]; i < p->begins[window + 1]; i++) {
            int32_t b = p->order[i];
            const cleave_buffer *buffer = &p->few->program.buffers[b];
            if (later > 0 && turns->owner[b] == CLEAVE_WINDOW_NONE)
                continue;
            cleave_life *life = &lives[n];
            if (buffers != NULL)
                buffers[n] = b;
            n++;
            *life = (cleave_life){.bytes = buffer->bytes + buffer->padding,
                                  .device = buffer->device - p->device,
                                  .last = end};
            if (!buffer->persistent) {
                life->first = position(p, p->first[b], later);
                life->last = last_position(p, b, later);
            }
            if (buffer->lane_only) {
                life->lane_only = true;
                life->lane_first = position(p, p->lane_first[b], later);
                life->lane_last = position(p, p->lane_last[b], later);
            }
        }
    }
    return n;
}

/* Lives of all micro-batches are many more than items of three: so as many are listed at once as
   that share of these, and to pass over the items again and again takes no longer than the lives.
 */
enum { ITEMS_OF_LIVES = 4 };

/* At most. */
static int32_t count_lives(const planning *p, int32_t device) {
    const cleave_turns *turns = &p->few->turns;
    int32_t n = 0;
    for (int32_t i = p->of_device[device]; i < p->of_device[device + 1]; i++)
        n += turns->owner[p->by_device[i]] == 1 ? n_between(turns) : 1;
    return n;
}

/* From a device on, as many as have few lives together, or one; returns how many these are. */
static int32_t take_devices(planning *p, int32_t device) {
    int32_t n = count_lives(p, device), more = 0;
    const int32_t most = p->few->program.n_items / ITEMS_OF_LIVES;
    p->device = device;
    p->end = device + 1;
    while (p->end < p->few->program.n_devices && n + (more = count_lives(p, p->end)) <= most) {
        n += more;
        p->end++;
    }
    return n;
}

static bool is_same_place(place a, place b) { return a.block == b.block && a.rank == b.rank; }

static bool end_alike(const planning *p, int32_t a, int32_t b) {
    const int32_t *x = &p->few->turns.first_end[a], *y = &p->few->turns.first_end[b];
    bool alike = x[1] - x[0] == y[1] - y[0];
    for (int32_t e = 0; e < x[1] - x[0] && alike; e++)
        alike = is_same_place(p->ends[x[0] + e], p->ends[y[0] + e]);
    return alike && is_same_place(p->last[a], p->last[b]);
}

/* Is a buffer, of devices so many before, used as another one is? */
static bool are_used_alike(const planning *p, int32_t a, int32_t b, int32_t n_devices) {
    const cleave_buffer *x = &p->few->program.buffers[a], *y = &p->few->program.buffers[b];
    return x->bytes == y->bytes && x->padding == y->padding && x->device + n_devices == y->device &&
           x->persistent == y->persistent && x->lane_only == y->lane_only &&
           p->few->turns.owner[a] == p->few->turns.owner[b] &&
           is_same_place(p->first[a], p->first[b]) && end_alike(p, a, b) &&
           is_same_place(p->lane_first[a], p->lane_first[b]) &&
           is_same_place(p->lane_last[a], p->lane_last[b]);
}

/* Devices mostly do the same: do those that were taken do as as many before them, buffer by buffer?
 */
static bool are_as_before(const planning *p) {
    int32_t n_devices = p->end - p->device;
    if (p->device < n_devices)
        return false;
    const int32_t *before = &p->of_device[p->device - n_devices], *now = &p->of_device[p->device];
    int32_t n = now[n_devices] - now[0];
    bool are = n == before[n_devices] - before[0];
    for (int32_t i = 0; i < n && are; i++)
        are = are_used_alike(p, p->by_device[before[0] + i], p->by_device[now[0] + i], n_devices);
    return are;
}

/* Of the devices that were taken. */
static cleave_status plan_devices(planning *p, int32_t n_lives, int64_t *peak_bytes,
                                  cleave_error *error) {
    int32_t n_devices = p->end - p->device;
    find_places(p);
    if (are_as_before(p)) {
        memcpy(&peak_bytes[p->device], &peak_bytes[p->device - n_devices],
               (size_t)n_devices * sizeof *peak_bytes);
        return CLEAVE_OK;
    }
    cleave_life *lives = malloc(((size_t)n_lives + 1) * sizeof *lives);
    cleave_status status;
    if (lives != NULL) {
        sort_buffers(p);
        const cleave_lives all = {.n = list_lives(p, lives, NULL),
                                  .n_devices = n_devices,
                                  .n_items = p->base[p->few->turns.n_turns],
                                  .items = lives};
        status = cleave_memory_plan_sizes(&all, &p->enough[p->device], &p->known,
                                          &peak_bytes[p->device], error);
    } else {
        status = cleave_fail_memory(error, "planning memory");
    }
    free(lives);
    return status;
}

/* Those behind them need not be told apart if they need no more than the largest of their kind. */
static void note_sizes(planning *p, const int64_t *peak_bytes) {
    const int32_t *kind = p->machine != NULL ? p->machine->device_kind : NULL;
    for (int32_t d = p->device; d < p->end && kind != NULL; d++)
        for (int32_t other = p->end; other < p->few->program.n_devices; other++)
            if (kind[other] == kind[d] && peak_bytes[d] > p->enough[other])
                p->enough[other] = peak_bytes[d];
}

static cleave_status plan_memory(cleave_few *few, const cleave_machine *machine,
                                 cleave_arena *arena, cleave_error *error) {
    planning p;
    cleave_arena scratch = {0};
    few->whole.peak_bytes = CLEAVE_ARENA_ARRAY(arena, int64_t, few->program.n_devices);
    bool ready = begin_planning(few, machine, &scratch, &p) && few->whole.peak_bytes != NULL;
    cleave_status status = ready ? CLEAVE_OK : cleave_fail_memory(error, "planning memory");
    if (ready)
        list_buffers(&p);
    for (int32_t d = 0; d < few->program.n_devices && status == CLEAVE_OK; d = p.end) {
        status = plan_devices(&p, take_devices(&p, d), few->whole.peak_bytes, error);
        note_sizes(&p, few->whole.peak_bytes);
    }
    CLEAVE_LIST_FREE(&p.known);
    cleave_arena_free(&scratch);
    return status;
}

/* Where three tell, a device's lives are few enough to be all there at once. */
cleave_status cleave_few_list_lives(const cleave_few *few, int32_t device, cleave_arena *arena,
                                    cleave_few_lives *lives, cleave_error *error) {
    planning p;
    cleave_few_lives made = {0};
    cleave_arena scratch = {0};
    bool ready = begin_planning(few, NULL, &scratch, &p);
    if (ready) {
        list_buffers(&p);
        p.device = device;
        p.end = device + 1;
        find_places(&p);
        sort_buffers(&p);
        int32_t most = count_lives(&p, device);
        made.lives = CLEAVE_ARENA_ARRAY(arena, cleave_life, most);
        made.buffers = CLEAVE_ARENA_ARRAY(arena, int32_t, most);
        ready = made.lives != NULL && made.buffers != NULL;
    }
    if (ready) {
        made.n = list_lives(&p, made.lives, made.buffers);
        made.n_positions = p.base[few->turns.n_turns];
        *lives = made;
    }
    cleave_arena_free(&scratch);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "listing buffers");
}

cleave_status cleave_few_lower(const cleave_model *model, const cleave_layout *layout,
                               const cleave_fold *fold, const cleave_lower_options *options,
                               const cleave_machine *machine, cleave_arena *arena, cleave_few *few,
                               cleave_error *error) {
    CLEAVE_TRY(
        cleave_lower_few(model, layout, fold, options, arena, &few->program, &few->turns, error));
    CLEAVE_TRY(count_times(few, arena, error));
    CLEAVE_TRY(count_whole(few, error));
    return plan_memory(few, machine, arena, error);
}

/* ---- time ------------------------------------------------------------------------------------ */

cleave_status cleave_few_check(const cleave_few *few, const cleave_cost_cache *cache,
                               cleave_error *error) {
    cleave_arena scratch = {0};
    const cleave_turns_subject of = {.program = &few->program, .turns = &few->turns};
    if (cleave_cost_knows_neighbours(cache) && few->program.n_windows < 2)
        return cleave_fail(error, CLEAVE_NO_LAYOUT, "what devices do to each other takes all");
    cleave_status status = cleave_turns_check(&of, &scratch, error);
    cleave_arena_free(&scratch);
    return status;
}

cleave_status cleave_few_simulate(const cleave_few *few, cleave_cost_cache *cache,
                                  cleave_arena *arena, int64_t *step, cleave_error *error) {
    cleave_engine_problem problem;
    cleave_settling *settling;
    cleave_timeline timeline;
    cleave_turns_time time;
    cleave_error why_not = {""};
    cleave_turns_subject of = {
        .program = &few->program, .turns = &few->turns, .problem = &problem, .timeline = &timeline};
    CLEAVE_TRY(
        cleave_simulate_prepare_few(&few->program, &few->turns, cache, arena, &problem, error));
    CLEAVE_TRY(cleave_settling_create(&few->program, cache, &problem, arena, &settling, error));
    *step = -1;
    if (settling != NULL)
        return CLEAVE_OK; /* what devices do to each other takes all */
    CLEAVE_TRY(cleave_engine_workspace_create(&problem, arena, &of.workspace, error));
    CLEAVE_TRY(cleave_engine_timeline_create(&problem, arena, &timeline, error));
    cleave_status status = cleave_engine_scan_turns(&of, arena, &time, &why_not);
    if (status == CLEAVE_NO_LAYOUT)
        return CLEAVE_OK;
    if (status != CLEAVE_OK && error != NULL)
        *error = why_not;
    CLEAVE_TRY(status);
    *step = time.step;
    return CLEAVE_OK;
}
