/* How the tape kernel walks a nest.

   The axes become a few loops, ordered as the largest operand lies in memory and merged wherever
   all operands allow it; the two innermost are walked in tiles.  An operand, a gradient or an index
   is a stream: something with a stride along every loop. */
#include "exec/kernels/kernel_tile_channels.h"

typedef struct axis_list {
    int n;
    int axis[CLEAVE_MAX_AXES];
} axis_list;

static int add_stream(cleave_tile_plan *plan, cleave_reach reach) {
    plan->reach[plan->n_streams] = reach;
    return plan->n_streams++;
}

/* An axis' index as an operand of its own. */
static cleave_reach reach_of_axis(const cleave_kernel_call *call, int axis) {
    cleave_reach reach = {.base = call->part.lo[axis], .inside = true};
    reach.stride[axis] = 1;
    return reach;
}

/* The logical row-major index of the output's element. */
static cleave_reach reach_of_index(const cleave_kernel_call *call) {
    const cleave_operand *output = &call->nest->output;
    const cleave_tensor *tensor = &call->model->tensors[output->tensor];
    cleave_reach reach = {.inside = true};
    int64_t stride = 1;
    for (int d = tensor->rank - 1; d >= 0; d--) {
        const cleave_dimension_map *map = &output->map[d];
        reach.base += stride * map->offset;
        for (int t = 0; t < map->n_terms; t++) {
            int axis = map->terms[t].axis;
            reach.base += stride * map->terms[t].stride * call->part.lo[axis];
            reach.stride[axis] += stride * map->terms[t].stride;
        }
        stride *= tensor->shape[d];
    }
    return reach;
}

/* What backward of MOMENTS reads of the combined record and of its gradient. */
static void add_record(const cleave_kernel_call *call, cleave_tile_plan *plan) {
    const cleave_operand *output = &call->nest->output;
    cleave_reach gradient = cleave_kernel_reach(call, output, &call->output_gradient);
    cleave_reach combined = cleave_kernel_reach(call, output, &call->combined);
    plan->record[0] = add_stream(plan, combined); /* count */
    combined.base += call->combined.strides[0];
    plan->record[1] = add_stream(plan, combined); /* mean */
    gradient.base += call->output_gradient.strides[0];
    plan->record[2] = add_stream(plan, gradient); /* d mean */
    gradient.base += call->output_gradient.strides[0];
    plan->record[3] = add_stream(plan, gradient); /* d M2 */
}

static bool add_operands(const cleave_kernel_call *call, cleave_tile_plan *plan) {
    const cleave_nest *nest = call->nest;
    bool backward = call->pass != CLEAVE_PASS_FORWARD, inside = true;
    for (int i = 0; i < nest->n_inputs; i++) {
        cleave_reach reach = cleave_kernel_reach(call, &nest->inputs[i], &call->inputs[i]);
        /* An element outside takes its point away even where its value is not read. */
        inside = inside && reach.inside;
        plan->input[i] = plan->tape.values >> i & 1 ? add_stream(plan, reach) : -1;
        plan->gradient[i] = -1;
        if (backward && (plan->gradients >> i & 1) && (plan->tape.adjoints >> i & 1))
            plan->gradient[i] = add_stream(
                plan, cleave_kernel_reach(call, &nest->inputs[i], &call->input_gradients[i]));
    }
    for (int i = 0; i < nest->n_instructions; i++) {
        cleave_opcode opcode = nest->tape[i].opcode;
        plan->index[i] = -1;
        if (opcode == CLEAVE_OP_INDEX)
            plan->index[i] = add_stream(plan, reach_of_axis(call, nest->tape[i].a));
        else if (opcode == CLEAVE_OP_DROPOUT || opcode == CLEAVE_OP_UNIFORM)
            plan->index[i] = add_stream(plan, reach_of_index(call));
    }
    plan->output = plan->seed = -1;
    for (int r = 0; r < 4; r++)
        plan->record[r] = -1;
    cleave_reach output = cleave_kernel_reach(call, &nest->output, &call->output);
    if (!backward || plan->tape.from_output)
        plan->output = add_stream(plan, output);
    if (backward && nest->combiner == CLEAVE_COMBINE_MOMENTS)
        add_record(call, plan);
    else if (backward)
        plan->seed =
            add_stream(plan, cleave_kernel_reach(call, &nest->output, &call->output_gradient));
    return inside && output.inside;
}

