#include "search/problem/group_split.h"

enum { N = CLEAVE_N_GROUP_DIMENSIONS };

static const cleave_group_dimension orders[2][N] = {
    {CLEAVE_GROUP_DATA, CLEAVE_GROUP_EXPERT, CLEAVE_GROUP_CONTEXT, CLEAVE_GROUP_TENSOR},
    {CLEAVE_GROUP_DATA, CLEAVE_GROUP_EXPERT, CLEAVE_GROUP_TENSOR, CLEAVE_GROUP_CONTEXT}};

/* Of the grid, what the operator has room for. */
typedef struct grid {
    const cleave_group_dimension *order;
    int32_t size[N], degree[CLEAVE_MAX_AXES], replicas;
} grid;

static grid lay_grid(const cleave_operator *of, const cleave_group *group,
                     const cleave_group_cut *cut) {
    grid g = {.order = orders[cut->tensor_first], .replicas = 1};
    for (int a = 0; a < of->n_axes; a++)
        g.degree[a] = 1;
    for (int i = 0; i < N; i++) {
        cleave_group_dimension k = g.order[i];
        int a = cut->axis[k];
        g.size[k] = group->degree[k];
        if (a < 0) {
            g.replicas *= g.size[k];
            continue;
        }
        int64_t room = of->axes[a].extent / g.degree[a];
        g.size[k] = room < g.size[k] ? (int32_t)room : g.size[k];
        g.degree[a] *= g.size[k];
    }
    return g;
}

/* Parts are row-major, replicas outermost. */
static int32_t part_at(const grid *g, const cleave_operator *of, const cleave_group_cut *cut,
                       const int32_t *place) {
    int32_t at[CLEAVE_MAX_AXES] = {0}, part = 0;
    for (int i = 0; i < N; i++) {
        cleave_group_dimension k = g->order[i];
        int32_t *along = cut->axis[k] < 0 ? &part : &at[cut->axis[k]];
        *along = *along * g->size[k] + place[k];
    }
    for (int a = 0; a < of->n_axes; a++)
        part = part * g->degree[a] + at[a];
    return part;
}

cleave_status cleave_group_split(const cleave_model *model, int32_t op, const cleave_group *group,
                                 const cleave_group_cut *cut, const int32_t *devices,
                                 cleave_arena *arena, cleave_layout *layout, cleave_error *error) {
    const cleave_operator *of = &model->operators[op];
    const grid g = lay_grid(of, group, cut);
    int32_t n = 1;
    for (int k = 0; k < N; k++)
        n *= g.size[k];
    int32_t *placed = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (placed == NULL)
        return cleave_fail_memory(error, "making a layout");
    for (int32_t i = 0; i < n; i++) {
        int32_t place[N], rest = i, device = 0;
        for (int k = N - 1; k >= 0; k--) {
            place[k] = rest % g.size[k];
            rest /= g.size[k];
        }
        for (int k = 0; k < N; k++)
            device = device * group->degree[k] + place[k];
        placed[part_at(&g, of, cut, place)] = devices[device];
    }
    return cleave_layout_set(layout, op, g.replicas, g.degree, placed, arena, error);
}
