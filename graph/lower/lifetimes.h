/* When every buffer of a program is in use; those that never are go. */
#ifndef CLEAVE_GRAPH_LOWER_LIFETIMES_H
#define CLEAVE_GRAPH_LOWER_LIFETIMES_H

#include "graph/lower/assemble.h"

void lower_find_lifetimes(lower_assembly *assembly, cleave_program *program);

#endif
