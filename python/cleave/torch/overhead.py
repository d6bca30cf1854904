"""What a plan adds to a module beside its work: DTensor's dispatch, which runs in Python on the processor."""
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F

from ..plan import PLAIN, Part, Plan
from .apply import apply

WIDTH, FEW, MANY = 8, 2, 10  # next to no work in each of them


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
        dist.destroy_process_group()


def _passes(clock, model, device):
    """Seconds of forward, of backward, and of an update."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    x = torch.ones(WIDTH, WIDTH, device=device, requires_grad=True)
    gradient = torch.ones_like(x)

    def forget():
        model.zero_grad()
        return x * 1  # a plan remembers where a tensor was moved to

    def run(y):
        return model(y)
    return (clock.median(forget, run)[0],
            clock.median(lambda: run(forget()), lambda y: y.backward(gradient))[0],
            clock.median(lambda: None, lambda _: optimizer.step())[0])


def _loss(clock, model, device):
    """Seconds of the loss of what a model gives: forward, backward."""
    x, target = torch.ones(WIDTH, WIDTH, device=device), torch.zeros(WIDTH, dtype=torch.long, device=device)

    def logits():
        y = model(x).detach()
        return y.requires_grad_()
    return (clock.median(logits, lambda y: F.cross_entropy(y, target))[0],
            clock.median(lambda: F.cross_entropy(logits(), target), lambda y: y.backward())[0])


def _added(clock, time, shape, device):
    """Seconds that a plan adds to a chain, pass by pass, as `time` times them."""
    models = _Chain(*shape, device), _Chain(*shape, device).planned(time is _loss)
    plain, planned = (time(clock, model, device) for model in models)
    return [max(b - a, 0.0) for a, b in zip(plain, planned)]


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
