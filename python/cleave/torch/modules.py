"""The forward of a module that a plan names: its input is brought to where the plan wants it, it computes on parts, and
what it gives is a DTensor."""
import dataclasses

import torch

from . import lie, local


class Run:
    """The forward of one module under a plan."""

    def __init__(self, module, part, mesh, state):
        self.module, self.part, self.mesh, self.state = module, part, mesh, state
        self.rule = local.rule(module)
        self.partial = [i for i, word in enumerate(part.output) if word == "P"]
        self.gradients = {name: part.gradient(words) for name, words in part.parameters.items()}
        self.input_gradient = part.gradient(part.input)
        self.shapes = {}
        # A bias is added to whole sums, where the module lets it be.
        self.adds_later = bool(self.partial) and "bias" in part.parameters and \
            isinstance(module, (torch.nn.Linear, torch.nn.modules.conv._ConvNd))

    def bring(self, module, name, words, gradient):
        """This rank's part of a parameter as it is used, moved once for all micro-batches of a step."""
        def move():
            return lie.enter(module._parameters[name], self.mesh, words, gradient, later=True)
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
                     if p is not None}
            with torch.no_grad(), local.instead(self.module, whole):
                y = type(self.module).forward(self.module, torch.empty(x.shape, dtype=x.dtype, device="meta"), *rest,
                                              **keywords)
            self.shapes[key] = y.shape
        return self.shapes[key]

    def __call__(self, x, *rest, **keywords):
        layer = self.state.layer
        if self.state.surveys:
            return type(self.module).forward(self.module, x, *rest, **keywords)
        if layer is None:
            return self.run(x, *rest, **keywords)
        if self.is_local(layer):
            return local.plain(self.module, self.part, layer.own(x), self.tensors(), self.mesh, None, rest, keywords)
        return self.as_flat(x).run(layer.join(x), *rest, **keywords)

    def as_flat(self, x):
        """The same for x, in a layer of experts: a linear module, which a plan has with samples and tokens as dimensions
        of their own, may be given both in one; of tokens the plan cuts none."""
        if x.dim() != 2 or not isinstance(self.module, torch.nn.Linear):
            return self
        words = [[f"S{min(int(w[1:]), 1)}" if w[0] == "S" else w for w in lie]
                 for lie in (self.part.input, self.part.output, self.part.then)]
        part = dataclasses.replace(self.part, input=words[0], output=words[1], then=words[2])
        return Run(self.module, part, self.mesh, self.state)

    def is_local(self, layer):
        """Is it given tokens as the layer of experts has them in which it is called, and gives the same?"""
        return self.rule is local.plain and self.part.input == self.part.output == self.part.then == layer.words

    def run(self, x, *rest, **keywords):
        x = lie.move(x, self.mesh, self.part.input, self.input_gradient)
        here = lie.local(x, self.mesh, self.input_gradient)
        rest, tensors = [lie.whole(other, self.mesh) for other in rest], self.tensors()
        if lie.is_absent(self.mesh, self.part.input):
            y = local.skip(self.module, [here, *tensors.values()])
        else:
            y = self.rule(self.module, self.part, here, tensors, self.mesh, x.shape, rest, keywords)
        y = lie.join(y, self.mesh, self.part.output, self.shape(x, rest, keywords), self.part.then)
        return self.add_bias(y) if self.adds_later else y
