#!/usr/bin/env python3
"""Where the words of a plan cut arrays that have its dimensions in other groups or orders; of no framework.
usage: plan_places.py TREE
"""
import os
import sys

sys.path[:0] = [os.path.join(sys.argv[1], "python")]
from cleave.place import place  # noqa: E402

# words, sizes of the mesh, the plan's shape, the array's, the operator's type (None: not of Flax), what is expected: None
# where it has to be refused
CASES = [
    (["S0", "S2"], [2, 4], [8, 16, 32], [8, 16, 32], "Gemm", [[0], [], [1]]),
    (["S0", "S2"], [2, 4], [8, 16, 32], [8, 16, 4, 8], "Gemm", [[0], [], [1], []]),  # columns: 4 heads, 8 wide
    (["S2"], [8], [8, 16, 32], [8, 16, 4, 8], "Gemm", None),  # 4 heads are no 8 blocks
    (["S0"], [4], [128, 32], [8, 16, 32], "Gemm", [[0], [], []]),  # rows: 8 samples of 16
    (["S0"], [16], [128, 32], [8, 16, 32], "Gemm", None),
    (["S1"], [4], [128, 32], [8, 16, 32], "Gemm", [[], [], [0]]),
    (["S0", "S0"], [2, 4], [16, 3], [16, 3], None, [[0, 1], []]),
    (["R", "S1"], [2, 2], [8, 16, 16], [8, 16, 16], "Gemm", [[], [1], []]),  # as wide as long, and rows come first
    (["S1", "S0"], [2, 2], [8, 16, 4, 6], [8, 4, 6, 16], "Conv", [[1], [], [], [0]]),
    (["S1"], [2], [8, 4, 4, 4], [8, 4, 4, 4], "Conv", [[], [], [], [0]]),  # Flax has a convolution's channels last
    (["S1"], [2], [8, 16, 4, 6], [8, 4, 6, 16], "Add", [[], [], [], [0]]),
    (["S1"], [2], [8, 16, 4, 6], [8, 16, 4, 6], "Add", [[], [0], [], []]),
    (["S1"], [2], [8, 4, 4, 4], [8, 4, 4, 4], "Add", None),  # of what a file may have either way
    (["S0"], [2], [8, 4, 4, 4], [8, 4, 4, 4], "Add", [[0], [], [], []]),
    (["S1"], [2], [8, 16, 4, 6], [8, 16, 4, 6], None, [[], [0], [], []]),
    (["S0", "S1"], [2, 2], [8, 32], [4, 32], "Gemm", [[0], [1]]),  # the second of two micro-batches
    (["S0"], [4], [8, 32], [2, 32], "Gemm", None),
    (["S0"], [2], [8, 32], [12, 32], "Gemm", None),
    (["S1"], [2], [8, 16, 4, 6], [4, 4, 6, 16], "Conv", [[], [], [], [0]]),
    (["S1"], [2], [8, 32], [8, 16], "Gemm", None),
    (["S1"], [2], [64, 32], [64, 31], "Gemm", None),
    (["S1"], [2], None, [8, 32], None, [[], [0]]),
    (["S2"], [2], None, [8, 32], None, None),
    (["R"], [2], [8, 32], [8, 32], "Gemm", [[], []]),
]

for words, sizes, shape, here, kind, expected in CASES:
    found = place(words, sizes, shape, here, kind)
    case = f"{words} of {shape} on {sizes}, of {here} ({kind}): {found}, expected {expected}"
    assert (isinstance(found, str) if expected is None else found == expected), case
print(f"{len(CASES)} places are as they should be")
