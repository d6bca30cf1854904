/* Pulling boxes back through views, step by step: each step turns one piece of a view into pieces
   of its sources, with the strides of the local buffer carried along. */
#include "graph/model/view.h"

static cleave_status pull_piece(const cleave_model *model, const cleave_piece *piece,
                                cleave_piece_list *pieces, cleave_error *error);

/* Do two shapes differ in dimensions of extent 1 only? */
static bool same_but_for_ones(const cleave_tensor *a, const cleave_tensor *b) {
    int i = 0, j = 0;
    for (;; i++, j++) {
        while (i < a->rank && a->shape[i] == 1)
            i++;
        while (j < b->rank && b->shape[j] == 1)
            j++;
        if (i == a->rank || j == b->rank)
            return i == a->rank && j == b->rank;
        if (a->shape[i] != b->shape[j])
            return false;
    }
}

/* Does any box of the tensor come of one piece, and of another base tensor than this?  A quick test
   that may say no, since a concatenation of a hundred is pulled back for each of them. */
static bool is_one_piece_of_another(const cleave_model *model, int32_t tensor, int32_t base) {
    const cleave_tensor *of = &model->tensors[tensor];
    while (of->view.kind == CLEAVE_VIEW_RESHAPE) {
        tensor = of->view.sources[0];
        if (!same_but_for_ones(of, &model->tensors[tensor]))
            return false;
        of = &model->tensors[tensor];
    }
    return of->view.kind == CLEAVE_VIEW_NONE && tensor != base;
}

static cleave_status pull_transpose(const cleave_model *model, const cleave_piece *piece,
                                    cleave_piece_list *pieces, cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[piece->tensor];
    cleave_piece next = {.tensor = tensor->view.sources[0], .offset = piece->offset};
    for (int d = 0; d < tensor->rank; d++) {
        int source = tensor->view.permutation[d];
        next.box.lo[source] = piece->box.lo[d];
        next.box.hi[source] = piece->box.hi[d];
        next.stride[source] = piece->stride[d];
    }
    return pull_piece(model, &next, pieces, error);
}

static cleave_status pull_concat(const cleave_model *model, const cleave_piece *piece,
                                 cleave_piece_list *pieces, cleave_error *error) {
    const cleave_view *view = &model->tensors[piece->tensor].view;
    int axis = view->axis;
    int64_t start = 0;
    for (int32_t i = 0; i < view->n_sources; i++) {
        int64_t end = start + model->tensors[view->sources[i]].shape[axis];
        int64_t lo = piece->box.lo[axis] < start ? start : piece->box.lo[axis],
                hi = piece->box.hi[axis] > end ? end : piece->box.hi[axis];
        if (lo < hi && pieces->only != NULL &&
            is_one_piece_of_another(model, view->sources[i], *pieces->only)) {
            pieces->n_met++;
        } else if (lo < hi) {
            cleave_piece next = *piece;
            next.tensor = view->sources[i];
            next.offset += (lo - piece->box.lo[axis]) * piece->stride[axis];
            next.box.lo[axis] = lo - start;
            next.box.hi[axis] = hi - start;
            CLEAVE_TRY(pull_piece(model, &next, pieces, error));
        }
        start = end;
    }
    return CLEAVE_OK;
}

/* A dimension with a step of more than one gives a piece per element; `d` is the dimension at hand.
 */
static cleave_status pull_slice(const cleave_model *model, const cleave_piece *piece, int d,
                                cleave_piece next, cleave_piece_list *pieces, cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[piece->tensor];
    if (d == tensor->rank)
        return pull_piece(model, &next, pieces, error);
    int64_t begin = tensor->view.begin[d], step = tensor->view.step[d];
    next.stride[d] = piece->stride[d];
    if (step == 1) {
        next.box.lo[d] = begin + piece->box.lo[d];
        next.box.hi[d] = begin + piece->box.hi[d];
        return pull_slice(model, piece, d + 1, next, pieces, error);
    }
    for (int64_t i = piece->box.lo[d]; i < piece->box.hi[d]; i++) {
        next.box.lo[d] = begin + step * i;
        next.box.hi[d] = next.box.lo[d] + 1;
        CLEAVE_TRY(pull_slice(model, piece, d + 1, next, pieces, error));
        next.offset += piece->stride[d];
    }
    return CLEAVE_OK;
}

