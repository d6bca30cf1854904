/* A subcommand: its name, its help, its options and its function.  main.c has the table of all. */
#ifndef CLEAVE_CLI_COMMAND_H
#define CLEAVE_CLI_COMMAND_H

#include "base/arena.h"
#include "cli/inputs.h"
#include "cli/options.h"
#include "exec/kernels/team.h"

typedef struct command {
    const char *name, *summary;
    const char *details;  /* a sentence or two for --help */
    const char *examples; /* lines that work as typed from the root of the tree */
    option_table options;
    size_t value_bytes; /* size of the options struct */
    /* `arguments` are those of the whole process, ending with null.  What is made lives in the
       arena.  An empty error message stands for one that a child has printed already. */
    cleave_status (*run)(const void *values, char *const *arguments, cleave_arena *arena,
                         cleave_error *error);
} command;

extern const command command_calibrate, command_search, command_simulate, command_run, command_show,
    command_compare, command_explain, command_diff, command_validate, command_report, command_sweep,
    command_export;

#define COMMAND_OPTIONS(rows)                                                                      \
    { (rows), (int)(sizeof(rows) / sizeof(rows)[0]) }

/* Rows of `common_options`, with which the options struct of a subcommand begins. */
#define COMMON_ROW(kind, name, value, member, ...)                                                 \
    { name, value, kind, offsetof(common_options, member), __VA_ARGS__ }
#define ROW_MODEL                                                                                  \
    COMMON_ROW(OPTION_TEXT, "--model", "M.onnx", model, .required = true,                          \
               .help =                                                                             \
                   "the model, with or without weights; or the config.json of a language model")
#define ROW_BATCH                                                                                  \
    COMMON_ROW(OPTION_INTEGER, "--batch", "N", batch, .least = 1, .most = 1LL << 31,               \
               .help = "global batch; needed where the model leaves it open")
#define ROW_SEQUENCE                                                                               \
    COMMON_ROW(OPTION_INTEGER, "--sequence", "N", sequence, .least = 1, .most = 1 << 20,           \
               .help = "length of the texts of a language model by its config.json")
#define ROW_INPUTS                                                                                 \
    COMMON_ROW(OPTION_TEXT, "--inputs", "NAME,...", inputs,                                        \
               .help = "inputs of the model that are data, the others of floats being parameters " \
                       "(default as `cleave show` says)")
#define ROW_DIMENSIONS                                                                             \
    COMMON_ROW(OPTION_TEXT, "--dimensions", "NAME=N,...", dimensions,                              \
               .help = "how long other dimensions than the batch are that an ONNX file leaves "    \
                       "open, by name, or as INPUT:K=N")
#define ROW_ATTENTION                                                                              \
    COMMON_ROW(OPTION_TEXT, "--attention", "fused|stored", attention, .standard = "fused",         \
               .help = "whether attention keeps its scores for backward; a layout file that says " \
                       "so always does")
#define ROW_FRAMEWORK                                                                              \
    COMMON_ROW(OPTION_TEXT, "--framework", "NAME", framework, .standard = "compiled",              \
               .help = "whose kernels prices of data sheets are: compiled or eager (PyTorch), "    \
                       "torchtitan, llm-foundry, megatron, megatron-fused, megatron-deepspeed, "   \
                       "megatron-deepspeed-torch-norm, mist")
#define ROW_PRECISION                                                                              \
    COMMON_ROW(OPTION_TEXT, "--precision", "f32|bf16|fp16|fp8", precision,                         \
               .help = "of activations and weights, kept, sent and multiplied; fp16 and fp8 have " \
                       "prices, but no kernels (default f32)")
#define ROW_REDUCE_PRECISION                                                                       \
    COMMON_ROW(OPTION_TEXT, "--reduce-precision", "f32|bf16|fp16|mixed", reduce_precision,         \
               .help = "of partial sums that are sent (default f32); mixed: short of activations")
#define ROW_FROZEN                                                                                 \
    COMMON_ROW(OPTION_TEXT, "--frozen", "PATTERN,...", frozen,                                     \
               .help = "parameters that are not trained, such as \"*.weight\" (default none)")
#define ROW_CAPACITY                                                                               \
    COMMON_ROW(                                                                                    \
        OPTION_NUMBER, "--capacity-factor", "F", capacity_factor, .least = 0, .most = 65536,       \
        .help = "rows of each expert of a config.json, in those of an even choice; what finds "    \
                "none is dropped (default as the file says, or room for every token)")
#define ROW_MACHINE                                                                                \
    COMMON_ROW(OPTION_TEXT, "--machine", "MACHINE.json", machine, .required = true,                \
               .help = "the machine file")
#define ROW_DEVICES                                                                                \
    COMMON_ROW(OPTION_INTEGER, "--devices", "D", devices, .least = 1, .most = 1 << 20,             \
               .help = "take the machine's first D devices (default all)")
#define ROW_DEVICE_THREADS                                                                         \
    COMMON_ROW(OPTION_INTEGER, "--device-threads", "N", device_threads, .least = 1,                \
               .most = CLEAVE_MAX_DEVICE_THREADS,                                                  \
               .help =                                                                             \
                   "threads of each device, which share its kernels out among them (default 1)")
#define ROW_SEED                                                                                   \
    COMMON_ROW(OPTION_INTEGER, "--seed", "S", seed, .standard = "0",                               \
               .help = "of everything that is drawn by chance")
#define ROW_OPTIMIZER                                                                              \
    COMMON_ROW(OPTION_TEXT, "--optimizer", "sgd|adam|adamw", optimizer, .standard = "sgd",         \
               .help = "which optimizer updates the parameters")
#define ROW_MOMENTUM                                                                               \
    COMMON_ROW(OPTION_NUMBER, "--momentum", "B", momentum, .most = 1, .standard = "0",             \
               .help = "of sgd; above 0 it keeps one state value per parameter")
#define ROW_CLIP                                                                                   \
    COMMON_ROW(OPTION_NUMBER, "--clip-norm", "X", clip_norm, .least = 0, .most = 1e30,             \
               .help =                                                                             \
                   "scale the gradients so that the norm of all of them together is at most X: "   \
                   "updates then wait for it (default: not clipped)")
#define ROW_FORWARD                                                                                \
    COMMON_ROW(OPTION_FLAG, "--forward", NULL, forward,                                            \
               .help = "a step is one pass forward: no loss, gradients and updates")
/* How a model is imported, and which optimizer trains it; see cli/inputs.h. */
#define ROWS_IMPORT                                                                                \
    ROW_BATCH, ROW_SEQUENCE, ROW_DIMENSIONS, ROW_INPUTS, ROW_PRECISION, ROW_REDUCE_PRECISION,      \
        ROW_FROZEN, ROW_CAPACITY
#define ROWS_OPTIMIZER ROW_OPTIMIZER, ROW_MOMENTUM, ROW_CLIP
#define ROW_JSON                                                                                   \
    COMMON_ROW(OPTION_FLAG, "--json", NULL, json, .help = "print one JSON object instead of text")
#define ROW_QUIET COMMON_ROW(OPTION_FLAG, "--quiet", NULL, quiet, .help = "no progress on stderr")

#endif
