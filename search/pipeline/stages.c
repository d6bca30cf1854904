#include "search/pipeline/stages.h"
#include "graph/model/layer_name.h"
#include "graph/model/precision.h"

#include <math.h>
#include <string.h>

/* ---- what goes from stage to stage ----------------------------------------------------------- */

cleave_status cleave_stage_bytes(const cleave_model *model, cleave_arena *arena, int64_t **bytes,
                                 cleave_error *error) {
    int64_t *found = CLEAVE_ARENA_ARRAY(arena, int64_t, model->n_operators);
    int32_t *last = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    if (found == NULL || last == NULL)
        return cleave_fail_memory(error, "cutting a model into stages");
    cleave_model_last_readers(model, last);
    for (int32_t t = 0; t < model->n_tensors; t++) {
        if (model->writer[t] < 0)
            continue;
        int64_t size =
            cleave_tensor_size(&model->tensors[t]) * cleave_stored_bytes(&model->tensors[t]);
        for (int32_t op = model->nests[model->writer[t]].op; op < last[t]; op++)
            found[op] += size;
    }
    *bytes = found;
    return CLEAVE_OK;
}

/* 1 + the first operator that reads what has a gradient and is no parameter. */
static void note_reader(const cleave_model *model, int32_t tensor, int32_t op, int32_t *first) {
    const cleave_tensor *of = &model->tensors[tensor];
    for (int32_t s = 0; s < of->view.n_sources; s++)
        note_reader(model, of->view.sources[s], op, first);
    if (model->writer[tensor] >= 0 && of->needs_gradient && first[tensor] == 0)
        first[tensor] = 1 + op;
}

cleave_status cleave_stage_joined(const cleave_model *model, cleave_arena *arena, int32_t **joined,
                                  cleave_error *error) {
    int32_t *last = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    int32_t *first = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    int32_t *found = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_operators);
    if (last == NULL || first == NULL || found == NULL)
        return cleave_fail_memory(error, "cutting a model into stages");
    cleave_model_last_readers(model, last);
    for (int32_t n = 0; n < model->n_nests; n++)
        for (int i = 0; i < model->nests[n].n_inputs; i++)
            note_reader(model, model->nests[n].inputs[i].tensor, model->nests[n].op, first);
    for (int32_t op = 0; op < model->n_operators; op++)
        found[op] = op + 1;
    for (int32_t t = 0; t < model->n_tensors; t++)
        for (int32_t op = first[t] - 1; op >= 0 && op < last[t]; op++)
            found[op] = first[t] - 1 < found[op] ? first[t] - 1 : found[op];
    *joined = found;
    return CLEAVE_OK;
}

/* ---- cuts ------------------------------------------------------------------------------------ */

typedef struct cutting {
    int32_t n, n_stages;
    const cleave_stage_work *of;
    int32_t n_rows;
    int64_t *sum; /* [n_rows][n + 1] work of all operators before one */
    bool evens;   /* what is least: the sum of the squares of stages, and not the slowest */
    double *before, *next; /* [n + 1] that of so many stages, and of one more, up to an operator */
    int32_t *from;         /* [n_stages + 1][n + 1] with which the last of them begins */
    int32_t *lo, *hi;      /* [n_stages + 1] where so many stages may end */
} cutting;

/* Of the s-th stage, the first being 1. */
static int32_t row_of(const cutting *c, int32_t s) {
    return c->of->row_of == NULL ? 0 : c->of->row_of[s - 1];
}

static const int64_t *sums_of(const cutting *c, int32_t s) {
    return c->sum + (size_t)row_of(c, s) * ((size_t)c->n + 1);
}

static const int64_t *sends_of(const cutting *c, int32_t s) {
    int32_t row = c->of->send_row_of == NULL ? 0 : c->of->send_row_of[s - 1];
    return c->of->sends + (size_t)row * (size_t)c->n;
}

