/* What is reported of a layout of many micro-batches by three of them (cleave_pricing) is what is
   reported of all: every figure of `simulate --json`, shares of the critical path and what
   `explain` says of each operator among them, to the bit. */
#include "../support/drawn_schedule.h"
#include "../support/draws.h"
#include "../support/shipped.h"
#include "../support/trial.h"
#include "search/explain/path.h"
#include "search/search.h"
#include "simulator/step/busy.h"
#include "simulator/step/layout_step.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void begin(trial *t, const char *model, int64_t batch, const char *machine,
                  int32_t n_devices) {
    *t = (trial){0};
    trial_ok(t, shipped_model(model, batch, &t->arena, &t->model, &t->error));
    trial_ok(t, shipped_machine(machine, n_devices, &t->arena, &t->machine, &t->error));
}

/* All that is reported. */
typedef struct reported {
    cleave_layout_step step;
    int64_t *between;
    cleave_sent *sent;
    int32_t n_sent;
    cleave_busy busy;
    explain_path path;
} reported;

static void report(trial *t, const cleave_pricing *of, cleave_arena *arena, reported *r) {
    trial_ok(t, cleave_layout_step_make(of, arena, &r->step, &t->error));
    const cleave_priced_program *priced = &r->step.priced;
    const cleave_simulated_step *simulated = &r->step.simulated;
    const cleave_traffic_times times = cleave_priced_times(priced);
    trial_ok(t,
             cleave_program_bytes_between(&priced->program, &times, arena, &r->between, &t->error));
    if (priced->program.symbolic)
        trial_ok(t, cleave_program_sent_by_kind(&priced->program, &times, arena, &r->sent,
                                                &r->n_sent, &t->error));
    trial_ok(t,
             cleave_busy_find(&simulated->problem, &simulated->turned, arena, &r->busy, &t->error));
    trial_ok(t, explain_path_find(&t->model, priced, simulated, arena, &r->path, &t->error));
}

#define EXPECT_SAME(t, what, a, b)                                                                 \
    cr_assert_eq((a), (b), "%s: %s: %lld, not %lld", (t)->name, (what), (long long)(a),            \
                 (long long)(b))
#define EXPECT_SAME_BYTES(t, what, a, b, n)                                                        \
    cr_assert_arr_eq((a), (b), (size_t)(n) * sizeof *(a), "%s: %s", (t)->name, (what))

static void expect_same_traffic(const trial *t, const reported *few, const reported *all) {
    int32_t n = all->step.priced.n_devices;
    EXPECT_SAME(t, "tasks", few->step.priced.n_items, all->step.priced.n_items);
    EXPECT_SAME(t, "transfers", few->step.priced.n_messages, all->step.priced.n_messages);
    EXPECT_SAME(t, "bytes sent", few->step.priced.bytes_sent, all->step.priced.bytes_sent);
    EXPECT_SAME_BYTES(t, "bytes between devices", few->between, all->between, n * n);
    EXPECT_SAME(t, "kinds", few->n_sent, all->n_sent);
    for (int32_t i = 0; i < all->n_sent; i++) {
        const cleave_sent *a = &few->sent[i], *b = &all->sent[i];
        EXPECT_SAME(t, "kind", a->kind, b->kind);
        EXPECT_SAME(t, "devices of a kind", a->n_devices, b->n_devices);
        EXPECT_SAME(t, "times of a kind", a->times, b->times);
        EXPECT_SAME(t, "bytes of a kind", a->bytes, b->bytes);
        EXPECT_SAME(t, "bytes sent of a kind", a->bytes_sent, b->bytes_sent);
    }
    EXPECT_SAME_BYTES(t, "memory", few->step.priced.peak_bytes, all->step.priced.peak_bytes, n);
}

static void expect_same_shares(const trial *t, const cleave_price_shares *few,
                               const cleave_price_shares *all) {
    EXPECT_SAME_BYTES(t, "shares", few->share, all->share, CLEAVE_N_PROVENANCES);
    EXPECT_SAME_BYTES(t, "parts", few->part, all->part, CLEAVE_N_STEP_PARTS);
    EXPECT_SAME_BYTES(t, "idle", &few->idle, &all->idle, 1);
    EXPECT_SAME_BYTES(t, "links", &few->links, &all->links, 1);
    EXPECT_SAME_BYTES(t, "spread", &few->predicted_spread, &all->predicted_spread, 1);
    EXPECT_SAME_BYTES(t, "spread of the step", &few->step_spread_seconds, &all->step_spread_seconds,
                      1);
}

