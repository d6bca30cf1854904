"""Your own JAX function, to be planned: as ONNX by jax2onnx, under the names and in the shapes that your parameters have."""
import os
import tempfile

import jax
import jax.numpy as jnp

from ..command import CleaveError, run
from .names import named_leaves
from .plan import Plan

VIEWS = ("Reshape", "Transpose", "Squeeze", "Unsqueeze", "Identity", "Cast")


def _struct(x):
    """As models are planned, whatever they are in."""
    dtype = jnp.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype
    kind = jnp.float32 if jnp.issubdtype(dtype, jnp.floating) else jnp.int32 if jnp.issubdtype(dtype, jnp.integer) else dtype
    return jax.ShapeDtypeStruct(jnp.shape(x), kind)


def _name_nodes(graph, parameters):
    """By the module whose parameter they read, so that of a table that is looked up and multiplied each is a module."""
    of = {name: name for name in parameters}
    for i, node in enumerate(graph.node):
        read = next((of[x] for x in node.input if x in of), None)
        if read is not None and node.op_type in VIEWS:
            of[node.output[0]] = read
        elif read is not None and "." in read:
            owner, own = read.rsplit(".", 1)
            attends = own == "embedding" and node.op_type != "Gather"  # Flax has one product with a table: Embed.attend
            node.name = f"/{owner}{':attend' if attends else ''}/{node.op_type}_{i}"


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
        floats = [n for n, x in zip(names, inputs) if jnp.issubdtype(_struct(x).dtype, jnp.floating)]
        given = ["--model", model, "--batch", jnp.shape(inputs[0])[0]] + (["--inputs", ",".join(floats)] if floats else [])
        if layout is None:
            time = ["--time", seconds] if seconds else []
            run("search", *given, "--machine", machine, "--devices", devices, "--for", "jax", *time, *options, "-o", found)
        run("export", "--to", "jax", *given, "--layout", found, "--machine", machine, "-o", written)
        return Plan(written, on)
