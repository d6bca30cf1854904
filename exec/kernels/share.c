#include "exec/kernels/share.h"

#include "exec/kernels/copy.h"

enum { LEAST_ELEMENTS = 1 << 14, LINE = 16 /* floats */ };

/* The dimension that falls into the most equal parts, of those the one of the longest steps; -1:
   there is none.  Records of moments are whole, and squares go into one sum. */
static int find_dimension(const cleave_copy_piece *piece, int32_t n) {
    int best = -1;
    double least = 0;
    for (int d = piece->mode == CLEAVE_COPY_MOMENTS ? 1 : 0; d < piece->rank; d++) {
        int64_t extent = piece->extent[d];
        double part = (double)((extent + n - 1) / n) / (double)extent;
        bool better =
            best < 0 || part < 0.9 * least ||
            (part < 1.1 * least && piece->destination_stride[d] > piece->destination_stride[best]);
        if (piece->mode != CLEAVE_COPY_SQUARES && extent >= n && better) {
            best = d;
            least = part;
        }
    }
    return best;
}

typedef struct shared_copy {
    const cleave_copy_piece *piece;
    void *destination;
    const void *source;
    int dimension;
    int32_t n;
} shared_copy;

static cleave_status copy_part(void *context, int32_t i, int32_t thread, cleave_error *error) {
    const shared_copy *of = context;
    cleave_copy_piece part = *of->piece;
    int d = of->dimension;
    int64_t from = cleave_block_start(part.extent[d], of->n, i);
    (void)thread;
    (void)error;
    part.extent[d] = cleave_block_start(part.extent[d], of->n, i + 1) - from;
    part.destination_offset += from * part.destination_stride[d];
    part.source_offset += from * part.source_stride[d];
    cleave_copy_piece_run(&part, of->destination, of->source);
    return CLEAVE_OK;
}

void cleave_share_copy(cleave_team *team, const cleave_copy_piece *piece, void *destination,
                       const void *source) {
    int64_t elements = 1;
    shared_copy of = {piece, destination, source, -1, cleave_team_size(team)};
    for (int d = 0; d < piece->rank; d++)
        elements *= piece->extent[d];
    if (of.n > 1 && elements >= LEAST_ELEMENTS)
        of.dimension = find_dimension(piece, of.n);
    cleave_error none; /* copies don't fail */
    if (of.dimension < 0)
        cleave_copy_piece_run(piece, destination, source);
    else
        (void)cleave_team_run(team, of.n, copy_part, &of, &none);
}

typedef struct shared_range {
    int64_t from, to;
    int32_t n;
    cleave_share_body *body;
    void *context;
} shared_range;

static cleave_status do_range(void *context, int32_t i, int32_t thread, cleave_error *error) {
    const shared_range *of = context;
    int64_t n = of->to - of->from, lines = (n + LINE - 1) / LINE,
            from = LINE * cleave_block_start(lines, of->n, i),
            to = LINE * cleave_block_start(lines, of->n, i + 1);
    (void)thread;
    (void)error;
    of->body(of->context, of->from + from, of->from + (to < n ? to : n));
    return CLEAVE_OK;
}

void cleave_share_range(cleave_team *team, int64_t from, int64_t to, cleave_share_body *body,
                        void *context) {
    shared_range of = {from, to, cleave_team_size(team), body, context};
    cleave_error none; /* nor do ranges */
    if (of.n == 1 || to - from < LEAST_ELEMENTS)
        body(context, from, to);
    else
        (void)cleave_team_run(team, of.n, do_range, &of, &none);
}
