/* A model in doubles. */
#include "double_evaluator.h"

#include <math.h>
#include <string.h>

/* ---- where elements are ---------------------------------------------------------------------- */

static int64_t linear_index(const cleave_tensor *tensor, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < tensor->rank; d++)
        at = at * tensor->shape[d] + index[d];
    return at;
}

/* Which of the view's sources has this element, and where in it; -1: a pad's fill. */
static int64_t source_element(const cleave_model *model, const cleave_tensor *tensor,
                              const int64_t *index, int32_t *from) {
    const cleave_view *view = &tensor->view;
    int64_t at[CLEAVE_MAX_RANK] = {0};
    *from = view->sources[0];
    memcpy(at, index, (size_t)tensor->rank * sizeof *at);
    switch (view->kind) {
    case CLEAVE_VIEW_RESHAPE:
        return linear_index(tensor, index);
    case CLEAVE_VIEW_TRANSPOSE:
        for (int d = 0; d < tensor->rank; d++)
            at[view->permutation[d]] = index[d];
        break;
    case CLEAVE_VIEW_CONCAT:
        for (int32_t i = 0; at[view->axis] >= model->tensors[*from].shape[view->axis];) {
            at[view->axis] -= model->tensors[*from].shape[view->axis];
            *from = view->sources[++i];
        }
        break;
    case CLEAVE_VIEW_SLICE:
        for (int d = 0; d < tensor->rank; d++)
            at[d] = view->begin[d] + view->step[d] * index[d];
        break;
    default:
        for (int d = 0; d < tensor->rank; d++) {
            at[d] = index[d] - view->begin[d];
            if (at[d] < 0 || at[d] >= model->tensors[*from].shape[d])
                return -1;
        }
    }
    return linear_index(&model->tensors[*from], at);
}

static void next_index(int n, const int64_t *extents, int64_t *index) {
    for (int d = n - 1; d >= 0 && ++index[d] == extents[d]; d--)
        index[d] = 0;
}

/* Memory begins with one element per tensor, the fill of a pad, so that it has a place. */
static bool place_tensors(double_evaluator *e, cleave_arena *arena) {
    const cleave_model *model = e->model;
    int64_t used = model->n_tensors;
    e->element = CLEAVE_ARENA_ARRAY(arena, int32_t *, model->n_tensors);
    for (int32_t t = 0; e->element != NULL && t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        int64_t size = cleave_tensor_size(tensor), index[CLEAVE_MAX_RANK] = {0};
        int32_t *element = e->element[t] = CLEAVE_ARENA_ARRAY(arena, int32_t, size);
        if (element == NULL)
            return false;
        for (int64_t i = 0; i < size; i++, next_index(tensor->rank, tensor->shape, index)) {
            int32_t from;
            if (tensor->view.kind == CLEAVE_VIEW_NONE) {
                element[i] = (int32_t)used++;
                continue;
            }
            int64_t at = source_element(model, tensor, index, &from);
            element[i] = at < 0 ? t : e->element[from][at];
        }
    }
    e->memory = CLEAVE_ARENA_ARRAY(arena, double, used);
    for (int32_t t = 0; e->memory != NULL && t < model->n_tensors; t++)
        e->memory[t] = (double)model->tensors[t].view.fill;
    return e->memory != NULL;
}

/* The operand's element at a point, in memory; -1: none. */
static int32_t locate(const double_evaluator *e, const cleave_operand *operand,
                      const int64_t *point) {
    const cleave_tensor *tensor = &e->model->tensors[operand->tensor];
    int64_t index[CLEAVE_MAX_RANK] = {0};
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        index[d] = map->offset;
        for (int t = 0; t < map->n_terms; t++)
            index[d] += map->terms[t].stride * point[map->terms[t].axis];
        if (index[d] < 0 || index[d] >= tensor->shape[d])
            return -1;
    }
    return e->element[operand->tensor][linear_index(tensor, index)];
}

