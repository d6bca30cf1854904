/* Cleave: finds how to split a neural network over devices, says how long a training step takes and
   how much memory it needs, and runs the plan.

   This is all that a program outside of Cleave sees.  It goes in steps: load a model and a machine;
   get a layout, from a file, by name or by a search; simulate it, explain it, write it, run it.

       cleave_error error;
       cleave_model_settings how = CLEAVE_MODEL_SETTINGS_INIT;
       cleave_model *model;
       how.batch = 32;
       if (cleave_model_load("alexnet.onnx", &how, &model, &error) != CLEAVE_OK)
           return fputs(error.message, stderr), 1;

   For every function:

   Errors.  What can fail returns a cleave_status and writes its outputs only where that is
   CLEAVE_OK.  Otherwise `error`, which may be null, has one line that names file, place and values.
   Nothing is printed, but for progress where a settings struct asks for it and for what is said of
   cleave_layout_run; the process is not ended, but by the latter.

   Ownership.  Objects that a function gives through a pointer to a pointer are the caller's, to be
   freed by the function of the same prefix, which takes null, too.  What is reached through one
   lives as long as it does.  Strings and arrays that are passed in are not kept.  A layout,
   simulation or any other result may be used after its model and machine are freed.

   Settings begin with their own size, so that a program goes on working with a later library whose
   settings have more: always begin with the macro, such as CLEAVE_SEARCH_SETTINGS_INIT, and set
   what is to be otherwise.  Zero, or null, always means the usual.  A null pointer to settings is
   the same as the macro alone.  BAD_INPUT where a program asks by them for something that an older
   library does not know.

   Threads.  Models, machines and layouts don't change, except by cleave_layout_change, so any
   number of threads may use the same at once.  Only one search may go on in a process, since the
   solver of linear programs under it has state of its own.

   Determinism.  The same inputs give the same bytes, but for a search with a time limit, and for
   what is measured.

   Devices are numbered from 0 in the order of the machine file, operators in that of the model.
   Times are in seconds, memory and traffic in bytes. */
#ifndef CLEAVE_CLEAVE_H
#define CLEAVE_CLEAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CLEAVE_API __attribute__((visibility("default")))
#else
#define CLEAVE_API
#endif

/* ---- versions, errors, objects --------------------------------------------------------------- */

/* Of this header.  Before 1.0, minor versions may differ in anything. */
#define CLEAVE_VERSION_MAJOR 0
#define CLEAVE_VERSION_MINOR 1
#define CLEAVE_VERSION_PATCH 0

/* Of the library that is used, such as "0.1.0". */
CLEAVE_API const char *cleave_version(void);

/* The exit codes of the command, too. */
typedef enum cleave_status {
    CLEAVE_OK = 0,
    CLEAVE_FAILED = 1,    /* something went wrong at run time: memory, input and output, a peer */
    CLEAVE_BAD_INPUT = 2, /* a file, an option or a value that the user gave is wrong */
    CLEAVE_NO_LAYOUT = 3  /* no layout fits, or one that was asked for by name does not apply */
} cleave_status;

typedef struct cleave_error {
    char message[1024]; /* one sentence for a person, without a newline */
} cleave_error;

typedef struct cleave_model cleave_model;     /* what is computed: operators, their axes, tensors */
typedef struct cleave_machine cleave_machine; /* devices, links, and how quick they are */
typedef struct cleave_layout cleave_layout;   /* how each operator is split, and where it runs */

/* ---- models ---------------------------------------------------------------------------------- */

