/* What convolutions and transposed convolutions have in common. */
#include "graph/import/operators/convolution.h"
#include "graph/import/operators/windows.h"

cleave_status cleave_convolution_check_kernel(cleave_importer *im, int n, const int64_t *kernel) {
    int64_t said[CLEAVE_MOST_SPATIAL];
    if (cleave_import_attribute(im, "kernel_shape") == NULL)
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_integers(im, "kernel_shape", n, 1, CLEAVE_MOST_WINDOW, 1, said));
    for (int d = 0; d < n; d++)
        if (said[d] != kernel[d])
            return cleave_import_fail(im, "attribute kernel_shape has %lld, its weight %lld",
                                      (long long)said[d], (long long)kernel[d]);
    return CLEAVE_OK;
}

cleave_status cleave_convolution_refine_weight(cleave_importer *im, const int64_t channels[3],
                                               int n, const int64_t *kernel, bool row_major,
                                               int32_t *weight) {
    int rank = 0, order[CLEAVE_MAX_RANK] = {0};
    int64_t shape[CLEAVE_MAX_RANK] = {0};
    for (int i = channels[0] > 1 ? 0 : 1; i < 3; i++)
        shape[rank++] = channels[i];
    int inner = rank - 1;
    for (int d = 0; d < n; d++)
        shape[rank++] = kernel[d];
    for (int i = 0; i < rank; i++)
        order[i] = row_major || i < inner ? i : i == rank - 1 ? inner : i + 1;
    return cleave_import_refine(im, 1, rank, shape, order, weight);
}

void cleave_convolution_map_channels(cleave_operand *operand, int group, int channel,
                                     int64_t per_group) {
    cleave_map_offset(operand, 1, 0);
    if (group >= 0)
        cleave_map_term(operand, 1, group, per_group);
    cleave_map_term(operand, 1, channel, 1);
}

cleave_status cleave_convolution_add_bias(cleave_importer *im, int32_t op, int64_t channels) {
    int32_t bias, tail;
    if (!cleave_import_has_input(im, 2))
        return CLEAVE_OK;
    CLEAVE_TRY(cleave_import_tensor(im, 2, &bias));
    const cleave_tensor *tensor = &im->tensors.items[bias].tensor;
    if (tensor->rank != 1 || tensor->shape[0] != channels)
        return cleave_import_fail(im, "its bias is not of %lld elements", (long long)channels);
    cleave_import_initialise(im, bias, im->operators.items[op].fan_in, 0);
    CLEAVE_TRY(cleave_import_tail(im, op, 1, 1, &tail));
    cleave_nest *nest = &im->nests.items[tail].nest;
    int input = cleave_nest_add_input(nest, bias);
    cleave_map_axis(&nest->inputs[input], 0, 1);
    cleave_nest_emit(nest, CLEAVE_OP_ADD, 0, input, 0, 0);
    return CLEAVE_OK;
}
