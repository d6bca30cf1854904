"""Makes a model run a plan: between modules DTensors, in them plain local parts.

DTensor's own rules for what modules do are not used, since some are slow (they gather) and some wrong or missing: a
convolution cut by its input channels, batch normalization.  A module that the plan names has its input brought to where
the plan wants it, computes on parts, and its output is a DTensor again.  Functions between modules are DTensor's.
"""
import contextlib
import inspect

import torch
import torch.distributed
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn.utils.parametrize import ParametrizationList

from ..command import CleaveError
from ..plan import load
from . import again, clip, lie, lists, local, made, pages, stages
from .experts import Experts, Layer, Surveyed, name_experts
from .functions import Functions, register_loss
from .modules import Run, Whole, whole_part
from .names import as_here, unwrapped


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
    modules = dict(model.named_modules(remove_duplicate=False))
    made.check(plan, modules)
    shapes = made.shapes(model)
    origin = f"{plan.file}: the plan is of {plan.model.get('file')}"
    begins = [stage.begins for stage in plan.schedule.stages]
    for name in (*plan.modules, *plan.functions, *plan.recompute, *begins):
        if name not in modules:
            raise CleaveError(f"{origin}, and this model has no module {name}")
    for name in plan.recompute:
        if type(modules[name]).forward is torch.nn.Module.forward:
            raise CleaveError(f"{origin}, and this model's {name} is not called itself, and so can't run again")
    for name, stored in plan.parameters.items():
        if name not in shapes:
            raise CleaveError(f"{origin}, and this model has no parameter {name}")
        if list(shapes[name]) != stored.shape:
            raise CleaveError(f"{origin}, whose {name} is {stored.shape}, and here it is {list(shapes[name])}")
    for name, part in plan.modules.items():
        for own in part.parameters:
            if f"{name}.{own}" not in shapes:
                raise CleaveError(f"{origin}, and this model's {name} has no parameter {own}")


def _check_tables(plan, modules):
    """What a table does to itself by the ids that it is given can't be done by parts of it, nor by a copy."""
    for name, module in modules.items():
        for what in ("max_norm", "scale_grad_by_freq"):
            if isinstance(module, (torch.nn.Embedding, torch.nn.EmbeddingBag)) and getattr(module, what):
                raise CleaveError(f"{plan.file}: {name} has {what}, which a table on several ranks can't have")
        if isinstance(module, torch.nn.modules.instancenorm._InstanceNorm) and module.track_running_stats:
            raise CleaveError(f"{plan.file}: {name} has track_running_stats, of samples that several ranks have")


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


@contextlib.contextmanager
def _without_inference():
    """Where tensors are to be known to no gradient at all DTensor is asked for functions that it else sees as others."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


class _Within:
    """The forward of a module that calls functions: those that the plan names, and those that DTensor lacks.  What a
    stage makes of their arguments comes first, so its mode lies on top."""

    def __init__(self, forward, mesh, attention, state, result=None):
        self.forward, self.mesh, self.attention, self.state, self.result = forward, mesh, attention, state, result
        self.__signature__ = inspect.signature(forward)  # by which loops of others know what to give a model

    @torch._disable_dynamo  # which can't trace what moves between ranks
    def __call__(self, *arguments, **keywords):
        with _without_inference(), Functions(self.mesh, self.attention), self.state.running or contextlib.nullcontext():
            y = self.forward(*arguments, **keywords)
            return self.result(y) if self.result else y


def _run_others_whole(modules, plan, mesh, state):
    """What has parameters and is not in the plan does the same on every rank."""
    experts = tuple(f"{name}." for name in name_experts(plan))
    planned = {modules[name] for name in plan.modules}  # one may have other names, too
    for name, module in modules.items():
        part, is_one = whole_part(module, mesh), not module._modules or isinstance(module, ParametrizationList)
        if part.parameters and module not in planned and is_one and not name.startswith(experts):
            module.forward = Whole(module, part, mesh, state)


MODULES = {"Route": Layer, "Experts": Experts}  # by type of operator; of all others Run


def _run_in_parts(model, plan, mesh, state):
    """On a mesh of several ranks: parameters, modules and functions."""
    storage = _Storage(plan, model, mesh)
    modules = dict(model.named_modules(remove_duplicate=False))
    _check_tables(plan, modules)
    made.note(modules.values())
    for module in modules.values():
        for own, parameter in module._parameters.items():
            if parameter is not None:
                module._parameters[own] = storage.distribute(parameter)
    for name, part in plan.modules.items():
        if not isinstance(modules[name], torch.nn.modules.dropout._DropoutNd):  # it is a function of its input alone
            local.spread_buffers(modules[name], part, mesh)
            modules[name].forward = MODULES.get(part.type, Run)(modules[name], part, mesh, state)
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
    plan, given, model = load(plan), model, unwrapped(model)
    if plan.target != "torch":
        raise CleaveError(f"{plan.file}: is a plan for {plan.target}: export it with --to torch")
    if mesh is None:
        mesh = globals()["mesh"](plan)
    if not isinstance(mesh, DeviceMesh):
        raise CleaveError(f"the mesh is a {type(mesh).__name__}: cleave.torch.mesh(plan) makes one")
    _check_mesh(plan, mesh)
    plan = as_here(plan, model)
    _check_model(plan, model)
    if keep_memory and mesh.device_type == "cpu":
        pages.keep()
    state = model.__dict__["_cleave"] = stages.State(plan, mesh)
    for module in model.modules():
        module._compiled_call_impl = None  # of torch.compile: its modules run in parts, or in stages
        if getattr(module, "inplace", False) and (plan.mesh or plan.schedule.stages):
            module.inplace = False  # what has to move first, or has come from elsewhere, can't be written over
    if plan.schedule.stages:
        state.keep_own_parameters(model)
    if plan.mesh:
        lie.plan_on(state.inner)
        clip.register()
        again.register()
        lists.register()
        _run_in_parts(model, plan, state.inner, state)
    for name in name_experts(plan):
        module = model.get_submodule(name)
        module.forward = Surveyed(module.forward, state)
    _run_again(model, plan, state.inner, state)
    if plan.mesh:
        model.forward = _Within(model.forward, state.inner, None, state,
                                None if plan.loss else lambda y: lie.whole(y, state.inner))
        if plan.loss:
            register_loss(state.inner, plan.loss)
    if plan.schedule.stages:
        state.take_over(model)
    return given