/* Where a stage ends at most that takes no more than so much. */
static int32_t farthest(const cutting *c, int32_t s, int32_t first, int64_t most) {
    const int64_t *sum = sums_of(c, s), *sends = sends_of(c, s);
    int32_t end = first, beyond = c->n + 1;
    while (beyond - end > 1) {
        int32_t middle = end + (beyond - end) / 2;
        if (sum[middle] - sum[first] <= most)
            end = middle;
        else
            beyond = middle;
    }
    while (end > first && end < c->n && sum[end] - sum[first] > most - sends[end - 1])
        end--;
    return end;
}

/* Where so many stages end at most that take no more than so much each; false: not at the end. */
static bool find_last_ends(cutting *c, int64_t most) {
    c->hi[0] = 0;
    for (int32_t s = 1; s <= c->n_stages; s++)
        c->hi[s] = farthest(c, s, c->hi[s - 1], most);
    return c->hi[c->n_stages] == c->n;
}

/* Nor do they end before what the others have to leave, were nothing sent. */
static void find_first_ends(cutting *c, int64_t most) {
    int32_t first = c->n;
    c->lo[c->n_stages] = c->n;
    for (int32_t s = c->n_stages - 1; s >= 0; s--) {
        const int64_t *sum = sums_of(c, s + 1);
        while (first > 0 && sum[c->lo[s + 1]] - sum[first - 1] <= most)
            first--;
        c->lo[s] = first > s ? first : s;
    }
}

/* The least that so many stages or fewer can take. */
static int64_t least_slowest(cutting *c) {
    int64_t most = 0, least = -1;
    for (int32_t r = 0; r < c->n_rows; r++) {
        int64_t all = c->sum[(size_t)r * ((size_t)c->n + 1) + (size_t)c->n];
        most = all > most ? all : most;
    }
    while (most - least > 1) {
        int64_t middle = least + (most - least) / 2;
        if (find_last_ends(c, middle))
            most = middle;
        else
            least = middle;
    }
    return most;
}

/* The best last stage of `s` that end before an operator.  A stage that begins earlier has more to
   do, so beyond what is known to be possible nothing is looked at. */
static void cut_before(const cutting *c, int32_t s, int32_t end, int64_t most) {
    const int64_t *sum = sums_of(c, s);
    int64_t sent = end < c->n ? sends_of(c, s)[end - 1] : 0;
    int32_t last = c->hi[s - 1] < end ? c->hi[s - 1] : end - 1;
    double best = (double)INFINITY;
    for (int32_t first = last; first >= c->lo[s - 1]; first--) {
        int64_t takes = sum[end] - sum[first] + sent;
        double own = c->evens ? (double)takes * (double)takes : (double)takes;
        if (own >= best || takes > most)
            break;
        double others = c->before[first];
        double all = c->evens ? others + own : others > own ? others : own;
        if (all < best) {
            best = all;
            c->from[(size_t)s * ((size_t)c->n + 1) + (size_t)end] = first;
        }
    }
    c->next[end] = best;
}

/* Stages that take no more than so much; false: there are none. */
static bool cut_within(cutting *c, int64_t most, bool evens) {
    c->evens = evens;
    if (!find_last_ends(c, most))
        return false;
    find_first_ends(c, most);
    c->before[0] = 0;
    for (int32_t s = 1; s <= c->n_stages; s++) {
        for (int32_t end = c->lo[s]; end <= c->hi[s]; end++)
            cut_before(c, s, end, most);
        double *swapped = c->before;
        c->before = c->next;
        c->next = swapped;
    }
    return c->before[c->n] < (double)INFINITY;
}

/* Of what takes more than the quickest cut nothing is looked at.  Fewer stages than there are may
   take less, where what is sent costs much: then of nothing but what is more than all of it.  Of
   cuts whose slowest stage is as quick the most even one leaves groups of several stages, and what
   is kept in each, even, too. */
