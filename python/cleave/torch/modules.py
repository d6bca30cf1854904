"""The forward of a module that a plan names: its input is brought to where the plan wants it, it computes on parts, and
what it gives is a DTensor."""
import dataclasses
import inspect

import torch
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map_only

from ..plan import Part
from . import lie, local, made


def by_place(module, arguments, keywords):
    """What a module is given, the first of it by its place, which people may give by name."""
    first = next((name for name in inspect.signature(type(module).forward).parameters if name != "self"), None)
    if arguments or first not in keywords:
        return arguments, keywords
    return (keywords[first],), {name: x for name, x in keywords.items() if name != first}


def _as_given(part, rank, is_table):
    """The part of a module that gives so many dimensions, where the plan has others: the first and the last are what they
    were.  Rows of a table that a plan adds to something (positions), of which it knows no ids, are looked up by all."""
    def place(word):
        d = int(word[1:]) if word[0] == "S" else 0
        at = d if d == 0 else rank - 1 if d == part.rank - 1 else d + rank - part.rank
        return word if at == d else f"S{at}" if at > 0 else "R"

    words = {key: [place(word) for word in getattr(part, key)] for key in ("input", "output", "then")}
    axes = [None if was != "R" and word == "R" else axis for axis, was, word in zip(part.axes, part.input, words["input"])]
    if is_table and part.type != "Gather":
        rows = {"S0": "P", "S1": f"S{rank - 1}"}
        words["input"] = [word if lie.is_alone(word) else "R" for word in part.input]
        words["output"] = [rows.get(word, word) for word in part.parameters["weight"]]
        axes = [axis if word[0] == "S" else None for axis, word in zip(part.axes, part.parameters["weight"])]
    return dataclasses.replace(part, rank=rank, axes=axes, type="Gather" if is_table else part.type, **words)


def _by_samples(part):
    """The part of a module that does more than a plan knows of it (a norm over groups of channels, cut as what follows it): whole
    but for samples."""
    cut = [word[0] == "S" and word != "S0" for word in part.input]

    def uncut(words):
        return ["R" if gone else word for gone, word in zip(cut, words)]
    return dataclasses.replace(part, axes=[None if gone else axis for gone, axis in zip(cut, part.axes)],
                               input=uncut(part.input), output=uncut(part.output),
                               parameters={name: uncut(words) for name, words in part.parameters.items()})