/* The operand that the walk follows: the output where it has every axis, else the input with the
   most elements under it. */
static const cleave_reach *find_lead(const cleave_kernel_call *call, const cleave_tile_plan *plan) {
    const cleave_reach *lead = NULL;
    int64_t most = 0;
    for (int s = plan->n_streams - 1; s >= 0; s--) {
        bool is_index = false;
        for (int i = 0; i < call->nest->n_instructions; i++)
            is_index = is_index || plan->index[i] == s;
        if (is_index)
            continue;
        int64_t elements = 1;
        for (int a = 0; a < call->nest->n_axes; a++)
            if (plan->reach[s].stride[a] != 0)
                elements *= cleave_part_extent(&call->part, a);
        if (elements > most || (elements == most && (s == plan->output || s == plan->seed))) {
            most = elements;
            lead = &plan->reach[s];
        }
    }
    return lead;
}

/* Axes of more than one index, the lead's densest last; those that it lacks come first. */
static axis_list order_axes(const cleave_kernel_call *call, const cleave_reach *lead) {
    axis_list list = {0};
    int record_axis = cleave_kernel_record_axis(call->nest);
    for (int a = 0; a < call->nest->n_axes; a++) {
        if (cleave_part_extent(&call->part, a) == 1 || a == record_axis)
            continue;
        int64_t stride = lead->stride[a];
        int i = list.n++;
        for (; i > 0; i--) {
            int64_t before = lead->stride[list.axis[i - 1]];
            if (before == 0 || (stride != 0 && before >= stride))
                break;
            list.axis[i] = list.axis[i - 1];
        }
        list.axis[i] = a;
    }
    return list;
}

static bool can_merge(const cleave_tile_plan *plan, int loop, int axis, int64_t extent) {
    for (int s = 0; s < plan->n_streams; s++)
        if (plan->stride[s][loop] != plan->reach[s].stride[axis] * extent)
            return false;
    return true;
}

bool cleave_tile_is_by_column(const cleave_tile_plan *plan, int stream) {
    for (int l = 0; l < plan->n_loops - 1; l++)
        if (plan->stride[stream][l] != 0)
            return false;
    return true;
}

uint64_t cleave_tile_by_column(const cleave_nest *nest, const cleave_tile_plan *plan,
                               uint64_t inputs) {
    uint64_t found = inputs;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        int operands = cleave_opcode_operands(at->opcode);
        bool same = plan->index[i] < 0 || cleave_tile_is_by_column(plan, plan->index[i]);
        same = same && (operands < 1 || (found & cleave_register_bit(at->a)));
        same = same && (operands < 2 || (found & cleave_register_bit(at->b)));
        found |= same ? cleave_register_bit(nest->n_inputs + i) : 0;
    }
    return found;
}

/* Derivatives by what varies along the columns alone (a bias, the scale of a normalisation) are
   linear in the adjoints of such registers, so those are summed over all rows first, and the rest
   of their backward runs once per column instead of once per point. */
static void find_by_column(const cleave_nest *nest, cleave_tile_plan *plan) {
    uint64_t inputs = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if ((plan->input[i] < 0 || cleave_tile_is_by_column(plan, plan->input[i])) &&
            (plan->gradient[i] < 0 || cleave_tile_is_by_column(plan, plan->gradient[i])) &&
            (plan->input[i] >= 0 || plan->gradient[i] >= 0))
            inputs |= cleave_register_bit(i);
    uint64_t by_column = cleave_tile_by_column(nest, plan, inputs);
    if (by_column & cleave_register_bit(plan->tape.n_registers - 1))
        return;
    plan->by_column = by_column;
    for (int i = 0; i < nest->n_instructions; i++) {
        const cleave_instruction *at = &nest->tape[i];
        int r = nest->n_inputs + i, operands = cleave_opcode_operands(at->opcode);
        if ((by_column & cleave_register_bit(r)) || !(plan->tape.adjoints & cleave_register_bit(r)))
            continue;
        uint64_t read = (operands > 0 ? cleave_register_bit(at->a) : 0) |
                        (operands > 1 ? cleave_register_bit(at->b) : 0);
        plan->frontier |= read & by_column & plan->tape.adjoints;
    }
}

