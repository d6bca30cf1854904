"""Operators of a list of kernels as calls of PyTorch: what the forward of a module does, on tensors of local shapes.

An operator is given as its nests: axes, operands with their maps, a tape (docs/formats.md).  What PyTorch has one call
for, that call does: a linear layer, a convolution, a normalization, attention, a look-up, the loss.  What follows in
the tape runs function by function, as eager PyTorch runs it; and what has no call of its own, nest by nest.
"""
import math
import re

import torch
import torch.nn.functional as F

from .local import SplitBatchNorm

EPSILON = 1e-5  # whatever a model has, it takes as long
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "i64": torch.int64}

# ---- tapes ------------------------------------------------------------------------------------------------------

UNARY = {"COPY": lambda a: a, "NEG": torch.neg, "ABS": torch.abs, "EXP": torch.exp, "LOG": torch.log,
         "SQRT": torch.sqrt, "RSQRT": torch.rsqrt, "RECIPROCAL": torch.reciprocal, "ERF": torch.erf,
         "RELU": torch.relu, "SIGMOID": torch.sigmoid, "TANH": torch.tanh, "FLOOR": torch.floor, "CEIL": torch.ceil,
         "ROUND": torch.round, "TRUNC": torch.trunc, "SIGN": torch.sign, "LOG1P": torch.log1p, "SIN": torch.sin,
         "COS": torch.cos, "TAN": torch.tan, "ASIN": torch.asin, "ACOS": torch.acos, "ATAN": torch.atan,
         "SINH": torch.sinh, "COSH": torch.cosh, "ASINH": torch.asinh, "ACOSH": torch.acosh, "ATANH": torch.atanh}
BINARY = {"ADD": torch.add, "SUB": torch.sub, "MUL": torch.mul, "DIV": torch.div, "MIN": torch.minimum,
          "MAX": torch.maximum, "POW": torch.pow, "EQUAL": torch.eq, "LESS": torch.lt, "LESS_EQUAL": torch.le,
          "FMOD": torch.fmod, "MASK": lambda a, b: a * (b != 0)}
WITH_NUMBERS = {"LEAKY_RELU": lambda a, p, q: F.leaky_relu(a, p), "CLIP": lambda a, p, q: torch.clamp(a, p, q),
                "DROPOUT": lambda a, p, q: F.dropout(a, p),
                "SCALE": lambda a, p, q: a * p if q == 0 else a + q if p == 1 else a * p + q}
# Functions that people call, and files spell out: each begins at a value and ends by multiplying with it.
SPELLED = ((("SCALE", "ERF", "SCALE", "MUL"), F.gelu), (("SIGMOID", "MUL"), F.silu))


def spelled(tape, at, n_inputs):
    """The function that is spelled out from this instruction on, and of how many instructions; or None."""
    for names, function in SPELLED:
        here = tape[at:at + len(names)]
        if tuple(step[0] for step in here) == names:
            first = n_inputs + at
            chained = all(here[i][1] == first + i - 1 for i in range(1, len(here) - 1))
            if chained and sorted(here[-1][1:3]) == sorted((here[0][1], first + len(here) - 2)):
                return function, len(names)
    return None


def count_functions(tape, n_inputs, at=0):
    """How many functions of PyTorch a tape is from this instruction on."""
    n = 0
    while at < len(tape):
        known = spelled(tape, at, n_inputs)
        n += tape[at][0] not in ("COPY", "CONSTANT", "INDEX")
        at += known[1] if known else 1
    return n


def run_tape(tape, inputs, axes, done=0, value=None):
    """The value of a tape on aligned inputs; `value`: that of its first `done` instructions, which have run."""
    values = [*inputs, *[value] * done]
    while len(values) < len(inputs) + len(tape):
        at = len(values) - len(inputs)
        name, a, b, p, q = tape[at]
        known = spelled(tape, at, len(inputs))
        if known:
            values += [None] * (known[1] - 1) + [known[0](values[a])]
        elif name in UNARY:
            values.append(UNARY[name](values[a]))
        elif name in BINARY:
            values.append(BINARY[name](values[a], values[b]))
        elif name in WITH_NUMBERS:
            values.append(WITH_NUMBERS[name](values[a], p, q))
        elif name == "CONSTANT":
            values.append(p)
        elif name == "INDEX":
            extents = list(axes.values())
            values.append(torch.arange(extents[a]).view([-1 if i == a else 1 for i in range(len(extents))]))
        else:
            raise NotImplementedError(f"PyTorch has no function for {name}")
    return values[-1]


