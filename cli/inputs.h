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

/* The model that options ask for; `values` has model, batch, sequence and inputs, 0 and null where
   they are not given. */
#define INPUTS_MODEL(values)                                                                       \
    (&(const cleave_import_request){.file = (values)->model,                                       \
                                    .batch = (values)->batch,                                      \
                                    .sequence = (values)->sequence,                                \
                                    .capacity_factor = (values)->capacity_factor,                  \
                                    .inputs = (values)->inputs,                                    \
                                    .precision = (values)->precision,                              \
                                    .reduce_precision = (values)->reduce_precision,                \
                                    .frozen = (values)->frozen,                                    \
                                    .clips = (values)->clip_norm > 0})
/* --framework: how the machine's devices run what no kernel was measured of. */
cleave_status inputs_framework(const char *framework, cleave_machine *machine, cleave_error *error);
/* Takes --attention: BAD_INPUT for another word than "fused" and "stored". */
cleave_status inputs_attention(const char *attention, cleave_model *model, cleave_error *error);
/* Imports it with its loss, or for one pass forward without: BAD_INPUT then for a model that
   decodes with a cache. */
cleave_status inputs_model(const cleave_import_request *request, bool forward, cleave_arena *arena,
                           cleave_model *model, cleave_error *error);
/* Imports it with its loss. */
cleave_status inputs_trained_model(const cleave_import_request *request, cleave_arena *arena,
                                   cleave_model *model, cleave_error *error);

/* The options of these precisions, for a command that is started, behind its first n arguments;
   returns how many there are then. */
int inputs_put_precision(const char *precision, const char *reduce_precision,
                         const char **arguments, int n);

/* The framework that an option names; BAD_INPUT for another word. */
cleave_status inputs_target(const char *option, const char *name, cleave_target *target,
                            cleave_error *error);

/* State values per parameter: sgd 0, with momentum 1; adam and adamw 2.  BAD_INPUT for another
 * name. */
cleave_status inputs_optimizer_states(const char *optimizer, double momentum, int *states,
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