typedef struct cleave_model_settings {
    size_t size;
    int64_t batch;      /* global batch; 0: the model says it itself */
    bool forward;       /* a step is one pass forward to the model's outputs: it has no loss and
                           can't be trained */
    const char *inputs; /* names, with commas between, of all float inputs of fixed shape that are
                           data; the others are parameters.  null: those beside which the file has
                           no initializers are parameters */
    int64_t sequence;   /* length of texts, of a language model by its config.json; 0: not given */
    /* "f32", which null is, "bf16", or, for prices alone, "fp16" and "fp8": of activations and
       weights as they are kept, sent and multiplied, and of partial sums that are sent.  A layout
       that was made for another precision is refused, but where one is given here. */
    const char *precision, *reduce_precision;
    bool stores_scores;   /* attention keeps its scores for backward */
    bool clips_gradients; /* by the norm of all together: a step finds it before it updates */
    double
        capacity_factor; /* rows that each expert of a config.json has, in rows of an even choice;
                            what finds none is dropped.  0: as the file says, or for every token */
    const char *dimensions; /* "height=224,x:3=224": how long the dimensions are that an ONNX file
                               leaves open besides the batch, by their names there, or dimension K
                               of an input as INPUT:K.  null: it leaves none open */
} cleave_model_settings;
#define CLEAVE_MODEL_SETTINGS_INIT                                                                 \
    { sizeof(cleave_model_settings), 0, false, NULL, 0, NULL, NULL, false, false, 0, NULL }

/* Reads an ONNX file, with external data beside it, or the config.json of a language model.  A
   model whose first output is a scalar is trained on that, any other gets a mean cross-entropy on
   its first output.  BAD_INPUT with file, node, type and attribute for what can't be used.  Cost:
   seconds for thousands of nodes; weights stay in memory. */
CLEAVE_API cleave_status cleave_model_load(const char *path, const cleave_model_settings *settings,
                                           cleave_model **model, cleave_error *error);
CLEAVE_API void cleave_model_free(cleave_model *model);

/* Elements of what is trained. */
CLEAVE_API int64_t cleave_model_parameter_count(const cleave_model *model);

CLEAVE_API int32_t cleave_operator_count(const cleave_model *model);
/* Null where there is no such operator. */
CLEAVE_API const char *cleave_operator_name(const cleave_model *model, int32_t op);
/* The name ("n", "k", "h", ...) of an axis of an operator that may be split, counted from 0, and
   how many indices it has; `extent` may be null.  Null behind the last axis. */
CLEAVE_API const char *cleave_operator_axis(const cleave_model *model, int32_t op, int32_t axis,
                                            int64_t *extent);

/* ---- machines -------------------------------------------------------------------------------- */

/* Reads a machine file, or the text of one (`bytes` of it; `name` stands for the file in errors),
   and keeps its first `n_devices` devices, 0: all.  BAD_INPUT naming place and value.  The format
   is described in the documentation of machine files. */
CLEAVE_API cleave_status cleave_machine_load(const char *path, int32_t n_devices,
                                             cleave_machine **machine, cleave_error *error);
CLEAVE_API cleave_status cleave_machine_load_text(const char *text, size_t bytes, const char *name,
                                                  int32_t n_devices, cleave_machine **machine,
                                                  cleave_error *error);
CLEAVE_API void cleave_machine_free(cleave_machine *machine);

CLEAVE_API int32_t cleave_machine_device_count(const cleave_machine *machine);

/* ---- layouts --------------------------------------------------------------------------------- */

/* Reads a layout file, or the text of one.  BAD_INPUT where it is not a legal layout of this very
   model, naming operator, axis and values. */
CLEAVE_API cleave_status cleave_layout_load(const char *path, const cleave_model *model,
                                            cleave_layout **layout, cleave_error *error);
CLEAVE_API cleave_status cleave_layout_load_text(const char *text, size_t bytes, const char *name,
                                                 const cleave_model *model, cleave_layout **layout,
                                                 cleave_error *error);
CLEAVE_API void cleave_layout_free(cleave_layout *layout);

/* Writes a layout of the model; a reader sees the old file or the whole new one. */
CLEAVE_API cleave_status cleave_layout_write(const char *path, const cleave_model *model,
                                             const cleave_layout *layout, cleave_error *error);

/* Layouts that are known by name: "data-parallel", "single", "layer-per-device", ...; null behind
   the last. */
CLEAVE_API const char *cleave_baseline_name(int32_t i);

/* One of them, or "random", drawn from the seed.  BAD_INPUT for another name; NO_LAYOUT where it
   does not apply to the model on so many devices.  Whether it fits in memory is not looked at. */
CLEAVE_API cleave_status cleave_layout_baseline(const cleave_model *model,
                                                const cleave_machine *machine, const char *name,
                                                uint64_t seed, cleave_layout **layout,
                                                cleave_error *error);

