/* Constraints as the user gives them: a file of some operators, names of sorts; and what is said
   where they can't be kept. */
#include "search/problem/constraints.h"
#include "../../support/ok.h"

#include "base/file.h"

#include "../../support/perceptron.h"
#include "../../support/test_machine.h"

#include <unistd.h>

static cleave_arena arena;
static cleave_model model;
static cleave_machine machine;
static cleave_constraints constraints;
static cleave_error error;
static char path[64];

/* Dense0 n=8 k=4 c=4, relu0, dense1, relu1, @loss on 4 devices. */
static void set_up(void) {
    model = make_perceptron(&arena, 2, 8, 4);
    machine = make_machine(&arena, 2, 2, "1 GiB");
    snprintf(path, sizeof path, "/tmp/cleave-constraints-%d.json", (int)getpid());
}
static void tear_down(void) {
    cleave_arena_free(&arena);
    unlink(path);
}
TestSuite(constraints_unit, .init = set_up, .fini = tear_down);

static cleave_status fix(const char *operators) {
    const char *text = cleave_arena_printf(
        &arena,
        "{\"cleave_layout\": 1, \"model\": {\"file\": \"perceptron\", \"hash\": \"%s\", "
        "\"batch\": 8, \"graph\": 1}, \"devices\": 8, \"operators\": {%s}, "
        "\"parameters\": {\"weight1\": {\"update\": \"sharded\"}}}",
        model.hash, operators);
    OK(cleave_file_write, path, text, strlen(text));
    return cleave_constraints_fix(&constraints, path, &model, 4, &arena, &error);
}

Test(constraints_unit, a_file_of_some_operators_fixes_those) {
    cr_assert_eq(fix("\"dense1\": {\"split\": {\"k\": 2}, \"devices\": [3, 1]}"), CLEAVE_OK, "%s",
                 error.message);
    cr_expect_eq(constraints.n_fixed, 1);
    cleave_layout layout;
    OK(cleave_layout_create, &model, 4, &arena, &layout);
    for (int32_t op = 0; op < model.n_operators; op++)
        cr_expect_eq(cleave_constraints_allow(&constraints, &model, op, &layout.splits[op]),
                     op != 2);
    cr_expect_not(cleave_constraints_allow_layout(&constraints, &model, &layout));
    OK(cleave_constraints_impose, &constraints, &model, &layout, &arena);
    cr_expect(cleave_constraints_allow_layout(&constraints, &model, &layout));
    cr_expect_arr_eq(layout.splits[2].devices, ((int32_t[2]){3, 1}), 2 * sizeof(int32_t));
    cr_expect(layout.sharded[cleave_model_find_tensor(&model, "weight1")], "its update, too");
    cr_expect_not(layout.sharded[cleave_model_find_tensor(&model, "weight0")]);
}

Test(constraints_unit, a_file_has_the_checks_of_a_layout) {
    cr_expect_eq(fix("\"dense7\": {\"split\": {}, \"devices\": [0]}"), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, "perceptron has no operator \"dense7\""));
    cr_expect_eq(fix("\"dense1\": {\"split\": {\"n\": 2}, \"devices\": [0]}"), CLEAVE_BAD_INPUT);
    cr_expect_not_null(strstr(error.message, path));
    cr_expect_eq(fix("\"dense1\": {\"split\": {\"n\": 9}, \"devices\": [0]}"), CLEAVE_BAD_INPUT);
    cr_expect_eq(constraints.n_fixed, 0, "written on success only");
    cr_expect_null(constraints.fixed);
    model.hash[0] ^= 1;
    cr_expect_eq(fix("\"dense1\": {\"split\": {}, \"devices\": [0]}"), CLEAVE_OK);
    model.hash[0] ^= 1;
    cr_expect_eq(cleave_constraints_fix(&constraints, path, &model, 4, &arena, &error),
                 CLEAVE_BAD_INPUT, "a file of another model");
}

