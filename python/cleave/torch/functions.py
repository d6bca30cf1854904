"""Functions that DTensor lacks or is wrong about, on parts: attention, pools, dropout, and the loss."""
import functools
import itertools
import math

import torch
import torch.distributed
import torch.nn.functional as F
from torch.distributed.tensor import DTensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map, tree_map_only

from . import lie

# Of an image whose samples and channels alone are cut, parts are pooled as the whole is.
POOLS = {F.max_pool1d, F.max_pool2d, F.max_pool3d, torch.max_pool1d, torch.max_pool2d, torch.max_pool3d, F.avg_pool1d,
         F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d}

# What they read has to be cut alike.  DTensor would see to that, but gathers the whole to cut it anew, once more where
# backward reads it.
POINTWISE = {getattr(where, name) for name in ("add", "sub", "mul", "div", "true_divide", "maximum", "minimum", "pow")
             for where in (torch, torch.Tensor)} | \
    {getattr(torch.Tensor, f"__{name}__") for name in ("add", "radd", "sub", "mul", "rmul", "truediv", "pow")}

# Of elements alone, whose gradients DTensor does not know.
ELEMENTWISE = {getattr(F, name) for name in (
    "celu", "elu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "logsigmoid", "mish", "relu6", "selu",
    "softplus", "softshrink", "softsign", "tanhshrink")}

VIEWS = {torch.Tensor.view, torch.Tensor.reshape, torch.reshape, torch.Tensor.flatten, torch.flatten,
         torch.Tensor.unflatten, torch.unflatten}




def _named(*names):
    return {getattr(where, name) for name in names for where in (torch, torch.Tensor) if hasattr(where, name)}


# DTensor has no rule for them or for their gradients, or (2.6, of slices) a wrong one.
MEANS = _named("mean")  # of uneven blocks wrong
GATHERED = _named("gather", "scatter_add", "index_add", "scatter", "diagonal") | {F.one_hot, F.grid_sample}
# Of those that look along some dimensions alone parts in all others do: the place of the dimension among arguments, and which it
# is where none is said.
ALONG = {func: (at, default) for at, default, names in (
    (1, None, ("narrow", "select", "cumsum", "index_select", "amax", "amin", "max", "min", "prod", "var", "std", "any",
               "all", "argmax", "argmin")),
    (1, 0, ("unbind",)), (2, 0, ("split", "chunk")), (1, -1, ("sort", "median")), (2, -1, ("topk", "diff", "kthvalue")),
    (2, None, ("norm",))) for name in names for func in _named(name)} | {
    F.normalize: (2, 1), torch.linalg.norm: (2, None), torch.linalg.vector_norm: (2, None)}


# Of modules that people call by their parameters alone: DTensor's own rules are those of a few layouts.  By dimensions of images.
CONVOLUTIONS = {getattr(F, f"conv{transposed}{n}d"): n for transposed in ("", "_transpose") for n in (1, 2, 3)}


