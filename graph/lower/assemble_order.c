/* The global order: slot by slot, or block by block of a schedule, the items of the fragments and
   between them the computes. */
#include "base/order.h"
#include "graph/lower/assemble_internal.h"

#include "graph/lower/turns.h"

#include <string.h>

static int compare_chunks(const void *a, const void *b) {
    const lower_placed_chunk *x = a, *y = b;
    if (x->chunk.slot != y->chunk.slot)
        return CLEAVE_ORDER(x->chunk.slot, y->chunk.slot);
    if (x->chunk.rank != y->chunk.rank)
        return CLEAVE_ORDER(x->chunk.rank, y->chunk.rank);
    if (x->place != y->place)
        return CLEAVE_ORDER(x->place, y->place);
    return (x->chunk.first_item > y->chunk.first_item) -
           (x->chunk.first_item < y->chunk.first_item);
}

typedef struct order {
    lower_assembly *assembly;
    int32_t *lane_tail;     /* [n_devices][CLEAVE_N_LANES] last item of the lane, -1: none yet */
    int32_t *marked;        /* [marks] item that the mark stands for, or -1 */
    const int32_t *readers; /* [n_tensors] */
    int32_t *first_chunk;   /* [n_slots + 1] */
    int32_t *item_of;       /* [n_windows][unplaced] -1: not in this micro-batch */
    int32_t *message_of;    /* [n_windows][unposted] what is done once is in the first */
    const bool *is_parting; /* [unplaced] of a block, what is placed behind it; null: nothing is */
    bool places_partings;   /* these alone, and else all but these */
} order;

/* Chunks that wait for their place. */
typedef struct chunk_list {
    int32_t n, *chunks;
} chunk_list;

static void post(const order *o, int32_t template, int32_t window) {
    lower_assembly *assembly = o->assembly;
    cleave_message message = assembly->unposted.items[template];
    message.source_buffer = lower_instance_of(assembly, message.source_buffer, window);
    message.destination_buffer = lower_instance_of(assembly, message.destination_buffer, window);
    o->message_of[(int64_t)window * assembly->unposted.n + template] = assembly->messages.n;
    LOWER_PUSH_TO(assembly, messages, message);
}

static int32_t place_item(const order *o, cleave_item item, int32_t in_window) {
    lower_assembly *assembly = o->assembly;
    int32_t id = assembly->items.n;
    int32_t window = item.when == CLEAVE_WHEN_EVERY ? in_window : 0;
    if (item.kind == CLEAVE_ITEM_SYNC) {
        item.subject = o->marked[item.subject];
        if (item.subject < 0)
            return -1; /* the other lane has not done anything yet */
    }
    if (item.kind == CLEAVE_ITEM_SEND) /* always before the other end */
        post(o, item.subject, window);
    if (item.kind == CLEAVE_ITEM_SEND || item.kind == CLEAVE_ITEM_RECEIVE ||
        item.kind == CLEAVE_ITEM_WAIT)
        item.subject = o->message_of[(int64_t)window * assembly->unposted.n + item.subject];
    else if (item.kind != CLEAVE_ITEM_SYNC)
        item.subject = lower_instance_subject(assembly, &item, window);
    if (item.kind == CLEAVE_ITEM_SEND)
        assembly->messages.items[item.subject].send_item = id;
    if (item.kind == CLEAVE_ITEM_RECEIVE)
        assembly->messages.items[item.subject].receive_item = id;
    LOWER_PUSH_TO(assembly, items, item);
    o->lane_tail[item.device * CLEAVE_N_LANES + item.lane] = id;
    return id;
}

