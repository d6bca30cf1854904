/* What several subcommands read and derive from their options. */
#ifndef CLEAVE_CLI_INPUTS_H
#define CLEAVE_CLI_INPUTS_H

#include "base/json.h"
#include "costmodel/cost.h"
#include "graph/lower/lower.h"
#include "graph/model/layout.h"
#include "graph/model/model.h"

/* A model with its loss; batch and inputs as they are options, 0 and null where not given. */
cleave_status inputs_trained_model(const char *file, int64_t batch, const char *inputs,
                                   cleave_arena *arena, cleave_model *model, cleave_error *error);

/* State values per parameter: sgd 0, with momentum 1; adam 2.  BAD_INPUT for another name. */
cleave_status inputs_optimizer_states(const char *optimizer, double momentum, int *states,
                                      cleave_error *error);

/* What a training step of a layout is on a machine. */
typedef struct priced_program {
    cleave_program program;
    cleave_cost_cache *cache; /* destroy it */
    int32_t n_devices;        /* the program's, or those of all its windows */
    int64_t *peak_bytes;      /* [n_devices] arena and the runtime's constant */
    int64_t bytes_sent;
} priced_program;

typedef struct inputs_pricing {
    bool training;
    bool closed_form; /* collectives as one item each, else expanded; then they count in no bytes */
    bool folded;      /* the first window of a fold, with memory and bytes of all devices */
    int optimizer_states;
} inputs_pricing;

/* Lowers with the machine's workspaces and counts bytes.  NO_LAYOUT, saying why, where a layout
   that is to be folded does not fold. */
cleave_status inputs_price(const cleave_model *model, const cleave_machine *machine,
                           const cleave_layout *layout, const inputs_pricing *how,
                           cleave_arena *arena, priced_program *priced, cleave_error *error);

/* Prints a finished JSON text to stdout and frees the writer. */
cleave_status inputs_print_json(cleave_json_writer *writer, cleave_error *error);

/* "peak_bytes": [..] and "bytes_between": [[..] ..], members of an open object. */
void inputs_put_per_device(cleave_json_writer *writer, const char *key, const int64_t *bytes,
                           int32_t n_devices);
void inputs_put_bytes_between(cleave_json_writer *writer, const int64_t *bytes, int32_t n_devices);

/* "these figures rest on data sheets ..." where a kind of device was never calibrated, else "". */
const char *inputs_provenance_note(const cleave_machine *machine);

#endif