/* Of the machine that it is for: its devices are 0 .. this - 1, used or not. */
CLEAVE_API int32_t cleave_layout_device_count(const cleave_layout *layout);
/* Into how many parts an axis of an operator is split; 1: not split; 0: no such operator. */
CLEAVE_API int32_t cleave_layout_degree(const cleave_layout *layout, int32_t op, int32_t axis);
/* The devices of an operator's parts, [n_parts]: replicas outermost, then its axes in order,
   row-major.  Null, and 0 parts, where there is no such operator. */
CLEAVE_API const int32_t *cleave_layout_parts(const cleave_layout *layout, int32_t op,
                                              int32_t *n_parts);

/* Into how many micro-batches the batch is cut, one after the other; 1: it is not. */
CLEAVE_API int32_t cleave_layout_micro_batch_count(const cleave_layout *layout);
/* The stages of a pipeline, and in which of them, from 0, an operator is; -1: no such operator. */
CLEAVE_API int32_t cleave_layout_stage_count(const cleave_layout *layout);
CLEAVE_API int32_t cleave_layout_stage(const cleave_layout *layout, int32_t op);
/* In which order stages take micro-batches: "1f1b", "gpipe", "interleaved", "zb-h1",
   "zb-interleaved" or "orders". */
CLEAVE_API const char *cleave_layout_schedule(const cleave_layout *layout);
/* Does an operator's forward come again before its backward, instead of being kept? */
CLEAVE_API bool cleave_layout_is_recomputed(const cleave_layout *layout, int32_t op);

/* Splits one operator otherwise: `degree` [n_axes] parts of each axis (0 counts as 1), so many
   replicas, and as many distinct devices as there are parts.  BAD_INPUT where that is not legal;
   the layout is then as it was.  The memory of what it replaces is freed with the layout. */
CLEAVE_API cleave_status cleave_layout_change(cleave_layout *layout, const cleave_model *model,
                                              int32_t op, int32_t replicas, const int32_t *degree,
                                              const int32_t *devices, cleave_error *error);

/* ---- search ---------------------------------------------------------------------------------- */

typedef struct cleave_search_settings {
    size_t size;
    const char *method;         /* null: "auto"; else "exact", "mcmc", "branch-and-bound", "random"
                                   or a baseline */
    double time_seconds;        /* budget of the whole search; 0: it ends by itself */
    int64_t proposals;          /* most proposals of "mcmc"; 0: no limit */
    uint64_t seed;              /* of what is drawn by chance */
    int32_t threads;            /* 0: one for each core; without a time limit they change nothing
                                   but the time that it takes */
    int64_t memory_limit_bytes; /* per device; 0: the machine's */
    const char *optimizer;      /* "sgd", which null is, "adam", "adamw": its state takes memory */
    double momentum;            /* of sgd */
    const char *fix;            /* a layout file of some operators, which keep their splits; null */
    const char *only;           /* names of sorts of axes, with commas between, that alone may be
                                   split; null: all */
    const char *resume;         /* of "auto": a file: goes on from the state there, if there is one,
                                   and leaves its own; BAD_INPUT where a search leaves none (more
                                   than 64 devices, stages alone); null: none */
    bool progress;              /* draw progress on stderr */
    /* Null, or what another thread or a signal handler sets to something else than 0 (a volatile
       sig_atomic_t, which is an int with glibc): then the search ends soon, with the best so far.
     */
    const volatile int *interrupted;
    bool leave_malloc; /* as it is: see cleave_layout_search */
    /* What a layout is to have; 0, and null, leave it open. */
    int32_t micro_batches, stages; /* stages of a group of devices count as several */
    int32_t virtual_stages;        /* of a group, of an interleaved pipeline */
    int32_t tensor; /* devices that share each product, of megatron in stages or micro-batches */
    const char *schedule;  /* "1f1b", "gpipe", "interleaved", "zb-h1", "zb-interleaved" */
    const char *recompute; /* "none", "selective", "full" */
    const char *zero;      /* "0" to "3": shard nothing, updates, gradients, weights */
    /* Of a model that was loaded for one pass forward: what a batch takes where others follow it is
       to be least, not the time of one; all times of steps are that then. */
    bool throughput;
} cleave_search_settings;
#define CLEAVE_SEARCH_SETTINGS_INIT                                                                \
    {                                                                                              \
        sizeof(cleave_search_settings), NULL, 0, 0, 0, 0, 0, NULL, 0, NULL, NULL, NULL, false,     \
            NULL, false, 0, 0, 0, 0, NULL, NULL, NULL, false                                       \
    }