/* Long tiles hide the cost of walking them; where there is scratch, they are short enough for all
   their rows to lie in the first cache, 32 KiB together.  What varies along all loops is taken to
   lie there contiguously, and needs none. */
static int64_t choose_tile(const cleave_tile_plan *plan) {
    int scratch = 0, in_place = 1, n_inputs = plan->tape.nest->n_inputs;
    for (int r = 0; r + 1 < plan->tape.n_registers; r++) {
        bool whole = r < n_inputs && plan->input[r] >= 0;
        for (int l = 0; whole && l < plan->n_loops; l++)
            whole = plan->extent[l] == 1 || plan->stride[plan->input[r]][l] != 0;
        bool sunk = r < n_inputs && plan->gradient[r] >= 0 && !plan->summed[r];
        bool later = (plan->by_column & ~plan->frontier & cleave_register_bit(r)) != 0;
        if (plan->tape.values & cleave_register_bit(r))
            *(whole ? &in_place : &scratch) += 1;
        if ((plan->tape.adjoints & cleave_register_bit(r)) && !later)
            *(sunk ? &in_place : &scratch) += 1;
    }
    int64_t fit = scratch == 0 ? CLEAVE_MAX_TILE : 8192 / (scratch + in_place) / 16 * 16;
    return fit < 512 ? 512 : fit > CLEAVE_MAX_TILE ? CLEAVE_MAX_TILE : fit;
}

static void make_loops(const cleave_kernel_call *call, cleave_tile_plan *plan) {
    axis_list list = order_axes(call, find_lead(call, plan));
    for (int i = 0; i < list.n; i++) {
        int64_t extent = cleave_part_extent(&call->part, list.axis[i]);
        int loop = plan->n_loops;
        if (loop > 0 && can_merge(plan, loop - 1, list.axis[i], extent)) {
            loop--;
            plan->extent[loop] *= extent;
        } else {
            plan->extent[loop] = extent;
            plan->n_loops++;
        }
        for (int s = 0; s < plan->n_streams; s++)
            plan->stride[s][loop] = plan->reach[s].stride[list.axis[i]];
    }
    /* At least two loops: rows and columns. */
    while (plan->n_loops < 2) {
        for (int l = plan->n_loops++; l > 0; l--) {
            plan->extent[l] = plan->extent[l - 1];
            for (int s = 0; s < plan->n_streams; s++)
                plan->stride[s][l] = plan->stride[s][l - 1];
        }
        plan->extent[0] = 1;
        for (int s = 0; s < plan->n_streams; s++)
            plan->stride[s][0] = 0;
    }
    find_by_column(call->nest, plan);
    plan->tile = choose_tile(plan);
    int64_t columns = plan->extent[plan->n_loops - 1], rows = plan->extent[plan->n_loops - 2];
    if (columns <= plan->tile / 2) {
        int64_t fit = plan->tile / columns;
        plan->columns = columns;
        plan->rows = rows < fit ? rows : fit;
    } else {
        int64_t pieces = (columns + plan->tile - 1) / plan->tile;
        plan->columns = ((columns + pieces - 1) / pieces + 15) / 16 * 16;
        plan->rows = 1;
    }
}

/* Do different points of a map's axes have different indices?  Those of s h + p do, with p below s.
 */
static bool keeps_apart(const cleave_kernel_call *call, const cleave_dimension_map *map) {
    int64_t span = 1;
    for (int t = map->n_terms - 1; t >= 0; t--) {
        if (map->terms[t].stride < span)
            return false;
        span += map->terms[t].stride * (cleave_part_extent(&call->part, map->terms[t].axis) - 1);
    }
    return true;
}

