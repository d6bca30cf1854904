/* The search on many devices (search/reach.c): BERT-base and GPT-2 on 128 and 1,024 A100s and
   on 4,096 H100s, transformers of the same layer 12 to 1,000 times on 1,024 H100s, and Llama-3-8B,
   2,048 tokens, in bf16 by Adam, on 64 and 16 A100s, and Llama-3-70B, 8,192 tokens, on 512 H100s,
   where their state has no room, and a GPT of 10^12 parameters, 2,048 tokens, on 3,072 H100s.
     usage: bench_scale [CASE]
   CASE is 0 to 13, in the order above.  Memory is of the whole process so far: for one case's own,
   run that case alone.  Of each: seconds of processor time of the one thread in all, of importing,
   of the machine and of the search, and the peak; seconds of the search on windows alone, what of
   them is pricing whole models, and the blocks of layers; milliseconds of the step found, of data
   parallel and of the lower bound, and the first over the last. */
#include "../support/deep_transformer.h"
#include "../support/shipped.h"
#include "arguments.h"
#include "base/process.h"
#include "graph/import/import.h"
#include "graph/model/attention.h"
#include "row.h"
#include "search/improve/window.h"
#include "search/search.h"

#include <string.h>

/* A config.json: a file of configs/models, or its text. */
typedef struct language_model {
    const char *name, *text; /* null: the file has that name */
    int64_t sequence;
} language_model;

typedef struct bench_case {
    const char *model; /* null: `layers` of a transformer, or a language model */
    int layers;
    const language_model *language; /* null: none */
    const char *machine;
    int32_t devices;
    int64_t batch;
    const char *wanted;
} bench_case;

static const language_model small_llama = {"llama_3_8b", NULL, 2048};

static const language_model large_llama = {
    "llama_3_70b", /* as its config.json has it */
    "{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", \"hidden_size\": 8192, "
    "\"intermediate_size\": 28672, \"num_attention_heads\": 64, \"num_key_value_heads\": 8, "
    "\"num_hidden_layers\": 80, \"vocab_size\": 128256, \"rms_norm_eps\": 1e-05, "
    "\"rope_theta\": 500000.0, \"max_position_embeddings\": 8192, \"hidden_act\": \"silu\", "
    "\"attention_bias\": false, \"tie_word_embeddings\": false}",
    8192};

static const language_model trillion = {
    "gpt_1t", /* of the sizes that Megatron-LM was shown with */
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"n_embd\": 25600, "
    "\"n_inner\": 102400, \"n_head\": 160, \"n_layer\": 128, \"vocab_size\": 51200, "
    "\"n_positions\": 2048, \"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.0, "
    "\"resid_pdrop\": 0.0, \"embd_pdrop\": 0.0, \"layer_norm_epsilon\": 1e-05}",
    2048};

static cleave_status import_language(const language_model *of, int64_t batch, cleave_arena *arena,
                                     cleave_model *model, cleave_error *error) {
    char path[4096];
    snprintf(path, sizeof path, "%s/configs/models/%s.json", CLEAVE_SOURCE_DIR, of->name);
    const cleave_import_request request = {.file = path,
                                           .data = of->text,
                                           .bytes = of->text != NULL ? strlen(of->text) : 0,
                                           .batch = batch,
                                           .sequence = of->sequence,
                                           .with_loss = true,
                                           .precision = "bf16"};
    cleave_status status = cleave_model_import_as(&request, arena, model, error);
    return status == CLEAVE_OK ? cleave_model_fuse_attention(model, NULL, arena, model, error)
                               : status;
}

static cleave_status import(const bench_case *of, cleave_arena *arena, cleave_model *model,
                            cleave_error *error) {
    if (of->model != NULL) {
        return shipped_model(of->model, of->batch, arena, model, error);
    }
    if (of->language != NULL)
        return import_language(of->language, of->batch, arena, model, error);
    const deep_transformer shape = {of->layers, 1024, 16, 128, 32000};
    return deep_transformer_import(&shape, of->batch, arena, model, error);
}

/* The search on windows alone, and what of it is pricing whole models. */
static cleave_status time_windows(const cleave_model *model, const cleave_machine *machine,
                                  const cleave_search_options *options, double *seconds,
                                  cleave_window_found *found, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_pricer pricer = {0};
    cleave_collective_rules rules;
    cleave_problem problem;
    const cleave_window_options how = {0};
    cleave_status status = cleave_pricer_create(model, machine, options->optimizer_states,
                                                options->memory_limit_bytes, &pricer, error);
    if (status == CLEAVE_OK)
        status = cleave_choose_collectives(machine, false, &arena, &rules, error);
    double start = bench_processor_seconds();
    if (status == CLEAVE_OK)
        status = cleave_problem_create(model, machine, NULL, &arena, &problem, error);
    if (status == CLEAVE_OK)
        status = cleave_window_search(&problem, &pricer, &rules, &how, &arena, found, error);
    *seconds = bench_processor_seconds() - start;
    cleave_pricer_destroy(&pricer);
    cleave_arena_free(&arena);
    return status;
}

