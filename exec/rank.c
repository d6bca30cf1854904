/* One rank's part of a program.

   The main lane blocks on the head of its order; whenever it waits, between any two of its items,
   and between the pieces of a long one, the communication lane is carried as far as it comes
   without blocking, and messages of either lane that are under way go on.  What that lane may do
   inside an item of the main lane is what it might do before or after it: the memory plan keeps
   what it uses apart from all that the main lane uses between two syncs. */
#include "exec/rank.h"

#include "base/order.h"
#include "base/progress.h"
#include "base/units.h"
#include "exec/dropped.h"
#include "exec/kernels/convert.h"
#include "exec/kernels/copy.h"
#include "exec/kernels/share.h"
#include "exec/training/decay.h"
#include "exec/world/memory.h"
#include "graph/program/work.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

typedef struct placed_item {
    int32_t place, id;
} placed_item;

static int compare_places(const void *a, const void *b) {
    const placed_item *x = a, *y = b;
    return x->place != y->place ? CLEAVE_ORDER(x->place, y->place) : CLEAVE_ORDER(x->id, y->id);
}

/* Puts a receive behind this rank's own next message to its sender, where no more than posts and
   copies are between; `next_send` is scratch, [n_devices].

   A receive that is posted tells a sender that waits to begin; what then answers the own message
   has to travel back behind all of the other, and the two would go one after the other.  Receives
   keep their order, by which MPI matches, and nothing that one comes behind waits for another rank,
   so that no rank can come to wait for this one. */
static void post_sends_first(const cleave_program *program, placed_item *items, int32_t n,
                             int32_t *next_send) {
    int32_t end = n; /* of the posts and copies that follow */
    for (int32_t d = 0; d < program->n_devices; d++)
        next_send[d] = n;
    for (int32_t i = n - 1; i >= 0; i--) {
        const cleave_item *item = &program->items[items[i].id];
        items[i].place = 2 * i;
        if (item->kind == CLEAVE_ITEM_SEND) {
            next_send[program->messages[item->subject].destination] = i;
        } else if (item->kind == CLEAVE_ITEM_RECEIVE) {
            int32_t send = next_send[program->messages[item->subject].source];
            if (send < end)
                items[i].place = 2 * send + 1;
        } else if (item->kind != CLEAVE_ITEM_COPY) {
            end = i;
        }
    }
    CLEAVE_SORT(items, n, compare_places);
}

static cleave_status find_lanes(cleave_rank *rank, cleave_arena *arena, cleave_error *error) {
    const cleave_program *program = rank->program;
    placed_item *items = CLEAVE_ARENA_ARRAY(arena, placed_item, program->n_items);
    int32_t *next_send = CLEAVE_ARENA_ARRAY(arena, int32_t, program->n_devices);
    if (items == NULL || next_send == NULL)
        return cleave_fail_memory(error, "preparing a rank");
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++) {
        int32_t n = 0;
        for (int32_t i = 0; i < program->n_items; i++)
            if (program->items[i].device == rank->device && program->items[i].lane == lane)
                items[n++].id = i;
        post_sends_first(program, items, n, next_send);
        rank->n_lane_items[lane] = n;
        rank->lane_items[lane] = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
        if (rank->lane_items[lane] == NULL)
            return cleave_fail_memory(error, "preparing a rank");
        for (int32_t i = 0; i < n; i++)
            rank->lane_items[lane][i] = items[i].id;
    }
    return CLEAVE_OK;
}

