/* The last step of lowering: lifetimes of buffers, and the lists become the program's arrays. */
#ifndef CLEAVE_GRAPH_LOWER_FINISH_H
#define CLEAVE_GRAPH_LOWER_FINISH_H

#include "graph/lower_builder.h"
#include "graph/memory_plan.h"

void lower_finish(lower_builder *builder, cleave_program *program);

#endif
