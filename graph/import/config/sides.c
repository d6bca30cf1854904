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
