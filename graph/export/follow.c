/* Functions follow what they read, and outputs go where they are read.

   Between modules a framework moves nothing that need not move: the sum of two tensors that are cut
   alike is cut so.  So a module's output is moved, before functions or the loss read it or it is
   put together with others, to how the layout has them; a function that reads another function's
   output takes it as it is, and what else it reads comes to that.  Sums that modules want whole and
   whose gradients come as sums, too, add up in shares first where such shares of what is added to
   them are kept: it need not be gathered then, as the owners of blocks of sums in the program
   don't.

   What a stage is given goes from rank to rank of two groups, alike meshes, as it lies; where it is
   whole and the module that is given it wants a block, it is cut before it is sent. */
#include "graph/export/make.h"

#include <string.h>

enum { MOST_ROUNDS = 16 };
enum { UNKNOWN = INT32_MIN }; /* of a wish: nobody has said anything yet */

typedef struct follower {
    const cleave_model *model;
    cleave_export_plan *plan;
    const uint8_t *sharded; /* [n_tensors] cleave_sharded */
    const int32_t *writer;  /* [n_tensors] operator that writes a base tensor, or -1 */
} follower;

/* Does it follow what it reads?  What modules do with others is cut as they are. */
static bool is_function(const follower *f, int32_t op) {
    const cleave_planned_operator *planned = &f->plan->operators[op];
    return planned->name.named == CLEAVE_NAMED_NOTHING && planned->leader < 0;
}

/* The axis of its writer that lies in a dimension of a base tensor. */
static int writer_axis(const follower *f, int32_t tensor, int dimension) {
    int32_t nest = f->model->writer[tensor];
    const cleave_operator *op = &f->model->operators[f->writer[tensor]];
    for (int a = 0; dimension >= 0 && a < op->n_axes; a++)
        if (cleave_frame_dimension(f->model, &f->model->nests[nest], &f->model->nests[nest].output,
                                   a) == dimension)
            return a;
    return CLEAVE_MESH_REPEATS;
}

/* How a reader would have the output of the operator that writes `tensor`: the writer's axis. */
static int wish_of(const follower *f, int32_t reader, const cleave_nest *nest,
                   const cleave_operand *operand, int32_t tensor, int i) {
    const cleave_mesh_cut *cut = &f->plan->operators[reader].cut;
    if (cut->axis[i] < 0)
        return cut->axis[i];
    int d = cleave_frame_dimension(f->model, nest, operand, cut->axis[i]);
    if (d < 0)
        return CLEAVE_MESH_REPEATS;
    int32_t parts = cleave_mesh_degree(&f->plan->mesh, cut, cut->axis[i]);
    return writer_axis(f, tensor, cleave_frame_locate(f->model, operand->tensor, d, parts, tensor));
}

/* Wishes of one sort of readers, by dimension of the mesh: an axis of the writer, or REPEATS, or
   with whom alone it is wanted, or UNKNOWN. */
typedef struct wishes {
    int axis[CLEAVE_MAX_MESH];
    bool sums[CLEAVE_MAX_MESH]; /* gradients come in parts that add up */
    bool differ;
    bool early; /* before what is no move of a program: parts are put together, logits flattened */
} wishes;

static void add_wishes(const follower *f, int32_t reader, const cleave_nest *nest,
                       const cleave_operand *operand, int32_t tensor, wishes *all) {
    for (int i = 0; i < f->plan->mesh.n; i++) {
        int wish = wish_of(f, reader, nest, operand, tensor, i);
        all->differ = all->differ || (all->axis[i] != UNKNOWN && all->axis[i] != wish);
        all->axis[i] = wish;
        all->sums[i] = all->sums[i] ||
                       (wish == CLEAVE_MESH_REPEATS && f->plan->operators[reader].cut.axis[i] >= 0);
    }
}

/* Adds the wishes of all that read one operand of `reader` to those of the operators that write
   what is behind it. */
