/* What a baseline in stages is foreseen to hold is no more than it does hold: drawn numbers of
   groups and of micro-batches, kinds of schedule, shared products, recomputation and sharded state,
   of models of every kind of nest, and of language models in bf16 and in f32. And it is not far
   below, as what has no room is left out by it. */
#include "../support/config_request.h"
#include "../support/draws.h"
#include "../support/test_machine.h"
#include "../support/trial.h"
#include "graph/model/attention.h"
#include "graph/model/precision.h"
#include "search/pipeline/internal.h"

#include "../support/models.h"
#include "base/random.h"

#include <math.h>
#include <stdio.h>

enum { N_DEVICES = 8 };

typedef struct foreseeing {
    trial t;
    cleave_pipeline_options options;
    cleave_pipelines found;
    pipeline_finder f;
    int n_looked_at, n_put_off;
    double closest, least, least_put_off; /* of what is foreseen, as a share of what is held */
} foreseeing;

static void begin(foreseeing *s) {
    trial *t = &s->t;
    t->machine = make_machine(&t->arena, 2, 4, "1 TiB");
    trial_begin(t, 2);
    trial_ok(
        t, cleave_problem_create(&t->model, &t->machine, NULL, &t->arena, &t->problem, &t->error));
    s->options = (cleave_pipeline_options){
        .wish = {.kind = -1, .recompute = -1}, .problem = &t->problem, .collectives = &t->rules};
    s->f = (pipeline_finder){.pricer = &t->pricer,
                             .costs = t->costs,
                             .options = &s->options,
                             .arena = &t->arena,
                             .found = &s->found,
                             .most_lowered = INT64_MAX,
                             .error = &t->error};
    s->closest = s->least_put_off = s->least = 0;
    trial_ok(t, pipeline_weigh(&s->f));
    trial_ok(t, cleave_axis_sorts_find(&t->model, &s->f.work, &s->f.sorts, &t->error));
    s->f.batch = s->f.sorts.batch;
    s->least = s->least_put_off = 1;
}

static void end(foreseeing *s) {
    CLEAVE_LIST_FREE(&s->f.cuts);
    cleave_arena_free(&s->f.work);
    trial_end(&s->t);
}

static int32_t power_below(cleave_random *random, int n) {
    return 1 << cleave_random_below(random, n);
}

static pipeline_candidate draw(cleave_random *random) {
    static const cleave_schedule_kind kinds[] = {
        CLEAVE_SCHEDULE_1F1B,  CLEAVE_SCHEDULE_GPIPE,       CLEAVE_SCHEDULE_ZB_H1,
        CLEAVE_SCHEDULE_ZB_H1, CLEAVE_SCHEDULE_INTERLEAVED, CLEAVE_SCHEDULE_ZB_INTERLEAVED};
    pipeline_candidate of = {.n_groups = power_below(random, 4),
                             .n_virtual = 1,
                             .micro_batches = power_below(random, 5)};
    int32_t n = N_DEVICES / of.n_groups;
    of.kind = kinds[of.n_groups > 1 ? cleave_random_below(random, 6) : 0];
    of.neighbours = n;
    of.baseline = cleave_random_below(random, 2) == 0 ? "megatron" : "data-parallel";
    if (of.baseline[0] == 'm')
        of.tensor = (int32_t)fmin(n, power_below(random, 3));
    if (of.tensor > 0 && of.tensor < n)
        of.expert = power_below(random, 2);
    if (cleave_schedule_kind_goes_round(of.kind))
        of.n_virtual = 2;
    if (cleave_schedule_kind_parts_weights(of.kind) && cleave_random_below(random, 2) == 0)
        of.sooner = (int32_t)cleave_random_below(random, of.n_groups);
    of.recompute = (cleave_recompute)cleave_random_below(random, CLEAVE_N_RECOMPUTES);
    of.sharded = (cleave_sharded)cleave_random_below(random, CLEAVE_N_SHARDED);
    return of;
}

static void compare(foreseeing *s, const pipeline_candidate *of, double foreseen,
                    const cleave_price *price) {
    double share = foreseen / (double)price->peak_bytes;
    bool puts_off = cleave_schedule_kind_parts_weights(of->kind);
    cr_assert_leq(share, 1,
                  "%s: %s %d, context %d%s, %d groups of %d stages, %d micro-batches, %s sooner "
                  "%d, recompute "
                  "%s, zero %d: %.0f bytes foreseen, %lld held",
                  s->t.name, of->baseline, of->tensor, s->options.wish.context,
                  s->options.wish.ring ? " by a ring" : "", of->n_groups, of->n_virtual,
                  of->micro_batches, cleave_schedule_names[of->kind], of->sooner,
                  cleave_recompute_names[of->recompute], (int)of->sharded, foreseen,
                  (long long)price->peak_bytes);
    s->n_looked_at++;
    s->closest = fmax(s->closest, share);
    s->least = fmin(s->least, share);
    s->n_put_off += puts_off;
    if (puts_off)
        s->least_put_off = fmin(s->least_put_off, share);
}