Test(constraints_unit, a_device_that_is_not_there_is_named_with_those_that_are) {
    cr_expect_eq(fix("\"dense1\": {\"split\": {\"k\": 2}, \"devices\": [7, 1]}"), CLEAVE_BAD_INPUT);
    cr_expect_str_eq(error.message,
                     cleave_arena_printf(&arena,
                                         "--fix %s keeps operator \"dense1\" on device 7, but "
                                         "there are 4 devices here, 0 to 3 (--devices)",
                                         path));
}

/* Dense1 in one piece reads 8x4 and 4x4 floats and writes 8x4: 320 bytes at once. */
Test(constraints_unit, what_fixed_splits_need_is_compared_with_the_memory) {
    cr_assert_eq(fix("\"dense1\": {\"split\": {}, \"devices\": [3]}"), CLEAVE_OK);
    OK(cleave_constraints_check_memory, &constraints, &model, &machine, 320);
    OK(cleave_constraints_check_memory, &constraints, &model, &machine, 0);
    cr_expect_eq(cleave_constraints_check_memory(&constraints, &model, &machine, 319, &error),
                 CLEAVE_NO_LAYOUT);
    cr_expect_not_null(strstr(error.message, "\"dense1\""));
    cr_expect_not_null(strstr(error.message, path));
    cr_expect_not_null(strstr(error.message, "device 3"));
    cr_expect_not_null(strstr(error.message, "--memory-limit"));
}

static cleave_status only(const char *words) {
    constraints = (cleave_constraints){0};
    return cleave_constraints_restrict(&constraints, words, &model, &arena, &error);
}

Test(constraints_unit, sorts_are_said_by_name) {
    cr_assert_eq(only("sample,reduction"), CLEAVE_OK, "%s", error.message);
    cr_expect(cleave_constraints_allow_axis(&constraints, 0, 0));
    cr_expect_not(cleave_constraints_allow_axis(&constraints, 0, 1));
    cr_expect(cleave_constraints_allow_axis(&constraints, 0, 2));
    cr_expect_not(cleave_constraints_allow_blocks(&constraints));
    cr_assert_eq(only("operator"), CLEAVE_OK);
    cr_expect(cleave_constraints_allow_blocks(&constraints));
    cr_expect_not(cleave_constraints_allow_axis(&constraints, 0, 0));
    static const char *const bad[] = {
        "",      ",",      "sample,",          ",sample", "samples",
        "sampl", "SAMPLE", "sample parameter", "sample;", "sample,,parameter"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(only(bad[i]), CLEAVE_BAD_INPUT, "\"%s\"", bad[i]);
        cr_expect_eq(constraints.sorts, 0);
    }
}

Test(constraints_unit, none_allow_everything) {
    cleave_layout layout;
    const cleave_constraints empty = {0};
    const cleave_constraints *const all[] = {NULL, &empty};
    char text[64];
    for (uint64_t seed = 0; seed < 20; seed++) {
        OK(cleave_layout_random, &model, 4, seed, &arena, &layout);
        for (int i = 0; i < 2; i++)
            cr_expect(cleave_constraints_allow_layout(all[i], &model, &layout));
    }
    cleave_constraints_describe(NULL, text, sizeof text);
    cr_expect_str_eq(text, "");
}

Test(constraints_unit, are_described_by_the_options_that_gave_them) {
    char text[256];
    cr_assert_eq(only("sample"), CLEAVE_OK);
    cleave_constraints_describe(&constraints, text, sizeof text);
    cr_expect_str_eq(text, " under --only sample");
    cr_assert_eq(fix("\"dense1\": {\"split\": {}, \"devices\": [0]}, "
                     "\"relu1\": {\"split\": {}, \"devices\": [0]}"),
                 CLEAVE_OK);
    cleave_constraints_describe(&constraints, text, sizeof text);
    cr_expect_str_eq(
        text, cleave_arena_printf(&arena, " under --fix %s (2 operators) and --only sample", path));
}