static void cut_all(cutting *c, int32_t *first_operator) {
    int64_t all = 0, most = 0;
    for (int32_t r = 0; r < c->n_rows; r++) {
        const int64_t *work = c->of->work + (size_t)r * (size_t)c->n;
        int64_t *sum = c->sum + (size_t)r * ((size_t)c->n + 1);
        for (int32_t op = 0; op < c->n; op++)
            sum[op + 1] = sum[op] + work[op];
        most = sum[c->n] > most ? sum[c->n] : most;
    }
    for (int32_t s = 1; s <= c->n_stages; s++)
        for (int32_t op = 0; op < c->n && (s == 1 || c->of->send_row_of != NULL); op++)
            all = sends_of(c, s)[op] > all ? sends_of(c, s)[op] : all;
    int64_t least = least_slowest(c);
    if (!cut_within(c, least, true)) {
        if (!cut_within(c, least + least / 1024, false))
            cut_within(c, all + most, false);
        cut_within(c, (int64_t)nextafter(c->before[c->n], INFINITY), true); /* it was rounded */
    }
    for (int32_t s = c->n_stages, end = c->n; s > 0; s--)
        first_operator[s - 1] = end = c->from[(size_t)s * ((size_t)c->n + 1) + (size_t)end];
}

cleave_status cleave_stages_cut(int32_t n_operators, const cleave_stage_work *of, int32_t n_stages,
                                int32_t *first_operator, cleave_error *error) {
    cleave_arena scratch = {0};
    size_t row = (size_t)n_operators + 1, rows = (size_t)n_stages + 1;
    int32_t last = 0;
    for (int32_t s = 0; s < n_stages && of->row_of != NULL; s++)
        last = of->row_of[s] > last ? of->row_of[s] : last;
    cutting c = {.n = n_operators,
                 .n_stages = n_stages,
                 .of = of,
                 .n_rows = last + 1,
                 .sum = cleave_arena_alloc(&scratch, (size_t)last + 1, row * sizeof *c.sum),
                 .before = CLEAVE_ARENA_ARRAY(&scratch, double, row),
                 .next = CLEAVE_ARENA_ARRAY(&scratch, double, row),
                 .from = cleave_arena_alloc(&scratch, rows, row * sizeof *c.from),
                 .lo = CLEAVE_ARENA_ARRAY(&scratch, int32_t, rows),
                 .hi = CLEAVE_ARENA_ARRAY(&scratch, int32_t, rows)};
    bool ready = c.sum != NULL && c.before != NULL && c.next != NULL && c.from != NULL &&
                 c.lo != NULL && c.hi != NULL;
    if (ready)
        cut_all(&c, first_operator);
    cleave_arena_free(&scratch);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "cutting a model into stages");
}

/* ---- within memory --------------------------------------------------------------------------- */

/* Has a stage room for these operators in some way that takes no longer?  `ends`: with what it
   sends. */
static bool has_way(const cleave_stage_ways *of, int32_t n, int32_t first, int32_t end, bool ends,
                    double most) {
    double sends = ends && end > first && end < n ? (double)of->sends[end - 1] : 0,
           sent = first > 0 ? (double)of->sent[first - 1] : 0;
    for (int32_t w = 0; w < of->n_ways; w++) {
        size_t row = (size_t)w * ((size_t)n + 1);
        const double *stays = of->stays + row, *kept = of->kept + row;
        double time = of->time[row + (size_t)end] - of->time[row + (size_t)first];
        double all = time + cleave_stage_waits(time, sends, of->hides) +
                     cleave_stage_waits(time, sent, of->hides_sent);
        if (all <= most &&
            stays[end] - stays[first] + (kept[end] - kept[first]) * of->in_flight <= of->most_bytes)
            return true;
    }
    return false;
}

/* As far as a stage comes in so much time, and no farther than leaves each of `behind` others an
   operator; or the first operator. */
