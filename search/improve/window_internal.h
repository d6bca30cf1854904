/* What the search of windows and its moves share. */
#ifndef CLEAVE_SEARCH_IMPROVE_WINDOW_INTERNAL_H
#define CLEAVE_SEARCH_IMPROVE_WINDOW_INTERNAL_H

#include "search/improve/sweep.h"
#include "search/problem/space.h"

enum { WINDOW_MOST_STARTS = 32 };

/* Groups in the order in which they are changed, [n_groups]; null: memory is short. */
int32_t *window_order(const cleave_model *model, const cleave_window_space *space,
                      cleave_arena *arena);

/* In that order, of every group: all its candidates, and then for all groups that are alike and
   have the same; but those of which windows of another size (0: none), no larger, knew. */
cleave_status window_moves_of_groups(const cleave_model *model, const cleave_window_space *space,
                                     const int32_t *order, int32_t windows_before,
                                     cleave_arena *arena, cleave_sweep *moves, cleave_error *error);

/* Runs of groups as the starts, [n], have them. */
cleave_status window_moves_of_starts(const cleave_window_space *space, const cleave_choices *starts,
                                     int32_t n, cleave_arena *arena, cleave_sweep *moves,
                                     cleave_error *error);

#endif
