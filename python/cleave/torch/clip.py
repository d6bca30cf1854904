"""Clipping by the norm of all gradients, of which ranks have parts, and some ranks alone have some."""
import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from . import lie

_usual = torch.nn.utils.clip_grad_norm_


def _norm(gradients, mesh, p):
    """The norm of all of them; each element counts once, however many ranks have it."""
    highest, parts = p == float("inf"), []
    for gradient in gradients:
        copies = 1
        for i, word in enumerate(lie.words_of(gradient, mesh)):
            copies *= mesh.size(i) if word == "R" else 1
        part = gradient.to_local().abs()
        if part.numel():
            parts.append(part.max() if highest else part.pow(p).sum() / copies)
    norm = torch.stack(parts) if parts else torch.zeros(1, dtype=gradients[0].dtype, device=gradients[0].to_local().device)
    norm = norm.max() if highest else norm.sum()
    for i in range(mesh.ndim):
        dist.all_reduce(norm, dist.ReduceOp.MAX if highest else dist.ReduceOp.SUM, mesh.get_group(i))
    return norm if highest else norm.pow(1 / p)


@torch.no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """torch.nn.utils.clip_grad_norm_, which knows parameters under a plan; the norm is a plain tensor then."""
    parameters = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
    own = [x for x in parameters if isinstance(x.grad, DTensor)]
    mesh = lie.planned_mesh(*(x.grad for x in own)) if own else None
    if mesh is None or float(norm_type) <= 0:
        return _usual(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
    for x in own:  # DTensor may leave sums to be made
        x.grad = lie.add_up(x.grad)
    gradients = [x.grad for x in own]
    norm = _norm(gradients, mesh, float(norm_type))
    if error_if_nonfinite and not torch.isfinite(norm):
        raise RuntimeError(f"the norm of the gradients is {norm.item()}")
    for gradient in gradients:
        gradient.to_local().mul_((max_norm / (norm + 1e-6)).clamp(max=1))
    return norm


def register():
    """From now on clipping knows plans; of all other tensors it is what it was."""
    torch.nn.utils.clip_grad_norm_ = clip_grad_norm_