static int32_t farthest_in_room(const cleave_stage_ways *of, int32_t n, int32_t first,
                                int32_t behind, double most) {
    int32_t end = first, beyond = n - behind + 1;
    while (beyond - end > 1) {
        int32_t middle = end + (beyond - end) / 2;
        if (has_way(of, n, first, middle, false, most))
            end = middle;
        else
            beyond = middle;
    }
    while (end > first && !has_way(of, n, first, end, true, most))
        end--;
    return end;
}

static bool reach_end(int32_t n, const cleave_stage_ways *of, int32_t n_stages, double most,
                      int32_t *first_operator) {
    int32_t end = 0;
    for (int32_t s = 0; s < n_stages; s++) {
        first_operator[s] = end;
        end = farthest_in_room(&of[s], n, end, n_stages - 1 - s, most);
        if (end == first_operator[s])
            return false;
    }
    return end == n;
}

bool cleave_stages_cut_in_room(int32_t n_operators, const cleave_stage_ways *of, int32_t n_stages,
                               int32_t *first_operator) {
    double least = 0, most = 0;
    for (int32_t s = 0; s < n_stages; s++)
        for (int32_t w = 0; w < of[s].n_ways; w++) {
            double all = of[s].time[(size_t)w * ((size_t)n_operators + 1) + (size_t)n_operators];
            most = all > most ? all : most;
        }
    for (int32_t op = 0; op < n_operators; op++)
        for (int32_t s = 0; s + 1 < n_stages; s++)
            least = (double)of[s].sends[op] > least ? (double)of[s].sends[op] : least;
    most += 2 * least;
    least = 0;
    if (!reach_end(n_operators, of, n_stages, most, first_operator))
        return false;
    while (most - least > most / 256) {
        double middle = least + (most - least) / 2;
        if (reach_end(n_operators, of, n_stages, middle, first_operator))
            most = middle;
        else
            least = middle;
    }
    return reach_end(n_operators, of, n_stages, most, first_operator);
}

/* ---- stages that are given ------------------------------------------------------------------- */

void cleave_stages_count_layers(const cleave_model *model, const cleave_schedule *schedule,
                                int32_t *layers) {
    memset(layers, 0, (size_t)schedule->n_stages * sizeof *layers);
    for (int32_t op = 0, first = 0; op < model->n_operators; op++) {
        int64_t layer = cleave_layer_of(model->operators[op].name, NULL);
        bool ends = op + 1 == model->n_operators ||
                    cleave_layer_of(model->operators[op + 1].name, NULL) != layer;
        if (ends && layer >= 0)
            layers[cleave_schedule_stage_of(schedule, (first + op) / 2)]++;
        first = ends ? op + 1 : first;
    }
}

cleave_status cleave_stages_of_layers(const cleave_model *model, const int32_t *layers,
                                      int32_t n_stages, int32_t *first_operator,
                                      cleave_error *error) {
    int64_t n_layers = 0, most = 0, end = 0;
    int32_t behind = 0; /* the last layer */
    for (int32_t op = 0; op < model->n_operators; op++) {
        int64_t layer = cleave_layer_of(model->operators[op].name, NULL);
        behind = layer >= 0 ? op + 1 : behind;
        n_layers = layer >= n_layers ? layer + 1 : n_layers;
    }
    for (int32_t s = 0; s < n_stages; s++)
        most += layers[s];
    if (most != n_layers)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "stages of %lld layers together, and the model has %lld",
                           (long long)most, (long long)n_layers);
    first_operator[0] = 0;
    for (int32_t s = 0, op = 0; s + 1 < n_stages; s++) {
        end += layers[s];
        while (op < behind && cleave_layer_of(model->operators[op].name, NULL) < end)
            op++;
        if (op == first_operator[s] || op == model->n_operators)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "a stage of %d layers has no operators",
                               op == model->n_operators ? layers[s + 1] : layers[s]);
        first_operator[s + 1] = op;
    }
    return CLEAVE_OK;
}
