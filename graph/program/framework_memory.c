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

/* Copies of gradients, where they are all-reduced.  A chore counts what is read and written. */
static void put_buckets(framework_lives *l, int32_t *last_chore, int64_t *at_once) {
    const cleave_program *program = l->program;
    const cleave_model *model = program->model;
    cleave_buckets kind = l->framework->buckets;
    int64_t each = cleave_type_bytes(model->reduces_mixed ? CLEAVE_F32 : model->reduce_precision);
    int64_t stored = cleave_type_is_short(model->precision) ? cleave_type_bytes(CLEAVE_BF16)
                                                            : cleave_type_bytes(CLEAVE_F32);
    for (int32_t i = 0; i < program->n_items; i++) {
        const cleave_item *item = &program->items[i];
        if (item->kind != CLEAVE_ITEM_COPY ||
            program->copies[item->subject].chore != CLEAVE_CHORE_BUCKET)
            continue;
        int64_t bytes = program->copies[item->subject].chore_bytes / (stored + each) * each;
        last_chore[item->device] = i;
        at_once[item->device] += bytes;
        if (kind == CLEAVE_BUCKETS_KEPT)
            framework_put(l, item->device, 0, program->n_items - 1, bytes);
    }
    for (int32_t d = 0; d < program->n_devices && kind == CLEAVE_BUCKETS_AT_ONCE; d++)
        framework_put(l, d, last_chore[d], last_chore[d],
                      at_once[d] < CLEAVE_MOST_AT_ONCE * each ? at_once[d]
                                                              : CLEAVE_MOST_AT_ONCE * each);
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

static void list_changes(framework_lives *l, const bool *has, const bool *done) {
    const cleave_program *program = l->program;
    for (int32_t b = 0; b < program->n_buffers; b++) {
        const cleave_buffer *of = &program->buffers[b];
        const framework_use *how = &l->uses[b];
        if (!has[b] || done[b] || of->storage != b || of->last < of->first)
            continue;
        bool goes = how->forward_last >= 0 && how->forward_last < of->last;
        if (l->framework->loss.apart && how->loss_first >= 0 && how->backward_last >= 0) {
            put_loss(l, b);
        } else if (stays(l, b)) {
            framework_put(l, of->device,
                          l->framework->buckets == CLEAVE_BUCKETS_NONE ? 0 : of->first,
                          program->n_items - 1, bytes_of(program, b));
        } else if (how->own > 0 && goes && how->backward_first > how->forward_last) {
            framework_put(l, of->device, of->first, how->forward_last, of->bytes);
            framework_put(l, of->device, how->forward_last + 1, how->backward_first - 1,
                          program->buffers[how->own - 1].bytes);
            framework_put(l, of->device, how->backward_first, of->last, of->bytes);
        } else if (how->is_made_again && goes && how->backward_first > how->forward_last) {
            framework_put(l, of->device, of->first, how->forward_last, of->bytes);
            framework_put(l, of->device, how->made_from >= 0 ? how->made_from : how->backward_first,
                          of->last, of->bytes);
        } else if (how->is_scores && goes && how->backward_first < 0) {
            framework_put(l, of->device, of->first, how->forward_last, of->bytes);
        } else {
            framework_put(l, of->device, first_of(l, b), of->last, bytes_of(program, b));
        }
    }
}

/* ---- what they take -------------------------------------------------------------------------- */

/* The device on which most lives at once, and how much that is. */
static int32_t find_fullest(const cleave_allocations *all, int64_t *live, int64_t *most) {
    int32_t fullest = 0;
    *most = 0;
    for (int32_t i = 0; i < all->changes.n; i++) {
        const cleave_allocation_change *change = &all->changes.items[i];
        int64_t *of = &live[change->device];
        *of += change->bytes;
        if (*of > *most) {
            *most = *of;
            fullest = change->device;
        }
    }
    return fullest;
}

/* What it reserves for that; -1 when memory is short.  `block` is by id. */
static int64_t reserve(const cleave_allocations *all, int32_t device, int32_t *block) {
    cleave_caching_allocator allocator = {0};
    bool made = true;
    for (int32_t i = 0; i < all->changes.n && made; i++) {
        const cleave_allocation_change *of = &all->changes.items[i];
        if (of->device != device)
            continue;
        if (of->bytes < 0) {
            made = cleave_caching_release(&allocator, block[of->id]);
            continue;
        }
        block[of->id] = cleave_caching_allocate(&allocator, of->bytes, of->stream);
        made = block[of->id] >= 0;
    }
    int64_t reserved = made ? allocator.reserved_bytes : -1;
    cleave_caching_allocator_end(&allocator);
    return reserved;
}

static bool measure(framework_lives *l, cleave_arena *scratch, cleave_framework_memory *memory) {
    const cleave_program *program = l->program;
    int64_t n_places = (int64_t)program->model->n_tensors * program->n_devices;
    bool *has = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    bool *done = CLEAVE_ARENA_ARRAY(scratch, bool, program->n_buffers);
    int32_t *largest = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_places);
    int64_t *live = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    int32_t *last_chore = CLEAVE_ARENA_ARRAY(scratch, int32_t, program->n_devices);
    int64_t *at_once = CLEAVE_ARENA_ARRAY(scratch, int64_t, program->n_devices);
    if (has == NULL || done == NULL || largest == NULL || live == NULL || last_chore == NULL ||
        at_once == NULL)
        return false;
    framework_note_uses(l);
    mark(program, largest, has);
    if (!cleave_gathered_layers_add(program, l->framework, &l->all, done))
        return false;
    put_shares(l, largest, done);
    put_buckets(l, last_chore, at_once);
    list_changes(l, has, done);
    cleave_allocations_sort(&l->all);
    int32_t *block = CLEAVE_ARENA_ARRAY(scratch, int32_t, l->all.n);
    if (block == NULL || l->all.failed)
        return false;
    cleave_framework_memory found;
    int32_t fullest = find_fullest(&l->all, live, &found.allocated_bytes);
    found.reserved_bytes = reserve(&l->all, fullest, block);
    if (found.reserved_bytes < 0)
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
                         .written = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_places),
                         .waiting = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_nests * n_devices),
                         .next = CLEAVE_ARENA_ARRAY(&scratch, int32_t, program->n_items),
                         .uses = CLEAVE_ARENA_ARRAY(&scratch, framework_use, program->n_buffers),
                         .again = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .is_read = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .is_inside = CLEAVE_ARENA_ARRAY(&scratch, bool, n_nests),
                         .layer = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices),
                         .made_from = CLEAVE_ARENA_ARRAY(&scratch, int32_t, n_devices)};
    bool made = l.parameter != NULL && l.written != NULL && l.waiting != NULL && l.next != NULL &&
                l.uses != NULL && l.again != NULL && l.is_read != NULL && l.is_inside != NULL &&
                l.layer != NULL && l.made_from != NULL && measure(&l, &scratch, memory);
    CLEAVE_LIST_FREE(&l.all.changes);
    cleave_arena_free(&scratch);
    return made ? CLEAVE_OK : cleave_fail_memory(error, "adding up memory");
}