static void place_chunk(const order *o, const cleave_fragment_chunk *chunk, int32_t window) {
    const lower_assembly *assembly = o->assembly;
    int32_t mark = chunk->first_mark, end_mark = mark + chunk->n_marks;
    for (int32_t i = chunk->first_item; i <= chunk->first_item + chunk->n_items; i++) {
        for (; mark < end_mark && assembly->marks.items[mark].before == i; mark++) {
            const cleave_lane_mark *at = &assembly->marks.items[mark];
            if (!o->places_partings)
                o->marked[mark] = o->lane_tail[at->device * CLEAVE_N_LANES + (int32_t)at->lane];
        }
        if (i < chunk->first_item + chunk->n_items &&
            (o->is_parting != NULL && o->is_parting[i]) == o->places_partings &&
            lower_runs_in(assembly->unplaced.items[i].when, window, assembly->n_windows))
            o->item_of[(int64_t)window * assembly->unplaced.n + i] =
                place_item(o, assembly->unplaced.items[i], window);
    }
}

static void place_computes(const order *o, int32_t slot, int32_t window) {
    lower_assembly *assembly = o->assembly;
    const lower_builder *builder = assembly->builder;
    const cleave_slot *of = &assembly->schedule->slots[slot];
    if (of->nest < 0)
        return;
    cleave_when when =
        cleave_micro_batches_when(builder->micro, builder->model, of->nest, (cleave_pass)of->pass);
    if (!lower_runs_in((uint8_t)when, window, assembly->n_windows))
        return;
    for (int32_t p = 0; p < builder->parts[of->nest].n; p++) {
        if (builder->parts[of->nest].items[p].empty)
            continue;
        cleave_compute compute =
            of->pass == CLEAVE_PASS_FORWARD
                ? lower_forward_compute(assembly, of->nest, p, window, of->generation > 0,
                                        o->readers)
                : lower_backward_compute(assembly, of->nest, p, window, of->pass);
        LOWER_PUSH_TO(assembly, computes, compute);
        place_item(o,
                   (cleave_item){.kind = CLEAVE_ITEM_COMPUTE,
                                 .lane = CLEAVE_LANE_MAIN,
                                 .when = (uint8_t)when,
                                 .device = compute.part.device,
                                 .slot = slot,
                                 .subject = assembly->computes.n - 1},
                   window);
    }
}

static int32_t count_computes(const lower_assembly *assembly) {
    int64_t n = 0;
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++)
        if (assembly->schedule->slots[slot].nest >= 0)
            n += (int64_t)assembly->builder->parts[assembly->schedule->slots[slot].nest].n *
                 assembly->n_windows;
    return n < INT32_MAX ? (int32_t)n : INT32_MAX;
}

/* Does it move what adds up over all micro-batches, beside the main lane?  What is reduced for a
   visit is settled in the same block, and can't come later. */
static bool is_sum(const order *o, const cleave_fragment_chunk *chunk) {
    const cleave_item *items = &o->assembly->unplaced.items[chunk->first_item];
    for (int32_t i = 0; i < chunk->n_items && chunk->rank != LOWER_RANK_REDUCE; i++)
        if (items[i].lane == CLEAVE_LANE_COMMUNICATION && items[i].when == CLEAVE_WHEN_LAST)
            return true;
    return false;
}

/* A slot in one micro-batch; `late` not null: but for sums, which are put there. */
static void place_slot(const order *o, int32_t slot, int32_t window, chunk_list *late) {
    const lower_placed_chunk *chunks = o->assembly->chunks.items;
    int32_t c = o->first_chunk[slot], end = o->first_chunk[slot + 1];
    for (; c < end && chunks[c].chunk.rank < CLEAVE_RANK_COMPUTE; c++)
        place_chunk(o, &chunks[c].chunk, window);
    if (!o->places_partings)
        place_computes(o, slot, window);
    for (; c < end; c++)
        if (late == NULL || !is_sum(o, &chunks[c].chunk))
            place_chunk(o, &chunks[c].chunk, window);
        else
            late->chunks[late->n++] = c;
}