class Run:
    """The forward of one module under a plan."""

    def __init__(self, module, part, mesh, state):
        weight = part.parameters.get("weight")
        if isinstance(module, torch.nn.Linear) and module.bias is not None and weight and "bias" not in part.parameters:
            # Tied to another's, by whose name the plan has it.
            bias = [word if word == "S0" or lie.is_alone(word) else "R" for word in weight]
            part = dataclasses.replace(part, parameters={**part.parameters, "bias": bias})
        part = _by_samples(part) if isinstance(module, torch.nn.GroupNorm) else part
        self.module, self.part, self.mesh, self.state = module, part, mesh, state
        self.rule = local.rule(module)
        self.partial = [i for i, word in enumerate(part.output) if word == "P"]
        self.gradients = {name: part.gradient(words) for name, words in part.parameters.items()}
        self.input_gradient = part.gradient(part.input)
        self.shapes, self.as_others, self.fit = {}, {}, {}
        # A bias is added to whole sums, where the module lets it be.
        self.adds_later = bool(self.partial) and "bias" in part.parameters and \
            isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd))

    def bring(self, module, name, words, gradient):
        """This rank's part of a parameter as it is used, moved once for all micro-batches of a step."""
        def move():
            return lie.enter(getattr(module, name), self.mesh, words, gradient, later=True)
        return self.state.held.take((module, name), move) if self.state.held is not None else move()

    def tensors(self):
        here = {}
        for name, words in self.part.parameters.items():
            if self.adds_later and name == "bias":
                continue
            here[name] = self.bring(self.module, name, words, self.gradients[name])
        if self.adds_later:
            here["bias"] = None
        elif "bias" in here and any(self.mesh.get_local_rank(i) != 0 for i in self.partial):
            here["bias"] = here["bias"] * 0  # of parts that add up one has it
        return here

    def add_bias(self, y):
        """To y as it lies by now, which says how the bias and its gradient do."""
        channel = y.dim() - 1 if isinstance(self.module, torch.nn.Linear) else 1
        then, mesh = self.part.then, self.mesh
        words = ["S0" if word == f"S{channel}" else word if lie.is_alone(word) else "R" for word in then]
        gradient = [word if word != "R" or place == "R" else "P" for word, place in zip(words, then)]
        bias = self.bring(self.module, "bias", words, gradient)
        bias = bias.reshape([-1] + [1] * (y.dim() - 1 - channel))
        here = lie.local(y, mesh, then)
        here = lie.nothing([here, bias]) if lie.is_absent(mesh, then) else here + bias
        return lie.join(here, mesh, then, y.shape)

    def shape(self, x, rest, keywords):
        """What the module makes of the whole: blocks may be unequal, so a part does not tell."""
        key = (x.shape, x.dtype)
        if key not in self.shapes:
            whole = {name: torch.empty(p.shape, dtype=p.dtype, device="meta")
                     for store in (self.module._parameters, self.module._buffers) for name, p in store.items()
                     if p is not None} | made.on_meta(self.module)
            x, rest, keywords = tree_map_only(
                torch.Tensor, lambda other: torch.empty(other.shape, dtype=other.dtype, device="meta"), (x, rest, keywords))
            with torch.no_grad(), local.instead(self.module, whole):
                y = type(self.module).forward(self.module, x, *rest, **keywords)
            self.shapes[key] = y.shape
        return self.shapes[key]

    def __call__(self, *arguments, **keywords):
        arguments, keywords = by_place(self.module, arguments, keywords)
        layer = self.state.layer
        if self.state.surveys:
            return type(self.module).forward(self.module, *arguments, **keywords)
        if not arguments or not isinstance(arguments[0], torch.Tensor):  # it has itself what the plan's operator is given
            return Whole(self.module, whole_part(self.module, self.mesh), self.mesh, self.state).alike(*arguments, **keywords)
        x, *rest = arguments
        if layer is None:
            return self.as_given(x, rest, keywords).run(x, *rest, **keywords)
        if self.is_local(layer):
            return local.plain(self.module, self.part, layer.own(x), self.tensors(), self.mesh, None, rest, keywords)
        return self.as_given(x, rest, keywords).run(layer.join(x), *rest, **keywords)

    def fits(self, x, rest, keywords):
        """Does a module of one's own make of parts what the plan says?  It may turn what it is given (channels last) before it
        does what the plan knows of it."""
        module, part, mesh = self.module, self.part, self.mesh
        if type(module).__module__.startswith("torch.nn.") or self.rule is not local.plain or \
                not any(word[0] == "S" and word != "S0" for word in part.input):
            return True
        key = x.shape
        if key not in self.fit:
            here = {name: torch.empty(lie.largest_part(module._parameters[name].shape, words, mesh), dtype=x.dtype, device="meta")
                    for name, words in part.parameters.items() if module._parameters.get(name) is not None}
            shapes = [lie.largest_part(shape, words, mesh)
                      for shape, words in ((x.shape, part.input), (self.shape(x, rest, keywords), part.output))]
            given, rest, keywords = tree_map_only(torch.Tensor, lambda y: torch.empty(y.shape, dtype=y.dtype, device="meta"),
                                                  (torch.empty(shapes[0], dtype=x.dtype, device="meta"), rest, keywords))
            try:
                with torch.no_grad():
                    y = local.plain(module, part, given, here, mesh, x.shape, rest, keywords)
                self.fit[key] = list(y.shape) == shapes[1]
            except RuntimeError:
                self.fit[key] = False
        return self.fit[key]

    def as_given(self, x, rest, keywords):
        """The same as it is called: a plan's model may have samples and tokens as dimensions of their own, where the module is
        given both in one, or others of one element between them, and of positions those of each sample."""
        rank, is_table = len(self.shape(x, rest, keywords)), isinstance(self.module, torch.nn.Embedding)
        if self.part.rank in (None, rank) and not (is_table and self.part.type != "Gather"):
            if self.fits(x, rest, keywords):
                return self
            if None not in self.as_others:
                self.as_others[None] = Run(self.module, _by_samples(self.part), self.mesh, self.state)
            return self.as_others[None]
        if rank not in self.as_others:
            self.as_others[rank] = Run(self.module, _as_given(self.part, rank, is_table), self.mesh, self.state)
        return self.as_others[rank]

    def is_local(self, layer):
        """Is it given tokens as the layer of experts has them in which it is called, and gives the same?"""
        return self.rule is local.plain and self.part.input == self.part.output == self.part.then == layer.words

    def run(self, x, *rest, **keywords):
        x = lie.move(x, self.mesh, self.part.input, self.input_gradient)
        here = lie.local(x, self.mesh, self.input_gradient)
        rest, keywords = tree_map_only(DTensor, lambda other: lie.whole(other, self.mesh), (rest, keywords))
        tensors = self.tensors()
        if lie.is_absent(self.mesh, self.part.input):
            y = local.skip(self.module, [here, *tensors.values()])
        else:
            y = self.rule(self.module, self.part, here, tensors, self.mesh, x.shape, rest, keywords)
        y = lie.join(y, self.mesh, self.part.output, self.shape(x, rest, keywords), self.part.then)
        return self.add_bias(y) if self.adds_later else y


def whole_part(module, mesh):
    """The part of a module that does the same on every rank."""
    whole = ["R"] * mesh.ndim
    return Part("", "", [None] * mesh.ndim, whole, whole, whole,
                {name: whole for name, parameter in module._parameters.items() if parameter is not None})


class Whole(Run):
    """The forward of a module that all ranks run alike, whatever it is given and gives."""

    def __call__(self, *arguments, **keywords):
        here = self.state.surveys or self.state.layer is not None
        return super().__call__(*arguments, **keywords) if here else self.alike(*arguments, **keywords)

    def alike(self, *arguments, **keywords):
        whole = self.part.input
        arguments, keywords = tree_map_only(
            DTensor, lambda x: lie.local(lie.move(x, self.mesh, whole, whole), self.mesh, whole), (arguments, keywords))
        tensors = self.tensors()
        if isinstance(self.module, torch.nn.RNNBase):  # which reads a list of them
            tensors["_flat_weights"] = [tensors.get(name) for name in self.module._flat_weights_names]
        with local.instead(self.module, tensors):
            given = type(self.module).forward(self.module, *arguments, **keywords)
        return tree_map_only(torch.Tensor, lambda y: lie.join(y, self.mesh, whole, y.shape), given)
