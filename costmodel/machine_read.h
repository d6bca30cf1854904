/* What the files of the reader of machines share. */
#ifndef CLEAVE_COSTMODEL_MACHINE_READ_H
#define CLEAVE_COSTMODEL_MACHINE_READ_H

#include "base/json.h"
#include "base/list.h"
#include "costmodel/machine.h"

typedef struct machine_reader {
    cleave_machine *machine;
    cleave_arena *arena;
    cleave_error *error;
    CLEAVE_LIST(const char *) inner; /* switches and cards of the node that is read */
} machine_reader;

cleave_status machine_read_short_of_memory(const machine_reader *r);
cleave_status machine_read_string(const machine_reader *r, const cleave_json_cursor *at,
                                  const char *key, const char **value);
/* A time from 0 to an hour; or another quantity, of 1 or more, or if it may be left out from 0 on.
 */
cleave_status machine_read_quantity(const machine_reader *r, const cleave_json_cursor *at,
                                    const char *key, cleave_unit unit, bool required,
                                    double *value);

/* The number of a kind by its name. */
cleave_status machine_read_kind(const machine_reader *r, const cleave_json_cursor *at,
                                int32_t *kind);

/* The kinds of devices (machine_read_kinds.c). */
cleave_status machine_read_kinds(const machine_reader *r, const cleave_json_cursor *root);

/* Bandwidth, latency and the processor's share; not what is joined.  The bandwidth may be left out
   where `derived`. */
cleave_status machine_read_figures(const machine_reader *r, const cleave_json_cursor *at,
                                   bool derived, cleave_link_class *links);
/* What collectives take, where the file knows (machine_read_collectives.c). */
cleave_status machine_read_collectives(const machine_reader *r, const cleave_json_cursor *root);

/* The network (machine_read_network.c). */
cleave_status machine_read_network(const machine_reader *r, const cleave_json_cursor *root);

#endif
