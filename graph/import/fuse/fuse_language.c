/* What attention and rotary positions take in when all drafts are there: scalings of queries and
   keys, keys that are repeated for several heads, and the products before rotary positions. */
#include "graph/import/fuse/fuse_language.h"

#include "graph/import/operators/split_axis.h"

#include <string.h>

enum { NOBODY = -1, SEVERAL = -2 };

static cleave_nest *nest_at(const cleave_importer *im, int32_t nest) {
    return &im->nests.items[nest].nest;
}

/* ---- reading past operators ------------------------------------------------------------------ */

/* The operand, as it reads what is behind the transposes of its tensor. */
static void untranspose(const cleave_importer *im, cleave_operand *operand) {
    for (;;) {
        const cleave_tensor *at = &im->tensors.items[operand->tensor].tensor;
        if (at->view.kind != CLEAVE_VIEW_TRANSPOSE)
            return;
        cleave_operand behind = {.tensor = at->view.sources[0]};
        for (int d = 0; d < at->rank; d++)
            behind.map[at->view.permutation[d]] = operand->map[d];
        *operand = behind;
    }
}

/* The nest of an operator that has one input and one instruction, and whose output this is; or
   null. */
static const cleave_nest *simple_nest(const cleave_importer *im, int32_t tensor,
                                      cleave_opcode opcode) {
    int32_t op = im->tensors.items[tensor].op;
    if (op < 0 || im->operators.items[op].output != tensor || im->operators.items[op].main_nest < 0)
        return NULL;
    const cleave_nest *nest = nest_at(im, im->operators.items[op].main_nest);
    bool is_simple = nest->op == op && nest->kind == CLEAVE_NEST_POINTWISE && nest->n_inputs == 1 &&
                     nest->n_instructions == 1 && nest->tape[0].opcode == opcode &&
                     nest->output.tensor == tensor;
    for (int d = 0; is_simple && d < im->tensors.items[tensor].tensor.rank; d++)
        is_simple = nest->output.map[d].n_terms == 1 && nest->output.map[d].terms[0].axis == d;
    return is_simple ? nest : NULL;
}

static bool reads_alike(const cleave_nest *nest, int rank) {
    bool alike = true;
    for (int d = 0; alike && d < rank; d++)
        alike = nest->inputs[0].map[d].offset == 0 && nest->inputs[0].map[d].n_terms == 1 &&
                nest->inputs[0].map[d].terms[0].axis == d &&
                nest->inputs[0].map[d].terms[0].stride == 1;
    return alike;
}

void cleave_import_scale_product(cleave_nest *nest, double factor) {
    cleave_instruction *last = &nest->tape[nest->n_instructions - 1];
    if (last->opcode == CLEAVE_OP_SCALE && !(last->q < 0) && !(last->q > 0))
        last->p *= factor;
    else
        cleave_nest_emit(nest, CLEAVE_OP_SCALE, cleave_nest_value(nest), 0, factor, 0);
}

void cleave_import_take_scalings(cleave_importer *im, cleave_nest *product) {
    for (int k = 0; k < product->n_inputs; k++)
        for (;;) {
            cleave_operand operand = product->inputs[k];
            untranspose(im, &operand);
            const cleave_nest *scaling = simple_nest(im, operand.tensor, CLEAVE_OP_SCALE);
            int rank = im->tensors.items[operand.tensor].tensor.rank;
            if (scaling == NULL || scaling->tape[0].q < 0 || scaling->tape[0].q > 0 ||
                im->tensors.items[scaling->inputs[0].tensor].tensor.rank != rank ||
                !reads_alike(scaling, rank))
                break;
            operand.tensor = scaling->inputs[0].tensor;
            product->inputs[k] = operand;
            cleave_import_scale_product(product, scaling->tape[0].p);
            im->operators.items[scaling->op].bypassed = true;
            cleave_import_note_version(im, CLEAVE_LANGUAGE_GRAPH_VERSION);
        }
}

/* ---- keys that several heads share ----------------------------------------------------------- */

/* An operand that reads a tensor of which each head is repeated. */
typedef struct repeated {
    const cleave_nest *expand; /* [.., heads of keys, repeats, ..], which dimension d merges */
    int d, op_axis;            /* of the operand; of the operator */
    int64_t heads, repeats;
} repeated;

