"""What modules do with their parts where that is not what they do with the whole.

Most modules do the same.  An embedding of which a rank has some rows gives zeros for the others, so that parts add up;
batch normalization takes its statistics over all samples, as the layout means it (torch's own under a split batch, as
in DistributedDataParallel, are each rank's)."""
import contextlib

import torch
import torch.nn.functional as F

from .lie import SumOverMesh, block, is_alone, nothing, spread


@contextlib.contextmanager
def instead(module, tensors):
    """Lets a module see these where its parameters are: what is in __dict__ comes before __getattr__."""
    module.__dict__.update(tensors)
    try:
        yield
    finally:
        for name in tensors:
            del module.__dict__[name]


def plain(module, part, x, tensors, mesh, shape, rest, keywords):
    with instead(module, tensors):
        return type(module).forward(module, x, *rest, **keywords)


def embedding(module, part, ids, tensors, mesh, shape, rest, keywords):
    weight = tensors["weight"]
    first, n = block(module.num_embeddings, part.parameters["weight"], 0, mesh)
    if n == module.num_embeddings:
        return F.embedding(ids, weight, module.padding_idx)
    mine = (ids >= first) & (ids < first + n)
    if module.padding_idx is not None:
        mine &= ids != module.padding_idx
    if n == 0:
        return weight.new_zeros(*ids.shape, weight.shape[1]) + weight.sum()
    return F.embedding((ids - first).clamp(0, n - 1), weight) * mine.unsqueeze(-1)


def _running(module, mean, variance, n):
    with torch.no_grad():
        module.num_batches_tracked += 1
        momentum = 1 / float(module.num_batches_tracked) if module.momentum is None else module.momentum
        for name, new in (("running_mean", mean), ("running_var", variance * (n / max(n - 1, 1)))):
            new = new.detach()
            old = module.__dict__[name]
            old.mul_(1 - momentum).add_(momentum * new.to(old.dtype))


def batch_norm(module, part, x, tensors, mesh, shape, rest, keywords):
    buffers = {n: module._buffers[n].to_local() for n in ("running_mean", "running_var")
               if module._buffers.get(n) is not None}
    cut = [i for i, word in enumerate(part.input) if word[0] == "S" and word != "S1"]
    tensors = {**tensors, **buffers}
    if not cut or not (module.training or not module.track_running_stats):
        return plain(module, part, x, tensors, mesh, shape, rest, keywords)
    groups = [mesh.get_group(i) for i in cut]
    dimensions, n = [0, *range(2, x.dim())], shape.numel() // shape[1]
    view = [1, -1] + [1] * (x.dim() - 2)
    mean = SumOverMesh.apply(x.sum(dimensions), groups) / n
    around = x - mean.view(view)
    variance = SumOverMesh.apply((around * around).sum(dimensions), groups) / n
    if module.track_running_stats:
        with instead(module, buffers):
            _running(module, mean, variance, n)
    y = around * torch.rsqrt(variance + module.eps).view(view)
    if module.affine:
        y = y * tensors["weight"].view(view) + tensors["bias"].view(view)
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
