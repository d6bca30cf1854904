/* The nests of an operator at local extents, as the list of what to time has them. */
#ifndef CLEAVE_CLI_CALIBRATE_NESTS_H
#define CLEAVE_CLI_CALIBRATE_NESTS_H

#include "base/json.h"
#include "graph/model/part.h"

/* "nests": [...], a member of an open object; `part` is of the lead. */
void calibrate_put_nests(cleave_json_writer *w, const cleave_model *model, const cleave_nest *lead,
                         const cleave_part *part);

#endif
