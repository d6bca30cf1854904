/* Shortening goes from ids to ids: operators and their nests by position, then the tensors that
   what remains needs.  A tensor that the last block writes is replaced by that of the last block
   kept. */
#include "search/problem/blocks.h"

#include <string.h>

enum { MOST_PERIOD = 512, LEAST_BLOCKS = 5 };

cleave_blocks cleave_blocks_find(const cleave_model *model, const int32_t *class_of) {
    cleave_blocks best = {0};
    int32_t n = model->n_operators;
    for (int32_t p = 1; p <= MOST_PERIOD && LEAST_BLOCKS * p <= n; p++)
        for (int32_t begin = 0, i = 0; i + p <= n; i++) {
            if (i + p < n && class_of[i] == class_of[i + p])
                continue;
            int32_t blocks = (i - begin) / p + 1; /* i - begin operators equal those p later */
            if (blocks >= LEAST_BLOCKS && blocks * p > best.n * best.period)
                best = (cleave_blocks){.first = begin, .period = p, .n = blocks};
            begin = i + 1;
        }
    return best;
}

typedef struct shortener {
    const cleave_model *model;
    cleave_blocks blocks;
    int32_t keep;
    cleave_arena *arena;
    cleave_error *error;
    cleave_model *made;
    int32_t *operator; /* [n_operators] new id; -1: left out */
    int32_t *nest;     /* [n_nests] the same */
    int32_t *tensor;   /* [n_tensors] new id of what is needed; -1: not needed */
    bool *needed;      /* [n_tensors] */
} shortener;

/* ---- blocks ---------------------------------------------------------------------------------- */

/* -1: in none. */
static int32_t block_of(const shortener *s, int32_t op) {
    int32_t b = op < s->blocks.first ? -1 : (op - s->blocks.first) / s->blocks.period;
    return b < s->blocks.n ? b : -1;
}

static bool is_kept(const shortener *s, int32_t op) { return block_of(s, op) < s->keep; }

/* The operator in the same place of an earlier block. */
static int32_t earlier(const shortener *s, int32_t op, int32_t n_blocks) {
    return op - n_blocks * s->blocks.period;
}

/* The output of the nest at the same place of an operator of an earlier block. */
static int32_t earlier_output(const shortener *s, int32_t nest, int32_t n_blocks) {
    int32_t op = s->model->nests[nest].op;
    int32_t k = cleave_operator_find_nest(&s->model->operators[op], nest);
    const cleave_operator *before = &s->model->operators[earlier(s, op, n_blocks)];
    return s->model->nests[before->nests[k]].output.tensor;
}

static cleave_status not_so(const shortener *s, int32_t op) {
    return cleave_fail(s->error, CLEAVE_NO_LAYOUT, "%s reads otherwise than in the block before it",
                       s->model->operators[op].name);
}

/* Does a tensor that is read in a block correspond to what is read in the same place of the block
   before: written one block earlier, or the same, or as good as the same? */
static bool corresponds(const shortener *s, int32_t later, int32_t before) {
    const cleave_tensor *x = &s->model->tensors[later], *y = &s->model->tensors[before];
    if (later == before)
        return true;
    if (x->kind != y->kind || x->view.kind != y->view.kind ||
        x->view.n_sources != y->view.n_sources || x->rank != y->rank ||
        memcmp(x->shape, y->shape, (size_t)x->rank * sizeof *x->shape) != 0)
        return false;
    if (x->view.kind != CLEAVE_VIEW_NONE) {
        for (int32_t i = 0; i < x->view.n_sources; i++)
            if (!corresponds(s, x->view.sources[i], y->view.sources[i]))
                return false;
        return true;
    }
    int32_t writer = s->model->writer[later];
    if (writer < 0)
        return s->model->writer[before] < 0;
    return block_of(s, s->model->nests[writer].op) >= 1 && earlier_output(s, writer, 1) == before;
}

