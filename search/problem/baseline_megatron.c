/* How megatron's rule splits operators: the products of a block by columns and rows, and what lies
   between and outside of them as these leave it. */
#include "search/problem/baselines_internal.h"

#include "graph/model/gather.h"
#include "graph/model/ring.h"
#include "search/problem/baselines.h"
#include "search/problem/goes_with.h"

#include <string.h>

/* ---- questions about operators ---- */

/* A product of two activations, as in attention, or all of that. */
static bool is_attention_product(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    return nest->kind == CLEAVE_NEST_ATTENTION ||
           (nest->kind == CLEAVE_NEST_PRODUCT && nest->n_inputs == 2 &&
            cleave_tensor_writer(model, nest->inputs[0].tensor) >= 0 &&
            cleave_tensor_writer(model, nest->inputs[1].tensor) >= 0);
}

/* The axis of tokens: the first dimension behind the samples that has so many places and features
   behind it, since heads that are fewer may lie before; -1: none. */
static int token_axis(const cleave_model *model, int32_t op, int32_t places) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    int features = model->tensors[nest->output.tensor].rank - 1;
    for (int d = 1; d < features; d++) {
        const cleave_dimension_map *map = &nest->output.map[d];
        int axis = map->n_terms == 1 ? nest->operator_axis[map->terms[0].axis] : -1;
        if (axis >= 0 && of->axes[axis].extent >= places)
            return !of->axes[axis].whole && strcmp(of->roles[axis], "sample") != 0 ? axis : -1;
    }
    return -1;
}

/* Does every nest of an operator write along an axis, so that its parts need nothing of each other?
 */
static bool is_written_along(const cleave_model *model, int32_t op, int axis) {
    const cleave_operator *of = &model->operators[op];
    for (int32_t n = 0; n < of->n_nests; n++) {
        const cleave_nest *nest = &model->nests[of->nests[n]];
        bool writes = nest->derivation == CLEAVE_DERIVE_OWNERS;
        for (int d = 0; d < model->tensors[nest->output.tensor].rank && !writes; d++)
            for (int t = 0; t < nest->output.map[d].n_terms; t++)
                writes = writes || nest->operator_axis[nest->output.map[d].terms[t].axis] == axis;
        if (!writes)
            return false;
    }
    return true;
}

static bool is_loss(const cleave_model *model, int32_t op) {
    return cleave_model_trains(model) && model->nests[model->writer[model->loss]].op == op;
}

/* The rows of a table of parameters; -1: the operator looks up none. */
static int table_axis(const cleave_model *model, int32_t op) {
    const cleave_nest *nest = &model->nests[model->operators[op].main_nest];
    int rows = cleave_gather_axis(nest);
    if (rows < 0 || !baseline_is_parameter(model, nest->inputs[1].tensor))
        return -1;
    return nest->operator_axis[rows];
}

/* An axis of which a product's weights, its other input and its output each have their own: of
   experts; -1: there is none. */
static int expert_axis(const cleave_model *model, int32_t op) {
    const cleave_operator *of = &model->operators[op];
    const cleave_nest *nest = &model->nests[of->main_nest];
    for (int a = 0; a < nest->n_axes && baseline_is_dense(model, op); a++) {
        bool all =
            nest->operator_axis[a] >= 0 && !of->axes[nest->operator_axis[a]].whole &&
            cleave_operand_maps_axis(&nest->output, model->tensors[nest->output.tensor].rank, a);
        for (int i = 0; i < 2; i++)
            all = all && cleave_operand_maps_axis(&nest->inputs[i],
                                                  model->tensors[nest->inputs[i].tensor].rank, a);
        if (all)
            return nest->operator_axis[a];
    }
    return -1;
}

int64_t cleave_baseline_experts(const cleave_model *model) {
    int64_t most = 0;
    for (int32_t op = 0; op < model->n_operators; op++) {
        int axis = expert_axis(model, op);
        if (axis >= 0 && model->operators[op].axes[axis].extent > most)
            most = model->operators[op].axes[axis].extent;
    }
    return most;
}

/* ---- cuts, one dimension of the group after the other ---- */

/* What megatron's rule knows of the operators before. */
typedef struct megatron_marks {
    bool *columns;    /* is it split like the columns of a product? */
    int *tokens;      /* the axis that is cut by context; -1: none, or no tokens */
    int *experts;     /* and that of experts */
    uint32_t *sliced; /* [n_tensors] dimensions of which views take parts */
} megatron_marks;

