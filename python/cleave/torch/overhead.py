"""What a plan adds to a module beside its work: DTensor's dispatch, which runs in Python on the processor.

It is timed in turns with the same without a plan, and the median of differences counts, since each is a small part of what
a shared machine varies by from one second to the next."""
import contextlib
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ..plan import PLAIN, Part, Plan
from .apply import apply

WIDTH, FEW, MANY, NEXT = 8, 2, 10, 3  # next to no work in each of them
FEWEST, EACH_SECONDS = 15, 0.5  # turns
CACHE_BYTES = 1 << 20  # where a processor does not say


def near_cache():
    """Bytes of the caches that a core has to itself."""
    try:
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size", encoding="ascii") as stream:
            return 1024 * int(stream.read().strip().rstrip("K"))
    except (OSError, ValueError):
        return CACHE_BYTES


class _Work(torch.autograd.Function):
    """What a module does, as far as Python is concerned: it leaves other memory in the near caches."""

    @staticmethod
    def forward(ctx, x, memory):
        ctx.memory = memory
        memory.add_(1)
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        ctx.memory.add_(1)
        return gradient, None


class _Layer(torch.nn.Linear):
    def __init__(self, has_bias, memory, device):
        super().__init__(WIDTH, WIDTH, has_bias, device=device)
        self.memory = memory

    def forward(self, x):
        return F.linear(_Work.apply(x, self.memory), self.weight, self.bias)


class _Chain(torch.nn.Module):
    """Modules, each with so many functions behind it, of two sorts in turns."""

    def __init__(self, memory, n_modules, n_functions=0, has_bias=True):
        super().__init__()
        self.layers = torch.nn.ModuleList([_Layer(has_bias, memory, memory.device) for _ in range(n_modules)])
        self.n_functions, self.has_bias = n_functions, has_bias

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x)
            for k in range(self.n_functions):
                x = F.relu(x) if (i + k) % 2 else x + x
        return x

    def planned(self, has_loss):
        """Cut by samples, as most are: gradients of parameters are sums."""
        own = {"weight": ["R"], "bias": ["R"]} if self.has_bias else {"weight": ["R"]}
        part = Part("", "", ["n"], ["S0"], ["S0"], ["S0"], own)
        modules = {f"layers.{i}": part for i in range(len(self.layers))}
        loss = Part("", "", ["n"], ["S0"], ["S0"], ["S0"], {}) if has_loss else None
        return apply(self, Plan("overhead", "torch", {}, [1], modules, {}, loss, {}, [], PLAIN, []))


@contextlib.contextmanager
def _group():
    """Of this process alone: the dispatch does not depend on how many there are."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield
    finally:
        # Before 2.8 PyTorch ends a group with the interpreter's lock, which the group's threads need to drop tensors.
        time.sleep(0.1)
        dist.destroy_process_group()


def _passes(model, device):
    """Forward, backward, and an update: of each what is prepared, and what is timed."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.ones(WIDTH, WIDTH, device=device, requires_grad=True)
    gradient = torch.ones_like(x)

    def forget():
        model.zero_grad()
        return x * 1  # a plan remembers where a tensor was moved to
    return ((forget, model), (lambda: model(forget()), lambda y: y.backward(gradient)),
            (lambda: None, lambda _: optimizer.step()))


def _loss(model, device):
    """The loss of what a model gives, forward and backward."""
    x, target = torch.ones(WIDTH, WIDTH, device=device), torch.zeros(WIDTH, dtype=torch.long, device=device)

    def logits():
        y = model(x).detach()
        return y.requires_grad_()
    return ((logits, lambda y: F.cross_entropy(y, target)),
            (lambda: F.cross_entropy(logits(), target), lambda y: y.backward()))


def _difference(clock, plain, planned):
    """Median of what the second takes longer, in turns."""
    more, began = [], time.perf_counter()
    while len(more) < FEWEST or time.perf_counter() - began < EACH_SECONDS:
        more.append(clock.once(*planned) - clock.once(*plain))
    return max(sorted(more)[len(more) // 2], 0.0)


def _added(clock, passes, memory, *shape):
    """Seconds that a plan adds to a chain, pass by pass."""
    models = _Chain(memory, *shape), _Chain(memory, *shape).planned(passes is _loss)
    return [_difference(clock, *both) for both in zip(*(passes(model, memory.device) for model in models))]


def _each(less, more, n):
    return [max(b - a, 0.0) / n for a, b in zip(less, more)]


def measure(clock, device, touched_bytes=0):
    """{what: seconds that a plan adds to one}: "module", "parameter" of one, "function", the first behind a module, "next",
    which follows another, and "loss", of which it is (forward, backward); "update", of a parameter.  DTensor remembers
    what it did for a function that is given what another gave; what a module gives is new to it.  `touched_bytes`: of a
    step, in whose work Python's own memory gets out of the nearest caches, as far as there is that much."""
    memory = torch.zeros(max(min(touched_bytes, near_cache()) // 4, 1), device=device)
    with _group():
        few, modules, bare, first, more = (
            _added(clock, _passes, memory, *shape)
            for shape in ((FEW,), (MANY,), (MANY, 0, False), (MANY, 1), (MANY, 1 + NEXT)))
        loss = _added(clock, _loss, memory, FEW)
    one, parameter = _each(few, modules, MANY - FEW), _each(bare, modules, MANY)
    return {"module": [max(a - 2 * b, 0.0) for a, b in zip(one, parameter)][:2], "parameter": parameter[:2],
            "function": _each(modules, first, MANY)[:2], "next": _each(first, more, MANY * NEXT)[:2], "loss": loss,
            "update": one[2] / 2}
