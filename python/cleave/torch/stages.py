"""Stages of a plan: each rank runs the model's own forward, from where its stage begins to where the next one does.

Nothing is traced or cut out.  A stage begins where a module is called, and what that module is given comes from the
stage before.  Up to there the forward runs on meta tensors, which have shapes and nothing else: parameters of other
stages are such tensors on this rank, so only what is made of inputs alone (positions, masks) is there.  At the module
they are bound to what has come, wherever the forward uses them from then on; where the next stage begins, it ends.
"""
import contextlib
import inspect
import itertools

import torch
import torch.distributed as dist
from torch.distributed import pipelining
from torch.overrides import TorchFunctionMode
from torch.utils import checkpoint
from torch.utils._pytree import tree_flatten, tree_map_only

from ..command import CleaveError
from . import lie
from .shared import Shared

DIMENSION = "stage"  # of the mesh
SCHEDULES = {"gpipe": pipelining.ScheduleGPipe, "1f1b": pipelining.Schedule1F1B,
             "interleaved": pipelining.ScheduleInterleaved1F1B, "zb-h1": pipelining.ScheduleInterleavedZeroBubble}


class Done(BaseException):
    """A stage has come to where the next one begins."""

    def __init__(self, given):
        super().__init__()
        self.given = given


class Held:
    """Parts of parameters as modules use them, moved once for all micro-batches; gradients add up and go back once."""

    def __init__(self):
        self.parts = {}

    def take(self, key, make):
        if key not in self.parts:
            moved = make()
            self.parts[key] = moved, moved.detach().requires_grad_(moved.requires_grad)
        return self.parts[key][1]

    def leaves(self):
        return [leaf for _, leaf in self.parts.values()]

    def give_back(self):
        moved = [(part, leaf) for part, leaf in self.parts.values() if part.requires_grad]
        if moved:
            torch.autograd.backward([part for part, _ in moved], [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
                                                                  for _, leaf in moved])


class Again:
    """The forward of a module that runs again before its backward, `within` what it ran in."""

    def __init__(self, forward, within, state):
        self.forward, self.within, self.state = forward, within, state

    def __call__(self, *arguments, **keywords):
        if self.state.surveys:
            return self.forward(*arguments, **keywords)
        return checkpoint.checkpoint(self.forward, *arguments, use_reentrant=False, context_fn=lambda: (
            contextlib.nullcontext(), self.within() or contextlib.nullcontext()), **keywords)


class _Skipping:
    """The forward of a module of one stage alone: where that is an earlier one, what it gave when surveyed."""

    def __init__(self, forward, name, state):
        self.forward, self.name, self.state = forward, name, state

    def __call__(self, *arguments, **keywords):
        run = self.state.running
        if run is not None and not run.inside and run.found is not None:
            stage, output = run.found.placed.get(self.name, (run.stage, None))
            if stage < run.stage:
                return output
        return self.forward(*arguments, **keywords)


def _tensors(value):
    return [x for x in tree_flatten(value)[0] if isinstance(x, torch.Tensor)]


def first_floats(output):
    """Of what a model gives, which may be an object of several."""
    return next(x for x in _tensors(output) if x.is_floating_point())


def _is_meta(x):
    """As it is, and not as a run would have it that is under way."""
    with torch._C.DisableTorchFunction():
        return x.is_meta


def _like(x):
    return torch.empty(x.shape, dtype=x.dtype, device="meta").requires_grad_(x.requires_grad)


class _Found:
    """What a survey tells of inputs of these shapes."""

    def __init__(self, n):
        self.given = [[] for _ in range(n)]  # by stage: what it is given, on meta
        self.marks = [[] for _ in range(n)]  # which tensors among a module's arguments these are
        self.called = set()  # stages that have begun
        self.read = set()  # parameters
        self.placed = {}  # outermost modules of one stage that are called once: that stage, and what they give
        self.dtype = None  # of the loss