static void print_result(const cleave_search_result *result) {
    const cleave_plan *dp = &result->baselines[0];
    double step = result->best.step_seconds, staged = result->staged_bound_seconds;
    double bound = staged > 0 ? staged : result->lower_bound_seconds;
    bench_row("  step; data parallel; bound", "", "%.3f ms; %.3f; %.2f (gap %.2f), %lld proposals",
              1e3 * step, dp->applies ? 1e3 * dp->step_seconds : 0, 1e3 * bound, step / bound,
              (long long)result->proposals);
    for (int32_t b = 0; b < result->n_baselines; b++)
        if (result->baselines[b].unpriced != NULL)
            printf("  %s: %s\n", result->baselines[b].method, result->baselines[b].unpriced);
}

static cleave_status run(const bench_case *of, cleave_error *error) {
    cleave_arena arena = {0};
    cleave_model model;
    cleave_machine machine;
    cleave_search_result result;
    cleave_window_found found = {0};
    char what[80], layers[40];
    double start = bench_processor_seconds(), windows = 0;
    bool is_language = of->language != NULL; /* of which no window fits */
    const cleave_search_options options = {
        .method = "auto", .optimizer_states = is_language ? 2 : 1, .quiet = true};
    cleave_status status = import(of, &arena, &model, error);
    double imported = bench_processor_seconds();
    if (status == CLEAVE_OK)
        status = shipped_machine(of->machine, of->devices, &arena, &machine, error);
    double begun = bench_processor_seconds();
    if (status == CLEAVE_OK)
        status = cleave_search(&model, &machine, &options, &arena, &result, error);
    double end = bench_processor_seconds(), peak = bench_peak_mebibytes();
    if (status == CLEAVE_OK && !is_language)
        status = time_windows(&model, &machine, &options, &windows, &found, error);
    if (status == CLEAVE_OK) {
        snprintf(layers, sizeof layers, "%d layers", of->layers);
        snprintf(what, sizeof what, "%s, batch %lld, %d %.4s",
                 of->model != NULL ? of->model
                 : is_language     ? of->language->name
                                   : layers,
                 (long long)of->batch, of->devices, of->machine);
        bench_row(what, of->wanted,
                  "%.2f s: import %.2f, machine %.2f, all of the search %.2f; peak %.0f MiB",
                  end - start, imported - start, begun - imported, end - begun, peak);
        if (!is_language)
            bench_row("  windows alone", "",
                      "%.2f s, of which whole models (by the clock) %.2f; %d blocks", windows,
                      found.pricing_seconds, found.n_blocks);
        print_result(&result);
    }
    cleave_arena_free(&arena);
    return status;
}

int main(int argc, char **argv) {
    static const bench_case cases[] = {
        {"bert_base", 0, NULL, "a100-128x8", 128, 4 * 128, "below 1 s"},
        {"gpt2_small", 0, NULL, "a100-128x8", 128, 4 * 128, "below 1 s"},
        {"bert_base", 0, NULL, "a100-128x8", 1024, 32 * 1024, "below 10 s"},
        {"gpt2_small", 0, NULL, "a100-128x8", 1024, 4 * 1024, "below 10 s"},
        {"bert_base", 0, NULL, "h100-512x8", 4096, 32 * 4096, "below 30 s, 2048 MiB"},
        {"gpt2_small", 0, NULL, "h100-512x8", 4096, 4 * 4096, "below 30 s, 2048 MiB"},
        {NULL, 12, NULL, "h100-512x8", 1024, 1024, ""},
        {NULL, 48, NULL, "h100-512x8", 1024, 1024, "as 12"},
        {NULL, 192, NULL, "h100-512x8", 1024, 1024, "as 12"},
        {NULL, 1000, NULL, "h100-512x8", 1024, 1024, "as 12"},
        {NULL, 0, &small_llama, "a100-128x8", 64, 256, "below 1 s, 2048 MiB, 1.03"},
        {NULL, 0, &small_llama, "a100-128x8", 16, 256, "1.07"},
        {NULL, 0, &large_llama, "h100-512x8", 512, 512, "below 3 s, 2048 MiB, 1.07"},
        {NULL, 0, &trillion, "h100-512x8", 3072, 1536, "below 10 s, 2048 MiB, 1.07"},
    };
    enum { N_CASES = sizeof cases / sizeof cases[0] };
    bench_arguments a = bench_begin(argc, argv);
    int64_t only = bench_take_integer(&a, "CASE", 0, N_CASES - 1, -1);
    bench_end(&a);
    cleave_process_keep_memory(); /* as a search does */
    for (int i = 0; i < N_CASES; i++) {
        cleave_error error = {""};
        if (only >= 0 && only != i)
            continue;
        if (run(&cases[i], &error) != CLEAVE_OK) {
            fprintf(stderr, "bench_scale: %s\n", error.message);
            return 1;
        }
    }
    return 0;
}
