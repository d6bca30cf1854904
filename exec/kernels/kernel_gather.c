/* Look-ups: rows of a table copied to where their ids stand; backward adds gradients to the rows,
   in the order of the ids.

   A part has a range of the table.  An id outside of it finds zeros, which the parts that have it
   are summed with; a negative id counts from the end of the whole table, not of the range.  One
   axis is the row: dense in table and output where there is such a one, and not of the ids.  The
   others are walked, whatever their strides.

   What a loss takes at its targets is a look-up, too, in a table that has rows of its own for every
   id, and where ids count from the start alone.  It may be spelt as a product with 0 or 1: zero
   wins over whatever it is multiplied with. */
#include "exec/kernels/convert.h"
#include "exec/kernels/kernel_table.h"

#include "graph/model/gather.h"

#include <string.h>

typedef struct look_up {
    int in_ids, in_table; /* inputs */
    bool wraps;           /* negative ids count from the end */
    int v;                /* the table's axis */
    int row;              /* axis that the inner loop runs along; -1: none */
    int64_t n;            /* of it */
    bool varies;          /* the id changes along it */
    int n_outer, outer[CLEAVE_MAX_AXES];
    cleave_reach ids, table, output; /* of the gradients, in backward */
} look_up;

/* Longest dense axis; else the longest of which the ids are free; else any. */
static int rank_of_row(const look_up *of, int axis) {
    bool dense = of->table.stride[axis] == 1 && of->output.stride[axis] == 1;
    return of->ids.stride[axis] != 0 ? 0 : dense ? 2 : 1;
}

static void choose_row(const cleave_kernel_call *call, look_up *of) {
    of->row = -1;
    for (int a = 0; a < call->nest->n_axes; a++) {
        if (a == of->v || cleave_part_extent(&call->part, a) == 1)
            continue;
        int better = of->row < 0 ? 1 : rank_of_row(of, a) - rank_of_row(of, of->row);
        if (better > 0 || (better == 0 && cleave_part_extent(&call->part, a) > of->n)) {
            of->row = a;
            of->n = cleave_part_extent(&call->part, a);
        }
    }
    of->n = of->row >= 0 ? of->n : 1;
    of->varies = of->row >= 0 && of->ids.stride[of->row] != 0;
}

/* The axis along which a nest takes the element whose index the id is: sum over v of (v == id ?
   table[v] : 0), of inputs table and ids; -1: it does something else. */
static int selected_axis(const cleave_nest *nest) {
    const cleave_instruction *tape = nest->tape;
    bool selects = nest->n_inputs == 2 && nest->n_instructions == 3 &&
                   nest->combiner == CLEAVE_COMBINE_SUM && tape[0].opcode == CLEAVE_OP_INDEX &&
                   tape[1].opcode == CLEAVE_OP_EQUAL && tape[1].a == 2 && tape[1].b == 1 &&
                   (tape[2].opcode == CLEAVE_OP_MASK || tape[2].opcode == CLEAVE_OP_MUL) &&
                   tape[2].a == 0 && tape[2].b == 3;
    return selects ? tape[0].a : -1;
}

static look_up find_look_up(const cleave_nest *nest) {
    int v = selected_axis(nest);
    return v >= 0 ? (look_up){.v = v, .in_ids = 1, .in_table = 0}
                  : (look_up){.v = cleave_gather_axis(nest), .in_table = 1, .wraps = true};
}

static bool describe(const cleave_kernel_call *call, look_up *of) {
    const cleave_nest *nest = call->nest;
    bool backward = call->pass != CLEAVE_PASS_FORWARD;
    *of = find_look_up(nest);
    if (backward && cleave_kernel_gradients(call) != 1u << of->in_table)
        return false;
    of->ids = cleave_kernel_reach(call, &nest->inputs[of->in_ids], &call->inputs[of->in_ids]);
    of->table = cleave_kernel_reach(call, &nest->inputs[of->in_table],
                                    backward ? &call->input_gradients[of->in_table]
                                             : &call->inputs[of->in_table]);
    of->output =
        cleave_kernel_reach(call, &nest->output, backward ? &call->output_gradient : &call->output);
    if (of->v < 0 || of->ids.stride[of->v] != 0 || of->output.stride[of->v] != 0)
        return false;
    choose_row(call, of);
    for (int a = 0; a < nest->n_axes; a++) {
        if (a == of->v || cleave_part_extent(&call->part, a) == 1)
            continue;
        if (of->output.stride[a] == 0) /* summed: the reference does that */
            return false;
        if (a != of->row)
            of->outer[of->n_outer++] = a;
    }
    return of->ids.inside && of->table.inside && of->output.inside;
}

/* Index along v within the part's range, or -1: what `ids[at]` names is not there. */
static int64_t find_row(const cleave_kernel_call *call, const look_up *of, int64_t at) {
    int64_t extent = call->nest->axes[of->v].extent, id;
    if (call->model->tensors[call->nest->inputs[of->in_ids].tensor].type == CLEAVE_I64) {
        id = ((const int64_t *)call->inputs[of->in_ids].data)[at];
    } else {
        double number = (double)cleave_element_get(call->inputs[of->in_ids].type,
                                                   call->inputs[of->in_ids].data, at);
        if (!(number >= -(double)extent && number < (double)extent))
            return -1;
        id = (int64_t)number;
        if ((double)id < number || (double)id > number)
            return -1;
    }
    id += id < 0 && of->wraps ? extent : 0;
    return id >= call->part.lo[of->v] && id < call->part.hi[of->v] ? id - call->part.lo[of->v] : -1;
}

