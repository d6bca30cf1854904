/* What constant masks do to blocks of scores: hide them, leave them, or something else.

   A score is followed through the tapes as a x product + b, where a and b are known as far as they
   follow from constants and places.  Masks that are data, biases, and what is drawn are unknown:
   they may be added to what a constant hides.

   What follows from places alone is known of a whole block of them at once, as a range; so long
   texts, whose masks lie nowhere, cost as many steps as there are blocks. */
#include "graph/model/attention.h"

#include <math.h>

typedef struct score {
    double a;       /* NaN: it is no number, the product goes through some function */
    double b, most; /* b is the least that is added in a block of places */
    bool unknown;   /* something that is not known is added */
} score;

static const double surely_hidden = -1e30;

static score known(double b) { return (score){.b = b, .most = b}; }
static bool is_range(score x) { return x.a == 0 && !x.unknown; }
static bool is_known(score x) { return is_range(x) && !(x.b < x.most) && !(x.b > x.most); }

static score value_of(const cleave_instruction *it, double a, double b) {
    double p = it->p, q = it->q;
    switch (it->opcode) {
#define ROW(name, operands, value, ...)                                                            \
    case CLEAVE_OP_##name:                                                                         \
        return known((double)(value));
        CLEAVE_OPCODES(ROW, double, a, b, 0, p, q, 0)
#undef ROW
    case CLEAVE_N_OPCODES:
        break;
    }
    return known(0);
}

static score times(score x, double number) {
    if (number == 0)
        return known(0);
    bool turns = number < 0;
    return (score){number * x.a, number * (turns ? x.most : x.b), number * (turns ? x.b : x.most),
                   x.unknown};
}

static score plus(score x, score y) {
    return (score){x.a + y.a, x.b + y.b, x.most + y.most, x.unknown || y.unknown};
}

/* 1 where it surely holds, 0 where it surely does not. */
static score holds(bool surely, bool never) {
    return (score){.b = surely ? 1 : 0, .most = never ? 0 : 1};
}

static score step(const cleave_instruction *it, score x, score y) {
    int operands = cleave_opcode_operands(it->opcode);
    bool random = it->opcode == CLEAVE_OP_DROPOUT || it->opcode == CLEAVE_OP_UNIFORM;
    if (!random && (operands < 1 || is_known(x)) && (operands < 2 || is_known(y)))
        return value_of(it, x.b, y.b);
    switch (it->opcode) {
    case CLEAVE_OP_COPY:
        return x;
    case CLEAVE_OP_NEG:
        return times(x, -1);
    case CLEAVE_OP_SCALE:
        return plus(times(x, it->p), known(it->q));
    case CLEAVE_OP_ADD:
        return plus(x, y);
    case CLEAVE_OP_SUB:
        return plus(x, times(y, -1));
    case CLEAVE_OP_LESS:
        if (is_range(x) && is_range(y))
            return holds(x.most < y.b, x.b >= y.most);
        break;
    case CLEAVE_OP_LESS_EQUAL:
        if (is_range(x) && is_range(y))
            return holds(x.most <= y.b, x.b > y.most);
        break;
    case CLEAVE_OP_MUL:
        if (is_known(x) || is_known(y))
            return is_known(x) ? times(y, x.b) : times(x, y.b);
        break;
    case CLEAVE_OP_DIV:
        if (is_known(y) && y.b != 0)
            return times(x, 1 / y.b);
        break;
    case CLEAVE_OP_MASK:
        if (is_known(y))
            return y.b != 0 ? x : known(0);
        if (is_range(x) && is_range(y))
            return (score){.b = fmin(x.b, 0), .most = fmax(x.most, 0)};
        break;
    default:
        break;
    }
    return (score){.a = (double)NAN, .unknown = true};
}

typedef struct reader {
    const cleave_model *model;
    const cleave_attention *of;
    int64_t row, key, row_last, key_last; /* a block of places; LAST: in it */
    bool asks_for_places;                 /* see asks_for_places */
    bool has_before;                      /* a place was seen: */
    score before;
    double read_before[CLEAVE_ATTENTION_MEMBERS * CLEAVE_MAX_INPUTS];
} reader;

