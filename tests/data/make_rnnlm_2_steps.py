"""Makes rnnlm_2_steps.onnx beside this file: the language model of configs/models/rnnlm.onnx (two LSTM layers of 2048,
a vocabulary of 10,000) unrolled over 2 steps instead of 40, which is small enough to be searched exhaustively.

It holds structure alone: parameters are graph inputs after the data input.  The shipped file is what this writes with
onnx 1.15; nothing needs it to build or to run.  Usage: python3 make_rnnlm_2_steps.py
"""

import os

import numpy
from onnx import TensorProto, checker, helper, numpy_helper, save

VOCABULARY, HIDDEN, LENGTH, LAYERS = 10000, 2048, 2, 2

nodes, parameters = [], []


def parameter(name, *shape):
    parameters.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
    return name


def node(kind, name, *inputs, **attributes):
    nodes.append(helper.make_node(kind, inputs, [name], name="/" + name, **attributes))
    return name


axes = node("Constant", "axes", value=numpy_helper.from_array(numpy.asarray([1], "int64")))
x = node("Gather", "embedding/Gather", parameter("embedding.weight", VOCABULARY, HIDDEN), "tokens", axis=0)
x = node("Transpose", "by_time", x, perm=[1, 0, 2])
for layer in range(LAYERS):
    name = f"lstm_{layer}"
    x = node("LSTM", name + "/LSTM", x, parameter(name + ".W", 1, 4 * HIDDEN, HIDDEN),
             parameter(name + ".R", 1, 4 * HIDDEN, HIDDEN), parameter(name + ".B", 1, 8 * HIDDEN), hidden_size=HIDDEN)
    x = node("Squeeze", name + "/Squeeze", x, axes)
x = node("Transpose", "by_sample", x, perm=[1, 0, 2])
x = node("MatMul", "head/MatMul", x, parameter("head.weight", HIDDEN, VOCABULARY))
node("Add", "logits", x, parameter("head.bias", VOCABULARY))

tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", LENGTH])
logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", LENGTH, VOCABULARY])
graph = helper.make_graph(nodes, "rnnlm_2_steps", [tokens, *parameters], [logits])
model = helper.make_model(graph, producer_name="make_rnnlm_2_steps.py", ir_version=8,
                          opset_imports=[helper.make_opsetid("", 17)])
checker.check_model(model, full_check=True)
save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "rnnlm_2_steps.onnx"))