cleave_status cleave_rank_create_within(cleave_rank *rank, cleave_world *world,
                                        const cleave_program *program,
                                        const cleave_run_options *options, cleave_arena *arena,
                                        cleave_error *error) {
    *rank = (cleave_rank){
        .world = world, .program = program, .options = options, .device = cleave_world_rank(world)};
    size_t n_items = (size_t)program->n_items, n_messages = (size_t)program->n_messages;
    rank->request_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n_messages);
    rank->done = CLEAVE_ARENA_ARRAY(arena, bool, n_items);
    rank->start = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    rank->end = CLEAVE_ARENA_ARRAY(arena, int64_t, n_items);
    rank->sent = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    rank->received = CLEAVE_ARENA_ARRAY(arena, int64_t, program->n_devices);
    if (rank->request_of == NULL || rank->done == NULL || rank->start == NULL ||
        rank->end == NULL || rank->sent == NULL || rank->received == NULL)
        return cleave_fail_memory(error, "preparing a rank");
    CLEAVE_TRY(find_lanes(rank, arena, error));
    int32_t n_requests = 0;
    for (int32_t m = 0; m < program->n_messages; m++) {
        const cleave_message *message = &program->messages[m];
        bool mine = message->source == rank->device || message->destination == rank->device;
        rank->request_of[m] = mine ? n_requests++ : -1;
    }
    CLEAVE_TRY(cleave_world_reserve(world, n_requests, error));
    if (options->device_threads > 1)
        rank->cuts = CLEAVE_ARENA_ARRAY(arena, cleave_kernel_cut, program->n_computes);
    if (options->device_threads > 1 && rank->cuts == NULL)
        return cleave_fail_memory(error, "preparing a rank");
    return cleave_kernels_create_threads(options->device_threads, &rank->kernels, error);
}

cleave_status cleave_rank_new_memory(const cleave_rank *rank, char **memory, cleave_error *error) {
    int64_t bytes = rank->program->peak_bytes[rank->device];
    char *taken = cleave_memory_allocate((size_t)bytes);
    if (taken == NULL) {
        char size[32];
        cleave_unit_format((double)bytes, CLEAVE_UNIT_BYTES, size, sizeof size);
        return cleave_fail(error, CLEAVE_FAILED,
                           "rank %d: out of memory: its share of the layout takes %s", rank->device,
                           size);
    }
    memset(taken, 0, (size_t)bytes); /* touched now, so that no step pays for page faults */
    *memory = taken;
    return CLEAVE_OK;
}

void cleave_rank_destroy(cleave_rank *rank) {
    if (rank->kernels != NULL)
        cleave_kernels_destroy(rank->kernels);
    free(rank->memory);
    *rank = (cleave_rank){0};
}

static void give_data(const cleave_rank *rank, int32_t buffer, cleave_array *array) {
    array->data = buffer >= 0 ? cleave_rank_buffer(rank, buffer) : NULL;
    if (buffer >= 0)
        array->type = rank->program->buffers[buffer].type;
}

static cleave_status advance(cleave_rank *rank, cleave_lane lane, int32_t most, bool *moved,
                             cleave_error *error);

/* Between two pieces of an item.  Within the communication lane's own items nothing of the lane can
   be done, but what it has posted goes on. */
static cleave_status poll(void *context, cleave_error *error) {
    cleave_rank *rank = context;
    if (rank->options->no_overlap)
        return CLEAVE_OK;
    double before = cleave_clock_seconds();
    cleave_world_beat(rank->world);
    cleave_world_progress(rank->world);
    if (rank->communicating)
        return CLEAVE_OK;
    bool moved;
    cleave_status status = advance(rank, CLEAVE_LANE_COMMUNICATION, INT32_MAX, &moved, error);
    rank->polled_seconds += cleave_clock_seconds() - before;
    rank->n_polls++;
    rank->n_polls_that_moved += moved;
    return status;
}

static cleave_status run_compute(cleave_rank *rank, const cleave_compute *compute,
                                 cleave_error *error) {
    const cleave_nest *nest = &rank->program->model->nests[compute->nest];
    cleave_kernel_call call;
    cleave_kernel_call_describe(rank->program->model, nest, compute->pass, &compute->part, &call);
    call.accumulated = compute->accumulated;
    call.seed = rank->options->seed;
    call.step = rank->step;
    call.pieces = compute->pieces;
    call.poll = poll;
    call.poll_context = rank;
    for (int i = 0; i < nest->n_inputs; i++) {
        give_data(rank, compute->inputs[i], &call.inputs[i]);
        give_data(rank, compute->input_gradients[i], &call.input_gradients[i]);
    }
    give_data(rank, compute->output, &call.output);
    give_data(rank, compute->combined, &call.combined);
    give_data(rank, compute->output_gradient, &call.output_gradient);
    if (compute->workspace >= 0) {
        call.workspace = cleave_rank_buffer(rank, compute->workspace);
        call.workspace_bytes = rank->program->buffers[compute->workspace].bytes;
    }
    if (rank->options->reference_kernels)
        return cleave_kernel_run_reference(&call, error);
    if (rank->cuts != NULL) {
        cleave_kernel_cut *cut = &rank->cuts[compute - rank->program->computes];
        if (cut->n == 0)
            *cut = cleave_kernel_find_cut(rank->kernels, &call);
        call.cut = *cut;
    }
    return cleave_kernel_run(rank->kernels, &call, error);
}

