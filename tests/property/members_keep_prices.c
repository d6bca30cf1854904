/* Law 6: the price of a family that is put together from its members, some of which are remembered
   from other layouts, is that of the family lowered and priced as a whole, field by field: items,
   messages, collectives and what is in use when. */
#include "../support/draws.h"
#include "../support/shipped.h"
#include "simulator/step/price_members.h"

#include "../support/test_machine.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct walk {
    cleave_arena arena, scratch;
    cleave_model model;
    cleave_machine machine;
    cleave_layout layout;
    cleave_lower_options options;
    cleave_cost_cache *cache;
    cleave_lowerer *lowerer;
    member_memory memory;
    cleave_random random;
    const char *name;
    int32_t n_compared;
} walk;

static void ok(const walk *w, cleave_status status, const cleave_error *error) {
    cr_assert_eq(status, CLEAVE_OK, "%s: %s", w->name, error->message);
}

static void begin(walk *w, int32_t n_devices, bool in_steps) {
    cleave_error error = {""};
    w->machine = make_machine(&w->arena, n_devices / 2, 2, "1 TiB");
    w->options = (cleave_lower_options){
        .training = true, .symbolic_collectives = !in_steps, .optimizer_states = 1};
    w->random = (cleave_random){.key = seed_from(11)};
    ok(w, cleave_layout_random(&w->model, n_devices, seed_from(5), &w->arena, &w->layout, &error),
       &error);
    ok(w, cleave_cost_cache_create(&w->model, &w->machine, &w->cache, &error), &error);
    ok(w, cleave_lowerer_create(&w->model, &w->layout, &w->options, &w->lowerer, &error), &error);
    w->memory = (member_memory){.lowerer = w->lowerer,
                                .cache = w->cache,
                                .n_families = cleave_lowerer_n_families(w->lowerer)};
    ok(w, member_memory_begin(&w->memory, &error), &error);
}

static void end(walk *w) {
    member_memory_free(&w->memory);
    cleave_lowerer_destroy(w->lowerer);
    cleave_cost_cache_destroy(w->cache);
    cleave_arena_free(&w->scratch);
    cleave_arena_free(&w->arena);
}

#define SAME(w, a, b, field) cr_assert_eq((a)field, (b)field, "%s: " #field " differs", (w)->name)

static void expect_same_items(const walk *w, const cleave_priced_fragment *a,
                              const cleave_priced_fragment *b) {
    SAME(w, a, b, ->n_chunks);
    SAME(w, a, b, ->n_items);
    for (int32_t c = 0; c < a->n_chunks; c++) {
        SAME(w, a, b, ->chunks[c].slot);
        SAME(w, a, b, ->chunks[c].rank);
        SAME(w, a, b, ->chunks[c].first_item);
        SAME(w, a, b, ->chunks[c].n_items);
    }
    for (int32_t i = 0; i < a->n_items; i++) {
        SAME(w, a, b, ->duration[i]);
        SAME(w, a, b, ->queue[i]);
        SAME(w, a, b, ->subject[i]);
        SAME(w, a, b, ->kind[i]);
    }
}

static void expect_same_subjects(const walk *w, const cleave_priced_fragment *a,
                                 const cleave_priced_fragment *b) {
    SAME(w, a, b, ->n_marks);
    SAME(w, a, b, ->n_messages);
    SAME(w, a, b, ->n_collectives);
    for (int32_t m = 0; m <= a->n_messages; m++)
        SAME(w, a, b, ->hop_start[m]);
    for (int32_t h = 0; h < a->hop_start[a->n_messages]; h++) {
        SAME(w, a, b, ->hop_link[h]);
        SAME(w, a, b, ->hop_serialization[h]);
    }
    cr_assert_eq(a->ends == NULL, b->ends == NULL);
    for (int32_t c = 0; c <= a->n_collectives; c++)
        SAME(w, a, b, ->collective_link_start[c]);
    for (int32_t c = 0; c < a->n_collectives; c++) {
        SAME(w, a, b, ->collective_joins[c]);
        SAME(w, a, b, ->collective_busy[c]);
        SAME(w, a, b, ->collective_rest[c]);
    }
    for (int32_t l = 0; l < a->collective_link_start[a->n_collectives]; l++)
        SAME(w, a, b, ->collective_links[l]);
}

static void expect_same(const walk *w, const cleave_fragment_price *a,
                        const cleave_fragment_price *b) {
    expect_same_items(w, &a->priced, &b->priced);
    expect_same_subjects(w, &a->priced, &b->priced);
    SAME(w, a, b, ->own_bytes);
    SAME(w, a, b, ->has_ends);
    SAME(w, a, b, ->size);
    SAME(w, a, b, ->n_live);
    for (int32_t i = 0; i < a->n_live; i++) {
        SAME(w, a, b, ->live[i].device);
        SAME(w, a, b, ->live[i].first);
        SAME(w, a, b, ->live[i].last);
        SAME(w, a, b, ->live[i].bytes);
    }
}

static void compare(walk *w, int32_t family) {
    cleave_error error = {""};
    cleave_fragment fragment;
    cleave_fragment_price *whole, *together;
    ok(w, cleave_lowerer_family(w->lowerer, family, &fragment, &error), &error);
    ok(w, cleave_price_fragment(&fragment, w->cache, NULL, &w->scratch, &whole, &error), &error);
    ok(w, member_memory_price(&w->memory, family, &w->scratch, &together, &error), &error);
    expect_same(w, together, whole);
    free(whole);
    free(together);
    w->n_compared++;
}

static void check(walk *w, int32_t n_devices, bool in_steps) {
    cleave_error error = {""};
    begin(w, n_devices, in_steps);
    cleave_split tried = {.devices = CLEAVE_ARENA_ARRAY(&w->arena, int32_t, n_devices)};
    for (int change = 0; change < n_draws(60); change++) {
        int32_t op = (int32_t)cleave_random_below(&w->random, w->model.n_operators), n;
        cleave_split_random(&w->model.operators[op], n_devices, &w->random, &tried);
        ok(w, cleave_lowerer_set_split(w->lowerer, op, &tried, &error), &error);
        const int32_t *families = cleave_lowerer_families_of(w->lowerer, op, &n);
        for (int32_t i = 0; i < n; i++)
            if (cleave_lowerer_members(w->lowerer, families[i]) > 0)
                compare(w, families[i]);
    }
    end(w);
}

/* The steps of recurrences: each has families with members. */
Test(members, keep_prices_of_real_models) {
    static const char *const names[] = {"rnntc", "rnnlm", "nmt", "byte_lstm"};
    static const int32_t devices[] = {2, 4, 12};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (size_t d = 0; d < 2 * sizeof devices / sizeof devices[0]; d++) {
            walk w = {.name = names[i]};
            cleave_error error = {""};
            ok(&w, shipped_model(names[i], 24, &w.arena, &w.model, &error), &error);
            check(&w, devices[d / 2], d % 2 != 0);
            cr_assert(w.n_compared > n_draws(6), "%s: %d families with members", names[i],
                      w.n_compared);
        }
}