/* An element of an input that is constant, the same in all rows and keys of other axes. */
static score read(const reader *r, int member, const cleave_operand *operand) {
    const cleave_tensor *tensor = &r->model->tensors[operand->tensor];
    int64_t at = 0;
    if (tensor->kind != CLEAVE_TENSOR_CONSTANT || tensor->view.kind != CLEAVE_VIEW_NONE)
        return (score){.unknown = true};
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        int axis = map->n_terms > 0 ? r->of->axis[member][map->terms[0].axis] : -1;
        if (map->n_terms > 0 && axis != r->of->rows && axis != r->of->keys)
            return (score){.unknown = true};
        at = at * tensor->shape[d] + (map->n_terms == 0     ? map->offset
                                      : axis == r->of->rows ? r->row
                                                            : r->key);
    }
    return known(tensor->type == CLEAVE_I64 ? (double)((const int64_t *)tensor->value)[at]
                                            : (double)((const float *)tensor->value)[at]);
}

static score place(int64_t first, int64_t last) {
    return (score){.b = (double)first, .most = (double)last};
}

static score through(const reader *r, int member, score before) {
    const cleave_nest *nest = &r->of->members[member];
    score registers[CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE] = {{0}};
    for (int k = 0; k < nest->n_inputs; k++)
        registers[k] = r->of->input[member][k] < 0 ? before : read(r, member, &nest->inputs[k]);
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *it = &nest->tape[i];
        int operands = cleave_opcode_operands(it->opcode);
        score *made = &registers[nest->n_inputs + i];
        if (it->opcode == CLEAVE_OP_INDEX) {
            int axis = r->of->axis[member][it->a];
            *made = axis == r->of->rows   ? place(r->row, r->row_last)
                    : axis == r->of->keys ? place(r->key, r->key_last)
                                          : (score){.unknown = true};
        } else {
            *made = step(it, operands >= 1 ? registers[it->a] : known(0),
                         operands >= 2 ? registers[it->b] : known(0));
        }
    }
    return registers[nest->n_inputs + nest->n_instructions - 1];
}

/* Do scores depend on where they are, besides what is read there? */
static bool asks_for_places(const cleave_attention *of) {
    for (int i = 1; i <= of->n_pointwise; i++)
        for (int k = 0; k < of->members[i].n_instructions; k++)
            if (of->members[i].tape[k].opcode == CLEAVE_OP_INDEX)
                return true;
    return false;
}

/* PLAIN blocks have the same scale everywhere: the first that is met. */
static cleave_seen see(cleave_attention *of, score x) {
    if (x.most <= surely_hidden || (is_range(x) && x.most <= CLEAVE_MOST_HIDDEN_SCORE))
        return CLEAVE_SEEN_HIDDEN;
    if (x.unknown || x.b != 0 || x.most != 0 || !(fabs(x.a) > 0))
        return CLEAVE_SEEN_MIXED;
    if (of->plain_scale == 0)
        of->plain_scale = x.a;
    return x.a == of->plain_scale ? CLEAVE_SEEN_PLAIN : CLEAVE_SEEN_MIXED;
}

/* Do constants say what they said at the place before?  Masks are long runs of one value. */
static bool reads_as_before(reader *r) {
    bool same = r->has_before && !r->asks_for_places;
    int n = 0;
    for (int i = 1; i <= r->of->n_pointwise; i++)
        for (int k = 0; k < r->of->members[i].n_inputs; k++)
            if (r->of->input[i][k] >= 0) {
                double value = read(r, i, &r->of->members[i].inputs[k]).b;
                same = same && !(value < r->read_before[n]) && !(value > r->read_before[n]) &&
                       !isnan(value);
                r->read_before[n++] = value;
            }
    return same;
}

static score score_at(reader *r) {
    score x = {.a = r->of->scale};
    if (reads_as_before(r))
        return r->before;
    for (int i = 1; i <= r->of->n_pointwise; i++)
        x = through(r, i, x);
    r->before = x;
    r->has_before = true;
    return x;
}

/* Has the row a score that is surely as high as products are?  Masks show the keys nearby. */
static bool shows_row(reader *r, int64_t row, int64_t n_keys) {
    r->row = r->row_last = row;
    for (int64_t i = 0; i < n_keys; i++) {
        r->key = r->key_last = row < n_keys ? (row + n_keys - i) % n_keys : n_keys - 1 - i;
        score x = score_at(r);
        if (!x.unknown && x.b > CLEAVE_MOST_HIDDEN_SCORE / 2)
            return true;
    }
    return false;
}

static bool shows_rows(reader *r, int64_t n_rows, int64_t n_keys) {
    for (int64_t row = 0; row < n_rows; row++)
        if (!shows_row(r, row, n_keys))
            return false;
    return true;
}

