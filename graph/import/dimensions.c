/* Symbolic dimensions of the graph's inputs: one of them is the batch, of the others it has to be
   said how long they are.

   Exporters leave open whatever may change when a model is used, such as the sides of pictures or
   the length of texts.  A plan is one of given lengths. */
#include "graph/import/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MOST_LENGTH (INT64_C(1) << 40)

static bool is_symbolic(const cleave_value *value, int d) {
    return value->input->symbols[d] != NULL;
}

bool cleave_import_is_open(const cleave_value *value) {
    for (int d = 0; d < value->input->rank; d++)
        if (is_symbolic(value, d))
            return true;
    return value->has_given_dimension;
}

/* ---- what is given --------------------------------------------------------------------------- */

static void give(cleave_importer *im, cleave_value *value, int d, int64_t length) {
    cleave_onnx_value *input = &im->graph.inputs[value->input - im->graph.inputs];
    input->symbols[d] = NULL;
    input->shape[d] = length;
    value->has_given_dimension = true;
}

/* All symbolic dimensions of that name; returns how many there are. */
static int give_by_symbol(cleave_importer *im, const char *symbol, int64_t length) {
    int n = 0;
    for (int32_t i = 0; i < im->values.n; i++) {
        cleave_value *value = &im->values.items[i];
        for (int d = 0; value->input != NULL && d < value->input->rank; d++)
            if (is_symbolic(value, d) && strcmp(value->input->symbols[d], symbol) == 0) {
                give(im, value, d, length);
                n++;
            }
    }
    return n;
}

static cleave_status refuse_name(cleave_importer *im, const char *name) {
    return cleave_import_fail(im,
                              "--dimensions: \"%.200s\" is no symbolic dimension of the graph's "
                              "inputs, nor a dimension INPUT:K of one that is",
                              name);
}

/* "INPUT:K": dimension K of an input, of which the file need not have a name. */
static cleave_status give_by_place(cleave_importer *im, char *name, int64_t length) {
    char *colon = strrchr(name, ':'), *end;
    if (colon == NULL || colon[1] < '0' || colon[1] > '9')
        return refuse_name(im, name);
    long d = strtol(colon + 1, &end, 10);
    *colon = '\0';
    int32_t id = cleave_name_map_find(&im->names, name);
    cleave_value *value = id >= 0 ? &im->values.items[id] : NULL;
    bool is_there = *end == '\0' && value != NULL && value->input != NULL && d < value->input->rank;
    if (is_there && !is_symbolic(value, (int)d))
        return cleave_import_fail(im, "--dimensions: dimension %ld of %.200s is %lld already", d,
                                  name, (long long)value->input->shape[d]);
    *colon = ':';
    if (!is_there)
        return refuse_name(im, name);
    give(im, value, (int)d, length);
    return CLEAVE_OK;
}

/* One NAME=N, which is written to. */
static cleave_status give_one(cleave_importer *im, char *given) {
    char *equals = strrchr(given, '='), *end = given;
    errno = 0;
    long long length =
        equals != NULL && equals[1] >= '0' && equals[1] <= '9' ? strtoll(equals + 1, &end, 10) : 0;
    if (length < 1 || length > MOST_LENGTH || errno != 0 || *end != '\0')
        return cleave_import_fail(
            im, "--dimensions takes NAME=N,... with lengths of 1 and more, not \"%.200s\"", given);
    *equals = '\0';
    return give_by_symbol(im, given, length) > 0 ? CLEAVE_OK : give_by_place(im, given, length);
}

cleave_status cleave_import_give_dimensions(cleave_importer *im) {
    for (const char *at = im->dimensions; at != NULL;) {
        size_t n = strcspn(at, ",");
        char *given = CLEAVE_ARENA_ARRAY(&im->scratch, char, n + 1);
        if (given == NULL)
            return cleave_import_no_memory(im);
        memcpy(given, at, n);
        CLEAVE_TRY(give_one(im, given));
        at = at[n] == ',' ? at + n + 1 : NULL;
    }
    return CLEAVE_OK;
}

/* ---- the batch ------------------------------------------------------------------------------- */

/* Has dimension d another symbol than the batch?  So has a second one of an input whose outermost
   is the batch: some exporters write "?" everywhere. */
