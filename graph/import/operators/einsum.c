/* Einsum: any product of operands, summed over what the output lacks.

   Every label of the equation is an axis of the nest, so transpositions, diagonals (a label twice
   in one operand), sums, outer products and contractions are the same thing.  Dimensions of an
   ellipsis are labels too, aligned at the last one. */
#include "graph/import/draft_views.h"

#include <ctype.h>
#include <string.h>

/* Labels: letters are themselves; dimension i of the ellipsis is ELLIPSIS + i. */
enum { ELLIPSIS = 128, N_LABELS = ELLIPSIS + CLEAVE_MAX_RANK, MOST_OPERANDS = 3 };

typedef struct term {
    int n, ellipsis; /* ellipsis: label before which it stands, or -1 */
    int labels[CLEAVE_MAX_RANK];
} term;

typedef struct einsum {
    int n_operands, n_ellipsis, n_labels;
    term operands[MOST_OPERANDS], output;
    int32_t tensors[MOST_OPERANDS];
    int order[CLEAVE_MAX_AXES]; /* labels, those of the output first */
    int64_t extent[N_LABELS];   /* 0: not in the equation */
} einsum;

/* ---- the equation ---------------------------------------------------------------------------- */

/* One term, up to a comma, an arrow or the end. */
static cleave_status read_term(cleave_importer *im, const char **at, term *t) {
    *t = (term){.ellipsis = -1};
    for (const char *c = *at;; c++) {
        *at = c;
        if (*c == ' ')
            continue;
        if (strncmp(c, "...", 3) == 0 && t->ellipsis < 0) {
            t->ellipsis = t->n;
            c += 2;
            continue;
        }
        if (*c == '\0' || *c == ',' || strncmp(c, "->", 2) == 0)
            return CLEAVE_OK;
        if (!isalpha((unsigned char)*c))
            return cleave_import_fail(im, "its equation has %.8s where a letter should be", c);
        if (t->n == CLEAVE_MAX_RANK)
            return cleave_import_fail(im, "a term of its equation has more than %d letters",
                                      CLEAVE_MAX_RANK);
        t->labels[t->n++] = *c;
    }
}

/* Puts the last n dimensions of the ellipsis where it stands. */
static cleave_status expand(cleave_importer *im, const einsum *e, term *t, int n) {
    if (t->ellipsis < 0)
        return CLEAVE_OK;
    if (t->n + n > CLEAVE_MAX_RANK)
        return cleave_import_fail(im, "a term of its equation has more than %d dimensions",
                                  CLEAVE_MAX_RANK);
    for (int i = t->n - 1; i >= t->ellipsis; i--)
        t->labels[i + n] = t->labels[i];
    for (int i = 0; i < n; i++)
        t->labels[t->ellipsis + i] = ELLIPSIS + e->n_ellipsis - n + i;
    t->n += n;
    return CLEAVE_OK;
}

static int count(const einsum *e, int label) {
    int n = 0;
    for (int k = 0; k < e->n_operands; k++)
        for (int d = 0; d < e->operands[k].n; d++)
            n += e->operands[k].labels[d] == label;
    return n;
}

/* Without an arrow: the ellipsis, then letters that occur once, in the order of the alphabet. */
static cleave_status imply_output(cleave_importer *im, einsum *e) {
    e->output = (term){.ellipsis = 0};
    for (int label = 0; label < ELLIPSIS; label++) {
        if (count(e, label) != 1)
            continue;
        if (e->output.n == CLEAVE_MAX_RANK)
            return cleave_import_fail(im, "its output has more than %d dimensions",
                                      CLEAVE_MAX_RANK);
        e->output.labels[e->output.n++] = label;
    }
    return CLEAVE_OK;
}