static void ask(const follower *f, int32_t reader, const cleave_nest *nest,
                const cleave_operand *operand, int32_t tensor, bool joined, wishes *by_function,
                wishes *by_module) {
    const cleave_view *view = &f->model->tensors[tensor].view;
    for (int32_t i = 0; view->kind != CLEAVE_VIEW_NONE && i < view->n_sources; i++)
        ask(f, reader, nest, operand, view->sources[i], joined || view->n_sources > 1, by_function,
            by_module);
    int32_t op = view->kind == CLEAVE_VIEW_NONE ? f->writer[tensor] : -1;
    if (op < 0 || op == reader)
        return;
    cleave_named named = f->plan->operators[reader].name.named;
    wishes *all = is_function(f, reader) ? &by_function[op] : &by_module[op];
    all->early = all->early || joined || named == CLEAVE_NAMED_LOSS;
    add_wishes(f, reader, nest, operand, tensor, all);
}

/* Can the output of a module be cut as these wishes say, in what their i-th says? */
static bool is_in_output(const follower *f, int32_t op, const wishes *wish, int i) {
    const cleave_planned_operator *planned = &f->plan->operators[op];
    int axis = wish->axis[i];
    int64_t degree = 1;
    if (axis < 0 || planned->frame.output[axis] < 0)
        return false;
    for (int k = 0; k < f->plan->mesh.n; k++)
        degree *= wish->axis[k] == axis ? f->plan->mesh.size[k] : 1;
    return f->model->operators[op].axes[axis].extent % degree == 0;
}

/* The axis in which shares of a parameter lie that is added to sums which are cut by this dimension
   of the mesh, where the output can be cut so; else REPEATS. */
static int find_shares(const follower *f, int32_t op, int i) {
    const cleave_planned_operator *planned = &f->plan->operators[op];
    for (int32_t p = 0; p < planned->frame.n_parameters; p++) {
        const cleave_frame_parameter *added = &planned->frame.parameters[p];
        if (added->of_main || f->sharded[added->tensor] == CLEAVE_SHARDED_NOTHING)
            continue;
        for (int a = 0; a < f->model->operators[op].n_axes; a++) {
            wishes shares;
            memcpy(shares.axis, planned->then.axis, sizeof planned->then.axis);
            shares.axis[i] = a;
            if (added->dimension[a] == 0 && is_in_output(f, op, &shares, i))
                return a;
        }
    }
    return CLEAVE_MESH_REPEATS;
}

static void settle_output(follower *f, int32_t op, const wishes *by_function,
                          const wishes *by_module) {
    cleave_planned_operator *planned = &f->plan->operators[op];
    bool asked = by_function->axis[0] != UNKNOWN;
    bool moves =
        planned->name.named == CLEAVE_NAMED_MODULE || planned->name.named == CLEAVE_NAMED_FUNCTION;
    const wishes *wish = asked ? by_function : by_module;
    /* A block of a part may be none of the whole, nor one of logits of the rows that the loss has.
     */
    bool early = !asked && wish->early;
    planned->then = planned->cut;
    if (planned->leader >= 0) { /* what experts give goes to where its tokens were routed */
        planned->then =
            planned->leader == op ? f->plan->operators[planned->router].cut : planned->cut;
        return;
    }
    if (cleave_export_is_called_before(f->plan, op)) {
        planned->then = f->plan->operators[planned->name.first_call].then;
        return;
    }
    for (int i = 0; i < f->plan->mesh.n; i++) {
        int own = planned->cut.axis[i];
        bool partial = own >= 0 && planned->frame.sums[own];
        if (!moves || (!asked && !early && !partial))
            continue;
        bool clear = wish->axis[i] != UNKNOWN && !wish->differ;
        if (clear && (is_in_output(f, op, wish, i) || wish->axis[i] == own ||
                      cleave_mesh_is_alone(wish->axis[i])))
            planned->then.axis[i] = wish->axis[i];
        else if (partial || (clear && (asked || wish->axis[i] == CLEAVE_MESH_REPEATS)))
            planned->then.axis[i] = CLEAVE_MESH_REPEATS;
        if (partial && !asked && wish->sums[i] && planned->then.axis[i] == CLEAVE_MESH_REPEATS)
            planned->then.axis[i] = find_shares(f, op, i);
    }
}

