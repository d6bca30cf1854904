/* Layers of experts, of which a framework has two modules more than their router: the layer, in
   which each device has tokens and all is local, and the experts, whose parameters are of all of
   them.

   So what is cut is said by two operators: the router says which tokens a device routes, the last
   product of the experts whether these are cut by tokens, by experts, or within each.  All else
   between them is done within these modules, and is cut as they are. */
#include "graph/export/make.h"

#include <string.h>

typedef struct layer {
    const cleave_model *model;
    cleave_planned_operator *operators;
    const char *scope; /* its module, "model.layers.0.mlp" */
    size_t n_scope;
    int32_t route, router, experts; /* operators; -1: there is none */
    bool weighs;                    /* results of experts are weighed and added, else inputs */
} layer;

/* The name of an operator within the layer; null: it is outside. */
static const char *name_within(const layer *l, int32_t op) {
    const char *name = l->model->operators[op].name;
    bool inside = strncmp(name, l->scope, l->n_scope) == 0 && name[l->n_scope] == '.';
    return inside ? name + l->n_scope + 1 : NULL;
}

/* Is it between the tokens and what experts make of them? */
static bool is_of_experts(const layer *l, int32_t op) {
    static const char *const names[] = {"dispatch", "collect", "combine"};
    const char *name = name_within(l, op);
    for (size_t i = 0; name != NULL && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return name != NULL && strncmp(name, "experts.", 8) == 0;
}

static bool has_own(const cleave_frame *frame) {
    for (int32_t i = 0; i < frame->n_parameters; i++)
        if (frame->parameters[i].of_main)
            return true;
    return false;
}

static void mark_read(const layer *l, int32_t op, bool *needed) {
    for (int32_t k = 0; k < l->model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &l->model->nests[l->model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++)
            needed[cleave_tensor_base(l->model, nest->inputs[i].tensor)] = true;
    }
}

static bool is_needed(const layer *l, int32_t op, const bool *needed) {
    for (int32_t k = 0; k < l->model->operators[op].n_nests; k++)
        if (needed[l->model->nests[l->model->operators[op].nests[k]].output.tensor])
            return true;
    return false;
}

static int axis_of(const cleave_operator *op, const char *name) {
    for (int a = 0; a < op->n_axes; a++)
        if (strcmp(op->axes[a].name, name) == 0)
            return a;
    return CLEAVE_MESH_REPEATS;
}

/* `op` is cut as `leader` is: by samples, which are the first axis of all, by experts, whose rows
   are those of the table that is collected, and within experts. */
static void lead(const layer *l, int32_t op, int32_t leader) {
    const cleave_operator *of = &l->model->operators[leader], *self = &l->model->operators[op];
    cleave_planned_operator *planned = &l->operators[op];
    planned->leader = leader;
    planned->router = l->router;
    planned->experts = l->experts;
    memset(planned->as, CLEAVE_MESH_REPEATS, sizeof planned->as);
    planned->as[0] = 0;
    if (leader == l->router)
        return;
    bool collects = strcmp(name_within(l, op), "collect") == 0;
    for (int a = 1; a < of->n_axes; a++)
        if (strcmp(of->axes[a].name, "e") == 0)
            planned->as[a] = (int8_t)axis_of(self, collects ? "v" : "e");
        else if (strcmp(of->axes[a].name, "f") == 0)
            planned->as[a] = (int8_t)axis_of(self, "f");
}

/* ---- frames ---- */

/* Both modules have tokens, which are samples first, in the first dimension of all that they are
   given and give. */
static void frame_tokens(const cleave_operator *op, const char *cannot, cleave_frame *frame) {
    frame->rank = 0;
    for (int a = 0; a < op->n_axes; a++) {
        frame->input[a] = frame->output[a] = a == 0 ? 0 : CLEAVE_FRAME_APART;
        frame->cannot[a] = a == 0 ? NULL : cannot;
        frame->differs[a] = NULL;
        frame->even[a] = true;
        frame->sums[a] = false;
    }
}

/* The layer may show modules in it the tokens of all samples in one dimension. */
static void frame_flat(const cleave_operator *op, cleave_frame *frame) {
    for (int a = 0; a < op->n_axes; a++)
        if (frame->cannot[a] == NULL && frame->input[a] > 0 && frame->output[a] == frame->input[a])
            frame->cannot[a] = "layers of experts have the tokens of all samples in one dimension";
}

/* How an axis of an operator lies in a parameter of which it reads a slice. */
static int find_runs(const layer *l, int32_t op, int32_t parameter, int axis) {
    const cleave_tensor *whole = &l->model->tensors[parameter];
    for (int32_t k = 0; k < l->model->operators[op].n_nests; k++) {
        const cleave_nest *nest = &l->model->nests[l->model->operators[op].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++) {
            const cleave_tensor *read = &l->model->tensors[nest->inputs[i].tensor];
            bool slices = read->view.kind == CLEAVE_VIEW_SLICE &&
                          read->view.sources[0] == parameter && whole->file_rank == 0;
            int d = slices ? cleave_frame_dimension(l->model, nest, &nest->inputs[i], axis) : -1;
            int64_t runs = d >= 0 ? whole->shape[d] / read->shape[d] : 1;
            if (d >= 0 && runs > 1 && runs <= CLEAVE_FRAME_MOST_RUNS &&
                whole->shape[d] == runs * read->shape[d])
                return cleave_frame_of_runs(d, (int)runs);
        }
    }
    return CLEAVE_FRAME_STRIDED;
}

/* As dimensions of a parameter lie by the leader's axes. */
static void take_dimensions(const layer *l, int32_t op, const cleave_frame_parameter *read,
                            cleave_frame_parameter *result) {
    for (int a = 0; a < l->model->operators[l->experts].n_axes; a++) {
        int8_t own = op == l->experts ? (int8_t)a : l->operators[op].as[a];
        int d = own >= 0 ? read->dimension[own] : CLEAVE_FRAME_APART;
        if (d == CLEAVE_FRAME_STRIDED)
            d = find_runs(l, op, read->tensor, own);
        if (d != CLEAVE_FRAME_APART)
            result->dimension[a] = (int8_t)d;
    }
}

/* The parameters of all operators of the experts are their one module's. */
static bool gather_parameters(const layer *l, cleave_arena *arena, cleave_frame *frame) {
    int32_t n = 0;
    for (int32_t op = l->route; op < l->model->n_operators; op++)
        n += is_of_experts(l, op) ? l->operators[op].frame.n_parameters : 0;
    cleave_frame_parameter *all = CLEAVE_ARENA_ARRAY(arena, cleave_frame_parameter, n);
    n = 0;
    for (int32_t op = l->route; op < l->model->n_operators && all != NULL; op++)
        for (int32_t i = 0; is_of_experts(l, op) && i < l->operators[op].frame.n_parameters; i++) {
            const cleave_frame_parameter *read = &l->operators[op].frame.parameters[i];
            int32_t at = 0;
            while (at < n && all[at].tensor != read->tensor)
                at++;
            if (at == n) {
                all[n] = (cleave_frame_parameter){.tensor = read->tensor, .of_main = true};
                memset(all[n++].dimension, CLEAVE_FRAME_APART, sizeof all[at].dimension);
            }
            take_dimensions(l, op, read, &all[at]);
        }
    frame->n_parameters = n;
    frame->parameters = all;
    return all != NULL;
}

static void frame_experts(const layer *l, cleave_frame *frame) {
    const cleave_operator *op = &l->model->operators[l->experts];
    const int within[] = {axis_of(op, "e"), axis_of(op, "f")};
    frame_tokens(op, "what is within experts is their module's own", frame);
    for (int i = 0; i < 2; i++) {
        int a = within[i];
        frame->sums[a] = true;
        frame->cannot[a] = l->weighs ? NULL : "the module is given a table, and no choices";
        for (int32_t p = 0; p < frame->n_parameters; p++) {
            int d = frame->parameters[p].dimension[a];
            if (d == CLEAVE_FRAME_STRIDED)
                frame->cannot[a] = "its blocks are no blocks of a parameter of the module";
            else if (d >= CLEAVE_FRAME_RUNS)
                frame->differs[a] = "a parameter has gate and up in one dimension: it is stored in "
                                    "blocks of another, and exchanged for each step";
        }
    }
}

/* ---- the layer ---- */

static cleave_module_name name_module(const char *module) {
    return (cleave_module_name){CLEAVE_NAMED_MODULE, module, module, -1};
}

/* "a.b" of "a.b.weight". */
static const char *owner_of(const layer *l, int32_t op, cleave_arena *arena) {
    const cleave_frame *frame = &l->operators[op].frame;
    int32_t i = 0;
    while (!frame->parameters[i].of_main)
        i++;
    const char *name = l->model->tensors[frame->parameters[i].tensor].name;
    const char *own = cleave_export_own_name(name);
    return cleave_arena_string_n(arena, name, own > name ? (size_t)(own - name) - 1 : 0);
}

/* Finds what the layer is made of: what its routes hang on, and its experts. */
static void find_parts(layer *l, bool *feeds, bool *needed) {
    l->router = l->experts = -1;
    memset(needed, 0, (size_t)l->model->n_tensors * sizeof *needed);
    mark_read(l, l->route, needed);
    for (int32_t op = l->route - 1; op >= 0; op--) {
        feeds[op] = name_within(l, op) != NULL && is_needed(l, op, needed);
        if (feeds[op])
            mark_read(l, op, needed);
        if (feeds[op] && has_own(&l->operators[op].frame))
            l->router = op;
    }
    for (int32_t op = l->route; op < l->model->n_operators; op++) {
        if (is_of_experts(l, op) && has_own(&l->operators[op].frame))
            l->experts = op;
        const char *name = name_within(l, op);
        l->weighs = l->weighs || (name != NULL && strcmp(name, "combine") == 0);
    }
}

/* Does it add something to what the experts give? */
static bool adds_to(const layer *l, int32_t op, bool *needed) {
    memset(needed, 0, (size_t)l->model->n_tensors * sizeof *needed);
    mark_read(l, op, needed);
    for (int32_t other = l->route; other < op; other++)
        if (is_of_experts(l, other) && is_needed(l, other, needed))
            return true;
    return false;
}

static bool name_layer(layer *l, const bool *feeds, bool *needed, cleave_arena *arena) {
    for (int32_t op = 0; op < l->model->n_operators; op++) {
        const char *name = name_within(l, op);
        if (name == NULL)
            continue;
        bool experts = is_of_experts(l, op), combines = strcmp(name, "combine") == 0;
        bool routes = op <= l->route && (op == l->route || feeds[op]);
        l->operators[op].in_layer = true;
        l->operators[op].combines = combines;
        frame_flat(&l->model->operators[op], &l->operators[op].frame);
        if (experts || routes || (op > l->route && adds_to(l, op, needed))) {
            l->operators[op].name = (cleave_module_name){CLEAVE_NAMED_NOTHING, "", l->scope, -1};
            lead(l, op, experts && !combines ? l->experts : l->router);
        }
    }
    const char *experts = cleave_arena_printf(arena, "%s.experts", l->scope);
    const char *router = owner_of(l, l->router, arena);
    cleave_frame *frame = &l->operators[l->experts].frame;
    if (experts == NULL || router == NULL || !gather_parameters(l, arena, frame))
        return false;
    frame_experts(l, frame);
    frame_tokens(&l->model->operators[l->route], NULL, &l->operators[l->route].frame);
    frame_tokens(&l->model->operators[l->router], "a router looks at all of its experts at once",
                 &l->operators[l->router].frame);
    l->operators[l->route].name = name_module(l->scope);
    l->operators[l->router].name = name_module(router);
    l->operators[l->experts].name = name_module(experts);
    return true;
}

cleave_status cleave_export_find_experts(const cleave_model *model,
                                         cleave_planned_operator *operators, cleave_arena *arena,
                                         cleave_error *error) {
    static const char end[] = ".route";
    cleave_arena scratch = {0};
    bool *feeds = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_operators);
    bool *needed = CLEAVE_ARENA_ARRAY(&scratch, bool, model->n_tensors);
    bool fits = feeds != NULL && needed != NULL;
    for (int32_t op = 0; op < model->n_operators && fits; op++) {
        const char *name = model->operators[op].name;
        size_t n = strlen(name), n_end = sizeof end - 1;
        if (strcmp(model->operators[op].type, "Route") != 0 || n <= n_end ||
            strcmp(name + n - n_end, end) != 0)
            continue;
        layer l = {.model = model, .operators = operators, .n_scope = n - n_end, .route = op};
        l.scope = cleave_arena_string_n(arena, name, l.n_scope);
        fits = l.scope != NULL;
        if (fits)
            find_parts(&l, feeds, needed);
        if (fits && l.router >= 0 && l.experts >= 0)
            fits = name_layer(&l, feeds, needed, arena);
    }
    cleave_arena_free(&scratch);
    return fits ? CLEAVE_OK : cleave_fail_memory(error, "naming modules");
}

void cleave_export_settle_experts(cleave_export_maker *make) {
    cleave_planned_operator *operators = make->plan->operators;
    int n = make->plan->mesh.n;
    for (int32_t op = 0; op < make->model->n_operators; op++) {
        cleave_planned_operator *planned = &operators[op];
        cleave_mesh_cut wanted = planned->cut;
        if (planned->leader < 0)
            continue;
        const cleave_mesh_cut *said = &operators[planned->leader].cut;
        for (int i = 0; i < n && planned->leader != op; i++)
            planned->cut.axis[i] =
                said->axis[i] < 0 ? CLEAVE_MESH_REPEATS : planned->as[said->axis[i]];
        if (memcmp(&wanted, &planned->cut, (size_t)n * sizeof wanted.axis[0]) != 0)
            cleave_export_lose(make, op, -1, "experts",
                               "it is done in a module with others, and cut as that is");
    }
}