class Run(TorchFunctionMode):
    """One forward: of a stage with what it has received, or (`found` is None) on meta to see what there is."""

    def __init__(self, state, stage, received=(), found=None):
        super().__init__()
        self.state, self.stage, self.received, self.found = state, stage, received, found
        self.inside = found is not None and stage == 0
        self.bound = {}  # id of a meta tensor: that, and what it is here
        self.calls, self.returned, self.survey = [], set(), _Found(len(state.schedule.stages)) if found is None else None

    # ---- functions -----------------------------------------------------------------------------------------------

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        all_here = _tensors((args, kwargs))
        if self.inside and not any(map(_is_meta, all_here)):
            return func(*args, **kwargs)
        args, kwargs = tree_map_only(torch.Tensor, self.bring, (args, kwargs))
        meta = [_is_meta(x) for x in _tensors((args, kwargs))]
        if any(meta) and func == torch.Tensor.device.__get__:
            return self.state.device
        if any(meta) and func == torch.Tensor.to:  # that device
            args = [torch.device("meta") if isinstance(x, (torch.device, str)) else x for x in args]
            kwargs = {**kwargs, **({"device": "meta"} if kwargs.get("device") else {})}
        if any(meta) and not all(meta):
            if self.inside:
                raise CleaveError(f"{self.state.where()}: stage {self.stage} needs more of earlier stages than what "
                                  f"{self.state.schedule.stages[self.stage].begins} is given: it can't begin there")
            args, kwargs = tree_map_only(torch.Tensor, lambda x: x if _is_meta(x) else _like(x), (args, kwargs))
        return func(*args, **kwargs)

    def bring(self, x):
        """A tensor as it is in this run: what it is bound to; a parameter, before the stage begins, on meta."""
        if id(x) in self.bound:
            return self.bound[id(x)][1]
        if self.survey is not None:
            self.survey.read.add(self.state.check_stage(x, self.stage))
        return _like(x) if not self.inside and isinstance(x, torch.nn.Parameter) else x

    # ---- modules -------------------------------------------------------------------------------------------------

    def enter(self, name, arguments):
        """Arguments of a module that is called."""
        begins = self.state.begins.get(name)
        if self.survey is not None:
            if begins == self.stage + 1:
                self.stage = begins
                self.survey.called.add(begins)
                self.survey.marks[begins] = [_is_meta(x) for x in _tensors(arguments)]
                self.survey.given[begins] = [x for x in _tensors(arguments) if _is_meta(x)]
            self.calls.append((name, self.stage))
            return arguments
        arguments = tree_map_only(torch.Tensor, self.bring, arguments) if self.bound else arguments
        if begins == self.stage + 1:
            raise Done(self.hand_on(arguments))
        if begins == self.stage and not self.inside:
            self.begin([x for x in _tensors(arguments) if _is_meta(x)])
            arguments = tree_map_only(torch.Tensor, self.bring, arguments)
        return arguments

    def leave(self, output):
        if self.survey is None:
            return
        name, stage = self.calls.pop()
        if stage == self.stage:
            for inner in [n for n in self.survey.placed if n.startswith(name + ".")]:
                del self.survey.placed[inner]
            self.survey.placed[name] = stage, output
            if name in self.returned:  # and may give something else each time
                del self.survey.placed[name]
            self.returned.add(name)

    def begin(self, given):
        self.inside, self.state.surveys = True, False
        for x, here, words in zip(given, self.received, self.state.words(self.stage)):
            self.bound[id(x)] = x, lie.join(here, self.state.inner, words, x.shape) if self.state.inner else here

    def hand_on(self, arguments):
        """This rank's parts of what the next stage is given: the same rank of its mesh has them there."""
        given = [x for x, is_given in zip(_tensors(arguments), self.found.marks[self.stage + 1]) if is_given]
        if any(map(_is_meta, given)):
            raise CleaveError(f"{self.state.where()}: stage {self.stage} has no part in what "
                              f"{self.state.schedule.stages[self.stage + 1].begins} is given")
        if not self.state.inner:
            return tuple(x.contiguous() for x in given)
        return tuple(lie.local(lie.move(x, self.state.inner, words, words), self.state.inner, words)
                     for x, words in zip(given, self.state.words(self.stage + 1)))


