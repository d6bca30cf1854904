#include "graph/program/framework_memory.h"

#include "graph/program/caching_allocator.h"
#include "graph/program/framework_lives.h"
#include "graph/program/gathered_layers.h"

/* Marks the buffers whose memory a framework has: those in which something lies that is no message,
   and of gradients of a parameter on a device the largest.  `largest` [n_tensors x n_devices] has 1
   + a buffer. */
static void mark(const cleave_program *program, int32_t *largest, bool *has) {
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        if (of->kind != CLEAVE_BUFFER_MESSAGE)
            has[of->storage] = true;
        if (of->kind != CLEAVE_BUFFER_GRADIENT || of->storage != b)
            continue;
        int32_t *known = &largest[(int64_t)of->tensor * program->n_devices + of->device];
        if (*known > 0 && program->buffers[*known - 1].bytes >= of->bytes) {
            has[b] = false;
        } else {
            if (*known > 0)
                has[*known - 1] = false;
            *known = b + 1;
        }
    }
}

/* ---- how long things live -------------------------------------------------------------------- */

/* A framework has gradients in the type in which they are added up over devices. */
static int64_t bytes_of(const cleave_program *program, int32_t b) {
    const cleave_model *model = program->model;
    const cleave_buffer *of = &program->buffers[b];
    bool short_sums = cleave_type_is_short(model->reduce_precision) && !model->reduces_mixed;
    return of->kind == CLEAVE_BUFFER_GRADIENT && short_sums
               ? framework_size_of(program, b) * cleave_type_bytes(model->reduce_precision)
               : of->bytes;
}

/* Has the device the whole of a gradient's parameter? */
static bool stays(const framework_lives *l, int32_t b) {
    const cleave_buffer *of = &l->program->buffers[b];
    if (of->kind != CLEAVE_BUFFER_GRADIENT || !l->uses[b].is_added)
        return false;
    int32_t parameter = l->parameter[framework_place(l, of->tensor, of->device)];
    return parameter > 0 &&
           framework_size_of(l->program, parameter - 1) == framework_size_of(l->program, b);
}

static bool converts_logits(const framework_lives *l, int32_t b) {
    const cleave_loss_kernels *loss = &l->framework->loss;
    return loss->apart && loss->exact && cleave_type_is_short(l->program->buffers[b].type);
}

/* Of logits and what a loss makes of them: a copy that is converted, what waits for backward, and
   what backward has beside that until it gives their gradient, which may be one of these. */
static void put_loss(framework_lives *l, int32_t b) {
    const cleave_loss_kernels *loss = &l->framework->loss;
    const cleave_buffer *of = &l->program->buffers[b];
    const framework_use *how = &l->uses[b];
    bool converts = converts_logits(l, b), stays = loss->in_place && !converts;
    int64_t bytes =
        framework_size_of(l->program, b) * cleave_type_bytes(converts ? CLEAVE_F32 : of->type);
    bool gives = !converts && loss->beside == 0;
    framework_put(l, of->device, of->first, stays ? how->backward_last - 1 : how->forward_last,
                  of->bytes);
    if (converts && !loss->in_place)
        framework_put(l, of->device, how->loss_first, how->forward_last, bytes);
    if (!stays)
        framework_put(l, of->device, how->loss_first, how->backward_last - gives, bytes);
    for (int k = converts ? 0 : 1; k < loss->beside; k++)
        framework_put(l, of->device, how->backward_first, how->backward_last, bytes);
}

/* Logits that wait for those of the micro-batch after the next, or of the next step.  `before`
   [n_devices x 2] has 1 + the buffers of the last two. */
static void put_outputs(framework_lives *l, int32_t (*before)[2]) {
    const cleave_buffer *buffers = l->program->buffers;
    int32_t last = l->program->n_items - 1;
    for (int32_t b = 0; b < l->program->n_buffers; b++) {
        const cleave_buffer *of = &buffers[b];
        const framework_use *how = &l->uses[b];
        if (of->storage != b || how->loss_first < 0 || how->backward_last < 0)
            continue;
        int32_t *at = before[of->device], goes = at[0];
        if (goes > 0)
            framework_put(l, of->device, l->uses[goes - 1].forward_last + 1, of->first,
                          buffers[goes - 1].bytes);
        else
            framework_put(l, of->device, 0, of->first, of->bytes);
        at[0] = at[1];
        at[1] = b + 1;
    }
    for (int32_t d = 0; d < l->program->n_devices; d++)
        for (int k = 0; k < 2; k++)
            if (before[d][k] > 0)
                framework_put(l, d, l->uses[before[d][k] - 1].forward_last + 1, last,
                              buffers[before[d][k] - 1].bytes);
}

