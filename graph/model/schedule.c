/* Orders of blocks, group by group, and the one sequence of them all. */
#include "graph/model/schedule.h"

#include <string.h>

const char *const cleave_schedule_names[CLEAVE_N_SCHEDULES] = {
    "1f1b", "gpipe", "interleaved", "zb-h1", "zb-interleaved", "orders"};

bool cleave_schedule_parts_weights(const cleave_schedule *schedule) {
    if (cleave_schedule_is_plain(schedule)) /* no file says its kind */
        return false;
    if (schedule->kind != CLEAVE_SCHEDULE_ORDERS)
        return cleave_schedule_kind_parts_weights(schedule->kind);
    for (int32_t g = 0; g < schedule->n_orders; g++)
        for (int32_t b = 0; b < schedule->n_blocks[g]; b++)
            if (schedule->orders[g][b].kind == CLEAVE_BLOCK_WEIGHT)
                return true;
    return false;
}

static bool same_numbers(const int32_t *a, const int32_t *b, int32_t n) {
    return a == b || (a != NULL && b != NULL && memcmp(a, b, (size_t)n * sizeof *a) == 0);
}

bool cleave_schedule_same(const cleave_schedule *a, const cleave_schedule *b) {
    if (a->micro_batches != b->micro_batches || a->n_stages != b->n_stages || a->kind != b->kind ||
        a->sooner != b->sooner || a->n_orders != b->n_orders ||
        !same_numbers(a->first_operator, b->first_operator, a->n_stages) ||
        !same_numbers(a->in_flight, b->in_flight, a->n_stages) ||
        !same_numbers(a->n_blocks, b->n_blocks, a->n_orders))
        return false;
    for (int32_t g = 0; g < a->n_orders; g++)
        for (int32_t i = 0; i < a->n_blocks[g]; i++)
            if (a->orders[g][i].kind != b->orders[g][i].kind ||
                a->orders[g][i].stage != b->orders[g][i].stage ||
                a->orders[g][i].micro_batch != b->orders[g][i].micro_batch)
                return false;
    return true;
}

static void *copied(const void *from, int32_t n, size_t size, cleave_arena *arena, bool *failed) {
    void *to = from == NULL ? NULL : cleave_arena_alloc(arena, (size_t)n, size);
    *failed = *failed || (from != NULL && to == NULL);
    if (to != NULL && n > 0)
        memcpy(to, from, (size_t)n * size);
    return to;
}

cleave_status cleave_schedule_copy(const cleave_schedule *schedule, cleave_arena *arena,
                                   cleave_schedule *copy, cleave_error *error) {
    bool failed = false;
    cleave_schedule made = *schedule;
    int32_t n_groups = schedule->n_stages; /* at most, and so many have room */
    made.first_operator = copied(schedule->first_operator, schedule->n_stages,
                                 sizeof *made.first_operator, arena, &failed);
    made.in_flight = copied(schedule->in_flight, n_groups, sizeof *made.in_flight, arena, &failed);
    made.n_blocks =
        copied(schedule->n_blocks, schedule->n_orders, sizeof *made.n_blocks, arena, &failed);
    made.orders = copied(schedule->orders, schedule->n_orders, sizeof *made.orders, arena, &failed);
    for (int32_t g = 0; g < schedule->n_orders && !failed; g++)
        made.orders[g] = copied(schedule->orders[g], schedule->n_blocks[g], sizeof **made.orders,
                                arena, &failed);
    if (failed)
        return cleave_fail_memory(error, "copying a schedule");
    *copy = made;
    return CLEAVE_OK;
}

/* ---- orders ---------------------------------------------------------------------------------- */

/* The orders under construction; a group's stages are its own alone but of interleaved ones. */
typedef struct orders {
    const cleave_schedule *of;
    const int32_t *group; /* [n_stages] */
    int32_t n_groups;
    int32_t *n;                  /* [n_groups] blocks so far */
    cleave_stage_block **blocks; /* [n_groups] with room for those of all stages */
    cleave_error *error;
} orders;

static void put(orders *to, int32_t g, cleave_block_kind kind, int32_t stage, int32_t u) {
    to->blocks[g][to->n[g]++] = (cleave_stage_block){(uint8_t)kind, stage, u};
}

/* A forward fills the pipeline or follows a backward; a gradient of weights is put off by as many
   micro-batches as there are groups before, at most, so that no group keeps more than the first
   does. */
