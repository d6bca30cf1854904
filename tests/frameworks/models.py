"""Models as people write them, small enough for a test; MODELS[name] = (make, batch -> inputs and targets)."""
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import parametrizations

from llama_config import LLAMA, MIXTURE


class Perceptron(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(96, 256), nn.ReLU(inplace=True), nn.Linear(256, 192), nn.ReLU(), nn.Linear(192, 16))


class Convolutional(nn.Module):
    """Of VGG's sort: convolutions, pools as modules, dense layers behind a flatten, dropout that drops nothing."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Sequential(nn.Dropout(0.0), nn.Linear(16 * 4 * 4, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class Residual(nn.Module):
    """Of ResNet's sort: batch normalization, a sum of two branches, a pool that is a function."""

    def __init__(self):
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv_1, self.norm_1 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.conv_2, self.norm_2 = nn.Conv2d(8, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        x = F.relu(self.norm(self.stem(x)))
        y = F.relu(self.norm_1(self.conv_1(x)))
        x = F.relu(self.norm_2(self.conv_2(y)) + x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, bias=None):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2)
                   for y in (self.query(x), self.key(x), self.value(x)))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm_2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.ones(width))  # that no module has, but a function reads

    def forward(self, x):
        x = x + self.scale * self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class Places(nn.Embedding):
    """The first row is no position."""

    def forward(self, ids):
        return super().forward(ids + 1)


class Biased(nn.Module):
    """Of T5's sort: scores have a bias by how far key and query are apart."""

    def __init__(self, width=32, heads=4, vocabulary=64, length=16):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), Places(length + 1, width)
        self.tokens.padding_idx = 1  # of a row that is read and gets no gradient
        self.distances, self.attention = nn.Embedding(2 * length - 1, heads), Attention(width, heads)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        bias = self.distances(places[None] - places[:, None] + len(places) - 1).permute(2, 0, 1)[None]
        x = self.tokens(ids) + self.places(places)
        return self.head(x + self.attention(x, bias)).flatten(0, 1)


class Language(nn.Module):
    """Of GPT's sort, its head not tied."""

    def __init__(self, layers=1, width=32, heads=4, vocabulary=64, length=16):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1], device=ids.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class Wave(nn.Module):
    def forward(self, places, n):
        return torch.cos(places * n).unsqueeze(-1)


class Tied(Language):
    """Its head is the table of its tokens, and what a module gave at first, which is called twice, is read at last."""

    def __init__(self, layers=1):
        super().__init__(layers)
        self.head.weight, self.wave = self.tokens.weight, Wave()

    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=ids.device)
        slow, quick = self.wave(places, 0.5), self.wave(places, 2.0)
        x = self.tokens(ids) + self.positions(places).to(ids.device)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x) * slow + quick).flatten(0, 1)


class Brought(nn.Module):
    """What people bring: names that are no identifiers, PyTorch's own attention, functions that DTensor lacks, weights that are
    made of others."""

    def __init__(self, width=16):
        super().__init__()
        self.Δ = nn.ModuleDict({"a-b c": nn.Embedding(64, width), "weight": parametrizations.weight_norm(nn.Linear(8, width)),
                                "/x": parametrizations.spectral_norm(nn.Linear(width, 10))})
        self.attention, self.MatMul_1 = nn.MultiheadAttention(width, 4, batch_first=True), nn.Parameter(torch.ones(width))
        self.cells = nn.LSTM(width, width, batch_first=True)

    def forward(self, ids, x):
        y = F.hardswish(self.Δ["a-b c"](ids)) + F.relu6(self.Δ["weight"](x)).unsqueeze(1) * self.MatMul_1
        y = y + self.attention(y, y, y, need_weights=False)[0]
        y = y + self.cells(y)[0]
        return self.Δ["/x"](F.elu(y).mean(1))


class Upward(nn.Module):
    """Of U-Net's sort: transposed convolutions whose windows overlap and do not, a skip, norms of each image."""

    def __init__(self):
        super().__init__()
        self.down, self.further = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.norm, self.up, self.wide = nn.InstanceNorm2d(16, affine=True), nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(16, 8, 4, 2, 1)
        self.out = nn.Linear(24, 10)

    def forward(self, x):
        same = F.silu(self.down(x))
        x = F.silu(self.norm(self.further(same)))
        return self.out(torch.cat([self.up(x), same, self.wide(x)], 1).amax((2, 3)))


