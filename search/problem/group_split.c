#include "search/problem/group_split.h"

enum { N = CLEAVE_N_GROUP_DIMENSIONS };

static const cleave_group_dimension orders[2][N] = {
    {CLEAVE_GROUP_DATA, CLEAVE_GROUP_EXPERT, CLEAVE_GROUP_CONTEXT, CLEAVE_GROUP_TENSOR},
    {CLEAVE_GROUP_DATA, CLEAVE_GROUP_EXPERT, CLEAVE_GROUP_TENSOR, CLEAVE_GROUP_CONTEXT}};

/* Of the grid, what the operator has room for: two cuts for each of its dimensions, of which the
   second lies within the first and is none but tensor's, where that has room for less. */
enum { N_CUTS = 2 * N };

typedef struct grid {
    int axis[N_CUTS];        /* -1: replicas */
    int32_t size[N_CUTS];    /* places along it */
    int32_t devices[N_CUTS]; /* from one place to the next */
    int32_t degree[CLEAVE_MAX_AXES], replicas;
} grid;

static int32_t room_for(const grid *g, const cleave_operator *of, int axis, int32_t degree) {
    int64_t room = axis < 0 ? degree : of->axes[axis].extent / g->degree[axis];
    return room < degree ? (int32_t)room : degree;
}

static void add_cut(grid *g, int i, int axis, int32_t size, int32_t devices) {
    g->axis[i] = axis;
    g->size[i] = size;
    g->devices[i] = devices;
    if (axis >= 0)
        g->degree[axis] *= size;
    else
        g->replicas *= size;
}

static grid lay_grid(const cleave_operator *of, const cleave_group_grid *group,
                     const cleave_group_cut *cut) {
    const cleave_group_dimension *order = orders[cut->tensor_first];
    int32_t neighbour[N]; /* devices to the next place of the group */
    grid g = {.replicas = 1};
    for (int a = 0; a < of->n_axes; a++)
        g.degree[a] = 1;
    for (int k = N - 1, device = 1; k >= 0; k--) {
        neighbour[k] = device;
        device *= group->degree[k];
    }
    for (int i = 0; i < N; i++) {
        cleave_group_dimension k = order[i];
        int32_t degree = group->degree[k], size = room_for(&g, of, cut->axis[k], degree), inner = 1;
        if (k == CLEAVE_GROUP_TENSOR && cut->inner >= 0 && degree % size == 0)
            inner = room_for(&g, of, cut->inner, degree / size);
        add_cut(&g, 2 * i, cut->axis[k], size, neighbour[k] * inner);
        add_cut(&g, 2 * i + 1, inner > 1 ? cut->inner : -1, inner, neighbour[k]);
    }
    return g;
}

/* Parts are row-major, replicas outermost: from one to the next along cut i. */
static int32_t part_step(const grid *g, const cleave_operator *of, int i) {
    int32_t at[CLEAVE_MAX_AXES] = {0}, part = 0;
    for (int k = 0; k < N_CUTS; k++) {
        int32_t *along = g->axis[k] < 0 ? &part : &at[g->axis[k]];
        *along = *along * g->size[k] + (k == i);
    }
    for (int a = 0; a < of->n_axes; a++)
        part = part * g->degree[a] + at[a];
    return part;
}

/* All places that differ from one along cuts from k on; parts and devices are sums over the cuts.
 */
static void place_along(const grid *g, const int32_t *steps, int k, int32_t part, int32_t device,
                        const int32_t *devices, int32_t *placed) {
    for (int32_t i = 0; i < g->size[k]; i++) {
        if (k + 1 < N_CUTS)
            place_along(g, steps, k + 1, part, device, devices, placed);
        else
            placed[part] = devices[device];
        part += steps[k];
        device += g->devices[k];
    }
}

cleave_status cleave_group_split(const cleave_model *model, int32_t op,
                                 const cleave_group_grid *group, const cleave_group_cut *cut,
                                 const int32_t *devices, cleave_arena *arena, cleave_layout *layout,
                                 cleave_error *error) {
    const cleave_operator *of = &model->operators[op];
    const grid g = lay_grid(of, group, cut);
    int32_t steps[N_CUTS], n = 1;
    for (int k = 0; k < N_CUTS; k++) {
        steps[k] = part_step(&g, of, k);
        n *= g.size[k];
    }
    int32_t *placed = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (placed == NULL)
        return cleave_fail_memory(error, "making a layout");
    place_along(&g, steps, 0, 0, 0, devices, placed);
    return cleave_layout_set(layout, op, g.replicas, g.degree, placed, arena, error);
}
