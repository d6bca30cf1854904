#include "trial.h"
#include "shipped.h"

#include "graph/import/import.h"
#include "models.h"

#include <criterion/criterion.h>
#include <stdio.h>

void trial_ok(const trial *t, cleave_status status) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", t->name, t->error.message);
}

void trial_hand_model(trial *t, int which) {
    cr_assert(hand_model(which, &t->arena, &t->model, &t->error), "%s", t->error.message);
}

void trial_import(trial *t, const char *path, int64_t batch) {
    char whole[4096];
    snprintf(whole, sizeof whole, "%s/%s", CLEAVE_SOURCE_DIR, path);
    trial_ok(t, cleave_model_import_as(
                    &(cleave_import_request){.file = whole, .batch = batch, .with_loss = true},
                    &t->arena, &t->model, &t->error));
}

void trial_read_machine(trial *t, const char *name, int32_t n_devices) {
    trial_ok(t, shipped_machine(name, n_devices, &t->arena, &t->machine, &t->error));
}

void trial_begin(trial *t, int optimizer_states) {
    trial_ok(t, cleave_node_costs_create(&t->model, &t->machine, &t->costs, &t->error));
    trial_ok(t, cleave_candidates_create(&t->model, &t->machine, t->costs, t->given, t->n_given,
                                         &t->arena, &t->candidates, &t->error));
    trial_ok(t, cleave_pricer_create(&t->model, &t->machine, optimizer_states, INT64_C(1) << 50,
                                     &t->pricer, &t->error));
}

void trial_end(trial *t) {
    cleave_pricer_destroy(&t->pricer);
    cleave_node_costs_destroy(t->costs);
    cleave_arena_free(&t->arena);
    cleave_arena_free(&t->scratch);
}