/* What is placed once has the ids of before; items of all micro-batches need more. */
static order begin_order(lower_assembly *assembly) {
    lower_builder *builder = assembly->builder;
    int64_t windows = assembly->n_windows, n_computes = count_computes(assembly);
    int64_t n_items = assembly->unplaced.n * windows + n_computes;
    if (n_items > INT32_MAX)
        lower_fail(builder, CLEAVE_FAILED, "the program has more than 2^31 items");
    if (!CLEAVE_LIST_RESERVE(&assembly->computes, (int32_t)n_computes) ||
        !CLEAVE_LIST_RESERVE(&assembly->messages, assembly->unposted.n) ||
        !CLEAVE_LIST_RESERVE(&assembly->items, (int32_t)n_items))
        lower_fail_memory(builder);
    size_t lanes = (size_t)builder->n_devices * CLEAVE_N_LANES;
    order o = {.assembly = assembly,
               .lane_tail = LOWER_ARRAY(builder, int32_t, lanes),
               .marked = LOWER_ARRAY(builder, int32_t, assembly->marks.n),
               .readers = lower_count_readers(builder),
               .first_chunk = LOWER_ARRAY(builder, int32_t, assembly->schedule->n_slots + 1),
               .item_of = LOWER_ARRAY(builder, int32_t, assembly->unplaced.n * windows),
               .message_of = LOWER_ARRAY(builder, int32_t, assembly->unposted.n * windows)};
    memset(o.lane_tail, -1, lanes * sizeof *o.lane_tail);
    memset(o.item_of, -1, (size_t)(assembly->unplaced.n * windows) * sizeof *o.item_of);
    assembly->n_collectives = assembly->collectives.n;
    assembly->collective_of = LOWER_ARRAY(builder, int32_t, assembly->collectives.n * windows);
    return o;
}

/* Uses that no item shows, in every micro-batch. */
static void place_touches(const order *o) {
    lower_assembly *assembly = o->assembly;
    int32_t n = assembly->touches.n;
    for (int32_t w = assembly->n_windows - 1; w >= 0; w--)
        for (int32_t i = 0; i < n; i++) {
            lower_touch_mark mark = assembly->touches.items[i];
            int32_t item = o->item_of[(int64_t)w * assembly->unplaced.n + mark.item];
            mark.buffer = lower_instance_of(assembly, mark.buffer, w);
            mark.item = item;
            if (item >= 0)
                LOWER_PUSH_TO(assembly, placed_touches, mark);
        }
}

static void sort_chunks(const order *o) {
    lower_assembly *assembly = o->assembly;
    int32_t c = 0;
    CLEAVE_SORT(assembly->chunks.items, assembly->chunks.n, compare_chunks);
    for (int32_t slot = 0; slot < assembly->schedule->n_slots; slot++) {
        while (c < assembly->chunks.n && assembly->chunks.items[c].chunk.slot < slot)
            c++;
        o->first_chunk[slot] = c;
    }
    o->first_chunk[assembly->schedule->n_slots] = assembly->chunks.n;
}

/* Does a slot belong to the block, whatever its micro-batch?  Updates belong to none. */
static bool is_in_block(const order *o, int32_t slot, const cleave_stage_block *block) {
    const lower_schedule *schedule = o->assembly->schedule;
    const cleave_slot *of = &schedule->slots[slot];
    return of->nest >= 0 && schedule->stage_of[of->nest] == block->stage &&
           of->block == block->kind;
}

/* The slots of every kind of block and stage, [kinds x n_stages] lists one behind the other. */
typedef struct block_slots {
    int32_t *first, *slots;
} block_slots;

