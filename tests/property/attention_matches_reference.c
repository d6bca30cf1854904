/* The kernel that keeps no scores against the nests that it stands for, run one after the other by
   the reference: attention of language models as their config.json says, over random lengths,
   parts, windows and ways to share keys; results within 1e-5 of the largest value there is, of the
   output or of all gradients: what single gradients are sums of may cancel.

   Results are poisoned before each call, the workspace has a fence behind it, and whatever the
   number of pieces the bits are the same.  By one thread, and by three. */
#include "../support/config_request.h"
#include "../support/draws.h"
#include "../support/ok.h"
#include "../support/one_nest.h"
#include "base/random.h"
#include "exec/kernels/kernel.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"

#include <criterion/criterion.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { FENCE_BYTES = 256, FENCE = 0x5a, N_PARTS = 3 };

typedef struct subject {
    cleave_kernels *kernels;
    cleave_kernel_call call; /* all arrays have memory */
    bool hides;              /* whole rows, by a bias */
    int *n_cuts;             /* calls that threads share */
} subject;

static int64_t draw(cleave_random *random, int64_t from, int64_t to) {
    return from + cleave_random_below(random, to - from + 1);
}

static int64_t count(const cleave_kernel_call *call, const cleave_operand *operand,
                     const cleave_array *array) {
    return one_nest_bytes(call, operand, array) / cleave_type_bytes(array->type);
}

static void fill(cleave_random *random, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = (float)(2 * cleave_random_next_uniform(random) - 1);
}

/* The elements of a constant under a box, as they lie in the array. */
static void fill_constant(const cleave_tensor *tensor, cleave_array *array) {
    int64_t index[CLEAVE_MAX_RANK];
    for (int d = 0; d < tensor->rank; d++)
        index[d] = array->box.lo[d];
    for (int d = 0; d >= 0;) {
        int64_t from = 0, to = 0;
        for (int e = 0; e < tensor->rank; e++) {
            from = from * tensor->shape[e] + index[e];
            to += (index[e] - array->box.lo[e]) * array->strides[e];
        }
        ((float *)array->data)[to] = ((const float *)tensor->value)[from];
        for (d = tensor->rank - 1; d >= 0 && ++index[d] == array->box.hi[d]; d--)
            index[d] = array->box.lo[d];
    }
}

/* Hides rows of scores by what is added to them: of every five one with minus infinity, one with
   the lowest number there is, one up to its tenth key; and some scores elsewhere. */
static void hide_rows(cleave_kernel_call *call, int input, cleave_random *random) {
    const cleave_nest *nest = call->nest;
    cleave_array *array = &call->inputs[input];
    int rank = call->model->tensors[nest->inputs[input].tensor].rank;
    int64_t n_keys = array->box.hi[rank - 1] - array->box.lo[rank - 1];
    int64_t n_rows = count(call, &nest->inputs[input], array) / n_keys;
    for (int64_t r = 0; r < n_rows; r++)
        for (int64_t k = 0; k < n_keys; k++) {
            float *at = (float *)array->data + r * n_keys + k;
            if (r % 5 == 0 || (r % 5 == 2 && k < 10) || draw(random, 0, 40) == 0)
                *at = -INFINITY;
            else if (r % 5 == 1)
                *at = -FLT_MAX;
        }
}

static void give_memory(subject *of, cleave_random *random) {
    cleave_kernel_call *call = &of->call;
    const cleave_nest *nest = call->nest;
    for (int i = 0; i < nest->n_inputs; i++) {
        const cleave_tensor *tensor = &call->model->tensors[nest->inputs[i].tensor];
        int64_t n = count(call, &nest->inputs[i], &call->inputs[i]);
        call->inputs[i].data = one_nest_memory(4 * n);
        call->input_gradients[i].data = one_nest_memory(4 * n);
        if (tensor->kind == CLEAVE_TENSOR_CONSTANT)
            fill_constant(tensor, &call->inputs[i]);
        else
            fill(random, n, call->inputs[i].data);
        if (of->hides && i > 2 && tensor->kind != CLEAVE_TENSOR_CONSTANT)
            hide_rows(call, i, random);
    }
    int64_t n = count(call, &nest->output, &call->output);
    call->output.data = one_nest_memory(4 * n);
    call->output_gradient.data = one_nest_memory(4 * n);
    fill(random, n, call->output_gradient.data);
    call->combined.data = one_nest_memory(one_nest_bytes(call, &nest->statistics, &call->combined));
}

