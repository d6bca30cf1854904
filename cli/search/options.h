/* What a search is asked for: the options of `search` that `sweep` has for each of its points, too.
 */
#ifndef CLEAVE_CLI_SEARCH_OPTIONS_H
#define CLEAVE_CLI_SEARCH_OPTIONS_H

#include "cli/command.h"

/* The first member of the options struct of either. */
typedef struct search_request {
    common_options common;
    const char *method, *fix, *only, *target, *schedule, *recompute, *zero;
    int64_t proposals, micro_batches, stages, virtual_stages, tensor, context, expert;
    double time, memory_limit;
    bool throughput, whole_tokens, ring;
} search_request;

#define SEARCH_ROW(kind, name, value, member, ...)                                                 \
    { name, value, kind, offsetof(search_request, member), __VA_ARGS__ }

/* All but the model and the machine. */
#define SEARCH_ROWS                                                                                \
    ROWS_IMPORT, ROW_ATTENTION, ROW_FRAMEWORK, ROW_DEVICES, ROW_FORWARD,                           \
        SEARCH_ROW(                                                                                \
            OPTION_FLAG, "--throughput", NULL, throughput,                                         \
            .help = "with --forward: most samples a second where batch follows batch, instead of " \
                    "least latency of one"),                                                       \
        SEARCH_ROW(                                                                                \
            OPTION_TEXT, "--method", "NAME", method, .standard = "auto",                           \
            .help = "auto, exact, mcmc, branch-and-bound, random, or a baseline: data-parallel, "  \
                    "single, one-weird-trick, layer-per-device, ..."),                             \
        SEARCH_ROW(OPTION_SECONDS, "--time", "SECONDS", time,                                      \
                   .help =                                                                         \
                       "budget, with the report; without it and --proposals auto ends by itself"), \
        SEARCH_ROW(                                                                                \
            OPTION_INTEGER, "--proposals", "K", proposals, .least = 1, .most = 0x1p62,             \
            .help = "most proposals of mcmc; without --time the result depends on nothing else"),  \
        ROW_SEED,                                                                                  \
        SEARCH_ROW(OPTION_BYTES, "--memory-limit", "SIZE", memory_limit, .least = 1,               \
                   .most = 0x1p62,                                                                 \
                   .help = "most memory per device, such as \"2 GiB\" (default the machine's)"),   \
        SEARCH_ROW(OPTION_TEXT, "--fix", "LAYOUT.json", fix,                                       \
                   .help = "a layout file of some operators: they keep the splits that it says"),  \
        SEARCH_ROW(OPTION_TEXT, "--only", "SORT,...", only,                                        \
                   .help = "split no other sorts of axes: sample, operator (blocks of devices), "  \
                           "attribute, parameter, reduction"),                                     \
        SEARCH_ROW(                                                                                \
            OPTION_TEXT, "--for", "torch|jax", target,                                             \
            .help =                                                                                \
                "only what this framework can say, as `export` has it: all devices, one mesh; "    \
                "stages and micro-batches (torch) where an option of them is given"),              \
        SEARCH_ROW(                                                                                \
            OPTION_INTEGER, "--micro-batches", "M", micro_batches, .least = 1, .most = 1 << 20,    \
            .help = "parts of the batch, one after the other (default as it turns out best)"),     \
        SEARCH_ROW(OPTION_INTEGER, "--stages", "P", stages, .least = 1, .most = 4096,              \
                   .help = "of a pipeline (default as it turns out best)"),                        \
        SEARCH_ROW(OPTION_TEXT, "--schedule", "KIND", schedule,                                    \
                   .help = "of a pipeline: 1f1b, gpipe, interleaved, zb-h1 or zb-interleaved"),    \
        SEARCH_ROW(                                                                                \
            OPTION_TEXT, "--recompute", "WHAT", recompute,                                         \
            .help = "none, selective (attention), alternate (all but attention and every other "   \
                    "product) or full (all but what blocks begin with), instead of keeping it "    \
                    "for backward (default as it turns out best)"),                                \
        SEARCH_ROW(OPTION_INTEGER, "--virtual", "V", virtual_stages, .least = 1, .most = 4096,     \
                   .help = "stages of a group of devices, of an interleaved pipeline"),            \
        SEARCH_ROW(OPTION_INTEGER, "--tensor", "T", tensor, .least = 1, .most = 65536,             \
                   .help =                                                                         \
                       "devices that share each product, of megatron in stages or micro-batches"), \
        SEARCH_ROW(OPTION_INTEGER, "--context", "C", context, .least = 1, .most = 65536,           \
                   .help =                                                                         \
                       "devices that share each sequence, of megatron; for attention each brings " \
                       "all tokens of some heads together"),                                       \
        SEARCH_ROW(OPTION_FLAG, "--ring", NULL, ring,                                              \
                   .help =                                                                         \
                       "of megatron with --context: in attention each keeps its tokens, and keys " \
                       "and values go round"),                                                     \
        SEARCH_ROW(                                                                                \
            OPTION_INTEGER, "--expert", "E", expert, .least = 1, .most = 65536,                    \
            .help =                                                                                \
                "devices that share the experts, of megatron, each having samples of its own"),    \
        SEARCH_ROW(OPTION_FLAG, "--no-sequence-parallel", NULL, whole_tokens,                      \
                   .help =                                                                         \
                       "of megatron: what lies outside of products is computed by all that share " \
                       "them, not split by tokens"),                                               \
        SEARCH_ROW(OPTION_TEXT, "--zero", "STAGE", zero,                                           \
                   .help = "state of parameters that is sharded: 0 none, 1 the update, 2 and the " \
                           "gradient, 3 and the weight (default as it turns out best)"),           \
        ROWS_OPTIMIZER

#endif