static cleave_status read_equation(cleave_importer *im, const char *equation, einsum *e) {
    const char *at = equation;
    int n_terms = 0, ellipsis[MOST_OPERANDS] = {0};
    e->n_operands = im->node->n_inputs;
    for (bool more = true; more; n_terms++) {
        if (n_terms == e->n_operands)
            return cleave_import_fail(im, "its equation has more terms than it has inputs");
        CLEAVE_TRY(read_term(im, &at, &e->operands[n_terms]));
        more = *at == ',';
        at += more;
    }
    if (n_terms != e->n_operands)
        return cleave_import_fail(im, "its equation has %d terms, and it has %d inputs", n_terms,
                                  e->n_operands);
    for (int k = 0; k < n_terms; k++) {
        int rank = im->tensors.items[e->tensors[k]].tensor.rank;
        ellipsis[k] = rank - e->operands[k].n;
        if (ellipsis[k] < 0 || (e->operands[k].ellipsis < 0 && ellipsis[k] != 0))
            return cleave_import_fail(im, "input %s has rank %d, its term %d letters",
                                      im->node->inputs[k], rank, e->operands[k].n);
        e->n_ellipsis = ellipsis[k] > e->n_ellipsis ? ellipsis[k] : e->n_ellipsis;
    }
    if (*at == '\0') {
        CLEAVE_TRY(imply_output(im, e));
    } else {
        at += 2;
        CLEAVE_TRY(read_term(im, &at, &e->output));
        if (*at != '\0')
            return cleave_import_fail(im, "its equation goes on after its output");
    }
    for (int k = 0; k < n_terms; k++)
        CLEAVE_TRY(expand(im, e, &e->operands[k], ellipsis[k]));
    return expand(im, e, &e->output, e->n_ellipsis);
}

static cleave_status measure_labels(cleave_importer *im, einsum *e) {
    for (int k = 0; k < e->n_operands; k++)
        for (int d = 0; d < e->operands[k].n; d++) {
            int64_t *extent = &e->extent[e->operands[k].labels[d]];
            int64_t here = im->tensors.items[e->tensors[k]].tensor.shape[d];
            if (*extent > 1 && here != 1 && here != *extent)
                return cleave_import_fail(im, "dimension %d of %s is %lld, which does not fit %lld",
                                          d, im->node->inputs[k], (long long)here,
                                          (long long)*extent);
            *extent = here > *extent ? here : *extent;
        }
    return CLEAVE_OK;
}

static int place_of(const einsum *e, int label) {
    int i = 0;
    while (i < e->n_labels && e->order[i] != label)
        i++;
    return i < e->n_labels ? i : -1;
}

static cleave_status order_labels(cleave_importer *im, einsum *e) {
    for (int d = 0; d < e->output.n; d++) {
        int label = e->output.labels[d];
        if (e->extent[label] == 0 || place_of(e, label) >= 0)
            return cleave_import_fail(im, "its output has a letter %s",
                                      e->extent[label] == 0 ? "that no input has" : "twice");
        e->order[e->n_labels++] = label;
    }
    for (int k = 0; k < e->n_operands; k++)
        for (int d = 0; d < e->operands[k].n; d++) {
            if (place_of(e, e->operands[k].labels[d]) >= 0)
                continue;
            if (e->n_labels == CLEAVE_MAX_AXES)
                return cleave_import_fail(im, "has more than %d axes", CLEAVE_MAX_AXES);
            e->order[e->n_labels++] = e->operands[k].labels[d];
        }
    return CLEAVE_OK;
}

/* ---- the nest -------------------------------------------------------------------------------- */

static cleave_status add_axes(cleave_importer *im, const einsum *e, int32_t op) {
    static const char *const of_ellipsis[] = {"b0", "b1", "b2", "b3", "b4", "b5", "b6", "b7"};
    for (int i = 0; i < e->n_labels; i++) {
        int label = e->order[i];
        const char *name = label >= ELLIPSIS ? of_ellipsis[label - ELLIPSIS]
                                             : cleave_arena_printf(im->arena, "%c", label);
        if (name == NULL || cleave_import_add_axis(im, op, name, e->extent[label], false) < 0)
            return cleave_import_no_memory(im);
    }
    return CLEAVE_OK;
}