static cleave_status check_connections(const shortener *s) {
    int32_t begin = s->blocks.first + s->keep * s->blocks.period;
    int32_t end = s->blocks.first + s->blocks.n * s->blocks.period;
    for (int32_t op = begin; op < end; op++) {
        const cleave_operator *of = &s->model->operators[op];
        const cleave_operator *before = &s->model->operators[earlier(s, op, 1)];
        for (int32_t k = 0; k < of->n_nests; k++) {
            const cleave_nest *x = &s->model->nests[of->nests[k]];
            const cleave_nest *y = &s->model->nests[before->nests[k]];
            for (int i = 0; i < x->n_inputs; i++)
                if (!corresponds(s, x->inputs[i].tensor, y->inputs[i].tensor))
                    return not_so(s, op);
        }
    }
    return CLEAVE_OK;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* The tensor that takes this one's place. */
static int32_t substitute(const shortener *s, int32_t tensor) {
    int32_t writer = s->model->writer[tensor];
    if (writer < 0 || is_kept(s, s->model->nests[writer].op))
        return tensor;
    return earlier_output(s, writer, s->blocks.n - s->keep);
}

static cleave_status need(shortener *s, int32_t tensor) {
    const cleave_tensor *of = &s->model->tensors[tensor];
    int32_t writer = s->model->writer[tensor];
    if (s->needed[tensor])
        return CLEAVE_OK;
    if (writer >= 0 && !is_kept(s, s->model->nests[writer].op)) {
        if (block_of(s, s->model->nests[writer].op) < s->blocks.n - 1)
            return cleave_fail(s->error, CLEAVE_NO_LAYOUT,
                               "%s is read beyond the block that follows", of->name);
        s->needed[substitute(s, tensor)] = true;
        return CLEAVE_OK;
    }
    s->needed[tensor] = true;
    for (int32_t i = 0; of->view.kind != CLEAVE_VIEW_NONE && i < of->view.n_sources; i++)
        CLEAVE_TRY(need(s, of->view.sources[i]));
    return CLEAVE_OK;
}

/* Does an assignment of running statistics belong to what remains? */
static bool keeps_assignment(const shortener *s, const cleave_assignment *assignment) {
    int32_t writer = cleave_tensor_writer(s->model, assignment->source);
    return writer < 0 || is_kept(s, s->model->nests[writer].op);
}

static cleave_status find_needed(shortener *s) {
    const cleave_model *model = s->model;
    for (int32_t n = 0; n < model->n_nests; n++) {
        const cleave_nest *nest = &model->nests[n];
        if (!is_kept(s, nest->op))
            continue;
        for (int i = 0; i < nest->n_inputs; i++)
            CLEAVE_TRY(need(s, nest->inputs[i].tensor));
        CLEAVE_TRY(need(s, nest->output.tensor));
        CLEAVE_TRY(need(s, cleave_nest_combined(nest)->tensor));
    }
    for (int32_t o = 0; o < model->n_outputs; o++)
        CLEAVE_TRY(need(s, model->outputs[o]));
    for (int32_t a = 0; a < model->n_assignments; a++) {
        if (!keeps_assignment(s, &model->assignments[a]))
            continue;
        CLEAVE_TRY(need(s, model->assignments[a].target));
        CLEAVE_TRY(need(s, model->assignments[a].source));
    }
    return CLEAVE_OK;
}

static int32_t new_tensor(const shortener *s, int32_t tensor) {
    return tensor < 0 ? -1 : s->tensor[substitute(s, tensor)];
}

static cleave_status copy_tensors(shortener *s) {
    const cleave_model *model = s->model;
    int32_t n = 0;
    for (int32_t t = 0; t < model->n_tensors; t++)
        s->tensor[t] = s->needed[t] ? n++ : -1;
    s->made->n_tensors = n;
    s->made->tensors = CLEAVE_ARENA_ARRAY(s->arena, cleave_tensor, n);
    if (s->made->tensors == NULL)
        return cleave_fail_memory(s->error, "shortening a model");
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (!s->needed[t])
            continue;
        cleave_tensor *of = &s->made->tensors[s->tensor[t]];
        *of = model->tensors[t];
        if (of->view.n_sources == 0)
            continue;
        int32_t *sources = CLEAVE_ARENA_ARRAY(s->arena, int32_t, of->view.n_sources);
        if (sources == NULL)
            return cleave_fail_memory(s->error, "shortening a model");
        for (int32_t i = 0; i < of->view.n_sources; i++)
            sources[i] = new_tensor(s, of->view.sources[i]);
        of->view.sources = sources;
    }
    return CLEAVE_OK;
}

/* ---- operators and nests --------------------------------------------------------------------- */

static void number_operators(shortener *s, int32_t *stands_for) {
    const cleave_model *model = s->model;
    int32_t n_operators = 0, n_nests = 0;
    for (int32_t op = 0; op < model->n_operators; op++)
        s->operator[op] = is_kept(s, op) ? n_operators++ : -1;
    for (int32_t n = 0; n < model->n_nests; n++)
        s->nest[n] = is_kept(s, model->nests[n].op) ? n_nests++ : -1;
    for (int32_t op = 0; op < model->n_operators; op++)
        stands_for[op] =
            s->operator[is_kept(s, op) ? op : earlier(s, op, block_of(s, op) - (s->keep - 1))];
    s->made->n_operators = n_operators;
    s->made->n_nests = n_nests;
}

