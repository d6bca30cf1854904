"""Your own JAX function, to be planned: as ONNX by jax2onnx, under the names and in the shapes that your parameters have."""
import itertools
import os
import tempfile

import jax
import jax.numpy as jnp

from ..command import CleaveError, run
from .names import named_leaves
from .plan import Plan

PRODUCTS = ("MatMul", "Gemm", "Einsum", "Conv", "ConvTranspose")
VIEWS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Cast", "CastLike")


def _struct(x):
    """As models are planned, whatever they are in."""
    dtype = jnp.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype
    kind = jnp.float32 if jnp.issubdtype(dtype, jnp.floating) else jnp.int32 if jnp.issubdtype(dtype, jnp.integer) else dtype
    return jax.ShapeDtypeStruct(jnp.shape(x), kind)


def _are_constants(graph):
    """What the file holds has its value in the model, as no parameter has."""
    from onnx import helper

    constants = [helper.make_node("Constant", [], [value.name], value=value) for value in graph.initializer]
    del graph.initializer[:]
    for i, node in enumerate(constants):
        graph.node.insert(i, node)


def _in_single(graph):
    """What is computed in half precision: the search is asked for a precision (`--precision`), the file is not."""
    from onnx import TensorProto, numpy_helper

    half = (TensorProto.BFLOAT16, TensorProto.FLOAT16)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.name in ("to", "dtype") and attribute.i in half:
                attribute.i = TensorProto.FLOAT
            elif attribute.name == "value" and attribute.t.data_type in half:
                attribute.t.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(attribute.t).astype("float32"), attribute.t.name))
    for value in (*graph.value_info, *graph.output):
        if value.type.tensor_type.elem_type in half:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _scope(owner, own, call, alone):
    """The module of a plan for the product of a module's parameter in its n-th call, as exporters number calls; a method that
    does it besides the module's own call is a module of its own."""
    name = owner if alone else f"{owner}:{own}"
    return f"{name}_{call}" if call else name


def _name_nodes(graph, parameters):
    """By the module whose parameter they read, and its call; of a table that is looked up and multiplied each is a module,
    and so is each product of a module that has several."""
    of, reads = {name: name for name in parameters}, []
    for i, node in enumerate(graph.node):
        views = node.op_type in VIEWS
        read = next((of[x] for x in node.input[:1 if views else None] if x in of), None)
        if read is not None and views:
            of[node.output[0]] = read
        elif read is not None and "." in read:
            reads.append((i, node, *read.rsplit(".", 1)))
    products = {}
    for _, node, owner, own in reads:
        if node.op_type in PRODUCTS:
            products.setdefault(owner, set()).add(own)
    calls = {}
    for i, node, owner, own in reads:
        attends = own == "embedding" and node.op_type != "Gather"  # Flax has one product with a table: Embed.attend
        alone = len(products.get(owner, ())) < 2 or node.op_type not in PRODUCTS
        call = calls.setdefault((owner, own, attends), itertools.count())
        node.name = f"/{_scope(owner, 'attend' if attends else own, next(call), alone and not attends)}/{node.op_type}_{i}"


def export(forward, params, inputs, file):
    """Writes forward(params, *inputs), which gives logits, as ONNX; of arrays only shapes and types are looked at, and inputs
    are of the whole batch.  Parameters have their paths as names ("Dense_0.kernel") and their shapes."""
    try:
        import onnx
        from jax2onnx import to_onnx
    except ImportError as error:
        raise CleaveError(f"{error}: a model is planned by way of ONNX, which `pip install jax2onnx` makes") from None
    leaves, structure = named_leaves(params)
    names = [name for name, _ in leaves]
    if len(set(names)) < len(names):
        raise CleaveError(f"two parameters are called {next(n for n in names if names.count(n) > 1)}")

    def flat(*arrays):
        return forward(jax.tree.unflatten(structure, arrays[len(inputs):]), *arrays[:len(inputs)])

    given = [f"input_{i}" for i in range(len(inputs))]
    try:
        with jax.enable_x64(False):
            model = to_onnx(flat, [_struct(x) for x in (*inputs, *(leaf for _, leaf in leaves))], input_names=given + names)
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CleaveError(f"the model can't be written as ONNX by jax2onnx: {line}") from error
    _are_constants(model.graph)
    _in_single(model.graph)
    _name_nodes(model.graph, names)
    onnx.save(model, file)
    return given


def plan(forward, params, inputs, *, devices, machine, layout=None, seconds=None, options=(), file=None, on=None):
    """A Plan for forward(params, *inputs) -> logits on so many devices of a machine file: exported, searched (`layout`: a
    layout file is taken instead), and written in JAX's words.  `seconds`: of the search; `options`: more of them for
    `cleave search`; `file`: keep the plan there; `on`: the devices themselves, jax.devices() else.

    Plan in one process and give the file to all, so that all have the same."""
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "model.onnx")
        found = layout or os.path.join(folder, "model.layout.json")
        written = file or os.path.join(folder, "model.plan.json")
        names = export(forward, params, inputs, model)
        given = ["--model", model, "--batch", jnp.shape(inputs[0])[0], "--inputs", ",".join(names)]
        if layout is None:
            time = ["--time", seconds] if seconds else []
            run("search", *given, "--machine", machine, "--devices", devices, "--for", "jax", *time, *options, "-o", found)
        run("export", "--to", "jax", *given, "--layout", found, "--machine", machine, "-o", written)
        return Plan(written, on)
