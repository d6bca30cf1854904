/* Copies: their pieces are simplified, joined where they repeat, and counted or listed. */
#include "graph/lower/builder.h"

#include <string.h>

void lower_copy_begin(lower_builder *builder) {
    builder->last_piece_repeats = false;
    LOWER_PUSH(builder, &builder->copies,
               (cleave_copy){.first_piece = builder->copy_pieces.n, .n_copies = 1});
}

/* The last piece; and the place of the next one. */
static cleave_copy_piece *last_piece(lower_builder *builder) {
    int32_t last = builder->copy_pieces.n - 1;
    return builder->counts_pieces ? &builder->piece_room[last & 1]
                                  : &builder->copy_pieces.items[last];
}

static cleave_copy_piece *next_piece(lower_builder *builder) {
    if (!builder->counts_pieces)
        return LOWER_ROOM(builder, &builder->copy_pieces);
    if (builder->copy_pieces.n == INT32_MAX)
        lower_fail_memory(builder);
    return &builder->piece_room[builder->copy_pieces.n & 1];
}

/* Drops dimensions of one element and joins those that run on in both regions.  A record (moments)
   stays dimension 0. */
static void simplify_piece(cleave_copy_piece *piece) {
    int rank = 0;
    bool record = piece->mode == CLEAVE_COPY_MOMENTS;
    for (int d = 0; d < piece->rank; d++) {
        if (piece->extent[d] == 1 && !(record && d == 0))
            continue;
        bool joins = rank > (record ? 1 : 0) &&
                     piece->destination_stride[rank - 1] ==
                         piece->destination_stride[d] * piece->extent[d] &&
                     piece->source_stride[rank - 1] == piece->source_stride[d] * piece->extent[d];
        int to = joins ? rank - 1 : rank++;
        piece->extent[to] = joins ? piece->extent[to] * piece->extent[d] : piece->extent[d];
        piece->destination_stride[to] = piece->destination_stride[d];
        piece->source_stride[to] = piece->source_stride[d];
    }
    piece->rank = rank;
}

/* Rows that are contiguous in both regions. */
static int64_t count_rows(const cleave_copy_piece *piece) {
    bool fills = piece->mode == CLEAVE_COPY_FILL || piece->mode == CLEAVE_COPY_SCALE,
         squares = piece->mode == CLEAVE_COPY_SQUARES; /* which go to one element */
    int64_t row = 1, n = 1;
    int d = piece->rank - 1;
    for (; d >= 0 && (squares || piece->destination_stride[d] == row) &&
           (fills || piece->source_stride[d] == row);
         d--)
        row *= piece->extent[d];
    for (; d >= 0; d--)
        n *= piece->extent[d];
    return n;
}

static bool same_block(const cleave_copy_piece *a, int from, const cleave_copy_piece *b) {
    bool same = a->rank - from == b->rank;
    for (int d = 0; same && d < b->rank; d++)
        same = a->extent[from + d] == b->extent[d] &&
               a->destination_stride[from + d] == b->destination_stride[d] &&
               a->source_stride[from + d] == b->source_stride[d];
    return same;
}

/* Cells of a collective, and rows of views, come as many equal pieces at equal distances: they
   become one piece with an outer dimension more.  False where `piece` does not continue the last
   one of the copy under construction. */
static bool repeat_last_piece(lower_builder *builder, const cleave_copy_piece *piece) {
    if (builder->copies.items[builder->copies.n - 1].n_pieces == 0)
        return false;
    cleave_copy_piece *last = last_piece(builder);
    bool fills = piece->mode == CLEAVE_COPY_FILL;
    int outer = builder->last_piece_repeats ? 1 : 0;
    if (piece->mode == CLEAVE_COPY_MOMENTS || last->mode != piece->mode ||
        last->destination != piece->destination || last->source != piece->source ||
        (fills && memcmp(&last->fill, &piece->fill, sizeof last->fill) != 0) ||
        last->rank + 1 - outer > CLEAVE_MAX_RANK || !same_block(last, outer, piece))
        return false;
    int64_t to = piece->destination_offset - last->destination_offset,
            from = piece->source_offset - last->source_offset;
    if (outer > 0) {
        if (to != last->extent[0] * last->destination_stride[0] ||
            from != last->extent[0] * last->source_stride[0])
            return false;
        last->extent[0]++;
        return true;
    }
    if (to <= 0 || from < 0)
        return false;
    for (int d = last->rank; d > 0; d--) {
        last->extent[d] = last->extent[d - 1];
        last->destination_stride[d] = last->destination_stride[d - 1];
        last->source_stride[d] = last->source_stride[d - 1];
    }
    last->rank++;
    last->extent[0] = 2;
    last->destination_stride[0] = to;
    last->source_stride[0] = from;
    builder->last_piece_repeats = true;
    return true;
}

/* The buffers of a piece, which the copy's item will use, unless those of the one before are the
   same. */
static void touch_ends(lower_builder *builder, const cleave_copy_piece *piece,
                       const cleave_copy_piece *before) {
    int32_t item = builder->items.n;
    if (piece->destination >= 0 && (before == NULL || before->destination != piece->destination))
        lower_touch(builder, piece->destination, item);
    if (piece->source >= 0 && (before == NULL || before->source != piece->source))
        lower_touch(builder, piece->source, item);
}

