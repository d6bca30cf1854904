/* Three micro-batches tell the price of a layout with many (simulator/step/few.h): step, memory of
   every device, what the program itself takes and what is sent are those of the program of all of
   them, to the bit. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/shipped.h"
#include "../support/trial.h"
#include "search/price/price.h"
#include "simulator/step/few.h"
#include "simulator/step/simulate.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { N_DEVICES = 8 };

static void begin(trial *t, const char *model, int64_t batch, const char *machine) {
    *t = (trial){0};
    trial_ok(t, shipped_model(model, batch, &t->arena, &t->model, &t->error));
    trial_ok(t, shipped_machine(machine, N_DEVICES, &t->arena, &t->machine, &t->error));
    trial_ok(t, cleave_pricer_create(&t->model, &t->machine, 1, 0, &t->pricer, &t->error));
}

static void expect_same_memory(const trial *t, const cleave_few *few, const cleave_program *all) {
    cr_assert_eq(few->whole.n_items, all->n_items, "%s: %d, not %d items", t->name,
                 few->whole.n_items, all->n_items);
    cr_assert_eq(few->whole.n_buffers, all->n_buffers, "%s: buffers", t->name);
    cr_assert_eq(cleave_program_own_bytes(&few->whole), cleave_program_own_bytes(all), "%s",
                 t->name);
    for (int32_t d = 0; d < N_DEVICES; d++)
        cr_assert_eq(few->whole.peak_bytes[d], all->peak_bytes[d],
                     "%s: %lld bytes on device %d, not %lld", t->name,
                     (long long)few->whole.peak_bytes[d], d, (long long)all->peak_bytes[d]);
}

/* With the machine at hand only the fullest device of each kind counts. */
static void expect_same_fullest(const trial *t, const cleave_program *fullest,
                                const cleave_program *all) {
    int64_t most = 0, most_of_all = 0; /* the devices are of one kind */
    for (int32_t d = 0; d < N_DEVICES; d++) {
        most = fullest->peak_bytes[d] > most ? fullest->peak_bytes[d] : most;
        most_of_all = all->peak_bytes[d] > most_of_all ? all->peak_bytes[d] : most_of_all;
        cr_assert_geq(fullest->peak_bytes[d], all->peak_bytes[d], "%s, device %d", t->name, d);
    }
    cr_assert_eq(most, most_of_all, "%s: %lld bytes, not %lld", t->name, (long long)most,
                 (long long)most_of_all);
}

/* Records that three micro-batches fit in, and seven or more do not: less than twice what three
   take. */
static int64_t find_room(trial *t, const cleave_layout *layout, const cleave_program *all) {
    cleave_lower_options options = t->pricer.lower;
    cleave_status status = CLEAVE_NO_LAYOUT;
    options.most_records =
        (all->n_items + all->n_buffers + all->n_copy_pieces) / layout->schedule.micro_batches;
    while (status == CLEAVE_NO_LAYOUT) {
        cleave_arena scratch = {0};
        cleave_few few;
        options.most_records *= 2;
        status =
            cleave_few_lower(&t->model, layout, NULL, &options, NULL, &scratch, &few, &t->error);
        cleave_arena_free(&scratch);
    }
    trial_ok(t, status);
    return options.most_records;
}

/* Where all of it is more than is lowered, three tell who asks what the price rests on, too. */
static void expect_told_of_too_many(trial *t, const cleave_layout *layout,
                                    const cleave_program *all, int64_t step) {
    cleave_pricer pricer;
    bool used[64] = {false};
    cleave_price_grounds grounds = {.used_rules = used};
    const cleave_price_subject what = {.layout = layout, .grounds = &grounds};
    cleave_price price;
    cr_assert_leq(layout->collectives.n, 64);
    trial_ok(t, cleave_pricer_create(&t->model, &t->machine, 1, 0, &pricer, &t->error));
    pricer.lower.most_records = find_room(t, layout, all);
    cleave_program refused;
    cleave_arena scratch = {0};
    cr_assert_eq(cleave_lower(&t->model, layout, &pricer.lower, &scratch, &refused, &t->error),
                 CLEAVE_NO_LAYOUT, "%s", t->name);
    cleave_arena_free(&scratch);
    trial_ok(t, cleave_pricer_price(&pricer, &what, NULL, &price, &t->error));
    cr_assert_eq(price.step, step, "%s: %lld, not %lld", t->name, (long long)price.step,
                 (long long)step);
    cr_assert(grounds.known, "%s", t->name);
    cleave_pricer_destroy(&pricer);
}