/* Copies of gradients that stay while they are all-reduced.  A chore counts what is read and
   written. */
static void keep_buckets(framework_lives *l) {
    const cleave_program *program = l->program;
    const cleave_model *model = program->model;
    int64_t each = cleave_type_bytes(model->reduces_mixed ? CLEAVE_F32 : model->reduce_precision);
    int64_t stored = cleave_type_is_short(model->precision) ? cleave_type_bytes(CLEAVE_BF16)
                                                            : cleave_type_bytes(CLEAVE_F32);
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind == CLEAVE_ITEM_COPY &&
            program->copies[item->subject].chore == CLEAVE_CHORE_BUCKET)
            framework_keep(l, item->device, 0,
                           program->copies[item->subject].chore_bytes / (stored + each) * each);
    }
}

/* A copy of all gradients of a device, or of so many, once it has computed: with one replica, too.
 */
static void put_at_once(framework_lives *l, const bool *has, int32_t *last, int64_t *elements) {
    const cleave_program *program = l->program;
    const cleave_model *model = program->model;
    int64_t each = cleave_type_bytes(model->reduces_mixed ? CLEAVE_F32 : model->reduce_precision);
    for (int32_t i = 0; i < program->n_items; i++)
        if (program->items[i].kind == CLEAVE_ITEM_COMPUTE)
            last[program->items[i].device] = i;
    for (int32_t b = 0; b < program->n_buffers; b++)
        if (has[b] && program->buffers[b].storage == b && stays(l, b))
            elements[program->buffers[b].device] += framework_size_of(program, b);
    for (int32_t d = 0; d < program->n_devices; d++)
        framework_put(l, d, last[d] + 1, last[d] + 1,
                      each *
                          (elements[d] < CLEAVE_MOST_AT_ONCE ? elements[d] : CLEAVE_MOST_AT_ONCE));
}

/* A share of a gradient has a place of its own where the whole goes, or is on other devices alone.
 */
static void put_shares(framework_lives *l, const int32_t *largest, const bool *done) {
    const cleave_program *program = l->program;
    for (int32_t u = 0; u < program->n_updates; u++) {
        int32_t b = program->updates[u].gradient;
        const cleave_buffer *of = &program->buffers[b];
        int32_t whole = largest[framework_place(l, of->tensor, of->device)] - 1;
        bool stands_apart = whole < 0 || (whole != b && !stays(l, whole));
        if (!done[b] && of->storage == b && stands_apart)
            framework_put(l, of->device, of->first, of->last, of->bytes);
    }
}

/* When it is there: with what is made again of its layer, or where it is the gradient of logits of
   short numbers, when that has been converted. */
static int32_t first_of(const framework_lives *l, int32_t b) {
    const cleave_buffer *of = &l->program->buffers[b];
    const framework_use *how = &l->uses[b];
    if (how->logits > 0 && converts_logits(l, how->logits - 1))
        return l->uses[how->logits - 1].backward_last + 1;
    if (how->logits > 0 && l->framework->loss.apart && l->framework->loss.beside == 0)
        return l->uses[how->logits - 1].backward_last;
    return how->made_from >= 0 && how->made_from < of->first ? how->made_from : of->first;
}

/* The last item that needs it.  Who sends it to another stage waits there until it has left; ours
   waits when the memory is wanted. */
static int32_t last_of(const framework_lives *l, int32_t b) {
    const cleave_buffer *of = &l->program->buffers[b];
    const framework_use *how = &l->uses[b];
    int32_t last = how->forward_last > how->backward_last ? how->forward_last : how->backward_last;
    if (how->message_last < 0 || l->program->items[of->last].kind != CLEAVE_ITEM_WAIT)
        return of->last;
    return last > how->message_last ? last : how->message_last;
}