/* A layout known by name, simulated. */
typedef struct cleave_baseline {
    const char *name;
    bool applies; /* to the model, the machine and the settings, and fits; else the rest is 0 */
    double step_seconds;
    int64_t peak_bytes;
} cleave_baseline;

typedef struct cleave_search_outcome {
    const cleave_layout *layout; /* the best */
    const char *method;          /* by which it was found; may be the name of a baseline */
    double step_seconds;
    double lower_bound_seconds; /* no layout takes less */
    int64_t peak_bytes;         /* of the fullest device, with what a rank takes itself */
    int64_t bytes_sent;         /* a step, by all devices */
    double search_seconds;
    int64_t proposals;     /* layouts that were priced on the way */
    bool is_local_optimum; /* no single change of the layout is known to be better */
    int32_t n_baselines;
    const cleave_baseline *baselines; /* [n_baselines] */
} cleave_search_outcome;

/* Finds the best layout: prices the baselines, searches, and simulates the best in full; what
   "auto", "exact" and "mcmc" give is never slower than a baseline.  NO_LAYOUT where nothing fits,
   with the least memory that is needed.  Cost: a second to minutes, by model and devices, and some
   hundred MiB.

   Programs of hundreds of megabytes come and go on the way.  So that their memory need not be taken
   from the system and cleared each time, malloc of glibc keeps what is freed while a search goes on
   (mallopt of M_MMAP_MAX, M_TRIM_THRESHOLD and M_ARENA_MAX); afterwards these three are glibc's own
   again, and what is free is given back.  `leave_malloc` is for processes that have set them
   themselves. */
CLEAVE_API cleave_status cleave_layout_search(const cleave_model *model,
                                              const cleave_machine *machine,
                                              const cleave_search_settings *settings,
                                              cleave_search_outcome **outcome, cleave_error *error);
CLEAVE_API void cleave_search_outcome_free(cleave_search_outcome *outcome);

/* ---- simulation ------------------------------------------------------------------------------ */

typedef struct cleave_simulation_settings {
    size_t size;
    const char *optimizer; /* "sgd", which null is, "adam" or "adamw" */
    double momentum;       /* of sgd */
    bool closed_form;      /* collectives as one item each, as searches on many devices price them:
                              quicker, and they count in no bytes */
    bool timeline;         /* give the timeline, too */
    const char *trace;     /* a file: the timeline as a Chrome trace, for ui.perfetto.dev; null */
} cleave_simulation_settings;
#define CLEAVE_SIMULATION_SETTINGS_INIT                                                            \
    { sizeof(cleave_simulation_settings), NULL, 0, false, false, NULL }

/* One thing that a device does.  A device does two such rows of things side by side: 0, computing
   and the movement of activations; 1, the movement of gradients of parameters. */
typedef struct cleave_timed_item {
    int32_t device, lane;
    double start_seconds, end_seconds; /* since the start of the step */
    const char *label;                 /* such as "conv1 forward" or "wait conv1.weight 0 -> 1" */
} cleave_timed_item;

typedef struct cleave_simulation {
    double step_seconds;
    double spread_seconds; /* typical error of it that follows from the prices; -1: not known */
    double measured, predicted, data_sheet; /* shares of the step by what prices rest on; add up
                                               to 1 */
    int64_t bytes_sent;                     /* a step, by all devices */
    int32_t n_devices;
    const int64_t *peak_bytes;      /* [n_devices] with what a rank takes itself */
    int32_t n_items;                /* 0 where no timeline was asked for */
    const cleave_timed_item *items; /* [n_items] each device's in the order that it does them */
} cleave_simulation;