static block_slots list_block_slots(const order *o) {
    lower_builder *builder = o->assembly->builder;
    const lower_schedule *schedule = o->assembly->schedule;
    int32_t n_stages = builder->layout->schedule.n_stages, n = 0;
    block_slots lists = {.first =
                             LOWER_ARRAY(builder, int32_t, CLEAVE_N_BLOCK_KINDS * n_stages + 1),
                         .slots = LOWER_ARRAY(builder, int32_t, schedule->n_slots)};
    for (int kind = 0; kind < CLEAVE_N_BLOCK_KINDS; kind++)
        for (int32_t s = 0; s < n_stages; s++) {
            const cleave_stage_block block = {.kind = (uint8_t)kind, .stage = s};
            int32_t list = lower_turns_list(&builder->layout->schedule, kind, s);
            for (int32_t slot = schedule->n_prologue_slots; slot < schedule->n_slots; slot++)
                if (is_in_block(o, slot, &block))
                    lists.slots[n++] = slot;
            lists.first[list + 1] = n;
        }
    return lists;
}

/* The last block of each group that gives another one a gradient, in the sequence; -1: none does.
 */
static int32_t *find_last_sent(const order *o, const int32_t *group, int32_t n_blocks,
                               const cleave_stage_block *sequence) {
    lower_builder *builder = o->assembly->builder;
    int32_t n = builder->layout->schedule.n_stages;
    int32_t *last = LOWER_ARRAY(builder, int32_t, n);
    memset(last, -1, (size_t)n * sizeof *last);
    for (int32_t b = 0; b < n_blocks; b++) {
        int32_t stage = sequence[b].stage;
        if (sequence[b].kind == CLEAVE_BLOCK_BACKWARD && stage > 0 &&
            group[stage - 1] != group[stage])
            last[group[stage]] = b;
    }
    return last;
}

/* Those of a group that have waited. */
static void place_late(const order *o, const chunk_list *late, const int32_t *group, int32_t of) {
    const lower_schedule *schedule = o->assembly->schedule;
    for (int32_t i = 0; i < late->n; i++) {
        const cleave_fragment_chunk *chunk = &o->assembly->chunks.items[late->chunks[i]].chunk;
        if (group[schedule->stage_of[schedule->slots[chunk->slot].nest]] == of)
            place_chunk(o, chunk, o->assembly->n_windows - 1);
    }
}

/* ---- partings -------------------------------------------------------------------------------- */

/* What a group has sent it can't write over until that has left, and waits for that.  The reader's
   block knows for what; but on the sender's side the wait may stand anywhere behind it, and each
   place costs something: where the reader's block stands, a group with work to do waits until a
   slow link has taken what nobody is in need of; later, the buffer lies there for longer.  So it
   stands before the group's next block but one of that stage and kind, when two buffers are in use
   already, or before its next block of that micro-batch, which needs what was sent to have arrived.
   These waits are the reader's partings, and come by themselves. */
typedef struct partings {
    order places;
    const int32_t *group;
    const cleave_schedule *schedule;
    /* By kind of block and stage: has it partings?  And how many micro-batches have begun, have
       been placed, and have parted. */
    bool *has;
    int32_t *begun, *placed, *parted;
} partings;

/* [n_devices] of the program, the group of stages; -1: none. */
static int32_t *find_groups_of_devices(const order *o, const int32_t *group) {
    lower_builder *builder = o->assembly->builder;
    const lower_schedule *schedule = o->assembly->schedule;
    int32_t *of = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    memset(of, -1, (size_t)builder->n_devices * sizeof *of);
    for (int32_t n = 0; n < builder->model->n_nests; n++)
        for (int32_t p = 0; p < builder->parts[n].n; p++)
            of[builder->parts[n].items[p].device] = group[schedule->stage_of[n]];
    return of;
}

/* The stage that sends what a block reads. */
static int32_t sender_of(int kind, int32_t stage) {
    return kind == CLEAVE_BLOCK_FORWARD ? stage - 1 : stage + 1;
}

/* The waits of a chunk on the devices of a group that sends; but where a device posts behind one
   what may come to lie in the place of what it has sent.  `posts` [n_devices] is room. */
