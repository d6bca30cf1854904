"""Features of Flax that people train with, a small model of each, in linen as people write them; FEATURES[name]() as MODELS of flax_models.py."""
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy
import optax

from flax_models import BATCH, D, HEADS, T, V, attend, draw, linen


class Mixed(nn.Module):
    """Parameters and logits in single precision, all between in bfloat16."""
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, dtype=jnp.bfloat16, name="tokens")(ids)
        y = nn.LayerNorm(dtype=jnp.bfloat16)(x)
        x = x + nn.MultiHeadDotProductAttention(HEADS, dtype=jnp.bfloat16)(y, y)
        x = x + nn.Dense(D, dtype=jnp.bfloat16, name="down")(nn.gelu(nn.Dense(4 * D, dtype=jnp.bfloat16, name="up")(x)))
        return nn.Dense(V, dtype=jnp.float32, name="head")(x)


class Twice(nn.Module):
    """A module that is called twice, with its weights shared."""
    @nn.compact
    def __call__(self, x):
        x = nn.Dense(128, name="first")(x)
        shared = nn.Dense(128, name="shared")
        return nn.Dense(16, name="head")(shared(nn.relu(shared(nn.relu(x)))))


class Dropped(nn.Module):
    deterministic: bool = False

    @nn.compact
    def __call__(self, x):
        for n in (128, 128):
            x = nn.Dropout(0.5)(nn.relu(nn.Dense(n)(x)), deterministic=self.deterministic)
        return nn.Dense(16)(x)


class Recurrent(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, dtype=float, name="tokens")(ids)
        x = nn.RNN(nn.LSTMCell(D, dtype=float, param_dtype=float, name="cell"))(x)
        return nn.Dense(V, name="head")(x)


class Expert(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(D, name="down")(nn.gelu(nn.Dense(2 * D, name="up")(x)))


class Experts(nn.Module):
    """Of every token all experts, weighed."""
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, dtype=float, name="tokens")(ids)
        gates = nn.softmax(nn.Dense(4, name="router")(x))
        each = nn.vmap(Expert, variable_axes={"params": 0}, split_rngs={"params": True}, in_axes=None, out_axes=2, axis_size=4)
        return nn.Dense(V, name="head")(x + jnp.einsum("bte,bted->btd", gates, each(name="experts")(x)))


class Moe(nn.Module):
    """Two of four experts for every token, and room for all, by products of what is one or zero."""
    @nn.compact
    def __call__(self, x):
        weights = nn.softmax(nn.Dense(4, use_bias=False, name="router")(x))
        best, which = jax.lax.top_k(weights, 2)
        gates = (jax.nn.one_hot(which, 4) * best[..., None]).sum(-2)
        initial = nn.initializers.lecun_normal(in_axis=1, out_axis=2, batch_axis=0)
        up, down = (self.param(name, initial, shape) for name, shape in (("up", (4, D, 2 * D)), ("down", (4, 2 * D, D))))
        y = nn.gelu(jnp.einsum("btd,edh->ebth", x, up))
        return jnp.einsum("ebth,ehd,bte->btd", y, down, gates)


class MoeGpt(nn.Module):
    @nn.compact
    def __call__(self, ids):
        x = nn.Embed(V, D, name="tokens")(ids)
        x = x + Moe(name="experts")(nn.LayerNorm()(x))
        return nn.Dense(V, name="head")(x)


# ---- as transformers had them ----


class Conv1D(nn.Module):
    """A product whose kernel is out x in."""
    features: int

    @nn.compact
    def __call__(self, x):
        kernel = self.param("kernel", nn.initializers.normal(0.02), (self.features, x.shape[-1]))
        return x @ kernel.T + self.param("bias", nn.initializers.zeros, (self.features,))


def heads(x):
    return x.reshape(*x.shape[:2], HEADS, -1)


def joined(x):
    return x.reshape(*x.shape[:2], -1)


class Gpt2Attention(nn.Module):
    def setup(self):
        self.c_attn, self.c_proj = Conv1D(3 * D), Conv1D(D)

    def __call__(self, x):
        q, k, v = map(heads, jnp.split(self.c_attn(x), 3, -1))
        return self.c_proj(joined(attend(q, k, v)))


