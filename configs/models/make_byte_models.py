"""Makes byte_gpt.onnx and byte_lstm.onnx beside this file: small language models over bytes.

They hold structure alone: parameters are graph inputs after the data input, so that a run draws
them from its seed or takes them from --weights.  The shipped files are what this writes with
python3-onnx 1.12; nothing needs it to build or to run.  Usage: python3 make_byte_models.py
"""

import math
import os

import numpy
from onnx import TensorProto, checker, helper, numpy_helper, save

VOCABULARY, LENGTH = 256, 64


class Graph:
    """Nodes and parameters in the order in which they are made."""

    def __init__(self):
        self.nodes, self.parameters = [], []

    def parameter(self, name, *shape):
        self.parameters.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def node(self, kind, name, *inputs, **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name], name="/" + name, **attributes))
        return name

    def constant(self, name, values, kind):
        tensor = numpy_helper.from_array(numpy.asarray(values, kind))
        return self.node("Constant", name, value=tensor)

    def save(self, name, logits):
        tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", LENGTH])
        output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", LENGTH, VOCABULARY])
        self.node("Identity", "logits", logits)
        graph = helper.make_graph(self.nodes, name, [tokens, *self.parameters], [output])
        model = helper.make_model(graph, producer_name="make_byte_models.py", ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        checker.check_model(model, full_check=True)
        save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".onnx"))


def linear(g, name, x, n_in, n_out):
    product = g.node("MatMul", name + "/MatMul", x, g.parameter(name + ".weight", n_in, n_out))
    return g.node("Add", name + "/Add", product, g.parameter(name + ".bias", n_out))


def normalize(g, name, x, width):
    return g.node("LayerNormalization", name + "/LayerNormalization", x, g.parameter(name + ".weight", width),
                  g.parameter(name + ".bias", width), axis=-1, epsilon=1e-5)


def gelu(g, name, x):
    scaled = g.node("Div", name + "/Div", x, g.constant(name + "/root", math.sqrt(2), "float32"))
    plus = g.node("Add", name + "/Add", g.node("Erf", name + "/Erf", scaled), g.constant(name + "/one", 1, "float32"))
    twice = g.node("Mul", name + "/Mul", x, plus)
    return g.node("Mul", name + "/Mul_1", twice, g.constant(name + "/half", 0.5, "float32"))


def attention(g, name, x, width, heads, mask):
    def split(part, permutation):
        projected = linear(g, f"{name}.{part}", x, width, width)
        shape = g.constant(f"{name}/{part}/shape", [0, 0, heads, width // heads], "int64")
        by_head = g.node("Reshape", f"{name}/{part}/Reshape", projected, shape)
        return g.node("Transpose", f"{name}/{part}/Transpose", by_head, perm=permutation)

    query, key, value = split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]), split("value", [0, 2, 1, 3])
    scores = g.node("MatMul", name + "/scores/MatMul", query, key)
    scale = g.constant(name + "/scale", 1 / math.sqrt(width // heads), "float32")
    masked = g.node("Add", name + "/masked/Add", g.node("Mul", name + "/scaled/Mul", scores, scale), mask)
    weights = g.node("Softmax", name + "/Softmax", masked, axis=-1)
    mixed = g.node("MatMul", name + "/mixed/MatMul", weights, value)
    by_place = g.node("Transpose", name + "/Transpose", mixed, perm=[0, 2, 1, 3])
    shape = g.constant(name + "/shape", [0, 0, width], "int64")
    return linear(g, name + ".out", g.node("Reshape", name + "/Reshape", by_place, shape), width, width)


def byte_gpt(layers=2, width=128, heads=4):
    """A decoder-only transformer: normalisation before each block, causal mask, GELU."""
    g = Graph()
    mask = g.constant("mask", numpy.triu(numpy.full((LENGTH, LENGTH), -1e9), 1), "float32")
    bytes_in = g.node("Gather", "byte/Gather", g.parameter("byte.weight", VOCABULARY, width), "tokens", axis=0)
    x = g.node("Add", "position/Add", bytes_in, g.parameter("position.weight", LENGTH, width))
    for i in range(layers):
        block = f"block.{i}"
        mixed = attention(g, block + ".attention", normalize(g, block + ".norm_1", x, width), width, heads, mask)
        x = g.node("Add", block + "/residual_1/Add", x, mixed)
        wide = linear(g, block + ".up", normalize(g, block + ".norm_2", x, width), width, 4 * width)
        narrow = linear(g, block + ".down", gelu(g, block + "/gelu", wide), 4 * width, width)
        x = g.node("Add", block + "/residual_2/Add", x, narrow)
    g.save("byte_gpt", linear(g, "head", normalize(g, "norm", x, width), width, VOCABULARY))


def byte_lstm(width=64, hidden=128):
    """An embedding, one LSTM over the sequence, and a linear head."""
    g = Graph()
    embedded = g.node("Gather", "byte/Gather", g.parameter("byte.weight", VOCABULARY, width), "tokens", axis=0)
    by_time = g.node("Transpose", "by_time/Transpose", embedded, perm=[1, 0, 2])
    parameters = [g.parameter("lstm.W", 1, 4 * hidden, width), g.parameter("lstm.R", 1, 4 * hidden, hidden),
                  g.parameter("lstm.B", 1, 8 * hidden)]
    states = g.node("LSTM", "lstm/LSTM", by_time, *parameters, hidden_size=hidden)
    flat = g.node("Squeeze", "states/Squeeze", states, g.constant("direction", [1], "int64"))
    by_sample = g.node("Transpose", "by_sample/Transpose", flat, perm=[1, 0, 2])
    g.save("byte_lstm", linear(g, "head", by_sample, hidden, VOCABULARY))


byte_gpt()
byte_lstm()