static void free_memory(subject *of) {
    for (int i = 0; i < of->call.nest->n_inputs; i++) {
        free(of->call.inputs[i].data);
        free(of->call.input_gradients[i].data);
    }
    free(of->call.output.data);
    free(of->call.output_gradient.data);
    free(of->call.combined.data);
}

static void run_fenced(const subject *of, cleave_pass pass, int32_t pieces) {
    cleave_kernel_call call = of->call;
    call.pass = pass;
    call.pieces = pieces;
    int64_t bytes = cleave_kernel_call_workspace(of->kernels, &call);
    unsigned char *memory = one_nest_memory(bytes + FENCE_BYTES);
    memset(memory, FENCE, (size_t)(bytes + FENCE_BYTES));
    call.workspace = memory;
    call.workspace_bytes = bytes;
    cr_assert_str_eq(cleave_kernel_choice(of->kernels, &call), "attention");
    *of->n_cuts += cleave_kernel_find_cut(of->kernels, &call).n > 1;
    OK(cleave_kernel_run, of->kernels, &call);
    for (int i = 0; i < FENCE_BYTES; i++)
        cr_assert_eq(memory[bytes + i], FENCE, "the kernel wrote behind its workspace");
    free(memory);
}

static double largest_of(int64_t n, const float *a) {
    double largest = 1e-3;
    for (int64_t i = 0; i < n; i++)
        largest = fmax(largest, fabs((double)a[i]));
    return largest;
}

static double difference(int64_t n, const float *a, const float *b) {
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        worst = isnan(d) ? HUGE_VAL : fmax(worst, d);
    }
    return worst;
}

/* What a pass has written, copied and poisoned. */
static float *take(int64_t n, float *from) {
    float *taken = one_nest_memory(4 * n);
    memcpy(taken, from, (size_t)n * 4);
    for (int64_t i = 0; i < n; i++)
        from[i] = NAN;
    return taken;
}

static void compare(const char *what, int64_t n, const float *written, const float *expected,
                    const float *again, double most) {
    double off = difference(n, written, expected);
    cr_assert(off <= most, "%s: off by %g", what, off);
    cr_assert(memcmp(written, again, (size_t)n * 4) == 0, "%s: pieces change the result", what);
}

/* Where the row of an element of the output lies in the statistics. */
static int64_t row_at(const cleave_kernel_call *call, const int64_t *index) {
    const cleave_nest *nest = call->nest;
    int64_t at = 0;
    for (int e = 0; e < call->model->tensors[nest->statistics.tensor].rank; e++)
        for (int d = 0; d < call->model->tensors[nest->output.tensor].rank; d++)
            if (nest->statistics.map[e].n_terms > 0 && nest->output.map[d].n_terms > 0 &&
                nest->statistics.map[e].terms[0].axis == nest->output.map[d].terms[0].axis)
                at += index[d] * call->combined.strides[e];
    return at;
}

/* Of rows of which other parts have a score that a mask shows, nothing of what it hides counts: a
   part with such keys alone may say anything that is as low. */
static void drop_hidden(const cleave_kernel_call *call, float *y, float *statistics) {
    const cleave_array *output = &call->output;
    int rank = call->model->tensors[call->nest->output.tensor].rank;
    int64_t index[CLEAVE_MAX_RANK] = {0},
            rows = count(call, &call->nest->statistics, &call->combined);
    if (!cleave_attention_splits_keys(call->nest, &call->part) || !call->nest->attention->shows_all)
        return;
    for (int d = 0; d >= 0;) {
        int64_t at = 0;
        for (int e = 0; e < rank; e++)
            at += index[e] * output->strides[e];
        if (statistics[2 * row_at(call, index)] < -5000)
            y[at] = 0;
        for (d = rank - 1; d >= 0 && ++index[d] == output->box.hi[d] - output->box.lo[d]; d--)
            index[d] = 0;
    }
    for (int64_t r = 0; r < rows; r++)
        if (statistics[2 * r] < -5000) {
            statistics[2 * r] = -HUGE_VALF;
            statistics[2 * r + 1] = 0;
        }
}

