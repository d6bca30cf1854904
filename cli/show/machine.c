/* What `cleave show` prints of a machine: its kinds of devices and of links. */
#include "cli/show/show.h"

#include "cli/table.h"
#include "costmodel/machine.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

static void print_kinds(const cleave_machine *machine, cleave_arena *arena) {
    table t = {.arena = arena, .n_columns = 8, .align = "lrrrrrrl"};
    static const char *const heads[] = {"kind",        "devices", "memory",   "arithmetic",
                                        "memory rate", "launch",  "measured", "source"};
    table_heads(&t, heads);
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        const cleave_device_kind *kind = &machine->kinds[k];
        int32_t count = 0;
        for (int32_t d = 0; d < machine->n_devices; d++)
            count += machine->device_kind[d] == k ? 1 : 0;
        table_text(&t, kind->name);
        table_format(&t, "%d", count);
        table_quantity(&t, (double)kind->memory_bytes, CLEAVE_UNIT_BYTES);
        table_quantity(&t, kind->flops_per_second, CLEAVE_UNIT_FLOPS);
        table_quantity(&t, kind->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
        table_quantity(&t, kind->launch_seconds, CLEAVE_UNIT_SECONDS);
        int32_t n_timed = 0;
        for (int32_t i = 0; i < kind->n_kernels; i++)
            n_timed += kind->kernels[i].seconds > 0;
        table_format(&t, "%d kernels", n_timed);
        table_text(&t, kind->source != NULL ? kind->source : "");
    }
    table_print(&t, stdout);
}

static bool same_figures(const cleave_link *a, const cleave_link *b) {
    return a->bytes_per_second == b->bytes_per_second && a->latency_seconds == b->latency_seconds &&
           a->overhead_seconds == b->overhead_seconds &&
           a->overhead_seconds_per_byte == b->overhead_seconds_per_byte &&
           memcmp(&a->protocol, &b->protocol, sizeof a->protocol) == 0;
}

/* What a vertex is, without the numbers that tell it from others of its sort. */
static const char *sort_of(const cleave_machine *machine, int32_t vertex, cleave_arena *arena) {
    if (vertex < machine->n_devices)
        return machine->kinds[machine->device_kind[vertex]].name;
    const char *name = machine->vertex_name[vertex];
    int32_t node, n_read = 0;
    if (sscanf(name, "node %" SCNd32 " %n", &node, &n_read) == 1 && n_read > 0)
        name += n_read;
    char *sort = cleave_arena_string(arena, name);
    if (sort == NULL)
        return name;
    size_t end = strlen(sort);
    while (end > 0 && isdigit((unsigned char)sort[end - 1]))
        end--;
    if (end > 1 && sort[end] != '\0' && sort[end - 1] == ' ')
        sort[end - 1] = '\0';
    return sort;
}

/* Links of the same figures between vertices of the same sorts; both directions. */
typedef struct link_class {
    cleave_link figures;
    const char *from, *to;
    int32_t count;
} link_class;

static int32_t find_class(const link_class *classes, int32_t n, const link_class *wanted) {
    for (int32_t c = 0; c < n; c++) {
        bool same = strcmp(classes[c].from, wanted->from) == 0 &&
                    strcmp(classes[c].to, wanted->to) == 0,
             reverse = strcmp(classes[c].from, wanted->to) == 0 &&
                       strcmp(classes[c].to, wanted->from) == 0;
        if ((same || reverse) && same_figures(&classes[c].figures, &wanted->figures))
            return c;
    }
    return n;
}

enum { MAX_CLASSES = 64 };

/* What does not fit into the table of classes is counted by the last one. */
static int32_t classify(const cleave_machine *machine, cleave_arena *arena, link_class *classes) {
    int32_t n = 0;
    const char **sorts = CLEAVE_ARENA_ARRAY(arena, const char *, machine->n_vertices);
    for (int32_t v = 0; v < machine->n_vertices && sorts != NULL; v++)
        sorts[v] = sort_of(machine, v, arena);
    for (int32_t l = 0; l < machine->n_links && sorts != NULL; l++) {
        const cleave_link *link = &machine->links[l];
        link_class wanted = {*link, sorts[link->from], sorts[link->to], 0};
        int32_t c = find_class(classes, n, &wanted);
        if (c == n && n < MAX_CLASSES)
            classes[n++] = wanted;
        classes[c < n ? c : n - 1].count++;
    }
    return n;
}