static void mark_slices(const cleave_model *model, uint32_t *sliced) {
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        const int32_t source =
            tensor->view.kind == CLEAVE_VIEW_SLICE ? tensor->view.sources[0] : -1;
        for (int d = 0; source >= 0 && d < tensor->rank; d++)
            if (tensor->shape[d] < model->tensors[source].shape[d])
                sliced[source] |= UINT32_C(1) << d;
    }
}

/* The columns of a product, by their outermost axis; where a weight has several side by side, such
   as gate and up, and an axis says which, by the one within: so each device has some of all. */
static int column_axis(const cleave_model *model, int32_t op, const uint32_t *sliced) {
    const cleave_operator *of = &model->operators[op];
    const cleave_operand *output = &model->nests[of->main_nest].output;
    const int first = baseline_axis_with_role(of, "parameter");
    for (int a = first; a >= 0 && a < of->n_axes; a++) {
        bool apart =
            of->axes[a].whole || of->roles[a] == NULL || strcmp(of->roles[a], "parameter") != 0;
        for (int d = 0; d < model->tensors[output->tensor].rank && !apart; d++)
            apart = (sliced[output->tensor] >> d & 1) != 0 && output->map[d].n_terms > 0 &&
                    model->nests[of->main_nest].operator_axis[output->map[d].terms[0].axis] == a;
        if (!apart)
            return a;
    }
    return first;
}

/* As the operator before it is cut along its axis, if it is. */
static cleave_status follow(const baseline_builder *b, const int *axis_of, int32_t before,
                            int32_t op, int32_t degree, int *axis, cleave_error *error) {
    *axis = -1;
    if (degree < 2 || before < 0 || axis_of[before] < 0)
        return CLEAVE_OK;
    int64_t room = b->model->operators[before].axes[axis_of[before]].extent;
    degree = room < degree ? (int32_t)room : degree;
    return cleave_axis_goes_with(b->model, before, axis_of[before], op, degree, axis, error);
}

/* Where the columns, rows, heads or tokens of an operator are cut by `tensor`. */
static cleave_status cut_by_tensor(const baseline_builder *b, int32_t op, int32_t before,
                                   const megatron_marks *marks, int *axis, cleave_error *error) {
    const cleave_model *model = b->model;
    const cleave_operator *of = &model->operators[op];
    bool *columns = marks->columns;
    int32_t tensor = b->group.degree[CLEAVE_GROUP_TENSOR];
    *axis = -1;
    if (before >= 0 && columns[before])
        CLEAVE_TRY(follow(b, b->axis_of, before, op, tensor, axis, error));
    if (is_attention_product(model, op)) {
        *axis = baseline_axis_named(of, "h");
        *axis = *axis >= 0 ? *axis : baseline_axis_named(of, "b1");
        columns[op] = *axis >= 0;
    } else if (baseline_is_dense(model, op)) {
        columns[op] = *axis < 0;
        *axis = *axis >= 0 ? *axis : column_axis(model, op, marks->sliced);
    } else {
        if (*axis >= 0 && !is_loss(model, op) && !is_written_along(model, op, *axis))
            *axis = -1; /* a normalisation of what is split by columns */
        columns[op] = *axis >= 0;
        *axis = *axis >= 0 ? *axis : table_axis(model, op);
        *axis = *axis >= 0 || b->whole_tokens ? *axis : token_axis(model, op, tensor);
    }
    if (!is_attention_product(model, op) && *axis >= 0 && of->axes[*axis].extent < tensor) {
        columns[op] = false; /* heads of keys are fewer than devices */
        *axis = b->whole_tokens ? -1 : token_axis(model, op, tensor);
    }
    return CLEAVE_OK;
}

/* The axis of attention's queries where keys can go round; else -1. */
static int ring_axis(const baseline_builder *b, int32_t op) {
    const cleave_nest *nest = &b->model->nests[b->model->operators[op].main_nest];
    return b->ring && nest->attention != NULL ? nest->operator_axis[nest->attention->rows] : -1;
}

/* Jacobs et al., "DeepSpeed Ulysses", 2023: tokens are cut everywhere but in attention, to which
   each device brings all tokens of some of its heads.  Or they are cut there, too, and keys go
   round. */
static cleave_status cut_by_context(const baseline_builder *b, int32_t op, int32_t before,
                                    const megatron_marks *marks, cleave_group_cut *cut,
                                    cleave_error *error) {
    int32_t degree = b->group.degree[CLEAVE_GROUP_CONTEXT];
    int axis = -1;
    marks->tokens[op] = -1;
    if (degree < 2)
        return CLEAVE_OK;
    cut->tensor_first = is_attention_product(b->model, op);
    if (cut->tensor_first && ring_axis(b, op) >= 0) {
        cut->axis[CLEAVE_GROUP_CONTEXT] = ring_axis(b, op);
        return CLEAVE_OK;
    }
    if (cut->tensor_first) {
        cut->axis[CLEAVE_GROUP_CONTEXT] = cut->axis[CLEAVE_GROUP_TENSOR];
        return CLEAVE_OK;
    }
    CLEAVE_TRY(follow(b, marks->tokens, before, op, degree, &axis, error));
    axis = axis >= 0 ? axis : token_axis(b->model, op, degree);
    if (axis >= 0 && b->model->operators[op].axes[axis].extent >= degree)
        marks->tokens[op] = cut->axis[CLEAVE_GROUP_CONTEXT] = axis;
    return CLEAVE_OK;
}

