#!/usr/bin/env python3
"""Makes the oracles of model families: tiny models with weights, and what PyTorch computes for them.

For each model NAME three files are written to FOLDER (default: oracles/ beside this file):
  NAME.onnx                 with its weights as initializers
  NAME.io.safetensors       the inputs under their ONNX names, and `targets`
  NAME.expect.safetensors   `loss_steps` [3] and `after3/PARAMETER`: three steps of SGD with a
                            learning rate of 0.1 on mean softmax cross-entropy, the same batch each
                            time; computed in double precision from the float32 weights
Needs PyTorch, its ONNX exporter and onnx (made with PyTorch 1.13, tiny_fused with 2.15).  The tests only need the
files.
usage: make_oracles.py [FOLDER [NAME...]]
"""
import json
import math
import os
import struct
import sys
import warnings

import numpy
import onnx
import torch
from torch import nn
from torch.nn import functional as F

warnings.filterwarnings("ignore")


def write_safetensors(path, tensors):
    names = {numpy.dtype("float32"): "F32", numpy.dtype("int64"): "I64"}
    header, offset = {}, 0
    for name, value in tensors.items():
        header[name] = {"dtype": names[value.dtype], "shape": list(value.shape),
                        "data_offsets": [offset, offset + value.nbytes]}
        offset += value.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for value in tensors.values():
            file.write(numpy.ascontiguousarray(value).tobytes())


class SqueezeExcite(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x):
        scale = self.up(F.relu(self.down(F.adaptive_avg_pool2d(x, 1))))
        return x * F.hardsigmoid(scale)


class Mobile(nn.Module):
    """Inverted residuals: depthwise convolutions, hard-swish, ReLU6, squeeze and excitation."""

    def __init__(self):
        super().__init__()
        self.stem, self.stem_norm = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.expand, self.expand_norm = nn.Conv2d(8, 16, 1, bias=False), nn.BatchNorm2d(16)
        self.depth, self.depth_norm = nn.Conv2d(16, 16, 3, 1, 1, groups=16, bias=False), nn.BatchNorm2d(16)
        self.excite = SqueezeExcite(16)
        self.project, self.project_norm = nn.Conv2d(16, 8, 1, bias=False), nn.BatchNorm2d(8)
        self.down = nn.Conv2d(8, 12, 5, 2, 2, groups=4)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        x = F.hardswish(self.stem_norm(self.stem(x)))
        y = F.relu6(self.expand_norm(self.expand(x)))
        y = self.excite(F.hardswish(self.depth_norm(self.depth(y))))
        x = x + self.project_norm(self.project(y))
        x = F.leaky_relu(self.down(x), 0.1)
        return self.head(x.mean([2, 3]))


