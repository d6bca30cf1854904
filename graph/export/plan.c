/* A layout in the words of a framework: what each operator keeps of its split, and what is lost. */
#include "graph/export/make.h"

#include "graph/model/micro_batch.h"

#include <string.h>

const char *const cleave_target_names[CLEAVE_N_TARGETS] = {"torch", "jax"};
const bool cleave_target_narrows[CLEAVE_N_TARGETS] = {[CLEAVE_TARGET_TORCH] = true};
const bool cleave_target_stages[CLEAVE_N_TARGETS] = {[CLEAVE_TARGET_TORCH] = true};

typedef cleave_export_maker maker;

/* ---- operators ---- */

/* Why no target can cut an operator along this axis, or null. */
static const char *find_objection(const cleave_planned_operator *planned, int axis) {
    return planned->name.named == CLEAVE_NAMED_UNKNOWN
               ? "no module is known by the names of its parameters"
               : planned->frame.cannot[axis];
}

bool cleave_export_is_called_before(const cleave_export_plan *plan, int32_t op) {
    int32_t first = plan->operators[op].name.first_call;
    return first >= 0 && first != op;
}

/* Of a module that is called again, of tensors of other sizes: can they be cut so, too? */
static bool are_others_even(const maker *make, int32_t op, int axis, int32_t degree) {
    int32_t first = make->plan->operators[op].name.first_call;
    for (int32_t i = op + 1; first >= 0 && i < make->model->n_operators; i++)
        if (make->plan->operators[i].name.first_call == first &&
            make->window->operators[i].axes[axis].extent !=
                make->window->operators[op].axes[axis].extent &&
            make->window->operators[i].axes[axis].extent % degree != 0)
            return false;
    return true;
}

static void file_shape(const cleave_tensor *tensor, int *rank, const int64_t **shape) {
    *rank = tensor->file_rank > 0 ? tensor->file_rank : tensor->rank;
    *shape = tensor->file_rank > 0 ? tensor->file_shape : tensor->shape;
}

/* Has a parameter, as its file has it, a dimension of which a block of this axis is one?  Columns
   may be heads there, and the width of each. */
static bool divides_parameters(const maker *make, const cleave_planned_operator *planned,
                               int64_t extent, int axis, int32_t degree) {
    for (int32_t i = 0; i < planned->frame.n_parameters; i++) {
        const cleave_frame_parameter *read = &planned->frame.parameters[i];
        int rank, d = read->dimension[axis];
        const int64_t *shape;
        file_shape(&make->model->tensors[read->tensor], &rank, &shape);
        if (d >= 0 && d < rank && shape[d] != extent && shape[d] % degree != 0)
            return false;
    }
    return true;
}

/* Why one can't be cut into so many blocks, or null.  `*keeps`: it is all the same, but not just
   so. */
static const char *find_unevenness(const maker *make, int32_t op, int axis, bool *keeps) {
    const cleave_planned_operator *planned = &make->plan->operators[op];
    int32_t degree = cleave_mesh_degree(&make->plan->mesh, &planned->cut, axis);
    *keeps = false;
    if (!are_others_even(make, op, axis, degree))
        return "uneven blocks in another call of the module";
    if (!divides_parameters(make, planned, make->model->operators[op].axes[axis].extent, axis,
                            degree))
        return "its blocks are no blocks of a dimension of its parameters";
    if (make->window->operators[op].axes[axis].extent % degree == 0)
        return NULL;
    if (planned->frame.even[axis])
        return "uneven blocks of an axis that shares its dimension with others";
    if (make->plan->target == CLEAVE_TARGET_JAX)
        return "uneven blocks";
    *keeps = true;
    return "uneven blocks are rounded up, and the last ones take what is left";
}

static void keep_what_can_be(maker *make, int32_t op) {
    const cleave_operator *operator= & make->model->operators[op];
    cleave_mesh_cut *cut = &make->plan->operators[op].cut;
    for (int a = 0; a < operator->n_axes; a++) {
        bool keeps = false;
        if (cleave_mesh_degree(&make->plan->mesh, cut, a) == 1)
            continue;
        const char *why = find_objection(&make->plan->operators[op], a);
        if (why == NULL)
            why = find_unevenness(make, op, a, &keeps);
        if (why == NULL && make->plan->operators[op].frame.differs[a] != NULL) {
            why = make->plan->operators[op].frame.differs[a];
            keeps = true;
        }
        if (why != NULL)
            cleave_export_lose(make, op, -1, operator->axes[a].name, why);
        keeps = keeps && !make->exact;
        for (int i = 0; why != NULL && !keeps && i < make->plan->mesh.n; i++)
            if (cut->axis[i] == a)
                cut->axis[i] = CLEAVE_MESH_REPEATS;
    }
}

