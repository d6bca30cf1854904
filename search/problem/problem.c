#include "search/problem/problem.h"

/* `alike` are classes of what operators compute; a class gets as many here as its operators are
   constrained differently. */
static cleave_status find_classes(cleave_problem *p, const int32_t *alike, cleave_arena *arena,
                                  cleave_arena *scratch, cleave_error *error) {
    int32_t n = p->model->n_operators;
    int32_t *first = CLEAVE_ARENA_ARRAY(scratch, int32_t, n);
    p->class_of = CLEAVE_ARENA_ARRAY(arena, int32_t, n);
    if (first == NULL || p->class_of == NULL)
        return cleave_fail_memory(error, "comparing operators");
    for (int32_t op = 0; op < n; op++) {
        int32_t c = 0;
        while (c < p->n_classes &&
               (alike[op] != alike[first[c]] ||
                !cleave_constraints_alike(p->constraints, p->model, op, first[c])))
            c++;
        if (c == p->n_classes)
            first[p->n_classes++] = op;
        p->class_of[op] = c;
    }
    return CLEAVE_OK;
}

cleave_status cleave_problem_create(const cleave_model *model, const cleave_machine *machine,
                                    const cleave_constraints *constraints, cleave_arena *arena,
                                    cleave_problem *problem, cleave_error *error) {
    cleave_problem made = {.model = model, .machine = machine, .constraints = constraints};
    cleave_arena scratch = {0};
    int32_t *alike = NULL;
    cleave_status status = cleave_operator_classes(model, false, &scratch, &alike, error);
    if (status == CLEAVE_OK)
        status = find_classes(&made, alike, arena, &scratch, error);
    cleave_arena_free(&scratch);
    CLEAVE_TRY(status);
    made.blocks = cleave_blocks_find(model, made.class_of);
    *problem = made;
    return CLEAVE_OK;
}
