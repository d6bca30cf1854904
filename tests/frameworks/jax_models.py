"""Models in JAX by the names of their files, run under a plan or, without one, on one device; MODELS[name]."""
import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy

from llama_config import LLAMA


class Net:
    """The parameters of a model, and how its modules lie under a plan (None: on one device)."""

    def __init__(self, plan, params):
        self.plan, self.params = plan, params

    def own(self, name, own):
        value = self.params[f"{name}.{own}"]
        module = self.plan.plan.modules.get(name) if self.plan else None
        return self.plan.weight(name, own, value) if module and own in module.parameters else value

    def __call__(self, name, x, function):
        """The module itself, of its input alone."""
        if self.plan is None or name not in self.plan.plan.modules:
            return function(x)
        return self.plan.after(name, function(self.plan.before(name, x)))

    def dense(self, name, x, turned=True, bias=True):
        """`turned`: the file has the weight as [out, in]."""
        w = self.own(name, "weight")
        y = self(name, x, lambda x: x @ (w.T if turned else w))
        return y + self.own(name, "bias") if bias else y

    def convolve(self, name, x, pad):
        w = self.own(name, "weight")
        y = self(name, x, lambda x: jax.lax.conv_general_dilated(x, w, (1, 1), [(pad, pad)] * 2,
                                                                 dimension_numbers=("NCHW", "OIHW", "NCHW")))
        return y + self.own(name, "bias")[None, :, None, None]

    def look_up(self, name, ids):
        w = self.own(name, "weight")
        return self(name, ids, lambda ids: w[ids])

    def normalize(self, name, x):
        """A layer's."""
        w, b = self.own(name, "weight"), self.own(name, "bias")

        def apply(x):
            y = x - x.mean(-1, keepdims=True)
            return y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * w + b

        return self(name, x, apply)

    def scale(self, name, x, epsilon):
        """By the root of the mean square."""
        w = self.own(name, "weight")
        return self(name, x, lambda x: x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + epsilon) * w)


def attend(q, k, v):
    """Causal; of [n, head, t, d]."""
    t = q.shape[2]
    scores = jnp.einsum("nhqd,nhkd->nhqk", q, k) / math.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -1e9)
    y = jnp.einsum("nhqk,nhkd->nhqd", jax.nn.softmax(scores), v).transpose(0, 2, 1, 3)
    return y.reshape(*y.shape[:2], -1)


def by_head(x, heads):
    return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)


def perceptron(net, x):
    for name in ("0", "2"):
        x = jax.nn.relu(net.dense(name, x))
    return net.dense("4", x)


def average(x):
    return x.reshape(*x.shape[:2], x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean((3, 5))


def lenet5(net, x):
    x = average(jnp.tanh(net.convolve("c1", x, 2)))
    x = average(jnp.tanh(net.convolve("c2", x, 0)))
    x = x.reshape(x.shape[0], -1)
    for name in ("f1", "f2"):
        x = jnp.tanh(net.dense(name, x))
    return net.dense("f3", x)


def byte_gpt(net, ids):
    x = net.look_up("byte", ids) + net.params["position.weight"]
    for block in ("block.0", "block.1"):
        y = net.normalize(f"{block}.norm_1", x)
        q, k, v = (by_head(net.dense(f"{block}.attention.{part}", y, turned=False), 4) for part in ("query", "key", "value"))
        x = x + net.dense(f"{block}.attention.out", attend(q, k, v), turned=False)
        y = jax.nn.gelu(net.dense(f"{block}.up", net.normalize(f"{block}.norm_2", x), turned=False), approximate=False)
        x = x + net.dense(f"{block}.down", y, turned=False)
    return net.dense("head", net.normalize("norm", x), turned=False)


def turn(x):
    """Rotary positions, by halves."""
    n = x.shape[-1]
    angles = numpy.outer(numpy.arange(x.shape[2]), 10000.0 ** (-numpy.arange(0, n, 2) / n))
    cos, sin = (jnp.asarray(numpy.tile(f(angles), 2), x.dtype) for f in (numpy.cos, numpy.sin))
    a, b = x[..., :n // 2], x[..., n // 2:]
    return x * cos + jnp.concatenate([-b, a], -1) * sin


def llama(net, ids):
    heads, kv_heads, epsilon = (LLAMA[k] for k in ("num_attention_heads", "num_key_value_heads", "rms_norm_eps"))
    x = net.look_up("model.embed_tokens", ids)
    for i in range(LLAMA["num_hidden_layers"]):
        layer = f"model.layers.{i}"
        y = net.scale(f"{layer}.input_layernorm", x, epsilon)
        q, k, v = (by_head(net.dense(f"{layer}.self_attn.{part}_proj", y, bias=False), n)
                   for part, n in (("q", heads), ("k", kv_heads), ("v", kv_heads)))
        k, v = (jnp.repeat(part, heads // kv_heads, 1) for part in (turn(k), v))
        x = x + net.dense(f"{layer}.self_attn.o_proj", attend(turn(q), k, v), bias=False)
        y = net.scale(f"{layer}.post_attention_layernorm", x, epsilon)
        gate, up = (net.dense(f"{layer}.mlp.{part}_proj", y, bias=False) for part in ("gate", "up"))
        x = x + net.dense(f"{layer}.mlp.down_proj", jax.nn.silu(gate) * up, bias=False)
    return net.dense("lm_head", net.scale("model.norm", x, epsilon), bias=False)


@dataclass
class Model:
    forward: object  # net, x -> logits, classes last
    file: object  # in configs/models, or a config.json itself
    options: tuple  # of every command
    x: tuple  # shape of a sample: of numbers, or of ids below `classes`
    ids: bool
    classes: int
    batch: int
    others: dict = field(default_factory=dict)  # shapes of parameters that no module reads


MODELS = {"mlp": Model(perceptron, "mlp.onnx", (), (784,), False, 10, 32),
          "lenet5": Model(lenet5, "lenet5.onnx", (), (1, 28, 28), False, 10, 16),
          "byte_gpt": Model(byte_gpt, "byte_gpt.onnx", (), (64,), True, 256, 8, {"position.weight": (64, 128)}),
          "llama": Model(llama, LLAMA, ("--sequence", 16), (16,), True, LLAMA["vocab_size"], 8)}