class State:
    """What a planned model knows of its plan on this rank."""

    def __init__(self, plan, mesh):
        self.plan, self.schedule, self.mesh = plan, plan.schedule, mesh
        self.surveys, self.held, self.running = False, None, None
        self.layer = None  # of experts, whose forward is under way
        self.device = torch.device(mesh.device_type)
        self.inner = mesh if plan.mesh else None  # the mesh of modules: with stages that of this rank's group
        self.begins, self.mine, self.stages_of, self.elsewhere, self.known = {}, [0], {}, set(), {}
        stages = plan.schedule.stages
        if not stages:
            return
        if self.device.type == "cuda":
            self.device = torch.device("cuda", torch.cuda.current_device())
        self.group, place = mesh.get_group(0), mesh.get_local_rank(0)
        if plan.mesh:
            self.inner = mesh[mesh.mesh_dim_names[1:]]
        self.mine = [s for s in range(len(stages)) if s % plan.schedule.groups == place]
        self.begins = {stage.begins: i for i, stage in enumerate(stages) if i > 0}

    def where(self):
        return f"{self.plan.file}: schedule"

    def words(self, stage):
        """How each tensor lies that a stage is given."""
        yield self.schedule.stages[stage].given
        yield from itertools.repeat(["R"] * len(self.plan.mesh))

    # ---- parameters ----------------------------------------------------------------------------------------------

    def keep_own_parameters(self, model):
        """Those of other stages become meta tensors, which neither optimizers nor state_dict see.  What the plan does not
        know (fixed positions, what nothing reads) all have."""
        named, once, stages_of = dict(model.named_parameters(remove_duplicate=False)), dict(model.named_parameters()), {}
        for i, stage in enumerate(self.schedule.stages):
            for name in (name for name in stage.parameters if name in named):
                stages_of.setdefault(id(named[name]), set()).add(i)
        for name, parameter in named.items():
            self.stages_of[name] = stages_of.get(id(parameter), set(range(len(self.schedule.stages))))
            path, _, own = name.rpartition(".")
            module = model.get_submodule(path)
            if self.stages_of[name].isdisjoint(self.mine):
                module._parameters[own] = None
                module.__dict__[own] = _like(parameter)
                self.elsewhere.add(name)
        groups_of = {name: tuple(sorted({stage % self.schedule.groups for stage in self.stages_of[name]}))
                     for name in once}
        self.shared = Shared(model, self.mesh, {name: groups for name, groups in groups_of.items() if len(groups) > 1})

    def check_stage(self, x, stage):
        """Its name, of a parameter."""
        name = self.names.get(id(x))
        if name is not None and stage not in self.stages_of[name]:
            raise CleaveError(f"{self.where()}: {name} is of stage {min(self.stages_of[name])}, and the model's forward uses it "
                              f"in stage {stage}: modules are called in another order than the plan's")
        return name

    def take_over(self, model):
        """From now on the model is called by cleave.torch.steps alone."""
        self.model, self.forward = model, model.forward
        names = {}  # one for each module, the plan's where it has others, too
        for name, module in model.named_modules(remove_duplicate=False):
            if module not in names or name in self.begins:
                names[module] = name
        for module, name in names.items():
            if module is not model:
                module.register_forward_pre_hook(self.on_call(name), with_kwargs=True, prepend=True)
                module.register_forward_hook(self.on_return)
        model.register_load_state_dict_pre_hook(self.drop_others)
        model.forward = self.refuse

    def refuse(self, *_, **__):
        raise CleaveError(f"{self.plan.file}: the model runs in stages: cleave.torch.steps(model) makes what does a step")

    def drop_others(self, module, states, prefix, *_):
        for name in self.elsewhere:
            states.pop(prefix + name, None)

    # ---- runs ----------------------------------------------------------------------------------------------------

    def on_call(self, name):
        def hook(module, args, kwargs):
            return None if self.running is None else self.running.enter(name, (args, kwargs))
        return hook

    def on_return(self, module, args, output):
        if self.running is not None:
            self.running.leave(output)

    def run(self, stage, received, inputs, found=None):
        """The forward of a stage: what the next one is given, or what the model gives; inputs by place and by name."""
        self.running, self.surveys = Run(self, stage, received, found), found is None or stage > 0
        run = self.running
        try:
            with run:
                output = self.forward(*inputs[0], **inputs[1])
        except Done as done:
            return run, done.given
        finally:
            self.running, self.surveys = None, False
        return run, output

    def survey(self, inputs):
        """What there is for inputs of such shapes, of one micro-batch."""
        key = tuple((x.shape, x.dtype) for x in _tensors(inputs))
        if key not in self.known:
            self.names = {id(p): name for name, p in self.model.named_parameters()}
            for name in self.elsewhere:
                path, _, own = name.rpartition(".")
                self.names[id(self.model.get_submodule(path).__dict__[own])] = name
            run, output = self.run(0, (), inputs)
            found = run.survey
            missing = [name for name, stage in self.begins.items() if stage not in found.called]
            if missing:
                raise CleaveError(f"{self.where()}: {missing[0]} is not called where its stage begins: modules are called "
                                  "in another order than the plan's")
            found.dtype = first_floats(output).dtype
            for name in found.placed:
                module = self.model.get_submodule(name)
                if not isinstance(module.forward, _Skipping):
                    module.forward = _Skipping(module.forward, name, self)
            self.known[key] = found, self.pipeline(found)
        return self.known[key]

    # ---- PyTorch's own pipelines -----------------------------------------------------------------------------------

    def parts(self, found, stage):
        """What a stage is given, as this rank has it, on meta."""
        return tuple(torch.empty(lie.part_shape(x.shape, words, self.inner), dtype=x.dtype, device="meta",
                                 requires_grad=x.is_floating_point())
                     for x, words in zip(found.given[stage], self.words(stage)))

    def pipeline(self, found):
        n, stages = len(self.schedule.stages), []
        waits_for_all = hasattr(pipelining.schedules, "_wait_batch_p2p") or self.device.type != "cpu"
        kind_of_stage = pipelining.PipelineStage if waits_for_all else _Sending
        for i in self.mine:
            output = self.parts(found, i + 1) if i + 1 < n else (torch.empty(1, dtype=found.dtype, device="meta",
                                                                             requires_grad=True),)
            stages.append(kind_of_stage(_Stage(self, found, i), i, n, self.device, self.parts(found, i), output,
                                                   group=self.group))
        kind = SCHEDULES[self.schedule.kind]
        keywords = {"scale_grads": False} if "scale_grads" in inspect.signature(kind).parameters else {}
        one = kind in (pipelining.ScheduleGPipe, pipelining.Schedule1F1B)
        return kind(stages[0] if one else stages, self.schedule.micro_batches, loss_fn=lambda loss, _: loss.sum(),
                    **keywords)