static void order_1f1b(orders *to, int32_t g) {
    int32_t m = to->of->micro_batches, stage = 0, parted = 0;
    bool parts = cleave_schedule_parts_weights(to->of);
    while (to->group[stage] != g)
        stage++;
    int32_t ahead = to->of->in_flight != NULL ? to->of->in_flight[g] : to->n_groups - g;
    ahead = ahead < m ? ahead : m;
    for (int32_t u = 0; u < ahead; u++)
        put(to, g, CLEAVE_BLOCK_FORWARD, stage, u);
    for (int32_t u = 0; u < m; u++) {
        put(to, g, CLEAVE_BLOCK_BACKWARD, stage, u);
        if (parts && u >= cleave_schedule_delay(g, to->of->sooner))
            put(to, g, CLEAVE_BLOCK_WEIGHT, stage, parted++);
        if (u + ahead < m)
            put(to, g, CLEAVE_BLOCK_FORWARD, stage, u + ahead);
    }
    while (parts && parted < m)
        put(to, g, CLEAVE_BLOCK_WEIGHT, stage, parted++);
}

static void order_gpipe(orders *to, int32_t g) {
    int32_t stage = 0;
    while (to->group[stage] != g)
        stage++;
    for (int32_t u = 0; u < to->of->micro_batches; u++)
        put(to, g, CLEAVE_BLOCK_FORWARD, stage, u);
    for (int32_t u = 0; u < to->of->micro_batches; u++)
        put(to, g, CLEAVE_BLOCK_BACKWARD, stage, u);
}

/* The i-th forward, or backward, of a group: rounds of as many micro-batches as there are groups,
   through all its stages. */
static cleave_stage_block interleaved(const orders *to, int32_t g, cleave_block_kind kind,
                                      int32_t i) {
    int32_t p = to->n_groups, v = to->of->n_stages / p, round = i / (p * v), rest = i % (p * v);
    int32_t turn = kind == CLEAVE_BLOCK_FORWARD ? rest / p : v - 1 - rest / p;
    return (cleave_stage_block){(uint8_t)kind, turn * p + g, round * p + rest % p};
}

static void put_interleaved(orders *to, int32_t g, cleave_block_kind kind, int32_t i) {
    to->blocks[g][to->n[g]++] = interleaved(to, g, kind, i);
}

/* Gradients of weights are put off by as many blocks as there are groups before, at most. */
static void order_interleaved(orders *to, int32_t g) {
    int32_t p = to->n_groups, v = to->of->n_stages / p, n = v * to->of->micro_batches;
    int32_t ahead = 2 * (p - g - 1) + (v - 1) * p, parted = 0;
    bool parts = cleave_schedule_parts_weights(to->of);
    ahead = ahead < n ? ahead : n;
    for (int32_t i = 0; i < ahead; i++)
        put_interleaved(to, g, CLEAVE_BLOCK_FORWARD, i);
    for (int32_t i = 0; i < n; i++) {
        if (i + ahead < n)
            put_interleaved(to, g, CLEAVE_BLOCK_FORWARD, i + ahead);
        put_interleaved(to, g, CLEAVE_BLOCK_BACKWARD, i);
        if (parts && i >= cleave_schedule_delay(g, to->of->sooner))
            put_interleaved(to, g, CLEAVE_BLOCK_WEIGHT, parted++);
    }
    while (parts && parted < n)
        put_interleaved(to, g, CLEAVE_BLOCK_WEIGHT, parted++);
}

static void order_by_kind(orders *to, int32_t g) {
    if (to->of->kind == CLEAVE_SCHEDULE_GPIPE)
        order_gpipe(to, g);
    else if (cleave_schedule_kind_goes_round(to->of->kind))
        order_interleaved(to, g);
    else
        order_1f1b(to, g);
}

