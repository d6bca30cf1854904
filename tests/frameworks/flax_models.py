"""Models of Flax as people write them, linen and NNX; MODELS[name]() gives forward(params, x), the parameters, x and classes."""
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
    def __init__(self, params, x, forward, classes):
        self.params, self.x, self.forward, self.classes = params, x, forward, classes
        self.planned, self.stacked = (forward(None), params), ()  # what is planned, and its layers that are stacked here
        self.of_batch = False  # has it statistics of the whole batch?


def linen(module, x, classes):
    """What is no parameter (statistics that run) stays as it is at first."""
    variables = module.init(jax.random.key(0), x)
    rest = {name: value for name, value in variables.items() if name != "params"}

    def forward(params, x, plan=None):
        y = module.apply({"params": params, **rest}, x, mutable=list(rest)) if rest else module.apply({"params": params}, x)
        return y[0] if rest else y

    def under(plan):
        def planned(params, x):
            with plan.flax():
                return forward(params, x)
        return planned

    model = Model(variables["params"], x, lambda plan: under(plan) if plan else forward, classes)
    model.of_batch = bool(rest)
    return model


def of_nnx(make, x, classes):
    graph, params, rest = nnx.split(make(nnx.Rngs(0)), nnx.Param, ...)

    def under(plan):
        def forward(params, x):
            model = nnx.merge(graph, params, rest, copy=True)
            if plan is None:
                return model(x)
            with plan.flax(model):
                return model(x)
        return forward

    model = Model(params, x, under, classes)
    model.of_batch = any(isinstance(module, nnx.BatchNorm) for _, module in nnx.iter_modules(nnx.merge(graph, params, rest)))
    return model


# Logical axes of parameters of transformers, by the ends of their names.
LOGICAL = {"query.kernel": ("embed", "heads", "width"), "key.kernel": ("embed", "kv_heads", "width"),
           "value.kernel": ("embed", "kv_heads", "width"), "out.kernel": ("heads", "width", "embed"),
           "gate.kernel": ("embed", "mlp"), "up.kernel": ("embed", "mlp"), "down.kernel": ("mlp", "embed"),
           "tokens.embedding": ("vocab", "embed"), "head.kernel": ("embed", "vocab")}


def draw(*shape, below=None):
    numbers = numpy.random.default_rng(0)
    return numbers.integers(0, below, shape).astype(numpy.int32) if below else numbers.standard_normal(shape)


MODELS = {
    "perceptron": lambda: linen(Perceptron(), draw(32, 64), 16),
    "convolutions": lambda: linen(Convolutions(), draw(8, 16, 16, 4), 16),
    "residual": lambda: linen(Residual(), draw(8, 8, 8, 4), 16),
    "gpt": lambda: linen(Gpt(), draw(BATCH, T, below=V), V),
    "gpt_remat": lambda: linen(Gpt(again=True), draw(BATCH, T, below=V), V),
    "llama": lambda: linen(Llama(), draw(BATCH, T, below=V), V),
    "scanned": scanned,
    "nnx_gpt": lambda: of_nnx(NnxGpt, draw(BATCH, T, below=V), V),
    "nnx_convolutions": lambda: of_nnx(NnxConvolutions, draw(8, 8, 8, 4), 16),
}
