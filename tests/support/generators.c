/* All tables of generators as one. */
#include "generators.h"

#include <string.h>

const generator *generator_at(int i) {
    const generator *const tables[] = {elementwise_generators, view_generators,
                                       reduction_generators,   window_generators,
                                       product_generators,     lookup_generators};
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const generator *g = tables[t]; g->type != NULL; g++)
            if (i-- == 0)
                return g;
    return NULL;
}

const generator *generator_find(const char *type) {
    const generator *g;
    for (int i = 0; (g = generator_at(i)) != NULL; i++)
        if (strcmp(g->type, type) == 0)
            return g;
    return NULL;
}