static void print_links(const cleave_machine *machine, cleave_arena *arena) {
    link_class classes[MAX_CLASSES];
    int32_t n = classify(machine, arena, classes);
    table t = {.arena = arena, .n_columns = 6, .align = "lrrrrr"};
    static const char *const heads[] = {"link",    "how many",          "each direction",
                                        "latency", "processor/message", "processor/MiB"};
    table_heads(&t, heads);
    for (int32_t c = 0; c < n; c++) {
        const cleave_link *link = &classes[c].figures;
        table_format(&t, "%s - %s", classes[c].from, classes[c].to);
        table_format(&t, "%d", classes[c].count / 2);
        table_quantity(&t, link->bytes_per_second, CLEAVE_UNIT_BYTES_PER_SECOND);
        table_quantity(&t, link->latency_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, link->overhead_seconds, CLEAVE_UNIT_SECONDS);
        table_quantity(&t, 0x1p20 * link->overhead_seconds_per_byte, CLEAVE_UNIT_SECONDS);
    }
    table_print(&t, stdout);
}

static void print_nodes(const cleave_machine *machine) {
    printf("machine %s: %d devices", machine->name, machine->n_devices);
    for (int32_t t = 0; t < machine->n_node_types; t++) {
        const cleave_node_type *type = &machine->node_types[t];
        printf("%s %d node%s of %d", t == 0 ? " in" : " and", type->count,
               type->count == 1 ? "" : "s", type->n_devices);
        for (int32_t d = 0; d < type->n_devices; d++) {
            int32_t n = 1;
            while (d + 1 < type->n_devices && type->kinds[d + 1] == type->kinds[d]) {
                d++;
                n++;
            }
            if (n < type->n_devices)
                printf(" %d x", n);
            printf(" %s", machine->kinds[type->kinds[d]].name);
        }
    }
    printf("\n");
}

static void print_switches(const cleave_machine *machine) {
    const cleave_network *network = &machine->network;
    if (network->n_rails > 1)
        printf("%d rails, ", network->n_rails);
    for (int32_t k = 0; k < network->n_levels; k++) {
        const cleave_network_level *level = &network->levels[k];
        printf("%s%s", k == 0 ? "" : " under ", level->links.through);
        if (k > 0 && level->n_switches > 1)
            printf(" (%d)", level->n_switches);
        if (level->nodes > 0)
            printf(" of %d nodes", level->nodes);
        if (level->oversubscription > 0)
            printf(", %g : 1 oversubscribed,", level->oversubscription);
    }
}

/* One line: the shape of the network, and what goes across the middle of the machine. */
static cleave_status print_network(const cleave_machine *machine, cleave_error *error) {
    static const char *const shapes[] = {"none", "every two nodes joined", "torus", ""};
    const cleave_network *network = &machine->network;
    double bisection;
    char text[32];
    CLEAVE_TRY(cleave_machine_bisection(machine, &bisection, error));
    printf("network: %s", shapes[network->shape]);
    for (int32_t d = 0; d < network->n_dimensions; d++)
        printf(d == 0 ? " of %d" : " x %d", network->size[d]);
    if (network->shape == CLEAVE_NETWORK_SWITCHES)
        print_switches(machine);
    cleave_unit_format(bisection, CLEAVE_UNIT_BYTES_PER_SECOND, text, sizeof text);
    printf("; bisection %s each way\n", text);
    return CLEAVE_OK;
}

cleave_status show_machine(const char *path, cleave_arena *arena, cleave_error *error) {
    cleave_machine machine;
    CLEAVE_TRY(cleave_machine_read(path, 0, arena, &machine, error));
    print_nodes(&machine);
    if (machine.n_devices > 1)
        CLEAVE_TRY(print_network(&machine, error));
    printf("\n");
    print_kinds(&machine, arena);
    printf("\n");
    if (machine.n_links > 0)
        print_links(&machine, arena);
    return CLEAVE_OK;
}
