/* Arguments of Megatron-LM, one a line, for a shell to split: torchrun ... $(cat FILE). */
#include "search/launch/launch.h"

#include <string.h>

/* ---- the launch ---- */

/* Stages by their layers, where they are not as many in all: "Ettt|tttL". */
static void put_stages(launch_text *out, const cleave_launch *of) {
    int32_t n = of->pipeline * of->virtual_stages;
    bool even = true;
    for (int32_t s = 0; s < n; s++)
        even = even && of->layers[s] == of->layers[0];
    if (even) {
        if (of->virtual_stages > 1)
            launch_say(out, "--num-virtual-stages-per-pipeline-rank %d\n", of->virtual_stages);
        return;
    }
    launch_say(out, "--pipeline-model-parallel-layout E");
    for (int32_t s = 0; s < n; s++) {
        for (int32_t layer = 0; layer < of->layers[s]; layer++)
            launch_say(out, "t");
        launch_say(out, s + 1 < n ? "|" : "L\n");
    }
}

static void put_sharded(launch_text *out, cleave_sharded sharded) {
    static const char *const strategies[CLEAVE_N_SHARDED] = {
        [CLEAVE_SHARDED_GRADIENT] = "optim_grads", [CLEAVE_SHARDED_WEIGHT] = "optim_grads_params"};
    if (sharded != CLEAVE_SHARDED_NOTHING)
        launch_say(out, "--use-distributed-optimizer\n");
    if (strategies[sharded] != NULL)
        launch_say(out,
                   "--use-megatron-fsdp\n--data-parallel-sharding-strategy %s\n"
                   "--ckpt-format fsdp_dtensor\n--no-gradient-accumulation-fusion\n",
                   strategies[sharded]);
}

static void put_launch(launch_text *out, const cleave_launch *of) {
    launch_say(out, "--tensor-model-parallel-size %d\n", of->tensor);
    if (of->tensor > 1)
        launch_say(out, "--sequence-parallel\n");
    launch_say(out, "--pipeline-model-parallel-size %d\n", of->pipeline);
    if (of->pipeline > 1)
        put_stages(out, of);
    launch_say(out,
               "--context-parallel-size 1\n--micro-batch-size %lld\n--global-batch-size %lld\n",
               (long long)of->micro_batch, (long long)of->batch);
    if (of->sequence > 0)
        launch_say(out, "--seq-length %lld\n", (long long)of->sequence);
    put_sharded(out, of->sharded);
    if (of->recompute == CLEAVE_RECOMPUTE_SELECTIVE)
        launch_say(out, "--recompute-granularity selective\n");
    if (of->recompute == CLEAVE_RECOMPUTE_FULL)
        launch_say(out, "--recompute-granularity full\n--recompute-method uniform\n"
                        "--recompute-num-layers 1\n");
    if (of->precision == CLEAVE_BF16 || of->precision == CLEAVE_F8)
        launch_say(out, "--bf16\n");
    if (of->precision == CLEAVE_F8)
        launch_say(out, "--fp8-format hybrid\n");
    if (of->precision == CLEAVE_F16)
        launch_say(out, "--fp16\n");
}

/* ---- the model ---- */

static const struct {
    const char *family, *arguments; /* besides the sizes */
    bool turns;
} families[] = {
    {"gpt2", "", false},
    {"llama", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n", true},
    {"mistral", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n", true},
    {"mixtral", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n", true},
    {"qwen2", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n--add-qkv-bias\n", true},
    {"qwen3", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n--qk-layernorm\n", true},
    {"qwen3_moe", "--normalization RMSNorm\n--swiglu\n--disable-bias-linear\n--qk-layernorm\n",
     true},
};
enum { N_FAMILIES = (int)(sizeof families / sizeof *families) };

static void put_attention(launch_text *out, const cleave_config *c) {
    launch_say(out, "--num-attention-heads %lld\n", (long long)c->heads);
    if (c->kv_heads != c->heads)
        launch_say(out, "--group-query-attention\n--num-query-groups %lld\n",
                   (long long)c->kv_heads);
    if (c->head * c->heads != c->width)
        launch_say(out, "--kv-channels %lld\n", (long long)c->head);
    launch_say(out, "--attention-dropout %.9g\n--hidden-dropout %.9g\n", c->attention_dropout,
               c->dropout);
}

static void put_positions(launch_text *out, const cleave_config *c, bool turns) {
    launch_say(out, "--max-position-embeddings %lld\n",
               (long long)(c->positions > c->sequence ? c->positions : c->sequence));
    if (!turns)
        return;
    launch_say(out, "--position-embedding-type rope\n--rotary-base %.0f\n", c->rotary[0].theta);
    if (c->rotary[0].kind == CLEAVE_ROTARY_LLAMA3)
        launch_say(out, "--use-rope-scaling\n--rope-scaling-factor %.9g\n", c->rotary[0].factor);
}

static void put_experts(launch_text *out, const cleave_config *c) {
    if (c->experts == 0)
        return;
    launch_say(out, "--num-experts %lld\n--moe-router-topk %lld\n--expert-model-parallel-size 1\n",
               (long long)c->experts, (long long)c->choices);
    if (c->expert_inner > 0)
        launch_say(out, "--moe-ffn-hidden-size %lld\n", (long long)c->expert_inner);
}

/* What of a model Megatron's arguments don't say, as far as they are known here. */
static const char *find_objection(const cleave_launch_sizes *sizes, int *family) {
    const cleave_config *c = &sizes->config;
    for (*family = 0; *family < N_FAMILIES && sizes->family != NULL; ++*family)
        if (strcmp(sizes->family, families[*family].family) == 0)
            break;
    if (sizes->family == NULL)
        return "the model's sizes, since it is no config.json";
    if (*family == N_FAMILIES)
        return "the model's sizes, since its family is not known in Megatron's words";
    if (families[*family].turns && strcmp(c->activation, "silu") != 0)
        return "the model's sizes, since its activation is not silu";
    if (c->rotary[0].kind != CLEAVE_ROTARY_DEFAULT && c->rotary[0].kind != CLEAVE_ROTARY_LLAMA3)
        return "the model's sizes, since its positions are stretched otherwise than Llama's";
    return NULL;
}

const char *launch_put_megatron(launch_text *out, const cleave_launch *launch,
                                const cleave_launch_sizes *sizes) {
    const cleave_config *c = &sizes->config;
    int family;
    const char *objection = find_objection(sizes, &family);
    put_launch(out, launch);
    if (objection != NULL)
        return objection;
    launch_say(out, "--num-layers %lld\n--hidden-size %lld\n--ffn-hidden-size %lld\n",
               (long long)c->layers, (long long)c->width, (long long)c->inner);
    launch_say(out, "--vocab-size %lld\n--norm-epsilon %.9g\n", (long long)c->vocabulary,
               c->epsilon);
    put_attention(out, c);
    put_positions(out, c, families[family].turns);
    put_experts(out, c);
    launch_say(out, "%s", families[family].arguments);
    /* GPT-2's are tied, whatever the file says. */
    if (families[family].turns && !c->tied)
        launch_say(out, "--untie-embeddings-and-output-weights\n");
    return NULL;
}