typedef struct running_update {
    const cleave_rank *rank;
    const cleave_update *of;
    cleave_optimizer optimizer;
    cleave_update_step at;
} running_update;

/* Of elements `from` to `to` of its gradient.  A master is rounded while it lies in the cache. */
static void run_range(void *context, int64_t from, int64_t to) {
    enum { CACHED = 1 << 13 };
    const running_update *range = context;
    const cleave_rank *rank = range->rank;
    const cleave_update *update = range->of;
    char *parameter = cleave_rank_buffer(rank, update->parameter);
    const float *gradient = cleave_rank_buffer(rank, update->gradient);
    bool rounds = update->master >= 0;
    float *exact = rounds ? cleave_rank_buffer(rank, update->master)
                          : (void *)((float *)(void *)parameter + update->first);
    int64_t n = to - from;
    n = rounds && n > CACHED ? CACHED : n;
    for (int64_t i = from; i < to; i += n) {
        float *state[2] = {NULL, NULL};
        n = n < to - i ? n : to - i;
        for (int s = 0; s < 2; s++)
            if (update->state[s] >= 0)
                state[s] = (float *)cleave_rank_buffer(rank, update->state[s]) + i;
        cleave_optimizer_update(&range->optimizer, &range->at, n, exact + i, gradient + i, state);
        if (rounds)
            cleave_convert(CLEAVE_F32, exact + i, CLEAVE_BF16,
                           (uint16_t *)(void *)parameter + update->first + i, n);
    }
}

static cleave_status run_update(cleave_rank *rank, const cleave_update *update,
                                cleave_error *error) {
    int64_t n = rank->program->buffers[update->gradient].bytes / (int64_t)sizeof(float);
    int32_t pieces = cleave_work_pieces_of_bytes(cleave_update_bytes(rank->program, update));
    running_update range = {.rank = rank,
                            .of = update,
                            .optimizer = rank->options->optimizer,
                            .at = {.step = rank->step + 1, .scale = 1}};
    if (!cleave_decay_acts(rank->options->no_decay,
                           rank->program->model->tensors[update->tensor].name))
        range.optimizer.weight_decay = 0;
    if (update->squares >= 0)
        range.at.scale = cleave_optimizer_clip(
            &range.optimizer, *(const float *)cleave_rank_buffer(rank, update->squares));
    for (int32_t i = 0; i < pieces; i++) {
        if (i > 0)
            CLEAVE_TRY(poll(rank, error));
        cleave_share_range(cleave_kernels_team(rank->kernels), cleave_block_start(n, pieces, i),
                           cleave_block_start(n, pieces, i + 1), run_range, &range);
    }
    return CLEAVE_OK;
}

/* Large pieces are cut, and many small ones are pieces already. */
static cleave_status run_copy(cleave_rank *rank, const cleave_copy *copy, cleave_error *error) {
    int64_t polls = cleave_work_pieces_of_copy(copy->bytes);
    for (int32_t p = 0; p < copy->n_pieces; p++) {
        const cleave_copy_piece *piece = &rank->program->copy_pieces[copy->first_piece + p];
        char *to = cleave_rank_buffer(rank, piece->destination);
        const char *from = piece->source >= 0 ? cleave_rank_buffer(rank, piece->source) : NULL;
        int32_t cuts = cleave_copy_piece_cuts(piece, (int32_t)(polls / copy->n_pieces));
        for (int32_t i = 0; i < cuts; i++) {
            cleave_copy_piece cut;
            cleave_copy_piece_cut(piece, cuts, i, &cut);
            if (i > 0 || (p > 0 && p * polls / copy->n_pieces > (p - 1) * polls / copy->n_pieces))
                CLEAVE_TRY(poll(rank, error));
            cleave_share_copy(cleave_kernels_team(rank->kernels), &cut, to, from);
        }
    }
    return CLEAVE_OK;
}

