/* Reads text by positions, never whole. */
#include "exec/data/text.h"

#include "base/file.h"
#include "base/random.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 16 };

/* The one data input beside the targets. */
static cleave_status find_tokens(const cleave_model *model, cleave_text *text,
                                 cleave_error *error) {
    int32_t n = 0;
    for (int32_t t = 0; t < model->n_tensors; t++) {
        const cleave_tensor *tensor = &model->tensors[t];
        if (tensor->kind != CLEAVE_TENSOR_DATA || tensor->view.kind != CLEAVE_VIEW_NONE ||
            t == model->targets)
            continue;
        text->tokens = t;
        n++;
    }
    if (n != 1)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: text needs a model with one data input, but this one has %d",
                           model->file, n);
    const cleave_tensor *tokens = &model->tensors[text->tokens];
    if (tokens->type != CLEAVE_I64 || tokens->rank != 2)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: text needs an input of integers [batch, t], but %s is of %s and "
                           "has rank %d",
                           model->file, tokens->name,
                           tokens->type == CLEAVE_I64 ? "integers" : "floats", tokens->rank);
    if (tokens->below < CLEAVE_TEXT_VOCABULARY)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: input %s takes %lld ids, but bytes of a text have %d", model->file,
                           tokens->name, (long long)tokens->below, CLEAVE_TEXT_VOCABULARY);
    text->length = tokens->shape[1];
    return CLEAVE_OK;
}

static cleave_status find_targets(const cleave_model *model, cleave_text *text,
                                  cleave_error *error) {
    text->targets = model->targets;
    if (model->targets < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: text needs a model with a loss",
                           model->file);
    const cleave_tensor *tokens = &model->tensors[text->tokens],
                        *targets = &model->tensors[model->targets];
    if (targets->rank != 2 || targets->shape[0] != tokens->shape[0] ||
        targets->shape[1] != tokens->shape[1])
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: text needs logits [batch, t, v] for every byte of %s [%lld, %lld]",
                           model->file, tokens->name, (long long)tokens->shape[0],
                           (long long)tokens->shape[1]);
    if (targets->below < CLEAVE_TEXT_VOCABULARY)
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: the logits tell %lld classes apart, but a text has %d bytes",
                           model->file, (long long)targets->below, CLEAVE_TEXT_VOCABULARY);
    return CLEAVE_OK;
}

static cleave_status open_file(const char *path, int *descriptor, int64_t *bytes,
                               cleave_error *error) {
    struct stat about;
    *descriptor = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (*descriptor < 0)
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: %s", path, strerror(errno));
    if (fstat(*descriptor, &about) != 0 || !S_ISREG(about.st_mode)) {
        close(*descriptor);
        return cleave_fail(error, CLEAVE_BAD_INPUT, "%s: not a regular file", path);
    }
    *bytes = (int64_t)about.st_size;
    return CLEAVE_OK;
}

cleave_status cleave_text_open(const char *path, const cleave_model *model, cleave_text *text,
                               cleave_error *error) {
    cleave_text opened = {.path = path};
    CLEAVE_TRY(find_tokens(model, &opened, error));
    CLEAVE_TRY(find_targets(model, &opened, error));
    CLEAVE_TRY(open_file(path, &opened.descriptor, &opened.bytes, error));
    if (opened.bytes <= opened.length) {
        close(opened.descriptor);
        return cleave_fail(error, CLEAVE_BAD_INPUT,
                           "%s: has %lld bytes, but a sequence takes %lld, and the one to predict",
                           path, (long long)opened.bytes, (long long)opened.length);
    }
    *text = opened;
    return CLEAVE_OK;
}

void cleave_text_close(cleave_text *text) {
    if (text->path != NULL)
        close(text->descriptor);
    text->path = NULL;
}

int64_t cleave_text_position(const cleave_text *text, uint64_t seed, int64_t step, int64_t sample) {
    if (text->windows != NULL)
        return cleave_sample_order_at(text->windows, step, sample) * text->length;
    uint64_t key =
        cleave_hash_join(cleave_hash_join(seed, (uint64_t)step), cleave_hash_string("text"));
    cleave_random random = {.key = cleave_hash_join(key, (uint64_t)sample)};
    return cleave_random_below(&random, text->bytes - text->length);
}

cleave_status cleave_text_load(const cleave_text *text, const cleave_tensor *tensor, bool is_target,
                               const cleave_box *box, uint64_t seed, int64_t step, int64_t *data,
                               cleave_error *error) {
    uint8_t bytes[4096];
    int64_t strides[CLEAVE_MAX_RANK];
    cleave_tensor_strides(tensor, box, strides);
    for (int64_t sample = box->lo[0]; sample < box->hi[0]; sample++) {
        int64_t start = cleave_text_position(text, seed, step, sample) + (is_target ? 1 : 0);
        for (int64_t at = box->lo[1]; at < box->hi[1]; at += (int64_t)sizeof bytes) {
            int64_t left = box->hi[1] - at,
                    n = left < (int64_t)sizeof bytes ? left : (int64_t)sizeof bytes;
            CLEAVE_TRY(cleave_file_read_at(text->descriptor, text->path, start + at, bytes,
                                           (size_t)n, error));
            int64_t *row =
                data + (sample - box->lo[0]) * strides[0] + (at - box->lo[1]) * strides[1];
            for (int64_t i = 0; i < n; i++)
                row[i * strides[1]] = bytes[i];
        }
    }
    return CLEAVE_OK;
}

static cleave_status count_bytes(int descriptor, const char *path, int64_t bytes, int64_t *counts,
                                 cleave_error *error) {
    const size_t most = CHUNK_BYTES;
    uint8_t *chunk = malloc(most);
    if (chunk == NULL)
        return cleave_fail_memory(error, "counting the bytes of a text");
    cleave_status status = CLEAVE_OK;
    for (int64_t at = 0; at < bytes && status == CLEAVE_OK; at += (int64_t)most) {
        size_t n = bytes - at < (int64_t)most ? (size_t)(bytes - at) : most;
        status = cleave_file_read_at(descriptor, path, at, chunk, n, error);
        for (size_t i = 0; i < n && status == CLEAVE_OK; i++)
            counts[chunk[i]]++;
    }
    free(chunk);
    return status;
}

cleave_status cleave_text_entropy(const char *path, double *nats, cleave_error *error) {
    int64_t counts[CLEAVE_TEXT_VOCABULARY] = {0}, bytes;
    int descriptor;
    CLEAVE_TRY(open_file(path, &descriptor, &bytes, error));
    cleave_status status = count_bytes(descriptor, path, bytes, counts, error);
    close(descriptor);
    CLEAVE_TRY(status);
    double entropy = 0;
    for (int i = 0; i < CLEAVE_TEXT_VOCABULARY; i++)
        if (counts[i] > 0) {
            double p = (double)counts[i] / (double)bytes;
            entropy -= p * log(p);
        }
    *nats = entropy;
    return CLEAVE_OK;
}