class _Sending(pipelining.PipelineStage):
    """PyTorch 2.6 waits for the last message of several alone, and those of gloo go one by one: these are sent as soon as
    they are there, and waited for when they are needed."""

    def __init__(self, *arguments, **keywords):
        super().__init__(*arguments, **keywords)
        self.under_way = []

    def _send(self, ops):
        self.under_way += [(dist.isend(op.tensor, op.peer, group=op.group), op.tensor) for op in ops]
        return []

    def _receive(self, ops):
        for op in ops:
            dist.recv(op.tensor, op.peer, group=op.group)
        return []

    def get_fwd_send_ops(self, chunk):
        return self._send(super().get_fwd_send_ops(chunk))

    def get_bwd_send_ops(self, chunk):
        return self._send(super().get_bwd_send_ops(chunk))

    def get_fwd_recv_ops(self, chunk):
        return self._receive(super().get_fwd_recv_ops(chunk))

    def get_bwd_recv_ops(self, chunk):
        return self._receive(super().get_bwd_recv_ops(chunk))

    def clear_runtime_states(self):
        for work, _ in self.under_way:
            work.wait()
        self.under_way = []
        super().clear_runtime_states()


class _Stage(torch.nn.Module):
    """What PyTorch takes a stage for: from what it is given to what it hands on, of the last the loss."""

    def __init__(self, state, found, index):
        super().__init__()
        self.__dict__.update(state=state, found=found, index=index, next=0)

    def parameters(self, recurse=True):
        """Those that backward reaches: parts that modules hold, and what functions read."""
        held = self.state.held.leaves() if self.state.held else ()
        return itertools.chain(held, self.state.model.parameters(recurse))

    def forward(self, *received):
        inputs, target, share = self.state.batch[self.next]  # a stage takes micro-batches one after the other
        self.next = (self.next + 1) % len(self.state.batch)
        _, output = self.state.run(self.index, received, inputs, self.found)
        if self.index + 1 < len(self.state.schedule.stages):
            return output
        return torch.stack([self.state.loss(output, target, share)])