static bool is_expanded(const cleave_nest *expand, int rank, int dimension) {
    bool read = false;
    for (int d = 0; d < rank; d++)
        for (int t = 0; t < expand->inputs[0].map[d].n_terms; t++)
            read = read || expand->inputs[0].map[d].terms[t].axis == dimension;
    return !read;
}

static bool merges(const cleave_tensor *merged, const cleave_tensor *from, int d) {
    bool fits =
        merged->rank == from->rank - 1 && merged->shape[d] == from->shape[d] * from->shape[d + 1];
    for (int i = 0; fits && i < merged->rank; i++)
        fits = i == d || merged->shape[i] == from->shape[i < d ? i : i + 1];
    return fits;
}

static bool find_repeated(const cleave_importer *im, const cleave_nest *nest,
                          const cleave_operand *operand, repeated *r) {
    const cleave_tensor *merged = &im->tensors.items[operand->tensor].tensor;
    if (merged->view.kind != CLEAVE_VIEW_RESHAPE)
        return false;
    int32_t expanded = merged->view.sources[0];
    const cleave_tensor *from = &im->tensors.items[expanded].tensor;
    r->expand = simple_nest(im, expanded, CLEAVE_OP_COPY);
    if (r->expand == NULL)
        return false;
    int rank = im->tensors.items[r->expand->inputs[0].tensor].tensor.rank;
    for (r->d = 0; r->d < merged->rank; r->d++) {
        const cleave_dimension_map *map = &operand->map[r->d];
        if (!merges(merged, from, r->d) || !is_expanded(r->expand, rank, r->d + 1) ||
            map->n_terms != 1 || nest->derivation != CLEAVE_DERIVE_OPERATOR)
            continue;
        r->op_axis = nest->operator_axis[map->terms[0].axis];
        r->heads = from->shape[r->d];
        r->repeats = from->shape[r->d + 1];
        return r->op_axis >= 0;
    }
    return false;
}

/* The operand reads what was repeated.  With heads of keys it has their dimension and that of the
   repeats by now, else the merged one. */
static void read_once(cleave_importer *im, const repeated *r, cleave_operand *operand) {
    const cleave_operand *source = &r->expand->inputs[0];
    cleave_operand behind = {.tensor = source->tensor};
    for (int d = 0; d < im->tensors.items[source->tensor].tensor.rank; d++) {
        const cleave_dimension_map *map = &source->map[d];
        if (map->n_terms == 0 || (r->heads == 1 && map->terms[0].axis == r->d))
            continue; /* of extent 1 */
        int at = map->terms[0].axis;
        behind.map[d] = operand->map[r->heads == 1 && at > r->d ? at - 1 : at];
    }
    *operand = behind;
    im->operators.items[r->expand->op].bypassed = true;
    cleave_import_note_version(im, CLEAVE_LANGUAGE_GRAPH_VERSION);
}

cleave_status cleave_import_share_keys(cleave_importer *im, int32_t op, int32_t scores,
                                       int32_t values) {
    const int32_t nests[] = {scores, values};
    cleave_operand *operand[2] = {NULL, NULL};
    repeated r[2];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < nest_at(im, nests[i])->n_inputs && operand[i] == NULL; k++) {
            cleave_operand straight = nest_at(im, nests[i])->inputs[k];
            untranspose(im, &straight);
            if (!find_repeated(im, nest_at(im, nests[i]), &straight, &r[i]))
                continue;
            operand[i] = &nest_at(im, nests[i])->inputs[k];
            *operand[i] = straight;
        }
    if (operand[0] == NULL || operand[1] == NULL || r[0].op_axis != r[1].op_axis ||
        r[0].repeats != r[1].repeats || r[0].heads != r[1].heads)
        return CLEAVE_OK;
    if (r[0].heads > 1) {
        const cleave_axis_split split = {op, r[0].op_axis, r[0].repeats, "h", "g"};
        int32_t output;
        if (!cleave_import_can_split_axis(im, &split))
            return CLEAVE_OK;
        CLEAVE_TRY(cleave_import_split_axis(im, &split, &output));
    }
    for (int i = 0; i < 2; i++)
        read_once(im, &r[i], operand[i]);
    return CLEAVE_OK;
}

/* ---- rotary positions ------------------------------------------------------------------------ */

