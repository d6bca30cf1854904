/* Which kernel takes a convolution: by shapes, as the quickest was found to be. */
#include "../../support/ok.h"
#include "../../support/one_nest.h"
#include "exec/kernels/kernel.h"

#include <criterion/criterion.h>

static const char *choice_under(one_nest_convolution shape, bool row_major_weights,
                                cleave_pass pass) {
    cleave_error error = {{0}};
    one_nest one;
    cleave_kernels *kernels = NULL;
    OK(cleave_kernels_create, &kernels);
    const cleave_nest *nest = one_nest_make_convolution(&one, &shape, row_major_weights, &error);
    cr_assert(nest != NULL, "%s", error.message);
    cleave_part part = cleave_part_whole(nest, 0);
    cleave_kernel_call call;
    cleave_kernel_call_describe(&one.model, nest, pass, &part, &call);
    const char *choice = cleave_kernel_choice(kernels, &call);
    cleave_arena_free(&one.arena);
    cleave_kernels_destroy(kernels);
    return choice;
}

static const char *choice_of(one_nest_convolution shape, cleave_pass pass) {
    return choice_under(shape, true, pass);
}

static one_nest_convolution square(int64_t groups, int64_t channels, int64_t window,
                                   int64_t stride) {
    return (one_nest_convolution){.spatial = 2,
                                  .batch = 8,
                                  .groups = groups,
                                  .c = channels,
                                  .k = channels,
                                  .in = {28, 28},
                                  .window = {window, window},
                                  .stride = {stride, stride},
                                  .dilation = {1, 1},
                                  .pad_lo = {1, 1},
                                  .pad_hi = {1, 1}};
}

Test(kernel_choice, filtering_is_chosen_where_it_saves) {
    const cleave_pass forward = CLEAVE_PASS_FORWARD;
    cr_expect_str_eq(choice_of(square(1, 128, 3, 1), forward), "winograd");
    cr_expect_str_eq(choice_of(square(1, 128, 5, 1), forward), "winograd");
    cr_expect_str_eq(choice_of(square(1, 128, 3, 2), forward), "convolution"); /* strides */
    cr_expect_str_eq(choice_of(square(1, 128, 7, 1), forward), "convolution"); /* no scheme */
    /* moving tiles takes longer */
    cr_expect_str_eq(choice_of(square(1, 8, 3, 1), forward), "convolution");
}

Test(kernel_choice, gradients_of_wide_depthwise_windows_are_not_the_librarys) {
    const cleave_pass gradient = CLEAVE_PASS_WEIGHT_GRADIENT;
    cr_expect_str_eq(choice_of(square(40, 1, 5, 2), gradient), "depthwise");
    cr_expect_str_eq(choice_of(square(40, 1, 3, 2), gradient), "convolution");
    cr_expect_str_eq(choice_of(square(8, 1, 5, 2), gradient), "convolution");  /* few channels */
    cr_expect_str_eq(choice_of(square(40, 2, 5, 2), gradient), "convolution"); /* groups of two */
    cr_expect_str_eq(choice_of(square(40, 1, 5, 2), CLEAVE_PASS_FORWARD), "convolution");
}

Test(kernel_choice, windows_of_single_points_are_products_where_these_are_quicker) {
    one_nest_convolution all = square(1, 128, 1, 1);
    all.pad_lo[0] = all.pad_lo[1] = all.pad_hi[0] = all.pad_hi[1] = 0;
    one_nest_convolution few = all, stepping = all, narrow = all;
    few.in[0] = few.in[1] = 7; /* 8 x 49 points */
    stepping.stride[0] = stepping.stride[1] = 2;
    narrow.c = 32;
    cr_expect_str_eq(choice_of(all, CLEAVE_PASS_FORWARD), "convolution");
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        if (pass != CLEAVE_PASS_FORWARD)
            cr_expect_str_eq(choice_of(all, pass), "im2col");
        cr_expect_str_eq(choice_of(few, pass), "im2col");
        cr_expect_str_eq(choice_of(stepping, pass), "im2col");
        cr_expect_str_eq(choice_of(narrow, pass), "convolution");
        cr_expect_str_eq(choice_of(square(128, 1, 1, 2), pass), "convolution"); /* groups */
    }
}

Test(kernel_choice, larger_windows_are_products_at_steps_and_over_few_points) {
    one_nest_convolution few = square(1, 128, 3, 1);
    few.in[0] = few.in[1] = 5; /* 8 x 25 points */
    for (cleave_pass pass = CLEAVE_PASS_FORWARD; pass < CLEAVE_PASS_UPDATE; pass++) {
        bool weights = pass == CLEAVE_PASS_WEIGHT_GRADIENT;
        cr_expect_str_eq(choice_under(square(1, 128, 3, 2), false, pass),
                         weights ? "im2col" : "convolution");
        cr_expect_str_eq(choice_under(square(1, 128, 3, 1), false, pass), "winograd");
        if (weights)
            cr_expect_str_eq(choice_under(few, false, pass), "im2col");
        else
            cr_expect_str_neq(choice_under(few, false, pass), "im2col");
        cr_expect_str_neq(choice_under(few, true, pass), "im2col"); /* weights are no matrix */
    }
}