class Gpt2Mlp(nn.Module):
    def setup(self):
        self.c_fc, self.c_proj = Conv1D(4 * D), Conv1D(D)

    def __call__(self, x):
        return self.c_proj(nn.gelu(self.c_fc(x)))


class Gpt2Block(nn.Module):
    def setup(self):
        self.ln_1, self.ln_2, self.attn, self.mlp = nn.LayerNorm(), nn.LayerNorm(), Gpt2Attention(), Gpt2Mlp()

    def __call__(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Blocks(nn.Module):
    @nn.compact
    def __call__(self, x):
        for i in range(2):
            x = Gpt2Block(name=str(i))(x)
        return x


class Gpt2(nn.Module):
    def setup(self):
        self.wte, self.wpe, self.h, self.ln_f = nn.Embed(V, D), nn.Embed(T, D), Blocks(), nn.LayerNorm()

    def __call__(self, ids):
        x = self.wte(ids) + self.wpe(jnp.arange(ids.shape[1])[None])
        return self.ln_f(self.h(x)) @ self.wte.embedding.T


class BertLayer(nn.Module):
    @nn.compact
    def __call__(self, x, mask):
        q, k, v = (heads(nn.Dense(D, name=name)(x)) for name in ("query", "key", "value"))
        y = joined(nn.dot_product_attention(q, k, v, mask=mask[:, None, None, :] > 0))
        x = nn.LayerNorm(name="attention_norm")(x + nn.Dense(D, name="attention_out")(y))
        y = nn.Dense(D, name="output")(nn.gelu(nn.Dense(4 * D, name="intermediate")(x), approximate=False))
        return nn.LayerNorm(name="output_norm")(x + y)


class Bert(nn.Module):
    @nn.compact
    def __call__(self, ids):
        types, mask = jnp.where(ids > V // 2, 1, 0), jnp.where(ids > 2, 1, 0)
        words = nn.Embed(V, D, name="word_embeddings")
        x = words(ids) + nn.Embed(T, D, name="position_embeddings")(jnp.arange(T)[None]) + nn.Embed(2, D, name="token_type_embeddings")(types)
        x = nn.LayerNorm(name="norm")(x)
        for i in range(2):
            x = BertLayer(name=f"layer_{i}")(x, mask)
        x = nn.LayerNorm(name="transform_norm")(nn.gelu(nn.Dense(D, name="transform")(x), approximate=False))
        return words.attend(x) + self.param("bias", nn.initializers.zeros, (V,))


class Root(nn.Module):
    @nn.compact
    def __call__(self, x):
        weight = self.param("weight", nn.initializers.ones, (x.shape[-1],))
        return weight * (x * jax.lax.rsqrt((x ** 2).mean(-1, keepdims=True) + 1e-6))


def turn(x):
    """Rotary positions, by halves."""
    angles = numpy.outer(numpy.arange(T), 10000.0 ** (-numpy.arange(0, x.shape[-1], 2) / x.shape[-1]))
    angles = numpy.concatenate([angles, angles], -1)[None, :, None]
    a, b = jnp.split(x, 2, -1)
    return x * jnp.asarray(numpy.cos(angles), x.dtype) + jnp.concatenate([-b, a], -1) * jnp.asarray(numpy.sin(angles), x.dtype)


class HfLlamaAttention(nn.Module):
    @nn.compact
    def __call__(self, x):
        q = nn.Dense(D, use_bias=False, name="q_proj")(x).reshape(*x.shape[:2], HEADS, -1)
        k, v = (nn.Dense(D // 2, use_bias=False, name=name)(x).reshape(*x.shape[:2], HEADS // 2, -1) for name in ("k_proj", "v_proj"))
        y = attend(turn(q), jnp.repeat(turn(k), 2, 2), jnp.repeat(v, 2, 2))
        return nn.Dense(D, use_bias=False, name="o_proj")(joined(y))


class HfLlamaMlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        gate, up = (nn.Dense(2 * D, use_bias=False, name=name)(x) for name in ("gate_proj", "up_proj"))
        return nn.Dense(D, use_bias=False, name="down_proj")(nn.silu(gate) * up)


class HfLlamaLayer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + HfLlamaAttention(name="self_attn")(Root(name="input_layernorm")(x))
        return x + HfLlamaMlp(name="mlp")(Root(name="post_attention_layernorm")(x))


class HfLlamaLayers(nn.Module):
    @nn.compact
    def __call__(self, x):
        for i in range(2):
            x = HfLlamaLayer(name=str(i))(x)
        return x


class HfLlamaModel(nn.Module):
    def setup(self):
        self.embed_tokens, self.layers, self.norm = nn.Embed(V, D), HfLlamaLayers(), Root()

    def __call__(self, ids):
        return self.norm(self.layers(self.embed_tokens(ids)))


class HfLlama(nn.Module):
    def setup(self):
        self.model, self.lm_head = HfLlamaModel(), nn.Dense(V, use_bias=False)

    def __call__(self, ids):
        return self.lm_head(self.model(ids))


def at_once(params, ids):
    """What Recurrent does, step by step."""
    x = nn.Embed(V, D, dtype=float).apply({"params": params["tokens"]}, ids)
    carry, ys = (jnp.zeros((BATCH, D)),) * 2, []
    for t in range(STEPS):
        carry, y = nn.LSTMCell(D, dtype=float).apply({"params": params["cell"]}, carry, x[:, t])
        ys.append(y)
    return nn.Dense(V).apply({"params": params["head"]}, jnp.stack(ys, 1))


def recurrent():
    model = linen(Recurrent(), IDS[:, :STEPS], V)
    model.planned = at_once, model.params
    return model


def experts():
    """Planned as the loop that it is.  Its router is no module of the plan, which knows no name for its work."""
    model = linen(Experts(), IDS, V, unnamed=["router.bias", "router.kernel"])

    def loop(params, ids):
        x = nn.Embed(V, D, dtype=float).apply({"params": params["tokens"]}, ids)
        gates = nn.softmax(nn.Dense(4).apply({"params": params["router"]}, x))
        each = jnp.stack([Expert().apply({"params": expert}, x) for expert in params["experts"]], 2)
        return nn.Dense(V).apply({"params": params["head"]}, x + jnp.einsum("bte,bted->btd", gates, each))

    one_by_one = [jax.tree.map(lambda p: p[i], model.params["experts"]) for i in range(4)]
    model.planned, model.stacked = (loop, {**model.params, "experts": one_by_one}), ("experts",)
    return model


def mixed():
    """Sums in bfloat16 differ by the order of their terms, and no optimizer may divide what is but rounded by itself."""
    model = linen(Mixed(), IDS, V)
    model.tolerance, model.optimizer = 0.05, optax.sgd(0.1, momentum=0.9)
    return model


def accumulated():
    """An optimizer that adds gradients up over two steps."""
    model = linen(Dropped(True), draw(32, 64), 16)
    model.optimizer = optax.MultiSteps(optax.adamw(1e-2, eps=1e-3), 2)
    return model


def dropped():
    """What is dropped of a sample depends on its place in the batch, and so on micro-batches."""
    model = linen(Dropped(), draw(32, 64), 16, Dropped(True), {"dropout": jax.random.key(1)})
    model.of_batch = True
    return model


STEPS, IDS = 4, draw(BATCH, T, below=V)
FEATURES = {
    "mixed": mixed,
    "accumulated": accumulated,
    "recurrent": recurrent,
    "experts": experts,
    "moe": lambda: linen(MoeGpt(), IDS, V),
    "twice": lambda: linen(Twice(), draw(32, 64), 16),
    "dropped": dropped,
    "gpt2": lambda: linen(Gpt2(), IDS, V, unnamed=["wpe.embedding"]),
    "bert": lambda: linen(Bert(), IDS, V, unnamed=["bias", "position_embeddings.embedding"]),
    "hf_llama": lambda: linen(HfLlama(), IDS, V),
}
