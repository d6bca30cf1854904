/* Writes the models that the property test draws into a folder, as seeds: some of every operator,
   each ending in the operator's own outputs.
     usage: draw_models FOLDER NUMBER */
#include "../support/generators.h"
#include "base/random.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int write_model(const char *folder, const generator *g, uint64_t seed) {
    cleave_arena arena = {0};
    drawn_model *m = CLEAVE_ARENA_ARRAY(&arena, drawn_model, 1);
    if (m == NULL)
        return 1;
    m->arena = &arena;
    m->random.key = cleave_hash_join(cleave_hash_string(g->type), seed);
    m->opset = (int)draw_between(m, g->least_opset > 9 ? g->least_opset : 9, 21);
    g->draw(m, g->type);
    for (int i = 0; i < m->n_outputs; i++)
        value_info(&m->graph, 12, m->outputs[i].name, m->outputs[i].is_float ? 1 : 7, "");
    bytes file = model_file(&m->graph, m->opset);
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d.onnx", folder, g->type, (int)seed);
    FILE *to = fopen(path, "wb");
    int code = to == NULL || fwrite(file.data, 1, file.n, to) != file.n;
    if (to != NULL && fclose(to) != 0)
        code = 1;
    if (code != 0)
        fprintf(stderr, "draw_models: can't write %s\n", path);
    cleave_arena_free(&arena);
    return code;
}

int main(int n_arguments, char **arguments) {
    if (n_arguments != 3) {
        fprintf(stderr, "usage: draw_models FOLDER NUMBER\n");
        return 2;
    }
    const generator *g;
    for (int i = 0; (g = generator_at(i)) != NULL; i++)
        for (int seed = 0; seed < atoi(arguments[2]); seed++)
            if (write_model(arguments[1], g, (uint64_t)seed) != 0)
                return 1;
    return 0;
}
