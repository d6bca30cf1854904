/* Text as data: which bytes are read does not depend on who reads them. */
#include "exec/data/text.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 5, LENGTH = 7 };

typedef struct fixture {
    cleave_tensor tensors[2];
    cleave_model model;
    char path[64];
} fixture;

/* A model of nothing but its data: tokens and targets [5, 7] of 256 and 300 values. */
static void set_up(fixture *f, const char *content, size_t bytes) {
    *f = (fixture){.tensors = {{.name = "tokens", .below = 256}, {.name = "targets", .below = 300}},
                   .path = "/tmp/cleave_text_XXXXXX"};
    for (int t = 0; t < 2; t++) {
        f->tensors[t].kind = CLEAVE_TENSOR_DATA;
        f->tensors[t].type = CLEAVE_I64;
        f->tensors[t].rank = 2;
        f->tensors[t].shape[0] = BATCH;
        f->tensors[t].shape[1] = LENGTH;
        f->tensors[t].order[1] = 1;
    }
    f->model =
        (cleave_model){.file = "m.onnx", .n_tensors = 2, .tensors = f->tensors, .targets = 1};
    int descriptor = mkstemp(f->path);
    cr_assert(descriptor >= 0 && write(descriptor, content, bytes) == (ssize_t)bytes);
    close(descriptor);
}

static const char line[] = "The quick brown fox jumps over the lazy dog, \xff\x80 and again.";
enum { BYTES = sizeof line - 1 };

Test(text, sequences_are_those_of_the_file_and_targets_are_the_next_bytes) {
    fixture f;
    cleave_text text;
    set_up(&f, line, BYTES);
    OK(cleave_text_open, f.path, &f.model, &text);
    cleave_box all = cleave_box_of_shape(2, f.tensors[0].shape);
    for (int64_t step = 0; step < 20; step++) {
        int64_t tokens[BATCH][LENGTH], targets[BATCH][LENGTH];
        OK(cleave_text_load, &text, &f.tensors[0], false, &all, 3, step, tokens[0]);
        OK(cleave_text_load, &text, &f.tensors[1], true, &all, 3, step, targets[0]);
        for (int64_t n = 0; n < BATCH; n++) {
            int64_t at = cleave_text_position(&text, 3, step, n);
            cr_assert(at >= 0 && at + LENGTH < BYTES);
            for (int i = 0; i < LENGTH; i++) {
                cr_expect(tokens[n][i] == (unsigned char)line[at + i]);
                cr_expect(targets[n][i] == (unsigned char)line[at + i + 1]);
            }
        }
    }
    cleave_text_close(&text);
    unlink(f.path);
}

Test(text, a_piece_holds_what_the_whole_batch_has_there) {
    fixture f;
    cleave_error error = {{0}};
    cleave_text text;
    set_up(&f, line, BYTES);
    OK(cleave_text_open, f.path, &f.model, &text);
    for (int transposed = 0; transposed < 2; transposed++) {
        f.tensors[0].order[0] = transposed;
        f.tensors[0].order[1] = 1 - transposed;
        cleave_box all = cleave_box_of_shape(2, f.tensors[0].shape),
                   piece = {.lo = {1, 2}, .hi = {4, 7}};
        int64_t whole[BATCH * LENGTH], part[3 * 5], strides[CLEAVE_MAX_RANK];
        cleave_text_load(&text, &f.tensors[0], false, &all, 1, 9, whole, &error);
        cleave_text_load(&text, &f.tensors[0], false, &piece, 1, 9, part, &error);
        cleave_tensor_strides(&f.tensors[0], &all, strides);
        for (int64_t n = 1; n < 4; n++)
            for (int64_t i = 2; i < 7; i++)
                cr_expect(part[transposed ? (i - 2) * 3 + n - 1 : (n - 1) * 5 + i - 2] ==
                          whole[n * strides[0] + i * strides[1]]);
    }
    cleave_text_close(&text);
    unlink(f.path);
}

