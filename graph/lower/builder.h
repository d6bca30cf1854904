/* What the files of the lowering share: the fragment under construction and how items are put into
   it.  A fragment is what one family of tensors does (slots.h), in chunks, one for each
   event that gives items; all ids are the fragment's own.

   Failures inside the lowering (memory, a broken model) unwind to cleave_lower, which releases all
   lists; so the functions here return plain values. */
#ifndef CLEAVE_GRAPH_LOWER_BUILDER_H
#define CLEAVE_GRAPH_LOWER_BUILDER_H

#include "base/list.h"
#include "graph/lower/fragment.h"
#include "graph/model/fold.h"
#include "graph/model/precision.h"
#include "graph/model/view.h"

#include <setjmp.h>

/* A box of a tensor as it lies in a buffer: element x is at
   offset + sum over d of (x[d] - box.lo[d]) x stride[d]. */
typedef struct lower_region {
    int32_t buffer;
    cleave_box box;
    int64_t offset, stride[CLEAVE_MAX_RANK]; /* elements */
} lower_region;

/* A use of a buffer that no item shows: inside a symbolic collective. */
typedef struct lower_touch_mark {
    int32_t buffer, item;
} lower_touch_mark;

enum { LOWER_KNOWN_MEMBERS = 8 };

/* Stand for buffers of another family, until all are put together: the device's part of the squares
   of all gradients, and their sum. */
enum { LOWER_SQUARES_PART = -2, LOWER_SQUARES = -3 };

typedef struct lower_builder {
    const cleave_model *model;
    const cleave_layout *layout;
    const cleave_lower_options *options;
    cleave_arena *arena;   /* of what is under construction */
    cleave_arena *lasting; /* of a program, while its families' arena is another one; may be null */
    cleave_error *error;
    cleave_status status;
    jmp_buf unwind;
    const cleave_parts *parts;         /* [n_nests] */
    int32_t n_devices;                 /* of the window, where there is a fold */
    const cleave_fold *fold;           /* null: all devices are lowered */
    const cleave_micro_batches *micro; /* null: the whole batch at once */
    cleave_turns *turns; /* null: all micro-batches are lowered, else the first, second and last */
    cleave_when when;    /* of the items that follow; EVERY, where there are no micro-batches */
    /* Of a fold: some lists of devices of all windows, since most tensors have the same. */
    struct {
        int32_t n, n_first;
        const int32_t *first, *devices; /* in the first window; of all that take part */
    } known_members[LOWER_KNOWN_MEMBERS];
    int next_known;
    CLEAVE_LIST(cleave_fragment_chunk)
    chunks; /* ascending by (slot, rank); the last is under construction */
    CLEAVE_LIST(cleave_lane_mark) marks; /* subjects of SYNC items */
    CLEAVE_LIST(cleave_item) items;
    CLEAVE_LIST(cleave_buffer) buffers;
    CLEAVE_LIST(cleave_update) updates;
    CLEAVE_LIST(cleave_load) loads;
    CLEAVE_LIST(cleave_copy) copies;
    bool last_piece_repeats; /* the outer dimension of the last copy piece is a repetition */
    /* Of a fragment for its price alone pieces are counted and not listed: a collective of many
       cells has thousands of times as many as items.  Then buffers of copies are among `touches`,
       and the last piece and the one that is tried are in the room, by turns. */
    bool counts_pieces;
    cleave_copy_piece piece_room[2];
    CLEAVE_LIST(cleave_copy_piece) copy_pieces;
    CLEAVE_LIST(cleave_message) messages;
    CLEAVE_LIST(cleave_collective) collectives;
    CLEAVE_LIST(cleave_held) held;
    CLEAVE_LIST(lower_touch_mark) touches;
    bool *sent; /* grows with buffers: a message was sent straight from it */
    int32_t sent_capacity;
} lower_builder;

