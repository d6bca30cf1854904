/* Who updates what of a parameter: each holder all that it holds; or, where the update is sharded,
   shares that cover each element once.

   A share lies within what its holder uses of the parameter.  So gradients are combined where a
   part of them arises, and new values go to those alone that would else have had a gradient: the
   reduce-scatter and the all-gather move together what the all-reduce would.  Boxes that holders
   use are taken smallest first, each without what others have taken; the holders that use that very
   box cut what is left of it into balanced blocks.  So shares follow a split that has cut the
   parameter.

   A share is memory of its holder where it lies in one run there.  Where the shares of a device
   would take more memory than they save, or some device would get none, the parameter is as if it
   were not sharded.  Of a weight that
   is sharded nothing else is kept, so a share has memory of its own; where no element has two users
   there is nothing to gather or reduce. */
#include "base/order.h"
#include "graph/lower/events.h"

/* That a holder uses a box. */
typedef struct used_box {
    const cleave_box *box;
    int rank;
    int32_t holder, device;
    int32_t use; /* the first one of that box by any holder */
    int64_t size;
} used_box;

typedef struct sharing {
    lowering *state;
    int32_t tensor;
    uint8_t sharded; /* cleave_sharded */
    int32_t n_used;
    used_box *used; /* [n_used] equal boxes side by side */
    int32_t n_taken;
    const cleave_box **taken; /* [n_taken] distinct ones whose elements have their shares */
    bool counts;              /* what is shared out is listed, and stays with all */
    bool is_short;            /* for some there is nothing */
} sharing;

static int compare_boxes(const void *a, const void *b) {
    const used_box *x = a, *y = b;
    for (int d = 0; d < x->rank; d++) {
        CLEAVE_ORDER_BY(x->box->lo[d], y->box->lo[d]);
        CLEAVE_ORDER_BY(x->box->hi[d], y->box->hi[d]);
    }
    return CLEAVE_ORDER(x->use, y->use);
}

/* Of one box in the order in which collectives have devices. */
static int compare_sizes(const void *a, const void *b) {
    const used_box *x = a, *y = b;
    CLEAVE_ORDER_BY(x->size, y->size);
    CLEAVE_ORDER_BY(x->use, y->use);
    return CLEAVE_ORDER(x->device, y->device);
}

static bool are_equal(const used_box *a, const used_box *b) {
    return cleave_box_equal(a->rank, a->box, b->box);
}

static void list_used(sharing *s) {
    lowering *state = s->state;
    const lower_tensor *of = &state->tensors[s->tensor];
    int rank = state->base.model->tensors[s->tensor].rank;
    int32_t n = 0;
    for (int32_t h = 0; h < of->holders.n; h++)
        for (int32_t u = of->holders.items[h].first_use; u >= 0; u = state->uses.items[u].next)
            n++;
    s->used = LOWER_ARRAY(&state->base, used_box, n);
    s->taken = LOWER_ARRAY(&state->base, const cleave_box *, n);
    for (int32_t h = 0; h < of->holders.n; h++)
        for (int32_t u = of->holders.items[h].first_use; u >= 0; u = state->uses.items[u].next) {
            const cleave_box *box = &state->uses.items[u].box;
            s->used[s->n_used++] = (used_box){
                box, rank, h, of->holders.items[h].device, u, cleave_box_size(rank, box)};
        }
    CLEAVE_SORT(s->used, n, compare_boxes);
    for (int32_t i = 1; i < n; i++)
        if (are_equal(&s->used[i - 1], &s->used[i]))
            s->used[i].use = s->used[i - 1].use;
    CLEAVE_SORT(s->used, n, compare_sizes);
}

/* Along the outermost dimension that is long enough for all, so that blocks lie in one run; else
   along the longest one. */
static int dimension_to_cut(const cleave_tensor *parameter, const cleave_box *box, int32_t n) {
    int longest = parameter->order[0];
    for (int i = 0; i < parameter->rank; i++) {
        int d = parameter->order[i];
        if (box->hi[d] - box->lo[d] >= n)
            return d;
        if (box->hi[d] - box->lo[d] > box->hi[longest] - box->lo[longest])
            longest = d;
    }
    return longest;
}

