/* Ports: what an operator writes, reads or gives a gradient of, tensor by tensor, under each of its
   values (splits).  Operators of repeated blocks have equal ports, and most values shard a tensor
   like some other value does, so ports are made once for all that are alike, and of each the
   shardings that differ. */
#ifndef CLEAVE_SEARCH_SOLVE_PORT_H
#define CLEAVE_SEARCH_SOLVE_PORT_H

#include "graph/model/layout.h"
#include "search/solve/sharding.h"

typedef struct cleave_port {
    int32_t n_values, n_distinct;
    cleave_sharding *distinct; /* [n_distinct] */
    int32_t *of_value;         /* [n_values] */
    uint64_t key;              /* equal keys: equal ports */
} cleave_port;

/* Of one operator and one base tensor; null where there is none. */
typedef struct cleave_port_set {
    int32_t tensor;
    const cleave_port *write; /* a nest of the operator writes it */
    const cleave_port *read;  /* nests read it, through views perhaps */
    const cleave_port *give;  /* what they give a gradient of; the same as `read` mostly */
} cleave_port_set;

typedef struct cleave_operator_ports {
    int32_t n;
    cleave_port_set *items; /* ascending by tensor */
    uint64_t key;           /* of operators with equal ports, and with equal values */
} cleave_operator_ports;

typedef struct cleave_port_maker cleave_port_maker;
cleave_status cleave_port_maker_create(const cleave_model *model, int32_t n_devices,
                                       cleave_port_maker **maker, cleave_error *error);
void cleave_port_maker_destroy(cleave_port_maker *maker);

/* `alike` numbers the operators that have equal axes, nests and values (candidates' list_of), of
   which `splits` are the [n_values] splits.  Ports live as long as the maker.  FAILED when memory
   is short. */
cleave_status cleave_ports_of(cleave_port_maker *maker, int32_t op, int32_t alike, int32_t n_values,
                              const cleave_split *splits, cleave_operator_ports *ports,
                              cleave_error *error);

#endif