_Noreturn void lower_fail(lower_builder *builder, cleave_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void lower_fail_memory(lower_builder *builder);
/* Something failed that has filled the builder's error. */
_Noreturn void lower_unwind(lower_builder *builder, cleave_status status);
/* What happens to this tensor is not the same in all windows. */
_Noreturn void lower_fail_fold(lower_builder *builder, int32_t tensor, const char *why);

/* CLEAVE_LIST_PUSH that unwinds when memory is short. */
#define LOWER_PUSH(builder, list, ...)                                                             \
    do {                                                                                           \
        if (!CLEAVE_LIST_PUSH(list, __VA_ARGS__))                                                  \
            lower_fail_memory(builder);                                                            \
    } while (0)

/* Room for one element behind a list's last, for elements that are filled in place. */
#define LOWER_ROOM(builder, list)                                                                  \
    (((list)->n < (list)->capacity || cleave_list_grow((void **)&(list)->items, &(list)->capacity, \
                                                       (list)->n, sizeof *(list)->items))          \
         ? (void)0                                                                                 \
         : lower_fail_memory(builder),                                                             \
     &(list)->items[(list)->n])

/* Room for `count` more elements behind a list's last. */
void lower_reserve(lower_builder *builder, void **items, int32_t *capacity, int64_t n, size_t size);
#define LOWER_RESERVE(builder, list, count)                                                        \
    lower_reserve((builder), (void **)&(list)->items, &(list)->capacity,                           \
                  (int64_t)(list)->n + (count), sizeof *(list)->items)

void *lower_array(lower_builder *builder, size_t count, size_t size);
#define LOWER_ARRAY(builder, type, count)                                                          \
    ((type *)lower_array((builder), (size_t)(count), sizeof(type)))

/* A buffer for a dense piece of a tensor, or of a message of `bytes` without one (tensor -1): of
   values, or by its kind of what is exact (a parameter's gradient and state); or of another type.
 */
int32_t lower_buffer(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                     int32_t tensor, const cleave_box *box);
int32_t lower_buffer_of_type(lower_builder *builder, cleave_buffer_kind kind, int32_t device,
                             int32_t tensor, cleave_type type, const cleave_box *box);
int32_t lower_message_bytes(lower_builder *builder, int32_t device, cleave_type type,
                            int64_t bytes);

/* Dimensions past the rank are left as they are: boxes and regions are large and many, so they are
   filled where they lie. */
static inline void lower_copy_box(int rank, const cleave_box *box, cleave_box *to) {
    for (int d = 0; d < rank; d++) {
        to->lo[d] = box->lo[d];
        to->hi[d] = box->hi[d];
    }
}

/* The elements of a piece, in a buffer that it is of. */
static inline void lower_region_of_piece(int rank, const cleave_piece *piece, int32_t buffer,
                                         lower_region *region) {
    region->buffer = buffer;
    region->offset = piece->offset;
    lower_copy_box(rank, &piece->box, &region->box);
    for (int d = 0; d < rank; d++)
        region->stride[d] = piece->stride[d];
}

/* The region of a whole buffer. */
lower_region lower_region_of(const lower_builder *builder, int32_t buffer);
void lower_set_region(const lower_builder *builder, int32_t buffer, lower_region *region);
/* The same elements, seen from a smaller box within the region's. */
lower_region lower_region_within(int rank, const lower_region *region, const cleave_box *box);
/* Where the first element of a box within the region's lies. */
static inline int64_t lower_region_offset(int rank, const lower_region *region,
                                          const cleave_box *box) {
    int64_t offset = region->offset;
    for (int d = 0; d < rank; d++)
        offset += (box->lo[d] - region->box.lo[d]) * region->stride[d];
    return offset;
}
/* Do the elements of the box, which both regions hold, lie in one place in both? */
bool lower_region_same_place(int rank, const cleave_box *box, const lower_region *a,
                             const lower_region *b);
/* Do the elements of the box, which the region holds, lie one after the other, in the tensor's
   memory order? */
bool lower_region_is_dense(const cleave_tensor *tensor, const cleave_box *box,
                           const lower_region *region);

/* Puts an item at the end of the fragment and returns its id. */
int32_t lower_item(lower_builder *builder, int32_t device, cleave_lane lane, cleave_item_kind kind,
                   int32_t subject);
/* Items that follow belong to an event of this slot and rank. */
void lower_begin_chunk(lower_builder *builder, int32_t slot, int32_t rank);
/* Remembers how far a lane has come, and makes the other lane of that device wait until it has come
   so far. */
int32_t lower_mark(lower_builder *builder, int32_t device, cleave_lane lane);
void lower_sync(lower_builder *builder, int32_t mark);

void lower_touch(lower_builder *builder, int32_t buffer, int32_t item);

/* Empties the fragment but keeps the memory of its lists; and gives that back. */
void lower_builder_clear(lower_builder *builder);
void lower_builder_free(lower_builder *builder);

/* Adds what every micro-batch gives, in the region, to what those before it gave. */
void lower_carry(lower_builder *builder, int32_t tensor, const lower_region *total,
                 const lower_region *given, int32_t device);

/* Copies are collected piece by piece and become one item. */
void lower_copy_begin(lower_builder *builder);
/* destination[box] = / += ... source[box]; nothing when both are one place and the mode is assign.
   `source` is null for a fill.  The regions hold the box. */
void lower_copy_add(lower_builder *builder, int32_t tensor, cleave_copy_mode mode,
                    const cleave_box *box, const lower_region *destination,
                    const lower_region *source, float fill);
/* Adds `weight` times the squares of source[box] to the device's part of the norm. */
void lower_copy_add_squares(lower_builder *builder, int32_t tensor, const cleave_box *box,
                            const lower_region *source, float weight);
/* A piece as it is, of so many bytes that are combined with what is there. */
void lower_copy_add_sum(lower_builder *builder, const cleave_copy_piece *piece, int64_t bytes);
/* What a framework does besides, in the main lane: a copy without pieces. */
void lower_chore(lower_builder *builder, int32_t device, cleave_copy chore);
/* The item's id, or -1 when no piece was added. */
int32_t lower_copy_end(lower_builder *builder, int32_t device, cleave_lane lane);

/* Messages of one contiguous run of bytes, cut where it is too long. */
typedef struct lower_run {
    int32_t first_message, n_messages;
} lower_run;
/* Posts them at both ends; `whole` has any number of bytes, and no items yet. */
lower_run lower_post(lower_builder *builder, const cleave_message *whole);
void lower_wait_at_receiver(lower_builder *builder, lower_run run);
void lower_wait_at_sender(lower_builder *builder, lower_run run);

/* Items that follow are done then. */
static inline void lower_do(lower_builder *builder, cleave_when when) {
    builder->when = builder->micro != NULL ? when : CLEAVE_WHEN_EVERY;
}
/* Since when the value of a tensor is there. */
static inline cleave_when lower_value_when(const lower_builder *builder, int32_t tensor) {
    return builder->micro != NULL ? (cleave_when)builder->micro->value[tensor] : CLEAVE_WHEN_EVERY;
}
/* Does a nest run in every micro-batch, of which there are several? */
static inline bool lower_goes_on(const lower_builder *builder, int32_t nest) {
    return builder->micro != NULL && builder->micro->sharing.nest_axis[nest] >= 0;
}

/* The number of a device among those of all windows. */
static inline int32_t lower_device_of_all(const lower_builder *builder, int32_t device) {
    return builder->fold != NULL ? cleave_fold_device(builder->fold, device) : device;
}

/* Do the parts of a nest have other keys in each window of a fold? */
static inline bool lower_in_every_window(const lower_builder *builder, int32_t nest) {
    return builder->fold != NULL && builder->fold->sharing.nest_axis[nest] >= 0;
}

static inline cleave_type lower_type_of(const lower_builder *builder, int32_t buffer) {
    return builder->buffers.items[buffer].type;
}

#endif
