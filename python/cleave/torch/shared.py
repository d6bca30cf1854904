"""Parameters that stages of several groups read, such as an embedding that is tied to the head.

Each of these groups has a copy.  Once a step's gradients are there they are summed up over the groups, so all copies are
updated alike, as one would be.
"""
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from .under_way import accumulate


class Shared:
    """`groups_of`: by parameter's name the groups of ranks that have it, more than one.  All ranks come here alike."""

    def __init__(self, model, mesh, groups_of):
        columns = mesh.mesh.reshape(mesh.size(0), -1).T  # ranks in the same place of each group
        self.model, self.before, processes = model, {}, {}
        for groups in sorted(set(groups_of.values())):
            for column in columns.tolist():
                ranks = [column[group] for group in groups]
                made = dist.new_group(ranks)
                if dist.get_rank() in ranks:
                    processes[groups] = made
        self.named = {name: processes[groups] for name, groups in groups_of.items() if groups in processes}

    def begin(self, read):
        """Gradients of before this step are put aside, of those that its stages read."""
        named = dict(self.model.named_parameters())
        self.before = {name: named[name].grad for name in self.named if name in read and named[name].requires_grad}
        for name in self.before:
            named[name].grad = None

    def finish(self):
        named = dict(self.model.named_parameters())
        for name, before in self.before.items():
            parameter = named[name]
            here = parameter.to_local() if isinstance(parameter, DTensor) else parameter
            part = torch.zeros_like(here) if parameter.grad is None else \
                parameter.grad.to_local() if isinstance(parameter, DTensor) else parameter.grad
            part = part.detach().clone(memory_format=torch.contiguous_format)
            dist.all_reduce(part, group=self.named[name])
            parameter.grad = before
            accumulate(parameter, part)
        self.before = {}
