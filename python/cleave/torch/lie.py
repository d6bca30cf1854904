"""How tensors lie on a mesh: words of a plan as placements of DTensor, moves between them, and local parts.

A local part is a plain tensor, dense and in order, and so is its gradient: DTensor infers strides of the whole from
those of the part, which for dimensions of one may be anything.
"""
import torch
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard


def placements(words):
    return [Replicate() if w == "R" else Partial() if w == "P" else Shard(int(w[1:])) for w in words]


def strides(shape):
    stride, step = [], 1
    for extent in reversed(shape):
        stride.insert(0, step)
        step *= extent
    return tuple(stride)


class _InOrder(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.contiguous().as_strided(x.shape, strides(x.shape))

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous().as_strided(gradient.shape, strides(gradient.shape))


def spread(whole, mesh, words):
    """A DTensor of what every rank has whole; nothing is sent."""
    same = DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return same.redistribute(mesh, placements(words))


class _Move(torch.autograd.Function):
    """A redistribution, if only of the gradient: that goes back to where x lay, and is whole where x was in parts that
    add up.  (DTensor's own fails on the way back to parts that several dimensions of a mesh add up.)"""

    @staticmethod
    def forward(ctx, x, mesh, words, later):
        ctx.mesh, ctx.back = mesh, [Replicate() if p.is_partial() else p for p in x.placements]
        ctx.later = later
        return x.contiguous().redistribute(mesh, placements(words))

    @staticmethod
    def backward(ctx, gradient):
        return gradient.contiguous().redistribute(ctx.mesh, ctx.back, async_op=ctx.later), None, None, None


def redistribute(x, mesh, words, later=False):
    """`later`: its gradient may be under way while backward goes on; whoever reads it waits.  So of parameters."""
    return _Move.apply(x, mesh, words, later)


def move(x, mesh, words):
    """x so, once for all who read it so: their gradients add up before they go back."""
    if not isinstance(x, DTensor):
        return spread(x, mesh, words)
    moved = x.__dict__.setdefault("_cleave_moved", {})
    key = tuple(words)
    if key not in moved:
        moved[key] = redistribute(x, mesh, words)
    return moved[key]


def local(x, gradient_words):
    """This rank's part, whose gradient comes as these words say."""
    return _InOrder.apply(x.to_local(grad_placements=placements(gradient_words)))


def join(part, mesh, words, shape):
    """The DTensor of this shape that ranks' parts make."""
    return DTensor.from_local(_InOrder.apply(part), mesh, placements(words), run_check=False, shape=torch.Size(shape),
                              stride=strides(shape))


def block(extent, words, dimension, mesh):
    """First and number of this rank's elements of a dimension: each cut gives equal blocks, rounded up."""
    first, length = 0, extent
    for i, word in enumerate(words):
        if word == f"S{dimension}":
            size = -(-length // mesh.size(i))
            offset = min(size * mesh.get_local_rank(i), length)
            first, length = first + offset, min(size, length - offset)
    return first, length


def part_shape(shape, words, mesh):
    """Of this rank's part of a tensor of this shape."""
    return [block(extent, words, d, mesh)[1] for d, extent in enumerate(shape)]


class SumOverMesh(torch.autograd.Function):
    """A sum over ranks on which every rank's loss hangs: the gradient is one, too."""

    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        x = x.clone()
        for group in groups:
            torch.distributed.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        for group in ctx.groups:
            torch.distributed.all_reduce(gradient, group=group)
        return gradient, None