static bool mark_partings(const order *o, const cleave_fragment_chunk *chunk,
                          const int32_t *group_of, int32_t sender, int32_t *posts, bool *are) {
    const lower_assembly *assembly = o->assembly;
    bool has = false;
    for (int32_t i = chunk->first_item + chunk->n_items - 1; i >= chunk->first_item; i--) {
        const cleave_item *item = &assembly->unplaced.items[i];
        if (item->kind == CLEAVE_ITEM_SEND || item->kind == CLEAVE_ITEM_RECEIVE)
            posts[item->device] = 1 + chunk->first_item;
        are[i] = item->kind == CLEAVE_ITEM_WAIT && item->lane == CLEAVE_LANE_MAIN &&
                 group_of[item->device] == sender &&
                 assembly->unposted.items[item->subject].source == item->device &&
                 posts[item->device] != 1 + chunk->first_item;
        has = has || are[i];
    }
    return has;
}

static partings find_partings(const order *o, const int32_t *group) {
    lower_builder *builder = o->assembly->builder;
    const lower_assembly *assembly = o->assembly;
    const lower_schedule *schedule = assembly->schedule;
    int32_t n_stages = builder->layout->schedule.n_stages, n = CLEAVE_N_BLOCK_KINDS * n_stages;
    partings found = {.places = *o,
                      .group = group,
                      .schedule = &builder->layout->schedule,
                      .has = LOWER_ARRAY(builder, bool, n),
                      .begun = LOWER_ARRAY(builder, int32_t, n),
                      .placed = LOWER_ARRAY(builder, int32_t, n),
                      .parted = LOWER_ARRAY(builder, int32_t, n)};
    bool *are = LOWER_ARRAY(builder, bool, assembly->unplaced.n);
    const int32_t *group_of = find_groups_of_devices(o, group);
    int32_t *posts = LOWER_ARRAY(builder, int32_t, builder->n_devices);
    for (int32_t c = 0; c < assembly->chunks.n; c++) {
        const cleave_fragment_chunk *chunk = &assembly->chunks.items[c].chunk;
        const cleave_slot *slot = &schedule->slots[chunk->slot];
        if (slot->nest < 0 || chunk->slot < schedule->n_prologue_slots ||
            slot->block == CLEAVE_BLOCK_WEIGHT || is_sum(o, chunk))
            continue;
        int32_t stage = schedule->stage_of[slot->nest], sender = sender_of(slot->block, stage);
        if (sender < 0 || sender >= n_stages || group[sender] == group[stage])
            continue;
        bool *has = &found.has[lower_turns_list(found.schedule, slot->block, stage)];
        *has = mark_partings(o, chunk, group_of, group[sender], posts, are) || *has;
    }
    found.places.is_parting = are;
    found.places.places_partings = true;
    return found;
}

/* Of a block that reads, the next micro-batch that has not parted. */
static void part(partings *of, const block_slots *lists, int32_t list) {
    lower_assembly *assembly = of->places.assembly;
    int32_t u = of->parted[list]++, window = lower_turns_window(assembly, u);
    if (lower_turns_take(assembly, lower_turns_partings(of->schedule, list), u))
        for (int32_t i = lists->first[list]; i < lists->first[list + 1]; i++)
            place_slot(&of->places, lists->slots[i], window, NULL);
}

/* Before a block: of all that its group has sent, and that has been read. */
static void part_before(partings *of, const block_slots *lists, const cleave_stage_block *block) {
    int32_t n = of->schedule->n_stages;
    of->begun[lower_turns_list(of->schedule, block->kind, block->stage)]++;
    for (int kind = CLEAVE_BLOCK_FORWARD; kind <= CLEAVE_BLOCK_BACKWARD; kind++)
        for (int32_t reader = 0; reader < n; reader++) {
            int32_t list = lower_turns_list(of->schedule, kind, reader);
            int32_t sender = sender_of(kind, reader);
            if (!of->has[list] || of->group[sender] != of->group[block->stage])
                continue;
            bool sends = block->kind == kind && block->stage == sender;
            int32_t begun = of->begun[lower_turns_list(of->schedule, kind, sender)];
            bool goes_on = block->micro_batch < begun - sends; /* with what it has begun */
            while (of->parted[list] < of->placed[list] &&
                   (of->parted[list] + 2 < begun ||
                    (goes_on && of->parted[list] <= block->micro_batch)))
                part(of, lists, list);
        }
}

