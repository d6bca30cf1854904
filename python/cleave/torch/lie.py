"""How tensors lie on a mesh: words of a plan as placements of DTensor, moves between them, and local parts.

What some ranks alone have ("@0") is a DTensor of the mesh within the mesh that these are; DTensor's operators do nothing
on the others.  DTensor moves nothing from mesh to mesh, so that is done here.

A local part is a plain tensor, dense and in order, and so is its gradient: DTensor infers strides of the whole from
those of the part, which for dimensions of one may be anything.
"""
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard


def is_alone(word):
    return word[0] == "@"


_within = {}  # by id of a mesh: that, and the meshes within it, by whose alone they are
_lines = {}  # by that and a dimension: the mesh of this rank's neighbours along it


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


class _Absent(torch.autograd.Function):
    """The part of a rank that has none.  (DTensor's own has one dimension, and on the way back misses the others.)"""

    @staticmethod
    def forward(ctx, x, gradient_words):
        ctx.shape, ctx.mesh, ctx.words = x.shape, x.device_mesh, gradient_words
        return torch.empty(0, dtype=x.dtype, device=x.device_mesh.device_type)

    @staticmethod
    def backward(ctx, gradient):
        return DTensor.from_local(gradient, ctx.mesh, placements(ctx.words), run_check=False, shape=ctx.shape,
                                  stride=strides(ctx.shape)), None


def spread(whole, mesh, words):
    """A DTensor of what every rank has whole; nothing is sent."""
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
    for i in reversed(range(len(now))):
        word = words[i] if words[i][0] != "S" or _is_aligned(now, words, i) else "R"
        if now[i] != word and (not is_alone(now[i]) or is_alone(word)):
            yield i, word
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


def _rearrange(part, mesh, i, word, to, shape):
    """What all of a dimension of the mesh have; `shape`: of what they have together."""
    if (id(mesh), i) not in _lines:
        _lines[id(mesh), i] = DeviceMesh.from_group(mesh.get_group(i), mesh.device_type)
    line = _lines[id(mesh), i]
    x = DTensor.from_local(part, line, placements([word]), run_check=False, shape=shape, stride=strides(shape))
    return x.redistribute(line, placements([to])).to_local()


def _step(x, mesh, now, i, word):
    after, whole_here = [*now[:i], word, *now[i + 1:]], [*now[:i], "R", *now[i + 1:]]
    part = x.to_local().contiguous()
    if all(k == i or not is_alone(w) or mesh.get_local_rank(k) == int(w[1:]) for k, w in enumerate(now)):
        if is_alone(now[i]):
            part = _share(part, mesh, i, int(now[i][1:]), word, part_shape(x.shape, after, mesh))
        elif is_alone(word):
            part = _give(part, mesh, i, now[i], int(word[1:]), part_shape(x.shape, after, mesh))
        else:
            part = _rearrange(part, mesh, i, now[i], word, torch.Size(part_shape(x.shape, whole_here, mesh)))
    if x.dim() == 0 and part.dim() > 0:  # from_local takes the shape of a scalar from the part, also where there is none
        part = part.new_zeros(())
    return DTensor.from_local(part, within(mesh, after), placements(after), run_check=False, shape=x.shape,
                              stride=strides(x.shape))


def _carry(x, mesh, words, later=False):
    now, to = words_of(x, mesh), within(mesh, words)
    if x.device_mesh == to:
        return x.redistribute(to, placements(words), async_op=later)
    for i, word in _steps(now, words):
        x = _step(x, mesh, now, i, word)
        now[i] = word
    return x


class _Move(torch.autograd.Function):
    """A redistribution, if only of the gradient: that goes back to where x lay, and is whole where x was in parts that
    add up.  (DTensor's own fails on the way back to parts that several dimensions of a mesh add up.)"""

    @staticmethod
    def forward(ctx, x, mesh, words, later):
        ctx.mesh, ctx.back = mesh, ["R" if word == "P" else word for word in words_of(x, mesh)]
        ctx.later = later
        return _carry(x.contiguous(), mesh, words)

    @staticmethod
    def backward(ctx, gradient):
        return _carry(gradient.contiguous(), ctx.mesh, ctx.back, ctx.later), None, None, None


def _stays(x, mesh, words, gradient_words):
    """Does neither x nor its gradient move?  Then DTensor need not be asked, which takes a tenth of a millisecond each way."""
    return list(words) == list(gradient_words) == words_of(x, mesh) and "P" not in words and not any(map(is_alone, words))


def redistribute(x, mesh, words, gradient_words=(), later=False):
    """`gradient_words`: how the gradient comes; if nothing is said, anyhow.  `later`: it may be under way while backward
    goes on; whoever reads it waits.  So of parameters."""
    return x if _stays(x, mesh, words, gradient_words) else _Move.apply(x, mesh, words, later)


def move(x, mesh, words, gradient_words=()):
    """x so, once for all who read it so: their gradients add up before they go back."""
    if not isinstance(x, DTensor):
        return spread(x, mesh, words)
    if _stays(x, mesh, words, gradient_words):
        return x
    moved = x.__dict__.setdefault("_cleave_moved", {})
    key = tuple(words)
    if key not in moved:
        moved[key] = redistribute(x, mesh, words)
    return moved[key]


def whole(x, mesh=None):
    """All of a tensor under a plan, on every rank, also of one that some alone have; every rank has to ask."""
    if not isinstance(x, DTensor):
        return x
    mesh = mesh or planned_mesh(x)
    return redistribute(x, mesh, ["R"] * mesh.ndim).to_local() if mesh else x.full_tensor()


def local(x, gradient_words):
    """This rank's part, whose gradient comes as these words say."""
    if x.device_mesh.get_coordinate() is None:
        return _Absent.apply(x, gradient_words)
    return _InOrder.apply(x.to_local(grad_placements=placements(gradient_words)))


def join(part, mesh, words, shape):
    """The DTensor of this shape that ranks' parts make."""
    return DTensor.from_local(_InOrder.apply(part), within(mesh, words), placements(words), run_check=False,
                              shape=torch.Size(shape), stride=strides(shape))


def nothing(tensors):
    """On a rank that has no part in what is made of these, of which it has nothing: it hangs on them all the same, so that
    backward moves what it has to on every rank."""
    return torch.cat([x.flatten()[:0] for x in tensors if x is not None and x.is_floating_point()])


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