static void expect_same_path(const trial *t, const reported *few, const reported *all) {
    const explain_path *a = &few->path, *b = &all->path;
    EXPECT_SAME(t, "busiest device", a->busiest_device, b->busiest_device);
    EXPECT_SAME(t, "busiest link", a->busiest_link, b->busiest_link);
    EXPECT_SAME(t, "busy device", a->device_busy, b->device_busy);
    EXPECT_SAME(t, "busy link", a->link_busy, b->link_busy);
    EXPECT_SAME(t, "fullest device", a->fullest_device, b->fullest_device);
    EXPECT_SAME(t, "its memory", a->peak_bytes, b->peak_bytes);
    EXPECT_SAME_BYTES(t, "sorts", a->picoseconds, b->picoseconds, EXPLAIN_N_SORTS);
    EXPECT_SAME_BYTES(t, "held", a->held_bytes, b->held_bytes, CLEAVE_N_BUFFER_KINDS);
    for (int32_t op = 0; op < t->model.n_operators; op++) {
        const explain_operator *x = &a->operators[op], *y = &b->operators[op];
        EXPECT_SAME_BYTES(t, "operator", x->picoseconds, y->picoseconds, EXPLAIN_N_SORTS);
        EXPECT_SAME(t, "transfers", x->transfers, y->transfers);
        EXPECT_SAME(t, "link", x->link, y->link);
        EXPECT_SAME(t, "its time", x->link_picoseconds, y->link_picoseconds);
        EXPECT_SAME(t, "memory of an operator", x->memory_bytes, y->memory_bytes);
    }
    EXPECT_SAME_BYTES(t, "devices", few->busy.device, all->busy.device, all->busy.n_devices);
    EXPECT_SAME_BYTES(t, "links", few->busy.link, all->busy.link, all->busy.n_links);
    EXPECT_SAME(t, "main lanes", few->busy.main_lanes, all->busy.main_lanes);
}

/* False where three don't tell of all. */
static bool expect_same_report(trial *t, const cleave_layout *layout, bool closed_form) {
    cleave_arena scratch = {0};
    reported few = {0}, all = {0};
    cleave_pricing of = {&t->model, &t->machine, layout, .closed_form = closed_form,
                         .optimizer_states = 1};
    of.few_micro_batches = true;
    report(t, &of, &scratch, &few);
    of.few_micro_batches = false;
    of.all_micro_batches = true;
    report(t, &of, &scratch, &all);
    cr_assert_not(all.step.priced.is_few, "%s", t->name);
    EXPECT_SAME(t, "step", few.step.simulated.timeline.step, all.step.simulated.timeline.step);
    expect_same_traffic(t, &few, &all);
    expect_same_shares(t, &few.step.simulated.prices.shares, &all.step.simulated.prices.shares);
    expect_same_path(t, &few, &all);
    bool told = few.step.priced.is_few;
    cleave_layout_step_destroy(&few.step);
    cleave_layout_step_destroy(&all.step);
    cleave_arena_free(&scratch);
    return told;
}

static void try_layouts(const char *model, int64_t batch, const char *machine, int32_t n_devices,
                        int n) {
    trial t;
    int told = 0, tried = 0;
    begin(&t, model, batch, machine, n_devices);
    for (uint64_t seed = seed_from(0); tried < n; seed++) {
        cleave_arena scratch = {0};
        cleave_layout layout;
        trial_ok(&t, cleave_layout_random(&t.model, n_devices, seed, &scratch, &layout, &t.error));
        if (draw_schedule(&t.model, seed, (int32_t)batch, &scratch, &layout) &&
            cleave_few_tell(&layout)) {
            snprintf(t.name, sizeof t.name, "%s on %s, seed %d: %s, %d stages, m = %d", model,
                     machine, (int)seed, cleave_schedule_names[layout.schedule.kind],
                     layout.schedule.n_stages, layout.schedule.micro_batches);
            told += expect_same_report(&t, &layout, seed % 2 == 0);
            tried++;
        }
        cleave_arena_free(&scratch);
    }
    printf("%s on %s: %d of %d told by three micro-batches\n", model, machine, told, tried);
    cr_expect_geq(told, tried * 8 / 10, "%s", model);
    trial_end(&t);
}

Test(few_reports, three_micro_batches_report_what_all_do) {
    try_layouts("mlp", 48, "a100-128x8", 8, 60);
    try_layouts("lenet5", 16, "v100-32x8", 8, 10);
    try_layouts("byte_gpt", 24, "p100-4x4", 8, 10);
}

/* ---- of a window ----------------------------------------------------------------------------- */

/* The batch over all devices, in that many micro-batches. */
static void split_batch(const trial *t, int32_t micro_batches, cleave_arena *arena,
                        cleave_layout *layout) {
    trial *of = (trial *)(uintptr_t)t;
    bool applies = false;
    trial_ok(t, cleave_baseline_layout(&t->model, &t->machine, "data-parallel", 0, arena, layout,
                                       &applies, &of->error));
    cr_assert(applies);
    layout->schedule.micro_batches = micro_batches;
    trial_ok(t, cleave_layout_check(&t->model, layout, &of->error));
}

Test(few_reports, three_micro_batches_of_a_window_do) {
    trial t;
    cleave_arena scratch = {0};
    cleave_layout layout;
    begin(&t, "byte_gpt", 128, "a100-128x8", 16);
    snprintf(t.name, sizeof t.name, "byte_gpt, data parallel on 16");
    split_batch(&t, 8, &scratch, &layout);
    cr_expect(expect_same_report(&t, &layout, true));
    cleave_arena_free(&scratch);
    trial_end(&t);
}
