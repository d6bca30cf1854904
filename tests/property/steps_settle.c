/* What devices do to each other, over random layouts of small models on nodes of two or four: the
   durations and delays that settling puts into a problem are those of a slow reading of its rules,
   item by item, from the timeline of the pass before. */
#include "../support/draws.h"
#include "../support/models.h"
#include "base/random.h"
#include "graph/lower/lower.h"
#include "simulator/step/engine_workspace.h"
#include "simulator/step/link.h"
#include "simulator/step/settle.h"

#include "../support/test_machine.h"

#include <math.h>
#include <stdio.h>

enum { N_FAMILIES = 24 };

typedef struct step {
    cleave_arena arena;
    cleave_model model;
    cleave_machine machine;
    cleave_program program;
    cleave_cost_cache *cache;
    cleave_random random;
    cleave_engine_problem problem;
    cleave_engine_workspace *workspace;
    cleave_timeline first, last; /* of one pass, and settled */
    int64_t *priced;             /* [n_items] durations before */
    float *alone;                /* [n_items] */
    cleave_settling *settling;
    char what[96];
} step;

static void ok(const step *s, cleave_status status, const cleave_error *error) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", s->what, error->message);
}

/* ---- making one ------------------------------------------------------------------------------ */

static void add_fit(step *s, const char *family, double alone) {
    cleave_device_kind *kind = &s->machine.kinds[0];
    for (int32_t f = 0; f < kind->n_fits; f++)
        if (strcmp(kind->fits[f].family, family) == 0)
            return;
    cr_assert_lt(kind->n_fits, N_FAMILIES);
    kind->fits[kind->n_fits++] =
        (cleave_family_fit){.family = cleave_arena_string(&s->arena, family),
                            .launch_seconds = 1e-6 * cleave_random_next_uniform(&s->random),
                            .seconds_per_flop = 1e-11,
                            .seconds_per_byte = 1e-9,
                            .alone = alone};
}

/* Every family is quicker alone by a figure of its own, or, if `is_level`, not at all. */
static void make_fits(step *s, bool is_level) {
    s->machine.kinds[0].fits = CLEAVE_ARENA_ARRAY(&s->arena, cleave_family_fit, N_FAMILIES);
    for (int32_t c = 0; c < s->program.n_computes; c++) {
        const cleave_compute *compute = &s->program.computes[c];
        cleave_work work;
        cleave_work_describe(&s->model, &s->model.nests[compute->nest], compute->pass,
                             &compute->part, &work);
        add_fit(s, work.family, is_level ? 1 : 0.4 + 0.6 * cleave_random_next_uniform(&s->random));
        s->program.computes[c].pieces = 1 + (int32_t)cleave_random_below(&s->random, 4);
    }
    add_fit(s, "copy", is_level ? 1 : 0.7);
    add_fit(s, "update", is_level ? 1 : 0.8);
}

static void make_protocols(step *s) {
    for (int32_t l = 0; l < s->machine.n_links; l++) {
        s->machine.links[l].overhead_seconds_per_byte = 2e-9;
        s->machine.links[l].protocol =
            (cleave_protocol){.large_from_bytes = 256,
                              .n_agreements = 1,
                              .agreements = {{256, 1e-6}},
                              .sending = {.small = 0.3, .large = 2.5},
                              .receiving = {.small = 1.2, .large = 0.5, .per_byte = 0.005}};
    }
}

static void make(step *s, int which, int32_t n_devices, uint64_t seed, bool is_level) {
    cleave_error error = {""};
    cleave_layout layout;
    snprintf(s->what, sizeof s->what, "%s, %d devices, seed %d", hand_model_names[which], n_devices,
             (int)seed);
    s->random = (cleave_random){.key = seed_from(seed)};
    cr_assert(hand_model(which, &s->arena, &s->model, &error), "%s", error.message);
    s->machine =
        make_machine(&s->arena, n_devices > 4 ? 2 : 1, n_devices > 4 ? 4 : n_devices, "1 TiB");
    ok(s, cleave_layout_random(&s->model, n_devices, seed_from(seed), &s->arena, &layout, &error),
       &error);
    cleave_lower_options options = {.training = s->model.loss >= 0, .optimizer_states = 1};
    ok(s, cleave_lower(&s->model, &layout, &options, &s->arena, &s->program, &error), &error);
    make_fits(s, is_level);
    if (!is_level)
        make_protocols(s);
    ok(s, cleave_cost_cache_create(&s->model, &s->machine, &s->cache, &error), &error);
    ok(s, cleave_simulate_prepare(&s->program, s->cache, &s->arena, &s->problem, &error), &error);
    ok(s, cleave_engine_workspace_create(&s->problem, &s->arena, &s->workspace, &error), &error);
    ok(s, cleave_engine_timeline_create(&s->problem, &s->arena, &s->first, &error), &error);
    ok(s, cleave_engine_timeline_create(&s->problem, &s->arena, &s->last, &error), &error);
    size_t n = (size_t)s->problem.step.n_items;
    s->priced = CLEAVE_ARENA_ARRAY(&s->arena, int64_t, n);
    s->alone = CLEAVE_ARENA_ARRAY(&s->arena, float, n);
    memcpy(s->priced, s->problem.step.duration, n * sizeof *s->priced);
    ok(s, cleave_cost_alone(&s->program, s->cache, s->alone, &error), &error);
    ok(s,
       cleave_settling_create(&s->program, s->cache, &s->problem, &s->arena, &s->settling, &error),
       &error);
    cr_assert_not_null(s->settling, "%s", s->what);
}

