"""Models as people write them, small enough for a test; MODELS[name] = (make, batch -> inputs and targets)."""
import torch
import torch.nn.functional as F
from torch import nn


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

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = (y.view(b, t, self.heads, w // self.heads).transpose(1, 2)
                   for y in (self.query(x), self.key(x), self.value(x)))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, w))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm_1, self.attention = nn.LayerNorm(width), Attention(width, heads)
        self.norm_2, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


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
    "recommender": (Recommender, lambda b: ((torch.randn(b, 16), _ids(b, 3, below=64)), _ids(b, below=2))),
}

# Those of which every operator is a module, so that all that is sent is in the plan.
ALL_MODULES = ("perceptron", "convolutional")
