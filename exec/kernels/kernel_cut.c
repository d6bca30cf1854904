/* How a call is cut for threads.

   Along one axis, of which every element of the results has one index: each part writes a box of
   its own, as the part of a layout would, of arrays that all share.  So sums stay whole, whatever
   kernel does a part.  Of such axes the one is taken whose largest part costs least: what all parts
   read counts in each of them, and so does the copying of what a kernel wants without gaps. */
#include "exec/kernels/kernel_operands.h"
#include "exec/kernels/widen.h"
#include "graph/model/attention.h"

enum { LINE_BYTES = 64 /* of the cache, that no two threads should write */ };

/* Calls that cost less, about ten microseconds of a core, are not worth handing out. */
static const double least_cost = 1 << 16;

/* Axes' ranges of part i. */
static void cut_ranges(const cleave_kernel_call *call, cleave_kernel_cut cut, int32_t i,
                       cleave_part *part) {
    int64_t lo = call->part.lo[cut.axis], extent = call->part.hi[cut.axis] - lo,
            blocks = (extent + cut.grain - 1) / cut.grain,
            from = cut.grain * cleave_block_start(blocks, cut.n, i),
            to = cut.grain * cleave_block_start(blocks, cut.n, i + 1);
    *part = call->part;
    part->lo[cut.axis] = lo + from;
    part->hi[cut.axis] = lo + (to < extent ? to : extent);
}

/* The array of all becomes the box of a part in it. */
static void narrow(const cleave_kernel_call *part, const cleave_operand *operand,
                   cleave_array *array) {
    const cleave_tensor *tensor = &part->model->tensors[operand->tensor];
    cleave_box box;
    int64_t at = 0;
    cleave_part_box(part->model, &part->part, operand, &box);
    for (int d = 0; d < tensor->rank; d++)
        at += (box.lo[d] - array->box.lo[d]) * array->strides[d];
    array->box = box;
    if (array->data != NULL && cleave_box_size(tensor->rank, &box) > 0)
        array->data = (char *)array->data + at * cleave_type_bytes(array->type);
}

void cleave_kernel_cut_part(const cleave_kernel_call *call, int32_t i, cleave_kernel_call *part) {
    const cleave_nest *nest = call->nest;
    *part = *call;
    cut_ranges(call, call->cut, i, &part->part);
    for (int k = 0; k < nest->n_inputs; k++) {
        narrow(part, &nest->inputs[k], &part->inputs[k]);
        narrow(part, &nest->inputs[k], &part->input_gradients[k]);
    }
    narrow(part, &nest->output, &part->output);
    narrow(part, &nest->output, &part->output_gradient);
    narrow(part, cleave_nest_combined(nest), &part->combined);
    part->pieces = (call->pieces + call->cut.n - 1) / call->cut.n;
    part->poll = i == 0 ? call->poll : NULL;
    part->workspace = NULL;
    part->workspace_bytes = 0;
    part->cut = (cleave_kernel_cut){.n = 1};
}

/* Do parts write boxes that do not meet, and that are all there is? */
static bool writes_apart(const cleave_kernel_call *call, cleave_kernel_cut cut,
                         const cleave_kernel_operand *of) {
    int rank = call->model->tensors[of->operand->tensor].rank;
    int64_t size = 0;
    cleave_box box, before;
    for (int32_t i = 0; i < cut.n; i++, before = box) {
        cleave_part part;
        cut_ranges(call, cut, i, &part);
        cleave_part_box(call->model, &part, of->operand, &box);
        size += cleave_box_size(rank, &box);
        bool apart = i == 0;
        for (int d = 0; d < rank && !apart; d++)
            apart = before.hi[d] <= box.lo[d];
        if (!apart)
            return false;
    }
    return size == cleave_box_size(rank, &cleave_kernel_array_of(call, of)->box);
}

