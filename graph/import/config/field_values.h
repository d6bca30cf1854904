/* Values of fields, as they are in a configuration. */
#ifndef CLEAVE_GRAPH_IMPORT_FIELD_VALUES_H
#define CLEAVE_GRAPH_IMPORT_FIELD_VALUES_H

#include "graph/import/config/config_fields.h"

/* Reads what stands at `at` into the field's member, or checks it where the field has none.
   BAD_INPUT where it is nothing that such a field may be. */
cleave_status cleave_field_read(const cleave_json_cursor *at, const cleave_field *field,
                                cleave_arena *arena, void *member, cleave_error *error);

/* What a member is where its field is left out. */
void cleave_field_set_standard(const cleave_field *field, void *member);

/* Has a field a member of the configuration? */
bool cleave_field_has_member(const cleave_field *field);

#endif