/* The operand by which an operator reads a base tensor, and its nest; false: it does not. */
static bool find_operand(const follower *f, int32_t op, int32_t base, const cleave_nest **nest,
                         const cleave_operand **operand) {
    for (int32_t k = 0; k < f->model->operators[op].n_nests; k++) {
        *nest = &f->model->nests[f->model->operators[op].nests[k]];
        for (int i = 0; i < (*nest)->n_inputs; i++) {
            *operand = &(*nest)->inputs[i];
            if (cleave_tensor_base(f->model, (*operand)->tensor) == base)
                return true;
        }
    }
    return false;
}

/* How a base tensor lies where an operator reads it, in axes of its writer: as that leaves it, and
   in a later stage as that is given it. */
static cleave_mesh_cut arrival(const follower *f, int32_t reader, int32_t base) {
    const cleave_schedule *schedule = &f->plan->schedule;
    cleave_mesh_cut written = f->plan->operators[f->writer[base]].then, cut = written;
    const cleave_nest *nest;
    const cleave_operand *operand;
    int32_t stage = cleave_schedule_stage_of(schedule, reader);
    if (stage <= cleave_schedule_stage_of(schedule, f->writer[base]))
        return written;
    int32_t first = schedule->first_operator[stage];
    if (!find_operand(f, first, base, &nest, &operand))
        return written;
    for (int i = 0; i < f->plan->mesh.n; i++) {
        int wish = wish_of(f, first, nest, operand, base, i);
        bool free = wish >= 0 && written.axis[i] < 0;
        for (int k = 0; k < f->plan->mesh.n && free; k++)
            free = written.axis[k] != wish || wish_of(f, first, nest, operand, base, k) == wish;
        if (free)
            cut.axis[i] = wish;
    }
    return cut;
}

/* How an operand comes, in axes of the operator that reads it; returns how much it is spread: by
   how many dimensions of the mesh cut it, and of as many by how many leave it to some devices
   alone. */
static int comes_as(const follower *f, int32_t reader, const cleave_nest *nest,
                    const cleave_operand *operand, cleave_mesh_cut *cut) {
    const cleave_operator *op = &f->model->operators[reader];
    int n = 0;
    int32_t base = cleave_tensor_base(f->model, operand->tensor);
    memset(cut->axis, CLEAVE_MESH_REPEATS, sizeof cut->axis);
    if (f->writer[base] < 0)
        return 0;
    const cleave_mesh_cut written = arrival(f, reader, base);
    for (int i = 0; i < f->plan->mesh.n; i++) {
        if (cleave_mesh_is_alone(written.axis[i])) {
            cut->axis[i] = written.axis[i];
            n++;
        }
        for (int8_t a = 0; a < op->n_axes && written.axis[i] >= 0; a++) {
            int32_t parts = cleave_mesh_degree(&f->plan->mesh, &written, written.axis[i]);
            int d = cleave_frame_dimension(f->model, nest, operand, a);
            d = d >= 0 ? cleave_frame_locate(f->model, operand->tensor, d, parts, base) : d;
            bool same = d >= 0 && writer_axis(f, base, d) == written.axis[i];
            if (same && cut->axis[i] < 0) {
                cut->axis[i] = a;
                n += CLEAVE_MAX_MESH;
            }
        }
    }
    return n;
}

/* A function takes the operand that is cut most as it is, and brings the others to it. `functions`:
   of the operands that other functions write, if there are any.  True if that changes its cut. */
static bool follow_operands(follower *f, int32_t id, bool functions) {
    const cleave_operator *op = &f->model->operators[id];
    cleave_planned_operator *planned = &f->plan->operators[id];
    cleave_mesh_cut best = planned->cut;
    int most = -1;
    for (int32_t k = 0; k < op->n_nests; k++) {
        const cleave_nest *nest = &f->model->nests[op->nests[k]];
        for (int i = 0; i < nest->n_inputs; i++) {
            cleave_mesh_cut cut;
            int32_t writer = f->writer[cleave_tensor_base(f->model, nest->inputs[i].tensor)];
            if (writer == id || (functions && (writer < 0 || !is_function(f, writer))))
                continue;
            int n = comes_as(f, id, nest, &nest->inputs[i], &cut);
            if (n > most) {
                most = n;
                best = cut;
            }
        }
    }
    for (int i = 0; i < f->plan->mesh.n; i++)
        if (best.axis[i] >= 0 && planned->frame.cannot[best.axis[i]] != NULL)
            best.axis[i] = CLEAVE_MESH_REPEATS;
    bool changed = memcmp(&planned->cut, &best, sizeof best) != 0;
    planned->cut = planned->then = best;
    return changed;
}

