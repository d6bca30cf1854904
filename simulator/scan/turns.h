/* The scan of a step of many micro-batches, by a program that has three of them (cleave_turns): the
   same times as of the program with all, to the bit, and where the schedule repeats itself without
   going through all.

   A block is run as often as it has turns, always by its own steps; what one block of a micro-batch
   leaves for another is kept for each micro-batch that is under way.

   Where turns repeat, period after period, a period is a function F of a few times x: of clocks,
   links and what is on its way.  Without communication beside the main lane (scan_rule.h) it is
   made of sums and of the later of two times, nothing else, so it is convex along a line.  Where
   F(x) = x + d and F(x + d) = x + 2 d, as they are when times have moved alike from one period to
   the next, and F(x + n d) = x + (n + 1) d as well, it is so in between: n periods are one sum.  If
   F(x + n d) is later, how much so at n and n - 1 says which n may do.  The same of a few periods
   at once, since times may move by turns.  What is not of this kind is scanned whole. */
#ifndef CLEAVE_SIMULATOR_SCAN_TURNS_H
#define CLEAVE_SIMULATOR_SCAN_TURNS_H

#include "graph/program/program.h"
#include "simulator/step/engine.h"

typedef struct cleave_turns_subject {
    const cleave_program *program; /* of a few micro-batches, */
    const cleave_turns *turns;
    const cleave_engine_problem *problem; /* and with prices, cut at its blocks */
    cleave_engine_workspace *workspace;
    cleave_timeline *timeline;   /* room; means nothing afterwards */
    const cleave_timeline *each; /* start and end of every turn's items, by the numbers of
                                    cleave_turned, so nothing is left out; null: not wanted */
    bool goes_through_all;       /* for tests: nothing is left out */
} cleave_turns_subject;

typedef struct cleave_turns_time {
    int64_t step;  /* picoseconds */
    int32_t taken; /* turns that were gone through, tries to leave some out included */
} cleave_turns_time;

/* NO_LAYOUT, saying why, where a block does something that depends on which others stand between
   the micro-batches that are there. */
cleave_status cleave_engine_scan_turns(const cleave_turns_subject *of, cleave_arena *arena,
                                       cleave_turns_time *time, cleave_error *error);

/* The same refusals, without a run: of program and turns alone. */
cleave_status cleave_turns_check(const cleave_turns_subject *of, cleave_arena *arena,
                                 cleave_error *error);

#endif
