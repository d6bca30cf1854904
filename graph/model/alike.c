#include "graph/model/alike.h"

#include "base/order.h"
#include "graph/model/attention.h"

void cleave_digest_put_tensor(cleave_digest *digest, const cleave_tensor *tensor) {
    cleave_digest_put(digest, tensor->kind);
    cleave_digest_put(digest, tensor->type);
    cleave_digest_put(digest, tensor->rank);
    cleave_digest_put(digest, tensor->needs_gradient);
    cleave_digest_put(digest, tensor->stored);
    cleave_digest_put(digest, tensor->view.kind);
    for (int d = 0; d < tensor->rank; d++) {
        cleave_digest_put(digest, tensor->shape[d]);
        cleave_digest_put(digest, tensor->order[d]);
    }
}

void cleave_digest_put_facts(cleave_digest *digest, const cleave_model *model,
                             const cleave_nest *nest) {
    const int64_t facts[] = {nest->kind,          nest->combiner,        nest->differentiable,
                             nest->kept_inputs,   nest->gradient_inputs, nest->kept_output,
                             nest->kept_combined, nest->in_place,        nest->n_inputs};
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++)
        cleave_digest_put(digest, facts[i]);
    for (int pass = 0; pass < CLEAVE_PASS_UPDATE; pass++)
        cleave_digest_put(digest, cleave_nest_pass_inputs(model, nest, (cleave_pass)pass));
}

int32_t cleave_operator_find_nest(const cleave_operator *op, int32_t nest) {
    for (int32_t k = 0; k < op->n_nests; k++)
        if (op->nests[k] == nest)
            return k;
    return -1;
}

static void put_operand(cleave_digest *digest, const cleave_model *model,
                        const cleave_operand *operand, bool boxes) {
    const cleave_tensor *tensor = &model->tensors[operand->tensor];
    cleave_digest_put_tensor(digest, tensor);
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        cleave_digest_put(digest, map->n_terms);
        if (map->n_terms > 0 || boxes)
            cleave_digest_put(digest, map->offset);
        for (int t = 0; t < map->n_terms; t++) {
            cleave_digest_put(digest, map->terms[t].axis);
            cleave_digest_put(digest, map->terms[t].stride);
        }
    }
}

static void put_axes(cleave_digest *digest, int n, const cleave_axis *axes) {
    cleave_digest_put(digest, n);
    for (int a = 0; a < n; a++) {
        cleave_digest_put(digest, axes[a].extent);
        cleave_digest_put(digest, axes[a].whole);
    }
}

static void put_tape(cleave_digest *digest, const cleave_nest *nest) {
    for (int i = 0; i < nest->n_instructions; i++) {
        cleave_digest_put(digest, nest->tape[i].opcode);
        cleave_digest_put(digest, nest->tape[i].a);
        cleave_digest_put(digest, nest->tape[i].b);
    }
}

/* What its time and its boxes depend on: its members' tapes, and what is hidden. */
static void put_attention(cleave_digest *digest, const cleave_model *model, const cleave_nest *nest,
                          bool boxes) {
    const cleave_attention *of = nest->attention;
    put_operand(digest, model, &nest->statistics, boxes);
    cleave_digest_put(digest, of->n_members);
    for (int i = 0; i < of->n_members; i++)
        put_tape(digest, &of->members[i]);
    for (int64_t i = 0; i < of->n_row_grains * of->n_key_grains; i++)
        cleave_digest_put(digest, of->seen[i]);
}

static void put_nest(cleave_digest *digest, const cleave_model *model, const cleave_nest *nest,
                     bool boxes) {
    cleave_digest_put_facts(digest, model, nest);
    cleave_digest_put(digest, nest->derivation);
    cleave_digest_put(digest, nest->n_instructions);
    put_axes(digest, nest->n_axes, nest->axes);
    for (int a = 0; a < nest->n_axes && nest->derivation == CLEAVE_DERIVE_OPERATOR; a++)
        cleave_digest_put(digest, nest->operator_axis[a]);
    if (nest->derivation == CLEAVE_DERIVE_OWNERS)
        cleave_digest_put(digest,
                          cleave_operator_find_nest(&model->operators[nest->op], nest->owners_of));
    for (int i = 0; i < nest->n_inputs; i++)
        put_operand(digest, model, &nest->inputs[i], boxes);
    put_operand(digest, model, &nest->output, boxes);
    if (nest->attention != NULL)
        put_attention(digest, model, nest, boxes);
    put_tape(digest, nest);
}

static cleave_digest digest_operator(const cleave_model *model, int32_t op, bool boxes) {
    const cleave_operator *of = &model->operators[op];
    cleave_digest digest = cleave_digest_begin(op);
    put_axes(&digest, of->n_axes, of->axes);
    cleave_digest_put(&digest, of->n_nests);
    for (int32_t k = 0; k < of->n_nests; k++)
        put_nest(&digest, model, &model->nests[of->nests[k]], boxes);
    return digest;
}

static int compare_digests(const void *a, const void *b) {
    const cleave_digest *x = a, *y = b;
    CLEAVE_ORDER_BY(x->a, y->a);
    CLEAVE_ORDER_BY(x->b, y->b);
    return CLEAVE_ORDER(x->place, y->place);
}

void cleave_digests_find_alike(cleave_digest *digests, int32_t n, int32_t *like) {
    CLEAVE_SORT(digests, n, compare_digests);
    for (int32_t i = 0, first = 0; i < n; i++) {
        if (digests[i].a != digests[first].a || digests[i].b != digests[first].b)
            first = i;
        like[digests[i].place] = digests[first].place;
    }
}

cleave_status cleave_operator_classes(const cleave_model *model, bool boxes, cleave_arena *arena,
                                      int32_t **class_of, cleave_error *error) {
    int32_t n = model->n_operators, n_classes = 0;
    cleave_arena scratch = {0};
    cleave_digest *digests = CLEAVE_ARENA_ARRAY(&scratch, cleave_digest, n);
    int32_t *classes = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    bool made = digests != NULL && classes != NULL;
    for (int32_t op = 0; op < n && made; op++)
        digests[op] = digest_operator(model, op, boxes);
    if (made)
        cleave_digests_find_alike(digests, n, classes);
    for (int32_t op = 0; op < n && made; op++) /* the first alike has its number by then */
        classes[op] = classes[op] == op ? n_classes++ : classes[classes[op]];
    cleave_arena_free(&scratch);
    if (!made)
        return cleave_fail_memory(error, "comparing operators");
    *class_of = classes;
    return CLEAVE_OK;
}
