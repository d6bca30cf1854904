/* Fragments: a program in pieces, each of which follows from the splits of a few operators.

   A program is put together from the fragments of its tensor families (graph/lower/slots.h) and
   the computes of its nests.  cleave_lower does that; who tries one layout after the other lowers
   what a change of a split concerns, and no more. */
#ifndef CLEAVE_GRAPH_LOWER_FRAGMENT_H
#define CLEAVE_GRAPH_LOWER_FRAGMENT_H

#include "graph/lower/lower.h"

/* The items of one event.  A slot runs its chunks by rank, those of one rank by family; the
   computes of its nest stand at CLEAVE_RANK_COMPUTE. */
typedef struct cleave_fragment_chunk {
    int32_t slot, rank;
    int32_t first_item, n_items;
    int32_t first_mark, n_marks;
} cleave_fragment_chunk;

enum { CLEAVE_RANK_COMPUTE = CLEAVE_MAX_INPUTS + 2 };

/* A place in a lane that a SYNC item of the other lane refers to: the last item of the lane that
   stands, in the global order, before item `before` of the mark's chunk (or before its end). */
typedef struct cleave_lane_mark {
    int32_t before, device;
    cleave_lane lane;
} cleave_lane_mark;

/* Of a fragment of one member: what stands from here to the next stretch.  The stretches of all
   members, by `at`, are the family's fragment; where members have the same `at` they have the same
   buffers, which are one, and nothing else. */
typedef struct cleave_stretch_at { /* ascending within a member */
    uint64_t chunk;                /* planned or not, slot, rank */
    uint64_t piece;                /* part, piece of what it reads */
} cleave_stretch_at;

typedef struct cleave_fragment_stretch {
    cleave_stretch_at at;
    int32_t first_item, first_buffer, first_message, first_collective;
} cleave_fragment_stretch;

static inline cleave_stretch_at cleave_stretch_place(bool planned, int32_t slot, int32_t rank,
                                                     int32_t part, int32_t piece) {
    return (cleave_stretch_at){(uint64_t)!planned << 63 | (uint64_t)slot << 32 | (uint32_t)rank,
                               (uint64_t)part << 32 | (uint32_t)piece};
}
static inline int32_t cleave_stretch_slot(cleave_stretch_at at) {
    return (int32_t)(at.chunk >> 32 & INT32_MAX);
}
static inline int32_t cleave_stretch_rank(cleave_stretch_at at) {
    return (int32_t)(at.chunk & INT32_MAX);
}
static inline bool cleave_stretch_same(cleave_stretch_at a, cleave_stretch_at b) {
    return a.chunk == b.chunk && a.piece == b.piece;
}
static inline bool cleave_stretch_before(cleave_stretch_at a, cleave_stretch_at b) {
    return a.chunk != b.chunk ? a.chunk < b.chunk : a.piece < b.piece;
}

typedef struct cleave_fragment {
    cleave_program program;    /* of a family alone: no computes, ids of its own; the subject of a
                                  SYNC is a mark; the pieces of copies are counted and not there */
    int32_t n_chunks, n_marks; /* 0: a whole program */
    const cleave_fragment_chunk *chunks;      /* [n_chunks] ascending by (slot, rank) */
    const cleave_lane_mark *marks;            /* [n_marks] */
    int32_t n_stretches;                      /* 0: of a whole family */
    const cleave_fragment_stretch *stretches; /* [n_stretches] */
} cleave_fragment;

/* Lowers fragments of one model on some devices.  Holds a copy of a layout's splits. */
typedef struct cleave_lowerer cleave_lowerer;

/* FAILED when memory is short; BAD_INPUT when the model is to be trained and has no loss, or the
   layout has stages, micro-batches, recomputation or keys that go round.  Model and options must
   outlive it.  The layout must be legal, and so must be the splits set later. */
cleave_status cleave_lowerer_create(const cleave_model *model, const cleave_layout *layout,
                                    const cleave_lower_options *options, cleave_lowerer **lowerer,
                                    cleave_error *error);
void cleave_lowerer_destroy(cleave_lowerer *lowerer); /* null: nothing */