class Again(nn.Module):
    """Modules that are called again: a block of attention in a loop, one under two names, a table and a layer for texts of two
    lengths, a layer of as many dimensions as it is given, names that end as calls of others do, a tied head."""

    def __init__(self):
        super().__init__()
        self.tokens, self.block, self.norm = nn.Embedding(64, 16), Block(16, 2), nn.LayerNorm(16)
        self.mix = nn.Linear(16, 16)
        self.other, self.last, self.last_1 = nn.ModuleDict({"mix": self.mix}), nn.Linear(16, 16), nn.Linear(16, 16)
        self.any, self.act, self.head = nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 64, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids, short):
        x, y = self.tokens(ids), self.act(self.mix(self.tokens(short)))
        for _ in range(2):
            x = self.act(self.block(x))
        x = x + self.any(self.norm(self.other["mix"](x))) + self.any(self.norm(y).mean(1)).unsqueeze(1)
        return self.head(self.last_1(self.last(self.last_1(self.last(x)).relu()).tanh())).flatten(0, 1)


class RootMeanSquare(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight, self.epsilon = nn.Parameter(torch.ones(width)), epsilon

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon))


LENGTH = 16


# A model of Llama's sort, with the names of Hugging Face's.
def _turned(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class LlamaAttention(nn.Module):
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head = heads, kv_heads, width // heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj, self.v_proj = (nn.Linear(width, kv_heads * self.head, bias=False) for _ in range(2))
        self.o_proj = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, w = x.shape
        q = _turned(self.q_proj(x).view(b, t, self.heads, self.head).transpose(1, 2), cos, sin)
        k = _turned(self.k_proj(x).view(b, t, self.kv_heads, self.head).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, t, self.kv_heads, self.head).transpose(1, 2)
        k, v = (y.repeat_interleave(self.heads // self.kv_heads, dim=1) for y in (k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(y.transpose(1, 2).reshape(b, t, w))


class LlamaDense(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(width, inner, bias=False) for _ in range(2))
        self.down_proj = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, c):
        super().__init__()
        width, epsilon = c["hidden_size"], c["rms_norm_eps"]
        self.self_attn = LlamaAttention(width, c["num_attention_heads"], c["num_key_value_heads"])
        self.mlp = LlamaDense(width, c["intermediate_size"])
        self.input_layernorm, self.post_attention_layernorm = (RootMeanSquare(width, epsilon) for _ in range(2))

    def forward(self, x, cos, sin):
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        y = self.mlp(self.post_attention_layernorm(x))
        return x + (y[0] if isinstance(y, tuple) else y)


class LlamaBase(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList([LlamaLayer(c) for _ in range(c["num_hidden_layers"])])
        self.norm = RootMeanSquare(c["hidden_size"], c["rms_norm_eps"])
        self.head = c["hidden_size"] // c["num_attention_heads"]

    def forward(self, ids):
        x = self.embed_tokens(ids)
        turn = 10000 ** (-torch.arange(0, self.head, 2, dtype=torch.double) / self.head)
        places = torch.arange(ids.shape[1], device=x.device)
        if not bool((places.diff() == 1).all()):  # as is asked before a mask is made of them
            raise ValueError("several texts in one")
        angle = torch.outer(places.double(), turn).repeat(1, 2)
        cos, sin = angle.cos().to(x.dtype), angle.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x)


class Llama(nn.Module):
    config = LLAMA

    def __init__(self):
        super().__init__()
        self.model, self.lm_head = LlamaBase(LLAMA), nn.Linear(LLAMA["hidden_size"], LLAMA["vocab_size"], bias=False)

    def forward(self, ids):
        return self.lm_head(self.model(ids)).flatten(0, 1)


# Of Mixtral's sort, with the names of Hugging Face's: experts are one parameter each for what they read and give.
class Router(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.weight, self.choices = nn.Parameter(torch.randn(c["num_experts"], c["hidden_size"]) / 4), c["num_experts_per_tok"]

    def forward(self, x):
        logits = F.linear(x.reshape(-1, x.shape[-1]), self.weight)
        weights, indices = torch.topk(logits.softmax(-1), self.choices, dim=-1)
        return logits, weights / weights.sum(-1, keepdim=True), indices


class Experts(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.num_experts, width, inner = c["num_experts"], c["hidden_size"], c["moe_intermediate_size"]
        self.gate_up_proj = nn.Parameter(torch.randn(self.num_experts, 2 * inner, width) / 6)
        self.down_proj = nn.Parameter(torch.randn(self.num_experts, width, inner) / 6)
        self.act_fn = nn.SiLU()

    def forward(self, x, indices, weights):
        y = torch.zeros_like(x)
        chosen = F.one_hot(indices, num_classes=self.num_experts).permute(2, 1, 0)
        for expert in chosen.sum(dim=(-1, -2)).nonzero().flatten():
            place, token = torch.where(chosen[expert])
            gate, up = F.linear(x[token], self.gate_up_proj[expert]).chunk(2, dim=-1)
            rows = F.linear(self.act_fn(gate) * up, self.down_proj[expert])
            y.index_add_(0, token, rows * weights[token, place, None])
        return y


class Sparse(nn.Module):
    """Experts beside one that all tokens go through, weighed by a gate of its own."""

    def __init__(self, c):
        super().__init__()
        width = c["hidden_size"]
        self.gate, self.experts = Router(c), Experts(c)
        self.shared_expert = LlamaDense(width, c["shared_expert_intermediate_size"])
        self.shared_expert_gate = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        rows = x.view(-1, x.shape[-1])
        shared = self.shared_expert(rows)
        logits, weights, indices = self.gate(rows)
        y = self.experts(rows, indices, weights) + torch.sigmoid(self.shared_expert_gate(rows)) * shared
        return y.reshape(x.shape), logits


class Mixture(Llama):
    config = MIXTURE

    def __init__(self):
        super().__init__()
        for layer in self.model.layers:
            layer.mlp = Sparse(MIXTURE)
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
                projection.bias = nn.Parameter(torch.randn(projection.out_features) / 8)


class Vgg11(nn.Module):
    """As torchvision has it, but for its width and its images, of 32 x 32."""

    def __init__(self, width=8):
        super().__init__()
        layers, channels = [], 3
        for n in (1, "M", 2, "M", 4, 4, "M", 8, 8, "M", 8, 8, "M"):
            if n == "M":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, n * width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = n * width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Linear(channels, 64), nn.ReLU(True), nn.Linear(64, 64), nn.ReLU(True),
                                        nn.Linear(64, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class BasicBlock(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        changes = stride != 1 or channels != width
        self.downsample = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False),
                                        nn.BatchNorm2d(width)) if changes else None

    def forward(self, x):
        same = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn1(self.conv1(x)))
        return self.relu(self.bn2(self.conv2(x)) + same)


class ResNet18(nn.Module):
    """As torchvision has it, but for its width and its images, of 32 x 32."""

    def __init__(self, width=4):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width)
        self.relu, self.maxpool = nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)
        sizes = [width, 2 * width, 4 * width, 8 * width]
        for i, (before, size) in enumerate(zip([width, *sizes], sizes), 1):
            setattr(self, f"layer{i}", nn.Sequential(BasicBlock(before, size, 1 if i == 1 else 2), BasicBlock(size, size, 1)))
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(8 * width, 10)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class Recommender(nn.Module):
    """Of DLRM's sort: tables, two stacks of dense layers, joined."""

    def __init__(self):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8), nn.ReLU())
        self.tables = nn.ModuleList([nn.Embedding(64, 8) for _ in range(3)])
        self.top = nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, dense, sparse):
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(dense), *rows], 1))


