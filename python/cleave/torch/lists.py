"""Functions of lists of tensors, by which optimizers update many parameters at once, where some ranks alone have some of them.

DTensor runs such a function on the ranks of the first tensor's mesh: others would miss what they have of the rest.  So it is
called for the tensors of each mesh."""
import torch
import torch.distributed
from torch.distributed.tensor import DTensor

from . import lie

_PREFIXES = ("_foreach_", "_fused_ada", "_fused_sgd", "_amp_foreach_")
_UNSCALE = torch.ops.aten._amp_foreach_non_finite_check_and_unscale_.default


def _handlers():
    """What DTensor asks first, by function."""
    return DTensor._op_dispatcher._custom_op_handlers


def _by_mesh(tensors):
    """Places in the list of what lies on one mesh, in the order of the list, which all ranks have alike."""
    meshes = []
    for i, x in enumerate(tensors):
        mesh = x.device_mesh if isinstance(x, DTensor) else None
        places = next((places for other, places in meshes if other is mesh), None)
        if places is None:
            meshes.append((mesh, [i]))
        else:
            places.append(i)
    return [places for _, places in meshes]


def _call(usual, op, args, kwargs):
    """The function as it is without this."""
    handlers = _handlers()
    own = handlers.pop(op)
    if usual is not None:
        handlers[op] = usual
    try:
        return op(*args, **kwargs)
    finally:
        handlers[op] = own


def _split(usual):
    def handler(op, args, kwargs):
        n, groups = len(args[0]), _by_mesh(args[0])

        def pick(value, places):
            return [value[i] for i in places] if isinstance(value, (list, tuple)) and len(value) == n else value
        found = [None] * n
        for places in groups:
            given = [pick(value, places) for value in args], {name: pick(value, places) for name, value in kwargs.items()}
            made = _call(usual, op, *given)
            for i, y in zip(places, made if isinstance(made, (list, tuple)) else ()):
                found[i] = y
        if op is _UNSCALE:
            _agree(args[0], args[1])
        return None if op.__name__.partition(".")[0].endswith("_") else found
    return handler


def _agree(gradients, found):
    """All ranks leave a step out if one has found what is not finite."""
    mesh = lie.planned_mesh(*(x for x in gradients if isinstance(x, DTensor)))
    for i in range(mesh.ndim if mesh else 0):
        local = found.to_local() if isinstance(found, DTensor) else found
        torch.distributed.all_reduce(local, torch.distributed.ReduceOp.MAX, mesh.get_group(i))


def register():
    """From now on functions of lists know of DTensors of several meshes; of others they are what they were."""
    handlers = _handlers()
    for name in dir(torch):
        packet = getattr(torch.ops.aten, name) if name.startswith(_PREFIXES) else None
        for overload in packet.overloads() if packet else ():
            op = getattr(packet, overload)
            if getattr(handlers.get(op), "__module__", "") != __name__:
                handlers[op] = _split(handlers.get(op))
