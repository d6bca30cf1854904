/* What several subcommands read and derive from their options. */
#ifndef CLEAVE_CLI_INPUTS_H
#define CLEAVE_CLI_INPUTS_H

#include "base/json.h"
#include "costmodel/cost.h"
#include "graph/export/plan.h"
#include "graph/import/import.h"
#include "graph/lower/lower.h"
#include "graph/model/layout.h"
#include "graph/model/model.h"

/* Options that several subcommands have, by the rows of cli/command.h: 0 and null where they are
   not given, or where a subcommand has no such row. */
typedef struct common_options {
    const char *model, *machine, *inputs, *dimensions, *precision, *reduce_precision, *frozen,
        *attention, *framework, *optimizer;
    int64_t batch, sequence, devices, device_threads, seed;
    double capacity_factor, momentum, clip_norm;
    bool forward, json, quiet;
} common_options;

/* The model that they ask for: with its loss, or for one pass forward without. */
cleave_import_request inputs_request(const common_options *common);
/* Imports it: BAD_INPUT for a model without a loss that decodes with a cache. */
cleave_status inputs_model(const common_options *common, cleave_arena *arena, cleave_model *model,
                           cleave_error *error);
/* --framework: how the machine's devices run what no kernel was measured of. */
cleave_status inputs_framework(const char *framework, cleave_machine *machine, cleave_error *error);
/* Takes --attention: BAD_INPUT for another word than "fused" and "stored". */
cleave_status inputs_attention(const char *attention, cleave_model *model, cleave_error *error);
/* The framework that an option names; BAD_INPUT for another word. */
cleave_status inputs_target(const char *option, const char *name, cleave_target *target,
                            cleave_error *error);

/* State values per parameter: sgd 0, with momentum 1; adam and adamw 2.  BAD_INPUT for another
 * name. */
cleave_status inputs_optimizer_states(const common_options *common, int *states,
                                      cleave_error *error);

/* Prints a finished JSON text to stdout and frees the writer. */
cleave_status inputs_print_json(cleave_json_writer *writer, cleave_error *error);

/* "peak_bytes": [..] and "bytes_between": [[..] ..], members of an open object. */
void inputs_put_per_device(cleave_json_writer *writer, const char *key, const int64_t *bytes,
                           int32_t n_devices);
void inputs_put_bytes_between(cleave_json_writer *writer, const int64_t *bytes, int32_t n_devices);

/* BAD_INPUT where a kind of device was calibrated for another number of threads. */
cleave_status inputs_device_threads(const cleave_machine *machine, const char *path,
                                    int64_t device_threads, cleave_error *error);

/* Prints a line where experts have room for twice as many rows as an even choice fills, or more:
   what a plan keeps and sends is that room. */
void inputs_print_room(const cleave_model *model);

/* "these figures rest on data sheets ..." where a kind of device was never calibrated, else "". */
const char *inputs_provenance_note(const cleave_machine *machine);

#endif
