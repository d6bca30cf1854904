/* Devices as a grid: how a split lies on a mesh, and back. */
#include "../../support/ok.h"
#include "graph/export/mesh.h"

#include <criterion/criterion.h>
#include <string.h>

static cleave_mesh mesh;
static cleave_mesh_cut cut;
static cleave_arena arena;
static void tear_down(void) { cleave_arena_free(&arena); }
TestSuite(export_mesh, .fini = tear_down);

/* Axis 0 by `first`, axis 1 by `second`, and replicas, on these devices of `n_devices`. */
static const char *find(int32_t n_devices, int32_t replicas, int32_t first, int32_t second,
                        int32_t *devices) {
    cleave_split split = {
        .replicas = replicas, .n_parts = replicas * first * second, .devices = devices};
    for (int a = 0; a < CLEAVE_MAX_AXES; a++)
        split.degree[a] = a == 0 ? first : a == 1 ? second : 1;
    cleave_mesh_of_primes(n_devices, &mesh);
    return cleave_mesh_find_cut(&mesh, &split, &cut);
}

static void expect_cut(int32_t outer, int32_t inner) {
    cr_expect_eq(cut.axis[0], outer);
    cr_expect_eq(cut.axis[1], inner);
}

Test(export_mesh, the_mesh_of_12_devices_is_2_x_2_x_3) {
    cleave_mesh_of_primes(12, &mesh);
    cr_assert_eq(mesh.n, 3);
    cr_expect_eq(mesh.size[0], 2);
    cr_expect_eq(mesh.size[2], 3);
}

/* Parts (0,0) (0,1) (1,0) (1,1): axis 0 steps from part 0 to part 2. */
Test(export_mesh, an_axis_moves_along_the_dimension_of_its_step) {
    cr_expect_null(find(4, 1, 2, 2, (int32_t[]){0, 1, 2, 3}));
    expect_cut(0, 1);
    cr_expect_null(find(4, 1, 2, 2, (int32_t[]){0, 2, 1, 3}));
    expect_cut(1, 0);
    cr_expect_null(find(4, 2, 1, 2, (int32_t[]){0, 2, 1, 3})); /* replicas are outermost */
    expect_cut(1, CLEAVE_MESH_REPEATS);
}

Test(export_mesh, along_a_dimension_that_is_left_out_one_device_has_it_alone) {
    cr_expect_null(find(4, 1, 2, 1, (int32_t[]){1, 3}));
    expect_cut(0, cleave_mesh_alone(1));
    cr_expect_null(find(4, 1, 1, 1, (int32_t[]){2}));
    expect_cut(cleave_mesh_alone(1), cleave_mesh_alone(0));
    cr_expect(cleave_mesh_widen(&mesh, &cut));
    expect_cut(CLEAVE_MESH_REPEATS, CLEAVE_MESH_REPEATS);
    cr_expect_not(cleave_mesh_widen(&mesh, &cut));
}

Test(export_mesh, an_order_that_no_grid_has_repeats_everywhere) {
    cr_expect_not_null(find(4, 1, 2, 2, (int32_t[]){0, 1, 3, 2}));
    expect_cut(CLEAVE_MESH_REPEATS, CLEAVE_MESH_REPEATS);
    cr_expect_not_null(find(4, 1, 4, 1, (int32_t[]){0, 2, 1, 3})); /* inner dimension cuts first */
    expect_cut(CLEAVE_MESH_REPEATS, CLEAVE_MESH_REPEATS);
    cr_expect_not_null(find(4, 1, 2, 1, (int32_t[]){1, 2}));
}

Test(export_mesh, neighbours_that_all_give_to_one_axis_are_joined) {
    cleave_mesh_cut cuts[2] = {{{0, 0, 1}}, {{-1, -1, 1}}};
    cleave_mesh_of_primes(12, &mesh);
    cleave_mesh_join(&mesh, cuts, 2);
    cr_assert_eq(mesh.n, 2);
    cr_expect_eq(mesh.size[0], 4);
    cr_expect_eq(mesh.size[1], 3);
    cr_expect_eq(cuts[0].axis[0], 0);
    cr_expect_eq(cuts[0].axis[1], 1);
    cr_expect_eq(cuts[1].axis[0], CLEAVE_MESH_REPEATS);
}

/* 2 x 2 x 3: with 1 along the outer two alone is with 1 x 2 + 1 = 3 of 4; with 1 and repeated is
   neither. */
Test(export_mesh, who_has_it_alone_is_joined_only_with_who_has_it_alone) {
    cleave_mesh_cut cuts[2] = {{{cleave_mesh_alone(1), cleave_mesh_alone(1), 0}}, {{0, 0, -1}}};
    cleave_mesh_of_primes(12, &mesh);
    cleave_mesh_join(&mesh, cuts, 2);
    cr_assert_eq(mesh.n, 2);
    cr_expect_eq(cuts[0].axis[0], cleave_mesh_alone(3));
    cr_expect_eq(cuts[0].axis[1], 0);
    cuts[0] = (cleave_mesh_cut){{cleave_mesh_alone(1), CLEAVE_MESH_REPEATS, 0}};
    cuts[1] = (cleave_mesh_cut){{0, 0, 0}};
    cleave_mesh_of_primes(12, &mesh);
    cleave_mesh_join(&mesh, cuts, 2);
    cr_expect_eq(mesh.n, 3);
}

/* Axis 0 along the inner dimension, on the second of the outer alone: devices 2 and 3. */
Test(export_mesh, a_cut_on_some_devices_gives_its_split_back) {
    cleave_split split;
    const int32_t devices[] = {2, 3};
    cleave_mesh_of_primes(4, &mesh);
    cut = (cleave_mesh_cut){{cleave_mesh_alone(1), 0}};
    OK(cleave_mesh_split, &mesh, &cut, &arena, &split);
    cr_expect_eq(split.replicas, 1);
    cr_expect_eq(split.degree[0], 2);
    cr_assert_eq(split.n_parts, 2);
    cr_expect_arr_eq(split.devices, devices, sizeof devices);
}

/* Axis 1 along the outer, axis 0 along the inner dimension: part (i, j) is on device 2 j + i. */
Test(export_mesh, a_cut_gives_its_split_back) {
    cleave_split split;
    const int32_t devices[] = {0, 2, 1, 3};
    cleave_mesh_of_primes(4, &mesh);
    cut = (cleave_mesh_cut){{1, 0}};
    OK(cleave_mesh_split, &mesh, &cut, &arena, &split);
    cr_expect_eq(split.replicas, 1);
    cr_expect_eq(split.degree[0], 2);
    cr_expect_eq(split.degree[1], 2);
    cr_expect_arr_eq(split.devices, devices, sizeof devices);
}