cleave_status cleave_schedule_order_of(const cleave_schedule *schedule, int32_t n_groups,
                                       int32_t group, cleave_arena *arena,
                                       cleave_stage_block **order, int32_t *n_blocks,
                                       cleave_error *error) {
    int32_t most = CLEAVE_N_BLOCK_KINDS * (schedule->n_stages / n_groups);
    int32_t *group_of = CLEAVE_ARENA_ARRAY(arena, int32_t, schedule->n_stages);
    int32_t *n = CLEAVE_ARENA_ARRAY(arena, int32_t, n_groups);
    cleave_stage_block **blocks = CLEAVE_ARENA_ARRAY(arena, cleave_stage_block *, n_groups);
    if (group_of == NULL || n == NULL || blocks == NULL)
        return cleave_fail_memory(error, "ordering blocks");
    for (int32_t s = 0; s < schedule->n_stages; s++)
        group_of[s] = s % n_groups;
    blocks[group] =
        cleave_arena_alloc(arena, (size_t)most, (size_t)schedule->micro_batches * sizeof **blocks);
    if (blocks[group] == NULL)
        return cleave_fail_memory(error, "ordering blocks");
    order_by_kind(&(orders){schedule, group_of, n_groups, n, blocks, error}, group);
    *order = blocks[group];
    *n_blocks = n[group];
    return CLEAVE_OK;
}

static cleave_status check_interleaved(const orders *to) {
    int32_t p = to->n_groups;
    for (int32_t s = 0; s < to->of->n_stages; s++)
        if (to->group[s] != s % p)
            return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                               "schedule: stages of an interleaved one go round all %d groups of "
                               "devices, but stage %d is on that of stage %d",
                               p, s, to->group[s]);
    if (to->of->n_stages % p != 0)
        return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                           "schedule: %d stages do not give each of %d groups of devices the same "
                           "number",
                           to->of->n_stages, p);
    if (to->of->micro_batches % p != 0)
        return cleave_fail(
            to->error, CLEAVE_BAD_INPUT,
            "schedule: an interleaved one of %d groups of devices wants a multiple of "
            "%d micro-batches, not %d",
            p, p, to->of->micro_batches);
    return CLEAVE_OK;
}

/* ---- orders that the file says --------------------------------------------------------------- */

/* Each stage's blocks of one kind are its micro-batches in order, all of them. */
static cleave_status take_orders(orders *to, int32_t *next) {
    const cleave_schedule *of = to->of;
    if (of->n_orders != to->n_groups)
        return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                           "schedule: %d orders, but the stages are on %d groups of devices",
                           of->n_orders, to->n_groups);
    for (int32_t g = 0; g < of->n_orders; g++)
        for (int32_t b = 0; b < of->n_blocks[g]; b++) {
            cleave_stage_block block = of->orders[g][b];
            if (block.stage < 0 || block.stage >= of->n_stages || to->group[block.stage] != g)
                return cleave_fail(
                    to->error, CLEAVE_BAD_INPUT,
                    "schedule: order %d has a block of stage %d, which is not on its "
                    "devices",
                    g, block.stage);
            int32_t *expected = &next[block.kind * of->n_stages + block.stage];
            if (block.micro_batch != *expected)
                return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                                   "schedule: stage %d takes micro-batch %d where %d is next",
                                   block.stage, block.micro_batch, *expected);
            ++*expected;
            put(to, g, (cleave_block_kind)block.kind, block.stage, block.micro_batch);
        }
    bool parts = cleave_schedule_parts_weights(of);
    for (int32_t i = 0; i < (parts ? CLEAVE_N_BLOCK_KINDS : 2) * of->n_stages; i++)
        if (next[i] != of->micro_batches)
            return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                               "schedule: the orders have %d of %d micro-batches of stage %d",
                               next[i], of->micro_batches, i % of->n_stages);
    return CLEAVE_OK;
}

static cleave_status make_orders(orders *to, int32_t *next) {
    const cleave_schedule *of = to->of;
    if (of->kind == CLEAVE_SCHEDULE_ORDERS)
        return take_orders(to, next);
    if (cleave_schedule_kind_goes_round(of->kind))
        CLEAVE_TRY(check_interleaved(to));
    else if (to->n_groups != of->n_stages)
        return cleave_fail(
            to->error, CLEAVE_BAD_INPUT,
            "schedule: %d stages on %d groups of devices; two stages of one group want "
            "the kind interleaved",
            of->n_stages, to->n_groups);
    for (int32_t g = 0; g < to->n_groups; g++)
        order_by_kind(to, g);
    return CLEAVE_OK;
}

/* ---- the sequence ---------------------------------------------------------------------------- */

typedef struct merging {
    const orders *of;
    int32_t *head;  /* [n_groups] */
    int64_t *free;  /* [n_groups] when the group has done what was taken of it */
    int64_t *ended; /* [kinds][n_stages][micro_batches] unit times; 0: not yet taken */
    int64_t *begin; /* [n_groups] when its next block may; -1: what it reads is not yet there, or
                       there is none */
} merging;

