#!/usr/bin/env python3
"""Where the words of a plan cut arrays that have its dimensions in other groups or orders, or a dimension of layers more; of
no framework.
usage: plan_places.py TREE
"""
import os
import sys

sys.path[:0] = [os.path.join(sys.argv[1], "python")]
from cleave.command import CleaveError  # noqa: E402
from cleave.place import nearest, place  # noqa: E402
from cleave.plan import PLAIN, Part, Plan, Stored  # noqa: E402
from cleave.stacked import stack  # noqa: E402

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

# The same, where what has no blocks is whole (None: the array is none of the plan's)
NEAREST = [
    (["S0", "S0"], [2, 4], [8, 16, 4, 6], [4, 4, 6, 16], "Conv", [[0], [], [], []]),  # 4 of 8 samples are no 8 blocks
    (["S0", "S1"], [8, 2], [8, 16, 4, 6], [4, 4, 6, 16], "Conv", [[], [], [], [1]]),
    (["S0", "S2"], [2, 4], [8, 16, 32], [8, 16, 4, 8], "Gemm", [[0], [], [1], []]),
    (["S0"], [2], [8, 16, 4, 6], [8, 5, 6, 16], "Conv", None),
]

for words, sizes, shape, here, kind, expected in NEAREST:
    found = nearest(words, sizes, shape, here, kind)
    assert found == expected, f"nearest to {words} of {shape} on {sizes}, of {here} ({kind}): {found}, expected {expected}"
for words, sizes, shape, here, kind, expected in CASES:
    found = place(words, sizes, shape, here, kind)
    case = f"{words} of {shape} on {sizes}, of {here} ({kind}): {found}, expected {expected}"
    assert (isinstance(found, str) if expected is None else found == expected), case


def layers(stored, cut, n=2):
    """Each with a parameter and two modules, of which one is cut as `cut` says by layer."""
    parameters = {f"layers.{i}.up.kernel": Stored([8, 16], words) for i, words in zip(range(n), stored)}
    modules = {f"layers.{i}.{own}": Part("", "Gemm", [None], ["R"], words, words) for i, cuts in zip(range(n), cut)
               for own, words in (("up", cuts), ("down", ["R"]))}
    return Plan("file", "jax", {}, [2], modules, {}, None, {**parameters, "head.kernel": Stored([8, 4], ["S1"])}, [], PLAIN, [])


plan, differs = stack(layers([["S1"], ["S1"]], [["S1"], ["S1"]]), "layers")
assert plan.parameters == {"layers.up.kernel": Stored([2, 8, 16], ["S2"]), "head.kernel": Stored([8, 4], ["S1"])}, plan.parameters
assert sorted(plan.modules) == ["layers.down", "layers.up"] and not differs, (plan.modules, differs)
plan, differs = stack(layers([["S1"], ["S0"]], [["S1"], ["R"]]), "layers")
assert plan.parameters["layers.up.kernel"] == Stored([2, 8, 16], ["R"]), plan.parameters
assert sorted(plan.modules) == ["layers.down"] and sorted(differs) == ["layers.up", "layers.up.kernel"], (plan.modules, differs)
for path, plan in (("block", layers([["R"]], [["R"]], 1)), ("layers", layers([["R"]] * 2, [["R"]] * 3, 2))):
    if path == "layers":
        del plan.modules["layers.1.up"]
    try:
        stack(plan, path)
        raise AssertionError(f"{path} may be stacked")
    except CleaveError as error:
        assert str(error).startswith("file: ") and "layers" in str(error), error
print(f"{len(CASES)} places are as they should be")