# ---- operands ---------------------------------------------------------------------------------------------------

def terms(index):
    """"4h+r": {"h": 4, "r": 1}."""
    return {t[2]: int(t[1] or 1) for t in re.finditer(r"(\d*)([A-Za-z_]\w*)", index)}


def single(index):
    """The one axis that an index is; None where it is fixed."""
    found = terms(index)
    if len(found) > 1 or any(stride != 1 for stride in found.values()):
        raise NotImplementedError(f"PyTorch has no call for a window {index} here")
    return next(iter(found), None)


def names(operand):
    return [single(index) for index in operand["index"]]


class Tensors:
    """What the nests of an operator read and write: made where it comes from outside."""

    def __init__(self, nests, device):
        self.device, self.made, self.leaves, self.near = device, {}, [], []
        self.n_functions = 0  # that ran behind what is one call, or where there is none
        self.wanted = {nest["inputs"][i]["tensor"] for nest in nests for i in nest["gradients"]}
        self.written = {nest["output"]["tensor"] for nest in nests}

    def get(self, operand, shape=None):
        key = operand["tensor"]
        if key not in self.made:
            self.made[key] = self.make(operand, shape or operand["shape"])
        x = self.made[key]
        return x if shape is None or list(x.shape) == list(shape) else x.reshape(shape)

    def make(self, operand, shape):
        dtype = DTYPES[operand["dtype"]]
        if dtype == torch.int64:
            return torch.randint(0, operand.get("below", 2), shape, device=self.device)
        x = torch.empty(shape, dtype=torch.float32, device=self.device).uniform_(-1, 1).to(dtype)
        if operand["tensor"] in self.wanted and operand["tensor"] not in self.written:
            self.leaves.append(x.requires_grad_())
        if not operand["parameter"]:
            self.near.append(x)
        return x


def order(x, have, want):
    """x, whose dimensions are these axes, with those (None: a dimension of one)."""
    x = x.permute([have.index(axis) for axis in want if axis is not None])
    for i, axis in enumerate(want):
        if axis is None:
            x = x.unsqueeze(i)
    return x


def aligned(x, have, axes):
    """x over all axes of a nest, broadcast along those that it lacks."""
    for i in reversed([i for i, axis in enumerate(have) if axis is None]):
        x = x.select(i, 0)
    have = [axis for axis in have if axis is not None]
    wanted = [axis for axis in axes if axis in have]
    if wanted != have:
        x = x.permute([have.index(axis) for axis in wanted])
    missing = [i for i, axis in enumerate(axes) if axis not in have]
    for i in missing if any(axis in have for axis in axes) else ():
        x = x.unsqueeze(i)
    return x


def read(nest, tensors):
    return [aligned(tensors.get(operand), names(operand), nest["axes"]) for operand in nest["inputs"]]


def finish(nest, tensors, y, done):
    """What follows in a nest's tape after its first instructions, of which y is the value in the nest's axes."""
    value = run_tape(nest["tape"], read(nest, tensors) if len(nest["tape"]) > done else [None] * len(nest["inputs"]),
                     nest["axes"], done, y)
    tensors.n_functions += count_functions(nest["tape"], len(nest["inputs"]), done)
    write(nest, tensors, value, list(nest["axes"]))


def write(nest, tensors, value, have):
    tensors.made[nest["output"]["tensor"]] = order(value, have, names(nest["output"]))


# ---- nests ------------------------------------------------------------------------------------------------------

def run_point(nest, tensors):
    """Point by point, and combined over the axes that the output lacks."""
    axes, have = nest["axes"], [axis for axis in names(nest["output"]) if axis is not None]
    value = run_tape(nest["tape"], read(nest, tensors), axes)
    tensors.n_functions += count_functions(nest["tape"], len(nest["inputs"])) + (nest["combiner"] != "none")
    left = [i for i, axis in enumerate(axes) if axis not in have]
    if nest["combiner"] == "moments":
        record, *rest = names(nest["output"])  # count, mean and squares are the first dimension
        left = [i for i, axis in enumerate(a for a in axes if a != record) if axis not in rest]
        squares, mean = torch.var_mean(value.squeeze(list(axes).index(record)), left, correction=0)
        value = torch.stack([torch.full_like(mean, float(math.prod(axes[a] for a in axes if a not in have))), mean, squares])
        write(nest, tensors, value, [record, *(axis for axis in axes if axis in rest)])
        return
    if left and nest["combiner"] == "sum":
        value = value.sum(left)
    elif left and nest["combiner"] == "max":
        value = value.amax(left)
    write(nest, tensors, value, [axis for axis in axes if axis in have])


