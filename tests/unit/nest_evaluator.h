/* Evaluates a model straight from its nests, forward, in doubles: every point of the axes, one
   after the other.  It shares nothing with the kernels, so a test that compares it with numbers
   from elsewhere is a test of what the importer built. */
#ifndef CLEAVE_TESTS_NEST_EVALUATOR_H
#define CLEAVE_TESTS_NEST_EVALUATOR_H

#include "graph/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct evaluation {
    const cleave_model *model;
    double **values; /* [n_tensors], row-major; null for views */
} evaluation;

static inline int64_t linear_index(const cleave_tensor *tensor, const int64_t *index) {
    int64_t at = 0;
    for (int d = 0; d < tensor->rank; d++)
        at = at * tensor->shape[d] + index[d];
    return at;
}

static inline double element(const evaluation *e, int32_t id, const int64_t *index) {
    const cleave_tensor *tensor = &e->model->tensors[id];
    const cleave_view *view = &tensor->view;
    int64_t at[CLEAVE_MAX_RANK] = {0};
    memcpy(at, index, (size_t)tensor->rank * sizeof *at);
    if (view->kind == CLEAVE_VIEW_NONE)
        return e->values[id][linear_index(tensor, index)];
    const cleave_tensor *source = &e->model->tensors[view->sources[0]];
    int32_t from = view->sources[0];
    if (view->kind == CLEAVE_VIEW_RESHAPE) {
        int64_t rest = linear_index(tensor, index);
        for (int d = source->rank - 1; d >= 0; d--) {
            at[d] = rest % source->shape[d];
            rest /= source->shape[d];
        }
    } else if (view->kind == CLEAVE_VIEW_TRANSPOSE) {
        for (int d = 0; d < tensor->rank; d++)
            at[view->permutation[d]] = index[d];
    } else if (view->kind == CLEAVE_VIEW_CONCAT) {
        for (int32_t i = 0; at[view->axis] >= e->model->tensors[from].shape[view->axis];) {
            at[view->axis] -= e->model->tensors[from].shape[view->axis];
            from = view->sources[++i];
        }
    } else if (view->kind == CLEAVE_VIEW_SLICE) {
        for (int d = 0; d < tensor->rank; d++)
            at[d] = view->begin[d] + view->step[d] * index[d];
    } else {
        for (int d = 0; d < tensor->rank; d++) {
            at[d] = index[d] - view->begin[d];
            if (at[d] < 0 || at[d] >= source->shape[d])
                return (double)view->fill;
        }
    }
    return element(e, from, at);
}

static inline bool locate(const evaluation *e, const cleave_operand *operand, const int64_t *point,
                          int64_t *index) {
    const cleave_tensor *tensor = &e->model->tensors[operand->tensor];
    bool inside = true;
    for (int d = 0; d < tensor->rank; d++) {
        const cleave_dimension_map *map = &operand->map[d];
        index[d] = map->offset;
        for (int t = 0; t < map->n_terms; t++)
            index[d] += map->terms[t].stride * point[map->terms[t].axis];
        inside = inside && index[d] >= 0 && index[d] < tensor->shape[d];
    }
    return inside;
}

static inline double instruction_value(const cleave_instruction *it, const double *r,
                                       const int64_t *point) {
    double a = it->opcode == CLEAVE_OP_INDEX ? 0 : r[it->a], b = r[it->b];
    switch (it->opcode) {
    case CLEAVE_OP_CONSTANT:
        return it->p;
    case CLEAVE_OP_INDEX:
        return (double)point[it->a];
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
        return a == b;
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
    case CLEAVE_OP_LESS:
        return a < b;
    case CLEAVE_OP_LESS_EQUAL:
        return a <= b;
    case CLEAVE_OP_MASK:
        return b > 0 || b < 0 ? a : 0;
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
    case CLEAVE_OP_FMOD:
        return fmod(a, b);
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
    default: /* COPY; dropout is not evaluated */
        return a;
    }
}