def _dimensions(func, x, args, kwargs):
    """Those along which a function looks; None: it is none of these, or looks at numbers alone."""
    if func in CONVOLUTIONS:
        return range(x.dim() - CONVOLUTIONS[func] - 1, x.dim())
    if func is F.pad:
        return range(x.dim() - len(args[0] if args else kwargs["pad"]) // 2, x.dim())
    if func in (F.interpolate, F.upsample):
        return range(2, x.dim())
    if func in (F.group_norm, F.instance_norm, F.local_response_norm):
        return range(1, x.dim())
    if func is getattr(F, "rms_norm", None):
        return range(x.dim() - len(args[0] if args else kwargs["normalized_shape"]), x.dim())
    if func not in ALONG:
        return None
    at, default = ALONG[func]
    said = kwargs.get("dim", args[at - 1] if len(args) >= at else default)
    if isinstance(said, torch.Tensor) or (said is None and func in _named("max", "min", "amax", "amin", "any", "all", "argmax", "argmin")):
        return None
    said = range(x.dim()) if said is None or isinstance(said, bool) else said
    return [d % x.dim() for d in ([said] if isinstance(said, int) else said)]


# Of which leading dimensions become one.
PRODUCTS = {F.linear, torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__}


def _stays_cut(shape, dimension, parts, other):
    """Are blocks of a dimension blocks of one of the other shape, of the same elements?"""
    before, met = math.prod(shape[:dimension]), 1
    for extent in other:
        if met == before and (extent > 1 or shape[dimension] == 1):
            return extent == shape[dimension] or (extent % parts == 0 and shape[dimension] % parts == 0)
        met *= extent
    return False


def _tensors(x):
    if isinstance(x, (list, tuple)):
        return [tensor for y in x for tensor in _tensors(y)]
    return [x] if isinstance(x, torch.Tensor) else []


def _writes(func):
    """Does it write over its first argument?"""
    name = getattr(func, "__name__", "")
    return name.startswith("__i") or (name.endswith("_") and not name.endswith("__"))


def _settle_gradient(x, func):
    """Of a parameter that a function reads the gradient is added up before it is in .grad, as that of one in a module is: not
    all optimizers can do with parts."""
    if isinstance(x, torch.nn.Parameter) and x.requires_grad and func.__name__ != "__get__" and not hasattr(x, "_cleave_settled"):
        x._cleave_settled = x.register_hook(lie.add_up)


class Functions(TorchFunctionMode):
    """Within the forward of one module.  `attention`: how its one attention is cut, or None."""

    def __init__(self, mesh, attention):
        super().__init__()
        self.mesh, self.attention, self.n = mesh, attention, 0

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not args and isinstance(kwargs.get("input"), DTensor):
            args, kwargs = (kwargs["input"],), {name: x for name, x in kwargs.items() if name != "input"}
        if func is F.scaled_dot_product_attention and any(isinstance(x, DTensor) for x in (*args, *kwargs.values())):
            return self.attend(func, *args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self.see_within(func, *args, **kwargs)
        tensors = _tensors((*args, *kwargs.values()))
        parts = [x for x in tensors if isinstance(x, DTensor)]
        for x in parts:
            _settle_gradient(x, func)
        if parts and any(not isinstance(x, DTensor) or x.device_mesh != parts[0].device_mesh for x in tensors):
            place = self.place(parts[:1] if _writes(func) else parts)
            args = [self.bring(x, *place) for x in args]
            kwargs = {name: self.bring(x, *place) for name, x in kwargs.items()}
        elif func in POINTWISE and self.are_across(parts):
            words = self.place(parts)[0]
            args = [lie.move(x, self.mesh, words) if isinstance(x, DTensor) else x for x in args]
        if func is torch.stack and parts and args:
            at = kwargs.get("dim", args[1] if len(args) > 1 else 0)
            return lie.settle(torch.cat([x.unsqueeze(at) for x in args[0]], at))
        if not args or not isinstance(args[0], DTensor):
            return func(*args, **kwargs)
        if func in VIEWS:
            return self.view(func, *args, **kwargs)
        if func in PRODUCTS and len(args) > 1:
            return self.multiply(func, *args, **kwargs)
        if func in POOLS:
            return self.pool(func, *args, **kwargs)
        if func is F.dropout:
            return self.drop(*args, **kwargs)
        if func is torch.Tensor.__getitem__:
            return self.pick(*args)
        if func in ELEMENTWISE and not kwargs.get("inplace"):
            return self.each(func, *args, **kwargs)
        if func in GATHERED:
            return self.gather(func, args, kwargs)
        if func in MEANS and self.are_uneven(args[0]):
            ones = torch.empty(args[0].shape, device="meta")
            share = args[0].numel() / torch.sum(ones, *args[1:], **kwargs).numel()
            return lie.settle(torch.sum(*args, **kwargs)) / share
        along = _dimensions(func, args[0], args[1:], kwargs)
        if along is not None:
            return self.look_along(func, along, *args, **kwargs)
        try:
            y = func(*args, **kwargs)
        except NotImplementedError:  # DTensor has no rule for it
            if _writes(func):
                raise
            return self.gather(func, args, kwargs)
        is_several = isinstance(y, tuple) and not isinstance(y, torch.Size)
        return tree_map_only(DTensor, lie.settle, y) if is_several else lie.settle(y)

    def look_along(self, func, dimensions, x, *rest, **kwargs):
        """On parts that have all of these dimensions, which the result may lack."""
        words = ["R" if word in [f"S{d}" for d in dimensions] else word for word in self.words(x)]
        part = lie.local(lie.move(x, self.mesh, words, words), self.mesh, words)
        on_meta = tree_map_only(torch.Tensor, lambda other: torch.empty(other.shape, dtype=other.dtype, device="meta"), (rest, kwargs))
        others = [word if lie.is_alone(word) else "R" for word in words]
        gradient = ["P" if word[0] == "S" else word for word in words]
        rest, kwargs = tree_map_only(DTensor, lambda other: lie.local(lie.move(other, self.mesh, others, gradient), self.mesh,
                                                                      gradient), (rest, kwargs))
        whole = func(torch.empty(x.shape, dtype=x.dtype, device="meta"), *on_meta[0], **on_meta[1])
        absent = lie.is_absent(self.mesh, words)
        found = tree_map_only(torch.Tensor, lambda y: lie.nothing([part]).to(y.dtype), whole) if absent else func(part, *rest, **kwargs)

        def join(y, of):
            gone = [d for d in dimensions if of.dim() < x.dim()]
            then = [f"S{int(w[1:]) - sum(d < int(w[1:]) for d in gone)}" if w[0] == "S" else w for w in words]
            return lie.join(y, self.mesh, then, of.shape)
        return tree_map(lambda y, of: join(y, of) if isinstance(y, torch.Tensor) else y, found, whole)

    def gather(self, func, args, kwargs):
        """What can't be done by parts all ranks do alike."""
        whole = ["R"] * self.mesh.ndim
        args, kwargs = tree_map_only(DTensor, lambda x: lie.local(lie.move(x, self.mesh, whole, whole), self.mesh, whole),
                                     (args, kwargs))
        return tree_map_only(torch.Tensor, lambda y: lie.join(y, self.mesh, whole, y.shape), func(*args, **kwargs))

    def see_within(self, func, *args, **kwargs):
        """What is a function to a mode, and many in Python: it asks whether one is there, and here is told no."""
        asks, F.has_torch_function = F.has_torch_function, lambda tensors: False
        try:
            with self:
                return func(*args, **kwargs)
        finally:
            F.has_torch_function = asks

    def place(self, parts):
        """How the argument lies that is spread most, and its shape: by what is cut, and then by who alone has it."""
        words = [lie.words_of(x, self.mesh) for x in parts]
        spread = [(sum(w[0] == "S" for w in each), sum(map(lie.is_alone, each))) for each in words]
        at = spread.index(max(spread))
        return ["R" if w == "P" else w for w in words[at]], parts[at].shape

    def are_across(self, parts):
        """Are tensors of one shape cut in other dimensions by the same ranks?"""
        if len(parts) < 2 or any(x.shape != parts[0].shape for x in parts):
            return False
        cuts = [{word for word in words if word[0] == "S"} for words in zip(*(lie.words_of(x, self.mesh) for x in parts))]
        return any(len(cut) > 1 for cut in cuts)

    def bring(self, x, words, shape):
        """An argument to the ranks on which the function is done.  What it is given beside DTensors (tables of positions,
        masks) every rank has whole."""
        if isinstance(x, (list, tuple)) and any(isinstance(y, torch.Tensor) for y in x):
            return type(x)(self.bring(y, words, shape) for y in x)
        if not isinstance(x, torch.Tensor) or (isinstance(x, DTensor) and x.device_mesh == lie.within(self.mesh, words)):
            return x
        if isinstance(x, DTensor) and x.shape == shape:
            return lie.move(x, self.mesh, words)
        own = lie.words_of(x, self.mesh) if isinstance(x, DTensor) else ["R"] * self.mesh.ndim
        return lie.move(x, self.mesh, [w if lie.is_alone(w) else mine if mine[0] == "S" else "R"
                                       for w, mine in zip(words, own)])

    def attend(self, func, query, key, value, *rest, **kwargs):
        """As the plan cuts it; that of a module that it has whole (nn.MultiheadAttention), by samples and heads as it comes."""
        if self.attention is None:
            leading = [f"S{d}" for d in range(query.dim() - 2) if key.shape[d] > 1 or query.shape[d] == 1]
            words = output = gradient = [word if word in leading else "R" for word in self.words(query)]
        else:
            self.n += 1
            if self.n > 1:
                raise RuntimeError(f"{self.attention.operator} is one attention, and its module calls a second one")
            words, output, gradient = self.attention.input, self.attention.output, self.attention.gradient(self.attention.input)
        key, value = self.repeat(words, query, key), self.repeat(words, query, value)
        shape = (*query.shape[:-1], value.shape[-1])
        parts = [lie.local(lie.move(x, self.mesh, words, gradient), self.mesh, gradient) for x in (query, key, value)]
        absent = lie.is_absent(self.mesh, words)
        rest, kwargs = ([self.cut_mask(x, query.dim(), words) for x in rest],
                        {name: self.cut_mask(x, query.dim(), words) for name, x in kwargs.items()})
        y = lie.nothing(parts) if absent else func(*parts, *rest, **kwargs)
        return lie.join(y, self.mesh, output, shape)

    def words(self, x):
        """How it lies; no partial sums."""
        words = lie.words_of(x, self.mesh) if isinstance(x, DTensor) else ["R"] * self.mesh.ndim
        return ["R" if word == "P" else word for word in words]

    def repeat(self, words, q, x):
        """Keys or values of heads that share them, where ranks that have some of these would not have theirs."""
        parts = math.prod(self.mesh.size(i) for i, word in enumerate(words) if word == "S1")
        if x.shape[1] == q.shape[1] or x.shape[1] % parts == 0:
            return x
        n, heads, t, width = x.shape
        return x[:, :, None].expand(n, heads, q.shape[1] // heads, t, width).reshape(n, q.shape[1], t, width)

    def cut_mask(self, mask, rank, attention):
        """What is added to scores, which may be trained, as far as these are cut along its dimensions; it may have fewer."""
        if not isinstance(mask, torch.Tensor):
            return mask
        cuts = [int(word[1:]) - rank + mask.dim() if word[0] == "S" else None for word in attention]
        words = [word if cut is None else f"S{cut}" if cut >= 0 and mask.shape[cut] > 1 else "R"
                 for word, cut in zip(attention, cuts)]
        gradient = self.attention.gradient(words) if self.attention else \
            ["P" if word == "R" and other != "R" else word for word, other in zip(words, attention)]
        return lie.local(lie.move(mask, self.mesh, words, gradient), self.mesh, gradient)

    def view(self, func, x, *rest, **kwargs):
        """What is no block of any dimension then is made whole first, and so is its gradient on the way back.  (DTensor does
        so, or fails, or makes nonsense of it, as its version is; it does not know the strides of what is flipped.)"""
        if func is not torch.Tensor.view and not x.to_local().is_contiguous():
            x = x.clone(memory_format=torch.contiguous_format)
        y = func(self.keep_blocks(x, func(torch.empty(x.shape, dtype=x.dtype, device="meta"), *rest, **kwargs).shape), *rest,
                 **kwargs)
        if y.requires_grad:
            y.register_hook(lambda gradient: self.keep_blocks(gradient, x.shape))
        return y

    def keep_blocks(self, x, shape):
        words = lie.words_of(x, self.mesh)
        parts = {word: math.prod(self.mesh.size(i) for i, w in enumerate(words) if w == word) for word in words}
        stays = [word[0] != "S" or _stays_cut(x.shape, int(word[1:]), parts[word], shape) for word in words]
        if all(stays):
            return x
        return lie.move(x, self.mesh, [word if stay and word != "P" else "R" for word, stay in zip(words, stays)])

    def multiply(self, func, x, other, *rest, **kwargs):
        """DTensor does not know that of uneven blocks of several dimensions none are equal blocks of all of them in one."""
        kept = 1 if other.dim() <= 2 else 2
        y = lie.settle(func(self.keep_even(x, kept), self.keep_even(other, kept), *rest, **kwargs))
        if y.requires_grad:
            y.register_hook(lambda gradient: self.keep_even(gradient, kept))
        return y

    def keep_even(self, x, kept):
        """What is multiplied, whose last dimensions stay what they are."""
        if not isinstance(x, DTensor) or x.dim() <= kept + 1:
            return x
        return self.keep_blocks(x, (math.prod(x.shape[:-kept]), *x.shape[-kept:])) if self.are_uneven(x, x.dim() - kept) else x

    def are_uneven(self, x, before=None):
        """Are blocks unequal of a dimension, of the first so many?"""
        words = lie.words_of(x, self.mesh)
        parts = {word: math.prod(self.mesh.size(i) for i, w in enumerate(words) if w == word) for word in words if word[0] == "S"}
        return any(x.shape[int(word[1:])] % n for word, n in parts.items() if before is None or int(word[1:]) < before)

    def pool(self, func, x, *rest, **kwargs):
        words = [w if w in ("S0", "S1") or lie.is_alone(w) else "R" for w in lie.words_of(x, self.mesh)]
        x = lie.move(x, self.mesh, words, words)
        whole = func(torch.empty(x.shape, dtype=x.dtype, device="meta"), *rest, **kwargs)
        part = lie.local(x, self.mesh, words)
        y = lie.nothing([part]) if lie.is_absent(self.mesh, words) else func(part, *rest, **kwargs)
        return lie.join(y, self.mesh, words, whole.shape)

    def each(self, func, x, *rest, **kwargs):
        words = self.words(x)
        y = func(lie.local(lie.move(x, self.mesh, words, words), self.mesh, words), *rest, **kwargs)
        return lie.join(y, self.mesh, words, x.shape)

    def pick(self, x, index):
        """Some of dimensions, or one, which are whole then; by tensors of all.  (DTensor may have no rule for that, or a wrong one
        for the gradient.)"""
        items = index if isinstance(index, tuple) else (index,)
        if all(item is None or item is Ellipsis or item == slice(None) for item in items if not isinstance(item, torch.Tensor)) and \
                not _tensors(items):
            return x[index]
        if Ellipsis in [item for item in items if not isinstance(item, torch.Tensor)]:
            at = next(i for i, item in enumerate(items) if item is Ellipsis)
            fill = x.dim() - sum(item is not None for item in items) + 1
            items = (*items[:at], *[slice(None)] * fill, *items[at + 1:])
        if any(type(item) not in (int, slice) for item in items):
            return self.gather(torch.Tensor.__getitem__, (x, index), {})
        gone = [d for d, item in enumerate(items) if type(item) is int]
        chosen = [f"S{d}" for d, item in enumerate(items) if item != slice(None)]
        words = ["R" if word in chosen else word for word in self.words(x)]
        part = lie.local(lie.move(x, self.mesh, words, words), self.mesh, words)
        y = lie.nothing([part]) if lie.is_absent(self.mesh, words) else part[index]
        after = [f"S{int(w[1:]) - sum(d < int(w[1:]) for d in gone)}" if w[0] == "S" else w for w in words]
        return lie.join(y, self.mesh, after, torch.empty(x.shape, device="meta")[index].shape)

    def drop(self, x, p=0.5, training=True, inplace=False):
        """Ranks that have the same part drop the same; others draw numbers of their own."""
        if not training or p == 0:
            return x
        words = self.words(x)
        x = lie.move(x, self.mesh, words, words)
        part = lie.local(x, self.mesh, words)
        place = 0
        for i, word in enumerate(words):
            place = place * self.mesh.size(i) + (self.mesh.get_local_rank(i) if word[0] == "S" else 0)
        generator = torch.Generator(part.device).manual_seed(_draw(self.mesh) * 65536 + place)
        kept = torch.rand(part.shape, generator=generator, device=part.device) >= p
        return lie.join(part * kept / (1 - p) if p < 1 else part * 0, self.mesh, words, x.shape)


# ---- by mesh: the loss of its plan, and numbers drawn for it -------------------------------------------------------

_losses, _draws = {}, {}


def _draw(mesh):
    """A number that no other dropout has and that all ranks of the mesh agree on: its first rank's seed says the first."""
    if mesh not in _draws:
        seed = torch.tensor([(torch.initial_seed() + int(mesh.mesh.min())) % 2**40], device=mesh.device_type)
        for i in range(mesh.ndim):
            torch.distributed.broadcast(seed, torch.distributed.get_global_rank(mesh.get_group(i), 0),
                                        group=mesh.get_group(i))
        _draws[mesh] = itertools.count(int(seed))
    return next(_draws[mesh]) % 2**46


class _SplitClasses(torch.autograd.Function):
    """Cross-entropies of logits of which ranks have some classes each; `mine`: whether the target is here."""

    @staticmethod
    def forward(ctx, x, column, mine, groups):
        some = x.shape[1] > 0
        highest = x.amax(1) if some else x.new_full((x.shape[0],), -float("inf"))
        for group in groups:
            torch.distributed.all_reduce(highest, torch.distributed.ReduceOp.MAX, group=group)
        shifted = x - highest.unsqueeze(1)
        chosen = shifted.gather(1, column.unsqueeze(1)).squeeze(1) * mine if some else x.new_zeros(x.shape[0])
        both = torch.stack([shifted.exp().sum(1), chosen])
        for group in groups:
            torch.distributed.all_reduce(both, group=group)
        ctx.save_for_backward(shifted.exp() / both[0].unsqueeze(1), column, mine)
        return both[0].log() - both[1]

    @staticmethod
    def backward(ctx, gradient):
        probability, column, mine = ctx.saved_tensors
        out = probability.clone()
        if out.shape[1]:
            out.scatter_add_(1, column.unsqueeze(1), -mine.to(out.dtype).unsqueeze(1))
        return gradient.unsqueeze(1) * out, None, None, None


def _loss_words(part):
    """How the plan has logits once they are [rows, classes]: by samples, which are outermost in rows, and classes."""
    return ["S1" if axis == "v" else word if word == "S0" or lie.is_alone(word) else "R"
            for axis, word in zip(part.axes, part.input)]


def _mean_cross_entropy(logits, target, part, ignore_index, mesh):
    """The mean over all targets that count, equal on every rank."""
    words = _loss_words(part)
    count = (target != ignore_index).sum().clamp(min=1)
    gradient = part.gradient(words)
    x = lie.local(lie.move(logits, mesh, words, gradient), mesh, gradient)
    t = lie.spread(target, mesh, ["R" if word == "S1" else word for word in words]).to_local()
    groups = [mesh.get_group(i) for i, word in enumerate(words) if word == "S1"]
    if lie.is_absent(mesh, words):
        mean = lie.nothing([x]).sum()
    elif groups:
        first, n = lie.block(logits.shape[1], words, 1, mesh)
        mine = (t >= first) & (t < first + n)
        x = x.to(torch.promote_types(x.dtype, torch.float))  # as PyTorch's own sums them
        each = _SplitClasses.apply(x, (t - first).clamp(0, max(n - 1, 0)), mine, groups)
        mean = (each * (t != ignore_index)).sum() / count
    else:
        mean = _usual(x, t, reduction="sum", ignore_index=ignore_index) / count
    parts = ["P" if word == "S0" else word if lie.is_alone(word) else "R" for word in words]
    return lie.whole(lie.join(mean, mesh, parts, ()), mesh)


_usual = F.cross_entropy


def cross_entropy(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean",
                  label_smoothing=0.0):
    """torch.nn.functional.cross_entropy, which of a model under a plan is cut as the plan says; where it can't be (other
    than [rows, classes], or with options), of the gathered logits."""
    mesh = lie.planned_mesh(input) if isinstance(input, DTensor) else None
    part = _losses.get(mesh)
    if part is not None:
        plain = weight is None and size_average is None and reduce is None and not label_smoothing
        if plain and reduction == "mean" and input.dim() == 2 and target.dim() == 1:
            return _mean_cross_entropy(input, target, part, ignore_index, mesh)
        input = lie.whole(input, mesh)
    return _usual(input, target, weight, size_average, ignore_index, reduce, reduction, label_smoothing)


def _of_whole(usual):
    """The loss, which no plan cuts, of what a model under a plan gives: gathered."""
    @functools.wraps(usual)
    def loss(*arguments, **keywords):
        return usual(*map(_gathered, arguments), **{name: _gathered(x) for name, x in keywords.items()})
    return loss


def _gathered(x):
    mesh = lie.planned_mesh(x) if isinstance(x, DTensor) else None
    return x if mesh is None else lie.whole(x, mesh)


# PyTorch's other losses by name.
OTHERS = {name: _of_whole(getattr(F, name)) for name in dir(F)
          if name.endswith("_loss") or name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")}


def register_loss(mesh, part):
    """From now on losses know of this plan; of all other tensors they are what they were."""
    _losses[mesh] = part
    F.cross_entropy = cross_entropy
    for name, loss in OTHERS.items():
        setattr(F, name, loss)
