"""Models of Flax as people write them, linen and NNX; MODELS[name]() gives a Model."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy
from flax import nnx

D, T, V, HEADS, BATCH = 32, 16, 64, 4, 8


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        for n in (128, 128):
            x = nn.relu(nn.Dense(n)(x))
        return nn.Dense(16)(x)


class Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x):
        for n in (16, 32):
            x = nn.avg_pool(nn.relu(nn.Conv(n, (3, 3))(x)), window_shape=(2, 2), strides=(2, 2))
        return nn.Dense(16)(x.reshape(x.shape[0], -1))


class Residual(nn.Module):
    """With the statistics of the batch.  (Its "drawn 0" on 2 x 2 wants the sums of a convolution as rows, which XLA got wrong: docs/jax.md.)"""
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(16, (3, 3), use_bias=False)(x)
        for _ in range(2):
            y = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(16, (3, 3), use_bias=False)(x)))
            x = x + nn.BatchNorm(use_running_average=False)(nn.Conv(16, (3, 3), use_bias=False)(y))
        return nn.Dense(16)(x.mean((1, 2)))


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(jnp.zeros(x.shape[:2]))
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(HEADS)(y, y, mask=mask)
        return x + nn.Dense(D)(nn.gelu(nn.Dense(4 * D)(nn.LayerNorm()(x))))


class Gpt(nn.Module):
    """The table of tokens is the head's, too."""
    again: bool = False

    @nn.compact
    def __call__(self, ids):
        table = nn.Embed(V, D)
        x = table(ids) + self.param("positions", nn.initializers.normal(0.02), (T, D))
        for i in range(2):
            x = (nn.remat(Block) if self.again else Block)(name=f"block_{i}")(x)
        return table.attend(nn.LayerNorm()(x))