def bias_of(following, tensors, kept):
    """The parameter that the next nest begins by adding to what this one gives, or None."""
    if following is None or not following["tape"] or following["tape"][0][0] != "ADD":
        return None
    inputs = following["inputs"]
    pair = following["tape"][0][1:3]
    if sorted(pair) != [0, 1] or len(inputs) < 2:
        return None
    read_here, added = (inputs[0], inputs[1]) if inputs[0]["tensor"] == kept else (inputs[1], inputs[0])
    if read_here["tensor"] != kept or not added["parameter"]:
        return None
    return added


def run_convolution(nest, following, tensors):
    x, w = nest["inputs"][:2]
    axes, spatial = nest["axes"], [terms(index) for index in x["index"][2:]]
    outputs = [terms(index) for index in nest["output"]["index"][2:]]
    moves = [next(iter(found)) for found in outputs]
    windows = [next((axis for axis in found if axis != move), None) for found, move in zip(spatial, moves)]
    stride = [found[move] for found, move in zip(spatial, moves)]
    dilation = [found.get(window, 1) for found, window in zip(spatial, windows)]
    size = [axes.get(window, 1) for window in windows]
    outside = x.get("outside", [[0, 0]] * len(x["shape"]))[2:]
    groups, k = axes.get("g", 1), axes.get("k", 1)
    data = tensors.get(x)
    weight = tensors.get(w, [groups * k, axes.get("c", 1), *size])
    bias = bias_of(following, tensors, nest["output"]["tensor"])
    b = None if bias is None else tensors.get(bias).reshape(-1)
    padding = [max(pair) for pair in outside]
    extents = [(n + 2 * p - d * (s - 1) - 1) // t + 1
               for n, p, d, s, t in zip(data.shape[2:], padding, dilation, size, stride)]
    if extents != [axes[move] for move in moves]:  # a part of an image: padded as it lies
        data = F.pad(data, [n for pair in reversed(outside) for n in pair])
        padding = [0] * len(padding)
    call = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[len(spatial)]
    return call(data, weight, b, stride, padding, dilation, groups), bias is not None


def run_product(nest, following, tensors):
    x, w = nest["inputs"][:2]
    x_axes, w_axes, y_axes = ([axis for axis in names(o) if axis is not None] for o in (x, w, nest["output"]))
    if x["parameter"] and not w["parameter"]:
        x, w, x_axes, w_axes = w, x, w_axes, x_axes
    both = [axis for axis in x_axes if axis in w_axes and axis in y_axes]
    axes, inner = nest["axes"], [axis for axis in x_axes if axis in w_axes]
    if not w["parameter"] or both:
        letters = {axis: chr(97 + i) for i, axis in enumerate(axes)}
        spell = lambda of: "".join(letters[axis] for axis in of)
        parts = [aligned_only(tensors.get(o), names(o)) for o in (x, w)]
        y = torch.einsum(f"{spell(x_axes)},{spell(w_axes)}->{spell(y_axes)}", *parts)
        return order(y, y_axes, names(nest["output"])), False
    rows, columns = [a for a in x_axes if a not in w_axes], [a for a in w_axes if a in y_axes]
    width, height = math.prod(axes[a] for a in inner), math.prod(axes[a] for a in columns)
    data = tensors.get(x, [*(axes[a] for a in rows), width])
    weight = tensors.get(w, [height, width])
    bias = bias_of(following, tensors, nest["output"]["tensor"])
    b = None if bias is None else tensors.get(bias).reshape(-1)
    y = F.linear(data, weight, b).view([axes[a] for a in (*rows, *columns)])
    return order(y, [*rows, *columns], names(nest["output"])), bias is not None


def aligned_only(x, have):
    for i in reversed([i for i, axis in enumerate(have) if axis is None]):
        x = x.select(i, 0)
    return x


