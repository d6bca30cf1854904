/* Memory of ranks and of measurements. */
#ifndef CLEAVE_EXEC_WORLD_MEMORY_H
#define CLEAVE_EXEC_WORLD_MEMORY_H

#include <stddef.h>

/* At least `bytes`, aligned to 64 and, but for a few KiB, of large pages if the system has them:
   rows of matrices lie so far apart that small pages cost products up to half of their speed, and
   messages between ranks of one host, which are copied by the page, as much.  The last page may
   take up to 2 MiB more than was asked for.  To be freed; null: none. */
void *cleave_memory_allocate(size_t bytes);

#endif
