"""Your model, to be planned: as ONNX in training mode, and from there to a plan by the `cleave` command."""
import contextlib
import os
import tempfile
import warnings

import torch

from ..command import CleaveError, run
from ..plan import load
from . import made
from .names import has, unwrapped


def _in_single(x, copy=False):
    """As models are planned, whatever they are in."""
    return x.to(torch.float if x.is_floating_point() else x.dtype, copy=copy)


def export(model, inputs, file):
    """Writes `model` as it trains, without weights, its batch (dimension 0 of every input) left open; the model stays as
    it was.  Nothing is folded or fused, so parameters keep their names."""
    model = unwrapped(model)
    with made.as_held(model), _without_cache(model):
        return _export(model, inputs, file)


@contextlib.contextmanager
def _without_cache(model):
    """What models of transformers keep of one call for the next is no tensor, and nothing to one that trains."""
    config = getattr(model, "config", None)
    cache = getattr(config, "use_cache", None)
    if cache is None:
        yield
        return
    config.use_cache = False
    try:
        yield
    finally:
        config.use_cache = cache


def _export(model, inputs, file):
    was_training = model.training
    names = [f"input_{i}" for i in range(len(inputs))]
    values = [(x, x.data) for x in (*model.parameters(), *model.buffers())]
    for x, value in values:  # buffers in any case, since running statistics are written to
        x.data = _in_single(value, copy=not x.requires_grad)
    model.train()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(model, tuple(map(_in_single, inputs)), file, dynamo=False, export_params=False,
                              do_constant_folding=False, training=torch.onnx.TrainingMode.TRAINING, opset_version=17,
                              input_names=names,
                              dynamic_axes={name: {0: "batch"} for name in names})
    except Exception as error:
        line = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CleaveError(f"the model can't be written as ONNX: {line}") from error
    finally:
        model.train(was_training)
        for x, value in values:
            x.data = value
    return names


def _is_of(model, given):
    """Is this what Cleave makes of its config.json, and not the same with another head, or a family that it does not know?"""
    try:
        inputs = run("show", *given[1:])["inputs"]
    except CleaveError:
        return False
    return has(model, [name for name, value in inputs.items() if value["taken_for"] == "parameter"])


def describe(model, inputs, batch, folder):
    """What the command is given of a model: its config.json, of one that has a `config` as transformers' have and is what
    that says, or ONNX."""
    model = unwrapped(model)
    config = getattr(model, "config", None)
    if hasattr(config, "to_json_string"):
        file = os.path.join(folder, "config.json")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(config.to_json_string())
        length = [] if inputs[0].is_floating_point() else ["--sequence", inputs[0].shape[1]]
        given = ["--model", file, "--batch", batch, *length]
        if _is_of(model, given):
            return given
    file = os.path.join(folder, "model.onnx")
    floats = [n for n, x in zip(export(model, inputs, file), inputs) if x.is_floating_point()]
    return ["--model", file, "--batch", batch] + (["--inputs", ",".join(floats)] if floats else [])


def plan(model, inputs, *, devices, machine, layout=None, batch=None, seconds=None, options=(), file=None):
    """A plan for `model` on so many devices of a machine file: exported (or, of transformers, known by its config), searched
    (`layout`: a layout file is taken instead), and written in torch's words.  `inputs`: an example batch; `batch`: the
    whole one where that is larger.  `seconds`: of the search; `options`: more of them for `cleave search`.  `file`: keep
    the plan there.

    Plan on one rank and give the file to all, so that all have the same."""
    batch = batch or inputs[0].shape[0]
    with tempfile.TemporaryDirectory() as folder:
        found = layout or os.path.join(folder, "model.layout.json")
        written = file or os.path.join(folder, "model.plan.json")
        given = describe(model, inputs, batch, folder)
        if layout is None:
            time = ["--time", seconds] if seconds else []
            run("search", *given, "--machine", machine, "--devices", devices, "--for", "torch", *time, *options, "-o",
                found)
        run("export", "--to", "torch", *given, "--layout", found, "--machine", machine, "-o", written)
        return load(written)
