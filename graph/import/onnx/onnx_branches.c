/* What the branches of a node read from outside of them. */
#include "graph/import/onnx/onnx_branches.h"

#include "graph/model/name_map.h"

typedef struct captured {
    cleave_name_map known; /* defined in the branch, or an input already */
    const char **inputs;   /* [n], with room for all that is read */
    int32_t n;
    cleave_arena scratch;
} captured;

static bool know(captured *c, const char *name) { return cleave_name_map_set(&c->known, name, 0); }

static bool add(captured *c, const char *name) {
    if (name[0] == '\0' || cleave_name_map_find(&c->known, name) >= 0)
        return true;
    c->inputs[c->n++] = name;
    return know(c, name);
}

static int64_t count_reads(const cleave_onnx_node *node) {
    int64_t n = node->n_inputs;
    for (int32_t i = 0; i < node->n_attributes; i++) {
        const cleave_onnx_graph *branch = node->attributes[i].graph;
        n += branch != NULL ? branch->n_outputs : 0;
        for (int32_t k = 0; branch != NULL && k < branch->n_nodes; k++)
            n += branch->nodes[k].n_inputs;
    }
    return n;
}

static bool add_branch(captured *c, const cleave_onnx_graph *branch) {
    bool ok = true;
    for (int32_t i = 0; i < branch->n_initializers; i++)
        ok = ok && know(c, branch->initializers[i].name);
    for (int32_t k = 0; k < branch->n_nodes; k++)
        for (int32_t i = 0; i < branch->nodes[k].n_outputs; i++)
            ok = ok && know(c, branch->nodes[k].outputs[i]);
    for (int32_t k = 0; k < branch->n_nodes; k++)
        for (int32_t i = 0; i < branch->nodes[k].n_inputs; i++)
            ok = ok && add(c, branch->nodes[k].inputs[i]);
    for (int32_t i = 0; i < branch->n_outputs; i++)
        ok = ok && add(c, branch->outputs[i].name);
    return ok;
}

cleave_status cleave_onnx_add_captured(cleave_onnx_node *node, cleave_arena *arena,
                                       cleave_error *error) {
    captured c = {.inputs = CLEAVE_ARENA_ARRAY(arena, const char *, count_reads(node)),
                  .n = node->n_inputs};
    c.known.arena = &c.scratch;
    bool ok = c.inputs != NULL;
    for (int32_t i = 0; ok && i < node->n_inputs; i++) {
        c.inputs[i] = node->inputs[i];
        ok = know(&c, node->inputs[i]);
    }
    for (int32_t i = 0; i < node->n_attributes; i++)
        if (node->attributes[i].graph != NULL)
            ok = ok && add_branch(&c, node->attributes[i].graph);
    cleave_arena_free(&c.scratch);
    if (!ok)
        return cleave_fail_memory(error, "reading the branches of a node");
    node->inputs = c.inputs;
    node->n_inputs = c.n;
    return CLEAVE_OK;
}
