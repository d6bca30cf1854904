/* A subcommand: its name, its help, its options and its function.  main.c has the table of all. */
#ifndef CLEAVE_CLI_COMMAND_H
#define CLEAVE_CLI_COMMAND_H

#include "base/arena.h"
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

/* Rows that several subcommands share; `type` is the options struct with members of these names. */
#define ROW_MODEL(type)                                                                            \
    {                                                                                              \
        "--model", "M.onnx", OPTION_TEXT, offsetof(type, model),                                   \
            .required = true,                                                                      \
            .help = "the model, with or without weights; or the config.json of a language model"   \
    }
#define ROW_BATCH(type)                                                                            \
    {                                                                                              \
        "--batch", "N", OPTION_INTEGER, offsetof(type, batch),                                     \
            .least = 1, .most = 1LL << 31,                                                         \
            .help = "global batch; needed where the model leaves it open"                          \
    }
#define ROW_SEQUENCE(type)                                                                         \
    {                                                                                              \
        "--sequence", "N", OPTION_INTEGER, offsetof(type, sequence),                               \
            .least = 1, .most = 1 << 20,                                                           \
            .help = "length of the texts of a language model by its config.json"                   \
    }
#define ROW_INPUTS(type)                                                                           \
    {                                                                                              \
        "--inputs", "NAME,...", OPTION_TEXT, offsetof(type, inputs),                               \
            .help = "inputs of the model that are data, the others of floats being parameters "    \
                    "(default as `cleave show` says)"                                              \
    }
#define ROW_ATTENTION(type)                                                                        \
    {                                                                                              \
        "--attention", "fused|stored", OPTION_TEXT, offsetof(type, attention),                     \
            .standard = "fused",                                                                   \
            .help = "whether attention keeps its scores for backward; a layout file that says "    \
                    "so always does"                                                               \
    }
#define ROW_FRAMEWORK(type)                                                                        \
    {                                                                                              \
        "--framework", "NAME", OPTION_TEXT, offsetof(type, framework),                             \
            .standard = "compiled",                                                                \
            .help = "whose kernels prices of data sheets are: compiled or eager (PyTorch), "       \
                    "torchtitan, llm-foundry, megatron, megatron-fused, megatron-deepspeed, "      \
                    "megatron-deepspeed-torch-norm, mist"                                          \
    }
#define ROW_PRECISION(type)                                                                        \
    {                                                                                              \
        "--precision", "f32|bf16|fp16|fp8", OPTION_TEXT, offsetof(type, precision),                \
            .help = "of activations and weights, kept, sent and multiplied; fp16 and fp8 have "    \
                    "prices, but no kernels (default f32)"                                         \
    }
#define ROW_REDUCE_PRECISION(type)                                                                 \
    {                                                                                              \
        "--reduce-precision", "f32|bf16|fp16|mixed", OPTION_TEXT,                                  \
            offsetof(type, reduce_precision),                                                      \
            .help = "of partial sums that are sent (default f32); mixed: short of activations"     \
    }
#define ROW_FROZEN(type)                                                                           \
    {                                                                                              \
        "--frozen", "PATTERN,...", OPTION_TEXT, offsetof(type, frozen),                            \
            .help = "parameters that are not trained, such as \"*.weight\" (default none)"         \
    }
#define ROW_CAPACITY(type)                                                                         \
    {                                                                                              \
        "--capacity-factor", "F", OPTION_NUMBER, offsetof(type, capacity_factor),                  \
            .least = 0, .most = 65536,                                                             \
            .help =                                                                                \
                "rows of each expert of a config.json, in those of an even choice; what finds "    \
                "none is dropped (default as the file says, or room for every token)"              \
    }
#define ROW_MACHINE(type)                                                                          \
    {                                                                                              \
        "--machine", "MACHINE.json", OPTION_TEXT, offsetof(type, machine),                         \
            .required = true, .help = "the machine file"                                           \
    }
#define ROW_DEVICES(type)                                                                          \
    {                                                                                              \
        "--devices", "D", OPTION_INTEGER, offsetof(type, devices),                                 \
            .least = 1, .most = 1 << 20,                                                           \
            .help = "take the machine's first D devices (default all)"                             \
    }
#define ROW_DEVICE_THREADS(type)                                                                   \
    {                                                                                              \
        "--device-threads", "N", OPTION_INTEGER, offsetof(type, device_threads),                   \
            .least = 1, .most = CLEAVE_MAX_DEVICE_THREADS,                                         \
            .help = "threads of each device, which share its kernels out among them (default 1)"   \
    }
#define ROW_SEED(type)                                                                             \
    {                                                                                              \
        "--seed", "S", OPTION_INTEGER, offsetof(type, seed),                                       \
            .standard = "0", .help = "of everything that is drawn by chance"                       \
    }
#define ROW_OPTIMIZER(type)                                                                        \
    {                                                                                              \
        "--optimizer", "sgd|adam|adamw", OPTION_TEXT, offsetof(type, optimizer),                   \
            .standard = "sgd", .help = "which optimizer updates the parameters"                    \
    }
#define ROW_MOMENTUM(type)                                                                         \
    {                                                                                              \
        "--momentum", "B", OPTION_NUMBER, offsetof(type, momentum),                                \
            .most = 1, .standard = "0",                                                            \
            .help = "of sgd; above 0 it keeps one state value per parameter"                       \
    }
#define ROW_CLIP(type)                                                                             \
    {                                                                                              \
        "--clip-norm", "X", OPTION_NUMBER, offsetof(type, clip_norm),                              \
            .least = 0, .most = 1e30,                                                              \
            .help = "scale the gradients so that the norm of all of them together is at most X: "  \
                    "updates then wait for it (default: not clipped)"                              \
    }
#define ROW_FORWARD(type)                                                                          \
    {                                                                                              \
        "--forward", NULL, OPTION_FLAG, offsetof(type, forward),                                   \
            .help = "a step is one pass forward: no loss, gradients and updates"                   \
    }
/* How a model is imported, and which optimizer trains it; see cli/inputs.h. */
#define ROWS_IMPORT(type)                                                                          \
    ROW_BATCH(type), ROW_SEQUENCE(type), ROW_INPUTS(type), ROW_PRECISION(type),                    \
        ROW_REDUCE_PRECISION(type), ROW_FROZEN(type), ROW_CAPACITY(type)
#define ROWS_OPTIMIZER(type) ROW_OPTIMIZER(type), ROW_MOMENTUM(type), ROW_CLIP(type)
#define ROW_JSON(type)                                                                             \
    {                                                                                              \
        "--json", NULL, OPTION_FLAG, offsetof(type, json),                                         \
            .help = "print one JSON object instead of text"                                        \
    }
#define ROW_QUIET(type)                                                                            \
    { "--quiet", NULL, OPTION_FLAG, offsetof(type, quiet), .help = "no progress on stderr" }

#endif