/* Windows of a fold whose users share a box out together: 1, but where all of them use it. */
static int32_t count_windows(const lower_builder *builder, int32_t tensor) {
    return builder->fold != NULL && builder->fold->sharing.tensor_dimension[tensor] < 0
               ? builder->fold->n_windows
               : 1;
}

/* The users, among [from, end), that are of the same group of a fold's devices as one of them. */
static void find_group(const sharing *s, int32_t from, int32_t end, int32_t user, int32_t *first,
                       int32_t *n) {
    int32_t m = s->state->base.fold->n_devices, group = s->used[user].device / m, last = user;
    *first = user;
    while (*first > from && s->used[*first - 1].device / m == group)
        --*first;
    while (last + 1 < end && s->used[last + 1].device / m == group)
        last++;
    *n = last + 1 - *first;
}

/* Users [from, end) of a box, and their like in other windows, share a piece of it out: window
   after window of each group is cut for, in the order of their devices.  Of blocks that are not
   equal the first ones are larger, so no window has more to do than window 0. */
static void share_out(sharing *s, const cleave_box *piece, int32_t from, int32_t end) {
    lower_builder *builder = &s->state->base;
    const cleave_tensor *parameter = &builder->model->tensors[s->tensor];
    lower_tensor *of = &s->state->tensors[s->tensor];
    int32_t n_windows = count_windows(builder, s->tensor), n = (end - from) * n_windows;
    int d = dimension_to_cut(parameter, piece, n);
    int64_t extent = piece->hi[d] - piece->lo[d];
    s->is_short = s->is_short || extent < n;
    for (int32_t i = from; i < end && !s->is_short; i++) {
        cleave_box block = *piece;
        int32_t first = from, per_window = 0;
        if (n_windows > 1 && builder->fold->windows_outermost)
            per_window = end - from;
        else if (n_windows > 1)
            find_group(s, from, end, i, &first, &per_window);
        int32_t nth = (first - from) * n_windows + i - first;
        block.lo[d] = piece->lo[d] + cleave_block_start(extent, n, nth);
        block.hi[d] = piece->lo[d] + cleave_block_start(extent, n, nth + 1);
        int32_t h = s->used[i].holder;
        lower_region held = lower_region_of(builder, of->holders.items[h].buffer);
        lower_region at = lower_region_within(parameter->rank, &held, &block);
        if (s->sharded >= CLEAVE_SHARDED_WEIGHT || !lower_region_is_dense(parameter, &block, &at))
            at = (lower_region){.buffer = -1, .box = block}; /* memory of its own */
        LOWER_PUSH(builder, &of->shares,
                   (lower_share){.holder = h,
                                 .at = at,
                                 .master = -1,
                                 .gradient = -1,
                                 .dimension = d,
                                 .block = nth,
                                 .n_blocks = n,
                                 .per_window = per_window,
                                 .start = piece->lo[d],
                                 .extent = extent});
    }
}

static void count(lowering *state, lower_share *share, const cleave_box *box, int32_t n_devices) {
    LOWER_PUSH(&state->base, &state->counted,
               (lower_counted){.box = *box, .n_devices = n_devices, .next = share->first_counted});
    share->first_counted = state->counted.n - 1;
}

/* Each of the users has all of a piece; the share of a holder that has all has its number. */
static void count_out(sharing *s, const cleave_box *piece, int32_t from, int32_t end) {
    int32_t n = (end - from) * count_windows(&s->state->base, s->tensor);
    for (int32_t i = from; i < end; i++)
        count(s->state, &s->state->tensors[s->tensor].shares.items[s->used[i].holder], piece, n);
}

static int32_t device_of(const lower_tensor *of, const lower_share *share) {
    return of->holders.items[share->holder].device;
}