/* In bytes that are moved: what a core does in the time of one is about ten operations. */
static double cost_of(const cleave_kernel_call *call, const cleave_kernel_operand *list,
                      int n_operands, unsigned without) {
    bool product =
        call->nest->kind == CLEAVE_NEST_PRODUCT || call->nest->kind == CLEAVE_NEST_CONVOLUTION;
    uint32_t gradients = call->pass == CLEAVE_PASS_FORWARD ? 0 : cleave_kernel_gradients(call);
    double cost = 0.2;
    for (int a = 0; a < call->nest->n_axes; a++)
        cost *= (double)cleave_part_extent(&call->part, a);
    for (int i = 0; i < n_operands; i++) {
        const cleave_array *array = cleave_kernel_array_of(call, &list[i]);
        /* The gradient of a factor is made of the other one. */
        bool idle = product && gradients != 0 && array >= call->inputs &&
                    array < call->inputs + CLEAVE_MAX_INPUTS &&
                    (gradients & ~(UINT32_C(1) << (array - call->inputs))) == 0;
        int64_t n = idle ? 0 : cleave_kernel_array_size(call, list[i].operand, array);
        cost += (double)(n * cleave_type_bytes(array->type));
    }
    return without != 0 ? cost + 2 * (double)cleave_kernel_adapted_bytes(call, without) : cost;
}

/* Of the part that costs most; 0: a part is left to a kernel that does whatever no other does,
   where the whole is not. */
static double cost_of_parts(cleave_kernels *kernels, const cleave_kernel_call *call,
                            const cleave_kernel_operand *list, int n_operands) {
    const cleave_kernel_row *whole = cleave_kernel_take(kernels, call).row;
    double most = 0;
    for (int32_t i = 0; i < call->cut.n; i++) {
        cleave_kernel_call part;
        cleave_kernel_cut_part(call, i, &part);
        cleave_kernel_taken taken = cleave_kernel_take(kernels->shares[i], &part);
        if (taken.row == NULL || (taken.row != whole && taken.row->kinds == ~0u))
            return 0;
        double cost = cost_of(&part, list, n_operands, taken.without);
        most = cost > most ? cost : most;
    }
    return most;
}

/* What a maximum is of is looked at together, backward too, and so are the keys of a row. */
static bool may_cut(const cleave_kernel_call *call, int axis) {
    const cleave_nest *nest = call->nest;
    int rank = call->model->tensors[nest->output.tensor].rank;
    return !nest->axes[axis].whole && (nest->attention == NULL || axis != nest->attention->keys) &&
           axis != cleave_kernel_record_axis(nest) &&
           (nest->combiner != CLEAVE_COMBINE_MAX ||
            cleave_operand_maps_axis(&nest->output, rank, axis));
}

double cleave_kernel_cut_along(cleave_kernels *kernels, const cleave_kernel_call *call, int axis,
                               cleave_kernel_cut *found) {
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    int n_operands = cleave_kernel_operands(call, list);
    cleave_kernel_call cut = *call;
    cut.cut = (cleave_kernel_cut){.axis = (int16_t)axis, .n = 1, .grain = 1};
    for (int i = 0; i < n_operands; i++) {
        const cleave_array *array = cleave_kernel_array_of(call, &list[i]);
        int32_t line = (int32_t)(LINE_BYTES / cleave_type_bytes(array->type));
        if (cleave_kernel_reach(call, list[i].operand, array).stride[axis] == 1 &&
            line > cut.cut.grain)
            cut.cut.grain = line;
    }
    int64_t extent = cleave_part_extent(&call->part, axis), n = cleave_team_size(kernels->team),
            blocks = (extent + cut.cut.grain - 1) / cut.cut.grain;
    cut.cut.n = (int16_t)(blocks < n ? blocks : n);
    bool whole = !may_cut(call, axis);
    for (int i = 0; i < n_operands; i++)
        whole = whole || (list[i].writes && !writes_apart(call, cut.cut, &list[i]));
    *found = cut.cut;
    return whole || cut.cut.n == 1 ? 0 : cost_of_parts(kernels, &cut, list, n_operands);
}

cleave_kernel_cut cleave_kernel_find_cut(cleave_kernels *kernels, const cleave_kernel_call *call) {
    cleave_kernel_cut best = {.n = 1}, cut;
    if (kernels->team == NULL)
        return best;
    cleave_kernel_operand list[CLEAVE_MOST_KERNEL_OPERANDS];
    double least = cost_of(call, list, cleave_kernel_operands(call, list), 0);
    if (least < least_cost)
        return best;
    for (int axis = 0; axis < call->nest->n_axes; axis++) {
        double cost = cleave_kernel_cut_along(kernels, call, axis, &cut);
        if (cost > 0 && cost < least) {
            least = cost;
            best = cut;
        }
    }
    return best;
}