static cleave_status pull_pad(const cleave_model *model, const cleave_piece *piece,
                              cleave_piece_list *pieces, cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[piece->tensor];
    cleave_piece next = *piece;
    next.tensor = tensor->view.sources[0];
    for (int d = 0; d < tensor->rank; d++) {
        int64_t before = tensor->view.begin[d], extent = model->tensors[next.tensor].shape[d];
        int64_t lo = piece->box.lo[d] - before, hi = piece->box.hi[d] - before;
        next.box.lo[d] = lo < 0 ? 0 : lo;
        next.box.hi[d] = hi > extent ? extent : hi;
        if (next.box.lo[d] >= next.box.hi[d])
            return CLEAVE_OK;
        next.offset += (next.box.lo[d] - lo) * piece->stride[d];
    }
    return pull_piece(model, &next, pieces, error);
}

/* Reshape.  Both shapes are cut into the shortest runs of dimensions with equal products; within a
   run a contiguous range of row-major positions is a box on either side, or a few. */
typedef struct reshape_run {
    int from, from_end; /* dimensions of the view */
    int to, to_end;     /* dimensions of the source */
} reshape_run;

typedef struct reshape {
    const cleave_model *model;
    const cleave_piece *piece;
    const int64_t *view_shape, *source_shape;
    int n_runs;
    reshape_run runs[2 * CLEAVE_MAX_RANK];
    cleave_piece_list *pieces;
    cleave_error *error;
} reshape;

static int find_runs(int rank, const int64_t *shape, int source_rank, const int64_t *source,
                     reshape_run *runs) {
    int n = 0, i = 0, j = 0;
    while (i < rank || j < source_rank) {
        reshape_run run = {i, i, j, j};
        int64_t a = 1, b = 1;
        if (i < rank)
            a = shape[i++];
        if (j < source_rank &&
            a != 1) /* a view dimension of extent 1 stands for no source dimension */
            b = source[j++];
        while (a != b) {
            if ((a < b && i < rank) || j >= source_rank)
                a *= shape[i++];
            else
                b *= source[j++];
        }
        run.from_end = i;
        run.to_end = j;
        runs[n++] = run;
        if (i == rank)
            while (j < source_rank) /* trailing source dimensions of extent 1 */
                runs[n - 1].to_end = ++j;
    }
    return n;
}

/* `next` is filled in, run by run, dimension by dimension: whoever goes on in several ways sets its
   offset anew for each, and all else is set on every way. */
static cleave_status reshape_from(const reshape *state, int run, cleave_piece *next);

/* The positions [lo, hi) of the row-major product of source dimensions [d, end) of the run, which
   lie `stride` apart in the buffer: boxes, largest possible. */
static cleave_status reshape_range(const reshape *state, int run, int d, int64_t lo, int64_t hi,
                                   int64_t stride, cleave_piece *next) {
    int end = state->runs[run].to_end;
    if (lo >= hi)
        return CLEAVE_OK;
    if (d == end)
        return reshape_from(state, run + 1, next);
    int64_t inner = 1, offset = next->offset;
    for (int e = d + 1; e < end; e++)
        inner *= state->source_shape[e];
    int64_t first = (lo + inner - 1) / inner, last = hi / inner;
    next->stride[d] = stride * inner;
    if (first > last) { /* within one index of this dimension */
        next->box.lo[d] = lo / inner;
        next->box.hi[d] = next->box.lo[d] + 1;
        return reshape_range(state, run, d + 1, lo % inner, lo % inner + (hi - lo), stride, next);
    }
    if (lo < first * inner) {
        next->box.lo[d] = first - 1;
        next->box.hi[d] = first;
        CLEAVE_TRY(reshape_range(state, run, d + 1, lo - (first - 1) * inner, inner, stride, next));
    }
    if (first < last) {
        next->box.lo[d] = first;
        next->box.hi[d] = last;
        next->offset = offset + (first * inner - lo) * stride;
        CLEAVE_TRY(reshape_range(state, run, d + 1, 0, inner, stride, next));
    }
    if (last * inner < hi) {
        next->box.lo[d] = last;
        next->box.hi[d] = last + 1;
        next->offset = offset + (last * inner - lo) * stride;
        CLEAVE_TRY(reshape_range(state, run, d + 1, 0, hi - last * inner, stride, next));
    }
    return CLEAVE_OK;
}