static bool place_nest(const double_evaluator *e, const cleave_nest *nest, cleave_arena *arena,
                       double_evaluator_nest *placed) {
    int64_t points = 1, extents[CLEAVE_MAX_AXES], point[CLEAVE_MAX_AXES] = {0};
    for (int a = 0; a < nest->n_axes; a++)
        points *= extents[a] = nest->axes[a].extent;
    placed->point = CLEAVE_ARENA_ARRAY(arena, int32_t, points);
    placed->output = CLEAVE_ARENA_ARRAY(arena, int32_t, points);
    bool fits = placed->point != NULL && placed->output != NULL;
    for (int i = 0; i < nest->n_inputs; i++) {
        placed->inputs[i] = CLEAVE_ARENA_ARRAY(arena, int32_t, points);
        fits = fits && placed->inputs[i] != NULL;
    }
    int32_t first = fits ? e->element[nest->output.tensor][0] : 0;
    int64_t record = cleave_tensor_size(&e->model->tensors[nest->output.tensor]) / 3;
    for (int64_t p = 0; fits && p < points; p++, next_index(nest->n_axes, extents, point)) {
        int64_t n = placed->n_points;
        bool inside = true;
        placed->point[n] = (int32_t)p;
        placed->output[n] = locate(e, &nest->output, point);
        /* The other rows of a record of moments come with the first. */
        if (nest->combiner == CLEAVE_COMBINE_MOMENTS && placed->output[n] - first >= record)
            continue;
        for (int i = 0; i < nest->n_inputs; i++) {
            placed->inputs[i][n] = locate(e, &nest->inputs[i], point);
            inside = inside && placed->inputs[i][n] >= 0;
        }
        placed->n_points += inside;
    }
    return fits;
}

static void set_initial_values(const double_evaluator *e) {
    for (int32_t t = 0; t < e->model->n_tensors; t++) {
        const cleave_tensor *tensor = &e->model->tensors[t];
        if (tensor->view.kind != CLEAVE_VIEW_NONE)
            continue;
        for (int64_t i = 0; i < cleave_tensor_size(tensor); i++)
            double_evaluator_values(e, t)[i] = (double)tensor->initial_value;
        if (tensor->value != NULL && tensor->type == CLEAVE_F32)
            double_evaluator_set_floats(e, t, tensor->value);
        if (tensor->value != NULL && tensor->type == CLEAVE_I64)
            double_evaluator_set_integers(e, t, tensor->value);
    }
}

bool double_evaluator_create(const cleave_model *model, cleave_arena *arena, double_evaluator *e) {
    *e = (double_evaluator){.model = model};
    e->nests = CLEAVE_ARENA_ARRAY(arena, double_evaluator_nest, model->n_nests);
    if (e->nests == NULL || !place_tensors(e, arena))
        return false;
    for (int32_t n = 0; n < model->n_nests; n++)
        if (!place_nest(e, &model->nests[n], arena, &e->nests[n]))
            return false;
    set_initial_values(e);
    return true;
}

double *double_evaluator_values(const double_evaluator *e, int32_t tensor) {
    return e->memory + e->element[tensor][0];
}

double double_evaluator_element(const double_evaluator *e, int32_t tensor, int64_t i) {
    return e->memory[e->element[tensor][i]];
}

void double_evaluator_set_floats(const double_evaluator *e, int32_t tensor, const float *values) {
    for (int64_t i = 0; i < cleave_tensor_size(&e->model->tensors[tensor]); i++)
        double_evaluator_values(e, tensor)[i] = (double)values[i];
}

void double_evaluator_set_integers(const double_evaluator *e, int32_t tensor,
                                   const int64_t *values) {
    for (int64_t i = 0; i < cleave_tensor_size(&e->model->tensors[tensor]); i++)
        double_evaluator_values(e, tensor)[i] = (double)values[i];
}

/* ---- tapes ----------------------------------------------------------------------------------- */