void lower_pad_share(lower_builder *builder, const lower_share *share, int32_t buffer) {
    cleave_buffer *of = &builder->buffers.items[buffer];
    if (share->n_blocks == 0)
        return;
    int64_t has = share->at.box.hi[share->dimension] - share->at.box.lo[share->dimension];
    int64_t most = cleave_block_start(share->extent, share->n_blocks, 1);
    of->padding = of->bytes / has * (most - has);
}

/* The like of a share in another window. */
static cleave_box box_in_window(const lower_share *share, int32_t window) {
    cleave_box box = share->at.box;
    int64_t block = share->block + (int64_t)window * share->per_window, n = share->n_blocks;
    if (share->per_window == 0)
        return box;
    box.lo[share->dimension] = share->start + cleave_block_start(share->extent, n, block);
    box.hi[share->dimension] = share->start + cleave_block_start(share->extent, n, block + 1);
    return box;
}

static int32_t windows_of(const lowering *state, const lower_tensor *of) {
    return of->shares.n > 0 && of->shares.items[0].per_window > 0 ? state->base.fold->n_windows : 1;
}

void lower_contribute_shares(lowering *state, movement *move) {
    const lower_tensor *of = &state->tensors[move->tensor];
    int32_t n_windows = windows_of(state, of), n = of->shares.n;
    for (int32_t w = 0; w < n_windows; w++)
        for (int32_t i = 0; i < n; i++) {
            const lower_share *share = &of->shares.items[i];
            move_contribution *added =
                move_contribute(&state->base, move, (int64_t)w * n + i, device_of(of, share));
            added->at = share->at;
            added->at.box = box_in_window(share, w);
            added->of_window = n_windows > 1 ? 1 + w : 0;
        }
}

void lower_demand_like_shares(lowering *state, movement *move) {
    const lower_tensor *of = &state->tensors[move->tensor];
    int32_t n_windows = windows_of(state, of), first = move->demands.n - of->shares.n;
    for (int32_t w = 0; w < n_windows && n_windows > 1; w++)
        for (int32_t i = 0; i < of->shares.n; i++) {
            if (w == 0) {
                move->demands.items[first + i].of_window = 1;
                continue;
            }
            move_demand like = move->demands.items[first + i];
            like.at.box = box_in_window(&of->shares.items[i], w);
            like.may_move = false;
            like.of_window = 1 + w;
            LOWER_PUSH(&state->base, &move->demands, like);
        }
}

/* What boxes from taken[t] on leave of a piece. */
static void share_rest(sharing *s, cleave_box piece, int32_t t, int32_t from, int32_t end) {
    int rank = s->used[from].rank;
    while (t < s->n_taken && !cleave_box_overlap(rank, &piece, s->taken[t]))
        t++;
    if (t == s->n_taken) {
        (s->counts ? count_out : share_out)(s, &piece, from, end);
        return;
    }
    for (int d = 0; d < rank; d++) {
        cleave_box before = piece, behind = piece;
        before.hi[d] = behind.lo[d] = s->taken[t]->lo[d];
        behind.lo[d] = s->taken[t]->hi[d];
        if (before.lo[d] < before.hi[d]) {
            share_rest(s, before, t + 1, from, end);
            piece.lo[d] = before.hi[d];
        }
        if (behind.lo[d] < behind.hi[d]) {
            share_rest(s, behind, t + 1, from, end);
            piece.hi[d] = behind.lo[d];
        }
    }
}

/* Box after box that holders use, the smallest first. */
static void share_used(sharing *s) {
    for (int32_t i = 0, end; i < s->n_used; i = end) {
        for (end = i + 1; end < s->n_used && are_equal(&s->used[i], &s->used[end]);)
            end++;
        share_rest(s, *s->used[i].box, 0, i, end);
        s->taken[s->n_taken++] = s->used[i].box;
    }
}