/* Is anything known of what is read that differs from place to place? */
static bool reads_at_places(const reader *r) {
    for (int i = 1; i <= r->of->n_pointwise; i++)
        for (int k = 0; k < r->of->members[i].n_inputs; k++) {
            const cleave_operand *operand = &r->of->members[i].inputs[k];
            int rank = r->model->tensors[operand->tensor].rank, n_terms = 0;
            for (int d = 0; d < rank; d++)
                n_terms += operand->map[d].n_terms;
            if (r->of->input[i][k] >= 0 && n_terms > 0 && is_known(read(r, i, operand)))
                return true;
        }
    return false;
}

static cleave_seen see_grain(reader *r, cleave_attention *of, int64_t n_rows, int64_t n_keys,
                             int64_t row, int64_t key) {
    int64_t row_end = row + CLEAVE_SEEN_GRAIN < n_rows ? row + CLEAVE_SEEN_GRAIN : n_rows;
    int64_t key_end = key + CLEAVE_SEEN_GRAIN < n_keys ? key + CLEAVE_SEEN_GRAIN : n_keys;
    cleave_seen all = CLEAVE_SEEN_MIXED;
    *r = (reader){.model = r->model,
                  .of = of,
                  .asks_for_places = r->asks_for_places,
                  .row = row,
                  .key = key,
                  .row_last = row_end - 1,
                  .key_last = key_end - 1};
    if (!reads_at_places(r))
        return see(of, score_at(r));
    for (r->row = row; r->row < row_end; r->row++)
        for (r->key = key; r->key < key_end; r->key++) {
            bool first = r->row == row && r->key == key;
            r->row_last = r->row;
            r->key_last = r->key;
            cleave_seen one = see(of, score_at(r));
            if (one == CLEAVE_SEEN_MIXED || (!first && one != all))
                return CLEAVE_SEEN_MIXED;
            all = one;
        }
    return all;
}

/* ---- layers mostly have one mask ------------------------------------------------------------- */

static bool same_tape(const cleave_nest *a, const cleave_nest *b) {
    bool same = a->n_inputs == b->n_inputs && a->n_instructions == b->n_instructions;
    for (int i = 0; same && i < a->n_instructions; i++) {
        const cleave_instruction *x = &a->tape[i], *y = &b->tape[i];
        same = x->opcode == y->opcode && x->a == y->a && x->b == y->b &&
               !(x->p < y->p || x->p > y->p) && !(x->q < y->q || x->q > y->q);
    }
    return same;
}

/* Is an input the same constant, read alike, or unknown in both? */
static bool same_input(const cleave_model *model, const cleave_nest *a, const cleave_nest *b,
                       int k) {
    const cleave_operand *x = &a->inputs[k], *y = &b->inputs[k];
    bool constant = model->tensors[x->tensor].kind == CLEAVE_TENSOR_CONSTANT;
    if (!constant || x->tensor != y->tensor)
        return !constant && model->tensors[y->tensor].kind != CLEAVE_TENSOR_CONSTANT;
    for (int d = 0; d < model->tensors[x->tensor].rank; d++)
        if (x->map[d].offset != y->map[d].offset || x->map[d].n_terms != y->map[d].n_terms ||
            (x->map[d].n_terms > 0 && x->map[d].terms[0].axis != y->map[d].terms[0].axis))
            return false;
    return true;
}

static bool is_like(const cleave_model *model, const cleave_attention *a,
                    const cleave_attention *b) {
    bool like = a->n_members == b->n_members && a->rows == b->rows && a->keys == b->keys &&
                a->n_row_grains == b->n_row_grains && a->n_key_grains == b->n_key_grains &&
                !(a->scale < b->scale || a->scale > b->scale);
    for (int i = 1; like && i <= a->n_pointwise; i++) {
        const cleave_nest *x = &a->members[i], *y = &b->members[i];
        like = x->n_axes == y->n_axes && same_tape(x, y);
        for (int axis = 0; like && axis < x->n_axes; axis++)
            like = a->axis[i][axis] == b->axis[i][axis] &&
                   x->axes[axis].extent == y->axes[axis].extent;
        for (int k = 0; like && k < x->n_inputs; k++)
            like = (a->input[i][k] < 0) == (b->input[i][k] < 0) &&
                   (a->input[i][k] < 0 || same_input(model, x, y, k));
    }
    return like;
}