class UNet(nn.Module):
    """Down and up again: transposed convolutions with and without overlap, resizing, skips."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(2, 6, 3, 1, 1), nn.Conv2d(6, 8, 3, 1, 1)
        self.three = nn.Conv2d(8, 8, 3, 1, 1)
        self.norm = nn.GroupNorm(2, 8)
        self.up_two = nn.ConvTranspose2d(8, 6, 2, 2)
        self.mix_two = nn.Conv2d(14, 6, 3, 1, 1)
        self.up_one = nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1)
        self.mix_one = nn.Conv2d(4 + 6 + 8, 4, 1)
        self.instance = nn.InstanceNorm2d(4, affine=True)

    def forward(self, x):
        one = F.relu(self.one(x))
        two = F.relu(self.two(F.max_pool2d(one, 2)))
        three = F.silu(self.norm(self.three(F.avg_pool2d(two, 2))))
        up = torch.cat([self.up_two(three), two], 1)
        up = F.elu(self.mix_two(up))
        wide = F.interpolate(three, scale_factor=4, mode="nearest")
        up = torch.cat([self.up_one(up), one, wide], 1)
        up = self.instance(self.mix_one(up))
        return F.interpolate(up, size=[10, 12], mode="bilinear", align_corners=False)


class Vision(nn.Module):
    """A vision transformer: patches, a class token, positions, pre-norm blocks."""

    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 16))
        self.position = nn.Parameter(torch.randn(1, 10, 16) * 0.1)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(16), nn.LayerNorm(16), nn.LayerNorm(16)
        self.qkv, self.out = nn.Linear(16, 48), nn.Linear(16, 16)
        self.wide, self.narrow = nn.Linear(16, 32), nn.Linear(32, 16)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        n = x.shape[0]
        x = self.patch(x).reshape(n, 16, -1).permute(0, 2, 1)
        x = torch.cat([self.token.expand(n, -1, -1), x], 1) + self.position
        y = self.qkv(self.norm1(x)).reshape(n, 10, 3, 4, 4).permute(2, 0, 3, 1, 4)
        q, k, v = y[0], y[1], y[2]
        attention = torch.softmax((q * 0.5) @ k.transpose(-2, -1), -1)
        x = x + self.out((attention @ v).transpose(1, 2).reshape(n, 10, 16))
        x = x + self.narrow(F.gelu(self.wide(self.norm2(x))))
        return self.head(self.norm3(x)[:, 0])


class Llama(nn.Module):
    """A decoder: RMS norm, rotary positions, grouped query heads, a gated SiLU, a tied head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(20, 16) * 0.5)
        self.scale1, self.scale2 = nn.Parameter(torch.ones(16)), nn.Parameter(torch.ones(16))
        self.q, self.k = nn.Linear(16, 16, bias=False), nn.Linear(16, 8, bias=False)
        self.v, self.o = nn.Linear(16, 8, bias=False), nn.Linear(16, 16, bias=False)
        self.gate, self.up = nn.Linear(16, 24, bias=False), nn.Linear(16, 24, bias=False)
        self.down = nn.Linear(24, 16, bias=False)
        angle = torch.arange(6)[:, None] / 10 ** torch.arange(2)[None, :].float()
        angle = torch.cat([angle, angle], -1)
        self.register_buffer("cosine", angle.cos(), persistent=False)
        self.register_buffer("sine", angle.sin(), persistent=False)

    def norm(self, x, scale):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * scale

    def turn(self, x):
        half = torch.cat([-x[..., 2:], x[..., :2]], -1)
        return x * self.cosine + half * self.sine

    def forward(self, tokens):
        n, t = tokens.shape
        x = F.embedding(tokens, self.embed)
        y = self.norm(x, self.scale1)
        q = self.turn(self.q(y).view(n, t, 4, 4).transpose(1, 2))
        k = self.turn(self.k(y).view(n, t, 2, 4).transpose(1, 2))
        v = self.v(y).view(n, t, 2, 4).transpose(1, 2)
        k = k[:, :, None].expand(n, 2, 2, t, 4).reshape(n, 4, t, 4)
        v = v[:, :, None].expand(n, 2, 2, t, 4).reshape(n, 4, t, 4)
        scores = q @ k.transpose(2, 3) / math.sqrt(4)
        mask = torch.ones(t, t, dtype=torch.bool).tril()
        scores = scores.masked_fill(~mask, -10000.0)
        x = x + self.o((scores.softmax(-1) @ v).transpose(1, 2).reshape(n, t, 16))
        y = self.norm(x, self.scale2)
        x = x + self.down(F.silu(self.gate(y)) * self.up(y))
        return x @ self.embed.t()


class Experts(nn.Module):
    """A mixture of experts: every expert for every token, weighed by a gate."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.gate = nn.Linear(8, 3)
        self.wide = nn.Parameter(torch.randn(3, 8, 12) * 0.3)
        self.narrow = nn.Parameter(torch.randn(3, 12, 8) * 0.3)
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        gate = torch.softmax(self.gate(x), -1)
        y = torch.einsum("nc,ech->neh", x, self.wide)
        y = torch.einsum("neh,ehc->nec", F.gelu(y, approximate="tanh"), self.narrow)
        return self.head(x + torch.einsum("ne,nec->nc", gate, y))


class Recurrent(nn.Module):
    """Speech-like: convolutions over time, GRUs both ways, an LSTM both ways, an RNN."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(3, 6, 3, 2, 1)
        self.gru = nn.GRU(6, 5, bidirectional=True, batch_first=True)
        self.lstm = nn.LSTM(10, 4, bidirectional=True, batch_first=True)
        self.rnn = nn.RNN(8, 6, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x):
        x = F.softplus(self.conv(x)).transpose(1, 2)
        x = self.lstm(self.gru(x)[0])[0]
        return self.head(self.rnn(x)[0])


