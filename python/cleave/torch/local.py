"""What modules do with their parts where that is not what they do with the whole.

Most modules do the same.  An embedding of which a rank has some rows gives zeros for the others, so that parts add up;
batch normalization takes its statistics over all samples, as the layout means it (torch's own under a split batch, as
in DistributedDataParallel, are each rank's)."""
import contextlib

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from ..command import CleaveError
from .lie import block, is_alone, nothing, spread
from .made import as_plain


@contextlib.contextmanager
def instead(module, tensors):
    """Lets a module see these where its parameters are: what is in __dict__ comes before __getattr__."""
    before = {name: module.__dict__[name] for name in tensors if name in module.__dict__}
    module.__dict__.update(tensors)
    try:
        with as_plain(module):
            yield
    finally:
        for name in tensors:
            del module.__dict__[name]
        module.__dict__.update(before)


def _sizes(module, part, tensors):
    """What a module knows of a size of its output, by which it may shape that, is this part's, where its parameters are cut
    as its output is.  PyTorch's own modules shape nothing so, but one looks at it."""
    sizes = {}
    knows = isinstance(module, torch.nn.modules.instancenorm._InstanceNorm) or not type(module).__module__.startswith("torch.nn.")
    for name, words in part.parameters.items() if knows else ():
        whole, here = module._parameters.get(name), tensors.get(name)
        for word, given in zip(words, part.output) if whole is not None and here is not None else ():
            if word[0] == given[0] == "S":
                n, own = (x.shape[int(word[1:].partition("/")[0])] for x in (whole, here))
                sizes.update((key, own) for key, value in module.__dict__.items() if type(value) is int and value == n)
    return sizes


def plain(module, part, x, tensors, mesh, shape, rest, keywords):
    with instead(module, {**_sizes(module, part, tensors), **tensors}):
        return type(module).forward(module, x, *rest, **keywords)


class _Rows(TorchFunctionMode):
    """Within the forward of an embedding, which may do more than look rows up, of which this rank has n."""

    def __init__(self, first, n):
        super().__init__()
        self.first, self.n, self.done = first, n, False

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is not F.embedding:
            return func(*args, **(kwargs or {}))
        self.done = True
        return self.look_up(*args, **(kwargs or {}))

    def look_up(self, ids, weight, padding_idx=None, **others):
        mine = (ids >= self.first) & (ids < self.first + self.n)
        if self.n == 0:
            return weight.new_zeros(*ids.shape, weight.shape[1]) + weight.sum()
        # That row is read as any other, and has no gradient.
        at = -1 if padding_idx is None else padding_idx - self.first
        return F.embedding((ids - self.first).clamp(0, self.n - 1), weight,
                           at if 0 <= at < self.n else None) * mine.unsqueeze(-1)


def embedding(module, part, ids, tensors, mesh, shape, rest, keywords):
    first, n = block(module.num_embeddings, part.parameters["weight"], 0, mesh)
    if n == module.num_embeddings:
        return plain(module, part, ids, tensors, mesh, shape, rest, keywords)
    with _Rows(first, n) as rows:
        y = plain(module, part, ids, tensors, mesh, shape, rest, keywords)
    if not rows.done:
        raise CleaveError(f"a {type(module).__name__} looks nothing up, so its rows can't be on several ranks")
    return y


def _running(module, mean, variance, n):
    with torch.no_grad():
        module.num_batches_tracked += 1
        momentum = 1 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
        for name, new in (("running_mean", mean), ("running_var", variance * (n / max(n - 1, 1)))):
            old = module.__dict__[name]
            old.mul_(1 - momentum).add_(momentum * new.to(old.dtype))


def _merge(record, group):
    """Count, mean and squares around it of all ranks of a group, from those of each."""
    records = record.new_empty(torch.distributed.get_world_size(group), *record.shape)
    torch.distributed.all_gather_into_tensor(records, record.unsqueeze(0), group)
    counts, means, squares = records.unbind(1)
    n = counts.sum(0)
    mean = (counts * means).sum(0) / n.clamp(min=1)
    return torch.stack([n, mean, squares.sum(0) + (counts * (means - mean) ** 2).sum(0)])


