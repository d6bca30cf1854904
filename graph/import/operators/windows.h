/* Windows: what convolutions and pools have in common.

   A position of the output and a place in the window give an index of the input:
   stride x position + dilation x place - padding before. */
#ifndef CLEAVE_GRAPH_IMPORT_WINDOWS_H
#define CLEAVE_GRAPH_IMPORT_WINDOWS_H

#include "graph/import/internal.h"

enum { CLEAVE_MOST_SPATIAL = 3, CLEAVE_MOST_WINDOW = INT32_MAX };

typedef struct cleave_windows {
    int n; /* spatial dimensions */
    int64_t in[CLEAVE_MOST_SPATIAL], out[CLEAVE_MOST_SPATIAL];
    int64_t kernel[CLEAVE_MOST_SPATIAL], stride[CLEAVE_MOST_SPATIAL], dilation[CLEAVE_MOST_SPATIAL];
    /* Padding of the operator itself, and of a Pad of zeros before it. */
    int64_t before[CLEAVE_MOST_SPATIAL], after[CLEAVE_MOST_SPATIAL];
    int64_t zeros_before[CLEAVE_MOST_SPATIAL], zeros_after[CLEAVE_MOST_SPATIAL];
} cleave_windows;

/* Names of the axes of positions and of places: [dimensions - 1][dimension]. */
extern const char *const cleave_spatial_names[CLEAVE_MOST_SPATIAL][CLEAVE_MOST_SPATIAL];
extern const char *const cleave_window_names[CLEAVE_MOST_SPATIAL][CLEAVE_MOST_SPATIAL];

/* How many spatial dimensions input 0 has: 1 to 3. */
cleave_status cleave_windows_rank(cleave_importer *im, const cleave_tensor *input,
                                  cleave_windows *win);
/* Strides, padding and output extents; the kernel is known. */
cleave_status cleave_windows_read(cleave_importer *im, const cleave_tensor *input, bool ceil_mode,
                                  cleave_windows *win);
/* Looks through a Pad of zeros on the spatial dimensions. */
void cleave_windows_take_padding(const cleave_importer *im, cleave_windows *win, int32_t *tensor);
/* Maps spatial dimension d of an operand to the axes of positions and places. */
void cleave_windows_map(cleave_operand *operand, const cleave_windows *win, int d, int position,
                        int place);

#endif
