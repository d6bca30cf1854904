/* The manifests of checkpoints: what is written is read, and what was changed or reaches out of its
   folder is refused. */
#include "exec/data/manifest.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static const cleave_manifest example = {
    .step = 50,
    .seed = UINT64_MAX,
    .model_file = "a \"model\".onnx",
    .model_hash = "24dc634a591533fe494858fbec971637",
    .precision = "bf16",
    .reduce_precision = "f32",
    .optimizer = {.kind = CLEAVE_OPTIMIZER_ADAMW,
                  .learning_rate = 0.002,
                  .weight_decay = 0.1,
                  .beta1 = 0.9,
                  .beta2 = 0.95,
                  .epsilon = 1e-8,
                  .schedule = {CLEAVE_RATE_COSINE, 10, 300, 0.0001},
                  .clip_norm = 1},
    .no_decay = "*.bias",
    .data = {"text", 24166, 0x577bfee23e2a6144u},
    .n_files = 2,
    .files = {{"parameters.safetensors", 1886880, 1}, {"optimizer-1.safetensors", 0, UINT64_MAX}}};

static cleave_arena arena;
static cleave_error error;

static void empty(void) { cleave_arena_free(&arena); }

static const char *text_of(const cleave_manifest *manifest) {
    const char *text;
    OK(cleave_manifest_format, manifest, &arena, &text);
    return text;
}

static cleave_status parse(const char *text, cleave_manifest *manifest) {
    error.message[0] = '\0';
    return cleave_manifest_parse(text, strlen(text), "m.json", &arena, manifest, &error);
}

Test(manifest, what_is_written_is_read, .fini = empty) {
    cleave_manifest got;
    cr_assert_eq(parse(text_of(&example), &got), CLEAVE_OK, "%s", error.message);
    cr_expect_eq(got.step, 50);
    cr_expect_eq(got.seed, UINT64_MAX);
    cr_expect_str_eq(got.model_file, example.model_file);
    cr_expect(cleave_rate_schedule_equal(&got.optimizer.schedule, &example.optimizer.schedule));
    cr_expect_eq(got.optimizer.kind, CLEAVE_OPTIMIZER_ADAMW);
    for (int i = 0; i < CLEAVE_N_OPTIMIZER_FIGURES; i++) {
        cleave_optimizer was = example.optimizer;
        const double *a = cleave_optimizer_figure_of(&got.optimizer, &cleave_optimizer_figures[i]),
                     *b = cleave_optimizer_figure_of(&was, &cleave_optimizer_figures[i]);
        cr_expect(a == NULL ? b == NULL : *a == *b, "%s", cleave_optimizer_figures[i].key);
    }
    cr_expect_str_eq(got.no_decay, "*.bias");
    cr_expect_str_eq(got.data.name, "text");
    cr_expect_eq(got.data.checksum, example.data.checksum);
    cr_assert_eq(got.n_files, 2);
    cr_expect_str_eq(got.files[1].name, "optimizer-1.safetensors");
    cr_expect_eq(got.files[1].checksum, UINT64_MAX);
    cr_expect_str_eq(text_of(&got), text_of(&example));
}

Test(manifest, a_constant_rate_is_what_one_without_a_schedule_has, .fini = empty) {
    cleave_manifest constant = example, got;
    constant.optimizer.schedule = (cleave_rate_schedule){.kind = CLEAVE_RATE_CONSTANT};
    cr_expect(strstr(text_of(&constant), "schedule") == NULL);
    cr_assert_eq(parse(text_of(&constant), &got), CLEAVE_OK, "%s", error.message);
    cr_expect(cleave_rate_schedule_equal(&got.optimizer.schedule, &constant.optimizer.schedule));
}

Test(manifest, an_optimizer_has_only_the_numbers_that_mean_something_to_it, .fini = empty) {
    cleave_manifest sgd = example, got;
    sgd.optimizer.kind = CLEAVE_OPTIMIZER_SGD;
    sgd.optimizer.momentum = 0.5;
    cr_expect(strstr(text_of(&sgd), "\"momentum\": 0.5") != NULL, "%s", text_of(&sgd));
    cr_expect(strstr(text_of(&sgd), "beta1") == NULL);
    cr_expect(strstr(text_of(&example), "momentum") == NULL);
    cr_assert_eq(parse(text_of(&sgd), &got), CLEAVE_OK, "%s", error.message);
    cr_expect_eq(got.optimizer.momentum, 0.5);
}

Test(manifest, no_character_of_it_can_change, .fini = empty) {
    cleave_manifest got;
    char *text = strdup(text_of(&example));
    for (size_t i = 0; text[i] != '\0'; i++) {
        char before = text[i];
        /* Blanks mean nothing. */
        if (before == ' ' || before == '\n')
            continue;
        text[i] = before == '1' ? '2' : '1';
        cr_expect_eq(parse(text, &got), CLEAVE_BAD_INPUT, "changed at %zu: %s", i, text + i);
        cr_expect(strncmp(error.message, "m.json: ", 8) == 0, "%s", error.message);
        text[i] = before;
    }
    for (size_t n = strlen(text) - 2; n > 0; n -= n > 7 ? 7 : n) /* the last is a newline */
        cr_expect_eq(cleave_manifest_parse(text, n, "m.json", &arena, &got, &error),
                     CLEAVE_BAD_INPUT, "cut after %zu", n);
    free(text);
}

Test(manifest, names_reach_nothing_outside_of_the_folder, .fini = empty) {
    static const char *const names[] = {"../x",
                                        "/etc/passwd",
                                        "..",
                                        ".hidden",
                                        "a/b",
                                        "a\\\\b",
                                        "",
                                        "a b",
                                        "manifest.json",
                                        "optimizer-1.safetensors"};
    cleave_manifest got, changed = example;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        changed.files[0].name = names[i];
        cr_expect_eq(parse(text_of(&changed), &got), CLEAVE_BAD_INPUT, "%s", names[i]);
    }
}

Test(manifest, sizes_are_bounded, .fini = empty) {
    cleave_manifest got, changed = example;
    changed.files[0].bytes = INT64_MAX;
    cr_expect_eq(parse(text_of(&changed), &got), CLEAVE_BAD_INPUT);
    changed = example;
    changed.step = -1;
    cr_expect_eq(parse(text_of(&changed), &got), CLEAVE_BAD_INPUT);
    changed = example;
    changed.n_files = 0;
    cr_expect_eq(parse(text_of(&changed), &got), CLEAVE_BAD_INPUT);
    char *blanks = calloc(1, CLEAVE_MOST_MANIFEST_BYTES + 2);
    memset(blanks, ' ', CLEAVE_MOST_MANIFEST_BYTES + 1);
    cr_expect_eq(parse(blanks, &got), CLEAVE_BAD_INPUT);
    free(blanks);
}
