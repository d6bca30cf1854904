/* A layout in the words of a launcher: degrees that Megatron-LM or torchtitan is started with.

   A launcher can't say operators one by one.  It has a pipeline of equal groups of devices, in each
   of them products that neighbours share, and samples that the others share; micro-batches, and how
   much is recomputed and sharded, of all alike.  Of all such launches the nearest to a layout is
   the one under which most of the work stays where it is.  What a launch really does is a layout
   again (a baseline in stages), so what the layout loses by it has a price. */
#ifndef CLEAVE_SEARCH_LAUNCH_LAUNCH_H
#define CLEAVE_SEARCH_LAUNCH_LAUNCH_H

#include "graph/export/plan.h"
#include "graph/import/config/config_fields.h"
#include "search/pipeline/recompute.h"

typedef enum cleave_launcher {
    CLEAVE_LAUNCHER_MEGATRON,
    CLEAVE_LAUNCHER_TORCHTITAN,
    CLEAVE_N_LAUNCHERS
} cleave_launcher;
extern const char *const cleave_launcher_names[CLEAVE_N_LAUNCHERS]; /* "megatron", "torchtitan" */

typedef struct cleave_launch {
    cleave_launcher launcher;
    int32_t data, tensor, pipeline; /* degrees; their product is all devices */
    int32_t virtual_stages;         /* of a group of the pipeline */
    int32_t micro_batches;
    int64_t batch, micro_batch; /* samples; of one share of the data, at a time */
    int64_t sequence;           /* 0: not known */
    const int32_t *layers;      /* [pipeline x virtual_stages] of each stage; null: one stage */
    cleave_schedule_kind kind;
    cleave_recompute recompute;
    cleave_sharded sharded;
    cleave_type precision;
    double alike; /* share of the work that is done where the layout has it */
    cleave_layout layout;
    int32_t n_lost;
    const cleave_lost *lost;
} cleave_launch;

/* The nearest launch to a layout, in the arena.  `model` is as cleave_model_fuse_attention makes it
   for the layout.  BAD_INPUT where the launcher can't run the model at all. */
cleave_status cleave_launch_find(const cleave_model *model, const cleave_layout *layout,
                                 cleave_launcher launcher, cleave_arena *arena,
                                 cleave_launch *launch, cleave_error *error);

/* Where a model comes from a config.json. */
typedef struct cleave_launch_sizes {
    const char *family; /* its model_type; null: the model is no such file */
    cleave_config config;
} cleave_launch_sizes;

/* The file: arguments of Megatron-LM, one a line; a configuration of torchtitan.  `*unsaid` is what
   of the model's sizes it does not say, for people, or null. */
cleave_status cleave_launch_write(const char *path, const cleave_launch *launch,
                                  const cleave_launch_sizes *sizes, const char **unsaid,
                                  cleave_error *error);

/* ---- what files are made of ---- */

/* Lines, in the arena; null where memory was short. */
typedef struct launch_text {
    cleave_arena *arena;
    const char *text;
} launch_text;

void launch_say(launch_text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One for each launcher; they give `*unsaid`. */
const char *launch_put_megatron(launch_text *out, const cleave_launch *launch,
                                const cleave_launch_sizes *sizes);
const char *launch_put_torchtitan(launch_text *out, const cleave_launch *launch,
                                  const cleave_launch_sizes *sizes);

#endif