static void check_forward(subject *of, const char *what) {
    cleave_kernel_call *call = &of->call;
    int64_t n = count(call, &call->nest->output, &call->output);
    int64_t rows = count(call, &call->nest->statistics, &call->combined);
    run_fenced(of, CLEAVE_PASS_FORWARD, 1);
    float *y = take(n, call->output.data), *statistics = take(2 * rows, call->combined.data);
    run_fenced(of, CLEAVE_PASS_FORWARD, 3);
    float *again = take(n, call->output.data);
    call->pass = CLEAVE_PASS_FORWARD;
    OK(cleave_kernel_run_reference, call);
    drop_hidden(call, y, statistics);
    drop_hidden(call, again, statistics);
    drop_hidden(call, call->output.data, call->combined.data);
    compare(what, n, y, call->output.data, again, 1e-5 * largest_of(n, call->output.data));
    const float *expected = call->combined.data;
    for (int64_t r = 0; r < 2 * rows; r++) { /* a maximum and a sum of each */
        bool both = isinf(expected[r]) && isinf(statistics[r]);
        double off = fabs((double)statistics[r] - (double)expected[r]);
        cr_assert(both || off <= 1e-5 * (1 + fabs((double)expected[r])), "%s: statistics", what);
    }
    free(y);
    free(again);
    free(statistics);
}

static void check_backward(subject *of, const char *what) {
    cleave_kernel_call *call = &of->call;
    const cleave_nest *nest = call->nest;
    float *first[CLEAVE_MAX_INPUTS], *again[CLEAVE_MAX_INPUTS];
    int64_t n[CLEAVE_MAX_INPUTS];
    for (int i = 0; i < nest->n_inputs; i++) {
        n[i] = count(call, &nest->inputs[i], &call->inputs[i]);
        free(take(n[i], call->input_gradients[i].data));
    }
    run_fenced(of, CLEAVE_PASS_INPUT_GRADIENT, 1);
    for (int i = 0; i < nest->n_inputs; i++)
        first[i] = take(n[i], call->input_gradients[i].data);
    run_fenced(of, CLEAVE_PASS_INPUT_GRADIENT, 4);
    for (int i = 0; i < nest->n_inputs; i++)
        again[i] = take(n[i], call->input_gradients[i].data);
    call->pass = CLEAVE_PASS_INPUT_GRADIENT;
    OK(cleave_kernel_run_reference, call);
    double largest = 0;
    for (int i = 0; i < nest->n_inputs; i++)
        if (nest->gradient_inputs >> i & 1)
            largest = fmax(largest, largest_of(n[i], call->input_gradients[i].data));
    for (int i = 0; i < nest->n_inputs; i++) {
        char where[160];
        snprintf(where, sizeof where, "%s, gradient of input %d", what, i);
        if (nest->gradient_inputs >> i & 1)
            compare(where, n[i], first[i], call->input_gradients[i].data, again[i], 1e-5 * largest);
        free(first[i]);
        free(again[i]);
    }
}

/* A part that has some samples and heads, and some of the rows and keys: all axes but the widths.
 */
static cleave_part draw_part(const cleave_nest *nest, cleave_random *random, bool whole) {
    cleave_part part = cleave_part_whole(nest, 0);
    for (int a = 0; a < nest->n_axes && !whole; a++) {
        if (nest->axes[a].whole)
            continue;
        part.lo[a] = draw(random, 0, nest->axes[a].extent - 1);
        part.hi[a] = draw(random, part.lo[a] + 1, nest->axes[a].extent);
    }
    return part;
}

static void check_nest(const cleave_model *model, const cleave_nest *nest, cleave_random *random,
                       cleave_kernels *kernels, bool hides, int *n_cuts, const char *what) {
    for (int i = 0; i < N_PARTS; i++) {
        subject of = {.kernels = kernels, .hides = hides, .n_cuts = n_cuts};
        cleave_part part = draw_part(nest, random, i == 0);
        cleave_kernel_call_describe(model, nest, CLEAVE_PASS_FORWARD, &part, &of.call);
        of.call.seed = 7;
        of.call.step = 3;
        give_memory(&of, random);
        check_forward(&of, what);
        check_backward(&of, what);
        free_memory(&of);
    }
}

/* Attention of the model of a config.json, texts of so many tokens; the kernels of each operator.
 */
static int check_config(const char *config, int64_t length, cleave_random *random,
                        cleave_kernels *kernels, bool hides, int *n_cuts) {
    cleave_arena arena = {0};
    cleave_model model;
    char what[96];
    int n = 0;
    const cleave_import_request request = config_request(config, 2, length);
    OK(cleave_model_import_as, &request, &arena, &model);
    OK(cleave_model_fuse_attention, &model, NULL, &arena, &model);
    for (int32_t i = 0; i < model.n_nests; i++) {
        const cleave_nest *nest = &model.nests[i];
        if (nest->attention == NULL)
            continue;
        snprintf(what, sizeof what, "%s, %d tokens", nest->name, (int)length);
        check_nest(&model, nest, random, kernels, hides, n_cuts, what);
        n++;
    }
    cleave_arena_free(&arena);
    return n;
}

