"""How tensors lie on a mesh: words of a plan as placements of DTensor, moves between them, and local parts.

What some ranks alone have ("@0") is a DTensor of the mesh within the mesh that these are; DTensor's operators do nothing
on the others.  DTensor moves nothing from mesh to mesh, so that is done here.

A local part is a plain tensor, dense and in order, and so is its gradient: DTensor infers strides of the whole from
those of the part, which for dimensions of one may be anything.
"""
import math

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard

from ..command import CleaveError
from . import under_way


def is_alone(word):
    return word[0] == "@"


_within = {}  # by id of a mesh: that, and the meshes within it, by whose alone they are


def _known(mesh):
    return _within.setdefault(id(mesh), (mesh, {(None,) * mesh.ndim: mesh}))[1]


def within(mesh, words):
    """The mesh of the ranks that have what lies so.  All ranks come here alike, since making one needs them all."""
    chosen = tuple(int(w[1:]) if is_alone(w) else None for w in words)
    known = _known(mesh)
    if chosen not in known:
        ranks = mesh.mesh[tuple(slice(None) if c is None else slice(c, c + 1) for c in chosen)]
        sizes = [n for n, c in zip(ranks.shape, chosen) if c is None] or [1]
        known[chosen] = DeviceMesh(mesh.device_type, ranks.reshape(sizes))
    return known[chosen]


_planned = []  # meshes of plans that were applied


def plan_on(mesh):
    _planned.insert(0, mesh)


def planned_mesh(*tensors):
    """The mesh of the plan under which DTensors came to be, the newest that all can be of; None: of none."""
    return next((mesh for mesh in _planned if all(x.device_mesh in _known(mesh).values() for x in tensors)), None)


def is_absent(mesh, words):
    """Have others alone what lies so?"""
    if any(map(is_alone, words)) and torch.is_autocast_enabled(mesh.device_type):
        raise CleaveError("the plan has modules on some ranks alone, where the others don't know what torch.autocast makes of "
                          "their outputs: train without autocast")
    return within(mesh, words).get_coordinate() is None


def placements(words):
    """On the mesh within which it lies."""
    return [Replicate() if w == "R" else Partial() if w == "P" else Shard(int(w[1:])) for w in words
            if not is_alone(w)] or [Replicate()]


def words_of(x, mesh):
    """How a DTensor lies on this mesh or within it."""
    chosen = next(c for c, other in _known(mesh).items() if other == x.device_mesh)
    own = iter("P" if p.is_partial() else f"S{p.dim}" if p.is_shard() else "R" for p in x.placements)
    return [next(own) if c is None else f"@{c}" for c in chosen]


def _adds_up(place):
    return not place.is_partial() or (type(place) is Partial and place.reduce_op == "sum")


class _Settle(torch.autograd.Function):
    """A mean is a sum of shares (gloo has no means); all else comes together.  What it is stays, so its gradient does."""

    @staticmethod
    def forward(ctx, x):
        is_mean = [place.is_partial() and place.reduce_op == "avg" for place in x.placements]
        share = x.to_local() / math.prod(x.device_mesh.size(i) for i, mean in enumerate(is_mean) if mean)
        placements = [Partial() if mean else place for mean, place in zip(is_mean, x.placements)]
        y = DTensor.from_local(share, x.device_mesh, placements, run_check=False, shape=x.shape, stride=x.stride())
        if all(map(_adds_up, placements)):
            return y
        return y.redistribute(placements=[Replicate() if place.is_partial() else place for place in placements])

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def settle(x):
    """x, of which ranks may have parts whose mean, largest or the like it is, as DTensor leaves them: here what is partial
    adds up."""
    return _Settle.apply(x) if isinstance(x, DTensor) and not all(map(_adds_up, x.placements)) else x


def strides(shape):
    stride, step = [], 1
    for extent in reversed(shape):
        stride.insert(0, step)
        step *= extent
    return tuple(stride)


def _in_order(part):
    """Another tensor of the same elements, dense and in order."""
    return part.contiguous().as_strided(part.shape, strides(part.shape))


