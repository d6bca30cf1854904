/* What `cleave show operators` prints: the ONNX operators that the importer knows. */
#include "cli/show/show.h"

#include "cli/table.h"
#include "graph/import/import.h"

static void list_attributes(int i, char *text, size_t bytes) {
    const char *name;
    size_t used = 0;
    text[0] = '\0';
    for (int k = 0; used < bytes && (name = cleave_import_operator_attribute(i, k)) != NULL; k++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", k > 0 ? " " : "", name);
}

void show_operators(cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 4, .align = "llll"};
    static const char *const heads[] = {"operator", "sets", "inputs", "attributes"};
    const char *type;
    bool constant_only;
    table_heads(&t, heads);
    for (int i = 0; (type = cleave_import_operator_type(i, &constant_only)) != NULL; i++) {
        char attributes[512];
        int least, most;
        cleave_import_operator_sets(i, &least, &most);
        list_attributes(i, attributes, sizeof attributes);
        table_text(&t, type);
        table_format(&t, "%d-%d", least, most);
        table_text(&t, constant_only ? "constants" : "any");
        table_text(&t, attributes);
    }
    table_print(&t, stdout);
}