/* Until its last item, and its block until the run of that has ended where it is sent. */
static void put_buffer(framework_lives *l, int32_t b, int32_t first, int32_t last, int64_t bytes) {
    const cleave_buffer *of = &l->program->buffers[b];
    bool is_sent =
        (of->kind == CLEAVE_BUFFER_ACTIVATION || of->kind == CLEAVE_BUFFER_ACTIVATION_GRADIENT) &&
        of->tensor >= 0 && l->is_sent[framework_place(l, of->tensor, of->device)];
    int32_t free_from = is_sent ? l->run_end[l->run[last]] : last;
    cleave_allocations_hold(&l->all, of->device, cleave_moment(first, CLEAVE_STEPS_OF_ITEM - 1),
                            cleave_moment(last + 1, 0), cleave_moment(free_from + 1, 0), bytes);
}

/* States of the optimizer that its first update makes, behind all else. */
static bool is_made_late(const framework_lives *l, int32_t b) {
    return l->program->buffers[b].kind == CLEAVE_BUFFER_STATE && !l->framework->begins_with_states;
}

static void list_changes(framework_lives *l, const bool *has, const bool *done) {
    const cleave_program *program = l->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        const framework_use *how = &l->uses[b];
        if (!has[b] || done[b] || of->storage != b || of->last < of->first)
            continue;
        int32_t last = last_of(l, b);
        bool goes = how->forward_last >= 0 && how->forward_last < last;
        if (of->persistent) {
            framework_keep(l, of->device, is_made_late(l, b) ? program->n_items - 1 : 0,
                           bytes_of(program, b));
        } else if (l->framework->loss.apart && how->loss_first >= 0 && how->backward_last >= 0) {
            put_loss(l, b);
        } else if (stays(l, b) && l->framework->buckets == CLEAVE_BUCKETS_NONE) {
            framework_keep(l, of->device, 0, bytes_of(program, b));
        } else if (stays(l, b)) {
            framework_put(l, of->device, of->first, program->n_items - 1, bytes_of(program, b));
        } else if (how->own > 0 && goes && how->backward_first > how->forward_last) {
            framework_put(l, of->device, of->first, how->forward_last, of->bytes);
            framework_put(l, of->device, how->forward_last + 1, how->backward_first - 1,
                          program->buffers[how->own - 1].bytes);
            framework_put(l, of->device, how->backward_first, last, of->bytes);
        } else if (how->is_made_again && goes && how->backward_first > how->forward_last) {
            framework_put(l, of->device, of->first, how->forward_last, of->bytes);
            framework_put(l, of->device, how->made_from >= 0 ? how->made_from : how->backward_first,
                          last, of->bytes);
        } else if (how->is_let_go && goes && how->backward_first < 0) {
            put_buffer(l, b, of->first, how->forward_last, of->bytes);
        } else {
            put_buffer(l, b, first_of(l, b), last, bytes_of(program, b));
        }
    }
}

/* ---- what they take -------------------------------------------------------------------------- */

/* What lives at once on each device, at most, `most` [n_devices]; kept ones are of a step before.
 */
static void find_most(const cleave_allocations *all, int64_t *live, int64_t *most,
                      int32_t n_devices) {
    for (int32_t i = 0; i < all->changes.n; i++)
        if (all->changes.items[i].is_kept)
            live[all->changes.items[i].device] += all->changes.items[i].bytes;
    for (int32_t d = 0; d < n_devices; d++)
        most[d] = live[d];
    for (int32_t i = 0; i < all->changes.n; i++) {
        const cleave_allocation_change *change = &all->changes.items[i];
        int64_t *of = &live[change->device];
        *of += change->is_kept || change->frees_block ? 0 : change->bytes;
        if (*of > most[change->device])
            most[change->device] = *of;
    }
}

/* A step of a device; `block` is by id.  False when memory is short. */
static bool take_step(const cleave_allocations *all, int32_t device, bool is_first,
                      cleave_caching_allocator *allocator, int32_t *block) {
    bool made = true;
    for (int32_t i = 0; i < all->changes.n && made; i++) {
        const cleave_allocation_change *of = &all->changes.items[i];
        if (of->device != device || of->is_held || (of->is_kept && !is_first))
            continue;
        if (of->bytes < 0) {
            made = cleave_caching_release(allocator, block[of->id]);
            continue;
        }
        block[of->id] = cleave_caching_allocate(allocator, of->bytes, of->stream);
        made = block[of->id] >= 0;
    }
    return made;
}

/* What a device's allocator reserves until a step asks for nothing more; -1 when memory is short.
 */