/* Simulates one training step (of a model without a loss: one pass forward) of a layout, on a
   machine that was loaded with as many devices as the layout is for.  Cost: that of thousands of
   items for each device; in closed form, without a timeline, some devices stand for all that do the
   same. */
CLEAVE_API cleave_status cleave_layout_simulate(const cleave_model *model,
                                                const cleave_machine *machine,
                                                const cleave_layout *layout,
                                                const cleave_simulation_settings *settings,
                                                cleave_simulation **simulation,
                                                cleave_error *error);
CLEAVE_API void cleave_simulation_free(cleave_simulation *simulation);

/* ---- explanation ----------------------------------------------------------------------------- */

typedef struct cleave_explanation_settings {
    size_t size;
    const char *optimizer;      /* "sgd", which null is, "adam" or "adamw" */
    double momentum;            /* of sgd */
    int64_t memory_limit_bytes; /* per device; 0: the machine's */
    int64_t splits; /* try about so many other splits of each operator; 0: 64, -1: all */
    bool progress;  /* draw progress on stderr */
} cleave_explanation_settings;
#define CLEAVE_EXPLANATION_SETTINGS_INIT                                                           \
    { sizeof(cleave_explanation_settings), NULL, 0, 0, 0, false }

/* Time on the critical path, which adds up to the step. */
typedef struct cleave_critical_time {
    double compute_seconds;  /* forward, gradients, updates */
    double exchange_seconds; /* of activations and their gradients */
    double sync_seconds;     /* of parameters and their gradients */
    double waiting_seconds;  /* for latency, and for links that carry something else */
} cleave_critical_time;

typedef struct cleave_explained_operator {
    int32_t op;
    cleave_critical_time critical;
    int64_t memory_bytes; /* of parameters, state and activations, where that is most */
    const char *bound_by; /* "compute", "memory", "link A -> B", "copies", "waiting", "nothing" */
    /* The best other split of this operator alone that fits, as cleave_layout_change takes it, and
       what the step becomes, by an estimate; a time of 0 where there is none. */
    double other_step_seconds;
    int32_t other_replicas, other_n_parts;
    const int32_t *other_degree;  /* [n_axes] */
    const int32_t *other_devices; /* [other_n_parts] */
} cleave_explained_operator;

typedef struct cleave_explanation {
    double step_seconds;
    cleave_critical_time critical;
    int32_t busiest_device, fullest_device;
    double busiest_device_seconds;
    const char *busiest_link; /* "A -> B", or "none" */
    double busiest_link_seconds;
    int64_t peak_bytes; /* of the fullest device */
    int32_t n_operators;
    const cleave_explained_operator *operators; /* [n_operators] the largest share first */
} cleave_explanation;

/* Says where the step of a layout goes and what other splits would make of it, each operator's
   alone.  Cost: a simulation, and thousands of tries of a millisecond or less. */
CLEAVE_API cleave_status cleave_layout_explain(const cleave_model *model,
                                               const cleave_machine *machine,
                                               const cleave_layout *layout,
                                               const cleave_explanation_settings *settings,
                                               cleave_explanation **explanation,
                                               cleave_error *error);
CLEAVE_API void cleave_explanation_free(cleave_explanation *explanation);

/* ---- running --------------------------------------------------------------------------------- */

/* A layout is run by as many processes, ranks of one MPI world, as it has devices.  A program that
   runs layouts is started by an MPI launcher or a batch system, or starts itself:

       if (!cleave_world_is_launched())
           return cleave_world_launch_self(cleave_layout_device_count(layout), argv, &error);
       status = cleave_layout_run(model, layout, NULL, &outcome, &error);
*/

/* Was this process started as a rank? */
CLEAVE_API bool cleave_world_is_launched(void);

/* Starts this very program with these arguments (argv, ending with null) as `n_ranks` ranks on this
   machine, by the MPI launcher that was there when Cleave was built, and waits.  Their stdout is
   passed on, and of their stderr the lines that begin with "cleave" or the program's name.  Where a
   rank has failed after such a line, the status is its exit code and the message is empty. */
CLEAVE_API cleave_status cleave_world_launch_self(int32_t n_ranks, char *const *arguments,
                                                  cleave_error *error);

