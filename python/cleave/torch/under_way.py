"""Gradients of parameters that are summed up while backward goes on, many by one collective.

Launching a collective takes a processor about a millisecond, whatever its size, so gradients that the same ranks sum up
wait for each other, as in DistributedDataParallel, and are in .grad when backward is through.  Who wants to see them
one by one, by hooks or torch.autograd.grad, gets them as they come.
"""
import torch
from torch.distributed.tensor import DTensor

_send, _wait = torch.ops._c10d_functional, torch.ops._c10d_functional.wait_tensor

MOST_BYTES = 25 << 20  # of what is sent together, but for a single gradient


class _Backward:
    """What one backward has to sum up."""

    def __init__(self, task):
        self.task, self.waiting, self.sent = task, {}, []

    def add(self, parameter, part, groups):
        key = tuple(map(id, groups)), part.dtype, part.device
        _, together = self.waiting.setdefault(key, (groups, []))
        at = next((i for i, (other, _) in enumerate(together) if other is parameter), None)
        if at is not None:  # of a module that is called again, or one tied to it
            together[at] = parameter, together[at][1] + part
            return
        if together and sum(x.nbytes for _, x in together) + part.nbytes > MOST_BYTES:
            self.send(key)
            _, together = self.waiting.setdefault(key, (groups, []))
        together.append((parameter, part))
        if part.nbytes > MOST_BYTES // 2:
            self.send(key)

    def send(self, key):
        groups, together = self.waiting.pop(key)
        flat = torch.cat([part.flatten() for _, part in together])
        _send.all_reduce_(flat, "sum", groups[0].group_name)
        self.sent.append((groups[1:], flat, together))

    def finish(self):
        global _now
        _now = None
        for key in list(self.waiting):
            self.send(key)
        with torch.no_grad():
            for others, flat, together in self.sent:
                _wait(flat)
                for group in others:
                    _wait(_send.all_reduce_(flat, "sum", group.group_name))
                for (parameter, part), found in zip(together, flat.split([part.numel() for _, part in together])):
                    accumulate(parameter, found.view(part.shape))


_now = None  # the backward under way


def accumulate(parameter, part):
    """Adds this rank's part of a gradient to .grad."""
    gradient = part if not isinstance(parameter, DTensor) else \
        DTensor.from_local(part, parameter.device_mesh, parameter.placements, run_check=False, shape=parameter.shape,
                           stride=parameter.stride())
    if parameter.grad is None:
        parameter.grad = gradient
    else:
        parameter.grad += gradient


def takes(parameter, node, steps, words):
    """May a gradient wait: is it but summed up, and then added to .grad, by `node`, and nobody sees it before?"""
    if not steps or any(words[i] != "P" or word != "R" for i, word in steps) or torch.is_grad_enabled() or \
            not parameter.is_leaf or parameter._backward_hooks or getattr(parameter, "_post_accumulate_grad_hooks", None):
        return False
    try:
        return torch._C._will_engine_execute_node(node)
    except RuntimeError:  # of torch.autograd.grad
        return False


def add(parameter, part, groups):
    global _now
    task = torch._C._current_graph_task_id()
    if _now is None or _now.task != task:  # the one before has failed, where there is one
        _now = _Backward(task)
        torch.autograd.Variable._execution_engine.queue_callback(_now.finish)
    _now.add(parameter, part, groups)