def _wrap(part, mesh, words, shape):
    return DTensor.from_local(part, within(mesh, words), placements(words), run_check=False, shape=torch.Size(shape),
                              stride=strides(shape))


def spread(whole, mesh, words):
    """A DTensor of what every rank has whole; nothing is sent, but for gradients, which all ranks get whole."""
    if whole.requires_grad and torch.is_grad_enabled():
        return redistribute(DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim, run_check=False), mesh, words)
    mesh = within(mesh, words)
    same = DTensor.from_local(whole, mesh, [Replicate()] * mesh.ndim, run_check=False)
    return same.redistribute(mesh, placements(words))


# ---- moves -----------------------------------------------------------------------------------------------------------


def _is_aligned(now, words, i):
    """Do the same outer dimensions of the mesh cut a dimension of the tensor before and after?"""
    return all((now[k] == words[i]) == (words[k] == words[i]) for k in range(i))


def _steps(now, words):
    """From one to the other by a dimension of the mesh at a time, in DTensor's order: from the innermost outwards, and of
    what has to be cut anew only that it is whole; then from the outermost inwards.  Who is to have it alone gets it
    before others move theirs, and who has it alone shares it after."""
    now = list(now)
    for i in reversed(range(len(now))):
        word = words[i] if words[i][0] != "S" or _is_aligned(now, words, i) else "R"
        if now[i] != word and (not is_alone(now[i]) or is_alone(word)):
            yield i, word
            now[i] = word
    for i, word in enumerate(words):
        if now[i] != word:
            yield i, word