def attend(q, k, v, **_):
    """Causal.  jax.nn.dot_product_attention, which NNX takes, has scores in single precision."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / numpy.sqrt(D // HEADS)
    scores = jnp.where(jnp.tril(jnp.ones((T, T), bool)), scores, -1e9)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v)


class LlamaBlock(nn.Module):
    """Heads are dimensions of parameters, and keys of two."""
    @nn.compact
    def __call__(self, x):
        y = nn.RMSNorm(name="norm_1")(x)
        q = nn.DenseGeneral((HEADS, D // HEADS), use_bias=False, name="query")(y)
        k, v = (nn.DenseGeneral((HEADS // 2, D // HEADS), use_bias=False, name=n)(y) for n in ("key", "value"))
        k, v = (jnp.repeat(z, 2, axis=2) for z in (k, v))
        x = x + nn.DenseGeneral(D, axis=(-2, -1), use_bias=False, name="out")(attend(q, k, v))
        y = nn.RMSNorm(name="norm_2")(x)
        gate, up = (nn.Dense(2 * D, use_bias=False, name=n)(y) for n in ("gate", "up"))
        return x + nn.Dense(D, use_bias=False, name="down")(nn.silu(gate) * up)


class Llama(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, name="tokens")(ids)
        for i in range(2):
            x = LlamaBlock(name=f"layers_{i}")(x)
        return nn.Dense(V, use_bias=False, name="head")(nn.RMSNorm(name="norm")(x))


class ScannedBlock(nn.Module):
    @nn.compact
    def __call__(self, x, _):
        return LlamaBlock(name="block")(x), None


class Scanned(nn.Module):
    """Layers in a scan, each computed again in backward."""
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, dtype=float, name="tokens")(ids)
        layers = nn.scan(nn.remat(ScannedBlock), variable_axes={"params": 0}, split_rngs={"params": True}, length=2)
        x, _ = layers(name="layers")(x, None)
        return nn.Dense(V, use_bias=False, name="head")(nn.RMSNorm(name="norm")(x))


def scanned():
    """Planned as the loop that it is."""
    model = linen(Scanned(), draw(BATCH, T, below=V), V)

    def loop(params, ids):
        x = nn.Embed(V, D, dtype=float).apply({"params": params["tokens"]}, ids)
        for layer in params["layers"]:
            x, _ = ScannedBlock().apply({"params": layer}, x, None)
        return nn.Dense(V, use_bias=False).apply({"params": params["head"]}, nn.RMSNorm().apply({"params": params["norm"]}, x))

    layers = [jax.tree.map(lambda p: p[i], model.params["layers"]) for i in range(2)]
    model.planned, model.stacked = (loop, {**model.params, "layers": layers}), ("layers",)
    return model


class NnxBlock(nnx.Module):
    def __init__(self, rngs):
        self.norm_1, self.norm_2 = nnx.LayerNorm(D, rngs=rngs), nnx.LayerNorm(D, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(HEADS, D, decode=False, attention_fn=attend, rngs=rngs)
        self.up, self.down = nnx.Linear(D, 4 * D, rngs=rngs), nnx.Linear(4 * D, D, rngs=rngs)

    def __call__(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.down(nnx.gelu(self.up(self.norm_2(x))))


class NnxGpt(nnx.Module):
    def __init__(self, rngs):
        self.tokens = nnx.Embed(V, D, dtype=float, rngs=rngs)  # it would be in single precision else
        self.positions = nnx.Param(0.02 * jax.random.normal(jax.random.key(1), (T, D)))
        self.blocks = nnx.List([NnxBlock(rngs) for _ in range(2)])
        self.norm, self.head = nnx.LayerNorm(D, rngs=rngs), nnx.Linear(D, V, use_bias=False, rngs=rngs)

    def __call__(self, ids):
        x = self.tokens(ids) + self.positions
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class NnxConvolutions(nnx.Module):
    def __init__(self, rngs):
        self.a, self.b = nnx.Conv(4, 16, (3, 3), rngs=rngs), nnx.Conv(16, 16, (3, 3), strides=2, rngs=rngs)
        self.norm, self.head = nnx.BatchNorm(16, rngs=rngs), nnx.Linear(16, 16, rngs=rngs)

    def __call__(self, x):
        x = nnx.relu(self.norm(self.a(x)))
        return self.head(nnx.relu(self.b(x)).mean((1, 2)))


class Model:
    """`forward(plan)` (None: on one device) is a function of parameters, what modules change in a step (statistics that run) and x,
    and gives logits and that anew."""

    def __init__(self, params, x, forward, classes, rest=None):
        self.params, self.x, self.forward, self.classes, self.rest = params, x, forward, classes, rest or {}
        self.planned = (lambda params, x: forward(None)(params, self.rest, x)[0], params)  # a function of parameters and x
        self.stacked = ()  # layers of what is planned that are stacked here
        self.of_batch = bool(rest)  # has it statistics of the whole batch?
        self.unnamed = set()  # parameters that no module of a plan has
        self.optimizer, self.tolerance = None, None  # the script's


def linen(module, x, classes, planned=None, rngs=None, unnamed=()):
    """`planned`: the same module as it is planned, if it is another; `rngs`: of what is drawn in every step."""
    variables = module.init({"params": jax.random.key(0), **(rngs or {})}, x)
    rest = {name: value for name, value in variables.items() if name != "params"}

    def forward(plan):
        def plain(params, rest, x):
            return module.apply({"params": params, **rest}, x, mutable=list(rest), rngs=rngs) if rest \
                else (module.apply({"params": params}, x, rngs=rngs), rest)

        def under(params, rest, x):
            with plan.flax():
                return plain(params, rest, x)

        return under if plan else plain

    model = Model(variables["params"], x, forward, classes, rest)
    model.unnamed = set(unnamed)
    if planned is not None:
        model.planned = lambda params, x: planned.apply({"params": params}, x), model.params
    return model


def of_nnx(make, x, classes, unnamed=()):
    """What is no parameter stays as it is at first."""
    graph, params, rest = nnx.split(make(nnx.Rngs(0)), nnx.Param, ...)

    def forward(plan):
        def plain(params, kept, x):
            return nnx.merge(graph, params, rest, copy=True)(x), kept

        def under(params, kept, x):
            model = nnx.merge(graph, params, rest, copy=True)
            with plan.flax(model):
                return model(x), kept

        return under if plan else plain

    model = Model(params, x, forward, classes)
    model.unnamed = set(unnamed)
    model.of_batch = any(isinstance(module, nnx.BatchNorm) for _, module in nnx.iter_modules(nnx.merge(graph, params, rest)))
    return model


# Logical axes of parameters of transformers, by the ends of their names.
LOGICAL = {"query.kernel": ("embed", "heads", "width"), "key.kernel": ("embed", "kv_heads", "width"),
           "value.kernel": ("embed", "kv_heads", "width"), "out.kernel": ("heads", "width", "embed"),
           "gate.kernel": ("embed", "mlp"), "up.kernel": ("embed", "mlp"), "down.kernel": ("mlp", "embed"),
           "q_proj.kernel": ("embed", "heads"), "k_proj.kernel": ("embed", "kv_heads"), "v_proj.kernel": ("embed", "kv_heads"),
           "o_proj.kernel": ("heads", "embed"), "up_proj.kernel": ("embed", "mlp"), "gate_proj.kernel": ("embed", "mlp"),
           "down_proj.kernel": ("mlp", "embed"), "c_attn.kernel": ("heads", "embed"), "attn.c_proj.kernel": ("embed", "heads"),
           "c_fc.kernel": ("mlp", "embed"), "mlp.c_proj.kernel": ("embed", "mlp"), "intermediate.kernel": ("embed", "mlp"),
           "output.kernel": ("mlp", "embed"), "embedding": ("vocab", "embed"), "head.kernel": ("embed", "vocab")}


def draw(*shape, below=None):
    numbers = numpy.random.default_rng(0)
    return numbers.integers(0, below, shape).astype(numpy.int32) if below else numbers.standard_normal(shape)


MODELS = {
    "perceptron": lambda: linen(Perceptron(), draw(32, 64), 16),
    "convolutions": lambda: linen(Convolutions(), draw(8, 16, 16, 4), 16),
    "residual": lambda: linen(Residual(), draw(8, 8, 8, 4), 16),
    "gpt": lambda: linen(Gpt(), draw(BATCH, T, below=V), V, unnamed=["positions"]),
    "gpt_remat": lambda: linen(Gpt(again=True), draw(BATCH, T, below=V), V, unnamed=["positions"]),
    "llama": lambda: linen(Llama(), draw(BATCH, T, below=V), V),
    "scanned": scanned,
    "nnx_gpt": lambda: of_nnx(NnxGpt, draw(BATCH, T, below=V), V, ["positions"]),
    "nnx_convolutions": lambda: of_nnx(NnxConvolutions, draw(8, 8, 8, 4), 16),
}