/* The tape's value at a point; false where an operand has no element there. */
static inline bool point_value(const evaluation *e, const cleave_nest *nest, const int64_t *point,
                               double *value) {
    double r[CLEAVE_MAX_INPUTS + CLEAVE_MAX_TAPE] = {0};
    int64_t index[CLEAVE_MAX_RANK];
    for (int i = 0; i < nest->n_inputs; i++) {
        if (!locate(e, &nest->inputs[i], point, index))
            return false;
        r[i] = element(e, nest->inputs[i].tensor, index);
    }
    for (int i = 0; i < nest->n_instructions; i++)
        r[nest->n_inputs + i] = instruction_value(&nest->tape[i], r, point);
    *value = r[nest->n_inputs + nest->n_instructions - 1];
    return true;
}

/* Welford's update of (count, mean, M2), which stand `stride` apart. */
static inline void add_moment(double *record, int64_t stride, double x) {
    double delta = x - record[stride];
    record[0] += 1;
    record[stride] += delta / record[0];
    record[2 * stride] += delta * (x - record[stride]);
}

static inline void evaluate_nest(evaluation *e, const cleave_nest *nest) {
    const cleave_tensor *tensor = &e->model->tensors[nest->output.tensor];
    int64_t size = cleave_tensor_size(tensor), points = 1, index[CLEAVE_MAX_RANK] = {0};
    bool moments = nest->combiner == CLEAVE_COMBINE_MOMENTS;
    double *out = calloc((size_t)size, sizeof *out);
    for (int64_t i = 0; i < size; i++)
        out[i] = nest->combiner == CLEAVE_COMBINE_MAX ? -INFINITY : 0;
    for (int a = 0; a < nest->n_axes; a++)
        points *= nest->axes[a].extent;
    for (int64_t i = 0; i < points; i++) {
        int64_t point[CLEAVE_MAX_AXES], rest = i;
        double value;
        for (int a = nest->n_axes - 1; a >= 0; a--) {
            point[a] = rest % nest->axes[a].extent;
            rest /= nest->axes[a].extent;
        }
        locate(e, &nest->output, point, index);
        if ((moments && index[0] != 0) || !point_value(e, nest, point, &value))
            continue;
        double *to = &out[linear_index(tensor, index)];
        if (moments)
            add_moment(to, size / 3, value);
        else
            *to = nest->combiner == CLEAVE_COMBINE_NONE  ? value
                  : nest->combiner == CLEAVE_COMBINE_MAX ? fmax(*to, value)
                                                         : *to + value;
    }
    e->values[nest->output.tensor] = out;
}

/* Sets a tensor that no nest writes. */
static inline void set_floats(evaluation *e, int32_t id, const float *values) {
    int64_t size = cleave_tensor_size(&e->model->tensors[id]);
    e->values[id] = calloc((size_t)size, sizeof(double));
    for (int64_t i = 0; i < size; i++)
        e->values[id][i] = (double)values[i];
}

static inline evaluation begin_evaluation(const cleave_model *model) {
    evaluation e = {model, calloc((size_t)model->n_tensors, sizeof(double *))};
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->value != NULL && tensor->type == CLEAVE_I64) {
            e.values[t] = calloc((size_t)cleave_tensor_size(tensor), sizeof(double));
            for (int64_t i = 0; i < cleave_tensor_size(tensor); i++)
                e.values[t][i] = (double)((const int64_t *)tensor->value)[i];
        }
        if (tensor->value != NULL && tensor->type == CLEAVE_F32)
            set_floats(&e, t, tensor->value);
    }
    return e;
}

static inline void evaluate(evaluation *e) {
    for (int32_t n = 0; n < e->model->n_nests; n++)
        evaluate_nest(e, &e->model->nests[n]);
}

static inline void end_evaluation(evaluation *e) {
    for (int32_t t = 0; t < e->model->n_tensors; t++)
        free(e->values[t]);
    free(e->values);
}

#endif