static int64_t *end_of(const merging *of, int kind, int32_t stage, int32_t u) {
    const cleave_schedule *schedule = of->of->of;
    return &of->ended[((int64_t)kind * schedule->n_stages + stage) * schedule->micro_batches + u];
}

static int64_t begin_of(const merging *of, int32_t g) {
    if (of->head[g] == of->of->n[g])
        return -1;
    const cleave_stage_block *block = &of->of->blocks[g][of->head[g]];
    int32_t s = block->stage, u = block->micro_batch, last = of->of->of->n_stages - 1;
    int64_t needs[2] = {1, 1};
    if (block->kind == CLEAVE_BLOCK_FORWARD && s > 0)
        needs[0] = *end_of(of, CLEAVE_BLOCK_FORWARD, s - 1, u);
    if (block->kind == CLEAVE_BLOCK_BACKWARD) {
        needs[0] = *end_of(of, CLEAVE_BLOCK_FORWARD, s, u);
        needs[1] = s < last ? *end_of(of, CLEAVE_BLOCK_BACKWARD, s + 1, u) : 1;
    }
    if (block->kind == CLEAVE_BLOCK_WEIGHT)
        needs[0] = *end_of(of, CLEAVE_BLOCK_BACKWARD, s, u);
    if (needs[0] == 0 || needs[1] == 0)
        return -1;
    int64_t begin = needs[0] > needs[1] ? needs[0] : needs[1];
    return begin > of->free[g] ? begin : of->free[g];
}

/* The group that sends what the next block of g reads; g: none does. */
static int32_t sender_to(const merging *of, int32_t g) {
    const cleave_stage_block *block = &of->of->blocks[g][of->head[g]];
    int32_t from = block->stage + (block->kind == CLEAVE_BLOCK_BACKWARD ? 1 : -1);
    return from < 0 || from >= of->of->of->n_stages ? g : from % of->of->n_groups;
}

/* Does the block of g give way to that which its sender begins with at the same time, so that the
   sender goes on with its work and does not wait until what it sent has left?  Where messages go
   one way at a time, as gpipe's do; where they go both ways by turns that only makes others wait
   (docs/internals/measured.md). */
static bool gives_way(const merging *of, int32_t g, int64_t begin) {
    int32_t from = sender_to(of, g);
    return of->of->of->kind == CLEAVE_SCHEDULE_GPIPE && from != g && of->begin[from] == begin;
}

/* What reads of a block is of its stage, or of one beside it. */
static void look_again(const merging *of, int32_t stage) {
    int32_t last = of->of->of->n_stages - 1;
    for (int32_t s = stage > 0 ? stage - 1 : 0; s <= stage + 1 && s <= last; s++)
        of->begin[of->of->group[s]] = begin_of(of, of->of->group[s]);
}

/* By when blocks begin if each takes one unit, a backward with the gradients of weights two; ties
   by stage. */
static bool merge(const merging *of, int32_t n, cleave_stage_block *sequence) {
    bool parts = cleave_schedule_parts_weights(of->of->of);
    for (int32_t g = 0; g < of->of->n_groups; g++)
        of->begin[g] = begin_of(of, g);
    for (int32_t i = 0; i < n; i++) {
        int32_t next = -1;
        int64_t begins = 0;
        bool waits = false;
        for (int32_t g = 0; g < of->of->n_groups; g++) {
            int64_t begin = of->begin[g];
            if (begin < 0 || (next >= 0 && begin > begins))
                continue;
            bool way = gives_way(of, g, begin);
            int32_t stage = of->of->blocks[g][of->head[g]].stage;
            bool is_first = next < 0 || begin < begins || (waits && !way) ||
                            (waits == way && stage < of->of->blocks[next][of->head[next]].stage);
            if (is_first) {
                next = g;
                begins = begin;
                waits = way;
            }
        }
        if (next < 0)
            return false;
        sequence[i] = of->of->blocks[next][of->head[next]++];
        int64_t units = sequence[i].kind == CLEAVE_BLOCK_BACKWARD && !parts ? 2 : 1;
        of->free[next] = begins + units;
        *end_of(of, sequence[i].kind, sequence[i].stage, sequence[i].micro_batch) = begins + units;
        look_again(of, sequence[i].stage);
    }
    return true;
}

