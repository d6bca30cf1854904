/* Devices as a grid, the way PyTorch and JAX see them: every dimension of the mesh cuts one axis of
   an operator, or repeats it.

   A layout knows no grid: an operator's devices are a list.  Its parts, numbered, are digits, one
   for each prime of its replicas and degrees; a split lies on a mesh where every digit moves along
   one dimension of it.  Dimensions that a split leaves out repeat the operator. */
#ifndef CLEAVE_GRAPH_EXPORT_MESH_H
#define CLEAVE_GRAPH_EXPORT_MESH_H

#include "graph/model/layout.h"

enum { CLEAVE_MAX_MESH = 16 }; /* primes of CLEAVE_MAX_DEVICES at most */

/* Device numbers are row-major: the first dimension is the outermost. */
typedef struct cleave_mesh {
    int n;
    int32_t size[CLEAVE_MAX_MESH]; /* 2 or more each */
} cleave_mesh;

enum { CLEAVE_MESH_REPEATS = -1 };
/* What each dimension of the mesh cuts: an axis of the operator, or CLEAVE_MESH_REPEATS.  Where
   several cut one axis, an earlier one cuts more coarsely. */
typedef struct cleave_mesh_cut {
    int8_t axis[CLEAVE_MAX_MESH];
} cleave_mesh_cut;

/* The finest mesh of so many devices: their primes, the smallest outermost. */
void cleave_mesh_of_primes(int32_t n_devices, cleave_mesh *mesh);

/* How a split lies on a mesh of primes; null and `*cut` on success, else why it does not, and every
   dimension repeats. `*narrow` where it stands on fewer devices than the mesh has. */
const char *cleave_mesh_find_cut(const cleave_mesh *mesh, const cleave_split *split,
                                 cleave_mesh_cut *cut, bool *narrow);

/* Joins neighbouring dimensions that all [n] cuts give to the same axis. */
void cleave_mesh_join(cleave_mesh *mesh, cleave_mesh_cut *cuts, int32_t n);

/* Degree of an axis (CLEAVE_MESH_REPEATS: replicas) under a cut. */
int32_t cleave_mesh_degree(const cleave_mesh *mesh, const cleave_mesh_cut *cut, int axis);

/* The split of a cut, on all devices; in the arena. */
cleave_status cleave_mesh_split(const cleave_mesh *mesh, const cleave_mesh_cut *cut,
                                cleave_arena *arena, cleave_split *split, cleave_error *error);

#endif
