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

/* How many operators have parameters of a module, how many with work of a module's own are called
   in one, and the modules that have others in them. */
typedef struct claim_table {
    cleave_name_map owners, callers, parents;
} claim_table;

static bool claim(cleave_name_map *map, const char *module) {
    int32_t n = cleave_name_map_find(map, module);
    return cleave_name_map_set(map, module, n < 0 ? 1 : n + 1);
}

static bool add_parents(claim_table *claims, cleave_arena *arena, const char *module) {
    for (const char *dot = strchr(module, '.'); dot != NULL; dot = strchr(dot + 1, '.')) {
        char *parent = cleave_arena_string_n(arena, module, (size_t)(dot - module));
        if (parent == NULL || !cleave_name_map_set(&claims->parents, parent, 1))
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

static cleave_module_name name_operator(const cleave_model *model, const cleave_operator *op,
                                        const claim_table *claims, const char *owner,
                                        const char *scope) {
    bool alone = cleave_name_map_find(&claims->owners, owner) == 1;
    bool called = scope[0] != '\0' && cleave_name_map_find(&claims->callers, scope) == 1;
    bool tied = strcmp(scope, owner) == 0 ||
                (cleave_name_map_find(&claims->owners, scope) < 0 && !lies_in(scope, owner));
    if (strcmp(op->name, "@loss") == 0 && strcmp(op->type, "SoftmaxCrossEntropy") == 0)
        return (cleave_module_name){CLEAVE_NAMED_LOSS, "", ""};
    if (owner[0] != '\0' && alone && is_leaf(claims, owner))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, owner, ""};
    if (owner[0] != '\0' && tied && called && is_leaf(claims, scope))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, scope, ""};
    if (owner[0] == '\0' && acts(model, op) && called && is_leaf(claims, scope))
        return (cleave_module_name){CLEAVE_NAMED_MODULE, scope, ""};
    if (is_attention(op) && called)
        return (cleave_module_name){CLEAVE_NAMED_FUNCTION, scope, ""};
    return (cleave_module_name){CLEAVE_NAMED_NOTHING, "", ""};
}

cleave_status cleave_export_names(const cleave_model *model, const cleave_frame *frames,
                                  cleave_arena *arena, cleave_module_name **names,
                                  cleave_error *error) {
    int32_t n = model->n_operators;
    claim_table claims = {{.arena = arena}, {.arena = arena}, {.arena = arena}};
    cleave_module_name *found = CLEAVE_ARENA_ARRAY(arena, cleave_module_name, n);
    const char **owner = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    const char **scope = CLEAVE_ARENA_ARRAY(arena, const char *, n);
    bool fits = found != NULL && owner != NULL && scope != NULL;
    for (int32_t i = 0; fits && i < n; i++) {
        const cleave_operator *op = &model->operators[i];
        CLEAVE_TRY(find_owner(model, &frames[i], arena, &owner[i], error));
        CLEAVE_TRY(find_scope(op->name, arena, &scope[i], error));
        bool owned = owner[i][0] != '\0', counts = owned || is_attention(op) || acts(model, op);
        fits = (!owned || claim(&claims.owners, owner[i])) &&
               (!counts || claim(&claims.callers, scope[i])) &&
               add_parents(&claims, arena, owner[i]) && add_parents(&claims, arena, scope[i]);
    }
    if (!fits)
        return cleave_fail_memory(error, "naming modules");
    for (int32_t i = 0; i < n; i++) {
        found[i] = name_operator(model, &model->operators[i], &claims, owner[i], scope[i]);
        found[i].within = found[i].named == CLEAVE_NAMED_MODULE ? found[i].module : scope[i];
        if (found[i].named == CLEAVE_NAMED_NOTHING && frames[i].n_parameters > 0)
            found[i].named = CLEAVE_NAMED_UNKNOWN;
    }
    *names = found;
    return CLEAVE_OK;
}