/* The split on the devices of its group, numbered from 0. */
static cleave_status find_split_in_group(const maker *make, int32_t op, cleave_arena *arena,
                                         cleave_split *split, cleave_error *error) {
    int32_t width = make->layout->n_devices / make->plan->n_groups;
    *split = make->layout->splits[op];
    if (make->plan->n_groups == 1)
        return CLEAVE_OK;
    split->devices = CLEAVE_ARENA_ARRAY(arena, int32_t, split->n_parts);
    if (split->devices == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    for (int32_t part = 0; part < split->n_parts; part++)
        split->devices[part] = make->layout->splits[op].devices[part] % width;
    return CLEAVE_OK;
}

/* A module is cut in one way, however often it is called. */
static void settle_calls(maker *make) {
    cleave_planned_operator *operators = make->plan->operators;
    for (int32_t op = 0; op < make->model->n_operators; op++) {
        if (!cleave_export_is_called_before(make->plan, op))
            continue;
        const cleave_mesh_cut *said = &operators[operators[op].name.first_call].cut;
        if (memcmp(&operators[op].cut, said, (size_t)make->plan->mesh.n * sizeof said->axis[0]) !=
            0)
            cleave_export_lose(make, op, -1, "module",
                               "its module is called before, and cut as there");
        operators[op].cut = *said;
    }
}

static cleave_status find_cuts(maker *make, cleave_arena *arena, cleave_error *error) {
    cleave_export_plan *plan = make->plan;
    int32_t n = make->model->n_operators;
    cleave_mesh_cut *cuts = CLEAVE_ARENA_ARRAY(arena, cleave_mesh_cut, n);
    if (cuts == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    cleave_mesh_of_primes(make->layout->n_devices / plan->n_groups, &plan->mesh);
    bool narrow = cleave_target_narrows[plan->target] && plan->schedule.n_stages == 1;
    for (int32_t op = 0; op < n; op++) {
        cleave_split split;
        cleave_mesh_cut *cut = &plan->operators[op].cut;
        CLEAVE_TRY(find_split_in_group(make, op, arena, &split, error));
        const char *why = cleave_mesh_find_cut(&plan->mesh, &split, cut);
        const cleave_planned_operator *planned = &plan->operators[op];
        if (why == NULL && (!narrow || planned->in_layer) && cleave_mesh_widen(&plan->mesh, cut))
            why = "it is on some devices alone, and will be repeated on the others";
        if (why != NULL)
            cleave_export_lose(make, op, -1, "devices", why);
        if (planned->name.named != CLEAVE_NAMED_NOTHING &&
            !cleave_export_is_called_before(plan, op) &&
            (planned->leader < 0 || planned->leader == op))
            keep_what_can_be(make, op);
    }
    cleave_export_settle_experts(make);
    settle_calls(make);
    for (int32_t op = 0; op < n; op++)
        cuts[op] = plan->operators[op].cut;
    cleave_mesh_join(&plan->mesh, cuts, n);
    for (int32_t op = 0; op < n; op++)
        plan->operators[op].cut = cuts[op];
    return CLEAVE_OK;
}

static void list_what_follows(maker *make, const cleave_mesh_cut *wanted) {
    for (int32_t op = 0; op < make->model->n_operators; op++) {
        const cleave_planned_operator *planned = &make->plan->operators[op];
        if (planned->name.named == CLEAVE_NAMED_NOTHING &&
            memcmp(&planned->cut, &wanted[op],
                   (size_t)make->plan->mesh.n * sizeof wanted[op].axis[0]) != 0)
            cleave_export_lose(make, op, -1, "function", "it is cut as what it reads");
    }
}

static cleave_status follow(maker *make, cleave_arena *arena, cleave_error *error) {
    int32_t n = make->model->n_operators;
    cleave_mesh_cut *wanted = CLEAVE_ARENA_ARRAY(arena, cleave_mesh_cut, n);
    if (wanted == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    for (int32_t op = 0; op < n; op++)
        wanted[op] = make->plan->operators[op].cut;
    CLEAVE_TRY(cleave_export_follow(make, arena, error));
    list_what_follows(make, wanted);
    return CLEAVE_OK;
}

/* ---- parameters ---- */

bool cleave_export_owns(const cleave_model *model, const cleave_planned_operator *planned,
                        const cleave_frame_parameter *read) {
    const char *name = model->tensors[read->tensor].name;
    size_t n = strlen(planned->name.module);
    bool inside = strncmp(name, planned->name.module, n) == 0 && name[n] == '.';
    return planned->name.named == CLEAVE_NAMED_MODULE &&
           (read->of_main || (inside && name + n + 1 == cleave_export_own_name(name)));
}

/* As one reader has it; several that differ have it whole in common. */
static void compute(const cleave_export_plan *plan, const cleave_planned_operator *reader,
                    const cleave_frame_parameter *read, cleave_planned_parameter *parameter) {
    for (int i = 0; i < plan->mesh.n; i++) {
        int32_t axis = reader->cut.axis[i];
        int32_t d = axis < 0 ? axis : read->dimension[axis];
        d = axis >= 0 && d < 0 ? CLEAVE_FRAME_APART : d;
        if (!parameter->planned)
            parameter->computed[i] = d;
        else if (parameter->computed[i] != d)
            parameter->computed[i] = CLEAVE_FRAME_APART;
    }
    parameter->planned = true;
}

/* How a dimension of a parameter can be shared by those that have the whole of it: the best first.
   What is cut already can be cut on by dimensions of the mesh that are further in. */
enum { SHARE_EVEN, SHARE_EVEN_ON, SHARE_UNEVEN, SHARE_UNEVEN_ON, N_SHARES };

static int rate_share(const cleave_export_plan *plan, const cleave_planned_parameter *parameter,
                      int dimension, int64_t extent) {
    bool shared = false, on = false;
    int64_t parts = 1;
    for (int i = 0; i < plan->mesh.n; i++) {
        bool cuts = parameter->computed[i] == dimension;
        bool shares = parameter->computed[i] == CLEAVE_FRAME_APART;
        if (cuts && shared)
            return N_SHARES;
        on = on || cuts;
        shared = shared || shares;
        parts *= cuts || shares ? plan->mesh.size[i] : 1;
    }
    if (extent % parts == 0)
        return on ? SHARE_EVEN_ON : SHARE_EVEN;
    return plan->target == CLEAVE_TARGET_JAX ? N_SHARES : on ? SHARE_UNEVEN_ON : SHARE_UNEVEN;
}

/* The dimension that every device that has the whole of it has a share of: of the best the first,
   or where shares are uneven the longest. */
static int find_share(const cleave_export_plan *plan, const cleave_planned_parameter *parameter,
                      const cleave_tensor *tensor) {
    int rank, found = CLEAVE_FRAME_STRIDED, best = N_SHARES;
    const int64_t *shape;
    bool shared = false;
    file_shape(tensor, &rank, &shape);
    for (int i = 0; i < plan->mesh.n; i++)
        shared = shared || parameter->computed[i] == CLEAVE_FRAME_APART;
    for (int d = 0; shared && d < rank; d++) {
        int share = rate_share(plan, parameter, d, shape[d]);
        if (share < best ||
            (share == best && best >= SHARE_UNEVEN && best < N_SHARES && shape[d] > shape[found])) {
            best = share;
            found = d;
        }
    }
    return shared ? found : CLEAVE_FRAME_APART;
}

/* A block of several runs is none of a tensor of PyTorch: another dimension is stored in blocks. */
static bool store_runs(const maker *make, int32_t t) {
    cleave_planned_parameter *parameter = &make->plan->parameters[t], apart = *parameter;
    bool any = false;
    for (int i = 0; i < make->plan->mesh.n; i++) {
        bool runs = parameter->computed[i] >= CLEAVE_FRAME_RUNS;
        apart.computed[i] = runs                                           ? CLEAVE_FRAME_APART
                            : parameter->computed[i] == CLEAVE_FRAME_APART ? CLEAVE_FRAME_STRIDED
                                                                           : parameter->computed[i];
        any = any || runs;
    }
    int share = any ? find_share(make->plan, &apart, &make->model->tensors[t]) : CLEAVE_FRAME_APART;
    for (int i = 0; i < make->plan->mesh.n; i++)
        if (parameter->computed[i] >= CLEAVE_FRAME_RUNS)
            parameter->stored[i] = share < 0 ? CLEAVE_FRAME_APART : share;
    return any;
}

static void store(maker *make, int32_t t) {
    cleave_planned_parameter *parameter = &make->plan->parameters[t];
    cleave_sharded sharded = make->layout->sharded[t];
    memcpy(parameter->stored, parameter->computed, sizeof parameter->stored);
    bool runs = store_runs(make, t), shares = false;
    for (int i = 0; i < make->plan->mesh.n; i++)
        shares = shares || parameter->computed[i] == CLEAVE_FRAME_APART;
    if (sharded == CLEAVE_SHARDED_NOTHING || (runs && !shares))
        return;
    int share = parameter->planned && !runs
                    ? find_share(make->plan, parameter, &make->model->tensors[t])
                    : CLEAVE_FRAME_STRIDED;
    if (share == CLEAVE_FRAME_STRIDED)
        cleave_export_lose(make, -1, t, "update",
                           "it has no dimension that can be cut on by the devices that share it");
    else if (sharded > CLEAVE_SHARDED_UPDATE)
        cleave_export_lose(
            make, -1, t, cleave_sharded_names[sharded],
            "a weight is gathered once for forward and backward, and its gradient is whole until "
            "then");
    for (int i = 0; share >= 0 && i < make->plan->mesh.n; i++)
        if (parameter->stored[i] == CLEAVE_FRAME_APART)
            parameter->stored[i] = share;
}

static void plan_parameters(maker *make) {
    for (int32_t op = 0; op < make->model->n_operators; op++) {
        const cleave_planned_operator *reader = &make->plan->operators[op];
        for (int32_t i = 0; i < reader->frame.n_parameters; i++) {
            const cleave_frame_parameter *read = &reader->frame.parameters[i];
            if (cleave_export_owns(make->model, reader, read))
                compute(make->plan, reader, read, &make->plan->parameters[read->tensor]);
        }
    }
    for (int32_t t = 0; t < make->model->n_tensors; t++)
        if (make->model->tensors[t].kind == CLEAVE_TENSOR_PARAMETER)
            store(make, t);
}

/* ---- the whole ---- */

static cleave_status plan_time(maker *make, cleave_arena *arena, cleave_error *error) {
    cleave_micro_batches micro;
    cleave_model *window = CLEAVE_ARENA_ARRAY(arena, cleave_model, 1);
    if (window == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    CLEAVE_TRY(cleave_export_stages(make, arena, error));
    CLEAVE_TRY(cleave_export_recompute(make, arena, error));
    make->window = make->model;
    if (make->plan->schedule.micro_batches == 1)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_micro_batches_find(make->model, make->plan->schedule.micro_batches, arena,
                                         &micro, error));
    CLEAVE_TRY(cleave_micro_batches_model(make->model, &micro, arena, window, error));
    make->window = window;
    return CLEAVE_OK;
}

static cleave_status name_operators(const cleave_model *model, cleave_target target,
                                    cleave_arena *arena, cleave_planned_operator **operators,
                                    cleave_error *error) {
    int32_t n = model->n_operators;
    cleave_frame *frames = CLEAVE_ARENA_ARRAY(arena, cleave_frame, n);
    cleave_planned_operator *named = CLEAVE_ARENA_ARRAY(arena, cleave_planned_operator, n);
    cleave_module_name *names;
    if (frames == NULL || named == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    for (int32_t op = 0; op < n; op++)
        CLEAVE_TRY(cleave_frame_find(model, op, arena, &frames[op], error));
    CLEAVE_TRY(cleave_export_names(model, frames, arena, &names, error));
    for (int32_t op = 0; op < n; op++)
        named[op] = (cleave_planned_operator){.name = names[op], .frame = frames[op], .leader = -1};
    if (target == CLEAVE_TARGET_TORCH)
        CLEAVE_TRY(cleave_export_find_experts(model, named, arena, error));
    *operators = named;
    return CLEAVE_OK;
}

/* Just so? */
static bool is_said(const cleave_planned_operator *operators, int32_t op, int axis) {
    const cleave_planned_operator *planned = &operators[op];
    if (planned->leader < 0 || planned->leader == op)
        return find_objection(planned, axis) == NULL && planned->frame.differs[axis] == NULL;
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        if (planned->as[a] == axis)
            return is_said(operators, planned->leader, a);
    return false;
}

cleave_status cleave_sayable_find(const cleave_model *model, cleave_target target,
                                  cleave_arena *arena, cleave_sayable **sayable,
                                  cleave_error *error) {
    cleave_planned_operator *operators;
    cleave_sayable *found = CLEAVE_ARENA_ARRAY(arena, cleave_sayable, model->n_operators);
    if (found == NULL)
        return cleave_fail_memory(error, "finding what can be exported");
    CLEAVE_TRY(name_operators(model, target, arena, &operators, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        found[op].everywhere = operators[op].in_layer;
        for (int a = 0; a < model->operators[op].n_axes; a++)
            found[op].cut[a] = is_said(operators, op, a);
    }
    cleave_export_plan plan = {.target = target, .operators = operators};
    const cleave_export_maker make = {.model = model, .plan = &plan};
    if (target == CLEAVE_TARGET_TORCH)
        CLEAVE_TRY(cleave_export_find_begins(&make, found, error));
    *sayable = found;
    return CLEAVE_OK;
}

static cleave_status make_plan(maker *make, cleave_arena *arena, cleave_error *error) {
    cleave_export_plan *plan = make->plan;
    plan->parameters = CLEAVE_ARENA_ARRAY(arena, cleave_planned_parameter, make->model->n_tensors);
    if (plan->parameters == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    cleave_planned_parameter whole = {.planned = false};
    memset(whole.computed, CLEAVE_FRAME_APART, sizeof whole.computed);
    memset(whole.stored, CLEAVE_FRAME_APART, sizeof whole.stored);
    for (int32_t t = 0; t < make->model->n_tensors; t++)
        plan->parameters[t] = whole;
    CLEAVE_TRY(name_operators(make->model, plan->target, arena, &plan->operators, error));
    CLEAVE_TRY(plan_time(make, arena, error));
    CLEAVE_TRY(find_cuts(make, arena, error));
    CLEAVE_TRY(follow(make, arena, error));
    plan_parameters(make);
    cleave_lost *lost = CLEAVE_ARENA_ARRAY(arena, cleave_lost, make->lost.n);
    if (lost == NULL || make->failed)
        return cleave_fail_memory(error, "exporting a layout");
    if (make->lost.n > 0)
        memcpy(lost, make->lost.items, (size_t)make->lost.n * sizeof *lost);
    plan->lost = lost;
    plan->n_lost = make->lost.n;
    return CLEAVE_OK;
}

static cleave_status make_of(const cleave_model *model, const cleave_layout *layout,
                             cleave_target target, bool exact, cleave_arena *arena,
                             cleave_export_plan *plan, cleave_error *error) {
    cleave_export_plan made = {.target = target};
    maker make = {.model = model, .layout = layout, .plan = &made, .exact = exact};
    cleave_status status = make_plan(&make, arena, error);
    CLEAVE_LIST_FREE(&make.lost);
    if (status == CLEAVE_OK)
        *plan = made;
    return status;
}

cleave_status cleave_export_make(const cleave_model *model, const cleave_layout *layout,
                                 cleave_target target, cleave_arena *arena,
                                 cleave_export_plan *plan, cleave_error *error) {
    return make_of(model, layout, target, false, arena, plan, error);
}

cleave_status cleave_export_make_exact(const cleave_model *model, const cleave_layout *layout,
                                       cleave_target target, cleave_arena *arena,
                                       cleave_export_plan *plan, cleave_error *error) {
    return make_of(model, layout, target, true, arena, plan, error);
}

cleave_status cleave_export_read_back(const cleave_model *model, const cleave_layout *layout,
                                      const cleave_export_plan *plan, cleave_arena *arena,
                                      cleave_layout *result, cleave_error *error) {
    cleave_layout back;
    CLEAVE_TRY(cleave_layout_copy(layout, model, arena, &back, error));
    int32_t width = layout->n_devices / plan->n_groups;
    CLEAVE_TRY(cleave_schedule_copy(&plan->schedule, arena, &back.schedule, error));
    for (int32_t op = 0; op < model->n_operators; op++) {
        int32_t group = cleave_schedule_stage_of(&plan->schedule, op) % plan->n_groups;
        back.recompute[op] = plan->recompute[op];
        CLEAVE_TRY(cleave_mesh_split(&plan->mesh, &plan->operators[op].cut, arena, &back.splits[op],
                                     error));
        for (int32_t part = 0; part < back.splits[op].n_parts; part++)
            back.splits[op].devices[part] += group * width;
    }
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_planned_parameter *parameter = &plan->parameters[t];
        bool shared = false;
        for (int i = 0; i < plan->mesh.n; i++)
            shared = shared || (parameter->computed[i] == CLEAVE_FRAME_APART &&
                                parameter->stored[i] != CLEAVE_FRAME_APART);
        back.sharded[t] = shared ? CLEAVE_SHARDED_UPDATE : CLEAVE_SHARDED_NOTHING;
    }
    CLEAVE_TRY(cleave_layout_check(model, &back, error));
    *result = back;
    return CLEAVE_OK;
}