/* Do all blocks come to their turn?  In whatever order groups go on that may, so no times are
   needed: a group goes on until it waits. */
static bool goes_through(const merging *of, int32_t n) {
    int32_t taken = 0;
    for (bool goes_on = true; goes_on;) {
        goes_on = false;
        for (int32_t g = 0; g < of->of->n_groups; g++)
            for (; begin_of(of, g) >= 0; taken++) {
                const cleave_stage_block *block = &of->of->blocks[g][of->head[g]++];
                *end_of(of, block->kind, block->stage, block->micro_batch) = 1;
                goes_on = true;
            }
    }
    return taken == n;
}

static cleave_status fail_waiting(const orders *to) {
    return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                       "schedule: the orders of the groups wait for each other");
}

/* Without a sequence, where it is null. */
static cleave_status sequence_of(orders *to, cleave_arena *scratch, cleave_arena *arena,
                                 cleave_stage_block **sequence, int32_t *n_blocks) {
    const cleave_schedule *of = to->of;
    int64_t most = (int64_t)CLEAVE_N_BLOCK_KINDS * of->n_stages * of->micro_batches;
    if (most > INT32_MAX)
        return cleave_fail(to->error, CLEAVE_BAD_INPUT,
                           "schedule: %d stages and %d micro-batches are too many", of->n_stages,
                           of->micro_batches);
    int32_t *next = CLEAVE_ARENA_ARRAY(scratch, int32_t, CLEAVE_N_BLOCK_KINDS * of->n_stages);
    merging merged = {.of = to,
                      .head = CLEAVE_ARENA_ARRAY(scratch, int32_t, to->n_groups),
                      .free = CLEAVE_ARENA_ARRAY(scratch, int64_t, to->n_groups),
                      .ended = CLEAVE_ARENA_ARRAY(scratch, int64_t, most),
                      .begin = CLEAVE_ARENA_ARRAY(scratch, int64_t, to->n_groups)};
    to->n = CLEAVE_ARENA_ARRAY(scratch, int32_t, to->n_groups);
    to->blocks = cleave_arena_alloc(scratch, (size_t)to->n_groups, sizeof(cleave_stage_block *));
    bool ready = next != NULL && merged.head != NULL && merged.free != NULL &&
                 merged.ended != NULL && merged.begin != NULL && to->n != NULL &&
                 to->blocks != NULL;
    for (int32_t g = 0; g < to->n_groups && ready; g++) {
        int64_t n_stages = 0;
        for (int32_t s = 0; s < of->n_stages; s++)
            n_stages += to->group[s] == g;
        to->blocks[g] = CLEAVE_ARENA_ARRAY(scratch, cleave_stage_block,
                                           n_stages * CLEAVE_N_BLOCK_KINDS * of->micro_batches);
        ready = to->blocks[g] != NULL;
    }
    if (!ready)
        return cleave_fail_memory(to->error, "making a schedule");
    CLEAVE_TRY(make_orders(to, next));
    int32_t n = 0;
    for (int32_t g = 0; g < to->n_groups; g++)
        n += to->n[g];
    if (sequence == NULL)
        return goes_through(&merged, n) ? CLEAVE_OK : fail_waiting(to);
    *sequence = CLEAVE_ARENA_ARRAY(arena, cleave_stage_block, n);
    *n_blocks = n;
    if (*sequence == NULL)
        return cleave_fail_memory(to->error, "making a schedule");
    return merge(&merged, n, *sequence) ? CLEAVE_OK : fail_waiting(to);
}

static void count_groups(orders *to) {
    for (int32_t s = 0; s < to->of->n_stages; s++)
        to->n_groups = to->group[s] >= to->n_groups ? to->group[s] + 1 : to->n_groups;
}

cleave_status cleave_schedule_sequence(const cleave_schedule *schedule, const int32_t *group,
                                       cleave_arena *arena, cleave_stage_block **sequence,
                                       int32_t *n_blocks, cleave_error *error) {
    cleave_arena scratch = {0};
    orders to = {.of = schedule, .group = group, .error = error};
    count_groups(&to);
    cleave_status status = sequence_of(&to, &scratch, arena, sequence, n_blocks);
    cleave_arena_free(&scratch);
    return status;
}

cleave_status cleave_schedule_check_order(const cleave_schedule *schedule, const int32_t *group,
                                          cleave_error *error) {
    return cleave_schedule_sequence(schedule, group, NULL, NULL, NULL, error);
}