static double unary_value(const cleave_instruction *it, double a) {
    switch (it->opcode) {
    case CLEAVE_OP_NEG:
        return -a;
    case CLEAVE_OP_ABS:
        return fabs(a);
    case CLEAVE_OP_EXP:
        return exp(a);
    case CLEAVE_OP_LOG:
        return log(a);
    case CLEAVE_OP_SQRT:
        return sqrt(a);
    case CLEAVE_OP_RSQRT:
        return 1 / sqrt(a);
    case CLEAVE_OP_RECIPROCAL:
        return 1 / a;
    case CLEAVE_OP_ERF:
        return erf(a);
    case CLEAVE_OP_RELU:
        return a > 0 ? a : 0;
    case CLEAVE_OP_LEAKY_RELU:
        return a > 0 ? a : it->p * a;
    case CLEAVE_OP_CLIP:
        return a < it->p ? it->p : a > it->q ? it->q : a;
    case CLEAVE_OP_SIGMOID:
        return 1 / (1 + exp(-a));
    case CLEAVE_OP_TANH:
        return tanh(a);
    case CLEAVE_OP_FLOOR:
        return floor(a);
    case CLEAVE_OP_CEIL:
        return ceil(a);
    case CLEAVE_OP_ROUND:
        return nearbyint(a);
    case CLEAVE_OP_TRUNC:
        return trunc(a);
    case CLEAVE_OP_SIGN:
        return (a > 0) - (a < 0);
    case CLEAVE_OP_LOG1P:
        return log1p(a);
    case CLEAVE_OP_SIN:
        return sin(a);
    case CLEAVE_OP_COS:
        return cos(a);
    case CLEAVE_OP_TAN:
        return tan(a);
    case CLEAVE_OP_ASIN:
        return asin(a);
    case CLEAVE_OP_ACOS:
        return acos(a);
    case CLEAVE_OP_ATAN:
        return atan(a);
    case CLEAVE_OP_SINH:
        return sinh(a);
    case CLEAVE_OP_COSH:
        return cosh(a);
    case CLEAVE_OP_ASINH:
        return asinh(a);
    case CLEAVE_OP_ACOSH:
        return acosh(a);
    case CLEAVE_OP_ATANH:
        return atanh(a);
    case CLEAVE_OP_SCALE:
        return it->p * a + it->q;
    case CLEAVE_OP_COPY:
        return a;
    default: /* one that this file does not know yet */
        return NAN;
    }
}

static double instruction_value(const cleave_instruction *it, double a, double b) {
    switch (it->opcode) {
    case CLEAVE_OP_CONSTANT:
        return it->p;
    case CLEAVE_OP_ADD:
        return a + b;
    case CLEAVE_OP_SUB:
        return a - b;
    case CLEAVE_OP_MUL:
        return a * b;
    case CLEAVE_OP_DIV:
        return a / b;
    case CLEAVE_OP_MIN:
        return fmin(a, b);
    case CLEAVE_OP_MAX:
        return fmax(a, b);
    case CLEAVE_OP_POW:
        return pow(a, b);
    case CLEAVE_OP_EQUAL:
        return a >= b && a <= b;
    case CLEAVE_OP_LESS:
        return a < b;
    case CLEAVE_OP_LESS_EQUAL:
        return a <= b;
    case CLEAVE_OP_MASK:
        return b > 0 || b < 0 ? a : 0;
    case CLEAVE_OP_FMOD:
        return fmod(a, b);
    default:
        return unary_value(it, a);
    }
}

static double axis_index(const cleave_nest *nest, int64_t point, int axis) {
    for (int a = nest->n_axes - 1; a > axis; a--)
        point /= nest->axes[a].extent;
    return (double)(point % nest->axes[axis].extent);
}

static double drawn(const double_evaluator *e, const cleave_nest *nest, int32_t output,
                    const cleave_instruction *it) {
    if (e->draw == NULL)
        return 1;
    return e->draw(e->context, it, &e->model->tensors[nest->output.tensor],
                   output - e->element[nest->output.tensor][0]);
}

