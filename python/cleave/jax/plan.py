"""A plan, and where it has a model's arrays lie."""
import math

import jax
import numpy
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..command import CleaveError
from ..place import nearest, place
from ..plan import load
from ..stacked import behind, stack
from .names import named_leaves


# What XLA may get wrong where it is left to choose: docs/jax.md.
WINDOWED = ("Conv", "ConvTranspose")


class Plan:
    """Of a file that `cleave export --to jax` wrote, on as many devices.

    `unmatched`: by name what of the plan is not kept to so far, and why: modules that were not called (once a step is traced,
    those that never are), tensors of other shapes than the plan's, parameters that it has not."""

    def __init__(self, file, devices=None, axes=None, stacked=()):
        """`axes`: names for the dimensions of the mesh; d0, d1, ... else.  `stacked`: paths of layers that the plan has one by
        one, "layers.0", "layers.1", ..., and parameters here along a first dimension, as those of a scan."""
        self.plan, differs = load(file), {}
        for path in stacked:
            self.plan, more = stack(self.plan, path)
            differs.update(more)
        if self.plan.target != "jax":
            raise CleaveError(f"{self.plan.file}: is a plan for {self.plan.target}: export it with --to jax")
        devices = jax.devices() if devices is None else devices
        if len(devices) != self.plan.devices:
            raise CleaveError(f"{self.plan.file}: is for {self.plan.devices} devices, and there are {len(devices)}")
        shape = tuple(self.plan.mesh) or (1,)
        self.axes = tuple(axes or (f"d{i}" for i in range(len(shape))))
        if len(self.axes) != len(shape) or len(set(self.axes)) < len(shape):
            raise CleaveError(f"{self.plan.file}: has a mesh of {len(shape)} dimensions, and {self.axes} does not name as many")
        self.mesh = Mesh(numpy.array(devices).reshape(shape), self.axes)
        self.unmatched = {name: "no module of this name was called" for name in self.plan.modules} | differs
        self._in_stack = tuple(f"{path}." for path in stacked)

    # ---- parameters ----

    def sharding(self, words, rank):
        """Of a tensor, of a word for each axis of the mesh."""
        cuts = [[] for _ in range(rank)]
        for axis, word in zip(self.axes, words):
            if word[0] == "S":
                cuts[int(word[1:])].append(axis)
        return self._named(cuts)

    def _named(self, cuts):
        """By dimension of a tensor the axes of the mesh that cut it."""
        return NamedSharding(self.mesh, PartitionSpec(*(tuple(c) or None for c in cuts)))

    def stored(self, name, rank):
        """Where a parameter lies between steps; whole where the plan does not name it."""
        entry = self.plan.parameters.get(name)
        return self.sharding(entry.stored if entry else [], rank)

    def shardings(self, tree, params=None):
        """Where the arrays of a tree lie between steps, as a tree of NamedSharding: of parameters, by their paths; or with
        `params`, of what an optimizer keeps of these: what has a parameter's path behind its own, and its shape, lies as it."""
        leaves, structure = named_leaves(tree)
        if params is None:
            self._check({name: list(x.shape) for name, x in leaves})
            return jax.tree.unflatten(structure, [self.stored(name, len(x.shape)) for name, x in leaves])
        shapes = {name: tuple(x.shape) for name, x in named_leaves(params)[0]}

        def find(name, shape):
            parts = name.split(".")
            behind = (".".join(parts[i:]) for i in range(len(parts)))
            found = next((n for n in behind if n in shapes), None)
            return self.stored(found if shapes.get(found) == shape else None, len(shape))

        return jax.tree.unflatten(structure, [find(name, tuple(numpy.shape(x))) for name, x in leaves])

    def _check(self, shapes):
        for name, entry in self.plan.parameters.items():
            have = shapes.get(name)
            if have != entry.shape:
                raise CleaveError(f"{self.plan.file}: the plan is of {self.plan.model.get('file')}, whose {name} is "
                                  f"{entry.shape}, and here {f'it is {have}' if have else 'there is none'}")
        for name in shapes:
            if name not in self.plan.parameters:
                self.unmatched[name] = "a parameter that the plan does not name: whole on every device"

    def put(self, params):
        """The parameters, or of a tree like them, where they lie between steps."""
        return jax.device_put(params, self.shardings(params))

    def used(self, params):
        """Within a step: the parameters as they lie while they are used."""
        words = {}
        for name, part in self.plan.modules.items():
            for own, lie in part.parameters.items():
                parameter = f"{name.partition(':')[0]}.{own}"  # of a method, a module's
                words.setdefault(parameter, list(map(behind, lie)) if name.startswith(self._in_stack) else lie)
        leaves, structure = named_leaves(params)
        return jax.tree.unflatten(structure, [self._constrain(x, words[name]) if name in words else x for name, x in leaves])

    def rules(self, specs):
        """The plan as rules of logical axes, [(logical axis, axes of the mesh or None)], for parameters that have such: `specs`
        is what nn.get_partition_spec or nnx.get_partition_spec makes of them.  Where parameters of one logical axis lie
        differently, as most of their elements do; those that lie otherwise by the rules are in `unmatched`."""
        from flax.linen import logical_to_mesh_axes

        def plain(spec, rank):
            axes = [() if axis is None else (axis,) if isinstance(axis, str) else tuple(axis) for axis in spec]
            return axes + [()] * (rank - len(axes))

        named = [(name, spec, self.plan.parameters[name].shape)
                 for name, spec in named_leaves(specs, lambda x: isinstance(x, PartitionSpec))[0]
                 if isinstance(spec, PartitionSpec) and name in self.plan.parameters]
        elements = {}
        for name, spec, shape in named:
            for logical, axes in zip(spec, plain(self.stored(name, len(shape)).spec, len(shape))):
                if logical is not None:
                    of = elements.setdefault(logical, {})
                    of[axes] = of.get(axes, 0) + math.prod(shape)
        rules = [(logical, max(of, key=of.get) or None) for logical, of in elements.items()]
        for name, spec, shape in named:
            planned = plain(self.stored(name, len(shape)).spec, len(shape))
            ruled = plain(logical_to_mesh_axes(tuple(spec), rules), len(shape))
            if ruled != planned:
                self.unmatched[name] = f"lies as {planned} by the plan, and as {ruled} by the rules"
        return rules

    # ---- modules ----

    def _module(self, name):
        if name not in self.plan.modules:
            raise CleaveError(f"{self.plan.file}: names no module {name}")
        return self.plan.modules[name]

    def _constrain(self, x, words):
        return jax.lax.with_sharding_constraint(x, self.sharding(words, x.ndim))

    def _lie(self, module, x, words, shape, flax):
        """x as the words say of a tensor of this shape, whose dimensions it may have in groups; as far as it has such blocks."""
        sizes = [self.mesh.shape[axis] for axis in self.axes]
        kind = self.plan.modules[module].type if flax else None
        cuts = place(words, sizes, shape, x.shape, kind)
        if isinstance(cuts, str):
            self.unmatched[module] = cuts
            cuts = nearest(words, sizes, shape, x.shape, kind)
        if cuts is None and kind not in WINDOWED:
            return x
        cuts = cuts or [[] for _ in x.shape]
        return jax.lax.with_sharding_constraint(x, self._named([[self.axes[i] for i in c] for c in cuts]))

    def before(self, module, x, flax=False):
        part = self._module(module)
        self.unmatched.pop(module, None)
        return self._lie(module, x, part.input, part.input_shape, flax)

    def after(self, module, y, flax=False):
        """First whole or cut as the module gives it, then as the plan wants it: where XLA has to make a sum, or a convolution, and
        move what is cut otherwise at once, it gets values wrong.  Partial sums have no word in JAX: XLA adds them up at first."""
        part = self._module(module)
        given = ["R" if word == "P" else word for word in part.output]
        if given != part.then:
            y = self._lie(module, y, given, part.output_shape, flax)
        return self._lie(module, y, part.then, part.output_shape, flax)

    def weight(self, module, own, value):
        return self._constrain(value, self._module(module).parameters[own])

    def logits(self, y):
        return self._constrain(y, self.plan.loss.input) if self.plan.loss else y

    def flax(self, model=None):
        """Within this, modules of Flax that the plan names have their inputs and outputs constrained: of linen all that are
        called, of NNX those of `model`, as it is called here (after nnx.merge)."""
        from .calls import linen_calls, nnx_calls

        return linen_calls(self) if model is None else nnx_calls(self, model)
