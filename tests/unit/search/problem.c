/* What is found once at the beginning of a search: what is alike, and what repeats. */
#include "search/problem/problem.h"
#include "../../support/ok.h"
#include "../../support/shipped.h"

#include <criterion/criterion.h>
#include <stdio.h>

static cleave_arena arena;

static void tear_down(void) { cleave_arena_free(&arena); }

TestSuite(problem, .fini = tear_down);

static cleave_model import(const char *name) {
    cleave_model model;
    OK(shipped_model, name, 8, &arena, &model);
    return model;
}

static int32_t count(const cleave_model *model, bool boxes) {
    int32_t *class_of, n = 0;
    OK(cleave_operator_classes, model, boxes, &arena, &class_of);
    for (int32_t op = 0; op < model->n_operators; op++) {
        cr_assert_leq(class_of[op], n, "numbers rise by first occurrence");
        n += class_of[op] == n;
    }
    return n;
}

/* Steps of a recurrence compute the same, each from a slice of its own.  Networks without them have
   as many classes either way. */
Test(problem, steps_are_alike_but_for_their_boxes) {
    const cleave_model lstm = import("byte_lstm"), bert = import("bert_base");
    cr_expect_lt(count(&lstm, false), 10);
    cr_expect_gt(count(&lstm, true), count(&lstm, false));
    cr_expect_eq(count(&bert, true), count(&bert, false));
}

static cleave_problem create(const cleave_model *model, const cleave_constraints *constraints) {
    cleave_problem problem;
    OK(cleave_problem_create, model, NULL, constraints, &arena, &problem);
    return problem;
}

/* 12 layers of 11 operators: the one that is fixed, in the fourth, is like none, and the eight
   layers behind it repeat. */
Test(problem, fixed_operators_are_like_no_others) {
    const cleave_model model = import("bert_base");
    const cleave_problem all = create(&model, NULL);
    int32_t op = all.blocks.first + 3 * all.blocks.period + 4, devices[] = {0};
    cleave_layout fixed;
    bool *is_fixed = CLEAVE_ARENA_ARRAY(&arena, bool, model.n_operators);
    OK(cleave_layout_create, &model, 1, &arena, &fixed);
    fixed.splits[op] = (cleave_split){.replicas = 1, .n_parts = 1, .devices = devices};
    is_fixed[op] = true;
    const cleave_constraints one = {.fixed = &fixed, .is_fixed = is_fixed, .n_fixed = 1};
    const cleave_problem problem = create(&model, &one);
    cr_expect_eq(problem.n_classes, all.n_classes + 1);
    for (int32_t other = 0; other < model.n_operators; other++)
        cr_expect_eq(problem.class_of[other] == problem.class_of[op], other == op, "%d", other);
    cr_expect_eq(all.blocks.n, 12);
    cr_expect_eq(problem.blocks.n, 8);
    cr_expect_gt(problem.blocks.first, op);
}