/* The piece stands at the place of the next one; nothing more is added to the one before. */
static void keep_piece(lower_builder *builder, cleave_copy *copy, const cleave_copy_piece *piece) {
    const cleave_copy_piece *before = copy->n_pieces > 0 ? last_piece(builder) : NULL;
    if (before != NULL)
        copy->n_rows += count_rows(before);
    if (builder->counts_pieces)
        touch_ends(builder, piece, before);
    copy->n_pieces++;
    builder->copy_pieces.n++;
    builder->last_piece_repeats = false;
}

void lower_copy_add(lower_builder *builder, int32_t tensor, cleave_copy_mode mode,
                    const cleave_box *box, const lower_region *destination,
                    const lower_region *source, float fill) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    const lower_region *from = source != NULL ? source : destination;
    cleave_type type = lower_type_of(builder, destination->buffer),
                source_type = lower_type_of(builder, from->buffer);
    if (cleave_box_is_empty(of->rank, box) ||
        (mode == CLEAVE_COPY_ASSIGN && lower_region_same_place(of->rank, box, destination, from)))
        return;
    /* In place, and dimensions past the rank are left as they are: pieces are large and many. */
    cleave_copy_piece *piece = next_piece(builder);
    piece->mode = mode;
    piece->type = type;
    piece->source_type = source_type;
    piece->destination = destination->buffer;
    piece->source = source != NULL ? source->buffer : -1;
    piece->destination_offset = lower_region_offset(of->rank, destination, box);
    piece->source_offset = source != NULL ? lower_region_offset(of->rank, source, box) : 0;
    piece->fill = fill;
    piece->rank = of->rank;
    for (int i = 0; i < of->rank; i++) {
        int d = mode == CLEAVE_COPY_MOMENTS ? i : of->order[i];
        piece->extent[i] = box->hi[d] - box->lo[d];
        piece->destination_stride[i] = destination->stride[d];
        piece->source_stride[i] = from->stride[d];
    }
    simplify_piece(piece);
    cleave_copy *copy = &builder->copies.items[builder->copies.n - 1];
    bool adds = mode != CLEAVE_COPY_FILL && mode != CLEAVE_COPY_ASSIGN;
    int64_t bytes =
        cleave_box_size(of->rank, box) * ((adds ? 2 : 1) * cleave_type_bytes(type) +
                                          (source != NULL ? cleave_type_bytes(source_type) : 0));
    copy->bytes += bytes;
    copy->summed_bytes += adds ? bytes : 0;
    if (!repeat_last_piece(builder, piece))
        keep_piece(builder, copy, piece);
}

void lower_copy_add_squares(lower_builder *builder, int32_t tensor, const cleave_box *box,
                            const lower_region *source, float weight) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    cleave_copy *copy = &builder->copies.items[builder->copies.n - 1];
    cleave_copy_piece *piece = next_piece(builder);
    *piece = (cleave_copy_piece){.mode = CLEAVE_COPY_SQUARES,
                                 .type = CLEAVE_F32,
                                 .source_type = CLEAVE_F32,
                                 .destination = LOWER_SQUARES_PART,
                                 .source = source->buffer,
                                 .source_offset = lower_region_offset(of->rank, source, box),
                                 .fill = weight,
                                 .rank = of->rank};
    for (int i = 0; i < of->rank; i++) {
        piece->extent[i] = box->hi[of->order[i]] - box->lo[of->order[i]];
        piece->source_stride[i] = source->stride[of->order[i]];
    }
    simplify_piece(piece);
    copy->bytes += cleave_box_size(of->rank, box) * cleave_type_bytes(CLEAVE_F32);
    keep_piece(builder, copy, piece);
}

void lower_copy_add_sum(lower_builder *builder, const cleave_copy_piece *piece, int64_t bytes) {
    cleave_copy *copy = &builder->copies.items[builder->copies.n - 1];
    cleave_copy_piece *added = next_piece(builder);
    *added = *piece;
    copy->bytes += bytes;
    copy->summed_bytes += bytes;
    keep_piece(builder, copy, added);
}

int32_t lower_copy_end(lower_builder *builder, int32_t device, cleave_lane lane) {
    cleave_copy *copy = &builder->copies.items[builder->copies.n - 1];
    if (copy->n_pieces == 0) {
        builder->copies.n--;
        return -1;
    }
    copy->n_rows += count_rows(last_piece(builder));
    return lower_item(builder, device, lane, CLEAVE_ITEM_COPY, builder->copies.n - 1);
}

void lower_chore(lower_builder *builder, int32_t device, cleave_copy chore) {
    chore.first_piece = builder->copy_pieces.n;
    chore.n_copies = 1;
    LOWER_PUSH(builder, &builder->copies, chore);
    lower_item(builder, device, CLEAVE_LANE_MAIN, CLEAVE_ITEM_COPY, builder->copies.n - 1);
}

void lower_carry(lower_builder *builder, int32_t tensor, const lower_region *total,
                 const lower_region *given, int32_t device) {
    cleave_when when = builder->when;
    lower_do(builder, CLEAVE_WHEN_EVERY);
    lower_copy_begin(builder);
    lower_copy_add(builder, tensor, CLEAVE_COPY_ASSIGN, &total->box, total, given, 0);
    builder->copies.items[builder->copies.n - 1].carries = true;
    lower_copy_end(builder, device, CLEAVE_LANE_MAIN);
    lower_do(builder, when);
}