static void post(cleave_rank *rank, int32_t m, bool sends) {
    const cleave_message *message = &rank->program->messages[m];
    int32_t request = rank->request_of[m];
    if (sends) {
        char *data = cleave_rank_buffer(rank, message->source_buffer);
        cleave_world_send(rank->world, request, data + message->source_offset, message->bytes,
                          message->destination, message->lane);
        rank->sent[message->destination] += message->bytes;
    } else {
        char *data = cleave_rank_buffer(rank, message->destination_buffer);
        cleave_world_receive(rank->world, request, data + message->destination_offset,
                             message->bytes, message->source, message->lane);
    }
    rank->n_under_way++;
}

/* Could the item run now without blocking? */
static bool is_ready(cleave_rank *rank, const cleave_item *item) {
    if (item->kind == CLEAVE_ITEM_SYNC)
        return rank->done[item->subject];
    if (item->kind != CLEAVE_ITEM_WAIT)
        return true;
    const cleave_message *message = &rank->program->messages[item->subject];
    bool receives = message->destination == rank->device;
    int64_t received = 0; /* MPI says nothing of how long a message is that was sent */
    if (!cleave_world_test(rank->world, rank->request_of[item->subject],
                           receives ? &received : NULL))
        return false;
    rank->n_under_way--;
    if (receives)
        rank->received[message->source] += received;
    return true;
}

static int64_t since_step(const cleave_rank *rank) {
    return (int64_t)((cleave_clock_seconds() - rank->step_started) * 1e12);
}

/* Runs an item that is ready. */
static cleave_status run_item(cleave_rank *rank, int32_t id, cleave_error *error) {
    const cleave_program *program = rank->program;
    const cleave_item *item = &program->items[id];
    cleave_status status = CLEAVE_OK;
    double polled = rank->polled_seconds;
    switch ((cleave_item_kind)item->kind) {
    case CLEAVE_ITEM_COMPUTE:
        status = run_compute(rank, &program->computes[item->subject], error);
        break;
    case CLEAVE_ITEM_UPDATE:
        status = run_update(rank, &program->updates[item->subject], error);
        break;
    case CLEAVE_ITEM_LOAD: {
        const cleave_load *load = &program->loads[item->subject];
        status = rank->load(rank->load_context, &program->buffers[load->buffer], rank->step,
                            cleave_rank_buffer(rank, load->buffer), error);
        break;
    }
    case CLEAVE_ITEM_COPY:
        status = run_copy(rank, &program->copies[item->subject], error);
        break;
    case CLEAVE_ITEM_SEND:
        post(rank, item->subject, true);
        break;
    case CLEAVE_ITEM_RECEIVE:
        post(rank, item->subject, false);
        break;
    case CLEAVE_ITEM_WAIT:
    case CLEAVE_ITEM_SYNC:
        break;
    case CLEAVE_ITEM_JOIN:
    case CLEAVE_ITEM_AWAIT:
        return cleave_fail(error, CLEAVE_FAILED,
                           "a program with symbolic collectives can't be run");
    }
    if (rank->finds_nan != NULL && rank->finds_nan(rank, item) &&
        (rank->nan_item < 0 || id < rank->nan_item))
        rank->nan_item = id;
    rank->dropped += cleave_dropped_count(rank, item);
    rank->done[id] = true;
    rank->end[id] = since_step(rank);
    if (item->kind == CLEAVE_ITEM_COMPUTE || item->kind == CLEAVE_ITEM_UPDATE)
        rank->kernel_seconds +=
            1e-12 * (double)(rank->end[id] - rank->start[id]) - (rank->polled_seconds - polled);
    return status;
}