class Fused(nn.Module):
    """Queries, keys and values by one product, taken apart into equal parts, and into parts of listed sizes."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.qkv = nn.Linear(16, 48)
        self.project = nn.Linear(16, 16)
        self.narrow = nn.Linear(16, 32)
        self.head = nn.Linear(16, 20)

    def attend(self, q, k, v):
        q, k, v = (x.unflatten(-1, (-1, 8)).transpose(1, 2) for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.project(self.attend(*self.qkv(x).chunk(3, -1)))
        q, k, v = self.narrow(x).split([16, 8, 8], -1)
        return self.head(x + self.attend(q, k.repeat(1, 1, 2), v.repeat(1, 1, 2)))


def export(model, inputs, opset, path):
    names = list(inputs)
    if isinstance(model, Fused):  # as the newest exporter writes it before it simplifies anything
        torch.onnx.export(model, tuple(inputs.values()), path, dynamo=True, optimize=False, opset_version=opset,
                          input_names=names, output_names=["logits"], external_data=False,
                          dynamic_shapes=[{0: torch.export.Dim("batch")} for _ in names])
        written = onnx.load(path)
        for part in [written, written.graph, *written.graph.node, *written.graph.value_info]:  # what tells of its making
            del part.metadata_props[:]
            part.doc_string = ""
        del written.graph.value_info[:]
        onnx.save(written, path)
        return
    torch.onnx.export(model, tuple(inputs.values()), path,
                      training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False,
                      opset_version=opset, input_names=names, output_names=["logits"],
                      dynamic_axes={n: {0: "batch"} for n in [*names, "logits"]})


def oracle(name, model, inputs, targets, opset, folder):
    model.train()
    with torch.no_grad():  # every parameter takes part, those that start at 0 or 1 too
        for p in model.parameters():
            p += 0.05 * torch.randn_like(p)
    export(model, inputs, opset, os.path.join(folder, f"{name}.onnx"))
    model = model.double()
    data = {n: v.double() if v.is_floating_point() else v for n, v in inputs.items()}
    losses, optimizer = [], torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(*data.values())
        if targets.dim() > 1 and logits.dim() == 3:
            logits = logits.transpose(1, 2)
        loss = F.cross_entropy(logits, targets)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    expect = {f"after3/{n}": p.detach().float().numpy() for n, p in model.named_parameters()}
    expect["loss_steps"] = numpy.array(losses, "float32")
    write_safetensors(os.path.join(folder, f"{name}.expect.safetensors"), expect)
    io = {n: v.numpy() for n, v in inputs.items()}
    io["targets"] = targets.numpy()
    write_safetensors(os.path.join(folder, f"{name}.io.safetensors"), io)
    print(name, [round(value, 5) for value in losses],
          sum(p.numel() for p in model.parameters()), "parameters")


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "oracles")
    image = lambda n, c, h, w: {"x": torch.randn(n, c, h, w)}
    labels = lambda k, *shape: torch.randint(k, shape)
    table = {
        "tiny_mobile": lambda: (Mobile(), image(6, 3, 12, 12), labels(5, 6), 14),
        "tiny_unet": lambda: (UNet(), image(4, 2, 8, 8), labels(4, 4, 10, 12), 13),
        "tiny_vit": lambda: (Vision(), image(4, 3, 12, 12), labels(5, 4), 17),
        "tiny_llama": lambda: (Llama(), {"tokens": labels(20, 4, 6)}, labels(20, 4, 6), 14),
        "tiny_fused": lambda: (Fused(), {"tokens": labels(20, 4, 6)}, labels(20, 4, 6), 18),
        "tiny_experts": lambda: (Experts(), {"x": torch.randn(8, 6)}, labels(4, 8), 14),
        "tiny_recurrent": lambda: (Recurrent(), {"x": torch.randn(4, 3, 9)}, labels(5, 4, 5), 14),
    }
    for name, make in table.items():
        if len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        torch.manual_seed(7)
        model, inputs, targets, opset = make()
        oracle(name, model, inputs, targets, opset, folder)


if __name__ == "__main__":
    main()