static void destroy(step *s) {
    cleave_cost_cache_destroy(s->cache);
    cleave_arena_free(&s->arena);
}

/* `first` by the problem as it is, `last` after another pass. */
static void pass(step *s, cleave_rule rule) {
    cleave_error error = {""};
    ok(s, cleave_simulate_run(&s->problem, rule, s->workspace, &s->first, &error), &error);
    ok(s, cleave_settling_pass(s->settling, rule, &s->problem, s->workspace, &s->last, &error),
       &error);
    ok(s, cleave_simulate_run(&s->problem, rule, s->workspace, &s->last, &error), &error);
}

/* `first` by the prices alone, `last` settled. */
static void settle(step *s, cleave_rule rule) {
    cleave_error error = {""};
    cleave_settling_begin(s->settling, &s->problem);
    ok(s, cleave_simulate_run(&s->problem, rule, s->workspace, &s->first, &error), &error);
    ok(s, cleave_settling_apply(s->settling, rule, &s->problem, s->workspace, &s->last, &error),
       &error);
    ok(s, cleave_simulate_run(&s->problem, rule, s->workspace, &s->last, &error), &error);
}

/* ---- the rules, read slowly ------------------------------------------------------------------ */

static bool works(const step *s, int32_t item, int32_t device) {
    return s->problem.step.kind[item] == CLEAVE_PRICED_WORK && s->priced[item] > 0 &&
           s->problem.step.queue[item] == 2 * device;
}

static int64_t slow_duration(const step *s, int32_t item) {
    int32_t device = s->problem.step.queue[item] / 2, n_others = 0;
    int64_t begin = s->first.start[item], end = s->first.end[item], busy = 0;
    if (!works(s, item, device))
        return s->priced[item];
    for (int32_t d = 0; d < s->program.n_devices; d++) {
        bool is_near = d != device && cleave_machine_same_node(&s->machine, device, d);
        n_others += is_near;
        for (int32_t i = 0; is_near && i < s->problem.step.n_items; i++) {
            int64_t from = s->first.start[i] > begin ? s->first.start[i] : begin;
            int64_t until = s->first.end[i] < end ? s->first.end[i] : end;
            busy += works(s, i, d) && until > from ? until - from : 0;
        }
    }
    if (n_others == 0)
        return s->priced[item];
    double share = (double)busy / ((double)(end - begin) * n_others),
           alone = (double)s->alone[item];
    return (int64_t)floor((double)s->priced[item] * (alone + (1 - alone) * share) + 0.5);
}

/* The first item of a device's main lane that waits for a message: for itself, or for the
   communication lane, which has waited for it.  Work behind it does not delay the message. */
static int32_t slow_until(const step *s, int32_t message, int32_t device) {
    bool is_over = false; /* on the communication lane */
    int32_t wait = -1;
    for (int32_t i = 0; i < s->problem.step.n_items; i++) {
        uint8_t kind = s->problem.step.kind[i];
        bool waits = (kind == CLEAVE_PRICED_WAIT_ARRIVAL || kind == CLEAVE_PRICED_WAIT_RELEASE) &&
                     s->problem.step.subject[i] == message;
        if (s->problem.step.queue[i] == 2 * device + 1 && waits) {
            is_over = true;
            wait = i;
        }
        if (s->problem.step.queue[i] == 2 * device &&
            (waits ||
             (is_over && kind == CLEAVE_PRICED_SYNC && s->problem.step.subject[i] >= wait)))
            return i;
    }
    return s->problem.step.n_items;
}

static int32_t pieces_of(const step *s, int32_t item) {
    const cleave_item *of = &s->program.items[item];
    return of->kind == CLEAVE_ITEM_COMPUTE ? s->program.computes[of->subject].pieces : 1;
}

/* How long a device takes for so many pieces from a time on, until it has nothing to do. */
static double slow_polls(const step *s, int32_t device, int32_t until, double time, double polls) {
    double now = time;
    bool found = polls > 0;
    while (found && polls > 0) {
        found = false;
        for (int32_t i = 0; i < until && !found; i++) {
            if (!works(s, i, device) || (double)s->first.start[i] > now ||
                (double)s->first.end[i] <= now)
                continue;
            double piece = (double)(s->first.end[i] - s->first.start[i]) / pieces_of(s, i);
            double left = ((double)s->first.end[i] - now) / piece;
            found = true;
            now = polls <= left ? now + polls * piece : (double)s->first.end[i];
            polls -= left;
        }
    }
    return now - time;
}