static void note_reader(const cleave_importer *im, int32_t *reader, int32_t tensor, int32_t op) {
    const cleave_view *view = &im->tensors.items[tensor].tensor.view;
    if (view->kind == CLEAVE_VIEW_NONE)
        reader[tensor] = reader[tensor] == NOBODY || reader[tensor] == op ? op : SEVERAL;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        note_reader(im, reader, view->sources[i], op);
}

/* The one operator that reads a base tensor, through whatever views, or NOBODY, or SEVERAL. */
static cleave_status find_readers(cleave_importer *im, int32_t **reader) {
    *reader = CLEAVE_ARENA_ARRAY(&im->scratch, int32_t, im->tensors.n);
    if (*reader == NULL)
        return cleave_import_no_memory(im);
    for (int32_t t = 0; t < im->tensors.n; t++)
        (*reader)[t] = NOBODY;
    for (int32_t i = 0; i < im->nests.n; i++)
        for (int k = 0; nest_at(im, i)->op >= 0 && k < nest_at(im, i)->n_inputs; k++)
            note_reader(im, *reader, nest_at(im, i)->inputs[k].tensor, nest_at(im, i)->op);
    for (int32_t i = 0; i < im->graph.n_outputs; i++) {
        int32_t id = cleave_name_map_find(&im->names, im->graph.outputs[i].name);
        if (im->values.items[id].state == CLEAVE_VALUE_TENSOR)
            note_reader(im, *reader, im->values.items[id].tensor, SEVERAL);
    }
    return CLEAVE_OK;
}

/* Rotary positions of what an operator makes: x is `output`, perhaps with its last dimension cut
   into heads, transposed. */
typedef struct joining {
    int32_t op, nest;        /* of rotary positions */
    int32_t to;              /* the operator that they join */
    int32_t output;          /* its output */
    int32_t heads;           /* the view that cuts the last dimension, or -1 */
    int rank;                /* of x */
    int of[CLEAVE_MAX_RANK]; /* for each dimension of x, the one before transposes */
} joining;

static bool is_known_before(const cleave_importer *im, int32_t tensor) {
    const cleave_tensor *at = &im->tensors.items[tensor].tensor;
    return at->view.kind == CLEAVE_VIEW_NONE && at->kind != CLEAVE_TENSOR_ACTIVATION;
}

/* Do the operator's last nest and its output have its axes as dimensions, or is it a product? */
static bool can_take_in(const cleave_importer *im, const joining *j) {
    const cleave_draft_operator *op = &im->operators.items[j->to];
    const cleave_nest *main = nest_at(im, op->main_nest);
    const cleave_tensor *output = &im->tensors.items[j->output].tensor;
    bool plain = main->derivation == CLEAVE_DERIVE_OPERATOR && main->op == j->to;
    if (!plain || op->turns)
        return false;
    if (main->kind == CLEAVE_NEST_PRODUCT)
        return op->main_is_fixed;
    plain = main->kind == CLEAVE_NEST_POINTWISE && main->output.tensor == j->output &&
            op->n_axes == output->rank && j->heads < 0;
    for (int d = 0; plain && d < output->rank; d++)
        plain = main->operator_axis[d] == d && main->output.map[d].n_terms == 1 &&
                main->output.map[d].terms[0].axis == d;
    return plain;
}

static bool find_joining(const cleave_importer *im, const int32_t *reader, int32_t op, joining *j) {
    const cleave_draft_operator *turns = &im->operators.items[op];
    if (!turns->turns || turns->main_nest < 0 || nest_at(im, turns->main_nest)->op != op)
        return false;
    *j = (joining){.op = op, .nest = turns->main_nest, .heads = -1};
    const cleave_nest *nest = nest_at(im, j->nest);
    int32_t at = nest->inputs[0].tensor;
    for (int i = 2; i < nest->n_inputs; i++)
        if (!is_known_before(im, nest->inputs[i].tensor))
            return false;
    j->rank = nest->n_axes;
    for (int d = 0; d < j->rank; d++)
        j->of[d] = d;
    for (const cleave_view *view = &im->tensors.items[at].tensor.view;
         view->kind == CLEAVE_VIEW_TRANSPOSE; view = &im->tensors.items[at].tensor.view) {
        for (int d = 0; d < j->rank; d++)
            j->of[d] = view->permutation[j->of[d]];
        at = view->sources[0];
    }
    const cleave_tensor *tensor = &im->tensors.items[at].tensor;
    if (tensor->view.kind == CLEAVE_VIEW_RESHAPE) {
        j->heads = at;
        at = tensor->view.sources[0];
    }
    j->output = at;
    j->to = im->tensors.items[at].op;
    return im->tensors.items[at].tensor.view.kind == CLEAVE_VIEW_NONE && j->to >= 0 &&
           im->operators.items[j->to].output == at && im->operators.items[j->to].main_nest >= 0 &&
           reader[at] == op && can_take_in(im, j);
}