def run_pool(nest, tensors):
    x = nest["inputs"][0]
    spatial, moves = [terms(i) for i in x["index"][2:]], [next(iter(terms(i))) for i in nest["output"]["index"][2:]]
    stride = [found[move] for found, move in zip(spatial, moves)]
    windows = [next((axis for axis in found if axis != move), None) for found, move in zip(spatial, moves)]
    size = [nest["axes"].get(window, 1) for window in windows]
    data, outside = tensors.get(x), x.get("outside", [[0, 0]] * len(x["shape"]))[2:]
    data = F.pad(data, [n for pair in reversed(outside) for n in pair]) if any(map(any, outside)) else data
    if nest["combiner"] == "max":
        call = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[len(spatial)]
    else:
        call = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[len(spatial)]
    tensors.made[nest["output"]["tensor"]] = call(data, size, stride)


def run_attention(nest, tensors):
    roles, axes = nest["attention"], nest["axes"]
    rows, keys = roles["rows"], roles["keys"]

    def heads(operand, row, last):
        have = names(operand)
        batch = [axis for axis in have if axis not in (row, last)]
        x = tensors.get(operand)
        for i, axis in enumerate(have):  # grouped queries: keys and values are repeated
            if axis is None:
                free = next(a for a in names(nest["inputs"][0]) if a not in have and a not in (rows, roles["width"]))
                x, have = x.expand([*x.shape[:i], axes[free], *x.shape[i + 1:]]), [*have[:i], free, *have[i + 1:]]
                batch = [free if axis is None else axis for axis in batch]
        x = order(x, have, [*batch, row, last])
        return x.reshape(x.shape[0], -1, *x.shape[-2:]), batch

    q, batch = heads(nest["inputs"][0], rows, roles["width"])
    k, _ = heads(nest["inputs"][1], keys, roles["width"])
    v, _ = heads(nest["inputs"][2], keys, roles["value_width"])
    y = F.scaled_dot_product_attention(q, k, v, is_causal=roles["seen"] < 0.9 and q.shape[-2] == k.shape[-2])
    y = y.reshape(*(axes[axis] for axis in batch), *y.shape[-2:])
    write(nest, tensors, y, [*batch, rows, roles["value_width"]])


def run_look_up(nest, tensors):
    ids, table = nest["inputs"][:2]
    rows, width = [axis for axis in names(ids) if axis], names(table)[1:]
    below = table["shape"][0]
    y = F.embedding(tensors.get({**ids, "below": below}), tensors.get(table).flatten(1))
    y = y.view([nest["axes"][axis] for axis in (*rows, *width)])
    write(nest, tensors, y, [*rows, *width])


# ---- operators --------------------------------------------------------------------------------------------------

def main_input(nest):
    return nest["inputs"][0]


def run_normalization(nests, tensors, call):
    """Moments and what is done by them as one call; then the rest of the tape."""
    main = next(nest for nest in nests if nest["kind"] == "pointwise")
    own = [operand for operand in main["inputs"] if operand["parameter"]]
    steps = 4 + len(own)  # difference, variance + epsilon, its root, product; each parameter one more
    y = call(tensors.get(main_input(main)), *[tensors.get(operand).reshape(-1) for operand in own])
    finish(main, tensors, aligned(y, names(main_input(main)), main["axes"]), steps)


def layer_normalization(nests, tensors):
    moments = next(nest for nest in nests if nest["kind"] == "moments")
    left = [axis for axis in names(main_input(moments)) if axis not in names(moments["output"])]
    shape = [moments["axes"][axis] for axis in left]
    run_normalization(nests, tensors, lambda x, *own: F.layer_norm(x, shape, *(p.view(shape) for p in own)))


def batch_normalization(nests, tensors):
    channels = main_input(nests[0])["shape"][1]
    if any(axis not in names(nests[0]["output"]) for axis in nests[0]["cut"]):  # statistics of the whole batch
        run_normalization(nests, tensors, lambda x, *own: SplitBatchNorm.apply(x, *(own or (None, None)), [], EPSILON)[0])
        return
    statistics = [torch.zeros(channels, device=tensors.device), torch.ones(channels, device=tensors.device)]
    run_normalization(nests, tensors, lambda x, *own: F.batch_norm(x, *statistics, *own, training=True))