static const cleave_attention *find_like(const cleave_model *model, const cleave_attention *of,
                                         int32_t n_before, const cleave_nest *const *before) {
    for (int32_t i = n_before - 1; i >= 0; i--)
        if (before[i] != NULL && is_like(model, before[i]->attention, of))
            return before[i]->attention;
    return NULL;
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool cleave_attention_find_seen(const cleave_model *model, const cleave_nest *nest,
                                int32_t n_before, const cleave_nest *const *before,
                                cleave_attention *of) {
    int64_t n_rows = nest->axes[of->rows].extent, n_keys = nest->axes[of->keys].extent;
    int64_t rows = (n_rows + CLEAVE_SEEN_GRAIN - 1) / CLEAVE_SEEN_GRAIN;
    int64_t keys = (n_keys + CLEAVE_SEEN_GRAIN - 1) / CLEAVE_SEEN_GRAIN;
    of->n_row_grains = rows;
    of->n_key_grains = keys;
    const cleave_attention *like = find_like(model, of, n_before, before);
    if (like != NULL) {
        of->seen = like->seen;
        of->n_hidden = like->n_hidden;
        of->plain_scale = like->plain_scale;
        of->shows_all = like->shows_all;
        return true;
    }
    uint8_t *seen = CLEAVE_ARENA_ARRAY(model->arena, uint8_t, rows * keys);
    int32_t *hidden = CLEAVE_ARENA_ARRAY(model->arena, int32_t, (rows + 1) * (keys + 1));
    if (seen == NULL || hidden == NULL)
        return false;
    reader r = {.model = model, .of = of, .asks_for_places = asks_for_places(of)};
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < keys; j++) {
            seen[i * keys + j] = (uint8_t)see_grain(&r, of, n_rows, n_keys, i * CLEAVE_SEEN_GRAIN,
                                                    j * CLEAVE_SEEN_GRAIN);
            hidden[(i + 1) * (keys + 1) + j + 1] =
                hidden[(i + 1) * (keys + 1) + j] + hidden[i * (keys + 1) + j + 1] -
                hidden[i * (keys + 1) + j] + (seen[i * keys + j] == CLEAVE_SEEN_HIDDEN);
        }
    of->seen = seen;
    of->n_hidden = hidden;
    of->shows_all = shows_rows(&r, n_rows, n_keys);
    return true;
}

cleave_seen cleave_attention_seen(const cleave_attention *of, int64_t row, int64_t row_end,
                                  int64_t key, int64_t key_end) {
    cleave_seen all =
        (cleave_seen)of->seen[row / CLEAVE_SEEN_GRAIN * of->n_key_grains + key / CLEAVE_SEEN_GRAIN];
    for (int64_t i = row / CLEAVE_SEEN_GRAIN; i * CLEAVE_SEEN_GRAIN < row_end; i++)
        for (int64_t j = key / CLEAVE_SEEN_GRAIN; j * CLEAVE_SEEN_GRAIN < key_end; j++)
            if (of->seen[i * of->n_key_grains + j] != all)
                return CLEAVE_SEEN_MIXED;
    return all;
}

bool cleave_attention_hides(const cleave_attention *of) {
    return of->n_hidden[(of->n_row_grains + 1) * (of->n_key_grains + 1) - 1] > 0;
}

/* How many blocks there are in ranges of the axes, and how many of them are hidden. */
static int64_t count_blocks(const cleave_attention *of, const int64_t *lo, const int64_t *hi,
                            int64_t *n_hidden) {
    int64_t row = lo[of->rows] / CLEAVE_SEEN_GRAIN, key = lo[of->keys] / CLEAVE_SEEN_GRAIN;
    int64_t row_end = (hi[of->rows] + CLEAVE_SEEN_GRAIN - 1) / CLEAVE_SEEN_GRAIN;
    int64_t key_end = (hi[of->keys] + CLEAVE_SEEN_GRAIN - 1) / CLEAVE_SEEN_GRAIN;
    int64_t width = of->n_key_grains + 1;
    *n_hidden = of->n_hidden[row_end * width + key_end] - of->n_hidden[row * width + key_end] -
                of->n_hidden[row_end * width + key] + of->n_hidden[row * width + key];
    return (row_end - row) * (key_end - key);
}

bool cleave_attention_sees(const cleave_attention *of, const int64_t *lo, const int64_t *hi) {
    int64_t hidden, all = count_blocks(of, lo, hi, &hidden);
    return hidden < all;
}

double cleave_attention_seen_share(const cleave_attention *of, const int64_t *lo,
                                   const int64_t *hi) {
    int64_t hidden, all = count_blocks(of, lo, hi, &hidden);
    return hidden < all ? 1 - (double)hidden / (double)all : 1;
}
