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

WIDTH, FEW, MANY = 8, 2, 10  # next to no work in each of them
FEWEST, EACH_SECONDS = 15, 0.5  # turns


class _Chain(torch.nn.Module):
    def __init__(self, n_modules, n_functions, device):
        super().__init__()
        self.layers = torch.nn.ModuleList([torch.nn.Linear(WIDTH, WIDTH, device=device) for _ in range(n_modules)])
        self.n_functions = n_functions

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for _ in range(self.n_functions):
            x = x + x
        return x

    def planned(self, has_loss):
        part = Part("", "", [None], ["R"], ["R"], ["R"], {"weight": ["R"], "bias": ["R"]})
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


def _added(clock, passes, shape, device):
    """Seconds that a plan adds to a chain, pass by pass."""
    models = _Chain(*shape, device), _Chain(*shape, device).planned(passes is _loss)
    return [_difference(clock, *both) for both in zip(*(passes(model, device) for model in models))]


def measure(clock, device):
    """{what: seconds that a plan adds to one}: "module", with two parameters, "function", between modules, and "loss", of
    which it is (forward, backward); "update", of a parameter."""
    with _group():
        few, modules, functions = (_added(clock, _passes, shape, device)
                                   for shape in ((FEW, 0), (MANY, 0), (FEW, MANY)))
        loss = _added(clock, _loss, (FEW, 0), device)
    each = [max(b - a, 0.0) / (MANY - FEW) for a, b in zip(few, modules)]
    return {"module": each[:2], "function": [max(b - a, 0.0) / MANY for a, b in zip(few, functions)][:2], "loss": loss,
            "update": each[2] / 2}