typedef struct cleave_run_settings {
    size_t size;
    int64_t steps;         /* 0: 10, of training */
    bool forward;          /* forward only; steps are passes, 0: 1 */
    const char *optimizer; /* "sgd", which null is, "adam" or "adamw", as PyTorch defines them */
    double learning_rate;  /* 0: 0.01 of sgd, 0.001 of the others */
    double momentum;       /* of sgd */
    double weight_decay;   /* 0: 0.01 of adamw, none of the others; below 0: none */
    uint64_t seed;         /* of what is drawn by chance: parameters, data, dropout */
    const char *weights;   /* safetensors, their index (.json), or an ONNX file; null: drawn */
    const char *data;      /* safetensors of inputs and targets; null: made up */
    const char *text;      /* instead: a file whose bytes are predicted */
    const char *save;      /* safetensors: the parameters, or with `forward` the outputs; null */
    double stall_timeout_seconds; /* a transfer that takes longer ends the run; 0: 60, below 0:
                                     never */
    const char *trace;            /* a file: the measured timeline as a Chrome trace; null */
    bool progress;                /* draw progress on stderr */
    const char *from;       /* a checkpoint, or a folder of which the newest that is whole is taken:
                               goes on from there, under any layout; `steps` counts from the
                               beginning.  null: none */
    const char *checkpoint; /* a folder: leaves checkpoints there, one at the end; null: none */
    int64_t checkpoint_every;  /* and one after every so many steps; 0: none */
    double checkpoint_seconds; /* and one when the last is so old; 0: none */
    int64_t keep;              /* the newest so many; 0: 3, below 0: all */
    /* Null, or what a signal handler of each rank sets to something else than 0 (a volatile
       sig_atomic_t): the run then fails after the step at hand, with a checkpoint. */
    const volatile int *interrupted;
    bool throughput; /* of passes forward: they follow each other without waiting for the slowest
                        rank, and the time of a step is that between the ends of two */
    const char *rate_schedule; /* how the learning rate goes: "constant", which null is, "linear" or
                                  "cosine" */
    int64_t warmup;            /* over so many steps it rises to `learning_rate`; then it falls, */
    int64_t schedule_steps;    /* in so many from the beginning (0: steps), */
    double final_rate;         /* to this */
    double clip_norm; /* the most that the norm of all gradients may be, of a model that was loaded
                         with `clips_gradients`; 0: they are not clipped */
} cleave_run_settings;
#define CLEAVE_RUN_SETTINGS_INIT                                                                   \
    {                                                                                              \
        sizeof(cleave_run_settings), 0, false, NULL, 0, 0, 0, 0, NULL, NULL, NULL, NULL, 0, NULL,  \
            false, NULL, NULL, 0, 0, 0, NULL, false, NULL, 0, 0, 0, 0                              \
    }

/* Of rank 0; the others know their rank and nothing else. */
typedef struct cleave_run_outcome {
    int32_t rank;
    int64_t n_steps;            /* that were run now: without those of a checkpoint */
    const double *loss;         /* [n_steps] before each update; null in forward */
    const double *step_seconds; /* [n_steps] of the slowest rank */
    double median_step_seconds; /* without the first step, where there are more */
    int64_t bytes_sent;         /* a step, by all ranks */
    int32_t n_devices;
    const int64_t *peak_bytes;     /* [n_devices] arena of each rank */
    const int64_t *resident_bytes; /* [n_devices] resident memory of each rank, at its most */
} cleave_run_outcome;

/* Trains, or runs forward, for real.  To be called by every rank with the same arguments, once in a
   process: it begins and ends MPI.  What is wrong with the arguments is returned by every rank
   before that.  A rank that fails later ends all of them, since they wait for it: it writes its
   message on stderr, behind "cleave run: ", and its process ends with the status as exit code. */
CLEAVE_API cleave_status cleave_layout_run(const cleave_model *model, const cleave_layout *layout,
                                           const cleave_run_settings *settings,
                                           cleave_run_outcome **outcome, cleave_error *error);
CLEAVE_API void cleave_run_outcome_free(cleave_run_outcome *outcome);

#ifdef __cplusplus
}
#endif

#endif