/* The operator that writes each base tensor. */
static int32_t *find_writers(const cleave_model *model, cleave_arena *arena) {
    int32_t *writer = CLEAVE_ARENA_ARRAY(arena, int32_t, model->n_tensors);
    for (int32_t t = 0; writer != NULL && t < model->n_tensors; t++)
        writer[t] = model->writer[t] < 0 ? -1 : model->nests[model->writer[t]].op;
    return writer;
}

static void ask_all(const follower *f, wishes *by_function, wishes *by_module) {
    for (int32_t op = 0; op < f->model->n_operators; op++) {
        by_function[op] = (wishes){.differ = by_function[op].differ};
        by_module[op] = (wishes){.differ = by_module[op].differ};
        for (int i = 0; i < CLEAVE_MAX_MESH; i++)
            by_function[op].axis[i] = by_module[op].axis[i] = UNKNOWN;
    }
    for (int32_t op = 0; op < f->model->n_operators; op++)
        for (int32_t k = 0; k < f->model->operators[op].n_nests; k++) {
            const cleave_nest *nest = &f->model->nests[f->model->operators[op].nests[k]];
            for (int i = 0; i < nest->n_inputs; i++)
                ask(f, op, nest, &nest->inputs[i], nest->inputs[i].tensor, false, by_function,
                    by_module);
        }
}

/* Operators stand in an order in which they can run.  True if any function changed. */
static bool follow_once(follower *f, wishes *by_function, wishes *by_module) {
    bool changed = false;
    for (int32_t op = 0; op < f->model->n_operators; op++)
        if (is_function(f, op))
            changed = follow_operands(f, op, true) || changed;
    ask_all(f, by_function, by_module);
    for (int32_t op = 0; op < f->model->n_operators; op++)
        if (is_function(f, op))
            changed = follow_operands(f, op, false) || changed;
        else
            settle_output(f, op, &by_function[op], &by_module[op]);
    return changed;
}

/* What the module of a stage is given: the first of its operands that an earlier stage writes. */
static void give_stage(const follower *f, int32_t stage) {
    const cleave_schedule *schedule = &f->plan->schedule;
    int32_t first = schedule->first_operator[stage];
    for (int32_t k = 0; k < f->model->operators[first].n_nests; k++) {
        const cleave_nest *nest = &f->model->nests[f->model->operators[first].nests[k]];
        for (int i = 0; i < nest->n_inputs; i++) {
            int32_t writer = f->writer[cleave_tensor_base(f->model, nest->inputs[i].tensor)];
            if (writer < 0 || cleave_schedule_stage_of(schedule, writer) >= stage)
                continue;
            comes_as(f, first, nest, &nest->inputs[i], &f->plan->given[stage]);
            return;
        }
    }
}

cleave_status cleave_export_follow(const cleave_export_maker *make, cleave_arena *arena,
                                   cleave_error *error) {
    cleave_export_plan *plan = make->plan;
    int32_t n = make->model->n_operators;
    follower f = {make->model, plan, make->layout->sharded, find_writers(make->model, arena)};
    wishes *by_function = CLEAVE_ARENA_ARRAY(arena, wishes, n);
    wishes *by_module = CLEAVE_ARENA_ARRAY(arena, wishes, n);
    plan->given = CLEAVE_ARENA_ARRAY(arena, cleave_mesh_cut, plan->schedule.n_stages);
    if (f.writer == NULL || by_function == NULL || by_module == NULL || plan->given == NULL)
        return cleave_fail_memory(error, "exporting a layout");
    /* What functions can't have changes what others want: until all have what they want. */
    for (int round = 0; round < MOST_ROUNDS && follow_once(&f, by_function, by_module); round++)
        ;
    for (int32_t s = 0; s < plan->schedule.n_stages; s++) {
        memset(plan->given[s].axis, CLEAVE_MESH_REPEATS, sizeof plan->given[s].axis);
        if (s > 0)
            give_stage(&f, s);
    }
    return CLEAVE_OK;
}
