/* Mean and variance as a nest. */
#include "graph/import/operators/statistics.h"

/* Maps dimensions 1, 2 ... of a record to the axes that are kept. */
static void map_kept(const cleave_statistics *statistics, int n_axes, cleave_operand *record) {
    int dimension = 1;
    for (int a = 0; a < n_axes; a++)
        if ((statistics->reduced >> a & 1u) == 0)
            cleave_map_axis(record, dimension++, a);
}

cleave_status cleave_statistics_add(cleave_importer *im, cleave_statistics *statistics) {
    cleave_draft_operator op = im->operators.items[statistics->op];
    int64_t shape[CLEAVE_MAX_AXES + 1] = {3};
    const char *names[CLEAVE_MAX_RANK] = {"record"};
    int rank = 1;
    statistics->count = 1;
    for (int a = 0; a < op.n_axes; a++) {
        if ((statistics->reduced >> a & 1u) != 0) {
            statistics->count *= op.axes[a].extent;
        } else {
            if (rank < CLEAVE_MAX_RANK)
                names[rank] = op.axes[a].name;
            shape[rank++] = op.axes[a].extent;
        }
    }
    CLEAVE_TRY(cleave_import_new_tensor(
        im, (cleave_new_tensor){NULL, statistics->op, ".statistics", rank, shape, -1},
        &statistics->record));
    for (int d = 0; d < rank; d++)
        im->tensors.items[statistics->record].axes[d] = names[d];
    cleave_nest nest = {
        .kind = CLEAVE_NEST_MOMENTS, .op = statistics->op, .combiner = CLEAVE_COMBINE_MOMENTS};
    nest.output.tensor = statistics->record;
    cleave_nest_take_axes(&nest, &op);
    int record = cleave_nest_add_axis(&nest, "record", 3, true, -1);
    cleave_map_axis(&nest.output, 0, record);
    map_kept(statistics, op.n_axes, &nest.output);
    cleave_nest_add_input(&nest, statistics->input.tensor);
    nest.inputs[0] = statistics->input;
    cleave_nest_emit(&nest, CLEAVE_OP_COPY, 0, 0, 0, 0);
    return cleave_import_add_nest(im, &nest, ".moments", NULL);
}

int cleave_statistics_input(const cleave_importer *im, const cleave_statistics *statistics,
                            cleave_nest *nest, int row) {
    int input = cleave_nest_add_input(nest, statistics->record);
    cleave_map_offset(&nest->inputs[input], 0, row);
    map_kept(statistics, im->operators.items[statistics->op].n_axes, &nest->inputs[input]);
    return input;
}

int cleave_statistics_emit(cleave_nest *nest, int mean, int variance, double p, double epsilon) {
    int centred = cleave_nest_emit(nest, CLEAVE_OP_SUB, 0, mean, 0, 0);
    int shifted = cleave_nest_emit(nest, CLEAVE_OP_SCALE, variance, 0, p, epsilon);
    int inverse = cleave_nest_emit(nest, CLEAVE_OP_RSQRT, shifted, 0, 0, 0);
    return cleave_nest_emit(nest, CLEAVE_OP_MUL, centred, inverse, 0, 0);
}