/* Cuts the columns of a product into heads. */
static cleave_status cut_columns(cleave_importer *im, joining *j, bool *can) {
    const cleave_tensor *flat = &im->tensors.items[j->output].tensor,
                        *cut = &im->tensors.items[j->heads].tensor;
    const cleave_nest *main = nest_at(im, im->operators.items[j->to].main_nest);
    int last = flat->rank - 1;
    *can = last >= 0 && cut->rank == flat->rank + 1 &&
           cleave_has_shape(flat, flat->rank, flat->shape) && main->output.map[last].n_terms == 1;
    for (int d = 0; *can && d < last; d++)
        *can = cut->shape[d] == flat->shape[d];
    if (!*can)
        return CLEAVE_OK;
    int axis = main->operator_axis[main->output.map[last].terms[0].axis];
    const cleave_axis_split split = {j->to, axis, cut->shape[cut->rank - 1], "h", "d"};
    *can = axis >= 0 && cleave_import_can_split_axis(im, &split);
    return *can ? cleave_import_split_axis(im, &split, &j->output) : CLEAVE_OK;
}

/* The nest of rotary positions over the dimensions of the output that it reads. */
static void move_turn(cleave_importer *im, const joining *j) {
    cleave_draft_operator *to = &im->operators.items[j->to];
    const cleave_nest *main = nest_at(im, to->main_nest);
    const cleave_draft_tensor *output = &im->tensors.items[j->output];
    cleave_nest nest = *nest_at(im, j->nest);
    cleave_draft_tensor *turned = &im->tensors.items[nest.output.tensor];
    int back[CLEAVE_MAX_RANK];
    for (int k = 0; k <= nest.n_inputs; k++) {
        cleave_operand *operand = k < nest.n_inputs ? &nest.inputs[k] : &nest.output;
        for (int d = 0; d < im->tensors.items[operand->tensor].tensor.rank; d++)
            for (int t = 0; t < operand->map[d].n_terms; t++)
                operand->map[d].terms[t].axis = j->of[operand->map[d].terms[t].axis];
    }
    nest.inputs[0] = cleave_whole_operand(j->output, j->rank);
    for (int d = 0; d < j->rank; d++) {
        back[j->of[d]] = d;
        nest.axes[d] = (cleave_axis){output->axes[d], output->tensor.shape[d], false};
        nest.operator_axis[d] = d;
    }
    if (main->kind == CLEAVE_NEST_PRODUCT) {
        nest.derivation = CLEAVE_DERIVE_OWNERS;
        nest.owners_of = to->main_nest;
    } else {
        for (int d = 0; d < j->rank; d++)
            nest.axes[d].name = to->axes[d].name;
    }
    for (int d = 0; d < j->rank; d++)
        turned->tensor.order[d] = back[output->tensor.order[d]];
    turned->op = j->to;
    nest.op = j->to;
    im->nests.items[j->nest].nest = nest;
    im->nests.items[j->nest].suffix = ".turned";
    to->output = nest.output.tensor;
    to->tail_nest = j->nest;
}

cleave_status cleave_import_fuse_turns(cleave_importer *im, bool *any) {
    int32_t *reader;
    bool turns = false;
    for (int32_t op = 0; op < im->operators.n; op++)
        turns = turns || im->operators.items[op].turns;
    if (!turns)
        return CLEAVE_OK;
    CLEAVE_TRY(find_readers(im, &reader));
    for (int32_t op = 0; op < im->operators.n; op++) {
        joining j;
        bool can = true;
        if (!find_joining(im, reader, op, &j))
            continue;
        if (j.heads >= 0)
            CLEAVE_TRY(cut_columns(im, &j, &can));
        if (!can || im->tensors.items[j.output].tensor.rank != j.rank)
            continue;
        move_turn(im, &j);
        *any = true;
    }
    return CLEAVE_OK;
}
