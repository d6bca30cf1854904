"""Layers of experts: in them all is local.

What routes tokens (indices, masks, loops over experts that were chosen, index_add_) DTensor has not, so the layer's own
forward runs on plain tensors: the tokens that this rank routes.  A module in it that the plan cuts otherwise is given a
DTensor of all ranks' tokens, and what it gives is this rank's again where functions put it together with plain tensors.

Experts that are cut by tokens run as they are; cut within each (by their hidden units) they run on all tokens and give
parts that add up; and where a rank has some of the experts, their module is called with the choices of these alone, as
rows that choose one expert each.  So the module may do with its choices what it likes, as long as it adds up what the
chosen experts make of a token, by their weights.
"""
import contextlib

import torch
from torch.distributed.tensor import DTensor
from torch.utils._pytree import tree_map_only

from ..command import CleaveError
from . import lie, local
from .functions import Functions
from .modules import Run, by_place


def name_experts(plan):
    return [name for name, part in plan.modules.items() if part.type == "Experts"]


class _Within(Functions):
    """Functions of a layer: where plain tensors and DTensors meet, these are this rank's tokens, too."""

    def __init__(self, mesh, layer):
        super().__init__(mesh, None)
        self.layer = layer

    def __torch_function__(self, func, types, args=(), kwargs=None):
        given = [x for x in _tensors((args, kwargs or {})) if x.dim() > 0]
        if any(isinstance(x, DTensor) for x in given) and not all(isinstance(x, DTensor) for x in given):
            args, kwargs = tree_map_only(DTensor, self.layer.own, (args, kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs)


def _tensors(value):
    found = []
    tree_map_only(torch.Tensor, found.append, value)
    return found


class Surveyed:
    """The forward of experts, which is no forward where a survey runs it on meta tensors: these have no values by which
    experts are chosen.  It gives what it is given another of."""

    def __init__(self, forward, state):
        self.forward, self.state = forward, state

    def __call__(self, *arguments, **keywords):
        return torch.empty_like(_tensors((arguments, keywords))[0]) if self.state.surveys else self.forward(*arguments, **keywords)


class Layer:
    """The forward of a layer of experts on a mesh of several ranks."""

    def __init__(self, module, part, mesh, state):
        self.module, self.forward, self.mesh, self.state = module, module.forward, mesh, state
        self.words, self.gradient = part.input, part.gradient(part.input)

    def own(self, x):
        """This rank's tokens, or the whole of a parameter."""
        if not isinstance(x, DTensor):
            return x
        if isinstance(x, torch.nn.Parameter):
            whole = ["R"] * self.mesh.ndim
            return lie.enter(x, self.mesh, whole, ["P" if word == "S0" else "R" for word in self.words], later=True)
        return lie.local(lie.move(x, self.mesh, self.words, self.gradient), self.mesh, self.gradient)

    def join(self, x):
        """All ranks' tokens."""
        if isinstance(x, DTensor):
            return x
        rows = x.shape[0]
        for i, word in enumerate(self.words):
            rows *= self.mesh.size(i) if word == "S0" else 1
        return lie.join(x, self.mesh, self.words, (rows, *x.shape[1:]))

    def __call__(self, *arguments, **keywords):
        (x, *rest), keywords = by_place(self.module, arguments, keywords)
        if self.state.surveys:
            return self.forward(x, *rest, **keywords)
        x = lie.local(lie.move(x, self.mesh, self.words, self.gradient), self.mesh, self.gradient)
        before, self.state.layer = self.state.layer, self
        try:
            with _Within(self.mesh, self):
                y = self.forward(x, *rest, **keywords)
        finally:
            self.state.layer = before
        return tree_map_only(torch.Tensor, self.join, y)


class Experts(Run):
    """The forward of the experts of a layer."""

    def __init__(self, module, part, mesh, state):
        super().__init__(module, part, mesh, state)
        self.within = [i for i, axis in enumerate(part.axes) if axis == "f"]
        self.apart = [i for i, axis in enumerate(part.axes) if axis == "e"]
        self.owners = {name: module.get_submodule(name.rpartition(".")[0]) for name in part.parameters}
        self.forward = module.forward

    def tensors(self):
        here = {}
        for name, words in self.part.parameters.items():
            owner, own = self.owners[name], name.rpartition(".")[2]
            x = self.bring(owner, own, words, self.gradients[name])
            # What is added to what units within an expert give together one of their ranks adds.
            if any(words[i] == "R" and self.mesh.get_local_rank(i) > 0 for i in self.within):
                x = x * 0
            here.setdefault(owner, {})[own] = x
        return here

    def call(self, tensors, n_experts, n, *arguments, **keywords):
        """The module's own forward with these parameters, as one of n of its experts."""
        counts = {name: n for name, value in self.module.__dict__.items()
                  if "experts" in name and type(value) is int and value == n_experts}
        with contextlib.ExitStack() as stack:
            for owner, own in tensors.items():
                stack.enter_context(local.instead(owner, own))
            stack.enter_context(local.instead(self.module, counts))
            return self.forward(*arguments, **keywords)

    def choose(self, tensors, arguments, keywords):
        """What this rank's experts make of all tokens: of each choice of one of them a row."""
        given = _tensors((arguments, keywords))
        x, index = given[0], next((y for y in given if not y.is_floating_point()), None)
        weights = next((y for y in given[1:] if y.is_floating_point() and index is not None and y.shape == index.shape), None)
        if weights is None:
            raise CleaveError(f"{self.part.operator}: some experts are on each rank, and their module is not called with "
                              "tokens, their choices, and weights of these")
        n_experts = getattr(self.module, "num_experts", None) or len(next(iter(self.module.parameters())))
        first, n = lie.block(n_experts, ["S0" if axis == "e" else "R" for axis in self.part.axes], 0, self.mesh)
        rows = x.flatten(0, -2)
        token, place = ((index >= first) & (index < first + n)).nonzero(as_tuple=True)
        y = rows.new_zeros(rows.shape)
        if len(token) == 0:
            nothing = lie.nothing([rows, weights, *(t for own in tensors.values() for t in own.values())])
            return (y + nothing.sum()).view(x.shape)
        mine = {id(x): rows[token], id(index): index[token, place, None] - first, id(weights): weights[token, place, None]}
        arguments, keywords = tree_map_only(torch.Tensor, lambda t: mine.get(id(t), t), (arguments, keywords))
        made = self.call(tensors, n_experts, n, *arguments, **keywords).reshape(-1, rows.shape[1])
        return y.index_add(0, token, made.to(y.dtype)).view(x.shape)

    def __call__(self, *arguments, **keywords):
        layer = self.state.layer
        tensors = self.tensors()
        if self.part.input == self.part.output == layer.words:
            return self.call(tensors, None, None, *tree_map_only(DTensor, layer.own, arguments),
                             **tree_map_only(DTensor, layer.own, keywords))

        def enter(x):
            return lie.local(lie.move(layer.join(x), self.mesh, self.part.input, self.input_gradient), self.mesh,
                             self.input_gradient)

        given = _tensors((arguments, keywords))[0]
        arguments, keywords = tree_map_only(torch.Tensor, enter, (arguments, keywords))
        y = self.choose(tensors, arguments, keywords) if self.apart else \
            self.call(tensors, None, None, *arguments, **keywords)
        y = lie.join(y, self.mesh, self.part.output, layer.join(given).shape, layer.words)
        return lie.local(y, self.mesh, layer.gradient)
