"""Makes mobilenet_v2.onnx, mnasnet.onnx and efficientnet_b0.onnx beside this file: networks of blocks in which a
1 x 1 convolution widens, a depthwise one looks around and another 1 x 1 narrows (Sandler et al. 2018; Tan et al.
2019, MNASNet-B1; Tan and Le 2019, EfficientNet-B0, of which blocks are not dropped by chance).  Images have 128 x 128
pixels, so that a step of 8 of them takes a tenth of a second or two on one processor core.

They hold structure alone: parameters are graph inputs after the data input.  The shipped files are what this writes
with python3-onnx 1.12; nothing needs it to build or to run.  Usage: python3 make_depthwise.py
"""

import os

from onnx import TensorProto, checker, helper, save

PIXELS, CLASSES = 128, 1000
# Of each network its stem, stages of (widening, channels, blocks, stride, kernel) and last channels.
MOBILENET_V2 = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 32, 3, 2, 3), (6, 64, 4, 2, 3), (6, 96, 3, 1, 3), (6, 160, 3, 2, 3),
                (6, 320, 1, 1, 3)]
MNASNET = [(1, 16, 1, 1, 3), (3, 24, 3, 2, 3), (3, 40, 3, 2, 5), (6, 80, 3, 2, 5), (6, 96, 2, 1, 3), (6, 192, 4, 2, 5),
           (6, 320, 1, 1, 3)]
EFFICIENTNET_B0 = [(1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
                   (6, 192, 4, 2, 5), (6, 320, 1, 1, 3)]


def value(name, *shape):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


class Network:
    """Nodes and parameters in the order in which they are made; `activate` is Relu6, Relu or Swish."""

    def __init__(self, activate, squeezes):
        self.nodes, self.parameters, self.activate_as, self.squeezes = [], [], activate, squeezes

    def parameter(self, name, *shape):
        self.parameters.append(value(name, *shape))
        return name

    def node(self, kind, name, *inputs, outputs=(), **attributes):
        self.nodes.append(helper.make_node(kind, inputs, [name, *outputs], name="/" + name, **attributes))
        return name

    def activate(self, name, x):
        if self.activate_as == "Relu":
            return self.node("Relu", name + "/Relu", x)
        if self.activate_as == "Relu6":
            bounds = [self.node("Constant", f"{name}/{bound}", value_float=float(bound)) for bound in (0, 6)]
            return self.node("Clip", name + "/Clip", x, *bounds)
        return self.node("Mul", name + "/Mul", x, self.node("Sigmoid", name + "/Sigmoid", x))

    def convolve(self, name, x, channels, kernel=1, stride=1, groups=1, active=True):
        """`channels`: that it reads and writes; a batch normalization follows."""
        read, written = channels
        x = self.node("Conv", name + "/Conv", x, self.parameter(name + ".weight", written, read // groups, kernel, kernel),
                      kernel_shape=[kernel, kernel], pads=[kernel // 2] * 4, strides=[stride, stride], group=groups)
        norm = name + ".norm"
        kept = [self.parameter(f"{norm}.{what}", written) for what in ("weight", "bias", "running_mean", "running_var")]
        x = self.node("BatchNormalization", norm + "/BatchNormalization", x, *kept, training_mode=1, epsilon=1e-5,
                      momentum=0.9, outputs=[norm + "/mean", norm + "/var"])
        return self.activate(name, x) if active else x

    def dense(self, name, x, read, written):
        """A 1 x 1 convolution of one pixel, with a bias."""
        return self.node("Conv", name + "/Conv", x, self.parameter(name + ".weight", written, read, 1, 1),
                         self.parameter(name + ".bias", written), kernel_shape=[1, 1])

    def squeeze(self, name, x, channels, squeezed):
        """Each channel times a figure that all of them tell."""
        told = self.node("GlobalAveragePool", name + "/GlobalAveragePool", x)
        told = self.activate(name + ".reduce", self.dense(name + ".reduce", told, channels, squeezed))
        told = self.node("Sigmoid", name + "/Sigmoid", self.dense(name + ".expand", told, squeezed, channels))
        return self.node("Mul", name + "/Mul", x, told)

    def block(self, name, x, read, stage, stride):
        widening, written, _, _, kernel = stage
        wide, start = read * widening, x
        if widening > 1:
            x = self.convolve(name + ".expand", x, (read, wide))
        x = self.convolve(name + ".depthwise", x, (wide, wide), kernel, stride, wide)
        if self.squeezes:
            x = self.squeeze(name + ".squeeze", x, wide, read // 4)
        x = self.convolve(name + ".project", x, (wide, written), active=False)
        return self.node("Add", name + "/Add", start, x) if stride == 1 and read == written else x

    def save(self, name, stages, last):
        x, channels, n = self.convolve("stem", "image", (3, 32), 3, 2), 32, 0
        for stage in stages:
            for b in range(stage[2]):
                x = self.block(f"block.{n}", x, channels, stage, stage[3] if b == 0 else 1)
                channels, n = stage[1], n + 1
        x = self.convolve("head", x, (channels, last))
        x = self.node("Flatten", "Flatten", self.node("GlobalAveragePool", "GlobalAveragePool", x), axis=1)
        self.node("Gemm", "logits", x, self.parameter("dense.weight", CLASSES, last), self.parameter("dense.bias", CLASSES),
                  transB=1)
        graph = helper.make_graph(self.nodes, name, [value("image", "batch", 3, PIXELS, PIXELS), *self.parameters],
                                  [value("logits", "batch", CLASSES)])
        model = helper.make_model(graph, producer_name="make_depthwise.py", ir_version=8,
                                  opset_imports=[helper.make_opsetid("", 17)])
        checker.check_model(model, full_check=True)
        save(model, os.path.join(os.path.dirname(os.path.abspath(__file__)), name + ".onnx"))


Network("Relu6", squeezes=False).save("mobilenet_v2", MOBILENET_V2, 1280)
Network("Relu", squeezes=False).save("mnasnet", MNASNET, 1280)
Network("Swish", squeezes=True).save("efficientnet_b0", EFFICIENTNET_B0, 1280)
