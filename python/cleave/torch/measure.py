"""Times steps of a training loop, and sets predicted beside measured.

    found = cleave.torch.measure(model, step, inputs=(x,), machine="machine.json")
    print(found)           # step 12.31 ms measured (± 0.12), 12.02 ms predicted: -2.4 %
"""
import tempfile
import time
from dataclasses import dataclass

import torch
import torch.distributed as dist

from ..command import CleaveError, run
from .export import describe


@dataclass
class Measurement:
    """Seconds of a step: the median, half the interquartile range, and what was predicted (None: nothing was)."""
    seconds: float
    spread: float
    steps: int
    predicted: float = None

    @property
    def error(self):
        """Predicted over measured, less 1."""
        return None if self.predicted is None else self.predicted / self.seconds - 1

    def __str__(self):
        text = f"step {self.seconds * 1e3:.2f} ms measured (± {self.spread * 1e3:.2f}, {self.steps} steps)"
        if self.predicted is not None:
            text += f", {self.predicted * 1e3:.2f} ms predicted: {self.error * 100:+.1f} %"
        return text


def predict(model, inputs, machine, layout=None, batch=None, options=()):
    """Seconds of a step of `model` on a machine file: by a layout file, or on a single device."""
    batch = batch or inputs[0].shape[0]
    with tempfile.TemporaryDirectory() as folder:
        given = describe(model, inputs, batch, folder)
        how = ["--layout", layout] if layout else ["--method", "single", "--devices", 1]
        return run("simulate", *given, "--machine", machine, *how, *options)["step_seconds"]


def _wait(device):
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def measure(model, loop, *, steps=20, warm_up=3, seconds=None, inputs=None, machine=None, layout=None, batch=None,
            predicted=None, options=()):
    """Runs `loop()`, one step of training of `model`, some times, and gives what a step takes: with several ranks that of
    the slowest.  `seconds`: no more steps once so long has been measured, and 5 at least.  `predicted`: seconds, such as
    `cleave simulate` or the search printed; or they are found here from example `inputs`, a `machine` file and a
    `layout` file (without one: of a single device), for which `model` must be as it was before cleave.torch.apply."""
    if predicted is None and machine is not None:
        if inputs is None:
            raise CleaveError("measure: inputs=(x,) are missing: a prediction needs an example batch")
        predicted = predict(model, inputs, machine, layout, batch, options)
    device = next((p.device for p in model.parameters()), torch.device("cpu"))
    several = dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1
    took = []
    for i in range(warm_up + steps):
        _wait(device)
        if several:
            dist.barrier()
        began = time.perf_counter()
        loop()
        _wait(device)
        one = time.perf_counter() - began
        if several:
            slowest = torch.tensor([one, float(sum(took) > (seconds or float("inf")))], device=device)
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            one = slowest[0].item()
        if i >= warm_up:
            took.append(one)
        if seconds is not None and len(took) >= 5 and sum(took) > seconds and not several:
            break
        if several and len(took) >= 5 and slowest[1].item() > 0:
            break
    took.sort()
    n = len(took)
    return Measurement((took[(n - 1) // 2] + took[n // 2]) / 2, (took[3 * n // 4] - took[n // 4]) / 2, n, predicted)