static cleave_status add_output(cleave_importer *im, const einsum *e, int32_t op, int32_t *output) {
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    for (int d = 0; d < e->output.n; d++)
        shape[d] = e->extent[e->output.labels[d]];
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){im->node->outputs[0], op, "", e->output.n, shape, -1}, output));
    for (int d = 0; d < e->output.n; d++)
        im->tensors.items[*output].axes[d] = im->operators.items[op].axes[d].name;
    im->operators.items[op].output = *output;
    return CLEAVE_OK;
}

static void add_operand(const cleave_importer *im, const einsum *e, int k, cleave_nest *nest) {
    int input = cleave_nest_add_input(nest, e->tensors[k]);
    const cleave_tensor *tensor = &im->tensors.items[e->tensors[k]].tensor;
    for (int d = 0; d < e->operands[k].n; d++) {
        int label = e->operands[k].labels[d];
        if (tensor->shape[d] == 1 && e->extent[label] != 1)
            cleave_map_offset(&nest->inputs[input], d, 0);
        else
            cleave_map_axis(&nest->inputs[input], d, place_of(e, label));
    }
}

static cleave_status add_einsum(cleave_importer *im, einsum *e) {
    int32_t op, output;
    int64_t summed = 1;
    bool sums = e->n_labels > e->output.n;
    for (int i = e->output.n; i < e->n_labels; i++)
        summed *= e->extent[e->order[i]];
    CLEAVE_TRY(cleave_import_new_operator(im, true, &op));
    CLEAVE_TRY(add_axes(im, e, op));
    CLEAVE_TRY(add_output(im, e, op, &output));
    cleave_nest nest = {.kind = !sums                ? CLEAVE_NEST_POINTWISE
                                : e->n_operands == 2 ? CLEAVE_NEST_PRODUCT
                                                     : CLEAVE_NEST_REDUCE,
                        .op = op,
                        .combiner = sums ? CLEAVE_COMBINE_SUM : CLEAVE_COMBINE_NONE};
    nest.output.tensor = output;
    cleave_nest_take_axes(&nest, &im->operators.items[op]);
    for (int d = 0; d < e->output.n; d++)
        cleave_map_axis(&nest.output, d, d);
    for (int k = 0; k < e->n_operands; k++) {
        cleave_import_untranspose(im, &e->tensors[k], e->operands[k].labels);
        add_operand(im, e, k, &nest);
        cleave_import_initialise(im, e->tensors[k], summed, 0);
    }
    int value = 0;
    for (int k = 1; k < e->n_operands; k++)
        value = cleave_nest_emit(&nest, CLEAVE_OP_MUL, value, k, 0, 0);
    if (e->n_operands == 1)
        cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    cleave_draft_operator *draft = &im->operators.items[op];
    CLEAVE_TRY(cleave_import_add_nest(im, &nest, "", &draft->main_nest));
    draft->tail_nest = sums ? -1 : draft->main_nest;
    draft->fan_in = summed;
    cleave_import_set_output(im, 0, output, false);
    return CLEAVE_OK;
}

cleave_status cleave_import_einsum(cleave_importer *im) {
    einsum e = {0};
    const char *equation;
    CLEAVE_TRY(cleave_import_string(im, "equation", NULL, &equation));
    if (equation == NULL)
        return cleave_import_fail(im, "attribute equation is missing");
    for (int k = 0; k < im->node->n_inputs; k++)
        CLEAVE_TRY(cleave_import_tensor(im, k, &e.tensors[k]));
    CLEAVE_TRY(read_equation(im, equation, &e));
    CLEAVE_TRY(measure_labels(im, &e));
    CLEAVE_TRY(order_labels(im, &e));
    return add_einsum(im, &e);
}