static void part_all(partings *of, const block_slots *lists) {
    for (int32_t list = 0; list < CLEAVE_N_BLOCK_KINDS * of->schedule->n_stages; list++)
        while (of->has[list] && of->parted[list] < of->placed[list])
            part(of, lists, list);
}

/* Block by block, and the updates.  What a group gives another one is what that waits for, and sums
   of its gradients would stand before it at links: so they begin when the last of it is sent. */
static void place_blocks(const order *o) {
    lower_builder *builder = o->assembly->builder;
    const lower_schedule *schedule = o->assembly->schedule;
    const cleave_schedule *of = &builder->layout->schedule;
    int32_t *group, n_blocks = 0;
    cleave_stage_block *sequence = NULL;
    cleave_status status =
        cleave_layout_groups(builder->layout, builder->arena, &group, builder->error);
    if (status == CLEAVE_OK)
        status = cleave_schedule_sequence(of, group, builder->arena, &sequence, &n_blocks,
                                          builder->error);
    if (status != CLEAVE_OK)
        lower_unwind(builder, status);
    block_slots lists = list_block_slots(o);
    const int32_t *last_sent = find_last_sent(o, group, n_blocks, sequence);
    chunk_list late = {.chunks = LOWER_ARRAY(builder, int32_t, o->assembly->chunks.n)};
    partings parting = find_partings(o, group);
    order places = *o;
    places.is_parting = parting.places.is_parting;
    for (int32_t b = 0; b < n_blocks; b++) {
        if (!builder->options->training && sequence[b].kind != CLEAVE_BLOCK_FORWARD)
            continue;
        int32_t list = lower_turns_list(of, sequence[b].kind, sequence[b].stage);
        int32_t window = lower_turns_window(o->assembly, sequence[b].micro_batch);
        int32_t last = last_sent[group[sequence[b].stage]];
        bool waits = b <= last && window == o->assembly->n_windows - 1;
        part_before(&parting, &lists, &sequence[b]);
        if (lower_turns_take(o->assembly, list, sequence[b].micro_batch))
            for (int32_t i = lists.first[list]; i < lists.first[list + 1]; i++)
                place_slot(&places, lists.slots[i], window, waits ? &late : NULL);
        parting.placed[list]++;
        if (b == last)
            place_late(&places, &late, group, group[sequence[b].stage]);
    }
    part_all(&parting, &lists);
    lower_turns_take(o->assembly, LOWER_TURN_OF_UPDATES, of->micro_batches - 1);
    for (int32_t slot = schedule->n_prologue_slots; slot < schedule->n_slots; slot++)
        if (schedule->slots[slot].nest < 0)
            place_slot(o, slot, o->assembly->n_windows - 1, NULL);
}

void lower_assembly_place(lower_assembly *assembly) {
    const lower_schedule *schedule = assembly->schedule;
    const cleave_layout *layout = assembly->builder->layout;
    lower_instances_make(assembly);
    order o = begin_order(assembly);
    sort_chunks(&o);
    lower_turns_begin(assembly);
    for (int32_t u = 0; u < layout->schedule.micro_batches && schedule->n_prologue_slots > 0; u++)
        if (lower_turns_take(assembly, LOWER_TURN_OF_PROLOGUE, u))
            for (int32_t slot = 0; slot < schedule->n_prologue_slots; slot++)
                place_slot(&o, slot, lower_turns_window(assembly, u), NULL);
    if (!cleave_schedule_is_plain(&layout->schedule))
        place_blocks(&o);
    else
        for (int32_t slot = 0; slot < schedule->n_slots; slot++)
            place_slot(&o, slot, 0, NULL);
    place_touches(&o);
}