def loss(nests, tensors):
    logits = main_input(nests[0])
    target = next(o for nest in nests for o in nest["inputs"] if o["dtype"] == "i64")
    x = tensors.get(logits)
    y = F.cross_entropy(x.flatten(0, -2), tensors.get({**target, "below": x.shape[-1]}).flatten())
    tensors.made[nests[-1]["output"]["tensor"]] = y


def global_pool(nests, tensors):
    nest = nests[0]
    tensors.made[nest["output"]["tensor"]] = F.adaptive_avg_pool2d(tensors.get(main_input(nest)), 1)


def softmax(nests, tensors):
    row = next(nest for nest in nests if nest["combiner"] == "sum")
    left = [axis for axis in names(main_input(row)) if axis not in names(row["output"])]
    x = tensors.get(main_input(nests[0]))
    tensors.made[nests[-1]["output"]["tensor"]] = F.softmax(x, names(main_input(row)).index(left[0]))


MODULES = ("convolution", "product", "gather")
TYPES = {"LayerNormalization": layer_normalization, "BatchNormalization": batch_normalization, "Softmax": softmax,
         "SoftmaxCrossEntropy": loss, "SoftmaxCrossEntropyLoss": loss, "GlobalAveragePool": global_pool}


def run_nests(nests, tensors):
    skip = False
    for i, nest in enumerate(nests):
        following = nests[i + 1] if i + 1 < len(nests) else None
        if nest["kind"] in ("convolution", "product"):
            run = run_convolution if nest["kind"] == "convolution" else run_product
            y, skip = run(nest, following, tensors)
            tensors.made[nest["output"]["tensor"]] = y
            continue
        if skip:  # its first instruction, the bias, has run
            source = next(o for o in nest["inputs"] if not o["parameter"] or o["tensor"] in tensors.written)
            finish(nest, tensors, aligned(tensors.made[source["tensor"]], names(source), nest["axes"]), 1)
        elif nest["kind"] == "pool":
            run_pool(nest, tensors)
        elif nest["kind"] == "attention":
            run_attention(nest, tensors)
        elif nest["kind"] == "gather":
            run_look_up(nest, tensors)
        else:
            run_point(nest, tensors)
        skip = False


class Call:
    """An operator on tensors of its own: `forward()` gives its output, of which `leaves` have gradients.  `near` are
    tensors that whatever runs before it has just written.  To a plan it is a module, the loss, and so many functions
    between modules, which are what follows a module's own call; what a module does without one is within it.  Of
    functions, and of the views through which it reads, some are the first behind a module, and others next."""

    def __init__(self, entry, device):
        self.nests, self.run = entry["nests"], TYPES.get(entry["type"], run_nests)
        self.tensors = Tensors(self.nests, device)
        self.forward()  # makes what it reads, and counts
        self.outside = {key: x for key, x in self.tensors.made.items() if key not in self.tensors.written}
        self.leaves, self.near = self.tensors.leaves, self.tensors.near
        self.gradients = self.find_gradients()
        self.is_loss = self.run is loss
        self.n_parameters = len({o["tensor"] for nest in self.nests for o in nest["inputs"] if o["parameter"]})
        # A plan brings what attention reads, and joins what it gives, as it does for a module.
        self.is_module = self.n_parameters > 0 or any(nest["kind"] == "attention" for nest in self.nests)
        has_call = self.run is not run_nests or any(nest["kind"] in MODULES for nest in self.nests)
        self.n_functions = self.tensors.n_functions if has_call or not self.is_module else 0
        if not self.is_module and not self.is_loss:
            self.n_functions = max(self.n_functions, 1)
        # Views of what modules give are functions, too; the first behind a module is dearer than what follows it.
        views = entry.get("views", [])
        self.n_first = len(views) + (self.n_functions > 0)
        self.n_next = sum(views) + self.n_functions - self.n_first

    def find_gradients(self):
        """Of parameters: bytes."""
        found = {}
        for nest in self.nests:
            for operand in (nest["inputs"][i] for i in nest["gradients"]):
                x = self.tensors.made.get(operand["tensor"])
                if operand["parameter"] and operand["tensor"] not in self.tensors.written and x is not None:
                    found[operand["tensor"]] = x.nbytes
        return list(found.values())

    def forget_outputs(self):
        self.tensors.made = dict(self.outside)

    def forward(self):
        self.run(self.nests, self.tensors)
        written = [nest["output"]["tensor"] for nest in self.nests if nest["output"]["tensor"] in self.tensors.made]
        return self.tensors.made[written[-1]]