static cleave_status copy_operators(shortener *s) {
    s->made->operators = CLEAVE_ARENA_ARRAY(s->arena, cleave_operator, s->made->n_operators);
    if (s->made->operators == NULL)
        return cleave_fail_memory(s->error, "shortening a model");
    for (int32_t op = 0; op < s->model->n_operators; op++) {
        if (s->operator[op]<0)
            continue;
        cleave_operator *of = &s->made->operators[s->operator[op]];
        *of = s->model->operators[op];
        int32_t *nests = CLEAVE_ARENA_ARRAY(s->arena, int32_t, of->n_nests);
        if (nests == NULL)
            return cleave_fail_memory(s->error, "shortening a model");
        for (int32_t k = 0; k < of->n_nests; k++)
            nests[k] = s->nest[of->nests[k]];
        of->nests = nests;
        of->main_nest = s->nest[of->main_nest];
    }
    return CLEAVE_OK;
}

static cleave_status copy_nests(shortener *s) {
    s->made->nests = CLEAVE_ARENA_ARRAY(s->arena, cleave_nest, s->made->n_nests);
    if (s->made->nests == NULL)
        return cleave_fail_memory(s->error, "shortening a model");
    for (int32_t n = 0; n < s->model->n_nests; n++) {
        if (s->nest[n] < 0)
            continue;
        cleave_nest *of = &s->made->nests[s->nest[n]];
        *of = s->model->nests[n];
        of->op = s->operator[of->op];
        if (of->derivation == CLEAVE_DERIVE_OWNERS)
            of->owners_of = s->nest[of->owners_of];
        for (int i = 0; i < of->n_inputs; i++)
            of->inputs[i].tensor = new_tensor(s, of->inputs[i].tensor);
        of->output.tensor = new_tensor(s, of->output.tensor);
        if (of->attention != NULL)
            of->statistics.tensor = new_tensor(s, of->statistics.tensor);
    }
    return CLEAVE_OK;
}

static cleave_status copy_rest(shortener *s) {
    const cleave_model *model = s->model;
    s->made->outputs = CLEAVE_ARENA_ARRAY(s->arena, int32_t, model->n_outputs);
    s->made->assignments = CLEAVE_ARENA_ARRAY(s->arena, cleave_assignment, model->n_assignments);
    if (s->made->outputs == NULL || s->made->assignments == NULL)
        return cleave_fail_memory(s->error, "shortening a model");
    for (int32_t o = 0; o < model->n_outputs; o++)
        s->made->outputs[o] = new_tensor(s, model->outputs[o]);
    s->made->n_assignments = 0;
    for (int32_t a = 0; a < model->n_assignments; a++)
        if (keeps_assignment(s, &model->assignments[a]))
            s->made->assignments[s->made->n_assignments++] =
                (cleave_assignment){.target = new_tensor(s, model->assignments[a].target),
                                    .source = new_tensor(s, model->assignments[a].source)};
    s->made->loss = new_tensor(s, model->loss);
    s->made->targets = model->targets < 0 ? -1 : s->tensor[model->targets];
    return CLEAVE_OK;
}

cleave_status cleave_blocks_shorten(const cleave_model *model, const cleave_blocks *blocks,
                                    int32_t keep, cleave_arena *arena, cleave_model *shorter,
                                    int32_t *stands_for, cleave_error *error) {
    cleave_model made = *model;
    made.arena = arena;
    made.squares = 0;
    shortener s = {.model = model,
                   .blocks = *blocks,
                   .keep = keep,
                   .arena = arena,
                   .error = error,
                   .made = &made,
                   .operator= CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators),
                   .nest = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_nests),
                   .tensor = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors),
                   .needed = CLEAVE_ARENA_ARRAY(arena, bool, model->n_tensors)};
    if (s.operator== NULL || s.nest == NULL || s.tensor == NULL || s.needed == NULL)
        return cleave_fail_memory(error, "shortening a model");
    CLEAVE_TRY(check_connections(&s));
    CLEAVE_TRY(find_needed(&s));
    number_operators(&s, stands_for);
    CLEAVE_TRY(copy_tensors(&s));
    CLEAVE_TRY(copy_operators(&s));
    CLEAVE_TRY(copy_nests(&s));
    CLEAVE_TRY(copy_rest(&s));
    CLEAVE_TRY(cleave_model_finish(&made, error));
    if (model->squares > 0)
        CLEAVE_TRY(cleave_model_clip(&made, error));
    *shorter = made;
    return CLEAVE_OK;
}