class SplitBatchNorm(torch.autograd.Function):
    """Batch normalization of a part by the statistics of the whole batch, which is `groups` together: records of them
    move once each way, and all else is torch's own kernels.  Gives what follows from the part, mean and variance."""

    @staticmethod
    def forward(ctx, x, weight, bias, groups, eps):
        x, channels = x.contiguous(), x.shape[1]
        n = x.numel() // max(channels, 1)
        record = x.new_zeros(3, channels, dtype=torch.promote_types(x.dtype, torch.float))
        if n > 0:
            mean, variance = torch.batch_norm_update_stats(x, None, None, 0.0)
            record = torch.stack([torch.full_like(mean, n), mean, variance * n]).to(record.dtype)
        for group in groups:
            record = _merge(record, group)
        whole, mean, squares = record
        variance = squares / whole
        ctx.save_for_backward(x, weight, mean, variance, whole)
        ctx.groups, ctx.eps = groups, eps
        y = F.batch_norm(x, mean, variance, weight, bias, eps=eps) if n > 0 else torch.empty_like(x)
        ctx.mark_non_differentiable(mean, variance)
        return y, mean, variance

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient, *_):
        x, weight, mean, variance, whole = ctx.saved_tensors
        gradient, view = gradient.contiguous(), [1, -1] + [1] * (x.dim() - 2)
        sums = mean.new_zeros(2, len(mean))
        if x.numel() > 0:  # without training the gradients of weight and bias are those sums over the part
            sums = torch.stack(torch.ops.aten.native_batch_norm_backward(
                gradient, x, weight, mean, variance, None, None, False, ctx.eps, [False, True, True])[1:]).to(mean.dtype)
        together = sums.clone()
        for group in ctx.groups:
            torch.distributed.all_reduce(together, group=group)
        inverse = torch.rsqrt(variance + ctx.eps)
        scale = inverse if weight is None else inverse * weight
        slope = -scale * inverse * together[0] / whole
        level = -scale * together[1] / whole - slope * mean
        scale, slope, level = (y.view(view) for y in (scale, slope, level))
        own = (None, None) if weight is None else sums.to(weight.dtype)
        back = torch.addcmul(level, x.to(level.dtype), slope).addcmul_(gradient.to(level.dtype), scale)
        return back.to(x.dtype), *own, None, None


def batch_norm(module, part, x, tensors, mesh, shape, rest, keywords):
    buffers = {n: module._buffers[n].to_local() for n in ("running_mean", "running_var")
               if module._buffers.get(n) is not None}
    cut = [i for i, word in enumerate(part.input) if word[0] == "S" and word != "S1"]
    if not cut or not (module.training or not module.track_running_stats):
        return plain(module, part, x, {**tensors, **buffers}, mesh, shape, rest, keywords)
    y, mean, variance = SplitBatchNorm.apply(x, tensors.get("weight"), tensors.get("bias"),
                                             [mesh.get_group(i) for i in cut], module.eps)
    if module.track_running_stats:
        with instead(module, buffers):
            _running(module, mean, variance, shape.numel() // shape[1])
    return y


def spread_buffers(module, part, mesh):
    """Running statistics of channels lie as these do."""
    for name in ("running_mean", "running_var"):
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module._buffers.get(name) is not None:
            words = ["S0" if word == "S1" else word if is_alone(word) else "R" for word in part.input]
            module._buffers[name] = spread(module._buffers[name], mesh, words)


def skip(module, tensors):
    """Where others alone do what the module does."""
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm) and module.training and module.track_running_stats:
        module.num_batches_tracked += 1
    return nothing(tensors)


def rule(module):
    if isinstance(module, torch.nn.Embedding):
        return embedding
    if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
        return batch_norm
    return plain
