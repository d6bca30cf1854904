"""Models at sizes whose steps take some milliseconds on a core; MODELS[name] = (make, batch, batch -> inputs, targets)."""
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "frameworks"))
import models as small


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.f1, self.f2, self.f3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.c1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.c2(x)), 2).flatten(1)
        return self.f3(torch.tanh(self.f2(torch.tanh(self.f1(x)))))


def alexnet():
    return nn.Sequential(nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(64, 192, 5, padding=2),
                         nn.ReLU(), nn.MaxPool2d(3, 2), nn.Conv2d(192, 384, 3, padding=1), nn.ReLU(),
                         nn.Conv2d(384, 256, 3, padding=1), nn.ReLU(), nn.Conv2d(256, 256, 3, padding=1), nn.ReLU(),
                         nn.MaxPool2d(3, 2), nn.Flatten(), nn.Linear(9216, 4096), nn.ReLU(), nn.Linear(4096, 4096),
                         nn.ReLU(), nn.Linear(4096, 1000))


def vgg11():
    layers, channels = [], 3
    for block in ([64], [128], [256, 256], [512, 512], [512, 512]):
        for width in block:
            layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU()]
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2048, 1024), nn.ReLU(), nn.Linear(1024, 1000))


class Basic(nn.Module):
    def __init__(self, channels, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.down = nn.Sequential(nn.Conv2d(channels, width, 1, stride, bias=False), nn.BatchNorm2d(width)) \
            if stride != 1 or channels != width else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.down(x))


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        widths = [64, 64, 128, 256, 512]
        self.layers = nn.Sequential(*(Basic(*shape) for i in range(4) for shape in (
            (widths[i], widths[i + 1], 1 if i == 0 else 2), (widths[i + 1], widths[i + 1], 1))))
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, wide):
        super().__init__()
        self.heads, self.norm_1, self.norm_2 = heads, RMSNorm(width), RMSNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, wide, bias=False), nn.Linear(width, wide, bias=False)
        self.down = nn.Linear(wide, width, bias=False)

    def forward(self, x):
        b, t, w = x.shape
        y = self.norm_1(x)
        q, k, v = (f(y).view(b, t, self.heads, w // self.heads).transpose(1, 2) for f in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, w))
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=2, width=256, heads=4, wide=688, vocabulary=1000):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList([LlamaBlock(width, heads, wide) for _ in range(layers)])
        self.norm, self.head = RMSNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)).flatten(0, 1)


class Recommender(nn.Module):
    def __init__(self, rows=20000, width=64):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, width), nn.ReLU())
        self.tables = nn.ModuleList([nn.Embedding(rows, width) for _ in range(4)])
        self.top = nn.Sequential(nn.Linear(5 * width, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 2))

    def forward(self, dense, sparse):
        rows = [table(sparse[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat([self.bottom(dense), *rows], 1))


def perceptron():
    return nn.Sequential(nn.Linear(784, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10))


def _ids(*shape, below):
    return torch.randint(0, below, shape)


def _images(pixels, classes, channels=3):
    return lambda b: ((torch.randn(b, channels, pixels, pixels),), _ids(b, below=classes))


def _texts(length, vocabulary):
    return lambda b: ((_ids(b, length, below=vocabulary),), _ids(b * length, below=vocabulary))


MODELS = {
    "perceptron": (perceptron, 64, lambda b: ((torch.randn(b, 784),), _ids(b, below=10))),
    "lenet5": (LeNet, 64, _images(28, 10, 1)),
    "convolutional": (small.Convolutional, 256, _images(16, 10)),
    "residual": (small.Residual, 512, _images(8, 10)),
    "gpt": (lambda: small.Language(2, 128, 4, 256, 64), 8, _texts(64, 256)),
    "llama": (Llama, 4, _texts(64, 1000)),
    "recommender": (Recommender, 128, lambda b: ((torch.randn(b, 64), _ids(b, 4, below=20000)), _ids(b, below=2))),
    "resnet18": (ResNet18, 8, _images(112, 1000)),
    "vgg11": (vgg11, 8, _images(64, 1000)),
    "alexnet": (alexnet, 16, _images(224, 1000)),
}