static bool is_unknown(const cleave_value *value, int d, const char *batch) {
    const char *const *symbols = value->input->symbols;
    return symbols[d] != NULL &&
           (strcmp(symbols[d], batch) != 0 || (d > 0 && (batch[0] == '\0' || symbols[0] != NULL)));
}

/* What --dimensions would have to say besides, as it is typed; null: out of memory. */
static const char *list_unknown(cleave_importer *im, const char *batch) {
    const char *list = "";
    cleave_name_map listed = {.arena = &im->scratch};
    for (int32_t i = 0; i < im->values.n && list != NULL; i++) {
        const cleave_value *value = &im->values.items[i];
        for (int d = 0; value->input != NULL && value->n_uses > 0 && d < value->input->rank; d++) {
            const char *symbol = value->input->symbols[d];
            if (!is_unknown(value, d, batch) || list == NULL)
                continue;
            const char *entry = symbol[0] != '\0' && strcmp(symbol, batch) != 0
                                    ? cleave_arena_printf(&im->scratch, "%s=N", symbol)
                                    : cleave_arena_printf(&im->scratch, "%s:%d=N", value->name, d);
            if (entry == NULL)
                return NULL;
            if (cleave_name_map_find(&listed, entry) >= 0)
                continue;
            list = !cleave_name_map_set(&listed, entry, 0)
                       ? NULL
                       : cleave_arena_printf(&im->scratch, "%s%s%s", list,
                                             list[0] != '\0' ? "," : "", entry);
        }
    }
    return list;
}

/* The symbol of the batch, by the first input whose outermost dimension has one; null: none. */
static const char *find_batch(const cleave_importer *im) {
    for (int32_t i = 0; i < im->values.n; i++) {
        const cleave_value *value = &im->values.items[i];
        if (value->input != NULL && value->n_uses > 0 && value->input->rank > 0 &&
            is_symbolic(value, 0))
            return value->input->symbols[0];
    }
    return NULL;
}

static cleave_status refuse_unknown(cleave_importer *im, const cleave_value *value, int d,
                                    const char *batch) {
    const char *list = list_unknown(im, batch), *symbol = value->input->symbols[d];
    if (list == NULL)
        return cleave_import_no_memory(im);
    return cleave_import_fail(
        im, "dimension %d of graph input %s is symbolic (%s): say how long it is (--dimensions %s)",
        d, value->name, symbol[0] != '\0' ? symbol : "not said", list);
}

cleave_status cleave_import_check_batch(cleave_importer *im) {
    const char *symbol = find_batch(im), *batch = symbol != NULL ? symbol : "";
    for (int32_t i = 0; i < im->values.n; i++) {
        const cleave_value *value = &im->values.items[i];
        for (int d = 0; value->input != NULL && value->n_uses > 0 && d < value->input->rank; d++)
            if (is_unknown(value, d, batch))
                return refuse_unknown(im, value, d, batch);
    }
    im->has_batch = symbol != NULL;
    if (im->batch < 0 || im->batch > MOST_LENGTH)
        return cleave_import_fail(im, "a batch of %lld is not possible", (long long)im->batch);
    if (im->has_batch && im->batch == 0)
        return cleave_import_fail(
            im, "the batch dimension (%s) is symbolic: a batch size is needed (--batch N)",
            symbol[0] != '\0' ? symbol : "not said");
    return CLEAVE_OK;
}

cleave_status cleave_import_check_fixed_batch(cleave_importer *im) {
    const cleave_tensor *other = NULL;
    im->node = NULL;
    for (int32_t i = 0; !im->has_batch && im->batch > 0 && i < im->tensors.n; i++) {
        const cleave_tensor *tensor = &im->tensors.items[i].tensor;
        if (tensor->kind != CLEAVE_TENSOR_DATA || tensor->rank == 0)
            continue;
        if (tensor->shape[0] == im->batch)
            return CLEAVE_OK;
        other = other != NULL ? other : tensor;
    }
    return other == NULL
               ? CLEAVE_OK
               : cleave_import_fail(im,
                                    "%s has a fixed batch of %lld, not %lld: export the "
                                    "model with dimension 0 open for another one",
                                    other->name, (long long)other->shape[0], (long long)im->batch);
}
