/* A configuration of torchtitan, in TOML: what its releases to 0.2 read, and, as --section.key,
   what later ones take. */
#include "search/launch/launch.h"

#include <string.h>

/* Modules of each stage, which is how torchtitan is told of its layers. */
static void put_stages(launch_text *out, const cleave_launch *of) {
    static const char *const schedules[CLEAVE_N_SCHEDULES] = {[CLEAVE_SCHEDULE_1F1B] = "1F1B",
                                                              [CLEAVE_SCHEDULE_GPIPE] = "GPipe",
                                                              [CLEAVE_SCHEDULE_INTERLEAVED] =
                                                                  "Interleaved1F1B"};
    int32_t n = of->pipeline * of->virtual_stages, layer = 0;
    launch_say(out,
               "pipeline_parallel_schedule = \"%s\"\npipeline_parallel_microbatch_size = %lld\n",
               schedules[of->kind], (long long)of->micro_batch);
    launch_say(out, "module_fqns_per_model_part = [\n");
    for (int32_t s = 0; s < n; s++) {
        launch_say(out, s == 0 ? "    [\"tok_embeddings\"" : "    [");
        for (int32_t end = layer + of->layers[s]; layer < end; layer++)
            launch_say(out, "%s\"layers.%d\"", s == 0 || layer > end - of->layers[s] ? ", " : "",
                       layer);
        if (s + 1 == n)
            launch_say(out, "%s\"norm\", \"output\"", of->layers[s] > 0 ? ", " : "");
        launch_say(out, "],\n");
    }
    launch_say(out, "]\n");
}

static void put_parallelism(launch_text *out, const cleave_launch *of) {
    bool shards = of->sharded != CLEAVE_SHARDED_NOTHING;
    launch_say(out,
               "[parallelism]\ndata_parallel_replicate_degree = %d\n"
               "data_parallel_shard_degree = %d\n",
               shards ? 1 : of->data, shards ? of->data : 1);
    if (shards)
        launch_say(out, "fsdp_reshard_after_forward = \"%s\"\n",
                   of->sharded == CLEAVE_SHARDED_WEIGHT ? "always" : "never");
    launch_say(out, "tensor_parallel_degree = %d\ncontext_parallel_degree = 1\n", of->tensor);
    launch_say(out, "expert_parallel_degree = 1\npipeline_parallel_degree = %d\n", of->pipeline);
    if (of->pipeline > 1)
        put_stages(out, of);
}

/* In a pipeline the local batch is cut into micro-batches; else it is one, and gradients of several
   are added up. */
static void put_training(launch_text *out, const cleave_launch *of) {
    int64_t times = of->pipeline > 1 ? of->micro_batches : 1;
    launch_say(out, "[training]\nlocal_batch_size = %lld\nglobal_batch_size = %lld\n",
               (long long)(of->micro_batch * times), (long long)of->batch);
    if (of->sequence > 0)
        launch_say(out, "seq_len = %lld\n", (long long)of->sequence);
    launch_say(out, "mixed_precision_param = \"%s\"\nmixed_precision_reduce = \"float32\"\n\n",
               of->precision == CLEAVE_F32 ? "float32" : "bfloat16");
}

static void put_recompute(launch_text *out, cleave_recompute what) {
    launch_say(out, "\n[activation_checkpoint]\nmode = \"%s\"\n",
               what == CLEAVE_RECOMPUTE_FULL        ? "full"
               : what == CLEAVE_RECOMPUTE_ALTERNATE ? "selective"
                                                    : "none");
    if (what == CLEAVE_RECOMPUTE_ALTERNATE)
        launch_say(out, "selective_ac_option = \"op\"\n");
}

/* torchtitan calls sizes by names; these have the vocabulary and the rest of the published models.
 */
static const struct {
    const char *family, *model, *flavor;
    int64_t layers, width, heads, kv_heads, inner;
} flavors[] = {
    {"llama", "llama3", "8B", 32, 4096, 32, 8, 14336},
    {"llama", "llama3", "70B", 80, 8192, 64, 8, 28672},
    {"llama", "llama3", "405B", 126, 16384, 128, 8, 53248},
    {"qwen3", "qwen3", "0.6B", 28, 1024, 16, 8, 3072},
    {"qwen3", "qwen3", "1.7B", 28, 2048, 16, 8, 6144},
    {"qwen3", "qwen3", "4B", 36, 2560, 32, 8, 9728},
    {"qwen3", "qwen3", "8B", 36, 4096, 32, 8, 12288},
    {"qwen3", "qwen3", "14B", 40, 5120, 40, 8, 17408},
    {"qwen3", "qwen3", "32B", 64, 5120, 64, 8, 25600},
};

static const char *put_model(launch_text *out, const cleave_launch_sizes *sizes) {
    const cleave_config *c = &sizes->config;
    for (size_t i = 0; i < sizeof flavors / sizeof *flavors && sizes->family != NULL; i++)
        if (strcmp(flavors[i].family, sizes->family) == 0 && flavors[i].layers == c->layers &&
            flavors[i].width == c->width && flavors[i].heads == c->heads &&
            flavors[i].kv_heads == c->kv_heads && flavors[i].inner == c->inner) {
            launch_say(out, "[model]\nname = \"%s\"\nflavor = \"%s\"\n\n", flavors[i].model,
                       flavors[i].flavor);
            return NULL;
        }
    return "the model, since no flavor of torchtitan is known to have its sizes";
}

const char *launch_put_torchtitan(launch_text *out, const cleave_launch *launch,
                                  const cleave_launch_sizes *sizes) {
    const char *unsaid = put_model(out, sizes);
    put_training(out, launch);
    put_parallelism(out, launch);
    put_recompute(out, launch->recompute);
    return unsaid;
}
