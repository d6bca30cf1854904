/* Where outputs of the model are at the end of a forward step: on the devices that write them.

   Whoever wants an output in one place fetches it afterwards, as parameters are fetched to be
   saved; a step moves nothing for that.  A part keeps the box that it writes.  Of replicas the
   first keeps it; parts that write shares of a sum cut its box among them; and so do the parts that
   write what an output is a view of, with the whole output. */
#ifndef CLEAVE_GRAPH_LOWER_OUTPUTS_H
#define CLEAVE_GRAPH_LOWER_OUTPUTS_H

#include "graph/lower/builder.h"

/* Parts that may keep some of an output. */
int32_t lower_output_n_parts(const lower_builder *builder, int32_t output);
/* What one of them keeps of it in the first micro-batch, but for the buffer; false: nothing. */
bool lower_output_piece(const lower_builder *builder, int32_t output, int32_t p,
                        cleave_output *piece);
/* Can what a micro-batch writes of each output be told?  BAD_INPUT, naming one, where not. */
cleave_status lower_outputs_check_cut(const cleave_model *model, const cleave_micro_batches *micro,
                                      cleave_error *error);
/* Do all windows of a fold keep outputs alike?  NO_LAYOUT, saying why not. */
cleave_status lower_outputs_check_fold(const cleave_model *model, const cleave_fold *fold,
                                       cleave_error *error);

#endif
