"""Makes a model run a plan: between modules DTensors, in them plain local parts.

DTensor's own rules for what modules do are not used, since some are slow (they gather) and some wrong or missing: a
convolution cut by its input channels, batch normalization.  A module that the plan names has its input brought to where
the plan wants it, computes on parts, and its output is a DTensor again.  Functions between modules are DTensor's.
"""
import contextlib

import torch
import torch.distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from ..command import CleaveError
from ..plan import Part, load
from . import clip, lie, local, pages, stages
from .functions import Functions, register_loss


def mesh(plan, device=None):
    """The mesh that a plan wants, of all ranks; `device`: "cuda" where there is one, else "cpu"."""
    plan = load(plan)
    world = torch.distributed.get_world_size()
    if plan.devices != world:
        raise CleaveError(f"{plan.file}: is for {plan.devices} devices, and there are {world} ranks")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    names = [f"d{i}" for i in range(len(plan.mesh))]
    names = [stages.DIMENSION] + names if plan.schedule.stages else names or ["d0"]
    return init_device_mesh(device, tuple(_sizes(plan)), mesh_dim_names=tuple(names))


def _sizes(plan):
    """Of the dimensions of the mesh: groups of stages are the outermost."""
    return [plan.schedule.groups] * bool(plan.schedule.stages) + plan.mesh or [1]


def _check_mesh(plan, mesh):
    sizes = [mesh.size(i) for i in range(mesh.ndim)]
    if sizes != _sizes(plan):
        have, want = " x ".join(map(str, sizes)), " x ".join(map(str, _sizes(plan)))
        raise CleaveError(f"{plan.file}: is for a mesh of {want} devices, and this one is {have}")


def _check_model(plan, model):
    """Every module and parameter of the plan is there, of the plan's shape."""
    modules, parameters = dict(model.named_modules()), dict(model.named_parameters(remove_duplicate=False))
    origin = f"{plan.file}: the plan is of {plan.model.get('file')}"
    begins = [stage.begins for stage in plan.schedule.stages]
    for name in (*plan.modules, *plan.functions, *plan.recompute, *begins):
        if name not in modules:
            raise CleaveError(f"{origin}, and this model has no module {name}")
    for name in plan.recompute:
        if type(modules[name]).forward is torch.nn.Module.forward:
            raise CleaveError(f"{origin}, and this model's {name} is not called itself, and so can't run again")
    for name, stored in plan.parameters.items():
        if name not in parameters:
            raise CleaveError(f"{origin}, and this model has no parameter {name}")
        if list(parameters[name].shape) != stored.shape:
            raise CleaveError(f"{origin}, whose {name} is {stored.shape}, and here it is {list(parameters[name].shape)}")
    for name, part in plan.modules.items():
        for own in part.parameters:
            if modules[name]._parameters.get(own) is None:
                raise CleaveError(f"{origin}, and this model's {name} has no parameter {own}")


class _Storage:
    """Where parameters live between steps; one that is tied is one DTensor in all its modules."""

    def __init__(self, plan, model, mesh):
        self.mesh, self.made = mesh, {}
        named = dict(model.named_parameters(remove_duplicate=False))
        self.words = {id(named[name]): entry.stored for name, entry in plan.parameters.items() if name in named}

    def distribute(self, parameter):
        if isinstance(parameter, DTensor):
            return parameter
        key = id(parameter)
        if key not in self.made:
            words = self.words.get(key, ["R"] * self.mesh.ndim)
            spread = lie.spread(parameter.data, self.mesh, words)
            self.made[key] = (torch.nn.Parameter(spread, requires_grad=parameter.requires_grad), parameter)
        return self.made[key][0]


class _Run:
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

    def bring(self, name, words, gradient):
        """This rank's part of a parameter as it is used, moved once for all micro-batches of a step."""
        def move():
            return lie.enter(self.module._parameters[name], self.mesh, words, gradient, later=True)
        return self.state.held.take((self.module, name), move) if self.state.held is not None else move()

    def tensors(self):
        here = {}
        for name, words in self.part.parameters.items():
            if self.adds_later and name == "bias":
                continue
            here[name] = self.bring(name, words, self.gradients[name])
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
        bias = self.bring("bias", words, gradient)
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
        if self.state.surveys:
            return type(self.module).forward(self.module, x, *rest, **keywords)
        x = lie.move(x, self.mesh, self.part.input, self.input_gradient)
        here = lie.local(x, self.mesh, self.input_gradient)
        rest, tensors = [lie.whole(other, self.mesh) for other in rest], self.tensors()
        if lie.is_absent(self.mesh, self.part.input):
            y = local.skip(self.module, [here, *tensors.values()])
        else:
            y = self.rule(self.module, self.part, here, tensors, self.mesh, x.shape, rest, keywords)
        y = lie.join(y, self.mesh, self.part.output, self.shape(x, rest, keywords), self.part.then)
        return self.add_bias(y) if self.adds_later else y


