"""A plan of Cleave in JAX: a NamedSharding for every parameter, a constraint around every module; XLA does the rest.

    plan = cleave.jax.Plan("net.plan.json")                        # of `cleave export --to jax`
    params = plan.put(params)                                      # {"dense.0.weight": array, ...}
    def dense(x): return plan.after("dense.0", plan.before("dense.0", x) @ plan.weight("dense.0", "weight", w).T)
    logits = plan.logits(logits)

or, of a model in Flax (linen) whose modules are called as in the plan, without a change:  with plan.flax(): model.apply(...)
"""
import re

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from .command import CleaveError
from .plan import load


class Plan:
    def __init__(self, file, devices=None):
        self.plan = load(file)
        if self.plan.target != "jax":
            raise CleaveError(f"{self.plan.file}: is a plan for {self.plan.target}: export it with --to jax")
        devices = jax.devices() if devices is None else devices
        if len(devices) != self.plan.devices:
            raise CleaveError(f"{self.plan.file}: is for {self.plan.devices} devices, and there are {len(devices)}")
        shape = tuple(self.plan.mesh) or (1,)
        self.axes = tuple(f"d{i}" for i in range(len(shape)))
        self.mesh = Mesh(numpy.array(devices).reshape(shape), self.axes)

    def sharding(self, words, rank):
        """By dimension of a tensor the axes of the mesh that cut it, of a word for each axis of the mesh."""
        cuts = [[] for _ in range(rank)]
        for axis, word in zip(self.axes, words):
            if word[0] == "S":
                cuts[int(word[1:])].append(axis)
        return NamedSharding(self.mesh, PartitionSpec(*(tuple(c) or None for c in cuts)))

    def stored(self, name, rank):
        """Where a parameter lies between steps; whole where the plan does not name it."""
        entry = self.plan.parameters.get(name)
        return self.sharding(entry.stored if entry else [], rank)

    def put(self, params):
        for name, entry in self.plan.parameters.items():
            have = list(params[name].shape) if name in params else None
            if have != entry.shape:
                raise CleaveError(f"{self.plan.file}: the plan is of {self.plan.model.get('file')}, whose {name} is "
                                  f"{entry.shape}, and here {f'it is {have}' if have else 'there is none'}")
        return {name: jax.device_put(value, self.stored(name, value.ndim)) for name, value in params.items()}

    def _module(self, name):
        if name not in self.plan.modules:
            raise CleaveError(f"{self.plan.file}: names no module {name}")
        return self.plan.modules[name]

    def _constrain(self, x, words):
        return jax.lax.with_sharding_constraint(x, self.sharding(words, x.ndim))

    def before(self, module, x):
        return self._constrain(x, self._module(module).input)

    def after(self, module, y):
        """Partial sums have no word in JAX: XLA adds them up on the way to where the plan wants the output.  Where it has to
        move what else is cut at once, it gets sums wrong, so there they are added up first."""
        part = self._module(module)
        if any(word not in ("P", then) for word, then in zip(part.output, part.then)) and "P" in part.output:
            y = self._constrain(y, ["R" if word == "P" else word for word in part.output])
        return self._constrain(y, part.then)

    def weight(self, module, own, value):
        return self._constrain(value, self._module(module).parameters[own])

    def logits(self, y):
        return self._constrain(y, self.plan.loss.input) if self.plan.loss else y

    def flax(self):
        """Within this, modules of Flax (linen) that the plan names have their inputs and outputs constrained."""
        import flax.linen as nn

        def constrain(call, args, kwargs, context):
            name = ".".join(context.module.path)
            if context.method_name != "__call__" or name not in self.plan.modules:
                return call(*args, **kwargs)
            return self.after(name, call(self.before(name, args[0]), *args[1:], **kwargs))

        return nn.intercept_methods(constrain)


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