/* 61 - 7 places; 2,000 draws miss one of them with a chance below 1e-13. */
Test(text, every_place_is_drawn_and_seeds_steps_and_samples_differ) {
    fixture f;
    cleave_text text;
    set_up(&f, line, BYTES);
    OK(cleave_text_open, f.path, &f.model, &text);
    bool seen[BYTES] = {false};
    for (int64_t step = 0; step < 500; step++)
        for (int64_t n = 0; n < 4; n++)
            seen[cleave_text_position(&text, 1, step, n)] = true;
    for (int i = 0; i < BYTES; i++)
        cr_expect(seen[i] == (i < BYTES - LENGTH), "place %d", i);
    int same[3] = {0};
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = cleave_text_position(&text, 1, i, 0);
        same[0] += at == cleave_text_position(&text, 2, i, 0);
        same[1] += at == cleave_text_position(&text, 1, i + 1, 0);
        same[2] += at == cleave_text_position(&text, 1, i, 1);
    }
    for (int i = 0; i < 3; i++)
        cr_expect(same[i] < 100, "%d of 1000 are the same", same[i]);
    cleave_text_close(&text);
    unlink(f.path);
}

Test(text, what_does_not_fit_is_refused) {
    fixture f;
    cleave_error error = {{0}};
    cleave_text text;
    set_up(&f, line, LENGTH); /* a byte too short */
    cr_expect(cleave_text_open(f.path, &f.model, &text, &error) == CLEAVE_BAD_INPUT);
    cr_expect(strstr(error.message, "7 bytes") != NULL, "%s", error.message);
    unlink(f.path);
    cr_expect(cleave_text_open(f.path, &f.model, &text, &error) == CLEAVE_BAD_INPUT);
    cr_expect(cleave_text_open("/tmp", &f.model, &text, &error) == CLEAVE_BAD_INPUT);
    set_up(&f, line, LENGTH + 1);
    OK(cleave_text_open, f.path, &f.model, &text);
    cr_expect(cleave_text_position(&text, 1, 2, 3) == 0);
    cleave_text_close(&text);
    fixture good = f;
    static const struct {
        const char *what, *reason;
    } cases[] = {{"floats", "tokens"}, {"rank", "tokens"},    {"vocabulary", "255"},
                 {"classes", "255"},   {"targets", "logits"}, {"no loss", "loss"},
                 {"no input", "0"}};
    for (int i = 0; i < 7; i++) {
        f = good;
        f.model.tensors = f.tensors;
        f.tensors[0].type = i == 0 ? CLEAVE_F32 : CLEAVE_I64;
        f.tensors[0].rank = i == 1 ? 3 : 2;
        f.tensors[0].below = i == 2 ? 255 : 256;
        f.tensors[1].below = i == 3 ? 255 : 256;
        f.tensors[1].shape[1] = i == 4 ? 6 : 7;
        f.model.targets = i == 5 ? -1 : 1;
        f.tensors[1].kind = i == 5 ? CLEAVE_TENSOR_ACTIVATION : CLEAVE_TENSOR_DATA;
        f.tensors[0].kind = i == 6 ? CLEAVE_TENSOR_CONSTANT : CLEAVE_TENSOR_DATA;
        cr_expect(cleave_text_open(f.path, &f.model, &text, &error) == CLEAVE_BAD_INPUT, "%s",
                  cases[i].what);
        cr_expect(strstr(error.message, cases[i].reason) != NULL, "%s: %s", cases[i].what,
                  error.message);
    }
    unlink(f.path);
}

/* Half a, a quarter b and c each: ln(2) / 2 + 2 ln(4) / 4 = 1.5 ln(2). */
Test(text, entropy_is_that_of_single_bytes) {
    fixture f;
    cleave_error error = {{0}};
    double nats = 0;
    set_up(&f, "abacabac", 8);
    OK(cleave_text_entropy, f.path, &nats);
    cr_expect(fabs(nats - 1.5 * log(2)) < 1e-12, "%g", nats);
    unlink(f.path);
    cr_expect(cleave_text_entropy(f.path, &nats, &error) == CLEAVE_BAD_INPUT);
}