/* Element i of the row at `at`, or of no row. */
static float element(const cleave_kernel_call *call, const look_up *of, bool found, int64_t at) {
    const cleave_array *table = &call->inputs[of->in_table];
    if (!found)
        return 0;
    return call->model->tensors[call->nest->inputs[of->in_table].tensor].type == CLEAVE_I64
               ? (float)((const int64_t *)table->data)[at]
               : cleave_element_get(table->type, table->data, at);
}

/* One run of the inner loop; `ids`, `table` and `output` are where it begins. */
static void run_forward(const cleave_kernel_call *call, const look_up *of, int64_t ids,
                        int64_t table, int64_t output) {
    cleave_type type = call->output.type;
    int64_t size = cleave_type_bytes(type);
    char *to = (char *)call->output.data + output * size;
    int64_t along_v = of->table.stride[of->v], at = find_row(call, of, ids);
    int64_t step = of->row >= 0 ? of->table.stride[of->row] : 0;
    int64_t out = of->row >= 0 ? of->output.stride[of->row] : 0;
    bool alike = call->inputs[of->in_table].type == type &&
                 call->model->tensors[call->nest->inputs[of->in_table].tensor].type == CLEAVE_F32;
    if (!of->varies && out == 1 && at < 0) {
        memset(to, 0, (size_t)(of->n * size));
    } else if (!of->varies && out == 1 && step == 1 && alike) {
        memcpy(to, (const char *)call->inputs[of->in_table].data + (table + at * along_v) * size,
               (size_t)(of->n * size));
    } else {
        for (int64_t i = 0; i < of->n; i++) {
            if (of->varies && i > 0)
                at = find_row(call, of, ids + i * of->ids.stride[of->row]);
            cleave_element_put(type, to, i * out,
                               element(call, of, at >= 0, table + at * along_v + i * step));
        }
    }
}

static void run_backward(const cleave_kernel_call *call, const look_up *of, int64_t ids,
                         int64_t table, int64_t output) {
    const cleave_array *from = &call->output_gradient;
    float *to = (float *)call->input_gradients[of->in_table].data + table;
    int64_t along_v = of->table.stride[of->v], at = find_row(call, of, ids);
    int64_t step = of->row >= 0 ? of->table.stride[of->row] : 0;
    int64_t out = of->row >= 0 ? of->output.stride[of->row] : 0;
    if (!of->varies && at < 0)
        return;
    if (!of->varies && out == 1 && step == 1) {
        float *restrict row = to + at * along_v;
        for (int64_t i = 0; i < of->n; i++)
            row[i] += cleave_element_get(from->type, from->data, output + i);
        return;
    }
    for (int64_t i = 0; i < of->n; i++) {
        if (of->varies && i > 0)
            at = find_row(call, of, ids + i * of->ids.stride[of->row]);
        if (at >= 0)
            to[at * along_v + i * step] +=
                cleave_element_get(from->type, from->data, output + i * out);
    }
}

static bool fits(cleave_kernels *kernels, const cleave_kernel_call *call) {
    (void)kernels;
    look_up of;
    return describe(call, &of) && (call->pass == CLEAVE_PASS_FORWARD || /* sums of rows are exact */
                                   call->input_gradients[of.in_table].type == CLEAVE_F32);
}

static cleave_status run(cleave_kernels *kernels, const cleave_kernel_call *call,
                         cleave_error *error) {
    (void)kernels;
    look_up of;
    if (!describe(call, &of))
        return cleave_fail(error, CLEAVE_FAILED, "the gather kernel does not fit nest %s",
                           call->nest->name);
    bool forward = call->pass == CLEAVE_PASS_FORWARD;
    if (!forward && !(call->accumulated >> of.in_table & 1))
        cleave_kernel_zero(call, &call->nest->inputs[of.in_table],
                           &call->input_gradients[of.in_table]);
    int64_t index[CLEAVE_MAX_AXES] = {0};
    int64_t ids = of.ids.base, table = of.table.base, output = of.output.base, rows = 1;
    for (int i = 0; i < of.n_outer; i++)
        rows *= cleave_part_extent(&call->part, of.outer[i]);
    cleave_kernel_pace pace = cleave_kernel_pace_start(call, rows);
    for (int i = 0; i >= 0;) {
        (forward ? run_forward : run_backward)(call, &of, ids, table, output);
        CLEAVE_TRY(cleave_kernel_pace_step(&pace, error));
        for (i = of.n_outer - 1; i >= 0; i--) {
            int a = of.outer[i];
            bool more = ++index[i] < cleave_part_extent(&call->part, a);
            int64_t by = more ? 1 : 1 - index[i];
            ids += by * of.ids.stride[a];
            table += by * of.table.stride[a];
            output += by * of.output.stride[a];
            if (more)
                break;
            index[i] = 0;
        }
    }
    return CLEAVE_OK;
}

const cleave_kernel_row cleave_gather_kernel = {
    .name = "gather",
    .kinds = 1u << CLEAVE_NEST_GATHER | 1u << CLEAVE_NEST_REDUCE,
    .passes = 1u << CLEAVE_PASS_FORWARD | 1u << CLEAVE_PASS_INPUT_GRADIENT,
    .accumulates = true,
    .takes_bf16 = true,
    .takes_gaps = true,
    .fits = fits,
    .run = run,
};