static void check_rows(const char *config, int n_attentions, const int64_t *lengths, int n_lengths,
                       bool hides) {
    for (int32_t threads = 1; threads <= 3; threads += 2) {
        cleave_kernels *kernels;
        cleave_random random = {.key = seed_from(11)};
        int n_cuts = 0;
        OK(cleave_kernels_create_threads, threads, &kernels);
        for (int i = 0; i < n_lengths; i++)
            cr_expect_eq(check_config(config, lengths[i], &random, kernels, hides, &n_cuts),
                         n_attentions);
        cr_expect_eq(n_cuts > 0, threads > 1, "%d threads cut %d calls", threads, n_cuts);
        cleave_kernels_destroy(kernels);
    }
}

static void check(const char *config, int n_attentions, const int64_t *lengths, int n_lengths) {
    check_rows(config, n_attentions, lengths, n_lengths, false);
}

/* Later keys hidden, weights dropped out; lengths on either side of blocks. */
Test(attention_matches_reference, of_a_gpt) {
    check("{\"model_type\": \"gpt2\", \"vocab_size\": 11, \"n_positions\": 512, \"n_embd\": 20,"
          "\"n_layer\": 1, \"n_head\": 2, \"attn_pdrop\": 0.2}",
          1, (int64_t[]){1, 37, 128, 130, 333}, 5);
}

/* Four heads share each of two pairs of keys and values; windows. */
Test(attention_matches_reference, of_grouped_heads_and_windows) {
    check("{\"model_type\": \"mistral\", \"vocab_size\": 11, \"hidden_size\": 16,"
          "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"
          "\"head_dim\": 6, \"intermediate_size\": 8, \"max_position_embeddings\": 512,"
          "\"sliding_window\": 70}",
          1, (int64_t[]){65, 300}, 2);
}

#define OF_SINKS(windows)                                                                          \
    "{\"model_type\": \"gpt_oss\", \"vocab_size\": 11, \"hidden_size\": 16,"                       \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"num_key_value_heads\": 2,"            \
    "\"head_dim\": 6, \"intermediate_size\": 8, \"num_local_experts\": 2, "                        \
    "\"num_experts_per_tok\": 1,"                                                                  \
    "\"rope_parameters\": {\"rope_type\": \"default\"}, " windows "}"

/* Of a part that has the first key, and of others, which leave the sinks to it; a window hides
   whole parts. */
Test(attention_matches_reference, of_sinks) {
    check(OF_SINKS("\"sliding_window\": 70"), 1, (int64_t[]){1, 65, 300}, 3);
    check(OF_SINKS("\"attention_dropout\": 0.2, \"layer_types\": [\"full_attention\"]"), 1,
          (int64_t[]){130, 257}, 2);
}

/* A bias by distance, with its gradient, in the encoder and the decoder, and a sequence that
   attends to another one. */
Test(attention_matches_reference, of_a_bias_that_is_trained) {
    check("{\"model_type\": \"t5\", \"vocab_size\": 11, \"d_model\": 12, \"d_kv\": 5, \"d_ff\": 8,"
          "\"num_layers\": 1, \"num_heads\": 3, \"relative_attention_num_buckets\": 8,"
          "\"relative_attention_max_distance\": 16, \"dropout_rate\": 0.1}",
          3, (int64_t[]){9, 140}, 2);
}

/* Their output is 0 where all is minus infinity, and the mean of values where all is as low. */
Test(attention_matches_reference, of_rows_that_are_masked_whole) {
    check_rows("{\"model_type\": \"t5\", \"vocab_size\": 11, \"d_model\": 12, \"d_kv\": 5,"
               "\"d_ff\": 8, \"num_layers\": 1, \"num_heads\": 3, \"dropout_rate\": 0.0}",
               3, (int64_t[]){13, 150}, 2, true);
}

Test(attention_matches_reference, without_a_mask) {
    check("{\"model_type\": \"bert\", \"vocab_size\": 11, \"hidden_size\": 16,"
          "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"intermediate_size\": 8,"
          "\"max_position_embeddings\": 512, \"type_vocab_size\": 2}",
          1, (int64_t[]){5, 257}, 2);
}