void lower_count_updated(lowering *state, int32_t tensor) {
    lower_tensor *of = &state->tensors[tensor];
    sharing s = {.state = state, .tensor = tensor, .counts = true};
    state->counted.n = 0;
    for (int32_t i = 0; i < of->shares.n; i++) {
        lower_share *share = &of->shares.items[i];
        share->first_counted = -1;
        if (of->sharded)
            count(state, share, &share->at.box, 1);
    }
    if (of->sharded)
        return;
    list_used(&s);
    share_used(&s);
}

/* Does every device keep at most what it would keep otherwise? */
static bool shares_save(const lowering *state, int32_t tensor) {
    const lower_builder *builder = &state->base;
    const lower_tensor *of = &state->tensors[tensor];
    int rank = builder->model->tensors[tensor].rank, n_states = builder->options->optimizer_states;
    for (int32_t h = 0; h < of->holders.n; h++) {
        int64_t rest = n_states * cleave_box_size(rank, &of->holders.items[h].box);
        for (int32_t i = 0; i < of->shares.n; i++)
            if (of->shares.items[i].holder == h)
                rest -= (n_states + (of->shares.items[i].at.buffer < 0)) *
                        cleave_box_size(rank, &of->shares.items[i].at.box);
        if (rest < 0)
            return false;
    }
    return true;
}

/* Do two devices use an element? */
static bool is_replicated(const sharing *s) {
    if (s->n_used > 0 && count_windows(&s->state->base, s->tensor) > 1)
        return true;
    for (int32_t i = 1; i < s->n_used; i++)
        for (int32_t j = 0; j < i; j++)
            if (s->used[i].device != s->used[j].device &&
                cleave_box_overlap(s->used[i].rank, s->used[i].box, s->used[j].box))
                return true;
    return false;
}

static bool plan_shards(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    sharing s = {.state = state, .tensor = tensor, .sharded = builder->layout->sharded[tensor]};
    list_used(&s);
    if (s.sharded > CLEAVE_SHARDED_UPDATE && !is_replicated(&s))
        s.sharded = CLEAVE_SHARDED_UPDATE; /* each has its own as it is */
    if (s.sharded < CLEAVE_SHARDED_WEIGHT && !builder->model->tensors[tensor].needs_gradient)
        return false; /* it has no update */
    share_used(&s);
    if (s.is_short || (s.sharded < CLEAVE_SHARDED_WEIGHT && !shares_save(state, tensor)))
        return false;
    for (int32_t i = 0; i < of->shares.n; i++) {
        lower_share *share = &of->shares.items[i];
        if (share->at.buffer >= 0)
            continue;
        int32_t buffer =
            lower_buffer(builder, CLEAVE_BUFFER_PARAMETER, of->holders.items[share->holder].device,
                         tensor, &share->at.box);
        lower_pad_share(builder, share, buffer);
        builder->buffers.items[buffer].persistent = true;
        share->at = lower_region_of(builder, buffer);
    }
    of->sharded = s.sharded;
    return true;
}

static void plan_shares(lowering *state, int32_t tensor) {
    lower_builder *builder = &state->base;
    lower_tensor *of = &state->tensors[tensor];
    if (builder->layout->sharded[tensor] > CLEAVE_SHARDED_NOTHING &&
        of->holders.n * count_windows(builder, tensor) > 1 &&
        builder->model->tensors[tensor].rank > 0 && plan_shards(state, tensor))
        return;
    of->shares.n = 0;
    for (int32_t h = 0; h < of->holders.n; h++)
        LOWER_PUSH(builder, &of->shares,
                   (lower_share){.holder = h,
                                 .master = -1,
                                 .gradient = -1,
                                 .at = lower_region_of(builder, of->holders.items[h].buffer)});
}

void lower_plan_shares(lowering *state) {
    const lower_schedule *schedule = state->schedule;
    for (int32_t m = schedule->first_member[state->family];
         m < schedule->first_member[state->family + 1]; m++)
        if (state->base.model->tensors[schedule->members[m]].kind == CLEAVE_TENSOR_PARAMETER)
            plan_shares(state, schedule->members[m]);
}
