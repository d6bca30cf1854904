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

/* From one place of the grid to its neighbour along a dimension. */
typedef struct step {
    int32_t part, device;
} step;

/* All places that differ from one along dimensions from k on. */
static void place_along(const grid *g, const step *steps, int k, step at, const int32_t *devices,
                        int32_t *placed) {
    for (int32_t i = 0; i < g->size[k]; i++) {
        if (k + 1 < N)
            place_along(g, steps, k + 1, at, devices, placed);
        else
            placed[at.part] = devices[at.device];
        at = (step){at.part + steps[k].part, at.device + steps[k].device};
    }
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
    step steps[N]; /* parts and devices are sums over the dimensions */
    for (int k = N - 1, device = 1; k >= 0; k--) {
        int32_t place[N] = {0};
        place[k] = 1;
        steps[k] = (step){part_at(&g, of, cut, place), device};
        device *= group->degree[k];
    }
    place_along(&g, steps, 0, (step){0, 0}, devices, placed);
    return cleave_layout_set(layout, op, g.replicas, g.degree, placed, arena, error);
}