/* Lowered both ways; false where three don't tell the time. */
static bool expect_same_price(trial *t, const cleave_layout *layout, bool in_steps) {
    cleave_arena scratch = {0};
    cleave_few few, fullest;
    cleave_program all;
    cleave_timeline timeline;
    cleave_lower_options options = t->pricer.lower;
    int64_t step;
    options.symbolic_collectives = !in_steps;
    trial_ok(t,
             cleave_few_lower(&t->model, layout, NULL, &options, NULL, &scratch, &few, &t->error));
    trial_ok(t, cleave_few_lower(&t->model, layout, NULL, &options, &t->machine, &scratch, &fullest,
                                 &t->error));
    trial_ok(t, cleave_lower(&t->model, layout, &options, &scratch, &all, &t->error));
    expect_same_memory(t, &few, &all);
    expect_same_fullest(t, &fullest.whole, &all);
    trial_ok(t, cleave_few_simulate(&few, t->pricer.cache, &scratch, &step, &t->error));
    if (step >= 0) {
        trial_ok(t, cleave_simulate(&all, t->pricer.cache, CLEAVE_RULE_SCAN, &scratch, &timeline,
                                    &t->error));
        cr_assert_eq(step, timeline.step, "%s: %lld, not %lld", t->name, (long long)step,
                     (long long)timeline.step);
        if (!in_steps && layout->schedule.micro_batches > 2 * CLEAVE_FEW_MICRO_BATCHES)
            expect_told_of_too_many(t, layout, &all, step);
    } else {
        printf("%s: three do not tell of all\n", t->name);
    }
    cleave_arena_free(&scratch);
    return step >= 0;
}

/* False where none can be drawn from the seed. */
static bool try_layout(trial *t, const char *model, int64_t batch, uint64_t seed, int *told) {
    cleave_arena scratch = {0};
    cleave_layout layout;
    trial_ok(t, cleave_layout_random(&t->model, N_DEVICES, seed, &scratch, &layout, &t->error));
    bool drawn = draw_schedule(&t->model, seed, (int32_t)batch, &scratch, &layout) &&
                 cleave_few_tell(&layout);
    if (drawn) {
        snprintf(t->name, sizeof t->name, "%s, seed %d: %s, %d stages, m = %d", model, (int)seed,
                 cleave_schedule_names[layout.schedule.kind], layout.schedule.n_stages,
                 layout.schedule.micro_batches);
        *told += expect_same_price(t, &layout, seed % 3 == 0);
    }
    cleave_arena_free(&scratch);
    return drawn;
}

static void try_layouts(const char *model, int64_t batch, const char *machine, int n) {
    trial t;
    int told = 0, tried = 0;
    begin(&t, model, batch, machine);
    for (uint64_t seed = seed_from(0); tried < n; seed++)
        tried += try_layout(&t, model, batch, seed, &told);
    printf("%s on %s: %d of %d told by three micro-batches\n", model, machine, told, tried);
    cr_expect_geq(told, tried * 9 / 10, "%s", model);
    trial_end(&t);
}

Test(few, three_micro_batches_tell_the_price_of_many) {
    try_layouts("mlp", 48, "a100-128x8", n_draws(40));
    try_layouts("lenet5", 16, "v100-32x8", n_draws(10));
    try_layouts("byte_gpt", 24, "p100-4x4", n_draws(10));
}

/* The first stage gives the third one something as well, and waits until that is there in the
   block of the third; what it gives the second it parts with before or after that, by the
   micro-batch.  So the same buffer's life ends now with the one, now with the other. */
Test(few, micro_batches_are_told_whose_blocks_change_places) {
    trial t;
    int told = 0;
    begin(&t, "byte_gpt", 24, "p100-4x4");
    cr_assert(try_layout(&t, "byte_gpt", 24, 1000049, &told));
    cr_assert(try_layout(&t, "byte_gpt", 24, 3000016, &told));
    cr_assert_eq(told, 2);
    trial_end(&t);
}
