"""What XLA made of a step: its collectives, counted in its text."""
import re

import numpy

COLLECTIVE = re.compile(r"= (.*?) (all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)(?:-start)?\(")
GROUPS = re.compile(r"replica_groups=(?:\{\{([0-9,]+)\}|\[\d+,(\d+)\])")
PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
TENSOR = re.compile(r"\b(pred|bf16|f8\w*|[fsuc]\d+)\[([0-9,]*)\]")
# Of the bytes of its result, what a device of n sends, as rings and pairwise exchanges do it.
SHARES = {"all-reduce": lambda n: 2 * (n - 1) / n, "all-gather": lambda n: (n - 1) / n,
          "reduce-scatter": lambda n: n - 1, "all-to-all": lambda n: (n - 1) / n}


def _element(kind):
    return 1 if kind == "pred" or kind.startswith("f8") else int(re.search(r"\d+", kind).group()) // 8


def collectives(text, devices, element=_element):
    """What XLA made of a plan: of a compiled step, such as jax.jit(step).lower(...).compile().as_text(), each collective
    as (kind, devices of a group, bytes that all devices send).  `element` says what an element of "f64" is counted as."""
    found = []
    for line in text.splitlines():
        collective = COLLECTIVE.search(line)
        if not collective:
            continue
        kind, size = collective.group(2), 0
        for name, extents in TENSOR.findall(collective.group(1)):
            size += element(name) * int(numpy.prod([int(e) for e in extents.split(",") if e], dtype=numpy.int64))
        if kind == "collective-permute":
            pairs = PAIRS.search(line).group(1).count("{")
            found.append((kind, 2, float(size * pairs)))
            continue
        groups = GROUPS.search(line)
        n = devices if groups is None else groups.group(1).count(",") + 1 if groups.group(1) else int(groups.group(2))
        if n > 1:
            found.append((kind, n, SHARES[kind](n) * size * devices))
    return found
