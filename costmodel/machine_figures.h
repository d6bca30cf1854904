/* Figures of a machine file by their names, so that they can be varied: "what if".

   A name is the way to a figure: "kinds.a100.memory_bandwidth", "node.count".  In a list its
   elements go by what they lead through or by their number, as in "node.links.nvswitch.bandwidth"
   or "network.0.latency"; where the name says neither it is of all elements that have such a
   figure: "network.bandwidth". */
#ifndef CLEAVE_COSTMODEL_MACHINE_FIGURES_H
#define CLEAVE_COSTMODEL_MACHINE_FIGURES_H

#include "base/json.h"

/* Does the file have a figure of that name, and is it a quantity with a unit or a plain number?
   BAD_INPUT where it has not, with the names of those that it has, and where it is of a kind of
   device that was calibrated: measured times would not follow it. */
cleave_status cleave_machine_figure_find(const cleave_json *machine, const char *name,
                                         bool *is_quantity, cleave_error *error);

/* Changes it in the document, wherever the name leads.  `text` is as in the file, "25 GB/s", or a
   plain number; whether it makes sense is for the reader of machines to say. */
cleave_status cleave_machine_figure_set(cleave_json *machine, const char *name, const char *text,
                                        cleave_error *error);

#endif