/* Samples, but of what has experts these. */
static cleave_status cut_by_expert(const baseline_builder *b, int32_t op, int32_t before,
                                   const megatron_marks *marks, cleave_group_cut *cut,
                                   cleave_error *error) {
    int32_t degree = b->group.degree[CLEAVE_GROUP_EXPERT];
    int axis = degree < 2 ? -1 : expert_axis(b->model, op);
    if (axis < 0 && baseline_kind_of(b->model, op) == CLEAVE_NEST_POINTWISE)
        CLEAVE_TRY(follow(b, marks->experts, before, op, degree, &axis, error));
    marks->experts[op] = axis;
    cut->axis[CLEAVE_GROUP_EXPERT] = axis >= 0 ? axis : cut->axis[CLEAVE_GROUP_DATA];
    return CLEAVE_OK;
}

/* Shoeybi et al., "Megatron-LM", 2019, and Korthikanti et al., "Reducing activation recomputation
   in large transformer models", 2022: of two dense layers in a row the first is split by columns
   and the second by rows; what lies between, attention included, is split like the columns (by
   head; of products apart, their second batch axis).  What lies outside is split by tokens, so that
   the sums behind the rows are scattered and gathered again before the next columns, or, as in the
   first of the two, computed by all alike.  The vocabulary is split, too, both where tokens are
   looked up and where the loss is taken.  Applies where there is attention, with heads for all. */
cleave_status baseline_megatron(const baseline_builder *b, bool *applies, cleave_error *error) {
    const cleave_model *model = b->model;
    const int32_t *degree = b->group.degree;
    const megatron_marks marks = {.columns = CLEAVE_ARENA_ARRAY(b->arena, bool, model->n_operators),
                                  .tokens = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_operators),
                                  .experts = CLEAVE_ARENA_ARRAY(b->arena, int, model->n_operators),
                                  .sliced =
                                      CLEAVE_ARENA_ARRAY(b->arena, uint32_t, model->n_tensors)};
    if (marks.columns == NULL || marks.tokens == NULL || marks.experts == NULL ||
        marks.sliced == NULL)
        return cleave_fail_memory(error, "making a layout");
    mark_slices(model, marks.sliced);
    bool has_heads = false, has_experts = false, has_room = true;
    for (int32_t op = 0; op < model->n_operators; op++) {
        const cleave_operator *of = &model->operators[op];
        int32_t before = baseline_operator_before(model, op);
        int samples = baseline_axis_with_role(of, "sample"), axis;
        CLEAVE_TRY(cut_by_tensor(b, op, before, &marks, &axis, error));
        cleave_group_cut cut = {.axis = {samples, samples, -1, axis}, .inner = -1};
        if (is_attention_product(model, op))
            cut.inner = baseline_axis_named(of, "g"); /* queries of the same keys */
        CLEAVE_TRY(cut_by_context(b, op, before, &marks, &cut, error));
        CLEAVE_TRY(cut_by_expert(b, op, before, &marks, &cut, error));
        has_experts = has_experts || marks.experts[op] >= 0;
        if (is_attention_product(model, op) && axis >= 0) {
            has_heads = true;
            has_room = has_room && (degree[CLEAVE_GROUP_CONTEXT] == 1 || ring_axis(b, op) >= 0 ||
                                    of->axes[axis].extent >= (int64_t)degree[CLEAVE_GROUP_TENSOR] *
                                                                 degree[CLEAVE_GROUP_CONTEXT]);
        }
        b->axis_of[op] = axis;
        if (axis >= 0 && axis == samples)
            CLEAVE_TRY(baseline_split_samples(b, op, error));
        else
            CLEAVE_TRY(cleave_group_split(model, op, &b->group, &cut, baseline_devices_of(b, op),
                                          b->arena, b->layout, error));
        b->layout->splits[op].ring = b->ring && cleave_ring_fits(model, op, &b->layout->splits[op]);
    }
    *applies = has_heads && has_room && (has_experts || degree[CLEAVE_GROUP_EXPERT] == 1);
    return CLEAVE_OK;
}
