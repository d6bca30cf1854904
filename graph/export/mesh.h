/* Devices as a grid, the way PyTorch and JAX see them: every dimension of the mesh cuts one axis of
   an operator, or repeats it.

   A layout knows no grid: an operator's devices are a list.  Its parts, numbered, are digits, one
   for each prime of its replicas and degrees; a split lies on a mesh where every digit moves along
   one dimension of it.  Along dimensions that a split leaves out one device alone has the operator:
   it is on a mesh within the mesh. */
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
/* What each dimension of the mesh cuts: an axis of the operator, or CLEAVE_MESH_REPEATS, or which
   of its devices alone have it (cleave_mesh_alone).  Where several cut one axis, an earlier one
   cuts more coarsely. */
typedef struct cleave_mesh_cut {
    int32_t axis[CLEAVE_MAX_MESH];
} cleave_mesh_cut;

/* For those with this coordinate alone, as what a dimension of the mesh does; and back. */
static inline int32_t cleave_mesh_alone(int32_t coordinate) { return -2 - coordinate; }
static inline bool cleave_mesh_is_alone(int32_t axis) { return axis <= -2; }
static inline int32_t cleave_mesh_coordinate(int32_t axis) { return -2 - axis; }

/* The finest mesh of so many devices: their primes, the smallest outermost. */
void cleave_mesh_of_primes(int32_t n_devices, cleave_mesh *mesh);

/* How a split lies on a mesh of primes; null and `*cut` on success, else why it does not, and every
   dimension repeats. */
const char *cleave_mesh_find_cut(const cleave_mesh *mesh, const cleave_split *split,
                                 cleave_mesh_cut *cut);

/* Repeats what is on some devices alone; true if anything is. */
bool cleave_mesh_widen(const cleave_mesh *mesh, cleave_mesh_cut *cut);

/* Joins neighbouring dimensions that each of [n] cuts gives to one axis, or leaves out. */
void cleave_mesh_join(cleave_mesh *mesh, cleave_mesh_cut *cuts, int32_t n);

/* Degree of an axis (CLEAVE_MESH_REPEATS: replicas) under a cut. */
int32_t cleave_mesh_degree(const cleave_mesh *mesh, const cleave_mesh_cut *cut, int axis);

/* The split of a cut; in the arena. */
cleave_status cleave_mesh_split(const cleave_mesh *mesh, const cleave_mesh_cut *cut,
                                cleave_arena *arena, cleave_split *split, cleave_error *error);

#endif