static double slow_delay(const step *s, int32_t m) {
    const cleave_message *of = &s->program.messages[m];
    const cleave_protocol *protocol = &s->machine.links[s->problem.step.hop_link[0]].protocol;
    double posted = 0, bytes = (double)of->bytes;
    for (int32_t i = 0; i < s->problem.step.n_items; i++)
        if (s->problem.step.kind[i] == CLEAVE_PRICED_POST && s->problem.step.subject[i] == m)
            posted = fmax(posted, (double)s->last.end[i]);
    bool large = of->bytes >= 256;
    double sending = large ? protocol->sending.large : protocol->sending.small;
    double receiving = large ? protocol->receiving.large + protocol->receiving.per_byte * bytes
                             : protocol->receiving.small;
    return fmax(
        slow_polls(s, of->source, slow_until(s, m, of->source), posted, sending),
        slow_polls(s, of->destination, slow_until(s, m, of->destination), posted, receiving));
}

/* When a message would have arrived by its links and its ends' processors alone. */
static int64_t arrival_by_links(const step *s, int32_t m) {
    int64_t tail = 0;
    for (int32_t h = s->problem.step.hop_start[m]; h < s->problem.step.hop_start[m + 1]; h++)
        tail = cleave_later(tail, cleave_engine_hop_begin(s->workspace)[h] +
                                      s->problem.step.hop_serialization[h]) +
               s->problem.link_latency[s->problem.step.hop_link[h]];
    for (int e = 0; e < 2 && s->problem.step.ends != NULL; e++)
        tail =
            cleave_later(tail, s->workspace->end_begin[2 * m + e] + s->problem.step.ends[m].work);
    return tail;
}

/* ---- claims ---------------------------------------------------------------------------------- */

typedef struct seen {
    int shorter, longest, late; /* items quicker than priced, not so; messages delayed */
} tally;

static void expect_rules(step *s, cleave_rule rule, tally *seen) {
    pass(s, rule);
    for (int32_t i = 0; i < s->problem.step.n_items; i++) {
        int64_t expected = slow_duration(s, i);
        cr_assert_eq(s->problem.step.duration[i], expected,
                     "%s, rule %d, item %d: %lld ps, not %lld", s->what, rule, i,
                     (long long)s->problem.step.duration[i], (long long)expected);
        seen->shorter += expected < s->priced[i];
        seen->longest += expected == s->priced[i] && s->alone[i] < 1;
    }
    for (int32_t m = 0; m < s->problem.step.n_messages; m++) {
        double delay = (double)(s->last.arrival[m] - arrival_by_links(s, m));
        double expected = slow_delay(s, m);
        cr_assert(fabs(delay - expected) < 4, "%s, rule %d, message %d: %g ps late, not %g",
                  s->what, rule, m, delay, expected);
        seen->late += expected > 0;
    }
}

Test(steps_settle, durations_and_delays_are_those_of_the_rules) {
    static const int32_t devices[] = {2, 4, 8};
    tally seen = {0};
    for (int which = 0; which < N_MODELS; which++)
        for (int d = 0; d < (int)(sizeof devices / sizeof devices[0]); d++) {
            step s = {0};
            make(&s, which, devices[d], (uint64_t)(10 * d + which), false);
            for (int p = 0; p < 3; p++)
                expect_rules(&s, (which + d) % 2 == 0 ? CLEAVE_RULE_SCAN : CLEAVE_RULE_EVENTS,
                             &seen);
            destroy(&s);
        }
    cr_expect_gt(seen.shorter, 500);
    cr_expect_gt(seen.longest, 100);
    cr_expect_gt(seen.late, 500);
}

static void expect_same(const step *s, const int64_t *a, const int64_t *b, const char *what) {
    for (int32_t i = 0; i < s->problem.step.n_items; i++)
        cr_assert_eq(a[i], b[i], "%s, item %d: %s %lld, not %lld", s->what, i, what,
                     (long long)a[i], (long long)b[i]);
}

/* Where nothing is quicker alone and no message waits, one pass says it all. */
Test(steps_settle, devices_that_do_nothing_to_each_other_take_one_pass) {
    for (int which = 0; which < N_MODELS; which++) {
        step s = {0};
        make(&s, which, 4, (uint64_t)which, true);
        settle(&s, CLEAVE_RULE_SCAN);
        expect_same(&s, s.last.start, s.first.start, "starts at");
        expect_same(&s, s.last.end, s.first.end, "ends at");
        cr_expect_eq(s.last.step, s.first.step);
        destroy(&s);
    }
}

/* A settled problem holds other durations and delays: settling it by one rule, then by the other,
   and by the first again must not add up. */
Test(steps_settle, settling_again_gives_the_same_times) {
    for (int which = 0; which < N_MODELS; which++) {
        step s = {0};
        make(&s, which, 4, (uint64_t)which, false);
        settle(&s, CLEAVE_RULE_SCAN);
        cleave_timeline once = s.last;
        cleave_error error = {""};
        ok(&s, cleave_engine_timeline_create(&s.problem, &s.arena, &s.last, &error), &error);
        settle(&s, CLEAVE_RULE_EVENTS);
        settle(&s, CLEAVE_RULE_SCAN);
        expect_same(&s, s.last.start, once.start, "starts at");
        expect_same(&s, s.last.end, once.end, "ends at");
        destroy(&s);
    }
}