/* Is every element of the array written exactly once? */
static bool written_once(const cleave_kernel_call *call, const cleave_operand *operand,
                         const cleave_array *array, const cleave_reach *reach) {
    const cleave_tensor *tensor = &call->model->tensors[operand->tensor];
    int record_axis = cleave_kernel_record_axis(call->nest);
    int64_t points = 1;
    for (int a = 0; a < call->nest->n_axes; a++) {
        int64_t extent = a == record_axis ? 1 : cleave_part_extent(&call->part, a);
        if (extent > 1 && reach->stride[a] == 0)
            return false;
        points *= extent;
    }
    for (int d = 0; d < tensor->rank; d++)
        if (!keeps_apart(call, &operand->map[d]))
            return false;
    return points == cleave_kernel_array_size(call, operand, array);
}

/* Are the elements of an array together, in whatever order, in the dimensions from this one on?
   Sums are kept for all from its first to its last. */
static bool is_together(const cleave_kernel_call *call, const cleave_operand *operand,
                        const cleave_array *array, int from) {
    int64_t reached = 1, size = 1;
    for (int d = from; d < call->model->tensors[operand->tensor].rank; d++) {
        int64_t extent = array->box.hi[d] - array->box.lo[d];
        reached += (extent - 1) * array->strides[d];
        size *= extent;
    }
    return reached == size;
}

/* A record whose parts lie one behind the other may have gaps between them. */
static bool sums_together(const cleave_kernel_call *call, const cleave_tile_plan *plan) {
    const cleave_nest *nest = call->nest;
    bool backward = call->pass != CLEAVE_PASS_FORWARD;
    for (int i = 0; backward && i < nest->n_inputs; i++)
        if (plan->gradient[i] >= 0 && plan->summed[i] &&
            !is_together(call, &nest->inputs[i], &call->input_gradients[i], 0))
            return false;
    int from = nest->combiner == CLEAVE_COMBINE_MOMENTS &&
                       call->model->tensors[nest->output.tensor].order[0] == 0
                   ? 1
                   : 0;
    return backward || nest->combiner == CLEAVE_COMBINE_NONE ||
           is_together(call, &nest->output, &call->output, from);
}

bool cleave_tile_plan_make(const cleave_kernel_call *call, cleave_tile_plan *plan) {
    const cleave_nest *nest = call->nest;
    *plan = (cleave_tile_plan){.combiner = nest->combiner};
    bool backward = call->pass != CLEAVE_PASS_FORWARD;
    if (nest->n_instructions < 1 || (backward && nest->combiner == CLEAVE_COMBINE_MAX) ||
        call->model->tensors[nest->output.tensor].type != CLEAVE_F32 ||
        ((nest->combiner == CLEAVE_COMBINE_MAX || nest->combiner == CLEAVE_COMBINE_MOMENTS) &&
         call->output.type != CLEAVE_F32))
        return false;
    if (backward) {
        plan->gradients = cleave_kernel_gradients(call);
        cleave_tape_plan_backward(nest, plan->gradients, nest->combiner == CLEAVE_COMBINE_MOMENTS,
                                  &plan->tape);
    } else {
        cleave_tape_plan_forward(nest, &plan->tape);
    }
    if (!add_operands(call, plan))
        return false;
    for (int i = 0; backward && i < nest->n_inputs; i++)
        if (plan->gradient[i] >= 0)
            plan->summed[i] = !written_once(call, &nest->inputs[i], &call->input_gradients[i],
                                            &plan->reach[plan->gradient[i]]);
    if (!backward && nest->combiner == CLEAVE_COMBINE_NONE &&
        !written_once(call, &nest->output, &call->output, &plan->reach[plan->output]))
        return false;
    if (!sums_together(call, plan))
        return false;
    make_loops(call, plan);
    tile_channels_plan(call, plan);
    return true;
}