static void try_one(foreseeing *s, cleave_random *random) {
    trial *t = &s->t;
    pipeline_candidate of = draw(random);
    cleave_schedule_wish *wish = &s->options.wish;
    wish->context = of.tensor > 0 && cleave_random_below(random, 4) == 0 ? 2 : 0;
    wish->ring = wish->context > 1 && cleave_random_below(random, 2) == 0;
    wish->whole_tokens = cleave_random_below(random, 2) == 0;
    cleave_error why = {""};
    cleave_layout layout;
    pipeline_held held;
    cleave_price price;
    bool fits = false;
    if (s->f.batch % of.micro_batches != 0 || of.n_groups * of.n_virtual > t->model.n_operators)
        return;
    cleave_arena_free(&t->scratch);
    cleave_arena_reset(&t->pricer.arena);
    if (pipeline_known_layout(&s->f, &of, &t->scratch, &layout, &fits, &why) != CLEAVE_OK || !fits)
        return;
    trial_ok(t, pipeline_find_held(&s->f, &layout, of.n_groups, &held));
    trial_ok(t, pipeline_find_least_bytes(&s->f, &layout, &held, &of));
    const cleave_price_subject what = {.layout = &layout};
    trial_ok(t, cleave_pricer_price(&t->pricer, &what, NULL, &price, &t->error));
    compare(s, &of, of.least_bytes, &price);
}

static void expect_below(foreseeing *s, uint64_t key, int n) {
    cleave_random random = {.key = seed_from(key)};
    begin(s);
    for (int i = 0; i < n_draws(n); i++)
        try_one(s, &random);
    fprintf(stderr,
            "%s: %d, %d with gradients of weights put off; from %.2f, of these %.2f, to %.2f\n",
            s->t.name, s->n_looked_at, s->n_put_off, s->least, s->least_put_off, s->closest);
}

Test(foreseen_memory_holds, of_every_kind_of_nest) {
    for (int which = 0; which < N_MODELS; which++) {
        foreseeing s = {0};
        trial_hand_model(&s.t, which);
        snprintf(s.t.name, sizeof s.t.name, "%s", hand_model_names[which]);
        expect_below(&s, (uint64_t)which, 150);
        end(&s);
    }
}

typedef struct language_case {
    const char *name, *text;
    cleave_type precision;
    double least; /* of what is held that is foreseen */
} language_case;

static const language_case languages[] = {
    {"llama",
     "{\"model_type\": \"llama\", \"hidden_size\": 256, \"intermediate_size\": 1024, "
     "\"num_hidden_layers\": 8, \"num_attention_heads\": 4, \"vocab_size\": 256}",
     CLEAVE_BF16, 0.5},
    {"gptj",
     "{\"model_type\": \"gptj\", \"n_embd\": 256, \"n_layer\": 8, \"n_head\": 4, \"rotary_dim\": "
     "64, \"vocab_size\": 256, \"n_positions\": 64, \"tie_word_embeddings\": false}",
     CLEAVE_BF16, 0.5},
    {"gpt2",
     "{\"model_type\": \"gpt2\", \"n_embd\": 256, \"n_layer\": 8, \"n_head\": 4, \"vocab_size\": "
     "256, \"n_positions\": 64}",
     CLEAVE_F32, 0.5},
};

Test(foreseen_memory_holds, of_language_models) {
    for (size_t i = 0; i < sizeof languages / sizeof *languages; i++) {
        foreseeing s = {0};
        const cleave_import_request request = config_request(languages[i].text, 64, 64);
        cleave_model imported;
        snprintf(s.t.name, sizeof s.t.name, "%s", languages[i].name);
        trial_ok(&s.t, cleave_model_import_as(&request, &s.t.arena, &imported, &s.t.error));
        trial_ok(&s.t,
                 cleave_model_fuse_attention(&imported, NULL, &s.t.arena, &s.t.model, &s.t.error));
        cleave_model_set_precision(&s.t.model, languages[i].precision, CLEAVE_F32);
        expect_below(&s, 100 + i, 60);
        cr_expect_gt(s.n_put_off, 10);
        cr_expect_gt(s.least_put_off, languages[i].least);
        end(&s);
    }
}
