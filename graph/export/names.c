/* What a framework calls things.

   Exporters to ONNX keep the names of parameters, "features.0.weight", so the module of an operator
   is what they have before the last dot.  Nodes are called by the modules that they are called in,
   "/features/features.2/MaxPool" is of features.2; operators of a config.json have their modules'
   names. */
#include "graph/export/names.h"

#include "graph/model/name_map.h"

#include <string.h>

const char *cleave_export_own_name(const char *parameter) {
    const char *dot = strrchr(parameter, '.');
    return dot == NULL ? parameter : dot + 1;
}

/* Appends a part of a node's name to a module's: where it repeats the last word, it replaces it. */
static char *join(cleave_arena *arena, const char *module, const char *part, size_t bytes) {
    const char *last = cleave_export_own_name(module);
    size_t n = strlen(last);
    bool repeats = n > 0 && bytes > n && strncmp(part, last, n) == 0 && part[n] == '.';
    if (module[0] == '\0')
        return cleave_arena_string_n(arena, part, bytes);
    if (repeats)
        return cleave_arena_printf(arena, "%.*s%.*s", (int)(last - module), module, (int)bytes,
                                   part);
    return cleave_arena_printf(arena, "%s.%.*s", module, (int)bytes, part);
}

/* The module in which a node lies, by its name; "" where that says none. */
static cleave_status find_scope(const char *node, cleave_arena *arena, const char **scope,
                                cleave_error *error) {
    bool is_one_of_many =
        node[0] != '@' && strchr(node, '@') != NULL; /* its module does others, too */
    bool says_none = node[0] == '/' || strncmp(node, "node_", 5) == 0 || is_one_of_many;
    const char *module = says_none ? "" : node;
    const char *part = node + 1, *end;
    while (node[0] == '/' && module != NULL && (end = strchr(part, '/')) != NULL) {
        module = join(arena, module, part, (size_t)(end - part));
        part = end + 1;
    }
    if (module == NULL)
        return cleave_fail_memory(error, "naming modules");
    *scope = module;
    return CLEAVE_OK;
}

/* What the parameters of an operator's main nest have before the last dot, if they all have the
   same; else "". */
static cleave_status find_owner(const cleave_model *model, const cleave_frame *frame,
                                cleave_arena *arena, const char **owner, cleave_error *error) {
    const char *first = NULL;
    *owner = "";
    for (int32_t i = 0; i < frame->n_parameters; i++) {
        if (!frame->parameters[i].of_main)
            continue;
        const char *name = model->tensors[frame->parameters[i].tensor].name;
        const char *own = cleave_export_own_name(name);
        char *before =
            cleave_arena_string_n(arena, name, own > name ? (size_t)(own - name) - 1 : 0);
        if (before == NULL)
            return cleave_fail_memory(error, "naming modules");
        if (first != NULL && strcmp(first, before) != 0)
            return CLEAVE_OK;
        first = before;
    }
    if (first != NULL)
        *owner = first;
    return CLEAVE_OK;
}

/* How many operators have parameters of a module, how many with work of a module's own are done in
   one call of one, the modules that have others in them, those that hold parameters, and what nodes
   say they lie in. */
typedef struct claim_table {
    cleave_name_map owners, callers, parents, holders, scopes;
} claim_table;

static bool claim(cleave_name_map *map, const char *module) {
    int32_t n = cleave_name_map_find(map, module);
    return cleave_name_map_set(map, module, n < 0 ? 1 : n + 1);
}

