#include "graph/import/config/sides.h"

const char *cleave_compose_sides(cleave_composer *c, const char *scope, const char *x,
                                 const char *equation, int rank, const int64_t *shape) {
    int64_t rows = 1;
    for (int i = 0; i + 1 < rank; i++)
        rows *= shape[i];
    const char *weight = cleave_compose_parameter(c, cleave_compose_name(c, "%s.weight", scope), 2,
                                                  (int64_t[]){rows, shape[rank - 1]});
    weight =
        cleave_compose_reshape(c, cleave_compose_name(c, "%s.sides", scope), weight, rank, shape);
    x = CLEAVE_COMPOSE(c, "Einsum", scope, x, weight);
    cleave_compose_text(c, "equation", equation);
    return x;
}

const char *cleave_compose_side(cleave_composer *c, const char *name, const char *x, int dimension,
                                int64_t side, int64_t length, int64_t n) {
    x = cleave_compose_slice(c, cleave_compose_name(c, "%s.side", name), x, dimension, side,
                             side + 1);
    return cleave_compose_reshape(c, name, x, 3, (int64_t[]){0, length, n});
}

/* Adds the bias SCOPE.bias, n of each side. */
static const char *add_biases(cleave_composer *c, const char *scope, const char *x, int64_t n) {
    const char *bias = cleave_compose_parameter(c, cleave_compose_name(c, "%s.bias", scope), 1,
                                                (int64_t[]){2 * n});
    bias = cleave_compose_reshape(c, cleave_compose_name(c, "%s.biases", scope), bias, 2,
                                  (int64_t[]){2, n});
    return CLEAVE_COMPOSE(c, "Add", cleave_compose_name(c, "%s.biased", scope), x, bias);
}

const char *cleave_compose_gated_sides(cleave_composer *c, const char *scope, const char *x,
                                       const cleave_gated_sides *of) {
    const char *product = cleave_compose_name(c, "%s.%s", scope, of->module);
    x = cleave_compose_sides(c, product, x, "ntd,sfd->ntsf", 3,
                             (int64_t[]){2, of->inner, of->width});
    if (of->bias)
        x = add_biases(c, product, x, of->inner);
    const char *gate = cleave_compose_side(c, cleave_compose_name(c, "%s.gate", scope), x, 2, 0,
                                           of->length, of->inner);
    const char *up = cleave_compose_side(c, cleave_compose_name(c, "%s.up", scope), x, 2, 1,
                                         of->length, of->inner);
    gate = cleave_compose_activation(c, cleave_activation_find(of->activation),
                                     cleave_compose_name(c, "%s.%s", scope, of->function), gate);
    return CLEAVE_COMPOSE(c, "Mul", cleave_compose_name(c, "%s.gated", scope), up, gate);
}
