/* What a search is asked for: the options of `search` that `sweep` has for each of its points, too.
 */
#ifndef CLEAVE_CLI_SEARCH_OPTIONS_H
#define CLEAVE_CLI_SEARCH_OPTIONS_H

#include "cli/command.h"

/* The first member of the options struct of either. */
typedef struct search_request {
    const char *model, *machine, *method, *optimizer, *fix, *only, *inputs, *precision,
        *reduce_precision, *frozen, *attention, *framework, *target;
    const char *schedule, *recompute, *zero;
    int64_t batch, sequence, devices, proposals, seed, micro_batches, stages, virtual_stages,
        tensor, context, expert;
    double time, memory_limit, momentum, clip_norm, capacity_factor;
    bool forward, throughput, whole_tokens, ring;
} search_request;

#define ROW_METHOD                                                                                 \
    {                                                                                              \
        "--method", "NAME", OPTION_TEXT, offsetof(search_request, method),                         \
            .standard = "auto",                                                                    \
            .help = "auto, exact, mcmc, branch-and-bound, random, or a baseline: data-parallel, "  \
                    "single, one-weird-trick, layer-per-device, ..."                               \
    }
#define ROW_TIME                                                                                   \
    {                                                                                              \
        "--time", "SECONDS", OPTION_SECONDS, offsetof(search_request, time),                       \
            .help = "budget, with the report; without it and --proposals auto ends by itself"      \
    }
#define ROW_PROPOSALS                                                                              \
    {                                                                                              \
        "--proposals", "K", OPTION_INTEGER, offsetof(search_request, proposals),                   \
            .least = 1, .most = 0x1p62,                                                            \
            .help = "most proposals of mcmc; without --time the result depends on nothing else"    \
    }
#define ROW_MEMORY_LIMIT                                                                           \
    {                                                                                              \
        "--memory-limit", "SIZE", OPTION_BYTES, offsetof(search_request, memory_limit),            \
            .least = 1, .most = 0x1p62,                                                            \
            .help = "most memory per device, such as \"2 GiB\" (default the machine's)"            \
    }
#define ROW_FIX                                                                                    \
    {                                                                                              \
        "--fix", "LAYOUT.json", OPTION_TEXT, offsetof(search_request, fix),                        \
            .help = "a layout file of some operators: they keep the splits that it says"           \
    }
#define ROW_ONLY                                                                                   \
    {                                                                                              \
        "--only", "SORT,...", OPTION_TEXT, offsetof(search_request, only),                         \
            .help = "split no other sorts of axes: sample, operator (blocks of devices), "         \
                    "attribute, parameter, reduction"                                              \
    }
#define ROW_FOR                                                                                    \
    {                                                                                              \
        "--for", "torch|jax", OPTION_TEXT, offsetof(search_request, target),                       \
            .help =                                                                                \
                "only what this framework can say, as `export` has it: all devices, one mesh; "    \
                "stages and micro-batches (torch) where an option of them is given"                \
    }
#define ROW_MICRO_BATCHES                                                                          \
    {                                                                                              \
        "--micro-batches", "M", OPTION_INTEGER, offsetof(search_request, micro_batches),           \
            .least = 1, .most = 1 << 20,                                                           \
            .help = "parts of the batch, one after the other (default as it turns out best)"       \
    }
#define ROW_STAGES                                                                                 \
    {                                                                                              \
        "--stages", "P", OPTION_INTEGER, offsetof(search_request, stages),                         \
            .least = 1, .most = 4096, .help = "of a pipeline (default as it turns out best)"       \
    }
#define ROW_SCHEDULE                                                                               \
    {                                                                                              \
        "--schedule", "KIND", OPTION_TEXT, offsetof(search_request, schedule),                     \
            .help = "of a pipeline: 1f1b, gpipe, interleaved, zb-h1 or zb-interleaved"             \
    }
#define ROW_RECOMPUTE                                                                              \
    {                                                                                              \
        "--recompute", "WHAT", OPTION_TEXT, offsetof(search_request, recompute),                   \
            .help = "none, selective (attention), alternate (all but attention and every other "   \
                    "product) or full (all but what blocks begin with), instead of keeping it "    \
                    "for backward (default as it turns out best)"                                  \
    }
#define ROW_VIRTUAL                                                                                \
    {                                                                                              \
        "--virtual", "V", OPTION_INTEGER, offsetof(search_request, virtual_stages),                \
            .least = 1, .most = 4096,                                                              \
            .help = "stages of a group of devices, of an interleaved pipeline"                     \
    }
#define ROW_TENSOR                                                                                 \
    {                                                                                              \
        "--tensor", "T", OPTION_INTEGER, offsetof(search_request, tensor),                         \
            .least = 1, .most = 65536,                                                             \
            .help = "devices that share each product, of megatron in stages or micro-batches"      \
    }
#define ROW_CONTEXT                                                                                \
    {                                                                                              \
        "--context", "C", OPTION_INTEGER, offsetof(search_request, context),                       \
            .least = 1, .most = 65536,                                                             \
            .help = "devices that share each sequence, of megatron; for attention each brings "    \
                    "all tokens of some heads together"                                            \
    }
#define ROW_RING                                                                                   \
    {                                                                                              \
        "--ring", NULL, OPTION_FLAG, offsetof(search_request, ring),                               \
            .help = "of megatron with --context: in attention each keeps its tokens, and keys "    \
                    "and values go round"                                                          \
    }
#define ROW_EXPERT                                                                                 \
    {                                                                                              \
        "--expert", "E", OPTION_INTEGER, offsetof(search_request, expert),                         \
            .least = 1, .most = 65536,                                                             \
            .help = "devices that share the experts, of megatron, each having samples of its own"  \
    }
#define ROW_WHOLE_TOKENS                                                                           \
    {                                                                                              \
        "--no-sequence-parallel", NULL, OPTION_FLAG, offsetof(search_request, whole_tokens),       \
            .help = "of megatron: what lies outside of products is computed by all that share "    \
                    "them, not split by tokens"                                                    \
    }
#define ROW_ZERO                                                                                   \
    {                                                                                              \
        "--zero", "STAGE", OPTION_TEXT, offsetof(search_request, zero),                            \
            .help = "state of parameters that is sharded: 0 none, 1 the update, 2 and the "        \
                    "gradient, 3 and the weight (default as it turns out best)"                    \
    }

#define ROW_THROUGHPUT                                                                             \
    {                                                                                              \
        "--throughput", NULL, OPTION_FLAG, offsetof(search_request, throughput),                   \
            .help = "with --forward: most samples a second where batch follows batch, instead of " \
                    "least latency of one"                                                         \
    }

/* All but the model and the machine. */
#define SEARCH_ROWS                                                                                \
    ROWS_IMPORT(search_request), ROW_ATTENTION(search_request), ROW_FRAMEWORK(search_request),     \
        ROW_DEVICES(search_request), ROW_FORWARD(search_request), ROW_THROUGHPUT, ROW_METHOD,      \
        ROW_TIME, ROW_PROPOSALS, ROW_SEED(search_request), ROW_MEMORY_LIMIT, ROW_FIX, ROW_ONLY,    \
        ROW_FOR, ROW_MICRO_BATCHES, ROW_STAGES, ROW_SCHEDULE, ROW_RECOMPUTE, ROW_VIRTUAL,          \
        ROW_TENSOR, ROW_CONTEXT, ROW_RING, ROW_EXPERT, ROW_WHOLE_TOKENS, ROW_ZERO,                 \
        ROWS_OPTIMIZER(search_request)

#endif
