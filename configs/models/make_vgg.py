"""Makes vgg11.onnx beside this file: VGG-11 (Simonyan and Zisserman 2015, configuration A) on images of
64 x 64 pixels, so that a step takes a second or two on one processor core.  Its dense layers, with
most of the parameters, are those of the paper behind a smaller image.

It holds structure alone: parameters are graph inputs after the data input.  The shipped file is what
this writes with python3-onnx 1.12; nothing needs it to build or to run.  Usage: python3 make_vgg.py
"""

import os

from onnx import TensorProto, checker, helper, save

PIXELS, CLASSES = 64, 1000
BLOCKS = [[64], [128], [256, 256], [512, 512], [512, 512]] # output channels of convolutions; a pool after each
DENSE = [4096, 4096, CLASSES]


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def vgg():
    nodes, parameters = [], []

    def node(kind, name, *inputs, **attributes):
        nodes.append(helper.make_node(kind, inputs, [name], name="/" + name, **attributes))
        return name

    def weights(name, *shape):
        parameters.extend([value(name + ".weight", *shape), value(name + ".bias", shape[0])])
        return name + ".weight", name + ".bias"

    x, channels, pixels, n = "image", 3, PIXELS, 0
    for b, block in enumerate(BLOCKS):
        for width in block:
            x = node("Conv", f"conv.{n}/Conv", x, *weights(f"conv.{n}", width, channels, 3, 3), kernel_shape=[3, 3],
                     pads=[1, 1, 1, 1])
            x, channels, n = node("Relu", f"conv.{n}/Relu", x), width, n + 1
        x, pixels = node("MaxPool", f"pool.{b}/MaxPool", x, kernel_shape=[2, 2], strides=[2, 2]), pixels // 2
    x, features = node("Flatten", "Flatten", x, axis=1), channels * pixels * pixels
    for i, width in enumerate(DENSE):
        last = i + 1 == len(DENSE)
        x = node("Gemm", "logits" if last else f"dense.{i}/Gemm", x, *weights(f"dense.{i}", width, features), transB=1)
        x, features = x if last else node("Relu", f"dense.{i}/Relu", x), width
    graph = helper.make_graph(nodes, "vgg11", [value("image", "batch", 3, PIXELS, PIXELS), *parameters],
                              [value("logits", "batch", CLASSES)])
    model = helper.make_model(graph, producer_name="make_vgg.py", ir_version=8,
                              opset_imports=[helper.make_opsetid("", 17)])
    checker.check_model(model, full_check=True)
    save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), "vgg11.onnx"))


vgg()