def _ids(*shape, below):
    return torch.randint(0, below, shape)


MODELS = {
    "perceptron": (Perceptron, lambda b: ((torch.randn(b, 96),), _ids(b, below=16))),
    "convolutional": (Convolutional, lambda b: ((torch.randn(b, 3, 16, 16),), _ids(b, below=10))),
    "residual": (Residual, lambda b: ((torch.randn(b, 3, 8, 8),), _ids(b, below=10))),
    "language": (Language, lambda b: ((_ids(b, 16, below=64),), _ids(b * 16, below=64))),
    "tied": (Tied, lambda b: ((_ids(b, 16, below=64),), _ids(b * 16, below=64))),
    "biased": (Biased, lambda b: ((_ids(b, 16, below=64),), _ids(b * 16, below=64))),
    "llama": (Llama, lambda b: ((_ids(b, LENGTH, below=64),), _ids(b * LENGTH, below=64))),
    "mixture": (Mixture, lambda b: ((_ids(b, LENGTH, below=64),), _ids(b * LENGTH, below=64))),
    "brought": (Brought, lambda b: ((_ids(b, 6, below=64), torch.randn(b, 8)), _ids(b, below=10))),
    "again": (Again, lambda b: ((_ids(b, 16, below=64), _ids(b, 8, below=64)), _ids(b * 16, below=64))),
    "upward": (Upward, lambda b: ((torch.randn(b, 3, 8, 8),), _ids(b, below=10))),
    "vgg11": (Vgg11, lambda b: ((torch.randn(b, 3, 32, 32),), _ids(b, below=10))),
    "resnet18": (ResNet18, lambda b: ((torch.randn(b, 3, 32, 32),), _ids(b, below=10))),
    "recommender": (Recommender, lambda b: ((torch.randn(b, 16), _ids(b, 3, below=64)), _ids(b, below=2))),
}

# Those with experts; the operator that says how these are cut, and its axes that can be: tokens, experts, units within.
HAVE_EXPERTS, EXPERTS, EXPERT_AXES = ("mixture",), ".experts.down", ("n", "e", "f")

# Those of which every operator is a module, so that all that is sent is in the plan.
ALL_MODULES = ("perceptron", "convolutional", "vgg11")

# Those of which all but a little that is sent is what modules, functions between them and parameters move.
ALL_MOVES = (*ALL_MODULES, "residual", "language", "again")

# Those that the suite runs; of the others, which are larger, `--models all` does.
QUICK = ("perceptron", "convolutional", "residual", "language", "biased", "llama", "mixture", "recommender", "brought", "again", "upward")