static double tape_value(const double_evaluator *e, const cleave_nest *nest, int64_t n,
                         const double_evaluator_nest *placed) {
    double r[CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE];
    int used = nest->n_inputs;
    for (int i = 0; i < used; i++)
        r[i] = e->memory[placed->inputs[i][n]];
    for (int i = 0; i < nest->n_instructions; i++, used++) {
        const cleave_instruction *it = &nest->tape[i];
        int n_read = cleave_opcode_operands(it->opcode);
        double a = n_read > 0 ? r[it->a] : 0, b = n_read > 1 ? r[it->b] : 0;
        if (it->opcode == CLEAVE_OP_INDEX)
            r[used] = axis_index(nest, placed->point[n], it->a);
        else if (it->opcode == CLEAVE_OP_DROPOUT)
            r[used] = a * drawn(e, nest, placed->output[n], it);
        else if (it->opcode == CLEAVE_OP_UNIFORM)
            r[used] = drawn(e, nest, placed->output[n], it);
        else
            r[used] = instruction_value(it, a, b);
    }
    return r[used - 1];
}

/* ---- nests ----------------------------------------------------------------------------------- */

/* Welford's update of (count, mean, M2), which stand `stride` apart. */
static void add_moment(double *record, int64_t stride, double x) {
    double delta = x - record[stride];
    record[0] += 1;
    record[stride] += delta / record[0];
    record[2 * stride] += delta * (x - record[stride]);
}

static void run_nest(const double_evaluator *e, int32_t id) {
    const cleave_nest *nest = &e->model->nests[id];
    const double_evaluator_nest *placed = &e->nests[id];
    double *out = double_evaluator_values(e, nest->output.tensor);
    int64_t size = cleave_tensor_size(&e->model->tensors[nest->output.tensor]);
    for (int64_t i = 0; i < size; i++)
        out[i] = nest->combiner == CLEAVE_COMBINE_MAX ? -INFINITY : 0;
    for (int64_t n = 0; n < placed->n_points; n++) {
        double value = tape_value(e, nest, n, placed), *to = &e->memory[placed->output[n]];
        if (nest->combiner == CLEAVE_COMBINE_MOMENTS)
            add_moment(to, size / 3, value);
        else if (nest->combiner == CLEAVE_COMBINE_MAX)
            *to = fmax(*to, value);
        else
            *to = nest->combiner == CLEAVE_COMBINE_SUM ? *to + value : value;
    }
}

void double_evaluator_run(const double_evaluator *e) {
    for (int32_t n = 0; n < e->model->n_nests; n++)
        run_nest(e, n);
}

static bool reaches(const double_evaluator *e, const bool *changed, int32_t tensor) {
    const cleave_view *view = &e->model->tensors[tensor].view;
    bool any = changed[tensor];
    for (int32_t i = 0; !any && view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        any = reaches(e, changed, view->sources[i]);
    return any;
}

int32_t double_evaluator_influence(const double_evaluator *e, int32_t tensor, int32_t *nests) {
    cleave_arena scratch = {0};
    bool *changed = CLEAVE_ARENA_ARRAY(&scratch, bool, e->model->n_tensors);
    int32_t found = 0;
    changed[tensor] = true;
    for (int32_t n = 0; n < e->model->n_nests; n++) {
        const cleave_nest *nest = &e->model->nests[n];
        for (int i = 0; i < nest->n_inputs && !changed[nest->output.tensor]; i++)
            changed[nest->output.tensor] = reaches(e, changed, nest->inputs[i].tensor);
        if (changed[nest->output.tensor])
            nests[found++] = n;
    }
    cleave_arena_free(&scratch);
    return found;
}

void double_evaluator_run_some(const double_evaluator *e, int32_t n, const int32_t *nests) {
    for (int32_t i = 0; i < n; i++)
        run_nest(e, nests[i]);
}