class _Within:
    """The forward of a module that calls functions: those that the plan names, and those that DTensor lacks.  What a
    stage makes of their arguments comes first, so its mode lies on top."""

    def __init__(self, forward, mesh, attention, state, result=None):
        self.forward, self.mesh, self.attention, self.state, self.result = forward, mesh, attention, state, result

    def __call__(self, *arguments, **keywords):
        with Functions(self.mesh, self.attention), self.state.running or contextlib.nullcontext():
            y = self.forward(*arguments, **keywords)
        return self.result(y) if self.result else y


def _run_others_whole(modules, plan, mesh, state):
    """What has parameters and is not in the plan does the same on every rank."""
    whole = ["R"] * mesh.ndim
    for name, module in modules.items():
        own = [key for key, parameter in module._parameters.items() if parameter is not None]
        if own and name not in plan.modules and not module._modules:
            part = Part("", "", [None] * mesh.ndim, whole, whole, whole, {key: whole for key in own})
            local.spread_buffers(module, part, mesh)
            module.forward = _Run(module, part, mesh, state)


def _run_in_parts(model, plan, mesh, state):
    """On a mesh of several ranks: parameters, modules and functions."""
    storage = _Storage(plan, model, mesh)
    modules = dict(model.named_modules())
    for module in modules.values():
        for own, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[own] = storage.distribute(parameter)
    for name, part in plan.modules.items():
        if not isinstance(modules[name], torch.nn.modules.dropout._DropoutNd):  # it is a function of its input alone
            local.spread_buffers(modules[name], part, mesh)
            modules[name].forward = _Run(modules[name], part, mesh, state)
    _run_others_whole(modules, plan, mesh, state)
    for name, part in plan.functions.items():
        modules[name].forward = _Within(modules[name].forward, mesh, part, state)


def _run_again(model, plan, mesh, state):
    """Modules that keep what they are given, and not what they make of it."""
    for name in plan.recompute:
        module = model.get_submodule(name)
        module.forward = stages.Again(module.forward, lambda: Functions(mesh, None) if mesh else None, state)


def apply(model, plan, mesh=None, keep_memory=True):
    """Makes `model` run `plan` on `mesh` (default cleave.torch.mesh(plan)), in place, and returns it.

    Parameters become DTensors under their names; make the optimizer after this.  Every rank gives the whole batch to
    the model and takes its part of it.  In stages or micro-batches cleave.torch.steps does what a step does; a rank has
    the parameters of its own stages alone.  What the model returns is a DTensor for torch.nn.functional.cross_entropy, or
    whole where the plan has no loss.  A parameter that the plan does not name is whole on every rank.
    `keep_memory`: on processors malloc keeps what is freed, for the next step; False leaves it as it was.
    """
    plan = load(plan)
    if plan.target != "torch":
        raise CleaveError(f"{plan.file}: is a plan for {plan.target}: export it with --to torch")
    if mesh is None:
        mesh = globals()["mesh"](plan)
    if not isinstance(mesh, DeviceMesh):
        raise CleaveError(f"the mesh is a {type(mesh).__name__}: cleave.torch.mesh(plan) makes one")
    _check_mesh(plan, mesh)
    _check_model(plan, model)
    if keep_memory and mesh.device_type == "cpu":
        pages.keep()
    state = model.__dict__["_cleave"] = stages.State(plan, mesh)
    for module in model.modules():
        if getattr(module, "inplace", False) and (plan.mesh or plan.schedule.stages):
            module.inplace = False  # what has to move first, or has come from elsewhere, can't be written over
    if plan.schedule.stages:
        state.keep_own_parameters(model)
    if plan.mesh:
        lie.plan_on(state.inner)
        clip.register()
        _run_in_parts(model, plan, state.inner, state)
    _run_again(model, plan, state.inner, state)
    if plan.mesh:
        model.forward = _Within(model.forward, state.inner, None, state,
                                None if plan.loss else lambda y: lie.whole(y, state.inner))
        if plan.loss:
            register_loss(state.inner, plan.loss)
    if plan.schedule.stages:
        state.take_over(model)
    return model