static bool add_parents(cleave_name_map *parents, const char *module) {
    for (const char *dot = strchr(module, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        char *parent = cleave_arena_string_n(parents->arena, module, (size_t)(dot - module));
        if (parent == NULL || !cleave_name_map_set(parents, parent, 1))
            return false;
    }
    return true;
}

static bool is_leaf(const claim_table *claims, const char *module) {
    return module[0] != '\0' && cleave_name_map_find(&claims->parents, module) < 0;
}

static bool is_attention(const cleave_operator *op) { return strcmp(op->type, "Attention") == 0; }

/* Does a module without parameters do this? */
static bool acts(const cleave_model *model, const cleave_operator *op) {
    return model->nests[op->main_nest].kind == CLEAVE_NEST_POOL || strcmp(op->type, "Dropout") == 0;
}

/* Does a node lie in a module, as what only a part of a module's forward does? */
static bool lies_in(const char *scope, const char *module) {
    size_t n = strlen(module);
    return strncmp(scope, module, n) == 0 && scope[n] == '.';
}

/* ---- modules that are called several times ---- */

/* Does an operator read a parameter that a module holds, or one in it? */
static bool reads_of(const cleave_model *model, const cleave_frame *frame, const char *module) {
    for (int32_t i = 0; i < frame->n_parameters; i++)
        if (lies_in(model->tensors[frame->parameters[i].tensor].name, module))
            return true;
    return false;
}

/* Exporters number calls of a module that is called again, "a_1", where a node lies in it itself:
   cuts that off, but of a module that is called so. */
static cleave_status find_module(const cleave_model *model, const cleave_frame *frame,
                                 const claim_table *claims, const char *owner, const char *scope,
                                 const char **module, cleave_error *error) {
    const char *line = strrchr(scope, '_');
    *module = scope;
    if (line == NULL || line == scope || line[1] == '\0' ||
        strspn(line + 1, "0123456789") != strlen(line + 1) || reads_of(model, frame, scope))
        return CLEAVE_OK;
    char *before = cleave_arena_string_n(claims->owners.arena, scope, (size_t)(line - scope));
    if (before == NULL)
        return cleave_fail_memory(error, "naming modules");
    if (strcmp(owner, before) == 0 || (cleave_name_map_find(&claims->scopes, before) >= 0 &&
                                       cleave_name_map_find(&claims->holders, scope) < 0))
        *module = before;
    return CLEAVE_OK;
}

/* One call of a module. */
static const char *find_call(cleave_arena *arena, const char *module, const char *scope) {
    return module == scope ? scope : cleave_arena_printf(arena, "%s\n%s", module, scope);
}

static bool is_same_parameter(const cleave_frame_parameter *a, const cleave_frame_parameter *b) {
    return a->tensor == b->tensor && a->of_main == b->of_main &&
           memcmp(a->dimension, b->dimension, sizeof a->dimension) == 0;
}

/* Can one way to cut a module be meant for both of these calls? */
static bool are_alike(const cleave_model *model, const cleave_frame *frames, int32_t a, int32_t b) {
    const cleave_operator *first = &model->operators[a], *again = &model->operators[b];
    const cleave_frame *f = &frames[a], *g = &frames[b];
    bool alike = strcmp(first->type, again->type) == 0 && first->n_axes == again->n_axes &&
                 f->rank == g->rank && f->n_parameters == g->n_parameters;
    for (int i = 0; alike && i < first->n_axes; i++)
        alike = strcmp(first->axes[i].name, again->axes[i].name) == 0 &&
                f->input[i] == g->input[i] && f->output[i] == g->output[i] &&
                f->even[i] == g->even[i] && f->sums[i] == g->sums[i] &&
                (f->cannot[i] == NULL) == (g->cannot[i] == NULL) &&
                (f->differs[i] == NULL) == (g->differs[i] == NULL);
    for (int32_t i = 0; alike && i < f->n_parameters; i++)
        alike = is_same_parameter(&f->parameters[i], &g->parameters[i]);
    return alike;
}

/* Finds the first call of each module, and takes its name from one of which calls are unlike: that
   is no one thing to a plan. */
static bool join_calls(const cleave_model *model, const cleave_frame *frames, cleave_arena *arena,
                       cleave_module_name *names) {
    cleave_name_map firsts[] = {
        [CLEAVE_NAMED_MODULE] = {.arena = arena}, [CLEAVE_NAMED_FUNCTION] = {.arena = arena}};
    bool *unlike = CLEAVE_ARENA_ARRAY(arena, bool, model->n_operators);
    if (unlike == NULL)
        return false;
    for (int32_t i = 0; i < model->n_operators; i++) {
        names[i].first_call = -1;
        if (names[i].named != CLEAVE_NAMED_MODULE && names[i].named != CLEAVE_NAMED_FUNCTION)
            continue;
        int32_t first = cleave_name_map_find(&firsts[names[i].named], names[i].module);
        if (first < 0 && !cleave_name_map_set(&firsts[names[i].named], names[i].module, i))
            return false;
        if (first >= 0) {
            names[i].first_call = names[first].first_call = first;
            unlike[first] = unlike[first] || !are_alike(model, frames, first, i);
        }
    }
    for (int32_t i = 0; i < model->n_operators; i++)
        if (names[i].first_call >= 0 && unlike[names[i].first_call])
            names[i] = (cleave_module_name){CLEAVE_NAMED_NOTHING, "", names[i].within, -1};
    return true;
}

/* ---- names ---- */

static cleave_module_name name_operator(const cleave_model *model, const cleave_operator *op,
                                        const claim_table *claims, const char *owner,
                                        const char *scope, const char *call) {
    bool alone = cleave_name_map_find(&claims->owners, owner) == 1;
    bool called = scope[0] != '\0' && cleave_name_map_find(&claims->callers, call) == 1;
    bool tied = strcmp(scope, owner) == 0 ||
                (cleave_name_map_find(&claims->owners, scope) < 0 && !lies_in(scope, owner));
    if (strcmp(op->name, "@loss") == 0 && strcmp(op->type, "SoftmaxCrossEntropy") == 0)
        return (cleave_module_name){CLEAVE_NAMED_LOSS, "", "", -1};
    if (owner[0] != '\0' && alone && is_leaf(claims, owner))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, owner, "", -1};
    if (owner[0] != '\0' && tied && called && is_leaf(claims, scope))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, scope, "", -1};
    if (owner[0] == '\0' && acts(model, op) && called && is_leaf(claims, scope))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, scope, "", -1};
    if (is_attention(op) && called)
        return (cleave_module_name){CLEAVE_NAMED_FUNCTION, scope, "", -1};
    return (cleave_module_name){CLEAVE_NAMED_NOTHING, "", "", -1};
}

