/* Where baselines are cut into stages: such that the slowest is as quick as can be on its devices;
   where some have less memory than others also such that none is the slowest and the fullest of
   all. */
#include "search/pipeline/foresight.h"
#include "search/pipeline/internal.h"
#include "search/pipeline/stages.h"

bool pipeline_rooms_differ(const pipeline_finder *f) {
    const cleave_machine *machine = f->pricer->machine;
    bool differ = false;
    for (int32_t k = 1; k < machine->n_kinds && f->pricer->memory_limit_bytes <= 0; k++)
        differ = differ || machine->kinds[k].memory_bytes != machine->kinds[0].memory_bytes;
    return differ;
}

/* What an operator takes on the slowest device of a group, and the least memory of one. */
typedef struct group_view {
    const pipeline_finder *f;
    bool *has; /* [n_kinds] */
    int64_t room;
} group_view;

static void look_at(group_view *view, int32_t n_groups, int32_t g) {
    const cleave_machine *machine = view->f->pricer->machine;
    int32_t n = machine->n_devices / n_groups;
    memset(view->has, 0, (size_t)machine->n_kinds * sizeof *view->has);
    view->room = INT64_MAX;
    for (int32_t d = g * n; d < (g + 1) * n; d++) {
        int32_t k = machine->device_kind[d];
        view->has[k] = true;
        if (machine->kinds[k].memory_bytes < view->room)
            view->room = machine->kinds[k].memory_bytes;
    }
}

static int64_t work_of(const group_view *view, int32_t op) {
    const cleave_machine *machine = view->f->pricer->machine;
    int64_t slowest = 0;
    for (int32_t k = 0; k < machine->n_kinds; k++) {
        size_t at = (size_t)k * (size_t)view->f->pricer->model->n_operators + (size_t)op;
        if (view->has[k] && view->f->kind_work[at] > slowest)
            slowest = view->f->kind_work[at];
    }
    return slowest;
}

/* Adds to each row the share of its group's memory that an operator's parameters take, in a unit in
   which those of all groups together are as much as all the work. */
static void add_room(const pipeline_finder *f, const int64_t *room, int32_t n_groups,
                     int64_t *work) {
    int32_t n = f->pricer->model->n_operators;
    double all_work = 0, all_bytes = 0, all_room = 0;
    for (int32_t op = 0; op < n; op++) {
        all_bytes += (double)f->parameters[op];
        for (int32_t g = 0; g < n_groups; g++)
            all_work += (double)work[(size_t)g * (size_t)n + (size_t)op] / n_groups;
    }
    for (int32_t g = 0; g < n_groups; g++)
        all_room += (double)room[g];
    for (int32_t g = 0; g < n_groups && all_bytes > 0; g++)
        for (int32_t op = 0; op < n; op++) {
            double share = (double)f->parameters[op] / all_bytes;
            work[(size_t)g * (size_t)n + (size_t)op] +=
                (int64_t)(all_work * share * all_room / (double)room[g] / n_groups);
        }
}

/* Rows of work, one of each group. */
static cleave_status weigh_groups(const pipeline_finder *f, const pipeline_candidate *of,
                                  cleave_arena *scratch, cleave_stage_work *by) {
    int32_t n = f->pricer->model->n_operators, n_stages = of->n_groups * of->n_virtual;
    group_view view = {.f = f,
                       .has = CLEAVE_ARENA_ARRAY(scratch, bool, f->pricer->machine->n_kinds)};
    int64_t *work = cleave_arena_alloc(scratch, (size_t)of->n_groups, (size_t)n * sizeof *work);
    int64_t *room = CLEAVE_ARENA_ARRAY(scratch, int64_t, of->n_groups);
    int32_t *row_of = CLEAVE_ARENA_ARRAY(scratch, int32_t, n_stages);
    if (view.has == NULL || work == NULL || room == NULL || row_of == NULL)
        return cleave_fail_memory(f->error, "cutting a model into stages");
    for (int32_t g = 0; g < of->n_groups; g++) {
        look_at(&view, of->n_groups, g);
        room[g] = view.room;
        for (int32_t op = 0; op < n; op++)
            work[(size_t)g * (size_t)n + (size_t)op] = work_of(&view, op);
    }
    for (int32_t s = 0; s < n_stages; s++)
        row_of[s] = s % of->n_groups;
    if (of->by_room)
        add_room(f, room, of->n_groups, work);
    by->work = work;
    by->row_of = row_of;
    return CLEAVE_OK;
}

cleave_status pipeline_cut_stages(pipeline_finder *f, const pipeline_candidate *of,
                                  int32_t *first_operator) {
    int32_t n = f->pricer->model->n_operators, n_stages = of->n_groups * of->n_virtual;
    cleave_arena scratch = {0};
    int64_t *hops = CLEAVE_ARENA_ARRAY(&scratch, int64_t, n);
    if (hops == NULL)
        return cleave_fail_memory(f->error, "cutting a model into stages");
    pipeline_count_waits(n, n_stages, f->joined, f->op_work, hops);
    for (int32_t op = 0; op < n; op++)
        hops[op] += f->sends[op];
    cleave_stage_work by = {.work = f->op_work, .sends = hops};
    cleave_status status = f->kind_work != NULL ? weigh_groups(f, of, &scratch, &by) : CLEAVE_OK;
    if (status == CLEAVE_OK)
        status = cleave_stages_cut(n, &by, n_stages, first_operator, f->error);
    cleave_arena_free(&scratch);
    return status;
}