int32_t cleave_lowerer_n_families(const cleave_lowerer *lowerer);
int32_t cleave_lowerer_n_slots(const cleave_lowerer *lowerer);
/* The families that a split of this operator concerns, ascending. */
const int32_t *cleave_lowerer_families_of(const cleave_lowerer *lowerer, int32_t op, int32_t *n);
/* The one that a tensor, or what a view sees, belongs to. */
int32_t cleave_lowerer_family_of(const cleave_lowerer *lowerer, int32_t tensor);
/* Slot of a pass of a nest; -1: it has none. */
int32_t cleave_lowerer_slot(const cleave_lowerer *lowerer, int32_t nest, cleave_pass pass);

/* Places, families and then nests, that are alike, as those of repeated blocks are: under the same
   splits of their operators, taken in order, and all updates sharded alike, their fragments (of
   nests: their computes) are the same but for ids, and for slots.  Of these each place may name
   some; to the i-th of one corresponds the i-th of the other. */
typedef struct cleave_alike {
    int32_t *like; /* [n_families + n_nests] the first place that is alike */
    /* [n_families] the first family that differs in nothing but in what the parts of its nests read
       and write, whatever these compute: cleave_lowerer_boxes tells that. */
    int32_t *like_by_boxes;
    int32_t *n_slots; /* [n_families + n_nests] */
    int32_t **slots;  /* [n_families + n_nests][n_slots] ascending */
} cleave_alike;
cleave_status cleave_lowerer_alike(const cleave_lowerer *lowerer, cleave_arena *arena,
                                   cleave_alike *alike, cleave_error *error);

/* Gives an operator another split; its devices are copied. */
cleave_status cleave_lowerer_set_split(cleave_lowerer *lowerer, int32_t op,
                                       const cleave_split *split, cleave_error *error);
/* Shards the update of a parameter, or no longer: concerns its family.  More than the update is as
   the lowerer was made with it. */
void cleave_lowerer_set_sharded(cleave_lowerer *lowerer, int32_t tensor, cleave_sharded sharded);
/* From now on the layout and the splits are those of the window of a fold, which must be that of
   the splits whenever a family is lowered, with windows of one size; NO_LAYOUT then, saying why,
   where the family is not the same in all windows.  Null: of no fold. */
void cleave_lowerer_set_fold(cleave_lowerer *lowerer, const cleave_fold *fold);
const cleave_parts *cleave_lowerer_parts(const cleave_lowerer *lowerer, int32_t nest);

/* Two independent hashes of all that lowering a family looks at besides: where the parts of its
   nests are and what they read and write of it as the splits now are, which updates are sharded,
   and of a fold, what is the same in all windows. */
void cleave_lowerer_boxes(cleave_lowerer *lowerer, int32_t family, uint64_t hash[2]);

/* The members of a family, its base tensors, whose fragments put side by side, stretch by stretch,
   are that of the family: so that of many tensors that views join, as the steps of a recurrence,
   those are lowered that a change concerns.  Returns their number; 0 where a family is lowered as a
   whole: it has few, or what a part reads of several arrives as one. */
int32_t cleave_lowerer_members(const cleave_lowerer *lowerer, int32_t family);
/* As cleave_lowerer_boxes and cleave_lowerer_family do, of the i-th member. */
void cleave_lowerer_member_boxes(cleave_lowerer *lowerer, int32_t family, int32_t i,
                                 uint64_t hash[2]);
cleave_status cleave_lowerer_member(cleave_lowerer *lowerer, int32_t family, int32_t i,
                                    cleave_fragment *fragment, cleave_error *error);

/* The computes of a nest as the splits now are, a chunk for each of its passes, without operands or
   workspaces.  The fragment holds until the next call. */
cleave_status cleave_lowerer_computes(cleave_lowerer *lowerer, int32_t nest,
                                      cleave_fragment *fragment, cleave_error *error);

/* Lowers a family as the splits now are.  The fragment holds until the next call. */
cleave_status cleave_lowerer_family(cleave_lowerer *lowerer, int32_t family,
                                    cleave_fragment *fragment, cleave_error *error);

#endif