def _blocks(whole, d, n):
    """Extents of a dimension's blocks, rounded up."""
    size = -(-whole // n)
    return [max(0, min(size, whole - r * size)) for r in range(n)]


def _exchange(messages):
    """Sends and receives: [is sent, tensor, rank, group]."""
    messages = [dist.P2POp(dist.isend if sends else dist.irecv, x, rank, group) for sends, x, rank, group in messages
                if x.numel()]
    for request in dist.batch_isend_irecv(messages) if messages else []:
        request.wait()


def _share(part, mesh, i, owner, word, shape):
    """What one rank of a dimension of the mesh has alone, as `word` says: this rank's part, of this shape."""
    n, me, group = mesh.size(i), mesh.get_local_rank(i), mesh.get_group(i)
    ranks = dist.get_process_group_ranks(group)
    # What DTensor makes on a rank that has no part may be on another device.
    mine = part if me == owner and word == "R" else torch.empty(shape, dtype=part.dtype, device=mesh.device_type)
    if word == "R":
        dist.broadcast(mine, ranks[owner], group)
    elif is_alone(word):
        to = int(word[1:])
        _exchange([(True, part, ranks[to], group)] if me == owner else
                  [(False, mine, ranks[owner], group)] if me == to else [])
    elif me != owner:
        _exchange([(False, mine, ranks[owner], group)])
    else:
        d = int(word[1:])
        blocks = [block.contiguous() for block in part.split(_blocks(part.shape[d], d, n), d)]
        _exchange([(True, block, rank, group) for r, (block, rank) in enumerate(zip(blocks, ranks)) if r != me])
        mine = blocks[me]
    return mine


def _give(part, mesh, i, word, owner, shape):
    """What lies as `word` says, to one rank of a dimension of the mesh; there it is of this shape."""
    n, me, group = mesh.size(i), mesh.get_local_rank(i), mesh.get_group(i)
    ranks = dist.get_process_group_ranks(group)
    if word == "P":
        part = part.clone()
        dist.reduce(part, ranks[owner], group=group)
    elif word[0] == "S" and me != owner:
        _exchange([(True, part, ranks[owner], group)])
    elif word[0] == "S":
        d = int(word[1:])
        blocks = [part if r == me else part.new_empty([*shape[:d], extent, *shape[d + 1:]])
                  for r, extent in enumerate(_blocks(shape[d], d, n))]
        _exchange([(False, block, rank, group) for r, (block, rank) in enumerate(zip(blocks, ranks)) if r != me])
        part = torch.cat(blocks, d)
    return part


# DTensor's collectives, without what it does in Python about them.
_send, _wait = torch.ops._c10d_functional, torch.ops._c10d_functional.wait_tensor


def _padded(part, d, extent):
    missing = extent - part.shape[d]
    return torch.cat([part, part.new_zeros([*part.shape[:d], missing, *part.shape[d + 1:]])], d) if missing else part


def _gather(part, d, extents, group):
    here = _padded(part, d, extents[0]).contiguous()
    blocks = _wait(_send.all_gather_into_tensor(here.unsqueeze(0), len(extents), group.group_name))
    if d == 0 and extents[0] == extents[-1]:
        return blocks.flatten(0, 1)
    return torch.cat([block.narrow(d, 0, extent) for block, extent in zip(blocks, extents)], d)


def _blocks_of(part, d, extents):
    """What a reduce-scatter takes: equal blocks, one after the other along the first dimension."""
    if d == 0 and extents[0] == extents[-1]:
        return part
    return torch.cat([_padded(block, d, extents[0]) for block in part.split(extents, d)])


def _swap(part, d, e, shape, group):
    """From blocks of one dimension to blocks of another: each rank gets of each other what it lacks."""
    n, me = dist.get_world_size(group), dist.get_rank(group)
    sent = [block.flatten() for block in part.split(_blocks(shape[e], e, n), e)]
    lies = [[extent if k == d else _blocks(shape[e], e, n)[me] if k == e else rest for k, rest in enumerate(shape)]
            for extent in _blocks(shape[d], d, n)]
    found = _wait(_send.all_to_all_single(torch.cat(sent), [math.prod(lie) for lie in lies], [len(x) for x in sent],
                                          group.group_name))
    return torch.cat([x.view(lie) for x, lie in zip(found.split([math.prod(lie) for lie in lies]), lies)], d)


def launch(part, word, to, group):
    """Begins what one dimension of a mesh does, of a tensor in equal blocks of its first dimension (of two where they
    are blocks of another then); what it returns ends it."""
    n = dist.get_world_size(group)
    found = _send.all_reduce_(part.clone(), "sum", group.group_name) if word == "P" and to == "R" else \
        _send.reduce_scatter_tensor(part, "sum", n, group.group_name) if word == "P" else \
        _send.all_to_all_single(part, [len(part) // n] * n, [len(part) // n] * n, group.group_name) if to[0] == "S" else \
        _send.all_gather_into_tensor(part, n, group.group_name)
    return lambda: _wait(found)


def _rearrange(part, mesh, i, word, to, shape):
    """What all of a dimension of the mesh have; `shape`: of what they have together."""
    n, me, group = mesh.size(i), mesh.get_local_rank(i), mesh.get_group(i)
    d = int((to if to[0] == "S" else word)[1:] or 0)
    if word == "P" and to == "R":
        return _wait(_send.all_reduce(part, "sum", group.group_name))
    extents = _blocks(shape[d], d, n)
    if word == "R":
        return part.narrow(d, sum(extents[:me]), extents[me]).contiguous()
    if math.prod(shape) == 0:
        return part.new_empty([extents[me] if k == d and to[0] == "S" else n for k, n in enumerate(shape)])
    if word == "P":
        mine = _wait(_send.reduce_scatter_tensor(_blocks_of(part, d, extents), "sum", n, group.group_name))
        return mine.narrow(d, 0, extents[me]).contiguous()
    return _gather(part, d, extents, group) if to == "R" else _swap(part, int(word[1:]), d, shape, group)


def _rearrange_runs(part, mesh, i, word, to, shape):
    """The same where a block is one of each run of a dimension ("S1/2"): as of a tensor that has runs as a dimension."""
    d, runs = map(int, (word if "/" in word else to)[1:].split("/"))
    if f"S{d}" in (word, to):  # blocks of that are none of the other
        whole = _rearrange(part, mesh, i, word, "R", shape) if word == f"S{d}" else _rearrange_runs(part, mesh, i, word, "R", shape)
        return _rearrange_runs(whole, mesh, i, "R", to, shape) if "/" in to else _rearrange(whole, mesh, i, "R", to, shape)
    words = [f"S{d + 1}" if "/" in w else f"S{int(w[1:]) + 1}" if w[0] == "S" and int(w[1:]) > d else w for w in (word, to)]
    part = part.reshape(*part.shape[:d], runs, part.shape[d] // runs, *part.shape[d + 1:])
    found = _rearrange(part, mesh, i, *words, [*shape[:d], runs, shape[d] // runs, *shape[d + 1:]])
    return found.flatten(d, d + 1)


def _step(part, shape, mesh, now, i, word):
    after, whole_here = [*now[:i], word, *now[i + 1:]], [*now[:i], "R", *now[i + 1:]]
    if all(k == i or not is_alone(w) or mesh.get_local_rank(k) == int(w[1:]) for k, w in enumerate(now)):
        if is_alone(now[i]):
            part = _share(part, mesh, i, int(now[i][1:]), word, part_shape(shape, after, mesh))
        elif is_alone(word):
            part = _give(part, mesh, i, now[i], int(word[1:]), part_shape(shape, after, mesh))
        else:
            arrange = _rearrange_runs if "/" in now[i] + word else _rearrange
            part = arrange(part, mesh, i, now[i], word, part_shape(shape, whole_here, mesh))
    # DTensor takes the shape of a scalar from the part, also where there is none.
    return part.new_zeros(()) if len(shape) == 0 and part.dim() > 0 else part


def _carry(part, shape, mesh, now, words):
    """This rank's part of a tensor of this shape, once it is brought from how it lies to how it is wanted."""
    now, part = list(now), part.contiguous()
    for i, word in _steps(now, words):
        part = _step(part, shape, mesh, now, i, word)
        now[i] = word
    return part


def _back(words):
    """How a gradient lies: whole, where what it is of was in parts that add up."""
    return ["R" if word == "P" else word for word in words]


class _Move(torch.autograd.Function):
    """A redistribution, if only of the gradient: that goes back to where x lay.  DTensor's own takes Python a fifth of a
    millisecond each way, and fails on the way back to parts that several dimensions of a mesh add up."""

    @staticmethod
    def forward(ctx, x, mesh, words):
        ctx.mesh, ctx.words = mesh, words_of(x, mesh)
        return _wrap(_in_order(_carry(x.to_local(), x.shape, mesh, ctx.words, words)), mesh, words, x.shape)

    @staticmethod
    def backward(ctx, gradient):
        words = _back(ctx.words)
        part = _carry(gradient.to_local(), gradient.shape, ctx.mesh, words_of(gradient, ctx.mesh), words)
        return _wrap(part, ctx.mesh, words, gradient.shape), None, None


class _Enter(torch.autograd.Function):
    """This rank's part of a DTensor that is brought to `words`, whose gradient comes as other words say, and goes back so;
    of a rank that has none it is of no elements.  `later`: that of a parameter may be under way while backward goes on."""

    @staticmethod
    def forward(ctx, x, mesh, words, gradient_words, back, later):
        ctx.x, ctx.shape, ctx.mesh, ctx.gradient_words, ctx.back = x if later else None, x.shape, mesh, gradient_words, back
        part = _carry(x.to_local(), x.shape, mesh, words_of(x, mesh), words)
        if is_absent(mesh, words):
            return torch.empty(0, dtype=x.dtype, device=mesh.device_type)
        return _in_order(part)

    @staticmethod
    def backward(ctx, gradient):
        part, steps = _in_order(gradient), list(_steps(ctx.gradient_words, ctx.back))
        if ctx.x is not None and part.numel() and under_way.takes(ctx.x, ctx.next_functions[0][0], steps, ctx.gradient_words):
            under_way.add(ctx.x, part, [ctx.mesh.get_group(i) for i, _ in steps])
            return (None,) * 6
        part = _carry(part, ctx.shape, ctx.mesh, ctx.gradient_words, ctx.back)
        return _wrap(part, ctx.mesh, ctx.back, ctx.shape), *(None,) * 5


class _Leave(torch.autograd.Function):
    """The DTensor that ranks' parts make, brought to `then`."""

    @staticmethod
    def forward(ctx, part, mesh, words, then, shape):
        ctx.mesh, ctx.words, ctx.part_shape = mesh, words, part.shape
        return _wrap(_in_order(_carry(part, shape, mesh, words, then)), mesh, then, shape)

    @staticmethod
    def backward(ctx, gradient):
        words = _back(ctx.words)
        part = _carry(gradient.to_local(), gradient.shape, ctx.mesh, words_of(gradient, ctx.mesh), words)
        if is_absent(ctx.mesh, ctx.words):
            part = torch.empty(ctx.part_shape, dtype=gradient.dtype, device=ctx.mesh.device_type)
        return _in_order(part), None, None, None, None


def _stays(x, mesh, words, gradient_words):
    """Does neither x nor its gradient move?  Then DTensor need not be asked, which takes a tenth of a millisecond each way."""
    return list(words) == list(gradient_words) == words_of(x, mesh) and "P" not in words and not any(map(is_alone, words))


def redistribute(x, mesh, words, gradient_words=()):
    """`gradient_words`: how the gradient comes; if nothing is said, anyhow."""
    return x if _stays(x, mesh, words, gradient_words) else _Move.apply(x, mesh, words)


def move(x, mesh, words, gradient_words=()):
    """x so, once for all who read it so: their gradients add up before they go back.  (Not of a parameter, which is another
    after the next update.)"""
    if not isinstance(x, DTensor):
        return spread(x, mesh, words)
    if _stays(x, mesh, words, gradient_words):
        return x
    if isinstance(x, torch.nn.Parameter):
        return redistribute(x, mesh, words)
    moved = x.__dict__.setdefault("_cleave_moved", {})
    key = tuple(words)
    if key not in moved:
        moved[key] = redistribute(x, mesh, words)
    return moved[key]


def add_up(x):
    """x, of which ranks have no parts that add up."""
    mesh = planned_mesh(x) if isinstance(x, DTensor) and any(map(Placement.is_partial, x.placements)) else None
    return x if mesh is None else redistribute(x, mesh, _back(words_of(x, mesh)))


def whole(x, mesh=None):
    """All of a tensor under a plan, on every rank, also of one that some alone have; every rank has to ask."""
    if not isinstance(x, DTensor):
        return x
    x, mesh = settle(x), mesh or planned_mesh(x)
    return redistribute(x, mesh, ["R"] * mesh.ndim).to_local() if mesh else x.full_tensor()


def enter(x, mesh, words, gradient_words, later=False):
    """This rank's part of x once it lies as `words` say; its gradient comes as the others say, and goes back to x."""
    return _Enter.apply(x, mesh, words, gradient_words, _back(words_of(x, mesh)), later)


def local(x, mesh, gradient_words):
    """This rank's part, whose gradient comes as these words say, and is of x as it does."""
    return _Enter.apply(x, mesh, words_of(x, mesh), gradient_words, gradient_words, False)


def join(part, mesh, words, shape, then=None):
    """The DTensor of this shape that ranks' parts make, as `then` says once it is made."""
    return _Leave.apply(part, mesh, words, then or words, shape)


def nothing(tensors):
    """On a rank that has no part in what is made of these, of which it has nothing: it hangs on them all the same, so that
    backward moves what it has to on every rank."""
    return torch.cat([x.flatten()[:0] for x in tensors if x is not None and x.is_floating_point()])


def block(extent, words, dimension, mesh):
    """First and number of this rank's elements of a dimension: each cut gives equal blocks, rounded up."""
    first, length = 0, extent
    for i, word in enumerate(words):
        if word.partition("/")[0] == f"S{dimension}":
            size = -(-length // mesh.size(i))
            offset = min(size * mesh.get_local_rank(i), length)
            first, length = first + offset, min(size, length - offset)
    return first, length


def part_shape(shape, words, mesh):
    """Of this rank's part of a tensor of this shape."""
    return [block(extent, words, d, mesh)[1] for d, extent in enumerate(shape)]


def largest_part(shape, words, mesh):
    """Of the first rank's part, which is the same to all ranks."""
    shape = list(shape)
    for i, word in enumerate(words):
        if word[0] == "S":
            d = int(word[1:].partition("/")[0])
            shape[d] = -(-shape[d] // mesh.size(i))
    return shape
