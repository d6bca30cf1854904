#include "search/pipeline/stages.h"
#include "graph/model/precision.h"

#include <ctype.h>
#include <stdlib.h>
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

/* ---- cuts ------------------------------------------------------------------------------------ */

typedef struct cutting {
    int32_t n;
    const int64_t *work, *sends;
    int64_t *before; /* [n_stages + 1][n + 1] the slowest of so many stages, up to an operator */
    int32_t *from;   /* [n_stages + 1][n + 1] with which the last of them begins */
} cutting;

/* The best last stage of `s` that end before an operator.  A stage that begins earlier has more to
   do, so beyond what is known to be possible nothing is looked at. */
static void cut_before(const cutting *c, int32_t s, int32_t end) {
    size_t row = (size_t)c->n + 1;
    int64_t *best = &c->before[(size_t)s * row + (size_t)end];
    int64_t sum = end < c->n ? c->sends[end - 1] : 0;
    *best = INT64_MAX;
    for (int32_t first = end - 1; first >= s - 1; first--) {
        sum += c->work[first];
        if (sum >= *best)
            break;
        int64_t others = c->before[(size_t)(s - 1) * row + (size_t)first];
        int64_t slowest = others > sum ? others : sum;
        if (slowest < *best) {
            *best = slowest;
            c->from[(size_t)s * row + (size_t)end] = first;
        }
    }
}

cleave_status cleave_stages_cut(int32_t n_operators, const int64_t *work, const int64_t *sends,
                                int32_t n_stages, int32_t *first_operator, cleave_error *error) {
    size_t row = (size_t)n_operators + 1, size = row * ((size_t)n_stages + 1);
    cutting c = {.n = n_operators,
                 .work = work,
                 .sends = sends,
                 .before = malloc(size * sizeof *c.before),
                 .from = calloc(size, sizeof *c.from)};
    bool ready = c.before != NULL && c.from != NULL;
    for (size_t i = 0; i < row && ready; i++)
        c.before[i] = i == 0 ? 0 : INT64_MAX;
    for (int32_t s = 1; s <= n_stages && ready; s++) {
        c.before[(size_t)s * row] = INT64_MAX;
        for (int32_t end = 1; end <= n_operators; end++)
            cut_before(&c, s, end);
    }
    for (int32_t s = n_stages, end = n_operators; s > 0 && ready; s--)
        first_operator[s - 1] = end = c.from[(size_t)s * row + (size_t)end];
    free(c.before);
    free(c.from);
    return ready ? CLEAVE_OK : cleave_fail_memory(error, "cutting a model into stages");
}

/* ---- stages that are given ------------------------------------------------------------------- */

/* -1: its name has no number. */
static int64_t layer_of(const char *name) {
    for (const char *word = name; word != NULL;) {
        char *end;
        long layer = isdigit((unsigned char)*word) ? strtol(word, &end, 10) : -1;
        if (layer >= 0 && (*end == '.' || *end == '/' || *end == '\0'))
            return layer;
        word = strpbrk(word, "./");
        word = word != NULL ? word + 1 : NULL;
    }
    return -1;
}

void cleave_stages_count_layers(const cleave_model *model, const cleave_schedule *schedule,
                                int32_t *layers) {
    memset(layers, 0, (size_t)schedule->n_stages * sizeof *layers);
    for (int32_t op = 0, first = 0; op < model->n_operators; op++) {
        int64_t layer = layer_of(model->operators[op].name);
        bool ends =
            op + 1 == model->n_operators || layer_of(model->operators[op + 1].name) != layer;
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
        int64_t layer = layer_of(model->operators[op].name);
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
        while (op < behind && layer_of(model->operators[op].name) < end)
            op++;
        if (op == first_operator[s] || op == model->n_operators)
            return cleave_fail(error, CLEAVE_BAD_INPUT, "a stage of %d layers has no operators",
                               op == model->n_operators ? layers[s + 1] : layers[s]);
        first_operator[s + 1] = op;
    }
    return CLEAVE_OK;
}
