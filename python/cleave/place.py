"""Where the words of a plan cut an array: its dimensions may be the plan's in other groups (heads and their width for columns,
samples and rows for rows), or channels last."""
import math

CHANNELS_FIRST = ("Conv", "ConvTranspose", "MaxPool", "AveragePool", "GlobalAveragePool", "LpPool")  # in files; last in Flax
OF_ROWS = ("Gemm", "MatMul", "Einsum", "Gather", "LayerNormalization", "RMSNormalization")  # the same in both


def regroup(shape, d, other, parts):
    """The dimension of `other` that begins where dimension d of `shape` does, both of the same elements, and is cut into so
    many blocks of the same elements; None: there is none.  As graph/export/frame.c has it of parameters."""
    before, met = math.prod(shape[:d]), 1
    for i, extent in enumerate(other):
        if met == before and (extent == shape[d] or extent > 1):
            return i if extent % parts == 0 and shape[d] % parts == 0 else None
        met *= extent
    return None


def _cut(words, shape, sizes, here):
    """By dimension of `here` the axes of the mesh that cut it, or None.  Of a micro-batch there are fewer samples."""
    n, m = math.prod(shape), max(math.prod(here), 1)
    if n != m:
        if not shape or n % m or shape[0] % (n // m):
            return None
        shape = [shape[0] // (n // m), *shape[1:]]
    cuts = [[] for _ in here]
    for d in sorted({int(word[1:]) for word in words if word[0] == "S"}):
        axes = [i for i, word in enumerate(words) if word == f"S{d}"]
        at = regroup(shape, d, here, math.prod(sizes[i] for i in axes)) if d < len(shape) else None
        if at is None:
            return None
        cuts[at] += axes
    return cuts


def _channels_last(words, shape):
    rank = len(shape)
    at = {0: 0, 1: rank - 1, **{d: d - 1 for d in range(2, rank)}}
    return [f"S{at[int(w[1:])]}" if w[0] == "S" else w for w in words], [shape[0], *shape[2:], shape[1]]


def place(words, sizes, shape, here, kind=None):
    """By dimension of an array of shape `here` the axes of the mesh (of `sizes`) that cut it, where the words are of a tensor
    of `shape` (None: it is not known, and has the array's dimensions); or a text that says why there are none.  `kind`: of
    a module of Flax, the type of the plan's operator, by which its channels are last, or may be."""
    here, shape = list(here), list(shape or here)
    ways = [(words, shape)]
    if kind in CHANNELS_FIRST:
        ways = [_channels_last(words, shape)]
    elif kind is not None and kind not in OF_ROWS and len(shape) == len(here) > 3:
        ways = [way for way in (*ways, _channels_last(words, shape)) if way[1][1:] == here[1:]]
    found = [_cut(*way, sizes, here) for way in ways]
    if len(found) == 2 and found[0] != found[1]:
        return f"{here} may be the plan's {shape} with channels first or last"
    return found[0] if found and found[0] else f"{here} has no blocks as the plan's {shape} has"


def nearest(words, sizes, shape, here, kind=None):
    """The same of those words that have blocks in the array, whole along the mesh's other axes; None: it is none of the plan's."""
    kept = ["R"] * len(words)
    found = place(kept, sizes, shape, here, kind)
    if isinstance(found, str):
        return None
    for i, word in enumerate(words):
        tried = place([*kept[:i], word, *kept[i + 1:]], sizes, shape, here, kind)
        if not isinstance(tried, str):
            kept[i], found = word, tried
    return found