/* View dimensions [d, ...) of the run; `position` is the row-major index within the run so far. */
static cleave_status reshape_view_dimensions(const reshape *state, int run, int d, int64_t position,
                                             cleave_piece *next) {
    const cleave_piece *piece = state->piece;
    int end = state->runs[run].from_end;
    if (d == end) /* a run of ones, or a single position */
        return reshape_range(state, run, state->runs[run].to, position, position + 1, 1, next);
    /* Can the rest of the run be walked with one stride?  That of a dimension of 1 means nothing.
     */
    int64_t inner = 1, unit = 0, expected = 0;
    bool even = true;
    for (int e = end - 1; e >= d; e--) {
        even =
            even && (e == d || (piece->box.lo[e] == 0 && piece->box.hi[e] == state->view_shape[e]));
        inner *= e > d ? state->view_shape[e] : 1;
        if (state->view_shape[e] == 1)
            continue;
        if (unit == 0)
            unit = expected = piece->stride[e];
        even = even && piece->stride[e] == expected;
        expected *= state->view_shape[e];
    }
    unit = unit == 0 ? 1 : unit;
    int64_t lo = piece->box.lo[d], hi = piece->box.hi[d], offset = next->offset;
    if (even)
        return reshape_range(state, run, state->runs[run].to, (position + lo) * inner,
                             (position + hi) * inner, unit, next);
    for (int64_t i = lo; i < hi; i++) {
        next->offset = offset + (i - lo) * piece->stride[d];
        CLEAVE_TRY(reshape_view_dimensions(state, run, d + 1,
                                           (position + i) * state->view_shape[d + 1], next));
    }
    return CLEAVE_OK;
}

static cleave_status reshape_from(const reshape *state, int run, cleave_piece *next) {
    if (run == state->n_runs)
        return pull_piece(state->model, next, state->pieces, state->error);
    return reshape_view_dimensions(state, run, state->runs[run].from, 0, next);
}

static cleave_status pull_reshape(const cleave_model *model, const cleave_piece *piece,
                                  cleave_piece_list *pieces, cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[piece->tensor];
    const cleave_tensor *source = &model->tensors[tensor->view.sources[0]];
    reshape state = {.model = model,
                     .piece = piece,
                     .view_shape = tensor->shape,
                     .source_shape = source->shape,
                     .pieces = pieces,
                     .error = error};
    state.n_runs = find_runs(tensor->rank, tensor->shape, source->rank, source->shape, state.runs);
    cleave_piece next = {.tensor = tensor->view.sources[0], .offset = piece->offset};
    return reshape_from(&state, 0, &next);
}

static cleave_status pull_piece(const cleave_model *model, const cleave_piece *piece,
                                cleave_piece_list *pieces, cleave_error *error) {
    const cleave_tensor *tensor = &model->tensors[piece->tensor];
    switch (tensor->view.kind) {
    case CLEAVE_VIEW_NONE:
        if (pieces->only != NULL && *pieces->only != piece->tensor) {
            pieces->n_met++;
            return CLEAVE_OK;
        }
        if (!CLEAVE_LIST_PUSH(pieces, *piece))
            return cleave_fail_memory(error, "pulling boxes back through views");
        pieces->items[pieces->n - 1].index = pieces->n_met++;
        return CLEAVE_OK;
    case CLEAVE_VIEW_TRANSPOSE:
        return pull_transpose(model, piece, pieces, error);
    case CLEAVE_VIEW_CONCAT:
        return pull_concat(model, piece, pieces, error);
    case CLEAVE_VIEW_SLICE:
        return pull_slice(
            model, piece, 0,
            (cleave_piece){.tensor = tensor->view.sources[0], .offset = piece->offset}, pieces,
            error);
    case CLEAVE_VIEW_PAD:
        return pull_pad(model, piece, pieces, error);
    case CLEAVE_VIEW_RESHAPE:
        return pull_reshape(model, piece, pieces, error);
    }
    return cleave_fail(error, CLEAVE_FAILED, "tensor %s: unknown kind of view", tensor->name);
}

cleave_status cleave_view_pull(const cleave_model *model, int32_t tensor, const cleave_box *box,
                               cleave_piece_list *pieces, cleave_error *error) {
    pieces->n_met = 0;
    if (cleave_box_is_empty(model->tensors[tensor].rank, box))
        return CLEAVE_OK;
    cleave_piece piece = {.tensor = tensor, .box = *box};
    cleave_tensor_strides(&model->tensors[tensor], box, piece.stride);
    return pull_piece(model, &piece, pieces, error);
}

float cleave_view_fill(const cleave_model *model, int32_t tensor) {
    const cleave_view *view = &model->tensors[tensor].view;
    if (view->kind == CLEAVE_VIEW_NONE)
        return 0;
    return view->kind == CLEAVE_VIEW_PAD ? view->fill : cleave_view_fill(model, view->sources[0]);
}
