#include "graph/lower/outputs.h"

/* The nest that writes an output, or the first tensor that it is a view of; -1: none does. */
static int32_t writer_of(const cleave_model *model, int32_t output) {
    return cleave_tensor_writer(model, model->outputs[output]);
}

int32_t lower_output_n_parts(const lower_builder *builder, int32_t output) {
    int32_t writer = writer_of(builder->model, output);
    return writer < 0 ? 1 : builder->parts[writer].n;
}

/* The i-th of n ranges of the longest dimension; false: it is empty. */
static bool cut(int rank, int32_t i, int32_t n, cleave_box *box) {
    int longest = 0;
    if (rank == 0)
        return i == 0;
    for (int d = 1; d < rank; d++)
        longest = box->hi[d] - box->lo[d] > box->hi[longest] - box->lo[longest] ? d : longest;
    int64_t first = box->lo[longest], extent = box->hi[longest] - first;
    box->lo[longest] = first + extent * i / n;
    box->hi[longest] = first + extent * (i + 1) / n;
    return box->hi[longest] > box->lo[longest];
}

/* The whole output, as the first micro-batch has it. */
static cleave_box whole_of(const lower_builder *builder, int32_t tensor) {
    const cleave_tensor *of = &builder->model->tensors[tensor];
    cleave_box box = cleave_box_of_shape(of->rank, of->shape);
    int d = lower_value_when(builder, tensor) == CLEAVE_WHEN_EVERY && builder->micro != NULL
                ? builder->micro->sharing.tensor_dimension[tensor]
                : -1;
    if (d >= 0)
        box.hi[d] = cleave_micro_batches_step(builder->micro, of->shape[d]);
    return box;
}

/* Of those that write the same box: each key counts once. */
static bool piece_of_part(const lower_builder *builder, int32_t writer, int32_t p,
                          cleave_output *piece) {
    const cleave_model *model = builder->model;
    const cleave_parts *parts = &builder->parts[writer];
    const cleave_operand *output = &model->nests[writer].output;
    int rank = model->tensors[output->tensor].rank;
    int32_t i = 0, n = 0;
    cleave_part_box(model, &parts->items[p], output, &piece->box);
    for (int32_t q = 0; q < parts->n; q++) {
        cleave_box box;
        if (parts->items[q].empty)
            continue;
        cleave_part_box(model, &parts->items[q], output, &box);
        if (!cleave_box_equal(rank, &box, &piece->box))
            continue;
        bool again = false;
        for (int32_t r = 0; r < q && !again; r++) {
            cleave_part_box(model, &parts->items[r], output, &box);
            again = !parts->items[r].empty && parts->items[r].key == parts->items[q].key &&
                    cleave_box_equal(rank, &box, &piece->box);
        }
        if (again && q == p)
            return false;
        i += !again && q < p;
        n += !again;
    }
    return cut(rank, i, n, &piece->box);
}

bool lower_output_piece(const lower_builder *builder, int32_t output, int32_t p,
                        cleave_output *piece) {
    const cleave_model *model = builder->model;
    int32_t tensor = model->outputs[output], writer = writer_of(model, output), i = 0, n = 0;
    *piece = (cleave_output){.output = output, .buffer = -1};
    if (writer < 0) {
        piece->box = whole_of(builder, tensor);
        return true;
    }
    const cleave_parts *parts = &builder->parts[writer];
    piece->device = parts->items[p].device;
    if (parts->items[p].empty)
        return false;
    if (model->tensors[tensor].view.kind == CLEAVE_VIEW_NONE)
        return piece_of_part(builder, writer, p, piece);
    for (int32_t q = 0; q < parts->n; q++) {
        i += q < p && !parts->items[q].empty;
        n += !parts->items[q].empty;
    }
    piece->box = whole_of(builder, tensor);
    return cut(model->tensors[tensor].rank, i, n, &piece->box);
}

cleave_status lower_outputs_check_cut(const cleave_model *model, const cleave_micro_batches *micro,
                                      cleave_error *error) {
    for (int32_t o = 0; o < model->n_outputs; o++)
        if (micro->sharing.tensor_dimension[model->outputs[o]] == CLEAVE_UNUSED)
            return cleave_fail(error, CLEAVE_BAD_INPUT,
                               "output %s can't be cut into micro-batches: its samples don't lie "
                               "in equal ranges",
                               model->tensors[model->outputs[o]].name);
    return CLEAVE_OK;
}

cleave_status lower_outputs_check_fold(const cleave_model *model, const cleave_fold *fold,
                                       cleave_error *error) {
    for (int32_t o = 0; o < model->n_outputs; o++) {
        const cleave_tensor *tensor = &model->tensors[model->outputs[o]];
        if (tensor->view.kind != CLEAVE_VIEW_NONE || writer_of(model, o) < 0 ||
            fold->sharing.tensor_dimension[model->outputs[o]] < 0)
            return cleave_fail(error, CLEAVE_NO_LAYOUT,
                               "windows of devices don't keep the same of output %s", tensor->name);
    }
    return CLEAVE_OK;
}
