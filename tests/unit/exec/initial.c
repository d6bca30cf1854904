/* Values from the seed: the same whatever box is asked for, and of the right distribution. */
#include "exec/data/initial.h"
#include "exec/kernels/dropout.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

static cleave_tensor example(cleave_tensor_kind kind, cleave_type type) {
    /* memory order 2 0 1: as if channels came first */
    return (cleave_tensor){.name = "example",
                           .kind = kind,
                           .type = type,
                           .rank = 3,
                           .shape = {5, 6, 7},
                           .order = {2, 0, 1},
                           .fan_in = 9,
                           .below = 11};
}

typedef void fill_function(const cleave_tensor *tensor, const cleave_box *box, void *data);
static void fill_parameter(const cleave_tensor *tensor, const cleave_box *box, void *data) {
    cleave_initial_fill(tensor, 42, box, data);
}
static void fill_data(const cleave_tensor *tensor, const cleave_box *box, void *data) {
    cleave_initial_fill_data(tensor, 42, 3, box, data);
}

/* Every element of a box, looked up by its place in the whole. */
static void expect_box_is_cut_from_whole(const cleave_tensor *tensor, fill_function *fill) {
    int64_t size = cleave_type_bytes(tensor->type);
    static char whole[210 * 8], part[210 * 8];
    cleave_box all = cleave_box_of_shape(3, tensor->shape), box = {{1, 2, 3}, {4, 6, 5}};
    int64_t all_strides[3], strides[3];
    fill(tensor, &all, whole);
    fill(tensor, &box, part);
    cleave_tensor_strides(tensor, &all, all_strides);
    cleave_tensor_strides(tensor, &box, strides);
    for (int64_t i = 1; i < 4; i++)
        for (int64_t j = 2; j < 6; j++)
            for (int64_t k = 3; k < 5; k++) {
                int64_t from = i * all_strides[0] + j * all_strides[1] + k * all_strides[2];
                int64_t to = (i - 1) * strides[0] + (j - 2) * strides[1] + (k - 3) * strides[2];
                cr_expect(memcmp(whole + from * size, part + to * size, (size_t)size) == 0);
            }
}

Test(initial, values_do_not_depend_on_the_box_asked_for) {
    cleave_tensor parameter = example(CLEAVE_TENSOR_PARAMETER, CLEAVE_F32);
    cleave_tensor datum = example(CLEAVE_TENSOR_DATA, CLEAVE_F32);
    cleave_tensor ids = example(CLEAVE_TENSOR_DATA, CLEAVE_I64);
    expect_box_is_cut_from_whole(&parameter, fill_parameter);
    expect_box_is_cut_from_whole(&datum, fill_data);
    expect_box_is_cut_from_whole(&ids, fill_data);
}

Test(initial, values_do_not_depend_on_the_order_in_memory) {
    cleave_tensor one = example(CLEAVE_TENSOR_PARAMETER, CLEAVE_F32), other = one;
    for (int d = 0; d < 3; d++)
        other.order[d] = d;
    float a[210], b[210];
    cleave_box all = cleave_box_of_shape(3, one.shape);
    cleave_initial_fill(&one, 1, &all, a);
    cleave_initial_fill(&other, 1, &all, b);
    /* element (i, j, k): memory order 2 0 1 is k, i, j outermost first */
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 6; j++)
            for (int k = 0; k < 7; k++)
                cr_expect(memcmp(&a[k * 30 + i * 6 + j], &b[i * 42 + j * 7 + k], 4) == 0);
}

Test(initial, kaiming_uniform_stays_within_its_bound_and_fills_it) {
    cleave_tensor tensor = example(CLEAVE_TENSOR_PARAMETER, CLEAVE_F32); /* bound 1 / sqrt(9) */
    float values[210];
    cleave_box all = cleave_box_of_shape(3, tensor.shape);
    cleave_initial_fill(&tensor, 7, &all, values);
    double least = 1, most = -1, sum = 0;
    for (int i = 0; i < 210; i++) {
        least = fmin(least, (double)values[i]);
        most = fmax(most, (double)values[i]);
        sum += (double)values[i];
    }
    cr_expect(least >= -1.0 / 3 && most <= 1.0 / 3, "%g to %g", least, most);
    cr_expect(least < -0.3 && most > 0.3);
    /* deviation of the mean of 210: bound / sqrt(3) / sqrt(210) = 0.0133; five of those */
    cr_expect(fabs(sum / 210) < 0.067);
}

Test(initial, a_value_in_the_model_goes_before_the_seed) {
    cleave_tensor tensor = example(CLEAVE_TENSOR_PARAMETER, CLEAVE_F32);
    float given[210], got[1];
    for (int i = 0; i < 210; i++)
        given[i] = (float)i;
    tensor.value = given;
    cleave_box one = {{2, 3, 4}, {3, 4, 5}};
    cleave_initial_fill(&tensor, 7, &one, got);
    cr_expect_eq((int)got[0], 2 * 42 + 3 * 7 + 4);
}

Test(initial, made_up_data_are_standard_normal_and_ids_are_below) {
    double sum = 0, squares = 0;
    int seen[11] = {0};
    for (int i = 0; i < 10000; i++) {
        double x = (double)cleave_initial_normal(5, i);
        int64_t id = cleave_initial_id(5, i, 11);
        sum += x;
        squares += x * x;
        cr_assert(id >= 0 && id < 11);
        seen[id]++;
    }
    /* deviations of mean and variance over 10^4 draws: 0.01 and 0.0141; five of each */
    cr_expect(fabs(sum / 10000) < 0.05, "mean %g", sum / 10000);
    cr_expect(fabs(squares / 10000 - 1) < 0.07, "variance %g", squares / 10000);
    for (int i = 0; i < 11; i++) /* 909 expected, deviation 28.7 */
        cr_expect(abs(seen[i] - 909) < 144, "%d of id %d", seen[i], i);
}

Test(initial, dropout_keeps_its_share_and_differs_by_step) {
    uint64_t first = cleave_dropout_key(1, 1, "y"), second = cleave_dropout_key(1, 2, "y");
    uint64_t least = cleave_dropout_threshold(0.3);
    int kept = 0, same = 0;
    for (int i = 0; i < 10000; i++) {
        kept += cleave_dropout_keeps(first, i, least);
        same += cleave_dropout_keeps(first, i, least) == cleave_dropout_keeps(second, i, least);
    }
    /* 7000 expected, deviation 45.8; agreement of independent masks 0.7^2 + 0.3^2 = 58 % */
    cr_expect(abs(kept - 7000) < 230, "%d kept", kept);
    cr_expect(abs(same - 5800) < 250, "%d alike", same);
}