/* What there is of names, before any operator has one: owners and scopes of all. */
static cleave_status find_names(const cleave_model *model, const cleave_frame *frames,
                                claim_table *claims, const char **owner, const char **scope,
                                cleave_error *error) {
    bool fits = true;
    for (int32_t i = 0; fits && i < model->n_operators; i++) {
        CLEAVE_TRY(find_owner(model, &frames[i], claims->owners.arena, &owner[i], error));
        CLEAVE_TRY(find_scope(model->operators[i].name, claims->owners.arena, &scope[i], error));
        fits = (owner[i][0] == '\0' || claim(&claims->owners, owner[i])) &&
               claim(&claims->scopes, scope[i]);
    }
    for (int32_t t = 0; fits && t < model->n_tensors; t++)
        fits = model->tensors[t].kind != CLEAVE_TENSOR_PARAMETER ||
               add_parents(&claims->holders, model->tensors[t].name);
    return fits ? CLEAVE_OK : cleave_fail_memory(error, "naming modules");
}

cleave_status cleave_export_names(const cleave_model *model, const cleave_frame *frames,
                                  cleave_arena *arena, cleave_module_name **names,
                                  cleave_error *error) {
    int32_t n = model->n_operators;
    claim_table claims = {
        {.arena = arena}, {.arena = arena}, {.arena = arena}, {.arena = arena}, {.arena = arena}};
    cleave_module_name *found = CLEAVE_ARENA_ARRAY(arena, cleave_module_name, n);
    const char **owner = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    const char **scope = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    const char **call = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    bool fits = found != NULL && owner != NULL && scope != NULL && call != NULL;
    if (fits)
        CLEAVE_TRY(find_names(model, frames, &claims, owner, scope, error));
    for (int32_t i = 0; fits && i < n; i++) {
        const cleave_operator *op = &model->operators[i];
        const char *said = scope[i];
        CLEAVE_TRY(find_module(model, &frames[i], &claims, owner[i], said, &scope[i], error));
        call[i] = find_call(arena, scope[i], said);
        bool counts = owner[i][0] != '\0' || is_attention(op) || acts(model, op);
        fits = call[i] != NULL && (!counts || claim(&claims.callers, call[i])) &&
               add_parents(&claims.parents, owner[i]) && add_parents(&claims.parents, scope[i]);
    }
    for (int32_t i = 0; fits && i < n; i++) {
        found[i] = name_operator(model, &model->operators[i], &claims, owner[i], scope[i], call[i]);
        found[i].within = found[i].named == CLEAVE_NAMED_MODULE ? found[i].module : scope[i];
    }
    if (!fits || !join_calls(model, frames, arena, found))
        return cleave_fail_memory(error, "naming modules");
    for (int32_t i = 0; i < n; i++)
        if (found[i].named == CLEAVE_NAMED_NOTHING && frames[i].n_parameters > 0)
            found[i].named = CLEAVE_NAMED_UNKNOWN;
    *names = found;
    return CLEAVE_OK;
}