/* Carries a lane on until its head blocks. */
static cleave_status advance(cleave_rank *rank, cleave_lane lane, int32_t most, bool *moved,
                             cleave_error *error) {
    *moved = false;
    rank->communicating = lane == CLEAVE_LANE_COMMUNICATION;
    cleave_status status = CLEAVE_OK;
    for (int32_t n = 0; n < most && rank->position[lane] < rank->n_lane_items[lane]; n++) {
        int32_t id = rank->lane_items[lane][rank->position[lane]];
        if (rank->start[id] < 0)
            rank->start[id] = since_step(rank);
        if (!is_ready(rank, &rank->program->items[id]))
            break;
        status = run_item(rank, id, error);
        if (status != CLEAVE_OK)
            break;
        rank->position[lane]++;
        *moved = true;
    }
    rank->communicating = false;
    return status;
}

static cleave_status stalled(const cleave_rank *rank, cleave_error *error) {
    for (int lane = 0; lane < CLEAVE_N_LANES; lane++) {
        if (rank->position[lane] >= rank->n_lane_items[lane])
            continue;
        const cleave_item *item =
            &rank->program->items[rank->lane_items[lane][rank->position[lane]]];
        if (item->kind != CLEAVE_ITEM_WAIT)
            continue;
        const cleave_message *message = &rank->program->messages[item->subject];
        return cleave_fail(
            error, CLEAVE_FAILED,
            "rank %d: stalled for %g s at step %lld, waiting for %lld bytes of %s from rank %d to "
            "%d",
            rank->device, rank->options->stall_timeout_seconds, (long long)rank->step,
            (long long)message->bytes,
            message->tensor >= 0 ? rank->program->model->tensors[message->tensor].name : "data",
            message->source, message->destination);
    }
    return cleave_fail(error, CLEAVE_FAILED, "rank %d: stalled for %g s at step %lld", rank->device,
                       rank->options->stall_timeout_seconds, (long long)rank->step);
}

cleave_status cleave_rank_step(cleave_rank *rank, int64_t step, cleave_error *error) {
    size_t n_items = (size_t)rank->program->n_items;
    memset(rank->done, 0, n_items * sizeof *rank->done);
    for (size_t i = 0; i < n_items; i++)
        rank->start[i] = rank->end[i] = -1;
    for (int32_t d = 0; d < rank->program->n_devices; d++)
        rank->sent[d] = rank->received[d] = 0;
    rank->position[0] = rank->position[1] = 0;
    rank->step = step;
    rank->nan_item = -1;
    rank->dropped = 0;
    rank->kernel_seconds = rank->polled_seconds = 0;
    rank->n_polls = rank->n_polls_that_moved = 0;
    rank->n_under_way = 0;
    rank->step_started = cleave_clock_seconds();
    double waiting_since = -1;
    while (rank->position[CLEAVE_LANE_MAIN] < rank->n_lane_items[CLEAVE_LANE_MAIN] ||
           rank->position[CLEAVE_LANE_COMMUNICATION] <
               rank->n_lane_items[CLEAVE_LANE_COMMUNICATION]) {
        bool main_moved, other_moved = false;
        cleave_world_beat(rank->world);
        CLEAVE_TRY(advance(rank, CLEAVE_LANE_MAIN, 1, &main_moved, error));
        if (!main_moved || !rank->options->no_overlap)
            CLEAVE_TRY(advance(rank, CLEAVE_LANE_COMMUNICATION, INT32_MAX, &other_moved, error));
        if (main_moved && rank->n_under_way > 0 && !rank->options->no_overlap)
            cleave_world_progress(rank->world);
        if (main_moved || other_moved) {
            waiting_since = -1;
            continue;
        }
        sched_yield(); /* more ranks than cores: let the one that we wait for run */
        double now = cleave_clock_seconds();
        waiting_since = waiting_since < 0 ? now : waiting_since;
        if (rank->options->stall_timeout_seconds > 0 &&
            now - waiting_since > rank->options->stall_timeout_seconds)
            return stalled(rank, error);
    }
    return CLEAVE_OK;
}
