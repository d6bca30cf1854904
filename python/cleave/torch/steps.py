"""Steps of training in the micro-batches and stages of a plan.

    step = cleave.torch.steps(model)        # of what cleave.torch.apply returned, or of any other model
    loss = step(x, t)                       # forward and backward of the whole batch; gradients are in .grad
    optimizer.step()
"""
import torch
import torch.distributed as dist
import torch.nn.functional as F

from ..command import CleaveError
from ..plan import PLAIN
from .names import unwrapped
from .stages import Held, first_floats

IGNORED = -100  # targets that torch.nn.functional.cross_entropy does not count


class Steps:
    def __init__(self, model, loss):
        self.model, self.of_logits = model, loss
        self.state = unwrapped(model).__dict__.get("_cleave")
        self.schedule = self.state.schedule if self.state else PLAIN

    def __call__(self, *inputs, **keywords):
        """The loss, the same on every rank; gradients add up in .grad.  What has a keyword the model is given by that."""
        *inputs, target = inputs if self.of_logits else (*inputs, next(iter((*inputs, *keywords.values()))))
        m, names = self.schedule.micro_batches, list(keywords)
        inputs += [keywords[name] for name in names]
        if any(len(x) % m for x in (*inputs, target)):
            raise CleaveError(f"{self.state.plan.file}: a batch of {len(target)} is not cut into {m} micro-batches")
        batch = [((here[:len(inputs) - len(names)], dict(zip(names, here[len(inputs) - len(names):]))), t, share)
                 for *here, t, share in zip(*(x.chunk(m) for x in inputs), target.chunk(m), self.shares(target, m))]
        if not self.state:
            return self.alone(batch)
        self.state.held = Held() if self.state.inner and (m > 1 or self.schedule.stages) else None
        try:
            loss = self.in_stages(batch) if self.schedule.stages else self.alone(batch)
            if self.state.held:
                self.state.held.give_back()
            if self.schedule.stages:
                self.state.shared.finish()
            return loss
        finally:
            self.state.held = None

    def shares(self, target, m):
        """Of micro-batches in the mean over the whole batch: by the targets that count."""
        if not self.of_logits or target.is_floating_point():
            return torch.full((m,), 1 / m, dtype=torch.double)
        counts = torch.stack([(part != IGNORED).sum() for part in target.chunk(m)]).double()
        return counts / counts.sum().clamp(min=1)

    def loss(self, output, target, share):
        if not self.of_logits:
            loss = getattr(output, "loss", output)
            return loss * share.to(loss.device, loss.dtype)
        if share.item() == 0:  # the mean of nothing
            logits = first_floats(output)
            return (logits.to_local() if hasattr(logits, "to_local") else logits).sum() * 0
        loss = self.of_logits(output, target)
        return loss * share.to(loss.device, loss.dtype)

    def alone(self, batch):
        """One micro-batch after the other; of gpipe all forwards, then all backwards."""
        total, kept = 0, []
        for (inputs, keywords), target, share in batch:
            loss = self.loss(self.model(*inputs, **keywords), target, share)
            total = total + loss.detach()
            if self.schedule.kind == "gpipe":
                kept.append(loss)
            else:
                loss.backward()
        for loss in kept:
            loss.backward()
        return total

    def in_stages(self, batch):
        state, m = self.state, self.schedule.micro_batches
        state.loss, state.batch = self.loss, batch
        found, pipeline = state.survey(batch[0][0])
        state.shared.begin(found.read)
        last, losses = len(self.schedule.stages) - 1 in state.mine, []
        try:
            pipeline.step(target=torch.zeros(m) if last else None, losses=losses if last else None)
        except RuntimeError as error:
            if isinstance(error.__cause__, CleaveError):
                raise error.__cause__ from None
            if self.schedule.kind == "zb-h1" and "backward through the graph a second time" in str(error):
                raise CleaveError(f"{state.where()}: a stage uses at several places what hangs on parameters and not on what it is "
                                  "given, of which PyTorch can't put the gradient off as zb-h1 does: search with --schedule 1f1b") from error
            raise
        loss = sum(x.detach() for x in losses) if last else torch.zeros((), dtype=found.dtype, device=state.device)
        dist.all_reduce(loss, group=state.group)
        return loss


def _cross_entropy(output, target):
    return F.cross_entropy(output, target)


def steps(model, loss=_cross_entropy):
    """What does forward and backward of a step of `model`, in the micro-batches and stages of its plan: called with the
    inputs and the targets of the whole batch, on every rank, it gives the loss.  `loss`: a mean over the batch, of what
    the model returns and the targets; None where the model returns its loss, and there are no targets."""
    return Steps(model, loss)
