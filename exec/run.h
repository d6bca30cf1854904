/* Running a program for real: one MPI rank per device, each walks its part of the program. */
#ifndef CLEAVE_EXEC_RUN_H
#define CLEAVE_EXEC_RUN_H

#include "exec/data/sample_order.h"
#include "exec/kernels/optimizer.h"
#include "graph/model/layout.h"
#include "graph/model/model.h"
#include "graph/program/timeline.h"

typedef struct cleave_run_options {
    int64_t steps; /* 1 or more, from the beginning of the training; forward: passes */
    bool forward;  /* forward only; saves the model's outputs under their names */
    bool stream;   /* ranks begin the next step without waiting for each other: the time of a step
                      is that from the end of the one before to its own */
    cleave_optimizer optimizer;
    const char *no_decay; /* patterns of names (exec/training/decay.h); null: none */
    uint64_t seed;
    /* Safetensors of parameters and buffers under their names, or NAME.onnx with initializers;
       null: initial values. */
    const char *weights;
    /* Inputs and `targets` (exec/data/samples.h), safetensors or "NAME=FILE.npy,..."; null: made up
       from the seed. */
    const char *data;
    const char *images; /* a folder instead: see exec/data/image_folder.h; null: none */
    bool shuffle;       /* samples, anew in every epoch */
    const char *text;   /* bytes to predict instead of data: see exec/data/text.h; null: none */
    const char *save;   /* where parameters and buffers (forward: outputs) go; null: nowhere */
    const char *from;   /* a checkpoint, or a folder of them, to go on from; null: none */
    bool overrides;     /* what it says of the rate, its schedule, decay, clipping and constants */
    const char
        *checkpoint; /* the folder where they go (exec/training/checkpoint.h); null: nowhere */
    int64_t checkpoint_every;  /* steps; 0: only at the end and when it is interrupted */
    double checkpoint_seconds; /* and when so long went by since the last; 0: never */
    int64_t keep;              /* the newest so many; 0: all */
    /* Held-out samples of the kind that is trained on, every so many steps (0: after each epoch)
       and at the end, with the model as it is evaluated and its layout
       (exec/training/validation.h); null: none.
     */
    const char *validate;
    int64_t validate_every;
    const cleave_model *evaluated;
    const cleave_layout *evaluated_layout;
    bool held_out;   /* every sample once and in order: of a validation */
    const char *log; /* of steps, as exec/training/training_log.h has it; null: none */
    /* Null, or what a signal handler sets to something else than 0: then the run ends after the
       step at hand, with a checkpoint. */
    const volatile int *interrupted;
    double stall_timeout_seconds; /* a transfer that waits longer ends the run and is named; 0:
                                     never */
    bool reference_kernels;       /* naive kernels only: for tests */
    int32_t device_threads;       /* of every rank, for its kernels; 0 and 1: one */
    bool no_overlap; /* communication of the other lane waits until the main lane can't go on */
    bool timeline;   /* keep the timeline of a step of median time */
    bool quiet;      /* no progress */
} cleave_run_options;

/* What was made of held-out samples. */
typedef struct cleave_validated {
    int64_t n_samples;     /* 0: none were looked at */
    double loss, accuracy; /* accuracy in 0..1; on rank 0 */
} cleave_validated;

/* Rank 0's view of the run; the others get empty values. */
typedef struct cleave_run_result {
    int64_t first_step;            /* that were done before, by a checkpoint; */
    int64_t n_steps;               /* and now.  0: all were done */
    const char *resumed, *skipped; /* that checkpoint, and what was wrong with a newer one; or "" */
    double checkpoint_seconds;     /* that the last checkpoint took until it was on the disk, */
    int64_t checkpoint_bytes;      /* and its size; 0: none was written */
    double *loss;                  /* [n_steps] before each update; null in forward */
    int64_t *dropped;              /* [n_steps] choices of experts that found no room, of */
    int64_t n_choices;             /* so many; 0: none can be dropped */
    double *gradient_norm;         /* [n_steps] before clipping; null: gradients are not clipped */
    double *step_seconds;          /* [n_steps] of the slowest rank */
    double *processor_seconds;     /* [n_steps] that rank 0's threads had; 0 in a stream */
    double median_step_seconds;    /* the first step left out where there are more; */
    double median_processor_seconds; /* likewise: less than a step of one thread where others had
                                        the processor, or rank 0 waited for a disk */
    int64_t *bytes_between;          /* [source][destination] per step, as counted by the senders */
    int64_t bytes_sent;              /* per step, all */
    int64_t *peak_bytes;             /* [n_devices] arena of each rank */
    int64_t *rss_peak_bytes;         /* [n_devices] VmHWM of each rank */
    double kernel_seconds;    /* rank 0: sum of its compute and update items in the median step's
                                 place: last step */
    double last_step_seconds; /* rank 0 */
    bool loads_data; /* from outside, in every step; else they were made up before the first */
    cleave_sample_order order;  /* of the samples; n == 0: there are none */
    cleave_validated validated; /* last */
    /* With options->timeline: the step nearest to the median, from when the first rank started it,
       and the median duration of every item over some steps near to that one. */
    cleave_timeline measured;
    int64_t *typical_duration; /* [n_items] picoseconds */
    int32_t n_devices;
    struct cleave_program *program; /* that ran; lives in the arena */
} cleave_run_result;

/* Steps that an epoch of the data has; 0: they have no samples (cleave_samples_order). */
cleave_status cleave_run_steps_of_epoch(const cleave_model *model,
                                        const cleave_run_options *options, int64_t *steps,
                                        cleave_error *error);

/* Everything that can be checked without running: files, names, shapes.  BAD_INPUT.  For the
   parent, before it launches ranks. */
cleave_status cleave_run_check(const cleave_model *model, const cleave_layout *layout,
                               const cleave_run_options *options, cleave_error *error);
/* The same of the checkpoint that it goes on from, for one process: all of it is read. */
cleave_status cleave_run_check_from(const cleave_model *model, const cleave_run_options *options,
                                    cleave_error *error);

/* To be called on every rank of a world of exactly layout->n_devices ranks, between
   cleave_world_begin and cleave_world_end; BAD_INPUT otherwise. */
struct cleave_world;
cleave_status cleave_run(struct cleave_world *world, const cleave_model *model,
                         const cleave_layout *layout, const cleave_run_options *options,
                         cleave_arena *arena, cleave_run_result *result, cleave_error *error);

#endif