static int64_t reserve(const cleave_allocations *all, int32_t device, int32_t *block) {
    enum { MOST_STEPS = 8 };
    cleave_caching_allocator allocator = {0};
    int64_t before = -1;
    bool made = true;
    for (int step = 0; step < MOST_STEPS && made && allocator.reserved_bytes > before; step++) {
        before = allocator.reserved_bytes;
        made = take_step(all, device, step == 0, &allocator, block);
    }
    int64_t reserved = made ? allocator.reserved_bytes : -1;
    cleave_caching_allocator_end(&allocator);
    return reserved;
}

/* Of devices on which equally much lives at once, one stands for all. */
static bool take_most(const cleave_allocations *all, const int64_t *most, int32_t n_devices,
                      int32_t *block, cleave_framework_memory *memory) {
    *memory = (cleave_framework_memory){0};
    for (int32_t d = 0; d < n_devices; d++) {
        int32_t alike = 0;
        while (alike < d && most[alike] != most[d])
            alike++;
        if (alike < d)
            continue;
        int64_t reserved = reserve(all, d, block);
        if (reserved < 0)
            return false;
        if (memory->allocated_bytes < most[d])
            memory->allocated_bytes = most[d];
        if (memory->reserved_bytes < reserved)
            memory->reserved_bytes = reserved;
    }
    return true;
}

static bool measure(framework_lives *l, cleave_arena *scratch, cleave_framework_memory *memory) {
    const cleave_program *program = l->program;
    int64_t n_places = (int64_t)program->model->n_tensors * program->n_devices;
    bool *has = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    bool *done = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    int32_t *largest = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_places);
    int64_t *live = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    int64_t *most = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    int32_t *last = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices);
    int64_t *elements = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    int32_t(*before)[2] = cleave_arena_alloc(scratch, (size_t)program->n_devices, sizeof *before);
    if (has == NULL || done == NULL || before == NULL || largest == NULL || live == NULL ||
        most == NULL || last == NULL || elements == NULL || !framework_note_uses(l, scratch))
        return false;
    mark(program, largest, has);
    if (!cleave_gathered_layers_add(program, l->framework, &l->all, done))
        return false;
    put_shares(l, largest, done);
    if (l->framework->keeps_outputs)
        put_outputs(l, before);
    if (l->framework->buckets == CLEAVE_BUCKETS_KEPT)
        keep_buckets(l);
    else if (l->framework->buckets == CLEAVE_BUCKETS_AT_ONCE)
        put_at_once(l, has, last, elements);
    list_changes(l, has, done);
    cleave_allocations_sort(&l->all);
    int32_t *block = CLEAVE_ARENA_ARRAY(scratch, int32_t, l->all.n);
    if (block == NULL || l->all.failed)
        return false;
    cleave_framework_memory found;
    find_most(&l->all, live, most, program->n_devices);
    if (!take_most(&l->all, most, program->n_devices, block, &found))
        return false;
    *memory = found;
    return true;
}

cleave_status cleave_program_framework_memory(const cleave_program *program,
                                              cleave_framework framework,
                                              cleave_framework_memory *memory,
                                              cleave_error *error) {
    int64_t n_nests = program->model->n_nests, n_devices = program->n_devices;
    int64_t n_places = program->model->n_tensors * n_devices;
    cleave_arena scratch = {0};
    framework_lives l = {.program = program,
                         .framework = &cleave_frameworks[framework],
                         .parameter = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
                         .largest = CLEAVE_ARENA_ARRAY(&scratch, int64_t, n_places),
                         .written = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
                         .waiting = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_nests * n_devices),
                         .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items),
                         .uses = CLEAVE_ARENA_ARRAY(&scratch, framework_use, program->n_buffers),
                         .again = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .is_read = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .is_inside = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .is_sent = CLEAVE_ARENA_ARRAY(&scratch, bool, n_places),
                         .run = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items),
                         .run_end = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items + 1),
                         .layer = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices),
                         .made_from = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices)};
    bool made = l.parameter != NULL && l.largest != NULL && l.written != NULL &&
                l.waiting != NULL && l.next != NULL && l.uses != NULL && l.again != NULL &&
                l.is_read != NULL && l.is_inside != NULL && l.is_sent != NULL && l.run != NULL &&
                l.run_end != NULL && l.layer != NULL && l.made_from != NULL &&
                measure(&l, &scratch, memory);
    CLEAVE_LIST_FREE(&l.all.changes);
    cleave_arena_free(&scratch);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
